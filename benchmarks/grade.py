"""What grading costs: nbgrader and the engine on the same classes, in turn, in one run of under twelve minutes.

    python benchmarks/grade.py [--quick]

Tiny: a torch notebook with two assert cells. What one more submission costs is the slope between classes of 5 and 25;
the starts stand beside it. Own: unit 5 with right answers, `--jobs 1`. The bare time is that of the
same cells, and of the same cases, in one process without either grader; what a grader adds to it is its overhead. Then
the engine's wall time beside the bare time on as many jobs as there are cores, and its memory at 100 and 2,000
submissions. The last two lines are `tiny NNN.Nx` and `own NNN.Nx`: how often the engine goes into nbgrader's time.
"""

import argparse
import io
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import redirect_stdout
from pathlib import Path

import nbformat
import torch
from autogradlab import units as notebook_units
from autogradlab.observation import observe

from autograder import lessons
from autograder.engine.knowledge import Unit
from autograder.intake.master import role

ROOT = Path(__file__).resolve().parent.parent
UNIT = "05_accumulating_gradients"
SMALL, LARGE = 5, 25
OWN = 4
ROUNDS = 3

TINY = [
    ("setup", "import torch", {"locked": True}),
    ("double", "def double(x):\n    ### BEGIN SOLUTION\n    return x + x\n    ### END SOLUTION", {"solution": True}),
    (
        "test_double",
        "assert torch.equal(double(torch.ones(3)), torch.full((3,), 2.0))",
        {"grade": True, "locked": True, "points": 2},
    ),
    (
        "slope",
        """def slope(f, x):
    ### BEGIN SOLUTION
    x = x.clone().requires_grad_()
    f(x).backward()
    return x.grad
    ### END SOLUTION""",
        {"solution": True},
    ),
    (
        "test_slope",
        "score = 0.0\nscore += bool(slope(lambda x: (x * x).sum(), torch.ones(3))[0] == 2)\nscore",
        {"grade": True, "locked": True, "points": 1},
    ),
]


def tiny_course(root: Path, learners: int) -> Path:
    """The tiny course with so many right submissions."""
    flags = {"grade": False, "locked": False, "solution": False, "task": False, "schema_version": 3}
    cells = [
        nbformat.v4.new_code_cell(source, id=name, metadata={"nbgrader": flags | more | {"grade_id": name}})
        for name, source, more in TINY
    ]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    notebook = nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": kernel})
    (root / "nbgrader_config.py").write_text("c = get_config()\nc.CourseDirectory.course_id = 'tiny'\n")
    (root / "source" / "ps1").mkdir(parents=True)
    nbformat.write(notebook, root / "source" / "ps1" / "p1.ipynb")
    for number in range(learners):
        folder = root / "submitted" / f"s{number:04}" / "ps1"
        folder.mkdir(parents=True)
        nbformat.write(notebook, folder / "p1.ipynb")
    return root


def own_course(root: Path, learners: int) -> Path:
    """This course with so many right submissions of one unit, graded by nbgrader's own preprocessors if it grades."""
    shutil.copytree(ROOT / "course", root / "course")
    for name in ("source", "release"):
        shutil.copytree(ROOT / name / UNIT, root / name / UNIT)
    (root / "nbgrader_config.py").write_text(
        "c = get_config()\nc.CourseDirectory.course_id = 'own'\nc.OverwriteCells.add_missing_cells = True\n"
        "c.Execute.shutdown_kernel = 'immediate'\n"
    )
    for number in range(learners):
        folder = root / "submitted" / f"s{number:04}" / UNIT
        folder.mkdir(parents=True)
        shutil.copy(root / "source" / UNIT / f"{UNIT}.ipynb", folder)
    return root


def timed(command: list[str], root: Path) -> float:
    """Seconds that a command takes in a course's folder."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    start = time.perf_counter()
    done = subprocess.run(command, cwd=root, env=os.environ | {"PATH": path}, capture_output=True, text=True)
    seconds = time.perf_counter() - start
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return seconds


def by_nbgrader(root: Path, assignment: str) -> float:
    """Seconds of `nbgrader autograde`; the assignment was generated before."""
    return timed([sys.executable, "-m", "nbgrader", "autograde", assignment, "--force"], root)


def by_engine(root: Path, jobs: int) -> float:
    """Seconds of the engine's command."""
    command = [sys.executable, "-m", "autograder", "grade", "--course", str(root), "--force", "--jobs", str(jobs)]
    return timed(command, root)


def generated(root: Path, assignment: str) -> Path:
    """The course with its assignment in the gradebook."""
    timed([sys.executable, "-m", "nbgrader", "generate_assignment", assignment, "--force"], root)
    return root


def slope(times: dict[int, float]) -> float:
    """Seconds of one more submission, of the times by the number of submissions."""
    (few, first), (many, last) = sorted(times.items())
    return (last - first) / (many - few)


def bare_cells() -> float:
    """Seconds of the unit's set-up, answers and checks, as a notebook has them, in this process."""
    lesson = lessons.read(UNIT)
    solutions = {name: one.solution for name, one in lesson.exercises.items()}
    with notebook_units.at(UNIT, ROOT / "source" / UNIT):
        start = time.perf_counter()
        names = {"__name__": "__main__"}
        for cell in lesson.cells:
            if cell.role in ("setup", "test"):
                exec(compile(cell.source, str(lesson.file), "exec"), names)
            elif cell.role == "solution":
                exec(compile(solutions[cell.nbgrader["grade_id"]], str(lesson.file), "exec"), names)
        return time.perf_counter() - start


def bare_demonstrations() -> float:
    """Seconds of the unit's other code cells, which nbgrader runs too, after those above."""
    notebook = nbformat.read(ROOT / "source" / UNIT / f"{UNIT}.ipynb", 4)
    with notebook_units.at(UNIT, ROOT / "source" / UNIT), redirect_stdout(io.StringIO()):
        names, seconds = {"__name__": "__main__"}, 0.0
        for cell in notebook.cells:
            if cell.cell_type != "code" or role(cell.metadata) == "test":
                continue
            start = time.perf_counter()
            exec(compile(cell.source, "cell", "exec"), names)
            seconds += (time.perf_counter() - start) * (role(cell.metadata) in ("demonstration", "given"))
        return seconds


def bare_cases(unit: Unit) -> float:
    """Seconds of the right programs in the cases that the engine asks for, in this process."""
    start = time.perf_counter()
    for known in unit.exercises.values():
        if not known.exercise.is_prediction:
            for seed, index, dtype, device, costed in known.cases:
                exercise = known.trial.exercise if costed else known.trial.cheap
                observe(exercise, known._program, seed, index, dtype, device)
    return time.perf_counter() - start


def children_peak() -> int:
    """The largest resident memory of any process that has been waited for, in KiB."""
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one round, and no class of 2,000")
    quick = parser.parse_args().quick
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as place:
        report(Path(place), 1 if quick else ROUNDS, quick)


def report(place: Path, rounds: int, quick: bool) -> None:
    """All measurements, in turn."""
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the start")
    tiny = {n: generated(tiny_course(_new(place / f"tiny{n}"), n), "ps1") for n in (SMALL, LARGE)}
    theirs: dict[int, float] = {}
    ours: dict[int, list[float]] = {SMALL: [], LARGE: []}
    for n, root in tiny.items():
        theirs[n] = by_nbgrader(root, "ps1")
        for _ in range(rounds):
            ours[n].append(by_engine(root, 1))
    # The engine's slope is milliseconds, so that it is taken over a larger class as well.
    many = LARGE * 8
    root = tiny_course(_new(place / "many"), many)
    ours[many] = [by_engine(root, 1) for _ in range(rounds)]
    best = {n: statistics.median(times) for n, times in ours.items()}
    slopes = slope(theirs), slope({SMALL: best[SMALL], many: best[many]})
    print(f"{'tiny':28}{'nbgrader':>12}{'engine':>12}")
    for n in (SMALL, LARGE):
        print(f"{f'{n} submissions, s':28}{theirs[n]:12.2f}{best[n]:12.2f}")
    print(f"{f'{many} submissions, s':28}{'-':>12}{best[many]:12.2f}")
    starts = theirs[SMALL] - SMALL * slopes[0], best[SMALL] - SMALL * slopes[1]
    print(f"{'start, s':28}{starts[0]:12.2f}{starts[1]:12.2f}")
    print(f"{'one more submission, ms':28}{1000 * slopes[0]:12.1f}{1000 * slopes[1]:12.1f}")

    unit = Unit.of(UNIT, ROOT / "course", "00" * 32)
    bare_cases(unit)  # the first observation of a process takes longer
    near = statistics.median(bare_cells() for _ in range(3)) + bare_demonstrations()
    far = statistics.median(bare_cases(unit) for _ in range(3))
    few, more = (generated(own_course(_new(place / f"own{n}"), n), UNIT) for n in (1, OWN))
    their_own = slope({1: by_nbgrader(few, UNIT), OWN: by_nbgrader(more, UNIT)})
    large = own_course(_new(place / "own_large"), OWN * 5)
    ones, larges = zip(*((by_engine(few, 1), by_engine(large, 1)) for _ in range(rounds)))
    our_own = slope({1: statistics.median(ones), OWN * 5: statistics.median(larges)})
    print(f"\n{UNIT}, one more submission at --jobs 1, ms")
    print(f"{'':28}{'nbgrader':>12}{'engine':>12}")
    print(f"{'wall':28}{1000 * their_own:12.0f}{1000 * our_own:12.0f}")
    print(f"{'bare':28}{1000 * near:12.0f}{1000 * far:12.0f}")
    added = their_own - near, our_own - far
    print(f"{'added':28}{1000 * added[0]:12.0f}{1000 * added[1]:12.0f}")
    jobs = os.cpu_count() or 1
    start = statistics.median(ones) - our_own
    wall = by_engine(large, jobs) - start
    print(f"wall at --jobs {jobs}, the start aside, over bare time / {jobs}: {wall * jobs / (OWN * 5 * far):.2f}")
    if not quick:
        for n in (100, 2000):
            root = tiny_course(_new(place / f"class{n}"), n)
            seconds = by_engine(root, jobs)
            print(f"{n} submissions: {seconds:.0f} s, largest process so far {children_peak() // 1024} MiB")
            shutil.rmtree(root)
    print(f"tiny {slopes[0] / slopes[1]:.1f}x")
    print(f"own {added[0] / added[1]:.1f}x")


def _new(folder: Path) -> Path:
    folder.mkdir()
    return folder


if __name__ == "__main__":
    main()
