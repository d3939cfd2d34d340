"""`report --propose`: what nothing recognises becomes an attempt without its author's name, and is recognised then."""

import ast
import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from tiny_course import RIGHT, UNIT, hand_in, tiny_course

from autograder import cli, proposing
from autograder.anonymous import anonymous, masked, mentions, people
from autograder.build import build
from autograder.engine.limits import Limits
from autograder.folders import Folders, GradingError
from autograder.gates import check
from autograder.grading import Options, grade
from autograder.proposing import next_id, propose, ways, whole
from autograder.records import GradedSubmission, records
from autograder.unrecognised import groups

DATA = Path(__file__).parent / "data" / "class_records.json"
NAMES = {"ada", "lovelace", "4711007"}


def without(source, names=NAMES):
    return ast.unparse(anonymous(ast.parse(source), names))


# ------------------------------------------------------------------------------------------------------ grouping


@pytest.fixture(scope="module")
def rows():
    return [row for one in json.loads(DATA.read_text(encoding="utf-8")) for row in GradedSubmission(**one).rows]


def wrong(row, student, **record):
    return row | {"student": student, "record": row["record"] | record}


def test_answers_that_do_the_same_are_one_group_and_the_largest_comes_first(rows):
    row = next(one for one in rows if one["student"] == "learner-3" and one["exercise"] == "accumulated_loss")
    other = row["record"]["case"] | {"difference": "grad: 3 instead of 1", "yours": "at 0x7f00"}
    row = wrong(row, "a", raised=None)
    class_ = [row, wrong(row, "b", case=other), wrong(row, "c", case=other | {"yours": "at 0x9a11"})]
    assert [one.learners for one in groups(class_)] == [["b", "c"], ["a"]]


def test_what_is_right_named_untouched_or_tested_without_a_verdict_is_in_no_group(rows):
    grouped = {(one.exercise, student) for one in groups(rows) for student in one.learners}
    assert grouped == {("fresh_gradients", "learner-3"), ("accumulated_loss", "learner-3")}


def test_programs_that_raise_the_same_are_one_group_whatever_their_lines_are_called(rows):
    row = next(one for one in rows if one["student"] == "learner-3" and one["exercise"] == "accumulated_loss")
    raised = {"type": "KeyError", "message": "'x'"}
    class_ = [
        wrong(row, "a", raised=raised | {"traceback": "one()"}),
        wrong(row, "b", raised=raised | {"traceback": "two()"}),
    ]
    (group,) = groups(class_)
    assert group.learners == ["a", "b"] and group.yours == "KeyError: 'x'"


# ------------------------------------------------------------------------------------------------------ anonymous


def test_comments_docstrings_and_unread_texts_go():
    source = (
        'def f(x):\n    """By Ada."""\n    # Ada was here\n    author = "Grace Hopper"\n    "and here"\n    return x\n'
    )
    assert without(source) == "def f(x):\n    return x"


def test_a_body_of_nothing_else_stays_a_body():
    assert without('def f(x):\n    "By Ada."\n') == "def f(x):\n    pass"


def test_variables_that_bear_a_name_are_renamed_wherever_they_stand():
    source = "def f(x):\n    def ada_scale(adaFactor=2):\n        return x * adaFactor\n"
    source += "    return ada_scale(adaFactor=3)\n"
    bare = without(source)
    assert not mentions(bare, NAMES) and "ada" not in bare.lower()
    scope = {}
    exec(bare, scope)
    assert scope["f"](5) == 15


def test_texts_have_a_mask_in_place_of_names_numbers_and_addresses():
    assert masked("Ada LOVELACE, ada.l@example.org, 20251234: 12", NAMES) == "… …, …, …: 12"
    assert without("def f(x):\n    print('for AdaLovelace', 4711007)\n") == "def f(x):\n    print('for ……', 0)"


def test_words_of_the_lesson_and_of_python_are_nobodys_name():
    class_ = [("s1", "Max", "Slope", "max.slope@example.org", None), ("s2", "Zoë", "Sum", None, "4711007")]
    assert people(class_, ["the slope of an example"]) == {"org", "zoë", "4711007"}


# ------------------------------------------------------------------------------------------ a whole answer


def test_helpers_imports_and_constants_of_the_cell_move_into_the_answer():
    code = "import math\nfactor = 2\nunused = 7\ndef double(x):\n    return factor * x\n"
    code += "def f(x):\n    return math.floor(double(x))\n"
    text = ast.unparse(whole(code, "f"))
    assert "unused" not in text and len(ast.parse(text).body) == 1
    scope = {}
    exec(text, scope)
    assert scope["f"](1.6) == 3


def test_a_decorator_moves_inside_since_attempts_have_none():
    code = "def twice(g):\n    return lambda *a, **k: 2 * g(*a, **k)\n"
    code += "@twice\ndef f(x, *more, y=1, **rest):\n    return x + y\n"
    module = whole(code, "f")
    assert module.body[0].decorator_list == []
    scope = {}
    exec(ast.unparse(module), scope)
    assert scope["f"](2) == 6 and scope["f"](2, y=5) == 14


@pytest.mark.parametrize(
    "code",
    [
        "%time f(1)",
        "g = 1",
        "f = lambda x: x",
        "def f(x):\n    return '\0'",
        "def f(x):\n    return " + "1 + " * 100_000 + "1",
    ],
    ids=["a magic", "another name", "a lambda", "a NUL", "endless"],
)
def test_what_does_not_define_the_answer_is_none(code):
    assert whole(code, "f") is None


def test_a_program_too_deep_to_be_written_out_is_left_out_and_the_others_stay():
    deep = "def f(x):\n    return " + "-" * 900 + "x"
    assert ways([deep, "def f(x):\n    return x"], SimpleNamespace(name="f"), set(), set()) == [
        ("def f(x):\n    return x", 1)
    ]


def test_the_commonest_way_comes_first_and_what_does_not_stand_alone_is_left_out():
    declared = SimpleNamespace(name="f")
    codes = ["def f(x):\n    return x  # mine", "def f(x):\n    return np.abs(x)", "def f(x):\n    return  x"]
    codes += ["def f(x):\n    return +x"]
    assert ways(codes, declared, {"abs"}, NAMES) == [("def f(x):\n    return x", 2), ("def f(x):\n    return +x", 1)]


def test_ids_go_on_where_the_letter_of_the_unit_ends():
    catalogue = {"A01": {"unit": "01_x"}, "A07": {"unit": "02_y"}, "B01": {"unit": "02_y"}, "B02": {"unit": "02_y"}}
    assert next_id(catalogue, "01_x") == "A08" and next_id(catalogue, "02_y") == "B03"
    assert next_id(catalogue, "03_z") == "C01"
    assert next_id(catalogue | {"A99": {"unit": "01_x"}}, "01_x") == "C01"


def test_the_command_prints_what_to_paste_and_says_where_it_goes(monkeypatch, capsys, tmp_path):
    root = tiny_course(tmp_path)
    asked = []

    def proposed(*arguments):
        asked.append(arguments)
        return proposing.Proposal(UNIT, "slope", "def slope(): ...", "[Z11]", (Path("a.py"), Path("b.toml")))

    monkeypatch.setattr(proposing, "propose", proposed)
    monkeypatch.setattr("sys.argv", ["run.py", "report", UNIT, "--propose", "slope", "--course", str(root)])
    capsys.readouterr()
    with pytest.raises(SystemExit) as end:
        cli.main()
    assert end.value.code == 0 and asked == [("slope", [UNIT], root)]
    out, err = capsys.readouterr()
    assert out == "def slope(): ...\n[Z11]\n"
    assert f"a.py: for course/units/{UNIT}/attempts.py" in err and "b.toml: for course/misconceptions.toml" in err


# ------------------------------------------------------------------------------------------ the loop is closed

ODD = '''    """Grace Hopper, number 4711007."""
    # Grace wrote this
    w.grad = None
    graceloss = (w * x + 1) ** 2
    graceloss.backward()
    return third(w.grad.item())'''
HELPER = "\n\ndef third(grace_slope):\n    return grace_slope * 3 + 1\n"


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="the engine's sandbox needs Linux")
def test_what_is_proposed_is_recognised_once_it_is_pasted_and_built(tmp_path):
    def with_helper(notebook):
        for cell in notebook.cells:
            if cell.metadata.get("nbgrader", {}).get("grade_id") == "slope":
                cell.source += HELPER

    root = tiny_course(tmp_path)
    hand_in(root, "right", RIGHT)
    for learner in ("grace_4711007", "joan"):
        hand_in(root, learner, ODD, with_helper)
    options = Options(limits=Limits(cell_seconds=10), jobs=1)
    grade([UNIT], root=root, options=options)

    def named():
        frame = records(UNIT, root).set_index(["student", "exercise"])
        return {student: frame.loc[(student, "slope"), "misconceptions"] for student in ("grace_4711007", "joan")}

    assert named() == {"grace_4711007": [], "joan": []}
    proposal = propose("slope", [UNIT], root)
    assert not mentions(proposal.attempt, {"grace", "4711007", "joan"})
    assert "2 answers did this, 2 of them written so" in proposal.attempt
    assert '@misconception("Z11")' in proposal.attempt and proposal.entry.startswith("\n[Z11]")

    attempts, catalogue = root / "course" / "units" / UNIT / "attempts.py", root / "course" / "misconceptions.toml"
    texts = attempts.read_text("utf-8"), catalogue.read_text("utf-8")
    attempts.write_text(texts[0] + proposal.attempt, "utf-8")
    catalogue.write_text(texts[1] + proposal.entry, "utf-8")
    problems = [problem.message for problem in check([UNIT], root / "course")]
    assert "a TODO is left" in problems, "what a person has to write is asked for"
    lines = [line for line in proposal.attempt.splitlines() if not line.startswith("#")]
    attempts.write_text(texts[0] + "\n".join(lines).rstrip() + "\n", "utf-8")
    entry = proposal.entry.replace("TODO: two to four words", "thrice and one").replace("TODO: what", "What")
    catalogue.write_text(texts[1] + entry, "utf-8")
    build([UNIT], root, root / "course")
    grade([UNIT], root=root, options=Options(limits=options.limits, jobs=1, regrade=True))
    assert named() == {"grace_4711007": ["Z11"], "joan": ["Z11"]}
    with pytest.raises(GradingError, match="there is nothing to propose"):
        propose("slope", [UNIT], root)
    with pytest.raises(GradingError, match="has the exercise nothing"):
        propose("nothing", [UNIT], root)
    assert oct((Folders(root).reports(UNIT) / "propose_slope.py").stat().st_mode)[-3:] == "600"
    assert proposing.READ.startswith("TODO")
