"""What a learner can do next, after a check: the next exercise, a hint, or a smaller case."""

import html
from dataclasses import dataclass

from autogradlab import answers, limits, outline
from autogradlab.verdicts import prose


@dataclass(frozen=True)
class Step:
    """One thing to do next, in words, and the address of the place where it is done, if it is another place.

    `more` is said after it; what stands in backticks there is code.
    """

    words: str
    address: str | None = None
    place: str | None = None
    more: str = ""

    @property
    def text(self) -> str:
        """The step as text."""
        return " ".join(filter(None, (f"Next: {self.words}", self.place and f"“{self.place}”.", self.more)))

    @property
    def html(self) -> str:
        """The step as one paragraph."""
        link = ""
        if self.place:
            style = "text-decoration:underline"  # colour alone would not tell it from the words around it
            link = f'<a href="{html.escape(self.address)}" style="{style}">{html.escape(self.place)}</a>.'
        return " ".join(filter(None, (f"Next: {prose(self.words)}", link, prose(self.more))))


def after(record: dict, times: int, directory, records: dict) -> Step | None:
    """What to do after a check; None where what it said is enough, or no notebook is beside the unit's files.

    `record` is the check's, `times` how often in a row the same was seen, `records` are those of all checks of this
    unit in this session, by exercise.
    """
    if record["status"] == "not attempted":
        return None
    try:
        unit = outline.read_unit(directory, stubs={}).checked(records)  # only what is right matters here
    except (OSError, ValueError):  # the notebook has another name, or is being written at this moment
        return None
    names = [exercise.name for exercise in unit.exercises]
    if record["exercise"] not in names:
        return None
    position = names.index(record["exercise"])
    if record["status"] == "right":
        return _onward(unit, position)
    return _again(unit.exercises[position], record, times)


def _onward(unit, position) -> Step:
    more = ""
    if answers.are_at_hand(unit.name):
        name = unit.exercises[position].name
        more = f'Other right answers, in a cell of your own: `from autogradlab import solutions; solutions("{name}")`'
    following = [*unit.exercises[position + 1 :], *unit.exercises[:position]]
    open_ones = [exercise for exercise in following if exercise.state != outline.DONE]
    if open_ones:
        words = f"{len(open_ones)} exercise{'s' * (len(open_ones) != 1)} to go in this unit; "
        words += "read on, up to" if open_ones[0] in unit.exercises[position:] else "go back to"
        return Step(words, f"#{open_ones[0].anchor}", outline.plain(open_ones[0].heading), more)
    siblings = sorted(path.parent.name for path in unit.notebook.parent.parent.glob("*/recorded.bin"))
    later = [name for name in siblings if name > unit.name]
    if not later:
        return Step("every exercise of this unit is right, and it is the last one here.", more=more)
    words = "every exercise of this unit is right; go on with unit"
    return Step(words, f"../{later[0]}/{later[0]}.ipynb", later[0], more)


def _again(exercise, record, times) -> Step:
    if limits.ran_out_of_memory(record["raised"]):
        return Step(
            f"find what grows without end. A check may take {limits.MEMORY >> 30} GiB more than there was; where the "
            "notebook is slow now, restart its kernel and run it from the top."
        )
    words = ["change your answer, run its cell, then this one again."]
    if exercise.hints:
        words.append(f"Hint {min(times, exercise.hints)} of {exercise.hints} stands above your answer.")
    if times > 1 and record["case"] and record["case"]["call"]:  # a prediction's case is the variant that was chosen
        code = f'`from autogradlab import smaller; smaller("{exercise.name}")`'
        words.append(f"A smaller case, in a cell of your own: {code}")
    return Step(" ".join(words))
