"""docs/authoring.md, followed word by word, adds an exercise that is built and proved."""

import re
import shutil
from pathlib import Path

import pytest

from autograder.gates import check
from autograder.gates.attempts import ALTERNATIVES, KEYS, MISCONCEPTIONS
from autograder.gates.cells import CONTRACT_WORDS, ROLES, SPINE_EXERCISES, SPINE_LINES, TAGS
from autograder.gates.text import DATA
from autograder.lessons import COURSE, ROOT, SETTINGS
from autograder.new import new, proposals
from autograder.proofs import load, prove_attempts, prove_mutants

PAGE = (ROOT / "docs" / "authoring.md").read_text("utf-8")
UNIT = "05_accumulating_gradients"


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", PAGE, flags=re.DOTALL)


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    """The course with the page's exercise, up to where the machine proposes more."""
    course = Path(shutil.copytree(COURSE, tmp_path_factory.mktemp("page") / "course"))
    new(f"{UNIT}/peek", course=course)
    (entries,) = blocks("toml")
    catalogue = course / "misconceptions.toml"
    catalogue.write_text(f"{catalogue.read_text('utf-8')}\n{entries}", "utf-8", newline="\n")
    for name, start, block in zip(
        ("lesson.py", "cases.py", "attempts.py"),
        ("# %% [markdown]\n# ## Exercise: TODO", '@exercise(\n    Same("TODO', '@misconception("TODO"'),
        blocks("python")[:3],
        strict=True,
    ):
        file = course / "units" / UNIT / name
        before, template = file.read_text("utf-8").split(start)
        assert "TODO" in template
        file.write_text(before + block, "utf-8", newline="\n")
    return course


def test_the_pages_exercise_passes_the_gates(course):
    assert check([UNIT], course) == []


def test_the_machine_proposes_three_of_which_the_page_keeps_one(course):
    kept = blocks("python")[3]
    found = proposals(UNIT, "peek", course)
    assert len(found) == 3
    body = kept[kept.index("    before = w.grad") :].replace("before, w.grad\n", "(before, w.grad)\n").strip()
    assert [body in proposal.mutants[0].source for proposal in found].count(True) == 1


def test_every_attempt_of_the_page_is_told_apart(course, tmp_path):
    course = Path(shutil.copytree(course, tmp_path / "course"))
    file = course / "units" / UNIT / "attempts.py"
    file.write_text(f"{file.read_text('utf-8')}\n\n{blocks('python')[3]}", "utf-8", newline="\n")
    assert check([UNIT], course) == []
    unit = load(UNIT, course)
    for proof in (prove_attempts(unit, "peek"), prove_mutants(unit, "peek")):
        assert proof.problems == []
    assert len(proposals(UNIT, "peek", course)) == 2


def test_the_page_names_every_tag_key_and_number_that_the_gates_know():
    for tag in ROLES:
        assert f"`{tag}`" in PAGE
    for key, values in TAGS.items():
        assert f"`{key}:" in PAGE
        assert all(value in PAGE for value in values or ())
    for key in (*KEYS, *SETTINGS):
        assert re.search(rf"`\[?{key}\b", PAGE), key
    assert all(suffix in PAGE for suffix in DATA)
    words = {1: "one", 2: "two", 5: "five", 12: "twelve", 15: "fifteen"}
    for number, after in (
        (MISCONCEPTIONS, "misconceptions"),
        (ALTERNATIVES, "alternatives"),
        (SPINE_LINES, "lines"),
        (SPINE_EXERCISES, "of them"),
    ):
        assert f"{words[number]} {after}" in PAGE
    assert f"at most {CONTRACT_WORDS} words" in " ".join(PAGE.split())
