"""The graph as data, as a picture and during a backward, against what the programs that made it know."""

import base64
import contextlib
import copy
import doctest
import errno
import gc
import html.parser
import os
import re
import shutil
import subprocess
import sys
import weakref
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
import torch
from autogradlab import graph as graphs
from autogradlab import observation
from autogradlab.graph import drawing, player, rendering, structure
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.checkpoint import checkpoint

DOCS = Path(__file__).parents[1] / "docs"
SVG = "{http://www.w3.org/2000/svg}"


def tracked(value=2.0):
    return torch.tensor(value, requires_grad=True)


def example():
    """The lesson's own: `(w*x + 1)**2` at x = 3 and w = 2."""
    w, x = tracked(2.0), tracked(3.0)
    z = w * x + 1
    return {"w": w, "x": x, "z": z, "loss": z**2}


class Page(html.parser.HTMLParser):
    """The elements of an output, and its words."""

    def __init__(self, source):
        super().__init__()
        self.elements, self.words = [], ""
        self.feed(source)

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))

    def handle_data(self, data):
        self.words += data

    def images(self):
        return [attributes for tag, attributes in self.elements if tag == "img"]


def svg(of):
    """The picture as a tree."""
    return ElementTree.fromstring(rendering.svg(of.source))


def words_in(tree):
    words = [element.text.replace("\xa0", " ").strip() for element in tree.iter(f"{SVG}text")]
    return [word for word in words if word]


# --------------------------------------------------------------------------------- random programs and what they make


class Two(torch.autograd.Function):
    """Two inputs, two outputs: their product and their sum."""

    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return a * b, a + b

    @staticmethod
    def backward(ctx, product, total):
        a, b = ctx.saved_tensors
        return product * b + total, product * a + total


OPERATIONS = [
    "add",
    "mul",
    "square",
    "exp",
    "double",
    "constant",
    "clone",
    "detach",
    "split",
    "unbind",
    "custom",
    "checkpoint",
]
programs = st.tuples(
    st.lists(st.booleans(), min_size=2, max_size=4).filter(any),  # leaves, tracked or not
    st.lists(st.tuples(st.sampled_from(OPERATIONS), st.integers(0, 30), st.integers(0, 30)), min_size=1, max_size=14),
)


class Program:
    """Runs a program, and writes down which nodes and edges it makes, without asking autograd."""

    def __init__(self, program):
        leaves, operations = program
        torch.manual_seed(0)
        self.nodes, self.values, self.sources = [], [], []
        for flag in leaves:
            value = (0.2 + torch.rand(2)).requires_grad_(flag)
            self._add(value, self._node(("AccumulateGrad", [])) if flag else None)
        self.leaves = [value for value in self.values if value.requires_grad]
        for operation, a, b in operations:
            self._apply(operation, a % len(self.values), b % len(self.values))
        # A sum of everything, so that all of it is reached.
        total, source = self.values[0], self.sources[0]
        for value, other in zip(self.values[1:], self.sources[1:]):
            total, source = total + value, self._made("AddBackward0", source, other)
        self.result, self.root = total, source

    def _add(self, value, source):
        self.values.append(value)
        self.sources.append(source)

    def _node(self, node):
        self.nodes.append(node)
        return len(self.nodes) - 1, 0

    def _made(self, name, *sources):
        return self._node((name, list(sources))) if any(source is not None for source in sources) else None

    def _apply(self, operation, i, j):
        (a, b), (from_a, from_b) = (self.values[i], self.values[j]), (self.sources[i], self.sources[j])
        if operation == "add":
            self._add(a + b, self._made("AddBackward0", from_a, from_b))
        elif operation == "mul":
            self._add(a * b, self._made("MulBackward0", from_a, from_b))
        elif operation == "square":
            self._add(a * a, self._made("MulBackward0", from_a, from_a))
        elif operation == "exp":
            self._add(
                (-a.abs()).exp(),
                self._made("ExpBackward0", self._made("NegBackward0", self._made("AbsBackward0", from_a))),
            )
        elif operation == "double":
            self._add(a * 2, self._made("MulBackward0", from_a, None))
        elif operation == "constant":
            self._add(torch.ones(2) + a, self._made("AddBackward0", None, from_a))
        elif operation == "clone":
            self._add(a.clone(), self._made("CloneBackward0", from_a))
        elif operation == "detach":
            self._add(a.detach(), None)
        elif operation == "checkpoint":
            value = checkpoint(lambda t: t.sin() * 2, a, use_reentrant=False)
            self._add(value, self._made("MulBackward0", self._made("SinBackward0", from_a), None))
        elif operation == "custom":
            product, total = Two.apply(a, b)
            source = self._made("TwoBackward", from_a, from_b)
            self._add(product, source)
            self._add(total, source and (source[0], 1))
        elif operation == "split":
            first, second = a.split(1)
            source = self._made("SplitBackward0", from_a)
            self._add(first.expand(2), self._made("ExpandBackward0", source))
            self._add(second.expand(2), self._made("ExpandBackward0", source and (source[0], 1)))
        elif operation == "unbind":
            first, second = a.unbind()
            source = self._made("UnbindBackward0", from_a)
            self._add(first.expand(2), self._made("ExpandBackward0", source))
            self._add(second.expand(2), self._made("ExpandBackward0", source and (source[0], 1)))

    def numbers(self, graph):
        """Which of the expected nodes each node of the graph is; fails where the two differ."""
        assert (graph.root and graph.root.output) == (self.root and self.root[1])
        if self.root is None:
            assert graph.nodes == ()
            return {}
        same, pending = {}, [(self.root[0], graph.root.node)]
        while pending:
            expected, number = pending.pop()
            if expected in same:
                assert same[expected] == number
                continue
            same[expected] = number
            name, sources = self.nodes[expected]
            node = graph.nodes[number - 1]
            assert (node.number, node.name, len(node.edges)) == (number, name, len(sources))
            for source, edge in zip(sources, node.edges):
                assert (source is None) == (edge is None)
                if source is not None:
                    assert edge.output == source[1]
                    pending.append((source[0], edge.node))
        assert sorted(same.values()) == list(range(1, len(graph.nodes) + 1))
        return same


@given(programs)
@settings(max_examples=150)
def test_the_graph_of_any_program_has_the_nodes_and_edges_that_the_program_made(program):
    made = Program(program)
    graph = graphs.graph(made.result, names={f"p{i}": leaf for i, leaf in enumerate(made.leaves)})
    made.numbers(graph)
    reached = sorted(node.leaf.name for node in graph.nodes if node.leaf is not None)
    assert reached == [f"p{i}" for i in range(len(made.leaves))]


@given(programs)
@settings(max_examples=40)
def test_the_walk_is_that_of_the_observations(program):
    made = Program(program)
    nodes = graphs.graph(made.result).nodes
    other = observation.graph_of(made.result)
    assert [re.sub(r"\d+$", "", node.name) for node in nodes] == [name.rsplit("::")[-1] for name in other["nodes"]]
    assert [[edge and [edge.node - 1, edge.output] for edge in node.edges] for node in nodes] == other["edges"]


@given(programs)
@settings(max_examples=60)
def test_the_steps_of_any_program_are_those_of_a_real_backward_on_a_twin(program):
    made, twin = Program(program), Program(program)
    if made.root is None:
        return
    weights = torch.tensor([1.0, -0.5])
    graph = graphs.graph(made.result)
    same = made.numbers(graph)

    # The twin's tensors say what reached them, and in which order, in a backward that nobody watches otherwise.
    arrived, order = {}, []
    sources = {source: value for value, source in zip(twin.values, twin.sources) if source is not None}
    for (expected, output), value in sources.items():
        if not value.is_leaf:
            value.register_hook(
                lambda grad, place=(same[expected], output): (arrived.update({place: grad}), order.append(place[0]))[0]
            )
        else:
            value.register_post_accumulate_grad_hook(lambda leaf, number=same[expected]: order.append(number))
    twin.result.backward(weights)
    arrived |= {(same[source[0]], 0): value.grad for source, value in sources.items() if value.is_leaf}

    steps = graphs.steps(made.result, weights).steps
    assert sorted(step.node for step in steps) == [node.number for node in graph.nodes]
    for step in steps:
        for output, gradient in enumerate(step.received):
            if (step.node, output) in arrived:
                torch.testing.assert_close(torch.tensor(gradient.values), arrived[step.node, output])
    taken = [step.node for step in steps if step.node in order]
    assert taken == list(dict.fromkeys(order))

    # The graph is as good as before: its own backward gives the twin's gradients.
    assert all(leaf.grad is None for leaf in made.leaves)
    made.result.backward(weights)
    for mine, other in zip(made.leaves, twin.leaves):
        assert torch.equal(mine.grad, other.grad)


# ------------------------------------------------------------------------------------------------------- what is told


def test_a_tensor_that_is_not_tracked_has_no_graph_and_is_drawn_as_such():
    graph = graphs.graph(torch.ones(2))
    assert (graph.root, graph.nodes) == (None, ())
    assert repr(graph) == "No graph behind a tensor of shape (2,): it does not require grad, nothing was recorded."
    assert words_in(svg(graphs.draw(torch.tensor(3.0)))) == ["3", "not tracked"]


def test_a_leaf_is_a_graph_of_its_own_node():
    w = tracked()
    graph = graphs.graph(w, names={"w": w})
    assert [node.name for node in graph.nodes] == ["AccumulateGrad"]
    assert graph.nodes[0].leaf.name == "w"
    assert repr(graphs.steps(w, names={"w": w})).splitlines()[0] == "backward() from w takes 1 step; leaf w receives 1."


def test_names_come_from_a_dict_a_module_or_the_callers_variables():
    here = example()
    w, x, loss = here["w"], here["x"], here["loss"]
    _ = _hidden = w
    for names in ({"w": w, "x": x, "loss": loss, "text": "no tensor"}, True):
        graph = graphs.graph(loss, names)
        assert graph.tensor.name == "loss"
        assert [node.leaf.name for node in graph.nodes if node.leaf] == ["w", "x"]
    assert [node.leaf.name for node in graphs.graph(loss).nodes if node.leaf] == [None, None]
    model = torch.nn.Sequential(torch.nn.Linear(2, 1))
    for names, prefix in ((model, ""), ({"model": model}, "model."), (True, "model.")):
        leaves = [node.leaf.name for node in graphs.graph(model(torch.ones(1, 2)), names).nodes if node.leaf]
        assert sorted(leaves) == [f"{prefix}0.bias", f"{prefix}0.weight"]


def test_of_several_names_the_first_counts_and_equal_values_are_not_the_same_tensor():
    w, same, equal = tracked(), None, tracked()
    same = w
    graph = graphs.graph(w * equal, names={"w": w, "same": same, "equal": equal})
    assert [node.leaf.name for node in graph.nodes if node.leaf] == ["w", "equal"]


@pytest.mark.parametrize(
    "draw", [graphs.graph, graphs.draw, graphs.steps, lambda t, names: graphs.compare(t, t, names)]
)
def test_names_of_a_wrong_type_are_refused_with_what_to_try(draw):
    with pytest.raises(TypeError, match=r"names is of type list.*try names=\{'w': w\}"):
        draw(tracked(), names=[tracked()])


@pytest.mark.parametrize("draw", [graphs.graph, graphs.draw, graphs.steps])
def test_what_is_no_tensor_is_refused_with_what_to_try(draw):
    with pytest.raises(TypeError, match=r"got float.*before `\.item\(\)`"):
        draw(3.0)


def test_shapes_dtypes_devices_values_and_versions_are_told():
    w = torch.ones(2, 3, dtype=torch.float64, requires_grad=True)
    with torch.no_grad():
        w += 1
    graph = graphs.graph(w.sum(), names={"w": w})
    assert (graph.tensor.value, graph.tensor.shape, graph.tensor.dtype) == (12, (), "float64")
    leaf = graph.nodes[1].leaf
    assert (leaf.shape, leaf.dtype, leaf.device, leaf.value, leaf.version) == ((2, 3), "float64", "cpu", None, 1)
    assert "2 AccumulateGrad, leaf w, shape (2, 3), float64, version 1" in repr(graph)
    assert "meta" in repr(graphs.graph(torch.ones(2, device="meta", requires_grad=True) * 2))


def test_an_intermediate_is_described_by_whoever_still_has_it():
    here = example()
    loss = here["loss"]
    del here
    made = [str(node.outputs[0]) for node in graphs.graph(loss).nodes[:3]]
    # z is saved by the square; the product is nowhere any more.
    assert made == ["49", "7", "shape ()"]


def test_what_is_saved_is_told_until_it_is_freed():
    here = example()
    power, _, product = graphs.graph(here["loss"], here).nodes[:3]
    assert list(map(str, power.saved + product.saved)) == [
        "saved self: z = 7",
        "saved other: x = 3",
        "saved self: w = 2",
    ]
    here["loss"].backward()
    power, plus, product = graphs.graph(here["loss"], here).nodes[:3]
    assert [node.freed for node in (power, plus, product)] == [True, False, True]
    assert power.saved == product.saved == ()


def test_saved_lists_and_outputs_are_told():
    x = torch.arange(3.0, requires_grad=True)
    node = graphs.graph(x[torch.tensor([0, 0])]).nodes[0]
    assert [(saved.name, saved.tensor.dtype) for saved in node.saved] == [("indices[0]", "int64")]
    y = x.sum().exp()
    (saved,) = graphs.graph(y, names={"y": y}).nodes[0].saved
    assert (saved.name, saved.tensor.name) == ("result", "y")


def test_what_an_in_place_operation_has_spoilt_is_told():
    kept = torch.ones(2, requires_grad=True).sigmoid()
    doubled = kept * 2
    kept += 1
    assert "version 1 instead of 0; backward() would raise" in repr(graphs.graph(doubled))


def test_a_checkpoint_is_not_computed_again_to_look_at_it():
    calls = []

    def block(t):
        calls.append(1)
        return t.sin().exp()

    result = checkpoint(block, tracked(), use_reentrant=False)
    text = repr(graphs.draw(result))
    assert len(calls) == 1
    assert "saved result: kept by a hook, not read" in text


def test_a_custom_function_shows_what_it_saved_and_what_it_keeps_beside_that():
    class Pocket(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a):
            ctx.save_for_backward(a)
            ctx.variable = a
            return a * 2

        @staticmethod
        def backward(ctx, grad):
            return grad * 2

    a = tracked()
    node = graphs.graph(Pocket.apply(a), names={"a": a}).nodes[0]
    assert (node.name, node.leaf) == ("PocketBackward", None)
    assert list(map(str, node.saved)) == ["saved tensors[0]: a = 2", "keeps ctx.variable: a = 2"]


def test_inside_vmap_and_grad_a_graph_is_told_without_values():
    w, seen = tracked(), []
    torch.func.vmap(lambda t: (seen.append(graphs.graph(t * w)), t)[1])(torch.ones(3))
    torch.func.grad(lambda t: (seen.append(graphs.graph(t * w)), t)[1])(torch.tensor(1.0))
    assert len(seen) == 2


# --------------------------------------------------------------------------------------------------------- the picture


def test_kinds_of_nodes_differ_in_shape_and_words_not_only_in_colour():
    source = graphs.draw(example()["loss"]).source
    styles = {}
    for line in source.splitlines():
        if "label=" in line:
            kind = next(word for word in ("Pow", "Backward", "leaf", "None") if word in line)
            styles[kind] = set(re.findall(r"(?:shape|style|peripheries)=\S+?(?=[\s\]])", line))
    assert len(set(map(frozenset, styles.values()))) == 4


def test_both_edges_of_x_times_x_and_the_index_of_an_output_are_drawn():
    x = torch.ones(4, requires_grad=True)
    first, second = x.split(2)
    tree = svg(graphs.draw(second * second + first))
    edges = [element.text for element in tree.iter(f"{SVG}title") if "->" in element.text]
    assert sorted(edges) == ["n1->n2", "n1->n3", "n2->n3", "n2->n3", "n3->n4"]
    assert sorted(text for text in words_in(tree) if len(text) == 1) == ["0", "1", "1"]


def test_a_notebook_gets_an_image_with_its_alternative_text_and_the_list():
    drawing_ = graphs.draw(example()["loss"])
    bundle = drawing_._repr_mimebundle_()
    page = Page(bundle["text/html"])
    (image,) = page.images()
    assert image["alt"] == drawing_.text.splitlines()[0]
    assert image["src"].startswith("data:image/svg+xml;base64,")
    assert "background:#ffffff" in image["style"] and 'bgcolor="#ffffff"' in drawing_.source
    assert [tag for tag, _ in page.elements if tag in ("details", "summary")] == ["details", "summary"]
    assert drawing_.text in page.words.replace("The same as text", "")
    assert bundle["text/plain"] == repr(drawing_) == drawing_.text


@pytest.mark.parametrize(
    "name",
    [
        'a"b',
        "back\\slash\\N\\",
        "<b>bold</b>",
        "{x|y}",
        "two\nlines",
        "&amp;",
        "über €",
        "\x00\x1b\ud800\u202e",
        "a -> b; c",
        "$x$",
        "",
    ],
)
def test_any_name_is_shown_as_it_is(name):
    w = tracked()
    shown = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in name)
    for output in (graphs.draw(w * 2, names={name: w}), graphs.steps(w * 2, names={name: w})):
        assert f"leaf {shown} = 2" in output.text or f"{shown or 'leaf'} (2)" in output.text or not shown
        Page(output.html)
    (text,) = [text for text in words_in(svg(graphs.draw(w * 2, names={name: w}))) if text.startswith("leaf ")]
    assert " ".join(text.split()) == " ".join(f"leaf {shown} = 2".split())


def test_a_long_name_is_cut_in_the_picture_and_whole_in_the_text():
    w = tracked()
    picture = graphs.draw(w * 2, names={"w" * 500: w})
    assert max(map(len, words_in(svg(picture)))) <= 60
    assert "w" * 500 in picture.text


def test_of_a_large_graph_a_part_is_drawn_and_a_sentence_counts_the_rest():
    y = tracked(1.0)
    for _ in range(30):
        y = y * 1.5
    picture = graphs.draw(y, limit=10)
    sentence = "21 of 31 nodes left out; a larger `limit` shows more."
    assert sentence in picture.text and sentence in Page(picture.html).words
    assert words_in(svg(picture)).count("…") == 1
    assert sum("MulBackward0" in text for text in words_in(svg(picture))) == 10
    assert "left out" not in graphs.draw(y, limit=31).text


def test_a_chain_of_5000_and_40_doublings_are_no_problem():
    y = tracked(1.0)
    for _ in range(5000):
        y = y + y * 0.0001
    assert len(graphs.graph(y).nodes) == 10001
    assert Page(graphs.draw(y).html).images()
    assert len(graphs.steps(y).steps) == 10001
    doubled = tracked(1.0)
    for _ in range(40):
        doubled = doubled + doubled
    assert len(graphs.graph(doubled).nodes) == 41
    assert graphs.steps(doubled).steps[-1].received[0].values == 2**40


def test_two_processes_give_the_same_bytes():
    program = """
import hashlib, torch
from autogradlab import graph
w, x = torch.tensor(2.0, requires_grad=True), torch.tensor(3.0, requires_grad=True)
a, b = (w * torch.ones(4) + x).split(2)
for output in (graph.draw((a * b).sum(), True), graph.steps((a * b).sum(), names=True), graph.compare(a, b, True)):
    print(hashlib.sha256((output.text + output.html).encode()).hexdigest())
"""
    seen = set()
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        run = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment
        )
        seen.add(run.stdout)
    assert len(seen) == 1 and len(seen.pop().split()) == 3


def test_importing_it_imports_neither_graphviz_nor_matplotlib_nor_ipython():
    program = (
        "import sys, autogradlab.graph; print({'graphviz', 'pygraphviz', 'matplotlib', 'IPython'} & {*sys.modules})"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "set()"


# ----------------------------------------------------------------------------------------------------- what can draw it


@pytest.fixture
def no_dot(monkeypatch):
    monkeypatch.setenv("PATH", "")


def put_on_path(monkeypatch, folder, body):
    """A program `dot` that runs these lines of Python, first on the PATH."""
    script = folder / "program.py"
    script.write_text(f"import sys\nsource = sys.stdin.read()\n{body}\n", encoding="utf-8")
    if os.name == "nt":
        (folder / "dot.bat").write_text(f'@"{sys.executable}" "{script}" %*\n')
    else:
        (folder / "dot").write_text(f'#!/bin/sh\nexec "{sys.executable}" "{script}" "$@"\n')
        (folder / "dot").chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)


def test_without_the_program_the_package_draws(no_dot):
    assert b"PowBackward0" in drawn_by(graphs.draw(example()["loss"]))


def drawn_by(picture):
    """The bytes of the picture in a notebook's output."""
    (image,) = Page(picture.html).images()
    return base64.b64decode(image["src"].partition(",")[2])


def test_the_program_on_the_path_is_asked_first(monkeypatch, tmp_path):
    put_on_path(monkeypatch, tmp_path, "print('<svg>', *sys.argv[1:], len(source), '</svg>')")
    picture = graphs.draw(example()["loss"])
    assert drawn_by(picture).split() == [b"<svg>", b"-Kdot", b"-Tsvg", str(len(picture.source)).encode(), b"</svg>"]


def test_a_program_that_fails_or_may_not_run_is_passed_over(monkeypatch, tmp_path):
    put_on_path(monkeypatch, tmp_path, "sys.exit('Format: \"svg\" not recognized.')")
    assert b"PowBackward0" in drawn_by(graphs.draw(example()["loss"]))
    with pytest.raises(rendering.NoRenderer, match="`dot` failed: Format"):
        rendering._by_program("digraph {}")

    def refuse(*_, **__):
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(rendering.subprocess, "run", refuse)
    assert b"PowBackward0" in drawn_by(graphs.draw(example()["loss"]))


@pytest.mark.skipif(os.name == "nt", reason="Windows finds programs by their ending")
def test_a_file_that_is_no_program_is_passed_over(monkeypatch, tmp_path):
    (tmp_path / "dot").write_bytes(b"\x00")
    (tmp_path / "dot").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(rendering.NoRenderer, match="did not run"):
        rendering._by_program("digraph {}")
    assert b"PowBackward0" in drawn_by(graphs.draw(example()["loss"]))


@pytest.mark.parametrize("missing", ["pygraphviz", "graphviz"])
@pytest.mark.parametrize("make", [graphs.draw, graphs.steps, lambda tensor: graphs.compare(tensor, tensor)])
def test_without_anything_that_draws_there_is_the_text_and_the_reason(no_dot, monkeypatch, make, missing):
    monkeypatch.setitem(sys.modules, missing, None)
    output = make(example()["loss"])
    page = Page(output.html)
    assert page.images() == []
    assert output.text in page.words
    assert f"no package {missing}" in page.words and "Try: pip install graphviz pygraphviz" in page.words


def test_drawing_says_nothing_on_standard_error(no_dot, capfd):
    y = tracked(1.0)
    for _ in range(400):
        y = y * 1.5 + 1
    assert graphs.draw(y, limit=1000).html
    with rendering.silent():
        os.write(2, b"from a library in C")
    assert capfd.readouterr() == ("", "")
    os.write(2, b"after")
    assert capfd.readouterr().err == "after"


def test_a_dot_source_that_is_wrong_is_told(no_dot):
    with pytest.raises(rendering.NoRenderer, match="no program `dot` on the PATH; pygraphviz failed: "):
        rendering.svg("no graph at all")


# ------------------------------------------------------------------------------------------------------------- compare


def test_two_graphs_stand_side_by_side_with_what_differs():
    here = example()
    detached = (here["w"] * here["x"].detach() + 1) ** 2
    both = graphs.compare(here["loss"], detached, here, titles=("with x", "with x.detach()"))
    assert both.text.splitlines()[:2] == ['Only in "with x": leaf x.', "They have 1 node in common."]
    assert 'Only in "with x": leaf x.' in Page(both.html).words
    (image,) = Page(both.html).images()
    assert image["alt"].startswith("Two graphs side by side. with x: The graph behind loss = 49: 5 nodes")
    words = words_in(svg(both))
    assert {"with x", "with x.detach()"} <= set(words)
    assert sum("PowBackward0" in word for word in words) == 2


def test_what_differs_is_said_in_words():
    w, x = tracked(), tracked()

    def said(a, b):
        return graphs.compare(a, b, names={"w": w, "x": x}).text.splitlines()[0]

    assert said(w * x, w * x) == "The graphs are the same, 3 nodes each."
    assert said(w * w, w * w.detach()) == "The nodes are the same, the edges are not."
    assert said((w * 2).exp(), w * 2 * 2 * 2) == (
        'Only in "first": ExpBackward0; only in "second": 2 times MulBackward0.'
    )
    assert said(w * x, torch.ones(())) == 'Only in "first": MulBackward0, leaf w and leaf x.'


# --------------------------------------------------------------------------------------------------------------- steps


def test_14_28_and_42_travel_through_the_lessons_example():
    here = example()
    steps = graphs.steps(here["loss"], names=here)
    table = [(steps.graph.nodes[step.node - 1].name, step.received, step.sent) for step in steps.steps]
    values = [
        (name, [g and g.values for g in received], [g and g.values for g in sent]) for name, received, sent in table
    ]
    assert values[:3] == [
        ("PowBackward0", [1], [14]),
        ("AddBackward0", [14], [14, None]),
        ("MulBackward0", [14], [42, 28]),
    ]
    assert values[3:] == [("AccumulateGrad", [42], []), ("AccumulateGrad", [28], [])]
    assert here["w"].grad is None and here["x"].grad is None


def test_what_the_engine_sums_for_a_broadcast_input_is_what_is_sent():
    bias = torch.ones(2, requires_grad=True)
    steps = graphs.steps((torch.ones(5, 2) + bias).sum(), names={"bias": bias})
    assert "[5, 5] to bias (3)" in steps.text


def test_every_picture_of_a_series_has_the_same_layout():
    here = example()
    first, second = (here["w"] * torch.ones(4)).split(2)
    for tensor in (here["loss"], (first * second).sum()):
        steps = graphs.steps(tensor, names=here)
        layouts = set()
        for place in range(1, len(steps.steps) + 1):
            tree = ElementTree.fromstring(rendering.svg(steps.digraph(place).source))
            places = [
                [element.get(key) for key in ("viewBox", "cx", "cy", "rx", "x", "y")]
                for element in tree.iter()
                if element.tag.rpartition("}")[2] in ("svg", "text", "ellipse")
            ]
            layouts.add(str(places))
        assert len(layouts) == 1


def test_a_gradient_is_not_seen_before_its_step():
    here = example()
    steps = graphs.steps(here["loss"], names=here)

    def seen(place):
        tree = ElementTree.fromstring(rendering.svg(steps.digraph(place).source))
        plain = [element for element in tree.iter(f"{SVG}text") if element.get("font-weight") is None]
        shown = [element for element in plain if element.get("fill", "black") in ("black", "#000000")]
        return {int(n) for element in shown for n in re.findall(r"^\W*(?:received )?(\d+)\W*$", element.text)}

    assert [sorted(seen(place)) for place in range(1, 6)] == [[1, 14], [1, 14], [1, 14, 28, 42]] + [[1, 14, 28, 42]] * 2


def test_the_strip_has_a_picture_and_a_sentence_per_step_and_the_table():
    here = example()
    steps = graphs.steps(here["loss"], names=here)
    page = Page(steps.html)
    assert len({image["src"] for image in page.images()}) == len(page.images()) == 5
    assert all(f"step {place} of 5" in image["alt"] for place, image in enumerate(page.images(), 1))
    assert "Step 3 of 5: MulBackward0 (3) received 14 and sent 42 to w (4) and 28 to x (5)." in page.words
    assert [tag for tag, _ in page.elements].count("table") == 1
    # Everything that a viewer may take away lies in the one script.
    assert {tag for tag, _ in page.elements} & {"button", "input", "style", "link", "svg"} == set()
    assert "//" not in re.sub(r"^ *// .*$", "", steps.html[steps.html.index("<script>") :], flags=re.MULTILINE)


def test_a_graph_that_is_too_large_for_a_series_is_a_table():
    y = tracked(1.0)
    for _ in range(30):
        y = y * 1.5
    page = Page(graphs.steps(y).html)
    assert page.images() == []
    assert "Not drawn, because the graph has more than 24 nodes; limit=31 draws it." in page.words
    assert len(Page(graphs.steps(y, limit=31).html).images()) == 31
    for _ in range(300):
        y = y * 1.01
    assert "The first 200 of 331 steps:" in Page(graphs.steps(y).html).words


@pytest.mark.parametrize(
    "make, says",
    [
        (lambda w: w.detach() * 2, "does not require grad. Which of the tensors"),
        (lambda w: w * torch.ones(2), "grad can be implicitly created only for scalar outputs"),
    ],
)
def test_what_cannot_run_backward_says_why(make, says):
    with pytest.raises(RuntimeError, match=says):
        graphs.steps(make(tracked()))


def test_a_graph_that_a_backward_has_freed_says_so():
    loss = example()["loss"]
    loss.backward()
    with pytest.raises(RuntimeError, match=r"earlier backward\(\) has freed.*replay it before"):
        graphs.steps(loss)


def test_a_leaf_that_lost_its_flag_or_got_nothing_has_its_step_too():
    class Lost(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a):
            return a * 2

        @staticmethod
        def backward(ctx, grad):
            return None

    w, x = tracked(), tracked()
    product = w * Lost.apply(x)
    w.requires_grad_(False)
    steps = graphs.steps(product, names={"w": w, "x": x})
    ends = [row.split("  ")[-1].strip() for row in steps.text.splitlines()[-4:]]
    assert "to be dropped, the leaf does not require grad any more" in ends
    assert ends[-1] == "nothing to add"
    assert not w.requires_grad
    assert "does not require grad any more" in repr(graphs.graph(product))


def test_leaves_without_a_flag_come_where_the_engine_would_go_to_them():
    w, x, y = tracked(), tracked(), tracked()
    result = ((x * 2) * w).exp() * y
    for leaf in (w, x, y):
        leaf.requires_grad_(False)
    steps = graphs.steps(result, names={"w": w, "x": x, "y": y})
    names = [steps.graph.nodes[step.node - 1] for step in steps.steps]
    assert [node.leaf.name if node.leaf else node.name[:3] for node in names] == [
        "Mul",
        "y",
        "Exp",
        "Mul",
        "w",
        "Mul",
        "x",
    ]


def test_large_sparse_complex_and_unreadable_gradients_are_told_by_their_shape():
    x = torch.ones(3, 2, requires_grad=True)
    assert "shape (3, 2), all 1" in graphs.steps(x.sum()).text
    assert "shape (3, 2), from 0 to 5" in graphs.steps((x * torch.arange(6.0).view(3, 2)).sum()).text
    table = torch.nn.Embedding(5, 3, sparse=True)
    assert "shape (5, 3)" in graphs.steps(table(torch.tensor([1, 1])).sum()).text
    assert "shape (3, 2)" in graphs.steps((x.to(torch.complex64) * 1j).abs().sum()).text
    assert "shape (4,)" in graphs.steps(torch.ones(4, device="meta", requires_grad=True).sum()).text


# --------------------------------------------------------------------------------------------- nothing is changed by it


def look(tensor, names):
    """Everything of this module, down to the pictures."""
    steps = graphs.steps(tensor, names=names)
    outputs = [graphs.draw(tensor, names), steps, graphs.compare(tensor, tensor, names)]
    return [graphs.graph(tensor, names), *outputs, [output.html for output in outputs]]


def test_looking_changes_no_gradient_no_flag_no_version_and_no_hook():
    here = example()
    mine = here["x"].register_hook(lambda grad: grad * 2)
    here["w"].grad = kept = torch.tensor(5.0)
    here["z"].retain_grad()
    here["loss"].retain_grad()
    here["loss"].backward(retain_graph=True)
    state = {name: (t.requires_grad, t.is_leaf, t._version, t.retains_grad, t.grad.item()) for name, t in here.items()}
    objects = {name: t.grad for name, t in here.items()}
    assert here["x"].grad == 56 and kept == 47
    look(here["loss"], here)
    assert {
        name: (t.requires_grad, t.is_leaf, t._version, t.retains_grad, t.grad.item()) for name, t in here.items()
    } == state
    assert all(here[name].grad is grad for name, grad in objects.items())
    assert list(here["x"]._backward_hooks) == [mine.id] and not here["w"]._backward_hooks
    here["loss"].backward()
    assert (here["w"].grad, here["x"].grad, here["z"].grad) == (89, 112, 28)


def test_an_error_in_the_middle_leaves_nothing_behind():
    here = example()

    def fail(grad):
        raise ValueError("a learner's own")

    handle = here["x"].register_hook(fail)
    here["z"].retain_grad()
    with pytest.raises(ValueError, match="a learner's own"):
        graphs.steps(here["loss"])
    handle.remove()
    assert here["z"].grad is None
    here["loss"].backward()
    assert (here["w"].grad, here["x"].grad) == (42, 28)


def test_a_checkpoint_that_would_change_gradients_is_refused_by_torch_itself():
    w = tracked()
    result = checkpoint(lambda t: t.sin(), w, use_reentrant=True)
    with pytest.raises(RuntimeError, match="use_reentrant=False"):
        graphs.steps(result)
    assert w.grad is None


def test_looking_keeps_nothing_alive():
    class Whole(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a):
            ctx.save_for_backward(a)
            return a * 1

        @staticmethod
        def backward(ctx, grad):
            return grad

    w = tracked()
    z = w * 3
    loss = Whole.apply(z).exp()
    node = loss.grad_fn.next_functions[0][0]
    alive = [weakref.ref(one) for one in (z, loss, node)]
    gc.collect()
    gc.disable()
    try:
        outputs = look(loss, {"z": z, "loss": loss})
        del z, loss, node
        assert [one() for one in alive] == [None, None, None]
    finally:
        gc.enable()
    assert outputs


def test_looking_frees_nothing():
    here = example()
    look(here["loss"], here)
    assert here["loss"].grad_fn._saved_self is here["z"]
    saved = torch.tensor([1.0, 2.0], requires_grad=True).exp()
    reference = weakref.ref(saved)
    loss = (saved * saved).sum()
    look(loss, None)
    del saved
    gc.collect()
    assert reference() is not None
    loss.backward()


@pytest.mark.parametrize("mode", ["set_grad_enabled(False)", "no_grad", "inference_mode", "float64", "meta", "a hook"])
def test_it_works_the_same_in_whatever_mode_the_learner_left_behind(mode):
    plain = example()
    expected = [repr(value) for value in [graphs.graph(plain["w"]), *look(plain["loss"], plain)]]
    modes = {
        "set_grad_enabled(False)": lambda: torch.set_grad_enabled(False),
        "no_grad": torch.no_grad,
        "inference_mode": torch.inference_mode,
        "float64": lambda: torch.set_default_dtype(torch.float64),
        "meta": lambda: torch.set_default_device("meta"),
        "a hook": lambda: torch.autograd.graph.save_on_cpu(),
    }
    here = example()
    try:
        # What is no context stays as it is until the end.
        with modes[mode]() or contextlib.nullcontext():
            found = [graphs.graph(here["w"]), *look(here["loss"], here)]
    finally:
        torch.set_grad_enabled(True)
        torch.set_default_dtype(torch.float32)
        torch.set_default_device(None)
    assert [repr(value) for value in found] == expected


def test_a_graph_can_be_copied_and_compared_because_it_is_plain_data():
    here = example()
    graph = graphs.graph(here["loss"], here)
    assert copy.deepcopy(graph) == graph == graphs.graph(here["loss"], here)


# ---------------------------------------------------------------------------------------------------------- the player


@pytest.fixture(scope="module")
def chromium():
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if program is None:
        pytest.skip("no Chromium on PATH: on Debian `apt install chromium`")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


def opened(browser, tmp_path, **context):
    here = example()
    body = graphs.steps(here["loss"], names=here).html + graphs.draw(here["loss"], here).html
    (tmp_path / "page.html").write_text(
        f"<!doctype html><html lang=en><meta charset=utf-8><title>S</title><main><h1>S</h1>{body}</main></html>",
        encoding="utf-8",
    )
    page = browser.new_context(**context).new_page()
    page.set_default_timeout(20_000)
    page.goto((tmp_path / "page.html").as_uri())
    return page


def visible(page):
    return [place for place, frame in enumerate(page.locator("li").all(), 1) if frame.is_visible()]


def violations(page):
    from axe_playwright_python.sync_playwright import Axe

    return [violation["id"] for violation in Axe().run(page).response["violations"]]


@pytest.mark.browser
@pytest.mark.xdist_group("browser")
def test_the_player_is_worked_by_keyboard_and_says_what_it_shows(chromium, tmp_path):
    page = opened(chromium, tmp_path)
    assert visible(page) == [1]
    assert violations(page) == []
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Next"
    places = []
    for key in ("Enter", "Space", "ArrowLeft", "End", "ArrowRight", "Home", "ArrowLeft"):
        page.keyboard.press(key)
        places += visible(page)
    assert places == [2, 3, 2, 5, 5, 1, 1]
    assert (
        page.inner_text("[role=status]") == "Step 1 of 5: PowBackward0 (1) received 1 and sent 14 to AddBackward0 (2)."
    )
    page.click("text=All steps")
    assert visible(page) == [1, 2, 3, 4, 5]
    assert violations(page) == []
    page.click("text=All steps")
    assert visible(page) == [1]


@pytest.mark.browser
@pytest.mark.xdist_group("browser")
def test_play_runs_to_the_end_and_can_be_paused(chromium, tmp_path):
    page = opened(chromium, tmp_path)
    page.clock.install()
    page.click("text=Play")
    assert page.inner_text("[data-player]").split()[2] == "Pause"
    page.clock.run_for(1600)
    assert visible(page) == [2]
    page.click("text=Pause")
    page.clock.run_for(5000)
    assert visible(page) == [2]
    page.click("text=Play")
    page.clock.run_for(20_000)
    assert visible(page) == [5]
    assert page.inner_text("[data-player]").split()[2] == "Play"


@pytest.mark.browser
@pytest.mark.xdist_group("browser")
def test_who_wants_no_motion_gets_no_play_button(chromium, tmp_path):
    page = opened(chromium, tmp_path, reduced_motion="reduce")
    assert page.locator("[data-player] button").all_inner_texts() == ["Previous", "Next", "All steps"]


@pytest.mark.browser
@pytest.mark.xdist_group("browser")
def test_without_scripts_the_strip_remains(chromium, tmp_path):
    page = opened(chromium, tmp_path, java_script_enabled=False)
    assert visible(page) == [1, 2, 3, 4, 5]
    assert page.locator("button").count() == 0


# ------------------------------------------------------------------------------------------------------------ examples


@pytest.mark.parametrize(
    "source", [structure, drawing, player, "graph.md"], ids=lambda source: getattr(source, "__name__", source)
)
def test_the_examples_are_true(source):
    if isinstance(source, str):
        result = doctest.testfile(str(DOCS / source), module_relative=False)
    else:
        result = doctest.testmod(source, extraglobs={"torch": torch})
    assert result.attempted >= 2 and result.failed == 0
