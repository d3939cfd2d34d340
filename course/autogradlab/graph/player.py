"""A backward as a series of pictures: a strip, and where scripts may run a player."""

import sys
from functools import cached_property
from html import escape
from pathlib import Path

from autogradlab.figures import PALETTE
from autogradlab.graph import words
from autogradlab.graph.drawing import Sketch, bold, empty_digraph, html_label, shown, unseen, without_picture
from autogradlab.graph.names import named_tensors
from autogradlab.graph.rendering import NoRenderer, svg
from autogradlab.graph.replay import replayed
from autogradlab.output import Output, Picture, Table

LIMIT = 24  # nodes of a graph that is drawn once per step
_MOST_ROWS = 200
_STRIP = "display:flex;flex-wrap:wrap;gap:12px;list-style:none;margin:0;padding:0"
# As wide as the picture above it, however long it is.
_CAPTION = "width:0px;min-width:100%"
_MARK = {"color": PALETTE["vermillion"], "penwidth": "3"}


class Steps(Output):
    """A backward in the order in which the engine took it; `steps` and `graph` are plain data."""

    def __init__(self, graph, steps, limit):
        self.graph, self.steps, self.limit = graph, steps, limit
        self._sentences = [_summary(graph, steps)]
        if len(steps) > _MOST_ROWS:
            self._sentences.append(f"The first {_MOST_ROWS} of {len(steps):,} steps:")
        rows = [
            [place, short_name(graph, step.node), _received(step), _sent(graph, step)]
            for place, step in enumerate(steps[:_MOST_ROWS], 1)
        ]
        self._table = Table(["step", "node", "received", "sent"], rows)
        self.text = "\n".join([*self._sentences, "", self._table.text])

    @cached_property
    def html(self) -> str:
        """The pictures one after the other and the table; a script makes a player of them where it may run."""
        sentences = "".join(f'<p style="margin:4px 0">{escape(sentence)}</p>' for sentence in self._sentences)
        if len(self.graph.nodes) > self.limit:
            size = len(self.graph.nodes)
            note = f"Not drawn, because the graph has more than {self.limit} nodes; limit={size} draws it."
            return f'{sentences}<p style="margin:4px 0">{note}</p>{self._table.html}'
        try:
            pictures = [svg(self.digraph(place).source) for place in range(1, len(self.steps) + 1)]
        except NoRenderer as problem:
            return without_picture(self.text, problem)
        items = ""
        for place, (picture, step) in enumerate(zip(pictures, self.steps), 1):
            of = f"{place} of {len(pictures)}"
            marked = short_name(self.graph, step.node)
            alt = f"The graph at step {of}: {marked} is marked; the gradients so far stand at the nodes and edges."
            caption = f"Step {of}: {step_sentence(self.graph, step)}"
            image = Picture(picture, alt).html
            items += (
                f'<li style="max-width:100%"><figure style="margin:0">{image}'
                f'<figcaption style="{_CAPTION}">{escape(caption)}</figcaption></figure></li>'
            )
        details = f"<details><summary>The same as text</summary>{self._table.html}</details>"
        script = Path(__file__).with_name("player.js").read_text(encoding="utf-8")
        # Without the script, which viewers take out of a notebook that they do not trust, this is the strip.
        return (
            f'<div class="autogradlab-steps">{sentences}<ol style="{_STRIP}">{items}</ol>{details}'
            f"<script>{script}</script></div>"
        )

    def digraph(self, place: int):
        """The `graphviz.Digraph` of a step, counted from 1."""
        digraph = empty_digraph()
        _Frame(self.graph, self.steps, place).add_to(digraph)
        return digraph


def steps(tensor, gradient=None, names=None, limit: int = LIMIT) -> Steps:
    """What a backward from `tensor` sends through its graph, node by node in the order of PyTorch's engine.

    gradient: what `backward` takes for a tensor of several elements
    names: a dict of names and tensors, a module, or True for the variables that are visible where `steps` is called
    limit: larger graphs are not drawn, only told

    It is a real run of the engine, watched by hooks. It adds to no `.grad`, and the graph is as good for a `backward()`
    as before. Hooks on tensors, and the `backward` of a custom Function, run as they do in any backward.

        >>> w, x = torch.tensor(2.0, requires_grad=True), torch.tensor(3.0, requires_grad=True)
        >>> steps((w * x + 1) ** 2, names={"w": w, "x": x})
        backward() from 49 takes 5 steps; leaf w receives 42 and leaf x receives 28.
        <BLANKLINE>
        step              node  received                         sent
           1  PowBackward0 (1)         1       14 to AddBackward0 (2)
           2  AddBackward0 (2)        14       14 to MulBackward0 (3)
           3  MulBackward0 (3)        14  42 to w (4) and 28 to x (5)
           4             w (4)        42        to be added to w.grad
           5             x (5)        28        to be added to x.grad
        >>> w.grad is None
        True
    """
    graph, taken = replayed(tensor, gradient, named_tensors(names, sys._getframe(1)))
    return Steps(graph, taken, limit)


# ------------------------------------------------------------------------------------------------------------ in words


def short_name(graph, number: int) -> str:
    """A node by its leaf's name or its own, and its number."""
    node = graph.nodes[number - 1]
    return f"{node.name if node.leaf is None else node.leaf.name or 'leaf'} ({number})"


def step_sentence(graph, step) -> str:
    """What happened in a step."""
    received = f"{short_name(graph, step.node)} received {_received(step)}"
    if graph.nodes[step.node - 1].leaf is None:
        return f"{received} and sent {_sent(graph, step)}."
    return f"{received}: {_sent(graph, step)}."


def _received(step):
    if len(step.received) == 1:
        return str(step.received[0])
    return "; ".join(f"output {index}: {gradient}" for index, gradient in enumerate(step.received))


def _sent(graph, step):
    node = graph.nodes[step.node - 1]
    if node.leaf is not None:
        return _into(node, step)
    edges = [(sent, edge) for sent, edge in zip(step.sent, node.edges) if edge is not None]
    return " and ".join(f"{sent} to {short_name(graph, edge.node)}" for sent, edge in edges) or "nothing"


def _into(leaf, step):
    """What a backward() would do with the gradient that a leaf got."""
    if step.received[0] is None:
        return "nothing to add"
    if not leaf.leaf.requires_grad:
        return "to be dropped, the leaf does not require grad any more"
    return f"to be added to {leaf.leaf.name or 'its '}.grad"


def _summary(graph, steps):
    leaves = [(graph.nodes[step.node - 1], step) for step in steps if graph.nodes[step.node - 1].leaf is not None]
    ends = [f"leaf {node.leaf.name or node.number} receives {_received(step)}" for node, step in leaves]
    start = graph.tensor.name or words.subject(graph.tensor)
    return f"backward() from {start} takes {words.count(len(steps), 'step')}; {words.listed(ends)}."


# --------------------------------------------------------------------------------------------------------- one picture


class _Frame(Sketch):
    """The graph at one step: what has arrived so far is written, the rest keeps its place unseen."""

    def __init__(self, graph, steps, place):
        super().__init__(graph, limit=len(graph.nodes))
        self.place = place
        self.steps = {step.node: (number, step) for number, step in enumerate(steps, 1)}

    def add_to(self, digraph):
        """Adds the graph and the gradient that backward() begins with."""
        super().add_to(digraph)
        first = str(self.steps[self.graph.root.node][1].received[self.graph.root.output])
        mark = _MARK if self.place == 1 else {}
        digraph.node("start", html_label([bold("backward()")]), shape="plaintext", style="")
        digraph.edge("start", self.id(1), html_label(list(map(shown, _lines(first)))), **mark)

    def head(self, node):
        """A leaf is shorter here than in a still picture, so that two steps stand side by side."""
        if node.leaf is None:
            return super().head(node)
        return [bold(f"{node.number} leaf {node.leaf}")]

    def lines(self, node):
        """The head, and what the node received."""
        head = self.head(node)
        if node.number not in self.steps:
            return head
        turn, step = self.steps[node.number]
        received = [f"received {gradient}" for gradient in step.received]
        if len(received) > 1:
            received = [f"output {index} {gradient}" for index, gradient in enumerate(received)]
        lines = [line for gradient in received for line in _lines(gradient)]
        if turn <= self.place:
            return [*head, *map(shown, lines)]
        ground = self.node_attributes(node)["fillcolor"]
        return [*head, *(unseen(line, ground) for line in lines)]

    def node_attributes(self, node):
        """The node whose turn it is is marked."""
        return super().node_attributes(node) | (_MARK if self._turn(node) == self.place else {})

    def edge_attributes(self, node, index):
        """The gradient on an edge, once it was sent; fat in the step that sends it."""
        turn = self._turn(node)
        if turn is None or node.edges[index] is None:
            return {}
        output = self.output_index(node, index)
        texts = _lines(str(self.steps[node.number][1].sent[index]))
        if output:
            texts.insert(0, f"to output {output}")
        if turn > self.place:
            return {"label": html_label(list(map(unseen, texts))), "color": "#808080"}
        return {"label": html_label(list(map(shown, texts))), **(_MARK if turn == self.place else {})}

    def _turn(self, node):
        return self.steps[node.number][0] if node.number in self.steps else None


def _lines(gradient):
    """The words for a gradient in one or two short lines."""
    return gradient.replace(", from ", "\nfrom ").replace(", all ", "\nall ").splitlines()
