"""What the sandbox enforces here, told layer by layer, and the level that it adds up to."""

from dataclasses import dataclass

from autograder.sandbox.planning import Plan
from autograder.sandbox.probes import ATTEMPTS

#: From none to all; `LEVELS.index` orders them.
LEVELS = ("NONE", "WEAK", "STANDARD", "STRONG")
#: What must hold for STANDARD, and the layers of the child that hold it.
WALLS = {
    "files": ("landlock", "private root"),
    "network": ("seccomp", "namespaces"),
    "processes": ("seccomp",),
    "grader": ("landlock", "seccomp"),
    "memory": ("rlimits",),
    "time": ("rlimits",),
}
#: What STRONG has besides: a second wall behind those that the kernel's filters make.
EXTRAS = ("namespaces", "private root")
#: What is told without deciding on a level.
_FURTHER = ("other uid", "cgroup")
_MIB = 1 << 20


@dataclass(frozen=True)
class Report:
    """The level, and for each layer whether it is enforced, and how, or why not."""

    level: str
    host: str
    #: Begins with "enforced", "watched" (from outside, some ten times a second), "open" or "off".
    layers: dict[str, str]
    #: What the attempts on a layer got.
    probes: dict[str, str]

    def lines(self) -> list[str]:
        """One line for the level, then one for each layer."""
        wide = max(len(text) for text in self.layers.values())
        rows = [f"sandbox: {self.level:10} {self.host}"]
        for layer, text in self.layers.items():
            probe = f"  probe: {self.probes[layer]}" if layer in self.probes else ""
            rows.append(f"  {layer:13} {text:{wide}}{probe}".rstrip())
        return rows

    def json(self) -> dict[str, str]:
        """Each layer mapped to "enforced ...", "watched ...", or why it is neither."""
        return dict(self.layers)


def report(entered: dict[str, str], attempts: dict[str, str], plan: Plan) -> Report:
    """The report of what `enter` returned and of what the attempts got; a layer counts once its probe was refused.

    An attempt that the other side saw succeed (`Targets.reached`) is to be given as "allowed".
    """
    layers = {name: _wall(name, makers, entered, attempts, plan) for name, makers in WALLS.items()}
    layers["disk"] = _disk(entered, attempts, plan)
    output = int(plan.limits["output"]) // _MIB
    layers["output"] = f"watched: {output} MiB for a cell" if plan.layers else _off(plan.off["descriptors"])
    for name in (*EXTRAS, *_FURTHER):
        layers[name] = "enforced" if entered.get(name) == "on" else _off(entered.get(name, plan.off.get(name)))
    probes = {name: _told(name, attempts) for name in ATTEMPTS if plan.layers}
    return Report(_level(layers, entered), plan.host, layers, probes)


def _level(layers: dict[str, str], entered: dict[str, str]) -> str:
    if all(layers[name].startswith(("enforced", "watched")) for name in WALLS):
        return "STRONG" if all(layers[name] == "enforced" for name in EXTRAS) else "STANDARD"
    confined = any(entered.get(maker) == "on" for maker in ("landlock", "seccomp", "private root"))
    return "WEAK" if confined else "NONE"


def _off(reason: str | None) -> str:
    return f"off: {reason or 'not tried'}"


def _wall(name: str, makers: tuple[str, ...], entered: dict, attempts: dict, plan: Plan) -> str:
    on = [maker for maker in makers if entered.get(maker) == "on"]
    if not on:
        return _off("; ".join(f"{maker}: {entered.get(maker, plan.off.get(maker))}" for maker in makers))
    passed = _passed(name, attempts)
    if name == "memory":
        amount = f"{int(plan.limits['memory']) // _MIB} MiB"
        if not plan.address_space and "nameless file" not in passed:
            return f"watched: {amount}; CUDA leaves no bound on address space"
        detail = f"{amount} watched, {plan.address_space // _MIB} MiB of address space"
    elif name == "time":
        limits = plan.limits
        detail = f"{limits['cell_seconds']:g} s a cell, {plan.cpu_seconds} s of processor time"
    else:
        detail = "by " + " and ".join(on)
    return f"open: {', '.join(passed)}" if passed else f"enforced: {detail}"


def _disk(entered: dict, attempts: dict, plan: Plan) -> str:
    passed = _passed("disk", attempts)
    if not plan.layers or passed:
        return f"open: {', '.join(passed)}" if plan.layers else _off(plan.off["descriptors"])
    amount = f"{int(plan.limits['disk']) // _MIB} MiB, {int(plan.limits['files'])} files"
    if entered.get("private root") == "on":
        return f"enforced: {amount}"
    return f"watched: {amount}"


def _passed(name: str, attempts: dict[str, str]) -> list[str]:
    """The attempts on a layer that were not refused by the sandbox, and those that were not made."""
    return [attempt for attempt, refusals in ATTEMPTS[name].items() if attempts.get(attempt) not in refusals]


def _told(name: str, attempts: dict[str, str]) -> str:
    return ", ".join(f"{attempt} -> {attempts.get(attempt, 'not tried')}" for attempt in ATTEMPTS[name])
