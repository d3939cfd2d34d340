"""What stands around a check: the next step, a smaller case, other answers, and the way back to the beginning."""

import ast
import json
import linecache
import shutil
import sys
import textwrap
from pathlib import Path

import pytest
import torch
from autogradlab import answers, checking, limits, outline, reset, resetting, shrinking, smaller, solutions, units
from autogradlab import check as checked
from autogradlab.merging import source_of
from autogradlab.verdicts import CheckFailed

ROOT = Path(__file__).resolve().parents[1]
NAME = "05_accumulating_gradients"
EXERCISE = "fresh_gradients"

ADDING = """
    def fresh_gradients(w, x, steps):
        gradients = []
        for _ in range(steps):
            ((w * x + 1) ** 2).backward()
            gradients.append(w.grad.item())
        return gradients
"""
ADDING_AT_ONCE = ADDING.replace("w.grad.item()", "w.grad.item() + 1")
# Wrong from the third step on: the first case of the check that has so many is not the shortest to read.
WRONG_LATE = """
    def fresh_gradients(w, x, steps):
        gradients = []
        for _ in range(steps):
            w.grad = None
            ((w * x + 1) ** 2).backward()
            gradients.append(w.grad.item() + (steps > 2))
        return gradients
"""


class Notebook:
    """The cells of a notebook, run one by one."""

    def __init__(self):
        self.names = {"__name__": "__main__", "torch": torch}

    def run(self, source):
        source, file = textwrap.dedent(source), f"/tmp/ipykernel_1/{len(linecache.cache)}.py"
        linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
        exec(compile(source, file, "exec"), self.names)

    def show(self, command, name=EXERCISE):
        """What a command of the course gives in this notebook."""
        self.names["command"] = command
        return eval(f"command({name!r})", self.names)


@pytest.fixture
def notebook(tmp_path, monkeypatch):
    """A notebook of unit 5 in a learner's copy."""
    shutil.copytree(ROOT / "release" / NAME, tmp_path / NAME)
    monkeypatch.setattr(checking, "_told", {})
    monkeypatch.setattr(checking, "_records", {})
    monkeypatch.delenv("NBGRADER_EXECUTION", raising=False)
    with units.at(NAME, tmp_path / NAME):
        units.unit(NAME)
        yield Notebook()


@pytest.fixture
def right():
    """The course's own answer."""
    return answers.text_of(NAME, EXERCISE)


@pytest.fixture
def alone(tmp_path, monkeypatch):
    """A machine with a release and no repository."""
    monkeypatch.setattr(answers, "ROOT", tmp_path / "nowhere")


# The next step


def test_a_wrong_answer_is_told_what_to_do_and_where_the_hints_stand(notebook):
    notebook.run(ADDING)
    first = notebook.show(checked)
    assert first.text.endswith(
        "Next: change your answer, run its cell, then this one again. Hint 1 of 2 stands above your answer."
    )
    assert '<p class="autogradlab-next">Next: change' in first.html
    second = notebook.show(checked)
    assert "Hint 2 of 2 stands above your answer. A smaller case, in a cell of your own: `from " in second.text
    assert "<code>from autogradlab import smaller; smaller(&quot;fresh_gradients&quot;)</code>" in second.html
    assert "Hint 2 of 2" in notebook.show(checked).text


def test_a_prediction_has_no_smaller_case_than_the_variant_that_was_chosen(notebook):
    notebook.run("def meter_reading():\n    return 7, [1, 2, 3]\n")
    for _ in range(3):
        shown = notebook.show(checked, "meter_reading")
        assert "Next: change your answer" in shown.text and "smaller" not in shown.text


def test_a_third_miss_leads_to_the_demonstration_in_the_notebook(notebook):
    notebook.run(ADDING)
    for _ in range(2):
        assert "<a " not in notebook.show(checked).html
    assert "<a href='05_accumulating_gradients.ipynb#" in notebook.show(checked).html


def test_a_right_answer_leads_to_the_next_exercise(notebook, right):
    notebook.run(right)
    result = notebook.show(checked)
    unit = outline.read_unit(units.current().directory)
    names = [one.name for one in unit.exercises]
    following = unit.exercises[names.index(EXERCISE) + 1]
    assert f"Next: {len(names) - 1} exercises to go in this unit; read on, up to “{following.heading}”." in result.text
    assert f'href="#{following.anchor}"' in result.html
    assert 'from autogradlab import solutions; solutions("fresh_gradients")' in result.text


def test_after_the_last_exercise_comes_the_next_unit(notebook, right, tmp_path, alone):
    unit = outline.read_unit(units.current().directory)
    done = {one.name: {"status": "right", "score": one.points} for one in unit.exercises}
    checking._records[str(units.current().directory)] = done
    notebook.run(right)
    assert "is right, and it is the last one here." in notebook.show(checked).text
    (tmp_path / "06_leaving").mkdir()
    (tmp_path / "06_leaving" / "recorded.bin").touch()
    result = notebook.show(checked)
    assert 'href="../06_leaving/06_leaving.ipynb"' in result.html
    assert "solutions" not in result.text


def test_what_is_not_attempted_says_what_to_do_already(notebook):
    assert "Next:" not in notebook.show(checked).text


def test_without_the_notebook_s_file_there_is_a_verdict_all_the_same(notebook):
    (units.current().directory / f"{NAME}.ipynb").unlink()
    notebook.run(ADDING)
    result = notebook.show(checked)
    assert result.record["status"] == "wrong"
    assert "Next:" not in result.text


def test_validate_shows_the_next_step_too(notebook, monkeypatch):
    monkeypatch.setenv("NBGRADER_EXECUTION", "validate")
    notebook.run(ADDING)
    with pytest.raises(CheckFailed, match="Next: change your answer"):
        notebook.show(checked)


def test_a_record_says_of_which_text_it_speaks(notebook, right):
    notebook.run(right)
    assert notebook.show(checked).record["answer"] == checking.stub_digest(right)


# A program without end


def test_a_check_interrupts_a_program_that_runs_on_and_shows_where(notebook, monkeypatch):
    monkeypatch.setattr(limits, "SECONDS", 0.3)
    monkeypatch.setattr(limits.within, "__defaults__", (0.3, limits.MEMORY))
    notebook.run("def fresh_gradients(w, x, steps):\n    while True:\n        w.sin()")
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    result = notebook.show(checked)
    assert result.record["status"] == "wrong"
    assert (
        "fresh_gradients was still running after 0.3 seconds, and was interrupted here:\nyour code, line" in result.text
    )
    assert "What has to become true for it to stop" in result.text
    assert torch.rand(1) == expected
    notebook.run(ADDING)
    assert notebook.show(checked).record["case"] is not None


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux bounds a process's private memory")
def test_a_check_tells_a_program_that_takes_all_memory_what_to_look_for(notebook):
    notebook.run("def fresh_gradients(w, x, steps):\n    return torch.ones(10**11)")
    text = notebook.show(checked).text
    assert "can't allocate memory" in text
    assert "Next: find what grows without end. A check may take 2 GiB more than there was" in text


# A smaller case


def test_a_smaller_case_fails_by_the_same_requirement_and_is_shorter_to_read(notebook, monkeypatch):
    # However long the search may take, it looks at the check's cases first.
    monkeypatch.setattr(shrinking, "SECONDS", 1.0)
    notebook.run(WRONG_LATE)
    case = notebook.show(checked, "fresh_gradients").record["case"]
    shown = notebook.show(smaller)
    assert "cases that fail by “each entry is the gradient of its own step alone”:" in shown.text
    (call,) = (line for line in shown.text.splitlines() if line.startswith("fresh_gradients("))
    assert call.endswith("steps=3)") and not case["call"].endswith("steps=3)")
    assert "yours:" in shown.text and "expected:" in shown.text


def test_without_the_course_s_answers_the_check_s_own_cases_are_searched(notebook, alone):
    notebook.run(ADDING_AT_ONCE)
    assert notebook.show(checked).record["case"]["index"] == 0
    shown = notebook.show(smaller)
    assert shown.text.startswith("The smallest of 5 cases that fail by")
    assert "steps=1)" in shown.text


def test_where_no_case_is_shorter_the_check_s_own_is_shown(notebook, alone):
    notebook.run(WRONG_LATE.replace("steps > 2", "steps == 1"))
    case = notebook.show(checked).record["case"]
    shown = notebook.show(smaller)
    assert shown.text.startswith("The case that the check of fresh_gradients shows is the only one found that fails.")
    assert case["call"] in shown.text


def test_there_is_no_smaller_case_of_a_right_answer_nor_of_none(notebook, right):
    assert "is not attempted, so there is no case" in notebook.show(smaller).text
    notebook.run(right)
    assert "is right, so there is no case" in notebook.show(smaller).text


def test_a_prediction_s_case_is_its_variant(notebook):
    notebook.run("def meter_reading():\n    return 7, [0.5] * 20")
    assert notebook.show(checked, "meter_reading").record["case"] is not None
    assert notebook.show(smaller, "meter_reading").text.startswith("The case of meter_reading is the variant")


def test_a_program_that_never_ends_has_no_smaller_case(notebook, monkeypatch):
    monkeypatch.setattr(limits.within, "__defaults__", (0.3, limits.MEMORY))
    notebook.run("def fresh_gradients(w, x, steps):\n    while True:\n        w.sin()")
    assert "so there is no case" in notebook.show(smaller).text


# Other answers


def test_other_answers_are_shown_once_the_learner_s_own_is_right(notebook, right):
    notebook.run(ADDING)
    shown = notebook.show(solutions)
    assert shown.text.startswith("Not yet: your fresh_gradients is wrong.")
    assert right not in shown.text
    notebook.run(right)
    shown = notebook.show(solutions)
    assert right in shown.text
    assert shown.text.count("Another right one:") == len(answers.alternatives(NAME, EXERCISE)) >= 2
    assert "### BEGIN" not in shown.text
    assert "<pre" in shown.html


def test_where_the_course_s_answers_are_not_on_the_machine_the_way_to_them_is_told(notebook, alone):
    notebook.run(ADDING)
    assert "are not on this machine" in notebook.show(solutions).text


@pytest.mark.parametrize("name", sorted(path.name for path in (ROOT / "release").glob("*")))
def test_the_course_s_answers_to_a_unit_are_found_and_define_what_they_should(name):
    directory = ROOT / "release" / name
    with units.at(name, directory):
        unit = units.Unit(name, directory)
        for exercise in unit.exercises:
            texts = [answers.text_of(name, exercise), *(text for _, text in answers.alternatives(name, exercise))]
            for text in texts:
                assert exercise in {getattr(node, "name", None) for node in ast.parse(text).body}
        assert callable(answers.reference(unit, exercise))


# Back to the beginning


class Shell:
    """What `reset` uses of IPython's shell."""

    def __init__(self, cell):
        self.cell, self.next = cell, None

    def get_parent(self):
        return {"metadata": {"cellId": self.cell}}

    def set_next_input(self, text, replace=False):
        self.next = text, replace


@pytest.fixture
def stub():
    book = json.loads((ROOT / "release" / NAME / f"{NAME}.ipynb").read_text(encoding="utf-8"))
    (cell,) = (cell for cell in book["cells"] if cell["id"] == EXERCISE)
    return source_of(cell)


def test_reset_in_the_answer_cell_turns_it_into_what_was_given_out(notebook, monkeypatch, stub):
    notebook.run(ADDING)
    shell = Shell(EXERCISE)
    monkeypatch.setattr(resetting, "_shell", lambda: shell)
    shown = notebook.show(reset)
    assert shell.next == (stub, True)
    assert "gradients.append" in shown.text  # what the answer was is not lost
    assert "<details>" in shown.html


def test_reset_elsewhere_leaves_the_answer_cell_alone(notebook, monkeypatch, stub):
    notebook.run(ADDING)
    shell = Shell("another cell")
    monkeypatch.setattr(resetting, "_shell", lambda: shell)
    assert "in a new cell below" in notebook.show(reset).text
    assert shell.next == (stub, False)
    assert EXERCISE in notebook.names  # a forgotten reset costs no points when the notebook is graded


def test_reset_begins_anew_with_what_is_said(notebook, monkeypatch, stub):
    notebook.run(ADDING)
    for _ in range(3):
        notebook.show(checked)
    notebook.show(reset)
    assert "Hint 1 of 2" in notebook.show(checked).text


def test_reset_finds_the_release_that_the_copy_was_made_from(notebook, alone, tmp_path, stub):
    assert "is not on this machine" in notebook.show(reset).text
    shutil.copytree(ROOT / "release" / NAME, tmp_path / resetting.RELEASED / NAME)
    assert stub in notebook.show(reset).text


@pytest.mark.parametrize("command", [smaller, solutions, reset])
def test_an_exercise_that_is_not_there_is_named(notebook, command):
    with pytest.raises(LookupError, match=r"Did you mean 'fresh_gradients'\?"):
        notebook.show(command, "fresh_gradient")
