"""Walking autograd's graph: nodes are operations, edges are `(node, output index)` or lead to None."""

import torch


def walk(*roots) -> list:
    """All nodes that the edges lead to from the roots, each once, depth first; deep graphs are no problem."""
    found, pending = {}, [*reversed(roots)]
    while pending:
        node = pending.pop()
        if node not in found:
            found[node] = True
            pending += [following for following, _ in reversed(node.next_functions) if following is not None]
    return list(found)


def node_name(node) -> str:
    """PyTorch's name of a node, without its C++ namespace."""
    return node.name().rsplit("::", 1)[-1]


def leaf_of(node):
    """The leaf of an `AccumulateGrad`, else None."""
    # A custom Function may have any attributes, `ctx.variable` too.
    return None if isinstance(node, torch._C._FunctionBase) else getattr(node, "variable", None)
