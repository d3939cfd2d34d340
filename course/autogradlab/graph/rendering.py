"""DOT source as SVG, by whatever is there to draw it."""

import contextlib
import io
import os
import shutil
import subprocess

_TIME_LIMIT = 60  # seconds that the program may take


class NoRenderer(Exception):
    """Nothing here can draw; the message says what was tried."""


def svg(source: str) -> str:
    """The picture of a graph in the DOT language; raises NoRenderer where neither program nor package draws it."""
    problems = []
    for draw in (_by_program, _by_package):
        try:
            return draw(source)
        except NoRenderer as problem:
            problems.append(str(problem))
    raise NoRenderer("; ".join(problems))


def _by_program(source):
    program = shutil.which("dot")
    if program is None:
        raise NoRenderer("no program `dot` on the PATH")
    try:
        result = subprocess.run(
            [program, "-Kdot", "-Tsvg"],
            input=source.encode(),
            capture_output=True,
            check=True,
            timeout=_TIME_LIMIT,
            creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
        )
    except subprocess.CalledProcessError as error:
        # Installed without its plug-ins, it finds no format "svg".
        said = error.stderr.decode(errors="replace").strip().splitlines()
        raise NoRenderer(f"`dot` failed: {said[0] if said else f'exit code {error.returncode}'}") from error
    except (OSError, subprocess.TimeoutExpired) as error:
        # A sandbox may show the program and forbid to start it.
        raise NoRenderer(f"`dot` did not run: {error}") from error
    return result.stdout.decode()


def _by_package(source):
    try:
        import pygraphviz
    except ImportError as error:
        raise NoRenderer(f"no package pygraphviz ({error})") from error
    try:
        with silent():
            return pygraphviz.AGraph(string=source).draw(format="svg", prog="dot").decode()
    except ValueError as error:
        raise NoRenderer(f"pygraphviz failed: {error}") from error


@contextlib.contextmanager
def silent():
    """Nothing on standard error: fontconfig warns of a machine's settings, pygraphviz of 1,000 nodes."""
    with contextlib.redirect_stderr(io.StringIO()), contextlib.ExitStack() as restored:
        # What a library in C writes goes past Python's `sys.stderr`. Closed, as in a service, there is nothing to do.
        with contextlib.suppress(OSError), open(os.devnull, "wb") as nowhere:
            kept = os.dup(2)
            restored.callback(os.close, kept)
            restored.callback(os.dup2, kept, 2)
            os.dup2(nowhere.fileno(), 2)
        yield
