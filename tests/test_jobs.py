"""The processes that grade, some of which end in the middle of their work."""

import ending_processes
import pytest
from ending_processes import Asked

from autograder import jobs
from autograder.folders import GradingError
from autograder.jobs import Jobs

STUDENTS = ["ada", "half-1", "ben", "cleo", "once-1", "dan", "once-2", "half-2", "eve", "fay"]


@pytest.fixture
def submissions(tmp_path, monkeypatch):
    monkeypatch.setattr(jobs, "_serve", ending_processes.serve)
    return [Asked(student, tmp_path) for student in STUDENTS]


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_process_that_ends_costs_no_more_than_what_it_was_doing(submissions, count):
    with Jobs(count, None, {}) as processes:
        found = [(submission.student, outcome) for submission, outcome in processes.grade(submissions)]
    assert sorted(student for student, _ in found) == sorted(STUDENTS)
    ended = "The process that graded it ended each time (3). Please report this."
    assert dict(found) == {student: ended if student.startswith("half") else [student] for student in STUDENTS}


def test_who_stops_listening_ends_the_processes_and_leaves_no_file(submissions):
    with Jobs(2, None, {}) as processes:
        working, needs = [one._process for one in processes._processes], processes._needs
        for _ in processes.grade(submissions[:1]):
            break
        assert needs.is_file()
    assert not any(process.is_alive() for process in working)
    assert not needs.exists()


def test_a_run_that_is_broken_off_does_not_wait_for_what_its_processes_do(submissions):
    with pytest.raises(KeyboardInterrupt), Jobs(2, None, {}) as processes:
        working = [one._process for one in processes._processes]
        raise KeyboardInterrupt
    assert {process.exitcode for process in working} <= {0, -15}


def test_an_engine_that_ends_while_it_is_examined_is_an_error_in_words(submissions, tmp_path):
    with pytest.raises(GradingError, match="cannot start: its process ended with status 4"), Jobs(1, None, {}) as one:
        one.examine(tmp_path)
