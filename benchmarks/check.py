"""What `check` adds to the time that a learner's program takes by itself, exercise by exercise.

    python benchmarks/check.py [UNIT]      the built unit, by default unit 5; where there is none, a tiny one

For every exercise, with the right answer and with a wrong one, the program is run bare in the visible cases and through
`check`, in turn, and the medians stand side by side. Then: what `import autogradlab` adds to importing torch and
IPython. The last line is `check adds NN.N ms (bare NN.N ms)`, the medians over all rows.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import textwrap
import time

import torch
from autogradlab import check, units
from autogradlab.case import Case
from autogradlab.exercises import load_attempts, load_cases
from autogradlab.recorded import FILE, SEED, record_exercise, write

ROOT = pathlib.Path(__file__).resolve().parent.parent
UNIT = "05_accumulating_gradients"
ROUNDS = 9

TINY_CASES = """
from autogradlab.exercises import Flat, Same, exercise


@exercise(
    Same("each step returns its own gradient", "returned.gradients"),
    Same("x.grad holds the last gradient", "arguments.x.grad"),
    Flat("the memory is flat", "cost.peak_bytes", over="steps"),
    arguments=("w", "x", "steps"),
)
def fresh_gradients(program, case):
    w, x = case.normal(requires_grad=True), case.normal(requires_grad=True)
    return {"gradients": program(w, x, case.over("steps", case.integer(2, 5)))}
"""
TINY_ATTEMPTS = """
from autogradlab.exercises import misconception


@misconception("A01")
def fresh_gradients(w, x, steps):
    gradients = []
    for _ in range(steps):
        ((w * x + 1) ** 2).backward()
        gradients.append(w.grad.item())
    return gradients
"""


def fresh_gradients(w, x, steps):
    """The right answer of the tiny unit."""
    gradients = []
    for _ in range(steps):
        w.grad = x.grad = None
        ((w * x + 1) ** 2).backward()
        gradients.append(w.grad.item())
    return gradients


def tiny_unit(folder: pathlib.Path) -> tuple:
    """The names of a notebook with a right answer, and a wrong answer for each exercise."""
    (folder / "cases.py").write_text(TINY_CASES, encoding="utf-8")
    (folder / "attempts.py").write_text(TINY_ATTEMPTS, encoding="utf-8")
    attempts = load_attempts(folder / "attempts.py", {})
    exercise = load_cases(folder / "cases.py")["fresh_gradients"]
    catalogue = {"A01": {"name": "adds up", "message": "It adds up. What empties it?"}}
    record = record_exercise(exercise, fresh_gradients, attempts, catalogue, 1.0, "")
    (folder / FILE).write_bytes(write(UNIT, {exercise.name: record}))
    return {"fresh_gradients": fresh_gradients}, {"fresh_gradients": attempts[0].program}


def built_unit(name: str) -> tuple:
    """The names that a notebook has after its set-up and its solutions, and a wrong answer for each exercise."""
    notebook = json.loads((ROOT / "source" / name / f"{name}.ipynb").read_text(encoding="utf-8"))
    names = {"__name__": "__main__"}
    for cell in notebook["cells"]:
        metadata = cell["metadata"]
        if "setup" in metadata.get("tags", ()) or metadata.get("nbgrader", {}).get("solution"):
            exec("".join(cell["source"]), names)
    wrong = {}
    for attempt in load_attempts(ROOT / "course" / "units" / name / "attempts.py", names):
        if attempt.kind == "misconception":
            wrong.setdefault(attempt.exercise, attempt.program)
    return names, wrong


def run_bare(exercise, program):
    """Runs the visible cases without looking at anything."""
    for index in range(exercise.visible):
        try:
            exercise.script(program, Case(exercise.name, SEED, index, exercise.visible, exercise.dtypes[0]))
        except Exception:  # a wrong answer may raise: check writes that down, here it only ends the case
            continue


def milliseconds(function) -> float:
    """How long one call takes."""
    began = time.perf_counter()
    function()
    return 1000 * (time.perf_counter() - began)


def measured(exercise, program) -> tuple:
    """The medians of the bare time and of what `check` adds to it."""
    globals()[exercise.name] = program  # check looks its answer up where it is called
    bare, checked = [], []
    for _ in range(ROUNDS):
        bare.append(milliseconds(lambda: run_bare(exercise, program)))
        checked.append(milliseconds(lambda: check(exercise.name)))
    return statistics.median(bare), statistics.median(both - one for both, one in zip(checked, bare, strict=True))


def import_time() -> float:
    """What importing autogradlab adds to importing torch and IPython, in milliseconds of one processor."""
    code = """
        import time, torch, IPython
        began = time.process_time()
        import autogradlab
        print(time.process_time() - began)
    """
    command = [sys.executable, "-c", textwrap.dedent(code)]
    return 1000 * statistics.median(float(subprocess.check_output(command)) for _ in range(5))


def main():
    """Measures one unit and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("unit", nargs="?", default=UNIT)
    name = parser.parse_args().unit
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        built = ROOT / "source" / name
        place = built if (built / FILE).is_file() else pathlib.Path(folder)
        with units.at(name, place):
            right, wrong = built_unit(name) if place == built else tiny_unit(place)
            units.unit(name)
            rows = []
            print(f"{'exercise':24}{'answer':>8}{'bare ms':>10}{'added ms':>10}")
            for exercise in units.current().exercises.values():
                if exercise.is_prediction:
                    continue
                for answer, program in (("right", right[exercise.name]), ("wrong", wrong[exercise.name])):
                    rows.append(measured(exercise, program))
                    print(f"{exercise.name:24}{answer:>8}{rows[-1][0]:10.1f}{rows[-1][1]:10.1f}")
    print(f"import autogradlab adds {import_time():.1f} ms of processor time to importing torch and IPython")
    bare, added = (statistics.median(column) for column in zip(*rows, strict=True))
    print(f"check adds {added:.1f} ms (bare {bare:.1f} ms)")


if __name__ == "__main__":
    main()
