import doctest
import gc
import re
import sys
import weakref
from pathlib import Path

import nbclient
import nbformat
import numpy
import pytest
import torch
from autogradlab import predictions
from autogradlab.predictions import commit, commitments, reveal

DOCS = Path(__file__).parents[1] / "docs"


@pytest.fixture(autouse=True)
def a_new_terminal(monkeypatch):
    """No prediction was made yet, and what is shown is printed."""
    monkeypatch.setattr(predictions, "_predictions", {})
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    monkeypatch.delenv("AUTOGRADLAB_REVEAL", raising=False)


@pytest.fixture
def said(capsys):
    """What was printed since the last call, as lines; nothing was written to stderr."""

    def lines():
        captured = capsys.readouterr()
        assert captured.err == ""
        return captured.out.splitlines()

    return lines


def outcome(said, answer, happened, confidence=3, **options):
    """What `reveal` says to somebody who committed `answer` where `happened` is what happens."""
    predictions._predictions.clear()
    commit("it", answer, confidence)
    said()
    reveal("it", **options)(lambda: happened)
    return said()


def test_none_beside_other_answers_is_an_answer(said):
    first, second = outcome(said, [80, None, True, -38], [80.0, None, True, -38.0])[:2]
    assert (first, "You said [80, None, True, -38]" in second) == ("As you said.", True)
    assert commitments() == [{"name": "it", "committed": True}]


@pytest.mark.parametrize(
    ("answer", "confidence", "missing"),
    [
        (None, None, "your answer, your confidence (1, a guess, to 5, certain)"),
        (None, 3, "your answer"),
        (28, None, "your confidence (1, a guess, to 5, certain)"),
        (..., 3, "your answer"),
        (" ", 3, "your answer"),
        ([14, ..., 42], 3, "your answer"),
        ([None, None], 3, "your answer"),
    ],
)
def test_with_a_blank_prediction_no_result_is_shown(said, answer, confidence, missing):
    commit("third_reading", answer, confidence)
    them = "them" if "," in missing.removesuffix("(1, a guess, to 5, certain)") else "it"
    where = f"Write {them} in place of None, as in answer=…, confidence=3, and run this cell again."
    assert said() == [f"Still to give: {missing}.", where, "Nothing is shown until then."]

    @reveal("third_reading")
    def _():
        pytest.fail("the body ran")

    assert said()[0] == "Commit an answer and a confidence first."
    assert commitments() == [{"name": "third_reading", "committed": False}]


def test_committing_is_credited_and_being_right_is_not_recorded(said):
    reveal("never_run")(lambda: 1)
    commit("right", 42, 1)
    commit("wrong", 28, 5)
    for name in ["right", "wrong"]:
        reveal(name)(lambda: 42)
    assert commitments() == [
        {"name": "never_run", "committed": False},
        {"name": "right", "committed": True},
        {"name": "wrong", "committed": True},
    ]


def test_a_commitment_is_shown_back(said):
    commit("third_reading", answer=[14.0, True, torch.float32, torch.Size([2, 3])], confidence=2)
    assert said() == ["Your answer: [14, True, torch.float32, [2, 3]], confidence 2 of 5."]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"answer": 1, "confidence": 6}, "confidence is 6. Expected a whole number from 1 (a guess) to 5 (certain)"),
        ({"answer": 1, "confidence": True}, "confidence is True. Expected a whole number"),
        ({"answer": 1, "confidence": "high"}, "confidence is 'high'. Expected a whole number"),
        ({"answer": 1, "confidence": torch.ones(2)}, "confidence is tensor([1., 1.]). Expected a whole number"),
        ({"answer": 1, "confidence": 3, "variant": 100}, "variant is 100. Expected a whole number from 0 to 99"),
        ({"answer": print, "confidence": 3}, "The value is of type builtin_function_or_method. Expected a number"),
        ({"answer": {1: 2}, "confidence": 3}, "The value is of type dict. Expected a number"),
        ({"answer": [1, {2}], "confidence": 3}, "The value is of type set. Expected a number"),
        ({"answer": 1, "confidence": 0}, "confidence is 0. Expected a whole number"),
        ({"answer": 1, "confidence": 3.0}, "confidence is 3.0. Expected a whole number"),
        (
            {"answer": [14, 28], "confidence": 3, "answers": 3},
            "The answer is a list of 2. Expected a list of 3, one for each value asked for; try answer=[…, …, …].",
        ),
        ({"answer": "14, 28, 42", "confidence": 3, "answers": 3}, "The answer is one value. Expected a list of 3"),
    ],
)
def test_a_commitment_that_cannot_be_read_is_not_recorded_and_says_why(said, arguments, complaint):
    commit("third_reading", **arguments)
    first, second = said()
    assert first == "Not recorded."
    assert second.startswith(complaint)
    assert commitments() == [{"name": "third_reading", "committed": False}]


@pytest.mark.parametrize(
    ("answer", "happened"),
    [
        (42, 42.0),
        (42, torch.tensor(42.0, requires_grad=True)),
        ("42", 42),
        (0.3333, 1 / 3),
        (1.1e12, 2**40),
        (0, 3e-10),
        (float("nan"), torch.tensor(float("nan"))),
        (float("inf"), float("inf")),
        (1 + 2j, torch.tensor(1 + 2j)),
        (True, True),
        ("yes", True),
        ("no", False),
        ("false", False),
        ("None", None),
        ("float32", torch.float32),
        (torch.float32, torch.float32),
        ("CPU", torch.device("cpu")),
        ("runtimeerror ", RuntimeError("in words")),
        (RuntimeError, RuntimeError),
        ((2, 3), torch.ones(2, 3).shape),
        ([], torch.tensor(1.0).shape),
        ([14, [28, True]], (torch.tensor(14.0), (28, True))),
    ],
)
def test_an_answer_that_says_the_same_is_as_you_said(said, answer, happened):
    assert outcome(said, answer, happened, confidence=5, see="Nowhere")[0] == "As you said."
    assert len(outcome(said, answer, happened, confidence=5, see="Nowhere")) == 2


@pytest.mark.parametrize(
    ("answer", "happened"),
    [
        (28, 42),
        (41.9, 42),
        (1, True),
        (True, 1),
        (True, False),
        (0, None),
        (float("nan"), 0.0),
        (0, float("nan")),
        (1e-6, 0.0),
        ("float64", torch.float32),
        ("many", 3),
        (3, "many"),
        (1 + 2j, 1.0),
        ([42], 42),
        (42, [42]),
        ([14, 28], [14, 28, 42]),
        ([14, 28, 41], [14, 28, 42]),
    ],
)
def test_an_answer_that_says_otherwise_is_not(said, answer, happened):
    assert outcome(said, answer, happened)[0] == "Not what you said."


def test_what_was_said_stands_beside_what_happened(said):
    assert outcome(said, 28, 42.0) == ["Not what you said.", "You said 28, confidence 3 of 5. It is 42."]


@pytest.mark.parametrize("confidence", [4, 5])
def test_a_confident_miss_is_met_with_a_question_and_the_demonstration(said, confidence):
    assert outcome(said, 28, 42, confidence, see="Every `backward` adds") == [
        "You were sure, and it is otherwise.",
        f"You said 28, confidence {confidence} of 5. It is 42.",
        "Which assumption behind your answer does this break?",
        "See: Every backward adds",
    ]


def test_an_unsure_miss_is_not(said):
    assert "See" not in " ".join(outcome(said, 28, 42, confidence=3, see="Every backward adds"))


def test_lists_are_compared_element_by_element(said):
    assert outcome(said, [14, 14, 14], [14, 28, 42])[2:] == [
        "At index 1 you said 14; it is 28.",
        "At index 2 you said 14; it is 42.",
    ]
    assert outcome(said, [14], [14, 28])[2:] == ["You gave a list of 1; it is a list of 2."]
    assert outcome(said, 14, [14, 28])[2:] == ["You gave one value; it is a list of 2."]
    assert outcome(said, [0] * 9, list(range(9)))[-1] == "And 3 more."


def test_the_author_can_allow_for_more_distance(said):
    assert outcome(said, 250, 241, within=0.05)[0] == "As you said."
    assert outcome(said, 250, 200, within=0.05)[0] == "Not what you said."


@pytest.mark.parametrize(
    ("answer", "happened", "kinds"),
    [
        ("fourteen", 42, "You gave a word; it is a number."),
        (1, True, "You gave a number; it is True or False."),
        ("yes", 1, "You gave True or False; it is a number."),
        (0, None, "You gave a number; it is None."),
        ([1, 2], 3, "You gave a list of 2; it is a number."),
        (3, "float32", "You gave a number; it is a word."),
    ],
)
def test_an_answer_of_another_kind_is_told_so(said, answer, happened, kinds):
    assert outcome(said, answer, happened)[-1] == kinds


def test_the_right_number_of_answers_is_recorded(said):
    commit("three", answer=(14, None, 42), confidence=numpy.int64(3), answers=3)
    assert said() == ["Your answer: [14, None, 42], confidence 3 of 5."]


def test_an_answer_with_too_few_values_is_asked_for_again_before_anything_is_shown(said):
    commit("three", answer=[14, 28], confidence=3)
    said()
    reveal("three", answers=3)(lambda: pytest.fail("the body ran"))
    assert said() == [
        "Commit your answer again.",
        "The answer is a list of 2. Expected a list of 3, one for each value asked for; try answer=[…, …, …].",
        "Nothing is shown until then.",
    ]
    commit("three", answer=[14, 28, 42], confidence=3)
    reveal("three", answers=3)(lambda: [14, 28, 42])
    assert said()[1] == "As you said."


def test_a_commitment_without_its_name_says_what_to_write():
    with pytest.raises(TypeError, match=r"commit was given 28\. Expected the name of a prediction first; try commit"):
        commit(28, 4)


def test_a_long_result_is_cut(said):
    assert len(outcome(said, 1, list(range(10_000)))[1]) < 250


def test_the_bodys_own_output_comes_before_the_comparison(said):
    commit("third_reading", 42, 3)

    @reveal("third_reading")
    def _():
        print("14 28 42")
        return 42

    assert said()[1:] == ["14 28 42", "As you said.", "You said 42, confidence 3 of 5. It is 42."]


def test_until_the_result_is_shown_a_mind_can_be_changed(said):
    commit("third_reading", 28, 3)
    commit("third_reading", 42, 4)
    reveal("third_reading")(lambda: 42)
    assert said()[-2:] == ["As you said.", "You said 42, confidence 4 of 5. It is 42."]


def test_after_the_result_the_answer_given_first_counts(said):
    commit("third_reading", 28, 3)
    reveal("third_reading")(lambda: 42)
    said()
    commit("third_reading", 42, 5)
    assert said() == [
        "Your answer: 42, confidence 5 of 5.",
        "The result was shown before, so the answer you gave first counts: 28, confidence 3 of 5.",
    ]
    reveal("third_reading")(lambda: 42)
    assert said() == [
        "Not what you said.",
        "You said 28, confidence 3 of 5. It is 42.",
        "The answer you gave first counts; afterwards you changed it to 42, confidence 5 of 5.",
    ]


def test_a_result_that_broke_off_half_way_was_shown(said):
    commit("third_reading", 28, 3)
    with pytest.raises(ZeroDivisionError):
        reveal("third_reading")(lambda: 1 / 0)
    commit("third_reading", 42, 5)
    assert said()[-1].endswith("so the answer you gave first counts: 28, confidence 3 of 5.")


def test_blanking_a_cell_takes_no_answer_back(said):
    commit("third_reading", 28, 3)
    commit("third_reading", None, None)
    assert said()[-1] == "Your earlier answer stands: 28, confidence 3 of 5."
    assert commitments() == [{"name": "third_reading", "committed": True}]


def test_the_learners_variant_reaches_the_body_and_each_variant_is_its_own_prediction(said):
    commit("doubled", 14, 3, variant=7)
    reveal("doubled")(lambda variant: 2 * variant)
    commit("doubled", 20, 3, variant=9)
    reveal("doubled")(lambda variant: 2 * variant)
    commit("doubled", 18, 5, variant=7)
    reveal("doubled")(lambda variant: 2 * variant)
    assert [line for line in said() if line.startswith("You said")] == [
        "You said 14, confidence 3 of 5. It is 14.",
        "You said 20, confidence 3 of 5. It is 18.",
        "You said 14, confidence 3 of 5. It is 14.",
    ]


def test_a_missing_variant_is_asked_for(said):
    commit("doubled", 14, 3)
    reveal("doubled")(lambda variant: pytest.fail("the body ran"))
    assert said()[-2:] == ["Commit a variant too.", "A whole number from 0 to 99, your own; try variant=7."]


def test_an_audit_runs_the_body_without_a_commitment(said, monkeypatch):
    monkeypatch.setenv("AUTOGRADLAB_REVEAL", "all")
    reveal("third_reading")(lambda: 42)
    reveal("doubled")(lambda variant: variant + 1)
    commit("doubled", 1, 3)
    reveal("doubled")(lambda variant: variant + 1)
    assert said() == [
        "It is 42.",
        "It is 1.",
        "Your answer: 1, confidence 3 of 5.",
        "As you said.",
        "You said 1, confidence 3 of 5. It is 1.",
    ]
    assert commitments()[0] == {"name": "third_reading", "committed": False}


def test_a_body_that_raises_is_not_hushed_up():
    commit("third_reading", 42, 3)
    with pytest.raises(ZeroDivisionError):
        reveal("third_reading")(lambda: 1 / 0)


def test_nothing_the_body_made_stays_alive():
    commit("third_reading", 2, 3)
    made = []

    @reveal("third_reading")
    def third_reading():
        w = torch.ones(2, requires_grad=True)
        total = (w * w).sum()
        made.extend([weakref.ref(w), weakref.ref(total)])
        return total

    gc.collect()
    assert [one() for one in made] == [None, None]
    assert third_reading is None


def test_the_name_below_the_decorator_keeps_what_it_had():
    namespace = {"reveal": reveal, "_": "the last output"}
    exec('@reveal("third_reading")\ndef _():\n    return 1', namespace)
    assert namespace["_"] == "the last output"


def test_the_decorator_without_a_name_says_what_to_write():
    with pytest.raises(TypeError, match=r'try @reveal\("third_reading"\)'):

        @reveal
        def _():
            return 1


def test_modes_a_learner_left_behind_do_not_matter(said):
    happened = torch.tensor([42.0], requires_grad=True)
    with torch.inference_mode(), torch.device("meta"):
        commit("third_reading", [42], 3)
        reveal("third_reading")(lambda: happened)
    assert said()[1:] == ["As you said.", "You said [42], confidence 3 of 5. It is [42]."]


def test_in_a_notebook_run_all_shows_no_result_for_blanks_and_everything_in_order_for_the_rest(tmp_path, monkeypatch):
    drawing = """
@reveal("given", see="Every backward adds")
def _():
    print("printed")
    figure, axes = figures.axes(x="step", y="w.grad")
    axes.plot([1, 2], [14, 28])
    figures.show(figure, alt="w.grad grows by 14.")
    return 42
"""
    cells = [
        "from autogradlab import figures\nfrom autogradlab.predictions import commit, reveal",
        'commit("blank", answer=None, confidence=None)',
        '@reveal("blank")\ndef _():\n    print("secret")\n    return 42',
        'commit("given", answer=28, confidence=5)',
        drawing,
        '"last"',
        "_",
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    # The kernel keeps its history and matplotlib's cache in its own folders.
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    monkeypatch.setenv("MPLCONFIGDIR", str(tmp_path))
    nbclient.NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(tmp_path)}}).execute()
    outputs = [cell.outputs for cell in notebook.cells]
    assert "secret" not in str(outputs) and "42" not in str(outputs[:4])
    assert all(output.get("name") != "stderr" for cell in outputs for output in cell)
    assert outputs[2][0].data["text/plain"].startswith("Commit an answer and a confidence first.")
    printed, figure, comparison = outputs[4]
    assert printed.text == "printed\n"
    assert figure.data["text/html"].startswith('<img alt="w.grad grows by 14."')
    assert comparison.data["text/html"].startswith('<div role="status"')
    assert comparison.data["text/plain"].startswith("You were sure, and it is otherwise.\nYou said 28")
    assert outputs[6][0].data["text/plain"] == "'last'"


def nbgrader_cell(source, grade_id, **flags):
    metadata = {"grade": True, "locked": True, "solution": False, "task": False, "schema_version": 3}
    metadata |= {"grade_id": grade_id} | flags
    return nbformat.v4.new_code_cell(source, metadata={"nbgrader": metadata})


def test_nbgrader_gives_credit_for_committing_whatever_the_answer_is(tmp_path, monkeypatch):
    from nbgrader.api import Gradebook
    from nbgrader.apps import NbGraderAPI
    from traitlets.config import Config

    from autograder.nbgrader_context import nbgrader_context

    (test_cell,) = re.findall(r"```python\n(.*?)```", (DOCS / "predictions.md").read_text(encoding="utf-8"), re.DOTALL)

    def notebook(*answers):
        cells = ["from autogradlab.predictions import commit"]
        cells += [
            f'commit("{name}", {answer})' for name, answer in zip(("third_reading", "peak"), answers, strict=False)
        ]
        cells = [nbformat.v4.new_code_cell(source) for source in cells]
        kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
        return nbformat.v4.new_notebook(
            cells=[*cells, nbgrader_cell(test_cell, "committed", points=2)], metadata=kernel
        )

    blank, right, wrong = "answer=None, confidence=None", "answer=14, confidence=2", "answer=-1, confidence=5"
    made = {"nobody": (blank, blank), "one": (blank, wrong), "both": (right, wrong), "deleted": (right,)}
    for step, answers in [("source/.", (blank, blank)), *((f"submitted/{who}", what) for who, what in made.items())]:
        folder = tmp_path / step / "unit"
        folder.mkdir(parents=True)
        nbformat.write(notebook(*answers), folder / "unit.ipynb")
    config = Config()
    config.CourseDirectory.root = str(tmp_path)
    config.CourseDirectory.db_url = f"sqlite:///{tmp_path / 'gradebook.db'}"
    config.Exchange.root = str(tmp_path)
    config.Execute.extra_arguments = ["--IPKernelApp.log_level=40"]
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    with nbgrader_context():
        api = NbGraderAPI(config=config)
        assert api.generate_assignment("unit")["success"]
        assert all(api.autograde("unit", who)["success"] for who in made)
        with Gradebook(config.CourseDirectory.db_url) as book:
            scores = {one.student.id: one.score for one in book.assignment_submissions("unit")}
    assert scores == {"nobody": 0, "one": 1, "both": 2, "deleted": 1}


@pytest.mark.parametrize("page", ["the docstrings", "docs/predictions.md"])
def test_the_examples_are_true(page):
    if page == "the docstrings":
        result = doctest.testmod(predictions)
    else:
        result = doctest.testfile(str(DOCS / "predictions.md"), module_relative=False)
    assert result.attempted > 5 and result.failed == 0
