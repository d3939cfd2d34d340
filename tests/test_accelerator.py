import copy
import doctest
import gc
import io
import os
import pickle
import re
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import numpy
import pytest
import torch
import torch.nn.functional as F
from autogradlab import accelerator
from autogradlab.encoding import decode, encode, memory_key

DOCS = Path(__file__).parents[1] / "docs"
MIXED = re.escape("Expected all tensors to be on the same device, but found at least two devices, sim:0 and cpu!")
NOTE = "sim is a simulated accelerator: it shows where tensors live and what memory they take, not speed."


@pytest.fixture(scope="module", autouse=True)
def sim():
    accelerator.register(note=False)


@pytest.fixture(autouse=True)
def unchanged_settings():
    before = torch.sim.mem_get_info()[1]
    yield
    assert torch.sim.mem_get_info()[1] == before, "a test left another capacity behind"


def run(code, *arguments):
    """What a program prints, in a process of its own."""
    program = [sys.executable, "-W", "error", "-c", textwrap.dedent(code), *arguments]
    done = subprocess.run(program, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    return done.stdout


# ------------------------------------------------------------------------------------------------ registering


def test_importing_registers_nothing_and_the_note_is_shown_once():
    shown = run(
        """
        import autogradlab, torch
        from autogradlab import accelerator
        print(torch._C._get_privateuse1_backend_name(), hasattr(torch, "sim"))
        print("registering")
        for _ in range(2):
            print(accelerator.register())
        """
    )
    before, after = shown.split("registering\n")
    assert before == "privateuseone False\n"
    assert after.splitlines() == [
        NOTE,
        "The CPU computes for it. Errors, memory and transfers are those of a real device; times are not.",
        "sim",
        "sim",
    ]


def test_preparing_registers_nothing_and_leaves_only_the_registering_to_be_done():
    shown = run(
        """
        import torch
        from autogradlab import accelerator
        accelerator.prepare()
        print(accelerator.is_registered(), torch._C._get_privateuse1_backend_name(), hasattr(torch, "sim"))
        from autogradlab.accelerator import operators
        kernels = operators.whole_kernels()
        accelerator.register(note=False)
        print(len(kernels) > 400, operators.whole_kernels() is kernels, torch.ones(2, device="sim").sum().item())
        """
    )
    assert shown == "False privateuseone False\nTrue True 2.0\n"


def test_the_note_can_be_left_out():
    code = "from autogradlab import accelerator; accelerator.register(note=False); accelerator.register()"
    assert run(code) == ""


def test_beside_another_backend_one_sentence_says_so_and_the_rest_works():
    shown = run(
        """
        import torch
        from autogradlab import accelerator
        torch.utils.rename_privateuse1_backend("npu")
        print(accelerator.is_available())
        try:
            accelerator.register()
        except accelerator.Unavailable as error:
            print(error)
        w = torch.ones(2, requires_grad=True)
        (w * 2).sum().backward()
        print(w.grad.tolist(), torch.Generator().device)
        """
    )
    assert shown == (
        "False\nThe simulated accelerator cannot be used beside the backend 'npu', which holds PyTorch's one place for "
        "other devices in this process; everything else works.\n[2.0, 2.0] cpu\n"
    )


def test_a_torch_without_the_hook_is_told_in_one_sentence(monkeypatch):
    monkeypatch.setattr(accelerator, "_registered", [])
    monkeypatch.setattr(torch._C, "_get_privateuse1_backend_name", lambda: "privateuseone")
    assert accelerator.is_available()
    monkeypatch.delattr(torch.utils.backend_registration, "_setup_privateuseone_for_python_backend")
    with pytest.raises(accelerator.Unavailable, match=r"^The simulated accelerator needs a newer PyTorch than 2\."):
        accelerator.register()


def test_registering_works_after_a_backward_and_whatever_the_learner_left_switched():
    shown = run(
        """
        import torch
        w = torch.ones(2, requires_grad=True)
        (w * 2).sum().backward()
        torch.set_grad_enabled(False)
        torch.set_default_dtype(torch.float64)
        torch.set_default_device("meta")
        from autogradlab import accelerator
        accelerator.register(note=False)
        print(torch.ones(2, device="sim").dtype, torch.is_grad_enabled(), torch.get_default_device())
        torch.set_default_device("sim")
        with torch.enable_grad():
            w = torch.tensor([1.0, 2.0], requires_grad=True)
            (w.exp() * torch.ones(2)).sum().backward()
            print(w.grad, (w.grad == w.exp()).all().item(), (w + 1).requires_grad)
        print((w * 2).requires_grad)
        """
    )
    assert shown == ("torch.float64 False meta\ntensor([2.7183, 7.3891], device='sim:0') True True\nFalse\n")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="only processes that can fork")
def test_a_forked_child_runs_backward_whether_or_not_its_parent_did():
    code = """
        import os, sys, torch
        from autogradlab import accelerator
        device = accelerator.register(note=False)

        def gradient():
            w = torch.ones(2, device=device, requires_grad=True)
            (w * 3).sum().backward()
            return w.grad.tolist()

        w = torch.ones(2, device=device, requires_grad=True)
        loss = (w * 2).sum()
        if sys.argv[1] == "backward":
            gradient()
        child = os.fork()
        if not child:
            loss.backward()
            print(w.grad.tolist(), gradient(), flush=True)
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        loss.backward()
        print(w.grad.tolist())
    """
    for parent in ("forward only", "backward"):
        assert run(code, parent) == "[2.0, 2.0] [3.0, 3.0]\n[2.0, 2.0]\n"


# ------------------------------------------------------------------------------------------------ making and moving


def test_tensors_are_made_on_the_device_in_every_usual_way():
    made = [
        torch.tensor([1.0, 2.0], device="sim"),
        torch.as_tensor([1.0, 2.0], device="sim"),
        torch.as_tensor(numpy.ones(2), device="sim"),
        torch.zeros(2, 3, device="sim"),
        torch.randn(2, device=torch.device("sim", 0)),
        torch.arange(3, device="sim"),
        torch.full((2,), 7, device="sim"),
        torch.empty((2, 2, 2, 2), device="sim", memory_format=torch.channels_last),
        torch.zeros(2).to("sim"),
        torch.zeros(2).sim(),
        torch.zeros(2, device="sim").new_ones(3),
        torch.ones_like(torch.zeros(2), device="sim"),
        torch.nn.Parameter(torch.zeros(2, device="sim")),
    ]
    for tensor in made:
        assert (tensor.device, tensor.is_cpu, tensor.is_sim) == (torch.device("sim:0"), False, True)
    assert type(made[0]) is torch.Tensor
    assert made[7].is_contiguous(memory_format=torch.channels_last)
    assert torch.tensor([1.0], device="sim", requires_grad=True).is_leaf


def test_a_default_device_applies_to_new_tensors_but_not_to_numpy_memory():
    with torch.device("sim"):
        assert torch.ones(2).is_sim
        assert torch.tensor([1.0]).is_sim
        assert torch.as_tensor(numpy.ones(2)).is_sim
        assert torch.nn.Linear(2, 2).weight.is_sim
        assert torch.from_numpy(numpy.ones(2)).is_cpu
        assert torch.ones(2, device="cpu").is_cpu
        assert (torch.rand(3) @ torch.rand(3, 2)).shape == (2,)
    assert torch.ones(2).is_cpu
    torch.set_default_device("sim")
    try:
        assert torch.tensor(1.0).is_sim
    finally:
        torch.set_default_device(None)


def test_to_returns_the_same_tensor_where_nothing_changes_and_a_result_where_it_moves():
    w = torch.ones(3, requires_grad=True)
    moved = w.to("sim", non_blocking=True)
    assert w.to("cpu") is w
    assert moved.to("sim") is moved
    assert moved.to("sim:0") is moved
    assert moved.to("sim", copy=True) is not moved
    assert not moved.is_leaf
    assert moved.grad_fn.name() == "ToCopyBackward0"
    moved.sum().backward()
    assert w.grad.tolist() == [1, 1, 1]
    back = moved.detach().to("cpu", torch.float64, non_blocking=True)
    assert (back.dtype, back.is_cpu) == (torch.float64, True)


def test_a_device_that_is_not_there_is_refused():
    for make in (lambda: torch.empty(2, device="sim:1"), lambda: torch.ones(2).to("sim:1")):
        with pytest.raises(RuntimeError, match="There is no sim:1: the simulated accelerator is one device"):
            make()


def test_a_moved_module_keeps_its_parameters_so_that_an_optimizer_made_before_holds_them():
    model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))
    model.add_module("tied", torch.nn.Linear(2, 3))
    model.tied.weight = model[0].weight
    parameters = list(model.parameters())
    loss = model[0](torch.ones(4, 2)).sum()
    loss.backward()
    gradient = model[0].weight.grad.tolist()
    assert model.to("sim") is model
    assert all(now is before for now, before in zip(model.parameters(), parameters, strict=True))
    assert model.tied.weight is model[0].weight
    assert model[0].weight.grad.is_sim
    assert model[0].weight.grad.tolist() == gradient
    assert model[1].running_mean.is_sim
    assert isinstance(model[0].weight, torch.nn.Parameter)
    assert model.half().cpu().float()[0].weight is parameters[0]


def test_the_second_tensor_of_a_parameter_is_no_leaf_and_an_optimizer_says_so():
    for device, refused in (("cpu", False), ("sim", True)):
        w = torch.randn(3, requires_grad=True).to(device)
        if refused:
            with pytest.raises(ValueError, match="can't optimize a non-leaf Tensor"):
                torch.optim.SGD([w], lr=0.1)
        else:
            torch.optim.SGD([w], lr=0.1)


def test_the_same_log_tells_two_histories():
    histories = {}
    for device in ("cpu", "sim"):
        w = torch.tensor(1.0, device=device, requires_grad=True)
        log, safe = [], []
        for _ in range(3):
            w.grad = None
            (w**2).backward()
            with torch.no_grad():
                w -= 0.1 * w.grad
            log.append(w.detach().cpu())
            safe.append(w.detach().clone())
        histories[device] = [[round(value.item(), 3) for value in values] for values in (log, safe)]
    assert histories["cpu"] == [[0.512] * 3, [0.8, 0.64, 0.512]]
    assert histories["sim"] == [[0.8, 0.64, 0.512], [0.8, 0.64, 0.512]]


# ------------------------------------------------------------------------------------------------ errors


def test_numpy_is_told_to_ask_for_the_cpu():
    x = torch.ones(2, device="sim")
    message = re.escape(
        "can't convert sim:0 device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory first."
    )
    for read in (x.numpy, lambda: numpy.asarray(x)):
        with pytest.raises(TypeError, match=message):
            read()
    assert x.cpu().numpy().tolist() == [1, 1]


def test_mixed_devices_raise_what_they_raise_on_cuda():
    there, here = torch.ones(2, 2, device="sim"), torch.ones(2, 2)
    mixed = [
        lambda: there + here,
        lambda: here + there,
        lambda: here @ there,
        lambda: there @ here,
        lambda: torch.cat([there, here]),
        lambda: here.add_(there),
        lambda: there.mul_(here),
        lambda: torch.add(there, there, out=torch.empty(2, 2)),
        lambda: F.mse_loss(there, here),
        lambda: F.cross_entropy(there, torch.tensor([0, 1])),
        lambda: torch.nn.Linear(2, 2)(there),
        lambda: there.gather(0, torch.zeros(1, 1, dtype=torch.int64)),
        lambda: F.embedding(torch.tensor([0]), there),
        lambda: torch.nn.LSTMCell(2, 3)(there),
        lambda: torch.where(there > 0, here, here),
    ]
    for operation in mixed:
        with pytest.raises(RuntimeError, match=MIXED):
            operation()


@pytest.mark.parametrize(
    "fails",
    [
        lambda x: x @ x,
        lambda x: torch.mm(x, x[0]),
        lambda x: torch.bmm(x, x),
        lambda x: x + x[:, :2],
        lambda x: x.view(4, 2),
        lambda x: x.sum(5),
        lambda x: x[5],
        lambda x: x.item(),
        lambda x: float(x),
        lambda x: bool(x > 1),
        lambda x: x.long().mean(),
        lambda x: x.double() @ x.T,
        lambda x: torch.cat([x, x[0]]),
        lambda x: F.cross_entropy(x, x[:, 0].long() + 9),
        lambda x: x.reshape(-1).argmax().backward(),
        lambda x: torch.empty(-1, device=x.device),
        lambda x: torch.linalg.inv(x),
        lambda x: x.long().bernoulli_(2.0),
    ],
)
def test_other_errors_say_what_they_say_on_the_cpu(fails):
    raised = []
    for device in ("cpu", "sim"):
        with pytest.raises(Exception) as error:
            fails(torch.ones(2, 3, device=device))
        raised.append((type(error.value), str(error.value)))
    assert raised[1] == raised[0]


def test_a_single_number_on_the_cpu_and_indices_may_mix():
    x = torch.arange(4.0, device="sim")
    assert (x * torch.tensor(2.0)).tolist() == [0, 2, 4, 6]
    assert (torch.tensor(2.0) - x).tolist() == [2, 1, 0, -1]
    assert x[torch.tensor([0, 3])].tolist() == [0, 3]
    assert x[torch.tensor([True, False, False, True])].tolist() == [0, 3]
    x[torch.tensor([1])] = torch.tensor(9.0)
    assert x.tolist() == [0, 9, 2, 3]
    c = torch.tensor(2.0, requires_grad=True)
    (x * c).sum().backward()
    assert c.grad.is_cpu
    assert c.grad.item() == 14


def test_layouts_that_it_has_not_are_refused_in_words():
    x = torch.eye(2, device="sim")
    embedding = torch.nn.Embedding(3, 2, sparse=True).to("sim")
    attempts = [
        x.to_sparse,
        x.to_sparse_csr,
        x.to_mkldnn,
        lambda: torch.eye(2).to_sparse().to("sim"),
        lambda: embedding(torch.tensor([1], device="sim")).sum().backward(),
        lambda: torch.empty(2, layout=torch.sparse_coo, device="sim"),
    ]
    for attempt in attempts:
        with pytest.raises(NotImplementedError, match="sim holds dense tensors only"):
            attempt()


def test_autocast_is_refused_in_words_and_a_block_that_is_not_enabled_is_not():
    x = torch.ones(2, device="sim")
    with torch.autocast("sim", enabled=False):
        assert (x + x).tolist() == [2, 2]
    with torch.autocast("sim"), pytest.raises(RuntimeError, match="sim has no autocast, and aten::add"):
        x + x
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype is torch.bfloat16


def test_an_operator_that_the_cpu_lacks_raises_a_clear_error():
    with pytest.raises(NotImplementedError, match="sim cannot run aten::_cslt_compress: the CPU"):
        torch._cslt_compress(torch.ones(2, 2, device="sim"))


class Interrupted(Exception):
    pass


def interrupt(*args):
    raise Interrupted


def test_an_error_in_a_hook_or_a_function_of_the_learner_comes_out_of_backward():
    class Fails(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, gradient):
            raise Interrupted

    def hooked(w):
        y = w.exp()
        y.register_hook(interrupt)
        return y.sum()

    def saved(w):
        with torch.autograd.graph.saved_tensors_hooks(lambda tensor: tensor, interrupt):
            return w.exp().sum()

    def accumulated(w):
        w.register_post_accumulate_grad_hook(interrupt)
        return w.sum()

    for build in (hooked, saved, accumulated, lambda w: Fails.apply(w).sum()):
        w = torch.ones(2, device="sim", requires_grad=True)
        with pytest.raises(Interrupted):
            build(w).backward()
    with pytest.raises(RuntimeError, match="does not require grad"):
        torch.ones(2, device="sim").sum().backward()


@pytest.mark.parametrize("kind", ["Ctrl-C", "another thread"])
def test_hundreds_of_interruptions_end_neither_the_process_nor_its_memory(kind):
    code = """
        import ctypes, os, random, signal, sys, threading, time
        import torch
        from autogradlab import accelerator

        class Stopped(BaseException):
            pass

        def interrupt():
            if sys.argv[1] == "Ctrl-C":
                os.kill(os.getpid(), signal.SIGINT)
            else:
                identity, error = ctypes.c_ulong(main), ctypes.py_object(Stopped)
                ctypes.pythonapi.PyThreadState_SetAsyncExc(identity, error)

        def again_and_again():
            for _ in range(300):
                time.sleep(random.uniform(0.002, 0.008))
                interrupt()
            over.set()

        def train():
            w = torch.ones(20, 20, device=device, requires_grad=True)
            while not over.is_set():
                (w @ w).tanh().sum().backward()
                w.grad = None

        device, main, over, seen = accelerator.register(note=False), threading.get_ident(), threading.Event(), 0
        thread = threading.Thread(target=again_and_again)
        rested = False
        while not rested:
            # Twice, since one may arrive outside the inner `try`; two never come so close to each other.
            try:
                while not rested:
                    try:
                        if thread.ident is None:
                            thread.start()
                        train()
                        thread.join()
                        time.sleep(0.3)
                        rested = True
                    except (KeyboardInterrupt, Stopped):
                        seen += 1
            except (KeyboardInterrupt, Stopped):
                seen += 1
        print(seen > 50, torch.sim.memory_allocated())
    """
    assert run(code, kind) == "True 0\n"


def test_ctrl_c_reaches_a_program_that_has_turned_to_something_else():
    code = """
        import os, signal, threading, time, torch
        from autogradlab import accelerator
        device = accelerator.register(note=False)
        for handler in (signal.default_int_handler, lambda number, frame: print("handled", number)):
            signal.signal(signal.SIGINT, handler)
            x = torch.ones(2, device=device) + 1
            begin = time.monotonic()
            threading.Timer(0.02, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
            try:
                time.sleep(0.6)
            except KeyboardInterrupt:
                print("raised", time.monotonic() - begin < 0.5)
    """
    assert run(code) == "raised True\nhandled 2\n"


# ------------------------------------------------------------------------------------------------ views and writing


def test_views_share_memory_and_versions():
    x = torch.arange(6.0, device="sim").reshape(2, 3)
    row = x[0]
    row += 10
    assert x.tolist() == [[10, 11, 12], [3, 4, 5]]
    assert row._base is not None
    assert row._version == x._version
    x.t()[0, 1] = -1
    assert x[1, 0].item() == -1
    assert x.view(-1).data_ptr() == x.data_ptr()
    assert x.expand(2, 2, 3).stride() == (0, 3, 1)
    window = x.view(-1).as_strided((2,), (3,), 2)
    window.zero_()
    assert x[:, 2].tolist() == [0, 0]
    assert torch.view_as_real(torch.zeros(2, dtype=torch.complex64, device="sim")).shape == (2, 2)
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
        torch.zeros(1, device="sim").expand(3).add_(1)


def test_autograd_sees_what_is_edited_in_place():
    h = torch.ones(3, device="sim", requires_grad=True).relu()
    h += 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        h.sum().backward()
    w = torch.ones(3, device="sim", requires_grad=True)
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad is being used in an in-place operation"):
        w += 1
    y = w.clone()
    y[0] = 0
    y.view(3, 1)[1].mul_(5)
    y.sum().backward()
    assert w.grad.tolist() == [0, 5, 1]
    d = w.detach()
    d[0] = 7
    assert w[0].item() == 7


def test_results_can_be_written_into_a_given_tensor():
    x = torch.arange(6.0, device="sim").reshape(2, 3)
    out = torch.empty(0, device="sim")
    assert torch.add(x, x, out=out) is out
    assert out.tolist() == [[0, 2, 4], [6, 8, 10]]
    fitting = torch.empty(3, 2, device="sim").t()
    torch.mul(x, 2, out=fitting)
    assert fitting.tolist() == out.tolist()
    values, indices = torch.empty(0, device="sim"), torch.empty(0, dtype=torch.int64, device="sim")
    torch.sort(x, descending=True, out=(values, indices))
    assert values.tolist() == [[2, 1, 0], [5, 4, 3]]
    torch.nonzero(x, out=indices.resize_(0))
    assert indices.shape == (5, 2)


def test_resize_and_set_move_a_tensor_over_memory():
    x = torch.arange(4.0, device="sim")
    x.resize_(2)
    assert x.tolist() == [0, 1]
    x.resize_(2, 3)
    assert x.flatten()[:4].tolist() == [0, 1, 2, 3]
    y = torch.zeros(2, device="sim")
    y.set_(x)
    assert y.data_ptr() == x.data_ptr()
    assert torch.empty(0, device="sim").set_(x.untyped_storage(), 1, (2,), (1,)).tolist() == [1, 2]
    with pytest.raises(RuntimeError, match="different device"):
        y.set_(torch.ones(2).untyped_storage())


def random_program(seed, device):
    """Forty random edits of tensors that share memory, and what they hold at the end."""
    random = numpy.random.RandomState(seed)
    x = torch.arange(24.0).reshape(4, 6).to(device)
    seen = [x]
    for _ in range(40):
        t = seen[random.randint(len(seen))]
        kind = random.randint(9)
        if kind == 0 and t.dim():
            t = t.select(random.randint(t.dim()), 0)
        elif kind == 1 and t.dim() >= 2:
            t = t.transpose(0, 1)
        elif kind == 2 and t.dim():
            t = t[::2] if random.randint(2) else t[1:]
        elif kind == 3:
            t = t.reshape(-1)
        elif kind == 4:
            t.add_(random.randint(5))
        elif kind == 5:
            t.mul_(0.5)
        elif kind == 6 and t.dim():
            t[..., : t.size(-1) // 2] = float(random.randint(9))
        elif kind == 7:
            t = t.unsqueeze(random.randint(t.dim() + 1)) if t.dim() < 4 else t.squeeze()
        else:
            t = t * 1.5 + seen[0].sum()
        if t.numel():
            seen.append(t)
    return [(t.tolist(), t.stride(), t.storage_offset(), t._version) for t in seen]


@pytest.mark.parametrize("seed", range(40))
def test_random_edits_through_views_end_as_on_the_cpu(seed):
    assert random_program(seed, "sim") == random_program(seed, "cpu")


# ------------------------------------------------------------------------------------------------ learning


def trained(device, make, steps=4, **settings):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2)).to(device)
    x, y = torch.randn(5, 3).to(device), torch.tensor([0, 1, 0, 1, 1]).to(device)
    optimizer = make(model.parameters(), lr=0.05, **settings)
    for _ in range(steps):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    return [parameter.detach().cpu() for parameter in model.parameters()]


@pytest.mark.parametrize("settings", [{}, {"foreach": True}, {"foreach": False}, {"fused": True}], ids=str)
@pytest.mark.parametrize("make", [torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW])
def test_optimizers_train_to_the_same_weights(make, settings):
    for ours, theirs in zip(trained("sim", make, **settings), trained("cpu", make, **settings), strict=True):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("make", [torch.nn.RNN, torch.nn.LSTM, torch.nn.GRU])
def test_recurrent_modules_agree_with_the_cpu_packed_too(make):
    torch.manual_seed(0)
    model, x = make(3, 4, num_layers=2, bidirectional=True, batch_first=True), torch.randn(2, 5, 3)
    results = []
    for device in ("cpu", "sim"):
        model.to(device).zero_grad()
        packed = torch.nn.utils.rnn.pack_padded_sequence(x.to(device), torch.tensor([5, 3]), batch_first=True)
        output, _ = torch.nn.utils.rnn.pad_packed_sequence(model(packed)[0], batch_first=True)
        plain = model(x.to(device))[0]
        (output.sum() + (plain**2).sum()).backward()
        results.append([output, plain, *(parameter.grad.clone() for parameter in model.parameters())])
    for theirs, ours in zip(*results, strict=True):
        torch.testing.assert_close(ours.cpu(), theirs, rtol=1e-4, atol=1e-5)


def test_modules_of_many_kinds_run_forward_and_backward():
    torch.manual_seed(0)
    images, sequence = torch.randn(2, 1, 8, 8), torch.randn(2, 3, 8)
    cases = [
        (torch.nn.Sequential(torch.nn.Conv2d(1, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.MaxPool2d(2)), images),
        (torch.nn.ConvTranspose2d(1, 2, 3), images),
        (torch.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True), sequence),
        (torch.nn.Sequential(torch.nn.LayerNorm(8), torch.nn.GELU(), torch.nn.Dropout(0.0)), sequence),
    ]
    for model, x in cases:
        results = []
        for device in ("cpu", "sim"):
            model.to(device).zero_grad()
            x_there = x.to(device, copy=True).requires_grad_()
            y = model(x_there)
            (y**2).sum().backward()
            results.append([y, x_there.grad, *(parameter.grad.clone() for parameter in model.parameters())])
        for theirs, ours in zip(*results, strict=True):
            torch.testing.assert_close(ours.cpu(), theirs, rtol=1e-4, atol=1e-4)


def test_gradients_pass_gradcheck_also_of_second_order():
    x = torch.randn(3, 4, dtype=torch.float64, device="sim", requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: (x.sin() * x).sum(1), x)
    assert torch.autograd.gradgradcheck(lambda x: (x.sin() * x).sum(1), x)


def test_function_transforms_hooks_and_checkpoints_work():
    x = torch.arange(3.0, device="sim")
    assert torch.func.grad(lambda x: (x**3).sum())(x).tolist() == [0, 3, 12]
    assert torch.func.vmap(lambda row: row.sum())(x.expand(2, 3)).tolist() == [3, 3]
    assert torch.func.jacrev(lambda x: x**2)(x).diagonal().tolist() == [0, 2, 4]
    w = x.clone().requires_grad_()
    seen = []
    handle = w.register_hook(seen.append)
    torch.utils.checkpoint.checkpoint(lambda w: (w**2).sum(), w, use_reentrant=False).backward()
    assert w.grad.tolist() == [0, 2, 4]
    assert seen[0].is_sim
    handle.remove()
    with accelerator.counts() as seen:
        with torch.autograd.graph.save_on_cpu():
            loss = (w.exp() ** 2).sum()
        loss.backward()
    assert (seen.transfers_to_host, seen.transfers_to_device) == (2, 2)
    with torch.inference_mode():
        frozen = w * 2
        frozen.add_(1)
    assert (frozen + 1).tolist() == [2, 4, 6]
    with pytest.raises(RuntimeError, match="Inference tensors cannot be saved for backward"):
        w * frozen


def test_complex_tensors_are_conjugated_lazily_and_copied_rightly():
    z = torch.tensor([1 + 2j, 3 - 1j], device="sim", requires_grad=True)
    assert z.conj().is_conj()
    assert z.detach().conj().cpu().tolist() == [1 - 2j, 3 + 1j]
    assert z.detach().conj().imag.tolist() == [-2, 1]
    (z.conj() * z).real.sum().backward()
    assert z.grad.tolist() == [2 + 4j, 6 - 2j]
    assert torch.fft.ifft(torch.fft.fft(torch.arange(4.0, device="sim"))).real.tolist() == [0, 1, 2, 3]


def test_another_thread_can_run_backward():
    w = torch.ones(2, device="sim", requires_grad=True)
    thread = threading.Thread(target=lambda: (w * 2).sum().backward())
    thread.start()
    thread.join()
    assert w.grad.tolist() == [2, 2]


# ------------------------------------------------------------------------------------------------ keeping


def saved(value, **settings):
    file = io.BytesIO()
    torch.save(value, file, **settings)
    file.seek(0)
    return file


def test_what_is_saved_is_loaded_where_it_was_or_where_it_is_wanted():
    model = torch.nn.Linear(2, 3).to("sim")
    there = torch.load(saved(model.state_dict()))
    assert there["weight"].is_sim
    assert torch.equal(there["weight"], model.weight)
    assert torch.load(saved(model.state_dict()), map_location="cpu")["weight"].is_cpu
    assert torch.load(saved(torch.ones(2)), map_location="sim").is_sim
    model.load_state_dict(torch.load(saved(model.state_dict()), map_location="cpu"))
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(1, 2, device="sim")).sum().backward()
    optimizer.step()
    optimizer.load_state_dict(torch.load(saved(optimizer.state_dict())))
    optimizer.step()
    x = torch.arange(4.0, device="sim")
    both = torch.load(saved([x, x[:2]]))
    both[1].zero_()
    assert both[0].tolist() == [0, 0, 2, 3]
    assert torch.load(saved(x, _use_new_zipfile_serialization=False)).tolist() == x.tolist()
    assert pickle.loads(pickle.dumps(x)).is_sim


def test_a_file_saved_from_it_loads_on_a_machine_without_it(tmp_path):
    torch.save({"w": torch.ones(2, device="sim")}, tmp_path / "w.pt")
    code = "import sys, torch; print(torch.load(sys.argv[1], map_location='cpu'))"
    assert run(code, str(tmp_path / "w.pt")) == "{'w': tensor([1., 1.])}\n"


def test_copies_are_deep_and_stay_on_the_device():
    w = torch.ones(2, device="sim", requires_grad=True)
    (w * 3).sum().backward()
    x = torch.arange(4.0, device="sim")
    twin, whole, part = copy.deepcopy([w, x, x[:2]])
    assert twin.is_sim
    assert twin.grad.tolist() == [3, 3]
    part.zero_()
    assert (whole.tolist(), x.tolist()) == ([0, 0, 2, 3], [0, 1, 2, 3])
    model = torch.nn.Linear(2, 2).to("sim")
    assert copy.deepcopy(model).weight is not model.weight
    assert torch.UntypedStorage(4, device="sim").nbytes() == 4


def test_tensors_print_as_on_any_other_device():
    assert repr(torch.tensor([1.0, 2.5], device="sim")) == "tensor([1.0000, 2.5000], device='sim:0')"
    assert repr(torch.tensor(1, device="sim")) == "tensor(1, device='sim:0')"
    w = torch.zeros(1, device="sim", requires_grad=True)
    assert repr(w * 2) == "tensor([0.], device='sim:0', grad_fn=<MulBackward0>)"
    assert f"{w[0]:.2f}" == "0.00"
    assert torch.ones(1, device="sim").type() == "torch.sim.FloatTensor"


def test_the_course_observes_it():
    x = torch.arange(4.0, device="sim")
    tree = encode({"whole": x, "part": x[2:], "float": x.double()})
    whole, part, double = decode(tree).values()
    assert (whole.tolist(), part.tolist(), double.dtype) == ([0, 1, 2, 3], [2, 3], torch.float64)
    assert memory_key(x) == memory_key(x[2:]) == memory_key(x.detach()) != memory_key(x.clone())


# ------------------------------------------------------------------------------------------------ random numbers


def test_a_seed_gives_what_it_gives_on_the_cpu_in_a_stream_of_its_own():
    draws = [
        lambda device: torch.randn(3, device=device),
        lambda device: torch.rand(2, 2, device=device),
        lambda device: torch.randint(9, (5,), device=device),
        lambda device: torch.randperm(6, device=device),
        lambda device: torch.zeros(3, device=device).uniform_(),
        lambda device: torch.full((4,), 0.5, device=device).bernoulli(),
    ]
    for draw in draws:
        torch.manual_seed(5)
        on_sim = draw("sim").tolist()
        assert on_sim == draw("cpu").tolist()
        torch.sim.manual_seed(5)
        assert draw("sim").tolist() == on_sim


def test_dropout_draws_from_the_device_alone():
    torch.manual_seed(0)
    first = F.dropout(torch.ones(100, device="sim"))
    after = torch.rand(1)
    torch.manual_seed(0)
    assert torch.equal(torch.rand(1), after)
    assert torch.equal(F.dropout(torch.ones(100, device="sim")), first)
    assert set(first.tolist()) == {0.0, 2.0}


def test_a_generator_belongs_to_a_device():
    ours, theirs = torch.Generator(device="sim").manual_seed(3), torch.Generator().manual_seed(3)
    assert (ours.device.type, theirs.device.type) == ("sim", "cpu")
    assert isinstance(ours, torch.Generator)
    assert isinstance(theirs, torch.Generator)
    drawn = torch.randn(4, device="sim", generator=ours).tolist()
    assert drawn == torch.randn(4, generator=theirs).tolist()
    with pytest.raises(RuntimeError, match="Expected a 'sim' device type for generator but found 'cpu'"):
        torch.randn(4, device="sim", generator=theirs)
    for generator in (ours, theirs):
        assert pickle.loads(pickle.dumps(generator)).device == generator.device
    state = ours.get_state()
    twin = copy.deepcopy(ours)
    expected = torch.randn(2, device="sim", generator=ours).tolist()
    assert torch.randn(2, device="sim", generator=twin).tolist() == expected
    assert torch.randn(2, device="sim", generator=ours.set_state(state)).tolist() == expected


def test_the_stream_can_be_kept_and_forked():
    state = torch.sim.get_rng_state()
    first = torch.rand(2, device="sim").tolist()
    torch.sim.set_rng_state(state)
    with torch.random.fork_rng():
        assert torch.rand(2, device="sim").tolist() == first
    assert torch.rand(2, device="sim").tolist() == first


# ------------------------------------------------------------------------------------------------ memory


def test_each_storage_counts_once_and_is_given_back_at_once():
    gc.disable()
    try:
        before = torch.sim.memory_allocated()
        x = torch.zeros(256, device="sim")
        views = [x[:10], x.view(16, 16).t(), x.detach(), x.expand(3, 256)]
        assert torch.sim.memory_allocated() - before == 1024
        del x
        assert torch.sim.memory_allocated() - before == 1024
        del views
        assert torch.sim.memory_allocated() == before
        w = torch.ones(256, device="sim", requires_grad=True)
        loss = w.exp().sum()
        assert torch.sim.memory_allocated() - before == 1024 + 1024 + 4
        loss.backward()
        assert torch.sim.memory_allocated() - before == 1024 + 4 + 1024
        del w, loss
        assert torch.sim.memory_allocated() == before
        assert torch.zeros(0, device="sim").untyped_storage().nbytes() == 0
    finally:
        gc.enable()


def test_the_peak_and_the_summary_follow():
    torch.sim.reset_peak_memory_stats()
    before = torch.sim.memory_allocated()
    assert torch.sim.max_memory_allocated() == before
    torch.zeros(1 << 18, device="sim")
    assert torch.sim.memory_allocated() == before
    assert torch.sim.max_memory_allocated() == before + (1 << 20)
    free, capacity = torch.sim.mem_get_info()
    assert free + before == capacity
    lines = torch.sim.memory_summary().splitlines()
    assert [line.split()[0] for line in lines[1:]] == ["allocated", "at", "free", "capacity"]
    assert lines[-1].split()[1:] == ["1.00", "GiB"]


def test_a_full_device_says_so_before_it_allocates_and_stays_usable():
    a = torch.ones(100, device="sim")
    row, rows = torch.ones(1, 1, 20, device="sim"), torch.ones(30, 1, 1, device="sim")
    gc.collect()
    allocated = torch.sim.memory_allocated()
    too_much = [
        lambda: torch.zeros(1000, device="sim"),
        lambda: torch.ones(1000).to("sim"),
        lambda: a[:, None] * a,
        lambda: a[:, None] @ a[None],
        lambda: torch.cat([a] * 5),
        lambda: a.repeat(5),
        lambda: a.double(),
        lambda: F.conv1d(row, rows),
        lambda: a.clone().resize_(1000),
        lambda: torch.tensor([0.0] * 1000, device="sim"),
        lambda: torch.empty(1 << 50, device="sim"),
        lambda: F.interpolate(row[None], size=(1 << 15, 1 << 15)),
        lambda: torch.diag_embed(a),
        lambda: torch.mm(a[:, None].expand(100, 2), a[None].expand(2, 100)),
    ]
    with accelerator.limits(capacity=allocated + 600):
        for operation in too_much:
            with pytest.raises(torch.OutOfMemoryError, match=r"^sim out of memory\. Tried to allocate "):
                operation()
            assert torch.sim.memory_allocated() == allocated
        assert (a + 1).sum().item() == 200
        w = torch.ones(60, device="sim", requires_grad=True)
        loss = w.exp().sum()
        with pytest.raises(torch.OutOfMemoryError):
            loss.backward()
    loss = w.exp().sum()
    loss.backward()
    assert w.grad.isfinite().all()


def test_the_error_gives_the_figures():
    with accelerator.limits(capacity=torch.sim.memory_allocated() + 2048):
        a = torch.zeros(256, device="sim")
        allocated = torch.sim.memory_allocated()
        with pytest.raises(torch.OutOfMemoryError) as error:
            torch.zeros(512, device="sim")
    free, capacity = "1.00 KiB", torch.sim.memory_allocated() + 1024
    assert str(error.value).startswith("sim out of memory. Tried to allocate 2.00 KiB. sim:0 has a total capacity of ")
    assert f"of which {free} is free. Of the rest, " in str(error.value)
    assert f": {allocated:,} bytes. What keeps them alive?" in str(error.value)
    assert capacity == allocated + 1024
    assert len(a) == 256


def leaky(kind, steps=50, log=None):
    w, x = torch.ones(256, 256, device="sim", requires_grad=True), torch.ones(256, 256, device="sim")
    gc.collect()
    before, kept, readings = torch.sim.memory_allocated() - 2 * 262144, [], []
    for step in range(steps):
        loss = ((x @ w).relu() ** 2).mean()
        if kind == "backward":
            w.grad = None
            loss.backward()
        kept.append(log(loss))
        del loss
        if step % 10 == 9:
            readings.append((torch.sim.memory_allocated() - before) // 1024)
    return readings


def test_a_kept_loss_grows_only_where_backward_never_ran():
    assert leaky("forward", log=lambda loss: loss) == [3072, 5632, 8192, 10752, 13312]
    for log in (lambda loss: loss, lambda loss: loss.item(), lambda loss: loss.detach()):
        assert leaky("backward", log=log) == [768] * 5


def step_at_which_it_dies(way, steps):
    torch.manual_seed(0)
    layers = [torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 128), torch.nn.ReLU()]
    model = torch.nn.Sequential(*layers, torch.nn.Linear(128, 10)).to("sim")
    x, y = torch.randn(256, 64, device="sim"), torch.randint(10, (256,), device="sim")
    history = []
    for step in range(1, steps + 1):
        with torch.no_grad() if way == "no_grad" else torch.enable_grad():
            try:
                loss = F.cross_entropy(model(x), y)
            except torch.OutOfMemoryError:
                return step
        if way == "append after backward":
            model.zero_grad()
            loss.backward()
        history.append(loss.item() if way == "item" else loss.detach() if way == "detach" else loss)
        del loss
    return None


def test_a_leak_dies_in_step_61_and_four_other_ways_survive():
    gc.collect()
    gc.disable()
    try:
        before = torch.sim.memory_allocated()
        with accelerator.limits(capacity=before + 16 * 2**20):
            assert step_at_which_it_dies("append", 100) == 61
            assert torch.sim.memory_allocated() == before
            for way in ("item", "detach", "no_grad", "append after backward"):
                assert step_at_which_it_dies(way, 200) is None
                assert torch.sim.memory_allocated() == before
    finally:
        gc.enable()


@pytest.mark.long
def test_the_four_ways_survive_two_thousand_steps():
    with accelerator.limits(capacity=torch.sim.memory_allocated() + 16 * 2**20):
        for way in ("item", "detach", "no_grad", "append after backward"):
            assert step_at_which_it_dies(way, 2000) is None


# ------------------------------------------------------------------------------------------------ counters


def test_four_taxis_and_one_lorry_are_counted():
    x = torch.ones(4, 3)
    with accelerator.counts() as taxis:
        for row in x:
            row.to("sim")
    with accelerator.counts() as lorry:
        x.to("sim")
    assert (taxis.transfers, taxis.bytes_to_device) == (4, 48)
    assert (lorry.transfers, lorry.bytes_to_device) == (1, 48)
    assert (taxis.syncs, taxis.operations) == (0, 0)


@pytest.mark.parametrize(
    ("read", "syncs", "transfers"),
    [
        (lambda x: x[0].item(), 1, 0),
        (lambda x: float(x[0]), 1, 0),
        (lambda x: bool(x[0] > 0), 1, 0),
        (lambda x: f"{x[0]:.3f}", 1, 0),
        (lambda x: list(range(x[0].int())), 1, 0),
        (lambda x: x.tolist(), 1, 1),
        (lambda x: x.cpu(), 1, 1),
        (lambda x: x.to("cpu", non_blocking=True), 1, 1),
        (lambda x: torch.empty(3).copy_(x), 1, 1),
        (lambda x: torch.equal(x, x), 1, 0),
        (lambda x: x[x > 0], 1, 0),
        (lambda x: torch.nonzero(x), 1, 0),
        (lambda x: x.masked_fill_(x > 5, 0), 0, 0),
        (lambda x: x.clone(), 0, 0),
        (lambda x: x.sum() + 1, 0, 0),
        (lambda x: x.shape[0], 0, 0),
    ],
)
def test_what_the_host_waits_for_is_counted(read, syncs, transfers):
    x = torch.ones(3, device="sim")
    with accelerator.counts() as seen:
        read(x)
    assert (seen.syncs, seen.transfers_to_host, seen.transfers_to_device) == (syncs, transfers, 0)


def test_operations_are_counted_forward_and_backward_and_views_are_none():
    w = torch.ones(3, device="sim", requires_grad=True)
    with accelerator.counts() as forward:
        loss = (w * 2).view(3, 1).t()[0].sum()
    with accelerator.counts() as backward:
        loss.backward()
    assert forward.operations == 2
    assert 2 <= backward.operations <= 8
    assert forward.as_dict()["operations"] == 2
    assert "operations=2" in repr(forward)
    with pytest.raises(AttributeError, match="no 'ops'; it has operations, syncs"):
        _ = forward.ops


def test_counts_end_with_their_block_and_totals_go_on():
    with accelerator.counts() as seen:
        torch.ones(1).to("sim")
        assert seen.transfers == 1
    total = accelerator.totals.transfers_to_device
    torch.ones(1).to("sim")
    assert seen.transfers == 1
    assert accelerator.totals.transfers_to_device == total + 1


def test_a_trip_can_be_made_to_take_its_time():
    x = torch.ones(4, 3)

    def seconds(trips):
        begin = time.perf_counter()
        for part in x.chunk(trips):
            part.to("sim")
        return time.perf_counter() - begin

    with accelerator.limits(latency_seconds=0.05):
        assert seconds(4) >= 0.2 > 0.05 <= seconds(1)
        assert torch.sim.memory_allocated() >= 0
    begin = time.perf_counter()
    x.to("sim")
    assert time.perf_counter() - begin < 0.05


def test_impossible_settings_are_refused():
    for set_up, value in (
        (torch.sim.set_capacity, -1),
        (torch.sim.set_capacity, 1.5),
        (torch.sim.set_transfer_latency, -1),
    ):
        with pytest.raises(ValueError, match=re.escape(repr(value))):
            set_up(value)
    for function in (torch.sim.memory_allocated, torch.sim.set_device, torch.sim.synchronize):
        with pytest.raises(RuntimeError, match="the one simulated accelerator"):
            function("cuda")


# ------------------------------------------------------------------------------------------------ the rest of PyTorch


def test_device_agnostic_code_finds_it():
    assert torch.accelerator.is_available()
    assert torch.accelerator.current_accelerator() == torch.device("sim")
    assert torch.accelerator.device_count() == 1
    assert torch.accelerator.current_device_index() == 0
    torch.accelerator.synchronize()
    torch.accelerator.empty_cache()
    assert torch.accelerator.memory_allocated() == torch.sim.memory_allocated()
    assert torch.accelerator.max_memory_allocated() == torch.sim.max_memory_allocated()
    assert torch.accelerator.memory_stats()["allocated_bytes.all.current"] == torch.sim.memory_allocated()
    assert torch.get_device_module("sim") is torch.sim
    assert (torch.sim.is_available(), torch.sim.device_count(), torch.sim.current_device()) == (True, 1, 0)
    assert torch.nn.Linear(2, 2).sim().weight.is_sim
    with torch.sim.device(0):
        assert torch.ones(1).is_cpu


def test_a_loader_that_pins_memory_still_loads():
    loader = torch.utils.data.DataLoader(torch.arange(4.0), batch_size=2, pin_memory=True)
    assert [batch.to("sim", non_blocking=True).tolist() for batch in loader] == [[0, 1], [2, 3]]


def test_modes_of_the_caller_see_what_it_called_and_nothing_of_the_inside():
    from torch.overrides import TorchFunctionMode
    from torch.utils._python_dispatch import TorchDispatchMode

    names = []

    class Functions(TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            names.append(function.__name__)
            return function(*args, **(kwargs or {}))

    class Operators(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            names.append(str(function))
            return function(*args, **(kwargs or {}))

    x = torch.ones(2, device="sim")
    with Functions():
        (x + x).cpu()
    assert names == ["add", "cpu"]
    names.clear()
    with Operators():
        (x + x).cpu()
    assert names == ["aten.add.Tensor", "aten._to_copy.default"]


def test_work_on_the_cpu_is_left_as_it_is():
    w = torch.ones(2, requires_grad=True)
    with accelerator.counts() as seen:
        (w * 2).sum().backward()
        model = torch.nn.Linear(2, 2)
        weight = model.weight
        assert model.double().weight is weight
        torch.load(saved(model.state_dict()))
        copy.deepcopy(model)
        torch.zeros(2).untyped_storage().clone()
    assert w.grad.tolist() == [2, 2]
    assert not any(seen.as_dict().values())
    assert not hasattr(w.untyped_storage(), "_host")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="only processes that can fork")
def test_loaders_with_workers_hand_batches_to_the_device():
    shown = run(
        """
        import torch
        from autogradlab import accelerator
        if __name__ == "__main__":
            accelerator.register(note=False)
            loader = torch.utils.data.DataLoader(torch.arange(4.0), batch_size=2, num_workers=1)
            print([batch.to("sim").sum().item() for batch in loader])
        """
    )
    assert shown == "[1.0, 5.0]\n"


def test_the_page_says_what_is_so():
    result = subprocess.run(
        [sys.executable, "-m", "doctest", "-o", "ELLIPSIS", str(DOCS / "accelerator.md")],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (result.returncode, result.stdout) == (0, ""), result.stdout + result.stderr
    assert doctest.DocTestParser().get_examples((DOCS / "accelerator.md").read_text("utf-8"))
