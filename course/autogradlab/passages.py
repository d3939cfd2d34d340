"""A few paragraphs and blocks of code, as what a command shows."""

from html import escape

from autogradlab.output import Output
from autogradlab.verdicts import prose


class Code(str):
    """A block of a passage that keeps its lines."""


class Folded(Code):
    """A block that is folded away under the first line."""


class Passage(Output):
    """Paragraphs of words and blocks of code, the first paragraph strong."""

    def __init__(self, *parts: str):
        html = "".join(_html(part, position == 0) for position, part in enumerate(parts))
        # A screen reader announces a status when it appears, without moving there.
        super().__init__(f'<div role="status">{html}</div>', "\n\n".join(parts))


def _html(part, is_first):
    if isinstance(part, Folded):
        title, _, code = part.partition("\n")
        return f"<details><summary>{prose(title)}</summary>{_html(Code(code), False)}</details>"
    if isinstance(part, Code):
        return f'<pre style="white-space:pre-wrap;margin-bottom:1em">{escape(part)}</pre>'
    return f"<p><strong>{prose(part)}</strong></p>" if is_first else f"<p>{prose(part)}</p>"
