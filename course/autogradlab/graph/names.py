"""The learner's names for the tensors of a graph."""

import collections.abc

import torch


def named_tensors(names, frame) -> list:
    """`(name, tensor)` for every tensor that `names` gives a name, in its order.

    names: None, a module, True for the variables that `frame` sees, or a dict, in which only tensors and modules count
    """
    if names is None:
        return []
    if names is True:
        seen = {**frame.f_globals, **frame.f_locals}
        local = {name: seen.pop(name) for name in frame.f_locals}
        # A notebook keeps its outputs under names like `_` and `_5`.
        pairs = [(name, value) for name, value in [*local.items(), *seen.items()] if not name.startswith("_")]
    elif isinstance(names, torch.nn.Module):
        pairs = [("", names)]
    elif isinstance(names, collections.abc.Mapping):
        pairs = list(names.items())
    else:
        raise TypeError(
            f"names is of type {type(names).__name__}. Expected a dict of names and tensors, a module, or True for "
            "your variables; try names={'w': w}."
        )
    found = []
    for name, value in pairs:
        if isinstance(value, torch.Tensor):
            found.append((printable(str(name)), value))
        elif isinstance(value, torch.nn.Module):
            inner = [*value.named_parameters(), *value.named_buffers()]
            found += [(printable(f"{name}.{own}" if name else own), tensor) for own, tensor in inner]
    return found


def printable(text: str) -> str:
    """Text in one line, without the characters that no picture can show."""
    return "".join(character if character.isprintable() else ascii(character)[1:-1] for character in text)


class Names:
    """Says what a tensor is called; of several names the first counts."""

    def __init__(self, pairs):
        self._names = {}
        # The tensors are kept, because another one could get the `id` of one that is gone.
        self._kept = [tensor for _, tensor in pairs]
        for name, tensor in pairs:
            self._names.setdefault(source(tensor), name)

    def of(self, tensor):
        """The name of this tensor, else None."""
        return self._names.get(source(tensor))

    def tensors(self) -> list:
        """All tensors that have a name."""
        return self._kept


def source(tensor):
    """What tells a tensor from all others: the node and output that made it, else the tensor itself.

    Autograd hands out a new Python object for an output that a node had saved, so that `id` alone would miss it.
    """
    node = tensor.grad_fn
    return id(tensor) if node is None else (node, tensor.output_nr)
