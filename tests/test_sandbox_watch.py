"""The watch sees from outside which limit a child is over, and takes nothing else for one."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from autograder.engine.limits import Limits
from autograder.sandbox.watch import Watch

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the sandbox needs Linux")

LIMITS = Limits(memory=64 << 20, threads=20, disk=1 << 20, files=50, file_bytes=512 << 10)
PROGRAM = """
import json, mmap, os, sys, tempfile, threading
from pathlib import Path
from autograder.engine.limits import Limits
from autograder.sandbox import enter, plan
limits, without, strong, scratch = json.loads(sys.argv[1])
made = plan([], Limits(**limits), strong=strong, without=without)
pid = os.fork()
if pid == 0:
    entered = enter(made, Path(scratch))
    print("ready", os.getpid(), flush=True)
    while not os.path.exists("go"):
        threading.Event().wait(0.01)
    held = []
    exec(sys.argv[2])
    print(json.dumps(entered), flush=True)
    threading.Event().wait(60)
    os._exit(0)
os.waitpid(pid, 0)
"""
BODIES = {
    "memory": "held.append(b'x' * (80 << 20))",
    "shared memory": "held.append(mmap.mmap(-1, 80 << 20)); [held[0].write(b'x' * (8 << 20)) for _ in range(10)]",
    "threads": "[threading.Thread(target=threading.Event().wait, args=(60,), daemon=True).start() for _ in range(30)]",
    "files": "[Path(str(number)).touch() for number in range(60)]",
    "files in folders": "[os.makedirs(f'{number}/inner') for number in range(30)]",
    "disk": "[Path(str(number)).write_bytes(bytes(400 << 10)) for number in range(3)]",
    "removed files": """
for number in range(3):
    held.append(open(str(number), 'wb'))
    held[-1].write(bytes(400 << 10))
    held[-1].flush()
    os.unlink(str(number))
""",
    "removed and mapped files": """
for number in range(3):
    with open(str(number), 'w+b') as file:
        file.write(bytes(400 << 10))
        file.flush()
        held.append(mmap.mmap(file.fileno(), 4096))
    os.unlink(str(number))
""",
}
REASONS = {
    "shared memory": "memory",
    "files in folders": "files",
    "removed files": "disk",
    "removed and mapped files": "disk",
}


class Child:
    """A child in the sandbox that waits, does one thing, and waits again."""

    def __init__(self, scratch: Path, body: str, limits: Limits = LIMITS, without: dict | None = None, strong=False):
        fields = {name: getattr(limits, name) for name in ("memory", "threads", "disk", "files", "file_bytes")}
        request = json.dumps([fields, without or {}, strong, str(scratch)])
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-P", "-c", PROGRAM, request, body], stdout=subprocess.PIPE, text=True, cwd="/tmp"
        )
        self._scratch = scratch
        self.pid = int(self._process.stdout.readline().split()[1])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.kill()
        self._process.communicate()

    def go(self) -> dict:
        """Lets it do its thing; what `enter` said, once it is done."""
        Path(f"/proc/{self.pid}/root{self._scratch}/go").touch()
        return json.loads(self._process.stdout.readline())


@pytest.mark.parametrize("body", BODIES)
def test_a_limit_that_is_over_is_named(body, tmp_path):
    with Child(tmp_path, BODIES[body]) as child:
        watch = Watch(child.pid, tmp_path, LIMITS)
        assert watch.look() is None
        child.go()
        assert looked(watch) == REASONS.get(body, body)


def looked(watch: Watch) -> str | None:
    """What the watch says within the time in which it walks again."""
    deadline = time.monotonic() + 5
    while (reason := watch.look()) is None and time.monotonic() < deadline:
        time.sleep(0.02)
    return reason


def test_what_stays_below_the_limits_is_not_named(tmp_path):
    body = (
        "Path('a').write_bytes(bytes(400 << 10)); os.link('a', 'b'); os.link('a', 'c'); held.append(b'x' * (30 << 20))"
    )
    with Child(tmp_path, body) as child:
        watch = Watch(child.pid, tmp_path, LIMITS)
        child.go()
        deadline = time.monotonic() + 0.5
        while time.monotonic() < deadline:
            assert watch.look() is None
            time.sleep(0.02)


def test_folders_deeper_than_a_path_can_be_long_are_over_the_limit_of_files(tmp_path):
    body = "for _ in range(30): os.mkdir('d' * 200); os.chdir('d' * 200)"
    with Child(tmp_path, body) as child:
        watch = Watch(child.pid, tmp_path, LIMITS)
        child.go()
        assert looked(watch) == "files"


def test_a_process_that_was_started_is_seen_where_nothing_forbids_it(tmp_path):
    body = "held.append(os.fork()) or held[0] or threading.Event().wait(5) or os._exit(0)"
    with Child(tmp_path, body, without={"seccomp": "left out by a test"}) as child:
        watch = Watch(child.pid, tmp_path, LIMITS)
        assert watch.look() is None
        child.go()
        assert looked(watch) == "processes"


def test_a_child_that_has_ended_is_over_no_limit(tmp_path):
    with Child(tmp_path, "os._exit(0)") as child:
        watch = Watch(child.pid, tmp_path, LIMITS)
        Path(f"/proc/{child.pid}/root{tmp_path}/go").touch()
        deadline = time.monotonic() + 5
        while Path(f"/proc/{child.pid}").exists() and time.monotonic() < deadline:
            assert watch.look() is None
        assert not Path(f"/proc/{child.pid}").exists()
        assert watch.look() is None


def test_in_a_private_root_the_kernel_stops_what_the_watch_names(tmp_path):
    body = """
try:
    for number in range(8):
        Path(str(number)).write_bytes(bytes(400 << 10))
except OSError as error:
    held.append(error.errno)
"""
    with Child(tmp_path, body, strong=True) as child:
        watch = Watch(child.pid, tmp_path, LIMITS)
        entered = child.go()
        assert looked(watch) == "disk"
        # Without the right to mount, the same is seen in the folder itself.
        assert (entered["private root"] == "on") == (not any(tmp_path.iterdir()))
