"""Mutants: what is changed, what is left alone, and how a mutant is found again after an edit."""

import ast

import pytest

from autograder.mutants import mutants


def changes(source: str) -> list[tuple[str, str]]:
    return [(mutant.operator, mutant.change) for mutant in mutants(source)]


def body(statement: str) -> str:
    return f"def answer(w, x, y, steps):\n    {statement}\n"


@pytest.mark.parametrize(
    ("statement", "operator", "change"),
    [
        ("return w + x", "arithmetic", "`+` became `-`"),
        ("return w @ x", "arithmetic", "`@` became `*`"),
        ("x -= y", "arithmetic", "`-=` became `+=`"),
        ("x -= y", "arithmetic", "`-=` became `=`"),
        ("return w / x", "operand", "`w / x` became `w`"),
        ("return w / x", "operand", "`w / x` became `x`"),
        ("return w < x", "comparison", "`<` became `<=`"),
        ("return w < x", "comparison", "`<` became `>=`"),
        ("return w is x", "comparison", "`is` became `is not`"),
        ("return w and x", "boolean", "`and` became `or`"),
        ("return w and x", "boolean", "`w` was dropped"),
        ("return not w", "negation", "`not w` became `w`"),
        ("return -w", "negation", "`-w` became `w`"),
        ("return 3", "number", "`3` became `4`"),
        ("return 3", "number", "`3` became `2`"),
        ("return 0.5", "number", "`0.5` became `0.0`"),
        ("return True", "bool", "`True` became `False`"),
        ("w.grad = None", "None", "`None` became `0`"),
        ("return f(reduction='sum')", "text", "`'sum'` became `'mean'`"),
        ("return w if x else y", "condition", "`w if x else y` became `w`"),
        ("if x: return w", "condition", "`x` became `not x`"),
        ("while x: y()", "condition", "`x` became `True`"),
        ("return [one for one in w if one]", "condition", "`one` became `False`"),
        ("return [one for one in w]", "loop", "`w` became `list(w)[1:]`"),
        ("w.step()", "statement", "`w.step()` was deleted"),
        ("return f(w, x)", "swap", "`f(w, x)` became `f(x, w)`"),
        ("return w, x", "swap", "`(w, x)` became `(x, w)`"),
        ("w.backward(retain_graph=True)", "keyword", "`retain_graph=True` was dropped"),
        ("return range(steps)", "range", "`range(steps)` became `range(steps + 1)`"),
        ("return range(steps)", "range", "`range(steps)` became `range(1, steps)`"),
        ("return range(1, steps)", "range", "`range(1, steps)` became `range(1, steps - 1)`"),
        ("return w[1:]", "slice", "`[1:]` became `[:]`"),
        ("return w", "return", "`return w` became `return None`"),
        ("for _ in w: break", "loop", "`break` became `continue`"),
        ("for _ in w: continue", "loop", "`continue` became `break`"),
        ("return w.detach()", "call", "`w.detach()` became `w`"),
        ("return w.detach()", "call", "`detach` became `clone`"),
        ("return w.clone()", "call", "`clone` became `detach`"),
        ("return w.item()", "call", "`w.item()` became `w`"),
        ("return torch.sum(w)", "call", "`torch.sum(w)` became `w`"),
        ("return w.mean()", "call", "`mean` became `sum`"),
        ("w.grad.zero_()", "call", "`zero_` became `detach`"),
        ("w.grad.zero_()", "statement", "`w.grad.zero_()` was deleted"),
        ("return sum(w)", "call", "`sum(w)` became `w`"),
        ("with torch.no_grad(): w()", "block", "`with torch.no_grad(): ...` was taken away from around its body"),
        ("with torch.no_grad(): w()", "call", "`no_grad` became `enable_grad`"),
    ],
)
def test_a_small_thing_is_changed(statement, operator, change):
    assert (operator, change) in changes(body(statement))


def test_defaults_decorators_and_finally_are_changed_too():
    source = """
def answer(w, steps=2):
    @torch.no_grad()
    def inner():
        try:
            w()
        finally:
            w.close()
    return inner
"""
    found = changes(source)
    assert ("number", "`2` became `3`") in found
    assert ("decorator", "`@torch.no_grad()` was dropped") in found
    assert ("block", "what stood in `finally` moved to the end of `try`") in found


def test_methods_of_a_class_are_changed_and_deleted():
    source = 'class Answer:\n    """Doc."""\n\n    def step(self):\n        self.count += 1\n'
    found = changes(source)
    assert ("arithmetic", "`+=` became `-=`") in found
    assert ("statement", "`def step(self): ...` was deleted") in found


def test_docstrings_annotations_and_messages_stay():
    source = '''
def answer(w: "tensor 1", steps: int = 1) -> "2":
    """Returns 3."""
    count: "int 4" = steps
    assert count, "at least 5"
    if w is None:
        raise ValueError("not 6")
    return f"{count} of 7"
'''
    for mutant in mutants(source):
        tree = ast.parse(mutant.source)
        assert ast.get_docstring(tree.body[0]) == "Returns 3."
        assert ast.unparse(tree.body[0].returns) == "'2'"
        for kept in ("tensor 1", "int 4", "at least 5", "not 6", "of 7"):
            if kept not in mutant.source:
                assert (mutant.operator, kept) in [
                    ("statement", "int 4"),
                    ("statement", "at least 5"),
                    ("statement", "not 6"),
                    ("return", "of 7"),
                ]


def test_a_call_between_equals_is_not_swapped():
    assert not [one for one in changes(body("return torch.equal(w, x)")) if one[0] == "swap"]
    assert not [one for one in changes(body("return isinstance(w, (int, float))")) if one[0] == "swap"]


SOURCE = """def answer(w, x):
    w.grad = None
    loss = (w * x) ** 2
    loss.backward()
    loss = (w * x) ** 2
    return w.grad.item() + 1
"""


def test_every_mutant_is_another_program_that_compiles():
    found = mutants(SOURCE)
    sources = [mutant.source for mutant in found]
    assert len(found) > 20
    assert len(set(sources)) == len(sources)
    assert ast.unparse(ast.parse(SOURCE)) not in sources
    for source in sources:
        compile(source, "<mutant>", "exec")


def test_mutants_come_in_the_same_order_every_time():
    assert mutants(SOURCE) == mutants(SOURCE)
    lines = [mutant.line for mutant in mutants(SOURCE)]
    assert lines == sorted(lines)


def test_a_mutant_names_its_line_in_the_lesson():
    mutant = next(one for one in mutants(SOURCE, first_line=40) if one.change == "`+` became `-`")
    assert (mutant.line, mutant.text) == (45, "return w.grad.item() + 1")
    assert mutant.description == "line 45: `+` became `-`"


def test_keys_are_unique_and_outlive_edits_elsewhere():
    keys = [mutant.key for mutant in mutants(SOURCE)]
    assert len(set(keys)) == len(keys)
    edited = SOURCE.replace("    w.grad = None\n", "    # cleared first\n    w.grad = None\n    x = x.clone()\n")
    assert set(keys) <= {mutant.key for mutant in mutants(edited, first_line=7)}


def test_equal_lines_are_counted():
    twice = [
        one.occurrence for one in mutants(SOURCE) if (one.text, one.change) == ("loss = (w * x) ** 2", "`*` became `/`")
    ]
    assert twice == [1, 2]


def test_a_mutation_that_python_would_warn_of_is_left_out():
    for mutant in mutants(body("return w is None")):
        assert "is 0" not in mutant.source
