"""A notebook finds the files of its unit from wherever it runs."""

import os
import subprocess
import sys

import pytest
from autogradlab import units
from autogradlab.units import UnitNotFound, at, current, directory_of, unit

CASES = """
from autogradlab.exercises import Same, exercise

NAME = {name!r}


@exercise(Same("it is right", "returned.y"))
def double(program, case):
    return {{"y": program(case.normal())}}
"""


@pytest.fixture(autouse=True)
def no_unit(monkeypatch):
    monkeypatch.setattr(units, "_current", None)
    monkeypatch.delenv("JPY_SESSION_NAME", raising=False)


def make(folder, name, notebook=True):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "cases.py").write_text(CASES.format(name=name))
    if notebook:
        (folder / f"{name}.ipynb").write_text("{}")
    return folder


def test_a_unit_is_found_in_the_working_directory(tmp_path, monkeypatch):
    make(tmp_path / "05_unit", "05_unit")
    monkeypatch.chdir(tmp_path / "05_unit")
    assert unit("05_unit").NAME == "05_unit"
    assert current().name == "05_unit"
    assert list(current().exercises) == ["double"]


@pytest.mark.parametrize("start", [".", "release", "03_other"])
def test_a_unit_is_found_from_the_folders_around(tmp_path, monkeypatch, start):
    make(tmp_path / ("05_unit" if start == "03_other" else "release/05_unit"), "05_unit")
    make(tmp_path / "03_other", "03_other")
    monkeypatch.chdir(tmp_path / start)
    assert unit("05_unit").NAME == "05_unit"


def test_a_folder_of_another_name_counts_when_the_notebook_lies_there(tmp_path, monkeypatch):
    monkeypatch.chdir(make(tmp_path / "my copy", "05_unit"))
    assert directory_of("05_unit") == tmp_path / "my copy"


def test_the_cases_of_another_unit_are_not_taken(tmp_path, monkeypatch):
    monkeypatch.chdir(make(tmp_path / "somewhere", "03_other"))
    with pytest.raises(UnitNotFound, match="the files of unit 05_unit are not here"):
        unit("05_unit")


def test_where_it_looked_is_told(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UnitNotFound) as error:
        unit("05_unit")
    assert str(tmp_path / "05_unit") in str(error.value)
    assert "Put cases.py and recorded.bin of the unit beside the notebook" in str(error.value)


@pytest.mark.parametrize("host", ["__vsc_ipynb_file__", "__session__", "JPY_SESSION_NAME"])
def test_a_unit_is_found_beside_the_notebook_that_the_host_names(tmp_path, monkeypatch, host):
    folder = make(tmp_path / "deep" / "05_unit", "05_unit")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    notebook = str(folder / "05_unit.ipynb")
    if host.startswith("__"):
        monkeypatch.setattr(sys.modules["__main__"], host, notebook, raising=False)
    else:
        monkeypatch.setenv(host, notebook)
    assert directory_of("05_unit") == folder


def test_a_host_that_names_no_file_is_passed_over(tmp_path, monkeypatch):
    monkeypatch.chdir(make(tmp_path / "05_unit", "05_unit"))
    monkeypatch.setenv("JPY_SESSION_NAME", os.path.join("nowhere", "05_unit.ipynb"))
    assert directory_of("05_unit") == tmp_path / "05_unit"


def test_without_a_unit_the_first_cell_is_asked_for():
    with pytest.raises(UnitNotFound, match="no unit is open; run the notebook's first cell"):
        current()


def test_a_tool_may_say_where_a_unit_lies_for_a_while(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    first, second = (make(tmp_path / name / "unit", name, notebook=False) for name in ("first", "second"))
    with at("05_unit", first):
        assert unit("05_unit").NAME == "first"
        with at("05_unit", second):
            assert unit("05_unit").NAME == "second"
            assert current().directory == second
        assert current().directory == first
        assert directory_of("05_unit") == first
    with pytest.raises(UnitNotFound):
        current()
    with pytest.raises(UnitNotFound):
        directory_of("05_unit")


def test_a_tool_that_fails_leaves_no_place_behind(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(KeyError), at("05_unit", tmp_path):
        raise KeyError
    with pytest.raises(UnitNotFound):
        directory_of("05_unit")


def test_a_preloaded_unit_is_opened_without_its_file(tmp_path):
    (tmp_path / "cases.py").write_text('def specimen():\n    return "kept"\n')
    code = (
        "import inspect, pathlib, sys, traceback\n"
        "from autogradlab import unit, units\n"
        "directory = pathlib.Path(sys.argv[1])\n"
        "units.preload('09_gone', directory)\n"
        "(directory / 'cases.py').unlink()\n"
        "cases = unit('09_gone')\n"
        "import linecache; linecache.checkcache()\n"
        "print(cases.specimen(), inspect.getsource(cases.specimen))\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True)
    assert done.stdout == 'kept def specimen():\n    return "kept"\n\n', done.stderr
