"""What people hand in for the exercises of unit 4: wrong programs by their IDs, and other right ones."""

from autogradlab.exercises import alternative, misconception, reference

# --------------------------------------------------------------------------------------------------------- chain


def played(variant):
    """The names of a variant's program when it has run, and the factor of its second route."""
    names, script = {"torch": torch}, cases.chain_script(variant)
    exec("\n".join(script), names)
    names["k"] = float(script[4].split(" + ")[1].split(" * ")[0])
    return names


def numbers(variant, **changed):
    """The ten answers of a variant, some of them changed: functions of the numbers x, w, v, z and k."""
    names = played(variant)
    x, w, v, z = (names[name].item() for name in "xwvz")
    k = names["k"]
    answers = {
        "outer": 2 * z,
        "in_w": x,
        "in_x": w,
        "in_v": -1.0,
        "route": 2 * z * x,
        "w_grad": names["w"].grad.item(),
        "x_grad": names["x"].grad.item(),
        "v_grad": names["v"].grad,
        "g": names["g"],
        "w": w,
    }
    return list((answers | {name: change(x, w, v, z, k) for name, change in changed.items()}).values())


@reference
def chain(variant):
    return numbers(variant)


@alternative("whole numbers in a tuple")
def chain(variant):
    return tuple(answer if answer is None else int(answer) for answer in numbers(variant))


@alternative("worked out on paper")
def chain(variant):
    lines = cases.chain_script(variant)
    x, w, v = (float(line.split("tensor(")[1].split(",")[0].rstrip(")")) for line in lines[:3])
    z, k = w * x - v, float(lines[4].split(" + ")[1].split(" * ")[0])
    return [2 * z, x, w, -1, 2 * z * x, 2 * z * x + k, 2 * z * w, None, None, w]


@misconception("B28")
def chain(variant):
    return numbers(
        variant,
        in_w=lambda x, w, v, z, k: w,
        in_x=lambda x, w, v, z, k: x,
        route=lambda x, w, v, z, k: 2 * z * w,
        w_grad=lambda x, w, v, z, k: 2 * z * w + k,
        x_grad=lambda x, w, v, z, k: 2 * z * x,
    )


@misconception("B29")
def chain(variant):
    return numbers(variant, w_grad=lambda x, w, v, z, k: 2 * z * x)


@misconception(
    "B29",
    "w.grad has only the part that comes straight from the loss. The other use of w lies further down, inside z. "
    "Which way leads from the loss through z to w?",
    variant="the direct route only",
)
def chain(variant):
    return numbers(variant, w_grad=lambda x, w, v, z, k: k)


@misconception("B30")
def chain(variant):
    return numbers(
        variant,
        route=lambda x, w, v, z, k: 2 * z,
        w_grad=lambda x, w, v, z, k: 2 * z + k,
        x_grad=lambda x, w, v, z, k: 2 * z,
    )


@misconception("B31")
def chain(variant):
    return numbers(variant, in_v=lambda x, w, v, z, k: 1.0)


@misconception("B32")
def chain(variant):
    return numbers(
        variant,
        outer=lambda x, w, v, z, k: z,
        route=lambda x, w, v, z, k: z * x,
        w_grad=lambda x, w, v, z, k: z * x + k,
        x_grad=lambda x, w, v, z, k: z * w,
    )


@misconception("B33")
def chain(variant):
    return numbers(
        variant,
        route=lambda x, w, v, z, k: 2 * z + x,
        w_grad=lambda x, w, v, z, k: 2 * z + x + k,
        x_grad=lambda x, w, v, z, k: 2 * z + w,
    )


@misconception("B06", variant="g is the gradient")
def chain(variant):
    return numbers(variant, g=lambda x, w, v, z, k: 2 * z * x + k)


@misconception(
    "B09",
    "v.grad is 0 in these answers. v is not tracked, no node leads to it, and nothing was ever delivered there. What "
    "does .grad read on a tensor that no backward() has reached?",
    variant="untracked is 0",
)
def chain(variant):
    return numbers(variant, v_grad=lambda x, w, v, z, k: 0.0)


@misconception(
    "B09",
    "v.grad is the slope of the loss in v. That slope exists, and nobody recorded the way to it: v is not tracked. "
    "For which leaves does backward() leave anything?",
    variant="a gradient for the untracked",
)
def chain(variant):
    return numbers(variant, v_grad=lambda x, w, v, z, k: -2 * z)


@misconception("B21", variant="w has moved")
def chain(variant):
    return numbers(variant, w=lambda x, w, v, z, k: w - (2 * z * x + k))


# --------------------------------------------------------------------------------------------------------- again


@alternative("runs the piece and looks")
def again(piece):
    x, leaf = (torch.full((3,), 0.75, requires_grad=True) for _ in range(2))
    cases.losses[piece](leaf).backward()
    try:
        cases.passes[piece](x)
    except RuntimeError:
        return "raises"
    if x.grad is None:
        return "none"
    ratio = round((x.grad / leaf.grad).max().item(), 3)
    return {1: "once", 2: "twice"}.get(ratio, "more")


@alternative("a list for each outcome")
def again(piece):
    for outcome, letters in (("raises", "ACF"), ("twice", "BDE"), ("once", "GH")):
        if piece in letters:
            return outcome
    return "none"


@misconception("B03", variant="addition too")
def again(piece):
    outcomes = ["raises", "raises", "raises", "twice", "twice", "raises", "once", "once", "none"]
    return outcomes["ABCDEFGHI".index(piece)]


@misconception(
    "B03",
    "Here a product with a number keeps nothing, so that its second pass runs. The slope of x * 3 is 3, and the node "
    "has to know that. What does (x * 3).grad_fn._saved_other print?",
    variant="a number is not kept",
)
def again(piece):
    outcomes = ["raises", "twice", "twice", "twice", "twice", "raises", "once", "once", "none"]
    return outcomes["ABCDEFGHI".index(piece)]


@misconception(
    "B04",
    "Here the second pass through a retained graph counts for nothing. retain_graph=True keeps the graph as it was, "
    "and a pass through it delivers like any other. What does a pass do with the gradient that it brings?",
    variant="the second counts for nothing",
)
def again(piece):
    outcomes = ["raises", "twice", "raises", "once", "twice", "raises", "once", "once", "none"]
    return outcomes["ABCDEFGHI".index(piece)]


@misconception("B27", variant="more than twice")
def again(piece):
    outcomes = ["raises", "twice", "raises", "more", "twice", "raises", "once", "once", "none"]
    return outcomes["ABCDEFGHI".index(piece)]


@misconception("B05", variant="the trunk holds out")
def again(piece):
    outcomes = ["raises", "twice", "raises", "twice", "twice", "twice", "once", "once", "none"]
    return outcomes["ABCDEFGHI".index(piece)]


@misconception("B22", variant="leaves nothing")
def again(piece):
    outcomes = ["raises", "twice", "raises", "twice", "twice", "raises", "none", "once", "none"]
    return outcomes["ABCDEFGHI".index(piece)]


@misconception(
    "B22",
    "Here a backward() inside no_grad raises an error. The nodes were made before the block began, and walking them "
    "records nothing. What does a no_grad block do to nodes that are there already?",
    variant="raises",
)
def again(piece):
    outcomes = ["raises", "twice", "raises", "twice", "twice", "raises", "raises", "once", "none"]
    return outcomes["ABCDEFGHI".index(piece)]


@misconception(
    "B08",
    "Here autograd.grad leaves what it found in x.grad as well. It hands its result to whoever called it, and leaves "
    "the .grad of every leaf as it was. Who picks up the result in piece I?",
    variant="grad delivers too",
)
def again(piece):
    outcomes = ["raises", "twice", "raises", "twice", "twice", "raises", "once", "twice", "once"]
    return outcomes["ABCDEFGHI".index(piece)]


@misconception(
    "A01",
    "Here each backward() replaces what the one before has left. A gradient is added to what .grad holds, in a second "
    "graph just as in the same one. What does x.grad hold when the second backward() begins?",
    variant="the last one counts",
)
def again(piece):
    outcomes = ["raises", "once", "raises", "once", "once", "raises", "once", "once", "none"]
    return outcomes["ABCDEFGHI".index(piece)]


@misconception(
    "B04",
    "Here a graph that was kept for a second pass refuses it all the same, as if one pass were all that a graph can "
    "bear. What exactly does a pass free, and what does retain_graph=True change about that?",
    variant="retained and refused",
)
def again(piece):
    outcomes = ["raises", "twice", "raises", "raises", "twice", "raises", "once", "raises", "none"]
    return outcomes["ABCDEFGHI".index(piece)]


# -------------------------------------------------------------------------------------------------------- joined


@alternative("starts at several losses")
def joined(w, trunk, heads):
    h = trunk(w)
    losses = [head(h) for head in heads]
    torch.autograd.backward(losses)
    return [float(loss) for loss in losses]


@alternative("collects at the trunk, then one pass below it")
def joined(w, trunk, heads):
    h = trunk(w)
    collected = h.detach().requires_grad_()
    losses = []
    for head in heads:
        loss = head(collected)
        loss.backward()
        losses.append(loss.item())
    h.backward(collected.grad)
    return losses


@alternative("stacks the losses and files the gradient itself")
def joined(w, trunk, heads):
    h = trunk(w)
    losses = torch.stack([head(h) for head in heads])
    (w.grad,) = torch.autograd.grad(losses.sum(), [w])
    return losses.tolist()


@misconception("B05", variant="frees what the next one needs")
def joined(w, trunk, heads):
    losses = []
    h = trunk(w)
    for head in heads:
        loss = head(h)
        loss.backward()
        losses.append(loss.item())
    return losses


@misconception("B04", variant="a pass for each loss")
def joined(w, trunk, heads):
    losses = []
    h = trunk(w)
    for head in heads:
        loss = head(h)
        loss.backward(retain_graph=True)
        losses.append(loss.item())
    return losses


@misconception(
    "B04",
    "The losses are added and go backward together, and the graph is kept for a pass that never comes. What does "
    "retain_graph=True leave in memory here, and for whom?",
    variant="one pass, and keeps the graph",
)
def joined(w, trunk, heads):
    h = trunk(w)
    losses = [head(h) for head in heads]
    sum(losses).backward(retain_graph=True)
    return [loss.item() for loss in losses]


@misconception(
    "B04",
    "The graph is kept for all passes but the last, so that nothing stays behind; the trunk is still gone through once "
    "for each loss. How many passes does the gradient of a sum need?",
    variant="keeps all but the last",
)
def joined(w, trunk, heads):
    h = trunk(w)
    losses = [head(h) for head in heads]
    for loss in losses[:-1]:
        loss.backward(retain_graph=True)
    losses[-1].backward()
    return [loss.item() for loss in losses]


@misconception("B34")
def joined(w, trunk, heads):
    losses = []
    for head in heads:
        loss = head(trunk(w))
        loss.backward()
        losses.append(loss.item())
    return losses


@misconception("B07", variant="the mean of the losses")
def joined(w, trunk, heads):
    h = trunk(w)
    losses = [head(h) for head in heads]
    torch.stack(losses).mean().backward()
    return [loss.item() for loss in losses]


@misconception(
    "S12",
    "The trunk's result is detached, so that every head goes backward without an error and nothing reaches w. Between "
    "which two tensors was the way cut?",
    variant="detached trunk",
)
def joined(w, trunk, heads):
    h = trunk(w).detach().requires_grad_()
    losses = [head(h) for head in heads]
    sum(losses).backward()
    return [loss.item() for loss in losses]


@misconception(
    "B29",
    "Only the last loss goes backward. What the others have to say about w is computed, returned, and never asked for. "
    "From how many losses should routes lead to w?",
    variant="the last loss only",
)
def joined(w, trunk, heads):
    h = trunk(w)
    losses = [head(h) for head in heads]
    losses[-1].backward()
    return [loss.item() for loss in losses]


@misconception(
    "B29",
    "Only the first loss goes backward. The gradient of a sum has a part from each of its terms. Which terms have sent "
    "nothing here?",
    variant="the first loss only",
)
def joined(w, trunk, heads):
    h = trunk(w)
    losses = [head(h) for head in heads]
    losses[0].backward()
    return [loss.item() for loss in losses]


@misconception(
    "A21",
    "The gradient is right, and the losses come back as tensors, each with its graph. A list of them keeps every node "
    "alive. Which call makes a plain number of a tensor with one element?",
    variant="losses as tensors",
)
def joined(w, trunk, heads):
    h = trunk(w)
    losses = [head(h) for head in heads]
    sum(losses).backward()
    return losses


# ------------------------------------------------------------------------------------------------------ jacobian


@alternative("asks about each output by itself")
def jacobian(f, x):
    y = f(x)
    return torch.stack([torch.autograd.grad(output, [x], retain_graph=True)[0] for output in y.unbind()])


@alternative("all rows of an identity at once")
def jacobian(f, x):
    y = f(x)
    weights = torch.eye(y.numel(), dtype=y.dtype, device=y.device)
    return torch.autograd.grad(y, x, weights, is_grads_batched=True)[0]


@alternative("torch's own jacobian")
def jacobian(f, x):
    return torch.autograd.functional.jacobian(f, x)


@alternative("lends .grad to each row and puts it back")
def jacobian(f, x):
    y, before = f(x), x.grad
    result = torch.empty(len(y), len(x), dtype=x.dtype, device=x.device)
    for row, output in zip(result, y):
        x.grad = None
        output.backward(retain_graph=True)
        row.copy_(x.grad)
    x.grad = before
    return result


@misconception("B02", variant="every row is the sum")
def jacobian(f, x):
    y, rows = f(x), []
    for _ in range(len(y)):
        (row,) = torch.autograd.grad(y, x, torch.ones_like(y), retain_graph=True)
        rows.append(row)
    return torch.stack(rows)


@misconception(
    "B02",
    "One pass with a tensor of ones, and its single vector is returned for a matrix: all rows of the Jacobian, added "
    "up. How many passes can tell the outputs apart?",
    variant="one vector",
)
def jacobian(f, x):
    y = f(x)
    return torch.autograd.grad(y, x, torch.ones_like(y))[0]


@misconception(
    "B02",
    "The weights are not cleared between the passes: row i is the sum of the first rows. What should weights hold at "
    "the positions of the outputs before i?",
    variant="weights pile up",
)
def jacobian(f, x):
    y, rows = f(x), []
    weights = torch.zeros_like(y)
    for i in range(len(y)):
        weights[i] = 1.0
        rows.append(torch.autograd.grad(y, x, weights, retain_graph=True)[0])
    return torch.stack(rows)


@misconception("B35")
def jacobian(f, x):
    y, rows = f(x), []
    for i in range(len(y)):
        weights = torch.zeros_like(y)
        weights[i] = 1.0
        rows.append(torch.autograd.grad(y, x, weights, retain_graph=True)[0])
    return torch.stack(rows, dim=1)


@misconception("B36")
def jacobian(f, x):
    y, rows = f(x), []
    for i in range(len(x)):
        weights = torch.zeros_like(y)
        weights[i] = 1.0
        rows.append(torch.autograd.grad(y, x, weights, retain_graph=True)[0])
    return torch.stack(rows)


@misconception(
    "B08",
    "autograd.grad returns a tuple also for one input, and a list of tuples cannot be stacked. How do you get at the "
    "only element of a tuple?",
    variant="stacks tuples",
)
def jacobian(f, x):
    y, rows = f(x), []
    for i in range(len(y)):
        rows.append(torch.autograd.grad(y[i], x, retain_graph=True))
    return torch.stack(rows)


@misconception(
    "B03",
    "The first row comes, and the pass for it frees what the second one needs. All rows go through one graph. Which "
    "argument has a pass leave everything in place?",
    variant="frees after the first row",
)
def jacobian(f, x):
    y, rows = f(x), []
    for i in range(len(y)):
        rows.append(torch.autograd.grad(y[i], x)[0])
    return torch.stack(rows)


@misconception(
    "A01",
    "backward() adds each row to x.grad, which held something from the beginning, and the rows pile up. What has to "
    "happen to x.grad between two rows, and what at the end?",
    variant="rows pile up in .grad",
)
def jacobian(f, x):
    y, rows = f(x), []
    for i in range(len(y)):
        y[i].backward(retain_graph=True)
        rows.append(x.grad.clone())
    return torch.stack(rows)


@misconception(
    "A25",
    "The rows are right, and x.grad is not what it was before the call. Who else reads it, and which call gives a "
    "gradient without touching it?",
    variant="leaves x.grad changed",
)
def jacobian(f, x):
    y, rows = f(x), []
    for i in range(len(y)):
        x.grad = None
        y[i].backward(retain_graph=True)
        rows.append(x.grad)
    return torch.stack(rows)


@misconception(
    "B34",
    "The function is called anew for each row, so that no graph has to be kept. The rows are right, at the price of a "
    "forward pass each. How many rows can one graph give?",
    variant="forward for each row",
)
def jacobian(f, x):
    rows = []
    for i in range(len(f(x))):
        rows.append(torch.autograd.grad(f(x)[i], x)[0])
    return torch.stack(rows)


@misconception(
    "B42",
    "create_graph=True keeps the graph for the next row, and records the way back on top of it: the matrix is tracked. "
    "Which argument keeps the graph and records nothing?",
    variant="create_graph to keep it",
)
def jacobian(f, x):
    y, rows = f(x), []
    for i in range(len(y)):
        rows.append(torch.autograd.grad(y[i], x, create_graph=True)[0])
    return torch.stack(rows)


# ------------------------------------------------------------------------------------------------------- fd_grad


@alternative("a basis tensor for each entry")
def fd_grad(f, x):
    point = x.to(torch.float64)
    gradient = torch.zeros(x.shape, dtype=torch.float64, device=x.device)
    for index in numpy.ndindex(*x.shape):
        nudge = torch.zeros_like(gradient)
        nudge[index] = 1e-6
        gradient[index] = (f(point + nudge) - f(point - nudge)).item() / 2e-6
    return gradient


@alternative("all places first, stacked")
def fd_grad(f, x):
    n, step = x.numel(), 1e-6
    moves = step * torch.eye(n, dtype=torch.float64, device=x.device)
    base = x.double().reshape(1, -1)
    ups = [f(row.reshape(x.shape)) for row in base + moves]
    downs = [f(row.reshape(x.shape)) for row in base - moves]
    return (torch.stack(ups) - torch.stack(downs)).div(2 * step).reshape(x.shape)


@alternative("five points, a wide step")
def fd_grad(f, x):
    flat, step, slopes = x.double().flatten(), 1e-3, []
    for i in range(flat.numel()):
        values = []
        for times in (-2, -1, 1, 2):
            moved = flat.clone()
            moved[i] = moved[i] + times * step
            values.append(f(moved.reshape(x.shape)))
        slopes.append((values[0] - 8 * values[1] + 8 * values[2] - values[3]) / (12 * step))
    return torch.stack(slopes).reshape(x.shape)


@misconception("B44")
def fd_grad(f, x):
    point, step = x.double().reshape(-1), 1e-5
    slopes = torch.empty_like(point)
    for i in range(len(point)):
        up = point.clone()
        up[i] += step
        slopes[i] = (f(up.view(x.shape)) - f(point.view(x.shape))) / step
    return slopes.view(x.shape)


@misconception(
    "B19",
    "The differences are taken in the dtype of x. In float32 hardly any digit of them is left, and the slopes are "
    "off in the second digit or the first. In which dtype should f compute, whatever x is?",
    variant="in the dtype of x",
)
def fd_grad(f, x):
    point, step = x.reshape(-1), 1e-5
    slopes = torch.empty_like(point)
    for i in range(len(point)):
        up, down = point.clone(), point.clone()
        up[i] += step
        down[i] -= step
        slopes[i] = (f(up.view(x.shape)) - f(down.view(x.shape))) / (2 * step)
    return slopes.view(x.shape).double()


@misconception("B19", variant="a step of 1e-12")
def fd_grad(f, x):
    point, step = x.double().reshape(-1), 1e-12
    slopes = torch.empty_like(point)
    for i in range(len(point)):
        up, down = point.clone(), point.clone()
        up[i] += step
        down[i] -= step
        slopes[i] = (f(up.view(x.shape)) - f(down.view(x.shape))) / (2 * step)
    return slopes.view(x.shape)


@misconception(
    "B19",
    "The step is so wide that the bend of the curve shows, also from both sides: the slopes are right to a few digits. "
    "What happens to the error of a central difference when the step is halved?",
    variant="a step too wide",
)
def fd_grad(f, x):
    point, step = x.double().reshape(-1), 1e-2
    slopes = torch.empty_like(point)
    for i in range(len(point)):
        up, down = point.clone(), point.clone()
        up[i] += step
        down[i] -= step
        slopes[i] = (f(up.view(x.shape)) - f(down.view(x.shape))) / (2 * step)
    return slopes.view(x.shape)


@misconception("B45")
def fd_grad(f, x):
    point, step = x.double(), 1e-5
    return ((f(point + step) - f(point - step)) / (2 * step)).expand(x.shape).clone()


@misconception("B46")
def fd_grad(f, x):
    point, step = x.double().reshape(-1), 1e-5
    slopes = torch.empty_like(point)
    for i in range(len(point)):
        up, down = point.clone(), point.clone()
        up[i] += step
        down[i] -= step
        slopes[i] = (f(up.view(x.shape)) - f(down.view(x.shape))) / step
    return slopes.view(x.shape)


@misconception("B47", variant="one tensor for both places")
def fd_grad(f, x):
    point, step = x.double().reshape(-1), 1e-5
    slopes = torch.empty_like(point)
    for i in range(len(point)):
        up = down = point.clone()
        up[i] += step
        down[i] -= step
        slopes[i] = (f(up.view(x.shape)) - f(down.view(x.shape))) / (2 * step)
    return slopes.view(x.shape)


@misconception(
    "B47",
    "Each entry is nudged up and never put back, so that from the second one on f is asked around another point. Where "
    "does the point stand when the last entry has its turn?",
    variant="never put back",
)
def fd_grad(f, x):
    point, step = x.double().reshape(-1).clone(), 1e-3
    slopes = torch.empty_like(point)
    for i in range(len(point)):
        point[i] += step
        up = f(point.view(x.shape))
        point[i] -= 2 * step
        slopes[i] = (up - f(point.view(x.shape))) / (2 * step)
    return slopes.view(x.shape)


@misconception(
    "B47",
    "The nudges are made in x, and each entry ends a step below where it began: double() hands back x itself "
    "where x is float64 already. Which call always makes a copy?",
    variant="nudges x itself",
)
def fd_grad(f, x):
    point, step = x.double(), 1e-5
    slopes = torch.empty_like(point)
    for index in numpy.ndindex(*x.shape):
        point[index] += step
        up = f(point)
        point[index] -= 2 * step
        slopes[index] = (up - f(point)) / (2 * step)
    return slopes


@misconception("B48")
def fd_grad(f, x):
    point = x.detach().double().requires_grad_()
    return torch.autograd.grad(f(point), point)[0]


@misconception(
    "C12",
    "view(-1) wants the numbers in one row, and those of a transposed table are not. Which call gives one row whatever "
    "lies in memory?",
    variant="view of a transposed table",
)
def fd_grad(f, x):
    point, step = x.double().clone(), 1e-5
    slopes = torch.empty_like(point)
    for i in range(x.numel()):
        up, down = point.clone(), point.clone()
        up.view(-1)[i] += step
        down.view(-1)[i] -= step
        slopes.view(-1)[i] = (f(up) - f(down)) / (2 * step)
    return slopes


@misconception(
    "B19",
    "The slopes are measured in float64 and put into a tensor of the dtype of x. In float32 that rounds them to seven "
    "digits. Which dtype has a tensor made with zeros_like(x)?",
    variant="rounds the result",
)
def fd_grad(f, x):
    point, step = x.double().reshape(-1), 1e-5
    slopes = torch.zeros_like(x.reshape(-1))
    for i in range(len(point)):
        up, down = point.clone(), point.clone()
        up[i] += step
        down[i] -= step
        slopes[i] = (f(up.view(x.shape)) - f(down.view(x.shape))) / (2 * step)
    return slopes.view(x.shape)


# --------------------------------------------------------------------------------------------------------- kinks


def atlas(variant, **changed):
    """The answers of a variant in its order, some of them changed; numbers and words as learners give them."""
    lines, k, n = cases.kink_lines(variant)
    answers = []
    for name, start, line in lines:
        slope = cases.slope_at(start, line)
        if name in changed:
            slope = changed[name](k, n)
        answers.append(str(slope) if slope != slope or abs(slope) == float("inf") else slope)
    return answers


@reference
def kinks(variant):
    return atlas(variant)


@alternative("a tuple, whole numbers where there are some")
def kinks(variant):
    return tuple(int(slope) if isinstance(slope, float) and slope == int(slope) else slope for slope in atlas(variant))


@alternative("from a table of conventions")
def kinks(variant):
    lines, k, n = cases.kink_lines(variant)
    table = dict.fromkeys(("relu", "abs", "round", "norm", "hardtanh"), 0)
    table |= {"floor": k, "ceiling": k, "larger": k / 2, "ties": k / n, "root": "inf", "length": "nan"}
    return [table[name] for name, _, _ in lines]


@misconception(
    "B13",
    "Wherever there is a corner or a tie the slope is 0 here. torch gives one of the allowed slopes, and for "
    "several of these operations that is another one. What does x.clamp(min=0) give at 0?",
    variant="always 0",
)
def kinks(variant):
    zero = dict.fromkeys(("floor", "ceiling", "larger", "ties", "root", "length"), lambda k, n: 0.0)
    return atlas(variant, **zero)


@misconception(
    "B13",
    "Here every corner has the slope from its right side. That is one of the allowed slopes, and not the one that "
    "torch takes for relu and abs. What does x.relu() give at 0?",
    variant="from the right",
)
def kinks(variant):
    right = dict.fromkeys(("relu", "abs", "larger", "norm"), lambda k, n: float(k))
    return atlas(variant, **right, ceiling=lambda k, n: 0.0)


@misconception(
    "B13",
    "Here every corner has the mean of the slopes from both sides, as a central difference would measure it. Which of "
    "the slopes from the two sides does torch give for relu?",
    variant="the mean of both sides",
)
def kinks(variant):
    half = dict.fromkeys(("relu", "floor", "ceiling", "hardtanh"), lambda k, n: k / 2)
    return atlas(variant, **half)


@misconception(
    "B13",
    "Here clamp has the slope 0 at its edge, as relu and hardtanh have. x.clamp(min=0) has all the values of relu, and "
    "another slope at 0. Which of the two counts its edge as inside?",
    variant="clamp like relu",
)
def kinks(variant):
    return atlas(variant, floor=lambda k, n: 0.0, ceiling=lambda k, n: 0.0)


@misconception(
    "B13",
    "Here hardtanh keeps its slope at the edge, as clamp does. x.clamp(-1, 1) has the values of hardtanh, and is "
    "another operation. What does torch give for hardtanh at 1?",
    variant="hardtanh like clamp",
)
def kinks(variant):
    return atlas(variant, hardtanh=lambda k, n: float(k))


@misconception(
    "B13",
    "Where values tie, each of them gets the whole gradient here. A nudge of all of them together moves the "
    "result once, and these slopes add up to more. How much is left for each of those that tie?",
    variant="ties paid in full",
)
def kinks(variant):
    return atlas(variant, ties=lambda k, n: float(k), larger=lambda k, n: float(k))


@misconception(
    "B13",
    "Where values tie, max() is left without a slope here. A nudge upwards moves the result, so that somebody has "
    "to get the gradient. Who does, when all are equally large?",
    variant="ties get nothing",
)
def kinks(variant):
    return atlas(variant, ties=lambda k, n: 0.0, larger=lambda k, n: 0.0)


@misconception(
    "B14",
    "The root of a sum of squares is given the slope 0 at zero, as norm() has it. Written out, it is an infinite slope "
    "times a zero, and nobody steps in. What is infinity times zero?",
    variant="no NaN",
)
def kinks(variant):
    return atlas(variant, length=lambda k, n: 0.0)


@misconception(
    "B14",
    "norm() is given the same end as the written-out root here. It is an operation of its own, with a convention for "
    "the point where its slope is not defined. What does x.norm() give at zero?",
    variant="norm like the root",
)
def kinks(variant):
    return atlas(variant, norm=lambda k, n: float("nan"))


@misconception(
    "B14",
    "The root has a finite slope at 0 here. Half of one over the root grows without bound on the way there. What "
    "is one divided by a tensor of zero?",
    variant="a finite root",
)
def kinks(variant):
    return atlas(variant, root=lambda k, n: 0.0)


@misconception(
    "G15",
    "round() has a slope here. It is a staircase: flat nearly everywhere, and torch gives 0 also where it jumps. "
    "How far does round(x) move when x moves from 0.6 to 0.7?",
    variant="round has slope 1",
)
def kinks(variant):
    return atlas(variant, round=lambda k, n: float(k))


# ---------------------------------------------------------------------------------------------------------- Bend


@alternative("saves its output, and takes the shift away again")
class Bend(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale, shift):
        y = (x * scale).tanh() + shift
        ctx.save_for_backward(x, scale, y)
        ctx.shift = shift
        return y

    def summed(gradient, dimensions):
        while gradient.dim() > dimensions:
            gradient = gradient.sum(0)
        return gradient

    @staticmethod
    def backward(ctx, gradient):
        x, scale, y = ctx.saved_tensors
        t = y - ctx.shift
        inner = gradient * (1 - t * t)
        return inner * scale, Bend.summed(inner * x, scale.dim()), None


@alternative("computes only what is asked for")
class Bend(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale, shift):
        ctx.save_for_backward(x, scale)
        return shift + torch.tanh(scale * x)

    def slope(product):
        return 1 / torch.cosh(product).square()

    @staticmethod
    def backward(ctx, upstream):
        x, scale = ctx.saved_tensors
        for_x = for_scale = None
        inner = upstream * Bend.slope(x * scale)
        if ctx.needs_input_grad[0]:
            for_x = inner * scale
        if ctx.needs_input_grad[1]:
            for_scale = (inner * x).sum(dim=0) if scale.dim() else (inner * x).sum()
        return for_x, for_scale, None


@alternative("asks autograd for the inner slopes")
class Bend(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale, shift):
        ctx.save_for_backward(x, scale)
        return torch.tanh(x * scale) + shift

    def tracked(tensor):
        return tensor if tensor.requires_grad else tensor.detach().requires_grad_()

    @staticmethod
    def backward(ctx, gradient):
        x, scale = ctx.saved_tensors
        more = torch.is_grad_enabled()
        with torch.enable_grad():
            point, factor = Bend.tracked(x), Bend.tracked(scale)
            y = torch.tanh(point.view_as(point) * factor.view_as(factor))
        return (*torch.autograd.grad(y, (point, factor), gradient, create_graph=more), None)


@misconception("B15")
class Bend(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale, shift):
        ctx.save_for_backward(x, scale)
        return torch.tanh(x * scale) + shift

    @staticmethod
    def backward(ctx, gradient):
        x, scale = ctx.saved_tensors
        inner = 1 - torch.tanh(x * scale) ** 2
        return inner * scale, (inner * x).sum_to_size(scale.shape), None


@misconception(
    "B15",
    "The mean of what arrives is used for every element. Behind a sum all that arrives is alike, and nothing "
    "shows. Which element of grad_output belongs to which element of the result?",
    variant="the mean of what arrives",
)
class Bend(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale, shift):
        ctx.save_for_backward(x, scale)
        return torch.tanh(x * scale) + shift

    @staticmethod
    def backward(ctx, gradient):
        x, scale = ctx.saved_tensors
        inner = gradient.mean() * (1 - torch.tanh(x * scale) ** 2)
        return inner * scale, (inner * x).sum_to_size(scale.shape), None


@misconception("B16")
class Bend(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale, shift):
        ctx.save_for_backward(x, scale)
        return torch.tanh(x * scale) + shift

    @staticmethod
    def backward(ctx, gradient):
        x, scale = ctx.saved_tensors
        inner = gradient * (1 - torch.tanh(x * scale) ** 2)
        return inner * scale


@misconception("B17")
class Bend(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale, shift):
        ctx.save_for_backward(x, scale)
        return torch.tanh(x * scale) + shift

    @staticmethod
    def backward(ctx, gradient):
        x, scale = ctx.saved_tensors
        inner = gradient * (1 - torch.tanh(x * scale) ** 2)
        return inner * scale, inner * x, None


@misconception(
    "B17",
    "The surplus is added up over the rows, which is right for a vector. Where scale is a single number, a gradient of "
    "many is left over. Over which dimensions was a number stretched to a table?",
    variant="sums the rows alone",
)
class Bend(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale, shift):
        ctx.save_for_backward(x, scale)
        return torch.tanh(x * scale) + shift

    @staticmethod
    def backward(ctx, gradient):
        x, scale = ctx.saved_tensors
        inner = gradient * (1 - torch.tanh(x * scale) ** 2)
        return inner * scale, (inner * x).sum(dim=0), None


@misconception("B18", variant="no gradient for scale")
class Bend(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale, shift):
        ctx.save_for_backward(x, scale)
        return torch.tanh(x * scale) + shift

    @staticmethod
    def backward(ctx, gradient):
        x, scale = ctx.saved_tensors
        return gradient * (1 - torch.tanh(x * scale) ** 2) * scale, None, None


@misconception("B26")
class Bend(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale, shift):
        ctx.x, ctx.scale = x, scale
        return torch.tanh(x * scale) + shift

    @staticmethod
    def backward(ctx, gradient):
        inner = gradient * (1 - torch.tanh(ctx.x * ctx.scale) ** 2)
        return inner * ctx.scale, (inner * ctx.x).sum_to_size(ctx.scale.shape), None


@misconception(
    "B26",
    "A copy of the input lies on ctx. No edit can reach it, so that the gradient is right and an edit goes "
    "unnoticed; the copy stays as long as the result does, and has no history. Who lets go of what lies on ctx?",
    variant="a copy on ctx",
)
class Bend(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale, shift):
        ctx.save_for_backward(scale)
        ctx.x = x.clone()
        return torch.tanh(x * scale) + shift

    @staticmethod
    def backward(ctx, gradient):
        (scale,) = ctx.saved_tensors
        inner = gradient * (1 - torch.tanh(ctx.x * scale) ** 2)
        return inner * scale, (inner * ctx.x).sum_to_size(scale.shape), None


@misconception("B49")
class Bend(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale, shift):
        ctx.save_for_backward(x, scale)
        return torch.tanh(x * scale) + shift

    @staticmethod
    def backward(ctx, gradient):
        x, scale = ctx.saved_tensors
        inner = gradient * (1 - torch.tanh(x * scale) ** 2)
        return inner * scale.data, (inner * x.data).sum_to_size(scale.shape), None


@misconception(
    "B49",
    "This backward runs in a no_grad block, where nothing is recorded: with create_graph=True its result has no "
    "history. For whose sake would the way back be recorded here?",
    variant="in no_grad",
)
class Bend(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale, shift):
        ctx.save_for_backward(x, scale)
        return torch.tanh(x * scale) + shift

    @staticmethod
    def backward(ctx, gradient):
        x, scale = ctx.saved_tensors
        with torch.no_grad():
            inner = gradient * (1 - torch.tanh(x * scale) ** 2)
            return inner * scale, (inner * x).sum_to_size(scale.shape), None


@misconception("B50")
class Bend(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale, shift):
        t = torch.tanh(x * scale)
        ctx.save_for_backward(x, scale, t)
        return t + shift

    @staticmethod
    def backward(ctx, gradient):
        x, scale, t = ctx.saved_tensors
        inner = gradient * (1 - t**2)
        return inner * scale, (inner * x).sum_to_size(scale.shape), None


@misconception(
    "B30",
    "The slope of tanh is there, and that of the product inside it is missing. How far does x * scale move when x "
    "moves by 1?",
    variant="product left out",
)
class Bend(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale, shift):
        ctx.save_for_backward(x, scale)
        return torch.tanh(x * scale) + shift

    @staticmethod
    def backward(ctx, gradient):
        x, scale = ctx.saved_tensors
        inner = gradient * (1 - torch.tanh(x * scale) ** 2)
        return inner, inner.sum_to_size(scale.shape), None


@misconception("B28", variant="gradients changed places")
class Bend(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale, shift):
        ctx.save_for_backward(x, scale)
        return torch.tanh(x * scale) + shift

    @staticmethod
    def backward(ctx, gradient):
        x, scale = ctx.saved_tensors
        inner = gradient * (1 - torch.tanh(x * scale) ** 2)
        return inner * x, (inner * scale).sum_to_size(scale.shape), None


# ------------------------------------------------------------------------------------------------------- penalty


@alternative("weights of one for each row")
def penalty(f, x):
    inputs = x.clone().detach()
    inputs.requires_grad = True
    outputs = f(inputs)
    slopes = torch.autograd.grad(outputs, [inputs], torch.ones_like(outputs), create_graph=True)[0]
    lengths = slopes.square().sum(1).sqrt()
    return lengths.sub(1).square().sum() / len(x)


@alternative("one row after the other")
def penalty(f, x):
    terms = []
    for row in x.detach():
        point = row[None].requires_grad_()
        slopes = torch.autograd.grad(f(point)[0], point, create_graph=True)[0]
        terms.append((torch.linalg.vector_norm(slopes) - 1) ** 2)
    return sum(terms) / len(terms)


@alternative("a result that is asked about")
def penalty(f, x):
    point = x.detach().requires_grad_() + 0.0
    (slopes,) = torch.autograd.grad(f(point).sum(), point, create_graph=True, retain_graph=True)
    return torch.mean((torch.linalg.norm(slopes, dim=-1) - 1.0).pow(2))


@misconception("B11")
def penalty(f, x):
    point = x.detach().requires_grad_()
    (slopes,) = torch.autograd.grad(f(point).sum(), point)
    return ((slopes.norm(dim=1) - 1) ** 2).mean()


@misconception(
    "B11",
    "retain_graph=True keeps the way forward. It does not record the way back, so that the slopes have no history "
    "and no weight hears of the penalty. Which argument records it?",
    variant="retain_graph instead",
    same_as="B11",
)
def penalty(f, x):
    point = x.detach().requires_grad_()
    (slopes,) = torch.autograd.grad(f(point).sum(), point, retain_graph=True)
    return ((slopes.norm(dim=1) - 1) ** 2).mean()


@misconception(
    "B11",
    "The slopes have no history, and the penalty was flagged by hand, so that backward() runs from it and arrives "
    "at the penalty itself. Which operations lie between this number and the weights, as autograd sees it?",
    variant="flags the result",
)
def penalty(f, x):
    point = x.detach().requires_grad_()
    (slopes,) = torch.autograd.grad(f(point).sum(), point)
    return ((slopes.norm(dim=1) - 1) ** 2).mean().requires_grad_()


@misconception(
    "B11",
    "A Python float comes back. The number is right, and nothing can go backward from it. What does .item() leave "
    "behind?",
    variant="a float",
)
def penalty(f, x):
    point = x.detach().requires_grad_()
    (slopes,) = torch.autograd.grad(f(point).sum(), point, create_graph=True)
    return ((slopes.norm(dim=1) - 1) ** 2).mean().item()


@misconception(
    "B08",
    "autograd.grad returns a tuple, also for a single tensor. Which element of it are the slopes?",
    variant="the tuple itself",
)
def penalty(f, x):
    point = x.detach().requires_grad_()
    slopes = torch.autograd.grad(f(point).sum(), point, create_graph=True)
    return ((slopes.norm(dim=1) - 1) ** 2).mean()


@misconception("B51")
def penalty(f, x):
    point = x.detach().requires_grad_()
    (slopes,) = torch.autograd.grad(f(point).sum(), point, create_graph=True)
    return ((slopes.norm() - 1) ** 2).mean()


@misconception(
    "B51",
    "The length runs down the columns: one for each feature, over all rows. Which dimension do the entries of one "
    "row lie along?",
    variant="a length for each column",
)
def penalty(f, x):
    point = x.detach().requires_grad_()
    (slopes,) = torch.autograd.grad(f(point).sum(), point, create_graph=True)
    return ((slopes.norm(dim=0) - 1) ** 2).mean()


@misconception("B52")
def penalty(f, x):
    x.requires_grad_()
    (slopes,) = torch.autograd.grad(f(x).sum(), x, create_graph=True)
    return ((slopes.norm(dim=1) - 1) ** 2).mean()


@misconception(
    "B52",
    "x is tracked for the call and untracked again at the end, also where its owner had it tracked. Which flag did x "
    "have when the call began?",
    variant="clears the flag",
)
def penalty(f, x):
    point = x.detach().requires_grad_()
    (slopes,) = torch.autograd.grad(f(point).sum(), point, create_graph=True)
    x.requires_grad_(False)
    return ((slopes.norm(dim=1) - 1) ** 2).mean()


@misconception(
    "G16",
    "The slopes are asked in x itself, which need not be tracked: then no graph leads to it. Which tensor with "
    "the values of x can be tracked without changing x?",
    variant="trusts that x is tracked",
)
def penalty(f, x):
    (slopes,) = torch.autograd.grad(f(x).sum(), x, create_graph=True)
    return ((slopes.norm(dim=1) - 1) ** 2).mean()


@misconception(
    "B52",
    "A copy of x takes part, and a copy is recorded like any operation: where x is tracked, a way leads from the "
    "penalty back to x. Which call hands on the numbers without the history?",
    variant="a copy with history",
)
def penalty(f, x):
    point = x.clone().requires_grad_()
    (slopes,) = torch.autograd.grad(f(point).sum(), point, create_graph=True)
    return ((slopes.norm(dim=1) - 1) ** 2).mean()


@misconception("B07", variant="the mean of the rows' numbers")
def penalty(f, x):
    point = x.detach().requires_grad_()
    (slopes,) = torch.autograd.grad(f(point).mean(), point, create_graph=True)
    return ((slopes.norm(dim=1) - 1) ** 2).mean()


@misconception(
    "B07",
    "The penalties of the rows are added up and not averaged, so that a longer table costs more. What does the mean "
    "divide by?",
    variant="a sum over the rows",
)
def penalty(f, x):
    point = x.detach().requires_grad_()
    (slopes,) = torch.autograd.grad(f(point).sum(), point, create_graph=True)
    return ((slopes.norm(dim=1) - 1) ** 2).sum()


@misconception(
    "B02",
    "The square of the length is compared with 1, and not the length. For lengths near 1 the two are alike, and "
    "for others far apart. What does norm() do that a sum of squares does not?",
    variant="squared lengths",
)
def penalty(f, x):
    point = x.detach().requires_grad_()
    (slopes,) = torch.autograd.grad(f(point).sum(), point, create_graph=True)
    return (((slopes**2).sum(dim=1) - 1) ** 2).mean()


# --------------------------------------------------------------------------------------------------- my_backward


@alternative("an order first, parents before children")
def my_backward(loss):
    order, state, stack = [], {}, [loss.grad_fn]
    while stack:
        node = stack[-1]
        if state.get(node) is None:
            state[node] = "open"
            stack += [each for each, _ in node.next_functions if each is not None and each not in state]
        else:
            stack.pop()
            if state[node] == "open":
                state[node] = "done"
                order.append(node)
    boxes = {node: [None] * len(node._input_metadata) for node in order}
    boxes[loss.grad_fn][0] = torch.ones_like(loss).detach()
    found = {}
    with torch.no_grad():
        for node in reversed(order):
            if node.name().endswith("AccumulateGrad"):
                found[node.variable] = boxes[node][0]
                continue
            sent = node(*boxes[node])
            sent = sent if isinstance(sent, tuple) else (sent,)
            for (following, index), gradient in zip(node.next_functions, sent):
                if following is None:
                    continue
                gradient = gradient.sum_to_size(following._input_metadata[index].shape)
                before = boxes[following][index]
                boxes[following][index] = gradient if before is None else before + gradient
    return found


@alternative("the newest node first, as the engine does")
def my_backward(loss):
    import heapq

    found, boxes, queue, number = {}, {loss.grad_fn: {0: [torch.ones_like(loss)]}}, [], 0

    def put(node):
        nonlocal number
        number += 1
        age = float("inf") if hasattr(node, "variable") else -node._sequence_nr()
        heapq.heappush(queue, (age, number, node))

    put(loss.grad_fn)
    with torch.no_grad():
        while queue:
            _, _, node = heapq.heappop(queue)
            box = boxes[node]
            if hasattr(node, "variable"):
                found[node.variable] = sum(box[0])
                continue
            sent = node(*(sum(box[i]) if i in box else None for i in range(len(node._input_metadata))))
            for edge, gradient in zip(node.next_functions, sent if isinstance(sent, tuple) else [sent]):
                following, index = edge
                if following is not None:
                    if following not in boxes:
                        boxes[following] = {}
                        put(following)
                    shape = following._input_metadata[index].shape
                    boxes[following].setdefault(index, []).append(gradient.sum_to_size(shape))
    return found


@alternative("waits for edges, sums what was collected")
def my_backward(loss):
    waiting_for, names, todo = {loss.grad_fn: 0}, {}, [loss.grad_fn]
    for node in todo:
        for child, _ in node.next_functions:
            if child is not None and child not in waiting_for:
                todo.append(child)
                waiting_for[child] = 0
            if child is not None:
                waiting_for[child] += 1
    post, ready, result = {loss.grad_fn: [(0, torch.ones_like(loss))]}, [loss.grad_fn], {}
    with torch.no_grad():
        for node in ready:
            inputs = [None for _ in node._input_metadata]
            for slot, gradient in post.pop(node):
                inputs[slot] = gradient if inputs[slot] is None else inputs[slot].add(gradient)
            leaf = getattr(node, "variable", names.get(node))
            if leaf is not None:
                result[leaf] = inputs[0]
                continue
            outputs = node(*inputs)
            if isinstance(outputs, torch.Tensor):
                outputs = (outputs,)
            for edge, output in zip(node.next_functions, outputs):
                child, slot = edge
                if child is None:
                    continue
                expected = child._input_metadata[slot].shape
                while output.dim() > len(expected):
                    output = output.sum(0)
                for dim, size in enumerate(expected):
                    if size == 1 != output.shape[dim]:
                        output = output.sum(dim, keepdim=True)
                post.setdefault(child, []).append((slot, output))
                waiting_for[child] -= 1
                if not waiting_for[child]:
                    ready.append(child)
    return result


@misconception("B37")
def my_backward(loss):
    into, waiting = Counter(), [loss.grad_fn]
    while waiting:
        for following, _ in waiting.pop().next_functions:
            if following is not None:
                if following not in into:
                    waiting.append(following)
                into[following] += 1
    arrived, ready, found = {(loss.grad_fn, 0): torch.ones_like(loss)}, [loss.grad_fn], {}
    with torch.no_grad():
        while ready:
            node = ready.pop()
            received = [arrived.get((node, index)) for index in range(len(node._input_metadata))]
            if hasattr(node, "variable"):
                found[node.variable] = received[0]
                continue
            sent = node(*received)
            for (following, index), gradient in zip(node.next_functions, sent if type(sent) is tuple else [sent]):
                if following is not None:
                    arrived[following, index] = arrived.get((following, index), 0) + gradient
                    into[following] -= 1
                    if into[following] == 0:
                        ready.append(following)
    return found


@misconception("B38")
def my_backward(loss):
    into, waiting = Counter(), [loss.grad_fn]
    while waiting:
        for following, _ in waiting.pop().next_functions:
            if following is not None:
                if following not in into:
                    waiting.append(following)
                into[following] += 1
    arrived, ready, found = {(loss.grad_fn, 0): torch.ones_like(loss)}, [loss.grad_fn], {}
    with torch.no_grad():
        while ready:
            node = ready.pop()
            received = [arrived.get((node, index)) for index in range(len(node._input_metadata))]
            if hasattr(node, "variable"):
                found[node.variable] = received[0].sum_to_size(node.variable.shape)
                continue
            sent = node(*received)
            for (following, index), gradient in zip(node.next_functions, sent if type(sent) is tuple else [sent]):
                if following is not None:
                    arrived[following, index] = arrived.get((following, index), 0) + gradient
                    into[following] -= 1
                    if into[following] == 0:
                        ready.append(following)
    return found


@misconception("B39")
def my_backward(loss):
    into, waiting = Counter(), [loss.grad_fn]
    while waiting:
        for following, _ in waiting.pop().next_functions:
            if following is not None:
                if following not in into:
                    waiting.append(following)
                into[following] += 1
    arrived, ready, found = {(loss.grad_fn, 0): torch.ones_like(loss)}, [loss.grad_fn], {}
    with torch.no_grad():
        while ready:
            node = ready.pop()
            received = [arrived.get((node, index)) for index in range(len(node._input_metadata))]
            if hasattr(node, "variable"):
                found[node.variable] = received[0]
                continue
            sent = node(*received)
            for (following, index), gradient in zip(node.next_functions, sent if type(sent) is tuple else [sent]):
                if following is not None:
                    gradient = gradient.sum_to_size(following._input_metadata[index].shape)
                    arrived[following, index] = gradient
                    into[following] -= 1
                    if into[following] == 0:
                        ready.append(following)
    return found


@misconception("B40")
def my_backward(loss):
    into, waiting = Counter(), [loss.grad_fn]
    while waiting:
        for following, _ in waiting.pop().next_functions:
            if following is not None:
                if following not in into:
                    waiting.append(following)
                into[following] += 1
    arrived, ready, found = {(loss.grad_fn, 0): torch.ones_like(loss)}, [loss.grad_fn], {}
    with torch.no_grad():
        while ready:
            node = ready.pop()
            received = [arrived.get((node, index)) for index in range(len(node._input_metadata))]
            if hasattr(node, "variable"):
                found[node.variable] = received[0]
                continue
            sent = node(*received)
            for (following, index), gradient in zip(node.next_functions, sent if type(sent) is tuple else [sent]):
                if following is not None:
                    gradient = gradient.sum_to_size(following._input_metadata[index].shape)
                    arrived[following, 0] = arrived.get((following, 0), 0) + gradient
                    into[following] -= 1
                    if into[following] == 0:
                        ready.append(following)
    return found


@misconception("B41")
def my_backward(loss):
    into, waiting = Counter(), [loss.grad_fn]
    while waiting:
        for following, _ in waiting.pop().next_functions:
            if following is not None:
                if following not in into:
                    waiting.append(following)
                into[following] += 1
    arrived, ready, found = {(loss.grad_fn, 0): torch.ones_like(loss)}, [loss.grad_fn], {}
    with torch.no_grad():
        while ready:
            node = ready.pop()
            received = [arrived.get((node, index)) for index in range(len(node._input_metadata))]
            sent = node(*received)
            if hasattr(node, "variable"):
                found[node.variable] = received[0]
                continue
            for (following, index), gradient in zip(node.next_functions, sent if type(sent) is tuple else [sent]):
                if following is not None:
                    gradient = gradient.sum_to_size(following._input_metadata[index].shape)
                    arrived[following, index] = arrived.get((following, index), 0) + gradient
                    into[following] -= 1
                    if into[following] == 0:
                        ready.append(following)
    return found


@misconception(
    "B41",
    "Every leaf is given what its .grad held after the call of its node: whatever stood there before is in the "
    "answer too, and .grad has changed. What did .grad hold before the call?",
    variant="reads .grad",
)
def my_backward(loss):
    into, waiting = Counter(), [loss.grad_fn]
    while waiting:
        for following, _ in waiting.pop().next_functions:
            if following is not None:
                if following not in into:
                    waiting.append(following)
                into[following] += 1
    arrived, ready, found = {(loss.grad_fn, 0): torch.ones_like(loss)}, [loss.grad_fn], {}
    with torch.no_grad():
        while ready:
            node = ready.pop()
            received = [arrived.get((node, index)) for index in range(len(node._input_metadata))]
            sent = node(*received)
            if hasattr(node, "variable"):
                found[node.variable] = node.variable.grad
                continue
            for (following, index), gradient in zip(node.next_functions, sent if type(sent) is tuple else [sent]):
                if following is not None:
                    gradient = gradient.sum_to_size(following._input_metadata[index].shape)
                    arrived[following, index] = arrived.get((following, index), 0) + gradient
                    into[following] -= 1
                    if into[following] == 0:
                        ready.append(following)
    return found


@misconception("B42")
def my_backward(loss):
    into, waiting = Counter(), [loss.grad_fn]
    while waiting:
        for following, _ in waiting.pop().next_functions:
            if following is not None:
                if following not in into:
                    waiting.append(following)
                into[following] += 1
    arrived, ready, found = {(loss.grad_fn, 0): torch.ones_like(loss)}, [loss.grad_fn], {}
    while ready:
        node = ready.pop()
        received = [arrived.get((node, index)) for index in range(len(node._input_metadata))]
        if hasattr(node, "variable"):
            found[node.variable] = received[0]
            continue
        sent = node(*received)
        for (following, index), gradient in zip(node.next_functions, sent if type(sent) is tuple else [sent]):
            if following is not None:
                gradient = gradient.sum_to_size(following._input_metadata[index].shape)
                arrived[following, index] = arrived.get((following, index), 0) + gradient
                into[following] -= 1
                if into[following] == 0:
                    ready.append(following)
    return found


@misconception("B43")
def my_backward(loss):
    into, waiting = Counter(), [loss.grad_fn]
    while waiting:
        for following, _ in waiting.pop().next_functions:
            if following is not None:
                if following not in into:
                    waiting.append(following)
                into[following] += 1
    arrived, ready, found = {(loss.grad_fn, 0): torch.ones_like(loss)}, [loss.grad_fn], {}
    with torch.no_grad():
        while ready:
            node = ready.pop()
            received = [arrived.get((node, index)) for index in range(len(node._input_metadata))]
            if hasattr(node, "variable"):
                found[node.variable] = received[0]
                continue
            sent = node(*received)
            for (following, index), gradient in zip(node.next_functions, sent):
                if following is not None:
                    gradient = gradient.sum_to_size(following._input_metadata[index].shape)
                    arrived[following, index] = arrived.get((following, index), 0) + gradient
                    into[following] -= 1
                    if into[following] == 0:
                        ready.append(following)
    return found


@misconception(
    "G36",
    "A node is called as soon as anything has arrived there, and again at each further arrival, where it hands on "
    "the sum so far once more. How many edges lead to this node, and how many of them have been used?",
    variant="at every arrival",
)
def my_backward(loss):
    into, waiting = Counter(), [loss.grad_fn]
    while waiting:
        for following, _ in waiting.pop().next_functions:
            if following is not None:
                if following not in into:
                    waiting.append(following)
                into[following] += 1
    arrived, ready, found = {(loss.grad_fn, 0): torch.ones_like(loss)}, [loss.grad_fn], {}
    with torch.no_grad():
        while ready:
            node = ready.pop()
            received = [arrived.get((node, index)) for index in range(len(node._input_metadata))]
            if hasattr(node, "variable"):
                found[node.variable] = received[0]
                continue
            sent = node(*received)
            for (following, index), gradient in zip(node.next_functions, sent if type(sent) is tuple else [sent]):
                if following is not None:
                    gradient = gradient.sum_to_size(following._input_metadata[index].shape)
                    arrived[following, index] = arrived.get((following, index), 0) + gradient
                    ready.append(following)
    return found


@misconception(
    "G36",
    "A node is called when a walk along the first route gets there, children in depth, so that other routes have "
    "not arrived yet. In which order does every node come after all that lead to it?",
    variant="in the order of a walk",
)
def my_backward(loss):
    order, waiting = [], [loss.grad_fn]
    while waiting:
        node = waiting.pop()
        if node not in order:
            order.append(node)
            waiting += [following for following, _ in node.next_functions if following is not None]
    arrived, found = {(loss.grad_fn, 0): torch.ones_like(loss)}, {}
    with torch.no_grad():
        for node in order:
            received = [arrived.get((node, index)) for index in range(len(node._input_metadata))]
            if hasattr(node, "variable"):
                found[node.variable] = received[0]
                continue
            sent = node(*received)
            for (following, index), gradient in zip(node.next_functions, sent if type(sent) is tuple else [sent]):
                if following is not None:
                    gradient = gradient.sum_to_size(following._input_metadata[index].shape)
                    arrived[following, index] = arrived.get((following, index), 0) + gradient
    return found


@misconception(
    "G27",
    "Each route is walked by itself, from the loss to its leaf, and the parts are added up at the end. That is "
    "right as long as routes are few. How many routes are there after forty doublings?",
    variant="a pass for each route",
)
def my_backward(loss):
    found, waiting = {}, [(loss.grad_fn, 0, torch.ones_like(loss))]
    with torch.no_grad():
        while waiting:
            node, slot, gradient = waiting.pop()
            if hasattr(node, "variable"):
                found[node.variable] = found.get(node.variable, 0) + gradient
                continue
            received = [gradient if index == slot else None for index in range(len(node._input_metadata))]
            sent = node(*received)
            for (following, index), part in zip(node.next_functions, sent if type(sent) is tuple else [sent]):
                if following is not None and part is not None:
                    waiting.append((following, index, part.sum_to_size(following._input_metadata[index].shape)))
    return found


@misconception("G25")
def my_backward(loss):
    into, waiting = Counter(), [loss.grad_fn]
    while waiting:
        for following, _ in waiting.pop().next_functions:
            if following is not None:
                if following not in into:
                    waiting.append(following)
                into[following] += 1
    arrived, ready, found = {(loss.grad_fn, 0): torch.ones_like(loss)}, [loss.grad_fn], {}
    with torch.no_grad():
        while ready:
            node = ready.pop()
            received = [arrived.get((node, index)) for index in range(len(node._input_metadata))]
            if hasattr(node, "variable"):
                found[node.variable] = received[0]
                continue
            sent = node(*received)
            for (following, index), gradient in zip(node.next_functions, sent if type(sent) is tuple else [sent]):
                if True:
                    gradient = gradient.sum_to_size(following._input_metadata[index].shape)
                    arrived[following, index] = arrived.get((following, index), 0) + gradient
                    into[following] -= 1
                    if into[following] == 0:
                        ready.append(following)
    return found


@misconception(
    "B21",
    "The dict has the graph's own nodes as keys. Whoever wants the gradient of w has the tensor w in hand. Which "
    "attribute of such a node is its leaf?",
    variant="nodes as keys",
)
def my_backward(loss):
    into, waiting = Counter(), [loss.grad_fn]
    while waiting:
        for following, _ in waiting.pop().next_functions:
            if following is not None:
                if following not in into:
                    waiting.append(following)
                into[following] += 1
    arrived, ready, found = {(loss.grad_fn, 0): torch.ones_like(loss)}, [loss.grad_fn], {}
    with torch.no_grad():
        while ready:
            node = ready.pop()
            received = [arrived.get((node, index)) for index in range(len(node._input_metadata))]
            if hasattr(node, "variable"):
                found[node] = received[0]
                continue
            sent = node(*received)
            for (following, index), gradient in zip(node.next_functions, sent if type(sent) is tuple else [sent]):
                if following is not None:
                    gradient = gradient.sum_to_size(following._input_metadata[index].shape)
                    arrived[following, index] = arrived.get((following, index), 0) + gradient
                    into[following] -= 1
                    if into[following] == 0:
                        ready.append(following)
    return found


EQUIVALENT = [
    {
        "exercise": "Bend",
        "operator": "decorator",
        "line": "@staticmethod",
        "change": "`@staticmethod` was dropped",
        "reason": "torch takes both functions from the class, where they get the same arguments without the decorator",
    },
    {
        "exercise": "Bend",
        "operator": "decorator",
        "line": "@staticmethod",
        "change": "`@staticmethod` was dropped",
        "occurrence": 2,
        "reason": "torch takes both functions from the class, where they get the same arguments without the decorator",
    },
]
