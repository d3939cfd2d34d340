"""What the reference and the misconceptions did in the visible cases, kept in one file beside the notebook.

The file holds observations, never a program: near grading compares with them, without a solution at hand.
"""

import pathlib
import zlib

from autogradlab.diagnosis import Candidate
from autogradlab.encoding import pack, unpack
from autogradlab.observation import observe
from autogradlab.predictable import answer_digests, normalise

FILE = "recorded.bin"
SEED = 0


class Recorded:
    """The recorded observations of one unit, read exercise by exercise."""

    def __init__(self, directory):
        self.path = pathlib.Path(directory) / FILE
        data = unpack(self.path.read_bytes())
        self.unit, self._frames, self._read = data["unit"], data["exercises"], {}

    def __contains__(self, name: str) -> bool:
        return name in self._frames

    def exercise(self, name: str) -> "RecordedExercise":
        """What is recorded of one exercise."""
        if name not in self._read:
            self._read[name] = RecordedExercise(unpack(zlib.decompress(self._frames[name])))
        return self._read[name]

    @property
    def names(self) -> list:
        """The names of the exercises, sorted."""
        return sorted(self._frames)


class RecordedExercise:
    """Points, the stub's digest, and the observations of the reference and of every misconception."""

    def __init__(self, data: dict):
        self.points, self.stub = data["points"], data["stub"]
        self._data = data

    def expected(self, variant: int | None = None) -> list:
        """The reference's observations in the visible cases, or for one variant of a prediction."""
        return self._data["reference"] if variant is None else [self._data["reference"][str(variant)]]

    def candidates(self, variant: int | None = None) -> list:
        """The misconceptions, with what their programs did."""
        return [
            Candidate(
                key=entry["key"],
                id=entry["id"],
                name=entry["name"],
                message=entry["message"],
                see=entry["see"],
                observations=entry["observations"] if variant is None else [entry["observations"][str(variant)]],
            )
            for entry in self._data["candidates"]
        ]


def record_exercise(exercise, program, attempts, catalogue: dict, points: float, stub: str, dtype=None) -> dict:
    """The plain record of one exercise.

    `program` is the reference (for a prediction exercise a function of the variant), `attempts` its misconceptions,
    `catalogue` the entries of misconceptions.toml by ID, `stub` the digest of the released answer cell.
    """
    wrong = [attempt for attempt in attempts if attempt.kind == "misconception" and attempt.exercise == exercise.name]
    watch = (
        (lambda one: predicted(exercise, one))
        if exercise.is_prediction
        else (lambda one: visible(exercise, one, dtype))
    )
    candidates = [
        {
            "key": attempt.key,
            "id": attempt.id,
            "name": catalogue[attempt.id]["name"],
            "message": attempt.message or catalogue[attempt.id]["message"],
            "see": catalogue[attempt.id].get("demonstration"),
            "observations": watch(attempt.program),
        }
        for attempt in wrong
        if attempt.same_as is None
    ]
    expected = watch(program)
    if not exercise.is_prediction:
        _check_facets(exercise, expected)
    return {"points": points, "stub": stub, "reference": expected, "candidates": candidates}


def _check_facets(exercise, expected: list):
    """Raises ValueError for a facet that names nothing in any case: a requirement on it could not be missed."""
    for requirement in exercise.requirements:
        for facet in requirement.facets:
            if not any(facet.is_in(observation) for observation in expected):
                raise ValueError(
                    f"exercise {exercise.name}: nothing in its cases is called {facet.part}.{facet.name}, "
                    f"which {requirement.words!r} is about"
                )


def visible(exercise, program, dtype=None) -> list:
    """What a program does in the visible cases."""
    return [observe(exercise, program, SEED, index, dtype) for index in range(exercise.visible)]


def predicted(exercise, model) -> dict:
    """The digests of a model's answers for every variant, by variant."""
    return {str(variant): predicted_once(exercise, model, variant) for variant in range(exercise.variants)}


def predicted_once(exercise, model, variant: int) -> dict:
    """The digests of a model's answers for one variant, as an observation."""
    answers = [normalise(answer) for answer in model(variant)]
    return prediction(exercise, variant, answers)


def prediction(exercise, variant: int, answers: list) -> dict:
    """An observation of answers that are data."""
    return {
        "dtype": exercise.dtypes[0],
        "raised": None,
        "mode": {},
        "calls": {},
        "facts": {"variant": variant},
        "answers": answer_digests(exercise.name, variant, answers),
    }


def write(unit: str, exercises: dict) -> bytes:
    """The file's bytes, from the plain record of each exercise by name."""
    frames = {name: zlib.compress(pack(data), level=9) for name, data in exercises.items()}
    return pack({"unit": unit, "version": 1, "exercises": frames})


def contents(data: bytes) -> dict:
    """The whole file as plain data, for tools that compare two of them."""
    plain = unpack(data)
    return plain | {"exercises": {name: unpack(zlib.decompress(frame)) for name, frame in plain["exercises"].items()}}
