"""The instructors' and authors' commands; each calls one function, and imports it when it is asked for."""

import sys
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


@app.command()
def grade(
    units: Units = (),
    force: Annotated[bool, typer.Option("--force", help="Grade unchanged submissions again too.")] = False,
    jobs: Annotated[int, typer.Option(min=1, help="Submissions graded at a time.")] = 2,
) -> None:
    """Grade what lies in grading/submitted/ into the gradebook, whatever changed since the last time."""
    from autograder.grading import grade

    _exit(all(graded.fine for graded in grade(units or None, force=force, jobs=jobs)))


@app.command()
def report(units: Units = ()) -> None:
    """Write the class report (page, figures, CSV) and each learner's feedback page; prints where the reports are."""
    from autograder.feedback import feedback
    from autograder.lessons import units as all_units
    from autograder.report import report

    for unit in units or all_units():
        print(report(unit))
        feedback(unit)


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
