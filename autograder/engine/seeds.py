"""One seed per assignment, drawn once from the system's random source and kept where no child can read it."""

import json
import os
import secrets
from pathlib import Path


class Seeds:
    """The seeds of a course's assignments, in one file that only its owner may read."""

    def __init__(self, path: Path):
        self._path = path

    def of(self, assignment: str, new: bool = False) -> str:
        """The assignment's seed in hexadecimal; drawn where there is none yet, or anew."""
        seeds = json.loads(self._path.read_text(encoding="utf-8")) if self._path.is_file() else {}
        if assignment not in seeds or new:
            seeds[assignment] = secrets.token_hex(32)
            self._path.parent.mkdir(parents=True, exist_ok=True)
            part = self._path.with_suffix(".part")
            with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
                json.dump(seeds, file, indent=1)
            part.replace(self._path)
        return seeds[assignment]
