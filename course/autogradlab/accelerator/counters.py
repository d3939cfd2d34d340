"""What crosses between the host and the simulated accelerator, and what runs there: counted, never timed."""

import time

NAMES = ("operations", "syncs", "transfers_to_device", "transfers_to_host", "bytes_to_device", "bytes_to_host")


class Totals:
    """Counts since the process began; they only grow.

    `operations` are kernels run on the device, forward and backward (allocations and views run none). `syncs` are the
    times that the host waited for a value: `item`, `tolist`, `float`, `bool`, every copy to the CPU, and operators
    whose result has a size that depends on values (`nonzero`, a boolean mask, `unique`). Transfers are copies between
    the CPU and the device, in either direction; a single value read by `item` is a sync, not a transfer.
    """

    __slots__ = NAMES

    def __init__(self):
        for name in NAMES:
            setattr(self, name, 0)


#: What the kernels count into.
totals = Totals()


class Latency:
    """Seconds that every trip between the host and the device takes on top."""

    __slots__ = ("seconds",)

    def __init__(self):
        self.seconds = 0.0


latency = Latency()


def trip(syncs=0, to_device=None, to_host=None):
    """Counts one trip between host and device, and takes the time that it is set to take."""
    totals.syncs += syncs
    if to_device is not None:
        totals.transfers_to_device += 1
        totals.bytes_to_device += to_device
    if to_host is not None:
        totals.transfers_to_host += 1
        totals.bytes_to_host += to_host
    if latency.seconds:
        time.sleep(latency.seconds)


class Counts:
    """What was counted since this was made, until `stop()`; see `Totals` for what counts."""

    def __init__(self):
        self._begin = {name: getattr(totals, name) for name in NAMES}
        self._end = None

    def stop(self):
        """Keeps the counts as they are now."""
        self._end = {name: getattr(totals, name) for name in NAMES}

    def as_dict(self) -> dict:
        """The counts by name."""
        end = self._end or {name: getattr(totals, name) for name in NAMES}
        return {name: end[name] - self._begin[name] for name in NAMES}

    def __getattr__(self, name):
        if name in NAMES:
            return self.as_dict()[name]
        raise AttributeError(f"{type(self).__name__} has no {name!r}; it has {', '.join(NAMES)}, transfers")

    @property
    def transfers(self) -> int:
        """Copies in either direction."""
        return self.transfers_to_device + self.transfers_to_host

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.stop()

    def __repr__(self):
        return f"Counts({', '.join(f'{name}={count}' for name, count in self.as_dict().items())})"
