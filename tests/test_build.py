"""source/ and release/ come out the same every time, and a release holds nothing that learners must not see."""

import copy
import os
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from autogradlab import units as notebook_units
from autogradlab.checking import check
from autogradlab.recorded import contents as recording
from autogradlab.recorded import write

from autograder import lessons
from autograder.build import build, current, notebook
from autograder.bundles import with_first_cell
from autograder.course_map import CourseMap
from autograder.gates.built import built
from autograder.lessons import ContentError
from autograder.sameness import alike

FIXTURES = Path(__file__).parent / "fixtures"
TINY = "90_tiny"
FILES = [
    f"{step}/{TINY}/{name}"
    for step in ("release", "source")
    for name in (f"{TINY}.ipynb", "cases.py", "recorded.bin", "unit.toml")
]


@pytest.fixture(scope="module")
def once(tmp_path_factory):
    into = tmp_path_factory.mktemp("once")
    build(into=into, course=FIXTURES)
    return into


@pytest.fixture
def into(once, tmp_path):
    return Path(shutil.copytree(once, tmp_path / "into"))


@pytest.fixture
def course(tmp_path):
    return Path(shutil.copytree(FIXTURES, tmp_path / "course"))


def contents(folder):
    files = (file for file in sorted(folder.rglob("*")) if file.is_file() and "__pycache__" not in file.parts)
    return {file.relative_to(folder).as_posix(): file.read_bytes() for file in files}


def released(into):
    return nbformat.read(into / "release" / TINY / f"{TINY}.ipynb", as_version=4)


def edit(file, old, new):
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new, 1), newline="\n")


# ------------------------------------------------------------------------------------------------- what is made


def test_a_build_makes_these_files_and_no_gradebook(once):
    assert sorted(contents(once)) == FILES


def test_another_process_builds_the_same_bytes(once, tmp_path):
    program = "import sys, pathlib, autograder.build as b; b.build(into=sys.argv[1], course=pathlib.Path(sys.argv[2]))"
    environment = os.environ | {"PYTHONHASHSEED": "12345", "OMP_NUM_THREADS": "2"}
    command = [sys.executable, "-c", program, str(tmp_path / "other"), str(FIXTURES)]
    subprocess.run(command, check=True, env=environment, capture_output=True, cwd=tmp_path)
    assert contents(tmp_path / "other") == contents(once)


def test_a_second_build_changes_nothing(into):
    assert build(into=into, course=FIXTURES) == []
    assert current(into=into, course=FIXTURES) == []


def test_notebooks_end_in_a_newline_and_hold_no_carriage_return(once):
    for name, data in contents(once).items():
        if name.endswith(".ipynb"):
            assert data.endswith(b"}\n") and b"\r" not in data


def test_notebooks_name_no_version_of_whoever_built_them(once):
    for step in ("source", "release"):
        node = nbformat.read(once / step / TINY / f"{TINY}.ipynb", as_version=4)
        assert node.metadata.kernelspec.name == "python3"
        assert "version" not in node.metadata.language_info
        assert not any(cell.get("outputs") or cell.get("execution_count") for cell in node.cells)


def test_cell_ids_are_grade_ids_or_depend_on_the_cell_alone(once):
    lesson = lessons.read(TINY, FIXTURES)
    for cell, node in zip(with_first_cell(lesson), released(once).cells, strict=True):
        assert node.id == cell.nbgrader.get("grade_id", node.id)
        assert cell.nbgrader or len(node.id) == 8


def test_equal_cells_get_different_ids(course):
    file = course / "units" / TINY / "lesson.py"
    cell = "\n# %% [markdown]\n# ---\n"
    file.write_text(file.read_text() + 2 * cell, newline="\n")
    ids = [node.id for node in notebook(lessons.read(TINY, course), CourseMap(course)).cells]
    assert len(set(ids)) == len(ids)


def test_data_and_unit_toml_travel_to_learners_and_other_settings_do_not(course, tmp_path):
    unit = course / "units" / TINY
    (unit / "pictures").mkdir()
    (unit / "pictures" / "plot.png").write_bytes(b"a picture")
    (unit / "numbers.npy").write_bytes(b"numbers")
    (unit / "equivalent.toml").write_text("")
    build(into=tmp_path / "into", course=course)
    extra = [f"{step}/{TINY}/{name}" for step in ("release", "source") for name in ("numbers.npy", "pictures/plot.png")]
    assert sorted(contents(tmp_path / "into")) == sorted(FILES + extra)


# ------------------------------------------------------------------------------------------ what learners must not see


def test_a_release_shows_stubs_and_tests_that_learners_cannot_edit(once):
    cells = {node.id: node for node in released(once).cells}
    lesson = lessons.read(TINY, FIXTURES)
    for name, exercise in lesson.exercises.items():
        assert cells[name].source == exercise.stub
        assert cells[f"{name}_tests"].metadata.editable is False


def test_a_release_holds_no_solution_and_nothing_of_the_attempts(once):
    lesson = lessons.read(TINY, FIXTURES)
    assert built(lesson, once / "source" / TINY, once / "release" / TINY) == []
    everything = b"".join(contents(once / "release").values())
    for words in (b"BEGIN SOLUTION", b"return [slope(w, x) for x in xs]", b"backward(inputs", b"attempts.py", b"@misc"):
        assert words not in everything


LEAKS = {
    "a marker": (f"{TINY}.ipynb", "raise NotImplementedError()", "### BEGIN SOLUTION", "'BEGIN SOLUTION'"),
    "a solution": (f"{TINY}.ipynb", "raise NotImplementedError()", "return [slope(w, x) for x in xs]", "of slopes"),
    "an attempt": ("cases.py", "return {", "loss.backward(inputs=[w])\n    return {", "of the attempts"),
}


@pytest.mark.parametrize(("name", "old", "new", "words"), LEAKS.values(), ids=LEAKS)
def test_a_leak_into_the_release_is_named(into, name, old, new, words):
    file = into / "release" / TINY / name
    edit(file, old, new)
    problems = [problem for problem in current(into=into, course=FIXTURES) if words in problem.message]
    assert [problem.file for problem in problems] == [file]


def test_a_recording_that_quotes_an_attempt_is_named(into):
    file = into / "release" / TINY / "recorded.bin"
    exercises = recording(file.read_bytes())["exercises"]
    exercises["slope"]["candidates"][0]["name"] = "loss.backward(inputs = [w])"
    file.write_bytes(write(TINY, exercises))
    assert any("of the attempts" in problem.message for problem in current(into=into, course=FIXTURES))


def test_a_text_twin_in_source_is_named(into):
    twin = into / "source" / TINY / "lesson.py"
    twin.write_text("")
    messages = [problem.message for problem in current(into=into, course=FIXTURES) if problem.file == twin]
    assert "does not belong here: nbgrader copies it to learners" in messages


def test_committed_output_is_named(into):
    file = into / "source" / TINY / f"{TINY}.ipynb"
    edit(file, '"execution_count": null', '"execution_count": 3')
    assert any("holds output" in problem.message for problem in current(into=into, course=FIXTURES))


def test_a_lesson_that_would_leak_is_not_built(course, tmp_path):
    edit(course / "units" / TINY / "lesson.py", "# Repair it.", "# See attempts.py. Repair it.")
    with pytest.raises(ContentError) as refused:
        build(into=tmp_path / "into", course=course)
    (problem,) = refused.value.problems
    assert "'attempts.py'" in problem.message
    assert problem.file == tmp_path / "into" / "release" / TINY / f"{TINY}.ipynb"
    assert not (tmp_path / "into").exists()


# --------------------------------------------------------------------------------------------------- what is current


def test_a_stale_built_file_is_named_with_the_line_that_differs(into):
    file = into / "release" / TINY / f"{TINY}.ipynb"
    edit(file, "# A tiny unit", "# A small unit")
    (problem,) = current(into=into, course=FIXTURES)
    assert problem.file == file
    assert "A small unit" in file.read_text().split("\n")[problem.line - 1]
    assert "Run `build`" in problem.way_out


@pytest.mark.parametrize("name", [f"{TINY}.ipynb", "recorded.bin"])
@pytest.mark.parametrize("data", [b"", b"{", b'{"cells": 3}'])
def test_a_built_file_that_cannot_be_read_is_stale(into, name, data):
    file = into / "release" / TINY / name
    file.write_bytes(data)
    assert [problem.file for problem in current(into=into, course=FIXTURES)] == [file]


def test_a_changed_lesson_makes_the_built_files_stale(into, course):
    edit(course / "units" / TINY / "lesson.py", "# Repair it.", "# Repair this.")
    assert {problem.file.name for problem in current(into=into, course=course)} == {f"{TINY}.ipynb"}


def test_a_changed_attempt_makes_the_recordings_stale(into, course):
    edit(course / "units" / TINY / "attempts.py", "return loss.item()", "return -loss.item()")
    assert {problem.file.name for problem in current(into=into, course=course)} == {"recorded.bin"}


def test_a_missing_file_is_named(into):
    (into / "source" / TINY / "cases.py").unlink()
    (problem,) = current(into=into, course=FIXTURES)
    assert (problem.file, problem.message) == (into / "source" / TINY / "cases.py", "is missing")


def test_folders_that_were_never_built_are_named(tmp_path):
    assert {problem.message for problem in current(into=tmp_path, course=FIXTURES)} == {"is missing"}


def test_a_file_that_nobody_made_is_named_and_removed_by_a_build(into):
    stranger = into / "release" / TINY / "numbers.npy"
    stranger.write_bytes(b"")
    (problem,) = current(into=into, course=FIXTURES)
    assert (problem.file, problem.message) == (stranger, "no build makes this file")
    assert build(into=into, course=FIXTURES) == [stranger]
    assert not stranger.exists()


def test_what_jupyter_and_python_leave_behind_is_passed_over(into):
    for name in (".ipynb_checkpoints/a.ipynb", "__pycache__/cases.cpython-311.pyc"):
        (into / "source" / TINY / name).parent.mkdir()
        (into / "source" / TINY / name).write_text("")
    assert current(into=into, course=FIXTURES) == []


def test_the_folder_of_a_unit_that_is_no_more_is_named(into):
    (into / "release" / "89_gone").mkdir()
    (problem,) = current(into=into, course=FIXTURES)
    assert problem.file == into / "release" / "89_gone"
    assert current([TINY], into=into, course=FIXTURES) == []


# ---------------------------------------------------------------------------------------------------- how it is built


def test_a_refused_build_leaves_the_old_files(into, course):
    before = contents(into)
    edit(course / "units" / TINY / "lesson.py", '"schema_version": 3', '"schema_version": 2')
    with pytest.raises(ContentError, match="schema_version is 2"):
        build(into=into, course=course)
    assert contents(into) == before


BREAKS = {
    "attempts that do not load": (
        "attempts.py",
        "\n\n@misc",
        '\n\nraise RuntimeError("no")\n\n\n@misc',
        "raise RuntimeError",
    ),
    "an answer that does not load": (
        "lesson.py",
        "def slope(w, x):",
        "def slope(w, x=missing):",
        "def slope(w, x=missing)",
    ),
    "cases that break": ("cases.py", "    xs = [", "    1 / case.kind\n    xs = [", "@exercise("),
    "a facet that names nothing": ("cases.py", '"returned.slopes"', '"returned.hills"', "@exercise("),
}


@pytest.mark.parametrize(("name", "old", "new", "place"), BREAKS.values(), ids=BREAKS)
def test_a_build_that_breaks_off_names_the_line_and_leaves_the_old_files(into, course, name, old, new, place):
    before = contents(into)
    file = course / "units" / TINY / name
    edit(file, old, new)
    with pytest.raises(ContentError) as refused:
        build(into=into, course=course)
    (problem,) = refused.value.problems
    assert problem.file == file
    assert place in file.read_text().split("\n")[problem.line - 1]
    assert contents(into) == before


def test_a_build_says_which_files_changed(into, course, capsys):
    edit(course / "units" / TINY / "lesson.py", "# Repair it.", "# Repair this.")
    changed = build(into=into, course=course)
    assert [file.relative_to(into).as_posix() for file in changed] == [FILES[4], FILES[0]]
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines() == [f"changed {FILES[4]}", f"changed {FILES[0]}"]


def nudged(data, by):
    """The recording with the last returned slope of the first exercise changed by a factor."""
    exercises = recording(data)["exercises"]
    exercises["slope"]["reference"][-1]["returned"]["tree"]["slope"] *= by
    return write(TINY, exercises)


def test_a_recording_that_differs_in_the_last_bits_is_kept(into):
    for step in ("source", "release"):
        file = into / step / TINY / "recorded.bin"
        file.write_bytes(nudged(file.read_bytes(), 1 + 1e-7))
    before = contents(into)
    assert current(into=into, course=FIXTURES) == []
    assert build(into=into, course=FIXTURES) == []
    assert contents(into) == before


def test_a_recording_that_differs_in_more_is_replaced(into, once):
    for step in ("source", "release"):
        file = into / step / TINY / "recorded.bin"
        file.write_bytes(nudged(file.read_bytes(), 1.001))
    assert len(current(into=into, course=FIXTURES)) == 2
    build(into=into, course=FIXTURES)
    assert contents(into) == contents(once)


@pytest.mark.parametrize("data", [b"", b"something else", b"AGL1" + bytes(40)])
def test_a_recording_that_cannot_be_read_is_replaced(into, once, data):
    (into / "source" / TINY / "recorded.bin").write_bytes(data)
    build(into=into, course=FIXTURES)
    assert contents(into) == contents(once)


def test_recordings_are_compared_in_every_part(once):
    record = recording((once / "source" / TINY / "recorded.bin").read_bytes())["exercises"]["slope"]
    assert alike(record, copy.deepcopy(record))
    changes = [
        lambda other: other.update(points=3),
        lambda other: other["candidates"].pop(),
        lambda other: other["candidates"][0].update(message="Other words?"),
        lambda other: other["reference"][0].update(
            raised={"types": ["E"], "message": "", "traceback": "", "inside": True}
        ),
        lambda other: tensor(other).update(shape=[1]),
        lambda other: tensor(other).update(grad=None),
        lambda other: other["reference"][0]["arguments"][0]["storages"].__setitem__(0, bytes(16)),
    ]
    for change in changes:
        other = copy.deepcopy(record)
        change(other)
        assert not alike(record, other)


def tensor(record):
    """The first tensor of a record: `w` after the first call of the reference."""
    return record["reference"][0]["arguments"][0]["tree"]["w"]


def test_the_check_of_a_built_unit_tells_right_from_wrong(once, monkeypatch):
    lesson = lessons.read(TINY, FIXTURES)
    with notebook_units.at(TINY, once / "release" / TINY):
        notebook_units.unit(TINY)
        for name, program in lessons.references(lesson).items():
            monkeypatch.setitem(globals(), name, program)
        notebook_units.unit(TINY)
        assert (check("slope"), check("slopes")) == (2, 3)
        monkeypatch.setitem(globals(), "slope", lambda w, x: None)
        assert check("slope") == 0
