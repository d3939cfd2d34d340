"""The warm parent: a program without secrets that has imported what notebooks import, and forks a child for each.

It is started with an empty environment and one socket, runs no torch operation that would start a thread, and never
runs a learner's code. Requests are packets of JSON: `fork` (with the child's socket attached) and `reap`.
"""

import ctypes
import gc
import json
import os
import signal
import socket
import sys
from pathlib import Path

ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    # So that torch may be asked whether there is a GPU without touching it, after which no fork could use it.
    "PYTORCH_NVML_BASED_CUDA_CHECK": "1",
    "MPLBACKEND": "module://matplotlib_inline.backend_inline",
    "LANG": "C.UTF-8",
}
_PR_SET_PDEATHSIG = 1
MAX_REQUEST = 1 << 17


def command(control: int) -> list[str]:
    """The command that starts a parent at the other end of the socket with this descriptor."""
    # -I: nothing of the user's environment and nothing of the working directory decides what is imported.
    return [sys.executable, "-I", "-c", "import autograder.engine.parent as parent; parent.main()", str(control)]


def end_with_parent() -> None:
    """Have the system end this process when the one that started it has ended, however that came; on Linux."""
    if sys.platform == "linux":
        started_by = os.getppid()
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != started_by:
            os._exit(1)


def main() -> None:
    """Warm up, say so, then fork and reap as asked until the socket is closed."""
    end_with_parent()
    control = socket.socket(fileno=int(sys.argv[1]))
    shell = _warm_up()
    _say(control, {"ready": os.getpid()})
    while True:
        data, descriptors, _, _ = socket.recv_fds(control, MAX_REQUEST, 1)
        if not data:
            return
        request = json.loads(data)
        if request["op"] == "fork":
            _say(control, {"pid": _fork(control, descriptors[0], request, shell)})
            os.close(descriptors[0])
        else:
            _say(control, {"status": _reap(request["pid"])})


def _say(control: socket.socket, answer: dict) -> None:
    control.sendall(json.dumps(answer).encode())


def _warm_up():
    """Import what takes long, and make the shell."""
    import torch

    torch.set_num_threads(1)
    import matplotlib.pyplot
    import torch._dynamo  # the first step of an optimizer would, in every child
    from autogradlab import accelerator

    import autograder.engine.child
    import autograder.sandbox  # noqa: F401 -- nothing is imported between a fork and the walls
    from autograder.engine import huge_pages
    from autograder.engine.shell import make_shell

    del matplotlib
    shell = make_shell()
    # Both import on their first use, and read source files.
    shell.run_cell("pass", silent=True)
    torch.manual_seed(0)
    accelerator.prepare()
    # What is here already is never garbage: a child's collector passes over it, and its memory stays shared.
    gc.collect()
    gc.freeze()
    huge_pages.collapse()
    return shell


def _reap(pid: int) -> int:
    """The exit code of a child, which is killed if it has not ended; a signal's number with a minus."""
    ended, status = os.waitpid(pid, os.WNOHANG)
    if ended == 0:
        os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status)


def _fork(control: socket.socket, descriptor: int, request: dict, shell) -> int:
    """The process number of a new child; the child itself never returns from here."""
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        control.close()
        _child(descriptor, request, shell)
        status = 0
    except BaseException as error:  # the last word of a process that has nowhere to report but its exit status
        os.write(2, f"{type(error).__name__}: {error}\n".encode())
    finally:
        os._exit(status)


def _child(descriptor: int, request: dict, shell) -> None:
    from autograder import sandbox
    from autograder.engine.child import serve
    from autograder.engine.wire import ChildSide

    scratch = Path(request["scratch"])
    entered = sandbox.enter(sandbox.Plan.of(request["plan"]), scratch, keep=(descriptor,))
    channel = ChildSide(socket.socket(fileno=descriptor))
    if request["probe"]:
        channel.request()
        channel.reply({"entered": entered, "attempts": sandbox.probes.escape_attempts(request["probe"])})
    serve(channel, shell, scratch, entered)
