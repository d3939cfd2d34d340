"""The outputs that a graded notebook gets: assembled here from what the child said, as text and pictures alone."""

import base64

import nbformat
from nbformat.notebooknode import NotebookNode

from autograder.engine.comparing import plain_text

#: Printed text and bytes of pictures that are kept of one cell.
KEPT_TEXT = 64 << 10
KEPT_PICTURES = 2 << 20
_PNG = b"\x89PNG\r\n\x1a\n"


def assemble(events: list[dict], count: int | None = None) -> list[NotebookNode]:
    """nbformat's outputs of what a cell put out; what is too long is cut, and the cut is told."""
    outputs: list[NotebookNode] = []
    text_left, pictures_left, cut = KEPT_TEXT, KEPT_PICTURES, 0
    for event in events:
        match event:
            case {"type": "stream", "name": "stdout" | "stderr" as name, "text": str(text)}:
                text = plain_text_of(text)
                kept, text_left = text[:text_left], max(text_left - len(text), 0)
                cut += len(text) - len(kept)
                if kept and outputs and outputs[-1].output_type == "stream" and outputs[-1].name == name:
                    outputs[-1].text += kept
                elif kept:
                    outputs.append(nbformat.v4.new_output("stream", name=name, text=kept))
            case {"type": "display" | "result" as kind, "text": str(text)}:
                text = plain_text_of(text)
                kept, text_left = text[:text_left], max(text_left - len(text), 0)
                cut += len(text) - len(kept)
                data = {"text/plain": kept}
                picture = event.get("png")
                if type(picture) is bytes and picture.startswith(_PNG):
                    if len(picture) <= pictures_left:
                        data["image/png"] = base64.b64encode(picture).decode("ascii")
                        pictures_left -= len(picture)
                    else:
                        data["text/plain"] += " (the picture is too large to be kept)"
                if kind == "display":
                    outputs.append(nbformat.v4.new_output("display_data", data=data))
                else:
                    outputs.append(nbformat.v4.new_output("execute_result", data=data, execution_count=count))
            case {"type": "error", "name": str(name), "value": str(value), "traceback": str(trace)}:
                outputs.append(error(plain_text(name), plain_text(value), plain_text(trace)))
    if cut:
        said = f"… {cut} characters more were printed and are not kept.\n"
        outputs.append(nbformat.v4.new_output("stream", name="stdout", text=said))
    return outputs


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
