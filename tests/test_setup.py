"""run.py, the packaging and the files that other programs read about the course."""

import ast
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest
import rattler
import yaml

from autograder.cli import app

ROOT = Path(__file__).resolve().parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
WORKFLOW = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text(encoding="utf-8"))


@pytest.fixture
def run(tmp_path, monkeypatch):
    """run.py as a module, at home in an empty folder that has this repository's pyproject.toml and no .venv."""
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    specification = importlib.util.spec_from_file_location("run", ROOT / "run.py")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    module.ROOT = str(tmp_path)
    module.VENV = str(tmp_path / ".venv")
    module.STAMP = str(tmp_path / ".venv/installed.json")
    module.LOG = str(tmp_path / ".venv/pip.log")
    monkeypatch.setattr(module, "torch_options", list)
    return module


@pytest.fixture
def installs(run, monkeypatch):
    """What run.py asked pip to install, in order, while no pip runs and .venv has an interpreter."""
    asked = []
    monkeypatch.setattr(run, "pip_install", lambda requirement, options, environ: asked.append(requirement))
    python = Path(run.python_of(run.VENV))
    python.parent.mkdir(parents=True)
    python.touch()
    return asked


def refusal(run, capsys, command="lab"):
    """The one line on standard error with which run.py ends, with exit code 2 and nothing on standard output."""
    assert run.main([command], {}) == 2
    out, err = capsys.readouterr()
    assert out == ""
    (line,) = err.splitlines()
    return line


# run.py: what keeps it from starting


@pytest.mark.parametrize("version", [(3, 8, 10), (3, 10, 14), (3, 14, 0), (2, 7, 18)])
def test_a_python_that_is_too_old_or_too_new_is_refused_in_one_line(run, monkeypatch, capsys, version):
    monkeypatch.setattr(run, "sys", SimpleNamespace(version_info=version, stderr=sys.stderr))
    line = refusal(run, capsys)
    assert f"this is {version[0]}.{version[1]}" in line
    assert "3.11 to 3.13" in line


def test_a_python_without_ensurepip_is_refused_with_the_package_to_install(run, monkeypatch, capsys):
    monkeypatch.setattr(run.importlib.util, "find_spec", lambda name: None)
    line = refusal(run, capsys)
    assert "`ensurepip`" in line
    assert "python3-venv" in line


def test_less_than_3_gb_of_disk_is_refused_with_what_is_free(run, monkeypatch, capsys):
    monkeypatch.setattr(run.shutil, "disk_usage", lambda path: SimpleNamespace(free=2.9e9))
    assert re.search(r"2\.9 GB .* 3 GB", refusal(run, capsys))


def test_without_a_network_the_last_line_says_so_from_any_directory(tmp_path):
    course, elsewhere = tmp_path / "a course", tmp_path / "elsewhere"
    course.mkdir()
    elsewhere.mkdir()
    for name in ("run.py", "pyproject.toml"):
        shutil.copy(ROOT / name, course)
    nobody = "http://127.0.0.1:9/simple"  # the discard port: no one listens
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "VIRTUAL_", "CONDA_"))}
    environ |= {"PIP_CONFIG_FILE": os.devnull, "PIP_INDEX_URL": nobody, "PIP_RETRIES": "1"}
    done = subprocess.run(
        [sys.executable, course / "run.py", "lab"], cwd=elsewhere, env=environ, capture_output=True, text=True
    )
    assert done.returncode == 2
    assert done.stdout == ""
    assert "connect to the network" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr


def test_what_pip_says_went_wrong_is_passed_on(run, installs, monkeypatch, capsys):
    monkeypatch.undo()  # the real pip_install again
    monkeypatch.setattr(run, "python_of", lambda prefix: sys.executable)
    with pytest.raises(run.SetupError, match=r"could not install .*ERROR: .*no-such-folder"):
        run.pip_install("./no-such-folder", [], {**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1"})


def test_an_unknown_command_is_a_usage_error_that_lists_the_commands(run, capsys):
    assert run.main(["lba"], {}) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "no command `lba`" in err
    assert all(command in err for command in ("lab", "build", "audit", "demo", "test"))


def test_every_command_of_the_instructors_package_is_one_of_run_py_and_the_other_way_round(run):
    assert {command.name or command.callback.__name__ for command in app.registered_commands} == set(run.INSTRUCTORS)


def test_run_py_starts_on_an_old_python_with_nothing_installed():
    tree = ast.parse((ROOT / "run.py").read_text(encoding="utf-8"), feature_version=(3, 7))
    assert imported(tree) <= sys.stdlib_module_names


# run.py: what it sets up


def test_a_second_start_installs_nothing(run, installs):
    assert run.set_up(run.LEARNERS_ALONE, {}) == run.set_up(run.LEARNERS_ALONE, {}) == run.VENV
    assert installs == [".[learners]"]


def test_changed_dependencies_are_installed_with_the_extras_that_were_there(run, installs):
    run.set_up(run.EVERYTHING, {})
    with open(Path(run.ROOT) / "pyproject.toml", "a", encoding="utf-8") as file:
        file.write("# one more line\n")
    run.set_up(run.LEARNERS_ALONE, {})
    assert installs == [".[instructors,learners,tests]"] * 2


def test_instructors_packages_come_with_the_first_command_that_needs_them(run, installs):
    run.set_up(run.LEARNERS_ALONE, {})
    run.set_up(run.EVERYTHING, {})
    run.set_up(run.LEARNERS_ALONE, {})
    assert installs == [".[learners]", ".[instructors,learners,tests]"]


def test_a_folder_that_was_moved_is_installed_anew(run, installs):
    run.set_up(run.LEARNERS_ALONE, {})
    run.ROOT, old = run.ROOT + "-moved", run.ROOT
    shutil.copytree(old, run.ROOT)
    run.set_up(run.LEARNERS_ALONE, {})
    assert installs == [".[learners]"] * 2


def test_an_interrupted_set_up_is_done_again(run, installs, monkeypatch):
    def interrupted(*arguments):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(run, "pip_install", interrupted)
        run.set_up(run.LEARNERS_ALONE, {})
    run.set_up(run.LEARNERS_ALONE, {})
    assert installs == [".[learners]"]


def test_an_environment_whose_python_is_gone_is_made_anew(run, installs, monkeypatch):
    run.set_up(run.LEARNERS_ALONE, {})
    python = Path(run.python_of(run.VENV))
    python.unlink()
    made = []

    def make(command, **options):
        made.append(command)
        python.touch()
        return SimpleNamespace(returncode=0)

    monkeypatch.setattr(run.subprocess, "run", make)
    run.set_up(run.LEARNERS_ALONE, {})
    assert made == [[sys.executable, "-m", "venv", "--clear", run.VENV]]
    assert installs == [".[learners]"] * 2


def environment_with_course(prefix, run, folder, *others):
    """An environment as pip leaves it after `pip install -e FOLDER`, of Python files only."""
    packages = prefix / ("Lib" if os.name == "nt" else "lib/python3.12") / "site-packages"
    for name in ("tensors_and_autograd-0.1.0", *others):
        (packages / f"{name}.dist-info").mkdir(parents=True)
    url = f'{{"url": "{Path(folder).as_uri()}", "dir_info": {{"editable": true}}}}'
    (packages / "tensors_and_autograd-0.1.0.dist-info/direct_url.json").write_text(url, encoding="utf-8")
    return str(prefix)


@pytest.mark.parametrize("variable", ["VIRTUAL_ENV", "CONDA_PREFIX"])
def test_an_active_environment_with_this_course_is_used(run, tmp_path, variable):
    prefix = environment_with_course(tmp_path / "active", run, run.ROOT, "pytest-9.2.0", "jupyterlab-4.6.6")
    assert run.active_environment({variable: prefix}, run.EVERYTHING) == prefix


def test_an_active_environment_without_the_instructors_packages_is_told_how_to_get_them(run, tmp_path, capsys):
    prefix = environment_with_course(tmp_path / "active", run, run.ROOT, "jupyterlab-4.6.6")
    assert run.active_environment({"CONDA_PREFIX": prefix}, run.LEARNERS_ALONE) == prefix
    with pytest.raises(run.SetupError, match=r"pip install -e '.*\[instructors,learners,tests\]'"):
        run.active_environment({"CONDA_PREFIX": prefix}, run.EVERYTHING)


def test_an_active_environment_with_another_folder_s_course_is_not_used(run, tmp_path, capsys):
    prefix = environment_with_course(tmp_path / "active", run, tmp_path / "other", "pytest-9.2.0")
    assert run.active_environment({"CONDA_PREFIX": prefix}, run.EVERYTHING) is None
    assert str(tmp_path / "other") in capsys.readouterr().err


def test_an_active_environment_without_the_course_is_not_used(run, tmp_path):
    assert run.active_environment({"CONDA_PREFIX": str(tmp_path)}, ()) is None


def test_packages_of_the_caller_do_not_leak_into_the_course(run):
    environ = run.clean({"PYTHONPATH": "/tmp", "PYTHONHOME": "/usr", "HOME": "/home/ada"})
    assert environ == {"HOME": "/home/ada", "PYTHONNOUSERSITE": "1"}


def test_commands_install_what_they_need_and_no_more(run):
    assert run.program("lab", ["--no-browser"]) == (["-m", "autogradlab", "lab", "--no-browser"], run.LEARNERS_ALONE)
    assert run.program("progress", ["--json"]) == (["-m", "autogradlab", "progress", "--json"], run.LEARNERS_ALONE)
    assert run.program("lab", ["--author"])[1] == run.EVERYTHING
    assert run.program("audit", ["--json"]) == (["-m", "autograder", "audit", "--json"], run.EVERYTHING)
    line, extras = run.program("test", ["-k", "lab"])
    assert line[:4] == ["-m", "pytest", "-n", "2"]
    assert line[-2:] == ["-k", "lab"]
    assert extras == run.EVERYTHING


@pytest.mark.parametrize(("answer", "options"), [(True, ["--extra-index-url"]), (False, [])])
def test_linux_without_a_gpu_takes_the_cpu_build_where_its_index_answers(run, monkeypatch, capsys, answer, options):
    monkeypatch.undo()  # the real torch_options again
    monkeypatch.setattr(run, "sys", SimpleNamespace(platform="linux", stderr=sys.stderr))
    monkeypatch.setattr(run, "has_nvidia", lambda: False)
    monkeypatch.setattr(run, "answers", lambda url: answer)
    assert run.torch_options()[:1] == options
    assert ("so the CPU build" if answer else "did not answer within two seconds") in capsys.readouterr().err


def test_an_index_that_accepts_and_says_nothing_costs_no_more_than_its_time(run):
    import socket
    import time

    with socket.create_server(("127.0.0.1", 0)) as silent:
        start = time.perf_counter()
        assert not run.answers(f"http://127.0.0.1:{silent.getsockname()[1]}/", seconds=0.3)
        assert time.perf_counter() - start < 2


def test_what_a_set_up_takes_is_said_before_and_measured_after(run, installs, monkeypatch, capsys):
    def install(requirement, options, environ):
        said.append(capsys.readouterr().err)
        (Path(run.VENV) / "package").write_bytes(b"0" * 3_000_000)

    said = []
    monkeypatch.setattr(run, "pip_install", install)
    run.set_up(run.LEARNERS_ALONE, {})
    assert re.search(r"about 1\.5 GB of disk \(3 GB free while it runs", said[0])
    assert re.search(r"Installed in \d+ s: 3 MB", capsys.readouterr().err)
    run.set_up(run.LEARNERS_ALONE, {})
    assert capsys.readouterr().err == ""


def test_extras_that_a_command_asks_for_exist_and_bring_what_proves_them(run):
    groups = PYPROJECT["project"]["optional-dependencies"]
    assert {*run.LEARNERS_ALONE, *run.EVERYTHING} <= set(groups)
    assert set(run.SIZES) == {run.LEARNERS_ALONE, run.EVERYTHING}
    for extra, proof in run.PROOFS.items():
        assert [one for one in groups[extra] if one.startswith(proof)]


# The test suite itself


@pytest.fixture
def suite(tmp_path):
    """Runs two tests, one without its tool and one that is long, under this suite's conftest.py: exit code, output."""
    shutil.copy(ROOT / "tests/conftest.py", tmp_path)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n    long: takes long\n", encoding="utf-8")
    (tmp_path / "test_it.py").write_text(
        "import pytest\n\ndef test_tool():\n    pytest.skip('no dot on PATH')\n\n"
        "@pytest.mark.long\ndef test_long():\n    pass\n",
        encoding="utf-8",
    )

    def run(*options, **environ):
        base = {name: value for name, value in os.environ.items() if name != "REQUIRE_ALL"}
        base["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # conftest.py needs none, and they take time
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options]
        done = subprocess.run(command, cwd=tmp_path, env=base | environ, capture_output=True, text=True)
        return done.returncode, done.stdout

    return run


def test_a_missing_tool_skips_a_test_on_a_laptop_and_fails_it_in_ci(suite):
    code, out = suite()
    assert code == 0
    assert "1 skipped, 1 deselected" in out
    code, out = suite(REQUIRE_ALL="1")
    assert code == 1
    assert "REQUIRE_ALL is set, and this was skipped: no dot on PATH" in out


def test_long_tests_run_when_they_are_asked_for(suite):
    assert "1 passed, 1 skipped" in suite("--long")[1]


# Dependencies and packaging


def supported_pythons():
    low, high = re.fullmatch(r">=3\.(\d+),<3\.(\d+)", PYPROJECT["project"]["requires-python"]).groups()
    return [f"3.{minor}" for minor in range(int(low), int(high))]


def test_environment_yml_repeats_nothing_but_the_range_of_pythons():
    environment = yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))
    assert environment["channels"] == ["conda-forge", "nodefaults"]
    *by_conda, by_pip = environment["dependencies"]
    specs = {spec.name.normalized: spec for spec in map(rattler.MatchSpec, by_conda)}
    assert set(specs) == {"python", "graphviz", "pip"}
    assert str(specs["python"].version) == PYPROJECT["project"]["requires-python"]
    assert all(spec.version is None for name, spec in specs.items() if name != "python")
    (line,) = by_pip["pip"]
    extras = re.fullmatch(r"-e \.\[([\w,]+)\]", line).group(1).split(",")
    assert extras == ["learners"]


def test_no_dependency_stands_twice():
    groups = [PYPROJECT["project"]["dependencies"], *PYPROJECT["project"]["optional-dependencies"].values()]
    names = [re.match(r"[\w-]+", requirement).group() for group in groups for requirement in group]
    names = [name for name in names if name != PYPROJECT["project"]["name"]]  # one extra may take in another
    assert len(names) == len(set(names))


def test_the_wheel_holds_the_two_packages_and_no_unit(tmp_path):
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    (wheel,) = tmp_path.glob("*.whl")
    names = [name.split("/") for name in zipfile.ZipFile(wheel).namelist()]
    assert {top for top, *_ in names} == {"autogradlab", "autograder", "tensors_and_autograd-0.1.0.dist-info"}
    assert not [name for name in names if "units" in name or name[-1].endswith(".ipynb")]


def test_workflow_covers_three_systems_and_both_ends_of_the_pythons():
    matrix = WORKFLOW["jobs"]["tests"]["strategy"]["matrix"]
    assert {system.split("-")[0] for system in matrix["os"]} == {"ubuntu", "macos", "windows"}
    assert matrix["python"] == [supported_pythons()[0], supported_pythons()[-1]]
    uses = [step["uses"] for job in WORKFLOW["jobs"].values() for step in job["steps"] if "uses" in step]
    assert all(re.fullmatch(r"[\w-]+/[\w-]+@v\d+", action) for action in uses)


def test_workflow_keeps_what_the_browser_showed_of_tests_that_fail_too():
    kept = []
    for job in WORKFLOW["jobs"].values():
        names = [step.get("uses", "").partition("@")[0] or step["run"] for step in job["steps"]]
        tests = next(place for place, name in enumerate(names) if "run.py test" in name or "pytest" in name)
        step = job["steps"][tests + 1]
        assert (names[tests + 1], step["if"], step["with"]["path"]) == (
            "actions/upload-artifact",
            "always()",
            "dist/browser",  # where the tests leave screenshots unless they are told otherwise
        )
        kept.append(step["with"]["name"])
    assert len(set(kept)) == len(kept)
    for axis in WORKFLOW["jobs"]["tests"]["strategy"]["matrix"]:
        assert f"matrix.{axis}" in kept[list(WORKFLOW["jobs"]).index("tests")]


def test_built_files_are_marked_generated_and_never_merged(tmp_path):
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    shutil.copy(ROOT / ".gitattributes", tmp_path)
    paths = ["source/u/u.ipynb", "release/u/cases.py", "course/units/u/lesson.py"]
    command = ["git", "-C", tmp_path, "check-attr", "linguist-generated", "merge", "--", *paths]
    answers = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    assert answers == [
        *("source/u/u.ipynb: linguist-generated: true", "source/u/u.ipynb: merge: unset"),
        *("release/u/cases.py: linguist-generated: true", "release/u/cases.py: merge: unset"),
        *("course/units/u/lesson.py: linguist-generated: unspecified", "course/units/u/lesson.py: merge: unspecified"),
    ]


# Who may import what


def imported(tree, nested=True):
    """The top-level packages that a module imports, or only those that its own import pulls in."""
    nodes = ast.walk(tree) if nested else tree.body
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    nodes = ast.walk(tree) if nested else tree.body
    names |= {node.module for node in nodes if isinstance(node, ast.ImportFrom) and not node.level}
    return {name.split(".")[0] for name in names}


def programs(*patterns):
    return {path: ast.parse(path.read_text(encoding="utf-8")) for pattern in patterns for path in ROOT.glob(pattern)}


def test_what_learners_get_imports_nothing_of_the_instructors():
    instructors = {"autograder", "nbgrader", "jupytext", "nbformat"}
    offenders = {path: imported(tree) & instructors for path, tree in programs("run.py", "course/**/*.py").items()}
    assert not {path: names for path, names in offenders.items() if names}


def test_importing_the_learners_package_needs_torch_and_numpy_alone():
    allowed = {"torch", "numpy", "autogradlab", *sys.stdlib_module_names}
    offenders = {
        path: imported(tree, nested=False) - allowed for path, tree in programs("course/autogradlab/*.py").items()
    }
    assert not {path: names for path, names in offenders.items() if names}


def test_cases_need_torch_numpy_and_the_learners_package_alone():
    allowed = {"torch", "numpy", "autogradlab", *sys.stdlib_module_names}
    trees = programs("course/units/*/cases.py")
    assert trees
    assert not {path: extra for path, tree in trees.items() if (extra := imported(tree) - allowed)}


def test_nothing_imports_the_tests():
    trees = programs("run.py", "course/**/*.py", "autograder/**/*.py", "scripts/**/*.py", "benchmarks/**/*.py")
    assert not [path for path, tree in trees.items() if "tests" in imported(tree)]


def test_importing_autogradlab_pulls_in_no_drawing_and_no_notebook():
    heavy = ("matplotlib", "graphviz", "pygraphviz", "IPython", "jupyterlab", "pandas")
    program = f"import sys, autogradlab; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"


def test_importing_autogradlab_takes_little_beside_torch_and_ipython():
    program = (
        "import time, torch, IPython; start = time.process_time(); import autogradlab; "
        "print(time.process_time() - start)"
    )
    seconds = [float(subprocess.check_output([sys.executable, "-c", program])) for _ in range(2)]
    assert min(seconds) < 0.15


# README


def test_readme_names_commands_that_exist(run):
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    named = re.findall(r"(?:python3|py) run\.py (\w+)", readme)
    assert named[:2] == ["demo", "test"]
    assert set(named) <= {*run.LEARNERS, *run.INSTRUCTORS, "test"}


# Style


@pytest.mark.parametrize("command", [["check"], ["format", "--check"]], ids=" ".join)
def test_ruff_has_nothing_to_say(command):
    done = subprocess.run([sys.executable, "-m", "ruff", *command, "--no-cache", ROOT], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
