"""What is done is read from the notebooks as they lie on the disk."""

import json
import shutil
from pathlib import Path

import pytest
from autogradlab import outline, overview, units
from autogradlab.exercises import stub_digest
from autogradlab.outline import DONE, PARTLY, UNTOUCHED, Exercise, Unit
from autogradlab.verdicts import MIME

ROOT = Path(__file__).resolve().parents[1]
NAME = "05_accumulating_gradients"


@pytest.fixture
def work(tmp_path):
    """A learner's copy of one unit."""
    shutil.copytree(ROOT / "release" / NAME, tmp_path / NAME)
    return tmp_path


def change(work, answer=None, record=None, name="fresh_gradients"):
    """Writes an answer, and what its check left, into the notebook."""
    file = work / NAME / f"{NAME}.ipynb"
    book = json.loads(file.read_text(encoding="utf-8"))
    cells = {cell["id"]: cell for cell in book["cells"]}
    if answer is not None:
        cells[name]["source"] = answer
    if record is not None:
        data = {"text/plain": "3", MIME: record}
        cells[f"{name}_tests"]["outputs"] = [
            {"output_type": "execute_result", "execution_count": 1, "metadata": {}, "data": data}
        ]
    file.write_text(json.dumps(book), encoding="utf-8")


def record(status, answer, score=3.0):
    return {"exercise": "fresh_gradients", "status": status, "score": score, "answer": stub_digest(answer)}


def stands(work):
    (unit,) = outline.read_units(work)
    (exercise,) = (one for one in unit.exercises if one.name == "fresh_gradients")
    return exercise.state, exercise.words


def test_a_release_is_untouched_and_its_exercises_stand_in_the_order_of_the_lesson(work):
    (unit,) = outline.read_units(work)
    assert (unit.number, unit.title) == ("5", "Accumulating gradients")
    assert unit.requires == ("01_creating_tensors", "03_building_the_graph", "04_running_backward")
    assert [one.state for one in unit.exercises] == [UNTOUCHED] * len(unit.exercises)
    names = [one.name for one in unit.exercises]
    assert names.index("meter_reading") < names.index("fresh_gradients")
    exercise = unit.exercises[names.index("fresh_gradients")]
    assert (exercise.title, exercise.tier, exercise.points, exercise.hints) == ("fresh gradients", "spine", 3.0, 2)
    assert exercise.anchor == "Exercise:-fresh-gradients-(spine,-repair)"


@pytest.mark.parametrize(
    ("status", "state", "words"),
    [
        ("right", DONE, "right"),
        ("partly", PARTLY, "partly right"),
        ("wrong", PARTLY, "not right yet"),
    ],
)
def test_an_answer_counts_as_its_last_check_said(work, status, state, words):
    change(work, "mine", record(status, "mine"))
    assert stands(work) == (state, words)


def test_an_answer_that_was_changed_after_its_check_counts_as_begun(work):
    change(work, "changed", record("right", "mine"))
    assert stands(work) == (PARTLY, "changed since its check")


def test_an_answer_that_was_never_checked_counts_as_begun(work):
    change(work, "mine")
    assert stands(work) == (PARTLY, "not checked yet")


def test_an_answer_that_went_back_to_the_stub_is_untouched_whatever_its_check_said(work):
    change(work, None, record("right", "mine"))
    assert stands(work) == (UNTOUCHED, "untouched")


def test_a_notebook_that_cannot_be_read_says_so(work):
    (work / NAME / f"{NAME}.ipynb").write_text("{")
    (unit,) = outline.read_units(work)
    assert "cannot be read as a notebook" in unit.problem
    assert unit.problem in overview.progress(work).text


# The map


def unit(name, *states, requires=()):
    exercises = [
        Exercise(f"{name}_{number}", f"Exercise: the {number}th (spine, write)", "spine", 2.0, state=state, words=state)
        for number, state in enumerate(states)
    ]
    return Unit(name, Path(name) / f"{name}.ipynb", f"Title of {name}", requires, tuple(exercises))


COURSE = [
    unit("01_a", DONE, DONE),
    unit("02_b", UNTOUCHED, requires=("01_a",)),
    unit("03_c", DONE, PARTLY, UNTOUCHED, requires=("01_a", "02_b")),
]


def test_the_map_says_in_words_and_in_a_table_what_it_shows_in_colours():
    shown = overview.course_map(COURSE, "here")
    assert overview.alt_text(COURSE) in shown.html
    assert "1 done, 1 begun, 1 untouched; 3 of 6 exercises right" in overview.alt_text(COURSE)
    picture = overview.map_svg(COURSE)
    for words in ("done: 2 of 2 right", "begun: 1 of 3 right", "untouched: 0 of 1 right"):
        assert words in picture.replace("&#160;", " ").replace("\xa0", " ")
    assert picture.count('class="edge"') == 2  # unit 3 requires unit 1 through unit 2 already
    assert shown.text.splitlines()[2].split() == ["1", "Title", "of", "01_a", "-", "2", "0", "0", "0", "of", "4"]


def test_what_was_begun_comes_next_then_what_nothing_stands_before():
    assert "“the 1th” (begun) in unit 3" in overview.next_words(COURSE)
    ready = [COURSE[0], COURSE[1], unit("03_c", UNTOUCHED, requires=("02_b",))]
    assert overview.next_words(ready) == "Next: begin unit 2, Title of 02_b."
    assert overview.next_words(COURSE[:1]) == "Every exercise is right."


def test_without_anything_that_draws_there_is_the_table(monkeypatch):
    monkeypatch.setattr(overview, "map_svg", lambda found: None)
    shown = overview.course_map(COURSE, "here")
    assert "<img" not in shown.html
    assert "<table>" in shown.html


def test_progress_in_a_notebook_counts_its_checks_at_once(work):
    with units.at(NAME, work / NAME):
        units.unit(NAME)
        from autogradlab import checking

        checking._records[str(work / NAME)] = {"fresh_gradients": record("right", "mine")}
        try:
            assert "  1  " in overview.progress().text
        finally:
            checking.forget("fresh_gradients")
        assert "  1  " not in overview.progress().text


def test_progress_without_a_unit_says_where_to_start(tmp_path):
    assert "There is no unit in" in overview.progress(tmp_path).text


def test_the_command_prints_the_table_or_data(work, capsys):
    change(work, "mine", record("right", "mine"))
    assert overview.main(["--folder", str(work)]) == 0
    assert "5 Accumulating gradients" in capsys.readouterr().out
    assert overview.main(["--folder", str(work), "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert [one["words"] for one in data[NAME] if one["name"] == "fresh_gradients"] == ["right"]


def test_the_command_without_a_copy_says_how_to_get_one(tmp_path, capsys):
    assert overview.main(["--folder", str(tmp_path)]) == 1
    assert "python3 run.py lab" in capsys.readouterr().err
