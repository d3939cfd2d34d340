"""An update under a learner's hands: nothing that the learner wrote is lost, and the course's cells are new."""

import copy
import itertools
import json

import hypothesis.strategies as st
import nbformat
import pytest
from autogradlab import merging
from hypothesis import given, settings

WORDS = st.text("ab `#\n", max_size=8)


def answer(name, source="pass", **more):
    nbgrader = {"grade_id": name, "solution": True, "grade": False, "locked": False, "schema_version": 3}
    return code(source, name, nbgrader=nbgrader | {"cell_type": "code", "task": False}, deletable=False, **more)


def test_cell(name, points=1):
    nbgrader = {"grade_id": f"{name}_tests", "solution": False, "grade": True, "locked": True, "schema_version": 3}
    nbgrader |= {"cell_type": "code", "task": False, "points": points}
    return code(f'check("{name}")', f"{name}_tests", nbgrader=nbgrader, deletable=False, editable=False)


test_cell.__test__ = False


def code(source, id, **metadata):
    return {
        "cell_type": "code",
        "id": id,
        "metadata": metadata,
        "source": source,
        "outputs": [],
        "execution_count": None,
    }


def prose(source, id):
    return {"cell_type": "markdown", "id": id, "metadata": {}, "source": source}


def prediction(name, source=None):
    return code(source or f'commit("{name}", answer=None)', f"p-{name}", tags=["prediction"])


def notebook(*cells):
    return {
        "cells": [*cells],
        "metadata": {"kernelspec": {"name": "python3", "display_name": "Python 3"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }


def texts(merged):
    return [merging.source_of(cell) for cell in merged["cells"]]


def run(cell, text="out"):
    """The cell as the learner's kernel leaves it."""
    output = {"output_type": "stream", "name": "stdout", "text": text}
    return cell | {"outputs": [output], "execution_count": 3}


BEFORE = notebook(
    prose("# Title", "t1"),
    code("import torch", "s1", tags=["setup"]),
    prediction("swing"),
    code("print(1)", "d1", tags=["demonstration"]),
    answer("peek"),
    test_cell("peek"),
)


def changed(book, **sources):
    """A notebook with other texts in the cells of these ids."""
    book = copy.deepcopy(book)
    for cell in book["cells"]:
        if cell["id"].replace("-", "_") in sources:
            cell["source"] = sources[cell["id"].replace("-", "_")]
    return book


def merged(yours, new, before=BEFORE):
    return merging.merge(before, yours, new)


def test_an_answer_and_its_outputs_stay_while_the_course_s_cells_follow():
    yours = changed(BEFORE, peek="return 3")
    yours["cells"][4] = run(yours["cells"][4])
    yours["cells"][5] = run(yours["cells"][5])
    new = notebook(*BEFORE["cells"][:5], test_cell("peek", points=9))
    new["cells"][0] = prose("# New title", "t2")
    result = merged(yours, new)
    cells = result.notebook["cells"]
    assert texts(result.notebook) == ["# New title", *texts(yours)[1:]]
    assert cells[4]["outputs"] == cells[5]["outputs"] == run(cells[4])["outputs"]
    assert cells[5]["metadata"]["nbgrader"]["points"] == 9
    assert (result.answers, result.kept) == ([], 0)


def test_an_answer_stays_under_a_changed_stub_and_is_named():
    result = merged(changed(BEFORE, peek="return 3"), changed(BEFORE, peek="pass  # for x"))
    assert texts(result.notebook)[4] == "return 3"
    assert result.answers == ["peek"]


def test_an_answer_that_is_still_the_stub_follows():
    result = merged(BEFORE, changed(BEFORE, peek="pass  # for x"))
    assert texts(result.notebook)[4] == "pass  # for x"


def test_a_prediction_stays_under_a_text_around_it_that_changed():
    new = changed(BEFORE, p_swing='commit("swing", answer=None, answers=2)')
    new["cells"][2]["id"] = "another"
    result = merged(changed(BEFORE, p_swing='commit("swing", answer=4)'), new)
    assert texts(result.notebook)[2] == 'commit("swing", answer=4)'
    assert result.answers == ["swing"]


def test_a_demonstration_that_only_the_learner_changed_stays_changed():
    new = changed(BEFORE, t1="# New title")
    assert texts(merged(changed(BEFORE, d1="print(2)"), new).notebook)[3] == "print(2)"


def test_where_both_changed_a_cell_the_course_s_stands_and_the_learner_s_is_shown_below():
    result = merged(changed(BEFORE, d1="print('```')"), changed(BEFORE, d1="print(3)"))
    cells = result.notebook["cells"]
    assert cells[3]["source"] == "print(3)"
    assert cells[4]["cell_type"] == "markdown"
    assert cells[4]["source"].endswith("here:\n\n````python\nprint('```')\n````")
    assert result.kept == 1


def test_what_the_learner_wrote_in_a_cell_that_is_gone_is_shown_where_it_stood():
    new = notebook(*(cell for cell in BEFORE["cells"] if cell["id"] != "d1"))
    result = merged(changed(BEFORE, d1="print(2)"), new)
    assert "print(2)" in texts(result.notebook)[3]
    assert texts(merged(BEFORE, new).notebook) == texts(new)


def test_the_answer_to_an_exercise_that_is_gone_stays_a_program():
    new = notebook(*BEFORE["cells"][:4])
    cell = merged(changed(BEFORE, peek="return 3"), new).notebook["cells"][4]
    assert (cell["cell_type"], cell["source"]) == ("code", "return 3")
    assert "nbgrader" not in cell["metadata"]
    assert cell["metadata"].get("deletable", True)


def test_own_cells_stay_below_what_they_stood_below():
    yours = copy.deepcopy(BEFORE)
    yours["cells"].insert(4, run(code("my = 1", "mine")))
    yours["cells"].insert(0, prose("my notes", "notes"))
    new = notebook(prose("# New title", "t2"), *BEFORE["cells"][1:4], prose("more", "m1"), *BEFORE["cells"][4:])
    result = texts(merged(yours, new).notebook)
    assert result == ["my notes", "# New title", *texts(BEFORE)[1:4], "my = 1", "more", *texts(BEFORE)[4:]]


def test_a_copy_of_a_test_cell_becomes_an_ordinary_cell():
    yours = copy.deepcopy(BEFORE)
    yours["cells"].insert(1, run(test_cell("peek") | {"id": "copied"}))
    cells = merged(yours, changed(BEFORE, t1="# New title")).notebook["cells"]
    assert "nbgrader" not in cells[1]["metadata"]
    assert [cell["metadata"]["nbgrader"]["grade_id"] for cell in cells if "nbgrader" in cell["metadata"]] == [
        "peek",
        "peek_tests",
    ]


def test_a_locked_cell_that_was_changed_somehow_is_the_course_s_again():
    result = merged(changed(BEFORE, peek_tests="print('mine')"), changed(BEFORE, t1="# New title"))
    assert texts(result.notebook)[5] == 'check("peek")'
    assert "print('mine')" in texts(result.notebook)[6]


def test_cells_whose_ids_an_editor_dropped_are_found_by_their_text():
    yours = changed(BEFORE, peek="return 3") | {"nbformat_minor": 0}
    for cell in yours["cells"]:
        del cell["id"]
    result = merged(yours, changed(BEFORE, t1="# New title"))
    assert texts(result.notebook) == ["# New title", *texts(yours)[1:]]
    assert result.kept == 0


def test_a_copy_without_an_id_stays_a_cell_of_its_own():
    yours = copy.deepcopy(BEFORE)
    yours["cells"].append(copy.deepcopy(yours["cells"][3]))
    for cell in yours["cells"]:
        del cell["id"]
    result = merged(yours, changed(BEFORE, t1="# New title"))
    assert texts(result.notebook).count("print(1)") == 2


def test_an_answer_cell_that_became_a_text_cell_is_a_program_again_with_the_text_below():
    yours = changed(BEFORE, peek="return 3")
    yours["cells"][4]["cell_type"] = "markdown"
    cells = merged(yours, changed(BEFORE, t1="# New title")).notebook["cells"]
    assert (cells[4]["cell_type"], cells[4]["source"]) == ("code", "pass")
    assert "return 3" in cells[5]["source"]


def test_without_the_release_it_began_as_nothing_of_a_copy_is_lost():
    yours = changed(BEFORE, d1="print(2)", peek="return 3")
    result = merged(yours, changed(BEFORE, t1="# New title"), merging.empty_notebook())
    assert texts(result.notebook)[5:] == [*texts(result.notebook)[5:6], "return 3", 'check("peek")']
    assert all(any(text in kept for kept in texts(result.notebook)) for text in texts(yours))


def test_what_the_learner_s_editor_says_about_the_notebook_stays():
    yours = copy.deepcopy(BEFORE)
    yours["metadata"]["kernelspec"] = {"name": "my-kernel"}
    assert merged(yours, BEFORE).notebook["metadata"]["kernelspec"] == {"name": "my-kernel"}


@pytest.mark.parametrize(
    "damaged",
    [
        [],
        {"nbformat": 3, "worksheets": []},
        {"nbformat": 4, "cells": {}},
        notebook({"cell_type": "code"}),
        notebook({"cell_type": "code", "metadata": {}, "source": [1]}),
        notebook({"cell_type": "code", "metadata": {"nbgrader": 1}, "source": ""}),
        notebook({"cell_type": "code", "metadata": {"tags": None}, "source": ""}),
    ],
    ids=str,
)
def test_what_is_no_notebook_is_refused(damaged):
    with pytest.raises(merging.NotMergeable, match=r"^it(s cell 1)? is "):
        merged(damaged, BEFORE)


# Random edits on both sides


@st.composite
def release(draw):
    """A release: prose, demonstrations, predictions and exercises, each with a text that no other cell has."""
    kinds = draw(st.lists(st.sampled_from(["prose", "demonstration", "prediction", "exercise"]), max_size=7))
    return notebook(*itertools.chain(*(course_cells(kind, f"x{n}", draw(WORDS)) for n, kind in enumerate(kinds))))


def course_cells(kind, name, words):
    if kind == "exercise":
        return [prose(f"{name} {words}", f"c-{name}"), answer(name, f"{name} stub {words}"), test_cell(name)]
    if kind == "prediction":
        return [prediction(name)]
    if kind == "prose":
        return [prose(f"{name} {words}", f"m-{name}")]
    return [code(f"{name} {words}", f"d-{name}", tags=["demonstration"])]


@st.composite
def next_release(draw, before):
    """The release after some: units of cells go, come, change their places, their texts or their points."""
    cells = copy.deepcopy(before["cells"])
    for number in range(draw(st.integers(0, 4))):
        place = draw(st.integers(0, len(cells)))
        act = draw(st.sampled_from(["drop", "add", "move", "text", "points"]))
        if act == "add":
            kind = draw(st.sampled_from(["prose", "demonstration", "prediction", "exercise"]))
            cells[place:place] = course_cells(kind, f"n{number}", draw(WORDS))
        elif place == len(cells):
            continue
        elif act == "drop":
            del cells[place]
        elif act == "move":
            cells.insert(draw(st.integers(0, len(cells))), cells.pop(place))
        elif act == "points" and merging.is_locked(cells[place]):
            cells[place]["metadata"]["nbgrader"]["points"] = 5 + number
        elif act == "text" and not merging.is_locked(cells[place]):
            text = f"changed {number} {draw(WORDS)}"
            if "prediction" in cells[place]["metadata"].get("tags", ()):
                text = cells[place]["source"].replace("answer=None", f"answer=None, answers={number}")
            cells[place]["source"] = text
            if not cells[place]["metadata"].get("nbgrader") and draw(st.booleans()):
                cells[place]["id"] = f"text-{number}"  # as the build names cells, by their text
    return notebook(*cells)


@st.composite
def worked_on(draw, before):
    """A learner's copy: answered, edited, run, with cells added, copied, deleted, moved, retyped, and ids dropped."""
    cells = copy.deepcopy(before["cells"])
    for number in range(draw(st.integers(0, 6))):
        place = draw(st.integers(0, len(cells)))
        act = draw(st.sampled_from(["write", "write", "add", "copy", "delete", "move", "retype", "run", "lose id"]))
        text = f"mine {number} {draw(WORDS)}"
        if act == "add":
            make = draw(st.sampled_from([code, prose]))
            cells.insert(place, make(text, f"own-{number}"))
        elif place == len(cells):
            continue
        elif act == "write":
            if "prediction" in cells[place]["metadata"].get("tags", ()):
                text = merging.source_of(cells[place]).replace("None", f"{number}", 1)
            cells[place]["source"] = draw(st.sampled_from([text, text.splitlines(keepends=True)]))
        elif act == "copy":
            cells.insert(draw(st.integers(0, len(cells))), copy.deepcopy(cells[place]) | {"id": f"copy-{number}"})
        elif act == "delete":
            del cells[place]
        elif act == "move":
            cells.insert(draw(st.integers(0, len(cells))), cells.pop(place))
        elif act == "retype":
            cells[place] = prose(text, cells[place].get("id")) | {"metadata": cells[place]["metadata"]}
        elif act == "run" and cells[place]["cell_type"] == "code":
            cells[place] = run(cells[place], text)
        elif act == "lose id":
            for cell in cells:
                cell.pop("id", None)
    return notebook(*cells)


@st.composite
def histories(draw):
    before = draw(release())
    return draw(st.just(before)), draw(worked_on(before)), draw(next_release(before))


def assert_nothing_lost(before, yours, result):
    """Every text that is not the course's stands in the result, as a cell or, word for word, within one."""
    course = {merging.source_of(cell) for cell in before["cells"]}
    found = texts(result)
    for cell in yours["cells"]:
        text = merging.source_of(cell)
        assert text in course or text in found or any(f"\n{text}\n```" in one for one in found), text


def assert_locked_cells_are_new(new, result):
    """The locked cells are the new release's, each once and in its order, whatever became of their outputs."""

    def locked(book):
        return [(cell["source"], cell["metadata"]) for cell in book["cells"] if merging.is_locked(cell)]

    assert locked(result) == locked(new)


def assert_course_follows(before, yours, new, result):
    """Where the learner changed nothing, the new release's text stands; its cells are all there, in their order."""
    ids = [cell["id"] for cell in new["cells"]]
    assert [cell["id"] for cell in result["cells"] if cell["id"] in set(ids)] == ids
    written = {merging.source_of(cell) for cell in yours["cells"]} - {cell["source"] for cell in before["cells"]}
    there, old = ({cell["id"]: cell for cell in book["cells"]} for book in (result, before))
    for cell in new["cells"]:
        source = merging.source_of(there[cell["id"]])
        assert source == cell["source"] or source in written
        if cell["id"] in old and not merging.is_answer(cell) and old[cell["id"]]["source"] != cell["source"]:
            assert source == cell["source"]  # both may have changed it: the course's text stands in its place
        assert there[cell["id"]]["metadata"].get("nbgrader") == cell["metadata"].get("nbgrader")


def assert_outputs_stay(yours, result):
    """What a cell printed stays with it as long as its text stays."""
    kept = [cell for cell in result["cells"] if cell.get("outputs")]
    for cell in yours["cells"]:
        if cell.get("outputs") and merging.source_of(cell).startswith("mine"):
            same = [one for one in kept if merging.source_of(one) == merging.source_of(cell)]
            shown = [one for one in texts(result) if f"\n{merging.source_of(cell)}\n```" in one]
            assert shown or cell["outputs"] in [one["outputs"] for one in same]


@settings(max_examples=400)
@given(histories())
def test_whatever_both_sides_did_nothing_of_the_learner_s_is_lost_and_the_course_s_cells_are_new(history):
    before, yours, new = history
    given_ones = copy.deepcopy(history)
    result = merging.merge(before, yours, new).notebook
    assert (before, yours, new) == given_ones
    nbformat.validate(nbformat.from_dict(copy.deepcopy(result)))
    assert_nothing_lost(before, yours, result)
    assert_locked_cells_are_new(new, result)
    assert_course_follows(before, yours, new, result)
    assert_outputs_stay(yours, result)
    # An update that was broken off is begun again from the same release; a copy of a text that is gone may go then.
    gone = set(texts(before)) - set(texts(new))
    again = merging.merge(before, result, new).notebook
    assert [text for text in texts(again) if text not in gone] == [text for text in texts(result) if text not in gone]
    assert_locked_cells_are_new(new, again)
    assert json.loads(json.dumps(result)) == result


@settings(max_examples=200)
@given(histories())
def test_without_the_old_release_nothing_of_the_learner_s_is_lost_either(history):
    _, yours, new = history
    result = merging.merge(merging.empty_notebook(), yours, new).notebook
    nbformat.validate(nbformat.from_dict(copy.deepcopy(result)))
    assert_nothing_lost(notebook(), yours, result)
    assert_locked_cells_are_new(new, result)
