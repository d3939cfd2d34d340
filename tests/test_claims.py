"""Every number that a lesson states is proved by a test that quotes it, and docs/claims.md lists them all."""

from pathlib import Path

import pytest
from claims import claimed, page, sentences_with_numbers

from autograder import lessons

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "claims.md"
UNITS = sorted(path.parent.name for path in (ROOT / "course" / "units").glob("*/lesson.py"))


@pytest.fixture(scope="module")
def found():
    return claimed()


@pytest.mark.parametrize("unit", UNITS)
def test_every_sentence_with_a_number_is_quoted_by_a_test(found, unit):
    quoted = [sentence for sentence, _ in found.get(unit, ())]
    unproved = [
        sentence
        for sentence in sentences_with_numbers(lessons.read(unit))
        if not any(sentence in one or one in sentence for one in quoted)
    ]
    assert not unproved, "no test claims: " + "\n".join(unproved)


def test_the_page_of_claims_is_as_the_tests_make_it(found):
    made = page(found)
    current = PAGE.read_text(encoding="utf-8") if PAGE.is_file() else ""
    if current != made:
        PAGE.write_text(made, encoding="utf-8")
    assert current == made, f"{PAGE.name} was out of date and has been written anew: commit it"
