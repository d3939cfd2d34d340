"""Wrong answers that no misconception explains, those together that did the same: the next misconceptions to write."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from autograder.statistics import WRONG

_ADDRESS = re.compile(r"0x[0-9a-f]+")


@dataclass
class Group:
    """Answers to one exercise that miss the same requirements and differ from the reference in the same way.

    `answers` has a learner and a source for each. `call`, `yours` and `expected` are the first case that shows it;
    all are empty where the answer could not be used in any case, and `told` says why.
    """

    exercise: str
    missed: tuple[str, ...]
    call: str = ""
    yours: str = ""
    expected: str = ""
    told: str = ""
    answers: list[tuple[str, str]] = field(default_factory=list)

    @property
    def learners(self) -> list[str]:
        """Who gave such an answer, in their order."""
        return list(dict.fromkeys(student for student, _ in self.answers))


def groups(rows: Iterable[Mapping]) -> list[Group]:
    """The groups, exercise by exercise in the order of the rows (as `records` has them), the largest first in each.

    Only verdicts that the referee's kind left say what an answer did; ordinary tests do not.
    """
    found: dict[str, dict[tuple, Group]] = {}
    for row in rows:
        own, record = found.setdefault(row["exercise"], {}), row["record"]
        if not is_unrecognised(row):
            continue
        group = _group(row["exercise"], record)
        key = (group.missed, *(_ADDRESS.sub("0x", text) for text in (group.call, group.yours, group.told)))
        own.setdefault(key, group).answers.append((row["student"], row["code"]))
    return [group for own in found.values() for group in sorted(own.values(), key=lambda one: -len(one.answers))]


def is_unrecognised(row: Mapping) -> bool:
    """Whether a verdict found the answer wrong, and no misconception that explains it."""
    return isinstance(row["record"], Mapping) and row["status"] in WRONG and not row["misconceptions"]


def _group(exercise: str, record: Mapping) -> Group:
    missed = tuple(one["words"] for one in record["requirements"] if not one["met"])
    case, raised = record["case"], record["raised"]
    if case is None:
        return Group(exercise, missed, told=record["text"].partition("\n\n")[2])
    # Not the traceback: it quotes the learner's own lines.
    yours = f"{raised['type']}: {raised['message']}" if raised else f"{case['difference']}\n{case['yours']}"
    return Group(exercise, missed, case["call"], yours.strip(), case["expected"])
