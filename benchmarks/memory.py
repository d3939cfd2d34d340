"""What watching and counting cost: microseconds per operation of a small model, and milliseconds to look at a graph."""

import statistics
import time

import torch
from autogradlab.counters import count
from autogradlab.memory import held_by, watch
from torch import nn

STEPS, ROUNDS = 50, 9


def seconds(run) -> float:
    """The median time of a call."""
    times = []
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        run()
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


def main():
    torch.set_num_threads(1)
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1))
    x = torch.randn(4, 8)

    def train():
        for _ in range(STEPS):
            (model(x) ** 2).mean().backward()

    def inside(block):
        def run():
            with block():
                train()

        return run

    with count() as counted:
        train()
    bare = seconds(train)
    print(f"{counted.operations / STEPS:.0f} operations a step, {bare / STEPS * 1e6:.0f} us bare")
    for block in (watch, count):
        more = (seconds(inside(block)) - bare) * 1e6
        print(f"{block.__name__}: {more / STEPS:.0f} us a step more, {more / counted.operations:.1f} us an operation")

    deep = torch.ones(8, requires_grad=True)
    for _ in range(500):
        deep = deep.sin()
    print(f"held_by a graph of {held_by(deep).nodes} nodes: {seconds(lambda: held_by(deep)) * 1e3:.1f} ms")
    with watch() as watched:
        kept = (model(x) ** 2).mean()
    print(f"watched.by_node(): {seconds(watched.by_node) * 1e3:.0f} ms")
    del kept


if __name__ == "__main__":
    main()
