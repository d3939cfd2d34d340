"""What a class did, counted from its records."""

import pandas as pd

# Statuses of an answer that somebody gave and that is not right.
WRONG = ("wrong", "partly")


def misconception_names(frame: pd.DataFrame) -> dict[str, str]:
    """ID -> name of every misconception in the records, sorted."""
    found = {
        misconception["id"]: misconception["name"]
        for record in frame["record"].dropna()
        for misconception in record["misconceptions"]
    }
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
    """
    wrong = frame["status"].isin(WRONG)
    named = frame["misconceptions"].map(bool)
    columns = frame.assign(
        facility=frame["score"] / frame["points"],
        right=frame["status"] == "right",
        partly=frame["status"] == "partly",
        wrong=frame["status"] == "wrong",
        untouched=frame["status"] == "not attempted",
        ungraded=~frame["status"].isin((*WRONG, "right", "not attempted")),
        named=wrong & named,
        unnamed=wrong & ~named,
    )
    counts = ["right", "partly", "wrong", "untouched", "ungraded", "named", "unnamed"]
    how = {"points": "first", "facility": "mean"} | dict.fromkeys(counts, "sum")
    return columns.groupby("exercise", sort=False).agg(how)


def totals(frame: pd.DataFrame) -> pd.Series:
    """Score of each student over all exercises, as a share of the points."""
    sums = frame.groupby("student")[["score", "points"]].sum()
    return sums["score"] / sums["points"]
