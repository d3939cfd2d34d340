"""What stands in for a process that grades: it ends in the ways that the students' names ask for."""

import os
import struct
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple


class Asked(NamedTuple):
    """What such a process needs of a submission, without all that a real one would have it import."""

    student: str
    folder: Path


def serve(connection: Connection, needs: str) -> None:
    """Answer each submission with its student's name in a list, as results are one, or end."""
    while True:
        try:
            name, asked = connection.recv()
        except EOFError:
            return
        if name == "examine":
            os._exit(4)
        marker = asked.folder / asked.student
        if asked.student.startswith("half"):
            os.write(connection.fileno(), struct.pack("!i", 1 << 20) + b"the beginning of an answer")
            os._exit(3)
        if asked.student.startswith("once") and not marker.exists():
            marker.touch()
            os.abort()
        connection.send([asked.student])
