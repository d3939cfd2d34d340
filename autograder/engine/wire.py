"""Frames between the referee and a child that may lie: bounded, typed, numbered; nothing is pickled or evaluated.

    u8 kind (request, event or reply) | u32 number of the request | u64 length | a frame of `autogradlab.encoding`

The referee's side checks every size before it allocates, waits no longer than it is told, and takes exactly one reply
to each request.
"""

import select
import socket
import struct
import threading
import time
from collections.abc import Callable

from autogradlab.encoding import EncodingError, pack, unpack

REQUEST, EVENT, REPLY = 1, 2, 3
MAX_EVENT = 16 << 20
MAX_REPLY = 96 << 20
#: Of the events to one request: bytes of all their frames, and how many there may be.
MAX_EVENTS = 64 << 20
MAX_EVENT_COUNT = 100_000
CHUNK = 1 << 20
#: Seconds between two looks at what the child uses.
TICK = 0.05
_HEAD = struct.Struct("<BIQ")


class Gone(Exception):
    """The other side has closed the socket."""


class Malformed(Exception):
    """What came is not what the protocol allows."""


class Late(Exception):
    """No reply came in time."""


class ChildSide:
    """The end that a child holds: it reads requests, sends events while it works, and one reply to each request."""

    def __init__(self, connection: socket.socket):
        self._connection = connection
        self._lock = threading.Lock()
        self.number = 0

    def request(self) -> dict:
        """The next request, waited for. Raises Gone when there will be none."""
        kind, self.number, length = _HEAD.unpack(self._exactly(_HEAD.size))
        if kind != REQUEST:
            raise Malformed(f"a frame of kind {kind} came instead of a request")
        return unpack(self._exactly(length))

    def event(self, plain: dict) -> None:
        """Say something while the request is being worked on."""
        self._send(EVENT, plain)

    def reply(self, plain: dict) -> None:
        """Answer the request."""
        self._send(REPLY, plain)

    def _send(self, kind: int, plain: dict) -> None:
        frame = pack(plain)
        with self._lock:
            self._connection.sendall(_HEAD.pack(kind, self.number, len(frame)) + frame)

    def _exactly(self, length: int) -> bytes:
        parts = []
        while length:
            part = self._connection.recv(min(length, CHUNK))
            if not part:
                raise Gone
            parts.append(part)
            length -= len(part)
        return b"".join(parts)


class RefereeSide:
    """The end that the referee holds."""

    def __init__(self, connection: socket.socket):
        self._connection = connection
        self._connection.setblocking(False)
        self._buffer = bytearray()
        self._number = self._events = self._event_bytes = 0
        self._foreseen: bytes | None = None

    def ask(
        self,
        request: dict,
        seconds: float,
        heard: Callable[[dict], None],
        look: Callable[[], None],
        foreseen: bytes | None = None,
    ) -> dict | bytes:
        """The reply to a request; a reply whose frame is `foreseen`, byte for byte, is not read but returned as that.

        `heard` is given each event, `look` is called a few times a second; what they raise ends the waiting. Raises
        Late after `seconds`, Gone when the child has ended, Malformed for anything but events and one reply.
        """
        self._discard()
        self._foreseen = foreseen
        deadline = time.monotonic() + seconds
        self._number += 1
        frame = pack(request)
        self._send(_HEAD.pack(REQUEST, self._number, len(frame)) + frame, deadline, look)
        looked, self._events, self._event_bytes = 0.0, 0, 0
        while True:
            for kind, plain in self._frames():
                if kind == REPLY:
                    return plain
                heard(plain)
            now = time.monotonic()
            if now - looked >= TICK:
                look()
                looked = now
            if now > deadline:
                raise Late
            if select.select([self._connection], [], [], min(TICK, max(deadline - now, 0)))[0]:
                self._receive()

    def close(self) -> None:
        """Close the socket."""
        self._connection.close()

    def _send(self, data: bytes, deadline: float, look: Callable[[], None]) -> None:
        view = memoryview(data)
        while view:
            if time.monotonic() > deadline:
                raise Late
            if not select.select([], [self._connection], [], TICK)[1]:
                look()
                continue
            try:
                view = view[self._connection.send(view[:CHUNK]) :]
            except BlockingIOError:
                continue
            except OSError as error:
                raise Gone from error

    def _receive(self) -> None:
        try:
            part = self._connection.recv(CHUNK)
        except BlockingIOError:
            return
        except OSError as error:
            raise Gone from error
        if not part:
            raise Gone
        self._buffer += part

    def _discard(self) -> None:
        """Leave out what a child said after its reply, by threads that a cell has left running for instance."""
        waiting = 0
        while select.select([self._connection], [], [], 0)[0]:
            before = len(self._buffer)
            self._receive()
            waiting += len(self._buffer) - before
            if waiting > MAX_EVENT:
                raise Malformed("the child goes on sending after its reply")
            for kind, _ in self._frames():
                if kind == REPLY:
                    raise Malformed("the child answered twice")

    def _frames(self):
        """Yields (kind, plain data) of every whole frame that has come; of the foreseen one, its bytes."""
        while len(self._buffer) >= _HEAD.size:
            kind, number, length = _HEAD.unpack_from(self._buffer)
            if kind not in (EVENT, REPLY) or length > (MAX_EVENT if kind == EVENT else MAX_REPLY):
                raise Malformed("the child sent a frame that is no event and no reply, or one that is too large")
            if number > self._number or kind == REPLY and number != self._number:
                raise Malformed("the child answered a request that was not the last one")
            end = _HEAD.size + length
            if len(self._buffer) < end:
                return
            frame = bytes(memoryview(self._buffer)[_HEAD.size : end])
            del self._buffer[:end]
            if kind == REPLY and frame == self._foreseen:
                yield kind, self._foreseen
                continue
            try:
                plain = unpack(frame)
            except EncodingError as error:
                raise Malformed(f"the child sent a malformed frame: {error}") from error
            if type(plain) is not dict:
                raise Malformed("the child sent a frame that is not a mapping")
            if kind == EVENT:
                self._count_event(plain, length)
            yield kind, plain

    def _count_event(self, plain: dict, length: int) -> None:
        """Events are kept until the reply comes: all of them together have to be small, and each of them flat."""
        self._events += 1
        self._event_bytes += length
        if self._events > MAX_EVENT_COUNT or self._event_bytes > MAX_EVENTS:
            raise Malformed("the child put out more than any cell may")
        if not all(type(value) in (str, bytes) for value in plain.values()):
            raise Malformed("the child put out something that is neither text nor a picture")
