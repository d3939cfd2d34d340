"""What a program did is written down as it was, twice the same, and nothing else changes."""

import contextlib
import gc
import random
import sys
import threading
import time
import types
import warnings
import weakref

import numpy
import pytest
import torch
from autogradlab.encoding import decode, pack, unpack
from autogradlab.exercises import AtMost, Budget, Flat, Forbid, Same, define, exercise
from autogradlab.observation import graph_of, message_of, observe
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

EVERYTHING = (
    "returned",
    "returned.requires_grad",
    "returned.is_leaf",
    "returned.grad_fn",
    "returned.graph",
    "returned.memory",
    "returned.identity",
    "returned.grad",
    "returned.version",
    "returned.device",
    "arguments",
    "arguments.grad",
    "mode",
    "kept",
    "calls",
    "printed",
)


def made(script, *conditions, **options):
    """The exercise of a script, with everything observed that its conditions do not name."""
    options.setdefault("arguments", ("w", "x"))
    return exercise(Same("everything is the same", *EVERYTHING), *conditions, **options)(script)


def call_once(program, case):
    return {"result": program(case.normal(2, requires_grad=True), case.normal(2))}


def seen(program, script=call_once, *conditions, **options):
    """What a program does in case 0."""
    return observe(made(script, *conditions, **options), program, 0, 0)


def raised_by(program, script):
    """The exception of a program in a unit's script, as messages quote it."""
    return observe(made(of_a_unit(script)), program, 0, 0, describe=True)["raised"]


def argument(look, name):
    """The value of an argument, from one look at the arguments."""
    return decode({"tree": look["tree"][name], "storages": look["storages"]})


def tree(observation, name="result"):
    return observation["returned"]["tree"][name]


def snapshot():
    """What a program might leave changed in the process."""
    return {
        "grad": torch.is_grad_enabled(),
        "inference": torch.is_inference_mode_enabled(),
        "dtype": torch.get_default_dtype(),
        "device": torch.get_default_device(),
        "torch stream": torch.get_rng_state().tolist(),
        "numpy stream": repr(numpy.random.get_state()),
        "python stream": random.getstate(),
        "output": (sys.stdout, sys.stderr),
        "tracing": (sys.gettrace(), sys.getprofile()),
        "filters": list(warnings.filters),
        "hooks": bool(torch._C._autograd._top_saved_tensors_default_hooks(False)),
        "modules": len(nn.modules.module._global_forward_hooks),
        "methods": (torch.Tensor.tolist, torch.Tensor.numpy, torch.autograd.grad),
        "frozen": gc.get_freeze_count(),
        "threads": threading.active_count(),
    }


# -------------------------------------------------------------------------------------------------- the same again


def right(w, x):
    loss = (w * x).sum()
    loss.backward()
    print("loss", loss)
    return {"loss": loss, "again": loss, "parts": [w, (w * x)[:1]]}


def scribbler(w, x):
    """Leaves behind what it can."""
    torch.manual_seed(3)
    torch.set_default_dtype(torch.float64)
    torch.set_default_device("meta")
    torch.set_grad_enabled(False)
    random.seed(4)
    numpy.random.seed(5)
    warnings.simplefilter("error")
    sys.settrace(lambda *_: None)
    sys.stdout = None
    nn.modules.module.register_module_forward_hook(lambda *_: None)
    torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t).__enter__()
    return w


def thrower(w, x):
    scribbler(w, x)
    raise SystemExit(3)


def random_walk(w, x):
    return torch.rand(3), numpy.random.rand(2).tolist(), random.random(), nn.Linear(2, 2).weight


PROGRAMS = [right, scribbler, thrower, random_walk, lambda w, x: None, lambda: 0]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_observing_twice_gives_the_same_plain_data_and_changes_nothing(program):
    one = made(call_once, Flat("flat", "cost.peak_bytes", over="steps"), AtMost("few", "cost.syncs", 3))
    before = snapshot()
    first, second = (observe(one, program, 0, 0) for _ in range(2))
    assert snapshot() == before
    assert pack(first) == pack(second)
    assert unpack(pack(first)) == first


@settings(max_examples=25)
@given(st.integers(0, 1000), st.integers(0, 20), st.sampled_from(["float32", "float64"]))
def test_any_case_is_observed_the_same_twice(seed, index, dtype):
    one = made(call_once, dtypes=("float32", "float64"))
    first, second = (observe(one, right, seed, index, dtype) for _ in range(2))
    assert pack(first) == pack(second)
    assert first["dtype"] == dtype


DIRTY = {
    "no grad": torch.no_grad,
    "inference mode": torch.inference_mode,
    "device": lambda: torch.device("meta"),
    "autocast": lambda: torch.autocast("cpu", dtype=torch.bfloat16),
    "anomaly": lambda: torch.autograd.set_detect_anomaly(True),
    "hooks": lambda: torch.autograd.graph.saved_tensors_hooks(lambda t: t.double(), lambda t: t.float()),
    "no hooks": lambda: torch.autograd.graph.disable_saved_tensors_hooks("not now"),
    "warnings as errors": lambda: errors(),
    "another dtype": lambda: other_dtype(),
}


@contextlib.contextmanager
def errors():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


@contextlib.contextmanager
def other_dtype():
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)


def warning(w, x):
    warnings.warn("old-fashioned", DeprecationWarning, stacklevel=2)
    return right(w, x)


@pytest.mark.filterwarnings("ignore:Anomaly Detection")
@pytest.mark.parametrize("name", DIRTY)
def test_a_dirty_process_sees_what_a_clean_one_sees(name):
    one = made(call_once, AtMost("little", "cost.peak_bytes", 100))
    clean = observe(one, warning, 0, 1)
    with DIRTY[name]():
        before = snapshot()
        dirty = observe(one, warning, 0, 1)
        assert snapshot() == before
    assert pack(dirty) == pack(clean)


# ------------------------------------------------------------------------------------------------ what is written


def test_the_observation_is_plain_data_with_the_parts_that_were_asked_for():
    observation = seen(right)
    assert observation["raised"] is None
    assert observation["printed"].startswith("loss tensor(")
    assert tree(observation)["$"] == "dict"
    assert observation["arguments"][0]["tree"]["w"]["grad"] is not None
    assert observation["arguments"][0]["tree"]["x"]["grad"] is None
    assert {"mode", "calls", "facts", "returned_none"} <= observation.keys()
    assert "cost" not in observation and "texts" not in observation


def test_what_nobody_asks_for_is_not_written_down():
    lean = exercise(Same("it is right", "returned.result"))(call_once)
    observation = observe(lean, right, 0, 0)
    assert "printed" not in observation and "cost" not in observation and observation["arguments"] == []
    assert "graph" not in tree(observation)["items"][0][1]


def test_memory_names_everything_else_over_the_same_memory():
    def script(program, case):
        w = case.normal(4)
        return {"view": program(w, None), "copy": w.clone(), "array": w.numpy()}

    observation = seen(lambda w, x: [w[1:], w.T, w.clone()], script)
    view = tree(observation, "view")["items"]
    assert view[0]["memory"] == ["array", "view[1]", "w"]
    assert view[2]["memory"] == []
    assert tree(observation, "copy")["memory"] == []


def test_memory_that_was_freed_is_shared_with_nobody():
    def program(w, x):
        for _ in range(10):
            w.data = w.data - 0.1
        return [torch.ones_like(w) for _ in range(10)]

    items = tree(seen(program))["items"]
    assert all("w" not in item["memory"] and "x" not in item["memory"] for item in items)


def test_memory_follows_a_tensor_whose_data_was_assigned():
    def program(w, x):
        fresh = torch.zeros(2)
        w.data = fresh
        return fresh

    assert tree(seen(program))["memory"] == ["w"]


def test_identity_names_the_object_that_was_there_first():
    shared = {}

    def program(w, x):
        return w, w.detach(), shared, shared

    items = tree(seen(program))["items"]
    assert [item["identity"] for item in items] == ["w", None, None, "result[2]"]


def test_a_list_has_an_identity_too():
    def script(program, case):
        given_list = [1, 2]
        return {"result": program(given_list, None)}

    assert tree(seen(lambda w, x: w, script))["identity"] == "w"
    assert tree(seen(lambda w, x: w[:], script))["identity"] is None


def test_grad_is_written_as_none_zero_or_its_values():
    def grads(zeroed):
        def program(w, x):
            w.grad = zeroed
            return w

        return tree(seen(program))["grad"]

    assert grads(None) is None
    assert grads(torch.zeros(2))["shape"] == [2]


def test_the_grad_of_a_result_is_read_without_a_warning():
    def program(w, x):
        y = w * 2
        y.sum().backward()
        return y

    assert tree(seen(program))["grad"] is None


def test_the_graph_is_written_with_names_and_edges():
    w, x = torch.ones(2, requires_grad=True), torch.ones(2)
    y = w * x + w
    assert graph_of(y) == {
        "nodes": ["AddBackward", "MulBackward", "AccumulateGrad"],
        "edges": [[[1, 0], [2, 0]], [[2, 0], None], []],
    }
    assert graph_of(x) == {"nodes": [], "edges": []}
    assert tree(seen(lambda w, x: w * x))["graph"]["nodes"] == ["MulBackward", "AccumulateGrad w"]


def test_a_graph_of_a_trillion_paths_is_written_node_by_node():
    x = torch.ones(1, requires_grad=True)
    y = x
    for _ in range(40):
        y = y + y
    assert len(graph_of(y)["nodes"]) == 41


def test_a_module_is_written_with_its_parameters_buffers_and_modes():
    def script(program, case):
        case.watch(model=program(None, None))
        return {}

    def program(w, x):
        model = nn.Sequential(nn.Linear(2, 1), nn.BatchNorm1d(1))
        model[1].eval()
        return model

    model = seen(program, script)["watched"]["tree"]["model"]
    assert list(model["parameters"]) == ["0.weight", "0.bias", "1.weight", "1.bias"]
    assert list(model["buffers"]) == ["1.running_mean", "1.running_var", "1.num_batches_tracked"]
    assert (model["training"], model["modules"]) == (True, {"0": True, "1": False})


def test_an_optimizer_is_written_with_its_state_and_groups():
    def script(program, case):
        w = case.normal(2, requires_grad=True)
        optimizer = torch.optim.SGD([w], lr=0.1, momentum=0.9)
        program(w, optimizer)
        case.watch(optimizer=optimizer)
        return {}

    def program(w, optimizer):
        w.sum().backward()
        optimizer.step()

    written = seen(program, script)["watched"]["tree"]["optimizer"]
    assert written["groups"][0]["momentum"] == 0.9
    assert written["state"]["items"][0][1]["items"][0][0] == "momentum_buffer"


def test_arguments_are_looked_at_after_every_call():
    def script(program, case):
        w = torch.zeros(1)
        for _ in range(3):
            program(w, 1)
        return {}

    def program(w, x):
        w += x

    looks = seen(program, script)["arguments"]
    assert [argument(look, "w").item() for look in looks] == [1.0, 2.0, 3.0]


def test_arguments_are_looked_at_even_when_the_call_raises():
    def program(w, x):
        x.zero_()
        raise KeyError("late")

    assert argument(seen(program)["arguments"][0], "x").tolist() == [0.0, 0.0]


def test_keyword_and_surplus_arguments_have_names():
    def script(program, case):
        return {"result": program(1, 2, 3, flag=True)}

    observation = seen(lambda *args, flag: args, script)
    assert list(observation["arguments"][0]["tree"]) == ["w", "x", "argument 3", "flag"]


def test_kept_is_what_outlives_the_results():
    memory = []

    def script(program, case):
        class Thing:
            pass

        first, second, third = Thing(), Thing(), Thing()
        third.itself = third
        case.track(kept=first, dropped=second, cycle=third)
        return {"result": program(first, second)}

    observation = seen(lambda w, x: memory.append(w), script)
    assert observation["kept"] == {"kept": True, "dropped": False, "cycle": False}


def test_a_program_that_raises_keeps_nothing_by_its_traceback():
    def script(program, case):
        w = case.normal(2)
        case.track(w=w)
        return {"result": program(w, w)}

    def program(w, x):
        raise ValueError

    assert seen(program, script)["kept"] == {"w": False}


def test_calls_of_a_counted_function_are_written():
    def script(program, case):
        return {"result": program(case.counted("step", lambda: 0), None)}

    assert seen(lambda step, x: [step(), step()], script)["calls"] == {"step": 2}


def test_what_is_printed_is_kept_up_to_a_limit():
    def program(w, x):
        print("a" * 30_000)
        print("b" * 30_000)
        sys.stdout.write("c")

    assert seen(program)["printed"] == "a" * 20_000


def test_describing_tells_the_calls_and_leaves_the_costs_out():
    one = made(call_once, AtMost("little", "cost.peak_bytes", 100))
    observation = observe(one, right, 0, 0, describe=True)
    assert observation["texts"][0].startswith("call_once(w=tensor([")
    assert "cost" not in observation


# ------------------------------------------------------------------------------------------------ scripts of any kind


def test_a_class_goes_into_the_script_as_it_is():
    def script(program, case):
        counter = program(2)
        counter.add(3)
        return {"total": counter.total, "is a class": isinstance(program, type)}

    class Counter:
        def __init__(self, start):
            self.total = start

        def add(self, number):
            self.total += number

    observation = seen(Counter, script)
    assert (tree(observation, "total"), tree(observation, "is a class")) == (5, True)


def test_a_script_may_use_a_context_manager_and_raise_in_it():
    def script(program, case):
        w = case.normal(2, requires_grad=True)
        with program(w, None):
            inside = (w * 2).requires_grad
        with contextlib.suppress(KeyError), program(w, None):
            raise KeyError
        return {"inside": inside, "after": (w * 2).requires_grad}

    @contextlib.contextmanager
    def leaky(w, x):
        torch.set_grad_enabled(False)
        yield
        torch.set_grad_enabled(True)

    observation = seen(leaky, script)
    assert (tree(observation, "inside"), tree(observation, "after")) == (False, False)
    assert observation["mode"] == {"grad mode": [True, False]}


def test_a_script_may_stop_a_generator_half_way():
    def script(program, case):
        steps = program(case.normal(), 5)
        taken = [next(steps), next(steps)]
        steps.close()
        return {"taken": taken}

    closed = []

    def program(w, x):
        try:
            yield from range(x)
        finally:
            closed.append(True)

    assert tree(seen(program, script), "taken")["items"] == [0, 1]
    assert closed == [True]


def test_a_script_may_catch_an_exception_and_go_on():
    def script(program, case):
        return {"error": case.attempt(program, 1, 0), "value": case.attempt(program, 4, 2)}

    observation = seen(lambda w, x: w // x, script)
    assert tree(observation, "error")["types"] == ["ZeroDivisionError", "ArithmeticError", "Exception", "BaseException"]
    assert tree(observation, "value") == 2
    assert observation["raised"] is None


def test_a_script_may_call_a_thousand_times():
    def script(program, case):
        return {"results": [program(number, 2) for number in range(1000)]}

    observation = seen(lambda w, x: w * x, script)
    assert len(tree(observation, "results")["items"]) == 1000
    assert len(observation["arguments"]) == 64


@pytest.mark.parametrize("results", [None, [1], {1: 2}], ids=repr)
def test_a_script_that_returns_no_named_results_is_refused(results):
    with pytest.raises(TypeError, match="must return a dict of named results"):
        seen(lambda w, x: 0, lambda program, case: results)


def test_a_result_that_is_called_like_an_aspect_is_refused():
    def script(program, case):
        return {"values": 1}

    with pytest.raises(ValueError, match="calls a result 'values', which is the name of an aspect"):
        seen(lambda w, x: 0, script)


def test_what_is_forbidden_raises_a_sentence_inside_and_is_there_outside():
    original = torch.autograd.grad
    observation = seen(
        lambda w, x: torch.autograd.grad(w.sum(), w), call_once, Forbid("torch.autograd.grad", "torch.Tensor.backward")
    )
    assert observation["raised"]["types"][0] == "Forbidden"
    assert observation["raised"]["message"] == (
        "this exercise rebuilds what torch.autograd.grad does, so torch.autograd.grad is not at hand here"
    )
    assert torch.autograd.grad is original
    torch.ones(1, requires_grad=True).sum().backward()


# ------------------------------------------------------------------------------------------------ what is raised


class Stop(BaseException):
    pass


class Mute(Exception):
    def __str__(self):
        raise RuntimeError


@pytest.mark.parametrize(
    "error", [SystemExit(1), GeneratorExit(), Stop("now"), Mute(), ZeroDivisionError("x")], ids=repr
)
def test_whatever_a_program_raises_is_what_it_did(error):
    def program(w, x):
        raise error

    raised = seen(program)["raised"]
    assert raised["types"][0] == type(error).__name__
    assert raised["message"] == ("" if isinstance(error, Mute) else str(error))


def test_an_interrupt_is_the_users_and_leaves_nothing_behind():
    def program(w, x):
        torch.set_grad_enabled(False)
        raise KeyboardInterrupt

    before = snapshot()
    with pytest.raises(KeyboardInterrupt):
        seen(program)
    assert snapshot() == before


def of_a_unit(script):
    """The script as if it stood in a unit's cases.py."""
    code = script.__code__.replace(co_filename="/somewhere/cases.py")
    return types.FunctionType(code, script.__globals__, script.__name__, script.__defaults__, script.__closure__)


def test_the_traceback_shows_the_answer_alone():
    program = define("f", "def helper(x):\n    return x.nothing\n\ndef f(w, x):\n    return helper(w)\n", {})
    raised = raised_by(program, call_once)
    assert raised["traceback"].splitlines() == [
        "your code, line 5, in f",
        "    return helper(w)",
        "your code, line 2, in helper",
        "    return x.nothing",
    ]
    assert raised["inside"]


def test_the_traceback_of_an_error_inside_torch_ends_in_the_answer():
    program = define("f", "import torch\n\ndef f(w, x):\n    return torch.nn.functional.linear(w, 3)\n", {})
    raised = raised_by(program, call_once)
    assert raised["traceback"].splitlines() == [
        "your code, line 4, in f",
        "    return torch.nn.functional.linear(w, 3)",
    ]


def test_a_recursion_without_end_has_a_short_traceback():
    program = define("f", "def f(w, x):\n    return f(w, x)\n", {})
    raised = raised_by(program, call_once)
    assert raised["types"][0] == "RecursionError"
    assert len(raised["traceback"].splitlines()) == 25
    assert " calls more …" in raised["traceback"]


def test_an_error_of_the_script_itself_has_no_traceback_of_the_learner():
    def script(program, case):
        return {"result": program(1, 2).item()}

    raised = raised_by(lambda w, x: None, script)
    assert raised["message"] == "'NoneType' object has no attribute 'item'"
    assert not raised["inside"] and raised["traceback"] == ""


def test_an_observation_that_nobody_is_told_of_quotes_nothing():
    program = define("f", "def f(w, x):\n    return x.nothing\n", {})
    observation = seen(program, of_a_unit(call_once))
    assert observation["raised"].keys() == {"types", "message", "inside"} and observation["raised"]["inside"]
    assert not observation.keys() & {"texts", "sources", "raising", "call_count"}


def described(script, program):
    return observe(made(script), program, 0, 0, describe=True)


def test_it_is_known_which_call_returned_what():
    def script(program, case):
        w = case.normal()
        first, second, third = (program(w, float(number)) for number in (1, 2, 3))
        return {"late": third, "both": [first, second], "none_of_them": first + 1}

    assert described(script, lambda w, x: w * x)["sources"] == {"late": 2, "both[0]": 0, "both[1]": 1}
    # Python hands small numbers out again and again: in their order they are known, one by one they are not.
    assert described(script, lambda w, x: 7)["sources"] == {}


def test_it_is_known_which_call_returned_what_lies_deeper():
    def script(program, case):
        first, second = (program(case.normal(), 1.0) for _ in range(2))
        return {"by_place": {"here": first, "there": [0, second]}}

    assert described(script, lambda w, x: w * x)["sources"] == {"by_place['here']": 0, "by_place['there'][1]": 1}


def test_a_call_that_raised_is_known_by_its_exception():
    def script(program, case):
        return {"tried": [case.attempt(program, case.normal(), number) for number in (1.0, "a", 2.0)][::-1]}

    assert described(script, lambda w, x: w * x)["sources"] == {"tried[0]": 2, "tried[1]": 1, "tried[2]": 0}


def test_a_script_can_say_what_its_calls_are_about():
    def script(program, case):
        said, twice = {}, 0
        for name in ("small", "large"):
            case.about(name)
            said[name] = str(program(case.normal(), 7))
        case.about("twice")
        for _ in range(2):
            twice = twice + program(case.normal(), 7)
        case.about("the last")
        return {"said": said, "twice": twice, "the last": str(program(case.normal(), 7)), "other": {"small": 1}}

    assert described(script, lambda w, x: x)["sources"] == {
        "said['small']": 0,
        "said['large']": 1,
        "the last": 4,
        "other['small']": 0,
    }
    assert "sources" not in seen(lambda w, x: x, script), "nobody is told of it"


def test_results_of_all_calls_in_their_order_are_known_whatever_they_are():
    def script(program, case):
        return {"all": [program(case.normal(), number) for number in (1, 2, 3)]}

    assert described(script, lambda w, x: None)["sources"] == {"all[0]": 0, "all[1]": 1, "all[2]": 2}


def test_it_is_known_in_which_call_an_exception_was_raised():
    def script(program, case):
        return {"all": [program(case.normal(), number) for number in (2, 1, 0)]}

    observation = described(script, lambda w, x: 1 / x)
    assert (observation["raising"], observation["call_count"]) == (2, 3)


# ------------------------------------------------------------------------------------------------ odd values


class Evil:
    def __repr__(self):
        raise RuntimeError("no")

    def __eq__(self, other):
        raise RuntimeError("no")

    __hash__ = None

    def __getattr__(self, name):
        raise RuntimeError(name)


class EndlessList(list):
    def __iter__(self):
        while True:
            yield self


class Liar:
    @property
    def __class__(self):
        return torch.Tensor


class Unfinished(nn.Module):
    def __init__(self):
        pass


class Raising(torch.Tensor):
    @property
    def shape(self):
        raise SystemExit


def cyclic():
    cycle = [1]
    cycle.append({"again": cycle})
    return cycle


def doubled():
    result = []
    for _ in range(60):
        result = [result, result]
    return result


ODD = {
    "evil": Evil,
    "endless": lambda: EndlessList([1]),
    "liar": Liar,
    "unfinished module": Unfinished,
    "raising tensor": lambda: torch.ones(2).as_subclass(Raising),
    "cyclic": cyclic,
    "doubled": doubled,
    "meta": lambda: torch.empty(2, device="meta"),
    "sparse": lambda: torch.eye(2).to_sparse(),
    "csr": lambda: torch.eye(2).to_sparse_csr(),
    "huge": lambda: torch.ones(1).expand(10**13),
    "large": lambda: torch.zeros(20_000_000),
    "generator": lambda: (number for number in range(3)),
    "function": lambda: print,
    "released": lambda: released(),
    "inference": lambda: inference(),
    "quantized": lambda: torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8),
    "keys": lambda: {torch.ones(1): Evil, (1, None): Evil()},
    "huge int": lambda: 10**5000,
    "surrogate": lambda: "\ud800",
    "long text": lambda: "x" * 100_000_000,
}


def released():
    tensor = torch.ones(3)
    tensor.untyped_storage().resize_(0)
    return tensor


def inference():
    with torch.inference_mode():
        return torch.ones(2)


@pytest.mark.parametrize("name", ODD)
def test_an_odd_result_is_written_down_somehow(name):
    began = time.monotonic()
    observation = seen(lambda w, x: [ODD[name](), w])
    assert observation["raised"] is None
    assert len(pack(observation)) < 1 << 20
    assert time.monotonic() - began < 20


def test_what_cannot_be_written_down_says_so_and_spares_the_rest():
    def script(program, case):
        return {"bad": program(1, 2), "good": 3}

    observation = seen(lambda w, x: cyclic(), script)
    assert tree(observation, "bad") == {"$": "unreadable", "message": "the value is nested too deeply"}
    assert tree(observation, "good") == 3
    assert tree(seen(lambda w, x: torch.ones(2).as_subclass(Raising)))["message"] == "looking at it raised SystemExit"


# ------------------------------------------------------------------------------------------------ costs


def keeper(w, x):
    kept = []
    for _ in range(3):
        kept.append((w * x).exp().sum())
    return sum(kept)


def test_costs_are_those_of_a_second_run():
    runs = []

    def program(w, x):
        runs.append(bool(torch._C._autograd._top_saved_tensors_default_hooks(False)))
        return keeper(w, x).item()

    one = made(call_once, AtMost("little", "cost.peak_bytes", 100), AtMost("few", "cost.syncs", 1))
    observation = observe(one, program, 0, 0)
    assert runs == [False, True]
    # Three times the exponential and x, w being a parameter.
    assert observation["cost"]["peak_bytes"] == 3 * 8 + 8
    assert observation["cost"]["syncs"] == 1
    assert observation["cost_over"] == {}


def test_the_graph_that_the_result_holds_counts_at_the_end():
    one = made(call_once, AtMost("little", "cost.graph_bytes", 100))
    assert observe(one, keeper, 0, 0)["cost"]["graph_bytes"] == 3 * 8 + 8
    assert observe(one, lambda w, x: keeper(w, x).detach(), 0, 0)["cost"]["graph_bytes"] == 0


def test_an_error_that_watching_hides_is_still_raised():
    def program(w, x):
        y = (w * x).exp()
        z = y.sum()
        y.add_(1)
        z.backward()

    one = made(call_once, AtMost("little", "cost.peak_bytes", 100))
    observation = observe(one, program, 0, 0)
    assert observation["raised"]["types"][0] == "RuntimeError"
    assert "cost" not in observation


def test_flat_costs_are_observed_in_scaled_cases():
    def script(program, case):
        return {"result": program(case.normal(2, requires_grad=True), case.over("steps", 2))}

    def program(w, steps):
        return sum((w * number).exp().sum() for number in range(steps))

    one = made(script, Flat("flat", "cost.graph_bytes", over="steps"))
    costs = [cost["graph_bytes"] for cost in observe(one, program, 0, 0)["cost_over"]["steps"]]
    assert costs[1] == 2 * costs[0] and costs[2] == 4 * costs[0]


def test_a_program_that_fails_only_when_it_is_watched_has_no_costs():
    def program(w, x):
        if torch._C._autograd._top_saved_tensors_default_hooks(False):
            raise RuntimeError("I am watched")
        return 0

    one = made(call_once, AtMost("little", "cost.peak_bytes", 100))
    assert observe(one, program, 0, 0)["cost"] is None


def test_arguments_do_not_keep_their_graphs_alive_in_the_watched_run():
    def script(program, case):
        w = case.normal(100, requires_grad=True)
        for _ in range(case.over("steps", 2)):
            program(w.exp().sum(), None)
        return {}

    one = made(script, Flat("flat", "cost.peak_bytes", over="steps"))
    costs = [cost["peak_bytes"] for cost in observe(one, lambda w, x: w.item(), 0, 0)["cost_over"]["steps"]]
    assert costs[0] == costs[1] == costs[2] == 400


# ------------------------------------------------------------------------------------------------ a bound on steps


def endless(w, x):
    while True:
        pass


def endless_for(w, x):
    number = 0
    while True:
        number += 1


def swallowing(w, x):
    while True:
        try:
            endless_for(w, x)
        except:  # noqa: E722
            continue


def swallowing_twice(w, x):
    while True:
        try:
            try:
                swallowing(w, x)
            except BaseException:
                continue
            finally:
                list(map(str, range(10)))
        except BaseException:
            pass


def returning(w, x):
    try:
        endless(w, x)
    except BaseException:
        return 7


def raising(w, x):
    try:
        endless(w, x)
    except BaseException:
        raise ValueError("something else") from None


def recursive(w, x):
    return recursive(w, x)


def endless_sum(w, x):
    return sum(1 for _ in iter(int, 1))


def endless_graph(w, x):
    while True:
        with torch.no_grad():
            w = w * 1.0


def suppressing(w, x):
    while True:
        with contextlib.suppress(BaseException):
            endless_for(w, x)


ENDLESS = [
    endless,
    endless_for,
    swallowing,
    swallowing_twice,
    returning,
    raising,
    recursive,
    endless_sum,
    endless_graph,
    suppressing,
]


@pytest.mark.timeout(20)
@pytest.mark.parametrize("program", ENDLESS, ids=lambda program: program.__name__)
def test_a_program_that_never_ends_is_stopped(program):
    before = snapshot()
    one = made(call_once, Budget(500), AtMost("little", "cost.peak_bytes", 100))
    first, second = (observe(one, program, 0, 0) for _ in range(2))
    assert first["raised"] | {"inside": True} == {
        "types": ["StepLimit", "BaseException"],
        "message": "more than 500 steps",
        "inside": True,
    }
    assert pack(first) == pack(second)
    assert snapshot() == before
    assert torch.is_grad_enabled()


def test_stopping_takes_milliseconds():
    one = made(call_once, Budget(500))
    took = []
    for _ in range(5):
        began = time.perf_counter()
        observe(one, swallowing, 0, 0)
        took.append(time.perf_counter() - began)
    assert min(took) < 0.1


def test_code_after_a_stop_runs_undisturbed():
    observe(made(call_once, Budget(500)), swallowing, 0, 0)
    total = 0
    for number in range(10_000):
        total += len(str(number))
    assert total == 38_890


def test_a_program_within_its_budget_is_not_disturbed():
    one = made(call_once, Budget(5000))
    assert observe(one, right, 0, 0)["raised"] is None
    assert sys.gettrace() is None or "coverage" in sys.modules


def test_the_budget_leaves_room_for_scaled_runs():
    def script(program, case):
        return {"result": program(case.normal(2, requires_grad=True), case.over("steps", 20))}

    def program(w, steps):
        total = 0.0
        for _ in range(steps):
            total += w.sum().item()
        return total

    one = made(script, Budget(100), Flat("flat", "cost.peak_bytes", over="steps"))
    assert None not in observe(one, program, 0, 0)["cost_over"]["steps"]


def test_a_step_limit_of_the_caller_bounds_what_has_no_budget():
    assert observe(made(call_once), endless, 0, 0, step_limit=300)["raised"]["message"] == "more than 300 steps"
    assert observe(made(call_once, Budget(200)), endless, 0, 0, step_limit=300)["raised"]["message"] == (
        "more than 200 steps"
    )


def test_a_debugger_that_was_there_is_there_again():
    def tracer(*_):
        return tracer

    before = sys.gettrace()
    sys.settrace(tracer)
    try:
        observe(made(call_once, Budget(500)), endless, 0, 0)
        after = sys.gettrace()
    finally:
        sys.settrace(before)
    assert after is tracer


def test_nothing_of_the_case_outlives_its_observation():
    alive = []

    def program(w, x):
        alive.append(weakref.ref(w))
        return w

    seen(program)
    gc.collect()
    assert [reference() for reference in alive] == [None]


def test_a_recursion_without_end_says_the_same_wherever_it_was_begun():
    said = ("while calling a Python object", "in comparison")
    messages = {message_of(RecursionError(f"maximum recursion depth exceeded {words}")) for words in said}
    assert messages == {"maximum recursion depth exceeded"}
    assert message_of(RecursionError("my own words")) == "my own words"
