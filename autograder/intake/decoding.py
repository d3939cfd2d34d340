"""Bytes read as JSON, whatever wrote them, or the place and the cause of why they cannot be."""

import json
import re

#: A notebook with many figures has some tens of MiB.
NOTEBOOK_BYTES = 64 << 20
#: Deeper than any notebook, and far from what Python's own recursion bears.
DEPTH = 64

_STRUCTURE = re.compile(r'"(?:[^"\\]|\\.)*+"?|[\[\]{}]', re.DOTALL)
_NOT_IN_CP1252 = {0x81, 0x8D, 0x8F, 0x90, 0x9D}
_SURROGATE = re.compile("[\ud800-\udfff]")


class Unreadable(Exception):
    """Why a file cannot be read as a notebook, in words for the person who has to ask for it again."""


def read_json(data: bytes, name: str) -> tuple[object, list[str]]:
    """What the file says, and the repairs that reading it took. Raises Unreadable with file, line and cause."""
    if len(data) > NOTEBOOK_BYTES:
        raise Unreadable(
            f"{name} is larger than {NOTEBOOK_BYTES >> 20} MiB, the limit for a notebook. Ask for it without outputs."
        )
    text, repairs = decode(data, name)
    if not text.strip():
        raise Unreadable(f"{name}, line 1: the file is empty. Expected a notebook, which is JSON. Ask for it again.")
    constants: set[str] = set()
    try:
        content = json.loads(text, parse_constant=lambda word: constants.add(word))
    except json.JSONDecodeError as error:
        raise Unreadable(
            f"{name}, line {error.lineno}, column {error.colno}: {error.msg}. A notebook is JSON. Ask for it again."
        ) from error
    except RecursionError as error:
        raise _too_deep(text, name) from error
    except ValueError as error:  # a whole number of thousands of digits
        raise Unreadable(f"{name}: {error}. No notebook holds such a number. Ask for it again.") from error
    if constants:
        repairs.append(f"{name} holds {', '.join(sorted(constants))}, which JSON does not have; read as null.")
    if _deeper_than(content, DEPTH):
        raise _too_deep(text, name)
    content, replaced = _without_surrogates(content, text)
    if replaced:
        repairs.append(f"{name} holds half characters (lone surrogates); each was replaced by \ufffd.")
    return content, repairs


def decode(data: bytes, name: str) -> tuple[str, list[str]]:
    """The text, and what was noted about its encoding: UTF-8 with or without a mark, UTF-16, UTF-32, else Windows'."""
    encoding = json.detect_encoding(data)
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        # Latin-1 with the letters that Windows has in place of control characters; both read every byte.
        text = data.decode("cp1252" if not set(data) & _NOT_IN_CP1252 else "latin-1")
        return text, [f"{name}, line {line}: not UTF-8; read as Latin-1, so letters outside of ASCII may be wrong."]
    if encoding == "utf-8":
        return text, []
    words = "UTF-8 with a byte order mark" if encoding == "utf-8-sig" else encoding.upper().replace("_", "-")
    return text.removeprefix("\ufeff"), [f"{name} was saved as {words}; read as such."]


def _deeper_than(content: object, limit: int) -> bool:
    level = [content]
    for _ in range(limit + 1):
        level = [
            child
            for node in level
            if isinstance(node, dict | list)
            for child in (node.values() if isinstance(node, dict) else node)
        ]
        if not level:
            return False
    return True


def _too_deep(text: str, name: str) -> Unreadable:
    """Says where the nesting passes the limit."""
    depth = 0
    for match in _STRUCTURE.finditer(text):
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(match[0], 0)
        if depth > DEPTH:
            line = text.count("\n", 0, match.start()) + 1
            column = match.start() - text.rfind("\n", 0, match.start())
            return Unreadable(
                f"{name}, line {line}, column {column}: nested more than {DEPTH} levels deep, as no notebook is. "
                "Ask for it again."
            )
    raise AssertionError("the nesting was found too deep and is not")


def _without_surrogates(content: object, text: str) -> tuple[object, bool]:
    """The content with each lone surrogate replaced: it can be neither written nor run."""
    if "\\u" not in text and not _SURROGATE.search(text):
        return content, False
    replaced = False

    def clean(value):
        nonlocal replaced
        if isinstance(value, str):
            cleaned = _SURROGATE.sub("\ufffd", value)
            replaced = replaced or cleaned != value
            return cleaned
        if isinstance(value, dict):
            return {clean(key): clean(item) for key, item in value.items()}
        if isinstance(value, list):
            return [clean(item) for item in value]
        return value

    return clean(content), replaced
