import ast
import re
import tomllib
from collections import Counter
from pathlib import Path

import pytest

CATALOGUE = Path(__file__).parent.parent / "course" / "misconceptions.toml"
UNITS = {
    "C": "01_creating_tensors",
    "D": "02_moving_between_devices",
    "G": "03_building_the_graph",
    "B": "04_running_backward",
    "A": "05_accumulating_gradients",
    "S": "06_leaving_the_graph",
    "T": "07_training_loop",
}
WORDS = ("unit", "name", "message", "wrong", "right", "measured", "seen")
OPTIONAL = {"cuda": bool, "demonstration": str}

text = CATALOGUE.read_bytes().decode("utf-8")
catalogue = tomllib.loads(text)
entries = pytest.mark.parametrize("identifier", catalogue)


def sentences(message):
    return re.split(r"(?<=[.?!])\s+", message)


def test_the_catalogue_is_a_tidy_text_file():
    assert "\r" not in text
    assert text.endswith("\n") and not text.endswith("\n\n")
    assert [line for line in text.splitlines() if line != line.rstrip()] == []


def test_the_identifiers_of_each_letter_run_without_gaps_and_in_order():
    for letter in {identifier[0] for identifier in catalogue}:
        found = [identifier for identifier in catalogue if identifier[0] == letter]
        assert found == [f"{letter}{number:02}" for number in range(1, len(found) + 1)]


def test_every_letter_of_the_course_has_entries():
    assert {identifier[0] for identifier in catalogue} >= set(UNITS)


def test_the_names_are_unique():
    names = Counter(entry["name"].lower() for entry in catalogue.values())
    assert [name for name, count in names.items() if count > 1] == []


def test_the_questions_are_unique():
    questions = Counter(sentences(entry["message"])[-1] for entry in catalogue.values())
    assert [question for question, count in questions.items() if count > 1] == []


@entries
def test_the_entry_has_every_field_and_no_other(identifier):
    entry = catalogue[identifier]
    assert set(entry) - set(OPTIONAL) == {*WORDS, "silent"}
    assert type(entry["silent"]) is bool
    for field in WORDS:
        assert type(entry[field]) is str and entry[field].strip() == entry[field] != "", field
    for field in entry.keys() & OPTIONAL.keys():
        assert type(entry[field]) is OPTIONAL[field] and entry[field], f"{field} is left out where it does not hold"


@entries
def test_the_unit_belongs_to_the_letter(identifier):
    assert catalogue[identifier]["unit"] == UNITS[identifier[0]]


@entries
def test_the_name_is_two_to_four_words(identifier):
    assert 2 <= len(catalogue[identifier]["name"].split()) <= 4


@entries
def test_the_message_is_two_or_three_statements_and_one_question(identifier):
    message = catalogue[identifier]["message"]
    assert "\n" not in message and "  " not in message
    assert message.endswith("?") and message.count("?") == 1
    assert 3 <= len(sentences(message)) <= 4


@entries
def test_the_question_stands_by_itself(identifier):
    question = sentences(catalogue[identifier]["message"])[-1]
    assert question[0].isupper(), question
    assert len(question.split()) >= 4, question


@entries
def test_the_message_describes_code_and_reads_no_minds(identifier):
    assert not re.search(
        r"\byou(?:'ve|r)? (?:think|thought|believe|assume|expect|forgot|misunder)",
        catalogue[identifier]["message"],
        re.I,
    )


@entries
def test_the_wrong_line_and_the_right_line_are_code_and_differ(identifier):
    entry = catalogue[identifier]
    ast.parse(entry["wrong"])
    ast.parse(entry["right"])
    assert entry["wrong"] != entry["right"]
