"""Where a course's submissions, grades and editions lie, as its nbgrader_config.py says."""

import hashlib
import importlib.metadata
import json
import platform
import shutil
import tomllib
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path

from nbgrader.coursedir import CourseDirectory
from traitlets.config import Config, PyFileConfigLoader

from autograder import private

# Not from lessons.py, whose imports (torch, jupytext) the grading processes do without.
ROOT = Path(__file__).resolve().parent.parent


class GradingError(Exception):
    """What keeps a whole class from being graded or reported, in words that say what to do."""


class Folders:
    """The folders of the course at `root`; `config` is its nbgrader configuration."""

    def __init__(self, root: Path | None = None):
        self.root = Path(root or ROOT).resolve()
        if not (self.root / "nbgrader_config.py").is_file():
            raise GradingError(f"{self.root} has no nbgrader_config.py. Expected a course's folder; try another.")
        self.config: Config = PyFileConfigLoader("nbgrader_config.py", path=str(self.root)).load_config()
        self.config.CourseDirectory.root = str(self.root)
        self._directory = CourseDirectory(config=self.config)

    def step(self, name: str, student: str, unit: str) -> Path:
        """The folder of nbgrader's step `source`, `release`, `submitted`, `autograded` or `feedback`."""
        return Path(self._directory.format_path(getattr(self._directory, f"{name}_directory"), student, unit))

    def notebook(self, name: str, student: str, unit: str) -> Path:
        """The unit's notebook in the folder of a step."""
        return self.step(name, student, unit) / f"{unit}.ipynb"

    @property
    def db_url(self) -> str:
        """The gradebook's address."""
        return self._directory.db_url

    @property
    def grading(self) -> Path:
        """The folder that holds everything about one class."""
        above = self.step("submitted", "", "").parent
        return self.root / "grading" if above == self.root else above

    @property
    def results_folder(self) -> Path:
        """The folder of what grading found, a file for each submission."""
        return self.grading / "results"

    def reports(self, unit: str) -> Path:
        """The folder of a unit's class report."""
        return self.grading / "reports" / unit

    def title(self, unit: str) -> str:
        """The unit's title as its unit.toml has it; for a course without one, the name of its folder."""
        settings = self.root / "course" / "units" / unit / "unit.toml"
        return tomllib.loads(settings.read_text(encoding="utf-8"))["title"] if settings.is_file() else unit

    def assignments(self) -> list[str]:
        """The assignments that have a source or a release, by name."""
        above = {self.step(name, ".", "assignment").parent for name in ("source", "release")}
        return sorted({path.name for folder in above if folder.is_dir() for path in folder.iterdir() if path.is_dir()})

    def submissions(
        self, units: Iterable[str] | None = None, students: Iterable[str] | None = None
    ) -> Iterator[tuple[str, str]]:
        """(unit, student) of every submission of a built unit, or of those asked for."""
        units, students = (None if wanted is None else set(wanted) for wanted in (units, students))
        submitted = self.step("submitted", "", "")
        for folder in sorted(submitted.glob("*/*")):
            student, unit = folder.relative_to(submitted).parts
            asked = (units is None or unit in units) and (students is None or student in students)
            if asked and folder.is_dir() and any(self.step(name, ".", unit).is_dir() for name in ("source", "release")):
                yield unit, student

    def edition(self, unit: str, settings, master: str) -> str:
        """A digest of all that a grade depends on beside the submission.

        `settings` are the run's, as `autograder.engine.job.Settings`; `master` is the digest of the assignment.
        """
        words = [unit, master, settings.seeds[unit], repr(settings.limits), str(settings.all_cells)]
        course = self.root / "course"
        knowledge = [*_files(course / "units" / unit), *course.glob("*.toml")]
        return _digest([*_versions(), *words], [*_package("autograder"), *_package("autogradlab"), *knowledge])

    def build_stamp(self, unit: str) -> str:
        """A digest of what a build of the unit reads and of what it made."""
        course = self.root / "course"
        read = [
            *_files(course / "units" / unit),
            *course.glob("*.toml"),
            *_package("autogradlab"),
            *_package("autograder"),
        ]
        made = [file for step in ("source", "release") for file in _files(self.step(step, ".", unit))]
        return _digest(_versions(), [*read, *made])

    def stamp(self, unit: str, student: str, edition: str) -> str:
        """A digest that differs when a submission has to be graded again."""
        return _digest([edition], _files(self.step("submitted", student, unit)))

    def result(self, unit: str, student: str) -> dict:
        """What the last run noted about a submission: status, reason, seconds and stamp; empty if there was none."""
        path = self._result_path(unit, student)
        return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}

    def results(self, unit: str) -> dict[str, dict]:
        """What the last runs noted about every submission of a unit that is still there, by student."""
        return {student: self.result(unit, student) for _, student in self.submissions([unit])}

    def note_result(self, unit: str, student: str, result: dict) -> None:
        """Keep what became of a submission, at once whole or not at all."""
        private.write(self._result_path(unit, student), json.dumps(result, indent=1))

    def remove(self, name: str, student: str, unit: str) -> None:
        """Remove the folder of a step, if there is one."""
        folder = self.step(name, student, unit)
        if folder.is_dir():
            shutil.rmtree(folder)

    def _result_path(self, unit: str, student: str) -> Path:
        return self.results_folder / unit / f"{student}.json"


def versions() -> dict[str, str]:
    """What a grade may depend on, by name."""
    names = ("nbgrader", "torch", "numpy", "ipython")
    return {"python": platform.python_version()} | {name: importlib.metadata.version(name) for name in names}


def _versions() -> list[str]:
    return [f"{name} {version}" for name, version in versions().items()]


def _package(name: str) -> list[Path]:
    """The modules of a package, which is not imported for that."""
    (folder,) = find_spec(name).submodule_search_locations
    return list(Path(folder).rglob("*.py"))


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts]


def _digest(words: Iterable[str], files: Iterable[Path]) -> str:
    """A digest of words and of files, by name and content."""
    digest = hashlib.sha256("\n".join(words).encode())
    for path in sorted(files):
        content = path.read_bytes()
        digest.update(f"\n{path.name} {len(content)}\n".encode())
        digest.update(content)
    return digest.hexdigest()
