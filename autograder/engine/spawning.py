"""Children where no sandbox is to be had: each a program of its own, started anew, and not confined."""

import os
import secrets
import signal
import socket
import subprocess
import sys
from pathlib import Path

from autograder import sandbox
from autograder.engine.limits import Limits
from autograder.engine.parent import ENVIRONMENT
from autograder.sandbox import scratch

#: Seconds that a child may take to import everything.
START_SECONDS = 120
#: What a program cannot start without on Windows, and where it finds its temporary folder.
KEPT = ("SYSTEMROOT", "SYSTEMDRIVE", "WINDIR", "PATH")


class Spawner:
    """Starts children that are not confined; it has the methods of `supervisor.Parent`."""

    def __init__(self, plan: sandbox.Plan, limits: Limits):
        self.plan, self.limits = plan, limits
        self.walls: dict[str, str] | None = None
        self._processes: dict[int, subprocess.Popen] = {}

    def child(self, probe: dict | None = None) -> tuple[int, socket.socket, Path]:
        """A new child: its process number, our end of its socket, and its scratch folder."""
        folder, token = scratch.make(), secrets.token_hex(32)
        places = ("HOME", "USERPROFILE", "TMPDIR", "TEMP", "TMP", "MPLCONFIGDIR", "IPYTHONDIR")
        environment = ENVIRONMENT | {name: os.environ[name] for name in KEPT if name in os.environ}
        with socket.create_server(("127.0.0.1", 0)) as listener:
            listener.settimeout(START_SECONDS)
            process = subprocess.Popen(
                [sys.executable, "-I", "-c", "import autograder.engine.spawning as spawning; spawning.main()"],
                env=environment | dict.fromkeys(places, str(folder)),
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd=folder,
            )
            # By way of stdin: arguments can be read by every user of the machine.
            process.stdin.write(f"{listener.getsockname()[1]} {token}\n".encode())
            process.stdin.close()
            connection = _accepted(listener, token)
        self._processes[process.pid] = process
        return process.pid, connection, folder

    def reap(self, pid: int) -> int:
        """The exit code of a child, killed if need be; a signal's number with a minus."""
        process = self._processes.pop(pid)
        if process.poll() is None:
            process.kill()
        return process.wait()

    def dismiss(self, pid: int, folder: Path) -> None:
        """End a child, and then remove its scratch folder."""
        self.reap(pid)
        scratch.remove(folder)

    def close(self) -> None:
        """End every child."""
        for pid in list(self._processes):
            self.reap(pid)


def _accepted(listener: socket.socket, token: str) -> socket.socket:
    """The connection of the child that knows the token; others are turned away."""
    while True:
        connection, _ = listener.accept()
        connection.settimeout(START_SECONDS)
        said = b""
        while len(said) < len(token) and (part := connection.recv(len(token) - len(said))):
            said += part
        if secrets.compare_digest(said, token.encode()):
            return connection
        connection.close()


def main() -> None:
    """Be a child: warm up, connect, and answer until the referee closes the socket."""
    port, token = sys.stdin.readline().split()
    import matplotlib.pyplot  # noqa: F401 -- the shell's pictures
    import torch

    from autograder.engine.child import serve
    from autograder.engine.shell import make_shell
    from autograder.engine.wire import ChildSide

    torch.set_num_threads(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    shell = make_shell()
    connection = socket.create_connection(("127.0.0.1", int(port)))
    connection.sendall(token.encode())
    serve(ChildSide(connection), shell, Path.cwd(), {})
