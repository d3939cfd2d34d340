"""Where a notebook finds its unit: the folder with `cases.py` and the recorded observations beside it."""

import contextlib
import linecache
import os
import pathlib
import sys

from autogradlab.exercises import exercises_in, load_module


class UnitNotFound(Exception):
    """No folder with this unit's files was found from where the notebook runs."""


class Unit:
    """One unit as a notebook uses it: its folder, the module of its `cases.py`, its exercises by name."""

    def __init__(self, name: str, directory: pathlib.Path):
        self.name, self.directory = name, directory
        self.cases = load_module(directory / "cases.py")
        self.exercises = exercises_in(self.cases)


_current = None
_places = {}
_preloaded = {}


def unit(name: str):
    """The module of the unit's `cases.py`; from here on, `check` looks its exercises up in this unit.

    Raises UnitNotFound, saying where it looked, when the unit's files are not beside the notebook.
    """
    global _current
    _current = _preloaded.get(name) or Unit(name, directory_of(name))
    return _current.cases


def preload(name: str, directory) -> Unit:
    """The unit, which `unit(name)` gives from here on, also when its `cases.py` is there no longer."""
    _preloaded[name] = loaded = Unit(name, pathlib.Path(directory))
    file = loaded.cases.__file__
    lines = linecache.getlines(file)
    # Without a time, the entry is never compared with the file: specimens and tracebacks go on finding their source.
    linecache.cache[file] = (sum(map(len, lines)), None, lines, file)
    return loaded


def current() -> Unit:
    """The unit that the notebook has opened."""
    if _current is None:
        raise UnitNotFound('no unit is open; run the notebook\'s first cell, which calls unit("…")')
    return _current


def opened() -> Unit | None:
    """The unit that the notebook has opened, if it has."""
    return _current


@contextlib.contextmanager
def at(name: str, directory):
    """Has `unit(name)` use this folder, for tools that run a lesson elsewhere; restores the open unit after."""
    global _current
    previous, previous_place = _current, _places.get(name)
    _places[name] = pathlib.Path(directory)
    try:
        yield
    finally:
        _current = previous
        if previous_place is None:
            _places.pop(name, None)
        else:
            _places[name] = previous_place


def directory_of(name: str) -> pathlib.Path:
    """The folder of a unit, seen from the notebook that is running."""
    if name in _places:
        return _places[name]
    looked = []
    for base in _bases():
        for place in (base, base / name, base.parent / name, base / "release" / name):
            if place.name == name or place == base:
                looked.append(place)
                if (place / "cases.py").is_file() and (place.name == name or (place / f"{name}.ipynb").is_file()):
                    return place
    places = "\n  ".join(dict.fromkeys(map(str, looked)))
    raise UnitNotFound(
        f"the files of unit {name} are not here. Looked in:\n  {places}\n"
        f"Put cases.py and recorded.bin of the unit beside the notebook, or start Jupyter from the unit's folder."
    )


def _bases() -> list:
    """The folders from which to look: the notebook's own, as far as its host tells, and the working directory."""
    variables = vars(sys.modules["__main__"])
    hosts = [variables.get("__vsc_ipynb_file__"), variables.get("__session__"), os.environ.get("JPY_SESSION_NAME")]
    bases = [pathlib.Path(host).resolve().parent for host in hosts if host and pathlib.Path(host).is_file()]
    return [*bases, pathlib.Path.cwd()]
