"""A unit's folder is read as its author wrote it, and its programs run without a notebook."""

import inspect
import pickle
import shutil
import traceback
from pathlib import Path

import nbformat
import pytest
from autogradlab import units as notebook_units
from nbgrader.preprocessors import ClearSolutions

from autograder import lessons
from autograder.lessons import ContentError

FIXTURES = Path(__file__).parent / "fixtures"
TINY = "90_tiny"


@pytest.fixture
def course(tmp_path):
    return Path(shutil.copytree(FIXTURES, tmp_path / "course"))


@pytest.fixture(scope="module")
def lesson():
    return lessons.read(TINY, FIXTURES)


def test_units_are_folders_with_a_lesson_in_order(course):
    shutil.copytree(course / "units" / TINY, course / "units" / "10_earlier")
    (course / "units" / "95_empty").mkdir()
    assert lessons.units(course) == ["10_earlier", TINY]


def test_each_cell_knows_its_line_in_the_lesson(lesson):
    lines = lesson.text.split("\n")
    for cell in lesson.cells:
        assert lines[cell.line - 1].startswith("# %%")
        first = cell.source.split("\n")[0]
        assert lines[cell.line] == (first if cell.kind == "code" else f"# {first}")


def test_cells_have_roles(lesson):
    roles = [cell.role for cell in lesson.cells]
    assert roles == [*("text", "setup", "text", "demonstration"), *("text", "text", "solution", "test") * 2]


def test_an_exercise_is_read_with_solution_points_tags_contract_and_hints(lesson):
    assert list(lesson.exercises) == ["slope", "slopes"]
    slope = lesson.exercises["slope"]
    assert slope.points == 2
    assert slope.tagged("form") == ("repair",)
    assert slope.contract.startswith("## Exercise: one slope")
    assert len(slope.hints) == 1
    assert "SOLUTION" not in slope.solution
    assert slope.regions[0].split("\n")[0] == "    w.grad = None"
    assert slope.solution.count("\n") + 2 == slope.cell.source.count("\n")


def test_the_stub_is_what_nbgrader_leaves(lesson):
    cell = lesson.exercises["slope"].cell
    node = nbformat.v4.new_code_cell(cell.source, metadata={"nbgrader": cell.nbgrader})
    left, _ = ClearSolutions().preprocess_cell(node, {"language": "python"}, 0)
    assert lesson.exercises["slope"].stub == left.source
    assert "raise NotImplementedError()" in left.source


def test_settings_are_read(lesson):
    assert (lesson.title, lesson.requires, lesson.assumes) == ("A tiny unit", (), ("backward",))
    assert lesson.objectives == ("Repair a program whose slopes grow.",)
    assert list(lesson.concepts) == ["adding-up", "clearing"]


def test_the_namespace_holds_the_set_up_and_the_named_solutions_alone(lesson):
    assert {"torch", "check", "unit", "cases"} <= lessons.namespace(lesson).keys()
    assert "slope" not in lessons.namespace(lesson)
    names = lessons.namespace(lesson, ["slope"])
    assert "slope" in names and "slopes" not in names


def test_the_set_up_finds_its_own_unit_wherever_it_runs(lesson, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert Path(lessons.namespace(lesson)["cases"].__file__) == (lesson.directory / "cases.py").resolve()
    with pytest.raises(notebook_units.UnitNotFound):
        notebook_units.directory_of(TINY)


def test_namespaces_do_not_share_anything_that_cells_define(lesson):
    first, second = lessons.namespace(lesson, ["slope"]), lessons.namespace(lesson, ["slope"])
    assert first["slope"] is not second["slope"]


def test_references_are_the_solutions(lesson):
    torch = lessons.namespace(lesson)["torch"]
    w, x = torch.tensor(2.0, requires_grad=True), torch.tensor(3.0)
    programs = lessons.references(lesson)
    assert programs["slope"](w, x) == 42.0
    assert programs["slopes"](w, [x, x]) == [42.0, 42.0]


def test_the_reference_of_a_prediction_is_the_attempt_that_knows_every_variant(course):
    attempts = course / "units" / TINY / "attempts.py"
    attempts.write_text(
        "from autogradlab.exercises import reference\n\n\n@reference\ndef slope(variant):\n    return [variant]\n",
        newline="\n",
    )
    lesson = lessons.read(TINY, course)
    assert lessons.references(lesson, lessons.attempts(lesson, {}))["slope"](7) == [7]


def test_tracebacks_and_inspect_show_the_lines_of_the_lesson(lesson):
    slope = lessons.references(lesson)["slope"]
    assert inspect.getsource(slope).startswith("def slope(w, x):")
    with pytest.raises(AttributeError) as raised:
        slope(None, None)
    frame = traceback.extract_tb(raised.value.__traceback__)[-1]
    assert (frame.filename, frame.line) == (str(lesson.file), "w.grad = None")


UNREADABLE = {
    "text before the first cell": (
        "lesson.py",
        "# %% [markdown]\n# # A",
        "import torch\n\n# %% [markdown]\n# # A",
        "import",
    ),
    "metadata that is not JSON": ("lesson.py", '"grade": false, "grade_id": "slope"', '"grade": no', '"grade": no'),
    "tags that are no list": ("lesson.py", 'tags=["setup"]', 'tags="setup"', 'tags="setup"'),
    "an open solution": ("lesson.py", "w.grad.item()\n    ### END SOLUTION", "w.grad.item()", '"grade_id": "slope"'),
    "a marker in a string": (
        "lesson.py",
        "    print(turn, w.grad)",
        '    print("""\n# %% no cell\n""")',
        "# %% no cell",
    ),
    "a marker in a fence": ("lesson.py", "# Repair it.", "# ```\n# %% no cell\n# ```\n#\n# Repair it.", "# %% no cell"),
    "settings that are not TOML": ("unit.toml", "requires = []", "requires = 1 2", "requires = 1 2"),
}


@pytest.mark.parametrize(("file", "old", "new", "place"), UNREADABLE.values(), ids=UNREADABLE)
def test_what_cannot_be_read_is_refused_with_file_line_and_way_out(course, file, old, new, place):
    path = course / "units" / TINY / file
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1), newline="\n")
    with pytest.raises(ContentError) as refused:
        lessons.read(TINY, course)
    (problem,) = refused.value.problems
    assert problem.file == path
    assert place in path.read_text().split("\n")[problem.line - 1]
    assert problem.message and problem.way_out
    assert str(problem).startswith(f"{path.as_posix()}:{problem.line}: ")


def test_bytes_that_are_not_utf8_are_named_with_their_line(course):
    path = course / "units" / TINY / "lesson.py"
    path.write_bytes(path.read_bytes().replace(b"# A tensor that", b"# A t\xe9nsor that"))
    with pytest.raises(ContentError, match=r"lesson\.py:15: not UTF-8"):
        lessons.read(TINY, course)


def test_a_unit_that_does_not_exist_is_answered_with_those_that_do():
    with pytest.raises(ContentError, match="Units here: 90_tiny"):
        lessons.read("06_elsewhere", FIXTURES)


def test_a_missing_unit_toml_is_named(course):
    (course / "units" / TINY / "unit.toml").unlink()
    with pytest.raises(ContentError, match=r"unit\.toml is missing"):
        lessons.read(TINY, course)


def test_what_is_wrong_with_content_reaches_another_process_whole():
    problem = lessons.Problem(Path("lesson.py"), 7, "something is wrong", "Mend it")
    again = pickle.loads(pickle.dumps(ContentError([problem])))
    assert again.problems == [problem] and str(again) == str(problem)
