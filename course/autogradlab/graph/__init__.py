"""The graph that autograd records: as plain data, as a picture, and while a backward runs through it.

    from autogradlab import graph

    graph.graph(loss)                       nodes, edges, leaves and saved tensors, as plain data
    graph.draw(loss, names=True)            the same as a picture, with the names of your variables
    graph.compare(loss, other, names=True)  two graphs side by side
    graph.steps(loss, names=True)           a backward, node by node

Nothing of this changes a gradient or a flag, keeps a graph alive, or frees it. matplotlib is not needed; graphviz is
imported by the first picture.
"""

from autogradlab.graph.drawing import Drawing, compare, draw
from autogradlab.graph.player import Steps, steps
from autogradlab.graph.structure import Edge, Graph, Node, Saved, TensorFacts, graph

__all__ = ["Drawing", "Edge", "Graph", "Node", "Saved", "Steps", "TensorFacts", "compare", "draw", "graph", "steps"]
