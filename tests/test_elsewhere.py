"""The release elsewhere: without the course's JupyterLab, in another folder, and in what services are told to build."""

import ast
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import jsonschema
import nbformat
import pytest
import yaml
from autogradlab.merging import source_of
from jupyterlab import commands
from nbclient import NotebookClient
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from autograder import lessons
from autograder.bundles import bundle, first_cell, with_first_cell

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
UNIT = "05_accumulating_gradients"


@pytest.fixture
def alone(tmp_path):
    """A Python with torch and the like, where nothing of the course is installed: how to run it, and its folder."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "JUPYTER"))}
    hidden = [str(ROOT / "course"), str(ROOT)]  # what the editable installation adds to the path

    def run(program):
        start = f"import sys; sys.path[:] = ['', *(place for place in sys.path if place not in {hidden})]\n"
        return subprocess.run(
            [sys.executable, "-c", start + program],
            cwd=folder,
            env=environ | {"PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
        )

    run.folder = folder
    return run


@pytest.fixture
def unpacked(tmp_path):
    """The zip of a unit."""
    return bundle(ROOT / "release" / UNIT, tmp_path / "zips")


# One file that is opened alone


def test_the_first_cell_does_nothing_where_the_course_is_installed():
    names = {}
    exec(first_cell(UNIT), names)
    assert "found" not in names


def test_the_first_cell_says_what_is_missing_and_what_to_do(alone):
    done = alone(first_cell(UNIT))
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("ModuleNotFoundError: The course is not installed in this kernel.")
    assert f"put {UNIT}.zip beside this notebook" in last


def test_the_first_cell_takes_the_unit_out_of_its_zip_whatever_a_browser_called_it(alone, unpacked):
    shutil.copy(unpacked, alone.folder / f"{UNIT} (1).zip")
    program = f"""{first_cell(UNIT)}
from autogradlab import check, unit
cases = unit({UNIT!r})
def fresh_gradients(w, x, steps):
    return [0.0] * steps
print(check("fresh_gradients").record["status"], check("meter_reading").record["status"])
"""
    done = alone(program)
    assert done.stdout == "wrong not attempted\n", done.stderr


def test_the_first_cell_leaves_a_notebook_that_is_there_already_with_its_answers(alone, unpacked):
    shutil.copy(unpacked, alone.folder)
    mine = alone.folder / f"{UNIT}.ipynb"
    mine.write_text("my answers")
    assert alone(first_cell(UNIT)).returncode == 0
    assert mine.read_text() == "my answers"
    assert (alone.folder / "cases.py").is_file() and (alone.folder / "autogradlab").is_dir()


def test_the_first_cell_stands_above_a_lesson_s_first_code_and_changes_nothing_else():
    lesson = lessons.read(UNIT)
    cells = with_first_cell(lesson)
    (added,) = (cell for cell in cells if cell not in lesson.cells)
    assert [cell for cell in cells if cell is not added] == list(lesson.cells)
    place = cells.index(added)
    assert {cell.kind for cell in cells[:place]} == {"markdown"}
    assert cells[place + 1].role == added.role == "setup"


def test_the_zip_holds_the_released_unit_the_package_and_nothing_of_the_instructors(unpacked):
    names = zipfile.ZipFile(unpacked).namelist()
    assert {name.split("/")[0] for name in names} == {
        "autogradlab",
        *(path.name for path in (ROOT / "release" / UNIT).iterdir()),
    }
    assert not [name for name in names if "attempts" in name or name.endswith(".pyc")]


def test_two_zips_of_a_unit_are_equal_byte_for_byte(tmp_path, unpacked):
    assert bundle(ROOT / "release" / UNIT, tmp_path).read_bytes() == unpacked.read_bytes()


@pytest.mark.long
@pytest.mark.parametrize("name", sorted(path.name for path in (ROOT / "release").glob("*")))
def test_a_whole_unit_runs_from_its_zip_in_a_kernel_without_lab_extensions(name, tmp_path, monkeypatch):
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    with zipfile.ZipFile(bundle(ROOT / "release" / name, tmp_path)) as archive:
        archive.extractall(folder)
    monkeypatch.setenv("PYTHONPATH", str(folder))
    for variable in ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR"):
        monkeypatch.setenv(variable, str(tmp_path / variable.lower()))
    book = nbformat.read(folder / f"{name}.ipynb", as_version=4)
    book.cells.insert(0, nbformat.v4.new_code_cell("import autogradlab; print(autogradlab.__file__)"))
    NotebookClient(book, timeout=120, resources={"metadata": {"path": str(folder)}}).execute()
    assert book.cells[0].outputs[0].text.startswith(str(folder))
    checks = [cell for cell in book.cells if cell.metadata.get("nbgrader", {}).get("grade")]
    assert checks
    assert all("not attempted yet" in cell.outputs[0].data["text/html"] for cell in checks)


def test_no_cell_of_a_release_needs_ipython_s_own_syntax():
    # VS Code, Colab and graders differ in their magics; plain Python runs everywhere.
    for file in sorted((ROOT / "release").glob("*/*.ipynb")):
        for cell in json.loads(file.read_bytes())["cells"]:
            if cell["cell_type"] == "code":
                ast.parse(source_of(cell))


# What services build from


def in_range(version):
    return version in SpecifierSet(PROJECT["requires-python"])


def test_binder_installs_what_a_learner_needs_from_the_project_itself():
    folder = ROOT / ".binder"
    option, line = (folder / "requirements.txt").read_text().split("\n")[:2]
    assert option.startswith("--extra-index-url https://download.pytorch.org/whl/cpu")
    assert re.fullmatch(r"-e \.\[(\w+)\]", line)[1] in PROJECT["optional-dependencies"]
    assert in_range((folder / "runtime.txt").read_text().strip().removeprefix("python-"))
    assert (folder / "apt.txt").read_text().split() == ["graphviz"]  # what environment.yml takes from conda
    for name in ("postBuild", "start"):
        assert (folder / name).stat().st_mode & stat.S_IXUSR or os.name == "nt"


# The part of the Development Container specification that is used here, https://containers.dev/implementors/json_reference.
DEVCONTAINER = {
    "type": "object",
    "required": ["image"],
    "additionalProperties": False,
    "properties": {
        "name": {"type": "string"},
        "image": {"type": "string"},
        "hostRequirements": {
            "type": "object",
            "additionalProperties": False,
            "properties": {
                "cpus": {"type": "integer", "minimum": 1},
                "memory": {"type": "string", "pattern": r"^\d+([tgmk]b)?$"},
                "storage": {"type": "string", "pattern": r"^\d+([tgmk]b)?$"},
            },
        },
        "postCreateCommand": {"type": ["string", "array", "object"]},
        "customizations": {"type": "object"},
    },
}


def test_codespaces_gets_what_run_py_sets_up():
    settings = json.loads((ROOT / ".devcontainer/devcontainer.json").read_text(encoding="utf-8"))
    jsonschema.validate(settings, DEVCONTAINER)
    assert in_range(settings["image"].rpartition(":")[2])
    assert settings["postCreateCommand"] == "python3 run.py lab --update"
    gigabytes = {key: int(value[:-2]) for key, value in settings["hostRequirements"].items() if key != "cpus"}
    assert gigabytes["memory"] >= 4 and gigabytes["storage"] >= 3  # as README says


def test_the_workflow_passes_its_schema():
    command = ["check_jsonschema", "--builtin-schema", "vendor.github-workflows"]
    done = subprocess.run(
        [sys.executable, "-m", *command, ROOT / ".github/workflows/ci.yml"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("profile", [".jupyter", ".jupyter/author"])
def test_jupyterlab_s_settings_pass_the_schemas_of_its_extensions(profile):
    file = ROOT / profile / "labconfig" / "default_setting_overrides.json"
    for plugin, settings in json.loads(file.read_text(encoding="utf-8")).items():
        extension, _, name = plugin.partition(":")
        schema = Path(commands.get_app_dir()) / "schemas" / extension / f"{name}.json"
        schema = json.loads(schema.read_text(encoding="utf-8"))
        assert set(settings) <= set(schema["properties"])
        jsonschema.validate(settings, schema)


def test_the_profile_s_hidden_extensions_exist():
    page = json.loads((ROOT / ".jupyter/labconfig/page_config.json").read_text(encoding="utf-8"))
    installed = Path(sys.prefix) / "share" / "jupyter" / "labextensions" / "@jupyter" / "nbgrader"
    bundled = "".join(path.read_text(encoding="utf-8") for path in (installed / "static").glob("*.js"))
    for plugin in page["disabledExtensions"]:
        name = plugin.removeprefix("@jupyter/nbgrader:")
        assert f"@jupyter/nbgrader:{name}" in bundled or name in bundled


def test_conda_and_binder_get_the_same_selection():
    environment = yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))
    (line,) = environment["dependencies"][-1]["pip"]
    assert line in (ROOT / ".binder" / "requirements.txt").read_text().split("\n")


def test_where_jupyter_is_brought_along_the_package_asks_for_none():
    names = {Requirement(one).name for one in PROJECT["dependencies"]}
    assert not names & {"jupyterlab", "notebook", "ipykernel", "nbgrader"}
