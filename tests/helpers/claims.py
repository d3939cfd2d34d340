"""Sentences of the lessons, each with the test that fails where the sentence is false."""

import functools
import importlib.util
import re
from pathlib import Path

from lesson_runs import prose

from autograder import lessons

TESTS = Path(__file__).resolve().parent.parent
_NUMBER = re.compile(r"(?<![\w.#])\d[\d.,_]*(?!\w)")
#: What holds digits and claims nothing with them: code, addresses, the names of units, tags.
_NO_CLAIM = re.compile(r"`[^`]*`|\]\([^)]*\)|https?://\S+|\b[Uu]nits? \d+(?:(?:, \d+)* and \d+)?|<[^>]*>")
_BLOCK = re.compile(r"```.*?```|\$\$.*?\$\$", re.DOTALL)
#: Cells whose sentences are proved by the audit (what an exercise asks), by nobody (hints), or by following the link.
_OTHERWISE_PROVED = ("### Exercise", "<details>", "## Where this bites")


def claims(*sentences: str):
    """Marks a test as the proof of sentences, quoted word for word from the lesson of its module's UNIT.

    The test fails as well where the lesson no longer says them.
    """

    def mark(test):
        @functools.wraps(test)
        def proved(*arguments, **named):
            text = prose(lessons.read(test.__globals__["UNIT"]))
            gone = [sentence for sentence in sentences if " ".join(sentence.split()) not in text]
            assert not gone, f"the lesson no longer says: {gone}"
            return test(*arguments, **named)

        proved.claims = tuple(" ".join(sentence.split()) for sentence in sentences)
        return proved

    return mark


def claimed() -> dict[str, list[tuple[str, str]]]:
    """Unit -> the sentences that some test proves, each with the test's name, in the order of the tests."""
    found: dict[str, list[tuple[str, str]]] = {}
    for path in sorted(TESTS.glob("test_unit_*.py")):
        spec = importlib.util.spec_from_file_location(f"claims_of_{path.stem}", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        found.setdefault(module.UNIT, []).extend(
            (sentence, f"{path.name}::{name}")
            for name, test in vars(module).items()
            for sentence in getattr(test, "claims", ())
        )
    return found


def sentences_with_numbers(lesson) -> list[str]:
    """The sentences of the lesson's own text that state a number; questions state none."""
    found = []
    for cell in lesson.cells:
        if cell.kind != "markdown" or cell.source.lstrip().startswith(_OTHERWISE_PROVED):
            continue
        for paragraph in re.split(r"\n\s*\n|\n(?=[-*|#]|\d+\. )", _BLOCK.sub("", cell.source)):
            if paragraph.startswith("#"):
                continue
            text = re.sub(r"^(?:[-*]|\d+\.) ", "", " ".join(paragraph.split()))
            found += [one for one in re.split(r"(?<=[.!?:])\s+", text) if _states_a_number(one)]
    return found


def _states_a_number(sentence: str) -> bool:
    return not sentence.endswith("?") and bool(_NUMBER.search(_NO_CLAIM.sub("", sentence)))


def page(found: dict[str, list[tuple[str, str]]]) -> str:
    """docs/claims.md: every sentence beside the test that proves it."""
    lines = [
        "# What the lessons claim, and what proves it",
        "",
        "Made by `tests/test_claims.py`. Each sentence stands in its lesson word for word, and the test beside it",
        "fails where the sentence is false. What an exercise asks is proved by `python3 run.py audit`.",
    ]
    for unit, pairs in found.items():
        lines += ["", f"## {unit}", "", "| sentence | test |", "| --- | --- |"]
        lines += [f"| {sentence.replace('|', chr(92) + '|')} | `{test}` |" for sentence, test in pairs]
    return "\n".join(lines) + "\n"
