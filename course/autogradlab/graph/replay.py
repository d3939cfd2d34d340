"""A real backward, step by step: which node the engine visited, what it received, what it sent."""

import gc
from dataclasses import dataclass

import torch
from torch.autograd.graph import GradientEdge

from autogradlab.graph.structure import described, gradient_edge
from autogradlab.graph.words import subject
from autogradlab.nodes import leaf_of, walk
from autogradlab.output import as_text

_MOST_VALUES = 4


@dataclass(frozen=True)
class Gradient:
    """A gradient on its way.

    values: a number or nested lists, None of larger ones
    least, most: the ends of the values, None where they have none (a complex or a sparse gradient)
    """

    shape: tuple
    values: object = None
    least: float | None = None
    most: float | None = None

    def __str__(self):
        if self.values is not None:
            return _as_text(self.values)
        if self.least is None:
            return f"shape {self.shape}"
        least, most = as_text(self.least), as_text(self.most)
        return f"shape {self.shape}, " + (f"all {most}" if self.least == self.most else f"from {least} to {most}")


@dataclass(frozen=True)
class Step:
    """One node's turn in a backward.

    node:     its number in the graph
    received: a Gradient or None for each of its outputs
    sent:     a Gradient or None for each of its edges; of a leaf nothing
    """

    node: int
    received: tuple
    sent: tuple


def replayed(tensor, gradient, pairs) -> tuple:
    """The graph behind `tensor` and the `Step`s of a backward from it, in the order in which the engine took them."""
    graph = described(tensor, pairs)
    if graph.root is None:
        raise RuntimeError(
            f"There is no graph behind {subject(graph.tensor)}, so that its backward() would raise: it does not "
            "require grad. Which of the tensors that it was computed from should?"
        )
    return graph, _Recorder(walk(gradient_edge(tensor)[0])).run(tensor, gradient)


class _Recorder:
    """Watches one run of the engine over these nodes, and leaves everything as it was."""

    def __init__(self, nodes):
        self.nodes = nodes
        self.steps, self.handles = [], []

    def run(self, tensor, gradient):
        """The steps of a run that adds to no `.grad` and frees nothing."""
        leaves = [(number, node) for number, node in enumerate(self.nodes, 1) if leaf_of(node) is not None]
        kept = _retained_gradients()
        try:
            for number, node in enumerate(self.nodes, 1):
                self._watch(number, node)
            ends = [GradientEdge(node, 0) for _, node in leaves]
            arrived = torch.autograd.grad(tensor, ends, gradient, retain_graph=True, allow_unused=True)
        except RuntimeError as error:
            if "a second time" not in str(error):
                raise
            raise RuntimeError(
                "An earlier backward() has freed what this graph had saved, so that no second one can run. Compute the "
                "tensor again, and replay it before its backward()."
            ) from error
        finally:
            for handle in self.handles:
                handle.remove()
            for retaining, value in kept:
                if retaining.grad is not value:
                    retaining.grad = value
        self._complete({number: value for (number, _), value in zip(leaves, arrived)})
        return tuple(self.steps)

    def _watch(self, number, node):
        leaf = leaf_of(node)
        if leaf is None:
            self.handles.append(node.register_hook(lambda sent, received: self._note(number, received, sent)))
        elif leaf.requires_grad:
            # In this run the engine goes to a leaf's node, without calling it or its hooks.
            self.handles.append(leaf.register_hook(lambda received: self._note(number, (received,), ())))

    def _note(self, number, received, sent):
        self.steps.append(Step(number, tuple(map(summary, received)), tuple(map(summary, sent))))

    def _complete(self, arrived):
        """Adds the steps of leaves that no hook saw: they got None, or do not require grad any more."""
        seen = {step.node for step in self.steps}
        missing = {self.nodes[number - 1]: number for number in arrived if number not in seen}
        after = dict.fromkeys(missing.values(), 0)
        for place, step in enumerate(self.steps, 1):
            for following, _ in self.nodes[step.node - 1].next_functions:
                if following in missing:
                    after[missing[following]] = place
        # The engine goes to a leaf as soon as all that send to it are done. From the end, so that places stay right.
        for number, place in sorted(after.items(), key=lambda item: item[1], reverse=True):
            self.steps.insert(place, Step(number, (summary(arrived[number]),), ()))


def _retained_gradients() -> list:
    """Every tensor that keeps its gradient by `retain_grad`, with it: the run adds to them, wherever they are."""
    with torch._C.DisableTorchFunctionSubclass():
        tensors = [found for found in gc.get_objects() if issubclass(type(found), torch.Tensor)]
        return [(tensor, tensor.grad) for tensor in tensors if tensor.retains_grad]


def summary(gradient):
    """A gradient as plain data; None stays None."""
    if gradient is None:
        return None
    shape = tuple(gradient.shape)
    if gradient.layout is not torch.strided or gradient.is_meta:
        return Gradient(shape)
    if gradient.numel() <= _MOST_VALUES:
        return Gradient(shape, gradient.tolist())
    if gradient.is_complex():
        return Gradient(shape)
    return Gradient(shape, None, gradient.min().item(), gradient.max().item())


def _as_text(values):
    if isinstance(values, list):
        return f"[{', '.join(map(_as_text, values))}]"
    return as_text(values)
