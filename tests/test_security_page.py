"""Every promise of docs/security.md names tests that exist."""

import ast
import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
PAGE = (TESTS.parent / "docs" / "security.md").read_text(encoding="utf-8")
SECTION = PAGE.partition("## What is promised")[2].partition("\n## ")[0]
ROWS = [line for line in SECTION.splitlines() if line.startswith("| ")][1:]


def functions(path):
    return {
        node.name for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.FunctionDef)
    }


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.split("|")[1].strip()[:40])
def test_a_promise_names_the_tests_that_keep_it(row):
    named = re.findall(r"`(test_\w+\.py)(?:::(\w+))?`", row)
    assert named
    for file, name in named:
        assert (TESTS / file).is_file(), file
        assert not name or name in functions(TESTS / file), (file, name)


def test_the_page_has_promises():
    assert len(ROWS) > 10
