"""A smaller case that shows what is wrong with an answer."""

import time

from autogradlab import answers, limits
from autogradlab.checking import exercise_named, program_named, verdict
from autogradlab.observation import observe
from autogradlab.passages import Code, Passage
from autogradlab.recorded import SEED
from autogradlab.state import preserved
from autogradlab.verdicts import call_lines

SECONDS = 3.0  # for the search among further cases


def smaller(name: str) -> Passage:
    """The case with the least to read in which the notebook's answer `name` misses what its check shows first.

    Looked for among the check's own cases and, where the course's answers are on this machine, among further ones.
    """
    unit, exercise, known = exercise_named(name)
    result = verdict(name)
    if result.record["case"] is None:
        status = result.record["status"]
        return Passage(f"{name} is {status}, so there is no case to make smaller.", "What does its check say?")
    if exercise.is_prediction:
        return Passage(
            f"The case of {name} is the variant that you chose.",
            "Choose another variant, run the cell that prints its question, and answer that one.",
        )
    missed = next(number for number, row in enumerate(result.record["requirements"]) if not row["met"])
    search = _Search(exercise, exercise.requirements[missed], program_named(name), result.record["case"])
    reference = answers.reference(unit, name) if answers.are_at_hand(unit.name) else None
    with preserved(SEED):
        try:
            limits.within(lambda: search.run(known.expected(), reference))
        except limits.RanTooLong:
            return Passage(f"{name} runs on and on in some case.", "What has to become true for it to stop?")
    return search.told(name)


class _Search:
    """Looks for the failing case whose call and results are the shortest to read."""

    def __init__(self, exercise, requirement, program, shown):
        self.exercise, self.requirement, self.program = exercise, requirement, program
        self.cases, self.best, self.shown = 0, None, shown

    def run(self, expected, reference):
        """Looks at the check's own cases and, given the course's answer, at as many more as there is time for."""
        for index, one in enumerate(expected):
            self._look(SEED, index, one)
        end, seed = time.monotonic() + SECONDS, SEED
        while reference is not None and time.monotonic() < end:
            seed += 1
            for index in range(self.exercise.visible):
                self._look(seed, index, observe(self.exercise, reference, seed, index))

    def _look(self, seed, index, expected):
        """Notes the case if it misses the requirement, and is the shortest so far."""
        yours = observe(self.exercise, self.program, seed, index)
        difference = self.requirement.difference(self.exercise, yours, expected)
        if difference is None:
            return
        self.cases += 1
        told = observe(self.exercise, self.program, seed, index, describe=True)
        call = call_lines(told, difference)
        length = len(call) + len(difference.yours) + len(difference.expected)
        if self.best is None or length < self.best[0]:
            self.best = length, call, difference, told["raised"]

    def told(self, name) -> Passage:
        """The smallest case, or that there is none smaller than the check's."""
        shown = sum(len(self.shown[part]) for part in ("call", "yours", "expected"))
        if self.best is None or self.best[0] >= shown:
            few = "the only one found that fails" if self.cases == 1 else f"the smallest of {self.cases} that fail"
            return Passage(
                f"The case that the check of {name} shows is {few}.",
                Code(_lines(self.shown["call"], self.shown["difference"], self.shown["yours"], self.shown["expected"])),
            )
        _, call, difference, raised = self.best
        words = difference.words
        if raised:
            words = f"raised {raised['types'][0]}: {raised['message']}"
        return Passage(
            f"The smallest of {self.cases} cases that fail by “{self.requirement.words}”:",
            Code(_lines(call, words, difference.yours, difference.expected)),
            "Do this one on paper. Which line of yours does something else?",
        )


def _lines(call, words, yours, expected):
    return "\n".join(filter(None, (call, words, f"  yours:    {yours}", f"  expected: {expected}")))
