"""The instructors' commands: what they say where, and their exit codes."""

import importlib
import subprocess
import sys

import pytest

from autograder import cli
from autograder.folders import GradingError
from autograder.lessons import ROOT, ContentError, Problem

UNIT = "05_accumulating_gradients"


@pytest.fixture
def command(monkeypatch, capsys):
    """Runs a command line: its exit code, standard output and standard error."""

    def run(*arguments):
        monkeypatch.setattr("sys.argv", ["run.py", *arguments])
        with pytest.raises(SystemExit) as end:
            cli.main()
        return end.value.code, *capsys.readouterr()

    return run


@pytest.fixture
def calls(monkeypatch):
    """Replaces a command's function by one that returns or raises what it is given; the calls, in order."""
    made = []

    def replace(name, result=None):
        def function(*arguments, **options):
            made.append((name, arguments, options))
            if isinstance(result, Exception):
                raise result
            return result

        module = {"grade": "grading"}.get(name, name)
        monkeypatch.setattr(importlib.import_module(f"autograder.{module}"), name, function)
        return made

    return replace


@pytest.mark.parametrize("name", ["build", "audit", "grade", "report"])
def test_a_unit_that_does_not_exist_is_a_usage_error_that_names_those_that_do(command, name):
    code, out, err = command(name, "05_nothing")
    assert (code, out) == (2, "")
    assert "05_nothing" in err
    assert UNIT in err


@pytest.mark.parametrize("arguments", [["nothing"], ["build", "--nothing"], ["grade", "--jobs", "0"], ["new"]])
def test_a_wrong_call_is_a_usage_error(command, arguments):
    code, out, err = command(*arguments)
    assert (code, out) == (2, "")
    assert "Usage: run.py" in err


def test_content_that_cannot_be_built_is_named_with_file_and_line(command, calls):
    calls("build", ContentError([Problem(ROOT / "course/lesson.py", 12, "this is wrong", "Mend it")]))
    assert command("build") == (1, "", "course/lesson.py:12: this is wrong. Mend it.\n")


def test_submissions_that_cannot_be_graded_at_all_are_explained(command, calls):
    calls("grade", GradingError("No submission. Expected one."))
    assert command("grade") == (1, "", "No submission. Expected one.\n")


@pytest.mark.parametrize(("wrong", "code"), [([], 0), (["learner-01 was misread"], 1)])
def test_demo_fails_where_an_answer_was_graded_as_another(command, calls, wrong, code):
    calls("demo", wrong)
    assert command("demo")[0] == code


@pytest.mark.parametrize("code", [0, 1])
def test_audit_passes_its_units_and_its_verdict_on(command, calls, code):
    made = calls("audit", code)
    assert command("audit", UNIT, "--json")[0] == code
    assert [arguments for _, arguments, _ in made] == [([UNIT], True)]


def test_new_can_ask_for_proposals(command, calls):
    made = calls("new", [])
    assert command("new", f"{UNIT}/fresh_gradients", "--from-mutants")[0] == 0
    assert [arguments for _, arguments, _ in made] == [(f"{UNIT}/fresh_gradients", True)]


def test_help_does_not_wait_for_torch_or_nbgrader(command):
    program = (
        "import sys; sys.argv[1:] = ['--help']\ntry:\n    from autograder.cli import main; main()\nexcept SystemExit:\n"
    )
    program += "    print(*(name for name in ('torch', 'nbgrader', 'pandas') if name in sys.modules), file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert "build" in done.stdout
    assert done.stderr.strip() == ""
