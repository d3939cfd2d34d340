"""An IPython shell without sockets: cells in, outputs as plain events out."""

import base64
import io
import sys
import time
from collections.abc import Callable

from IPython.core.displayhook import DisplayHook
from IPython.core.displaypub import DisplayPublisher
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

#: Characters of printed text that are collected before they are sent, and the seconds for which they are collected
#: where a program asks again and again that they be sent.
BATCH = 1 << 15
PAUSE = 0.01
#: The longest text of one output; what is longer is cut here already, so that one value never fills a frame.
MAX_TEXT = 1 << 20
MAX_PICTURE = 8 << 20


class Outputs:
    """Collects what a cell puts out, in its order, and sends it on in batches."""

    def __init__(self) -> None:
        self.send: Callable[[dict], None] | None = None
        self._name, self._parts, self._length = "", [], 0
        self._sent = 0.0

    def write(self, name: str, text: str) -> None:
        """Printed text of the stream `stdout` or `stderr`."""
        if name != self._name:
            self.flush()
            self._name = name
        while text:
            part, text = text[:BATCH], text[BATCH:]
            self._parts.append(part)
            self._length += len(part)
            if self._length >= BATCH:
                self.flush()

    def flush(self) -> None:
        """Send what was printed so far."""
        text, self._parts, self._length = "".join(self._parts), [], 0
        self._sent = time.monotonic()
        if text and self.send:
            self.send({"type": "stream", "name": self._name, "text": text})

    def flush_now_and_then(self) -> None:
        """Send what was printed so far, unless something has just been sent."""
        if time.monotonic() - self._sent > PAUSE:
            self.flush()

    def put(self, event: dict) -> None:
        """One output that is no printed text."""
        self.flush()
        if self.send:
            self.send(event)


class Stream(io.TextIOBase):
    """What stands in for `sys.stdout` and `sys.stderr`."""

    encoding, errors = "utf-8", "replace"

    def __init__(self, name: str, outputs: Outputs):
        self._stream, self._outputs = name, outputs

    @property
    def name(self) -> str:
        """As a real stream is called."""
        return f"<{self._stream}>"

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        self._outputs.write(self._stream, text)
        return len(text)

    def flush(self) -> None:
        self._outputs.flush_now_and_then()


def _shown(data: dict) -> dict:
    """The text and the picture of an output; nothing else is carried, since a page would run it."""
    shown = {"text": str(data.get("text/plain", ""))[:MAX_TEXT]}
    picture = data.get("image/png")
    if isinstance(picture, str):
        picture = base64.b64decode(picture)
    if isinstance(picture, bytes) and len(picture) <= MAX_PICTURE:
        shown["png"] = picture
    return shown


class _Publisher(DisplayPublisher):
    def publish(self, data, metadata=None, **more):
        self.shell.outputs.put({"type": "display"} | _shown(data))

    def clear_output(self, wait=False):
        """Does nothing: what was put out stays."""


class _Hook(DisplayHook):
    def write_output_prompt(self):
        """Does nothing: the number goes with the event."""

    def write_format_data(self, format_dict, md_dict=None):
        self.shell.outputs.put({"type": "result"} | _shown(format_dict))

    def finish_displayhook(self):
        """Does nothing: the event was sent."""


class Shell(InteractiveShell):
    """IPython's shell with its outputs sent to `outputs`."""

    outputs: Outputs

    def __init__(self, **options):
        self.outputs = Outputs()
        super().__init__(**options)

    def _showtraceback(self, etype, evalue, stb):
        self.outputs.put(
            {
                "type": "error",
                "name": etype.__name__[:200],
                "value": _text_of(evalue),
                "traceback": "\n".join(map(str, stb))[:MAX_TEXT],
            }
        )

    def enable_gui(self, gui=None):
        """Does nothing: there is no window to show."""

    def ask_exit(self):
        """Does nothing: `exit()` ends neither a notebook nor its grading."""


def _text_of(error) -> str:
    try:
        return str(error)[:2000]
    except Exception:  # a learner's own __str__
        return ""


def make_shell() -> Shell:
    """A shell, ready before the fork; pictures come as in a notebook."""
    config = Config()
    config.HistoryManager.enabled = False
    config.InteractiveShell.colors = "nocolor"
    config.InteractiveShell.autoindent = False
    shell = Shell.instance(config=config, displayhook_class=_Hook, display_pub_class=_Publisher)
    shell.enable_matplotlib("inline")
    return shell


def redirect(shell: Shell) -> None:
    """Have everything printed go to the shell's outputs, whatever a cell has put in the way."""
    sys.stdout, sys.stderr = Stream("stdout", shell.outputs), Stream("stderr", shell.outputs)
    sys.__stdout__, sys.__stderr__ = sys.stdout, sys.stderr
