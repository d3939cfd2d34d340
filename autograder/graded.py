"""What became of one submission."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from autograder.folders import Folders

STATUSES = ("graded", "unchanged", "unreadable", "skipped", "not graded")


class Kept(Sequence[dict]):
    """What the results folder has of a submission's notebooks, read whenever it is asked for.

    So a run holds no record, and needs no more memory for a class of any size.
    """

    def __init__(self, folders: Folders, unit: str, student: str):
        self._folders, self._unit, self._student = folders, unit, student

    def __getitem__(self, place: int) -> dict:
        return self._read()[place]

    def __len__(self) -> int:
        return len(self._read())

    def __iter__(self) -> Iterator[dict]:
        return iter(self._read())

    def _read(self) -> list[dict]:
        return self._folders.result(self._unit, self._student).get("notebooks", [])


@dataclass(frozen=True)
class Graded:
    """What became of one submission; `unchanged` says that an earlier grade still holds, `not graded` that we failed.

    `notebooks` are the results of its notebooks as `--json` shows them.
    """

    unit: str
    student: str
    status: str
    reason: str = ""
    seconds: float = 0.0
    notebooks: Sequence[dict] = ()

    @property
    def fine(self) -> bool:
        return self.status in ("graded", "unchanged")
