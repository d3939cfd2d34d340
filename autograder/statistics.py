"""What a class did, counted from its records."""

import math

import pandas as pd

from autograder.graded_cells import STOPPED

# Statuses of an answer that somebody gave and that is not right.
WRONG = ("wrong", "partly")
UNTOUCHED = ("not attempted", "missing")
# A misconception of this share of those who answered is the class's, and no single learner's.
SHARED = 1 / 3
# Of fewer learners, a correlation tells nothing.
FEWEST = 5


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


def holders(frame: pd.DataFrame) -> pd.DataFrame:
    """A row per misconception as `misconceptions` has them: how many learners showed it, of how many who could have.

    Those are the learners who began an exercise in which it was found; `share` is the one by the other.
    """
    begun = frame[~frame["status"].isin(UNTOUCHED) & ~_ungraded(frame["status"])]
    shown = frame.explode("misconceptions").dropna(subset="misconceptions")
    found = {}
    for identifier in misconceptions(frame).index:
        own = shown[shown["misconceptions"] == identifier]
        able = set(begun.loc[begun["exercise"].isin(own["exercise"]), "student"]) | set(own["student"])
        found[identifier] = {"learners": own["student"].nunique(), "begun": len(able)}
    table = pd.DataFrame.from_dict(found, orient="index", columns=["learners", "begun"])
    return table.assign(share=table["learners"] / table["begun"])


def exercises(frame: pd.DataFrame) -> pd.DataFrame:
    """A row per exercise: points, facility (mean share of the points), and how many answers came out how.

    Wrong answers, those partly right included, are `named` if a misconception was found in them, else `unnamed`.
    Answers that wait for a person are in no facility, and with them those left untouched: they have their 0 already, so
    that what has been scored would be the worst alone. One that nobody has marked at all has none.
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
    columns = frame.assign(facility=_facilities(frame), **ways, named=wrong & named, unnamed=wrong & ~named)
    how = {"points": "first", "facility": "mean"} | dict.fromkeys((*ways, "named", "unnamed"), "sum")
    return columns.groupby("exercise", sort=False).agg(how)


def discrimination(frame: pd.DataFrame) -> pd.Series:
    """By exercise, how its score goes with the score of all others: the correlation of item and rest.

    Learners count who have a score for the exercise and for others. NaN where they are fewer than FEWEST, where all
    have the same, or where there is no rest.
    """
    scored = frame[frame["score"].notna()]
    sums = scored.groupby("student")[["score", "points"]].sum()
    found = {}
    for exercise in frame["exercise"].unique():
        own = scored[scored["exercise"] == exercise].set_index("student")
        rest = _share(sums.loc[own.index] - own[["score", "points"]])
        pairs = pd.DataFrame({"own": _share(own), "rest": rest}).dropna()
        varies = len(pairs) >= FEWEST and (pairs.max() - pairs.min() > 1e-9).all()
        found[exercise] = pairs["own"].corr(pairs["rest"]) if varies else math.nan
    return pd.Series(found, dtype=float, name="discrimination")


def spread(frame: pd.DataFrame) -> pd.DataFrame:
    """By exercise, how many answers its facility is made of (`scored`), and their standard deviation (`deviation`)."""
    shares = frame.assign(share=_facilities(frame)).groupby("exercise", sort=False)["share"]
    return pd.DataFrame({"scored": shares.count(), "deviation": shares.std()})


def _facilities(frame: pd.DataFrame) -> pd.Series:
    """What each answer adds to the facility of its exercise."""
    waiting = frame.loc[frame["status"] == "to be marked", "exercise"]
    is_early = frame["status"].isin(UNTOUCHED) & frame["exercise"].isin(waiting)
    return _share(frame).mask(is_early)


def totals(frame: pd.DataFrame) -> pd.Series:
    """Score of each student as a share of the points of what has been scored; who has nothing scored is left out."""
    sums = frame[frame["score"].notna()].groupby("student")[["score", "points"]].sum()
    return _share(sums).dropna()


def _ungraded(status: pd.Series) -> pd.Series:
    known = (*WRONG, *UNTOUCHED, *STOPPED, "right", "marked", "to be marked")
    return ~status.isin(known)


def _share(frame: pd.DataFrame) -> pd.Series:
    """Score by points; nothing where there are no points to be had."""
    return frame["score"] / frame["points"].where(frame["points"] > 0)
