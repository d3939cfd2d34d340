"""What shutting a child in costs, beside a bare fork of the same warm process.

    python benchmarks/sandbox.py [ROUNDS]

A process with torch and matplotlib loaded forks children that end at once: bare ones, and ones that enter the sandbox
with the layers that need no privileges, with the default ones, and with all. Printed are the medians of the time in
`enter`, of the time from before the fork until the child was waited for, and of the latter's ratio to a bare fork in
the same round; then what the probes and one look of the watch take. The last line is
`enter takes N.N ms without privileges (N.N times a bare fork)`.
"""

import argparse
import os
import pathlib
import shutil
import statistics
import struct
import tempfile
import time

import matplotlib.pyplot  # noqa: F401  what the warm parent holds decides on the price of a fork
import torch
import torch._dynamo

from autograder.engine.limits import Limits
from autograder.sandbox import enter, plan
from autograder.sandbox.probes import Targets, escape_attempts
from autograder.sandbox.watch import Watch

PRIVILEGED = dict.fromkeys(("namespaces", "private root", "other uid"), "left out to compare")


def milliseconds(began: float) -> float:
    """The time since `began`."""
    return 1000 * (time.perf_counter() - began)


def child(inside) -> tuple[float, float]:
    """Milliseconds that `inside(scratch)` says it took in a forked child, and of the child's whole life."""
    scratch = pathlib.Path(tempfile.mkdtemp())
    scratch.chmod(0o755)
    reading, writing = os.pipe()
    began = time.perf_counter()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            os.write(writing, struct.pack("d", inside(scratch, writing)))
            status = 0
        finally:
            os._exit(status)
    os.close(writing)
    told = os.read(reading, 8)
    _, status = os.waitpid(pid, 0)
    whole = milliseconds(began)
    os.close(reading)
    shutil.rmtree(scratch)
    if status:
        raise RuntimeError(f"a child ended with status {status}; run this in a process that may fork and try again")
    return struct.unpack("d", told)[0], whole


def entering(chosen):
    """A child's work: to enter the sandbox, timed."""

    def inside(scratch, writing):
        began = time.perf_counter()
        enter(chosen, scratch, keep=(writing,))
        return milliseconds(began)

    return inside


def probing(chosen, targets):
    """A child's work: the probes alone, timed."""

    def inside(scratch, writing):
        enter(chosen, scratch, keep=(writing,))
        began = time.perf_counter()
        escape_attempts(targets.plain)
        return milliseconds(began)

    return inside


def look(limits) -> float:
    """Milliseconds of a look at this process with a scratch folder of a hundred files."""
    with tempfile.TemporaryDirectory() as scratch:
        for number in range(100):
            (pathlib.Path(scratch) / str(number)).write_bytes(b"some bytes")
        began = time.perf_counter()
        Watch(os.getpid(), pathlib.Path(scratch), limits).look()
        return milliseconds(began)


def main() -> None:
    """Measures and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rounds", nargs="?", type=int, default=31)
    rounds = parser.parse_args().rounds
    torch.set_num_threads(1)
    limits = Limits()
    kinds = {
        "bare fork": lambda scratch, writing: 0.0,
        "without privileges": entering(plan([], limits, without=PRIVILEGED)),
        "default": entering(plan([], limits)),
        "strong": entering(plan([], limits, strong=True)),
    }
    child(kinds["default"])
    taken = {name: [] for name in kinds}
    for _ in range(rounds):
        for name, inside in kinds.items():
            taken[name].append(child(inside))
    print(f"{'child':20}{'enter ms':>10}{'whole ms':>10}{'to bare':>10}")
    ratios = {}
    for name, times in taken.items():
        ratios[name] = statistics.median(whole / bare for (_, whole), (_, bare) in zip(times, taken["bare fork"]))
        inside, whole = (statistics.median(column) for column in zip(*times))
        print(f"{name:20}{inside:10.1f}{whole:10.1f}{ratios[name]:10.1f}")
    with tempfile.TemporaryDirectory() as folder, Targets(pathlib.Path(folder)) as targets:
        probes = statistics.median(child(probing(plan([], limits), targets))[0] for _ in range(rounds))
    print(
        f"probes {probes:.1f} ms, a look of the watch {statistics.median(look(limits) for _ in range(rounds)):.1f} ms"
    )
    inside = statistics.median(entered for entered, _ in taken["without privileges"])
    print(f"enter takes {inside:.1f} ms without privileges ({ratios['without privileges']:.1f} times a bare fork)")


if __name__ == "__main__":
    main()
