"""A learner's copy of the units, brought up to the release without losing anything of the learner's."""

import json
import shutil
from datetime import datetime
from pathlib import Path

from autogradlab.merging import NotMergeable, empty_notebook, merge
from autogradlab.resetting import RELEASED

KEPT = "kept"  # beside the units' folders: files of the learner's as they were before an update changed them
LEFT_BEHIND = {"__pycache__", ".ipynb_checkpoints"}


def bring(unit: Path, copy: Path) -> str:
    """What was done, in words, to bring a learner's copy of a unit up to its release.

    Notebooks are merged; every other file becomes the release's. Of whatever the learner had changed, a copy is kept.
    """
    new = not copy.exists()
    done = []
    for source in sorted(path for path in unit.rglob("*") if path.is_file()):
        name = source.relative_to(unit)
        if LEFT_BEHIND & set(name.parts):
            continue
        done += _bring_file(source, copy / name, copy.parent)
    return f"new in {copy}" if new else "; ".join(done) or "up to date"


def put(text: str, file: Path) -> None:
    """Writes a file of the course's own beside the units; of what the learner had changed in it, a copy is kept."""
    part = file.parent / RELEASED / f"{file.name}.new"
    part.parent.mkdir(parents=True, exist_ok=True)
    part.write_text(text, encoding="utf-8", newline="\n")
    list(_bring_file(part, file, file.parent))
    part.unlink()


def _bring_file(source: Path, target: Path, units: Path):
    """Brings one file of the folder with the units up to date; yields what it did."""
    before = units / RELEASED / target.relative_to(units)  # the release's, as the learner's was made from it
    is_as_given = before.is_file() and target.is_file() and target.read_bytes() == before.read_bytes()
    if not target.exists():
        yield f"added {target.name}"
        _copy(source, target)
    elif target.read_bytes() == source.read_bytes():
        pass
    elif is_as_given:
        yield f"updated {target.name}"
        _copy(source, target)
    elif target.suffix != ".ipynb":
        kept = _keep(target, units)
        yield f"updated {target.name} (yours is in {kept})"
        _copy(source, target)
    elif before.is_file() and before.read_bytes() == source.read_bytes():
        pass  # nothing new, and the notebook is the learner's
    else:
        try:
            yield _merge(source, target, before, units)
        except (NotMergeable, ValueError) as error:
            yield f"left {target.name} alone: {error}. Move it elsewhere to get it as released"
            return
    if not before.is_file() or before.read_bytes() != source.read_bytes():
        _copy(source, before)


def _merge(source, target, before, units) -> str:
    old = json.loads(before.read_bytes()) if before.is_file() else empty_notebook()
    merged = merge(old, json.loads(target.read_bytes()), json.loads(source.read_bytes()))
    kept = _keep(target, units)
    text = json.dumps(merged.notebook, indent=1, ensure_ascii=False, sort_keys=True) + "\n"
    part = target.with_name(target.name + ".part")
    part.write_text(text, encoding="utf-8", errors="surrogatepass", newline="\n")
    part.replace(target)
    words = [f"updated {target.name}, with all that you wrote (as it was: {kept})"]
    if merged.answers:
        words.append(f"look again at {', '.join(merged.answers)}: what is asked there has changed")
    if merged.kept:
        words.append(f"look for “Kept from your copy”, {merged.kept} times, where the course changed what you had")
    return "; ".join(words)


def _keep(file: Path, units: Path) -> Path:
    """Copies a learner's file to where it stays; the copy's place, seen from the folder with the units."""
    stamp = datetime.now().strftime("%Y-%m-%d %H.%M.%S")
    name = file.relative_to(units)
    numbers = ("", *(f" ({number})" for number in range(2, 1000)))
    kept = next(place for n in numbers if not (place := units / KEPT / f"{stamp}{n}" / name).exists())
    kept.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(file, kept)
    return kept.relative_to(units)


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(target.name + ".part")
    shutil.copyfile(source, part)
    part.replace(target)  # whole or not at all
