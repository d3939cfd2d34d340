"""The learner's copy of the release."""

import json

import pytest
from autogradlab import lab


@pytest.fixture
def release(tmp_path):
    """A release of one unit."""
    unit = tmp_path / "release" / "05_unit"
    (unit / "images").mkdir(parents=True)
    (unit / "05_unit.ipynb").write_text("released")
    (unit / "cases.py").write_text("cases = 1")
    (unit / "recorded.bin").write_bytes(b"1")
    (unit / "images" / "plot.png").write_bytes(b"plot")
    return unit


@pytest.fixture
def copy(tmp_path, release):
    """A learner's copy of it, who has written an answer."""
    copy = tmp_path / "work" / "05_unit"
    lab.bring(release, copy)
    (copy / "05_unit.ipynb").write_text("my answer")
    return copy


def test_a_new_unit_is_copied_whole_and_said_to_be_new(release, tmp_path):
    copy = tmp_path / "work" / "05_unit"
    assert lab.bring(release, copy) == f"new in {copy}"
    assert (copy / "05_unit.ipynb").read_text() == "released"
    assert (copy / "images" / "plot.png").read_bytes() == b"plot"


def test_an_update_never_overwrites_the_learners_notebook(release, copy):
    (release / "05_unit.ipynb").write_text("released again")
    assert lab.bring(release, copy) == "yours stays 05_unit.ipynb"
    assert (copy / "05_unit.ipynb").read_text() == "my answer"


def test_cases_and_records_follow_the_release(release, copy):
    (release / "cases.py").write_text("cases = 2")
    (release / "recorded.bin").write_bytes(b"2")
    assert lab.bring(release, copy) == "updated cases.py, recorded.bin; yours stays 05_unit.ipynb"
    assert (copy / "cases.py").read_text() == "cases = 2"
    assert (copy / "recorded.bin").read_bytes() == b"2"


def test_what_a_release_gains_is_added(release, copy):
    (release / "digits.npy").write_bytes(b"digits")
    assert lab.bring(release, copy).startswith("added digits.npy")
    assert (copy / "digits.npy").exists()


def test_a_deleted_notebook_comes_back_as_released(release, copy):
    (copy / "05_unit.ipynb").unlink()
    assert lab.bring(release, copy) == "added 05_unit.ipynb"


def test_a_copy_that_is_up_to_date_is_left_alone(release, copy):
    (copy / "05_unit.ipynb").write_text("released")
    before = {path: path.stat().st_mtime_ns for path in copy.rglob("*")}
    assert lab.bring(release, copy) == "up to date"
    assert {path: path.stat().st_mtime_ns for path in copy.rglob("*")} == before


def test_what_python_and_jupyter_leave_behind_is_not_copied(release, tmp_path):
    (release / "__pycache__").mkdir()
    (release / "__pycache__" / "cases.pyc").touch()
    lab.bring(release, tmp_path / "copy")
    assert not (tmp_path / "copy" / "__pycache__").exists()


def test_every_unit_is_brought_and_jupyterlab_gets_the_further_options(release, tmp_path, monkeypatch, capsys):
    started = []
    monkeypatch.setattr(lab, "RELEASE", release.parent)
    monkeypatch.setattr(lab, "start", lambda *arguments: started.append(arguments) or 0)
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "mine"
    assert lab.main(["--folder", "mine", "--no-browser", "--port=1"]) == 0
    assert started == [(folder, lab.ROOT / ".jupyter", ["--no-browser", "--port=1"])]
    out, err = capsys.readouterr()
    assert (out, err) == ("", f"05_unit: new in {folder / '05_unit'}\n")


def test_an_author_gets_the_repository_itself(tmp_path, monkeypatch):
    started = []
    monkeypatch.setattr(lab, "RELEASE", tmp_path)
    monkeypatch.setattr(lab, "start", lambda *arguments: started.append(arguments) or 0)
    assert lab.main(["--author"]) == 0
    assert started == [(lab.ROOT, lab.ROOT / ".jupyter" / "author", [])]


def test_without_a_release_the_way_to_one_is_named(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(lab, "RELEASE", tmp_path)
    assert lab.main([]) == 1
    assert "python3 run.py build" in capsys.readouterr().err


def test_the_learners_profile_hides_what_instructors_use_and_keeps_validate():
    page = json.loads((lab.ROOT / ".jupyter/labconfig/page_config.json").read_text(encoding="utf-8"))
    server = json.loads((lab.ROOT / ".jupyter/jupyter_server_config.json").read_text(encoding="utf-8"))
    hidden = page["disabledExtensions"].keys() | server["ServerApp"]["jpserver_extensions"].keys()
    assert not [name for name in hidden if "validate" in name]
