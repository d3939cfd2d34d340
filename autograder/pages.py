"""HTML pages that stand alone: one file, no script, nothing fetched, everything from learners escaped."""

import math
import re
from functools import cache
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

# Status of an answer or a submission -> (sign, words); signs and words carry what colours repeat.
STATUSES = {
    "right": ("✓", "right"),
    "partly": ("◐", "partly right"),
    "wrong": ("✗", "wrong"),
    "not attempted": ("-", "not attempted"),
    "missing": ("-", "missing"),
    "to be marked": ("…", "to be marked by a person"),
    "marked": ("●", "marked by a person"),
    "timeout": ("■", "took too long"),
    "memory": ("■", "used too much memory"),
    "disk": ("■", "wrote too much"),
    "output": ("■", "printed too much"),
    "files": ("■", "opened too many files"),
    "threads": ("■", "started too many threads"),
    "processes": ("■", "tried to start a process"),
    "died": ("■", "ended its process"),
    "invalid score": ("!", "no valid score"),
    "not run": ("!", "no verdict"),
    "unreadable": ("!", "unreadable"),
    "not graded": ("!", "could not be graded"),
    "skipped": ("!", "not handed in"),
}
# What each sign stands for, in a table where a sign is all there is room for.
SIGNS = dict(STATUSES.values()) | {"-": "not attempted", "■": "stopped", "!": "no verdict"}

_COLOURS = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
# Control characters, lone surrogates, and what turns, joins, hides or ends lines unseen; not the joiners within words.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ufffe\uffff"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)


def render(template: str, **content) -> str:
    """The page that a template of `templates/` makes of the content."""
    return _environment().get_template(template).render(**content)


def write(path: Path, page: str) -> Path:
    """Write a page, with its folder, at once whole or not at all, and return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.part")
    part.write_text(page, encoding="utf-8", newline="\n")
    return part.replace(path)


def number(value: float) -> str:
    """A score as people write it: 3, 1.5, 0.33."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def percent(share: float) -> str:
    """A share as people write it, 23 %; of nothing a dash."""
    return "-" if math.isnan(share) else f"{100 * share:.0f} %"


def plain(text: object) -> str:
    """Text without what a page cannot hold or a reader cannot see: such characters are shown as their code.

    These are control characters and those that turn or hide the text around them; terminal colours are dropped.
    """
    return _UNSEEN.sub(_code, _COLOURS.sub("", str(text)))


def shown(text: object, limit: int) -> str:
    """The first so many characters of a text, as `plain` shows them, with a note of how many there are more."""
    text = str(text)
    kept = plain(text[:limit])
    return kept if len(text) <= limit else f"{kept}… ({len(text) - limit} characters more)"


def _code(match: re.Match) -> str:
    number = ord(match[0])
    return f"\\x{number:02x}" if number < 256 else f"\\u{number:04x}" if number < 1 << 16 else f"\\U{number:08x}"


def look(status: str) -> str:
    """The class of a page's style sheet for a status."""
    return "stopped" if STATUSES[status][0] == "■" else status.replace(" ", "-")


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
    environment.globals |= {"STATUSES": STATUSES, "SIGNS": SIGNS}
    environment.filters |= {
        "breakable": breakable,
        "look": look,
        "number": number,
        "percent": percent,
        "plain": plain,
        "prose": prose,
        "shown": shown,
    }
    return environment
