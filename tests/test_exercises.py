"""Exercises and attempts are read as they were written, and what contradicts itself is refused with its place."""

import linecache
import textwrap
import traceback

import pytest
import torch
from autogradlab.exercises import (
    AtMost,
    Budget,
    Flat,
    Forbid,
    Prediction,
    Same,
    define,
    exercise,
    load_attempts,
    load_cases,
    normalised_source,
    stub_digest,
)


def script(program, case):
    return {"y": program(case.normal())}


RIGHT = Same("it is right", "returned.y")


def test_an_exercise_is_named_after_its_script():
    one = exercise(RIGHT, Budget(100), Forbid("torch.exp", "torch.log"), arguments=("x",), needs=("other",))(script)
    assert (one.name, one.arguments, one.needs) == ("script", ("x",), ("other",))
    assert (one.budget, one.forbidden) == (100, ("torch.exp", "torch.log"))
    assert (one.visible, one.fresh, one.dtypes) == (5, 12, ("float32",))
    assert one.tolerance == {"float32": 1e-5, "float64": 1e-10}
    assert one.line == script.__code__.co_firstlineno
    assert not one.is_prediction


def test_an_exercise_knows_what_its_requirements_read():
    one = exercise(
        RIGHT,
        Same("its graph", "returned.y.graph", "arguments.w.grad"),
        Flat("flat", "cost.peak_bytes", over="steps"),
        AtMost("few", "cost.syncs", 3),
    )(script)
    assert one.aspects("returned") == {"values", "shape", "dtype", "graph"}
    assert one.aspects("arguments") == {"grad"}
    assert one.aspects("printed") == frozenset()
    assert one.flat_over == {"steps"}


def question(variant):
    return "?"


@pytest.mark.parametrize(
    ("conditions", "options", "message"),
    [
        ((), {}, "exercise script: it requires nothing"),
        ((Budget(3),), {}, "exercise script: it requires nothing"),
        ((RIGHT, "fast"), {}, "exercise script: conditions are requirements, Budget or Forbid, not"),
        ((RIGHT, RIGHT), {}, "exercise script: two requirements have the same words"),
        ((Prediction("all"),), {}, "exercise script: a prediction exercise has Prediction requirements alone"),
        ((RIGHT,), {"variants": 9}, "exercise script: a prediction exercise has Prediction requirements alone"),
        ((Prediction("all"), RIGHT), {"variants": 9}, "a prediction exercise has Prediction requirements alone"),
        ((RIGHT,), {"dtypes": ("float16",)}, "exercise script: state the tolerance for float16"),
        (
            (Same("grads", "arguments.grad"),),
            {"arguments": ("w", "grad")},
            "arguments.grad is the aspect grad of every argument; for the argument of that name write",
        ),
    ],
)
def test_a_declaration_that_contradicts_itself_is_refused(conditions, options, message):
    with pytest.raises(ValueError, match=message):
        exercise(*conditions, **options)(script)


def test_an_argument_may_be_called_like_an_aspect_when_it_is_asked_for_in_full():
    one = exercise(Same("grads", "arguments.grad.values"), arguments=("w", "grad"))(script)
    assert one.requirements[0].facets[0].name == "grad"


# ------------------------------------------------------------------------------------------------- cases.py

CASES = """
    from autogradlab.exercises import Same, exercise

    FACTOR = {factor}

    @exercise(Same("it is right", "returned.y"), arguments=("x",))
    def second(program, case):
        return {{"y": program(case.normal()) * FACTOR}}

    @exercise(Same("it is right", "returned.y"))
    def first(program, case):
        return {{"y": program()}}
"""


def write(folder, name, text):
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(textwrap.dedent(text), encoding="utf-8")
    return path


def test_cases_are_read_in_the_order_of_the_file(tmp_path):
    assert list(load_cases(write(tmp_path, "cases.py", CASES.format(factor=2)))) == ["second", "first"]


def test_two_units_have_two_modules_and_a_changed_file_is_read_anew(tmp_path):
    def factor(name):
        return load_cases(tmp_path / name / "cases.py")["second"].script.__globals__["FACTOR"]

    for name, value in (("one", 2), ("two", 3)):
        write(tmp_path / name, "cases.py", CASES.format(factor=value))
    assert (factor("one"), factor("two")) == (2, 3)
    write(tmp_path / "one", "cases.py", CASES.format(factor=1234))
    assert factor("one") == 1234


# ---------------------------------------------------------------------------------------------- attempts.py

ATTEMPTS = '''
    """Attempts."""

    import math

    from autogradlab.exercises import alternative, misconception, reference

    CONSTANT = 7

    def helper(x):
        return x * CONSTANT

    @misconception("A01")
    def first(x):
        """Wrong."""
        if x:
            return helper(x) + FROM_SETUP
        return first(0) if x is None else math.inf

    @misconception("A01", variant="with words", same_as="A02")
    def first(x):
        return 2

    @misconception(
        "A03",
        "It did that. What else?",
    )
    # a comment
    @staticmethod
    def first(x):
        return 3

    @alternative("another way")
    class second:
        def __init__(self):
            self.x = 1

        def double(self):
            return 2 * self.x

    @reference
    def third(variant):
        return [variant]
'''


@pytest.fixture
def attempts(tmp_path):
    path = write(tmp_path, "attempts.py", ATTEMPTS)
    return load_attempts(path, {"FROM_SETUP": 100, "torch": torch})


def test_attempts_are_read_in_order_with_what_their_decorators_say(attempts):
    assert [(a.exercise, a.kind, a.id, a.variant, a.same_as) for a in attempts] == [
        ("first", "misconception", "A01", None, None),
        ("first", "misconception", "A01", "with words", "A02"),
        ("first", "misconception", "A03", None, None),
        ("second", "alternative", None, "another way", None),
        ("third", "reference", None, None, None),
    ]
    assert [attempt.key for attempt in attempts] == [
        "A01",
        "A01 with words",
        "A03",
        "alternative another way",
        "reference",
    ]
    assert attempts[2].message == "It did that. What else?"


def test_an_attempt_uses_the_set_up_and_the_file_but_no_other_attempt(attempts):
    assert attempts[0].program(1) == 107
    assert attempts[1].program(1) == 2
    # The recursive call finds the attempt itself, not the last definition of that name.
    assert attempts[0].program(None) == float("inf")
    assert attempts[3].program().double() == 2
    assert attempts[4].program(5) == [5]


def test_an_attempts_source_is_ready_for_the_answer_cell(attempts):
    assert attempts[1].source == "def first(x):\n    return 2\n"
    assert attempts[3].source.startswith("class second:\n")
    for attempt in attempts:
        program = define(attempt.exercise, attempt.source, {"helper": abs, "FROM_SETUP": 0, "math": None})
        assert callable(program)


def test_an_attempts_place_is_told(attempts, tmp_path):
    lines = (tmp_path / "attempts.py").read_text().splitlines()
    for attempt in attempts:
        assert lines[attempt.line - 1].startswith(("def ", "class "))
        assert attempt.file == str(tmp_path / "attempts.py")


def test_an_attempt_within_a_block_is_refused(tmp_path):
    path = write(
        tmp_path,
        "attempts.py",
        """
        from autogradlab.exercises import misconception

        if True:
            @misconception("A01")
            def first(x):
                return 1
        """,
    )
    with pytest.raises(ValueError, match=r"attempts.py: 1 attempts were declared by 0 decorated definitions"):
        load_attempts(path, {})


def test_a_file_that_does_not_run_is_refused_with_its_place(tmp_path):
    path = write(tmp_path, "attempts.py", "from autogradlab.exercises import misconception\n\nmissing\n")
    with pytest.raises(NameError) as error:
        load_attempts(path, {})
    assert traceback.extract_tb(error.value.__traceback__)[-1].lineno == 3
    with pytest.raises(SyntaxError) as error:
        load_attempts(write(tmp_path, "attempts.py", "\ndef f(:\n"), {})
    assert error.value.lineno == 2


def test_decorators_outside_of_a_reading_leave_the_function_as_it_is(tmp_path):
    path = write(tmp_path, "attempts.py", ATTEMPTS)
    namespace = {"FROM_SETUP": 1}
    exec(compile(path.read_text(), str(path), "exec"), namespace)
    assert namespace["third"](3) == [3]


# ---------------------------------------------------------------------------------------------------- sources


def test_a_defined_answer_has_lines_for_its_traceback():
    program = define("f", "def f(x):\n    return x.missing\n", {})
    with pytest.raises(AttributeError) as error:
        program(1)
    frame = traceback.extract_tb(error.value.__traceback__)[-1]
    assert (frame.lineno, frame.line) == (2, "return x.missing")
    assert linecache.getline(frame.filename, 1) == "def f(x):\n"


def test_a_text_that_does_not_define_the_answer_is_refused():
    with pytest.raises(NameError, match="the answer does not define f"):
        define("f", "def g(x):\n    return x\n", {})


def test_answers_do_not_share_their_names():
    namespace = {"seed": 1}
    first = define("f", "count = 0\ndef f():\n    global count\n    count += seed\n    return count\n", namespace)
    second = define("f", "def f():\n    return 'count' in globals()\n", namespace)
    assert first() == 1 and first() == 2
    assert not second()
    assert namespace == {"seed": 1}


def test_a_stub_is_recognised_whatever_its_white_space():
    stub = "def f(x):\n    # YOUR CODE HERE\n    raise NotImplementedError()\n"
    assert stub_digest(stub) == stub_digest(stub.replace("    ", "\t") + "\n\n")
    assert stub_digest(stub) != stub_digest(stub.replace("HERE", "here"))
    assert normalised_source(" a\n\tb ") == "ab"
