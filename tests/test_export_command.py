"""The `export` command: what it prints where, and its exit codes."""

import pytest
from graded_class import course, enter

from autograder import cli
from autograder.folders import Folders


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    made = course(tmp_path_factory.mktemp("export") / "course")
    enter(made, {"good": (2.0, 3.0, 1.0), "naive": (2.0, 0.0, 0.0), "blank": (0.0, 0.0, None)})
    return made.root


@pytest.fixture
def command(root, monkeypatch, capsys):
    def run(*arguments):
        monkeypatch.setattr("sys.argv", ["run.py", "export", *arguments, "--course", str(root)])
        with pytest.raises(SystemExit) as end:
            cli.main()
        return end.value.code, *capsys.readouterr()

    return run


def test_it_prints_where_the_file_is_and_nothing_else_on_standard_output(command, root):
    assert command("ps1") == (0, f"{Folders(root).grading / 'exports' / 'grades.csv'}\n", "")


def test_a_score_that_is_not_final_is_named_and_ends_with_1(command):
    code, out, err = command("--for", "canvas")
    assert code == 1 and out.endswith("canvas.csv\n")
    assert err == "blank, ps1: no score is written, a person has yet to mark explain.\n"
    assert command("--for", "canvas", "--partial")[0] == 0


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--for", "excel"], "--for excel is not known. Expected csv, canvas, moodle."),
        (["--partial"], "go with --for canvas or --for moodle"),
        (["--for", "canvas", "--column", "ps1"], "'ps1' is not UNIT=NAME"),
        (["ps9"], "there is no unit ps9"),
    ],
)
def test_a_wrong_call_is_a_usage_error_that_says_what_was_expected(command, arguments, reason):
    code, out, err = command(*arguments)
    assert (code, out) == (2, "")
    assert reason in " ".join(err.replace("│", " ").split())
