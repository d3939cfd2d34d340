"""A program without end costs a check some seconds, and the notebook nothing."""

import functools
import linecache
import signal
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest
import torch
from autogradlab import limits
from autogradlab.limits import RanTooLong, within

needs_alarm = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="Windows has no alarm")


def program(source):
    """The function that a cell of a notebook defines."""
    source, file, names = textwrap.dedent(source), f"/tmp/ipykernel_1/{len(linecache.cache)}.py", {"torch": torch}
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    exec(compile(source, file, "exec"), names)
    return names["run"]


ENDLESS = {
    "a loop": "def run():\n    while True: pass",
    "a loop over tensors": "def run():\n    while True: torch.ones(10).sum()",
    "a loop that catches everything": """
        def run():
            while True:
                try:
                    torch.ones(10).sum()
                except:
                    pass
    """,
    "a generator": """
        def numbers():
            while True:
                yield 1

        def run():
            return sum(numbers())
    """,
}


@pytest.mark.parametrize("source", ENDLESS.values(), ids=ENDLESS)
def test_a_program_that_runs_on_is_interrupted_soon_after_its_time(source):
    start = time.perf_counter()
    with pytest.raises(RanTooLong):
        within(program(source), seconds=0.2)
    assert time.perf_counter() - start < 5
    assert sys.gettrace() is None or "autogradlab" not in str(sys.gettrace())


@needs_alarm
def test_a_wait_is_interrupted_too():
    start = time.perf_counter()
    with pytest.raises(RanTooLong):
        within(program("def run():\n    import time\n    time.sleep(60)"), seconds=0.2)
    assert time.perf_counter() - start < 5


@pytest.mark.parametrize("source", [ENDLESS["a loop"], ENDLESS["a generator"]], ids=["a loop", "a generator"])
def test_where_there_is_no_alarm_another_thread_interrupts(source):
    raised = []

    def elsewhere():
        try:
            within(program(source), seconds=0.2)
        except RanTooLong:
            raised.append(True)

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join(timeout=20)
    assert raised == [True]


def test_what_tidies_up_after_a_program_is_not_interrupted():
    source = """
        def tidied(run, seconds):
            try:
                run()
            finally:
                end = time.perf_counter() + seconds
                while time.perf_counter() < end:
                    pass
                done.append(True)
    """
    names = {"time": time, "done": []}
    exec(compile(textwrap.dedent(source), str(Path(limits.__file__).with_name("tidying.py")), "exec"), names)
    with pytest.raises(RanTooLong):
        # No function of this file's stands in between, which would count as a learner's; several alarms come meanwhile.
        within(functools.partial(names["tidied"], program(ENDLESS["a loop"]), 0.6), seconds=0.1)
    assert names["done"] == [True]


@needs_alarm
def test_a_program_in_time_is_left_alone_and_so_is_somebody_else_s_alarm():
    rung = []
    before = signal.signal(signal.SIGALRM, lambda *_: rung.append(True))
    old = signal.setitimer(signal.ITIMER_REAL, 0.3)
    try:
        assert within(lambda: 3, seconds=0.1) == 3
        end = time.perf_counter() + 5
        while not rung and time.perf_counter() < end:
            time.sleep(0.01)
        assert rung == [True]
    finally:
        signal.setitimer(signal.ITIMER_REAL, *old)
        signal.signal(signal.SIGALRM, before)


GROWING = {
    "tensors": "def run():\n    kept = []\n    while True: kept.append(torch.ones(100_000))",
    "one tensor": "def run():\n    return torch.ones(10**10)",
    "a list": "def run():\n    return [0] * 10**10",
    "a graph": "def run():\n    w = torch.ones(100_000, requires_grad=True)\n    while True: w = w.exp()",
}


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux bounds a process's private memory")
@pytest.mark.parametrize("source", GROWING.values(), ids=GROWING)
def test_a_program_that_takes_all_memory_gets_an_error_and_the_process_lives(source):
    with pytest.raises((MemoryError, RuntimeError)) as caught:
        within(program(source), memory=256 << 20)
    raised = {"type": type(caught.value).__name__, "message": str(caught.value)}
    assert limits.ran_out_of_memory(raised)
    del caught
    assert torch.ones(10_000_000).sum() == 10_000_000  # outside, there is no bound


def test_other_errors_are_not_taken_for_a_lack_of_memory():
    assert not limits.ran_out_of_memory(None)
    assert not limits.ran_out_of_memory({"type": "RuntimeError", "message": "shapes do not match"})
