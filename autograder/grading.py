"""The `grade` command: what changed is graded by the engine, several at a time, and written by one writer."""

import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from textwrap import indent
from types import MappingProxyType

import autogradlab
from rich.console import Console

from autograder import cluster, feedback, gradebook, junit, penalties, private, sandbox
from autograder.autograded import is_half_done
from autograder.engine.job import Job, Settings, Submission, examine
from autograder.engine.limits import Limits
from autograder.engine.seeds import Seeds
from autograder.engine.supervisor import EngineError, make_parent
from autograder.folders import Folders, GradingError, versions
from autograder.graded import STATUSES, Graded, Kept
from autograder.intake import Master
from autograder.jobs import Jobs
from autograder.marks import marks
from autograder.regrading import Change, Makings, changes, exercises_of, moves
from autograder.summary import entries, progress, summarise

TOO_WEAK = (
    "The sandbox is {level} here and has to be STANDARD: learners' code could reach files, the network or the grader. "
    "Grade on Linux (WSL2 or a container will do), or {remedy}."
)


@dataclass(frozen=True)
class Options:
    """How a class is graded; `limits` are bounds on cells and notebooks."""

    limits: Limits | None = None
    jobs: int = 2
    force: bool = False
    new_seed: bool = False
    all_cells: bool = False
    allow_weak_sandbox: bool = False
    strong_sandbox: bool = False
    #: Only what a change can have touched, and say whose marks moved.
    regrade: bool = False
    #: The address of a Dask scheduler, or the file that it writes, on whose workers to grade.
    scheduler: str | None = None


def grade(
    units: Iterable[str] | None = None,
    students: Iterable[str] | None = None,
    root: Path | None = None,
    options: Options = Options(),
    json_file: Path | None = None,
    junit_file: Path | None = None,
    not_matched: Mapping[str, str] = MappingProxyType({}),
) -> list[Graded]:
    """What became of each submission; `autograded/` and the gradebook are written, and stderr has a summary.

    Units and students default to all in `submitted/`. A submission is graded again if it, the unit, a limit or a
    version has changed, or with `force`. One that cannot be graded is reported and stops no other. `json_file` gets
    all of it as data, with the files that were `not_matched` with anybody, and `junit_file` gets it as JUnit XML.
    """
    folders = Folders(root)
    limits = options.limits or limits_of(folders)
    submissions = list(folders.submissions(units, students))
    if not submissions:
        raise GradingError(
            f"No submission of a built unit lies in {folders.step('submitted', 'LEARNER', 'UNIT')}. "
            f"Expected some; try `python3 run.py demo` for a made-up class."
        )
    assignments = sorted({unit for unit, _ in submissions})
    settings = _settings(folders, assignments, limits, options)
    masters = {assignment: Master.of(folders, assignment) for assignment in assignments}
    makings = Makings(folders, settings, masters)
    done, waiting = _sort_out(folders, submissions, settings, masters, makings, options)
    run, before = _Run(folders, settings, masters, options, makings), len(done)
    try:
        done.extend(run.grade(waiting))
    except KeyboardInterrupt:
        kept = f"{len(done) - before} of {len(waiting)} are graded and kept"
        print(f"\nInterrupted: {kept}; the same command goes on.", file=sys.stderr)
        raise
    _bring_pages_up_to_date(folders, assignments, done)
    done.sort(key=lambda graded: (graded.unit, graded.student))
    if options.regrade:
        _tell_moves(folders, done, run, len(submissions))
    summarise(done)
    if json_file:
        report = run.report or sandbox_here(folders, limits, options.strong_sandbox)
        _write_json(json_file, settings, report, done, not_matched)
    if junit_file:
        junit.write(junit_file, done)
    return done


def _bring_pages_up_to_date(folders: Folders, assignments: list[str], done: list[Graded]) -> None:
    """Write the pages of earlier grades that are missing, or whose penalty for lateness is another by now."""
    settled = set(penalties.settle(folders, assignments))
    with feedback.opened(folders) as pages:
        for graded in done:
            its = (graded.unit, graded.student)
            is_missing = graded.status == "unchanged" and not pages.path(*its).is_file()
            if (is_missing or its in settled) and folders.result(*its):
                pages.write(*its)


def _tell_moves(folders: Folders, done: list[Graded], run: "_Run", submissions: int) -> None:
    """On standard output: which answers came out another way, from what to what, and why."""
    moved = []
    with gradebook.opened(folders) as book, book.engine.connect() as connection:
        for graded in done:
            if graded.status == "unchanged" or (graded.unit, graded.student) not in run.earlier:
                continue
            found = marks(connection, graded.unit, graded.student).get(graded.student)
            by_hand = (
                {}
                if found is None
                else {place: mark.manual for place, mark in found.cells.items() if mark.manual is not None}
            )
            before, why = run.earlier[graded.unit, graded.student]
            moved += moves(folders, graded, before, why, by_hand)
    for move in moved:
        print(move.words())
    counted = sum(move.moved_marks for move in moved)
    again = sum(graded.status != "unchanged" for graded in done)
    print(
        f"{again} of {submissions} submissions were graded again; {counted} marks moved, and "
        f"{len(moved) - counted} answers came out another way with the mark as it was."
    )


def one(root: Path, assignment: str, student: str, jobs: dict[str, Job]) -> tuple[Job, Submission]:
    """A job and the submission to give it, for who grades one at a time; `jobs` keeps the job for the next.

    Raises GradingError where the sandbox is weaker than STANDARD: this door has no way to accept that.
    """
    folders = Folders(root)
    master = Master.of(folders, assignment)
    settings = _settings(folders, [assignment], limits_of(folders), Options())
    edition = folders.edition(assignment, settings, master.digest)
    if edition not in jobs:
        for edition_before in list(jobs):
            jobs.pop(edition_before).close()
        job = jobs[edition] = Job(settings, {assignment: master})
        if not _is_strong(job.examine(_secret(folders))):
            jobs.pop(edition).close()
            raise GradingError(TOO_WEAK.format(level="weaker", remedy="use run.py grade --allow-weak-sandbox"))
    stamp = folders.stamp(assignment, student, edition)
    return jobs[edition], Submission(assignment, student, folders.step("submitted", student, assignment), stamp)


def _settings(folders: Folders, assignments: list[str], limits: Limits, options: Options) -> Settings:
    seeds = Seeds(folders.results_folder / "seeds.json")
    return Settings(
        course=folders.root,
        limits=limits,
        plan=plan_here(limits, options.strong_sandbox),
        versions=versions(),
        seeds={assignment: seeds.of(assignment, options.new_seed) for assignment in assignments},
        all_cells=options.all_cells,
    )


def limits_of(folders: Folders, **given: float) -> Limits:
    """The limits: what is given, else `c.Limits.NAME` of the course (for cells `c.Execute.timeout`), else our own."""
    timeout = folders.config.get("Execute", {}).get("timeout")
    own = {"cell_seconds": float(timeout)} if isinstance(timeout, int | float) and timeout > 0 else {}
    configured = dict(folders.config.get("Limits", {}))
    known = {limit.name for limit in fields(Limits)}
    if set(configured) - known:
        unknown, names = ", ".join(sorted(set(configured) - known)), ", ".join(sorted(known))
        raise GradingError(f"nbgrader_config.py sets c.Limits.{unknown}, which is no limit. The limits are {names}.")
    return Limits(**(own | configured | given))


def plan_here(limits: Limits, strong: bool = False) -> sandbox.Plan:
    """What children shut themselves in with on this machine; `strong` adds what costs some 10 ms a notebook."""
    return sandbox.plan([Path(autogradlab.__file__).parent], limits, strong)


def sandbox_here(folders: Folders, limits: Limits, strong: bool = False) -> sandbox.Report:
    """What the sandbox enforces on this machine, as tried from inside."""
    parent = make_parent(plan_here(limits, strong), limits)
    try:
        return examine(parent, _secret(folders))
    except EngineError as error:
        raise GradingError(f"The grading engine cannot start: {error}") from error
    finally:
        parent.close()


def _secret(folders: Folders) -> Path:
    """A file of the course that no learner's code may read."""
    return folders.root / "nbgrader_config.py"


def _announce(report: sandbox.Report, allowed: bool) -> None:
    """Print what is enforced; refuse what is too weak unless that was accepted."""
    console = Console(stderr=True, soft_wrap=True, highlight=False)
    for line in report.lines():
        console.print(line, markup=False)
    if not _is_strong(report):
        if not allowed:
            raise GradingError(TOO_WEAK.format(level=report.level, remedy="accept it with --allow-weak-sandbox"))
        _warn_of_weakness(report)


def _is_strong(report: sandbox.Report) -> bool:
    return report.level in ("STANDARD", "STRONG")


def _warn_of_weakness(report: sandbox.Report) -> None:
    Console(stderr=True).print(f"Warning: the sandbox is {report.level}; learners' code is not confined.", style="red")


def _sort_out(
    folders: Folders,
    submissions: list[tuple[str, str]],
    settings: Settings,
    masters: dict[str, Master],
    makings: Makings,
    options: Options,
) -> tuple[list[Graded], list[Submission]]:
    """Submissions whose earlier grade holds or that cannot be read at all, and those that have to be graded."""
    done, waiting = [], []
    editions = {unit: folders.edition(unit, settings, master.digest) for unit, master in masters.items()}
    known = {unit: gradebook.students_with_submission(folders, unit) for unit in masters}
    exercises = {unit: exercises_of(folders, unit) for unit in masters} if options.regrade else {}
    for unit, student in submissions:
        folder = folders.step("submitted", student, unit)
        try:
            stamp, made_of = folders.stamp(unit, student, editions[unit]), makings.of(unit, student)
        except OSError as error:
            done.append(Graded(unit, student, "not graded", _refusal(error, folder)))
            continue
        earlier, place = folders.result(unit, student), folders.step("autograded", student, unit)
        # Somebody may have removed what the earlier run wrote, or killed it before it was done.
        is_there = student in known[unit] and place.is_dir() and not is_half_done(place)
        holds = earlier.get("status") == "graded" and is_there and not options.force
        if holds and earlier["stamp"] != stamp:
            holds = options.regrade and not _is_touched(
                earlier, changes(earlier.get("made_of"), made_of), exercises[unit]
            )
            if holds:
                folders.note_result(unit, student, earlier | {"stamp": stamp, "made_of": made_of})
        if holds:
            done.append(Graded(unit, student, "unchanged", notebooks=Kept(folders, unit, student)))
        else:
            waiting.append(Submission(unit, student, folder, stamp))
    return done, waiting


def _is_touched(earlier: dict, found: list[Change], exercises: dict[str, str]) -> bool:
    """Whether a change can have made another grade of a submission."""
    return any(change.touches(notebook["cells"], exercises) for change in found for notebook in earlier["notebooks"])


def _refusal(error: OSError, folder: Path) -> str:
    place = error.filename or folder
    return f"{place} cannot be read or written: {error.strerror}. Mend that and run the same command again."


class _Run:
    """One run over a class; `report` says what the sandbox enforces, once something had to be graded."""

    def __init__(
        self, folders: Folders, settings: Settings, masters: dict[str, Master], options: Options, makings: Makings
    ):
        self._folders, self._settings, self._masters, self._options = folders, settings, masters, options
        self._makings = makings
        self.report: sandbox.Report | None = None
        #: With `regrade`, (assignment, student) -> the result before this run, and what had changed since.
        self.earlier: dict[tuple[str, str], tuple[dict, list[Change]]] = {}

    def grade(self, waiting: list[Submission]) -> Iterator[Graded]:
        """Yields what became of each submission, as it is known, after writing it; shows a progress bar on stderr."""
        if not waiting:
            return
        with progress() as bar, gradebook.Writer(self._folders) as writer, feedback.opened(self._folders) as pages:
            task = bar.add_task("starting", total=len(waiting))
            for submission, outcome in self._outcomes(waiting):
                graded = self._keep(writer, pages, submission, outcome)
                bar.update(task, advance=1, description=f"{graded.student} {graded.status}")
                yield graded
        if not _is_strong(self.report):
            _warn_of_weakness(self.report)

    def _keep(self, writer, pages, submission: Submission, outcome) -> Graded:
        """What became of a submission, written; a file or folder of it that refuses costs no other submission."""
        unit, student = submission.assignment, submission.student
        try:
            made_of = self._makings.of(unit, student)
            if self._options.regrade and (earlier := self._folders.result(unit, student)):
                self.earlier[unit, student] = earlier, changes(earlier.get("made_of"), made_of)
            return _keep(self._folders, writer, pages, submission, outcome, made_of)
        except gradebook.NotWritten as error:
            return Graded(unit, student, "not graded", str(error))
        except OSError as error:
            return Graded(unit, student, "not graded", _refusal(error, submission.folder))

    def _outcomes(self, waiting: list[Submission]) -> Iterator[tuple[Submission, object]]:
        """Yields each submission with its results, or with why there are none, from this machine or from a cluster."""
        if not self._options.scheduler:
            yield from self._outcomes_here(waiting)
            return
        options = self._options
        weak, strong = options.allow_weak_sandbox, options.strong_sandbox
        with cluster.opened(options.scheduler, self._settings, self._masters, strong, weak) as workers:
            for submission, outcome in workers.grade(waiting):
                self.report = workers.report
                yield submission, outcome

    def _outcomes_here(self, waiting: list[Submission]) -> Iterator[tuple[Submission, object]]:
        with Jobs(min(self._options.jobs, len(waiting)), self._settings, self._masters) as jobs:
            self.report = jobs.examine(_secret(self._folders))
            _announce(self.report, self._options.allow_weak_sandbox)
            yield from jobs.grade(waiting)


def _keep(folders: Folders, writer, pages, submission: Submission, outcome, made_of: dict) -> Graded:
    """What became of a submission, written: to the gradebook and `autograded/`, to its page, at last to the record."""
    unit, student, nodes = submission.assignment, submission.student, {}
    if isinstance(outcome, str):
        graded = Graded(unit, student, "not graded", outcome)
    else:
        results = [result for result, _, _ in outcome]
        worst = max((result["status"] for result in results), key=STATUSES.index, default="skipped")
        reasons = [result["message"] for result in results if result["message"]]
        seconds = round(sum(result["seconds"] for result in results), 3)
        graded = Graded(unit, student, worst, " ".join(reasons), seconds, results)
        nodes = {result["notebook"]: node for result, node, _ in outcome if node is not None}
        writer.apply(outcome)
    kept = {
        "status": graded.status,
        "reason": graded.reason,
        "seconds": graded.seconds,
        "stamp": submission.stamp,
        "made_of": made_of,
        "notebooks": list(graded.notebooks),
    }
    pages.write(unit, student, kept, nodes)
    folders.note_result(unit, student, kept)
    return replace(graded, notebooks=Kept(folders, unit, student))


def _write_json(
    path: Path, settings: Settings, report: sandbox.Report, done: list[Graded], not_matched: Mapping[str, str]
) -> None:
    """The run as data, at once whole or not at all."""
    content = {
        "seed": settings.seeds,
        "level": report.level,
        "sandbox": report.json(),
        "versions": dict(settings.versions),
        "not_matched": dict(not_matched),
    }
    private.write_parts(path, _json_parts(content, (entry for graded in done for entry in entries(graded))))


def _json_parts(content: dict, submissions: Iterable[dict]) -> Iterator[str]:
    """The content with its submissions as JSON, one of them at a time in memory."""
    yield json.dumps(content, indent=1).removesuffix("\n}") + ',\n "submissions": ['
    for number, entry in enumerate(submissions):
        yield (",\n" if number else "\n") + indent(json.dumps(entry, indent=1), "  ")
    yield "\n ]\n}\n"
