"""Intake: whatever was handed in is read, recognised and restored, or refused in words; it never raises."""

import copy
import json
import os
import pickle
import shutil
from pathlib import Path

import nbformat
import pytest

from autograder.folders import Folders, GradingError
from autograder.intake import Master, take
from autograder.intake.master import _made_of

ROOT = Path(__file__).resolve().parent.parent
CASES = ROOT / "tests" / "cases" / "submissions"
IDS = ["setup", "squares", "test_squares", "mean", "test_mean", "explain"]
GOOD = json.loads((CASES / "00-control" / "submitted" / "good" / "ps1" / "problem1.ipynb").read_text())
BLANK = json.loads((CASES / "00-control" / "submitted" / "blank" / "ps1" / "problem1.ipynb").read_text())


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """A copy of the small course, which is generated into a gradebook once."""
    root = tmp_path_factory.mktemp("tiny")
    return shutil.copytree(CASES / "course", root, dirs_exist_ok=True)


@pytest.fixture(scope="module")
def master(root):
    return Master.of(Folders(root), "ps1")


@pytest.fixture
def folder(tmp_path):
    """An empty submission."""
    folder = tmp_path / "submission"
    folder.mkdir()
    return folder


@pytest.fixture
def hand_in(folder, master):
    """Takes a notebook in, changed by a function of it, as JSON or as bytes; the rest of the folder as it is."""

    def hand_in(change=None, of=GOOD, name="problem1.ipynb"):
        content = copy.deepcopy(of)
        changed = change(content) if change else None
        content = content if changed is None else changed
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        (folder / name).write_bytes(data)
        (taken,) = take(folder, master)
        return taken

    return hand_in


def cell(content, grade_id):
    """The first cell with a grade_id."""
    return next(one for one in content["cells"] if one["metadata"].get("nbgrader", {}).get("grade_id") == grade_id)


def ids(node):
    return [one.metadata.nbgrader.grade_id for one in node.cells if "nbgrader" in one.metadata]


def restored(node, grade_id):
    (found,) = (one for one in node.cells if one.metadata.get("nbgrader", {}).get("grade_id") == grade_id)
    return found


def roles(node):
    return [(one.metadata.autogradlab.role, one.metadata.autogradlab.changed) for one in node.cells]


def said(sentences, *words):
    """Whether one sentence holds all the words."""
    return any(all(word in sentence for word in words) for sentence in sentences)


def lose_everything(content):
    content["metadata"], content["nbformat_minor"] = {}, 4
    for one in content["cells"]:
        one["metadata"] = {}
        del one["id"]


# ------------------------------------------------------------------------------------------------------- the master


def test_a_master_holds_what_is_graded_and_what_was_released(master):
    notebook = master.notebooks["problem1"]
    assert list(notebook.by_id) == IDS
    tests = notebook.cells[notebook.by_id["test_squares"]]
    assert "HIDDEN TESTS" in tests.source and "HIDDEN TESTS" not in tests.released
    assert (tests.role, tests.points, tests.is_restored) == ("test", 2, True)
    answer = notebook.cells[notebook.by_id["squares"]]
    assert (answer.role, answer.points) == ("answer", None) and "SOLUTION" not in answer.source
    assert notebook.cells[notebook.by_id["explain"]].role == "manual"
    assert notebook.metadata["kernelspec"]["name"] == "python3"


def test_a_master_is_made_once_until_the_source_changes(root, master, monkeypatch):
    def never(*_):
        raise AssertionError("generated although nothing had changed")

    with monkeypatch.context() as patch:
        patch.setattr("autograder.intake.master.register", never)
        again = Master.of(Folders(root), "ps1")
    assert (again, again.digest) == (master, master.digest)
    assert pickle.loads(pickle.dumps(again)).digest == master.digest


def test_a_changed_source_reaches_gradebook_and_digest(master, tmp_path):
    shutil.copytree(CASES / "course", tmp_path, dirs_exist_ok=True)
    source = tmp_path / "source" / "ps1" / "problem1.ipynb"
    folders = Folders(tmp_path)
    before = Master.of(folders, "ps1")
    assert before.digest == master.digest
    source.write_text(source.read_text().replace("squares(11)[-1] == 121", "squares(12)[-1] == 144"))
    after = Master.of(folders, "ps1")
    assert "144" in after.notebooks["problem1"].cells[4].source and after.digest != before.digest


def test_a_header_that_lies_beside_all_assignments_makes_another_master_when_it_changes(tmp_path):
    shutil.copytree(CASES / "course", tmp_path, dirs_exist_ok=True)
    with open(tmp_path / "nbgrader_config.py", "a", encoding="utf-8") as file:
        file.write('\nc.IncludeHeaderFooter.header = "header.ipynb"\n')
    for words in ("Read this first.", "Read that first."):
        header = nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell(words)])
        nbformat.write(header, tmp_path / "header.ipynb")
        assert Master.of(Folders(tmp_path), "ps1").notebooks["problem1"].cells[0].source == words


def test_the_tests_that_a_course_has_autotest_make_are_part_of_what_a_master_is_made_of(tmp_path):
    shutil.copytree(CASES / "course", tmp_path, dirs_exist_ok=True)
    digests = set()
    for text in (None, "python3: {}", "python3: {templates: {}}"):
        if text:
            (tmp_path / "autotests.yml").write_text(text, encoding="utf-8")
        digests.add(_made_of(Folders(tmp_path), tmp_path / "source" / "ps1"))
    assert len(digests) == 3


def test_a_course_whose_source_is_elsewhere_is_graded_by_gradebook_and_release(root, master, tmp_path):
    shutil.copytree(root, tmp_path, dirs_exist_ok=True)
    shutil.rmtree(tmp_path / "source")
    assert Master.of(Folders(tmp_path), "ps1").notebooks == master.notebooks
    with pytest.raises(GradingError, match=r"ps2 cannot be graded.*gradebook does not know it"):
        Master.of(Folders(tmp_path), "ps2")


def test_files_of_the_assignment_travel_with_the_notebook(root, tmp_path):
    shutil.copytree(root, tmp_path, dirs_exist_ok=True)
    source = tmp_path / "source" / "ps1"
    (source / "data").mkdir()
    (source / "data" / "table.csv").write_text("1,2")
    (source / "scratch.pyc").write_text("ignored")
    master = Master.of(Folders(tmp_path), "ps1")
    assert master.files == {"data/table.csv": b"1,2"}
    submission = tmp_path / "submission"
    (submission / "data").mkdir(parents=True)
    (submission / "problem1.ipynb").write_text(json.dumps(GOOD))
    (submission / "data" / "table.csv").write_text("forged")
    (submission / "own.txt").write_text("mine")
    (taken,) = take(submission, master)
    assert taken.files == {"data/table.csv": b"1,2", "own.txt": b"mine"}
    assert said(taken.repairs, "data/table.csv", "assignment's own")


# ------------------------------------------------------------------------------------------------------- the cases


def handed_in():
    for expected in sorted(CASES.glob("*/expected.json")):
        students = json.loads(expected.read_text())["students"]
        for student, outcome in students.items():
            place = max(expected.parent.glob(f"submitted*/{student}/ps1"), key=lambda place: place.parts[-3])
            yield pytest.param(place, outcome, id=f"{expected.parent.name}-{student}-{place.parent.parent.name}")


@pytest.mark.parametrize(("place", "outcome"), list(handed_in()))
def test_every_case_is_readable_and_says_what_was_repaired(place, outcome, master):
    (taken,) = take(place, master)
    assert (taken.status, taken.message) == ("readable", "")
    assert ids(taken.node) == IDS
    assert bool(taken.repairs) == outcome.get("repaired", "05-utf8-bom" in str(place))
    assert bool(taken.flags) == outcome.get("flagged", False)
    nbformat.validate(taken.node)


def test_an_untouched_notebook_is_the_master(hand_in, master):
    taken = hand_in(of=BLANK)
    ours = master.notebooks["problem1"].cells
    assert [one.source for one in taken.node.cells] == [one.source for one in ours]
    assert roles(taken.node) == [(one.role, False) for one in ours]
    assert (taken.repairs, taken.flags) == ((), ())


def test_answers_are_kept_word_for_word_and_marked_as_changed(hand_in):
    taken = hand_in()
    for grade_id in ("squares", "mean", "explain"):
        answer = restored(taken.node, grade_id)
        assert answer.source == "".join(cell(GOOD, grade_id)["source"])
        assert answer.metadata.autogradlab.changed
    assert "HIDDEN TESTS" in restored(taken.node, "test_squares").source


# ------------------------------------------------------------------------------------------------------- decoding


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-32-be"])
def test_other_encodings_are_read_and_said(hand_in, encoding):
    taken = hand_in(lambda content: json.dumps(content).encode(encoding))
    assert taken.status == "readable" and said(taken.repairs, "problem1.ipynb", "read as such")


@pytest.mark.parametrize("encoding", ["cp1252", "latin-1"])
def test_what_is_not_utf_8_is_read_as_latin_1_with_a_note(hand_in, encoding):
    def write(content):
        cell(content, "explain")["source"] = "gr\xfcn \x81" if encoding == "latin-1" else "gr\xfcn \u201cja\u201d"
        return json.dumps(content, ensure_ascii=False).encode(encoding)

    taken = hand_in(write)
    wanted = "gr\xfcn \x81" if encoding == "latin-1" else "gr\xfcn \u201cja\u201d"
    assert restored(taken.node, "explain").source == wanted
    assert said(taken.repairs, "not UTF-8", "Latin-1")


def test_windows_line_ends_change_nothing(hand_in):
    def write(content):
        answer = cell(content, "squares")
        answer["source"] = [line.replace("\n", "\r\n") for line in answer["source"]]

    assert restored(hand_in(write).node, "squares").source == restored(hand_in().node, "squares").source


def test_lone_surrogates_and_nan_are_replaced_and_said(hand_in):
    def write(content):
        cell(content, "explain")["source"] = "x\ud800y"
        content["metadata"]["widgets"] = {"value": float("nan")}

    taken = hand_in(write)
    assert restored(taken.node, "explain").source == "x\ufffdy"
    assert said(taken.repairs, "NaN", "null") and said(taken.repairs, "surrogates")
    nbformat.v4.writes(taken.node).encode()


NO_NOTEBOOK = {
    "broken": (b'{\n "cells": [\n oops', ["line 3, column 2", "Expecting value"]),
    "empty": (b"", ["line 1", "empty"]),
    "deep": (b"[" * 100_000, ["line 1, column 65", "nested"]),
    "deep-inside": (
        b'{"nbformat": 4, "cells": [],\n "metadata": {"x": ' + b"[" * 90 + b"]" * 90 + b"}}",
        ["line 2", "nested"],
    ),
    "number": (b"9" * 5000, ["digits"]),
    "list": (b"[1, 2]", ["not a notebook", "list"]),
    "no cells": (b'{"nbformat": 4}', ["it has no cells"]),
    "cells": (b'{"nbformat": 4, "cells": {"a": 1}}', ["its cells are a mapping"]),
    "format 5": (b'{"nbformat": 5, "cells": []}', ["format 5"]),
    "other": (b'{"name": "package", "version": 1}', ["does not say its format"]),
    "foreign": (
        b'{"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [{"cell_type": "code", "source": "1"}]}',
        ["None of the 6 marked cells of problem1"],
    ),
    "old and broken": (b'{"nbformat": 3, "worksheets": 7}', ["upgrade from format 3 failed"]),
}


@pytest.mark.parametrize("name", NO_NOTEBOOK)
def test_what_cannot_be_read_says_file_place_and_cause(hand_in, name):
    data, words = NO_NOTEBOOK[name]
    taken = hand_in(lambda _: data)
    assert (taken.status, taken.node) == ("unreadable", None)
    assert "problem1" in taken.message and all(word in taken.message for word in words)
    assert taken.message.endswith(("again.", "newer one.", "saves it."))


def test_a_notebook_beyond_the_limit_is_reported_without_being_read(hand_in, folder, master, monkeypatch):
    path = folder / "problem1.ipynb"
    with open(path, "wb") as file:
        file.truncate(200 << 20)
    (taken,) = take(folder, master)
    assert taken.status == "unreadable" and "larger than 64 MiB" in taken.message


@pytest.mark.parametrize("minor", [0, 4, 5, 9])
def test_other_minor_formats_are_read(hand_in, minor):
    taken = hand_in(lambda content: content.update(nbformat_minor=minor))
    assert ids(taken.node) == IDS and (taken.node.nbformat, taken.node.nbformat_minor) == (4, 5)
    assert bool(taken.repairs) == (minor == 9)


@pytest.mark.parametrize("version", [2, 3])
def test_old_formats_are_upgraded(hand_in, version):
    def write(content):
        cells = []
        for one in content["cells"]:
            old = {"cell_type": one["cell_type"], "metadata": one["metadata"]}
            text = {"input" if one["cell_type"] == "code" else "source": "".join(one["source"])}
            code = {"language": "python", "outputs": [], "collapsed": False, "prompt_number": 1}
            cells.append(old | text | (code if one["cell_type"] == "code" else {}))
        sheets = [{"cells": cells, "metadata": {}}]
        return {"metadata": {"name": "problem1"}, "nbformat": version, "nbformat_minor": 0, "worksheets": sheets}

    taken = hand_in(write)
    assert taken.status == "readable" and ids(taken.node) == IDS
    assert restored(taken.node, "squares").source == "".join(cell(GOOD, "squares")["source"])
    assert said(taken.repairs, f"of format {version}")


@pytest.mark.parametrize(
    "junk", [7, None, [], {}, {"cell_type": "code"}, {"cell_type": "code", "source": 3}, {"source": ["a", 1]}]
)
def test_what_is_no_cell_is_left_out_and_said(hand_in, junk):
    taken = hand_in(lambda content: content["cells"].insert(3, junk))
    assert ids(taken.node) == IDS and said(taken.repairs, "Cell 4 of problem1.ipynb is no cell")


# ------------------------------------------------------------------------------------------------------- recognising


@pytest.mark.parametrize(
    "name", ["problem1 (1).ipynb", "answers.ipynb", "ps1/problem1.ipynb", "problem1.ipynb.txt", "PROBLEM1.IPYNB"]
)
def test_a_notebook_under_another_name_is_known_by_its_cells(hand_in, folder, name):
    (folder / name).parent.mkdir(exist_ok=True)
    taken = hand_in(name=name)
    assert taken.status == "readable" and said(taken.repairs, name, "recognised by its cells")


def test_one_that_lost_all_its_marks_is_still_known(hand_in):
    taken = hand_in(lose_everything, name="Untitled.ipynb")
    assert taken.status == "readable" and ids(taken.node) == IDS


def test_two_that_differ_are_not_guessed_between(hand_in, folder):
    (folder / "draft.ipynb").write_text(json.dumps(BLANK))
    taken = hand_in(name="final.ipynb")
    assert taken.status == "unreadable"
    assert all(word in taken.message for word in ("draft.ipynb", "final.ipynb", "which one counts"))


def test_two_that_say_the_same_are_one(hand_in, folder):
    (folder / "copy.ipynb").write_text(json.dumps(GOOD))
    taken = hand_in(name="final.ipynb")
    assert taken.status == "readable" and said(taken.repairs, "copy.ipynb", "final.ipynb")


def test_the_right_name_counts_and_another_version_is_flagged(hand_in, folder):
    (folder / "problem1 (1).ipynb").write_text(json.dumps(BLANK))
    taken = hand_in()
    assert restored(taken.node, "squares").metadata.autogradlab.changed
    assert said(taken.flags, "problem1 (1).ipynb", "another version")


def test_the_right_name_on_the_wrong_notebook_gives_way_to_the_right_cells(hand_in, folder):
    other = {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [{"cell_type": "code", "source": "1"}]}
    (folder / "problem1.ipynb").write_text(json.dumps(other))
    taken = hand_in(name="really.ipynb")
    assert taken.status == "readable" and said(taken.repairs, "really.ipynb")
    assert said(taken.flags, "problem1.ipynb", "no notebook of the assignment")


def test_a_folder_without_a_notebook_says_what_it_holds(folder, master):
    (folder / "essay.docx").write_text("x")
    (taken,) = take(folder, master)
    assert taken.status == "unreadable"
    assert taken.message == "The folder holds essay.docx. Expected problem1.ipynb; ask for it."


def test_one_of_two_notebooks_that_was_not_handed_in_is_skipped(root, folder, tmp_path):
    course = tmp_path / "course"
    shutil.copytree(root, course)
    second = copy.deepcopy(json.loads((course / "source" / "ps1" / "problem1.ipynb").read_text()))
    for one in second["cells"]:
        one["id"] = f"second-{one['id']}"
        one["source"] = [line.replace("squares", "cubes") for line in one["source"]]
        if marks := one["metadata"].get("nbgrader"):
            marks["grade_id"] = f"second_{marks['grade_id']}"
    (course / "source" / "ps1" / "problem2.ipynb").write_text(json.dumps(second))
    master = Master.of(Folders(course), "ps1")
    assert list(master.notebooks) == ["problem1", "problem2"]
    (folder / "anything.ipynb").write_text(json.dumps(GOOD))
    first, second = take(folder, master)
    assert (first.notebook, first.status) == ("problem1", "readable")
    assert (second.notebook, second.status) == ("problem2", "skipped")
    assert "problem2.ipynb was not handed in" in second.message


# ------------------------------------------------------------------------------------------------------- restoring


def test_a_notebook_without_any_metadata_is_matched(hand_in):
    taken = hand_in(lose_everything)
    assert ids(taken.node) == IDS
    assert restored(taken.node, "explain").source == "".join(cell(GOOD, "explain")["source"])
    assert said(taken.repairs, "lost nbgrader's marks", "squares", "explain")
    assert said(taken.repairs, "no kernel", "python3")


def test_answers_without_metadata_whose_stub_names_nothing_are_matched_by_order(hand_in):
    def write(content):
        lose_everything(content)
        content["cells"][3]["source"] = "squares = lambda n: [i * i for i in range(1, n + 1)]"
        content["cells"].insert(3, {"cell_type": "markdown", "metadata": {}, "source": "my notes"})

    taken = hand_in(write)
    assert restored(taken.node, "squares").source.startswith("squares = lambda")


def test_without_marks_what_the_learner_wrote_is_never_taken_for_set_up(hand_in):
    def write(content):
        lose_everything(content)
        content["cells"][1]["source"] = "import math\nimport statistics"

    taken = hand_in(write)
    assert restored(taken.node, "setup").source == "import math"
    assert "import math\nimport statistics" in [one.source for one in taken.node.cells]


def test_an_answer_that_may_be_one_of_several_is_not_guessed(hand_in):
    def write(content):
        lose_everything(content)
        content["cells"][-1]["source"] = "Because it is exact."
        content["cells"].append({"cell_type": "markdown", "metadata": {}, "source": "Or is it the speed?"})

    taken = hand_in(write)
    explain = restored(taken.node, "explain")
    assert explain.metadata.autogradlab.missing and explain.source == "YOUR ANSWER HERE"
    assert said(taken.flags, "explain", "could not be told")
    assert [one.source for one in taken.node.cells][-2:] == ["Because it is exact.", "Or is it the speed?"]


@pytest.mark.parametrize("grade_id", IDS)
def test_a_deleted_cell_is_put_back_where_it_belongs(hand_in, grade_id):
    taken = hand_in(lambda content: content["cells"].remove(cell(content, grade_id)))
    assert ids(taken.node) == IDS
    back = restored(taken.node, grade_id)
    assert not back.metadata.autogradlab.changed
    assert back.metadata.autogradlab.get("missing", False) == (grade_id in ("squares", "mean", "explain"))
    assert said(taken.repairs, grade_id, "was missing and was put back")


@pytest.mark.parametrize("grade_id", ["test_squares", "setup"])
@pytest.mark.parametrize("source", ["pass", "", "raise SystemExit"])
def test_a_locked_cell_reads_as_the_master_has_it(hand_in, master, grade_id, source):
    taken = hand_in(lambda content: cell(content, grade_id).update(source=source))
    ours = master.notebooks["problem1"]
    assert restored(taken.node, grade_id).source == ours.cells[ours.by_id[grade_id]].source
    assert said(taken.repairs, grade_id, "source was restored")


@pytest.mark.parametrize(("grade_id", "kind"), [("test_squares", "markdown"), ("squares", "raw"), ("explain", "code")])
def test_a_cell_that_changed_its_type_gets_it_back(hand_in, grade_id, kind):
    taken = hand_in(lambda content: cell(content, grade_id).update(cell_type=kind))
    wanted = "markdown" if grade_id == "explain" else "code"
    assert restored(taken.node, grade_id).cell_type == wanted
    assert said(taken.repairs, grade_id, f"had become a {kind} cell")
    nbformat.validate(taken.node)


def test_flipped_flags_are_restored_and_flagged(hand_in, master):
    flags = {"grade": False, "solution": True, "locked": False, "task": True}
    taken = hand_in(lambda content: cell(content, "test_squares")["metadata"]["nbgrader"].update(flags))
    ours = master.notebooks["problem1"]
    assert (
        restored(taken.node, "test_squares").metadata.nbgrader
        == ours.cells[ours.by_id["test_squares"]].metadata["nbgrader"]
    )
    assert said(taken.repairs, "test_squares", "grade, solution, locked, task") and said(taken.flags, "test_squares")


@pytest.mark.parametrize("points", [100, "many", None, -1, [2]])
def test_points_come_from_the_master(hand_in, points):
    taken = hand_in(lambda content: cell(content, "test_squares")["metadata"]["nbgrader"].update(points=points))
    assert restored(taken.node, "test_squares").metadata.nbgrader.points == 2
    assert said(taken.repairs, "points", "test_squares", "2 again")


def test_tags_come_from_the_master_and_those_that_change_the_run_are_flagged(hand_in):
    def write(content):
        cell(content, "squares")["metadata"]["tags"] = ["skip-execution"]
        cell(content, "mean")["metadata"]["tags"] = ["todo"]
        content["cells"].append({"cell_type": "code", "metadata": {"tags": ["raises-exception"]}, "source": "1 / 0"})

    taken = hand_in(write)
    assert not [one for one in taken.node.cells if "tags" in one.metadata]
    assert said(taken.flags, "squares", "skip-execution") and said(taken.flags, "added", "raises-exception")
    assert said(taken.repairs, "mean", "todo") and not said(taken.flags, "todo")


def test_outputs_are_cleared_and_a_result_that_no_run_left_is_flagged(hand_in):
    def result(count):
        data = {"text/plain": "1.0"}
        return [{"output_type": "execute_result", "execution_count": count, "data": data, "metadata": {}}]

    forged = hand_in(lambda content: cell(content, "test_squares").update(outputs=result(1), execution_count=None))
    honest = hand_in(lambda content: cell(content, "test_squares").update(outputs=result(4), execution_count=4))
    assert said(forged.flags, "test_squares", "no run") and honest.flags == ()
    assert not any(one.get("outputs") for one in [*forged.node.cells, *honest.node.cells])


def test_a_copied_test_counts_once_and_an_edited_copy_is_the_learners_own(hand_in):
    def write(content):
        copied = copy.deepcopy(cell(content, "test_squares")) | {"id": "copied"}
        edited = copy.deepcopy(copied) | {"source": "print(squares(3))"}
        content["cells"] += [copied, edited]

    taken = hand_in(write)
    assert ids(taken.node) == IDS and said(taken.repairs, "test_squares", "3 times", "the first")
    assert [one.source for one in taken.node.cells[10:]] == ["print(squares(3))"]


@pytest.mark.parametrize("where", ["above", "below"])
def test_of_two_answers_with_one_id_the_changed_one_counts(hand_in, where):
    def write(content):
        stub = copy.deepcopy(cell(BLANK, "squares")) | {"id": "stub"}
        place = content["cells"].index(cell(content, "squares"))
        content["cells"].insert(place if where == "above" else place + 1, stub)

    taken = hand_in(write)
    assert restored(taken.node, "squares").source == "".join(cell(GOOD, "squares")["source"])
    assert len(taken.node.cells) == 10 and said(taken.repairs, "squares", "2 times")


def test_of_two_changed_answers_the_last_before_the_test_counts_and_the_other_runs_above(hand_in):
    def write(content):
        place = content["cells"].index(cell(content, "squares"))
        first = copy.deepcopy(cell(content, "squares")) | {"id": "first", "source": "def squares(n):\n    return 0"}
        content["cells"].insert(place, first)

    taken = hand_in(write)
    assert restored(taken.node, "squares").source == "".join(cell(GOOD, "squares")["source"])
    assert taken.node.cells[3].metadata.autogradlab == {"role": "added", "changed": True}


def test_a_split_answer_is_joined(hand_in):
    def write(content):
        place = content["cells"].index(cell(content, "squares"))
        whole = content["cells"][place]
        lines = whole["source"].splitlines(keepends=True)
        upper = copy.deepcopy(whole) | {"source": lines[:2]}
        lower = {"cell_type": "code", "id": "lower", "metadata": {}, "source": lines[2:]}
        content["cells"][place : place + 1] = [upper, lower]

    taken = hand_in(write)
    compile(restored(taken.node, "squares").source, "squares", "exec")
    assert len(taken.node.cells) == 10 and said(taken.repairs, "squares", "joined again")


@pytest.mark.parametrize("marked", [True, False])
def test_an_answer_merged_with_its_test_is_taken_apart(hand_in, marked):
    def write(content):
        answer, test = cell(content, "squares"), cell(content, "test_squares")
        answer["source"] = "".join([*answer["source"], "\n", *test["source"]])
        content["cells"].remove(test)
        if not marked:
            lose_everything(content)

    taken = hand_in(write)
    assert ids(taken.node) == IDS
    assert restored(taken.node, "squares").source == "".join(cell(GOOD, "squares")["source"])
    assert said(taken.repairs, "merged") and not said(taken.repairs, "missing")


def test_two_merged_answers_are_taken_apart(hand_in):
    def write(content):
        first, second = cell(content, "squares"), cell(content, "mean")
        first["source"] = "".join([*first["source"], "\n\n\n# the second\n", *second["source"]])
        content["cells"].remove(second)

    taken = hand_in(write)
    assert restored(taken.node, "squares").source == "".join(cell(GOOD, "squares")["source"])
    assert restored(taken.node, "mean").source == "# the second\n" + "".join(cell(GOOD, "mean")["source"])


def test_a_test_above_its_answer_is_moved_below_it(hand_in):
    def write(content):
        test = cell(content, "test_squares")
        content["cells"].remove(test)
        content["cells"].insert(0, test)

    taken = hand_in(write)
    assert ids(taken.node) == IDS and said(taken.repairs, "test_squares", "moved below")


def test_set_up_below_the_answers_is_moved_above_them(hand_in):
    taken = hand_in(lambda content: content["cells"].append(content["cells"].pop(1)))
    assert ids(taken.node) == IDS and said(taken.repairs, "setup", "moved above")


def test_another_kernel_is_replaced_and_said(hand_in):
    taken = hand_in(lambda content: content["metadata"].update(kernelspec={"name": "bash", "display_name": "Bash"}))
    assert taken.node.metadata.kernelspec.name == "python3" and said(taken.repairs, "bash", "python3")


def test_thousands_of_cells_are_taken(hand_in):
    def write(content):
        content["cells"][0:0] = [{"cell_type": "code", "metadata": {}, "source": f"x = {i % 7}"} for i in range(2000)]

    taken = hand_in(write)
    assert ids(taken.node) == IDS and len(taken.node.cells) == 2010


# ------------------------------------------------------------------------------------------------------- the folder


def test_links_and_devices_are_left_out_with_a_flag(hand_in, folder, tmp_path):
    secret = tmp_path / "gradebook.db"
    secret.write_text("SECRET")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "secret.txt").write_text("SECRET")
    (folder / "data.txt").symlink_to("../gradebook.db")
    (folder / "folder").symlink_to(tmp_path / "elsewhere")
    os.link(secret, folder / "hard.txt")
    os.mkfifo(folder / "pipe")
    (folder / "twice.txt").write_text("mine")
    os.link(folder / "twice.txt", folder / "again.txt")
    (tmp_path / "PWNED-S19.txt").write_text("SECRET")
    taken = hand_in()
    assert taken.files == {"twice.txt": b"mine", "again.txt": b"mine"}
    for name, reason in {"data.txt": "link", "folder": "link", "hard.txt": "hard link", "pipe": "no ordinary"}.items():
        assert said(taken.flags, name, reason)


def test_a_notebook_that_is_a_link_is_not_read(folder, master, tmp_path):
    (tmp_path / "other.ipynb").write_text(json.dumps(GOOD))
    (folder / "problem1.ipynb").symlink_to(tmp_path / "other.ipynb")
    (taken,) = take(folder, master)
    assert taken.status == "unreadable" and "problem1.ipynb is a symbolic link" in taken.message


def test_a_submission_that_is_a_link_is_not_opened(folder, master, tmp_path):
    (folder / "problem1.ipynb").write_text(json.dumps(GOOD))
    (tmp_path / "link").symlink_to(folder)
    (taken,) = take(tmp_path / "link", master)
    assert taken.status == "unreadable" and said(taken.flags, "symbolic link", "not opened")


@pytest.mark.parametrize(
    "name",
    [
        "torch.py",
        "autogradlab.py",
        "sitecustomize.py",
        "ipykernel.py",
        "random.py",
        "numpy/__init__.py",
        "torch.cpython-311-x86_64.so",
        "nbgrader_config.py",
        "ipython_config.py",
        "conftest.py",
        "jupyter_notebook_config.json",
        ".ipython/profile_default/startup/00.py",
        ".jupyter/jupyter_config.py",
        "lib/.ipython/x.py",
    ],
)
def test_what_would_be_taken_for_a_module_or_for_settings_is_ignored_with_a_flag(hand_in, folder, name):
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text("raise SystemExit('PWNED')")
    taken = hand_in()
    assert taken.status == "readable" and taken.files == {}
    assert said(taken.flags, name.split("/")[0] if not name.startswith("lib") else ".ipython", "ignored")


def test_ordinary_files_are_kept(hand_in, folder):
    names = ["data.csv", "helper.py", "my_package/__init__.py", "pictures/a b.png", "torch.txt", "sub/torch.py"]
    for name in names:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(name.encode())
    (folder / ".DS_Store").write_text("x")
    (folder / ".ipynb_checkpoints").mkdir()
    (folder / ".ipynb_checkpoints" / "problem1-checkpoint.ipynb").write_text("x")
    taken = hand_in()
    assert taken.files == {name: name.encode() for name in names} and taken.flags == ()


def test_too_deep_too_many_and_too_large_are_left_out_with_a_flag(hand_in, folder, monkeypatch):
    monkeypatch.setattr("autograder.intake.files.FILES", 20)
    monkeypatch.setattr("autograder.intake.files.TOTAL_BYTES", 1 << 20)
    (folder / "/".join("abcdefghijklmnop")).mkdir(parents=True)
    (folder / "/".join("abcdefghijklmnop") / "x.txt").write_text("x")
    (folder / "large.bin").write_bytes(bytes(2 << 20))
    (folder / "z").mkdir()
    for number in range(30):
        (folder / "z" / f"{number}.txt").write_text("x")
    taken = hand_in()
    assert taken.status == "readable" and len(taken.files) == 18
    assert (
        said(taken.flags, "deeper than 8")
        and said(taken.flags, "large.bin", "beyond")
        and said(taken.flags, "20 files")
    )


@pytest.mark.parametrize("name", [b"..\\..\\x.txt", b"line\nbreak.txt", b"latin-\xe9.txt"])
def test_names_that_are_paths_elsewhere_or_unreadable_are_left_out(hand_in, folder, name):
    with open(os.path.join(os.fsencode(folder), name), "wb") as file:
        file.write(b"x")
    taken = hand_in()
    assert taken.files == {} and said(taken.flags, "has a name")
    json.dumps(taken.flags).encode()


def test_a_timestamp_that_says_no_time_is_flagged(hand_in, folder):
    (folder / "timestamp.txt").write_text("tomorrow, perhaps")
    assert said(hand_in().flags, "timestamp.txt", "no time")
    (folder / "timestamp.txt").write_text("2026-01-02 03:04:05 UTC")
    assert hand_in().flags == ()


def test_what_was_taken_can_be_sent_to_another_process(hand_in):
    taken = hand_in()
    assert pickle.loads(pickle.dumps(taken)) == taken
