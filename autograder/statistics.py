"""What a class did, counted from its records."""

import pandas as pd

from autograder.graded_cells import STOPPED

# Statuses of an answer that somebody gave and that is not right.
WRONG = ("wrong", "partly")
UNTOUCHED = ("not attempted", "missing")


def misconception_names(frame: pd.DataFrame) -> dict[str, str]:
    """ID -> name of every misconception in the records, sorted; a name is empty where no verdict tells it."""
    found = dict.fromkeys((identifier for ids in frame["misconceptions"] for identifier in ids), "")
    for record in frame["record"].dropna():
        found |= {misconception["id"]: misconception["name"] for misconception in record["misconceptions"]}
    return dict(sorted(found.items()))


def misconceptions(frame: pd.DataFrame) -> pd.DataFrame:
    """How many answers showed each misconception: a row per ID, most frequent first, a column per exercise."""
    exercises = list(frame["exercise"].unique())
    shown = frame.explode("misconceptions").dropna(subset="misconceptions")
    counts = pd.crosstab(shown["misconceptions"], shown["exercise"]).reindex(columns=exercises, fill_value=0)
    return counts.loc[counts.sum(axis=1).sort_values(ascending=False, kind="stable").index]


def exercises(frame: pd.DataFrame) -> pd.DataFrame:
    """A row per exercise: points, facility (mean share of the points), and how many answers came out how.

    Wrong answers, those partly right included, are `named` if a misconception was found in them, else `unnamed`.
    Answers that wait for a person are in no facility; one that nobody has marked at all has none.
    """
    status, named = frame["status"], frame["misconceptions"].map(bool)
    wrong = status.isin(WRONG)
    ways = {
        "right": status == "right",
        "partly": status == "partly",
        "wrong": status == "wrong",
        "untouched": status.isin(UNTOUCHED),
        "stopped": status.isin(STOPPED),
        "marked": status == "marked",
        "waiting": status == "to be marked",
    }
    ways["ungraded"] = ~pd.concat(ways, axis=1).any(axis=1)
    columns = frame.assign(facility=_share(frame), **ways, named=wrong & named, unnamed=wrong & ~named)
    how = {"points": "first", "facility": "mean"} | dict.fromkeys((*ways, "named", "unnamed"), "sum")
    return columns.groupby("exercise", sort=False).agg(how)


def totals(frame: pd.DataFrame) -> pd.Series:
    """Score of each student as a share of the points of what has been scored; who has nothing scored is left out."""
    sums = frame[frame["score"].notna()].groupby("student")[["score", "points"]].sum()
    return _share(sums).dropna()


def _share(frame: pd.DataFrame) -> pd.Series:
    """Score by points; nothing where there are no points to be had."""
    return frame["score"] / frame["points"].where(frame["points"] > 0)
