"""The instructors' and authors' commands; each calls one function, and imports it when it is asked for."""

import re
import sys
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, no_args_is_help=True)


def _units(names: list[str]) -> list[str]:
    """The units that were named, all of which exist."""
    from autograder.lessons import units

    known = units()
    for name in names:
        if name not in known:
            raise typer.BadParameter(f"there is no unit {name}. Units here: {', '.join(known) or 'none yet'}.")
    return names


Units = Annotated[list[str], typer.Argument(callback=_units, show_default="all", metavar="UNIT")]


@app.command()
def build(units: Units = ()) -> None:
    """Build source/ and release/ from the units' lessons."""
    from autograder.build import build

    build(units)


@app.command(name="pages")
def static_pages(
    units: Units = (), into: Annotated[Path | None, typer.Option(metavar="FOLDER", show_default="dist/pages")] = None
) -> None:
    """Write the released units as pages to read before installing anything; prints where they are."""
    from autograder.static_pages import INTO, build_pages

    print(build_pages(units, into or INTO)[-1].parent)


@app.command()
def audit(
    units: Units = (),
    as_json: Annotated[bool, typer.Option("--json", help="Numbers and problems as JSON on standard output.")] = False,
) -> None:
    """Prove that every exercise tells right from wrong and one wrong from another, and that built files are current."""
    from autograder.audit import audit

    raise typer.Exit(audit(units, as_json))


@app.command()
def new(
    what: Annotated[str, typer.Argument(metavar="UNIT/EXERCISE", help="The unit, or the unit and the exercise.")],
    from_mutants: Annotated[bool, typer.Option("--from-mutants", help="Propose wrong programs instead.")] = False,
) -> None:
    """Write the template of a unit or an exercise, or propose wrong programs for an exercise that has its solution."""
    from autograder.new import new

    new(what, from_mutants)


@app.command()
def demo() -> None:
    """Build, grade a made-up class whose wrong answers are known, and show what was found."""
    from autograder.demo import demo

    _exit(not demo())


def _size(text: str) -> int:
    """Bytes, from `2GiB`, `512 MB` or a bare number, which is MiB."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(i?b)?", text.strip().lower())
    if not found or not float(found[1]):
        raise typer.BadParameter(f"{text!r} is no size; write 512 (MiB), 512MiB or 2GiB.")
    return int(float(found[1]) * 1024 ** "bkmgt".index(found[2] or ("b" if found[3] else "m")))


def Size(words: str):
    """An option that is an amount of memory."""
    return typer.Option(parser=_size, metavar="SIZE", help=f"{words} A bare number is MiB.")


@app.command()
def grade(
    units: Annotated[list[str], typer.Argument(show_default="all", metavar="UNIT")] = (),  # of any course, hence as is
    course: Annotated[Path | None, typer.Option(help="Another nbgrader course's folder.", show_default="this")] = None,
    students: Annotated[list[str], typer.Option("--student", metavar="ID", help="Only this one; repeatable.")] = (),
    sources: Annotated[
        list[Path],
        typer.Option("--from", metavar="PATH", help="Take in a folder or zip of submissions first; repeatable."),
    ] = (),
    learners: Annotated[
        Path | None, typer.Option(metavar="CSV", help="Who is in the class, with due dates and extensions.")
    ] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="What is taken in counts even where nothing says that it is newer.")
    ] = False,
    jobs: Annotated[int, typer.Option(min=1, help="Submissions graded at a time.")] = 2,
    scheduler: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Grade on the workers of this Dask scheduler, or of its file.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Grade unchanged submissions again too.")] = False,
    regrade: Annotated[
        bool, typer.Option("--regrade", help="Only what a change can have touched; says whose marks moved, and why.")
    ] = False,
    json_file: Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write all of it as data.")] = None,
    junit_file: Annotated[Path | None, typer.Option("--junit", metavar="FILE", help="Write it as JUnit XML.")] = None,
    cell_timeout: Annotated[
        float | None, typer.Option(help="Seconds for one cell; else the course's, else 30.")
    ] = None,
    notebook_timeout: Annotated[float | None, typer.Option(help="Seconds for one notebook.")] = None,
    memory: Annotated[int | None, Size("Memory for one notebook.")] = None,
    output: Annotated[int | None, Size("Output of one cell.")] = None,
    disk: Annotated[int | None, Size("Files of one notebook, in all.")] = None,
    files: Annotated[int | None, typer.Option(help="Number of files of one notebook.")] = None,
    threads: Annotated[int | None, typer.Option(help="Threads of one notebook; processes are never allowed.")] = None,
    new_seed: Annotated[bool, typer.Option("--new-seed", help="Draw other cases; everything is graded again.")] = False,
    all_cells: Annotated[bool, typer.Option("--all-cells", help="Run untouched demonstrations too.")] = False,
    weak: Annotated[
        bool, typer.Option("--allow-weak-sandbox", help="Grade even where learners' code cannot be confined.")
    ] = False,
    strong: Annotated[
        bool, typer.Option("--strong-sandbox", help="Add a private file tree, some 10 ms for each notebook.")
    ] = False,
    doctor: Annotated[bool, typer.Option("--doctor", help="Only say what the sandbox enforces here.")] = False,
) -> None:
    """Grade what lies in submitted/ into the gradebook, whatever changed since the last time."""
    from autograder.folders import Folders
    from autograder.grading import Options, limits_of, sandbox_here
    from autograder.grading import grade as run

    given = {"cell_seconds": cell_timeout, "notebook_seconds": notebook_timeout, "files": files, "threads": threads}
    given |= {"memory": memory, "output": output, "disk": disk}
    folders = Folders(course)
    _assignments(folders, units)
    try:
        limits = limits_of(folders, **{key: value for key, value in given.items() if value is not None})
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    if doctor:
        report = sandbox_here(folders, limits, strong)
        print("\n".join(report.lines()))
        _exit(report.level in ("STANDARD", "STRONG"))
    options = Options(limits, jobs, force, new_seed, all_cells, weak, strong, regrade, scheduler)
    not_matched = _come_in(folders, sources, units, learners, replace)
    done = run(units or None, students or None, folders.root, options, json_file, junit_file, not_matched)
    _exit(all(graded.fine for graded in done) and not not_matched)


def _come_in(folders, sources, units, learners: Path | None, replace: bool) -> dict[str, str]:
    """Files that could not be matched, with the reason; what could is in submitted/, and stderr has all of it."""
    if not sources and learners is None:
        return {}
    from autograder.incoming.entering import come_in

    taken = come_in(folders, sources, units, learners, replace)
    for line in taken.lines() if sources else ():
        print(line, file=sys.stderr)
    return taken.not_matched


@app.command()
def report(
    units: Annotated[list[str], typer.Argument(show_default="all", metavar="UNIT")] = (),  # of any course, hence as is
    course: Annotated[Path | None, typer.Option(help="Another nbgrader course's folder.", show_default="this")] = None,
    notebooks: Annotated[
        bool, typer.Option("--notebooks", help="Beside each feedback page the notebook with the verdicts in place.")
    ] = False,
    against: Annotated[
        Path | None,
        typer.Option(metavar="PLACE", help="Compare with a class.json, a folder of reports, or another course."),
    ] = None,
    exercise: Annotated[
        str | None,
        typer.Option("--propose", metavar="EXERCISE", help="Only write what no misconception explains, as an attempt."),
    ] = None,
) -> None:
    """Write the class report (page, figures, CSV) and each learner's feedback page; prints where the reports are."""
    from autograder.feedback import feedback
    from autograder.folders import Folders
    from autograder.records import NothingGraded
    from autograder.report import report

    folders = Folders(course)
    _assignments(folders, units)
    names = list(units) or sorted({unit for unit, _ in folders.submissions()})
    if not names:
        raise NothingGraded("No submission has been graded. Try `python3 run.py grade` first.")
    if exercise is not None:
        _propose(exercise, names, folders.root)
        return
    for unit in names:
        try:
            print(report(unit, folders.root, against=against))
            feedback(unit, folders.root, notebooks=notebooks)
        except NothingGraded as error:
            if units:
                raise
            print(error, file=sys.stderr)


def _propose(exercise: str, units: list[str], root: Path) -> None:
    """Prints what to paste, and says on standard error where it lies."""
    from autograder.proposing import propose

    proposal = propose(exercise, units, root)
    print(proposal.attempt)
    print(proposal.entry)
    attempt, entry = proposal.files
    print(f"{attempt}: for course/units/{proposal.unit}/attempts.py", file=sys.stderr)
    print(f"{entry}: for course/misconceptions.toml", file=sys.stderr)


@app.command()
def assemble(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What the assignment is called.")],
    exercises: Annotated[
        list[str], typer.Argument(metavar="EXERCISE", show_default="those that assignments.toml lists")
    ] = (),
    private: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="A class's own seed, numbers, points, messages, exercises.")
    ] = None,
    to: Annotated[Path | None, typer.Option(metavar="FOLDER", show_default="grading/assembled")] = None,
) -> None:
    """Make one assignment of any exercises, in a course's folder of its own; prints where it is."""
    from autograder.assembling import assemble

    into = assemble(name, exercises, private, to)
    print(into / "release" / name)
    print(f"Grade it with `python3 run.py grade {name} --course {into}`.", file=sys.stderr)


def _mapping(values: list[str]) -> dict[str, str]:
    """What `UNIT=NAME` says, by unit."""
    pairs = [value.partition("=") for value in values]
    if wrong := [value for value, (unit, equals, name) in zip(values, pairs) if not (unit and equals and name)]:
        raise typer.BadParameter(f"{wrong[0]!r} is not UNIT=NAME.")
    return {unit: name for unit, _, name in pairs}


@app.command()
def export(
    units: Annotated[list[str], typer.Argument(show_default="all", metavar="UNIT")] = (),  # of any course, hence as is
    course: Annotated[Path | None, typer.Option(help="Another nbgrader course's folder.", show_default="this")] = None,
    form: Annotated[str, typer.Option("--for", metavar="FORM", help="csv, canvas or moodle.")] = "csv",
    to: Annotated[Path | None, typer.Option(metavar="FILE", show_default="in grading/exports/")] = None,
    into: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Fill in a copy of this file, which Canvas or Moodle exported.")
    ] = None,
    columns: Annotated[
        list[str], typer.Option("--column", metavar="UNIT=NAME", help="A unit's column there; repeatable.")
    ] = (),
    partial: Annotated[bool, typer.Option("--partial", help="Also scores that wait for a mark by hand.")] = False,
) -> None:
    """Write the final scores, late penalties taken off, for people, Canvas or Moodle; prints where they are."""
    from autograder.exports import FORMS
    from autograder.exports import export as run
    from autograder.folders import Folders

    if form not in FORMS:
        raise typer.BadParameter(f"--for {form} is not known. Expected {', '.join(FORMS)}.")
    if form == "csv" and (into or columns or partial):
        raise typer.BadParameter("--into, --column and --partial go with --for canvas or --for moodle.")
    folders = Folders(course)
    _assignments(folders, units)
    path, remarks = run(units, folders.root, form, to, into, _mapping(list(columns)), partial)
    for remark in remarks:
        print(remark, file=sys.stderr)
    print(path)
    _exit(not remarks)


def _assignments(folders, names: list[str]) -> None:
    """Refuses the name of an assignment that the course does not have."""
    for name in names:
        if not any(folders.step(step, ".", name).is_dir() for step in ("source", "release")):
            known = ", ".join(folders.assignments()) or "none yet"
            raise typer.BadParameter(f"there is no unit {name} in {folders.root}. Units here: {known}.")


def _exit(fine: bool) -> None:
    raise typer.Exit(0 if fine else 1)


def _refusals() -> tuple[type[Exception], ...]:
    """What says in words that content or submissions cannot be used."""
    from autograder.folders import GradingError
    from autograder.lessons import ContentError

    return ContentError, GradingError


def main() -> None:
    """Run the command line; content or submissions that cannot be used end it with their reason and exit code 1."""
    try:
        app(prog_name="run.py")
    except SystemExit:
        raise  # so that the line below does not import nbgrader to end a `--help`
    except _refusals() as error:
        print(error, file=sys.stderr)
        sys.exit(1)
