"""`run.py lab`: what is started, where, and with which configuration."""

import json
import os
import runpy
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from autogradlab import lab, outline, start_page


@pytest.fixture
def release(tmp_path, monkeypatch):
    """A release of one unit without exercises."""
    unit = tmp_path / "release" / "05_unit"
    unit.mkdir(parents=True)
    cell = {"cell_type": "markdown", "id": "a", "metadata": {}, "source": "# 5 A unit"}
    notebook = {"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    (unit / "05_unit.ipynb").write_text(json.dumps(notebook))
    (unit / "cases.py").write_text("cases = 1")
    monkeypatch.setattr(lab, "RELEASE", unit.parent)
    return unit


@pytest.fixture
def started(monkeypatch):
    """What JupyterLab would have been started with."""
    started = []
    monkeypatch.setattr(lab, "start", lambda *arguments: started.append(arguments) or 0)
    return started


def test_every_unit_is_brought_and_jupyterlab_gets_the_further_options(release, started, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "mine"
    assert lab.main(["--folder", "mine", "--no-browser", "--port=1"]) == 0
    first = "--LabApp.default_url=/lab/tree/start.md"
    assert started == [(folder, lab.ROOT / ".jupyter", [first, "--no-browser", "--port=1"])]
    out, err = capsys.readouterr()
    assert (out, err) == ("", f"05_unit: new in {folder / '05_unit'}\n")


def test_update_brings_the_units_and_starts_nothing(release, started, tmp_path):
    assert lab.main(["--folder", str(tmp_path / "mine"), "--update"]) == 0
    assert (tmp_path / "mine" / "05_unit" / "cases.py").is_file()
    assert started == []


def test_the_first_page_names_every_unit_and_what_to_do_next(release, started, tmp_path):
    lab.main(["--folder", str(tmp_path / "mine")])
    page = (tmp_path / "mine" / start_page.PAGE).read_text()
    assert "[5 A unit](05_unit/05_unit.ipynb)" in page
    assert "Every exercise is right." in page  # there is none
    assert page.index("[5 A unit]") < page.index("![A map")  # what leads somewhere is on the first screen
    assert "![A map of 1 units" in page
    assert (tmp_path / "mine" / start_page.MAP).read_text().count("<svg") == 1


def test_a_notebook_that_cannot_be_read_keeps_nobody_from_starting(release, started, tmp_path, capsys):
    folder = tmp_path / "mine"
    lab.main(["--folder", str(folder), "--update"])
    (folder / "05_unit" / "05_unit.ipynb").write_text("{")
    (release / "05_unit.ipynb").write_text((release / "05_unit.ipynb").read_text().replace("A unit", "One unit"))
    capsys.readouterr()
    assert lab.main(["--folder", str(folder)]) == 0
    assert "left 05_unit.ipynb alone" in capsys.readouterr().err
    assert (folder / "05_unit" / "05_unit.ipynb").read_text() == "{"


def test_the_first_page_leads_to_what_comes_next():
    exercise = outline.Exercise("one", "Exercise: one (spine, write)", "spine", 1.0)
    unit = outline.Unit("05_unit", Path("05_unit/05_unit.ipynb"), "A unit", (), (exercise,))
    first = "Next: begin [5 A unit](05_unit/05_unit.ipynb)."
    assert first in start_page.page([unit], has_picture=False).splitlines()
    begun = replace(unit, exercises=(replace(exercise, state=outline.PARTLY, words="not right yet"),))
    then = "Next: “one” (not right yet) in [5 A unit](05_unit/05_unit.ipynb)."
    assert then in start_page.page([begun], has_picture=False).splitlines()


@pytest.mark.parametrize(("options", "opens"), [([], True), (["--no-browser"], False)])
def test_a_start_says_what_happens_and_how_to_stop_it(tmp_path, monkeypatch, capsys, options, opens):
    launched = []
    monkeypatch.setattr("jupyterlab.labapp.LabApp.launch_instance", launched.append)
    monkeypatch.setenv("JUPYTER_CONFIG_PATH", "/elsewhere")
    monkeypatch.chdir(tmp_path)
    assert lab.start(tmp_path, tmp_path / "profile", options) == 0
    assert os.environ["JUPYTER_CONFIG_PATH"] == f"{tmp_path / 'profile'}{os.pathsep}/elsewhere"
    (arguments,) = launched
    assert arguments[0] == f"--ServerApp.root_dir={tmp_path}"
    assert [one for one in arguments[1:] if one != "--allow-root"] == options
    out, err = capsys.readouterr()
    assert (out, "opens in your browser" in err) == ("", opens)
    assert err.endswith("To stop it, press Control-C here, twice.\n")


def test_an_author_gets_the_repository_itself(release, started):
    assert lab.main(["--author"]) == 0
    assert started == [(lab.ROOT, lab.ROOT / ".jupyter" / "author", [])]


def test_without_a_release_the_way_to_one_is_named(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(lab, "RELEASE", tmp_path)
    assert lab.main([]) == 1
    assert "python3 run.py build" in capsys.readouterr().err


def test_the_learners_commands_are_the_package_s_own(tmp_path, monkeypatch, capsys):
    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["autogradlab", *arguments])
        with pytest.raises(SystemExit) as stopped:
            runpy.run_module("autogradlab", run_name="__main__")
        return stopped.value.code, *capsys.readouterr()

    assert run("progress", "--folder", str(tmp_path))[0] == 1
    code, out, _ = run("lab", "--help")
    assert code == 0 and "--update" in out
    code, _, err = run("labb")
    assert code == 2 and err.startswith("usage: python -m autogradlab lab|progress")


def test_the_learners_profile_hides_what_instructors_use_and_keeps_validate():
    page = json.loads((lab.ROOT / ".jupyter/labconfig/page_config.json").read_text(encoding="utf-8"))
    server = json.loads((lab.ROOT / ".jupyter/jupyter_server_config.json").read_text(encoding="utf-8"))
    hidden = page["disabledExtensions"].keys() | server["ServerApp"]["jpserver_extensions"].keys()
    assert not [name for name in hidden if "validate" in name]
