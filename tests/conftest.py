"""What all tests share: no test is skipped or slowed down unseen."""

import os

import hypothesis
import pytest
import torch

REQUIRE_ALL = bool(os.environ.get("REQUIRE_ALL"))

# The same examples in every run of CI; new ones on a developer's machine. Times differ too much to have a deadline.
hypothesis.settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
hypothesis.settings.register_profile("developer", deadline=None)
hypothesis.settings.load_profile("ci" if os.environ.get("CI") else "developer")

# Two workers of pytest-xdist with all cores each are slower than with one.
torch.set_num_threads(1)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="run the tests marked `long` too")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--long"):
        return
    long = [item for item in items if item.get_closest_marker("long")]
    config.hook.pytest_deselected(items=long)
    items[:] = [item for item in items if item not in long]


def fail_if_skipped(report: pytest.TestReport | pytest.CollectReport) -> None:
    """Under REQUIRE_ALL, nothing may be missing: turn a skip into a failure that says so."""
    if REQUIRE_ALL and report.outcome == "skipped" and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        _, _, reason = report.longrepr
        report.longrepr = f"REQUIRE_ALL is set, and this was skipped: {reason.removeprefix('Skipped: ')}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    fail_if_skipped(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
    report = yield
    fail_if_skipped(report)
    return report


# --- of a module about one unit, whose UNIT names it ------------------------------------------------------------------


@pytest.fixture(scope="module")
def lesson(request):
    """The unit's lesson as its author wrote it."""
    from autograder import lessons  # takes a second, which most tests need not wait for

    return lessons.read(request.module.UNIT)


@pytest.fixture(scope="module")
def run(lesson):
    """What the lesson's cells defined and printed, run as a whole."""
    from lesson_runs import executed

    return executed(lesson)


@pytest.fixture(scope="module")
def exercises(lesson):
    """The exercises of the unit's cases.py, by name."""
    from autogradlab.exercises import load_cases

    return load_cases(lesson.directory / "cases.py")


@pytest.fixture(scope="module")
def references(lesson):
    """The unit's solutions, by the exercises' names."""
    from autograder import lessons

    return lessons.references(lesson)
