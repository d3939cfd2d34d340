"""What became of one submission."""

from dataclasses import dataclass, field

STATUSES = ("graded", "unchanged", "unreadable", "skipped", "not graded")


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
    notebooks: list[dict] = field(default_factory=list)

    @property
    def fine(self) -> bool:
        return self.status in ("graded", "unchanged")
