"""One seed per assignment, drawn once from the system's random source and kept where no child can read it."""

import json
import secrets
from pathlib import Path

from autograder import private


class Seeds:
    """The seeds of a course's assignments, in one file that only its owner may read."""

    def __init__(self, path: Path):
        self._path = path

    def of(self, assignment: str, new: bool = False) -> str:
        """The assignment's seed in hexadecimal; drawn where there is none yet, or anew."""
        seeds = json.loads(self._path.read_text(encoding="utf-8")) if self._path.is_file() else {}
        if assignment not in seeds or new:
            seeds[assignment] = secrets.token_hex(32)
            private.write(self._path, json.dumps(seeds, indent=1))
        return seeds[assignment]
