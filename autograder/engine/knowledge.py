"""What the referee knows of a unit: exercises, references, misconceptions, and what those do in the fresh cases."""

import hashlib
import hmac
import tomllib
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

from autogradlab.diagnosis import Candidate, Verdict
from autogradlab.encoding import pack
from autogradlab.exercises import Attempt, Exercise, load_cases, stub_digest
from autogradlab.observation import observe
from autogradlab.recorded import predicted_once

from autograder import lessons
from autograder.trials import Trial, devices

#: In how many of the fresh cases costs are looked at: each needs up to three more runs.
COSTED = 3


class Known:
    """One exercise as the referee knows it; the programs are run in this process when they are first asked for."""

    def __init__(self, exercise: Exercise, program, attempts: Sequence[Attempt], catalogue: dict, own, seed: str):
        self.exercise, self.trial = exercise, Trial(exercise)
        self.points, self.stub = own.points, stub_digest(own.stub)
        self._program, self._catalogue, self._seed = program, catalogue, seed
        self._attempts = [one for one in attempts if one.kind == "misconception" and one.same_as is None]
        self._observed: dict = {}

    @cached_property
    def cases(self) -> list[list]:
        """The fresh cases as a child is asked for them: [seed, index, dtype, device, whether costs count]."""
        exercise = self.exercise
        places = [(exercise.dtypes[0], device) for device in devices_for(exercise)]
        return [
            [self._derived(index), index, dtype, device, index < COSTED]
            for dtype, device in places
            for index in range(exercise.fresh)
        ]

    def expected(self, variant: int | None = None) -> list:
        """What the reference does in the fresh cases, or its answers for one variant of a prediction."""
        return self._behaviour("reference", self._program, variant)

    @cached_property
    def foreseen(self) -> bytes:
        """The frame of a child's reply whose program does in the fresh cases what the reference does."""
        return pack({"observations": self.expected()})

    @cached_property
    def verdict_on_itself(self) -> Verdict:
        """The verdict on who does in the fresh cases exactly what the reference does."""
        return self.trial.judge(self.expected(), self.expected())

    def candidates(self, variant: int | None = None) -> list[Candidate]:
        """The misconceptions, with what their programs do."""
        return [
            Candidate(
                key=attempt.key,
                id=attempt.id,
                name=self._catalogue[attempt.id]["name"],
                message=attempt.message or self._catalogue[attempt.id]["message"],
                see=self._catalogue[attempt.id].get("demonstration"),
                observations=self._behaviour(attempt.key, attempt.program, variant),
            )
            for attempt in self._attempts
        ]

    def _behaviour(self, key: str, program, variant: int | None) -> list:
        if (key, variant) not in self._observed:
            if self.exercise.is_prediction:
                observed = [predicted_once(self.exercise, program, variant)]
            else:
                observed = [
                    observe(self.trial.exercise if costed else self.trial.cheap, program, seed, index, dtype, device)
                    for seed, index, dtype, device, costed in self.cases
                ]
            self._observed[key, variant] = observed
        return self._observed[key, variant]

    def _derived(self, index: int) -> int:
        """The seed of one case; nothing about the assignment's seed follows from it."""
        words = f"{self.exercise.name}/{index}".encode()
        return int.from_bytes(hmac.digest(bytes.fromhex(self._seed), words, hashlib.sha256)[:6])


def devices_for(exercise: Exercise) -> list[str]:
    """The devices on which an exercise is graded: the CPU, and every other that it names and that is at hand."""
    return ["cpu"] if exercise.devices == "any" else devices(exercise)


class Unit:
    """A unit of this course, read from its authors' folder."""

    def __init__(self, name: str, course: Path, seed: str):
        self.name = name
        lesson = lessons.read(name, course)
        exercises = load_cases(lesson.directory / "cases.py")
        attempts = lessons.attempts(lesson, exercises)
        programs = lessons.references(lesson, attempts)
        catalogue = tomllib.loads((course / "misconceptions.toml").read_text(encoding="utf-8"))
        self.exercises = {
            key: Known(
                exercises[key],
                programs[key],
                [one for one in attempts if one.exercise == key],
                catalogue,
                own,
                seed,
            )
            for key, own in lesson.exercises.items()
        }

    @classmethod
    def of(cls, name: str, course: Path, seed: str) -> "Unit | None":
        """The unit of this name; None where the course has no such unit, as any other nbgrader course."""
        return cls(name, course, seed) if (course / "units" / name / "lesson.py").is_file() else None

    def needed(self, exercise: str) -> list[str]:
        """The exercise with all that it rests on, what is needed first coming first."""
        order: list[str] = []

        def add(name: str) -> None:
            for need in self.exercises[name].exercise.needs:
                add(need)
            if name not in order:
                order.append(name)

        add(exercise)
        return order
