"""What is installed of all that a grade depends on, so that two machines can be compared."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from autograder.folders import versions

PACKAGES = ("autograder", "autogradlab")
#: How many differences a message names.
NAMED = 3


@dataclass(frozen=True)
class Installed:
    """Versions of what grades, and digests of the course's own modules by name."""

    versions: Mapping[str, str]
    modules: Mapping[str, str]

    @classmethod
    def here(cls) -> "Installed":
        """What this process would import."""
        found = {}
        for package in PACKAGES:
            (folder,) = find_spec(package).submodule_search_locations
            for path in sorted(Path(folder).rglob("*.py")):
                name = path.relative_to(Path(folder).parent).as_posix()
                found[name] = hashlib.sha256(path.read_bytes()).hexdigest()
        return cls(versions(), found)

    def differences(self, asked: "Installed") -> str:
        """How this differs from what is asked for, in words; nothing where it does not."""
        said = [
            f"{name} {self.versions.get(name, 'missing')}, not {version}"
            for name, version in asked.versions.items()
            if self.versions.get(name) != version
        ]
        names = self.modules.keys() | asked.modules.keys()
        said += [name for name in sorted(names) if self.modules.get(name) != asked.modules.get(name)]
        more = f" and {len(said) - NAMED} more" if len(said) > NAMED else ""
        return "; ".join(said[:NAMED]) + more
