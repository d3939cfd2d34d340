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
