"""The grading engine attacked by somebody who has read it: each hole that was found, as a kind, stays closed."""

import contextlib
import functools
import json
import random
import re
import struct
import sys
import tempfile
import time
import zlib
from pathlib import Path
from types import SimpleNamespace

import nbformat
import pytest
from autogradlab.encoding import EncodingError, encode, pack, unpack
from autogradlab.observation import observe

from autograder import grading
from autograder.engine import comparing, referee
from autograder.engine.knowledge import Unit
from autograder.engine.limits import Limits
from autograder.engine.outputs import KEPT_OUTPUTS, Left, assemble
from autograder.engine.runner import NotebookRun
from autograder.engine.supervisor import Parent
from autograder.intake.files import Folder, travelling
from autograder.sandbox import scratch

ROOT = Path(__file__).resolve().parent.parent
UNIT = "05_accumulating_gradients"
ANSWER = "fresh_gradients"
WRONG = f"def {ANSWER}(w, x, steps):\n    return 123456.0\n"
MIB = 1 << 20
LIMITS = Limits(cell_seconds=6, notebook_seconds=120, disk=64 * MIB)
#: What a cell starts with that speaks to the referee itself.
INSIDE = """
import gc, sys
sys.setrecursionlimit(20_000)
channel = next(one for one in gc.get_objects() if type(one).__name__ == "ChildSide")

def change_replies(change):
    honest = type(channel).reply
    channel.reply = lambda plain: honest(channel, change(plain))
"""
#: Ends a terminal's line, colours, titles a window, turns writing round, and is no character at all.
NASTY = "\x1b[31m\x1b]0;title\x07\x9b31m\x08\u202etxt\ud800<script>alert(1)</script>"
HARMFUL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\u202a-\u202e\u2066-\u2069]")

linux = pytest.mark.skipif(sys.platform != "linux", reason="the sandbox needs Linux")


# -------------------------------------------------------------------------------------------------- a small notebook


def built(kind: str):
    return nbformat.read(ROOT / kind / UNIT / f"{UNIT}.ipynb", 4)


@functools.cache
def solutions() -> dict[str, str]:
    marks = re.compile(r"^.*### (BEGIN|END) SOLUTION.*\n?", re.MULTILINE)
    cells = [cell for cell in built("source").cells if cell.metadata.get("nbgrader", {}).get("solution")]
    return {cell.metadata.nbgrader.grade_id: marks.sub("", cell.source) for cell in cells}


def cell(source: str, role: str, **nbgrader):
    made = nbformat.v4.new_code_cell(source)
    made.metadata["autogradlab"] = {"role": role, "changed": role == "answer"}
    if nbgrader:
        made.metadata["nbgrader"] = nbformat.from_dict(nbgrader)
    return made


def notebook(answers: dict[str, str], tests: dict[str, str]):
    """Set-up, and after each answer its test."""
    made = nbformat.v4.new_notebook()
    made.cells = [
        cell(one.source, "setup") for one in built("release").cells if "setup" in one.metadata.get("tags", ())
    ]
    for name, source in answers.items():
        made.cells.append(cell(source, "answer", grade_id=name, solution=True, grade=False))
        test = tests.get(name, f'check("{name}")')
        made.cells.append(cell(test, "test", grade_id=f"{name}_tests", grade=True, solution=False, points=3))
    return made


class Graded:
    """One notebook that was run: what its cells came to, and what the answer that attacks has put out."""

    def __init__(self, run: NotebookRun, made, attacker: str):
        self.cells, self.notebook = run.cells, made
        self.attacked = run.cells[f"{attacker}_tests"]
        self.outputs = next(
            one.outputs for one in made.cells if one.metadata.get("nbgrader", {}).get("grade_id") == attacker
        )
        self.said = json.dumps(self.outputs)
        # As it is written to autograded/.
        nbformat.v4.writes(made).encode()

    @property
    def next_is_right(self) -> bool:
        return self.cells["train_tests"].score == 3


@pytest.fixture(scope="module")
def unit():
    return Unit(UNIT, ROOT / "course", "5eed")


@pytest.fixture(scope="module")
def parent():
    made = Parent(grading.plan_here(LIMITS), LIMITS)
    yield made
    made.close()


@pytest.fixture
def grade(parent, unit):
    """Grades a notebook of an attacking answer and an honest one after it."""
    files = {name: (ROOT / "release" / UNIT / name).read_bytes() for name in ("cases.py", "recorded.bin", "digits.npy")}

    def graded(source: str, attacker: str = ANSWER, tests: dict[str, str] | None = None) -> Graded:
        made = notebook({attacker: source, "train": solutions()["train"]}, tests or {})
        run = NotebookRun(parent, made, files, unit, 7)
        run.run()
        return Graded(run, made, attacker)

    return graded


# ----------------------------------------------------------------------------------- what the referee is made to eat


@linux
@pytest.mark.parametrize("value", ["torch.zeros(()).expand((1 << 24) - 1)", "range(10**12)", "range(10**40)"])
def test_a_few_bytes_that_stand_for_endless_elements_are_missed_at_once(grade, value):
    began = time.process_time()
    graded = grade(f"def {ANSWER}(w, x, steps):\n    return {value}\n")
    assert graded.attacked.score == 0 and graded.attacked.reason == "wrong"
    assert time.process_time() - began < 5
    assert graded.next_is_right


def test_a_comparison_that_never_ends_is_ended_whatever_it_catches(monkeypatch):
    monkeypatch.setattr(comparing, "SECONDS", 0.2)
    with (
        pytest.raises(comparing.NoVerdict, match="What f returned took longer"),
        comparing.comparing("What f returned"),
    ):
        while True:
            with contextlib.suppress(Exception):
                while True:
                    pass


@linux
def test_a_comparison_cannot_take_all_memory(monkeypatch):
    monkeypatch.setattr(comparing, "MEMORY", 64 * MIB)
    with pytest.raises(comparing.NoVerdict, match="more than 64 MiB"), comparing.comparing("What f returned"):
        bytearray(256 * MIB)
    assert len(bytearray(256 * MIB)) == 256 * MIB


def deep(levels: int) -> list:
    return functools.reduce(lambda inner, _: [inner], range(levels), [])


STRANGE = [
    None,
    True,
    -1,
    1 << 62,
    float("nan"),
    float("inf"),
    "",
    NASTY,
    "9" * 5000,
    b"abc",
    [],
    {},
    [None],
    deep(900),
]
STRANGE += [{"tree": {}, "storages": []}, {"$": "tensor"}, {"$": "opaque tensor"}, {"$": "plain", "value": [1]}]
STRANGE += [{"$": "range", "parts": [0, 10**12, 1]}, {"$": "int", "hex": "0x" + "f" * 20_000}]
STRANGE += [{"$": "object", "type": NASTY}, {"$": "exception", "types": [NASTY], "message": NASTY * 500}]
STRANGE += [{"$": "array", "dtype": "<f8", "shape": [1 << 40], "data": b""}, {"$": "complex", "parts": ["1", 2]}]
STRANGE += [{"$": "set", "items": [[1], {"$": "list", "items": []}]}, {"$": "subclass", "type": "float64", "value": {}}]
STRANGE += [{"$": "module", "type": "M", "training": 1, "modules": {}, "parameters": {"p" * MIB: 1}, "buffers": {}}]
STRANGE += [{"$": "optimizer", "type": "x", "state": {}, "groups": [{}]}, {"$": "dict", "items": [[1]]}]


def strange(draw: random.Random):
    return unpack(pack(draw.choice(STRANGE)))


def places(plain, path=()):
    """Yields the paths to all parts of plain data, of long lists to the first ones."""
    for key in plain if type(plain) is dict else range(min(len(plain), 30)) if type(plain) is list else ():
        yield (*path, key)
        yield from places(plain[key], (*path, key))


def changed(draw: random.Random, plain):
    """The plain data with a few parts replaced, left out, doubled or exchanged."""
    plain = unpack(pack(plain))
    for _ in range(draw.choice([1, 1, 2, 3])):
        path = draw.choice(list(places(plain)) or [None])
        if path is None:
            return plain
        *way, key = path
        at = functools.reduce(lambda inner, step: inner[step], way, plain)
        match draw.randrange(8):
            case 0 if type(at) is dict:
                del at[key]
            case 1 if type(at) is list:
                at.insert(key, at[key])
            case 2 if type(at) is dict:
                at[draw.choice(["$", "tree", "storages", "shape", "grad"])] = strange(draw)
            case _:
                at[key] = strange(draw)
    return plain


@contextlib.contextmanager
def deep_recursion():
    """A child can raise its own limit; the referee's stays."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(20_000)
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


def lying(known, draw: random.Random, observations: list, described: dict):
    """What stands for a child that answers almost as it should."""

    def ask(request: dict, foreseen=None) -> dict:
        reply = {"defined": True, "stub": "-", "callable": True, "shown": "f"}
        if request["op"] == "observe":
            place, one = draw.randrange(len(observations)), list(observations)
            with deep_recursion():
                one[place] = changed(draw, one[place])
            reply = {"observations": [described] if request["describe"] else one}
        with deep_recursion():
            sent = pack(changed(draw, reply) if draw.random() < 0.2 else reply)
        try:
            return unpack(sent)
        except EncodingError:  # which the wire refuses
            return {}

    return ask


@pytest.mark.parametrize("name", ["fresh_gradients", "first_wrong", "train", "accumulate", "frozen_step"])
def test_whatever_a_child_says_there_is_a_verdict_with_harmless_words(unit, name):
    known = unit.exercises[name]
    programs = [known.expected(), known.candidates()[0].observations]
    seed, index, dtype, device, _ = known.cases[0]
    described = observe(known.exercise, lambda *_: None, seed, index, dtype, device, describe=True)
    for number in range(60):
        draw = random.Random(f"{name} {number}")
        result = referee.check(unit, name, lying(known, draw, programs[number % 2], described))
        assert 0 <= result <= known.points
        record = json.dumps(result.record, ensure_ascii=False)
        assert not HARMFUL.search(record) and not HARMFUL.search(result.html) and "<script>" not in result.html
        assert len(record) < 200_000 and len(result.html) < 200_000


@pytest.mark.parametrize(
    "answers",
    [[10**5000], [7, range(10**12)], [float("nan"), None, "x" * 100_000], [[[[]]]] * 20_000],
)
def test_answers_to_a_prediction_are_small_or_none(unit, answers):
    replies = {"look": {"defined": True, "stub": "-", "callable": True, "shown": "f"}}
    replies["predict"] = {"given": encode((7, answers)), "raised": None}
    result = referee.check(unit, "meter_reading", lambda request, *_: replies[request["op"]])
    assert result == 0 and result.record["status"] == "wrong"


def test_an_array_that_becomes_gigabytes_of_text_is_no_answer(unit):
    import numpy

    replies = {"look": {"defined": True, "stub": "-", "callable": True, "shown": "f"}}
    replies["predict"] = {"given": encode((7, [numpy.zeros(32 * MIB, numpy.int8)])), "raised": None}
    result = referee.check(unit, "meter_reading", lambda request, *_: replies[request["op"]])
    assert "too large for answers" in result.text


def test_a_mistake_of_the_exercise_itself_is_no_zero(unit, monkeypatch):
    known = unit.exercises[ANSWER]
    monkeypatch.setattr(known.trial, "judge", lambda *_: [][0])
    replies = {"look": {"defined": True, "stub": "-", "callable": True, "shown": "f"}}
    replies["observe"] = {"observations": known.expected()}
    with pytest.raises(IndexError):
        referee.check(unit, ANSWER, lambda request, *_: replies[request["op"]])


@linux
@pytest.mark.parametrize(
    "error",
    [
        "{'name': 'PermissionError', 'value': 'v', 'files': [[1]]}",
        "{'name': [], 'value': {}, 'files': {}}",
        "'an error'",
    ],
)
def test_an_error_in_a_form_that_no_child_sends_is_an_ordinary_one(grade, error):
    graded = grade(
        INSIDE + WRONG + f"change_replies(lambda plain: plain | {{'error': {error}}} if 'count' in plain else plain)"
    )
    assert graded.attacked.score == 0 and graded.next_is_right


# ------------------------------------------------------------------------------------------------------- what is shown


@linux
def test_text_that_no_file_can_hold_and_no_terminal_should_see_is_left_out_of_all_outputs(grade):
    graded = grade(
        f"""
nasty = {NASTY!r}
print(nasty)
class Shown:
    def __repr__(self):
        return nasty
display(Shown())
{WRONG}
raise type("E", (Exception,), {{}})(nasty)
"""
    )
    assert len(graded.outputs) == 3 and graded.next_is_right
    assert not any(HARMFUL.search(text) for text in texts(graded.outputs))


def texts(value):
    """Yields all texts in an output."""
    if isinstance(value, str):
        yield value
    for one in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from texts(one)


@linux
def test_names_and_messages_of_a_class_reach_the_record_without_escapes(grade):
    body = f"raise type('N' + chr(27) + '[31m', (Exception,), {{}})({NASTY!r})"
    graded = grade(f"def {ANSWER}(w, x, steps):\n    {body}\n")
    assert graded.attacked.score == 0
    assert "raised N: " in graded.attacked.message and not HARMFUL.search(graded.attacked.message)


@linux
def test_a_cell_with_thousands_of_outputs_keeps_some_and_says_how_many_are_gone(grade):
    graded = grade(WRONG + "for _ in range(5000):\n    display('')\n")
    assert len(graded.outputs) == KEPT_OUTPUTS + 1
    assert f"{5000 - KEPT_OUTPUTS} outputs more" in graded.outputs[-1].text


def test_errors_count_as_text():
    event = {"type": "error", "name": "E", "value": "v" * 2000, "traceback": "t" * 20_000}
    assert sum(map(len, texts(assemble([event] * 1000, Left())))) < 200_000


def png(width: int, height: int) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"\0")) + chunk(b"IEND", b"")


@pytest.mark.parametrize("picture", [png(60_000, 60_000), b"<script>", b"\x89PNG\r\n\x1a\n<svg onload=alert(1)>" * 9])
def test_a_picture_that_would_fill_a_browsers_memory_or_is_none_is_not_kept(picture):
    first, *_ = assemble([{"type": "display", "text": "figure", "png": picture}], Left())
    assert first.data == {"text/plain": "figure"}


def test_an_ordinary_picture_is_kept():
    (shown,) = assemble([{"type": "display", "text": "figure", "png": png(4, 4)}], Left())
    assert set(shown.data) == {"text/plain", "image/png"}


@linux
@pytest.mark.parametrize(
    "flood",
    [
        "parts = [[] for _ in range(1 << 19)]\nfor _ in range(20): channel.event({'type': 'x', 'parts': parts})",
        "for _ in range(300_000): channel.event({'': ''})",
    ],
    ids=["nested", "tiny"],
)
def test_events_that_count_as_no_output_do_not_fill_the_referees_memory(grade, flood):
    graded = grade(INSIDE + WRONG + flood)
    assert graded.attacked.score == 0 and graded.attacked.reason == "died"
    assert graded.next_is_right


@linux
def test_a_program_that_flushes_every_line_is_no_attack(grade):
    graded = grade(solutions()[ANSWER] + "\nfor _ in range(150_000):\n    print('line', flush=True)\n")
    assert graded.attacked.score == 3 and "characters more" in graded.said


# --------------------------------------------------------------------------------------------- limits seen from outside


@linux
def test_a_process_whose_first_thread_has_ended_is_not_taken_for_one_that_uses_nothing(grade):
    graded = grade(
        WRONG
        + """
import ctypes, threading, time
from pathlib import Path

def later():
    time.sleep(0.3)
    for number in range(6):
        Path(f"{number}").write_bytes(bytes(50 << 20))
    time.sleep(60)

threading.Thread(target=later).start()
ctypes.CDLL(None).syscall({"x86_64": 60, "aarch64": 93}[__import__("platform").machine()], 0)
"""
    )
    assert graded.attacked.score == 0 and graded.attacked.reason == "died"
    assert graded.next_is_right


@linux
def test_an_open_file_cannot_be_hidden_in_a_message_on_its_way(grade):
    graded = grade(
        WRONG
        + """
import socket
one, other = socket.socketpair()
with open("hidden", "wb") as file:
    socket.send_fds(one, [b"x"], [file.fileno()])
"""
    )
    assert "PermissionError" in graded.said


MAP = """
import ctypes, os, time
library = ctypes.CDLL(None)
library.mmap.restype = ctypes.c_void_p
library.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
library.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
"""


@linux
def test_memory_of_which_one_page_is_mapped_counts_whole(grade):
    graded = grade(
        WRONG
        + MAP
        + """
size = 100 << 20
for number in range(40):
    place = library.mmap(None, size, 3, 0x21, -1, 0)  # shared, anonymous
    ctypes.memset(place, 1, 1 << 20)
    library.munmap(place + 4096, size - 4096)
time.sleep(30)
"""
    )
    assert graded.attacked.reason == "memory" and graded.attacked.seconds < 5
    assert graded.next_is_right


@linux
@pytest.mark.parametrize("access", ["os.O_RDONLY", "os.O_RDWR"])
def test_memory_by_way_of_a_device_is_refused_or_a_mapping_of_zeros(grade, access):
    graded = grade(
        WRONG
        + MAP
        + f"""
place = library.mmap(None, 1 << 20, 1, 1, os.open("/dev/zero", {access}), 0)
print([line for line in open("/proc/self/maps") if "/dev/zero" in line])
"""
    )
    assert "Permission denied" in graded.said or "/dev/zero" in graded.said and "(deleted)" not in graded.said


@linux
def test_a_thread_cannot_have_open_files_of_its_own(grade):
    graded = grade(
        WRONG
        + """
import ctypes, os, platform
call = ctypes.CDLL(None, use_errno=True).syscall
number = {"x86_64": 56, "aarch64": 220}[platform.machine()]
stack = ctypes.create_string_buffer(1 << 16)
# CLONE_VM, CLONE_SIGHAND, CLONE_THREAD, and not CLONE_FILES
print(call(number, 0x10900, 0, 0, 0, 0), os.strerror(ctypes.get_errno()))
"""
    )
    assert "-1 Operation not permitted" in graded.said


@linux
def test_folders_in_folders_do_not_slow_the_look_at_the_disk_down(grade):
    graded = grade(
        WRONG
        + """
import os, time
top = os.getcwd()
for _ in range(1900):
    os.mkdir("a")
    os.chdir("a")
for number in range(6000):
    open(str(number), "w").close()
os.chdir(top)
time.sleep(1)
for number in range(10):
    with open(f"big{number}", "wb") as file:
        file.write(bytes(50 << 20))
time.sleep(30)
"""
    )
    assert graded.attacked.reason in ("files", "disk") and graded.attacked.seconds < 5
    assert graded.next_is_right


@linux
@pytest.mark.parametrize(
    ("ending", "reason"),
    [
        ("import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)", "timeout"),
        ("import socket\nchannel._connection.shutdown(socket.SHUT_WR)", "died"),
        ("import socket\nchannel._connection.shutdown(socket.SHUT_RD)", "died"),
        ("channel._connection.close()", "died"),
        ("channel.reply({'count': 1})\nchannel.reply({'count': 1})", "died"),
        ("channel.number += 5", "died"),
    ],
    ids=["stopped", "says nothing", "hears nothing", "closed", "answers twice", "answers in advance"],
)
def test_a_child_that_breaks_off_costs_its_own_exercise_alone(grade, ending, reason):
    graded = grade(INSIDE + WRONG + ending)
    assert (graded.attacked.score, graded.attacked.reason) == (0, reason)
    assert graded.next_is_right


# ------------------------------------------------------------------------------------------------- other notebooks


@linux
@pytest.mark.parametrize(
    "harm",
    [
        "os._exit(3)",
        "Path('big').write_bytes(bytes(50 << 20)), Path('more').write_bytes(bytes(50 << 20)), time.sleep(20)",
        "print('x' * (20 << 20))",
    ],
    ids=["ends the process", "fills the disk", "prints"],
)
def test_what_an_answer_leaves_running_does_not_cost_the_next_exercise(grade, harm):
    graded = grade(
        WRONG
        + f"""
import os, threading, time
from pathlib import Path
honest = get_ipython().run_cell

def run_cell(*arguments, **more):
    def harm():
        {harm}
    threading.Thread(target=harm).start()
    time.sleep(2)
    return honest(*arguments, **more)

get_ipython().run_cell = run_cell
"""
    )
    assert graded.attacked.score == 0
    assert graded.next_is_right and graded.cells["train_tests"].second_try


@linux
def test_one_notebook_cannot_read_what_another_has_written_to_the_process_output(grade):
    write = (
        "import os\nprint(os.readlink('/proc/self/fd/1'), os.readlink('/proc/self/fd/2'))\nos.write(1, b'an answer')\n"
    )
    assert "/dev/null /dev/null" in grade(write + WRONG).said


@linux
def test_nobody_watches_which_files_are_opened(grade, tmp_path):
    graded = grade(
        WRONG
        + f"""
import ctypes, os
library = ctypes.CDLL(None, use_errno=True)
watch = library.inotify_init()
print(watch, library.inotify_add_watch(watch, {str(tmp_path).encode()!r}, 0xFFF), os.strerror(ctypes.get_errno()))
"""
    )
    assert "-1 -1 Operation not permitted" in graded.said


def test_a_link_in_the_place_of_a_left_scratch_folder_is_not_followed(tmp_path, monkeypatch):
    kept = tmp_path / "course"
    kept.mkdir()
    (kept / "grades").write_text("kept")
    # No process has this number.
    (tmp_path / f"{scratch.PREFIX}99999999-x").symlink_to(kept)
    (tmp_path / f"{scratch.PREFIX}99999999-y").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    scratch.sweep()
    assert (kept / "grades").read_text() == "kept"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["course", f"{scratch.PREFIX}99999999-x"]


@pytest.mark.parametrize("name", ["cases.py/x", "unit.ipynb/x.txt", "data", "cases.py/data/x"])
def test_a_folder_in_the_place_of_a_file_of_the_assignment_is_left_out(name):
    own = {"cases.py": b"own", "data/digits.npy": b"own"}
    master = SimpleNamespace(ignored=(), files=own, replaceable=(), notebooks={"unit": None})
    folder = Folder(files={name: b"handed in", "notes.txt": b"mine"})
    files, _ = travelling(folder, master)
    assert files == own | {"notes.txt": b"mine"}
    assert len(folder.flags) == 1 and "in the place of the assignment's own" in folder.flags[0]


# ------------------------------------------------------------------------------------------------- forged verdicts


@linux
def test_what_a_notebook_does_to_the_functions_of_cases_changes_no_verdict(grade):
    graded = grade(
        """
right = ["the check of your names", "the check of your numbers", "the check of one step fewer"]
cases.review = lambda *arguments: dict.fromkeys(right, "nothing amiss")

def first_wrong(loop):
    return {}
""",
        attacker="first_wrong",
    )
    assert graded.attacked.score == 0


@linux
def test_an_earlier_observation_is_no_answer_to_a_fresh_case(grade):
    graded = grade(
        INSIDE
        + f"""
from autogradlab.recorded import Recorded
import os
kept = Recorded(__import__("pathlib").Path.cwd()).exercise("{ANSWER}").expected()

def change(plain):
    if "observations" in plain:
        plain["observations"] = [kept[number % len(kept)] for number in range(len(plain["observations"]))]
    return plain

change_replies(change)
{WRONG}
"""
    )
    assert graded.attacked.score == 0 and graded.attacked.reason == "wrong"
    assert "Error" not in graded.said


@linux
@pytest.mark.parametrize(
    "value",
    [
        "type('S', (float,), {'__float__': lambda self: 3.0})(0)",
        "type('S', (float,), {'__module__': 'numpy', '__float__': lambda self: 3.0})(0)",
        "type('S', (int,), {'__repr__': lambda self: '3'})(0)",
        "type('T', (torch.Tensor,), {'item': lambda self: 3.0})(torch.tensor(0.0))",
    ],
)
def test_a_score_of_a_class_that_decides_itself_how_large_it_is_is_none(grade, value):
    graded = grade(f"{ANSWER} = {value}\n", tests={ANSWER: ANSWER})
    assert (graded.attacked.score, graded.attacked.reason) == (0, "invalid score")


@linux
@pytest.mark.parametrize("value", ["1.5", "torch.tensor(1.5)", "__import__('numpy').float64(1.5)"])
def test_a_score_of_an_ordinary_class_counts(grade, value):
    assert grade(f"{ANSWER} = {value}\n", tests={ANSWER: ANSWER}).attacked.score == 1.5


@linux
@pytest.mark.parametrize(
    ("source", "cause"),
    [
        (f"def {ANSWER}(w, x, steps:\n    return []\n", "SyntaxError"),
        (
            f"raise ValueError('not like this')\ndef {ANSWER}(w, x, steps):\n    return []\n",
            "ValueError: not like this",
        ),
    ],
)
def test_an_answer_whose_cell_ended_with_an_error_is_told_the_error_and_not_that_nothing_was_tried(
    grade, source, cause
):
    graded = grade(source)
    assert (graded.attacked.score, graded.attacked.reason) == (0, "wrong")
    assert f"{ANSWER} is not defined: its cell ended with {cause}" in graded.attacked.message
    assert graded.next_is_right


# ------------------------------------------------------------------------------ what can be forged, as docs/security.md


@linux
def test_costs_and_objects_that_are_kept_are_claims(grade):
    graded = grade(
        INSIDE
        + """
def accumulate(w, batches):
    rows = sum(len(y) for _, y in batches)
    w.grad = None
    loss = sum(((x @ w - y) ** 2).sum() for x, y in batches) / rows
    loss.backward()
    return loss.item()

def change(plain):
    for one in plain.get("observations", ()):
        one["returned"]["tree"]["graphs of earlier batches still alive"] = 0
        if "cost" in one:
            one["cost"]["peak_bytes"] = 1
            one["cost_over"] = {"batches": [one["cost"]] * 3}
    return plain

change_replies(change)
""",
        attacker="accumulate",
    )
    assert graded.attacked.score == 3


@linux
def test_a_gate_that_is_the_same_in_every_case_is_a_claim(grade):
    graded = grade(
        INSIDE
        + """
def first_wrong(loop):
    return {}

def change(plain):
    for one in plain.get("observations", ()):
        tree = one["returned"]["tree"]
        one["returned"]["tree"] = dict.fromkeys(tree, "nothing amiss")
    return plain

change_replies(change)
""",
        attacker="first_wrong",
    )
    assert graded.attacked.score == 3


BUILT = [path.name for path in sorted((ROOT / "release").iterdir()) if (path / "recorded.bin").is_file()]


@pytest.mark.parametrize("name", BUILT)
def test_exercises_whose_gate_is_the_same_in_every_case_are_named_in_the_documentation(name):
    told = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    exercises = Unit(name, ROOT / "course", "00").exercises
    forgeable = [one for one, known in exercises.items() if not known.exercise.is_prediction and same(known)]
    untold = [one for one in forgeable if f"`{one}`" not in told]
    assert untold == [], "let them ask for something that differs, or name them under What can still be forged"
    assert name != UNIT or forgeable == ["first_wrong"]


def same(known) -> bool:
    """Whether the gate asks for the same in every fresh case."""
    facets = known.exercise.requirements[0].facets
    seen = [
        [
            (place.name, place.when, repr(place.tree), place.storages and place.storages._blobs)
            for facet in facets
            for place in facet.places(observation)
        ]
        for observation in known.expected()
    ]
    return all(one == seen[0] for one in seen)
