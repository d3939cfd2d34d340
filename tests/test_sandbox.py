"""What a child can do in the sandbox and what it cannot, as root and as an ordinary user."""

import errno
import functools
import json
import os
import platform
import shlex
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import autogradlab
import pytest

from autograder.engine.limits import Limits
from autograder.sandbox import LAYERS, LEVELS, Plan, plan, report
from autograder.sandbox.probes import ATTEMPTS

pytestmark = pytest.mark.skipif(platform.system() != "Linux", reason="the sandbox needs Linux")

ROOT = Path(__file__).resolve().parent.parent
PROGRAM = ROOT / "tests" / "fixtures" / "sandboxed.py"
LAB = Path(autogradlab.__file__).parent
USER = "20001"
BECOME = ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups"]


def in_open_home(command: list[str]) -> list[str]:
    """The command, run by root where every user can reach the interpreter, even if it lies in root's home."""
    home = "/root"
    base = Path(sys.base_prefix).resolve()
    if not base.is_relative_to(home):
        return command
    kept = Path(home, *base.relative_to(home).parts[:1])
    script = f"""
        set -e
        held=$(mktemp -d)
        mount --bind {shlex.quote(str(kept))} "$held"
        mount -t tmpfs -o mode=755 tmpfs {home}
        mkdir {shlex.quote(str(kept))}
        mount --bind "$held" {shlex.quote(str(kept))}
        umount "$held"
        rmdir "$held"
        exec {shlex.join(command)}
    """
    return ["unshare", "--mount", "sh", "-c", script]


def as_user(command: list[str]) -> list[str]:
    """The command, run by an ordinary user."""
    return in_open_home([*BECOME, *command])


def identities() -> list[str]:
    """Ourselves, and an ordinary user if we can become one."""
    if platform.system() != "Linux" or os.getuid() != 0:
        return ["ourselves"]
    possible = subprocess.run(as_user([sys.executable, "-c", ""]), capture_output=True, check=False).returncode == 0
    return ["ourselves", "user"] if possible else ["ourselves"]


IDENTITIES = identities()
both_users = pytest.mark.parametrize("identity", IDENTITIES)
both_strengths = pytest.mark.parametrize("strong", [False, True], ids=["default", "strong"])


def command(identity: str, request: dict) -> list[str]:
    """The command that runs a body of tests/fixtures/sandboxed.py."""
    words = [sys.executable, "-I", "-P", str(PROGRAM), json.dumps(request)]
    wrappers = {"user": as_user, "root in an open home": in_open_home}
    return wrappers[identity](words) if identity in wrappers else words


@functools.cache
def outcome(identity: str, body: str, **options) -> dict:
    """What the body found in a child, and what was seen from outside."""
    request = {"body": body, "readable": [str(LAB)], "repository": str(ROOT)} | {
        name: json.loads(value) if isinstance(value, str) else value for name, value in options.items()
    }
    done = subprocess.run(
        command(identity, request),
        input="secret on stdin",
        capture_output=True,
        text=True,
        timeout=120,
        cwd="/tmp",
        env=os.environ | {"A_SECRET": "in the environment"},
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


SMALL_FILES = json.dumps({"file_bytes": 1 << 20})


def walls(identity: str, strong: bool = False, without: str = "{}") -> dict:
    """The outcome of the body that runs into every wall."""
    return outcome(identity, "walls", strong=strong, without=without, limits=SMALL_FILES)


@both_strengths
@both_users
def test_what_notebooks_do_works(identity, strong):
    answer = outcome(identity, "work", strong=strong)
    assert answer["status"] == 0
    found = answer["found"]
    assert found["trained"] and found["loaded"] and found["touched"] and found["temporary"]
    assert found["threads"] == list(range(8))
    assert bytes.fromhex(found["picture"]) == b"\x89PNG"
    assert found["asyncio"] == found["autogradlab"] == "done"


@both_strengths
@both_users
def test_what_needs_another_process_is_refused_with_an_ordinary_error(identity, strong):
    found = outcome(identity, "work", strong=strong)["found"]
    for name in ("subprocess", "posix_spawn", "multiprocessing"):
        assert found[name].startswith("PermissionError: [Errno 1]"), name
    for name in ("workers", "pool"):
        assert found[name].startswith(("PermissionError", "FileNotFoundError")), name
    assert not found["system"]


@both_users
def test_too_much_memory_is_an_error_that_the_cell_survives(identity):
    found = outcome(identity, "work", strong=False)["found"]
    assert "can't allocate memory" in found["too much"]
    assert found["after all"] == 3.0


@both_strengths
@both_users
def test_every_attempt_to_escape_is_refused(identity, strong):
    answer = walls(identity, strong)
    for layer, attempts in ATTEMPTS.items():
        for attempt, refusals in attempts.items():
            assert answer["found"]["attempts"][attempt] in refusals, (layer, attempt)
    assert answer["reached"] == []
    assert set(answer["found"]["attempts"]) == {attempt for attempts in ATTEMPTS.values() for attempt in attempts}


@both_strengths
@both_users
def test_the_level_is_standard_and_strong_only_with_both_extras(identity, strong):
    answer = walls(identity, strong)
    entered = answer["entered"]
    assert tuple(entered) == LAYERS
    for layer in ("descriptors", "rlimits", "landlock", "capabilities", "seccomp"):
        assert entered[layer] == "on"
    extras = entered["namespaces"] == entered["private root"] == "on"
    assert answer["level"] == ("STRONG" if extras else "STANDARD")
    assert not (extras and not strong)
    assert answer["lines"][0].startswith(f"sandbox: {answer['level']}")
    assert len(answer["lines"]) == 1 + len(answer["layers"])


@both_strengths
@both_users
def test_nothing_but_the_scratch_folder_and_libraries_can_be_reached(identity, strong):
    found = walls(identity, strong)["found"]
    for name in ("repository", "passwd", "shared memory", "root", "up by hand", "through /proc", "symbolic link"):
        refused = ("PermissionError", "FileNotFoundError", f"OSError: [Errno {errno.EROFS}]")
        assert found[name].startswith(refused), (name, found[name])
    assert found["mine"] == "mine"
    assert found["prepared"] == "1,2"


@both_strengths
@both_users
def test_modes_and_owners_of_files_outside_stay(identity, strong):
    answer = walls(identity, strong)
    assert answer["mode kept"]
    assert answer["found"]["owner of a secret"].startswith("PermissionError")


@both_users
def test_nothing_of_the_parent_is_inherited(identity):
    found = walls(identity)["found"]
    assert found["stdin"] == ""
    assert found["first environment"] == ""
    assert found["home"] and found["leads a session"]
    # Three standard ones, the pipe that was kept, and the one that lists this folder.
    assert len(found["descriptors"]) == 5
    assert not {name for name in found["environment"] if "SECRET" in name or name in ("PWD", "VIRTUAL_ENV")}


@both_users
def test_folders_that_hide_their_files_cannot_be_made(identity):
    found = walls(identity)["found"]
    assert found["blind folder"].startswith("PermissionError")
    assert found["blind mask"].startswith("PermissionError")


@both_users
def test_a_child_signals_itself_only_and_stays_tied_to_its_parent(identity):
    found = walls(identity)["found"]
    assert found["signal to itself"] == "done"
    assert found["signal to the group"].startswith("PermissionError")
    assert found["outlive"] == -1
    assert found["become root"].startswith("PermissionError")


@both_users
def test_files_that_become_too_large_are_an_error(identity):
    assert walls(identity)["found"]["file limit"].startswith(f"OSError: [Errno {errno.EFBIG}]")


@pytest.mark.skipif("user" not in IDENTITIES, reason="only root can become another user")
@both_strengths
def test_a_child_of_root_becomes_another_user_where_that_one_can_reach_everything(strong):
    answer = outcome("root in an open home", "work", strong=strong)
    assert answer["entered"]["other uid"] == "on"
    assert answer["found"]["trained"] and answer["found"]["temporary"]


@pytest.mark.skipif("user" not in IDENTITIES, reason="only root can become another user")
def test_a_child_of_root_stays_root_where_its_scratch_folder_is_closed_to_others():
    answer = outcome("root in an open home", "work", closed=True)
    assert answer["entered"]["other uid"] == "the scratch folder is not open to other users"
    assert answer["found"]["trained"] and answer["found"]["temporary"]


def test_streams_of_a_pair_work():
    assert walls("ourselves")["found"]["seccomp pair"] == "done"


def test_open_files_are_limited():
    found = outcome("ourselves", "descriptors", limits=json.dumps({"descriptors": 100}))["found"]
    assert found["error"] == errno.EMFILE
    assert 90 <= found["held"] <= 100


@pytest.mark.parametrize(
    ("missing", "opened"),
    [
        ("landlock", {"files"}),
        ("seccomp", {"network", "processes"}),
        ("rlimits", {"memory", "time", "disk"}),
    ],
)
def test_a_missing_layer_is_told_and_lowers_the_level(missing, opened):
    answer = walls("ourselves", without=json.dumps({missing: "left out by a test", "namespaces": "left out by a test"}))
    assert answer["entered"][missing] == "left out by a test"
    assert answer["level"] == "WEAK"
    for layer in opened:
        assert answer["layers"][layer].startswith(("open", "off")), layer


@pytest.mark.parametrize(
    ("missing", "needed"), [("landlock", "read a secret"), ("seccomp", "fork"), ("rlimits", "file of 1 TiB")]
)
def test_the_probes_succeed_where_nothing_stops_them(missing, needed):
    answer = walls("ourselves", without=json.dumps({missing: "left out by a test", "namespaces": "left out by a test"}))
    assert answer["found"]["attempts"][needed] == "allowed"


def test_the_targets_hear_what_gets_out():
    everything = json.dumps(dict.fromkeys(LAYERS, "left out by a test"))
    answer = walls("ourselves", without=everything)
    assert answer["level"] == "NONE"
    assert set(answer["reached"]) == {*ATTEMPTS["network"], "write outside", "empty a file outside"}


def test_a_child_dies_with_its_parent():
    request = {"body": "orphan", "readable": [], "repository": str(ROOT)}
    with subprocess.Popen(command("ourselves", request), stdout=subprocess.PIPE, cwd="/tmp") as parent:
        child = int(parent.stdout.readline())
        assert is_alive(child)
        parent.send_signal(signal.SIGKILL)
        parent.wait(10)
        deadline = time.monotonic() + 10
        while is_alive(child) and time.monotonic() < deadline:
            time.sleep(0.02)
        assert not is_alive(child)


def is_alive(pid: int) -> bool:
    """Whether the process runs, and is more than an entry that nobody has waited for."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"


def test_a_plan_is_plain_data():
    made = plan([LAB], Limits())
    assert Plan.of(json.loads(json.dumps(made.plain()))) == made


def test_a_plan_opens_the_course_package_and_not_its_siblings():
    made = plan([LAB], Limits())
    assert str(LAB) in made.readable
    for path in (ROOT, ROOT / "course", ROOT / "autograder", ROOT / "source", Path.home(), Path("/etc/passwd")):
        assert not any(Path(os.path.realpath(opened)) in (path, *path.parents) for opened in made.readable), path


def test_without_layers_the_level_is_none_and_the_reason_is_told():
    reason = "needs Linux on x86_64 or aarch64: use WSL2, or a container there"
    made = replace(plan([], Limits()), layers=(), off=dict.fromkeys(LAYERS, reason))
    told = report({}, {}, made)
    assert told.level == LEVELS[0] == "NONE"
    assert all(reason in text for text in told.json().values())


def test_an_attempt_that_was_not_made_does_not_count_as_refused():
    made = plan([], Limits())
    entered = dict.fromkeys(LAYERS, "on")
    told = report(entered, {}, made)
    assert told.level == "WEAK"
    assert told.json()["files"].startswith("open: read a secret")
