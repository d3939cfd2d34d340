"""The learner's JupyterLab, on a copy of the release that updates never overwrite: `python3 run.py lab`."""

import argparse
import os
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RELEASE = ROOT / "release"
FOLLOWS_RELEASE = {"cases.py", "recorded.bin"}  # what the checks read, and learners do not edit
LEFT_BEHIND = {"__pycache__", ".ipynb_checkpoints"}


def main(arguments: list[str] | None = None) -> int:
    """The exit code; JupyterLab runs until it is told to stop."""
    parser = argparse.ArgumentParser(
        prog="run.py lab",
        description="JupyterLab on your own copy of the units. Further options go to JupyterLab, such as --no-browser.",
        allow_abbrev=False,
    )
    parser.add_argument("--author", action="store_true", help="the repository itself, with the instructors' panels")
    parser.add_argument("--folder", type=Path, default=ROOT / "work", help="where your copy is (default: %(default)s)")
    options, further = parser.parse_known_args(arguments)
    if options.author:
        return start(ROOT, ROOT / ".jupyter" / "author", further)
    units = sorted(path for path in RELEASE.glob("*") if path.is_dir())
    if not units:
        print(f"There is no unit in {RELEASE}: `python3 run.py build` makes them.", file=sys.stderr)
        return 1
    folder = options.folder.resolve()
    for unit in units:
        print(f"{unit.name}: {bring(unit, folder / unit.name)}", file=sys.stderr)
    return start(folder, ROOT / ".jupyter", further)


def bring(unit: Path, copy: Path) -> str:
    """What was done, in words, to bring a learner's copy up to its release; no file of the learner's is overwritten."""
    new = not copy.exists()
    added, updated, kept = [], [], []
    for source in sorted(path for path in unit.rglob("*") if path.is_file()):
        name = source.relative_to(unit)
        if LEFT_BEHIND & set(name.parts):
            continue
        target = copy / name
        if not target.exists():
            added.append(name)
        elif target.read_bytes() == source.read_bytes():
            continue
        elif name.name in FOLLOWS_RELEASE:
            updated.append(name)
        else:
            kept.append(name)
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        part = target.with_name(target.name + ".part")
        shutil.copyfile(source, part)
        part.replace(target)  # whole or not at all
    if new:
        return f"new in {copy}"
    groups = {"added": added, "updated": updated, "yours stays": kept}
    return "; ".join(f"{did} {', '.join(map(str, names))}" for did, names in groups.items() if names) or "up to date"


def start(folder: Path, configuration: Path, further: list[str]) -> int:
    """Run JupyterLab in a folder with the course's configuration before the machine's own; the exit code."""
    paths = [str(configuration), os.environ.get("JUPYTER_CONFIG_PATH", "")]
    os.environ["JUPYTER_CONFIG_PATH"] = os.pathsep.join(filter(None, paths))
    os.chdir(folder)  # nbgrader looks for its configuration here
    from jupyterlab.labapp import LabApp  # reads the variable above when it is imported

    root_user = ["--allow-root"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
    LabApp.launch_instance([f"--ServerApp.root_dir={folder}", *root_user, *further])
    return 0


if __name__ == "__main__":
    sys.exit(main())
