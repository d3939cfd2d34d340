"""Proof that every exercise tells right from wrong, and one wrong from another. docs/audit.md says what is proved."""

import json
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager, redirect_stdout
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import torch
from rich.console import Console
from rich.progress import track
from rich.table import Table

from autograder.build import stale_pages
from autograder.lessons import COURSE, ROOT, ContentError, Problem
from autograder.lessons import units as all_units
from autograder.proofs import (
    COUNTS,
    Proof,
    load,
    prove_attempts,
    prove_equivalents,
    prove_mutants,
    prove_rewrites,
)
from autograder.proofs_of_lessons import prove_lesson
from autograder.proofs_of_predictions import prove_changed_answers, prove_other_forms, prove_predictions
from autograder.trials import devices

MOST_EQUIVALENT = 0.05
MOST_MISNAMED = 0.02

Job = tuple[str, str | None, Callable[[], Proof]]  # unit, exercise (None: the unit as a whole), what to do


def audit(
    units=None, as_json: bool = False, course: Path = COURSE, into: Path = ROOT, processes: int | None = None
) -> int:
    """Audits the named units (default: all) and says what falls short.

    Returns 0 if nothing does, 1 if something does, 2 for a unit that is not there.

    `processes` is how many work at it (default: one for each processor); 0 works in this process.
    """
    names = list(units or all_units(course))
    unknown = sorted(set(names) - set(all_units(course)))
    if unknown:
        known = ", ".join(all_units(course)) or "none yet"
        print(f"There is no unit {', '.join(unknown)}. Units here: {known}.", file=sys.stderr)
        return 2
    found = audited(names, course, into, processes)
    if as_json:
        print(json.dumps({"total": found["total"], "exercises": found["exercises"]}, indent=2, ensure_ascii=False))
    else:
        _show(found)
    return 1 if found["total"]["problems"] else 0


def audit_unit(unit: str, course: Path = COURSE, into: Path = ROOT, processes: int | None = None) -> dict:
    """The audit of one unit as plain data: `total`, `exercises` by unit/name, `remarks`, `steps` of the rewrites."""
    return audited([unit], course, into, processes)


def audited(units, course: Path = COURSE, into: Path = ROOT, processes: int | None = None) -> dict:
    """The audit of several units as plain data, as `audit_unit` gives it."""
    with redirect_stdout(sys.stderr):
        jobs = [job for unit in units for job in _jobs(unit, course, into)]
    proofs: dict[tuple[str, str | None], list[Proof]] = {(unit, name): [] for unit, name, _ in jobs}
    progress = Console(stderr=True)
    quiet = not progress.is_terminal
    # Standard output is for the findings; what a lesson's set-up prints is not among them.
    with redirect_stdout(sys.stderr), _workers(processes) as run:
        for (unit, name), proof in track(
            run(jobs), "audit", len(jobs), console=progress, transient=True, disable=quiet
        ):
            proofs[unit, name].append(proof)
    exercises = {place: _merged(made) for place, made in proofs.items() if place[1] is not None}
    others = [_merged(made) for place, made in proofs.items() if place[1] is None]
    everything = _merged([*exercises.values(), *others])
    everything.problems += _shares(units, exercises, course)
    if list(units) == all_units(course) and not everything.problems:
        everything.problems += stale_pages(into, course)
    counts = {f"{unit}/{name}": _counts(proof) for (unit, name), proof in exercises.items()}
    total = _counts(everything) | {"seeds": min((one["seeds"] for one in counts.values()), default=0)}
    total |= {"exercises": len(exercises), "devices": _devices(units, course)}
    return {"total": total, "exercises": counts, "remarks": everything.remarks, "steps": dict(everything.steps)}


# --- work ------------------------------------------------------------------------------------------------------------


def _jobs(unit: str, course: Path, into: Path) -> Iterator[Job]:
    """The proofs of a unit, the longest first. Where it cannot be loaded, the proof of the lesson says why."""
    try:
        loaded = load(unit, course)
    except ContentError:
        yield unit, None, partial(prove_lesson, unit, course, into)
        return
    programs = [name for name, exercise in loaded.exercises.items() if not exercise.is_prediction]
    listed = [name for name in programs if loaded.declared_equivalents(name)]
    for prove, names in (
        (prove_equivalents, listed),
        (prove_attempts, programs),
        (prove_mutants, programs),
        (prove_rewrites, programs),
    ):
        for name in names:
            yield unit, name, partial(_prove, prove, unit, name, course)
    yield unit, None, partial(prove_lesson, unit, course, into)
    for name, exercise in loaded.exercises.items():
        if exercise.is_prediction:
            for prove in (prove_predictions, prove_changed_answers, prove_other_forms):
                yield unit, name, partial(_prove, prove, unit, name, course)


def _prove(prove: Callable, unit: str, name: str, course: Path) -> Proof:
    return prove(load(unit, course), name)


@contextmanager
def _workers(processes: int | None) -> Iterator[Callable]:
    """A function that does jobs and yields each place and proof as it is done."""
    count = os.cpu_count() if processes is None else processes
    if count == 0:
        yield lambda jobs: (((unit, name), work()) for unit, name, work in jobs)
        return
    # Never forked: a process in which a backward ran cannot run one again after a fork.
    with ProcessPoolExecutor(count, get_context("spawn"), _start_worker) as pool:

        def run(jobs):
            places = {pool.submit(work): (unit, name) for unit, name, work in jobs}
            for future in as_completed(places):
                yield places[future], future.result()

        yield run


def _start_worker() -> None:
    torch.set_num_threads(1)
    sys.stdout = sys.stderr


# --- sums ------------------------------------------------------------------------------------------------------------


def _merged(proofs: list[Proof]) -> Proof:
    merged = Proof()
    for proof in proofs:
        merged.counts.update(proof.counts)
        merged.steps.update(proof.steps)
        merged.problems += [problem for problem in proof.problems if problem not in merged.problems]
        merged.remarks += proof.remarks
    return merged


def _counts(proof: Proof) -> dict:
    return {name: proof.counts[name] for name in COUNTS} | {"problems": [str(one) for one in sorted(proof.problems)]}


def _shares(units, exercises: dict, course: Path) -> Iterator[Problem]:
    """Problems that show in sums alone: too many equivalent mutants in a unit, too many wrong names in all."""
    for unit in units:
        counts = sum((proof.counts for place, proof in exercises.items() if place[0] == unit), Counter())
        if counts["equivalent"] > MOST_EQUIVALENT * counts["mutants"]:
            message = f"{counts['equivalent']} of {counts['mutants']} mutants are listed as equivalent"
            way_out = f"At most {MOST_EQUIVALENT:.0%}: write solutions and cases in which every part counts"
            yield Problem(course / "units" / unit / "attempts.py", 1, message, way_out)
    counts = sum((proof.counts for proof in exercises.values()), Counter())
    if counts["misnamed"] > MOST_MISNAMED * counts["misconceptions"]:
        remarks = "; ".join(remark for proof in exercises.values() for remark in proof.remarks)
        message = f"{counts['misnamed']} of {counts['misconceptions']} misconceptions bear another's name when left out"
        way_out = f"At most {MOST_MISNAMED:.0%}: let a facet or a case tell them apart ({remarks})"
        yield Problem(course / "units" / units[0] / "attempts.py", 1, message, way_out)


def _devices(units, course: Path) -> list[str]:
    found = []
    for unit in units:
        try:
            loaded = load(unit, course)
        except ContentError:
            continue  # prove_lesson says why
        found += [device for exercise in loaded.exercises.values() for device in devices(exercise)]
    return list(dict.fromkeys(found))


# --- for people ------------------------------------------------------------------------------------------------------


def _show(found: dict) -> None:
    console = Console()
    table = Table(title="What the audit proved", title_justify="left")
    table.add_column("exercise", overflow="fold")
    for heading in ("wrong, named", "misnamed", "right", "rewrites", "mutants", "equivalent"):
        table.add_column(heading, justify="right")
    unit = None
    for place, one in found["exercises"].items():
        if place.split("/")[0] != unit:
            unit = place.split("/")[0]
            table.add_section()
            table.add_row(unit, style="bold")
        table.add_row(*_row(place.split("/")[1], one))
    table.add_section()
    table.add_row(*_row("total", found["total"]), style="bold")
    console.print(table)
    total = found["total"]
    console.print(f"{total['seeds']} seeds and more, on {', '.join(total['devices'])}.")
    steps = Counter(found["steps"]).most_common()
    if steps:
        console.print("Steps of the rewrites: " + ", ".join(f"{name} {count}" for name, count in steps) + ".")
    for remark in found["remarks"]:
        console.print(f"Remark: {remark}.", markup=False)
    for problem in total["problems"]:
        console.print(problem, style="red", markup=False, highlight=False)
    count = len(total["problems"])
    console.print(f"{count} {'problem' if count == 1 else 'problems'}." if count else "Nothing falls short.")


def _row(name: str, one: dict) -> tuple[str, ...]:
    refused = one["killed"] + one["equivalent"]
    return (
        name,
        f"{one['diagnosed']}/{one['misconceptions']}",
        str(one["misnamed"]),
        f"{one['alternatives_passed']}/{one['alternatives']}",
        f"{one['rewrites_passed']}/{one['rewrites']}",
        f"{refused}/{one['mutants']}",
        str(one["equivalent"]),
    )
