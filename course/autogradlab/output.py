"""What a notebook shows: HTML that every viewer keeps, and the same as plain text.

Pictures are `<img>` elements with the image inside them, because a notebook that came from somebody else loses inline
SVG and scripts, and `image/svg+xml` outputs have no alternative text. Only the picture lies on a white card; words keep
the colours of the reader's theme.
"""

import base64
import numbers
import sys
from html import escape

_CARD = "background:#ffffff;padding:8px;border-radius:4px;box-sizing:border-box;max-width:100%;height:auto"
_RULE = "border-left:3px solid #808080;padding-left:12px"
_CELL = "text-align:right"
_PAGE_WIDTH = 700  # pixels, of a notebook with a side bar on a small screen


def as_text(value) -> str:
    """A value as people read it: whole numbers whole, other numbers to five significant digits."""
    if isinstance(value, bool | numbers.Integral) or not isinstance(value, numbers.Real):
        return str(value)
    # Above 2**53 not every whole number is a float, so that more digits would be invented.
    if abs(value) < 2**53 and value == int(value):
        return str(int(value))
    return f"{value:.5g}"


def show(*outputs):
    """Show each output now: as rich output in a notebook, as its text elsewhere."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    for output in outputs:
        if shell is None:
            print(output.text)
        else:
            from IPython.display import display

            display(output)


class Output:
    """Something to show: `html` for notebooks, `text` for terminals, files and whoever cannot see the first."""

    def __init__(self, html: str, text: str):
        self.html = html
        self.text = text

    def _repr_mimebundle_(self, include=None, exclude=None):
        return {"text/html": self.html, "text/plain": self.text}

    def __repr__(self):
        return self.text


class Notice(Output):
    """A few lines of words, the first one strong; `see` links to a heading of the same notebook."""

    def __init__(self, first: str, *lines: str, see: str | None = None):
        paragraphs = [f"<strong>{escape(first)}</strong>", *map(escape, lines)]
        text = [first, *lines]
        if see is not None:
            heading = see.replace("`", "").replace("*", "").strip()
            # The fragment that JupyterLab gives to a Markdown heading.
            fragment = heading.replace(" ", "-")
            link = f'<a href="#{escape(fragment)}" style="text-decoration:underline">{escape(heading)}</a>'
            paragraphs.append(f"See: {link}")
            text.append(f"See: {heading}")
        # A screen reader announces a status when it appears, without moving there.
        body = "".join(f'<p style="margin:4px 0">{paragraph}</p>' for paragraph in paragraphs)
        super().__init__(f'<div role="status" style="{_RULE}">{body}</div>', "\n".join(text))


class Table(Output):
    """Rows under named columns; the first cell of a row is its heading."""

    def __init__(self, columns, rows, caption: str | None = None):
        head = [as_text(column) for column in columns]
        body = [[as_text(cell) for cell in row] for row in rows]
        if any(len(row) != len(head) for row in body):
            raise ValueError(
                f"A row has another number of cells than the {len(head)} columns {head}: try one cell each."
            )
        super().__init__(_table_html(head, body, caption), _table_text(head, body, caption))


class Picture(Output):
    """An image with its alternative text, and below it the same as text, folded.

    image: the source of an SVG, or the bytes of an SVG or PNG; its own background has to be opaque.
    alt:   a sentence with the point of the picture.
    text:  what a reader of the picture could look up in it: a string, a `Table`, or several of these.
    width: in CSS pixels, for an image whose own size is not the size to show.
    """

    def __init__(self, image, alt: str, text=None, width: int | None = None):
        self.image = image.encode() if isinstance(image, str) else bytes(image)
        self.mime = _image_type(self.image)
        self.alt = _sentence(alt)
        parts = [] if text is None else [text] if isinstance(text, str | Output) else list(text)
        source = f"data:{self.mime};base64,{base64.b64encode(self.image).decode()}"
        size = "" if width is None else f' width="{int(width)}"'
        html = f'<img alt="{escape(self.alt)}" src="{source}"{size} style="{_CARD}">'
        if parts:
            html += "<details><summary>The same as text</summary>" + "".join(map(_part_html, parts)) + "</details>"
        lines = [part.text if isinstance(part, Output) else part for part in parts]
        if lines and " ".join("\n".join(lines).split()) == self.alt:
            super().__init__(html, "\n".join(lines))
        else:
            super().__init__(html, "\n\n".join([self.alt, *lines]))


def _sentence(alt):
    if not isinstance(alt, str) or len(alt.split()) < 3:
        raise ValueError(
            f"alt is {alt!r}, which does not say what the picture shows. Expected a sentence with the picture's point; "
            "try alt='The loss falls from 5.2 to 0.1 within 30 steps.'"
        )
    return " ".join(alt.split())


def _image_type(image):
    if image.startswith(b"\x89PNG\r\n"):
        return "image/png"
    if b"<svg" in image[:2000]:
        return "image/svg+xml"
    raise ValueError(
        f"The image begins with {image[:12]!r}. Expected an SVG or a PNG; try figure.savefig(format='svg')."
    )


def _part_html(part):
    if isinstance(part, Output):
        return part.html
    return f'<pre style="white-space:pre-wrap">{escape(part)}</pre>'


def _table_html(head, body, caption):
    title = "" if caption is None else f"<caption>{escape(caption)}</caption>"
    columns = "".join(f'<th scope="col" style="{_CELL}">{escape(cell)}</th>' for cell in head)
    rows = ""
    for first, *others in body:
        cells = "".join(f'<td style="{_CELL}">{escape(cell)}</td>' for cell in others)
        rows += f'<tr><th scope="row" style="{_CELL}">{escape(first)}</th>{cells}</tr>'
    table = f"<table>{title}<thead><tr>{columns}</tr></thead><tbody>{rows}</tbody></table>"
    longest_words = [max(heading.split(), key=len, default="") for heading in head]
    narrowest = [max(map(len, cells)) for cells in zip(longest_words, *body, strict=True)]
    if sum(16 + 8 * characters for characters in narrowest) <= _PAGE_WIDTH:
        return table
    # It may scroll sideways, which the keyboard can do only where something inside takes the focus.
    return f"<details open><summary>A table of {len(head)} columns</summary>{table}</details>"


def _table_text(head, body, caption):
    widths = [max(map(len, column)) for column in zip(head, *body, strict=True)]
    lines = ["  ".join(map(str.rjust, row, widths)) for row in [head, *body]]
    return "\n".join(lines if caption is None else [caption, *lines])
