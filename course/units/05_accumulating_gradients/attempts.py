"""What people hand in for the exercises of unit 5: wrong programs by their IDs, and other right ones."""

from autogradlab.exercises import alternative, misconception, reference

# ------------------------------------------------------------------------------------------------- meter_reading


@reference
def meter_reading(variant):
    readings, names = [], {"torch": torch}
    for line in cases.meter_script(variant):
        exec(line, names)
        grad = names["w"].grad
        readings.append(None if grad is None else grad.item())
    return readings


@alternative("whole numbers")
def meter_reading(variant):
    readings, names = [], {"torch": torch}
    for line in cases.meter_script(variant):
        exec(line, names)
        grad = names["w"].grad
        readings.append(grad if grad is None else int(grad))
    return readings


@alternative("a tuple, worked out on paper")
def meter_reading(variant):
    script = cases.meter_script(variant)
    w, total, readings = float(script[0].split("tensor(")[1].split(",")[0]), None, []
    for line in script:
        if line.startswith("loss ="):
            slope = float(line.split()[2])
        if "zero_" in line:
            total = 0.0
        elif "= None" in line:
            total = None
        elif "+= 1" in line:
            w += 1
        elif "loss.backward" in line:
            total = (total or 0) + slope
        elif "(w * w)" in line:
            total = (total or 0) + 2 * w
        elif "* w).backward" in line:
            total = (total or 0) + float(line.split()[0][1:])
        readings.append(total)
    return tuple(readings)


@misconception(
    "A01",
    "These readings show one gradient at a time, as if each backward() replaced what stood in .grad before. What "
    "does backward() do with the number that it finds there?",
    variant="replaces",
)
def meter_reading(variant):
    readings, names = [], {"torch": torch}
    for line in cases.meter_script(variant):
        if "backward" in line and "* v" not in line:
            names["w"].grad = None
        exec(line, names)
        grad = names["w"].grad
        readings.append(None if grad is None else grad.item())
    return readings


@misconception(
    "A02",
    "The reading after the first line is a number here, before any backward() has run. What does a meter show that "
    "has not been installed?",
    variant="starts at 0",
)
def meter_reading(variant):
    readings, names = [], {"torch": torch}
    for line in cases.meter_script(variant):
        exec(line, names)
        grad = names["w"].grad
        readings.append(None if grad is None else grad.item())
    return [0.0, *readings[1:]]


@misconception(
    "A05",
    "After w.grad = None the meter reads 0 here. A zero is a tensor that an optimizer can use; None is no tensor. "
    "What would w.grad.norm() do in each of the two cases?",
    variant="None reads 0",
)
def meter_reading(variant):
    readings, names = [], {"torch": torch}
    for line in cases.meter_script(variant):
        exec(line, names)
        grad = names["w"].grad
        readings.append(0.0 if readings and grad is None else grad if grad is None else grad.item())
    return readings


@misconception(
    "A05",
    "Here .grad reads None after zero_(). zero_() writes zeros into the tensor that is there. Which of the two ways "
    "to empty a meter takes the meter away?",
    variant="zero_ removes",
)
def meter_reading(variant):
    readings, names = [], {"torch": torch}
    for line in cases.meter_script(variant):
        exec(line.replace("w.grad.zero_()", "w.grad = None"), names)
        grad = names["w"].grad
        readings.append(None if grad is None else grad.item())
    return readings


@misconception(
    "A22",
    "The second backward() through one graph changes nothing in these readings. What does retain_graph=True keep?",
    variant="counts once",
)
def meter_reading(variant):
    readings, names = [], {"torch": torch}
    for line in cases.meter_script(variant):
        if line != "loss.backward()":
            exec(line, names)
        grad = names["w"].grad
        readings.append(None if grad is None else grad.item())
    return readings


@misconception(
    "B09",
    "A backward() from a loss without w leaves w.grad at 0 in these readings. Which tensors can a backward() reach "
    "that starts at the other loss?",
    variant="unused is 0",
)
def meter_reading(variant):
    readings, names = [], {"torch": torch}
    for line in cases.meter_script(variant):
        exec(line, names)
        if "* v" in line:
            names["w"].grad = torch.tensor(0.0)
        grad = names["w"].grad
        readings.append(None if grad is None else grad.item())
    return readings


@misconception(
    "B21",
    "The readings are right until w changes; from there on they are slopes at the old w. At which value of w does "
    "the last line run its forward pass?",
    variant="slope at the old value",
)
def meter_reading(variant):
    readings, names = [], {"torch": torch}
    for line in cases.meter_script(variant):
        exec(line.replace("w += 1", "pass"), names)
        grad = names["w"].grad
        readings.append(None if grad is None else grad.item())
    return readings


# ----------------------------------------------------------------------------------------------- fresh_gradients


@alternative("zero_() behind a guard")
def fresh_gradients(w, x, steps):
    gradients = []
    for _ in range(steps):
        if w.grad is not None:
            w.grad.zero_()
        ((w * x + 1) ** 2).backward()
        gradients.append(w.grad.item())
    return gradients


@alternative("both leaves cleared, slope pinned by hand")
def fresh_gradients(w, x, steps):
    gradients = [0.0] * steps
    for step in range(steps):
        w.grad = x.grad = None
        z = w * x + 1
        z.backward(2 * z.detach())
        gradients[step] = float(w.grad)
    return gradients


@alternative("asks autograd.grad and files the answer itself")
def fresh_gradients(w, x, steps):
    gradients = []
    while len(gradients) < steps:
        (w.grad,) = torch.autograd.grad((w * x + 1).square(), [w])
        gradients.append(w.grad.tolist())
    return gradients


@misconception("A01")
def fresh_gradients(w, x, steps):
    gradients = []
    for _ in range(steps):
        loss = (w * x + 1) ** 2
        loss.backward()
        gradients.append(w.grad.item())
    return gradients


@misconception(
    "A01",
    "The gradient is cleared once, before the loop. From the second step on, each reading holds all steps so far. "
    "How many backward() calls lie between two clearings here?",
    variant="clears once, before the loop",
)
def fresh_gradients(w, x, steps):
    gradients = []
    w.grad = None
    for _ in range(steps):
        loss = (w * x + 1) ** 2
        loss.backward()
        gradients.append(w.grad.item())
    return gradients


@misconception(
    "A01",
    "The total is divided by the number of steps, which comes out right only where the meter stood at nothing. "
    "w.grad itself still holds the whole sum. What would an optimizer find in w.grad after this loop?",
    variant="divides the total",
)
def fresh_gradients(w, x, steps):
    gradients = []
    for step in range(steps):
        loss = (w * x + 1) ** 2
        loss.backward()
        gradients.append(w.grad.item() / (step + 1))
    return gradients


@misconception(
    "A23",
    "The gradient is cleared after it has been read, so the first backward() adds to whatever w.grad held before "
    "the call, and at the end nothing is left of the last step. What does w.grad hold when this function is called?",
    variant="clears after reading",
)
def fresh_gradients(w, x, steps):
    gradients = []
    for _ in range(steps):
        loss = (w * x + 1) ** 2
        loss.backward()
        gradients.append(w.grad.item())
        w.grad.zero_()
    return gradients


@misconception("A02")
def fresh_gradients(w, x, steps):
    gradients = []
    for _ in range(steps):
        w.grad.zero_()
        loss = (w * x + 1) ** 2
        loss.backward()
        gradients.append(w.grad.item())
    return gradients


@misconception("A03")
def fresh_gradients(w, x, steps):
    gradients = []
    for _ in range(steps):
        w.grad = 0
        loss = (w * x + 1) ** 2
        loss.backward()
        gradients.append(w.grad.item())
    return gradients


@misconception(
    "A04",
    "The gradient is cleared between backward() and the reading, so every reading is 0. Which line should be the "
    "last to touch w.grad before it is read?",
    variant="clears before reading",
)
def fresh_gradients(w, x, steps):
    gradients = []
    for _ in range(steps):
        loss = (w * x + 1) ** 2
        loss.backward()
        w.grad.zero_()
        gradients.append(w.grad.item())
    return gradients


@misconception("A05")
def fresh_gradients(w, x, steps):
    gradients = []
    for _ in range(steps):
        loss = (w * x + 1) ** 2
        loss.backward()
        w.grad = None
        gradients.append(w.grad.item())
    return gradients


@misconception("A07")
def fresh_gradients(w, x, steps):
    gradients = []
    for _ in range(steps):
        loss = (w * x + 1) ** 2
        loss.zero_grad()
        loss.backward()
        gradients.append(w.grad.item())
    return gradients


@misconception(
    "A17",
    "The entries are tensors, each of them w.grad as it stood there and then. Whoever clears in place later changes "
    "all of them. How do you get a plain number out of a tensor with one element?",
    variant="keeps tensors",
)
def fresh_gradients(w, x, steps):
    gradients = []
    for _ in range(steps):
        w.grad = None
        loss = (w * x + 1) ** 2
        loss.backward()
        gradients.append(w.grad)
    return gradients


@misconception(
    "B08",
    "The readings are right, and w.grad never changed: autograd.grad hands its result back and deposits nothing. "
    "Where would an optimizer look for the gradient of the last step?",
    variant="leaves .grad alone",
)
def fresh_gradients(w, x, steps):
    gradients = []
    for _ in range(steps):
        loss = (w * x + 1) ** 2
        gradients.append(torch.autograd.grad(loss, w)[0].item())
    return gradients


@misconception(
    "A22",
    "One gradient is computed and put into every place of the list. Nothing goes backward in the later steps. What "
    "would the list show if something between two steps had changed w?",
    variant="one step, copied",
)
def fresh_gradients(w, x, steps):
    w.grad = None
    loss = (w * x + 1) ** 2
    loss.backward()
    return [w.grad.item()] * steps


@misconception(
    "A23",
    "The gradient is cleared in front of every step but the first, so the first backward() adds to whatever w.grad "
    "held before the call. What does w.grad hold when this function is called?",
    variant="not before the first step",
)
def fresh_gradients(w, x, steps):
    gradients = []
    for step in range(steps):
        if step > 0:
            w.grad.zero_()
        loss = (w * x + 1) ** 2
        loss.backward()
        gradients.append(w.grad.item())
    return gradients


@misconception("A25", variant="clears before and after")
def fresh_gradients(w, x, steps):
    gradients = []
    w.grad = None
    for _ in range(steps):
        loss = (w * x + 1) ** 2
        loss.backward()
        gradients.append(w.grad.item())
        w.grad = None
    return gradients


# --------------------------------------------------------------------------------------------------- first_wrong


@alternative("tries each loop and compares")
def first_wrong(loop):
    def gradients(run, steps):
        w, x = torch.tensor(2.0, requires_grad=True), torch.tensor(3.0, requires_grad=True)
        run(w, x, steps)
        return {"w": w.grad.item(), "x": x.grad.item()}

    found, fresh = {}, gradients(cases.loops["C"], 1)
    for steps in range(1, 6):
        for name, value in gradients(cases.loops[loop], steps).items():
            if value != fresh[name]:
                found.setdefault(name, steps)
    return found


@alternative("a verdict for each loop in turn")
def first_wrong(loop):
    if loop == "A":
        return {"w": 2}
    if loop == "B":
        return dict.fromkeys("xw", 2)
    if loop == "C":
        return {}
    return {"x": 1, "w": 1} if loop == "D" else {"w": 3}


@misconception(
    "A06",
    "Loop A is taken to be right. It clears the gradient of one tensor, and two are tracked. What do you find in "
    "the other one after a few steps?",
    variant="one clearing for two",
)
def first_wrong(loop):
    return {"A": {}, "B": {"w": 2, "x": 2}, "C": {}, "D": {"w": 1, "x": 1}, "E": {"w": 3}}[loop]


@misconception(
    "A06",
    "In loop A the tensor that is named is the one that is cleared at every step. Which of the two never has its "
    ".grad emptied?",
    variant="names the cleared one",
)
def first_wrong(loop):
    return {"A": {"x": 2}, "B": {"w": 2, "x": 2}, "C": {}, "D": {"w": 1, "x": 1}, "E": {"w": 3}}[loop]


@misconception(
    "A01",
    "Loop B is said to be wrong after its third step. It does not clear before step 0 or step 1, and clears before "
    "step 2. After how many steps have two gradients been added up?",
    variant="late by one",
)
def first_wrong(loop):
    return {"A": {"w": 2}, "B": {"w": 3, "x": 3}, "C": {}, "D": {"w": 1, "x": 1}, "E": {"w": 3}}[loop]


@misconception(
    "A01",
    "Loop B is taken to be right, because it clears both gradients. In which steps does its condition let it clear, "
    "and what has happened before that?",
    variant="reads past the condition",
)
def first_wrong(loop):
    return {"A": {"w": 2}, "B": {}, "C": {}, "D": {"w": 1, "x": 1}, "E": {"w": 3}}[loop]


@misconception(
    "B08",
    "Loop C is said to be wrong. It never calls backward() and never clears: it stores what autograd.grad hands "
    "back. What stands in .grad after an assignment?",
    variant="expects autograd.grad to add",
)
def first_wrong(loop):
    return {"A": {"w": 2}, "B": {"w": 2, "x": 2}, "C": {"w": 2, "x": 2}, "D": {"w": 1, "x": 1}, "E": {"w": 3}}[loop]


@misconception(
    "A04",
    "Loop D is taken to be right: it clears both gradients at every step, but after backward(). What is left in "
    ".grad when it returns?",
    variant="clears too late",
)
def first_wrong(loop):
    return {"A": {"w": 2}, "B": {"w": 2, "x": 2}, "C": {}, "D": {}, "E": {"w": 3}}[loop]


@misconception(
    "A01",
    "Loop E is said to be wrong after two steps. It still clears w.grad before the second of them. What is the "
    "value of step when it stops clearing?",
    variant="early by one",
)
def first_wrong(loop):
    return {"A": {"w": 2}, "B": {"w": 2, "x": 2}, "C": {}, "D": {"w": 1, "x": 1}, "E": {"w": 2}}[loop]


# --------------------------------------------------------------------------------------------------------- train


@alternative("model.zero_grad() after a manual loss list")
def train(model, optimizer, loss_fn, batches):
    losses = [0.0] * len(batches)
    for number, (x, y) in enumerate(batches):
        model.zero_grad()
        output = model(x)
        loss = loss_fn(output, y)
        losses[number] = float(loss)
        loss.backward()
        optimizer.step()
    return losses


@alternative("zeros instead of None, right before backward")
def train(model, optimizer, loss_fn, batches):
    losses = []
    for inputs, targets in batches:
        loss = loss_fn(model(inputs), targets)
        losses += [loss.item()]
        optimizer.zero_grad(set_to_none=False)
        loss.backward()
        optimizer.step()
    return losses


@alternative("a step function that clears by hand, first and after each step")
def train(model, optimizer, loss_fn, batches):
    def clear():
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                parameter.grad = None

    def step(x, y):
        loss = loss_fn(model(x), y)
        loss.backward()
        optimizer.step()
        clear()
        return loss.item()

    clear()
    return [step(*batch) for batch in batches]


@misconception("A01")
def train(model, optimizer, loss_fn, batches):
    losses = []
    for x, y in batches:
        loss = loss_fn(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@misconception(
    "A01",
    "The gradients are cleared once, before the loop. The second update already uses the sum of two batches' "
    "gradients. How many backward() calls lie between two clearings here?",
    variant="clears once, before the loop",
)
def train(model, optimizer, loss_fn, batches):
    losses = []
    optimizer.zero_grad()
    for x, y in batches:
        loss = loss_fn(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@misconception(
    "A23",
    "The gradients are cleared after each update, and never before the first backward(). Gradients that were there "
    "when the function was called went into the first update. What does .grad hold when this function is called?",
    variant="clears only after the step",
)
def train(model, optimizer, loss_fn, batches):
    losses = []
    for x, y in batches:
        loss = loss_fn(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


@misconception("A02")
def train(model, optimizer, loss_fn, batches):
    losses = []
    for x, y in batches:
        for parameter in model.parameters():
            parameter.grad.zero_()
        loss = loss_fn(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@misconception("A04")
def train(model, optimizer, loss_fn, batches):
    losses = []
    for x, y in batches:
        loss = loss_fn(model(x), y)
        loss.backward()
        optimizer.zero_grad()
        optimizer.step()
        losses.append(loss.item())
    return losses


@misconception(
    "A06",
    "Only the parameters of the first group are cleared; those of the other groups pile up from batch to batch. How "
    "many groups may an optimizer have?",
    variant="first group only",
)
def train(model, optimizer, loss_fn, batches):
    losses = []
    for x, y in batches:
        for parameter in optimizer.param_groups[0]["params"]:
            parameter.grad = None
        loss = loss_fn(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@misconception("A07")
def train(model, optimizer, loss_fn, batches):
    losses = []
    for x, y in batches:
        loss = loss_fn(model(x), y)
        loss.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@misconception(
    "A19",
    "A new optimizer is built for each batch. It knows nothing of the momentum and the averages that the one before "
    "had gathered, and the optimizer that was passed in never takes a step. What does an optimizer remember between "
    "two steps?",
    variant="new optimizer for each batch",
)
def train(model, optimizer, loss_fn, batches):
    losses = []
    for x, y in batches:
        fresh = type(optimizer)(model.parameters(), **optimizer.defaults)
        fresh.zero_grad()
        loss = loss_fn(model(x), y)
        loss.backward()
        fresh.step()
        losses.append(loss.item())
    return losses


@misconception(
    "A20",
    "The learning rate is made smaller, and the gradients still pile up: smaller steps along the same wrong sum. At "
    "the third batch, of which batches does .grad hold gradients?",
    variant="tames it by a smaller lr",
)
def train(model, optimizer, loss_fn, batches):
    losses = []
    for group in optimizer.param_groups:
        group["lr"] /= len(batches)
    for x, y in batches:
        loss = loss_fn(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@misconception(
    "A21",
    "The list keeps tensors, and with each of them the nodes of its graph. How do you get a plain number out of a "
    "tensor with one element?",
    variant="keeps loss tensors",
)
def train(model, optimizer, loss_fn, batches):
    losses = []
    for x, y in batches:
        optimizer.zero_grad()
        loss = loss_fn(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss)
    return losses


@misconception("A26")
def train(model, optimizer, loss_fn, batches):
    losses = []
    for x, y in batches:
        optimizer.zero_grad()
        loss_fn(model(x), y).backward()
        optimizer.step()
        losses.append(loss_fn(model(x), y).item())
    return losses


# ---------------------------------------------------------------------------------------------------- accumulate


@alternative("each mean weighed by its share of the rows")
def accumulate(w, batches):
    rows = sum(x.shape[0] for x, _ in batches)
    w.grad, mean = None, 0.0
    for x, y in batches:
        part = F.mse_loss(x @ w, y) * (y.numel() / rows)
        part.backward()
        mean += float(part)
    return mean


@alternative("sums first, one division of the gradient at the end")
def accumulate(w, batches):
    if w.grad is not None:
        w.grad.zero_()
    total, rows = 0.0, 0
    for x, y in batches:
        loss = (x.mv(w) - y).pow(2).sum()
        loss.backward()
        total, rows = total + loss.item(), rows + len(x)
    w.grad /= rows
    return total / rows


@alternative("adds up what autograd.grad hands back")
def accumulate(w, batches):
    gradient, losses, rows = torch.zeros_like(w), [], 0
    for x, y in batches:
        loss = F.mse_loss(x @ w, y, reduction="sum")
        gradient += torch.autograd.grad(loss, w)[0]
        losses.append(loss.item())
        rows += y.shape[0]
    w.grad = gradient / rows
    return sum(losses) / rows


@misconception("A08")
def accumulate(w, batches):
    w.grad, total = None, 0.0
    for x, y in batches:
        loss = ((x @ w - y) ** 2).mean()
        loss.backward()
        total += loss.item()
    return total


@misconception("A09")
def accumulate(w, batches):
    w.grad, total = None, 0.0
    for x, y in batches:
        loss = ((x @ w - y) ** 2).mean() / len(batches)
        loss.backward()
        total += loss.item()
    return total


@misconception(
    "A23",
    "The gradients of the batches are added to whatever w.grad held when the function was called. Who guarantees "
    "that the meter stands at nothing before the first batch?",
    variant="starts on top of the old",
)
def accumulate(w, batches):
    rows, total = sum(len(y) for _, y in batches), 0.0
    for x, y in batches:
        loss = ((x @ w - y) ** 2).sum() / rows
        loss.backward()
        total += loss.item()
    return total


@misconception("A10")
def accumulate(w, batches):
    rows, total = sum(len(y) for _, y in batches), 0.0
    for x, y in batches:
        w.grad = None
        loss = ((x @ w - y) ** 2).sum() / rows
        loss.backward()
        total += loss.item()
    return total


@misconception(
    "A11",
    "Batches that are smaller than the first one are left out. Their rows count in no gradient. How many rows went "
    "into w.grad, and how many were there?",
    variant="drops the short batch",
)
def accumulate(w, batches):
    batches = [(x, y) for x, y in batches if len(y) >= len(batches[0][1])]
    rows, total = sum(len(y) for _, y in batches), 0.0
    w.grad = None
    for x, y in batches:
        loss = ((x @ w - y) ** 2).sum() / rows
        loss.backward()
        total += loss.item()
    return total


@misconception("A13")
def accumulate(w, batches):
    rows, total = sum(len(y) for _, y in batches), 0.0
    w.grad = None
    for x, y in batches:
        total = total + ((x @ w - y) ** 2).sum() / rows
    total.backward()
    return total.item()


@misconception(
    "A12",
    "The weights are changed after each batch, so later batches are measured with other weights, and each gradient "
    "is that of its own batch. At which weights should all the batches of one update be evaluated?",
    variant="updates in between",
)
def accumulate(w, batches):
    rows, total = sum(len(y) for _, y in batches), 0.0
    w.grad = None
    for x, y in batches:
        loss = ((x @ w - y) ** 2).sum() / rows
        loss.backward()
        total += loss.item()
        with torch.no_grad():
            w -= 0.1 * w.grad
    return total


@misconception("A22")
def accumulate(w, batches):
    rows, total = sum(len(y) for _, y in batches), 0.0
    w.grad = None
    x, y = batches[0]
    loss = ((x @ w - y) ** 2).sum() / rows
    for _ in batches:
        loss.backward(retain_graph=True)
        total += loss.item()
    return total


@misconception(
    "B07",
    "The gradient is that of the sum over all rows, so it grows with the number of rows; the mean was asked for. By "
    "which number do the two differ?",
    variant="sum for mean",
)
def accumulate(w, batches):
    w.grad, total = None, 0.0
    for x, y in batches:
        loss = ((x @ w - y) ** 2).sum()
        loss.backward()
        total += loss.item()
    return total


@misconception(
    "A21",
    "The running total is a tensor, and through it the nodes of every batch's graph stay alive to the end. The number "
    "that comes back is right. Which part of the loss does the total need?",
    variant="adds up tensors",
)
def accumulate(w, batches):
    rows, total = sum(len(y) for _, y in batches), 0.0
    w.grad = None
    for x, y in batches:
        loss = ((x @ w - y) ** 2).sum() / rows
        loss.backward()
        total += loss
    return total.item()


@misconception("A02")
def accumulate(w, batches):
    rows, total = sum(len(y) for _, y in batches), 0.0
    w.grad.zero_()
    for x, y in batches:
        loss = ((x @ w - y) ** 2).sum() / rows
        loss.backward()
        total += loss.item()
    return total


@misconception("C27")
def accumulate(w, batches):
    rows, total = sum(len(y) for _, y in batches), 0.0
    w.grad = None
    for x, y in batches:
        loss = ((x @ w - y) ** 2).sum() / rows
        loss.backward()
        total += loss.detach()
    return total


@misconception(
    "D42",
    "The gradient is right, and what came back is the share of the last batch alone. What happens in this loop to the "
    "loss of a batch that is not the last?",
)
def accumulate(w, batches):
    rows = sum(len(y) for _, y in batches)
    w.grad = None
    for x, y in batches:
        loss = ((x @ w - y) ** 2).sum() / rows
        loss.backward()
    return loss.item()


# ------------------------------------------------------------------------------------------------ token_gradient


@alternative("mean weighed by its share, a batch without tokens as well")
def token_gradient(model, batches, max_norm):
    tokens = sum((targets != -100).sum() for _, targets in batches)
    model.zero_grad()
    for inputs, targets in batches:
        share = (targets != -100).sum() / tokens
        # The mean over nothing is not a number, but its gradient is zero.
        (F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten()) * share).backward()
    return torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm).item()


@alternative("mean over each batch's valid tokens, weighed by their share")
def token_gradient(model, batches, max_norm):
    counts = [int((targets >= 0).sum()) for _, targets in batches]
    for parameter in model.parameters():
        parameter.grad = None
    for (inputs, targets), count in zip(batches, counts, strict=True):
        if count:
            valid = targets >= 0
            mean = F.cross_entropy(model(inputs)[valid], targets[valid])
            (mean * count / sum(counts)).backward()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    return float(norm)


@alternative("sums of log-probabilities, gradients divided once at the end")
def token_gradient(model, batches, max_norm):
    model.zero_grad(set_to_none=False)
    tokens = 0
    for inputs, targets in batches:
        valid = targets != -100
        logs = torch.log_softmax(model(inputs), dim=-1)
        picked = logs.gather(-1, targets.clamp(min=0).unsqueeze(-1)).squeeze(-1)
        (-(picked * valid).sum()).backward()
        tokens += valid.sum()
    for parameter in model.parameters():
        parameter.grad.div_(tokens)
    return torch.nn.utils.clip_grad_norm_(list(model.parameters()), max_norm=max_norm).item()


@alternative("adds up the losses and goes backward once")
def token_gradient(model, batches, max_norm):
    tokens = sum((targets != -100).sum() for _, targets in batches)
    model.zero_grad()
    total = 0.0
    for inputs, targets in batches:
        total = total + F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten(), reduction="sum") / tokens
    total.backward()
    return torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm).item()


@misconception("A08")
def token_gradient(model, batches, max_norm):
    model.zero_grad()
    for inputs, targets in batches:
        F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten()).backward()
    return torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm).item()


@misconception("A09")
def token_gradient(model, batches, max_norm):
    model.zero_grad()
    for inputs, targets in batches:
        loss = F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())
        (loss / len(batches)).backward()
    return torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm).item()


@misconception(
    "A09",
    "Each batch counts by its number of sequences. Sequences hold different numbers of valid tokens, so a token of "
    "a short sequence gets a louder vote. What is one vote in a mean over tokens?",
    variant="weighs by sequences",
)
def token_gradient(model, batches, max_norm):
    sequences = sum(len(targets) for _, targets in batches)
    model.zero_grad()
    for inputs, targets in batches:
        loss = F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten(), reduction="sum")
        if (targets != -100).any():
            loss = loss / (targets != -100).sum() * len(targets) / sequences
        loss.backward()
    return torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm).item()


@misconception(
    "A09",
    "The sum over the tokens is divided by all places of the batches, the padding among them. How many of those "
    "places did the loss count?",
    variant="counts the padding",
)
def token_gradient(model, batches, max_norm):
    places = sum(targets.numel() for _, targets in batches)
    model.zero_grad()
    for inputs, targets in batches:
        loss = F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten(), reduction="sum")
        (loss / places).backward()
    return torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm).item()


@misconception(
    "A09",
    "The loss is divided twice: by the number of tokens and by the number of batches. What is left to average when "
    "every token has been given its share?",
    variant="divides twice",
)
def token_gradient(model, batches, max_norm):
    tokens = sum((targets != -100).sum() for _, targets in batches)
    model.zero_grad()
    for inputs, targets in batches:
        loss = F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten(), reduction="sum")
        (loss / tokens / len(batches)).backward()
    return torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm).item()


@misconception("A18")
def token_gradient(model, batches, max_norm):
    tokens = sum((targets != -100).sum() for _, targets in batches)
    model.zero_grad()
    for inputs, targets in batches:
        loss = F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten(), reduction="sum")
        (loss / tokens).backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    return norm.item()


@misconception("A10")
def token_gradient(model, batches, max_norm):
    tokens = sum((targets != -100).sum() for _, targets in batches)
    for inputs, targets in batches:
        model.zero_grad()
        loss = F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten(), reduction="sum")
        (loss / tokens).backward()
    return torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm).item()


@misconception(
    "A23",
    "The gradients of the batches are added to what was left in .grad before the call. Who guarantees that the "
    "meters stand at nothing before the first batch?",
    variant="starts on top of the old",
)
def token_gradient(model, batches, max_norm):
    tokens = sum((targets != -100).sum() for _, targets in batches)
    for inputs, targets in batches:
        loss = F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten(), reduction="sum")
        (loss / tokens).backward()
    return torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm).item()


@misconception(
    "B07",
    "The gradient is that of the sum over all tokens: the more tokens, the longer it is. By which number do sum and "
    "mean differ here?",
    variant="sum for mean",
)
def token_gradient(model, batches, max_norm):
    model.zero_grad()
    for inputs, targets in batches:
        F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten(), reduction="sum").backward()
    return torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm).item()


@misconception(
    "A18",
    "The gradient was left as it came, however long it was. With a limit that no gradient reaches that is right. "
    "Between which two lines does the finished gradient lie ready?",
    variant="never clips",
)
def token_gradient(model, batches, max_norm):
    tokens = sum((targets != -100).sum() for _, targets in batches)
    model.zero_grad()
    for inputs, targets in batches:
        loss = F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten(), reduction="sum")
        (loss / tokens).backward()
    return torch.cat([parameter.grad.flatten() for parameter in model.parameters()]).norm().item()


@misconception(
    "A18",
    "The norm that came back was measured after the clipping, where it is never more than the limit. The one from "
    "before says how much was cut off. Which norm does clip_grad_norm_ return?",
    variant="the norm from after",
)
def token_gradient(model, batches, max_norm):
    tokens = sum((targets != -100).sum() for _, targets in batches)
    model.zero_grad()
    for inputs, targets in batches:
        loss = F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten(), reduction="sum")
        (loss / tokens).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    return torch.cat([parameter.grad.flatten() for parameter in model.parameters()]).norm().item()


@misconception("C27")
def token_gradient(model, batches, max_norm):
    tokens = sum((targets != -100).sum() for _, targets in batches)
    model.zero_grad()
    for inputs, targets in batches:
        loss = F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten(), reduction="sum")
        (loss / tokens).backward()
    return torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)


# --------------------------------------------------------------------------------------------------- frozen_step


@alternative("takes the frozen ones out of their groups for the step")
def frozen_step(optimizer, frozen):
    hidden = {id(parameter) for parameter in frozen}
    groups = [(group, group["params"]) for group in optimizer.param_groups]
    for group, parameters in groups:
        group["params"] = [parameter for parameter in parameters if id(parameter) not in hidden]
    optimizer.step()
    for group, parameters in groups:
        group["params"] = parameters


@alternative("hides the gradients and puts them back")
def frozen_step(optimizer, frozen):
    kept = [parameter.grad for parameter in frozen]
    for parameter in frozen:
        parameter.grad = None
    optimizer.step()
    for parameter, gradient in zip(frozen, kept, strict=True):
        parameter.grad = gradient


@misconception(
    "A14",
    "The gradients of the frozen weights are zeros, and an optimizer makes a step of zeros too: momentum, moving "
    "averages and decay still move the weight. How does an optimizer tell a weight that should rest from one whose "
    "slope is zero?",
)
def frozen_step(optimizer, frozen):
    for parameter in frozen:
        parameter.grad.zero_()
    optimizer.step()


@misconception(
    "A15",
    "The frozen weights are put back after the step, so they look untouched. The step itself went into the "
    "optimizer's momentum and averages. What will the first step after thawing start from?",
    variant="puts copies back",
)
def frozen_step(optimizer, frozen):
    kept = [parameter.detach().clone() for parameter in frozen]
    optimizer.step()
    with torch.no_grad():
        for parameter, value in zip(frozen, kept, strict=True):
            parameter.copy_(value)


@misconception(
    "A16",
    "The gradient is zeros and the optimizer's memory of the weight is thrown away. Decay needs neither, and after "
    "thawing the memory is gone. What does weight decay multiply?",
    variant="forgets the memory",
)
def frozen_step(optimizer, frozen):
    for parameter in frozen:
        parameter.grad.zero_()
        optimizer.state.pop(parameter, None)
    optimizer.step()


@misconception(
    "A15",
    "The learning rate of the whole group is 0 for this step: its other weights stand still too, and the "
    "optimizer's memory takes the gradient in all the same. For whom does a group's lr hold?",
    variant="lr 0 for the group",
)
def frozen_step(optimizer, frozen):
    rates = [group["lr"] for group in optimizer.param_groups]
    for group in optimizer.param_groups:
        if any(parameter is one for parameter in group["params"] for one in frozen):
            group["lr"] = 0.0
    optimizer.step()
    for group, rate in zip(optimizer.param_groups, rates, strict=True):
        group["lr"] = rate


@misconception(
    "G17",
    "requires_grad is turned off after backward(): the gradient is there already, and the step uses it. What does "
    "an optimizer look at when it decides whether a weight takes part in a step?",
    variant="flag off before the step",
)
def frozen_step(optimizer, frozen):
    for parameter in frozen:
        parameter.requires_grad_(False)
    optimizer.step()


@misconception(
    "G17",
    "The frozen weights rest, and their flag stays off: no later backward() will give them a gradient, so they "
    "never thaw. What does the next backward() do for a weight whose flag is off?",
    variant="flag off for good",
)
def frozen_step(optimizer, frozen):
    for parameter in frozen:
        parameter.grad = None
        parameter.requires_grad_(False)
    optimizer.step()


@misconception(
    "A19",
    "The frozen weights are taken out of the optimizer and never put back: they stay frozen when they should thaw. "
    "Which parameters does the optimizer know after this call?",
    variant="takes them out for good",
)
def frozen_step(optimizer, frozen):
    for group in optimizer.param_groups:
        group["params"] = [one for one in group["params"] if all(one is not parameter for parameter in frozen)]
    optimizer.step()


@misconception(
    "A19",
    "The frozen weights are taken out for the step and put back at the end of their group. An optimizer saves and "
    "loads what it remembers by position, so a saved one now hands it to other weights. In which order did the group "
    "hold them before?",
    variant="puts them back in another order",
)
def frozen_step(optimizer, frozen):
    taken = []
    for group in optimizer.param_groups:
        rest = [parameter for parameter in group["params"] if all(parameter is not one for one in frozen)]
        taken.append([parameter for parameter in group["params"] if any(parameter is one for one in frozen)])
        group["params"] = rest
    optimizer.step()
    for group, parameters in zip(optimizer.param_groups, taken, strict=True):
        group["params"] = group["params"] + parameters


@misconception("A25")
def frozen_step(optimizer, frozen):
    for parameter in frozen:
        parameter.grad = None
    optimizer.step()
    optimizer.zero_grad()


@misconception(
    "A04",
    "All gradients are cleared before the step, so no weight moves at all. Which weights should still find their "
    "gradient when the step runs?",
    variant="clears everything",
)
def frozen_step(optimizer, frozen):
    if frozen:
        optimizer.zero_grad()
    optimizer.step()


@misconception("A03")
def frozen_step(optimizer, frozen):
    for parameter in frozen:
        parameter.grad = 0.0
    optimizer.step()


@misconception(
    "A15",
    "The gradients are zeros and the old values are put back, so the frozen weights look untouched. The optimizer took "
    "the zeros into its momentum and averages all the same. Which gradient keeps a parameter out of the step?",
    variant="zeros, and copies put back",
)
def frozen_step(optimizer, frozen):
    kept = [parameter.detach().clone() for parameter in frozen]
    for parameter in frozen:
        parameter.grad.zero_()
    optimizer.step()
    with torch.no_grad():
        for parameter, value in zip(frozen, kept, strict=True):
            parameter.copy_(value)


@misconception(
    "G17",
    "requires_grad is off during the step and on again afterwards. The gradient is there meanwhile, and the step uses "
    "it. What does an optimizer look at when it decides whether a weight takes part?",
    variant="flag off for the step",
)
def frozen_step(optimizer, frozen):
    for parameter in frozen:
        parameter.requires_grad_(False)
    optimizer.step()
    for parameter in frozen:
        parameter.requires_grad_(True)


@misconception(
    "C25",
    "Where two parameters are not one object, `in` compares them by ==, which makes a tensor of answers or finds that "
    "the shapes do not fit: an error is raised. How does Python ask for one object and nothing else?",
    variant="in asks for equal numbers",
)
def frozen_step(optimizer, frozen):
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            if parameter in frozen:
                parameter.grad = None
    optimizer.step()


# --------------------------------------------------------------------------------------------------------- diary


@alternative("lists for each name, joined at the end")
def diary(model, backward, steps):
    vectors, norms = [], []
    for _ in range(steps):
        backward()
        page, lengths = {}, {}
        for name, parameter in model.named_parameters():
            page[name] = lengths[name] = None
            if parameter.grad is not None:
                page[name] = torch.empty_like(parameter.grad, requires_grad=False).copy_(parameter.grad.detach())
                lengths[name] = float(parameter.grad.detach().pow(2).sum().sqrt())
        vectors.append(page)
        norms.append(lengths)
    return vectors, norms


@alternative("copies everything inside no_grad")
def diary(model, backward, steps):
    def page():
        with torch.no_grad():
            return {n: p.grad if p.grad is None else p.grad * 1 for n, p in model.named_parameters()}

    vectors = []
    for _ in range(steps):
        backward()
        vectors.append(page())
    norms = [{n: g if g is None else torch.linalg.vector_norm(g).item() for n, g in page.items()} for page in vectors]
    return vectors, norms


@misconception("A17")
def diary(model, backward, steps):
    vectors, norms = [], []
    for _ in range(steps):
        backward()
        gradients = {name: parameter.grad for name, parameter in model.named_parameters()}
        vectors.append(gradients)
        norms.append({name: None if g is None else g.detach().norm().item() for name, g in gradients.items()})
    return vectors, norms


@misconception(
    "A17",
    "One dict is filled anew at each step and appended again and again: every page of the diary is the same page. "
    "How many dicts exist after three steps?",
    variant="one page for all",
)
def diary(model, backward, steps):
    vectors, norms, page = [], [], {}
    for _ in range(steps):
        backward()
        for name, parameter in model.named_parameters():
            page[name] = None if parameter.grad is None else parameter.grad.detach().clone()
        vectors.append(page)
        norms.append({name: None if g is None else g.norm().item() for name, g in page.items()})
    return vectors, norms


@misconception(
    "A05",
    "The diary asks None for a copy: this parameter got no gradient in this step, and the program stops. What "
    "should the diary say of a parameter that backward() did not reach?",
    variant="trips over None",
)
def diary(model, backward, steps):
    vectors, norms = [], []
    for _ in range(steps):
        backward()
        gradients = {name: parameter.grad.detach().clone() for name, parameter in model.named_parameters()}
        vectors.append(gradients)
        norms.append({name: g.norm().item() for name, g in gradients.items()})
    return vectors, norms


@misconception(
    "B09",
    "Where a parameter got no gradient, the diary says zeros. A gradient of zeros is something else. Which fault in "
    "a model shows as None and would be hidden by zeros?",
    variant="zeros for None",
)
def diary(model, backward, steps):
    vectors, norms = [], []
    for _ in range(steps):
        backward()
        gradients = {
            name: torch.zeros_like(parameter) if parameter.grad is None else parameter.grad.detach().clone()
            for name, parameter in model.named_parameters()
        }
        vectors.append({name: g.detach() for name, g in gradients.items()})
        norms.append({name: g.norm().item() for name, g in gradients.items()})
    return vectors, norms


@misconception(
    "B09",
    "Parameters without a gradient are left out, so that nobody who reads the diary sees that they were missed. "
    "What should stand on the page of a parameter that backward() did not reach?",
    variant="leaves names out",
)
def diary(model, backward, steps):
    vectors, norms = [], []
    for _ in range(steps):
        backward()
        gradients = {n: p.grad.detach().clone() for n, p in model.named_parameters() if p.grad is not None}
        vectors.append(gradients)
        norms.append({name: g.norm().item() for name, g in gradients.items()})
    return vectors, norms


@misconception(
    "B09",
    "A gradient of zeros is entered as None. The zeros were computed: backward() reached this parameter, and its slope "
    "was zero in this step. Which question tells a zero from a missing gradient?",
    variant="None for zeros",
)
def diary(model, backward, steps):
    vectors, norms = [], []
    for _ in range(steps):
        backward()
        gradients = {}
        for name, parameter in model.named_parameters():
            found = parameter.grad is not None and parameter.grad.any()
            gradients[name] = parameter.grad.detach().clone() if found else None
        vectors.append(gradients)
        norms.append({name: None if g is None else g.norm().item() for name, g in gradients.items()})
    return vectors, norms


@misconception(
    "B09",
    "Which parameters have gradients is asked once, after the first step; whatever had none then is entered as None "
    "for good. Which parameters may a later backward() reach?",
    variant="asks in the first step only",
)
def diary(model, backward, steps):
    vectors, norms, reached = [], [], None
    for _ in range(steps):
        backward()
        if reached is None:
            reached = {name for name, parameter in model.named_parameters() if parameter.grad is not None}
        gradients = {
            name: parameter.grad.detach().clone() if name in reached and parameter.grad is not None else None
            for name, parameter in model.named_parameters()
        }
        vectors.append(gradients)
        norms.append({name: None if g is None else g.norm().item() for name, g in gradients.items()})
    return vectors, norms


@misconception("A25", variant="empties what it has noted")
def diary(model, backward, steps):
    vectors, norms = [], []
    for _ in range(steps):
        backward()
        gradients = {}
        for name, parameter in model.named_parameters():
            gradients[name] = None if parameter.grad is None else parameter.grad.detach().clone()
            parameter.grad = None
        vectors.append(gradients)
        norms.append({name: None if g is None else g.norm().item() for name, g in gradients.items()})
    return vectors, norms


@misconception(
    "A25",
    "The model's own gradients are replaced by detached ones. Whoever wanted to go backward through these gradients "
    "finds no graph behind them. Into which name belongs what the diary keeps?",
    variant="detaches the model's own",
)
def diary(model, backward, steps):
    vectors, norms = [], []
    for _ in range(steps):
        backward()
        gradients = {}
        for name, parameter in model.named_parameters():
            if parameter.grad is not None:
                parameter.grad = parameter.grad.detach()
            gradients[name] = None if parameter.grad is None else parameter.grad.clone()
        vectors.append(gradients)
        norms.append({name: None if g is None else g.norm().item() for name, g in gradients.items()})
    return vectors, norms


@misconception(
    "A21",
    "The vectors are copies that still hang on a graph: where the gradient itself was computed with create_graph, "
    "each page keeps a whole backward pass alive. Which call hands you the numbers without their past?",
    variant="keeps the graph",
)
def diary(model, backward, steps):
    vectors, norms = [], []
    for _ in range(steps):
        backward()
        gradients = {n: None if p.grad is None else p.grad.clone() for n, p in model.named_parameters()}
        vectors.append(gradients)
        norms.append({name: None if g is None else g.norm().item() for name, g in gradients.items()})
    return vectors, norms


@misconception(
    "A21",
    "The norms are tensors, not floats. In a long diary each of them is an object of its own, and may have a past. How "
    "do you get a plain number out of a tensor with one element?",
    variant="norms as tensors",
)
def diary(model, backward, steps):
    vectors, norms = [], []
    for _ in range(steps):
        backward()
        gradients = {n: None if p.grad is None else p.grad.detach().clone() for n, p in model.named_parameters()}
        vectors.append(gradients)
        norms.append({name: None if g is None else g.norm() for name, g in gradients.items()})
    return vectors, norms


@misconception(
    "S21",
    "deepcopy refuses a tensor that is the result of an operation, and with create_graph a gradient is one. Which "
    "part of this tensor does the diary need?",
    variant="deepcopy",
)
def diary(model, backward, steps):
    import copy

    vectors, norms = [], []
    for _ in range(steps):
        backward()
        gradients = {name: copy.deepcopy(parameter.grad) for name, parameter in model.named_parameters()}
        vectors.append(gradients)
        norms.append({name: None if g is None else g.norm().item() for name, g in gradients.items()})
    return vectors, norms


@misconception(
    "A17",
    "The pages hold the model's own gradients, into which later steps write; the norms are tensors; and a parameter "
    "without a gradient stops the program, because None has no norm. Which of the three does an error tell of?",
    variant="as it was",
)
def diary(model, backward, steps):
    vectors, norms = [], []
    for _ in range(steps):
        backward()
        gradients = {name: parameter.grad for name, parameter in model.named_parameters()}
        vectors.append(gradients)
        norms.append({name: gradient.norm() for name, gradient in gradients.items()})
    return vectors, norms


# ------------------------------------------------------------------------------------------------------ pendulum


@alternative("the learning rate is part of the velocity")
def pendulum(slope, start, lr, momentum, steps):
    path, move = [start], 0.0
    while len(path) <= steps:
        move = momentum * move - lr * slope(path[-1])
        path.append(path[-1] + move)
    return path


@alternative("two terms: where it was, and where it was before that")
def pendulum(slope, start, lr, momentum, steps):
    path = [start]
    for step in range(steps):
        before = path[step - 1] if step else start
        path.append(path[step] + momentum * (path[step] - before) - lr * slope(path[step]))
    return path


@alternative("torch's own SGD")
def pendulum(slope, start, lr, momentum, steps):
    w = torch.tensor(start, dtype=torch.float64)
    optimizer = torch.optim.SGD([w], lr=lr, momentum=momentum)
    path = [w.item()]
    for _ in range(steps):
        w.grad = torch.tensor(slope(w.item()), dtype=torch.float64)
        optimizer.step()
        path.append(w.item())
    return path


@misconception(
    "A20",
    "Each step is the newest slope times a growing learning rate. Never clearing is not that: the old slopes were "
    "measured at other places. What still pushes the ball at the moment when the newest slope is zero?",
    variant="a growing lr",
)
def pendulum(slope, start, lr, momentum, steps):
    path, rate = [start], 0.0
    for _ in range(steps):
        rate = momentum * rate + lr
        path.append(path[-1] - rate * slope(path[-1]))
    return path


@misconception(
    "A24",
    "The velocity is forgotten at every step, and momentum changes nothing. Which name should carry something from "
    "one step to the next?",
    variant="no velocity",
)
def pendulum(slope, start, lr, momentum, steps):
    path = [start]
    for _ in range(steps):
        velocity = slope(path[-1])
        path.append(path[-1] - lr * velocity)
    return path


@misconception(
    "A24",
    "The new slope is scaled by 1 - momentum, as in a moving average. With momentum 1 the ball never starts. What "
    "share of the new slope enters .grad when nothing is cleared?",
    variant="a moving average",
)
def pendulum(slope, start, lr, momentum, steps):
    path, velocity = [start], 0.0
    for _ in range(steps):
        velocity = momentum * velocity + (1 - momentum) * slope(path[-1])
        path.append(path[-1] - lr * velocity)
    return path


@misconception(
    "A01",
    "The velocity adds up every slope whatever the momentum, as a loop that never clears. With momentum 0, what "
    "should be left of the step before?",
    variant="momentum is always 1",
)
def pendulum(slope, start, lr, momentum, steps):
    path, velocity = [start], 0.0
    for _ in range(steps):
        velocity = velocity + slope(path[-1])
        path.append(path[-1] - lr * velocity)
    return path


@misconception(
    "A24",
    "The ball moves first and looks at the slope afterwards, so it takes its first step with no velocity. In a "
    "training loop, does backward() come before or after the update?",
    variant="moves before it looks",
)
def pendulum(slope, start, lr, momentum, steps):
    path, velocity = [start], 0.0
    for _ in range(steps):
        path.append(path[-1] - lr * velocity)
        velocity = momentum * velocity + slope(path[-1])
    return path


@misconception(
    "A24",
    "Momentum multiplies the new slope as well as the old velocity. With momentum 0 the ball does not move. To "
    "which of the two does the forgetting apply?",
    variant="fades the new slope too",
)
def pendulum(slope, start, lr, momentum, steps):
    path, velocity = [start], 0.0
    for _ in range(steps):
        velocity = momentum * (velocity + slope(path[-1]))
        path.append(path[-1] - lr * velocity)
    return path


@misconception(
    "A24",
    "The slope is taken where the ball would be after its old velocity, one step ahead. That is Nesterov's variant. "
    "At which weight does backward() measure the slope in an ordinary loop?",
    variant="looks ahead",
)
def pendulum(slope, start, lr, momentum, steps):
    path, velocity = [start], 0.0
    for _ in range(steps):
        velocity = momentum * velocity + slope(path[-1] - lr * momentum * velocity)
        path.append(path[-1] - lr * velocity)
    return path


@misconception(
    "C26",
    "The ball moves along its velocity and runs away: the velocity is a sum of slopes, and a slope points uphill. In "
    "which direction does the loop that never clears move its weight?",
    variant="uphill",
)
def pendulum(slope, start, lr, momentum, steps):
    path, velocity = [start], 0.0
    for _ in range(steps):
        velocity = momentum * velocity + slope(path[-1])
        path.append(path[-1] + lr * velocity)
    return path


@misconception(
    "A24",
    "The learning rate stands in two places, in front of the slope and in front of the velocity, so that every step is "
    "too short by that factor. In which of the two sentences of the text does it stand?",
    variant="the rate twice",
)
def pendulum(slope, start, lr, momentum, steps):
    path, velocity = [start], 0.0
    for _ in range(steps):
        velocity = momentum * velocity + lr * slope(path[-1])
        path.append(path[-1] - lr * velocity)
    return path
