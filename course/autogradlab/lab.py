"""The learner's JupyterLab, on a copy of the release into which updates are merged: `python3 run.py lab`."""

import argparse
import os
import sys
from pathlib import Path

from autogradlab import outline, start_page
from autogradlab.updates import bring

ROOT = Path(__file__).resolve().parents[2]
RELEASE = ROOT / "release"


def main(arguments: list[str] | None = None) -> int:
    """The exit code; JupyterLab runs until it is told to stop."""
    parser = argparse.ArgumentParser(
        prog="run.py lab",
        description="JupyterLab on your own copy of the units. Further options go to JupyterLab, such as --no-browser.",
        allow_abbrev=False,
    )
    parser.add_argument("--author", action="store_true", help="the repository itself, with the instructors' panels")
    parser.add_argument("--update", action="store_true", help="only bring your copy up to the release")
    parser.add_argument("--folder", type=Path, default=outline.WORK, help="where your copy is (default: %(default)s)")
    options, further = parser.parse_known_args(arguments)
    if options.author:
        # The formgrader warns on every page of an exchange that is not there, though nobody uses it.
        (ROOT / "grading" / "exchange").mkdir(parents=True, exist_ok=True)
        return start(ROOT, ROOT / ".jupyter" / "author", further)
    units = sorted(path for path in RELEASE.glob("*") if path.is_dir())
    if not units:
        print(f"There is no unit in {RELEASE}: `python3 run.py build` makes them.", file=sys.stderr)
        return 1
    folder = options.folder.resolve()
    for unit in units:
        print(f"{unit.name}: {bring(unit, folder / unit.name)}", file=sys.stderr)
    start_page.write(outline.read_units(folder), folder)
    if options.update:
        return 0
    return start(folder, ROOT / ".jupyter", [f"--LabApp.default_url=/lab/tree/{start_page.PAGE}", *further])


def start(folder: Path, configuration: Path, further: list[str]) -> int:
    """Run JupyterLab in a folder with the course's configuration before the machine's own; the exit code."""
    paths = [str(configuration), os.environ.get("JUPYTER_CONFIG_PATH", "")]
    os.environ["JUPYTER_CONFIG_PATH"] = os.pathsep.join(filter(None, paths))
    os.chdir(folder)  # nbgrader looks for its configuration here
    from jupyterlab.labapp import LabApp  # reads the variable above when it is imported

    if "--no-browser" not in further:
        print("JupyterLab opens in your browser.", file=sys.stderr)
    print("To stop it, press Control-C here, twice.", file=sys.stderr, flush=True)
    root_user = ["--allow-root"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
    LabApp.launch_instance([f"--ServerApp.root_dir={folder}", *root_user, *further])
    return 0


if __name__ == "__main__":
    sys.exit(main())
