"""Submissions graded by nbgrader into its gradebook: only what changed, two at a time, each for itself."""

import os
import time
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path

from nbgrader.apps import NbGraderAPI
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from autograder import gradebook
from autograder.folders import Folders, GradingError
from autograder.intake import unreadable
from autograder.nbgrader_context import nbgrader_context

STATUSES = ("graded", "unchanged", "unreadable", "failed")


@dataclass(frozen=True)
class Graded:
    """What became of one submission; `unchanged` says that an earlier grade still holds."""

    unit: str
    student: str
    status: str
    reason: str = ""
    seconds: float = 0.0

    @property
    def fine(self) -> bool:
        return self.status in ("graded", "unchanged")


@dataclass(frozen=True)
class Waiting:
    """A submission to be graded, with the stamp that its result will carry."""

    unit: str
    student: str
    stamp: str


def grade(
    units: Iterable[str] | None = None,
    students: Iterable[str] | None = None,
    force: bool = False,
    root: Path | None = None,
    jobs: int = 2,
) -> list[Graded]:
    """What became of each submission; nbgrader has written `autograded/` and the gradebook, and stderr has a summary.

    Units and students default to all in `submitted/`. A submission is graded again if it, the unit or a version has
    changed, or with `force`. One that cannot be graded is reported and stops no other.
    """
    folders = Folders(root)
    submissions = list(folders.submissions(units, students))
    if not submissions:
        raise GradingError(
            f"No submission of a built unit lies in {folders.step('submitted', 'LEARNER', 'UNIT')}. "
            f"Expected some; try `python3 run.py demo` for a made-up class."
        )
    unchanged, waiting = _sort_out(folders, submissions, force)
    for unit in sorted({submission.unit for submission in waiting}):
        gradebook.register(folders, unit)
    done = unchanged + list(_grade_all(folders, waiting, jobs))
    _summarise(done)
    return sorted(done, key=lambda graded: (graded.unit, graded.student))


def _sort_out(folders: Folders, submissions: list[tuple[str, str]], force: bool) -> tuple[list[Graded], list[Waiting]]:
    """Submissions whose earlier grade holds, and those that have to be graded."""
    unchanged, waiting = [], []
    editions = {unit: folders.edition(unit) for unit, _ in submissions}
    known = {unit: gradebook.students_with_submission(folders, unit) for unit in editions}
    for unit, student in submissions:
        stamp = folders.stamp(unit, student, editions[unit])
        earlier = folders.result(unit, student)
        holds = earlier.get("status") == "graded" and earlier["stamp"] == stamp
        # Somebody may have removed what the earlier run wrote.
        if holds and student in known[unit] and folders.notebook("autograded", student, unit).is_file() and not force:
            unchanged.append(Graded(unit, student, "unchanged"))
        else:
            waiting.append(Waiting(unit, student, stamp))
    return unchanged, waiting


def _grade_all(folders: Folders, waiting: list[Waiting], jobs: int):
    """Yields what became of each submission, as it is known, after noting it; shows a progress bar on stderr."""
    readable = []
    for submission in waiting:
        reason = unreadable(folders.notebook("submitted", submission.student, submission.unit))
        if reason:
            yield _note(folders, submission, Graded(submission.unit, submission.student, "unreadable", reason))
        else:
            readable.append(submission)
    if not readable:
        return
    columns = ("grading", BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), "{task.description}")
    bar = Progress(*map(_column, columns), console=Console(stderr=True), transient=True)
    # nbgrader changes the working directory and the environment, which threads would share.
    pool = ProcessPoolExecutor(min(jobs, len(readable)), get_context("spawn"), _start_worker, (folders.root,))
    with bar, pool:
        task = bar.add_task("starting", total=len(readable))
        futures = {pool.submit(_grade_one, submission): submission for submission in readable}
        try:
            for future in as_completed(futures):
                graded = _note(folders, futures[future], _outcome(futures[future], future))
                bar.update(task, advance=1, description=f"{graded.student} {graded.status}")
                yield graded
        finally:
            pool.shutdown(cancel_futures=True)


def _column(column):
    return TextColumn(column) if isinstance(column, str) else column


def _outcome(submission: Waiting, future) -> Graded:
    """What the worker says, or that it died."""
    error = future.exception()
    if error is None:
        return future.result()
    return Graded(submission.unit, submission.student, "failed", f"{type(error).__name__}: {error}")


def _note(folders: Folders, submission: Waiting, graded: Graded) -> Graded:
    """Keep the outcome for the next run; without a grade, take back what an earlier submission earned."""
    if not graded.fine:
        folders.remove("autograded", graded.student, graded.unit)
        gradebook.withdraw(folders, graded.unit, graded.student)
    folders.note_result(graded.unit, graded.student, {**asdict(graded), "stamp": submission.stamp})
    return graded


def _start_worker(root: Path) -> None:
    """Make nbgrader's API once per process; its kernels get one thread each, since several run at a time."""
    global _api
    os.chdir(root)
    os.environ.update(OMP_NUM_THREADS="1", MKL_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")
    with nbgrader_context():
        _api = NbGraderAPI(config=Folders(root).config)


def _grade_one(submission: Waiting) -> Graded:
    """What nbgrader made of one submission."""
    start = time.perf_counter()
    with nbgrader_context():
        result = _api.autograde(submission.unit, submission.student)
    status, reason = ("graded", "") if result["success"] else ("failed", gradebook.last_words(result))
    return Graded(submission.unit, submission.student, status, reason, round(time.perf_counter() - start, 2))


def _summarise(done: list[Graded]) -> None:
    """On stderr: how many submissions came out how, and why those without a grade have none."""
    console = Console(stderr=True, soft_wrap=True, highlight=False)
    counts = {status: sum(graded.status == status for graded in done) for status in STATUSES}
    words = {**dict.fromkeys(STATUSES, ""), "unchanged": " since the last run and skipped"}
    console.print("Submissions: " + ", ".join(f"{n} {status}{words[status]}" for status, n in counts.items() if n))
    for graded in done:
        if not graded.fine:
            console.print(f"  {graded.student}, {graded.unit}: {graded.status}. {graded.reason}", markup=False)
