"""Submissions brought into the course's `submitted/`: the newest that is stated counts, and it is said which."""

import datetime
import errno
import os
import shutil
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from dataclasses import replace as replaced
from pathlib import Path

from autograder.folders import Folders
from autograder.incoming.layouts import Claim, Known, claim
from autograder.incoming.roll import NotAskedFor, NotMatched, Roll
from autograder.incoming.sources import Refused, Source, opened
from autograder.intake.files import FILES, TOTAL_BYTES, is_notebook
from autograder.pages import plain
from autograder.timestamps import FILE, handed_in_at


@dataclass
class Taken:
    """What became of the files: (learner, unit) that were placed, remarks, and file -> why it could not be placed.

    `not_asked_for` counts by unit the files whose place says that they are of another unit than those asked for.
    """

    placed: list[tuple[str, str]] = field(default_factory=list)
    unchanged: list[tuple[str, str]] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    not_matched: dict[str, str] = field(default_factory=dict)
    not_asked_for: Counter[str] = field(default_factory=Counter)

    def lines(self) -> list[str]:
        """The whole of it in words."""
        counted = f"Taken in: {len(self.placed)} submissions"
        counted += f", {len(self.unchanged)} that were there already" if self.unchanged else ""
        counted += f"; {len(self.not_matched)} files could not be matched" if self.not_matched else ""
        told = [f"{name} {reason}." for name, reason in sorted(self.not_matched.items())]
        if self.not_asked_for:
            counts = ", ".join(f"{unit} ({number})" for unit, number in sorted(self.not_asked_for.items()))
            told.append(f"Files of units that were not asked for were left out: {counts}. Name a unit to have its own.")
        return [f"{counted}.", *(f"  {plain(sentence)}" for sentence in (*self.remarks, *told))]


@dataclass
class _Submission:
    """What was handed in together."""

    source: Source
    learner: str
    unit: str
    files: dict[str, tuple[str, int]] = field(default_factory=dict)  # file -> (its name in the source, attempt)
    time: datetime.datetime | None = None
    is_late: bool = False
    #: The list of learners says the time, which is then right whatever was taken for it before.
    is_stated: bool = False
    system: str = ""
    data: dict[str, bytes] = field(default_factory=dict)

    @property
    def shown(self) -> str:
        """What tells it from others."""
        return ", ".join(name for name, _ in self.files.values() if is_notebook(name)) or next(iter(self.files))[0]


def take_in(
    folders: Folders,
    paths: Iterable[Path],
    notebooks: Mapping[str, Iterable[str]],
    wanted: Iterable[str] = (),
    roll: Roll | None = None,
    replace: bool = False,
) -> Taken:
    """Puts what lies at these paths into `submitted/`, each submission with its time where one is stated.

    `notebooks` has the names of each unit's notebooks. What is there already stays where it is the newer one; where
    neither says when it was handed in and they differ, it stays too, unless `replace`.
    """
    named = folders.config.get("FileNameCollectorPlugin", {}).get("named_regexp", "")
    known = Known(roll or Roll(()), notebooks, tuple(wanted), named)
    taken = Taken()
    candidates: dict[tuple[str, str], list[_Submission]] = defaultdict(list)
    sources = []
    try:
        for path in paths:
            source = opened(path)
            sources.append(source)
            for one in _submissions(source, known, taken):
                candidates[one.learner, one.unit].append(one)
        for its in sorted(candidates):  # each forgotten once it is placed, so that memory stays flat
            readable = [one for one in candidates.pop(its) if _load(one, known.roll, taken)]
            chosen = _newest(readable, taken)
            if chosen is None:
                continue
            try:
                _place(folders, chosen, taken, replace)
            except OSError as error:
                reason = f"could not be written ({error.strerror}: {error.filename}): mend that and try again"
                taken.not_matched[chosen.shown] = reason
    finally:
        for source in sources:
            source.close()
    return taken


def _submissions(source: Source, known: Known, taken: Taken) -> list[_Submission]:
    """What was handed in together, of a source; what cannot be told is noted."""
    taken.not_matched |= source.refused
    claims: dict[tuple[str, str], list[tuple[str, Claim]]] = defaultdict(list)
    top = _common_top(entry.name for entry in source.entries)
    for entry in source.entries:
        try:
            found = claim(entry.name, known)
            if found is None and top and (below := claim(entry.name.removeprefix(top), known)):
                found = replaced(below, depth=below.depth + 1)
        except NotAskedFor as other:
            taken.not_asked_for[str(other)] += 1
            continue
        except NotMatched as error:
            taken.not_matched[entry.name] = str(error)
            continue
        if found is not None and (reason := _owned_by_another(source.owner(entry.name), found, known.roll)):
            taken.not_matched[entry.name] = reason
        elif found is not None:
            claims[found.group, found.learner.id].append((entry.name, found))
        elif is_notebook(entry.name):
            taken.not_matched[entry.name] = (
                "follows no convention: put it into LEARNER/UNIT/, or rename it LEARNER_UNIT.ipynb"
            )
        else:
            taken.not_matched[entry.name] = "lies beside no submission: put it into LEARNER/UNIT/, or leave it out"
    _leave_out_what_lies_within_others(claims, taken)
    made = []
    for (_, learner), its in claims.items():
        units = sorted({found.unit for _, found in its if found.unit})
        for name, found in its:
            if not units:
                taken.not_matched[name] = f"came from {learner} without any notebook: ask for the notebook"
            elif not found.unit and len(units) > 1:
                taken.not_matched[name] = f"may belong to {' or '.join(units)}: put it into LEARNER/UNIT/"
        made += [_together(source, learner, unit, its, taken) for unit in units]
    return made


def _owned_by_another(owner: str, found: Claim, roll: Roll) -> str:
    """Why a file of an exchange is not taken: everybody may write there, under any name. Of any other file nothing."""
    if not found.is_in_exchange or owner == found.learner.id or owner not in roll.learners:
        return ""
    return (
        f"is said to be {found.learner.id}'s and belongs to the user {owner}, another learner: look into it, and "
        "give it a --from of its own, in LEARNER/UNIT/, if it is to count"
    )


def _leave_out_what_lies_within_others(claims: dict[tuple[str, str], list[tuple[str, Claim]]], taken: Taken) -> None:
    """Removes submissions that lie deeper than the others of their source: folders there may be some learner's own."""
    outermost = min((found.depth for its in claims.values() for _, found in its), default=0)
    for key, its in list(claims.items()):
        if any(found.depth > outermost for _, found in its):
            for name, _ in claims.pop(key):
                taken.not_matched[name] = (
                    "lies deeper than other submissions, and may be within one of them: give its folder by itself, "
                    "with a --from of its own"
                )


def _common_top(names: Iterable[str]) -> str:
    """The folder that everything of a source lies in, with its slash; empty where there is none."""
    tops = {name.partition("/")[0] if "/" in name else "" for name in names}
    return f"{tops.pop()}/" if len(tops) == 1 and "" not in tops else ""


def _together(source: Source, learner: str, unit: str, claims: list[tuple[str, Claim]], taken: Taken) -> _Submission:
    one = _Submission(source, learner, unit)
    units = {found.unit for _, found in claims if found.unit}
    for name, found in claims:
        if found.unit != unit and (found.unit or len(units) > 1):
            continue
        one.time, one.system = one.time or found.time, found.system
        one.is_late = one.is_late or found.is_late
        before = one.files.get(found.file)
        if before is not None:
            older, newer = sorted([before, (name, found.attempt)], key=lambda pair: pair[1])
            taken.remarks.append(f"{learner}, {unit}: {newer[0]} counts; {older[0]} is an older one of the same name.")
            one.files[found.file] = newer
        else:
            one.files[found.file] = name, found.attempt
    return one


def _load(one: _Submission, roll: Roll, taken: Taken) -> bool:
    """Read a submission; whether any notebook of it can be had."""
    if len(one.files) > FILES:
        taken.not_matched[one.shown] = f"comes with more than {FILES} files: ask for fewer"
        return False
    if one.system and one.files.pop(FILE, None):
        taken.remarks.append(f"{one.learner}, {one.unit}: a {FILE} of their own was left out; it proves no time.")
    total = 0
    for file, (name, _) in one.files.items():
        try:
            data = one.source.read(name)
        except Refused as error:
            taken.not_matched[name] = str(error)
            continue
        total += len(data)
        if total > TOTAL_BYTES:
            taken.not_matched[name] = f"is beyond the {TOTAL_BYTES >> 20} MiB that a submission may have: ask for less"
            continue
        one.data[file] = data
    stated = roll.learners[one.learner].submitted.get(one.unit) if one.learner in roll.learners else None
    one.is_stated = stated is not None
    one.time = stated or one.time or handed_in_at(one.data.get(FILE))
    if one.is_late and one.time is None:
        taken.remarks.append(
            f"{one.learner}, {one.unit}: {one.system} says that it is late, and not when it came, so that nothing is "
            f"taken off. Give the time in the list of learners, in the column submitted:{one.unit}."
        )
    has_notebook = any(is_notebook(file) for file in one.data)
    if not has_notebook and not any(is_notebook(file) for file in one.files):
        for name, _ in one.files.values():
            taken.not_matched[name] = f"came from {one.learner} without any notebook: ask for the notebook"
    return has_notebook


def _newest(found: list[_Submission], taken: Taken) -> _Submission | None:
    """Of several submissions of one learner to one unit the newest that is stated; None where that cannot be told."""
    different: list[_Submission] = []
    for one in found:
        same = next((other for other in different if _content(other) == _content(one)), None)
        if same is None:
            different.append(one)
        else:
            same.time = max(filter(None, (same.time, one.time)), default=None)
    if len(different) < 2:
        return different[0] if different else None
    dated = sorted((one for one in different if one.time), key=lambda one: one.time)
    if len(dated) < len(different) or dated[-1].time == dated[-2].time:
        names = [one.shown for one in different]
        for one in different:
            others = ", ".join(name for name in names if name != one.shown)
            taken.not_matched[one.shown] = (
                f"and {others} are all of {one.learner} for {one.unit}, and nothing says which is newest: leave one"
            )
        return None
    for one in dated[:-1]:
        taken.remarks.append(
            f"{one.learner}, {one.unit}: {dated[-1].shown} of {dated[-1].time} counts; {one.shown} is of {one.time}."
        )
    return dated[-1]


def _content(one: _Submission) -> dict[str, bytes]:
    return {name: data for name, data in one.data.items() if name != FILE}


def _place(folders: Folders, one: _Submission, taken: Taken, replace: bool) -> None:
    """Put a submission into its folder, at once whole or not at all, unless what is there counts."""
    place, its = folders.step("submitted", one.learner, one.unit), (one.learner, one.unit)
    if place.is_symlink() or place.exists() and not place.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(place))
    data = dict(one.data)
    if one.time is not None:
        data[FILE] = f"{one.time:%Y-%m-%d %H:%M:%S.%f} UTC\n".encode()
    if place.is_dir():
        there = _there(place)
        before = handed_in_at(there.pop(FILE, None))
        if there == _content(one):
            is_as_before = one.time is None or one.time == before
            is_older = before is not None and one.time is not None and one.time < before and not one.is_stated
            if is_as_before or is_older:
                taken.unchanged.append(its)
                return
        elif not replace and not _counts_against(before, one, place, taken):
            return
    _write(place, data)
    taken.placed.append(its)


def _counts_against(before: datetime.datetime | None, one: _Submission, place: Path, taken: Taken) -> bool:
    """Whether a submission is said to be newer than the other one that is there; says it either way."""
    who = f"{one.learner}, {one.unit}"
    if one.time is not None and (before is None or one.time > before):
        taken.remarks.append(f"{who}: {one.shown} takes the place of what was there.")
        return True
    if one.time is not None and one.time < before:
        taken.remarks.append(f"{who}: what is there is of {before}, newer than {one.shown}.")
        taken.unchanged.append((one.learner, one.unit))
        return False
    said = "does not say when it was handed in" if one.time is None else "is said to be of the same time"
    taken.not_matched[one.shown] = (
        f"differs from what {one.learner} has in {place}, and {said}: give --replace, or its time in the list"
    )
    return False


def _there(place: Path) -> dict[str, bytes]:
    """What a folder holds; links are no part of it."""
    return {
        path.relative_to(place).as_posix(): path.read_bytes()
        for path in sorted(place.rglob("*"))
        if path.is_file() and not path.is_symlink()
    }


def _write(place: Path, data: Mapping[str, bytes]) -> None:
    new, old = place.with_name(f".{place.name}.incoming"), place.with_name(f".{place.name}.outgoing")
    for folder in (new, old):
        if folder.exists():
            shutil.rmtree(folder)
    for name, content in data.items():
        path = new / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    if place.exists():
        os.rename(place, old)
    os.rename(new, place)
    if old.exists():
        shutil.rmtree(old)
