"""A class in numbers without anybody's name, to be kept and compared with another class or another run."""

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import pandas as pd

from autograder import records, statistics
from autograder.folders import Folders, GradingError

#: The file beside a report that a later one can be compared with.
FILE = "class.json"
VERSION = 1
#: Half of the range that holds a difference of means in 95 of 100 samples, in standard errors.
SURE = 1.96


@dataclass(frozen=True)
class Summary:
    """What of a class is compared, by exercise and by misconception, in plain numbers; None is for what has none."""

    unit: str
    learners: int
    mean: float | None
    exercises: dict[str, dict]
    misconceptions: dict[str, dict]

    def dumps(self) -> str:
        """The summary as text that `loaded` reads."""
        return json.dumps({"version": VERSION} | asdict(self), indent=1) + "\n"


def summary(unit: str, frame: pd.DataFrame) -> Summary:
    """The class whose rows these are."""
    exercises = statistics.exercises(frame)[["points", "facility"]]
    exercises = exercises.join(statistics.discrimination(frame)).join(statistics.spread(frame))
    holders, names = statistics.holders(frame), statistics.misconception_names(frame)
    return Summary(
        unit,
        int(frame["student"].nunique()),
        _number(statistics.totals(frame).mean()),
        {name: {key: _number(value) for key, value in row.items()} for name, row in exercises.iterrows()},
        {
            identifier: {"name": names[identifier]} | {key: _number(value) for key, value in row.items()}
            for identifier, row in holders.iterrows()
        },
    )


def _number(value: float) -> float | None:
    return None if math.isnan(value) else round(float(value), 6)


def loaded(place: Path, unit: str) -> Summary:
    """The class that a path stands for, for this unit.

    That is a report's class.json, a folder that has one (a report's, or one of reports, or a grading folder), or the
    folder of a course whose submissions have been graded. Raises GradingError where it is none of these.
    """
    if (place / "nbgrader_config.py").is_file():
        with records.opened(Folders(place)) as found:
            return summary(unit, records.frame_of(found.submissions(unit)))
    tried = [place] if place.is_file() else [place / way / FILE for way in ("", unit, f"reports/{unit}")]
    file = next((path for path in tried if path.is_file()), None)
    if file is None:
        raise GradingError(
            f"{place} is no class to compare with. Expected a {FILE} that an earlier report wrote, a folder that has "
            f"one for {unit}, or another course's folder."
        )
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        if content.pop("version") != VERSION:
            raise ValueError("another version's")
        return Summary(**content)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise GradingError(f"{file} is not what a report writes ({error}). Try the report's own {FILE}.") from error


def exercises(now: Summary, before: Summary) -> pd.DataFrame:
    """A row per exercise of either class: facility then and now, the change, and half the width of its 95 % range.

    The range is None where fewer than two answers were scored in one of them.
    """
    rows = {}
    for name in dict.fromkeys((*now.exercises, *before.exercises)):
        new, old = now.exercises.get(name, {}), before.exercises.get(name, {})
        rows[name] = {
            "before": _float(old.get("facility")),
            "now": _float(new.get("facility")),
            "error": SURE * math.hypot(_error(new), _error(old)),
            "discrimination_before": _float(old.get("discrimination")),
            "discrimination_now": _float(new.get("discrimination")),
        }
    table = pd.DataFrame.from_dict(rows, orient="index")
    table.insert(2, "change", table["now"] - table["before"])
    return table.rename_axis("exercise")


def misconceptions(now: Summary, before: Summary) -> pd.DataFrame:
    """A row per misconception of either class: its share then and now, and the change; the largest change first.

    One that was found in nobody has a share of 0.
    """
    rows = {}
    for identifier in sorted({*now.misconceptions, *before.misconceptions}):
        new, old = now.misconceptions.get(identifier), before.misconceptions.get(identifier)
        then, here = (0.0 if one is None else _float(one["share"]) for one in (old, new))
        rows[identifier] = {"name": (new or old)["name"], "before": then, "now": here, "change": here - then}
    table = pd.DataFrame.from_dict(rows, orient="index", columns=["name", "before", "now", "change"])
    order = table["change"].abs().sort_values(ascending=False, kind="stable").index
    return table.loc[order].rename_axis("misconception")


def _float(value: float | None) -> float:
    return math.nan if value is None else float(value)


def _error(exercise: Mapping) -> float:
    """The standard error of a facility."""
    scored, deviation = exercise.get("scored"), _float(exercise.get("deviation"))
    return deviation / math.sqrt(scored) if scored else math.nan


def differing(table: pd.DataFrame) -> Iterable[str]:
    """The exercises whose facility changed by more than chance explains."""
    return table.index[table["change"].abs() > table["error"]]
