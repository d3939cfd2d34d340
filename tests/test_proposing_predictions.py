"""`report --propose` of a prediction: the commonest changes of the right answers become a model that gives them."""

import shutil
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
from autogradlab.exercises import load_cases
from autogradlab.predictable import normalise

from autograder import lessons, proposing
from autograder.folders import ROOT, GradingError
from autograder.proposing_predictions import literal, models, program

UNIT, EXERCISE = "07_training_loop", "loop_count"


@pytest.fixture(scope="module")
def lesson():
    return lessons.read(UNIT)


@pytest.fixture(scope="module")
def reference(lesson):
    found = lessons.attempts(lesson, load_cases(lesson.directory / "cases.py"))
    return next(one for one in found if one.exercise == EXERCISE and one.kind == "reference")


@pytest.fixture
def declared(lesson):
    return load_cases(lesson.directory / "cases.py")[EXERCISE]


@pytest.fixture
def right(reference):
    return reference.program


def row(student, variant, answers, **others):
    code = f"def {EXERCISE}():\n    variant = {variant}\n    return variant, {answers!r}\n"
    told = {"student": student, "exercise": EXERCISE, "code": code, "record": {}, "status": "wrong"}
    return told | {"misconceptions": []} | others


def swapped(right, variant):
    """Who takes the passes for the steps, and three for one of the others."""
    answers = list(right(variant))
    answers[0], answers[3] = answers[1], 3
    return answers


def as_program(lesson, text):
    names = dict(lessons.namespace(lesson, ()))
    exec(text, names)
    return names[EXERCISE]


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("def f():\n    variant = 7  # mine\n    return variant, [1, None, 'error']", (7, (1, None, "error"))),
        ("def f():\n    answers = (2, -3.5)\n    return 7, answers", (7, (2, -3.5))),
        ("def f():\n    return 7, [torch.ones(2).sum()]", None),
        ("def f():\n    return [1, 2]", None),
        ("def f():\n    return True, [1]", None),
        ("def f():\n    return 7, [1e999]", None),
        ("def f():\n    print()", None),
        ("%time f()", None),
        ("g = 1", None),
    ],
)
def test_answers_that_are_written_out_are_read_and_nothing_is_run(code, found):
    assert literal(code, "f") == found


def test_the_model_gives_the_answers_of_all_who_have_it_and_goes_on_to_others(lesson, declared, reference, right):
    rows = [row(f"s{variant}", variant, swapped(right, variant)) for variant in (3, 8, 20, 41)]
    other = list(right(5))
    other[5] = 1000
    (model, rest) = models([row("odd", 5, other), *rows], declared, right, set())
    assert [one.student for one in model.given] == ["s3", "s8", "s20", "s41"]
    assert model.changes == {0: "right[1]", 3: "3"} and model.general == {0, 3}
    assert [one.student for one in rest.given] == ["odd"]
    attempt = as_program(lesson, program(model, EXERCISE, reference))
    for variant in range(100):
        assert [*map(normalise, attempt(variant))] == [*map(normalise, swapped(right, variant))]


def test_what_no_change_explains_is_known_for_the_variants_of_the_class_alone(lesson, declared, reference, right):
    given = {variant: [*right(variant)[:5], noise] for variant, noise in ((3, 901), (8, 77), (20, 1234))}
    (model,) = models([row(str(one), one, answers) for one, answers in given.items()], declared, right, set())
    assert model.general == set() and len(model.given) == 3
    attempt = as_program(lesson, program(model, EXERCISE, reference))
    assert {variant: attempt(variant) for variant in given} == given
    assert [*map(normalise, attempt(50))] == [*map(normalise, right(50))]


def test_what_cannot_be_compared_or_bears_a_name_is_left_out(declared, right):
    short, named = list(right(3))[:-1], ["Ada Lovelace", *right(3)[1:]]
    rows = [row("a", 3, short), row("b", 3, named), row("c", 3, list(right(3)))]
    assert models(rows, declared, right, {"lovelace"}) == []


@pytest.mark.parametrize("variant", [-1, 100, 1 << 40])
def test_a_variant_that_there_is_not_is_left_out_and_the_reference_is_not_asked(declared, right, variant):
    asked = []
    rows = [row("a", variant, [1, 2, 3, 4, 5, 6]), row("b", 3, swapped(right, 3))]
    found = models(rows, declared, lambda one: asked.append(one) or right(one), set())
    assert [one.student for model in found for one in model.given] == ["b"]
    assert asked == [3]


# ---------------------------------------------------------------------------------------------------- the command


@pytest.fixture
def proposed(tmp_path, monkeypatch, lesson):
    """Proposes of these rows, in a course that has the unit."""
    shutil.copy(ROOT / "nbgrader_config.py", tmp_path)
    shutil.copytree(lesson.directory, tmp_path / "course" / "units" / UNIT)
    for settings in (ROOT / "course").glob("*.toml"):
        shutil.copy(settings, tmp_path / "course")

    def proposed(rows):
        @contextmanager
        def opened(folders):
            yield SimpleNamespace(submissions=lambda unit: [SimpleNamespace(rows=rows)])

        monkeypatch.setattr(proposing.records, "opened", opened)
        monkeypatch.setattr(proposing, "_people", lambda folders, lesson: {"lovelace"})
        return proposing.propose(EXERCISE, [UNIT], tmp_path)

    return proposed


RECORD = {"requirements": [], "case": None, "raised": None, "text": ""}


def test_the_command_proposes_the_model_of_most_answers(proposed, lesson, right):
    rows = [row(f"s{variant}", variant, swapped(right, variant), record=RECORD) for variant in (3, 8)]
    known = row("known", 4, swapped(right, 4), record=RECORD, misconceptions=["G01"])
    proposal = proposed([*rows, known])
    assert "2 of 2 answers that nothing recognised are so" in proposal.attempt
    assert "TODO: which wrong mental model" in proposal.attempt
    text = proposal.attempt[proposal.attempt.index("\ndef ") :]
    assert as_program(lesson, text)(8) == swapped(right, 8)
    assert proposal.files[0].read_text(encoding="utf-8") == proposal.attempt


def test_where_no_answers_are_written_out_it_says_so(proposed, right):
    worked_out = row("a", 3, [], record=RECORD, code=f"def {EXERCISE}():\n    return 3, list(range(6))\n")
    with pytest.raises(GradingError, match="Of 1 answers to loop_count that nothing recognises, none has a variant"):
        proposed([worked_out])
