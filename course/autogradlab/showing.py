"""How others answered an exercise, for whoever has answered it."""

from autogradlab import answers
from autogradlab.checking import exercise_named, verdict
from autogradlab.passages import Code, Passage


def solutions(name: str) -> Passage:
    """The course's answer to an exercise and the other right ones it knows, once the notebook's own is right."""
    unit, exercise, _ = exercise_named(name)
    if not answers.are_at_hand(unit.name):
        return Passage(
            f"The answers to unit {unit.name} are not on this machine.",
            f"They are in the course's repository, and were looked for in {answers.ROOT}. Get the repository and start "
            f"from it, or ask whoever gave you this notebook.",
        )
    result = verdict(name)
    if result.record["status"] != "right":
        return Passage(
            f"Not yet: your {name} is {result.record['status']}.",
            f'Once `check("{name}")` says right, this shows how others answered. What does the check say now?',
        )
    parts = [f"{name}: the course's answer.", Code(answers.text_of(unit.name, name))]
    for words, text in answers.alternatives(unit.name, name):
        parts += [f"Another right one: {words}.", Code(text)]
    if not exercise.is_prediction:
        parts.append("What does yours do differently, and which would you rather read in a year?")
    return Passage(*parts)
