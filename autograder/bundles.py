"""A unit for notebooks elsewhere: one zip with all that it needs beside torch, and the cell that unpacks it."""

import zipfile
from pathlib import Path

from autograder.lessons import ROOT, Cell, Lesson

PACKAGE = ROOT / "course" / "autogradlab"
FIRST_CELL = """\
# Does nothing where the course is installed. Elsewhere it takes the unit's files out of their zip.
import importlib.util
import pathlib
import zipfile

if importlib.util.find_spec("autogradlab") is None:
    found = sorted(pathlib.Path.cwd().glob("{unit}*.zip"))
    if not found:
        raise ModuleNotFoundError(
            "The course is not installed in this kernel. Choose the kernel of the course's .venv, or put {unit}.zip "
            "beside this notebook (in Colab: Files, then Upload) and run this cell again."
        )
    archive = zipfile.ZipFile(found[-1])
    # A notebook that is here already holds somebody's answers.
    names = [name for name in archive.namelist() if not (name.endswith(".ipynb") and pathlib.Path(name).exists())]
    archive.extractall(members=names)
    importlib.invalidate_caches()"""
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the same bytes whenever it is made


def first_cell(unit: str) -> str:
    """The source of a cell above a unit's set-up that finds the course's package, or says what is missing."""
    return FIRST_CELL.format(unit=unit)


def with_first_cell(lesson: Lesson) -> tuple[Cell, ...]:
    """The cells of a lesson with the first cell above its set-up, which every unit's notebook begins its code with."""
    place = next(number for number, cell in enumerate(lesson.cells) if cell.kind == "code")
    added = Cell(first_cell(lesson.unit), "code", ("setup",), {}, lesson.cells[place].line)
    return (*lesson.cells[:place], added, *lesson.cells[place:])


def bundle(unit: Path, into: Path) -> Path:
    """The zip of a released unit's folder, with the learners' package: what Colab and the like need beside torch."""
    files = {path.relative_to(unit): path for path in _files(unit)}
    files |= {path.relative_to(PACKAGE.parent): path for path in _files(PACKAGE)}
    target = into / f"{unit.name}.zip"
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f"{target.name}.part")
    with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, path in sorted(files.items()):
            archive.writestr(zipfile.ZipInfo(name.as_posix(), _EPOCH), path.read_bytes(), zipfile.ZIP_DEFLATED)
    return part.replace(target)


def _files(folder):
    left_out = {"__pycache__", ".ipynb_checkpoints"}
    return [path for path in folder.rglob("*") if path.is_file() and not left_out & set(path.parts)]
