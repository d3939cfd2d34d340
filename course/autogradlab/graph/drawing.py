"""Pictures of graphs: one, or two side by side."""

import sys
from collections import Counter
from functools import cached_property
from html import escape

from autogradlab.figures import PALETTE
from autogradlab.graph import words
from autogradlab.graph.names import named_tensors, printable
from autogradlab.graph.rendering import NoRenderer, svg
from autogradlab.graph.structure import described, gradient_edge
from autogradlab.nodes import walk
from autogradlab.output import Output, Picture

_WIDEST = 60  # characters of a line in a picture
_MOST_LINES = 6  # of one node
_HINT = "; a larger `limit` shows more"

# Shape and words tell the kinds apart, colour only repeats it.
_STYLES = {
    "operation": {"shape": "box", "fillcolor": "#ffffff"},
    "output": {"shape": "box", "peripheries": "2", "fillcolor": PALETTE["yellow"]},
    "leaf": {"shape": "ellipse", "margin": "0", "fillcolor": PALETTE["sky blue"]},
    "None": {"shape": "hexagon", "margin": "0", "style": "filled,dashed", "fillcolor": "#eeeeee"},
}


class Drawing(Output):
    """A picture of graphs, with the same as text; drawn when a notebook asks for it.

    In a notebook it is an image with an alternative text, and the list of nodes folded below; in a terminal the list.
    """

    def __init__(self, alt: str, notes: list, lines: list, build):
        self._alt, self._notes, self._lines, self._build = alt, notes, lines, build
        self.text = "\n".join([*notes, *lines])

    @cached_property
    def digraph(self):
        """The `graphviz.Digraph`, to change or to save."""
        return self._build()

    @property
    def source(self) -> str:
        """The picture in the DOT language."""
        return self.digraph.source

    @cached_property
    def html(self) -> str:
        """An `<img>` with its alternative text, or the text where nothing can draw."""
        try:
            image = Picture(svg(self.source), self._alt, "\n".join(self._lines)).html
        except NoRenderer as problem:
            return without_picture(self.text, problem)
        return "".join(f'<p style="margin:4px 0">{escape(note)}</p>' for note in self._notes) + image


def without_picture(text: str, problem) -> str:
    """What a notebook shows instead of a picture: the text, and why."""
    note = f"As text, because nothing here can draw: {problem}. Try: pip install graphviz pygraphviz"
    return f'<pre style="white-space:pre-wrap">{escape(text)}</pre><p><small>{escape(note)}</small></p>'


def draw(tensor, names=None, limit: int = words.LIMIT) -> Drawing:
    """A picture of the graph behind `tensor`: PyTorch's nodes, and the edges along which gradients will travel.

    names: a dict of names and tensors, a module, or True for the variables that are visible where `draw` is called
    limit: how many nodes are shown

        >>> w, x = torch.tensor(2.0, requires_grad=True), torch.tensor(3.0)
        >>> draw(w * x + 1, names={"w": w, "x": x})
        The graph behind 7: 3 nodes, from AddBackward0 to the leaf w; 2 edges to None.
        <BLANKLINE>
        1 AddBackward0, made 7
            -> (2 MulBackward0, 0)
            -> None
        2 MulBackward0, made shape ()
            saved other: x = 3
            -> (3 AccumulateGrad, 0)
            -> None
        3 AccumulateGrad, leaf w = 2
    """
    graph = described(tensor, named_tensors(names, sys._getframe(1)))
    alt = words.sentence(graph)

    def build():
        digraph = empty_digraph()
        Sketch(graph, limit=limit).add_to(digraph)
        return digraph

    lines = words.lines(graph, limit)
    return Drawing(alt, words.left_out(graph, limit, _HINT), [alt, "", *lines] if lines else [alt], build)


def compare(a, b, names=None, titles=("first", "second"), limit: int = words.LIMIT) -> Drawing:
    """The graphs behind two tensors side by side, and in a sentence what only one of them has.

    names: as for `draw`
    titles: what the two are called

        >>> w = torch.tensor(2.0, requires_grad=True)
        >>> print(compare(w * w, w * w.detach(), names={"w": w}, titles=("with w", "with detach")).text.splitlines()[0])
        The nodes are the same, the edges are not.
    """
    pairs = named_tensors(names, sys._getframe(1))
    titles = [printable(title) for title in titles]
    both = [described(tensor, pairs) for tensor in (a, b)]
    notes = [_difference(*both, titles), *_shared(a, b)]
    lines = []
    for title, graph in zip(titles, both):
        lines += ["", f"{title}: {words.sentence(graph)}", *words.lines(graph, limit)]
        notes += [f"{title}: {line}" for line in words.left_out(graph, limit, _HINT)]
    alt = "; ".join(f"{title}: {words.sentence(graph)}" for title, graph in zip(titles, both))

    def build():
        digraph = empty_digraph()
        for place, (title, graph) in enumerate(zip(titles, both)):
            with digraph.subgraph(name=f"cluster_{place}") as part:
                part.attr(label=html_label([bold(title)]), style="dashed", color="#808080")
                Sketch(graph, prefix="ab"[place], limit=limit).add_to(part)
        return digraph

    return Drawing(f"Two graphs side by side. {alt}", notes, lines, build)


def _difference(a, b, titles):
    counts = [Counter(_kind(node) for node in graph.nodes) for graph in (a, b)]
    said = []
    for title, extra in zip(titles, (counts[0] - counts[1], counts[1] - counts[0])):
        if extra:
            kinds = [kind if number == 1 else f"{number} times {kind}" for kind, number in extra.items()]
            said.append(f'only in "{title}": {words.listed(kinds)}')
    if said:
        text = "; ".join(said)
        return f"{text[0].upper()}{text[1:]}."
    if _shape(a) == _shape(b):
        return f"The graphs are the same, {words.count(len(a.nodes), 'node')} each."
    return "The nodes are the same, the edges are not."


def _kind(node):
    return node.name if node.leaf is None else f"leaf {node.leaf.name or ''}".strip()


def _shape(graph):
    return [(_kind(node), node.edges) for node in graph.nodes]


def _shared(a, b):
    edges = [gradient_edge(tensor) for tensor in (a, b)]
    if None in edges:
        return []
    common = set(walk(edges[0][0])) & set(walk(edges[1][0]))
    return [f"They have {words.count(len(common), 'node')} in common."] * bool(common)


# ---------------------------------------------------------------------------------------------------- in DOT's language


def empty_digraph():
    """A `graphviz.Digraph` in the course's style, on an opaque white ground; raises NoRenderer without graphviz."""
    try:
        import graphviz
    except ImportError as error:
        raise NoRenderer(f"no package graphviz ({error})") from error
    font = {"fontname": "Helvetica,Arial,sans-serif", "fontsize": "11"}
    return graphviz.Digraph(
        "graph",
        graph_attr={"bgcolor": "#ffffff", "ordering": "out", "nodesep": "0.2", "ranksep": "0.35", **font},
        node_attr={"style": "filled", "margin": "0.1,0.06", "height": "0.3", "width": "0.3", **font},
        edge_attr={"arrowsize": "0.7", **font},
    )


def short(text: str) -> str:
    """Text of a length that a picture can show, in DOT's HTML form."""
    text = printable(text)
    cut = text if len(text) <= _WIDEST else text[: _WIDEST - 1] + "…"
    # DOT would replace `\N` by the name of the node, in HTML too.
    return escape(cut).replace("\\", "\\\\")


def bold(text: str) -> str:
    """A line of a label, in bold."""
    return f"<b>{short(text)}</b>"


def shown(text: str) -> str:
    """A line of a label, of the same size to a hair as when it is `unseen`."""
    return f'<font color="#000000">{short(text)}</font>'


def unseen(text: str, ground: str = "#ffffff") -> str:
    """A line of a label that only keeps its place, so that the pictures of a series have the same layout."""
    # Older versions of `dot` draw transparent text as opaque.
    return f'<font color="{ground}">{short(text)}</font>'


def html_label(lines: list) -> str:
    """A label of lines that are in DOT's HTML form already; a space keeps those of edges off the edge."""
    return f"<{'<br/>'.join(f'&#160;{line}&#160;' for line in lines)}>"


class Sketch:
    """Puts a graph into a `graphviz.Digraph`; `prefix` keeps the nodes of two graphs apart."""

    def __init__(self, graph, prefix: str = "n", limit: int = words.LIMIT):
        self.graph, self.prefix, self.limit = graph, prefix, limit

    def add_to(self, digraph):
        """Adds nodes and edges, and a stub for whatever is left out."""
        if self.graph.root is None:
            label = [bold(str(self.graph.tensor)), "not tracked"]
            digraph.node(self.id(0), html_label(label), **_STYLES["None"])
        for node in self.graph.nodes[: self.limit]:
            digraph.node(self.id(node.number), html_label(self.lines(node)), **self.node_attributes(node))
            for index, edge in enumerate(node.edges):
                self._add_edge(digraph, node, index, edge)

    def id(self, number: int) -> str:
        """What a node is called in the DOT source."""
        return f"{self.prefix}{number}"

    def _add_edge(self, digraph, node, index, edge):
        end = f"{self.id(node.number)}.{index}"
        if edge is None:
            digraph.node(end, html_label([bold("None"), "not tracked"]), **_STYLES["None"])
        elif edge.node > self.limit:
            digraph.node(end, "…", shape="plaintext", style="")
        else:
            end = self.id(edge.node)
        digraph.edge(self.id(node.number), end, **self.edge_attributes(node, index))

    def lines(self, node) -> list:
        """The lines of a node's label: its name, its leaf or what it made, what it saved."""
        found = self.head(node) + list(map(short, words.details(node)))
        if len(found) > _MOST_LINES:
            found[_MOST_LINES - 1 :] = [f"{len(found) - _MOST_LINES + 1} more lines in the text"]
        return found

    def head(self, node) -> list:
        """Number and name of a node, and the leaf or the one tensor that belongs to it."""
        found = [bold(f"{node.number} {node.name}")]
        if node.leaf is not None:
            found.append(short(f"leaf {node.leaf}"))
        elif len(node.outputs) == 1:
            found.append(short(str(node.outputs[0])))
        return found

    def node_attributes(self, node) -> dict:
        """The style of a node."""
        kind = "leaf" if node.leaf is not None else "output" if node.number == self.graph.root.node else "operation"
        return _STYLES[kind]

    def edge_attributes(self, node, index) -> dict:
        """The label and style of a node's edge."""
        output = self.output_index(node, index)
        return {"label": output} if output else {}

    def output_index(self, node, index) -> str:
        """The index that an edge carries, where the node it leads to made several tensors."""
        edge = node.edges[index]
        several = edge is not None and len(self.graph.node(edge).outputs) > 1
        return str(edge.output) if several else ""
