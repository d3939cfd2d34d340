"""What learners get beside the notebook: what programs did, and no program."""

import hashlib
import os
import subprocess
import sys

import pytest
import torch
from autogradlab.encoding import EncodingError, pack
from autogradlab.exercises import AtMost, Attempt, Flat, Prediction, Same, exercise
from autogradlab.observation import observe
from autogradlab.recorded import FILE, Recorded, contents, predicted_once, record_exercise, visible, write

CATALOGUE = {
    "A01": {"name": "never zeroes", "message": "It adds up. What empties it?", "demonstration": "05_unit#Place"},
    "A02": {"name": "something else", "message": "It does something else. What?"},
}


@exercise(
    Same("each step is right", "returned.gradients"),
    Same("w.grad is right", "arguments.w.grad"),
    Flat("the memory is flat", "cost.peak_bytes", over="steps"),
    arguments=("w", "steps"),
    visible=3,
)
def gradients(program, case):
    return {"gradients": program(case.normal(2, requires_grad=True), case.over("steps", case.integer(2, 3)))}


def right(w, steps):
    secret_name = []
    for _ in range(steps):
        w.grad = None
        (w**2).sum().backward()
        secret_name.append(w.grad.clone())
    return secret_name


def adding(w, steps):
    telltale_name = []
    for _ in range(steps):
        (w**2).sum().backward()
        telltale_name.append(w.grad.clone())
    return telltale_name


@exercise(Prediction("all of it"), variants=4, visible=2)
def reading(variant):
    return f"What is {variant}?"


ATTEMPTS = [
    Attempt("gradients", "misconception", id="A01", program=adding),
    Attempt("gradients", "misconception", id="A02", variant="twice", same_as="A01", program=adding),
    Attempt("gradients", "misconception", id="A02", message="Own words. What?", program=lambda w, steps: None),
    Attempt("gradients", "alternative", variant="other", program=right),
    Attempt("reading", "misconception", id="A01", program=lambda variant: [variant, 0]),
]


def record(one=gradients, program=right):
    return record_exercise(one, program, ATTEMPTS, CATALOGUE, 3.0, "digest")


@pytest.fixture
def folder(tmp_path):
    data = {"gradients": record(), "reading": record(reading, lambda variant: [variant, variant + 1])}
    (tmp_path / FILE).write_bytes(write("05_unit", data))
    return tmp_path


def test_what_was_recorded_is_read_again(folder):
    recorded = Recorded(folder)
    assert (recorded.unit, recorded.names) == ("05_unit", ["gradients", "reading"])
    assert "gradients" in recorded and "other" not in recorded
    one = recorded.exercise("gradients")
    assert (one.points, one.stub) == (3.0, "digest")
    assert one.expected() == visible(gradients, right) == [observe(gradients, right, 0, index) for index in range(3)]


def test_only_misconceptions_that_stand_for_themselves_are_candidates(folder):
    candidates = Recorded(folder).exercise("gradients").candidates()
    assert [(c.key, c.id, c.name, c.message, c.see) for c in candidates] == [
        ("A01", "A01", "never zeroes", "It adds up. What empties it?", "05_unit#Place"),
        ("A02", "A02", "something else", "Own words. What?", None),
    ]
    assert candidates[0].observations == visible(gradients, adding)


def test_predictions_are_recorded_by_variant(folder):
    one = Recorded(folder).exercise("reading")
    assert one.expected(2) == [predicted_once(reading, lambda variant: [variant, variant + 1], 2)]
    assert one.candidates(2)[0].observations == [predicted_once(reading, lambda variant: [variant, 0], 2)]
    assert one.expected(2)[0]["answers"][0] == one.candidates(2)[0].observations[0]["answers"][0]


def test_no_program_stands_in_the_file(folder):
    plain = repr(contents((folder / FILE).read_bytes()))
    for word in ("secret_name", "telltale_name", "backward", "def ", "lambda"):
        assert word not in plain


def test_recording_again_gives_the_same_bytes():
    assert write("05_unit", {"gradients": record()}) == write("05_unit", {"gradients": record()})


def test_another_process_records_the_same_bytes():
    code = (
        "import sys, hashlib; sys.path.insert(0, sys.argv[1]); import test_recorded as t; "
        "print(hashlib.sha256(t.write('05_unit', {'gradients': t.record()})).hexdigest())"
    )
    command = [sys.executable, "-c", code, os.path.dirname(__file__)]
    other = subprocess.check_output(command, env={**os.environ, "PYTHONHASHSEED": "1"}, text=True)
    assert other.strip() == hashlib.sha256(write("05_unit", {"gradients": record()})).hexdigest()


def test_a_file_that_is_none_is_refused(tmp_path):
    (tmp_path / FILE).write_bytes(b"not a record")
    with pytest.raises(EncodingError):
        Recorded(tmp_path)
    (tmp_path / FILE).write_bytes(pack({"unit": "a", "exercises": {}})[:-1])
    with pytest.raises(EncodingError):
        Recorded(tmp_path)


@pytest.mark.parametrize(
    ("requirement", "path"),
    [
        (Same("is right", "returned.gradient"), "returned.gradient"),
        (Same("is right", "arguments.x"), "arguments.x"),
        (Same("is right", "kept.loss"), "kept.loss"),
        (Same("is right", "calls.step"), "calls.step"),
        (AtMost("is right", "calls.step", 3), "calls.step"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_requirement_on_what_no_case_has_is_refused(requirement, path):
    one = exercise(requirement, arguments=("w", "steps"))(gradients.script)
    with pytest.raises(ValueError, match=f"nothing in its cases is called {path}, which 'is right' is about"):
        record(one)


def test_a_requirement_on_what_only_some_cases_have_is_accepted():
    def script(program, case):
        return {"odd": program(case.normal(), 1)} if case.index % 2 else {"even": program(case.normal(), 1)}

    one = exercise(Same("odd is right", "returned.odd"), Same("even too", "returned.even"))(script)
    assert len(record(one, lambda w, steps: torch.ones(1))["reference"]) == 5
