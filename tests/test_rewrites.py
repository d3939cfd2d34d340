"""Rewrites: every step, wherever it offers itself, leaves what a program does as it was."""

import ast
import copy
import random

import pytest
import torch
from autogradlab.diagnosis import judge
from autogradlab.exercises import Same, define, exercise
from autogradlab.observation import observe

from autograder.kinds import annotated
from autograder.program_text import Program
from autograder.rewrite_steps import STEPS
from autograder.rewrites import Answer, mix, rewrites

ALLOW = frozenset({"clone", "in-place"})
ASPECTS = (
    "values",
    "shape",
    "dtype",
    "type",
    "requires_grad",
    "is_leaf",
    "grad_fn",
    "graph",
    "memory",
    "identity",
    "grad",
)


@exercise(
    *(Same(f"results agree in {aspect}", f"returned.{aspect}") for aspect in ASPECTS),
    *(Same(f"arguments agree in {aspect}", f"arguments.{aspect}") for aspect in (*ASPECTS, "version")),
    Same("modes agree", "mode"),
    Same("what is kept agrees", "kept"),
    Same("what is printed agrees", "printed"),
    Same("calls agree", "calls"),
    arguments=("w", "x", "items"),
)
def answer(program, case):
    w = case.normal(4, requires_grad=True)
    x = case.normal(4)
    items = [case.normal(4) for _ in range(case.integer(0, 3))]
    if case.kind % 2:
        w.grad = case.normal(4)
    case.track(w=w, x=x)
    noisy = case.counted("noisy", lambda value: value + 1)
    return {"result": program(w, x, items, noisy=noisy, steps=case.integer(1, 4), rate=case.number(0.1, 0.9))}


CORPUS = {
    "accumulates": '''
def answer(w, x, items, noisy, steps, rate):
    """The gradients of some steps."""
    gradients = []
    for _ in range(steps):
        w.grad = None
        loss = ((w * x) ** 2).sum()
        loss.backward()
        gradients.append(w.grad.clone())
    return gradients
''',
    "descends": """
def answer(w, x, items, noisy, steps, rate):
    history, total, count = [], 0.0, 0
    for i in range(1, steps + 1):
        if w.grad is not None:
            w.grad.zero_()
        loss = (w - x).square().mean()
        loss.backward()
        with torch.no_grad():
            w -= rate * w.grad / 2
            w.mul_(1.0)
        total += loss.item()
        count = count + i
        history.append((i, loss.detach()))
    return history, total, count
""",
    "branches": """
def answer(w, x, items, noisy, steps, rate):
    if steps > 2 and rate <= 0.5:
        return x.sum()
    if steps == 1 or not items:
        found = "short" if rate > 0.4 else "long"
    else:
        found = torch.add(x, w)
    if rate < 0.2:
        return found
    else:
        return [found, -x, 2 * x, x @ x]
""",
    "comprehends": """
def answer(w, x, items, noisy, steps, rate):
    norms = [one.norm().item() for one in items if one.sum() > 0]
    pairs = [(k, a * b) for k, (a, b) in enumerate(zip(items, reversed(items)))]
    squares = []
    for item in items:
        if item.mean() < 1:
            squares.append(torch.square(item))
    return norms, pairs, squares, sum(one * w for one in items)
""",
    "calls in order": """
def answer(w, x, items, noisy, steps, rate):
    seen = []

    def note(value, times=1):
        seen.append(times)
        return value * times

    first = note(3)
    second = note(noisy(first), times=2)
    shift = lambda value: value - second
    print(first, second)
    return [note(4) - note(5, 2), shift(1), seen, noisy(2) + noisy(3)]
""",
    "loops by hand": """
def answer(w, x, items, noisy, steps, rate):
    left = steps
    result = x.clone()
    while left > 0:
        left -= 1
        if left == 2:
            continue
        for one in items:
            if one.sum() < -1:
                break
            result = result + one * rate
        result.add_(left)
    text = ""
    for name, value in zip(("a", "b"), (1, 2)):
        text += name * value
    return result.detach(), left, text
""",
    "raises": """
def answer(w, x, items, noisy, steps, rate):
    try:
        noisy(1)
        torch.stack(items)
    except RuntimeError as problem:
        message = type(problem).__name__
    else:
        message = "fine"
    finally:
        w.grad = x
    if steps > 3:
        raise ValueError(message)
    return message
""",
    "computes outside of any graph": """
def answer(w, x, items, noisy, steps, rate):
    scaled = (x * rate + 1) / 4 + x
    shared = scaled.reshape((2, 2))
    other = torch.sum(shared, 0) - x.exp().sum(0)
    def twice(value, by=2):
        return value * by

    a = steps * (2 + 1)
    b = twice(rate)
    c, d = a + 1, b * 3
    low, high = sorted([c, d])
    with torch.no_grad():
        inside = w * 2
    return scaled, shared, other, inside, [low, high], {"a": a, "b": b}
""",
    "keeps state": '''
class Meter:
    """Adds up."""

    def __init__(self, start=0.0):
        self.total = start
        self.count = 0

    def add(self, value):
        self.total += value
        self.count += 1
        return self

    @property
    def mean(self):
        if self.count == 0:
            return None
        return self.total / self.count


def answer(w, x, items, noisy, steps, rate):
    meter = Meter(start=rate)
    for one in items:
        meter.add(one.sum().item())
    return meter.mean, meter.count, torch.autograd.grad((w * x).sum(), w)
''',
    "yields": """
def answer(w, x, items, noisy, steps, rate):
    def halves(values):
        for value in values:
            yield value / 2
            noisy(value)

    out = []
    for half in halves(items):
        out.append(half)
        if len(out) == 2:
            break
    return out, list(halves([x]))
""",
}
NAMES = {"torch": torch}
CASES = range(3)
PLACES = 12  # of one step in one program, that are tried


def run(text, notes):
    program = define("answer", text, NAMES | notes)
    for index in CASES:
        observe(answer, program, 0, index)


def observations(source):
    program = define("answer", source, NAMES)
    return [observe(answer, program, 0, index) for index in CASES]


@pytest.fixture(scope="module")
def expected():
    return {name: observations(source) for name, source in CORPUS.items()}


@pytest.fixture(scope="module")
def trees():
    return {name: annotated(source, run) for name, source in CORPUS.items()}


def sites(tree, step):
    return list(STEPS[step](Program(tree, random.Random(0), frozenset(), ALLOW)))


def changed(tree, step, number):
    """The program after one step at one of its places."""
    tree = copy.deepcopy(tree)
    sites(tree, step)[number]()
    return ast.unparse(ast.fix_missing_locations(tree))


@pytest.mark.parametrize("step", sorted(STEPS))
def test_a_step_changes_the_text_and_nothing_else(step, trees, expected):
    tried = 0
    for name, tree in trees.items():
        places = len(sites(tree, step))
        for number in range(0, places, max(1, places // PLACES)):
            source = changed(tree, step, number)
            tried += 1
            assert source != ast.unparse(ast.parse(CORPUS[name]))
            verdict = judge(answer, observations(source), expected[name], [])
            assert verdict.status == "right", f"{verdict.difference.words}\n{source}"
    assert tried, "no program of the corpus has a place for this step"


@pytest.mark.parametrize("name", sorted(CORPUS))
def test_composed_rewrites_do_what_the_program_does(name, expected):
    made = rewrites([Answer(name, CORPUS[name], run)], 50, seed=3, allow=ALLOW)
    assert len({one.source for one in made}) == 50
    for one in made:
        verdict = judge(answer, observations(one.source), expected[name], [])
        assert verdict.status == "right", f"{one.steps}: {verdict.difference.words}\n{one.source}"


def offered(statements, step, allow=()):
    source = f"def answer(w, x, items, noisy, steps, rate):\n    {statements}\n"
    program = Program(annotated(source, run), random.Random(0), frozenset(), frozenset(allow))
    return list(STEPS[step](program))


@pytest.mark.parametrize(
    ("statements", "step"),
    [
        # In place is not the same as anew.
        ("x += 1; return x", "assignment with operator"),
        ("x = x + 1; return x", "assignment with operator"),
        # The graph lists its inputs in order.
        ("return w + x", "commuted operands"),
        ("return noisy(1) + noisy(2)", "commuted operands"),
        # Not less is not the same as at least where there is NaN, nor for tensors.
        ("return float('nan') < rate", "comparison turned round"),
        ("return x < 1", "comparison turned round"),
        # What is evaluated first may change what is read after.
        ("return [noisy(1), noisy(2)[0:1] if 0 else 3][1:] and x", "two assignments in one"),
        ("a = noisy(1); b = noisy(2); return a, b", "lines in another order"),
        ("a = x.add_(1); b = x.sum(); return a, b", "lines in another order"),
        # A loop variable that is read later; a list that something else sees.
        ("L = []\n    for one in items: L.append(1)\n    return L, len(items) and one", "loop as comprehension"),
        ("L = []\n    for one in items: L.append(len(L))\n    return L", "loop as comprehension"),
        # `items` in the iterable is not the loop's variable.
        ("return [items for items in items]", "comprehension as loop"),
        ("for i in range(steps): yield i", "body in a function of its own"),
        ("x = 1; return x", "body in a function of its own"),
        ("return w * x", "extra clone"),
        ("return x.detach()", "extra clone"),
        ("return (w * x) / 2", "in place on a new tensor"),
        ("return x / 2", "in place on a new tensor"),
        ("torch = noisy(1); return x.sum()", "method as function"),
    ],
)
def test_a_step_keeps_away_from_what_it_would_change(statements, step):
    assert offered(statements, step, ALLOW) == []


def test_a_value_is_not_read_ahead_of_what_changes_it():
    source = "def answer(w, x, items, noisy, steps, rate):\n    return [x.add_(1).sum(), x.sum()]\n"
    tree = annotated(source, run)
    places = len(sites(tree, "intermediate variable"))
    assert places
    for number in range(places):
        assert observations(changed(tree, "intermediate variable", number)) == observations(source)


def test_copies_and_edits_in_place_need_permission():
    assert not offered("return x / 2 + 1", "extra clone")
    assert offered("return x / 2 + 1", "extra clone", {"clone"})
    assert not offered("return x / 2 + 1", "in place on a new tensor")
    assert offered("return x / 2 + 1", "in place on a new tensor", {"in-place"})


def test_without_a_run_only_the_text_is_trusted():
    assert not list(STEPS["method as function"](Program(ast.parse("def f(x):\n    return x.sum()"), random.Random(0))))


def test_names_alone_make_no_rewrite():
    made = rewrites([Answer("sum", "def answer(x):\n    total = x\n    return total\n")], 400)
    assert all(set(one.steps) != {"local name"} for one in made)


def test_no_step_brings_in_what_is_forbidden():
    source = CORPUS["accumulates"]
    made = rewrites([Answer("reference", source, run)], 100, forbidden=["torch.sum", "torch.Tensor.backward"])
    assert not any("torch.sum" in one.source or "torch.Tensor.backward" in one.source for one in made)


def test_rewrites_are_the_same_every_time_and_come_from_every_answer():
    answers = [Answer(name, CORPUS[name], run) for name in ("accumulates", "descends")]
    made = rewrites(answers, 60)
    assert made == rewrites(answers, 60)
    assert {one.answer for one in made} == {"accumulates", "descends"}


def test_no_single_step_makes_up_most_of_the_mix():
    answers = [Answer(name, source, run) for name, source in CORPUS.items()]
    counts = mix(rewrites(answers, 100))
    assert len(counts) >= 25
    assert counts["local name"] < sum(counts.values()) / 10


def test_an_index_of_slices_is_noted_around_and_not_inside():
    text = "def column(b):\n    return b[:, None], b[1:, 0]\n"

    def run(noted, names):
        namespace = dict(names)
        exec(noted, namespace)
        namespace["column"](torch.ones(3, 2))

    tree = annotated(text, run)
    kinds = [node.kinds for node in ast.walk(tree) if isinstance(node, ast.Subscript)]
    assert kinds == [{"tensor floating"}] * 2
