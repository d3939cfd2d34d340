"""The course's programs on a real device; `run.sh` starts it. DEVICE=cpu and DEVICE=sim need none."""

import contextlib
import io
import os
import pathlib
import re

import pytest
import torch
from autogradlab import accelerator, counters, graph, memory, units
from autogradlab.diagnosis import judge
from autogradlab.exercises import load_attempts, load_cases
from autogradlab.observation import observe
from torch import nn

DEVICE = os.environ.get("DEVICE", "cuda")
if DEVICE == "sim":
    accelerator.register(note=False)
UNITS = sorted((pathlib.Path(__file__).parents[2] / "course" / "units").iterdir())


def set_up(unit):
    """What the set-up cells of a lesson define, read without the instructors' packages."""
    names = {"__name__": "__main__"}
    cells = re.split(r"^# %%", (unit / "lesson.py").read_text(encoding="utf-8"), flags=re.MULTILINE)
    with units.at(unit.name, unit), contextlib.redirect_stdout(io.StringIO()):
        for cell in cells:
            head, _, source = cell.partition("\n")
            if '"setup"' in head:
                exec(source, names)
    return names


def programs():
    for unit in UNITS:
        names = set_up(unit)
        exercises = load_cases(unit / "cases.py")
        for attempt in load_attempts(unit / "attempts.py", names):
            exercise = exercises[attempt.exercise]
            if not exercise.is_prediction and exercise.devices == "any":
                yield pytest.param(exercise, attempt, id=f"{unit.name}-{attempt.exercise}-{attempt.key}")


def seen(exercise, program, device):
    return [observe(exercise, program, 0, index, device=device) for index in range(exercise.visible)]


PROGRAMS = list(programs())
RIGHT = {param.values[0].name: param.values[1].program for param in PROGRAMS if param.values[1].kind == "alternative"}


@pytest.mark.parametrize(("exercise", "attempt"), PROGRAMS)
def test_a_program_is_judged_on_the_device_as_on_the_cpu(exercise, attempt):
    verdicts = [
        judge(exercise, seen(exercise, attempt.program, device), seen(exercise, RIGHT[exercise.name], device), [])
        for device in ("cpu", DEVICE)
    ]
    assert verdicts[0].met == verdicts[1].met
    assert (verdicts[1].status == "right") == (attempt.kind == "alternative")


def test_a_history_of_moved_parameters_is_true_where_a_move_copies():
    w, log = torch.tensor(1.0, device=DEVICE, requires_grad=True), []
    for _ in range(3):
        w.grad = None
        (w**2).backward()
        with torch.no_grad():
            w -= 0.1 * w.grad
        log.append(w.detach().cpu())
    assert [round(value.item(), 3) for value in log] == ([0.512] * 3 if DEVICE == "cpu" else [0.8, 0.64, 0.512])


def test_a_move_makes_a_leaf_a_result():
    assert torch.randn(3, requires_grad=True).to(DEVICE).is_leaf == (DEVICE == "cpu")


def test_drawing_and_replaying_leave_no_gradient_behind():
    w = torch.tensor(2.0, device=DEVICE, requires_grad=True)
    loss = (w * 3.0 + 1) ** 2
    assert "leaf w = 2" in graph.draw(loss, names={"w": w}).text
    assert "leaf w receives 42" in graph.steps(loss, names={"w": w}).text
    assert w.grad is None


def test_held_bytes_are_those_that_the_allocator_gives_back():
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10)).to(DEVICE)
    inputs = torch.randn(256, 64, device=DEVICE)
    model(inputs).sum().backward()  # what the first step alone allocates is there
    with memory.watch() as watched:
        loss = model(inputs).pow(2).mean()
        held = watched.now
    if DEVICE == "cpu":
        assert held > 0
        return
    device = torch.get_device_module(DEVICE)
    before = device.memory_allocated()
    del loss
    freed = before - device.memory_allocated()
    # The inputs were saved too and stay; the allocator hands out blocks of 512 bytes.
    assert abs(held - inputs.numel() * 4 - freed) <= 0.1 * freed


def test_transfers_and_reads_are_counted():
    batch = torch.ones(4, 3)
    with counters.count() as taxis:
        rows = [row.to(DEVICE) for row in batch]
    with counters.count() as lorry:
        moved = batch.to(DEVICE)
    with counters.count() as reads:
        total = moved.sum().item() + float(rows[0][0])
    expected = 0 if DEVICE == "cpu" else 4
    assert (taxis.transfers, lorry.transfers, reads.syncs, total) == (expected, expected // 4, 2, 13.0)
