"""The outputs that a graded notebook gets: assembled here from what the child said, as text and pictures alone."""

import base64
import struct
from dataclasses import dataclass

import nbformat
from nbformat.notebooknode import NotebookNode

from autograder.engine.comparing import plain_text

#: Printed text and bytes of pictures that are kept of one cell.
KEPT_TEXT = 64 << 10
KEPT_PICTURES = 2 << 20
#: Outputs that are kept of one cell, and pixels of one picture: a few bytes can be a picture of any size.
KEPT_OUTPUTS = 200
MAX_PIXELS = 1 << 25
#: The same of a whole notebook, which may have ten thousand cells.
NOTEBOOK_TEXT = 4 << 20
NOTEBOOK_PICTURES = 64 << 20
NOTEBOOK_OUTPUTS = 5_000
_PNG_HEAD = struct.Struct(">8s4x4sII")


@dataclass
class Left:
    """What may still be kept of a notebook's outputs: characters, bytes of pictures, and outputs."""

    text: int = NOTEBOOK_TEXT
    pictures: int = NOTEBOOK_PICTURES
    outputs: int = NOTEBOOK_OUTPUTS


def assemble(events: list[dict], left: Left, count: int | None = None) -> list[NotebookNode]:
    """nbformat's outputs of what a cell put out; what is too long is cut, and the cut is told.

    What is kept is taken from what is `left` of the notebook's.
    """
    kept = _Kept(left)
    for event in events:
        match event:
            case {"type": "stream", "name": "stdout" | "stderr" as name, "text": str(text)}:
                kept.stream(name, text)
            case {"type": "display" | "result" as kind, "text": str(text)} if kept.has_room():
                data = {"text/plain": kept.text(text)} | kept.picture(event.get("png"))
                numbered = {"execution_count": count} if kind == "result" else {}
                kind = "execute_result" if kind == "result" else "display_data"
                kept.outputs.append(nbformat.v4.new_output(kind, data=data, **numbered))
            case {"type": "error", "name": str(name), "value": str(value), "traceback": str(trace)} if kept.has_room():
                kept.outputs.append(error(plain_text(name)[:200], kept.text(value), kept.text(trace)))
    kept.take()
    return kept.outputs + kept.remarks()


class _Kept:
    """The outputs that are kept of one cell."""

    def __init__(self, left: Left) -> None:
        self.outputs: list[NotebookNode] = []
        self._left, self._most = left, min(KEPT_OUTPUTS, left.outputs)
        self._text_left, self._pictures_left = min(KEPT_TEXT, left.text), min(KEPT_PICTURES, left.pictures)
        self._text, self._pictured = self._text_left, self._pictures_left
        self._characters = self._others = self._pictures = 0

    def has_room(self) -> bool:
        """Whether one more output is kept; if not, it counts as cut."""
        full = len(self.outputs) >= self._most
        self._others += full
        return not full

    def text(self, text: str) -> str:
        """As much of a text as is kept."""
        text = plain_text_of(text)
        kept = text[: self._text_left]
        self._text_left -= len(kept)
        self._characters += len(text) - len(kept)
        return kept

    def stream(self, name: str, text: str) -> None:
        """Printed text, which goes on where the output before was of the same stream."""
        last = self.outputs[-1] if self.outputs else None
        goes_on = last is not None and last.output_type == "stream" and last.name == name
        if not goes_on and not self.has_room():
            return
        kept = self.text(text)
        if kept and goes_on:
            last.text += kept
        elif kept:
            self.outputs.append(nbformat.v4.new_output("stream", name=name, text=kept))

    def picture(self, png) -> dict:
        """The picture as data of an output; nothing if there is none, or one that is not kept."""
        if type(png) is not bytes or len(png) < _PNG_HEAD.size:
            return {}
        magic, kind, width, height = _PNG_HEAD.unpack_from(png)
        if magic != b"\x89PNG\r\n\x1a\n" or kind != b"IHDR":
            return {}
        if len(png) > self._pictures_left or width * height > MAX_PIXELS:
            self._pictures += 1
            return {}
        self._pictures_left -= len(png)
        return {"image/png": base64.b64encode(png).decode("ascii")}

    def take(self) -> None:
        """Take what is kept of this cell from what is left of the notebook."""
        self._left.text -= self._text - self._text_left
        self._left.pictures -= self._pictured - self._pictures_left
        self._left.outputs -= len(self.outputs)

    def remarks(self) -> list[NotebookNode]:
        """An output that says what was cut, if anything was."""
        cut = [
            (self._characters, "characters more were printed and are not kept"),
            (self._others, "outputs more were made and are not kept"),
            (self._pictures, "pictures were too large to be kept"),
        ]
        said = "".join(f"… {number} {words}.\n" for number, words in cut if number)
        return [nbformat.v4.new_output("stream", name="stdout", text=said)] if said else []


def plain_text_of(text: str) -> str:
    """Printed text of any length without control characters."""
    return "".join(plain_text(text[start : start + 20_000]) for start in range(0, len(text), 20_000))


def error(name: str, value: str, trace: str = "") -> NotebookNode:
    """An error as a notebook shows it."""
    return nbformat.v4.new_output(
        "error", ename=name, evalue=value, traceback=(trace or f"{name}: {value}").split("\n")
    )


def harmless_to_nbgrader(outputs: list[NotebookNode]) -> list[NotebookNode]:
    """The outputs of a test cell without what nbgrader would score: results, errors, and anything on stderr."""
    kept = []
    for output in outputs:
        if output.output_type == "stream":
            kept.append(nbformat.v4.new_output("stream", name="stdout", text=output.text))
        elif output.output_type == "display_data":
            kept.append(output)
    return kept
