"""The referee's end of a child's socket, and the fork that a child comes from."""

import os
import socket
import sys
import threading
from pathlib import Path

import pytest
from autogradlab.encoding import pack

from autograder import grading
from autograder.engine import referee
from autograder.engine.knowledge import Unit
from autograder.engine.limits import Limits
from autograder.engine.supervisor import Parent
from autograder.engine.wire import ChildSide, RefereeSide

ROOT = Path(__file__).resolve().parent.parent
FORESEEN = pack({"observations": [{"storage": b"12", "flag": 1}]})


def reply_to_a_request(reply: dict, foreseen: bytes | None):
    """What the referee gets of a child that gives this reply."""
    ours, theirs = socket.socketpair()
    child = ChildSide(theirs)

    def answer():
        child.request()
        child.reply(reply)

    with ours, theirs:
        thread = threading.Thread(target=answer)
        thread.start()
        got = RefereeSide(ours).ask({"op": "observe"}, 10, lambda event: None, lambda: None, foreseen)
        thread.join()
    return got


def test_a_foreseen_reply_is_returned_unread():
    assert reply_to_a_request({"observations": [{"storage": b"12", "flag": 1}]}, FORESEEN) is FORESEEN


@pytest.mark.parametrize(
    "observation",
    [{"storage": b"12", "flag": True}, {"storage": b"13", "flag": 1}, {"flag": 1, "storage": b"12"}],
    ids=["another type that is equal in Python", "another byte", "another order"],
)
def test_a_reply_that_differs_from_the_foreseen_one_is_read(observation):
    reply = {"observations": [observation]}
    assert reply_to_a_request(reply, FORESEEN) == reply == reply_to_a_request(reply, None)


def test_who_does_exactly_what_the_reference_does_is_judged_as_the_reference():
    known = Unit("05_accumulating_gradients", ROOT / "course", "5eed").exercises["accumulate"]
    looked = {"defined": True, "stub": "-", "callable": True, "shown": "f"}

    def verdict(is_foreseen: bool):
        def ask(request, foreseen=None):
            if request["op"] == "look":
                return looked
            return foreseen if is_foreseen else {"observations": known.expected()}

        return referee.RemoteAnswer(known, ask)

    short, long = ((one.judge(one.observed(), known)) for one in (verdict(True), verdict(False)))
    assert short == long and short.score == 1.0 and all(short.met)


@pytest.mark.skipif(sys.platform != "linux", reason="only on Linux a warm parent is forked")
def test_most_of_the_warm_parents_memory_is_in_huge_pages_that_a_fork_need_not_list():
    if tuple(map(int, os.uname().release.split(".")[:2])) < (6, 1):
        pytest.skip("Linux gives huge pages for the asking since 6.1")
    parent = Parent(grading.plan_here(Limits()), Limits())
    try:
        child, connection, _ = parent.child()
        connection.close()
        text = Path(f"/proc/{parent._process.pid}/smaps_rollup").read_text()
        kilobytes = {line.split(":")[0]: int(line.split()[1]) for line in text.splitlines()[1:]}
        parent.reap(child)
    finally:
        parent.close()
    assert kilobytes["AnonHugePages"] > kilobytes["Anonymous"] / 2
