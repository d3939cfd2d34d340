"""What people hand in for the exercises of unit 1: wrong programs by their IDs, and other right ones."""

from autogradlab.exercises import alternative, misconception, reference

# ----------------------------------------------------------------------------------------------------- step_down


@alternative("asks autograd.grad and copies the new value in")
def step_down(w, x, lr):
    loss = (w * x + 1) ** 2
    (slope,) = torch.autograd.grad(loss, w)
    with torch.no_grad():
        w.copy_(w - lr * slope)
    return float(loss)


@alternative("the slope by hand")
def step_down(w, x, lr):
    with torch.no_grad():
        z = w * x + 1
        w.sub_(lr * 2 * z * x)
    return (z * z).item()


@alternative("edits .data")
def step_down(w, x, lr):
    loss = (w * x + 1).square()
    loss.backward()
    w.data -= w.grad * lr
    return loss.tolist()


@misconception(
    "G07",
    "The step was made while torch was watching, and torch refuses to have a tensor that it was asked to watch edited. "
    "The step is no part of what the loss computes. In which block does torch look away?",
)
def step_down(w, x, lr):
    loss = (w * x + 1) ** 2
    loss.backward()
    w -= lr * w.grad
    return loss.item()


@misconception(
    "G06",
    "The caller's w is where it was. Either no line moves it, or the new value went into a new tensor, to which the "
    "name w moved inside the function. Which operator edits the tensor itself?",
)
def step_down(w, x, lr):
    loss = (w * x + 1) ** 2
    loss.backward()
    with torch.no_grad():
        w = w - lr * w.grad
    return loss.item()


@misconception("B21", same_as="G06")
def step_down(w, x, lr):
    loss = (w * x + 1) ** 2
    loss.backward()
    return loss.item()


@misconception("C26")
def step_down(w, x, lr):
    loss = (w * x + 1) ** 2
    loss.backward()
    with torch.no_grad():
        w += lr * w.grad
    return loss.item()


@misconception("S04")
def step_down(w, x, lr):
    loss = (w * x + 1) ** 2
    loss.backward()
    torch.set_grad_enabled(False)
    w -= lr * w.grad
    return loss.item()


@misconception("C27")
def step_down(w, x, lr):
    loss = (w * x + 1) ** 2
    loss.backward()
    with torch.no_grad():
        w -= lr * w.grad
    return loss.detach()


@misconception(
    "B06",
    "The gradient in the step is None. That is what .grad holds before backward() has run, and what backward() returns "
    "in any case. What fills w.grad, and when?",
)
def step_down(w, x, lr):
    loss = (w * x + 1) ** 2
    slope = loss.backward()
    with torch.no_grad():
        w -= lr * slope
    return loss.item()


@misconception("C43")
def step_down(w, x, lr):
    loss = (w * x + 1) ** 2
    loss.backward()
    with torch.no_grad():
        w -= lr * w.grad
        return ((w * x + 1) ** 2).item()


@misconception("C44")
def step_down(w, x, lr):
    loss = (w * x + 1) ** 2
    loss.backward()
    with torch.no_grad():
        w -= lr * x.grad
    return loss.item()


@misconception(
    "C44",
    "Both tensors have moved. x is data here: its gradient is there, and nobody asked for a step of it. Which of the "
    "two is the weight?",
    variant="moves both",
)
def step_down(w, x, lr):
    loss = (w * x + 1) ** 2
    loss.backward()
    with torch.no_grad():
        w -= lr * w.grad
        x -= lr * x.grad
    return loss.item()


@misconception(
    "C42",
    "Tracking was switched off on w so that it could be edited, and nobody switched it on again. What will the next "
    "forward pass know about w?",
    variant="switched off for good",
)
def step_down(w, x, lr):
    loss = (w * x + 1) ** 2
    loss.backward()
    w.requires_grad_(False)
    w -= lr * w.grad
    return loss.item()


# -------------------------------------------------------------------------------------------------- start_values


@alternative("converts afterwards")
def start_values(rows, inputs, bias):
    shift = torch.tensor(bias).float().requires_grad_()
    size = (rows, len(bias))
    kernel = torch.empty(inputs, len(bias)).normal_()
    return {"bias": shift, "state": torch.zeros(size), "scale": torch.ones(size[1:]), "kernel": kernel}


@alternative("the old constructor on a list, and full with a point")
def start_values(rows, inputs, bias):
    made = {"kernel": torch.randn((inputs, len(bias)))}
    made["bias"] = torch.Tensor(bias)
    made["bias"].requires_grad = True
    made["scale"] = torch.full((len(bias),), 1.0)
    made["state"] = torch.full((rows, len(bias)), 0.0)
    return made


@alternative("modelled on the bias")
def start_values(rows, inputs, bias):
    values = torch.tensor([float(number) for number in bias])
    return {
        "scale": torch.ones_like(values),
        "state": values.new_zeros(rows, len(values)),
        "kernel": torch.normal(0.0, 1.0, (inputs, len(values))),
        "bias": values.requires_grad_(),
    }


@misconception(
    "C08",
    "Nobody wrote into the state. torch.empty reserves memory, as torch.Tensor does with a size, and shows what lies "
    "there; the check lays nan there, so that leftovers which look like zeros pass by no luck. Which constructor "
    "writes zeros?",
)
def start_values(rows, inputs, bias):
    return {
        "bias": torch.tensor(bias, dtype=torch.float32, requires_grad=True),
        "state": torch.empty(rows, len(bias)),
        "scale": torch.ones(len(bias)),
        "kernel": torch.randn(inputs, len(bias)),
    }


@misconception("C01", same_as="C08")
def start_values(rows, inputs, bias):
    return {
        "bias": torch.tensor(bias, dtype=torch.float32, requires_grad=True),
        "state": torch.Tensor(rows, len(bias)),
        "scale": torch.ones(len(bias)),
        "kernel": torch.randn(inputs, len(bias)),
    }


@misconception(
    "C18",
    "The scale is int64: the fill value is a whole number, and it chose. A loss that multiplies by it may pass, its "
    "mean will not. What type does Python give to the fill value as it is written here?",
)
def start_values(rows, inputs, bias):
    return {
        "bias": torch.tensor(bias, dtype=torch.float32, requires_grad=True),
        "state": torch.zeros(rows, len(bias)),
        "scale": torch.full((len(bias),), 1),
        "kernel": torch.randn(inputs, len(bias)),
    }


@misconception("C17")
def start_values(rows, inputs, bias):
    return {
        "bias": torch.tensor(bias, dtype=torch.float32, requires_grad=True),
        "state": torch.zeros(rows, len(bias)),
        "scale": torch.ones_like(torch.tensor(bias)),
        "kernel": torch.randn(inputs, len(bias)),
    }


@misconception("C02")
def start_values(rows, inputs, bias):
    return {
        "bias": torch.tensor(bias, requires_grad=True),
        "state": torch.zeros(rows, len(bias)),
        "scale": torch.ones(len(bias)),
        "kernel": torch.randn(inputs, len(bias)),
    }


@misconception("C09")
def start_values(rows, inputs, bias):
    return {
        "bias": torch.tensor(bias, dtype=torch.float32, requires_grad=True),
        "state": torch.tensor((rows, len(bias))),
        "scale": torch.ones(len(bias)),
        "kernel": torch.randn(inputs, len(bias)),
    }


@misconception("C29")
def start_values(rows, inputs, bias):
    return {
        "bias": torch.tensor(bias, dtype=torch.float32, requires_grad=True),
        "state": torch.zeros(rows, len(bias)),
        "scale": torch.ones(len(bias)),
        "kernel": torch.rand(inputs, len(bias)),
    }


@misconception(
    "C42",
    "The bias is not tracked, so that backward() would leave it no gradient, and no step would move it. Which argument "
    "of the constructor asks for tracking?",
)
def start_values(rows, inputs, bias):
    return {
        "bias": torch.tensor(bias, dtype=torch.float32),
        "state": torch.zeros(rows, len(bias)),
        "scale": torch.ones(len(bias)),
        "kernel": torch.randn(inputs, len(bias)),
    }


@misconception(
    "C42",
    "All four tensors are tracked. A state that is tracked ties every later result to this beginning. Which of the "
    "four are to be moved by their gradients?",
    variant="tracks them all",
)
def start_values(rows, inputs, bias):
    return {
        "bias": torch.tensor(bias, dtype=torch.float32, requires_grad=True),
        "state": torch.zeros(rows, len(bias), requires_grad=True),
        "scale": torch.ones(len(bias), requires_grad=True),
        "kernel": torch.randn(inputs, len(bias), requires_grad=True),
    }


@misconception(
    "C03",
    "The bias is int64 where the list holds whole numbers only. Its mean raises an error, and so will its gradient. "
    "Which dtype should it have whatever the list holds?",
)
def start_values(rows, inputs, bias):
    return {
        "bias": torch.tensor(bias),
        "state": torch.zeros(rows, len(bias)),
        "scale": torch.ones(len(bias)),
        "kernel": torch.randn(inputs, len(bias)),
    }


@misconception(
    "C04",
    "The bias went through an array and came out as float64, the default of NumPy. One tensor of 64 bits widens "
    "whatever it is added to. Which dtype do the other three entries have?",
)
def start_values(rows, inputs, bias):
    return {
        "bias": torch.from_numpy(numpy.array(bias, dtype=float)).requires_grad_(),
        "state": torch.zeros(rows, len(bias)),
        "scale": torch.ones(len(bias)),
        "kernel": torch.randn(inputs, len(bias)),
    }


@misconception(
    "G05",
    "The bias was made, tracked, and then computed with: what came back is a result and no leaf, and no optimizer "
    "takes it. In which order do the three steps have to come?",
)
def start_values(rows, inputs, bias):
    numbers = torch.tensor([float(number) for number in bias], requires_grad=True)
    return {
        "bias": numbers * 1.0,
        "state": torch.zeros(rows, len(bias)),
        "scale": torch.ones(len(bias)),
        "kernel": torch.randn(inputs, len(bias)),
    }


@misconception(
    "C34",
    "The seed is set before the kernel is drawn, so that every layer begins with the same numbers, and every other "
    "draw of the program begins anew as well. Who should decide about the seed?",
)
def start_values(rows, inputs, bias):
    torch.manual_seed(0)
    return {
        "bias": torch.tensor(bias, dtype=torch.float32, requires_grad=True),
        "state": torch.zeros(rows, len(bias)),
        "scale": torch.ones(len(bias)),
        "kernel": torch.randn(inputs, len(bias)),
    }


@misconception(
    "C33",
    "The kernel has one row for each output. Inputs and outputs have changed places, which nothing notices before the "
    "first product. Which of the two dimensions has to meet the inputs?",
    variant="kernel turned round",
)
def start_values(rows, inputs, bias):
    return {
        "bias": torch.tensor(bias, dtype=torch.float32, requires_grad=True),
        "state": torch.zeros(rows, len(bias)),
        "scale": torch.ones(len(bias)),
        "kernel": torch.randn(len(bias), inputs),
    }


# ----------------------------------------------------------------------------------------------- shape_and_dtype


@reference
def shape_and_dtype(variant):
    tensors = [eval(line) for line in cases.tensor_lines(variant)]
    return [[list(one.shape), str(one.dtype)] for one in tensors]


@alternative("torch's own sizes and dtypes")
def shape_and_dtype(variant):
    tensors = map(eval, cases.tensor_lines(variant))
    return [(one.shape, one.dtype) for one in tensors]


@alternative("tuples, and short names of dtypes")
def shape_and_dtype(variant):
    tensors = [eval(line) for line in cases.tensor_lines(variant)]
    return tuple((tuple(one.size()), str(one.dtype).split(".")[1]) for one in tensors)


@misconception(
    "C01",
    "The fifth line is taken for a tensor without dimensions. The constructor with the capital T reads a number as a "
    "size. How many elements does it make here?",
)
def shape_and_dtype(variant):
    tensors = [eval(line) for line in cases.tensor_lines(variant)]
    answers = [[list(one.shape), str(one.dtype)] for one in tensors]
    answers[4] = [[], "float32"]
    return answers


@misconception(
    "C09",
    "The third line is answered as a table of that size. tensor() takes values, in round brackets as in square ones. "
    "How many numbers stand in the inner brackets?",
)
def shape_and_dtype(variant):
    tensors = [eval(line) for line in cases.tensor_lines(variant)]
    answers = [[list(one.shape), str(one.dtype)] for one in tensors]
    answers[2] = [answers[3][0], "float32"]
    return answers


@misconception("C04")
def shape_and_dtype(variant):
    tensors = [eval(line) for line in cases.tensor_lines(variant)]
    answers = [[list(one.shape), str(one.dtype)] for one in tensors]
    answers[6][1] = "float32"
    return answers


@misconception("C18")
def shape_and_dtype(variant):
    tensors = [eval(line) for line in cases.tensor_lines(variant)]
    answers = [[list(one.shape), str(one.dtype)] for one in tensors]
    answers[7][1] = "float32"
    return answers


@misconception("C17")
def shape_and_dtype(variant):
    tensors = [eval(line) for line in cases.tensor_lines(variant)]
    answers = [[list(one.shape), str(one.dtype)] for one in tensors]
    answers[8][1] = "float32"
    return answers


@misconception("C24")
def shape_and_dtype(variant):
    tensors = [eval(line) for line in cases.tensor_lines(variant)]
    answers = [[list(one.shape), str(one.dtype)] for one in tensors]
    answers[10][1] = answers[11][1] = "float64"
    return answers


@misconception(
    "C24",
    "The last line is answered as float32, as if a single element gave way. It has a dimension, and then its 64 bits "
    "count. Which property of the small tensor decides, its elements or its dimensions?",
    variant="float32 always stays",
)
def shape_and_dtype(variant):
    tensors = [eval(line) for line in cases.tensor_lines(variant)]
    answers = [[list(one.shape), str(one.dtype)] for one in tensors]
    answers[10][1] = answers[11][1] = "float32"
    return answers


@misconception("C28")
def shape_and_dtype(variant):
    tensors = [eval(line) for line in cases.tensor_lines(variant)]
    return [[list(one.shape), str(one.dtype).replace("float32", "float64")] for one in tensors]


@misconception(
    "C03",
    "Lists of whole numbers are answered as float32. The values choose here, and whole ones make int64. What would "
    "mean() say to such a tensor?",
)
def shape_and_dtype(variant):
    tensors = [eval(line) for line in cases.tensor_lines(variant)]
    answers = [[list(one.shape), str(one.dtype)] for one in tensors]
    answers[0][1] = answers[2][1] = "float32"
    return answers


@misconception(
    "C14",
    "The quotient of two whole numbers is answered as whole. Division changes the kind of a dtype, so that fractions "
    "have a place. Which operator divides and stays whole?",
)
def shape_and_dtype(variant):
    tensors = [eval(line) for line in cases.tensor_lines(variant)]
    answers = [[list(one.shape), str(one.dtype)] for one in tensors]
    answers[9][1] = "int64"
    return answers


@misconception(
    "C33",
    "The shape of the nested list is read from the inside: first how long a row is, then how many rows there are. "
    "Which index comes first when you write t[i, j]?",
    variant="inner length first",
)
def shape_and_dtype(variant):
    tensors = [eval(line) for line in cases.tensor_lines(variant)]
    answers = [[list(one.shape), str(one.dtype)] for one in tensors]
    answers[5] = [answers[5][0][::-1], "bool"]
    return answers


# -------------------------------------------------------------------------------------------------------- mended


@alternative("einsum, unsqueeze, vstack, flatten, column_stack")
def mended(letter, a, b):
    if letter == "A":
        return torch.einsum("rf,cf->rc", a, b)
    if letter == "B":
        return a + b.unsqueeze(1)
    if letter == "C":
        return torch.vstack((a, b))
    if letter == "D":
        return a.transpose(0, 1).flatten() * b
    return torch.column_stack((a, b))


@alternative("a dict of lambdas, transposed and back")
def mended(letter, a, b):
    ways = {
        "A": lambda: (b @ a.T).T,
        "B": lambda: (a.T + b).T,
        "C": lambda: torch.cat([a.T, b.T], dim=1).T,
        "D": lambda: a.T.contiguous().view(-1) * b,
        "E": lambda: torch.cat([a.unsqueeze(1), b], dim=1),
    }
    return ways[letter]()


@misconception(
    "C12",
    "In A the numbers of b were cut into rows of another length: view and reshape re-read one line of numbers, so that "
    "neighbours stay neighbours. A transpose turns rows into columns. Which element should stand to the right of the "
    "first one?",
)
def mended(letter, a, b):
    if letter == "A":
        return a @ b.view(b.shape[1], b.shape[0])
    if letter == "B":
        return a + b.unsqueeze(1)
    if letter == "C":
        return torch.cat([a, b], dim=0)
    if letter == "D":
        return a.T.reshape(-1) * b
    return torch.stack([a, b.squeeze(1)], dim=1)


@misconception(
    "C12",
    "In line D the transpose is gone, and the elements are read row by row. The error is silenced and another order "
    "multiplied. What did a.T say about the order that was meant?",
    variant="read row by row",
)
def mended(letter, a, b):
    if letter == "A":
        return a @ b.T
    if letter == "B":
        return a + b.unsqueeze(1)
    if letter == "C":
        return torch.cat([a, b], dim=0)
    if letter == "D":
        return a.view(-1) * b
    return torch.stack([a, b.squeeze(1)], dim=1)


@misconception(
    "C33",
    "The scores in A stand with one row for each class: the other operand was transposed. What does row i of the "
    "result have to be about?",
    variant="a row for each class",
)
def mended(letter, a, b):
    if letter == "A":
        return b @ a.T
    if letter == "B":
        return a + b.unsqueeze(1)
    if letter == "C":
        return torch.cat([a, b], dim=0)
    if letter == "D":
        return a.T.reshape(-1) * b
    return torch.stack([a, b.squeeze(1)], dim=1)


@misconception(
    "C33",
    "In B the table was turned round so that the shapes fit from the right, and it stayed so. How does a vector get a "
    "dimension on its other side?",
    variant="the table turned round",
)
def mended(letter, a, b):
    if letter == "A":
        return a @ b.T
    if letter == "B":
        return a.T + b
    if letter == "C":
        return torch.cat([a, b], dim=0)
    if letter == "D":
        return a.T.reshape(-1) * b
    return torch.stack([a, b.squeeze(1)], dim=1)


@misconception(
    "C13",
    "In B a dimension was added to the table instead of the vector, and broadcasting added every number to every row. "
    "How many dimensions should the result have?",
)
def mended(letter, a, b):
    if letter == "A":
        return a @ b.T
    if letter == "B":
        return a[..., None] + b
    if letter == "C":
        return torch.cat([a, b], dim=0)
    if letter == "D":
        return a.T.reshape(-1) * b
    return torch.stack([a, b.squeeze(1)], dim=1)


@misconception(
    "C33",
    "In C the rows of b come first. The shapes fit either way, so that no error tells. Whose rows were to come first?",
    variant="the other rows first",
)
def mended(letter, a, b):
    if letter == "A":
        return a @ b.T
    if letter == "B":
        return a + b.unsqueeze(1)
    if letter == "C":
        return torch.cat([b, a])
    if letter == "D":
        return a.T.reshape(-1) * b
    return torch.stack([a, b.squeeze(1)], dim=1)


@misconception(
    "C33",
    "In E the two vectors became two rows. stack puts them along a new dimension, and dim says where that stands. "
    "Which dimension of the result has the size 2?",
    variant="rows for columns",
)
def mended(letter, a, b):
    if letter == "A":
        return a @ b.T
    if letter == "B":
        return a + b.unsqueeze(1)
    if letter == "C":
        return torch.cat([a, b], dim=0)
    if letter == "D":
        return a.T.reshape(-1) * b
    return torch.stack([a, b.squeeze(1)])


@misconception(
    "C33",
    "In E the second row holds all of b: the two were put end to end, and then cut into pairs. Along which dimension "
    "do a column of a and a column of b stand side by side?",
    variant="end to end",
)
def mended(letter, a, b):
    if letter == "A":
        return a @ b.T
    if letter == "B":
        return a + b.unsqueeze(1)
    if letter == "C":
        return torch.cat([a, b])
    if letter == "D":
        return a.T.reshape(-1) * b
    return torch.cat([a, b.squeeze(1)]).reshape(-1, 2)


@misconception("C31")
def mended(letter, a, b):
    if letter == "A":
        return a @ b.T
    if letter == "B":
        return a + b.unsqueeze(1)
    if letter == "C":
        return torch.cat([a, b], dim=0)
    if letter == "D":
        return a.T.reshape(-1) * b
    return torch.stack([a, b.squeeze()], dim=1)


@misconception("C30")
def mended(letter, a, b):
    if letter == "A":
        return a @ b.T
    if letter == "B":
        return a + b.unsqueeze(1)
    if letter == "C":
        return torch.cat([a, b], dim=0)
    if letter == "D":
        return a.T.reshape(-1) * b
    return torch.stack([a, b.squeeze_(1)], dim=1)


@misconception(
    "C30",
    "In B the numbers were added into a itself: the caller's table has changed, and a second call adds them again. "
    "Which operator makes a new tensor?",
    variant="added in place",
)
def mended(letter, a, b):
    if letter == "A":
        return a @ b.T
    if letter == "B":
        a += b.unsqueeze(1)
        return a
    if letter == "C":
        return torch.cat([a, b], dim=0)
    if letter == "D":
        return a.T.reshape(-1) * b
    return torch.stack([a, b.squeeze(1)], dim=1)


# ----------------------------------------------------------------------------------------------------------- mse


@alternative("brings y into the shape of pred")
def mse(pred, y):
    columns = [one.dim() == 1 or one.dim() == 2 and one.shape[1] == 1 for one in (pred, y)]
    if not all(columns) or len(pred) != len(y):
        raise ValueError("expected N values each, of shape (N,) or (N, 1)")
    return (pred - y.view_as(pred)).square().mean()


@alternative("squeezes the second dimension where there is one")
def mse(pred, y):
    flat = []
    for one in (pred, y):
        if one.dim() == 2 and one.shape[1] == 1:
            one = one.squeeze(1)
        if one.dim() != 1:
            raise ValueError(f"{tuple(one.shape)} is no column and no vector")
        flat.append(one)
    if flat[0].shape != flat[1].shape:
        raise ValueError(f"{len(flat[0])} predictions for {len(flat[1])} targets")
    return F.mse_loss(*flat)


@alternative("adds up and divides")
def mse(pred, y):
    n = y.numel()
    if not {tuple(pred.shape), tuple(y.shape)} <= {(n,), (n, 1)}:
        raise ValueError(f"shapes {tuple(pred.shape)} and {tuple(y.shape)}")
    apart = pred.flatten() - y.flatten()
    return apart @ apart / n


@misconception("C13")
def mse(pred, y):
    return ((pred - y) ** 2).mean()


@misconception("C13", variant="warned by F.mse_loss", same_as="C13")
def mse(pred, y):
    return F.mse_loss(pred, y)


@misconception(
    "C31",
    "squeeze() was applied to both, and takes away every size of 1: a row of shape (1, N) became a vector too, and is "
    "compared as if it were a column. Which dimension is to go, and what is to happen to other shapes?",
)
def mse(pred, y):
    pred, y = pred.squeeze(), y.squeeze()
    if pred.shape != y.shape:
        raise ValueError(f"shapes {tuple(pred.shape)} and {tuple(y.shape)}")
    return ((pred - y) ** 2).mean()


@misconception(
    "C31",
    "The counts were compared, and then squeeze() took every size of 1 away from both: a row of shape (1, N) has N "
    "elements like a column, and became the same vector. Which dimension is to go, and what is to happen to other "
    "shapes?",
    variant="counts, then squeezes both",
)
def mse(pred, y):
    if pred.numel() != y.numel():
        raise ValueError(f"{pred.numel()} predictions for {y.numel()} targets")
    return ((pred.squeeze() - y.squeeze()) ** 2).mean()


@misconception(
    "C32",
    "Both got a second dimension where they had none, and then their shapes were compared. Two tables of one shape "
    "pass as well. Which size may the second dimension have?",
    variant="tables of one shape pass",
)
def mse(pred, y):
    pred, y = (one.unsqueeze(1) if one.dim() == 1 else one for one in (pred, y))
    if pred.shape != y.shape:
        raise ValueError(f"shapes {tuple(pred.shape)} and {tuple(y.shape)}")
    return ((pred - y) ** 2).mean()


@misconception("C32")
def mse(pred, y):
    if pred.numel() != y.numel():
        raise ValueError(f"{pred.numel()} predictions for {y.numel()} targets")
    return ((pred.reshape(-1) - y.reshape(-1)) ** 2).mean()


@misconception(
    "C32",
    "Both were flattened and subtracted, whatever they were. Equal counts pass, a single target is stretched to all "
    "predictions, and what is left is torch's own error. Which question should be asked before the flattening?",
    variant="flattens without a look",
)
def mse(pred, y):
    return ((pred.reshape(-1) - y.reshape(-1)) ** 2).mean()


@misconception("C45")
def mse(pred, y):
    n = pred.numel()
    assert pred.shape in ((n,), (n, 1)) and y.shape in ((n,), (n, 1))
    return ((pred.reshape(-1) - y.reshape(-1)) ** 2).mean()


@misconception("C46")
def mse(pred, y):
    if pred.shape != y.shape or pred.dim() not in (1, 2) or pred.numel() != len(pred):
        raise ValueError(f"shapes {tuple(pred.shape)} and {tuple(y.shape)}")
    return ((pred - y) ** 2).mean()


@misconception(
    "S12",
    "The number is right, and the loss knows nothing of the prediction: on the way to it the history was left, as "
    "detach(), item() and torch.tensor() leave it. Which of your lines is the last whose result is tracked?",
)
def mse(pred, y):
    n = pred.numel()
    for tensor in (pred, y):
        if tensor.shape not in ((n,), (n, 1)):
            raise ValueError("expected (N,) or (N, 1)")
    return ((pred.detach().reshape(-1) - y.reshape(-1)) ** 2).mean()


@misconception(
    "G13",
    "The loss was read off as a number and packed into a new tensor that is tracked. backward() works on it and "
    "reaches nothing. What does this tensor know about the prediction?",
)
def mse(pred, y):
    n = pred.numel()
    for tensor in (pred, y):
        if tensor.shape not in ((n,), (n, 1)):
            raise ValueError("expected (N,) or (N, 1)")
    loss = ((pred.reshape(-1) - y.reshape(-1)) ** 2).mean()
    return torch.tensor(loss.item(), dtype=pred.dtype, requires_grad=True)


@misconception("B07")
def mse(pred, y):
    n = pred.numel()
    for tensor in (pred, y):
        if tensor.shape not in ((n,), (n, 1)):
            raise ValueError("expected (N,) or (N, 1)")
    return ((pred.reshape(-1) - y.reshape(-1)) ** 2).sum()


@misconception(
    "C30",
    "y got its second dimension in place, so that the caller's targets have another shape now. What does the "
    "underscore at the end of a method's name say?",
)
def mse(pred, y):
    n = pred.numel()
    for tensor in (pred, y):
        if tensor.shape not in ((n,), (n, 1)):
            raise ValueError("expected (N,) or (N, 1)")
    if y.dim() == 1:
        y.unsqueeze_(1)
    return ((pred.reshape(-1, 1) - y) ** 2).mean()


# ------------------------------------------------------------------------------------------------ to_model_input


@alternative("fills a new tensor")
def to_model_input(obj):
    obj = obj.detach() if isinstance(obj, torch.Tensor) else numpy.asarray(obj)
    made = torch.empty(tuple(obj.shape))
    made.copy_(obj if isinstance(obj, torch.Tensor) else torch.as_tensor(obj.copy()))
    return made


@alternative("by way of NumPy")
def to_model_input(obj):
    obj = obj.detach() if isinstance(obj, torch.Tensor) else numpy.asarray(obj)
    return torch.tensor(numpy.array(obj, order="C"), dtype=torch.float32)


@alternative("copies first, converts afterwards")
def to_model_input(obj):
    if isinstance(obj, torch.Tensor):
        mine = obj.detach().clone(memory_format=torch.contiguous_format)
    else:
        mine = torch.from_numpy(numpy.array(obj, order="C"))
    return mine.float()


@misconception("C05")
def to_model_input(obj):
    obj = obj.detach() if isinstance(obj, torch.Tensor) else numpy.asarray(obj)
    if isinstance(obj, numpy.ndarray):
        return torch.from_numpy(numpy.ascontiguousarray(obj)).float().reshape(obj.shape)
    return obj.to(torch.float32, copy=True).contiguous()


@misconception(
    "C05",
    "A float32 input comes back in its own memory: float() had nothing to convert, and handed the same tensor on. On "
    "which inputs does this line copy, and on which not?",
    variant="float() copies",
)
def to_model_input(obj):
    obj = obj.detach() if isinstance(obj, torch.Tensor) else numpy.asarray(obj)
    if isinstance(obj, numpy.ndarray):
        obj = torch.from_numpy(numpy.ascontiguousarray(obj).reshape(obj.shape))
    return obj.float().contiguous()


@misconception(
    "C21",
    "A reversed array walks backwards through memory. No tensor can do that, and every function that turns an array "
    "into a tensor raises this error, torch.tensor too. How can the reversed order become the order in memory?",
)
def to_model_input(obj):
    obj = obj.detach() if isinstance(obj, torch.Tensor) else numpy.asarray(obj)
    if isinstance(obj, numpy.ndarray):
        obj = torch.from_numpy(obj)
    return obj.to(torch.float32, copy=True).contiguous()


@misconception(
    "C04",
    "The dtype is that of what came in: float64 from arrays, int64 from whole numbers, bool from comparisons. At this "
    "border all of them were to become one. Which argument says which?",
)
def to_model_input(obj):
    obj = obj.detach() if isinstance(obj, torch.Tensor) else numpy.asarray(obj)
    return torch.tensor(numpy.array(obj, order="C"))


@misconception(
    "G20",
    "A tracked input came out as the result of a recorded operation: clone() copies the numbers and stays in the "
    "story. Which call leaves the story?",
)
def to_model_input(obj):
    if isinstance(obj, torch.Tensor):
        return obj.clone().to(torch.float32).contiguous()
    return torch.from_numpy(numpy.array(obj, order="C")).to(torch.float32, copy=True)


@misconception("C47")
def to_model_input(obj):
    obj = obj.detach() if isinstance(obj, torch.Tensor) else numpy.asarray(obj)
    if isinstance(obj, numpy.ndarray):
        obj = torch.from_numpy(obj.copy())
    return obj.to(torch.float32, copy=True)


@misconception(
    "C23",
    "A tensor that was float32 already is handed back as it is: the caller holds two names of one memory. What has to "
    "happen even where nothing has to be converted?",
)
def to_model_input(obj):
    obj = obj.detach() if isinstance(obj, torch.Tensor) else numpy.asarray(obj)
    if isinstance(obj, numpy.ndarray):
        return torch.tensor(obj.copy(), dtype=torch.float32)
    return obj.contiguous() if obj.dtype == torch.float32 else obj.to(torch.float32).contiguous()


@misconception(
    "C30",
    "The caller's tensor is no longer tracked: the flag was switched off on it and not on the copy. What does "
    "detach() do to the tensor on which it is called?",
)
def to_model_input(obj):
    obj = obj.requires_grad_(False) if isinstance(obj, torch.Tensor) else torch.from_numpy(numpy.array(obj, order="C"))
    return obj.to(torch.float32, copy=True).contiguous()


@misconception("C01")
def to_model_input(obj):
    obj = obj.detach() if isinstance(obj, torch.Tensor) else numpy.asarray(obj)
    return torch.Tensor(obj.tolist())


@misconception("C48")
def to_model_input(obj):
    obj = obj.detach() if isinstance(obj, torch.Tensor) else numpy.asarray(obj)
    return torch.tensor(obj.tolist(), dtype=torch.float32)


# -------------------------------------------------------------------------------------------------------- sample


@alternative("forks the common sequence")
def sample(shape, seed):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return torch.randn(shape)


@alternative("puts the common sequence back")
def sample(shape, seed):
    before = torch.get_rng_state()
    torch.manual_seed(seed)
    made = torch.randn(shape)
    torch.set_rng_state(before)
    return made


@alternative("fills an empty tensor")
def sample(shape, seed):
    own = torch.Generator()
    own.manual_seed(seed)
    return torch.empty(shape).normal_(generator=own)


@misconception(
    "C34",
    "There is one sequence of random numbers for everybody, and this call begins it anew: the caller's next numbers "
    "depend on your seed. Whose sequence should a function draw from that has a seed of its own?",
)
def sample(shape, seed):
    torch.manual_seed(seed)
    return torch.randn(shape)


@misconception(
    "C34",
    "The state that was put back is the one after the seeding, so that the caller's numbers begin anew at your seed. "
    "When is the state to be saved?",
    variant="saved too late",
)
def sample(shape, seed):
    torch.manual_seed(seed)
    before = torch.get_rng_state()
    made = torch.randn(shape)
    torch.set_rng_state(before)
    return made


@misconception(
    "C34",
    "After the draw the common sequence is set to a seed of its own, so that the caller draws the same numbers after "
    "every call. Where was the caller's sequence before?",
    variant="seeds again afterwards",
)
def sample(shape, seed):
    torch.manual_seed(seed)
    made = torch.randn(shape)
    torch.manual_seed(0)
    return made


@misconception(
    "C34",
    "NumPy's common sequence was seeded. These are other numbers than torch's for the same seed, and now the caller's "
    "arrays repeat. Whose sequences are there, and which did you touch?",
    variant="NumPy's sequence",
)
def sample(shape, seed):
    numpy.random.seed(seed)
    return torch.tensor(numpy.random.standard_normal(shape), dtype=torch.float32)


@misconception(
    "C16",
    "The common sequence is seeded once for a seed, and not again: the second call takes the next numbers. At which "
    "point of the sequence does each call have to begin?",
)
def sample(shape, seed):
    if torch.initial_seed() != seed:
        torch.manual_seed(seed)
    return torch.randn(shape)


@misconception("C29")
def sample(shape, seed):
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed))


@misconception(
    "C23",
    "The first result is kept and handed out again: two calls return one tensor under two names, and an edit of one "
    "shows in the other. How many tensors should exist after two calls?",
)
def sample(shape, seed):
    import weakref

    kept = sample.__dict__.setdefault("kept", weakref.WeakValueDictionary())
    made = kept.get((str(shape), seed))
    if made is None:
        made = kept[str(shape), seed] = torch.randn(shape, generator=torch.Generator().manual_seed(seed))
    return made


@misconception(
    "C28",
    "The numbers come as float64: a generator of NumPy's draws them, and its own numbers they are too. Which library "
    "should draw what a tensor is to hold?",
)
def sample(shape, seed):
    return torch.from_numpy(numpy.random.RandomState(seed).standard_normal(shape))


# ------------------------------------------------------------------------------------------------------- one_hot


@alternative("rows of an identity matrix")
def one_hot(labels, classes):
    return torch.eye(classes, device=labels.device)[labels]


@alternative("scatters ones into zeros")
def one_hot(labels, classes):
    table = torch.zeros(len(labels), classes, device=labels.device)
    return table.scatter_(1, labels.unsqueeze(1), 1.0)


@alternative("the function of torch")
def one_hot(labels, classes):
    return F.one_hot(labels, num_classes=classes).to(torch.float32)


@misconception("C38")
def one_hot(labels, classes):
    return torch.eye(int(labels.max()) + 1, device=labels.device)[labels]


@misconception(
    "C18",
    "The table is int64. What multiplies it with a float kernel is refused, and its mean as well. Which dtype was "
    "asked for?",
)
def one_hot(labels, classes):
    return F.one_hot(labels, classes)


@misconception(
    "C18",
    "The table holds True and False. A comparison gives a bool tensor, and a sum of bools counts them. What is "
    "missing behind the comparison?",
    variant="still a comparison",
)
def one_hot(labels, classes):
    return labels.unsqueeze(1) == torch.arange(classes, device=labels.device)


@misconception("C39")
def one_hot(labels, classes):
    table = torch.zeros(len(labels), classes, device=labels.device)
    for row, label in enumerate(labels.tolist()):
        table[row, label] = 1.0
    return table


@misconception(
    "C33",
    "The table has one row for each class and one column for each label. Which of the two got the new dimension?",
    variant="a row for each class",
)
def one_hot(labels, classes):
    return (labels == torch.arange(classes, device=labels.device).unsqueeze(1)).float()


@misconception("C28", "The table is float64. Which dtype does your model compute in?")
def one_hot(labels, classes):
    return (labels.unsqueeze(1) == torch.arange(classes, device=labels.device)).double()


@misconception(
    "C13",
    "The labels and the column numbers were compared one by one, and not every label with every column. Their shapes "
    "are (N,) and (classes,). Which shape of labels stretches to (N, classes)?",
)
def one_hot(labels, classes):
    return (labels == torch.arange(classes, device=labels.device)).float()


@misconception(
    "C12",
    "Only the first row or so has its ones in the right places: the flat positions were computed without the width of "
    "a row. How many numbers lie between the same column of two rows?",
)
def one_hot(labels, classes):
    flat = torch.zeros(len(labels) * classes, device=labels.device)
    flat[torch.arange(len(labels), device=labels.device) + labels] = 1.0
    return flat.view(len(labels), classes)


# ------------------------------------------------------------------------------------------------- shares_memory


@alternative("sets of addresses")
def shares_memory(a, b):
    def places(one):
        one = one.detach().numpy() if isinstance(one, torch.Tensor) else one
        found = numpy.full(one.shape, one.__array_interface__["data"][0])
        for dim, step in enumerate(one.strides):
            shape = [1] * one.ndim
            shape[dim] = -1
            found = found + step * numpy.arange(one.shape[dim]).reshape(shape)
        return set(found.ravel().tolist())

    return not places(a).isdisjoint(places(b))


@alternative("pokes twice and puts everything back")
def shares_memory(a, b):
    a, b = (one.detach().numpy() if isinstance(one, torch.Tensor) else one for one in (a, b))
    saved, seen = a.copy(), []
    for poke in (0, 1):
        a[...] = poke
        seen.append(b.tobytes())
    a[...] = saved
    return seen[0] != seen[1]


@misconception("C35")
def shares_memory(a, b):
    first = [one.data_ptr() if isinstance(one, torch.Tensor) else one.ctypes.data for one in (a, b)]
    return first[0] == first[1]


@misconception(
    "C35",
    "Arrays have no data_ptr(), and the program stops at the first one. How can one object be made a window on the "
    "memory of the other kind?",
    variant="trips over arrays",
)
def shares_memory(a, b):
    return a.data_ptr() == b.data_ptr()


@misconception(
    "C21",
    "An array that is read backwards cannot be turned into a tensor without a copy, and a copy would answer another "
    "question. Into which of the two kinds can everything here be turned?",
)
def shares_memory(a, b):
    a, b = (torch.from_numpy(one) if isinstance(one, numpy.ndarray) else one.detach() for one in (a, b))
    return a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()


@misconception("C36")
def shares_memory(a, b):
    def line(one):
        if isinstance(one, torch.Tensor):
            return one.untyped_storage().data_ptr()
        while one.base is not None:
            one = one.base
        return one.ctypes.data

    return line(a) == line(b)


@misconception(
    "C36",
    "Two columns lie between each other's ends, and have no element in common. The answer is about the stretches of "
    "memory and not about the elements. Which numbers lie between two elements of one column?",
    variant="stretches overlap",
)
def shares_memory(a, b):
    a, b = (one.detach().numpy() if isinstance(one, torch.Tensor) else one for one in (a, b))
    return bool(numpy.may_share_memory(a, b))


@misconception("C37")
def shares_memory(a, b):
    a, b = (one.detach().numpy() if isinstance(one, torch.Tensor) else one for one in (a, b))
    return numpy.array_equal(a, b)


@misconception(
    "C37",
    "Two names are told to be one object or not. Two windows on one memory are two objects. What is it that they have "
    "in common?",
    variant="one object",
)
def shares_memory(a, b):
    return a is b


@misconception(
    "C30",
    "The answer was found by writing, and what was written stayed. Who looks at a and b after the call finds other "
    "numbers. What is missing after the experiment?",
)
def shares_memory(a, b):
    a, b = (one.detach().numpy() if isinstance(one, torch.Tensor) else one for one in (a, b))
    seen = []
    for poke in (0, 1):
        a[...] = poke
        seen.append(b.tobytes())
    return seen[0] != seen[1]


@misconception(
    "C06",
    "The experiment made a new array and moved the name to it; the memory was never touched, so it could not have "
    "shown anything. How is a value inside an array changed?",
)
def shares_memory(a, b):
    a, b = (one.detach().numpy() if isinstance(one, torch.Tensor) else one for one in (a, b))
    before = b.tobytes()
    a = a ^ True if a.dtype == bool else a + 1
    return b.tobytes() != before


# -------------------------------------------------------------------------------------------------------- window


@alternative("torch reads it")
def window(storage, shape, strides, offset):
    return torch.tensor(storage).as_strided(shape, strides, offset).tolist()


@alternative("from the inside out")
def window(storage, shape, strides, offset):
    places = [offset]
    for size, step in zip(shape, strides):
        places = [place + i * step for place in places for i in range(size)]
    found = [storage[place] for place in places]
    for size in reversed(shape):
        found = [found[i : i + size] for i in range(0, len(found), size)]
    return found[0]


@alternative("hands on what is left of the storage")
def window(storage, shape, strides, offset):
    rest = storage[offset:]
    if len(shape) == 0:
        return rest[0]
    views = []
    for i in range(shape[0]):
        views.append(window(rest, shape[1:], strides[1:], i * strides[0]))
    return views


@misconception("C40")
def window(storage, shape, strides, offset):
    if not shape:
        return storage[offset]
    step = math.prod(shape[1:])
    return [window(storage, shape[1:], strides[1:], offset + i * step) for i in range(shape[0])]


@misconception("C41")
def window(storage, shape, strides, offset):
    if not shape:
        return storage[offset]
    return [window(storage, shape[1:], strides[1:], i * strides[0]) for i in range(shape[0])]


@misconception(
    "C40",
    "The strides were used in reverse: the last one for the first dimension. To which index does strides[0] belong?",
    variant="last stride first",
)
def window(storage, shape, strides, offset):
    if not shape:
        return storage[offset]
    return [window(storage, shape[1:], strides[:-1], offset + i * strides[-1]) for i in range(shape[0])]


@misconception(
    "C40",
    "The numbers come in the right order and in one flat list. tolist() gives a list within a list for each "
    "dimension. How many brackets does the result of three dimensions begin with?",
    variant="all in one list",
)
def window(storage, shape, strides, offset):
    if not shape:
        return storage[offset]
    places = [offset]
    for size, step in zip(shape, strides):
        places = [place + i * step for place in places for i in range(size)]
    return [storage[place] for place in places]


@misconception(
    "C33",
    "The inner and the outer dimension have changed places: each list holds what should have been spread over "
    "several. Which index runs in the outermost list?",
    variant="inside out",
)
def window(storage, shape, strides, offset):
    if not shape:
        return storage[offset]
    return [window(storage, shape[:-1], strides[:-1], offset + i * strides[-1]) for i in range(shape[-1])]


@misconception(
    "C41",
    "The start was added once for each dimension. At how many places does a view begin?",
    variant="added again and again",
)
def window(storage, shape, strides, offset):
    def places(sizes, steps):
        if not sizes:
            return [0]
        inner = places(sizes[1:], steps[1:])
        return [offset + i * steps[0] + place for i in range(sizes[0]) for place in inner]

    found = [storage[place % len(storage)] for place in places(shape, strides)] if shape else [storage[offset]]
    for size in reversed(shape):
        found = [found[i : i + size] for i in range(0, len(found), size)]
    return found[0]


@misconception(
    "C20",
    "A stride of 0 was taken for 1, so that the stretched view runs on through the memory. How far apart are two "
    "elements that lie in the same place?",
)
def window(storage, shape, strides, offset):
    if not shape:
        return storage[offset]
    step = strides[0] or 1
    return [window(storage, shape[1:], strides[1:], offset + i * step) for i in range(shape[0])]
