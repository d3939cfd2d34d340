"""What people hand in for the exercises of unit 2: wrong programs by their IDs, and other right ones."""

from autogradlab.exercises import alternative, misconception, reference

# ----------------------------------------------------------------------------------------------------- placement


@reference
def placement(variant):
    names = {"torch": torch}
    exec("\n".join(cases.placement_start(variant)), names)
    found = []
    for line in cases.placement_lines(variant):
        try:
            found.append(eval(line, names).device.type)
        except RuntimeError:
            found.append("error")
    return found


@alternative("a tuple, by a table of the lines")
def placement(variant):
    def place(line):
        if line in ("x", "x + y.cpu()") or line.startswith(("torch.zeros(", "torch.full(")):
            return "cpu"
        return "error" if line in ("x + y", "x * y.sum()") or "torch.ones(1)" in line else "sim"

    return tuple(place(line) for line in cases.placement_lines(variant))


@alternative("asks addresses with numbers for their kind")
def placement(variant):
    names = {"torch": torch}
    exec("\n".join(cases.placement_start(variant)), names)

    def place(line):
        try:
            return str(eval(line, names).device).partition(":")[0]
        except RuntimeError as error:
            return type(error).__name__.lower().removeprefix("runtime")

    return [place(line) for line in cases.placement_lines(variant)]


@misconception("D01", "Line x and the lines with x in them read as if x were on the accelerator. Who got the twin?")
def placement(variant):
    names = {"torch": torch}
    exec("\n".join(cases.placement_start(variant)), names)
    names["x"] = names["y"]
    return [
        "error" if "ones(1)" in line else "cpu" if line.startswith(("torch.zeros(", "torch.full(")) else "sim"
        for line in cases.placement_lines(variant)
    ]


@misconception("D14")
def placement(variant):
    places = {"x": "cpu", "x + y.cpu()": "cpu", "x + y": "error", "x * y.sum()": "error"}

    def place(line):
        if line.startswith("y + torch."):
            return "error"
        return "cpu" if line.startswith(("torch.zeros(", "torch.full(")) else places.get(line, "sim")

    return [place(line) for line in cases.placement_lines(variant)]


@misconception("D20")
def placement(variant):
    places = {"x": "cpu", "x + y.cpu()": "cpu", "x + y": "error", "y.sum()": "cpu", "x * y.sum()": "cpu"}

    def place(line):
        if "ones(1)" in line:
            return "error"
        return "cpu" if line.startswith(("torch.zeros(", "torch.full(")) else places.get(line, "sim")

    return [place(line) for line in cases.placement_lines(variant)]


@misconception("D21")
def placement(variant):
    places = {"x": "cpu", "x + y.cpu()": "cpu", "x + y": "error", "x * y.sum()": "error"}

    def place(line):
        return "cpu" if line.startswith(("torch.zeros(", "torch.full(")) else places.get(line, "sim")

    return [place(line) for line in cases.placement_lines(variant)]


@misconception("D22")
def placement(variant):
    places = {"x": "cpu", "x + y.cpu()": "cpu", "x + y": "error", "x * y.sum()": "cpu"}

    def place(line):
        if "ones(1)" in line:
            return "error"
        return "cpu" if line.startswith(("torch.zeros(", "torch.full(")) else places.get(line, "sim")

    return [place(line) for line in cases.placement_lines(variant)]


@misconception("D23")
def placement(variant):
    places = {"x": "cpu", "x + y.cpu()": "cpu", "x + y": "error", "x * y.sum()": "error"}
    return ["error" if "ones(1)" in line else places.get(line, "sim") for line in cases.placement_lines(variant)]


# --------------------------------------------------------------------------------------------------- pick_device


@alternative("asks torch.accelerator")
def pick_device(prefer=None):
    if prefer is None:
        prefer = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else "cpu"
    return torch.device(prefer)


@alternative("goes through the kinds")
def pick_device(prefer=None):
    if prefer is not None:
        return torch.device(prefer)
    kinds = {"cuda": torch.cuda.is_available(), "mps": torch.mps.is_available(), "cpu": True}
    return torch.device(next(kind for kind, is_there in kinds.items() if is_there))


@misconception("D03")
def pick_device(prefer=None):
    return torch.device("cuda" if prefer is None else prefer)


@misconception("D04")
def pick_device(prefer=None):
    if prefer is not None:
        return torch.device(prefer)
    if torch.cuda.is_available() or torch.backends.mps.is_available():
        return torch.device("gpu")
    return torch.device("cpu")


@misconception("D06")
def pick_device(prefer=None):
    if prefer is not None:
        return torch.device(prefer)
    if torch.device("cuda").index is not None:
        return torch.device("cuda")
    return torch.device("cpu")


@misconception("D24")
def pick_device(prefer=None):
    if prefer is not None:
        return torch.device(prefer)
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


@misconception(
    "D24", "On a machine with both, MPS was chosen. Which of the two is asked for first?", variant="MPS first"
)
def pick_device(prefer=None):
    if prefer is not None:
        return torch.device(prefer)
    if torch.backends.mps.is_available():
        return torch.device("mps")
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


@misconception("D25")
def pick_device(prefer=None):
    if prefer is not None:
        return prefer
    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"


@misconception("D26")
def pick_device(prefer=None):
    if prefer is not None:
        return torch.device(torch.device(prefer).type)
    if torch.cuda.is_available():
        return torch.device("cuda")
    return torch.device("mps" if torch.backends.mps.is_available() else "cpu")


@misconception("D27")
def pick_device(prefer=None):
    try:
        return torch.device(prefer)
    except (RuntimeError, TypeError):
        if torch.cuda.is_available():
            return torch.device("cuda")
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")


# ----------------------------------------------------------------------------------------------------- to_device


@alternative("a loop for each container")
def to_device(batch, device):
    if isinstance(batch, torch.Tensor):
        return batch.to(device)
    if isinstance(batch, dict):
        moved = {}
        for key in batch:
            moved[key] = to_device(batch[key], device)
        return moved
    if isinstance(batch, (list, tuple)):
        parts = []
        for part in batch:
            parts.append(to_device(part, device))
        return tuple(parts) if isinstance(batch, tuple) else parts
    return batch


@alternative("torch's own tools for nested structures")
def to_device(batch, device):
    from torch.utils._pytree import tree_map_only

    return tree_map_only(torch.Tensor, lambda tensor: tensor.to(device), batch)


@misconception("D01")
def to_device(batch, device):
    if isinstance(batch, dict):
        return {key: to_device(value, device) for key, value in batch.items()}
    if isinstance(batch, (list, tuple)):
        return type(batch)(to_device(part, device) for part in batch)
    if isinstance(batch, torch.Tensor):
        batch.to(device)
    return batch


@misconception("D17")
def to_device(batch, device):
    if isinstance(batch, dict):
        return {key: to_device(value, device) for key, value in batch.items()}
    if isinstance(batch, (list, tuple)):
        return type(batch)(to_device(part, device) for part in batch)
    if isinstance(batch, torch.Tensor) and batch.device.type != device.type:
        return torch.stack([row.to(device) for row in batch])
    return batch


@misconception("D28")
def to_device(batch, device):
    if isinstance(batch, dict):
        return {key: to_device(value, device) for key, value in batch.items()}
    if isinstance(batch, torch.Tensor):
        return batch.to(device)
    if isinstance(batch, (list, tuple)):
        return [to_device(part, device) for part in batch]
    return batch


@misconception("D29")
def to_device(batch, device):
    if isinstance(batch, torch.Tensor):
        return batch.to(device)
    if isinstance(batch, tuple):
        return tuple(to_device(part, device) for part in batch)
    if isinstance(batch, (dict, list)):
        for key in batch if isinstance(batch, dict) else range(len(batch)):
            batch[key] = to_device(batch[key], device)
    return batch


@misconception("D30")
def to_device(batch, device):
    if isinstance(batch, dict):
        return {key: to_device(value, device) for key, value in batch.items()}
    if isinstance(batch, torch.Tensor):
        return batch.to(device, copy=True)
    if isinstance(batch, (list, tuple)):
        return type(batch)(to_device(part, device) for part in batch)
    return batch


@misconception("D31")
def to_device(batch, device):
    if isinstance(batch, torch.Tensor):
        return batch.to(device)
    if isinstance(batch, dict):
        return {key: value.to(device) if isinstance(value, torch.Tensor) else value for key, value in batch.items()}
    return type(batch)(part.to(device) if isinstance(part, torch.Tensor) else part for part in batch)


@misconception("D32")
def to_device(batch, device):
    if isinstance(batch, dict):
        return {key: to_device(value, device) for key, value in batch.items()}
    if isinstance(batch, torch.Tensor):
        return batch if batch.device.type == device.type else batch.detach().to(device)
    if isinstance(batch, (list, tuple)):
        return type(batch)(to_device(part, device) for part in batch)
    return batch


# ------------------------------------------------------------------------------------------------------ one_trip


@alternative("cuts by hand")
def one_trip(tensors, device):
    packed, start, result = torch.cat([t.reshape(-1) for t in tensors]).to(device=device), 0, []
    for t in tensors:
        result.append(packed[start : start + t.numel()].reshape(t.size()))
        start += t.numel()
    return result


@alternative("torch's own packing")
def one_trip(tensors, device):
    pieces = torch.nn.utils.parameters_to_vector(tensors).to(device).split([t.numel() for t in tensors])
    return [piece.reshape(t.shape) for t, piece in zip(tensors, pieces, strict=True)]


@misconception("D17", "Every tensor made a trip of its own. How many trips does the whole list need at the least?")
def one_trip(tensors, device):
    return [t.to(device) for t in tensors]


@misconception("D32", "The numbers have arrived, and no gradient finds its way back. Which call cut the link?")
def one_trip(tensors, device):
    packed = torch.cat([t.detach().flatten() for t in tensors]).to(device)
    pieces = packed.split([t.numel() for t in tensors])
    return [piece.view(t.shape) for piece, t in zip(pieces, tensors, strict=True)]


@misconception("D36", "Everything was packed and unpacked, and nothing was sent. Which parameter does no line read?")
def one_trip(tensors, device):
    pieces = torch.cat([t.flatten() for t in tensors]).split([t.numel() for t in tensors])
    return [piece.view(t.shape) for piece, t in zip(pieces, tensors, strict=True)]


@misconception("D53")
def one_trip(tensors, device):
    packed = torch.cat([t.flatten() for t in tensors]).to(device)
    return list(packed.split([t.numel() for t in tensors]))


@misconception("D54")
def one_trip(tensors, device):
    return list(torch.stack(tensors).to(device))


@misconception("D55")
def one_trip(tensors, device):
    packed = torch.cat([t.flatten() for t in tensors]).to(device)
    pieces = packed.chunk(len(tensors))
    return [piece.view(t.shape) for piece, t in zip(pieces, tensors, strict=True)]


# --------------------------------------------------------------------------------------------------- masked_mean


@alternative("fills with zeros")
def masked_mean(x, lengths):
    places = torch.arange(x.size(1), device=lengths.device).unsqueeze(0)
    return x.masked_fill(places >= lengths.unsqueeze(1), 0).sum(-1) / lengths.to(x.dtype)


@alternative("numbers the places by a running sum")
def masked_mean(x, lengths):
    places = torch.ones_like(x).cumsum(dim=1)
    kept = torch.where(places <= lengths.view(-1, 1), x, torch.zeros_like(x))
    return kept.sum(dim=1).div(lengths)


@misconception(
    "D07",
    "The places are numbered on the default device, wherever x is. Where the lengths lie elsewhere the comparison "
    "raises an error. From which tensor could the numbers take their device?",
)
def masked_mean(x, lengths):
    mask = torch.arange(x.shape[1]) < lengths[:, None]
    return (x * mask).sum(dim=1) / lengths


@misconception(
    "D07",
    "The mask is in the right place and in the default dtype, and what came of the two has the wider one. From which "
    "tensor could the mask take its dtype?",
    variant="the default dtype",
)
def masked_mean(x, lengths):
    mask = torch.ones(x.shape, device=x.device)
    mask = torch.where(mask.cumsum(dim=1) <= lengths[:, None], mask, 0.0)
    return (x * mask).sum(dim=1) / lengths


@misconception("D48")
def masked_mean(x, lengths):
    x, lengths = x.cpu(), lengths.cpu()
    mask = torch.arange(x.shape[1]) < lengths[:, None]
    return (x * mask).sum(dim=1) / lengths


@misconception("D49")
def masked_mean(x, lengths):
    table, counts = x.cpu(), lengths.cpu()
    mask = torch.arange(table.shape[1]) < counts[:, None]
    return ((table * mask).sum(dim=1) / counts).to(x.device)


@misconception("D50")
def masked_mean(x, lengths):
    return torch.stack([row[: int(length)].sum() / int(length) for row, length in zip(x, lengths, strict=True)])


@misconception("D51")
def masked_mean(x, lengths):
    return x.mean(dim=1)


@misconception(
    "D51",
    "The right numbers were added up, and their sum was divided by the length of the filled row. How many numbers are "
    "in the sum of row i?",
    variant="divides by all places",
)
def masked_mean(x, lengths):
    mask = torch.arange(x.shape[1], device=x.device) < lengths[:, None]
    return (x * mask).mean(dim=1)


@misconception("D52")
def masked_mean(x, lengths):
    mask = torch.arange(x.shape[1], device=x.device) <= lengths[:, None]
    return (x * mask).sum(dim=1) / lengths


# ---------------------------------------------------------------------------------------------------- make_param


@alternative("a Parameter of a copy")
def make_param(init, device):
    values = torch.as_tensor(init).detach().to(device=device, dtype=torch.float32, copy=True)
    return torch.nn.Parameter(values).requires_grad_(True)


@alternative("an empty one, and the values copied in")
def make_param(init, device):
    values = torch.as_tensor(init).detach()
    w = torch.empty(values.shape, dtype=torch.float32, device=device)
    w.copy_(values)
    w.requires_grad = True
    return w


@alternative("through a list of numbers")
def make_param(init, device):
    numbers = init.tolist() if isinstance(init, torch.Tensor) else init
    return torch.tensor(numbers, dtype=torch.float32, device=device, requires_grad=True)


@misconception("D08")
def make_param(init, device):
    values = torch.as_tensor(init).detach()
    return values.to(torch.float32, copy=True).requires_grad_().to(device)


@misconception("D33")
def make_param(init, device):
    values = torch.as_tensor(init).detach()
    return values.to(device, torch.float32).requires_grad_()


@misconception("D34")
def make_param(init, device):
    return torch.as_tensor(init).to(device, torch.float32).requires_grad_()


@misconception("D35")
def make_param(init, device):
    return torch.as_tensor(init).to(device, torch.float32, copy=True).requires_grad_()


@misconception("D36")
def make_param(init, device):
    return torch.as_tensor(init).detach().to(torch.float32, copy=True).requires_grad_()


@misconception("C02")
def make_param(init, device):
    return torch.as_tensor(init).detach().to(device, copy=True).requires_grad_()


@misconception("C42", "A float32 copy came back in the right place, and it is not tracked. Who asked for that?")
def make_param(init, device):
    return torch.as_tensor(init).detach().to(device, torch.float32, copy=True)


# ---------------------------------------------------------------------------------------------------- weight_log


@alternative("clones first")
def weight_log(w, step, steps):
    log = []
    for _ in range(steps):
        step()
        log += [w.clone().detach().cpu()]
    return log


@alternative("a move that copies in any case")
def weight_log(w, step, steps):
    def after():
        step()
        return w.detach().to("cpu", copy=True)

    return [after() for _ in range(steps)]


@alternative("through a list of numbers")
def weight_log(w, step, steps):
    log = []
    for _ in range(steps):
        step()
        log.append(torch.tensor(w.tolist(), dtype=w.dtype))
    return log


@misconception("D09")
def weight_log(w, step, steps):
    log = []
    for _ in range(steps):
        step()
        log.append(w.detach().cpu())
    return log


@misconception("S01")
def weight_log(w, step, steps):
    log = []
    for _ in range(steps):
        step()
        log.append(w.detach())
    return log


@misconception("D10")
def weight_log(w, step, steps):
    log = []
    for _ in range(steps):
        step()
        log.append(torch.from_numpy(w.detach().numpy().copy()))
    return log


@misconception("D37")
def weight_log(w, step, steps):
    log = []
    for _ in range(steps):
        step()
        log.append(w.detach().clone())
    return log


@misconception("D38")
def weight_log(w, step, steps):
    log = []
    for _ in range(steps):
        step()
        log.append(w.cpu().clone())
    return log


@misconception("D47")
def weight_log(w, step, steps):
    log = []
    for _ in range(steps):
        log.append(w.detach().cpu().clone())
        step()
    return log


@misconception("S17")
def weight_log(w, step, steps):
    log = []
    for _ in range(steps):
        step()
        log.append(w.detach().cpu().numpy())
    return log


# -------------------------------------------------------------------------------------------------- window_means


@alternative("stacks each window")
def window_means(step, steps, every):
    means, window = [], []
    for number in range(1, steps + 1):
        window.append(step().detach())
        if len(window) == every or number == steps:
            means.append(torch.stack(window).mean().item())
            window = []
    return means


@alternative("adds in place, and the rest at the end")
def window_means(step, steps, every):
    means, total, count = [], None, 0
    for _ in range(steps):
        loss = step().detach()
        total, count = loss.clone() if total is None else total.add_(loss), count + 1
        if count == every:
            means.append(float(total / every))
            total, count = None, 0
    if count:
        means.append(float(total / count))
    return means


@misconception("D15")
def window_means(step, steps, every):
    means = []
    for start in range(0, steps, every):
        count = min(every, steps - start)
        total = 0.0
        for _ in range(count):
            total += step().item()
        means.append(total / count)
    return means


@misconception(
    "S19",
    "The means are right, and the running total is itself the result of recorded operations, so that it holds what was "
    "recorded for every loss of its window. What takes the numbers of a loss without its past?",
)
def window_means(step, steps, every):
    means = []
    for start in range(0, steps, every):
        count = min(every, steps - start)
        total = 0.0
        for _ in range(count):
            total = total + step()
        means.append(total.item() / count)
    return means


@misconception("D39")
def window_means(step, steps, every):
    means, total = [], 0.0
    for number in range(1, steps + 1):
        total = total + step().detach()
        if number % every == 0:
            means.append(total.item() / every)
            total = 0.0
    return means


@misconception("D40")
def window_means(step, steps, every):
    means, total = [], 0.0
    for number in range(1, steps + 1):
        total = total + step().detach()
        if number % every == 0 or number == steps:
            means.append(total.item() / every)
            total = 0.0
    return means


@misconception("D41")
def window_means(step, steps, every):
    means, total = [], 0.0
    for start in range(0, steps, every):
        count = min(every, steps - start)
        for _ in range(count):
            total = total + step().detach()
        means.append(total.item() / count)
    return means


@misconception("D42")
def window_means(step, steps, every):
    means = []
    for start in range(0, steps, every):
        for _ in range(min(every, steps - start)):
            loss = step().detach()
        means.append(loss.item())
    return means


@misconception("C27", "The means are tensors, and the list was to hold floats. What turns one into the other?")
def window_means(step, steps, every):
    means = []
    for start in range(0, steps, every):
        count = min(every, steps - start)
        total = 0.0
        for _ in range(count):
            total = total + step().detach()
        means.append(total / count)
    return means


# -------------------------------------------------------------------------------------------------------- Masked


@alternative("the last column by itself")
class Masked(torch.nn.Module):
    def __init__(self, mask):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones_like(mask, dtype=torch.float32))
        self.scale = torch.nn.Parameter(torch.ones(()))
        self.register_buffer("mask", mask.float())

    def forward(self, x):
        table = self.weight * self.mask
        return self.scale * (x @ table[:, :-1].t() + table[:, -1])


@alternative("pads the rows, and torch's own linear map")
class Masked(torch.nn.Module):
    def __init__(self, mask):
        super().__init__()
        self.register_buffer("mask", mask.clone())
        self.register_parameter("weight", torch.nn.Parameter(torch.full(tuple(mask.shape), 1.0)))
        self.register_parameter("scale", torch.nn.Parameter(torch.tensor(1.0)))

    def forward(self, x):
        rows = torch.nn.functional.pad(x, (0, 1), value=1.0)
        return torch.nn.functional.linear(rows, self.weight.masked_fill(~self.mask, 0.0)) * self.scale


@misconception("D11")
class Masked(torch.nn.Module):
    def __init__(self, mask):
        super().__init__()
        self.mask = mask
        self.weight = torch.nn.Parameter(torch.ones(mask.shape))
        self.scale = torch.nn.Parameter(torch.tensor(1.0))

    def forward(self, x):
        x = torch.cat([x, x.new_ones(len(x), 1)], dim=1)
        return (x @ (self.weight * self.mask).T) * self.scale


@misconception(
    "D11",
    "The mask is no passenger, and is fetched across in every forward. Each of these is a trip, and state_dict() does "
    "not know the mask. What puts a tensor that is no weight on the list?",
    variant="fetched in every forward",
)
class Masked(torch.nn.Module):
    def __init__(self, mask):
        super().__init__()
        self.mask = mask
        self.weight = torch.nn.Parameter(torch.ones(mask.shape))
        self.scale = torch.nn.Parameter(torch.tensor(1.0))

    def forward(self, x):
        x = torch.cat([x, x.new_ones(len(x), 1)], dim=1)
        return (x @ (self.weight * self.mask.to(x.device)).T) * self.scale


@misconception(
    "D11",
    "The mask moves along, and state_dict() leaves it out: what is loaded elsewhere has no mask, or another one. Which "
    "argument of register_buffer says what goes into a file?",
    variant="not in the file",
)
class Masked(torch.nn.Module):
    def __init__(self, mask):
        super().__init__()
        self.register_buffer("mask", mask, persistent=False)
        self.weight = torch.nn.Parameter(torch.ones(mask.shape))
        self.scale = torch.nn.Parameter(torch.tensor(1.0))

    def forward(self, x):
        x = torch.cat([x, x.new_ones(len(x), 1)], dim=1)
        return (x @ (self.weight * self.mask).T) * self.scale


@misconception("D56")
class Masked(torch.nn.Module):
    def __init__(self, mask):
        super().__init__()
        self.mask = torch.nn.Parameter(mask.float(), requires_grad=False)
        self.weight = torch.nn.Parameter(torch.ones(mask.shape))
        self.scale = torch.nn.Parameter(torch.tensor(1.0))

    def forward(self, x):
        x = torch.cat([x, x.new_ones(len(x), 1)], dim=1)
        return (x @ (self.weight * self.mask).T) * self.scale


@misconception(
    "G22",
    "The scale is tracked and a plain attribute: parameters() does not list it, it does not move along, and no "
    "optimizer is told of it. No error says so. What makes a weight of a tensor that is assigned to an attribute?",
)
class Masked(torch.nn.Module):
    def __init__(self, mask):
        super().__init__()
        self.register_buffer("mask", mask)
        self.weight = torch.nn.Parameter(torch.ones(mask.shape))
        self.scale = torch.tensor(1.0, requires_grad=True)

    def forward(self, x):
        x = torch.cat([x, x.new_ones(len(x), 1)], dim=1)
        return (x @ (self.weight * self.mask).T) * self.scale


@misconception(
    "D57",
    "The scale is registered as a tensor that is no weight. It moves along, and parameters() does not list it, so that "
    "no optimizer is told of it. Which of the three tensors are to learn?",
)
class Masked(torch.nn.Module):
    def __init__(self, mask):
        super().__init__()
        self.register_buffer("mask", mask)
        self.weight = torch.nn.Parameter(torch.ones(mask.shape))
        self.register_buffer("scale", torch.tensor(1.0, requires_grad=True))

    def forward(self, x):
        x = torch.cat([x, x.new_ones(len(x), 1)], dim=1)
        return (x @ (self.weight * self.mask).T) * self.scale


@misconception(
    "D07",
    "The column of ones is made on the default device, wherever x is, and where that is another place the two do not "
    "meet. From which tensor could the ones take device and dtype?",
)
class Masked(torch.nn.Module):
    def __init__(self, mask):
        super().__init__()
        self.register_buffer("mask", mask)
        self.weight = torch.nn.Parameter(torch.ones(mask.shape))
        self.scale = torch.nn.Parameter(torch.tensor(1.0))

    def forward(self, x):
        x = torch.cat([x, torch.ones(len(x), 1)], dim=1)
        return (x @ (self.weight * self.mask).T) * self.scale


@misconception(
    "D07",
    "The column of ones is in the right place and in the default dtype. What came of it and x has the wider of the two "
    "dtypes, and a product of two dtypes raises an error. From which tensor could the ones take their dtype too?",
    variant="the default dtype",
)
class Masked(torch.nn.Module):
    def __init__(self, mask):
        super().__init__()
        self.register_buffer("mask", mask)
        self.weight = torch.nn.Parameter(torch.ones(mask.shape))
        self.scale = torch.nn.Parameter(torch.tensor(1.0))

    def forward(self, x):
        x = torch.cat([x, torch.ones(len(x), 1, device=x.device)], dim=1)
        return (x @ (self.weight * self.mask).T) * self.scale


@misconception(
    "D15",
    "forward reads the scale as a Python number: Python waits for it in every call, and the number knows nothing "
    "of the weight, which gets no gradient. What else can a table be multiplied by?",
)
class Masked(torch.nn.Module):
    def __init__(self, mask):
        super().__init__()
        self.register_buffer("mask", mask)
        self.weight = torch.nn.Parameter(torch.ones(mask.shape))
        self.scale = torch.nn.Parameter(torch.tensor(1.0))

    def forward(self, x):
        x = torch.cat([x, x.new_ones(len(x), 1)], dim=1)
        return (x @ (self.weight * self.mask).T) * self.scale.item()


@misconception("D48")
class Masked(torch.nn.Module):
    def __init__(self, mask):
        super().__init__()
        self.register_buffer("mask", mask)
        self.weight = torch.nn.Parameter(torch.ones(mask.shape))
        self.scale = torch.nn.Parameter(torch.tensor(1.0))

    def forward(self, x):
        x = x.cpu()
        x = torch.cat([x, x.new_ones(len(x), 1)], dim=1)
        return (x @ (self.weight.cpu() * self.mask.cpu()).T) * self.scale.cpu()


@misconception("D49")
class Masked(torch.nn.Module):
    def __init__(self, mask):
        super().__init__()
        self.register_buffer("mask", mask)
        self.weight = torch.nn.Parameter(torch.ones(mask.shape))
        self.scale = torch.nn.Parameter(torch.tensor(1.0))

    def forward(self, x):
        rows = x.cpu()
        rows = torch.cat([rows, rows.new_ones(len(rows), 1)], dim=1)
        return ((rows @ (self.weight.cpu() * self.mask.cpu()).T) * self.scale.cpu()).to(x.device)


@misconception(
    "D32",
    "The table is right and knows nothing of the weights: they were read past what torch records, and get no gradient. "
    "Which call cut the link?",
)
class Masked(torch.nn.Module):
    def __init__(self, mask):
        super().__init__()
        self.register_buffer("mask", mask)
        self.weight = torch.nn.Parameter(torch.ones(mask.shape))
        self.scale = torch.nn.Parameter(torch.tensor(1.0))

    def forward(self, x):
        x = torch.cat([x, x.new_ones(len(x), 1)], dim=1)
        return (x @ (self.weight.data * self.mask).T) * self.scale


# --------------------------------------------------------------------------------------------------------- bench


@alternative("waits before every start too")
def bench(fn, sync, clock, repeats):
    fn()
    timings = []
    for _ in range(repeats):
        sync()
        start = clock()
        fn()
        sync()
        timings.append(clock() - start)
    return sorted(timings)[repeats // 2]


@alternative("a reading at each end, subtracted later")
def bench(fn, sync, clock, repeats):
    def timed():
        sync()
        start = clock()
        fn()
        sync()
        return clock() - start

    timed()
    return numpy.median([timed() for _ in range(repeats)]).item()


@misconception("D16")
def bench(fn, sync, clock, repeats):
    fn()
    sync()
    timings = []
    for _ in range(repeats):
        start = clock()
        fn()
        timings.append(clock() - start)
    return statistics.median(timings)


@misconception("D16", variant="waits before the start only", same_as="D16")
def bench(fn, sync, clock, repeats):
    fn()
    timings = []
    for _ in range(repeats):
        sync()
        start = clock()
        fn()
        timings.append(clock() - start)
    return statistics.median(timings)


@misconception("D43")
def bench(fn, sync, clock, repeats):
    fn()
    timings = []
    for _ in range(repeats):
        start = clock()
        fn()
        sync()
        timings.append(clock() - start)
    return statistics.median(timings)


@misconception("D44")
def bench(fn, sync, clock, repeats):
    sync()
    timings = []
    for _ in range(repeats):
        start = clock()
        fn()
        sync()
        timings.append(clock() - start)
    return statistics.median(timings)


@misconception("D45")
def bench(fn, sync, clock, repeats):
    fn()
    sync()
    timings = []
    for _ in range(repeats):
        start = clock()
        fn()
        sync()
        timings.append(clock() - start)
    return statistics.mean(timings)


@misconception("D45", "One quick call decides it. Which of the timings stands for all?", variant="the quickest call")
def bench(fn, sync, clock, repeats):
    fn()
    sync()
    timings = []
    for _ in range(repeats):
        start = clock()
        fn()
        sync()
        timings.append(clock() - start)
    return min(timings)


@misconception("D46")
def bench(fn, sync, clock, repeats):
    fn()
    sync()
    start = clock()
    for _ in range(repeats):
        fn()
    sync()
    return clock() - start
