"""HTML pages that stand alone: one file, no script, nothing fetched, everything from learners escaped."""

import re
import unicodedata
from functools import cache
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

# Status of a record -> (sign, words); signs and words carry what colours repeat.
STATUSES = {
    "right": ("✓", "right"),
    "partly": ("◐", "partly right"),
    "wrong": ("✗", "wrong"),
    "not attempted": ("-", "not attempted"),
    "not run": ("!", "no verdict"),
    "unreadable": ("!", "unreadable"),
    "not graded": ("!", "could not be graded"),
    "skipped": ("!", "not handed in"),
}


def render(template: str, **content) -> str:
    """The page that a template of `templates/` makes of the content."""
    return _environment().get_template(template).render(**content)


def write(path: Path, page: str) -> Path:
    """Write a page, with its folder, and return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page, encoding="utf-8", newline="\n")
    return path


def number(value: float) -> str:
    """A score as people write it: 3, 1.5, 0.33."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def percent(share: float) -> str:
    """A share as people write it: 23 %."""
    return f"{100 * share:.0f} %"


def plain(text: object) -> str:
    """Text without what a page cannot hold: control characters are shown as their code, terminal colours dropped."""
    uncoloured = re.sub(r"\x1b\[[0-9;]*m", "", str(text))
    return "".join(
        character
        if character in "\n\t" or unicodedata.category(character) not in ("Cc", "Cs")
        else f"\\x{ord(character):02x}"
        for character in uncoloured
    )


def breakable(name: str) -> Markup:
    """A Python name that a narrow page may break after an underscore."""
    return Markup(str(escape(name)).replace("_", "_<wbr>"))


def prose(words: str) -> Markup:
    """A sentence whose `names` between backticks are set as code."""
    return Markup(re.sub("`([^`]+)`", r"<code>\1</code>", str(escape(plain(words)))))


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("autograder"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["STATUSES"] = STATUSES
    environment.filters |= {
        "breakable": breakable,
        "number": number,
        "percent": percent,
        "plain": plain,
        "prose": prose,
    }
    return environment
