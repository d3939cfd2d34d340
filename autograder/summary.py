"""What became of a class in a run: in words on a terminal, as a progress bar meanwhile, and as data."""

from collections import Counter
from collections.abc import Iterable, Iterator

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.text import Text

from autograder.graded import STATUSES, Graded
from autograder.graded_cells import STOPPED

#: Sentences about one submission that are shown; the class report, the pages and `--json` have all.
SHOWN = 5


class Rate(ProgressColumn):
    """How many submissions are graded in a minute."""

    def render(self, task: Task) -> Text:
        """The rate of late, or nothing before there is one."""
        return Text(f"{task.speed * 60:.0f}/min" if task.speed else "", style="progress.data.speed")


def progress() -> Progress:
    """A bar on stderr with the rate, the time left and the learner; on a terminal only."""
    console = Console(stderr=True)
    return Progress(
        TextColumn("grading"),
        BarColumn(),
        MofNCompleteColumn(),
        Rate(),
        TimeRemainingColumn(),
        TextColumn("{task.description}", markup=False),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )


def summarise(done: Iterable[Graded]) -> None:
    """On stderr: how many submissions came out how, what was repaired, and why those without a grade have none."""
    console, done = Console(stderr=True, soft_wrap=True, highlight=False), list(done)
    counts = Counter(graded.status for graded in done)
    words = {**dict.fromkeys(STATUSES, ""), "unchanged": " since the last run and skipped"}
    console.print(
        "Submissions: " + ", ".join(f"{counts[one]} {one}{words[one]}" for one in STATUSES if counts[one]), markup=False
    )
    noted = Counter(kind for graded in done if graded.status == "graded" for kind in remarkable(graded))
    if noted:
        told = ", ".join(f"{number} {kind}" for kind, number in noted.most_common())
        console.print(f"  of those graded: {told}", markup=False)
    for graded in done:
        if not graded.fine:
            console.print(f"  {graded.student}, {graded.unit}: {graded.status}. {graded.reason}", markup=False)
        if graded.status != "unchanged":
            sentences = list(_sentences(graded))
            if len(sentences) > SHOWN:
                sentences[SHOWN - 1 :] = [f"{len(sentences) - SHOWN + 1} more of this kind are in the class report."]
            for sentence in sentences:
                console.print(f"  {graded.student}, {graded.unit}: {sentence}", markup=False)


def remarkable(graded: Graded) -> list[str]:
    """What was out of the ordinary with a submission, in a word or two, each once: repaired, timed out, …"""
    notebooks = list(graded.notebooks)
    cells = [cell for notebook in notebooks for cell in notebook["cells"].values()]
    kinds = ["repaired"] if any(notebook["repairs"] for notebook in notebooks) else []
    kinds += ["flagged"] if any(notebook["flags"] for notebook in notebooks) else []
    stopped = {cell["reason"] for cell in cells} & set(STOPPED)
    return kinds + [
        {"timeout": "timed out", "died": "with a process that ended"}.get(one, f"over the limit of {one}")
        for one in STOPPED
        if one in stopped
    ]


def _sentences(graded: Graded) -> Iterator[str]:
    for notebook in graded.notebooks:
        for kind in ("repairs", "flags"):
            yield from notebook[kind]
        for name, cell in notebook["cells"].items():
            if cell["reason"] in STOPPED:
                yield f"{name}: {cell['message'].split(chr(10))[0]}"


def entries(graded: Graded) -> list[dict]:
    """The submission's notebooks as `--json` shows them."""
    if notebooks := list(graded.notebooks):
        return notebooks
    failed = {"student": graded.student, "assignment": graded.unit, "notebook": None, "status": "skipped"}
    return [failed | {"repairs": [], "flags": [], "message": graded.reason, "seconds": graded.seconds, "cells": {}}]
