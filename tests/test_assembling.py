"""`assemble`: any exercises as one assignment, told apart where units clash, as one class alone has them."""

import json
import re
import shutil
import tomllib
from pathlib import Path

import nbformat
import pytest
from autogradlab.recorded import contents
from tiny_course import KEEPS, RIGHT, ROOT, SLOPES, UNIT, cell_of

from autograder import assembling, cli, lessons
from autograder.assembling import assemble
from autograder.engine.limits import Limits
from autograder.grading import Options, grade
from autograder.lessons import ContentError
from autograder.records import records
from autograder.sameness import alike
from autograder.splicing import needed, renamed, statements

LESSON = '''# %% [markdown]
# # {unit}

# %% tags=["setup"]
import torch
from autogradlab import check, unit

cases = unit("{unit}")

# %% tags=["setup"]
factor = {factor}

# %% [markdown] tags=["teaches:{concept}"]
# ## What {name} is about
#
# Everything times `factor`.

# %% [markdown]
# ## Exercise: {name}
#
# Write `{name}(x)`: `x` times `factor`, and see `cases.sample`.

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# One line.
#
# </details>


# %% nbgrader={answer} tags=["tier:spine", "form:complete", "teaches:{concept}"]
def {name}(x):
    """Times the factor."""
    ### BEGIN SOLUTION
    return x * factor
    ### END SOLUTION


# %% nbgrader={test}
check("{name}")
'''
CASES = '''"""Cases of {unit}."""

from autogradlab.exercises import Same, exercise


def sample(case, offset={factor}):
    return case.normal() + offset


def slope(case):
    return sample(case)


@exercise(Same("the product comes back", "returned.product"), arguments=("x",))
def {name}(program, case):
    return {{"product": program(slope(case))}}
'''
WRONG = {"B01": "x", "B02": "None", "B03": "x + factor", "B04": "-x * factor", "B05": "shifted(x)"}
ATTEMPTS = '''"""What people write instead."""

from autogradlab.exercises import alternative, misconception


def shifted(x):
    return x * {factor} + {factor}
'''
PRIVATE = """
seed = "autumn 2026"

[points]
slope = 7

[messages]
Z01 = "Ours: the slopes add up. Why?"
Z04 = "Ours: it is empty afterwards. Who reads it?"

[numbers]
shift = [2, 9]
word = ["one", "two", "three"]

[[replace]]
exercise = "slope"
old = "(w * x + 1)"
new = "(w * x + {{shift}})"

[[replace]]
exercise = "slope"
old = "(w * x + 1).square()"
new = "(w * x + {{shift}}).square()"
"""


def other_unit(course, unit, name, factor, concept):
    """A second unit, with names of its own that others have too."""
    directory = course / "units" / unit
    directory.mkdir(parents=True)
    names = {"unit": unit, "name": name, "factor": factor, "concept": concept}
    answer = {"grade": False, "grade_id": name, "locked": False, "schema_version": 3, "solution": True, "task": False}
    test = {"grade": True, "grade_id": f"{name}_tests", "locked": True, "points": 2, "schema_version": 3}
    names |= {"answer": json.dumps(answer), "test": json.dumps(test | {"solution": False, "task": False})}
    (directory / "lesson.py").write_text(LESSON.format(**names), "utf-8")
    (directory / "cases.py").write_text(CASES.format(**names), "utf-8")
    tried = [f'@misconception("{key}")\ndef {name}(x):\n    return {wrong}\n' for key, wrong in WRONG.items()]
    tried += [f'@alternative("{way}")\ndef {name}(x):\n    return {way}\n' for way in ("factor * x", "x.mul(factor)")]
    (directory / "attempts.py").write_text("\n\n".join([ATTEMPTS.format(**names), *tried]), "utf-8")
    settings = f'title = "{unit}"\nrequires = []\nassumes = []\nobjectives = ["Multiply things."]\n'
    (directory / "unit.toml").write_text(f'{settings}\n[concepts]\n{concept} = "words"\n', "utf-8")


@pytest.fixture
def root(tmp_path):
    """A course of the tiny unit and two more, with the same names for different things."""
    place = tmp_path / "public"
    shutil.copytree(ROOT / "tests" / "fixtures", place / "course", ignore=shutil.ignore_patterns("*.py[co]"))
    shutil.copy(ROOT / "nbgrader_config.py", place)
    other_unit(place / "course", "91_threes", "threefold", 3, "threes")
    other_unit(place / "course", "92_fives", "fivefold", 5, "fives")
    with open(place / "course" / "misconceptions.toml", "a", encoding="utf-8") as file:
        for key in WRONG:
            message = f"It is {key}. Why?"
            file.write(f'\n[{key}]\nunit = "91_threes"\nname = "gives {key} back"\nmessage = "{message}"\n')
    return place


@pytest.fixture
def private(tmp_path):
    folder = tmp_path / "private"
    folder.mkdir()
    (folder / "private.toml").write_text(PRIVATE, "utf-8")
    return folder


def released(into, name="homework1"):
    return nbformat.read(into / "release" / name / f"{name}.ipynb", 4)


def record(folder, exercise):
    found = contents((folder / "recorded.bin").read_bytes())
    return found.get("exercises", found)[exercise]


def alike_but_for_links(ours, theirs):
    """Whether two records say the same, but for where a misconception's demonstration is."""
    without = [
        one | {"candidates": [candidate | {"see": None} for candidate in one["candidates"]]} for one in (ours, theirs)
    ]
    return alike(*without)


def test_what_an_exercise_rests_on_and_what_teaches_it_comes_with_it(root, tmp_path, capsys):
    into = assemble("homework1", ["slopes"], root=root)
    assert into == root / "grading" / "assembled"
    marked = [cell.metadata.nbgrader.grade_id for cell in released(into).cells if "nbgrader" in cell.metadata]
    assert marked == ["slope", "slope_tests", "slopes", "slopes_tests"]
    text = "\n".join(cell.source for cell in released(into).cells)
    assert "## Why it adds up" in text and 'unit("homework1")' in text and UNIT not in text
    assert "BEGIN SOLUTION" not in text and "for turn in range(2)" in text
    assert "homework1: slopes, of 90_tiny, with slope, which they need" in capsys.readouterr().err
    catalogue = tomllib.loads((into / "course" / "misconceptions.toml").read_text("utf-8"))
    assert catalogue["Z01"]["demonstration"] == "homework1#Why-it-adds-up"


def test_units_that_use_one_name_for_two_things_go_together(root):
    chosen = ["slope", "threefold", "fivefold"]
    into = assemble("homework1", chosen, root=root)
    for name in chosen:
        alone = assemble(f"only_{name}", [name], root=root)
        ours = record(into / "release" / "homework1", name)
        assert alike_but_for_links(ours, record(alone / "release" / f"only_{name}", name)), name
    text = "\n".join(cell.source for cell in released(into).cells)
    assert "factor = 3" in text and "factor_92 = 5" in text
    assert "`x` times `factor_92`, and see `cases.sample_92`" in text and "see `cases.sample`" in text


def test_a_list_names_the_assignment(root, private):
    (root / "course" / "assignments.toml").write_text('hw = ["slope"]\nmine = ["slope"]\n', "utf-8")
    (private / "assignments.toml").write_text('[mine]\ntitle = "My own"\nexercises = ["threefold"]\n', "utf-8")
    assert 'check("slope")' in [cell.source for cell in released(assemble("hw", root=root), "hw").cells]
    sources = [cell.source for cell in released(assemble("mine", (), private, root=root), "mine").cells]
    assert sources[0].startswith("# My own") and 'check("threefold")' in sources


def test_a_class_has_its_own_points_messages_numbers_and_cases(root, private, tmp_path):
    into = assemble("homework1", ["slope"], private, tmp_path / "ours", root)
    notebook = released(into)
    (points,) = [
        cell.metadata.nbgrader.points for cell in notebook.cells if cell.metadata.get("nbgrader", {}).get("points")
    ]
    assert points == 7
    text = "\n".join(cell.source for cell in notebook.cells)
    (number,) = {digit for digit in "23456789" if f"(w * x + {digit}) ** 2" in text}
    assert "(w * x + 1)" not in text
    ours = record(into / "release" / "homework1", "slope")
    messages = {one["id"]: one["message"] for one in ours["candidates"]}
    assert messages["Z01"].startswith("Ours:") and messages["Z04"].startswith("Ours:")
    public = assemble("homework1", ["slope"], into=tmp_path / "theirs", root=root)
    assert not alike(ours["reference"], record(public / "release" / "homework1", "slope")["reference"])
    assert "90_tiny" not in text and not (public / "grading").exists()

    seeds = json.loads((into / "grading" / "results" / "seeds.json").read_text("utf-8"))
    again = assemble("homework1", ["slope"], private, tmp_path / "again", root)
    assert (again / "release" / "homework1" / "homework1.ipynb").read_bytes() == (
        into / "release" / "homework1" / "homework1.ipynb"
    ).read_bytes()
    drawn = {number}
    for year in range(3):
        (private / "private.toml").write_text(PRIVATE.replace("autumn 2026", f"year {year}"), "utf-8")
        other = assemble("homework1", ["slope"], private, tmp_path / f"year {year}", root)
        text = "\n".join(cell.source for cell in released(other).cells)
        drawn |= {digit for digit in "23456789" if f"(w * x + {digit}) ** 2" in text}
        assert json.loads((other / "grading" / "results" / "seeds.json").read_text("utf-8")) != seeds
    assert len(drawn) > 1


def test_a_private_folder_adds_exercises_with_the_classs_numbers(root, private, tmp_path):
    other_unit(private, "95_ours", "manifold", "{{shift}}", "ours")
    into = assemble("homework1", ["slope", "manifold"], private, tmp_path / "ours", root)
    text = "\n".join(cell.source for cell in released(into).cells)
    assert "{{" not in text and 'check("manifold")' in text


@pytest.mark.parametrize(
    ("name", "exercises", "settings", "words"),
    [
        ("homework1", ["nothing"], "", "no unit has an exercise nothing"),
        ("homework1", [], "", "nothing says what homework1 consists of"),
        ("90_tiny", ["slope"], "", "is no assignment's name"),
        ("homework1", ["slope"], '[points]\nslope = "two"\n', "the points of slope are 'two'"),
        ("homework1", ["slope"], '[messages]\nQ99 = "What?"\n', "Q99, which is no misconception"),
        ("homework1", ["slope"], '[messages]\nZ01 = "Not so."\n', "does not end in a question"),
        ("homework1", ["slope"], "[numbers]\na = [1, 2]\n", "there is none"),
        ("homework1", ["slope"], 'seed = "s"\n[numbers]\na = 1\n', "a = 1 cannot be drawn"),
        (
            "homework1",
            ["slope"],
            '[[replace]]\nexercise = "slope"\nold = "zzz"\nnew = "y"\n',
            "has no 'zzz' to replace",
        ),
        ("homework1", ["slope"], '[[replace]]\nexercise = "slope"\nold = "w"\nnew = "{{b}}"\n', "names no number"),
        ("homework1", ["slope"], "colour = 1\n", "`colour` is not known"),
        ("homework1", ["slope"], "colour\n", "not TOML"),
    ],
)
def test_what_does_not_go_together_is_refused_in_words(root, private, name, exercises, settings, words):
    (private / "private.toml").write_text(settings, "utf-8")
    with pytest.raises(ContentError, match="(?s)" + words.replace("(", r"\(")) as refused:
        assemble(name, exercises, private, root=root)
    assert "/all/" not in str(refused.value)
    assert not (root / "grading" / "assembled" / "release").exists()


def test_the_private_folder_that_the_page_shows_is_one(tmp_path):
    page = (ROOT / "docs" / "instructors.md").read_text("utf-8")
    blocks = re.findall(r"^```toml\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    listed, settings = sorted(blocks, key=len)
    (tmp_path / "private.toml").write_text(settings, "utf-8")
    (tmp_path / "assignments.toml").write_text(listed, "utf-8")
    into = assemble("homework1", (), tmp_path, tmp_path / "ours")
    (contract,) = [cell.source for cell in released(into).cells if "Complete `step_down(" in cell.source]
    assert re.search(r"\(w \* x \+ [2-9]\) \*\* [23]", contract) and "(w * x + 1)" not in contract
    assert record(into / "release" / "homework1", "fresh_gradients")["points"] == 5


def test_the_command_says_where_it_is_and_how_to_grade_it(root, monkeypatch, capsys):
    made = []
    monkeypatch.setattr(assembling, "assemble", lambda *arguments: made.append(arguments) or root)
    monkeypatch.setattr("sys.argv", ["run.py", "assemble", "hw", "slope", "slopes", "--private", "p", "--to", "t"])
    with pytest.raises(SystemExit) as end:
        cli.main()
    out, err = capsys.readouterr()
    assert made == [("hw", ["slope", "slopes"], Path("p"), Path("t"))] and end.value.code == 0
    assert out == f"{root / 'release' / 'hw'}\n" and f"grade hw --course {root}" in err


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="the engine's sandbox needs Linux")
def test_the_engine_grades_it_with_the_referee_and_names_what_went_wrong(root, tmp_path):
    into = assemble("homework1", ["threefold", "fivefold", "slopes"], root=root)
    answers = {
        "good": (RIGHT, "x * factor", "x * factor_92"),
        "bad": (KEEPS, "x * factor + factor", "x + factor_92"),
    }
    for learner, (slope, three, five) in answers.items():
        notebook = released(into)
        for name, source in (("slope", f"def slope(w, x):\n{slope}"), ("slopes", SLOPES)):
            cell_of(notebook, name).source = source
        for name, source in (("threefold", three), ("fivefold", five)):
            cell_of(notebook, name).source = f"def {name}(x):\n    return {source}\n"
        folder = into / "grading" / "submitted" / learner / "homework1"
        folder.mkdir(parents=True)
        (folder / "homework1.ipynb").write_text(json.dumps(notebook), "utf-8")
    grade(["homework1"], root=into, options=Options(limits=Limits(cell_seconds=10), jobs=1))
    frame = records("homework1", into).set_index(["student", "exercise"])
    assert all(row["refereed"] for row in frame["record"])
    assert set(frame.loc["good", "status"]) == {"right"}
    bad = frame.loc["bad", "misconceptions"].to_dict()
    assert (bad["slope"], bad["threefold"], bad["fivefold"]) == (["Z01"], ["B05"], ["B03"])


@pytest.mark.long
@pytest.mark.timeout(1800)  # what seven builds take, and the joining; minutes on a machine with nothing else to do
def test_all_exercises_of_the_course_together_are_what_they_are_alone(tmp_path):
    units = lessons.units()
    names = {name: unit for unit in units for name in lessons.read(unit).exercises}
    into = assemble("everything", names, into=tmp_path / "all")
    for name, unit in names.items():
        ours, theirs = record(into / "release" / "everything", name), record(ROOT / "release" / unit, name)
        assert alike_but_for_links(ours, theirs), name


# ------------------------------------------------------------------------------------------------------- splicing

TEXT = """import torch

# about a
A = 1


def helper(x, A=A):
    return A + x


class C(type(helper).__base__):
    A = 2

    def m(self):
        return A


def g(x):
    y = f"{A:>3} {helper(A)} A"
    return [A for x in range(A)], [A for A in y], (lambda A: A)(A), x.A, dict(A=A)


def h():
    A = 5
    return A, helper


def changes():
    global A
    A = 7
"""


def test_names_of_the_top_are_renamed_where_they_are_meant_and_nowhere_else():
    found = renamed(TEXT, {"A": "A_05", "helper": "helper_05"})
    scope, before = {}, {}
    exec(found, scope)
    exec(TEXT, before)
    assert "A" not in scope and "helper" not in scope
    assert "def helper_05(x, A=A_05):\n    return A + x" in found
    assert "    A = 2\n\n    def m(self):\n        return A_05" in found
    assert 'f"{A_05:>3} {helper_05(A_05)} A"' in found
    assert "[A_05 for x in range(A_05)], [A for A in y], (lambda A: A)(A_05), x.A, dict(A=A_05)" in found
    assert "    A = 5\n    return A, helper_05" in found and "global A_05\n    A_05 = 7" in found
    scope["changes"]()
    assert scope["A_05"] == 7


def test_what_a_name_needs_comes_with_it_and_its_comments():
    chosen = needed(statements(TEXT), ["h"])
    assert [one.binds for one in chosen] == [{"A"}, {"helper"}, {"h"}]
    assert chosen[0].text == "# about a\nA = 1"
