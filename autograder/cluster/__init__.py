"""Grading on other machines, by way of a Dask scheduler: `grade --scheduler ADDRESS`, with the extra `cluster`.

coordinator   the `grade` command: sends submissions, checks what comes back, the one writer of the gradebook
  worker      Dask's tasks on another machine: hand bytes on
    grader    a program beside the worker, with a `Job` of the engine and the sandbox of that machine

Runs, submissions and results travel as bytes (`parcels`); nothing but these is sent, and no folder is shared.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from autograder.cluster.coordinator import Cluster
    from autograder.engine.job import Settings
    from autograder.intake import Master


# Imports are inside: the scheduler and the workers import this package, and need none of them.
def opened(
    scheduler: str, settings: "Settings", masters: "Mapping[str, Master]", strong: bool, allow_weak: bool
) -> "Cluster":
    """The workers of a scheduler for one run, as a context. Raises GradingError where Dask is not installed.

    With `strong` a worker's sandbox has to be STRONG, else STANDARD; with `allow_weak` it may be anything.
    """
    from autograder.folders import GradingError

    try:
        from autograder.cluster.coordinator import Cluster
        from autograder.cluster.parcels import Run
    except ModuleNotFoundError as error:
        raise GradingError(
            f"--scheduler needs the extra `cluster`, and {error.name} is not installed. "
            "Try `python -m pip install -e '.[cluster]'`."
        ) from error
    level = "NONE" if allow_weak else "STRONG" if strong else "STANDARD"
    return Cluster(scheduler, Run.of(settings, masters, strong, level), masters, settings)
