"""What `audit` proves of the engine: it grades every attempt, in a learner's notebook, as what it is."""

import copy
import random
from collections.abc import Iterator
from pathlib import Path

import nbformat

from autograder.classroom import Answer, Choice, choices
from autograder.engine.knowledge import Unit
from autograder.engine.limits import Limits
from autograder.engine.runner import NotebookRun
from autograder.engine.supervisor import Parent
from autograder.grading import plan_here
from autograder.intake.master import role
from autograder.lessons import Problem
from autograder.proofs import Proof

# Any seed will do: that the cases of every seed tell attempts apart is proved elsewhere.
SEED = "5e" * 32


def prove_grading(unit: str, course: Path, into: Path) -> Proof:
    """Right answers get all points, wrong ones bear their names, untouched ones are seen as such, all by the engine."""
    proof = Proof()
    limits = Limits()
    plan = plan_here(limits)
    if not plan.layers:
        proof.remarks.append(f"{unit} was not graded by the engine: {next(iter(plan.off.values()))}")
        return proof
    known = Unit.of(unit, course, SEED)
    release = into / "release" / unit
    released = nbformat.read(release / f"{unit}.ipynb", as_version=4)
    files = {path.name: path.read_bytes() for path in release.iterdir() if path.suffix != ".ipynb" and path.is_file()}
    parent = Parent(plan, limits)
    try:
        for given in _notebooks(choices(unit, course), random.Random(unit)):
            run = NotebookRun(parent, _handed_in(released, given), files, known, 0)
            run.run()
            for name, answer in given.items():
                problem = _problem(answer, run.cells[f"{name}_tests"])
                if problem:
                    file = course / "units" / unit / "attempts.py"
                    way_out = "The engine and the notebook's check must agree: look for state that cells share"
                    message = f"{name}: graded by the engine, {problem}"
                    proof.problems.append(Problem(file, answer.line, message, way_out))
    finally:
        parent.close()
    return proof


def _notebooks(offers: dict[str, Choice], generator: random.Random) -> Iterator[dict[str, Answer]]:
    """Answers by exercise, so that every attempt is in some notebook, and never beside a wrong one that it calls."""
    untouched = Answer("untouched")
    yield {name: offer.reference for name, offer in offers.items()}
    yield dict.fromkeys(offers, untouched)
    needed = {need for offer in offers.values() for need in offer.needs}
    for names in ([name for name in offers if name not in needed], sorted(needed)):
        rows = {name: [*offers[name].misconceptions, *offers[name].alternatives] for name in names}
        for number in range(max(map(len, rows.values()), default=0)):
            given = {name: drawn[number](generator) for name, drawn in rows.items() if number < len(drawn)}
            rests = {name for name, offer in offers.items() if not given.keys().isdisjoint(offer.needs)}
            others = {name: untouched if name in rests else offer.reference for name, offer in offers.items()}
            yield others | given


def _handed_in(released, given: dict[str, Answer]):
    """The release with these answers, its cells marked as intake marks them."""
    notebook = copy.deepcopy(released)
    for cell in notebook.cells:
        answer = given.get(cell.metadata.get("nbgrader", {}).get("grade_id"))
        changed = answer is not None and answer.source is not None
        if changed:
            cell.source = answer.source.rstrip("\n")
        cell.metadata["autogradlab"] = {"role": role(cell.metadata), "changed": changed}
    return notebook


def _problem(answer: Answer, scored) -> str:
    """What is wrong with the grade of an answer, or an empty string."""
    what = " ".join(filter(None, (answer.kind, answer.id, answer.words)))
    named = " ".join(scored.misconceptions) or "nothing"
    if answer.kind == "misconception":
        fine = (
            scored.score < scored.max and scored.misconceptions and set(scored.misconceptions) <= set(answer.accepted)
        )
    elif answer.kind == "untouched":
        fine = scored.score == 0 and scored.reason == "not attempted"
    else:
        fine = scored.score == scored.max
    return "" if fine else f"{what} gets {scored.score:g} of {scored.max:g} and is named {named}"
