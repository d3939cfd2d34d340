"""How much of PyTorch runs on the simulated accelerator: PyTorch's own operator database, on `sim` against the CPU.

    python benchmarks/accelerator_ops.py                 all operators with float32 samples, forward and backward
    python benchmarks/accelerator_ops.py NAME ...        these operators, with what each disagreement was
    python benchmarks/accelerator_ops.py --overhead      microseconds per operation, beside the bare CPU operation

An operator agrees when all of its samples do: same values, shapes, dtypes and devices, for the gradients as well; in
place and `out=` are run too, and what differs there is printed. Samples that fail on the CPU itself are left out.
Operators run in worker processes, so that a crash is seen and counted. The last line is `forward NN.N %  backward NN.N
%`, over the operators that work on the CPU. Needs `expecttest`.
"""

import argparse
import contextlib
import itertools
import json
import operator
import subprocess
import sys
import time
import warnings

import torch
from autogradlab import accelerator
from torch.utils._pytree import tree_leaves, tree_map

#: Operators that do not agree, and why not.
REFUSED = dict.fromkeys(("sparse.mm.reduce", "sparse.sampled_addmm", "to_sparse"), "sim holds dense tensors only")

#: These promise a shape and no values.
UNINITIALISED = {
    "empty",
    "empty_like",
    "empty_permuted",
    "empty_strided",
    "new_empty",
    "new_empty_strided",
    "resize_",
    "resize_as_",
}
CHUNK = 40
SECONDS_PER_CHUNK = 900


def database() -> dict:
    """PyTorch's operators that have float32 samples on the CPU, by name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torch.testing._internal.common_methods_invocations import op_db

    named = {}
    for op in op_db:
        if op.supports_dtype(torch.float32, "cpu"):
            name = f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name
            assert name not in named, f"two operators are called {name}"
            named[name] = op
    return named


#: These take some of their tensors on the CPU, on every device.
INDICES_ON_CPU = {"tensor_split"}
#: sim computes attention step by step, as other devices without a kernel of their own do, and the CPU in one kernel.
TOLERANCES = {"nn.functional.scaled_dot_product_attention": {"rtol": 1e-4, "atol": 1e-4}}


class _Moved:
    """The same values on sim, in tensors that share memory where the given ones do."""

    def __init__(self):
        self.tensors, self.storages = {}, {}

    def __call__(self, value):
        if isinstance(value, torch.Tensor):
            if id(value) not in self.tensors:
                self.tensors[id(value)] = value, self._move(value)
            return self.tensors[id(value)][1]
        return torch.device("sim") if isinstance(value, torch.device) or value == "cpu" else value

    def _move(self, tensor):
        if tensor.layout is not torch.strided:
            return tensor.to("sim")
        storage = tensor.untyped_storage()
        key = storage._cdata, tensor.dtype
        if key not in self.storages:
            self.storages[key] = torch.empty(0, dtype=tensor.dtype).set_(storage).to("sim")
        moved = self.storages[key].as_strided(tensor.size(), tensor.stride(), tensor.storage_offset())
        moved = moved.conj() if tensor.is_conj() else moved
        return moved.requires_grad_(tensor.requires_grad)


def _stay(value):
    return value


def _maker(place, *values):
    """Lets operators that make a tensor out of numbers make it on sim."""
    makes = place is not _stay and not any(isinstance(value, torch.Tensor) for value in tree_leaves(values))
    return torch.device("sim") if makes else contextlib.nullcontext()


def _run(op, sample, backward, place):
    """`(outputs, gradients)` of one sample, where `place` says on which device."""
    rest = _stay if op.name in INDICES_ON_CPU else place
    given, args, kwargs = tree_map(place, sample.input), tree_map(rest, sample.args), tree_map(rest, sample.kwargs)
    torch.manual_seed(0)
    with _maker(place, given, args, kwargs):
        outputs = tree_leaves(op(given, *args, **kwargs))
    if not backward:
        return outputs, None
    inputs = [t for t in tree_leaves((given, args, kwargs)) if isinstance(t, torch.Tensor) and t.requires_grad]
    ends = [t for t in outputs if isinstance(t, torch.Tensor) and t.requires_grad]
    if not inputs or not ends:
        return outputs, None
    torch.manual_seed(1)
    # Drawn on the CPU, where both runs draw the same, and moved like everything else.
    upstream = [place(torch.randn(t.shape, dtype=t.dtype)) for t in ends]
    return outputs, torch.autograd.grad(ends, inputs, upstream, allow_unused=True)


def _difference(ours, theirs, name):
    """What is different, in words, or None."""
    if len(ours) != len(theirs):
        return f"{len(ours)} results instead of {len(theirs)}"
    for mine, other in zip(ours, theirs, strict=True):
        if not isinstance(other, torch.Tensor):
            if mine != other and not (mine != mine and other != other):
                return f"{mine!r} instead of {other!r}"
            continue
        if not isinstance(mine, torch.Tensor):
            return f"a {type(mine).__name__} instead of a tensor"
        if mine.device.type != "sim":
            return f"a result on {mine.device}"
        if (mine.shape, mine.dtype, mine.requires_grad) != (other.shape, other.dtype, other.requires_grad):
            return f"{mine.dtype} {tuple(mine.shape)} instead of {other.dtype} {tuple(other.shape)}"
        if name not in UNINITIALISED:
            try:
                tolerance = TOLERANCES.get(name, {})
                torch.testing.assert_close(mine.detach().cpu(), other.detach(), equal_nan=True, **tolerance)
            except AssertionError as error:
                return "wrong values: " + " ".join(str(error).split())[:200]
    return None


def _refusal(error):
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"


def compare(name: str, op, samples: int | None = None) -> dict:
    """How many samples of one operator agree, `{"forward": [agree, all], "backward": [agree, all], "reasons": [...]}`.

    A reason begins with `wrong` where a value differs, and with the name of the exception where one was raised.
    """
    result = {"name": name, "forward": [0, 0], "backward": [0, 0], "reasons": []}
    torch.manual_seed(0)
    for number, sample in enumerate(op.sample_inputs("cpu", torch.float32, requires_grad=op.supports_autograd)):
        if number == samples:
            break
        try:
            theirs, _ = _run(op, sample, False, _stay)
        except Exception:  # not a sample that the CPU can run, so there is nothing to compare with
            continue
        result["forward"][1] += 1
        try:
            ours, _ = _run(op, sample, False, _Moved())
            reason = _difference(ours, theirs, name)
        except Exception as error:
            reason = _refusal(error)
        result["forward"][0] += reason is None
        if reason is not None and f"forward, {reason}" not in result["reasons"]:
            result["reasons"].append(f"forward, {reason}")
        if not op.supports_autograd:
            continue
        try:
            theirs = _run(op, sample, True, _stay)[1]
        except Exception:  # as above
            continue
        if theirs is None:
            continue
        result["backward"][1] += 1
        try:
            ours = _run(op, sample, True, _Moved())[1]
            reason = "no gradients" if ours is None else _difference(ours, theirs, name)
        except Exception as error:
            reason = _refusal(error)
        result["backward"][0] += reason is None
        if reason is not None and f"backward, {reason}" not in result["reasons"]:
            result["reasons"].append(f"backward, {reason}")
    return result


def compare_variants(name: str, op, samples: int | None = None) -> list[str]:
    """What differs where the operator writes into a tensor that it was given: in place, and as `out=`."""
    reasons = []
    torch.manual_seed(0)
    for number, sample in enumerate(op.sample_inputs("cpu", torch.float32)):
        if number == samples:
            break
        for variant, run in (("in place", _in_place), ("out=", _out)):
            if (op.inplace_variant if variant == "in place" else op.supports_out) in (None, False):
                continue
            try:
                torch.manual_seed(0)
                theirs = run(op, sample, _stay)
            except Exception:  # not a sample that the CPU can run this way
                continue
            try:
                torch.manual_seed(0)
                reason = _difference(run(op, sample, _Moved()), theirs, name)
            except Exception as error:
                reason = _refusal(error)
            if reason is not None:
                reasons.append(f"{variant}, {reason}")
    return sorted(set(reasons))


def _in_place(op, sample, place):
    tensor = place(sample.input.clone())
    args, kwargs = tree_map(place, sample.args), tree_map(place, sample.kwargs)
    assert op.inplace_variant(tensor, *args, **kwargs) is tensor, "another tensor was returned"
    return [tensor]


def _out(op, sample, place):
    given, args, kwargs = tree_map(place, sample.input), tree_map(place, sample.args), tree_map(place, sample.kwargs)
    with _maker(place, given, args, kwargs):
        outputs = op(given, *args, **kwargs)
        single = isinstance(outputs, torch.Tensor)
        written = []
        # Into memory that is there, in another order than the operator would choose; into a tensor that has to grow.
        for prepare in (lambda t: torch.empty_like(t.t() if t.dim() == 2 else t).reshape(t.shape), _empty):
            out = prepare(outputs) if single else tuple(map(prepare, outputs))
            result = op(given, *args, **kwargs, out=out)
            assert result is out if single else all(map(operator.is_, result, out)), "another tensor was returned"
            written += [out] if single else list(out)
    if place is _stay and not op.name.startswith("empty"):
        # For some memory orders the CPU's own kernels write nothing, or elsewhere.
        torch.testing.assert_close(written, 2 * tree_leaves(outputs), equal_nan=True)
    return written


def _empty(tensor):
    return tensor.new_empty(0)


def work(names):
    """Compares these operators and prints one line of JSON for each, with one before it that says which is next."""
    torch.set_num_threads(1)
    accelerator.register(note=False)
    warnings.simplefilter("ignore")
    known = database()
    for name in names:
        print(json.dumps({"next": name}), flush=True)
        result = compare(name, known[name])
        result["reasons"] += compare_variants(name, known[name])
        print(json.dumps(result), flush=True)


def run_chunk(names):
    """The results for these operators; one that ends the process, or never ends, is reported as a crash."""
    results, left = [], list(names)
    while left:
        command = [sys.executable, __file__, "--worker", *left]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_PER_CHUNK)
            output, end = done.stdout, f"exit status {done.returncode}, {done.stderr.strip()[-300:]}"
        except subprocess.TimeoutExpired as error:
            output, end = (error.stdout or b"").decode(), f"no result in {SECONDS_PER_CHUNK} s"
        running = None
        for line in output.splitlines():
            if not line.startswith("{"):
                continue
            record = json.loads(line)
            running = record.get("next")
            if running is None:
                results.append(record)
                left.remove(record["name"])
        if left:
            crashed = running or left[0]
            reason = f"crash: {end}"
            results.append({"name": crashed, "forward": [0, 1], "backward": [0, 1], "reasons": [reason], "crash": True})
            left.remove(crashed)
    return results


def share(results, direction) -> float:
    """Per cent of the operators that work on the CPU of which all samples agree."""
    counted = [agree == everything for agree, everything in (result[direction] for result in results) if everything]
    return 100 * sum(counted) / len(counted)


def report(results):
    """Prints what disagrees and the shares, the one that counts last."""
    for result in sorted(results, key=lambda result: result["name"]):
        for reason in result["reasons"]:
            listed = f" ({REFUSED[result['name']]})" if result["name"] in REFUSED else ""
            print(f"{result['name']}{listed}: {reason}")
    crashes = sum(result.get("crash", False) for result in results)
    wrong = sum(any(" wrong" in reason for reason in result["reasons"]) for result in results)
    print(f"\n{len(results)} operators, {crashes} crashed the process, {wrong} gave a wrong value somewhere")
    for direction in ("forward", "backward"):
        agree = sum(result[direction][0] for result in results)
        everything = sum(result[direction][1] for result in results)
        operators = sum(bool(result[direction][1]) for result in results)
        print(
            f"{direction}: {agree} of {everything} samples agree ({100 * agree / everything:.2f} %), "
            f"of {operators} operators"
        )
    print(f"forward {share(results, 'forward'):.1f} %  backward {share(results, 'backward'):.1f} %")


def overhead():
    """Prints microseconds of processor time per operation on the CPU and on sim, and what sim adds; best of several."""
    torch.set_num_threads(1)
    a, b = torch.randn(8, 8), torch.randn(8, 8)
    operations = {
        "a + b": lambda a, b: a + b,
        "a * 2": lambda a, b: a * 2,
        "a @ b": lambda a, b: a @ b,
        "a.exp()": lambda a, b: a.exp(),
        "a.sum()": lambda a, b: a.sum(),
        "a.relu()": lambda a, b: a.relu(),
        "a.softmax(0)": lambda a, b: a.softmax(0),
        "a.add_(0)": lambda a, b: a.add_(0),
        "a.T": lambda a, b: a.T,
        "a[2:4]": lambda a, b: a[2:4],
        "a.clone()": lambda a, b: a.clone(),
        "a.detach()": lambda a, b: a.detach(),
        "a[0, 0].item()": lambda a, b: a[0, 0].item(),
        "torch.zeros(8, 8)": lambda a, b: torch.zeros(8, 8, device=a.device),
        "layer_norm(a)": lambda a, b: torch.nn.functional.layer_norm(a, (8,)),
    }
    on_sim = a.to("sim"), b.to("sim")
    print(f"{'microseconds':<20}{'cpu':>8}{'sim':>8}{'added':>8}{'ratio':>8}")
    for name, operation in operations.items():
        cpu, sim = (_seconds(operation, *operands) * 1e6 for operands in ((a, b), on_sim))
        print(f"{name:<20}{cpu:>8.1f}{sim:>8.1f}{sim - cpu:>8.1f}{sim / cpu:>8.1f}")
    cpu, sim = (_seconds(_training_step(device), calls=50) * 1e6 for device in ("cpu", "sim"))
    print(f"{'step of an MLP':<20}{cpu:>8.0f}{sim:>8.0f}{sim - cpu:>8.0f}{sim / cpu:>8.1f}")


def _seconds(operation, *operands, calls=500, repeats=9):
    # Processor time, because the machine may be shared.
    best = float("inf")
    for _ in range(repeats):
        begin = time.thread_time()
        for _ in range(calls):
            operation(*operands)
        best = min(best, (time.thread_time() - begin) / calls)
    return best


def _training_step(device):
    sizes = (64, 128, 128, 10)
    layers = [torch.nn.Linear(n, m) for n, m in itertools.pairwise(sizes)]
    model = torch.nn.Sequential(layers[0], torch.nn.ReLU(), layers[1], torch.nn.ReLU(), layers[2]).to(device)
    x, y = torch.randn(256, 64).to(device), torch.randint(0, 10, (256,)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step():
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()

    return step


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--overhead", action="store_true", help="measure the time per operation instead")
    options = parser.parse_args()
    if options.worker:
        work(options.names)
    elif options.overhead:
        accelerator.register(note=False)
        overhead()
    else:
        measure(options.names or sorted(database()))


def measure(names):
    """Compares these operators in worker processes and prints the report."""
    begin, results = time.perf_counter(), []
    for start in range(0, len(names), CHUNK):
        results += run_chunk(names[start : start + CHUNK])
        print(f"{len(results)} of {len(names)}, {time.perf_counter() - begin:.0f} s", file=sys.stderr)
    report(results)


if __name__ == "__main__":
    main()
