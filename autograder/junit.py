"""A run as JUnit XML, which every CI server shows: a suite per unit, a case per learner and exercise."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from xml.etree import ElementTree

from autograder import private
from autograder.graded import Graded
from autograder.graded_cells import NOT_JUDGED, STOPPED
from autograder.pages import plain


def write(path: Path, done: Iterable[Graded]) -> None:
    """Write the file, at once whole or not at all.

    An answer that is not all right is a failure; one that was stopped, and a submission without a grade, is an error;
    what a person must mark is skipped.
    """
    units = defaultdict(list)
    for graded in done:
        units[graded.unit].append(graded)
    root = ElementTree.Element("testsuites", name="grade")
    for unit, submissions in units.items():
        root.append(_suite(unit, submissions))
    ElementTree.indent(root, " ")
    private.write(path, '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(root, "unicode") + "\n")


def _suite(unit: str, submissions: list[Graded]) -> ElementTree.Element:
    cases = [case for graded in submissions for case in _cases(graded)]
    counts = {kind: sum(case.find(tag) is not None for case in cases) for kind, tag in _COUNTED.items()}
    seconds = sum(graded.seconds for graded in submissions)
    attributes = {"name": plain(unit), "tests": str(len(cases)), "time": f"{seconds:.3f}"}
    suite = ElementTree.Element("testsuite", attributes | {kind: str(number) for kind, number in counts.items()})
    suite.extend(cases)
    return suite


_COUNTED = {"failures": "failure", "errors": "error", "skipped": "skipped"}


def _cases(graded: Graded) -> Iterator[ElementTree.Element]:
    notebooks = list(graded.notebooks)
    if not graded.fine and not any(notebook["status"] == "graded" for notebook in notebooks):
        case = _case(graded, "submission", graded.seconds)
        _tell(case, "error", graded.status, graded.reason)
        yield case
        return
    for notebook in notebooks:
        for name, cell in notebook["cells"].items():
            # The time is known of the notebook alone; the suite has it.
            case = _case(graded, f"{notebook['notebook']}/{name}", 0)
            if notebook["status"] != "graded":
                _tell(case, "error", notebook["status"], notebook["message"])
            elif cell["score"] is None:
                _tell(case, "skipped", "to be marked", "A person has yet to mark it.")
            elif cell["reason"] is not None:
                kind = "error" if cell["reason"] in (*STOPPED, *NOT_JUDGED[1:]) else "failure"
                named = f" {' '.join(cell['misconceptions'])}" if cell["misconceptions"] else ""
                summary = f"{cell['reason']}{named}, {cell['score']:g} of {cell['max']:g} points"
                _tell(case, kind, cell["reason"], cell["message"], summary)
            yield case


def _case(graded: Graded, name: str, seconds: float) -> ElementTree.Element:
    its = {"classname": f"{graded.unit}.{graded.student}", "name": name, "time": f"{seconds:.3f}"}
    return ElementTree.Element("testcase", {key: plain(value) for key, value in its.items()})


def _tell(case: ElementTree.Element, tag: str, kind: str, text: str, summary: str = "") -> None:
    """Say in a case why it did not pass; XML has no place for control characters."""
    message = plain(summary or text.split("\n", 1)[0])
    ElementTree.SubElement(case, tag, {"type": kind, "message": message}).text = plain(text)
