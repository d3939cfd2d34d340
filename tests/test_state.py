"""A block in which torch is as it starts, and after which the process is as it was."""

import contextlib
import random
import subprocess
import sys
import threading
import warnings

import numpy
import pytest
import torch
from autogradlab import accelerator
from autogradlab.state import MODES, STREAMS, preserved
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode


class Doubling(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        return result * 2 if func is torch.ones else result


class Watching(TorchDispatchMode):
    seen = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.seen += 1
        return func(*args, **(kwargs or {}))


def keep(guard, kept=[]):  # noqa: B006 (a guard that is dropped leaves at once)
    """Enters a context and never leaves it."""
    guard.__enter__()
    kept.append(guard)


def snapshot() -> dict:
    """Everything about the process that a program may have changed."""
    state = {name: read() for name, (read, _, _) in MODES.items()}
    state["torch stream"] = torch.get_rng_state().tolist()
    state["numpy stream"] = repr(numpy.random.get_state())
    state["python stream"] = random.getstate()
    state["filters"] = list(warnings.filters)
    state["tracing"] = sys.gettrace(), sys.getprofile(), sys.getrecursionlimit()
    state["streams"] = sys.stdout, sys.stderr
    state["modes"] = torch._C._len_torch_function_stack(), torch._C._len_torch_dispatch_stack()
    state["hooks"] = len(torch.nn.modules.module._global_forward_hooks)
    state["printing"] = dict(vars(torch._tensor_str.PRINT_OPTS))
    state["refused hooks"] = torch._C._autograd._saved_tensors_hooks_get_disabled_error_message()
    return state


def in_a_thread(function):
    """Runs a function in a thread of its own: grad mode, inference mode and guards belong to threads."""
    outcome = []

    def run():
        try:
            outcome.append((function(), None))
        except BaseException as error:
            outcome.append((None, error))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    result, error = outcome[0]
    if error is not None:
        raise error
    return result


def hooks():
    return torch.autograd.graph.saved_tensors_hooks(lambda tensor: tensor, lambda tensor: tensor)


LEFTOVERS = {
    "grad mode": lambda: torch.set_grad_enabled(False),
    "inference mode": lambda: keep(torch.inference_mode()),
    "default dtype": lambda: torch.set_default_dtype(torch.float64),
    "default device": lambda: torch.set_default_device("meta"),
    "threads": lambda: torch.set_num_threads(torch.get_num_threads() + 1),
    "anomaly detection": lambda: torch.autograd.set_detect_anomaly(True),
    "deterministic algorithms": lambda: torch.set_deterministic_debug_mode("warn"),
    "autocast": lambda: keep(torch.autocast("cpu", dtype=torch.bfloat16)),
    "saved-tensor hooks": lambda: keep(hooks()),
    "torch random stream": lambda: torch.rand(1),
    "numpy random stream": lambda: numpy.random.rand(1),
    "python random stream": random.random,
}
SILENT = {
    "a device context": lambda: keep(torch.device("meta")),
    "a function mode": lambda: keep(Doubling()),
    "a dispatch mode": lambda: keep(Watching()),
    "a global hook": lambda: torch.nn.modules.module.register_module_forward_hook(lambda *_: None),
    "tracing": lambda: (sys.settrace(lambda *_: None), sys.setprofile(lambda *_: None)),
    "a recursion limit": lambda: sys.setrecursionlimit(5000),
    "warnings as errors": lambda: warnings.simplefilter("error"),
    "print options": lambda: torch.set_printoptions(precision=2),
    "no saved-tensor hooks": lambda: torch._C._autograd._saved_tensors_hooks_disable("not here"),
    "manual_seed": lambda: torch.manual_seed(7),
}


@contextlib.contextmanager
def undone():
    """Puts back, by ordinary means, what a test leaves changed on purpose."""
    grad, dtype, threads = torch.is_grad_enabled(), torch.get_default_dtype(), torch.get_num_threads()
    tracing, limit, printing = (
        (sys.gettrace(), sys.getprofile()),
        sys.getrecursionlimit(),
        dict(vars(torch._tensor_str.PRINT_OPTS)),
    )
    with warnings.catch_warnings(), torch.random.fork_rng(devices=[]):
        yield
    sys.settrace(tracing[0])
    sys.setprofile(tracing[1])
    sys.setrecursionlimit(limit)
    vars(torch._tensor_str.PRINT_OPTS).update(printing)
    while torch._C._len_torch_dispatch_stack():
        torch._C._pop_torch_dispatch_stack(None)
    torch.set_default_device(None)
    while torch._C._len_torch_function_stack():
        torch._C._pop_torch_function_stack()
    torch.set_grad_enabled(grad)
    torch.set_default_dtype(dtype)
    torch.set_num_threads(threads)
    torch.autograd.set_detect_anomaly(False)
    torch.set_deterministic_debug_mode("default")
    torch.set_autocast_enabled("cpu", False)
    torch._C._autograd._saved_tensors_hooks_enable()
    while torch._C._autograd._top_saved_tensors_default_hooks(False):
        torch._C._autograd._pop_saved_tensors_default_hooks()
    torch.nn.modules.module._global_forward_hooks.clear()


def is_clean() -> bool:
    """Whether torch does what it does in a fresh process."""
    w = torch.ones(2, requires_grad=True)
    loss = (w * 3).sum()
    loss.backward()
    return w.dtype is torch.float32 and w.device.type == "cpu" and w.grad.tolist() == [3.0, 3.0]


@pytest.mark.parametrize("name", LEFTOVERS)
def test_what_a_block_leaves_changed_is_named_and_put_back(name):
    def run():
        with undone():
            before = snapshot()
            with preserved(1) as changes:
                LEFTOVERS[name]()
            return before, snapshot(), dict(changes)

    before, after, changes = in_a_thread(run)
    assert before == after
    assert name in changes
    # Inference mode switches the recording off as well.
    assert changes.keys() - {name} <= ({"grad mode"} if name == "inference mode" else set())


@pytest.mark.parametrize("name", SILENT)
def test_what_a_block_leaves_behind_otherwise_is_put_back_too(name):
    def run():
        with undone():
            before = snapshot()
            with preserved(1) as changes:
                SILENT[name]()
            return before, snapshot(), dict(changes)

    before, after, changes = in_a_thread(run)
    assert before == after
    assert changes.keys() <= {"torch random stream", "default device"}


@pytest.mark.parametrize("name", LEFTOVERS | SILENT)
def test_a_block_is_clean_whatever_the_process_had_set_and_leaves_that_in_force(name):
    def run():
        with undone():
            (LEFTOVERS | SILENT)[name]()
            before = snapshot()
            with preserved(1) as changes:
                clean = is_clean()
            return before, snapshot(), clean, dict(changes)

    before, after, clean, changes = in_a_thread(run)
    assert clean
    assert before == after
    assert changes == {}


@pytest.mark.parametrize("name", LEFTOVERS | SILENT)
@pytest.mark.parametrize("other", ["inference mode", "default device", "a device context", "saved-tensor hooks"])
def test_leftovers_of_the_process_and_of_the_block_do_not_mix(name, other):
    def run():
        with undone():
            (LEFTOVERS | SILENT)[other]()
            before = snapshot()
            with preserved(1) as changes:
                (LEFTOVERS | SILENT)[name]()
                changes.settle()
                clean = is_clean()
            return before, snapshot(), clean

    before, after, clean = in_a_thread(run)
    assert clean
    assert before == after


def test_a_block_that_draws_in_every_stream_draws_the_same_again():
    def draw():
        with preserved(5):
            return torch.rand(2).tolist(), numpy.random.rand(2).tolist(), random.random()

    first = draw()
    torch.rand(3)
    assert draw() == first


def test_settling_ends_the_notes():
    with preserved(1) as changes:
        torch.set_grad_enabled(False)
        changes.settle()
        assert torch.is_grad_enabled()
        torch.rand(1)
    assert changes == {"grad mode": [True, False]}


def test_an_exception_leaves_nothing_behind():
    before = snapshot()
    with pytest.raises(KeyError), preserved(1) as changes:
        torch.set_default_dtype(torch.float64)
        raise KeyError
    assert snapshot() == before
    assert changes == {"default dtype": ["float32", "float64"]}


def test_blocks_within_blocks_leave_the_streams_as_they_were():
    before = snapshot()
    with preserved(1):
        for seed in range(3):
            with preserved(seed) as changes:
                random.random()
            assert changes == {"python random stream": ["untouched", "advanced"]}
    assert snapshot() == before


def test_warnings_are_silent_inside_and_may_be_recorded():
    with preserved(1), warnings.catch_warnings(record=True) as seen:
        warnings.warn("unseen", stacklevel=1)
        warnings.simplefilter("always")
        warnings.warn("seen", stacklevel=1)
    assert [str(warning.message) for warning in seen] == ["seen"]


IN_A_PROCESS_OF_ITS_OWN = """
import torch
from autogradlab import accelerator
from autogradlab.state import preserved

def settings():
    return torch.sim.mem_get_info()[1], accelerator.latency.seconds

def spoil():
    torch.sim.set_capacity(4096)
    torch.sim.set_transfer_latency(0.001)
    return torch.rand(2, device="sim").tolist()

with preserved(3):
    accelerator.register(note=False)
    spoil()
assert settings() == (1 << 30, 0.0), settings()

torch.sim.set_capacity(1 << 20)
torch.sim.set_transfer_latency(0.002)
torch.sim.manual_seed(7)
first = torch.rand(2, device="sim").tolist()
torch.sim.manual_seed(7)
drawn = []
for _ in range(2):
    with preserved(3) as changes:
        assert settings() == (1 << 30, 0.0), settings()
        drawn.append(spoil())
        changes.settle()
    # On the CPU nobody can tell whether the process knows the device, so that what happened to it is no change of mode.
    assert changes == {}, changes
assert drawn[0] == drawn[1] != first
assert settings() == (1 << 20, 0.002), settings()
assert torch.rand(2, device="sim").tolist() == first
"""


@pytest.mark.skipif(not accelerator.is_available(), reason=str(accelerator.why_unavailable()))
def test_the_simulated_accelerators_settings_are_clean_inside_and_put_back():
    done = subprocess.run([sys.executable, "-c", IN_A_PROCESS_OF_ITS_OWN], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_without_the_accelerator_nothing_of_it_is_imported():
    code = "import sys; from autogradlab.state import preserved\nwith preserved(1): pass\n"
    code += "assert not [name for name in sys.modules if name.startswith('autogradlab.accelerator')]"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_everything_that_is_watched_has_a_leftover_in_these_tests():
    assert LEFTOVERS.keys() == MODES.keys() | STREAMS.keys()
