"""Host syncs, transfers and operations are counted exactly, line by line, and counting leaves no trace."""

import collections
import doctest
import sys
import threading
import types
from html.parser import HTMLParser
from pathlib import Path

import numpy
import pytest
import torch
from autogradlab import accelerator, counters
from autogradlab.costs import Meter
from autogradlab.counters import count

DOCS = Path(__file__).parents[1] / "docs"
UNTOUCHED = torch.Tensor.tolist, torch.Tensor.numpy


@pytest.fixture(autouse=True)
def _nothing_is_left():
    yield
    assert (torch.Tensor.tolist, torch.Tensor.numpy) == UNTOUCHED
    assert not {"tolist", "numpy"} & vars(torch.Tensor).keys()
    assert torch._C._len_torch_dispatch_stack() == 0


@pytest.fixture(scope="module")
def sim():
    reason = accelerator.why_unavailable()
    if reason is not None:
        pytest.skip(reason)
    return accelerator.register(note=False)


# ------------------------------------------------------------------------------------------------------------- syncs

READS = {
    "item": lambda t: t[0].item(),
    "float": lambda t: float(t[0]),
    "int": lambda t: int(t[0]),
    "bool": lambda t: bool(t[0]),
    "if": lambda t: 1 if t[0] > 0 else 2,
    "in a text": lambda t: f"{t[0]:.3f}",
    "printed": lambda t: repr(t),
    "tolist": lambda t: t.tolist(),
    "tolist of one value": lambda t: t[0].tolist(),
    "range": lambda t: range(t.long()[0]),
    "equal": lambda t: torch.equal(t, t),
    "allclose": lambda t: torch.allclose(t, t),
    "in": lambda t: 3.0 in t,
    "mask": lambda t: t[t > 1],
    "mask that takes values": lambda t: t.clone().__setitem__(t > 0, t),
    "masked_select": lambda t: t.masked_select(t > 1),
    "nonzero": lambda t: t.nonzero(),
    "where": lambda t: torch.where(t > 1),
    "unique": lambda t: t.unique(),
}


@pytest.mark.parametrize("name", READS)
def test_what_reads_values_waits_once(name):
    with count() as counted:
        READS[name](torch.arange(1.0, 5.0))
    assert (counted.syncs, counted.transfers) == (1, 0)


ARRAYS = {
    "numpy": lambda t: t.numpy(),
    "asarray": numpy.asarray,
    "mean": lambda t: numpy.mean(t.numpy()),
    "an array's": lambda t: t.__array__(),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_a_numpy_array_is_a_wait(name):
    with count() as counted:
        ARRAYS[name](torch.ones(3))
    assert counted.syncs == 1


NO_READS = {
    "arithmetic": lambda t: (t * 2).exp().sum().detach().clone(),
    "facts": lambda t: (t.shape, len(t), t.dtype, t.device, t.requires_grad),
    "comparison": lambda t: (t > 1) & (t < 3),
    "positions": lambda t: t[torch.tensor([0, 1], device=t.device)],
    "a mask that takes a number": lambda t: t.clone().__setitem__(t > 1, 0.0),
    "where with both": lambda t: torch.where(t > 1, t, 0.0),
    "parts": lambda t: [part.sum() for part in t],
}


@pytest.mark.parametrize("name", NO_READS)
def test_computing_does_not_wait(name):
    with count() as counted:
        NO_READS[name](torch.arange(4.0))
    assert counted.syncs == 0


def test_a_read_that_fails_is_none():
    tensor = torch.ones(3, requires_grad=True)
    with count() as counted:
        with pytest.raises(RuntimeError):
            tensor.numpy()
        with pytest.raises(RuntimeError):
            tensor.item()
    assert counted.syncs == 0


# -------------------------------------------------------------------------------------- against the device's own count

#: What travels, beside the reads above.
MOVES = {
    "to": lambda t: t.cpu().to(t.device),
    "to itself": lambda t: t.to(t.device),
    "created there": lambda t: torch.tensor([1.0, 2.0], device=t.device),
    "zeros": lambda t: torch.zeros(3, device=t.device),
    "new_tensor": lambda t: t.new_tensor([1.0]),
    "copy_": lambda t: t.clone().copy_(torch.ones(4)),
    "copy_ to the cpu": lambda t: torch.ones(4).copy_(t),
    "positions on the cpu": lambda t: t[torch.tensor([0, 1])],
    "positions that take": lambda t: t.clone().__setitem__(torch.tensor([0, 1]), 5.0),
    "a number from the cpu": lambda t: t * torch.tensor(2.0),
    "a module": lambda t: torch.nn.Linear(2, 3).to(t.device),
    "a part": lambda t: t[::2].cpu(),
    "numpy by force": lambda t: t.numpy(force=True),
    "backward": lambda t: (torch.ones(4, requires_grad=True).to(t.device) * t).sum().backward(),
}


# Without "printed": what PyTorch does to print a tensor is out of sight, and counts as one wait.
@pytest.mark.parametrize("name", [name for name in READS | NO_READS | MOVES if name != "printed"])
def test_the_counts_are_those_of_the_device_itself(sim, name):
    tensor = torch.arange(1.0, 5.0, device=sim)
    run = (READS | NO_READS | MOVES)[name]
    with count() as counted, accelerator.counts() as own:
        run(tensor)
    assert counted.syncs == own.syncs
    assert (counted.transfers, counted.transfer_bytes) == (own.transfers, own.bytes_to_device + own.bytes_to_host)


def test_four_taxis_and_one_lorry(sim):
    rows = [torch.ones(100) for _ in range(4)]
    with count() as taxis:
        moved = [row.to(sim) for row in rows]
    with count() as lorry:
        moved = torch.stack(rows).to(sim)
    assert moved.shape == (4, 100)
    assert taxis.routes == {("cpu", "sim:0"): (4, 1600)}
    assert lorry.routes == {("cpu", "sim:0"): (1, 1600)}
    assert taxis.syncs == lorry.syncs == 0


def test_a_failing_read_on_a_device_is_none(sim):
    with count() as counted, pytest.raises(TypeError):
        torch.ones(3, device=sim).numpy()
    assert counted.syncs == 0


# ------------------------------------------------------------------------------------------------------- operations


def test_operations_are_counted_forward_and_backward():
    w = torch.ones(3, requires_grad=True)
    with count() as counted:
        loss = w.exp().sum()
    assert counted.operations == 2
    with count() as counted:
        loss.backward()
    assert counted.operations > 2


def test_the_counts_are_those_that_grading_takes():
    w = torch.ones(3, requires_grad=True)

    def program():
        for _ in range(3):
            loss = (w * 2).sigmoid().sum()
            loss.backward()
            loss.item(), w.grad.tolist()

    program()
    with Meter() as meter:
        program()
    with count() as counted:
        program()
    assert counted.counts() == meter.counts()


# ---------------------------------------------------------------------------------------------------- line by line


def training_step(losses):
    total = 0.0
    for loss in losses:
        total += loss.item()  # every one waits
    return total


def test_every_line_that_waits_is_named():
    losses = torch.tensor([0.5, 0.25, 0.125])
    with count() as counted:
        training_step(losses)
        if losses.sum() > 0:
            losses.tolist()
    first, *others = counted.lines
    line = training_step.__code__.co_firstlineno + 3
    assert (first.place, first.source, first.syncs) == (
        f"test_counters.py, line {line}",
        "total += loss.item()  # every one waits",
        3,
    )
    assert [(one.source, one.syncs) for one in others] == [("if losses.sum() > 0:", 1), ("losses.tolist()", 1)]
    assert sum(one.syncs for one in counted.lines) == counted.syncs == 5


def test_a_library_that_waits_is_charged_to_the_line_that_called_it():
    parameter = torch.nn.Parameter(torch.ones(2))
    parameter.grad = torch.tensor([torch.inf, 1.0])
    with count() as counted, pytest.raises(RuntimeError):
        torch.nn.utils.clip_grad_norm_([parameter], 1.0, error_if_nonfinite=True)
    (line,) = counted.lines
    assert line.source.startswith("torch.nn.utils.clip_grad_norm_([parameter]")


def test_in_a_notebook_a_line_is_named_by_its_cell(monkeypatch):
    names = {"/tmp/ipykernel_1/17.py": ("Cell", "In[5]")}
    shell = types.SimpleNamespace(compile=types.SimpleNamespace(format_code_name=names.get))
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: shell))
    code = compile("\n\nvalue = tensor.item()", "/tmp/ipykernel_1/17.py", "exec")
    with count() as counted:
        exec(code, {"tensor": torch.ones(())})
    assert [line.place for line in counted.lines] == ["In[5], line 3"]


def test_only_the_lines_that_do_most_are_shown():
    source = "\n".join(f"for _ in range({number}): tensor.item()" for number in range(1, 21))
    with count() as counted:
        exec(compile(source, "loops.py", "exec"), {"tensor": torch.ones(())})
    assert len(counted.lines) == 20
    table = counted.text.split("\n\n")[1].splitlines()
    assert table[0].endswith("the first 12 of 20")
    assert [row.split()[3] for row in table[2:]] == [str(number) for number in range(20, 8, -1)]


def test_a_long_line_of_code_is_cut():
    with count() as counted:
        exec(compile("tensor.item()", "long.py", "exec"), {"tensor": torch.ones(())})
        _ = torch.ones(()).item() + 1 + 2 + 3 + 4 + 5 + 6 + 7 + 8 + 9 + 10 + 11 + 12 + 13 + 14 + 15 + 16 + 17
    assert [line.source for line in counted.lines] == [
        "",
        "_ = torch.ones(()).item() + 1 + 2 + 3 + 4 + 5 + 6 + 7 + 8 +…",
    ]
    assert len(counted.lines[1].source) == counters.MAX_SOURCE


# -------------------------------------------------------------------------------------------------- it leaves no trace


def test_an_exception_ends_the_counting():
    with pytest.raises(KeyError), count() as counted:
        torch.ones(1).item()
        raise KeyError
    torch.ones(1).item()
    assert counted.syncs == 1


def test_a_block_within_a_block_counts_for_both():
    with count() as outer:
        torch.ones(1).tolist()
        with count() as inner:
            torch.ones(1).tolist()
            torch.ones(1).item()
    assert (outer.syncs, inner.syncs) == (3, 2)
    assert outer.operations == inner.operations + 1
    assert len(outer.lines) == 3


def test_threads_count_for_themselves():
    barrier, counted = threading.Barrier(3), {}

    def work(times):
        barrier.wait()
        with count() as mine:
            for _ in range(times):
                torch.ones(1).tolist()
                torch.ones(1).item()
            barrier.wait()
        counted[times] = mine.syncs

    threads = [threading.Thread(target=work, args=(times,)) for times in (20, 30)]
    for thread in threads:
        thread.start()
    barrier.wait()
    with count() as mine:
        torch.ones(1).tolist()
        barrier.wait()
        for thread in threads:
            thread.join()
    assert counted == {20: 40, 30: 60}
    assert mine.syncs == 1


def test_the_programs_own_reading_stays_as_it_is(monkeypatch):
    monkeypatch.setattr(torch.Tensor, "tolist", lambda tensor: tensor.numpy().tolist())
    mine = torch.Tensor.tolist
    with count() as counted:
        assert torch.ones(1).tolist() == [1.0]
    # One read, however it is done.
    assert counted.syncs == 1
    assert torch.Tensor.tolist is mine
    monkeypatch.undo()


def test_values_and_gradients_are_the_same_when_counted():
    w = torch.tensor([1.0, 2.0], requires_grad=True)

    def run():
        (gradient,) = torch.autograd.grad((w.exp() * w).sum(), w)
        return gradient.tolist(), torch.func.jacrev(torch.sin)(w.detach()).tolist()

    plain = run()
    with count():
        assert run() == plain


@pytest.fixture
def _left_behind():
    torch.set_grad_enabled(False)
    torch.set_default_dtype(torch.float64)
    torch.set_default_device("meta")
    yield
    torch.set_grad_enabled(True)
    torch.set_default_dtype(torch.float32)
    torch.set_default_device(None)


@pytest.mark.usefixtures("_left_behind")
def test_it_works_with_recording_off_another_dtype_and_another_device():
    x = torch.ones(3, device="cpu")
    with count() as counted:
        x.sum().item()
        torch.ones(3)[torch.tensor([0, 1])].sum()
    assert (counted.syncs, counted.transfers) == (1, 0)
    assert "host syncs" in counted.text


# ----------------------------------------------------------------------------------------------------- what it shows


class Elements(HTMLParser):
    def __init__(self, html):
        super().__init__()
        self.found = collections.defaultdict(list)
        self.feed(html)

    def handle_starttag(self, tag, attributes):
        self.found[tag].append(dict(attributes))


def test_it_shows_a_table_of_counts_and_one_of_lines(sim):
    with count() as counted:
        x = torch.ones(3).to(sim)
        x.tolist()
    head, *rows = (line.split() for line in counted.text.split("\n\n")[0].splitlines())
    assert head == ["counted", "times", "bytes"]
    assert rows == [
        ["host", "syncs", "1", "-"],
        ["transfers", "cpu", "to", "sim:0", "1", "12"],
        ["transfers", "sim:0", "to", "cpu", "1", "12"],
        ["transfers", "2", "24"],
        ["operations", str(counted.operations), "-"],
    ]
    shown = counted._repr_mimebundle_()
    assert shown["text/plain"] == counted.text == repr(counted)
    elements = Elements(shown["text/html"]).found
    assert len(elements["table"]) == 2
    assert len(elements["caption"]) == 1
    assert all(cell["scope"] in ("col", "row") for cell in elements["th"])


def test_where_nothing_waits_there_is_no_table_of_lines():
    with count() as counted:
        torch.ones(2) + 1
    assert counted.text.splitlines() == [
        "   counted  times  bytes",
        "host syncs      0      -",
        " transfers      0      0",
        "operations      2      -",
    ]


def test_it_can_be_looked_at_while_it_counts():
    with count() as counted:
        torch.ones(1).item()
        first = counted.text
        torch.ones(1).item()
    assert first.splitlines()[1].split() == ["host", "syncs", "1", "-"]
    assert counted.syncs == 2


def test_the_examples_of_the_page_and_of_the_docstrings_run():
    page = doctest.testfile(str(DOCS / "counters.md"), module_relative=False)
    module = doctest.testmod(counters)
    assert page.attempted > 10 and module.attempted > 3
    assert page.failed == module.failed == 0
