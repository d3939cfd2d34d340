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
    jobs: Annotated[int, typer.Option(min=1, help="Submissions graded at a time.")] = 2,
    force: Annotated[bool, typer.Option("--force", help="Grade unchanged submissions again too.")] = False,
    json_file: Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write all of it as data.")] = None,
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
    options = Options(limits, jobs, force, new_seed, all_cells, weak, strong)
    _exit(all(graded.fine for graded in run(units or None, students or None, folders.root, options, json_file)))


@app.command()
def report(
    units: Annotated[list[str], typer.Argument(show_default="all", metavar="UNIT")] = (),  # of any course, hence as is
    course: Annotated[Path | None, typer.Option(help="Another nbgrader course's folder.", show_default="this")] = None,
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
    for unit in names:
        try:
            print(report(unit, folders.root))
            feedback(unit, folders.root)
        except NothingGraded as error:
            if units:
                raise
            print(error, file=sys.stderr)


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
