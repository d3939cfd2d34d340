"""How long the graph of about 500 nodes takes to read and to draw, beside pygraphviz alone on the same DOT source.

    python benchmarks/graph.py

Each figure is the median of five. pygraphviz draws in both columns, whether or not the program `dot` is installed.
"""

import os
import random
import statistics
import time

import pygraphviz
import torch
from autogradlab import graph
from autogradlab.graph.rendering import silent

NODES = 500


def chain():
    """Steps of `y * 2 + 1`: every node has an edge to None."""
    y = torch.tensor(1.0, requires_grad=True)
    for _ in range(NODES // 2):
        y = y * 2 + 1
    return y


def layers():
    """A deep network of linear layers."""
    count = NODES // 5
    network = torch.nn.Sequential(*[layer for _ in range(count) for layer in (torch.nn.Linear(4, 4), torch.nn.Tanh())])
    return network(torch.randn(3, 4)).sum()


def recurrent():
    """A recurrent network: one weight, used at every step."""
    weight, state = torch.randn(4, 4, requires_grad=True), torch.zeros(4)
    for _ in range(NODES // 5):
        state = torch.tanh(state @ weight + 1)
    return state.sum()


def tangle():
    """Products of tensors drawn from the last twenty."""
    torch.manual_seed(0)
    draws = random.Random(0)
    pool = [torch.rand(3, requires_grad=True) for _ in range(20)]
    while len(pool) < NODES + 80:
        pool.append(draws.choice(pool[-20:]) * draws.choice(pool[-20:]))
    return sum(pool[-20:]).sum()


def milliseconds(function):
    """The median time of five calls."""
    times = []
    for _ in range(5):
        start = time.perf_counter()
        function()
        times.append(1000 * (time.perf_counter() - start))
    return statistics.median(times)


def bare(source):
    """The picture by pygraphviz alone."""
    with silent():
        pygraphviz.AGraph(string=source).draw(format="svg", prog="dot")


def main():
    os.environ["PATH"] = ""
    print(f"{'graph':<10}{'nodes':>7}{'read, ms':>10}{'read and draw, ms':>19}{'bare, ms':>10}{'ratio':>7}")
    slowest = 0.0
    for make in (chain, layers, recurrent, tangle):
        tensor = make()
        source = graph.draw(tensor).source
        read = milliseconds(lambda tensor=tensor: graph.graph(tensor))
        drawn = milliseconds(lambda tensor=tensor: graph.draw(tensor).html)
        alone = milliseconds(lambda source=source: bare(source))
        size = len(graph.graph(tensor).nodes)
        print(f"{make.__name__:<10}{size:>7}{read:>10.0f}{drawn:>19.0f}{alone:>10.0f}{drawn / alone:>7.2f}")
        slowest = max(slowest, drawn)
    print(f"slowest {slowest:.0f} ms")


if __name__ == "__main__":
    main()
