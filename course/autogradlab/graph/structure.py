"""The graph behind a tensor as plain data: nodes, edges, leaves, and what every node saved."""

import functools
import re
import sys
from dataclasses import dataclass

import torch

from autogradlab.graph import words
from autogradlab.graph.names import Names, named_tensors, source
from autogradlab.nodes import leaf_of, node_name, walk
from autogradlab.output import as_text


@dataclass(frozen=True)
class TensorFacts:
    """What is known about a tensor that a graph mentions.

    value:   the number in a tensor of one element, None where it cannot be read or there are more
    version: how often it was changed in place, None where nobody can say
    requires_grad: as it is now; a leaf may have lost it since
    """

    name: str | None
    shape: tuple
    dtype: str
    device: str
    value: object = None
    version: int | None = None
    requires_grad: bool = True

    def __str__(self):
        words = [] if self.name is None else [self.name]
        if self.value is not None:
            words.append(f"= {as_text(self.value)}" if words else as_text(self.value))
        text = " ".join(words)
        parts = [text] if text else []
        if self.value is None or self.shape:
            parts.append(f"shape {self.shape}")
        if self.dtype != "float32":
            parts.append(self.dtype)
        if self.device != "cpu":
            parts.append(self.device)
        return ", ".join(parts)


@dataclass(frozen=True)
class Edge:
    """Where a gradient is sent: an output of a node, which is given by its number."""

    node: int
    output: int


@dataclass(frozen=True)
class Saved:
    """A tensor that a node keeps for its backward.

    name:   PyTorch's own for it (`_saved_self` is `self`); `ctx.x` for an attribute of a custom Function
    tensor: None where it could not be read; `problem` then says why
    """

    name: str
    tensor: TensorFacts | None
    problem: str = ""

    def __str__(self):
        # An attribute is not what `save_for_backward` saves: nobody checks it, and no backward() frees it.
        start = f"keeps {self.name}" if self.name.startswith("ctx.") else f"saved {self.name}"
        return f"{start}: {self.problem or self._value()}"

    def _value(self):
        tensor = self.tensor
        if tensor.name is None and tensor.value is not None and not tensor.shape and not tensor.requires_grad:
            # Most often a Python number, whose dtype nobody chose.
            return as_text(tensor.value)
        return tensor


@dataclass(frozen=True)
class Node:
    """One of PyTorch's nodes.

    number:  its place in the walk, from 1
    name:    PyTorch's, `AddBackward0` or `AccumulateGrad`
    leaf:    the tensor into whose `.grad` it adds, None for an operation
    outputs: what the operation made; the index of an edge to this node counts them
    edges:   one per input of the operation; None for an input that is not tracked
    freed:   whether a backward() has freed what it saved
    """

    number: int
    name: str
    leaf: TensorFacts | None
    outputs: tuple
    edges: tuple
    saved: tuple
    freed: bool


@dataclass(frozen=True, repr=False)
class Graph:
    """The graph behind a tensor, without anything that keeps it alive.

    tensor: the tensor asked about
    root:   the edge to the node that made it, None where nothing was recorded
    nodes:  in the order in which a walk along the edges meets them
    """

    tensor: TensorFacts
    root: Edge | None
    nodes: tuple

    def node(self, edge: Edge) -> Node:
        """The node that an edge leads to."""
        return self.nodes[edge.node - 1]

    def __repr__(self):
        lines = words.lines(self, words.LIMIT) + words.left_out(self, words.LIMIT)
        return "\n".join([words.sentence(self), *lines])


def graph(tensor, names=None) -> Graph:
    """The graph that PyTorch recorded behind `tensor`, as plain data.

    names: a dict of names and tensors, a module, or True for the variables that are visible where `graph` is called

        >>> w, x = torch.tensor(2.0, requires_grad=True), torch.tensor(3.0)
        >>> loss = (w * x + 1) ** 2
        >>> behind = graph(loss, names={"w": w, "x": x})
        >>> [node.name for node in behind.nodes]
        ['PowBackward0', 'AddBackward0', 'MulBackward0', 'AccumulateGrad']
        >>> behind.nodes[2].edges
        (Edge(node=4, output=0), None)
        >>> print(behind.nodes[2].saved[0])
        saved other: x = 3
    """
    return described(tensor, named_tensors(names, sys._getframe(1)))


def described(tensor, pairs) -> Graph:
    """The graph behind `tensor`; `pairs` of names and tensors."""
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(
            f"Expected a tensor, got {type(tensor).__name__}: a graph hangs on a tensor. Try the loss before `.item()`."
        )
    names = Names(pairs)
    # Grad mode, and a default device that the learner set, must not matter to what is read.
    with torch.no_grad():
        return Graph(facts(tensor, names), *_described_nodes(tensor, names))


def _described_nodes(tensor, names):
    start = gradient_edge(tensor)
    if start is None:
        return None, ()
    nodes = walk(start[0])
    numbers = {node: number for number, node in enumerate(nodes, 1)}
    read = [_Reading(node, names) for node in nodes]
    # A tensor that anybody still has is described in full; of the others autograd remembers shape and dtype.
    made = {place: known for reading in read for place, known in reading.made.items()}
    made |= {source(held): facts(held, names) for held in [*names.tensors(), tensor] if held.grad_fn in numbers}
    plain = [
        Node(
            numbers[node],
            node_name(node),
            reading.leaf,
            tuple(made.get((node, index)) or _expected(one) for index, one in enumerate(node._input_metadata)),
            tuple(None if to is None else Edge(numbers[to], index) for to, index in node.next_functions),
            tuple(reading.saved),
            reading.freed,
        )
        for node, reading in zip(nodes, read)
    ]
    return Edge(1, start[1]), tuple(plain)


def gradient_edge(tensor):
    """`(node, output index)` of a tensor, None where nothing is tracked; a leaf's node is its `AccumulateGrad`."""
    if tensor.grad_fn is not None:
        return tensor.grad_fn, tensor.output_nr
    if not tensor.requires_grad:
        return None
    # In inference mode, PyTorch's own function would find no node.
    with torch.inference_mode(False), torch.enable_grad():
        edge = torch.autograd.graph.get_gradient_edge(tensor)
    return edge.node, edge.output_nr


def facts(tensor, names) -> TensorFacts:
    """What is known about a tensor that is at hand."""
    return TensorFacts(
        names.of(tensor),
        tuple(tensor.shape),
        str(tensor.dtype).removeprefix("torch."),
        str(tensor.device),
        _number(tensor),
        None if tensor.is_inference() else tensor._version,
        tensor.requires_grad,
    )


def _number(tensor):
    if tensor.layout is not torch.strided or tensor.is_meta or tensor.numel() != 1:
        return None
    try:
        return tensor.item()
    except RuntimeError:
        # Inside `vmap` there is no single value.
        return None


def _expected(metadata) -> TensorFacts:
    dtype = str(metadata.dtype).removeprefix("torch.")
    return TensorFacts(None, tuple(metadata.shape), dtype, str(metadata.device))


class _Reading:
    """What a node keeps, and in `made` what this tells about what other nodes made; lives as long as the walk."""

    def __init__(self, node, names):
        self.names, self.saved, self.made, self.freed = names, [], {}, False
        leaf = leaf_of(node)
        self.leaf = None if leaf is None else facts(leaf, names)
        if not isinstance(node, torch._C._FunctionBase):
            for name in _saved_names(type(node)):
                self._read(name, node, f"_raw_saved_{name}", f"_saved_{name}")
            return
        self._read("tensors", node, "_raw_saved_tensors", "saved_tensors")
        for name, value in vars(node).items():
            if isinstance(value, torch.Tensor):
                self._note(f"ctx.{name}", value)

    def _read(self, name, node, packed, unpacked):
        try:
            raw = getattr(node, packed)
            if any(getattr(one, "unpack_hook", None) for one in (raw if isinstance(raw, tuple) else (raw,))):
                # To read it would run the hook; that of a checkpoint runs the forward pass again.
                self.saved.append(Saved(name, None, "kept by a hook, not read"))
                return
            value = getattr(node, unpacked)
        except RuntimeError as error:
            self._explain(name, str(error))
            return
        if isinstance(value, tuple):
            for index, one in enumerate(value):
                self._note(f"{name}[{index}]", one)
        else:
            self._note(name, value)

    def _note(self, name, value):
        if value is not None:
            known = facts(value, self.names)
            self.saved.append(Saved(name, known))
            if value.grad_fn is not None:
                self.made[source(value)] = known

    def _explain(self, name, message):
        changed = re.search(r"is at version (\d+); expected version (\d+)", message)
        if changed is not None:
            now, then = changed.groups()
            problem = f"changed in place since, version {now} instead of {then}; backward() would raise"
            self.saved.append(Saved(name, None, problem))
        elif "a second time" in message:
            self.freed = True
        else:
            self.saved.append(Saved(name, None, message.splitlines()[0]))


@functools.cache
def _saved_names(kind) -> tuple:
    """What nodes of one of PyTorch's own types keep."""
    return tuple(name.removeprefix("_raw_saved_") for name in dir(kind) if name.startswith("_raw_saved_"))
