"""`check` says what a learner can use, whatever the learner wrote, and is a number that nbgrader can read."""

import ast
import atexit
import html.parser
import itertools
import json
import linecache
import sys
import textwrap
import types

import pytest
import torch
from autogradlab import checking, units
from autogradlab.checking import check
from autogradlab.exercises import define, load_attempts, load_cases, stub_digest
from autogradlab.recorded import FILE, record_exercise, write
from autogradlab.requirements import Difference
from autogradlab.verdicts import MIME, NOT_JUDGED, CheckFailed, CheckResult, Told, call_lines, prose

CASES = """
import torch
from autogradlab.exercises import AtMost, Budget, Flat, Prediction, Same, exercise


@exercise(
    Same("each step returns the gradient of that step alone", "returned.gradients", weight=2),
    Same("the list holds floats", "returned.gradients.type"),
    Same("x.grad holds the last gradient too", "arguments.x.grad"),
    Flat("the memory does not grow with the steps", "cost.peak_bytes", over="steps"),
    Budget(20_000),
    arguments=("w", "x", "steps"),
    visible=3,
)
def fresh_gradients(program, case):
    w, x = case.normal(requires_grad=True), case.normal(requires_grad=True)
    return {"gradients": program(w, x, case.over("steps", case.integer(2, 3)))}


@exercise(
    Same("every reading is its own", "returned.the_readings"),
    Same("w.grad is the last one", "arguments.w.grad"),
    Same("and stays that", "returned.in_the_end"),
    arguments=("w", "factor"),
    visible=2,
)
def meter(program, case):
    w = case.normal(requires_grad=True)
    readings = [program(w, factor) for factor in (2, 3, 4)]
    return {"the_readings": readings, "in_the_end": float(w.grad)}


@exercise(Same("it counts", "returned.total"), visible=2)
def Counter(program, case):
    counter = program(case.integer(1, 5))
    counter.add(2)
    return {"total": counter.total}


@exercise(
    Prediction("the first reading", slice(0, 1)),
    Prediction("the others", slice(1, None)),
    variants=5,
)
def reading(variant):
    return f"What does w.grad hold after {variant} steps?"
"""

REFERENCES = {
    "meter": """
        def meter(w, factor):
            w.grad = None
            (factor * w).backward()
            return w.grad.item()
    """,
    "fresh_gradients": """
        def fresh_gradients(w, x, steps):
            gradients = []
            for _ in range(steps):
                w.grad = x.grad = None
                ((w * x + 1) ** 2).backward()
                gradients.append(w.grad.item())
            return gradients
    """,
    "Counter": """
        class Counter:
            def __init__(self, start):
                self.total = start

            def add(self, number):
                self.total += number
    """,
    "reading": """
        def reading(variant):
            return [variant, variant + 1, None]
    """,
}

ATTEMPTS = """
from autogradlab.exercises import misconception


@misconception("A01")
def fresh_gradients(w, x, steps):
    gradients = []
    for _ in range(steps):
        ((w * x + 1) ** 2).backward()
        gradients.append(w.grad.item())
    return gradients


@misconception("E08")
def fresh_gradients(w, x, steps):
    gradients = []
    for _ in range(steps):
        w.grad = None
        ((w * x + 1) ** 2).backward()
        gradients.append(w.grad.item())
    return gradients


@misconception("A13")
def fresh_gradients(w, x, steps):
    kept, gradients = [], []
    for _ in range(steps):
        w.grad = x.grad = None
        loss = (w * x + 1) ** 2
        loss.backward(retain_graph=True)
        kept.append(loss)
        gradients.append(w.grad.item())
    return gradients


@misconception("C01")
class Counter:
    def __init__(self, start):
        self.total = start

    def add(self, number):
        self.total = number


@misconception("A01")
def reading(variant):
    return [variant, 2 * variant + 1, None]
"""

CATALOGUE = {
    "A01": {
        "name": "never zeroes",
        "message": "The gradients of all steps were added up. What empties `w.grad` between two steps?",
        "demonstration": "90_unit#What-adds-up",
    },
    "E08": {"name": "forgets the input", "message": "x.grad was not emptied. Which tensors have a grad here?"},
    "A13": {"name": "keeps the graph", "message": "Each loss keeps its graph. Who still needs it?"},
    "C01": {"name": "overwrites", "message": "The total was replaced. Which operator adds?"},
}

STUBS = {
    "meter": "def meter(w, factor):\n    raise NotImplementedError()\n",
    "fresh_gradients": "def fresh_gradients(w, x, steps):\n    # YOUR CODE HERE\n    raise NotImplementedError()\n",
    "Counter": "class Counter:\n    def __init__(self, start):\n        raise NotImplementedError()\n",
    "reading": "def reading():\n    variant = 0\n    # YOUR CODE HERE\n    raise NotImplementedError()\n",
}


class Notebook:
    """Runs cells as IPython does: each has a file of its own, and shows its last expression."""

    numbers = itertools.count()

    def __init__(self):
        self.names = {"check": check, "torch": torch, "__name__": "__main__"}

    def run(self, source):
        source = textwrap.dedent(source)
        file = f"/tmp/ipykernel_1/{next(self.numbers)}.py"
        linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
        tree = ast.parse(source)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, file, "exec"), self.names)
        return eval(compile(ast.Expression(last.value), file, "eval"), self.names) if last else None

    def check(self, name="fresh_gradients"):
        return self.run(f"check({name!r})")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("90_unit")
    (folder / "cases.py").write_text(CASES)
    (folder / "attempts.py").write_text(ATTEMPTS)
    exercises, attempts = load_cases(folder / "cases.py"), load_attempts(folder / "attempts.py", {"torch": torch})
    records = {}
    for name, source in REFERENCES.items():
        program = define(name, textwrap.dedent(source), {"torch": torch})
        records[name] = record_exercise(exercises[name], program, attempts, CATALOGUE, 3.0, stub_digest(STUBS[name]))
    (folder / FILE).write_bytes(write("90_unit", records))
    return folder


@pytest.fixture
def notebook(folder, monkeypatch):
    monkeypatch.setattr(checking, "_told", {})
    monkeypatch.delenv("NBGRADER_EXECUTION", raising=False)
    with units.at("90_unit", folder):
        units.unit("90_unit")
        yield Notebook()


@pytest.fixture(autouse=True)
def nothing_on_stderr(capfd):
    """To nbgrader, one character on stderr makes a test cell worth nothing."""
    yield
    assert capfd.readouterr().err == ""


RIGHT = REFERENCES["fresh_gradients"]
ADDING = RIGHT.replace("                w.grad = x.grad = None\n", "")
FORGETTING = RIGHT.replace("w.grad = x.grad = None", "w.grad = None")


# ------------------------------------------------------------------------------------------------ the verdicts


def test_a_right_answer_earns_its_points_and_says_so(notebook):
    notebook.run(RIGHT)
    result = notebook.check()
    assert result == 3.0
    assert result.text == textwrap.dedent("""\
        fresh_gradients: right, 3 of 3 points.
          met     each step returns the gradient of that step alone
          met     the list holds floats
          met     x.grad holds the last gradient too
          met     the memory does not grow with the steps""")
    record = result.record
    assert (record["status"], record["score"], record["points"]) == ("right", 3.0, 3.0)
    assert (record["misconceptions"], record["unexplained"], record["case"], record["raised"]) == ([], [], None, None)


def test_another_right_answer_is_right_too(notebook):
    notebook.run("""
        def gradient(w, x):
            w.grad, x.grad = torch.autograd.grad((w * x + 1).pow(2), [w, x])
            return float(w.grad)

        fresh_gradients = lambda w, x, steps: [gradient(w, x) for _ in range(steps)]
    """)
    assert notebook.check() == 3.0


def test_a_wrong_answer_shows_its_smallest_case(notebook):
    notebook.run(ADDING)
    result = notebook.check()
    assert result == 0.0
    lines = result.text.splitlines()
    assert lines[:5] == [
        "fresh_gradients: not right yet, 0 of 3 points.",
        "  missed  each step returns the gradient of that step alone",
        "  met     the list holds floats",
        "  not judged while the first is missed: x.grad holds the last gradient too",
        "  met     the memory does not grow with the steps",
    ]
    assert lines[6] == "The smallest case that shows it:"
    assert lines[7].startswith("fresh_gradients(w=tensor(") and lines[7].endswith("steps=2)")
    assert lines[8].startswith("gradients[1] is ") and ", expected " in lines[8]
    assert lines[9] == f"  yours:    {result.record['case']['yours']}"
    assert lines[10] == f"  expected: {result.record['case']['expected']}"
    assert lines[12:] == ["What in your code makes that difference?"]
    assert [(m["id"], m["explains"]) for m in result.record["misconceptions"]] == [("A01", [0, 2])]


def test_a_partly_right_answer_earns_its_share(notebook):
    notebook.run(FORGETTING)
    result = notebook.check()
    assert result == pytest.approx(2.4)
    assert repr(result) == "2.4"
    assert result.record["status"] == "partly"
    assert result.text.startswith("fresh_gradients: partly right, 2.4 of 3 points.")


def test_a_cost_alone_is_named(notebook):
    notebook.run("""
        kept = []

        def fresh_gradients(w, x, steps):
            gradients = []
            for _ in range(steps):
                w.grad = x.grad = None
                kept.append((w * x + 1) ** 2)
                kept[-1].backward(retain_graph=True)
                gradients.append(w.grad.item())
            return gradients
    """)
    result = notebook.check()
    assert [(m["id"], m["explains"]) for m in result.record["misconceptions"]] == [("A13", [3])]
    assert " → " in result.record["case"]["difference"]


def test_an_unknown_mistake_is_not_named(notebook):
    notebook.run("def fresh_gradients(w, x, steps):\n    return [1.5] * steps\n")
    result = notebook.check()
    assert result.record["misconceptions"] == []
    assert result.record["unexplained"] == [0]


def test_a_class_is_checked(notebook):
    notebook.run(REFERENCES["Counter"])
    assert notebook.check("Counter") == 3.0
    notebook.run(REFERENCES["Counter"].replace("+=", "="))
    result = notebook.check("Counter")
    assert result.record["misconceptions"][0]["id"] == "C01"
    assert result.record["case"]["call"] == ""


def test_where_calls_are_many_the_one_that_differs_is_shown(notebook):
    notebook.run(REFERENCES["meter"].replace("factor * w", "min(factor, 3) * w"))
    result = notebook.check("meter")
    lines = result.record["case"]["call"].splitlines()
    assert lines[0] == "call 3 of 3:" and len(lines) == 2
    assert lines[1].startswith("meter(w=tensor(") and lines[1].endswith(", factor=4)")
    assert result.record["case"]["difference"] == "[2] of the readings is 3.0, expected 4.0"


def test_the_call_after_which_an_argument_differs_is_shown(notebook):
    notebook.run(
        REFERENCES["meter"].replace("return w.grad.item()", "found = w.grad.item(); w.grad *= factor; return found")
    )
    case = notebook.check("meter").record["case"]
    assert case["difference"].startswith("w.grad after call 1 is 4.0, expected 2.0")
    assert case["call"].startswith("call 1 of 3:\nmeter(w=")


def test_the_call_that_raises_is_shown(notebook):
    notebook.run("def meter(w, factor):\n    (w * factor).backward()\n    return 6 / (factor - 3)\n")
    case = notebook.check("meter").record["case"]
    assert case["call"].startswith("call 2:\n") and case["call"].endswith(", factor=3)")


def test_the_call_is_that_of_the_longest_known_part_in_which_the_difference_lies():
    shown = {"raised": None, "texts": [f"meter({number})" for number in range(4)], "call_count": 4}
    shown["sources"] = {"found": 0, "found['a']": 1, "found['a'][1]": 2, "founded": 3}

    def line(result, path):
        difference = Difference("it differs", "1", "2", path)
        difference.result = result
        return call_lines(shown, difference).splitlines()[-1]

    places = (("found", "['a'][1][0]"), ("found", "['a'][10]"), ("found", "['b']"), ("found", ".grad"), ("founded", ""))
    assert [line(*place) for place in places] == ["meter(2)", "meter(1)", "meter(0)", "meter(0)", "meter(3)"]
    assert line("foundation", "") == "meter(3)" and call_lines(shown, Difference("", "", "")).startswith("meter(0)")


def test_where_nobody_knows_which_call_it_was_all_are_shown():
    shown = {"raised": None, "texts": ["meter(1)", "meter(2)"], "call_count": 2, "sources": {}}
    assert call_lines(shown, Difference("it differs", "1", "2")) == "meter(1)\nmeter(2)"
    many = shown | {"texts": [f"meter({number})" for number in range(64)], "call_count": 70}
    assert call_lines(many, Difference("it differs", "1", "2")).splitlines()[-2:] == ["meter(7)", "… 62 calls more …"]


def test_while_the_first_is_missed_what_a_second_mistake_of_its_own_misses_is_told(notebook):
    notebook.run("""
        kept = []

        def fresh_gradients(w, x, steps):
            gradients = []
            for _ in range(steps):
                kept.append((w * x + 1) ** 2)
                kept[-1].backward(retain_graph=True)
                gradients.append(w.grad.item())
            return gradients
    """)
    rows = notebook.check().record["requirements"]
    assert [(row["met"], row["judged"]) for row in rows] == [(False, True), (True, True), (False, False), (False, True)]


def test_an_answer_that_cannot_be_used_is_judged_by_nothing_but_the_first(notebook):
    notebook.run("fresh_gradients = 3")
    rows = notebook.check().record["requirements"]
    assert [(row["met"], row["judged"]) for row in rows] == [(False, True)] + [(False, False)] * 3


# ------------------------------------------------------------------------------------------------ not attempted


@pytest.mark.parametrize("name", STUBS)
def test_the_stub_is_not_attempted(notebook, name):
    notebook.run(STUBS[name].replace("    ", "  ") + "\n")
    result = notebook.check(name)
    assert result == 0.0
    assert result.record["status"] == "not attempted"
    assert result.text == (
        f"{name}: not attempted yet, 0 of 3 points.\n\nWrite your answer in the cell above, run it, then check again."
    )


def test_a_class_of_static_methods_alone_is_found_in_its_cell(notebook):
    source = "class Counter:\n    @staticmethod\n    def add(number):\n        return number\n"
    notebook.run(source)
    assert checking.answer_source(notebook.names["Counter"]) == source


def test_an_answer_that_was_never_run_is_not_attempted(notebook):
    result = notebook.check()
    assert result.record["status"] == "not attempted"
    assert "fresh_gradients is not defined yet. Run the cell that defines it, then check again." in result.text


def test_a_stub_with_one_line_more_is_attempted(notebook):
    notebook.run(STUBS["fresh_gradients"].replace("    raise", "    w.grad = None\n    raise"))
    result = notebook.check()
    assert result.record["status"] == "wrong"
    assert (
        "The line that raises NotImplementedError is still in your answer. What should stand in its place?"
        in result.text
    )


def test_an_exercise_that_is_not_there_is_named(notebook):
    with pytest.raises(
        LookupError, match=r"unit 90_unit has no exercise 'fresh_gradient'\. Did you mean 'fresh_gradients'\?"
    ):
        notebook.check("fresh_gradient")
    with pytest.raises(LookupError, match="It has Counter, fresh_gradients, meter, reading"):
        notebook.check(7)


def test_a_record_that_is_missing_is_named(notebook, folder, tmp_path):
    (tmp_path / "cases.py").write_text(CASES)
    with units.at("90_unit", tmp_path):
        units.unit("90_unit")
        with pytest.raises(units.UnitNotFound, match=r"recorded\.bin of unit 90_unit is not in"):
            notebook.check()


# ------------------------------------------------------------------------------------------------ odd answers


def test_a_name_that_was_used_again_is_told(notebook):
    notebook.run(RIGHT)
    notebook.run(
        "fresh_gradients = fresh_gradients(torch.ones(1, requires_grad=True), torch.ones(1, requires_grad=True), 1)"
    )
    result = notebook.check()
    assert result.record["status"] == "wrong"
    assert (
        "fresh_gradients is [4.0] here, so it cannot be called. Does a later line use the same name for something else?"
        in result.text
    )


GOOD_FORMS = {
    "wraps": "import functools\n"
    "def twice(f):\n"
    "    @functools.wraps(f)\n"
    "    def wrapped(*args):\n"
    "        return f(*args)\n"
    "    return wrapped\n"
    "fresh_gradients = twice(fresh_gradients)",
    "no wraps": "fresh_gradients = (lambda f: lambda *args: f(*args))(fresh_gradients)",
    "callable object": "class Answer:\n"
    "    def __call__(self, w, x, steps):\n"
    "        return right(w, x, steps)\n"
    "right, fresh_gradients = fresh_gradients, Answer()",
    "partial": "import functools\nfresh_gradients = functools.partial(fresh_gradients)",
    "staticmethod": "fresh_gradients = staticmethod(fresh_gradients)",
    "bound method": "class Answer:\n"
    "    def method(self, w, x, steps):\n"
    "        return right(w, x, steps)\n"
    "right, fresh_gradients = fresh_gradients, Answer().method",
    "printing": "import sys, warnings\n"
    "def fresh_gradients(w, x, steps, right=fresh_gradients):\n"
    "    print('to you'); print('to nobody', file=sys.stderr); warnings.warn('beware'); sys.stderr.write('x')\n"
    "    return right(w, x, steps)",
    "untidy": "def fresh_gradients(w, x, steps, right=fresh_gradients):\n"
    "    result = right(w, x, steps)\n"
    "    torch.set_default_dtype(torch.float64); torch.set_grad_enabled(False); torch.manual_seed(1)\n"
    "    return result",
}


@pytest.mark.parametrize("form", GOOD_FORMS)
def test_a_right_answer_in_an_odd_form_is_right(notebook, form, capfd):
    notebook.run(RIGHT)
    notebook.run(GOOD_FORMS[form])
    assert notebook.check() == 3.0
    assert capfd.readouterr() == ("", "")
    assert torch.get_default_dtype() is torch.float32 and torch.is_grad_enabled()


@pytest.mark.filterwarnings("error")
def test_a_dirty_session_makes_no_answer_wrong(notebook):
    notebook.run(RIGHT)
    torch.set_grad_enabled(False)
    torch.set_default_dtype(torch.float64)
    try:
        with torch.device("meta"):
            assert notebook.check() == 3.0
            notebook.run(FORGETTING)
            assert notebook.check() == pytest.approx(2.4)
    finally:
        torch.set_grad_enabled(True)
        torch.set_default_dtype(torch.float32)


EVIL = """
class Evil:
    def __repr__(self): raise SystemError("repr")
    def __eq__(self, other): raise SystemError("eq")
    def __bool__(self): raise SystemError("bool")
    def __getattr__(self, name): raise SystemError(name)
    __hash__ = None

class Everything:
    def __getattr__(self, name): return self
    def __call__(self, *args): return self
    def __iter__(self): return iter([self])
    def __len__(self): return 1

class Odd(torch.Tensor):
    @property
    def shape(self): raise SystemExit

cycle = []; cycle.append(cycle)
"""

BAD_BODIES = {
    "pass": "pass",
    "exit": "raise SystemExit",
    "quit": "import sys; sys.exit('bye')",
    "base exception": "raise BaseException('x')",
    "generator exit": "raise GeneratorExit",
    "wrong number of arguments": "return fresh_gradients(w)",
    "name error": "return undefined",
    "evil": "return [Evil()] * steps",
    "evil alone": "return Evil()",
    "everything": "return Everything()",
    "odd tensor": "return w.detach().as_subclass(Odd)",
    "cycle": "return cycle",
    "huge": "return torch.ones(1).expand(10**13)",
    "long": "return [0.0] * 1_000_000",
    "meta": "return torch.ones(steps, device='meta')",
    "sparse": "return torch.eye(steps).to_sparse()",
    "generator": "yield from range(steps)",
    "itself": "return fresh_gradients",
    "recursion": "return fresh_gradients(w, x, steps)",
    "endless": "while True: pass",
    "swallowing": "while True:\n        try:\n            w.add(1)\n        except: pass",
    "cleared": "globals().clear()",
    "deep": "y = [];\n    for _ in range(500): y = [y]\n    return y",
    "nan": "return [float('nan')] * steps",
    "mutating": "w.data.zero_(); x.data = torch.ones(3); return [0.0] * steps",
    "text": "return 'x' * 10_000_000",
    "warning": "import warnings; warnings.warn('w'); raise UserWarning('shown')",
}


@pytest.mark.parametrize("body", BAD_BODIES)
def test_a_wrong_answer_of_any_kind_is_told_and_never_breaks_the_check(notebook, body, capfd):
    notebook.run(EVIL)
    notebook.run(f"def fresh_gradients(w, x, steps):\n    {BAD_BODIES[body]}\n")
    for _ in range(3):
        result = notebook.names["check"]("fresh_gradients") if body != "cleared" else run_check(notebook)
    assert result.record["status"] == "wrong"
    assert len(result.text) < 6000
    assert result.record["misconceptions"] == []
    assert json.loads(json.dumps(result.record)) == result.record
    assert capfd.readouterr() == ("", "")
    assert sys.gettrace() is None or "coverage" in sys.modules


def run_check(notebook):
    """Checks in a notebook whose names a program has thrown away."""
    program = define("fresh_gradients", "def fresh_gradients(w, x, steps):\n    globals().clear()\n", {})
    notebook.names.update(check=check, __name__="__main__", fresh_gradients=program)
    return notebook.check()


@pytest.fixture(autouse=True)
def names_of_the_caller(monkeypatch):
    """Direct calls from these tests look names up in the notebook at hand."""
    original = checking._namespace

    def namespace():
        frame = sys._getframe(2)
        while frame is not None and "notebook" not in frame.f_locals:
            frame = frame.f_back
        return frame.f_locals["notebook"].names if frame else original()

    monkeypatch.setattr(checking, "_namespace", namespace)


def test_the_words_for_an_exception_show_the_call_and_the_learners_lines(notebook):
    notebook.run("""
        def helper(w):
            return w.grad.zero_()

        def fresh_gradients(w, x, steps):
            helper(w)
    """)
    result = notebook.check()
    paragraphs = result.text.split("\n\n")
    case = paragraphs[1].splitlines()
    assert case[0] == "The smallest case that shows it:"
    assert case[1].startswith("fresh_gradients(w=tensor(")
    assert case[2:] == [
        "raised AttributeError: 'NoneType' object has no attribute 'zero_'",
        "your code, line 6, in fresh_gradients",
        "    helper(w)",
        "your code, line 3, in helper",
        "    return w.grad.zero_()",
    ]
    assert result.record["raised"] == {
        "type": "AttributeError",
        "message": "'NoneType' object has no attribute 'zero_'",
        "traceback": "\n".join(case[3:]),
    }


def test_none_asks_about_return(notebook):
    notebook.run(RIGHT.replace("            return gradients\n", ""))
    result = notebook.check()
    assert result.text.endswith("fresh_gradients returned None. Is a return missing?")
    assert "gradients is None, expected a list" in result.text


def test_a_bound_on_steps_is_told(notebook):
    notebook.run("def fresh_gradients(w, x, steps):\n    while True:\n        pass\n")
    result = notebook.check()
    assert "raised StepLimit: more than 20000 steps\nyour code, line 3, in fresh_gradients\n    pass\n\n" in result.text


def test_a_case_that_cannot_go_on_is_told(notebook):
    notebook.run("class Counter:\n    def __init__(self, start):\n        self.total = start\n")
    result = notebook.check("Counter")
    assert "raised AttributeError: 'Counter' object has no attribute 'add'" in result.text
    assert "The case could not go on with what your code returned." in result.text


def test_an_interrupt_reaches_the_notebook(notebook):
    notebook.run("def fresh_gradients(w, x, steps):\n    raise KeyboardInterrupt\n")
    with pytest.raises(KeyboardInterrupt):
        notebook.check()
    assert torch.is_grad_enabled()


# ------------------------------------------------------------------------------------------------ predictions


def test_a_right_prediction_is_right(notebook):
    notebook.run("def reading():\n    variant = 3\n    return variant, [3, '4', None]\n")
    result = notebook.check("reading")
    assert (result, result.record["status"]) == (3.0, "right")


def test_a_wrong_prediction_is_named_without_its_answers(notebook):
    notebook.run("def reading():\n    return 3, [3, 7, None]\n")
    result = notebook.check("reading")
    assert result == 1.5
    assert result.record["misconceptions"][0]["id"] == "A01"
    assert "\n\nFor variant 3:\n1 of your 3 answers is not what happens: number 2\n" in result.text
    assert result.record["case"]["yours"] == "answer 2: 7"
    assert "expected: what running it shows" in result.text
    assert result.text.endswith("\n\nWhat did you expect to happen there, and why?") and "code" not in result.text


def test_every_answer_that_is_wrong_is_named_whichever_requirement_it_belongs_to(notebook):
    notebook.run("def reading():\n    return 3, [9, 9, 9]\n")
    result = notebook.check("reading")
    assert "3 of your 3 answers are not what happens: numbers 1, 2 and 3\n" in result.text
    assert result.record["case"]["yours"] == "answer 1: 9; answer 2: 9; answer 3: 9"
    assert [(row["met"], row["judged"]) for row in result.record["requirements"]] == [(False, True)] * 2


def test_answers_that_nobody_can_count_leave_the_other_rows_open(notebook):
    notebook.run("def reading():\n    return 3, [3]\n")
    rows = notebook.check("reading").record["requirements"]
    assert [(row["met"], row["judged"]) for row in rows] == [(False, True), (False, False)]


UNUSABLE = {
    "return [3, 4]": "reading() returned [3, 4]; it should return variant, answers, where variant is a whole number "
    "from 0 to 4 and answers is a list. What does its last line return?",
    "pass": "reading() returned None; it should return variant, answers",
    "return 3, 4": "reading() returned (3, 4); it should return variant, answers",
    "return True, [3]": "reading() returned (True, [3]); it should return variant, answers",
    "return 9, [3]": "There is no variant 9; choose a whole number from 0 to 4. Which one is yours?",
    "return -1, [3]": "There is no variant -1; choose a whole number from 0 to 4. Which one is yours?",
    "return 3, [3, {}, 1]": "A value of type dict is no answer to a prediction; use numbers, None, True, False, text "
    "or lists of those. Which of your answers is it?",
    "return 3, [cycle, 1, 1]": "A list that holds itself is no answer to a prediction. Which of your answers is it?",
    "return 3, [Evil(), 1, 1]": "A value of type Evil is no answer to a prediction",
    "raise ValueError('x')": "reading() raised ValueError: x. Which line of it did that?",
    "raise SystemExit": "reading() raised SystemExit. Which line of it did that?",
    "return undefined": "reading() raised NameError: name 'undefined' is not defined. Which line of it did that?",
    "return 3, [...]": "A value of type ellipsis is no answer to a prediction",
}


@pytest.mark.parametrize("body", UNUSABLE)
def test_a_prediction_that_cannot_be_read_says_why(notebook, body):
    notebook.run(EVIL)
    notebook.run(f"def reading():\n    {body}\n")
    result = notebook.check("reading")
    assert result.record["status"] == "wrong" and result == 0.0
    assert UNUSABLE[body] in result.text
    assert [requirement["met"] for requirement in result.record["requirements"]] == [False, False]


def test_a_prediction_prints_nothing_and_leaves_nothing(notebook, capfd):
    notebook.run("""
        def reading():
            import sys
            print("out"); print("err", file=sys.stderr)
            torch.set_grad_enabled(False)
            return 3, [3, 4, None]
    """)
    assert notebook.check("reading") == 3.0
    assert capfd.readouterr() == ("", "")
    assert torch.is_grad_enabled()


def test_too_few_answers_are_counted(notebook):
    notebook.run("def reading():\n    return 3, [3]\n")
    assert "there is 1 answer, expected 3" in notebook.check("reading").text


# ------------------------------------------------------------------------------------------------ pacing


def told(result):
    return result.text.split("\n\n")[2:]


def test_the_same_behaviour_is_told_more_of_each_time(notebook):
    notebook.run(ADDING)
    assert told(notebook.check()) == ["What in your code makes that difference?"]
    notebook.run(ADDING.replace("gradients", "grads").replace("fresh_grads", "fresh_gradients"))
    assert told(notebook.check()) == ["What empties `w.grad` between two steps?"]
    message = "The gradients of all steps were added up. What empties `w.grad` between two steps?"
    for _ in range(2):
        result = notebook.check()
        assert told(result) == [message, "Shown in “What adds up”."]
        assert "<a href='90_unit.ipynb#What-adds-up' style='text-decoration:underline'>What adds up</a>." in result.html


def test_a_demonstration_in_another_unit_is_named_with_its_unit():
    candidate = types.SimpleNamespace(see="03_graph#One-step-too-many")
    verdict = types.SimpleNamespace(diagnosis=[(candidate, [0])])
    place, words = Told(unit="05_sums", exercise=None, points=1)._link(verdict)
    assert (place, words) == ("../03_graph/03_graph.ipynb#One-step-too-many", "One step too many (unit 3)")


def test_a_demonstration_that_the_learner_has_not_come_to_is_not_named():
    def link(*places):
        diagnosis = [(types.SimpleNamespace(see=place), [0]) for place in places]
        return Told(unit="03_graph", exercise=None, points=1)._link(types.SimpleNamespace(diagnosis=diagnosis))

    assert link("05_sums#Later") is None
    assert link("05_sums#Later", "03_graph#Here") == ("03_graph.ipynb#Here", "Here")


def test_another_behaviour_begins_again(notebook):
    for source in (ADDING, FORGETTING, ADDING, RIGHT, ADDING):
        notebook.run(source)
        result = notebook.check()
        assert told(result) == ([] if source == RIGHT else ["What in your code makes that difference?"])


def test_exercises_are_paced_apart(notebook):
    notebook.run(ADDING)
    notebook.check()
    notebook.run(REFERENCES["Counter"])
    notebook.check("Counter")
    assert told(notebook.check()) == ["What empties `w.grad` between two steps?"]


def test_what_nothing_explains_stays_a_question(notebook):
    notebook.run("def fresh_gradients(w, x, steps):\n    return [1.5] * steps\n")
    for _ in range(4):
        assert told(notebook.check()) == ["What in your code makes that difference?"]


def test_in_grading_all_is_told_at_once(notebook, monkeypatch):
    monkeypatch.setenv("NBGRADER_EXECUTION", "autograde")
    notebook.run(ADDING)
    assert "The gradients of all steps were added up." in notebook.check().text


def test_the_behaviour_is_the_same_however_often_it_was_told(notebook):
    notebook.run(ADDING)
    behaviours = {notebook.check().record["behaviour"] for _ in range(3)}
    assert len(behaviours) == 1
    notebook.run(FORGETTING)
    assert notebook.check().record["behaviour"] not in behaviours


# ------------------------------------------------------------------------------------------------ what it shows


def test_the_result_is_a_number_with_three_forms(notebook):
    notebook.run(FORGETTING)
    result = notebook.check()
    assert isinstance(result, float) and isinstance(result, CheckResult)
    bundle = result._repr_mimebundle_()
    assert set(bundle) == {"text/plain", "text/html", MIME}
    assert float(bundle["text/plain"]) == 2.4 and bundle["text/plain"] == "2.4"
    assert result + 1 == pytest.approx(3.4)


def test_the_record_is_complete_and_plain(notebook):
    notebook.run(ADDING)
    record = notebook.check().record
    assert json.loads(json.dumps(record)) == record
    assert set(record) == {
        "answer",
        "version",
        "unit",
        "exercise",
        "prediction",
        "status",
        "score",
        "points",
        "refereed",
        "seed",
        "requirements",
        "misconceptions",
        "unexplained",
        "case",
        "raised",
        "behaviour",
        "text",
    }
    assert (record["version"], record["unit"], record["exercise"]) == (1, "90_unit", "fresh_gradients")
    assert (record["refereed"], record["seed"]) == (False, 0)
    assert record["requirements"][0] == {
        "words": "each step returns the gradient of that step alone",
        "weight": 2,
        "met": False,
        "judged": True,
        "gate": True,
    }
    assert [(row["met"], row["judged"]) for row in record["requirements"]] == [
        (False, True),
        (True, True),
        (False, False),
        (True, True),
    ]
    assert [requirement["gate"] for requirement in record["requirements"]] == [True, False, False, False]
    assert set(record["case"]) == {"index", "call", "yours", "expected", "difference"}
    assert record["misconceptions"][0] == {
        "id": "A01",
        "name": "never zeroes",
        "message": CATALOGUE["A01"]["message"],
        "explains": [0, 2],
    }


class Nesting(html.parser.HTMLParser):
    """Checks that tags close in order, and collects the text."""

    def __init__(self):
        super().__init__()
        self.open, self.text, self.tags = [], [], []

    def handle_starttag(self, tag, attributes):
        assert not (tag in ("p", "pre", "table", "details") and "p" in self.open), f"{tag} inside p"
        self.open.append(tag)
        self.tags.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def parsed(page):
    parser = Nesting()
    parser.feed(page)
    parser.close()
    assert parser.open == []
    return parser


@pytest.mark.parametrize("source", [RIGHT, ADDING, FORGETTING, STUBS["fresh_gradients"], "fresh_gradients = 3"])
def test_the_page_nests_and_says_everything_that_the_text_says(notebook, source):
    notebook.run(source)
    for _ in range(3):
        result = notebook.check()
        parser = parsed(result.html)
        said = " ".join("".join(parser.text).split())
        for line in result.text.splitlines():
            words = line.replace("  missed  ", "").replace("  met     ", "").strip()
            state, _, requirement = words.partition(": ")
            if state == NOT_JUDGED:
                assert f"{requirement} {state}" in " ".join(parser.text)
            else:
                assert " ".join(words.split()) in said
        headers = [attributes for tag, attributes in parser.tags if tag == "th"]
        assert all(attributes["scope"] in ("row", "col") for attributes in headers)
        assert not any("color" in attributes.get("style", "") for _, attributes in parser.tags)


def test_what_a_learner_wrote_is_text_and_nothing_else(notebook):
    notebook.run("""
        class Name(str):
            pass

        def fresh_gradients(w, x, steps):
            raise ValueError("<script>alert('&')</script> </pre></details><img src=x onerror=alert(1)> \\x1b[31m")
    """)
    result = notebook.check()
    assert "<script" not in result.html and "<img" not in result.html
    parser = parsed(result.html)
    assert {tag for tag, _ in parser.tags} <= {
        "div", "p", "strong", "table", "thead", "tbody", "tr", "th", "td", "pre", "details", "summary", "a",
    }  # fmt: skip
    assert "<script>alert('&')</script>" in "".join(parser.text)


def test_validate_raises_the_text_alone(notebook, monkeypatch):
    monkeypatch.setenv("NBGRADER_EXECUTION", "validate")
    notebook.run(RIGHT)
    assert notebook.check() == 3.0
    for source in (ADDING, FORGETTING, STUBS["fresh_gradients"]):
        notebook.run(source)
        with pytest.raises(CheckFailed) as error:
            notebook.check()
        assert str(error.value).startswith("fresh_gradients: ")
        assert error.value._render_traceback_() == [str(error.value)]


def test_a_release_that_was_replaced_is_read_anew(notebook, folder, tmp_path):
    notebook.run(RIGHT)
    assert notebook.check() == 3.0
    (tmp_path / "cases.py").write_text(CASES)
    exercises = load_cases(tmp_path / "cases.py")
    program = define("fresh_gradients", textwrap.dedent(ADDING), {"torch": torch})
    record = record_exercise(exercises["fresh_gradients"], program, [], {}, 1.0, "")
    (tmp_path / FILE).write_bytes(write("90_unit", {"fresh_gradients": record}))
    with units.at("90_unit", tmp_path):
        units.unit("90_unit")
        assert notebook.check() == 0.0
        notebook.run(ADDING)
        assert notebook.check() == 1.0


# ------------------------------------------------------------------------------------------------ in IPython


@pytest.fixture
def shell():
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    main = sys.modules["__main__"]  # a shell puts a module of its own there, which no other process can be started from
    shell = InteractiveShell(config=Config(HistoryManager={"enabled": False}))
    shell.displayed = []
    shell.display_formatter.active_types = ["text/plain", "text/html", MIME]
    yield shell
    sys.modules["__main__"] = main
    shell.atexit_operations()
    atexit.unregister(shell.atexit_operations)


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning")
def test_in_ipython_names_are_the_notebooks_and_the_traceback_is_the_message(
    notebook, shell, monkeypatch, capfd, names_of_the_caller
):
    monkeypatch.undo()
    shell.run_cell("from autogradlab import check\nimport torch")
    shell.run_cell(textwrap.dedent(ADDING))
    result = shell.run_cell("check('fresh_gradients')").result
    assert result == 0.0
    data, _ = shell.display_formatter.format(result)
    assert data["text/plain"] == "0"
    assert data["text/html"] == result.html and data[MIME] == result.record
    capfd.readouterr()
    monkeypatch.setenv("NBGRADER_EXECUTION", "validate")
    shell.run_cell("check('fresh_gradients')")
    shown = capfd.readouterr()
    assert shown.out.strip().startswith("fresh_gradients: not right yet, 0 of 3 points.")
    assert "Traceback" not in shown.out and shown.err == ""
    shell.run_cell(STUBS["fresh_gradients"])
    monkeypatch.delenv("NBGRADER_EXECUTION")
    assert shell.run_cell("check('fresh_gradients')").result.record["status"] == "not attempted"


def test_what_stands_in_backticks_is_code_on_the_page_and_the_rest_is_text():
    assert prose("after the call `w.grad` is <b>") == "after the call <code>w.grad</code> is &lt;b&gt;"
