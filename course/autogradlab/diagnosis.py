"""From two lists of observations to a verdict: what is met, what is missed, and which wrong program did just this."""

import dataclasses
import itertools
import re

from autogradlab.requirements import Difference


@dataclasses.dataclass(frozen=True)
class Candidate:
    """A misconception as grading sees it: what its program did in the same cases."""

    key: str
    id: str
    name: str
    message: str
    observations: list
    see: str | None = None

    @property
    def question(self) -> str:
        """The last sentence of the message."""
        return re.split(r"(?<=[.!?…])\s+", self.message.strip())[-1]


@dataclasses.dataclass(frozen=True)
class Verdict:
    """The outcome of one exercise: per requirement whether it is met, a score from 0 to 1, and the diagnosis.

    `judged` says per requirement whether a miss is one by itself: where the gate is missed, what is wrong afterwards
    may be no more than what follows from that. `diagnosis` is a list of `(candidate, requirement numbers it explains)`;
    `unexplained` are the numbers of missed requirements that no candidate explains; `case` is the number of the first
    case that shows a miss.
    """

    met: list
    judged: list
    score: float
    diagnosis: list
    unexplained: list
    case: int | None
    difference: Difference | None

    @property
    def status(self) -> str:
        """right, partly or wrong."""
        if all(self.met):
            return "right"
        return "partly" if self.met[0] else "wrong"


def judge(exercise, yours: list, expected: list, candidates: list) -> Verdict:
    """The verdict on a program from what it did (`yours`) and what the reference did, case by case.

    The first requirement is the gate: where it is missed the score is 0, else the share of the weights that are met.
    The diagnosis is the smallest set of candidates that did, on the facets of the missed requirements and in all cases,
    exactly what the program did. Where the gate is missed and nothing explains it, nothing is named.
    """
    requirements = exercise.requirements
    met = [requirement.met(exercise, yours, expected) for requirement in requirements]
    weights = [requirement.weight for requirement in requirements]
    score = sum(weight for weight, good in zip(weights, met) if good) / sum(weights) if met[0] else 0.0
    missed = [number for number, good in enumerate(met) if not good]
    if not missed:
        return Verdict(met, met, 1.0, [], [], None, None)
    diagnosis = _diagnosis(exercise, yours, expected, candidates, missed)
    explained = {number for _, numbers in diagnosis for number in numbers}
    unexplained = [number for number in missed if number not in explained]
    # A second mistake beside the one at the gate is one by itself.
    apart = {number for _, numbers in diagnosis for number in numbers if 0 not in numbers}
    judged = [
        number == 0 or met[0] or met[number] or number in apart or requirement.stands_alone(yours, expected)
        for number, requirement in enumerate(requirements)
    ]
    case, difference = _first_case(exercise, yours, expected, missed)
    return Verdict(met, judged, score, diagnosis, unexplained, case, difference)


def _first_case(exercise, yours, expected, missed):
    """The first case that shows a miss, by the first missed requirement; cases stand from small to large."""
    for number in missed:
        requirement = exercise.requirements[number]
        for index, pair in enumerate(zip(yours, expected)):
            difference = requirement.difference(exercise, *pair)
            if difference is not None:
                return index, difference
    raise AssertionError("a requirement was missed in no case")


def _diagnosis(exercise, yours, expected, candidates, missed) -> list:
    requirements = exercise.requirements

    def meets(candidate, number):
        return requirements[number].met(exercise, candidate.observations, expected)

    def alike(candidate, number):
        return requirements[number].alike(exercise, yours, candidate.observations, expected)

    met = [number for number in range(len(requirements)) if number not in missed]
    covers = {}
    for position, candidate in enumerate(candidates):
        # Within the tolerance of a candidate that is right is no mistake that this candidate shows.
        numbers = [number for number in missed if alike(candidate, number) and not meets(candidate, number)]
        if numbers and all(requirements[number].coarse for number in numbers):
            # That a cost is too high says little: whoever is named for it alone must be right where the program is.
            numbers = numbers if all(meets(candidate, number) for number in met) else []
        if numbers:
            covers[position] = numbers
    coverable = {number for numbers in covers.values() for number in numbers}
    if not coverable or 0 in missed and 0 not in coverable:
        return []
    strangeness = {position: sum(not alike(candidates[position], number) for number in met) for position in covers}
    for size in range(1, len(coverable) + 1):
        sets = [
            chosen
            for chosen in itertools.combinations(covers, size)
            if coverable <= {number for position in chosen for number in covers[position]}
        ]
        if sets:
            best = min(sets, key=lambda chosen: (sum(strangeness[position] for position in chosen), chosen))
            return [(candidates[position], covers[position]) for position in best]
    raise AssertionError("what can be covered was not covered")
