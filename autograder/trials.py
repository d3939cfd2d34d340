"""The cases in which programs are tried, and how their observations are judged.

Costs need runs of their own, up to three for one case, so that outside of the visible cases they are looked at in some
cases of a seed only; requirements about costs pass over the others. The simulated accelerator takes two to three times
as long as the CPU, so that after the visible cases it has its turn in some seeds only, with one dtype each.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from autogradlab import accelerator
from autogradlab.diagnosis import Candidate, Verdict, judge
from autogradlab.observation import observe
from autogradlab.requirements import Rate, Requirement

SEEDS = 20
# In how many of a seed's cases costs are looked at.
COSTED = 2
# One seed of these is tried on the simulated accelerator too.
SIM_EVERY = 10


def devices(exercise) -> list[str]:
    """The devices at hand on which the exercise is observed."""
    at_hand = {"cuda": torch.cuda.is_available(), "mps": torch.mps.is_available(), "sim": accelerator.is_available()}
    found = ["cpu", *(device for device, is_there in at_hand.items() if is_there)]
    return found if exercise.devices == "any" else [device for device in found if device in exercise.devices]


@dataclass(frozen=True)
class Situation:
    """Cases that are judged together: some of one seed, in one dtype, on one device; `costed` where costs count."""

    seed: int
    indexes: Sequence[int]
    dtype: str
    device: str
    costed: tuple[int, ...]
    is_rest: bool = False  # not one case of each kind, but those that a seed has beyond

    def __str__(self) -> str:
        return f"seed {self.seed}, {self.dtype} on {self.device}"


class Trial:
    """One exercise, and the situations in which programs are tried at it."""

    def __init__(self, exercise) -> None:
        self.exercise = exercise
        free = tuple(one for one in exercise.requirements if not _is_about_costs(one))
        self.cheap = replace(exercise, requirements=free) if free else exercise
        self.lenient = replace(exercise, requirements=tuple(_lenient(one) for one in exercise.requirements))
        self.once = [one for one in self.lenient.requirements if not isinstance(one, Rate)]
        self.rates = [one for one in self.lenient.requirements if isinstance(one, Rate)]
        self.has_hidden = any(one.hidden for one in exercise.requirements)

    def once_in(self, program, situation: Situation, index: int, step_limit: int | None = None) -> dict:
        """What the program does in one case of the situation."""
        exercise = self.exercise if index in situation.costed else self.cheap
        return observe(exercise, program, situation.seed, index, situation.dtype, situation.device, step_limit)

    def watch(self, program, situation: Situation, step_limit: int | None = None) -> list[dict]:
        """What the program does in all cases of the situation."""
        return [self.once_in(program, situation, index, step_limit) for index in situation.indexes]

    def judge(self, yours: list[dict], expected: list[dict], candidates: Sequence[Candidate] = ()) -> Verdict:
        """The verdict, with requirements about costs judged where costs were looked at."""
        return judge(self.lenient, yours, expected, list(candidates))

    def near(self, number: int | None = None) -> Situation:
        """The visible cases; costs in all, or, with a number, in some that turn with it."""
        exercise = self.exercise
        costed = tuple(range(exercise.visible)) if number is None else self._costed(number)
        return Situation(0, range(exercise.visible), exercise.dtypes[0], "cpu", costed)

    def of_each_kind(self, seed: int, number: int) -> Situation:
        """One fresh case of each kind; dtypes turn with the number."""
        dtype = self.exercise.dtypes[number % len(self.exercise.dtypes)]
        return Situation(seed, self._kinds(), dtype, "cpu", self._costed(seed))

    def situations(self) -> Iterator[Situation]:
        """The visible cases, one fresh case of each kind for every seed, the rest; on every device whose turn it is."""
        exercise = self.exercise
        for place in self._places(0):
            yield Situation(0, range(exercise.visible), *place, tuple(range(exercise.visible)))
        for seed in range(1, SEEDS + 1):
            for place in self._places(seed):
                yield Situation(seed, self._kinds(), *place, self._costed(seed))
        places = self._places(0)
        rest = range(len(self._kinds()), exercise.fresh)
        for seed in range(1, SEEDS + 1) if rest else ():
            yield Situation(seed, rest, *places[0], (), is_rest=True)

    def _places(self, seed: int) -> list[tuple[str, str]]:
        """Dtypes and devices with which a seed is tried."""
        dtypes, found = self.exercise.dtypes, devices(self.exercise)
        places = [(dtype, device) for device in found if device != "sim" for dtype in dtypes]
        places = [place for place in places if place != ("float64", "mps")]
        turn, is_other = divmod(seed + SIM_EVERY - 1, SIM_EVERY)
        if "sim" in found and (seed == 0 or not is_other):
            places.append((dtypes[turn % len(dtypes)], "sim"))
        return places

    def whole(self, situation: Situation) -> Situation:
        """All fresh cases of the situation's seed, costs included."""
        everything = range(self.exercise.fresh)
        return replace(situation, indexes=everything, costed=tuple(everything))

    def _kinds(self) -> range:
        """One case of each kind; all cases, where a requirement is about the share of them that is right."""
        return range(self.exercise.fresh if self.rates else min(self.exercise.visible, self.exercise.fresh))

    def _costed(self, number: int) -> tuple[int, ...]:
        kinds = len(self._kinds())
        return tuple(sorted({(number + step) % kinds for step in range(COSTED)}))


def _is_about_costs(requirement: Requirement) -> bool:
    return any(facet.part == "cost" for facet in requirement.facets)


def _lenient(requirement: Requirement) -> Requirement:
    return _WhereCosted(requirement) if _is_about_costs(requirement) else requirement


class _WhereCosted(Requirement):
    """A requirement about costs that holds, and sees no difference, where no costs were looked at."""

    def __init__(self, inner: Requirement) -> None:
        super().__init__(inner.words, (), inner.weight, inner.hidden)
        self.inner, self.facets, self.coarse = inner, inner.facets, inner.coarse

    def difference(self, exercise, yours, expected):
        looked_at = "cost" in expected or yours["raised"] or expected["raised"]
        return self.inner.difference(exercise, yours, expected) if looked_at else None

    def alike_once(self, exercise, yours, other, expected):
        looked_at = "cost" in expected or yours["raised"] or other["raised"]
        return not looked_at or self.inner.alike_once(exercise, yours, other, expected)
