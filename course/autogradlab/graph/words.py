"""A graph in words: a sentence, and the numbered list that says all that a picture shows."""

LIMIT = 500  # nodes, of a picture or a list
_MOST_NAMES = 6


def sentence(graph) -> str:
    """The point of the picture: what hangs behind the tensor, and where it ends."""
    if graph.root is None:
        return f"No graph behind {subject(graph.tensor)}: it does not require grad, nothing was recorded."
    leaves = [node for node in graph.nodes if node.leaf is not None]
    named = [node.leaf.name or f"number {node.number}" for node in leaves]
    words = f"The graph behind {subject(graph.tensor)}: {count(len(graph.nodes), 'node')}"
    if len(graph.nodes) > 1:
        ends = f"the {'leaf' if len(leaves) == 1 else 'leaves'} {listed(named)}" if leaves else "no leaf"
        words += f", from {graph.nodes[0].name} to {ends}"
    elif leaves:
        words += ", the leaf itself"
    nowhere = sum(edge is None for node in graph.nodes for edge in node.edges)
    if nowhere:
        words += f"; {count(nowhere, 'edge')} to None"
    return words + "."


def lines(graph, limit: int = LIMIT) -> list:
    """One line per node, and below it, indented, what it saved and where its edges lead."""
    found = []
    for node in graph.nodes[:limit]:
        found.append(f"{node.number} {title(node)}")
        found += [f"    {line}" for line in details(node)]
        found += [f"    -> {edge_words(graph, edge)}" for edge in node.edges]
    return found


def left_out(graph, limit: int, hint: str = "") -> list:
    """A sentence on the nodes beyond the limit, where there are any."""
    total = len(graph.nodes)
    return [f"{total - limit:,} of {count(total, 'node')} left out{hint}."] if total > limit else []


def title(node) -> str:
    """A node with the leaf or the tensor that belongs to it."""
    if node.leaf is not None:
        return f"{node.name}, leaf {versioned(node.leaf)}"
    return f"{node.name}, made {versioned(node.outputs[0])}" if len(node.outputs) == 1 else node.name


def subject(tensor) -> str:
    """A tensor as part of a sentence."""
    return str(tensor) if tensor.name or tensor.value is not None else f"a tensor of {tensor}"


def versioned(tensor) -> str:
    """A tensor, and how often it was changed in place if it was."""
    return f"{tensor}, version {tensor.version}" if tensor.version else str(tensor)


def details(node) -> list:
    """A node's outputs where there are several, and what it saved."""
    found = [f"output {index}: {output}" for index, output in enumerate(node.outputs)] if len(node.outputs) > 1 else []
    if node.leaf is not None and not node.leaf.requires_grad:
        found.append("does not require grad any more")
    found += map(str, node.saved)
    return found + ["saved values freed by backward()"] * node.freed


def edge_words(graph, edge) -> str:
    """An edge as PyTorch writes it: node and output index, or None."""
    return "None" if edge is None else f"({edge.node} {graph.node(edge).name}, {edge.output})"


def count(number: int, noun: str) -> str:
    """`1 node`, `2 nodes`, `1,000 nodes`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def listed(words: list) -> str:
    """`w`, `w and x`, `w, x and b`; of many the first few."""
    if len(words) > _MOST_NAMES:
        words = [*words[: _MOST_NAMES - 1], f"{len(words) - _MOST_NAMES + 1} more"]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
