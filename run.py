#!/usr/bin/env python3
"""Set up the course and run one of its commands: `python3 run.py COMMAND`, on Windows `py run.py COMMAND`.

Standard library only, so that a fresh Python can run it. All that it says itself goes to standard error.
"""

import contextlib
import glob
import hashlib
import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import urllib.request

ROOT = os.path.dirname(os.path.abspath(__file__))
VENV = os.path.join(ROOT, ".venv")
STAMP = os.path.join(VENV, "installed.json")
LOG = os.path.join(VENV, "pip.log")
CPU_INDEX = "https://download.pytorch.org/whl/cpu"
DISK = 3e9  # bytes that a first set-up may take, pip's temporary files included
# Megabytes of .venv by what is installed, measured on Linux with PyTorch's CPU build.
SIZES = {("learners",): 1500, ("instructors", "learners", "tests"): 2000}

LEARNERS_ALONE = ("learners",)
EVERYTHING = ("instructors", "learners", "tests")
# A package that only this extra brings.
PROOFS = {"learners": "jupyterlab", "tests": "pytest"}
LEARNERS = {
    "lab": "JupyterLab on your own copy of the units (--author: on the repository)",
    "progress": "what is done in your copy of the units",
}
INSTRUCTORS = {
    "build": "lessons to source/ and release/",
    "pages": "the units as pages to read, without solutions",
    "audit": "prove that every exercise tells right from wrong, and wrong from wrong",
    "new": "a new unit or exercise to fill in",
    "grade": "submissions into the gradebook",
    "report": "the class report and a feedback page for each learner",
    "assemble": "any exercises of any units as one assignment, for one class alone if you like",
    "export": "the final scores as CSV, for Canvas or for Moodle",
    "demo": "build, grade a made-up class, show the results",
}
TEST = "the test suite (--long: the slow tests too; further options go to pytest)"

NO_CONNECTION = re.compile(
    "connection broken by|NewConnectionError|NameResolutionError|ConnectTimeout|getaddrinfo failed|ProxyError"
    "|Network is unreachable|Failed to (connect|resolve)|Temporary failure in name resolution"
)


class SetupError(Exception):
    """The set-up cannot go on; the message is one line that says why and what to try."""


def say(text):
    print(text, file=sys.stderr, flush=True)


def supported_pythons(pyproject):
    """The oldest and the newest minor version of Python 3 that pyproject.toml (its text) allows."""
    low, high = re.search(r'requires-python = ">=3\.(\d+),<3\.(\d+)"', pyproject).groups()
    return int(low), int(high) - 1


def check_python(version, pyproject):
    low, high = supported_pythons(pyproject)
    if not (3, low) <= version[:2] <= (3, high):
        raise SetupError(
            f"The course needs Python 3.{low} to 3.{high}, and this is {version[0]}.{version[1]}: "
            f"start it with one of those, as in `python3.{high} run.py` (Windows: `py -3.{high} run.py`)."
        )


def check_ensurepip():
    if importlib.util.find_spec("ensurepip") is None:
        raise SetupError(
            "This Python has no `ensurepip`, which brings pip into an environment: install it "
            "(on Debian and Ubuntu `sudo apt install python3-venv`) and run the command again."
        )


def check_disk(free):
    if free < DISK:
        raise SetupError(
            f"{free / 1e9:.1f} GB of disk are free at {ROOT}, and the set-up takes {DISK / 1e9:.0f} GB: "
            "make room and run the command again."
        )


def python_of(prefix):
    """The path of the interpreter of the environment at `prefix`."""
    places = ("Scripts/python.exe", "python.exe") if os.name == "nt" else ("bin/python",)  # venv, conda
    paths = [os.path.join(prefix, *place.split("/")) for place in places]
    return next(filter(os.path.exists, paths), paths[0])


def distributions(prefix, name):
    """The .dist-info folders of a distribution in the environment at `prefix`, which need not be this Python's."""
    places = [os.path.join("lib", "python3.*"), "Lib"]
    pattern = os.path.join("site-packages", name + "-*.dist-info")
    return {found for place in places for found in glob.glob(os.path.join(glob.escape(prefix), place, pattern))}


def installed_from(dist_info):
    """The folder that an editable distribution stands in; the URL itself for one that came from elsewhere."""
    try:
        with open(os.path.join(dist_info, "direct_url.json"), encoding="utf-8") as file:
            url = json.load(file)["url"]
    except FileNotFoundError:
        return "a package index"
    return urllib.request.url2pathname(url[len("file://") :]) if url.startswith("file://") else url


def active_environment(environ, extras):
    """The prefix of the active conda or virtual environment in which this folder's course is installed, or None."""
    for prefix in (environ.get("VIRTUAL_ENV"), environ.get("CONDA_PREFIX")):
        if not prefix or os.path.realpath(prefix) == os.path.realpath(VENV):
            continue
        for found in distributions(prefix, "tensors_and_autograd"):
            origin = installed_from(found)
            if os.path.realpath(origin) != os.path.realpath(ROOT):
                say(f"The active environment {prefix} holds the course of {origin}, so it is not used.")
            elif any(extra in PROOFS and not distributions(prefix, PROOFS[extra]) for extra in extras):
                raise SetupError(
                    f"The active environment {prefix} lacks packages that this command needs: deactivate it, or run "
                    f"`python -m pip install -e '{ROOT}[{','.join(extras)}]'` in it."
                )
            else:
                return prefix
    return None


def answers(url, seconds=2):
    """Whether a GET of `url` succeeds in time; in a thread, because urllib cannot limit the search for the host."""
    answered = threading.Event()

    def ask():
        with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=seconds):
            answered.set()

    threading.Thread(target=ask, daemon=True).start()
    return answered.wait(seconds)


def has_nvidia():
    """Whether a Linux has an NVIDIA driver, its own or WSL's."""
    return any(map(os.path.exists, ("/proc/driver/nvidia/version", "/dev/nvidiactl", "/usr/lib/wsl/lib/nvidia-smi")))


def torch_options():
    """pip's options for where PyTorch comes from; says which place it took."""
    if not sys.platform.startswith("linux") or has_nvidia():
        say("PyTorch: pip's own index.")
        return []
    if answers(CPU_INDEX + "/torch/"):
        say(f"PyTorch: no NVIDIA GPU here, so the CPU build of {CPU_INDEX}.")
        return ["--extra-index-url", CPU_INDEX]
    say("PyTorch: its CPU index did not answer within two seconds, so pip's own index.")
    return []


def pip_install(requirement, options, environ):
    """Install into .venv, showing the package at hand on a terminal; all that pip says goes to the log."""
    command = [python_of(VENV), "-m", "pip", "install", "--progress-bar", "off", "-e", requirement, *options]
    lines = []
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env={"PIP_RETRIES": "3", **environ},  # not a minute and a half until it says that there is no network
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
    )
    with process, open(LOG, "w", encoding="utf-8") as log:
        for line in process.stdout:
            log.write(line)
            lines.append(line.strip())
            if sys.stderr.isatty() and line.startswith(("Collecting ", "Installing ")):
                print(f"\r\033[K  {line.strip():.70}", end="", file=sys.stderr, flush=True)
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr, flush=True)
    if process.returncode == 0:
        return
    if any(map(NO_CONNECTION.search, lines)):
        raise SetupError(f"pip could not reach its index: connect to the network and run the command again ({LOG}).")
    reasons = [line for line in lines if line.startswith("ERROR:")] or lines[-1:] or ["ERROR: no reason given"]
    raise SetupError(f"pip could not install the packages, see {LOG}: {reasons[0]}")


def read_stamp():
    """What the last complete set-up left: the hash of its pyproject.toml, and the extras; empty before that."""
    try:
        with open(STAMP, encoding="utf-8") as file:
            return json.load(file)
    except FileNotFoundError:
        return {"pyproject": "", "extras": []}


def size_of(folder):
    """The bytes of all files below a folder; of one that is not there 0."""
    sizes = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):  # a link to nowhere
                sizes += os.lstat(os.path.join(place, name)).st_size
    return sizes


def announce(extras):
    """Says what a set-up takes before it takes it."""
    megabytes = SIZES[extras] if extras in SIZES else max(SIZES.values())
    say(
        f"This is set up once, in {VENV}: about {megabytes / 1000:.1f} GB of disk ({DISK / 1e9:.0f} GB free while it "
        "runs; a Linux with an NVIDIA GPU takes several GB more), two minutes and a network, which nothing needs "
        "afterwards. Working takes 1 GB of memory, so a machine with 4 GB will do."
    )


def set_up(extras, environ):
    """The prefix of .venv with the course and the wanted extras installed; at once where they are already."""
    with open(os.path.join(ROOT, "pyproject.toml"), encoding="utf-8") as file:
        pyproject = file.read()
    digest = hashlib.sha256((ROOT + pyproject).encode()).hexdigest()  # a folder that was moved is installed anew
    usable = os.path.exists(python_of(VENV))  # no longer where the Python that made it is gone
    stamp = read_stamp()
    if usable and stamp["pyproject"] == digest and set(extras) <= set(stamp["extras"]):
        return VENV
    if not usable or not stamp["pyproject"]:
        check_disk(shutil.disk_usage(ROOT).free)
    if not usable:
        check_python(sys.version_info, pyproject)
        check_ensurepip()
    extras = sorted({*extras, *stamp["extras"]})
    if not usable or extras != stamp["extras"]:
        announce(tuple(extras))
    if not usable:
        say(f"Making {VENV} ...")
        made = subprocess.run([sys.executable, "-m", "venv", "--clear", VENV], env=environ, stdout=sys.stderr)
        if made.returncode:
            raise SetupError(
                f"{sys.executable} could not make {VENV}: mend what it says above and run the command again."
            )
    started, size_before = time.monotonic(), size_of(VENV)
    say("Installing packages ...")
    pip_install("." + (f"[{','.join(extras)}]" if extras else ""), torch_options(), environ)
    torch = " ".join(os.path.basename(found)[: -len(".dist-info")] for found in distributions(VENV, "torch"))
    megabytes = (size_of(VENV) - size_before) / 1e6
    say(f"Installed in {time.monotonic() - started:.0f} s: {megabytes:.0f} MB, with {torch}.")
    with open(STAMP, "w", encoding="utf-8") as file:
        json.dump({"pyproject": digest, "extras": extras}, file)
    return VENV


def clean(environ):
    """The environment variables without those that let packages in from outside the course's environment."""
    leaks = ("PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "PYTHONUSERBASE", "__PYVENV_LAUNCHER__")
    return {**{name: value for name, value in environ.items() if name not in leaks}, "PYTHONNOUSERSITE": "1"}


def activated(prefix, environ):
    """The environment variables that a program of the environment at `prefix` sees."""
    path = os.path.dirname(python_of(prefix)) + os.pathsep + environ.get("PATH", os.defpath)
    return {**environ, "PATH": path, "VIRTUAL_ENV": prefix}


def program(command, arguments):
    """The module and arguments that a command runs, and the extras it needs."""
    if command in LEARNERS:
        return ["-m", "autogradlab", command, *arguments], EVERYTHING if "--author" in arguments else LEARNERS_ALONE
    # The tests of a file share what it set up, so they stay together; in their order, in which long files come first
    # (by their number of tests they would come last, and one process would wait for the other).
    if command == "test":
        return ["-m", "pytest", "-n", "2", "--dist", "loadfile", "--no-loadscope-reorder", *arguments], EVERYTHING
    return ["-m", "autograder", command, *arguments], EVERYTHING


def execute(line, environ):
    """Run a command line in this process's place, or on Windows, which knows no such thing, below it: its exit code."""
    if os.name != "nt":
        os.execve(line[0], line, environ)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Control-C is the program's to understand
    return subprocess.call(line, env=environ)


def usage():
    rows = {**LEARNERS, **INSTRUCTORS, "test": TEST}
    return "\n".join(["usage: run.py COMMAND [OPTION ...]", "", *(f"  {name:10}{text}" for name, text in rows.items())])


def main(arguments, environ):
    if arguments[:1] in (["--help"], ["-h"]):
        print(usage())
        return 0
    if not arguments or arguments[0] not in {*LEARNERS, *INSTRUCTORS, "test"}:
        say((f"There is no command `{arguments[0]}`.\n\n" if arguments else "") + usage())
        return 2
    module, extras = program(arguments[0], arguments[1:])
    environ = clean(environ)
    try:
        prefix = active_environment(environ, extras) or set_up(extras, environ)
    except SetupError as error:
        say(str(error))
        return 2
    if arguments[0] == "test":
        os.chdir(ROOT)  # pytest finds its settings and the tests from here
    return execute([python_of(prefix), *module], activated(prefix, environ))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], dict(os.environ)))
