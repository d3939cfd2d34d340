"""What a cluster gives and costs: one worker against two, in turn, and what each submission costs the coordinator.

    python benchmarks/cluster.py [--quick] [--only costs|workers]

The scheduler, the workers (one thread each) and the `grade` command are processes of this machine, so that two workers
need two cores. First the processor time that worker, command and scheduler spend on one more submission, tiny and of
this course, and from it how many threads of workers one coordinator can keep busy. Then cells of a second and more of
processor time without sleep, on one torch thread. What counts is what one more submission takes, the slope between two
classes; beside it stands what two bare processes make of this machine. The last line is `cluster N.Nx`: how many times
faster two workers are than one.
"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path

import nbformat
from grade import UNIT, own_course, tiny_course

#: Seconds of processor time that a heavy cell takes, about.
CELL_SECONDS = 1.5
HEAVY = 4, 28
TINY = 20, 120
OWN = 4, 44
ROUNDS = 3
PLAN = 100_000

WORK = """import torch

def work(times):
    x = torch.full((192, 192), 1 / 192)
    for _ in range(times):
        x = x @ x * 192
    return x
"""


@dataclass
class Spent:
    """What one run of the command took: seconds of wall time, of processor time of each program, and its memory."""

    wall: float
    workers: float
    coordinator: float
    scheduler: float
    memory: int


def heavy_course(root: Path, learners: int, times: int) -> Path:
    """A course whose only answer computes for about CELL_SECONDS."""
    cells = [
        ("setup", WORK, {"locked": True}),
        (
            "answer",
            f"def answer():\n    ### BEGIN SOLUTION\n    return work({times})\n    ### END SOLUTION",
            {"solution": True},
        ),
        ("test_answer", "assert answer().shape == (192, 192)", {"grade": True, "locked": True, "points": 1}),
    ]
    flags = {"grade": False, "locked": False, "solution": False, "task": False, "schema_version": 3}
    nodes = [
        nbformat.v4.new_code_cell(source, id=name, metadata={"nbgrader": flags | more | {"grade_id": name}})
        for name, source, more in cells
    ]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    notebook = nbformat.v4.new_notebook(cells=nodes, metadata={"kernelspec": kernel})
    (root / "nbgrader_config.py").write_text("c = get_config()\nc.CourseDirectory.course_id = 'heavy'\n")
    for folder in (root / "source" / "hw", *(root / "submitted" / f"s{n:04}" / "hw" for n in range(learners))):
        folder.mkdir(parents=True)
        nbformat.write(notebook, folder / "heavy.ipynb")
    return root


def times_for(seconds: float) -> int:
    """How often the work has to be done to take so long on one thread here."""
    import torch

    torch.set_num_threads(1)
    names: dict = {}
    exec(WORK, names)
    names["work"](50)
    start = time.process_time()
    names["work"](500)
    return max(1, round(500 * seconds / (time.process_time() - start)))


def bare_speed_up(times: int) -> float:
    """How many times faster this machine does the same work in two processes than in one, without any grader."""
    program = f"import time\n{WORK}\ntorch.set_num_threads(1)\nwork(50)\ninput()\n"
    program += f"start = time.perf_counter()\nwork({times})\nprint(time.perf_counter() - start)"

    def seconds(number: int) -> float:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        processes = [subprocess.Popen([sys.executable, "-c", program], **pipes) for _ in range(number)]
        time.sleep(10)  # until all have imported torch, and wait for a line
        for process in processes:
            process.stdin.write("\n")
            process.stdin.flush()
        return statistics.mean(float(process.communicate()[0]) for process in processes)

    return 2 * seconds(1) / seconds(2)


@contextmanager
def workers(place: Path, number: int):
    """The scheduler's file, and the processes: scheduler, then so many workers of one thread."""
    place.mkdir()
    file = place / "scheduler.json"
    common = ["--host", "127.0.0.1", "--dashboard-address", "127.0.0.1:0", "--scheduler-file", str(file)]
    commands = [["scheduler", "--port", "0"]]
    commands += [["worker", "--nthreads", "1", "--no-nanny", "--local-directory", str(place)]] * number
    processes = []
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    with (place / "log").open("w") as log:
        try:
            for command in commands:
                whole = [sys.executable, "-m", "dask", *command, *common]
                processes.append(subprocess.Popen(whole, cwd=place, env=environment, stdout=log, stderr=log))
                while not file.is_file():
                    if processes[0].poll() is not None:
                        raise SystemExit(f"The scheduler has not started:\n{(place / 'log').read_text()}")
                    time.sleep(0.1)
            yield file, processes
        finally:
            for process in reversed(processes):  # the scheduler last
                process.terminate()
                process.wait(30)


def processor_seconds(process: subprocess.Popen) -> float:
    """Seconds of processor time that a process has taken so far, with all those that it started, which have ended."""
    children = Path(f"/proc/{process.pid}/task").glob("*/children")
    while any(file.read_text() for file in children):
        time.sleep(0.1)
        children = Path(f"/proc/{process.pid}/task").glob("*/children")
    counters = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, counters[11:15])) / os.sysconf("SC_CLK_TCK")


def graded(root: Path, cluster) -> Spent:
    """What grading the whole class took."""
    file, processes = cluster
    command = [sys.executable, "-m", "autograder", "grade", "--course", str(root), "--force", "--scheduler", str(file)]
    before, start = [processor_seconds(process) for process in processes], time.perf_counter()
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(command, stdout=said, stderr=said)
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - start
        if status:
            said.seek(0)
            raise SystemExit(f"{' '.join(command)} ended with {status}:\n{said.read().decode()}")
    process.returncode = 0
    scheduler, *others = (processor_seconds(process) - then for process, then in zip(processes, before))
    return Spent(wall, sum(others), usage.ru_utime + usage.ru_stime, scheduler, usage.ru_maxrss)


def slopes(runs: dict[int, list[Spent]]) -> Spent:
    """What one more submission takes, of the medians of runs by the number of submissions; memory is in KiB."""
    (few, first), (many, last) = sorted(runs.items())

    def slope(name: str) -> float:
        ends = (statistics.median(getattr(run, name) for run in found) for found in (last, first))
        return (next(ends) - next(ends)) / (many - few)

    return Spent(*(slope(one.name) for one in fields(Spent)))


def speed_up(place: Path, rounds: int) -> float:
    """How many times faster two workers are than one; prints what it is made of."""
    times = times_for(CELL_SECONDS)
    classes = {n: heavy_course(_new(place / f"heavy{n}"), n, times) for n in HEAVY}
    runs: dict[int, dict[int, list[Spent]]] = {number: {n: [] for n in HEAVY} for number in (1, 2)}
    with workers(place / "one", 1) as one, workers(place / "two", 2) as two:
        for _ in range(rounds):
            for n, root in classes.items():
                for number, cluster in ((1, one), (2, two)):
                    runs[number][n].append(graded(root, cluster))
    found = {number: slopes(runs[number]) for number in (1, 2)}
    print(f"\ncells of {CELL_SECONDS:g} s{'':16}{'one worker':>14}{'two workers':>14}")
    for n in HEAVY:
        shown = (statistics.median(run.wall for run in runs[number][n]) for number in (1, 2))
        print(f"{f'{n} submissions, start included, s':32}" + "".join(f"{value:14.1f}" for value in shown))
    print(f"{'one more submission, s':32}" + "".join(f"{found[number].wall:14.2f}" for number in (1, 2)))
    print(f"two bare processes do the same work {bare_speed_up(5 * times):.1f} times as fast as one")
    return found[1].wall / found[2].wall


def costs(place: Path, rounds: int) -> dict[str, Spent]:
    """What one more submission costs whom, on one worker, by what it is."""
    made = {
        "tiny": {n: tiny_course(_new(place / f"tiny{n}"), n) for n in TINY},
        UNIT: {n: own_course(_new(place / f"own{n}"), n) for n in OWN},
    }
    with workers(place / "costs", 1) as cluster:
        return {
            kind: slopes({n: [graded(root, cluster) for _ in range(rounds)] for n, root in classes.items()})
            for kind, classes in made.items()
        }


def tell_costs(found: dict[str, Spent]) -> None:
    """Print what a submission costs, and what follows for many."""
    print(f"{'one more submission':34}" + "".join(f"{kind[:20]:>22}" for kind in found))
    rows = {
        "wall time on one worker, ms": lambda spent: f"{1000 * spent.wall:.0f}",
        "worker, processor ms": lambda spent: f"{1000 * spent.workers:.0f}",
        "coordinator, processor ms": lambda spent: f"{1000 * spent.coordinator:.1f}",
        "scheduler, processor ms": lambda spent: f"{1000 * spent.scheduler:.1f}",
        "coordinator, memory, KiB": lambda spent: f"{spent.memory:.1f}",
        "threads one coordinator feeds": lambda spent: f"{spent.workers / spent.coordinator:.0f}",
        f"{PLAN:,}: coordinator, h": lambda spent: f"{PLAN * spent.coordinator / 3600:.1f}",
        f"{PLAN:,}: all workers, h": lambda spent: f"{PLAN * spent.workers / 3600:.1f}",
    }
    for words, shown in rows.items():
        print(f"{words:34}" + "".join(f"{shown(spent):>22}" for spent in found.values()))


def _new(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    return folder


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one round instead of three")
    parser.add_argument("--only", choices=["costs", "workers"], help="one of the two measurements")
    asked = parser.parse_args()
    rounds = 1 if asked.quick else ROUNDS
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the start", flush=True)
    with tempfile.TemporaryDirectory() as place:
        if asked.only != "workers":
            tell_costs(costs(Path(place), rounds))
        if asked.only != "costs":
            print(f"cluster {speed_up(Path(place), rounds):.1f}x")


if __name__ == "__main__":
    main()
