"""What people hand in for the exercises of unit 7: wrong programs by their IDs, and other right ones."""

from autogradlab.exercises import alternative, misconception, reference

# ---------------------------------------------------------------------------------------------------- loop_count


@reference
def loop_count(variant):
    sizes = cases.loop_sizes(variant)
    order, steps, passes = torch.arange(sizes["rows"]), 0, 0
    for _ in range(sizes["epochs"]):
        for rows in order.split(sizes["size"]):
            passes += len(rows.split(sizes["part"]))
            steps += 1
    return [steps, passes, len(rows), 2 * sizes["epochs"], passes + sizes["epochs"], passes]


@alternative("by dividing and rounding up")
def loop_count(variant):
    rows, size, part, epochs = cases.loop_sizes(variant).values()
    full, last = divmod(rows, size)
    passes = epochs * (full * (size // part) + -(-last // part))
    return [epochs * (full + 1), passes, last, 2 * epochs, passes + epochs, passes]


@alternative("as floats, in a tuple")
def loop_count(variant):
    rows, size, part, epochs = map(float, cases.loop_sizes(variant).values())
    last = rows % size
    passes = epochs * (rows // size * (size / part) + last // part + 1.0)
    return (epochs * (rows // size + 1), passes, last, 2 * epochs, passes + epochs, passes)


@misconception(
    "A11",
    "The last, shorter batch of each epoch is in none of these counts. The honest loop drops no row. What does "
    "split() do with the rows that are left over?",
    variant="no short batch",
)
def loop_count(variant):
    rows, size, part, epochs = cases.loop_sizes(variant).values()
    steps = epochs * (rows // size)
    passes = steps * (size // part)
    return [steps, passes, rows % size, 2 * epochs, passes + epochs, passes]


@misconception(
    "A12",
    "The optimizer is counted with the parts here: as many steps as backward passes. How deep in the loop does "
    "the line stand that steps?",
    variant="a step for each part",
)
def loop_count(variant):
    rows, size, part, epochs = cases.loop_sizes(variant).values()
    passes = epochs * (rows // size * (size // part) + -(-(rows % size) // part))
    return [passes, passes, rows % size, 2 * epochs, passes + epochs, passes]


@misconception(
    "A09",
    "The share of a row was taken from the number of parts: one over the parts, then one over the rows of the "
    "part. The loop weighs a part by its rows. What is the mean of a part multiplied by here?",
    variant="parts share equally",
)
def loop_count(variant):
    rows, size, part, epochs = cases.loop_sizes(variant).values()
    last = rows % size
    parts = -(-last // part)
    passes = epochs * (rows // size * (size // part) + parts)
    return [epochs * (rows // size + 1), passes, parts * (last % part), 2 * epochs, passes + epochs, passes]


@misconception(
    "A08",
    "A row of the last part counts here as if there were no other part: one over the rows of that part alone. "
    "Whose mean do the parts add up to?",
    variant="the part alone",
)
def loop_count(variant):
    rows, size, part, epochs = cases.loop_sizes(variant).values()
    last = rows % size
    passes = epochs * (rows // size * (size // part) + -(-last // part))
    return [epochs * (rows // size + 1), passes, last % part, 2 * epochs, passes + epochs, passes]


@misconception(
    "D15",
    "A wait is counted for each backward pass. The innermost line adds up a detached tensor, and nobody reads its "
    "value there. In which lines of the loop does `.item()` stand?",
    variant="waits for each part",
)
def loop_count(variant):
    rows, size, part, epochs = cases.loop_sizes(variant).values()
    passes = epochs * (rows // size * (size // part) + -(-(rows % size) // part))
    return [epochs * (rows // size + 1), passes, rows % size, passes + epochs, passes + epochs, passes]


@misconception(
    "S08",
    "The held-out rows are counted among the calls that are recorded. They go through inside a block that says "
    "otherwise. Which line of the loop opens that block?",
    variant="validation is recorded",
)
def loop_count(variant):
    rows, size, part, epochs = cases.loop_sizes(variant).values()
    passes = epochs * (rows // size * (size // part) + -(-(rows % size) // part))
    return [epochs * (rows // size + 1), passes, rows % size, 2 * epochs, passes + epochs, passes + epochs]


@misconception("T01")
def loop_count(variant):
    rows, size, part, epochs = cases.loop_sizes(variant).values()
    passes = epochs * (rows // size * (size // part) + -(-(rows % size) // part))
    return [epochs * (rows // size + 1), passes, rows % size, epochs, passes, passes]


# -------------------------------------------------------------------------------------------------- epoch_batches


@alternative("slices of the order")
def epoch_batches(rows, size, seed, epoch):
    stream = torch.Generator()
    stream.manual_seed(1000 * seed + epoch)
    order = torch.randperm(rows, generator=stream)
    return [order[start : start + size] for start in range(0, rows, size)]


@alternative("the common stream, put back afterwards")
def epoch_batches(rows, size, seed, epoch):
    before = torch.get_rng_state()
    torch.manual_seed(1000 * seed + epoch)
    order = torch.randperm(rows)
    torch.set_rng_state(before)
    return list(torch.split(order, size))


@alternative("a fork of the common stream, batch by batch")
def epoch_batches(rows, size, seed, epoch):
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(epoch + seed * 1000)
        left = torch.randperm(rows)
    batches = []
    while len(left) > 0:
        batches.append(left[:size])
        left = left[size:]
    return batches


@misconception(
    "C34",
    "The orders are right, and the common stream begins anew at every call: dropout draws the same masks in each "
    "epoch. Whose sequence should this function draw from?",
)
def epoch_batches(rows, size, seed, epoch):
    torch.manual_seed(1000 * seed + epoch)
    return torch.randperm(rows).split(size)


@misconception(
    "C34",
    "The order comes from the common stream, as far as others have brought it, and takes numbers from them. The "
    "seed is not used. Which call here would give the same order tomorrow?",
    variant="draws from it",
)
def epoch_batches(rows, size, seed, epoch):
    return torch.randperm(rows).split(size)


@misconception("T02")
def epoch_batches(rows, size, seed, epoch):
    generator = torch.Generator().manual_seed(1000 * seed)
    return torch.randperm(rows, generator=generator).split(size)


@misconception(
    "T02",
    "The batches are the same in every epoch and only change places, with the same neighbours in each. What is to "
    "be drawn anew for an epoch, the order of the batches or that of the rows?",
    variant="the batches change places",
)
def epoch_batches(rows, size, seed, epoch):
    batches = torch.arange(rows).split(size)
    generator = torch.Generator().manual_seed(1000 * seed + epoch)
    return [batches[place] for place in torch.randperm(len(batches), generator=generator)]


@misconception(
    "T02",
    "The rows come as they lie in the table, in every epoch. A table that is sorted by label then shows one label "
    "after the other. Which line draws anything here?",
    variant="nothing is drawn",
)
def epoch_batches(rows, size, seed, epoch):
    return torch.arange(rows).split(size)


@misconception(
    "A11",
    "The rows of the last, shorter batch are in no batch. In this epoch the model does not learn from them, and "
    "no error says so. What is left when the full batches have been taken?",
)
def epoch_batches(rows, size, seed, epoch):
    generator = torch.Generator().manual_seed(1000 * seed + epoch)
    order = torch.randperm(rows, generator=generator)
    return [order[start : start + size] for start in range(0, rows - size + 1, size)]


@misconception("T03")
def epoch_batches(rows, size, seed, epoch):
    generator = torch.Generator().manual_seed(1000 * seed + epoch)
    return torch.randperm(rows, generator=generator).chunk(size)


@misconception("T04")
def epoch_batches(rows, size, seed, epoch):
    generator = torch.Generator().manual_seed(1000 * seed + epoch)
    return torch.randint(rows, (rows,), generator=generator).split(size)


# --------------------------------------------------------------------------------------------------------- update


@alternative("cuts by slices, weighs on the way back")
def update(model, optimizer, loss_fn, x, y, part, max_norm):
    model.zero_grad()
    losses = []
    for start in range(0, len(x), part):
        some = slice(start, start + part)
        loss = loss_fn(model(x[some]), y[some])
        share = len(x[some]) / len(x)
        loss.backward(torch.full_like(loss, share))
        losses.append(loss.detach() * share)
    torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    optimizer.step()
    return torch.stack(losses).sum()


@alternative("adds up handed-back gradients")
def update(model, optimizer, loss_fn, x, y, part, max_norm):
    parameters = list(model.parameters())
    sums = [torch.zeros_like(parameter) for parameter in parameters]
    total = x.new_zeros(())
    for some, wanted in zip(x.split(part), y.split(part)):
        loss = loss_fn(model(some), wanted) * len(some) / len(x)
        for one, gradient in zip(sums, torch.autograd.grad(loss, parameters)):
            one += gradient
        total += loss.detach()
    for parameter, one in zip(parameters, sums):
        parameter.grad = one
    nn.utils.clip_grad_norm_(parameters, max_norm)
    optimizer.step()
    return total


@alternative("sums over rows, divided at the end")
def update(model, optimizer, loss_fn, x, y, part, max_norm):
    optimizer.zero_grad(set_to_none=False)
    total = None
    for some, wanted in zip(torch.split(x, part), torch.split(y, part)):
        loss = loss_fn(model(some), wanted) * len(wanted)
        loss.backward()
        total = loss.detach() if total is None else total + loss.detach()
    for parameter in model.parameters():
        parameter.grad /= len(y)
    nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    optimizer.step()
    return total / len(y)


@misconception(
    "A01",
    "Nothing is cleared: the gradients of earlier updates are in this step. What does .grad hold when this "
    "function begins?",
)
def update(model, optimizer, loss_fn, x, y, part, max_norm):
    total = 0.0
    for some, wanted in zip(x.split(part), y.split(part)):
        loss = loss_fn(model(some), wanted) * (len(some) / len(x))
        loss.backward()
        total = total + loss.detach()
    nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    optimizer.step()
    return total


@misconception("A23")
def update(model, optimizer, loss_fn, x, y, part, max_norm):
    total = 0.0
    for some, wanted in zip(x.split(part), y.split(part)):
        loss = loss_fn(model(some), wanted) * (len(some) / len(x))
        loss.backward()
        total = total + loss.detach()
    nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    optimizer.step()
    optimizer.zero_grad()
    return total


@misconception("A04")
def update(model, optimizer, loss_fn, x, y, part, max_norm):
    total = 0.0
    for some, wanted in zip(x.split(part), y.split(part)):
        loss = loss_fn(model(some), wanted) * (len(some) / len(x))
        loss.backward()
        total = total + loss.detach()
    nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    optimizer.zero_grad()
    optimizer.step()
    return total


@misconception("A08")
def update(model, optimizer, loss_fn, x, y, part, max_norm):
    optimizer.zero_grad()
    total = 0.0
    for some, wanted in zip(x.split(part), y.split(part)):
        loss = loss_fn(model(some), wanted)
        loss.backward()
        total = total + loss.detach() * len(some)
    nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    optimizer.step()
    return total / len(x)


@misconception("A09")
def update(model, optimizer, loss_fn, x, y, part, max_norm):
    optimizer.zero_grad()
    parts = x.split(part)
    total = 0.0
    for some, wanted in zip(parts, y.split(part)):
        loss = loss_fn(model(some), wanted) / len(parts)
        loss.backward()
        total = total + loss.detach()
    nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    optimizer.step()
    return total


@misconception("A10")
def update(model, optimizer, loss_fn, x, y, part, max_norm):
    total = 0.0
    for some, wanted in zip(x.split(part), y.split(part)):
        optimizer.zero_grad()
        loss = loss_fn(model(some), wanted) * (len(some) / len(x))
        loss.backward()
        total = total + loss.detach()
    nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    optimizer.step()
    return total


@misconception("A12")
def update(model, optimizer, loss_fn, x, y, part, max_norm):
    total = 0.0
    for some, wanted in zip(x.split(part), y.split(part)):
        optimizer.zero_grad()
        loss = loss_fn(model(some), wanted)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        optimizer.step()
        total = total + loss.detach() * (len(some) / len(x))
    return total


@misconception("A13")
def update(model, optimizer, loss_fn, x, y, part, max_norm):
    optimizer.zero_grad()
    total = 0.0
    for some, wanted in zip(x.split(part), y.split(part)):
        total = total + loss_fn(model(some), wanted) * (len(some) / len(x))
    total.backward()
    nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    optimizer.step()
    return total.detach()


@misconception("A18")
def update(model, optimizer, loss_fn, x, y, part, max_norm):
    optimizer.zero_grad()
    total = 0.0
    for some, wanted in zip(x.split(part), y.split(part)):
        loss = loss_fn(model(some), wanted) * (len(some) / len(x))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        total = total + loss.detach()
    optimizer.step()
    return total


@misconception(
    "A18",
    "The gradient was used as it came, however long it was. With a limit that no gradient reaches that is right. "
    "Between which two lines does the finished gradient lie ready?",
    variant="never clips",
)
def update(model, optimizer, loss_fn, x, y, part, max_norm):
    optimizer.zero_grad()
    total = 0.0
    for some, wanted in zip(x.split(part), y.split(part)):
        loss = loss_fn(model(some), wanted) * (len(some) / len(x))
        loss.backward()
        total = total + loss.detach()
    optimizer.step()
    return total


@misconception(
    "A21",
    "The total that came back is tracked: it is the end of a chain of sums. What will anybody ever want of it but "
    "its value?",
)
def update(model, optimizer, loss_fn, x, y, part, max_norm):
    optimizer.zero_grad()
    total = 0.0
    for some, wanted in zip(x.split(part), y.split(part)):
        loss = loss_fn(model(some), wanted) * (len(some) / len(x))
        loss.backward()
        total = total + loss
    nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    optimizer.step()
    return total


@misconception(
    "D15",
    "Each part's loss is read with item(), so that Python waits for every part, and what comes back is a float. "
    "When does anybody look at this number?",
)
def update(model, optimizer, loss_fn, x, y, part, max_norm):
    optimizer.zero_grad()
    total = 0.0
    for some, wanted in zip(x.split(part), y.split(part)):
        loss = loss_fn(model(some), wanted) * (len(some) / len(x))
        loss.backward()
        total += loss.item()
    nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    optimizer.step()
    return total


@misconception(
    "D42",
    "The weights are right, and what came back is the loss of the last part alone. What happens in your loop to "
    "the loss of a part that is not the last?",
)
def update(model, optimizer, loss_fn, x, y, part, max_norm):
    optimizer.zero_grad()
    for some, wanted in zip(x.split(part), y.split(part)):
        loss = loss_fn(model(some), wanted)
        (loss * (len(some) / len(x))).backward()
    nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    optimizer.step()
    return loss.detach()


# --------------------------------------------------------------------------------------------------------- expose


@alternative("tries one situation after the other")
def expose(loop):
    if loop in "FI":
        return {"F": "nothing", "I": "memory"}[loop]
    situations = [["equal parts"], ["unequal parts"], ["short batch"], ["more batches"], ["equal parts", "clipping"]]
    situations += [["two epochs", other] for other in ("more batches", "momentum", "dropout")]
    for situation in situations:
        yours, honest = (cases.weights_after(letter, situation) for letter in (loop, "F"))
        if not torch.allclose(yours, honest, rtol=1e-6, atol=1e-9):
            break
    return situation


@alternative("other situations, read off the lines")
def expose(loop):
    if loop in ("A", "K", "H"):
        return ["dropout", "two epochs"]
    if loop == "C":
        return ["short batch"]
    if loop == "D":
        return ("momentum", "two epochs")
    if loop == "E":
        return {"clipping", "unequal parts"}
    if loop == "G":
        return ("short batch",)
    if loop in ("F", "I"):
        return "nothing" if loop == "F" else "memory"
    return ["unequal parts"]


@misconception(
    "A09",
    "Loop B is said to show itself with equal parts. It divides by the number of parts, which is right as long as "
    "all of them have the same number of rows. Which parts get a vote that is too loud?",
    variant="B, equal parts",
)
def expose(loop):
    return {
        "A": ["two epochs", "dropout"],
        "B": ["equal parts"],
        "C": ["more batches"],
        "D": ["two epochs", "momentum"],
        "E": ["equal parts", "clipping"],
        "F": "nothing",
        "G": ["short batch"],
        "H": ["more batches", "two epochs"],
        "I": "memory",
        "J": ["equal parts"],
        "K": ["two epochs", "dropout"],
        "L": ["equal parts"],
        "M": ["equal parts"],
    }[loop]


@misconception(
    "A01",
    "Loop C is said to show itself in one update. It starts clean, so that its first update is right. What does "
    "the second one find in .grad?",
    variant="C, at once",
)
def expose(loop):
    return {
        "A": ["two epochs", "dropout"],
        "B": ["unequal parts"],
        "C": [],
        "D": ["two epochs", "momentum"],
        "E": ["equal parts", "clipping"],
        "F": "nothing",
        "G": ["short batch"],
        "H": ["more batches", "two epochs"],
        "I": "memory",
        "J": ["equal parts"],
        "K": ["two epochs", "dropout"],
        "L": ["equal parts"],
        "M": ["equal parts"],
    }[loop]


@misconception(
    "A19",
    "Loop D is said to show itself in a second epoch of plain SGD. What it throws away with the old optimizer is "
    "what the optimizer remembers. What does plain SGD remember of the steps before?",
    variant="D, nothing to forget",
)
def expose(loop):
    return {
        "A": ["two epochs", "dropout"],
        "B": ["unequal parts"],
        "C": ["more batches"],
        "D": ["two epochs"],
        "E": ["equal parts", "clipping"],
        "F": "nothing",
        "G": ["short batch"],
        "H": ["more batches", "two epochs"],
        "I": "memory",
        "J": ["equal parts"],
        "K": ["two epochs", "dropout"],
        "L": ["equal parts"],
        "M": ["equal parts"],
    }[loop]


@misconception(
    "A18",
    "Loop E is said to show itself with a limit alone. With one part, clipping each part and clipping once are "
    "the same. How many gradients must be added up before the two part company?",
    variant="E, one part",
)
def expose(loop):
    return {
        "A": ["two epochs", "dropout"],
        "B": ["unequal parts"],
        "C": ["more batches"],
        "D": ["two epochs", "momentum"],
        "E": ["clipping"],
        "F": "nothing",
        "G": ["short batch"],
        "H": ["more batches", "two epochs"],
        "I": "memory",
        "J": ["equal parts"],
        "K": ["two epochs", "dropout"],
        "L": ["equal parts"],
        "M": ["equal parts"],
    }[loop]


@misconception(
    "A11",
    "Loop G is said to show itself with more batches. They are full, and it takes every full one. Which rows does "
    "it leave out, and in which situation are there any?",
    variant="G, full batches",
)
def expose(loop):
    return {
        "A": ["two epochs", "dropout"],
        "B": ["unequal parts"],
        "C": ["more batches"],
        "D": ["two epochs", "momentum"],
        "E": ["equal parts", "clipping"],
        "F": "nothing",
        "G": ["more batches"],
        "H": ["more batches", "two epochs"],
        "I": "memory",
        "J": ["equal parts"],
        "K": ["two epochs", "dropout"],
        "L": ["equal parts"],
        "M": ["equal parts"],
    }[loop]


@misconception(
    "T02",
    "Loop H is said to show itself in a second epoch with one batch. All rows are in that batch, and a mean does "
    "not depend on their order. How many batches must there be for an order to matter?",
    variant="H, one batch",
)
def expose(loop):
    return {
        "A": ["two epochs", "dropout"],
        "B": ["unequal parts"],
        "C": ["more batches"],
        "D": ["two epochs", "momentum"],
        "E": ["equal parts", "clipping"],
        "F": "nothing",
        "G": ["short batch"],
        "H": ["two epochs"],
        "I": "memory",
        "J": ["equal parts"],
        "K": ["two epochs", "dropout"],
        "L": ["equal parts"],
        "M": ["equal parts"],
    }[loop]


@misconception(
    "S08",
    "Loop I is taken to be honest, because its weights are. The scores that it hands back are tracked, and each "
    "holds the graph of its validation. What does memory.held_by() say of them?",
    variant="I, honest",
)
def expose(loop):
    return {
        "A": ["two epochs", "dropout"],
        "B": ["unequal parts"],
        "C": ["more batches"],
        "D": ["two epochs", "momentum"],
        "E": ["equal parts", "clipping"],
        "F": "nothing",
        "G": ["short batch"],
        "H": ["more batches", "two epochs"],
        "I": "nothing",
        "J": ["equal parts"],
        "K": ["two epochs", "dropout"],
        "L": ["equal parts"],
        "M": ["equal parts"],
    }[loop]


@misconception(
    "T11",
    "Loop A is said to show itself in a second epoch without dropout. eval() changes what some layers do, and "
    "here no layer does anything else in it. Which layer of this model listens to train() and eval()?",
    variant="A, no dropout",
)
def expose(loop):
    return {
        "A": ["two epochs"],
        "B": ["unequal parts"],
        "C": ["more batches"],
        "D": ["two epochs", "momentum"],
        "E": ["equal parts", "clipping"],
        "F": "nothing",
        "G": ["short batch"],
        "H": ["more batches", "two epochs"],
        "I": "memory",
        "J": ["equal parts"],
        "K": ["two epochs", "dropout"],
        "L": ["equal parts"],
        "M": ["equal parts"],
    }[loop]


@misconception(
    "S06",
    "Loop K is said to show itself in one epoch with dropout. Its validation comes after the last update of that "
    "epoch, and draws from the stream only then. Which draws come after it?",
    variant="K, one epoch",
)
def expose(loop):
    return {
        "A": ["two epochs", "dropout"],
        "B": ["unequal parts"],
        "C": ["more batches"],
        "D": ["two epochs", "momentum"],
        "E": ["equal parts", "clipping"],
        "F": "nothing",
        "G": ["short batch"],
        "H": ["more batches", "two epochs"],
        "I": "memory",
        "J": ["equal parts"],
        "K": ["dropout"],
        "L": ["equal parts"],
        "M": ["equal parts"],
    }[loop]


@misconception(
    "A12",
    "Every switch was turned on for every loop. So the weights differ, and nobody knows which of the switches was "
    "needed. What is the least that must happen twice for the fault to act?",
    variant="all switches on",
)
def expose(loop):
    return {"F": "nothing", "I": "memory"}.get(
        loop, ["unequal parts", "short batch", "two epochs", "momentum", "clipping", "dropout"]
    )


# -------------------------------------------------------------------------------------------------------- capture


@alternative("one copy of everything at the end")
def capture(model, optimizer, generator, epoch):
    saved = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}
    saved["generator"], saved["torch"] = generator.get_state(), torch.random.get_rng_state()
    return copy.deepcopy(saved)


@alternative("clones, tensor by tensor")
def capture(model, optimizer, generator, epoch):
    def copied(value):
        if isinstance(value, torch.Tensor):
            return value.detach().clone()
        if isinstance(value, dict):
            return {key: copied(part) for key, part in value.items()}
        return [copied(part) for part in value] if isinstance(value, list) else value

    streams = {"generator": generator.get_state().clone(), "torch": torch.default_generator.get_state()}
    return {"model": copied(model.state_dict()), "optimizer": copied(optimizer.state_dict()), "epoch": epoch, **streams}


@misconception(
    "S01",
    "What state_dict() gives lies in the memory of the model's own weights, and the training went on there. What "
    "do a tensor and its detached version still share?",
    variant="the model's own tensors",
)
def capture(model, optimizer, generator, epoch):
    return {
        "model": model.state_dict(),
        "optimizer": copy.deepcopy(optimizer.state_dict()),
        "generator": generator.get_state(),
        "torch": torch.get_rng_state(),
        "epoch": epoch,
    }


@misconception(
    "S01",
    "The weights were copied, and what the optimizer remembers was not: its velocities went on with the training. "
    "Whose tensors does optimizer.state_dict() hand out?",
    variant="the optimizer's own tensors",
)
def capture(model, optimizer, generator, epoch):
    return {
        "model": copy.deepcopy(model.state_dict()),
        "optimizer": optimizer.state_dict(),
        "generator": generator.get_state(),
        "torch": torch.get_rng_state(),
        "epoch": epoch,
    }


@misconception(
    "C23",
    "The two dicts were copied and the tensors in them were not: copy() makes a new dict of the same entries. How "
    "many weights are there after dict.copy()?",
    variant="a copy of the dict",
)
def capture(model, optimizer, generator, epoch):
    return {
        "model": model.state_dict().copy(),
        "optimizer": optimizer.state_dict().copy(),
        "generator": generator.get_state(),
        "torch": torch.get_rng_state(),
        "epoch": epoch,
    }


@misconception("T05")
def capture(model, optimizer, generator, epoch):
    return {
        "model": copy.deepcopy(model.state_dict()),
        "optimizer": {"state": {}, "param_groups": copy.deepcopy(optimizer.state_dict()["param_groups"])},
        "generator": generator.get_state(),
        "torch": torch.get_rng_state(),
        "epoch": epoch,
    }


@misconception(
    "T06",
    "The generator was written down at the beginning of its sequence, where its seed puts it, and not at the "
    "place that it has reached. Which rows are drawn after coming back?",
    variant="the seed of the generator",
)
def capture(model, optimizer, generator, epoch):
    return {
        "model": copy.deepcopy(model.state_dict()),
        "optimizer": copy.deepcopy(optimizer.state_dict()),
        "generator": torch.Generator().manual_seed(generator.initial_seed()).get_state(),
        "torch": torch.get_rng_state(),
        "epoch": epoch,
    }


@misconception(
    "T06",
    "torch's own stream was written down at its beginning, and not at the place that it has reached: noise and "
    "dropout start over. What does a seed say about how many numbers have been drawn?",
    variant="the seed of torch",
)
def capture(model, optimizer, generator, epoch):
    return {
        "model": copy.deepcopy(model.state_dict()),
        "optimizer": copy.deepcopy(optimizer.state_dict()),
        "generator": generator.get_state(),
        "torch": torch.Generator().manual_seed(torch.initial_seed()).get_state(),
        "epoch": epoch,
    }


@misconception(
    "C34",
    "Taking the checkpoint began torch's stream anew, so that the training which goes on is another one. Which "
    "call here changes something that others read?",
    variant="begins the stream anew",
)
def capture(model, optimizer, generator, epoch):
    torch.manual_seed(0)
    return {
        "model": copy.deepcopy(model.state_dict()),
        "optimizer": copy.deepcopy(optimizer.state_dict()),
        "generator": generator.get_state(),
        "torch": torch.get_rng_state(),
        "epoch": epoch,
    }


@misconception("T08")
def capture(model, optimizer, generator, epoch):
    return {
        "model": copy.deepcopy(model.state_dict()),
        "optimizer": copy.deepcopy(optimizer.state_dict()),
        "generator": generator.get_state(),
        "torch": torch.get_rng_state(),
        "epoch": epoch + 1,
    }


@misconception("T07")
def capture(model, optimizer, generator, epoch):
    return {
        "model": copy.deepcopy(model),
        "optimizer": copy.deepcopy(optimizer),
        "generator": generator.get_state(),
        "torch": torch.get_rng_state(),
        "epoch": epoch,
    }


# ------------------------------------------------------------------------------------------------------------- fit


@alternative("looks first for the best, clones by name")
def fit(model, optimizer, loss_fn, train, held_out, epochs, size, part, max_norm, seed):
    was_training = model.training
    losses, states = [], []
    for epoch in range(epochs):
        model.train(True)
        for rows in epoch_batches(len(train[0]), size, seed, epoch):
            some = [tensor[rows.to(tensor.device)] for tensor in train]
            update(model, optimizer, loss_fn, *some, part, max_norm)
        model.train(False)
        with torch.inference_mode():
            losses.append(float(loss_fn(model(held_out[0]), held_out[1])))
        states.append({name: value.clone() for name, value in model.state_dict().items()})
    model.load_state_dict(states[losses.index(min(losses))])
    if was_training:
        model.train()
    return losses


@alternative("a function for the validation, a copy of the module")
def fit(model, optimizer, loss_fn, train, held_out, epochs, size, part, max_norm, seed):
    @torch.no_grad()
    def validated():
        model.eval()
        loss = loss_fn(model(held_out[0]), held_out[1])
        model.train()
        return loss.item()

    mode = model.training
    smallest, losses = float("inf"), []
    model.train()
    for epoch in range(epochs):
        for rows in epoch_batches(len(train[1]), size, seed, epoch):
            where = rows.to(train[1].device)
            update(model, optimizer, loss_fn, train[0][where], train[1][where], part, max_norm)
        losses.append(validated())
        if losses[-1] < smallest:
            smallest, best = losses[-1], copy.deepcopy(model)
    model.load_state_dict(best.state_dict())
    model.train(mode)
    return losses


@misconception(
    "S01",
    "What was kept of the best epoch are the model's own tensors, and the training went on in them: at the end "
    "the model holds what it held after the last epoch. What do a tensor and its detached version still share?",
    variant="the best was not copied",
)
def fit(model, optimizer, loss_fn, train, held_out, epochs, size, part, max_norm, seed):
    (x, y), (held_x, held_y) = train, held_out
    mode, losses = model.training, []
    for epoch in range(epochs):
        model.train()
        for rows in epoch_batches(len(x), size, seed, epoch):
            update(model, optimizer, loss_fn, x[rows], y[rows], part, max_norm)
        model.eval()
        with torch.no_grad():
            losses.append(loss_fn(model(held_x), held_y).item())
        if losses[-1] == min(losses):
            best = model.state_dict()
    model.load_state_dict(best)
    model.train(mode)
    return losses


@misconception("T10")
def fit(model, optimizer, loss_fn, train, held_out, epochs, size, part, max_norm, seed):
    (x, y), (held_x, held_y) = train, held_out
    mode, losses = model.training, []
    for epoch in range(epochs):
        model.train()
        for rows in epoch_batches(len(x), size, seed, epoch):
            update(model, optimizer, loss_fn, x[rows], y[rows], part, max_norm)
        model.eval()
        with torch.no_grad():
            losses.append(loss_fn(model(held_x), held_y).item())
        if losses[-1] == min(losses):
            best = [parameter.detach().clone() for parameter in model.parameters()]
    with torch.no_grad():
        for parameter, value in zip(model.parameters(), best):
            parameter.copy_(value)
    model.train(mode)
    return losses


@misconception("T09")
def fit(model, optimizer, loss_fn, train, held_out, epochs, size, part, max_norm, seed):
    (x, y), (held_x, held_y) = train, held_out
    mode, losses = model.training, []
    for epoch in range(epochs):
        model.train()
        for rows in epoch_batches(len(x), size, seed, epoch):
            update(model, optimizer, loss_fn, x[rows], y[rows], part, max_norm)
        model.eval()
        with torch.no_grad():
            losses.append(loss_fn(model(held_x), held_y).item())
        if losses[-1] == max(losses):
            best = copy.deepcopy(model.state_dict())
    model.load_state_dict(best)
    model.train(mode)
    return losses


@misconception(
    "D47",
    "The weights that came back are from before the best epoch: they were noted before its updates. The list of "
    "losses is right. Between which two lines of an epoch does the model hold what its loss was computed from?",
    variant="notes before the updates",
)
def fit(model, optimizer, loss_fn, train, held_out, epochs, size, part, max_norm, seed):
    (x, y), (held_x, held_y) = train, held_out
    mode, losses, states = model.training, [], []
    for epoch in range(epochs):
        states.append(copy.deepcopy(model.state_dict()))
        model.train()
        for rows in epoch_batches(len(x), size, seed, epoch):
            update(model, optimizer, loss_fn, x[rows], y[rows], part, max_norm)
        model.eval()
        with torch.no_grad():
            losses.append(loss_fn(model(held_x), held_y).item())
    model.load_state_dict(states[losses.index(min(losses))])
    model.train(mode)
    return losses


@misconception(
    "S06",
    "The held-out rows went through in training mode: dropout left out units there, and running averages took "
    "these rows in. How does a dropout layer know whether the model is training?",
)
def fit(model, optimizer, loss_fn, train, held_out, epochs, size, part, max_norm, seed):
    (x, y), (held_x, held_y) = train, held_out
    mode, losses = model.training, []
    for epoch in range(epochs):
        model.train()
        for rows in epoch_batches(len(x), size, seed, epoch):
            update(model, optimizer, loss_fn, x[rows], y[rows], part, max_norm)
        with torch.no_grad():
            losses.append(loss_fn(model(held_x), held_y).item())
        if losses[-1] == min(losses):
            best = copy.deepcopy(model.state_dict())
    model.load_state_dict(best)
    model.train(mode)
    return losses


@misconception(
    "S05",
    "The held-out rows went through in evaluation mode, and the pass was recorded all the same: memory is taken "
    "for a backward that never comes. What does requires_grad say on an output of the model after eval()?",
)
def fit(model, optimizer, loss_fn, train, held_out, epochs, size, part, max_norm, seed):
    (x, y), (held_x, held_y) = train, held_out
    mode, losses = model.training, []
    for epoch in range(epochs):
        model.train()
        for rows in epoch_batches(len(x), size, seed, epoch):
            update(model, optimizer, loss_fn, x[rows], y[rows], part, max_norm)
        model.eval()
        losses.append(loss_fn(model(held_x), held_y).item())
        if losses[-1] == min(losses):
            best = copy.deepcopy(model.state_dict())
    model.load_state_dict(best)
    model.train(mode)
    return losses


@misconception("S02", same_as="S05")
def fit(model, optimizer, loss_fn, train, held_out, epochs, size, part, max_norm, seed):
    (x, y), (held_x, held_y) = train, held_out
    mode, losses = model.training, []
    for epoch in range(epochs):
        model.train()
        for rows in epoch_batches(len(x), size, seed, epoch):
            update(model, optimizer, loss_fn, x[rows], y[rows], part, max_norm)
        model.eval()
        torch.no_grad()
        losses.append(loss_fn(model(held_x), held_y).item())
        if losses[-1] == min(losses):
            best = copy.deepcopy(model.state_dict())
    model.load_state_dict(best)
    model.train(mode)
    return losses


@misconception("T11")
def fit(model, optimizer, loss_fn, train, held_out, epochs, size, part, max_norm, seed):
    (x, y), (held_x, held_y) = train, held_out
    mode, losses = model.training, []
    model.train()
    for epoch in range(epochs):
        for rows in epoch_batches(len(x), size, seed, epoch):
            update(model, optimizer, loss_fn, x[rows], y[rows], part, max_norm)
        model.eval()
        with torch.no_grad():
            losses.append(loss_fn(model(held_x), held_y).item())
        if losses[-1] == min(losses):
            best = copy.deepcopy(model.state_dict())
    model.load_state_dict(best)
    model.train(mode)
    return losses


@misconception(
    "S04",
    "Recording was switched off for the validation and is still off when the function returns. What the caller "
    "computes next is not recorded, and no error says so. Who turns recording on again, and when?",
)
def fit(model, optimizer, loss_fn, train, held_out, epochs, size, part, max_norm, seed):
    (x, y), (held_x, held_y) = train, held_out
    mode, losses = model.training, []
    for epoch in range(epochs):
        torch.set_grad_enabled(True)
        model.train()
        for rows in epoch_batches(len(x), size, seed, epoch):
            update(model, optimizer, loss_fn, x[rows], y[rows], part, max_norm)
        model.eval()
        torch.set_grad_enabled(False)
        losses.append(loss_fn(model(held_x), held_y).item())
        if losses[-1] == min(losses):
            best = copy.deepcopy(model.state_dict())
    model.load_state_dict(best)
    model.train(mode)
    return losses


@misconception(
    "S28",
    "The model is left in evaluation mode, and came in another. Whoever trains it next trains without dropout. "
    "Where is the mode noted in which it came?",
    variant="left in eval",
)
def fit(model, optimizer, loss_fn, train, held_out, epochs, size, part, max_norm, seed):
    (x, y), (held_x, held_y) = train, held_out
    losses = []
    for epoch in range(epochs):
        model.train()
        for rows in epoch_batches(len(x), size, seed, epoch):
            update(model, optimizer, loss_fn, x[rows], y[rows], part, max_norm)
        model.eval()
        with torch.no_grad():
            losses.append(loss_fn(model(held_x), held_y).item())
        if losses[-1] == min(losses):
            best = copy.deepcopy(model.state_dict())
    model.load_state_dict(best)
    return losses


@misconception(
    "T02",
    "All epochs take their rows in the order of the first one. What tells one epoch from another, besides the seed?",
    variant="the same epoch again",
)
def fit(model, optimizer, loss_fn, train, held_out, epochs, size, part, max_norm, seed):
    (x, y), (held_x, held_y) = train, held_out
    mode, losses = model.training, []
    batches = epoch_batches(len(x), size, seed, 0)
    for _ in range(epochs):
        model.train()
        for rows in batches:
            update(model, optimizer, loss_fn, x[rows], y[rows], part, max_norm)
        model.eval()
        with torch.no_grad():
            losses.append(loss_fn(model(held_x), held_y).item())
        if losses[-1] == min(losses):
            best = copy.deepcopy(model.state_dict())
    model.load_state_dict(best)
    model.train(mode)
    return losses


@misconception(
    "C27",
    "The losses are tensors, one by one, and prints show the same digits. How is the number taken out of a tensor "
    "without dimensions?",
)
def fit(model, optimizer, loss_fn, train, held_out, epochs, size, part, max_norm, seed):
    (x, y), (held_x, held_y) = train, held_out
    mode, losses = model.training, []
    for epoch in range(epochs):
        model.train()
        for rows in epoch_batches(len(x), size, seed, epoch):
            update(model, optimizer, loss_fn, x[rows], y[rows], part, max_norm)
        model.eval()
        with torch.no_grad():
            losses.append(loss_fn(model(held_x), held_y))
        if losses[-1] == min(losses):
            best = copy.deepcopy(model.state_dict())
    model.load_state_dict(best)
    model.train(mode)
    return losses


# ---------------------------------------------------------------------------------------------------------- OwnSGD


@alternative("velocities in a list, changed in place")
class OwnSGD:
    def __init__(self, parameters, lr, momentum=0.0, weight_decay=0.0):
        self.parameters = [*parameters]
        self.settings = lr, momentum, weight_decay
        self.velocities = [None] * len(self.parameters)

    def zero_grad(self):
        for parameter in self.parameters:
            parameter.grad = None

    @torch.no_grad()
    def step(self):
        lr, momentum, decay = self.settings
        for number, parameter in enumerate(self.parameters):
            if parameter.grad is None:
                continue
            slope = parameter.grad.add(parameter, alpha=decay)
            if self.velocities[number] is None:
                self.velocities[number] = slope.clone()
            else:
                self.velocities[number].mul_(momentum).add_(slope)
            parameter.add_(self.velocities[number], alpha=-lr)


@alternative("the learning rate inside the velocity")
class OwnSGD:
    def __init__(self, parameters, lr, momentum=0.0, weight_decay=0.0):
        self.parameters = list(parameters)
        self.lr, self.momentum, self.weight_decay = lr, momentum, weight_decay
        self.steps = {}

    def zero_grad(self):
        for parameter in self.parameters:
            parameter.grad = None

    def step(self):
        for parameter in [one for one in self.parameters if one.grad is not None]:
            weight = parameter.detach()
            slope = parameter.grad + self.weight_decay * weight
            step = self.lr * slope
            if parameter in self.steps:
                step = step + self.momentum * self.steps[parameter]
            self.steps[parameter] = step
            weight -= step


@misconception(
    "A14",
    "A parameter without a gradient moved: None was taken for zeros, and momentum coasts on zeros. How does an "
    "optimizer tell a parameter that should rest from one whose slope happens to be zero?",
    variant="None is zeros",
)
class OwnSGD:
    def __init__(self, parameters, lr, momentum=0.0, weight_decay=0.0):
        self.parameters = list(parameters)
        self.lr, self.momentum, self.weight_decay = lr, momentum, weight_decay
        self.velocities = {}

    def zero_grad(self):
        for parameter in self.parameters:
            parameter.grad = None

    def step(self):
        with torch.no_grad():
            for parameter in self.parameters:
                gradient = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
                slope = gradient + self.weight_decay * parameter
                velocity = self.momentum * self.velocities.get(parameter, 0.0) + slope
                self.velocities[parameter] = velocity
                parameter -= self.lr * velocity


@misconception(
    "A16",
    "Decay shrank a parameter that has no gradient. It is part of the slope, and a parameter without a gradient "
    "has none. Which parameters take part in a step at all?",
    variant="decays without a gradient",
)
class OwnSGD:
    def __init__(self, parameters, lr, momentum=0.0, weight_decay=0.0):
        self.parameters = list(parameters)
        self.lr, self.momentum, self.weight_decay = lr, momentum, weight_decay
        self.velocities = {}

    def zero_grad(self):
        for parameter in self.parameters:
            parameter.grad = None

    def step(self):
        with torch.no_grad():
            for parameter in self.parameters:
                if parameter.grad is None:
                    parameter -= self.lr * self.weight_decay * parameter
                    continue
                slope = parameter.grad + self.weight_decay * parameter
                velocity = self.momentum * self.velocities.get(parameter, 0.0) + slope
                self.velocities[parameter] = velocity
                parameter -= self.lr * velocity


@misconception(
    "A16",
    "The weight shrinks outside of the velocity, as in AdamW. In SGD the decay is a part of the slope, so that "
    "the velocity remembers it. Into which of the three lines does the weight itself enter?",
    variant="decay beside the velocity",
)
class OwnSGD:
    def __init__(self, parameters, lr, momentum=0.0, weight_decay=0.0):
        self.parameters = list(parameters)
        self.lr, self.momentum, self.weight_decay = lr, momentum, weight_decay
        self.velocities = {}

    def zero_grad(self):
        for parameter in self.parameters:
            parameter.grad = None

    def step(self):
        with torch.no_grad():
            for parameter in self.parameters:
                if parameter.grad is not None:
                    velocity = self.momentum * self.velocities.get(parameter, 0.0) + parameter.grad
                    self.velocities[parameter] = velocity
                    parameter -= self.lr * (velocity + self.weight_decay * parameter)


@misconception(
    "A24",
    "The new slope enters the velocity by one minus the momentum, as in an average. SGD takes it whole. What is "
    "the velocity after the very first step?",
    variant="an average",
)
class OwnSGD:
    def __init__(self, parameters, lr, momentum=0.0, weight_decay=0.0):
        self.parameters = list(parameters)
        self.lr, self.momentum, self.weight_decay = lr, momentum, weight_decay
        self.velocities = {}

    def zero_grad(self):
        for parameter in self.parameters:
            parameter.grad = None

    def step(self):
        with torch.no_grad():
            for parameter in self.parameters:
                if parameter.grad is not None:
                    slope = parameter.grad + self.weight_decay * parameter
                    velocity = self.momentum * self.velocities.get(parameter, 0.0) + (1 - self.momentum) * slope
                    self.velocities[parameter] = velocity
                    parameter -= self.lr * velocity


@misconception(
    "A24",
    "The weight moved by the slope plus a share of the new velocity: a look ahead, as Nesterov's variant takes "
    "it. By what does plain momentum move the weight?",
    variant="looks ahead",
)
class OwnSGD:
    def __init__(self, parameters, lr, momentum=0.0, weight_decay=0.0):
        self.parameters = list(parameters)
        self.lr, self.momentum, self.weight_decay = lr, momentum, weight_decay
        self.velocities = {}

    def zero_grad(self):
        for parameter in self.parameters:
            parameter.grad = None

    def step(self):
        with torch.no_grad():
            for parameter in self.parameters:
                if parameter.grad is not None:
                    slope = parameter.grad + self.weight_decay * parameter
                    velocity = self.momentum * self.velocities.get(parameter, 0.0) + slope
                    self.velocities[parameter] = velocity
                    parameter -= self.lr * (slope + self.momentum * velocity)


@misconception(
    "A17",
    "The first velocity is the tensor of .grad itself, and it was changed in place: the caller's gradient changed "
    "along, and the velocity with the next one that was written there. Which line makes a tensor of your own?",
    variant="the gradient as velocity",
)
class OwnSGD:
    def __init__(self, parameters, lr, momentum=0.0, weight_decay=0.0):
        self.parameters = list(parameters)
        self.lr, self.momentum, self.weight_decay = lr, momentum, weight_decay
        self.velocities = {}

    def zero_grad(self):
        for parameter in self.parameters:
            parameter.grad = None

    def step(self):
        with torch.no_grad():
            for parameter in self.parameters:
                if parameter.grad is None:
                    continue
                slope = parameter.grad
                if self.weight_decay:
                    slope = slope + self.weight_decay * parameter
                if parameter in self.velocities:
                    self.velocities[parameter].mul_(self.momentum).add_(slope)
                else:
                    self.velocities[parameter] = slope
                parameter -= self.lr * self.velocities[parameter]


@misconception("G07")
class OwnSGD:
    def __init__(self, parameters, lr, momentum=0.0, weight_decay=0.0):
        self.parameters = list(parameters)
        self.lr, self.momentum, self.weight_decay = lr, momentum, weight_decay
        self.velocities = {}

    def zero_grad(self):
        for parameter in self.parameters:
            parameter.grad = None

    def step(self):
        for parameter in self.parameters:
            if parameter.grad is not None:
                slope = parameter.grad + self.weight_decay * parameter
                velocity = self.momentum * self.velocities.get(parameter, 0.0) + slope
                self.velocities[parameter] = velocity
                parameter -= self.lr * velocity


@misconception(
    "A19",
    "No weight moved: the name in the loop was bound to a new tensor, and the parameters are what they were. "
    "Which tensor does the model hold?",
)
class OwnSGD:
    def __init__(self, parameters, lr, momentum=0.0, weight_decay=0.0):
        self.parameters = list(parameters)
        self.lr, self.momentum, self.weight_decay = lr, momentum, weight_decay
        self.velocities = {}

    def zero_grad(self):
        for parameter in self.parameters:
            parameter.grad = None

    def step(self):
        with torch.no_grad():
            for parameter in self.parameters:
                if parameter.grad is not None:
                    slope = parameter.grad + self.weight_decay * parameter
                    velocity = self.momentum * self.velocities.get(parameter, 0.0) + slope
                    self.velocities[parameter] = velocity
                    parameter = parameter - self.lr * velocity


@misconception("A25")
class OwnSGD:
    def __init__(self, parameters, lr, momentum=0.0, weight_decay=0.0):
        self.parameters = list(parameters)
        self.lr, self.momentum, self.weight_decay = lr, momentum, weight_decay
        self.velocities = {}

    def zero_grad(self):
        for parameter in self.parameters:
            parameter.grad = None

    def step(self):
        with torch.no_grad():
            for parameter in self.parameters:
                if parameter.grad is not None:
                    slope = parameter.grad + self.weight_decay * parameter
                    velocity = self.momentum * self.velocities.get(parameter, 0.0) + slope
                    self.velocities[parameter] = velocity
                    parameter -= self.lr * velocity
        self.zero_grad()


@misconception(
    "C26",
    "The weights moved along their velocities, uphill. In which direction does the loss become smaller?",
)
class OwnSGD:
    def __init__(self, parameters, lr, momentum=0.0, weight_decay=0.0):
        self.parameters = list(parameters)
        self.lr, self.momentum, self.weight_decay = lr, momentum, weight_decay
        self.velocities = {}

    def zero_grad(self):
        for parameter in self.parameters:
            parameter.grad = None

    def step(self):
        with torch.no_grad():
            for parameter in self.parameters:
                if parameter.grad is not None:
                    slope = parameter.grad + self.weight_decay * parameter
                    velocity = self.momentum * self.velocities.get(parameter, 0.0) + slope
                    self.velocities[parameter] = velocity
                    parameter += self.lr * velocity


# ---------------------------------------------------------------------------------------------------- largest_part


@alternative("halves the interval")
def largest_part(model, loss_fn, x, y, budget):
    def fits(rows):
        return memory.held_by(loss_fn(model(x[:rows]), y[:rows])).bytes <= budget

    low, high = 0, len(x)
    while low < high:
        middle = (low + high + 1) // 2
        if fits(middle):
            low = middle
        else:
            high = middle - 1
    return low


@alternative("two measurements far apart, then counting")
def largest_part(model, loss_fn, x, y, budget):
    def saved(rows):
        with memory.watch() as watched:
            output = loss_fn(model(x[:rows]), y[:rows])
        assert output.requires_grad
        return watched.peak

    few, many = saved(2), saved(12)
    each = (many - few) // 10
    once = few - 2 * each
    rows = 0
    while rows < len(x) and once + (rows + 1) * each <= budget:
        rows += 1
    return rows


@misconception(
    "T13",
    "One row fewer than would fit: the first row was paid for and not counted. For how many rows does the budget "
    "pay that is left after one?",
    variant="the first not counted",
)
def largest_part(model, loss_fn, x, y, budget):
    def saved(rows):
        return memory.held_by(loss_fn(model(x[:rows]), y[:rows])).bytes

    first = saved(1)
    if first > budget:
        return 0
    each = saved(2) - first
    return min(len(x), (budget - first) // each)


@misconception(
    "T13",
    "Where the budget does not come out even, one row too many: the number was rounded up. Which way must a "
    "budget be rounded?",
    variant="rounded up",
)
def largest_part(model, loss_fn, x, y, budget):
    def saved(rows):
        return memory.held_by(loss_fn(model(x[:rows]), y[:rows])).bytes

    first = saved(1)
    if first > budget:
        return 0
    each = saved(2) - first
    return min(len(x), 1 - (first - budget) // each)


@misconception(
    "T13",
    "A budget that is met to the byte counts as exceeded here. Does 'at most' leave out the number itself?",
    variant="less than the budget",
)
def largest_part(model, loss_fn, x, y, budget):
    def saved(rows):
        return memory.held_by(loss_fn(model(x[:rows]), y[:rows])).bytes

    first = saved(1)
    if first >= budget:
        return 0
    each = saved(2) - first
    return min(len(x), 1 + (budget - first - 1) // each)


@misconception(
    "T12",
    "What one row costs in all was charged for each row. A part of that is paid once, however many rows there "
    "are. By how many bytes do two rows cost more than one?",
    variant="paid for each row",
)
def largest_part(model, loss_fn, x, y, budget):
    def saved(rows):
        return memory.held_by(loss_fn(model(x[:rows]), y[:rows])).bytes

    return min(len(x), budget // saved(1))


@misconception(
    "T12",
    "What is paid once was left out: the whole budget was spent on rows. What does the forward pass save that "
    "does not grow with the rows?",
    variant="not paid at all",
)
def largest_part(model, loss_fn, x, y, budget):
    def saved(rows):
        return memory.held_by(loss_fn(model(x[:rows]), y[:rows])).bytes

    first = saved(1)
    if first > budget:
        return 0
    return min(len(x), budget // (saved(2) - first))


@misconception(
    "S13",
    "The forward pass was measured in a block that records nothing, so that nothing was saved, and a division by "
    "zero followed. For which pass are the bytes kept that are to be counted?",
)
def largest_part(model, loss_fn, x, y, budget):
    def saved(rows):
        with torch.no_grad():
            return memory.held_by(loss_fn(model(x[:rows]), y[:rows])).bytes

    first = saved(1)
    if first > budget:
        return 0
    each = saved(2) - first
    return min(len(x), 1 + (budget - first) // each)


@misconception(
    "T14",
    "More rows came back than there are. A budget can be larger than what all of them need. What is the largest "
    "part that x can have?",
    variant="more than there are",
)
def largest_part(model, loss_fn, x, y, budget):
    def saved(rows):
        return memory.held_by(loss_fn(model(x[:rows]), y[:rows])).bytes

    first = saved(1)
    if first > budget:
        return 0
    each = saved(2) - first
    return 1 + (budget - first) // each


@misconception(
    "T14",
    "A part of one row came back where a single row is too much. Who relies on the number runs out of memory. "
    "What should be returned where nothing fits?",
    variant="one at least",
)
def largest_part(model, loss_fn, x, y, budget):
    def saved(rows):
        return memory.held_by(loss_fn(model(x[:rows]), y[:rows])).bytes

    first = saved(1)
    each = saved(2) - first
    return min(len(x), max(1, 1 + (budget - first) // each))


@misconception("T15")
def largest_part(model, loss_fn, x, y, budget):
    def saved(rows):
        return memory.held_by(loss_fn(model(x[:rows]), y[:rows])).bytes

    rows = 0
    while rows < len(x) and saved(rows + 1) <= budget:
        rows += 1
    return rows


@misconception(
    "A23",
    "Each measurement went backward too, and its gradients were added to whatever was there. The number of rows "
    "is right. What reads .grad after this call?",
    variant="leaves gradients",
)
def largest_part(model, loss_fn, x, y, budget):
    def saved(rows):
        with memory.watch() as watched:
            loss_fn(model(x[:rows]), y[:rows]).backward()
        return watched.peak

    first = saved(1)
    if first > budget:
        return 0
    each = saved(2) - first
    return min(len(x), 1 + (budget - first) // each)


# ----------------------------------------------------------------------------------------------------- layer_norms


@alternative("full backward hooks")
def layer_norms(model, loss_fn, x, y):
    norms, handles = {}, []
    for name, module in model.named_modules():
        if len(list(module.children())) == 0:

            def heard(module, inputs, outputs, name=name):
                norms[name] = float(outputs[0].norm())

            handles.append(module.register_full_backward_hook(heard))
    tracked = [parameter for parameter in model.parameters() if parameter.requires_grad]
    torch.autograd.grad(loss_fn(model(x), y), tracked)
    for handle in handles:
        handle.remove()
    return norms


@alternative("keeps the outputs and asks for their gradients")
def layer_norms(model, loss_fn, x, y):
    outputs = {}

    def keeping(name):
        def called(module, inputs, output):
            outputs[name] = output

        return called

    handles = [
        module.register_forward_hook(keeping(name))
        for name, module in model.named_modules()
        if next(module.children(), None) is None
    ]
    loss = loss_fn(model(x), y)
    for handle in handles:
        handle.remove()
    tracked = {name: output for name, output in outputs.items() if output.grad_fn is not None}
    gradients = torch.autograd.grad(loss, tuple(tracked.values()))
    return {name: gradient.square().sum().sqrt().item() for name, gradient in zip(tracked, gradients)}


@misconception(
    "G29",
    "Only one name came back: a function that is made in a loop looks its names up when it is called, and then "
    "the loop is over. Which name does each listener see when the gradient arrives?",
    variant="the last name for all",
)
def layer_norms(model, loss_fn, x, y):
    norms, handles = {}, []
    for name, module in model.named_modules():
        if not list(module.children()):

            def called(module, inputs, output):
                if output.requires_grad:
                    output.register_hook(lambda gradient: norms.update({name: gradient.norm().item()}))  # noqa: B023

            handles.append(module.register_forward_hook(called))
    loss = loss_fn(model(x), y)
    for handle in handles:
        handle.remove()
    torch.autograd.grad(loss, [parameter for parameter in model.parameters() if parameter.requires_grad])
    return norms


@misconception("T16")
def layer_norms(model, loss_fn, x, y):
    norms = {}

    def listener(name):
        def called(module, inputs, output):
            if output.requires_grad:
                output.register_hook(lambda gradient: norms.update({name: gradient.norm().item()}))

        return called

    for name, module in model.named_modules():
        if not list(module.children()):
            module.register_forward_hook(listener(name))
    loss = loss_fn(model(x), y)
    torch.autograd.grad(loss, [parameter for parameter in model.parameters() if parameter.requires_grad])
    return norms


@misconception(
    "A23",
    "backward() put its gradients into .grad, on top of what was there, and the next update will use them. Which "
    "call hands gradients back instead?",
    variant="leaves gradients",
)
def layer_norms(model, loss_fn, x, y):
    norms = {}

    def listener(name):
        def called(module, inputs, output):
            if output.requires_grad:
                output.register_hook(lambda gradient: norms.update({name: gradient.norm().item()}))

        return called

    layers = [(name, module) for name, module in model.named_modules() if not list(module.children())]
    handles = [module.register_forward_hook(listener(name)) for name, module in layers]
    loss_fn(model(x), y).backward()
    for handle in handles:
        handle.remove()
    return norms


@misconception(
    "A25",
    "The gradients that were there before the call are gone. Measuring was the task, and clearing was not. Which "
    "line after this call reads .grad?",
)
def layer_norms(model, loss_fn, x, y):
    norms = {}

    def listener(name):
        def called(module, inputs, output):
            if output.requires_grad:
                output.register_hook(lambda gradient: norms.update({name: gradient.norm().item()}))

        return called

    layers = [(name, module) for name, module in model.named_modules() if not list(module.children())]
    handles = [module.register_forward_hook(listener(name)) for name, module in layers]
    loss_fn(model(x), y).backward()
    model.zero_grad()
    for handle in handles:
        handle.remove()
    return norms


@misconception(
    "D31",
    "The modules at the first level were listened to, and one of them holds others. Which modules does children() "
    "leave out that modules() names?",
    variant="first level alone",
)
def layer_norms(model, loss_fn, x, y):
    norms = {}

    def listener(name):
        def called(module, inputs, output):
            if output.requires_grad:
                output.register_hook(lambda gradient: norms.update({name: gradient.norm().item()}))

        return called

    handles = [module.register_forward_hook(listener(name)) for name, module in model.named_children()]
    loss = loss_fn(model(x), y)
    for handle in handles:
        handle.remove()
    torch.autograd.grad(loss, [parameter for parameter in model.parameters() if parameter.requires_grad])
    return norms


@misconception(
    "D31",
    "Modules that hold others were listened to as well, the model itself among them, so that some gradients stand "
    "there twice. Which modules compute something themselves?",
    variant="every module",
)
def layer_norms(model, loss_fn, x, y):
    norms = {}

    def listener(name):
        def called(module, inputs, output):
            if output.requires_grad:
                output.register_hook(lambda gradient: norms.update({name: gradient.norm().item()}))

        return called

    handles = [module.register_forward_hook(listener(name)) for name, module in model.named_modules()]
    loss = loss_fn(model(x), y)
    for handle in handles:
        handle.remove()
    torch.autograd.grad(loss, [parameter for parameter in model.parameters() if parameter.requires_grad])
    return norms


@misconception(
    "C44",
    "These are the norms of the gradients in the weights, and the question was about the outputs of the layers. A "
    "layer without weights has an output too. On which tensor was the hook to be put?",
    variant="the weights' gradients",
)
def layer_norms(model, loss_fn, x, y):
    named = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
    gradients = torch.autograd.grad(loss_fn(model(x), y), list(named.values()))
    return {
        name.removesuffix(".weight"): gradient.norm().item()
        for name, gradient in zip(named, gradients)
        if name.endswith("weight")
    }


@misconception(
    "C44",
    "The hook stands at the input of each layer, which is the output of the one before. Which of the two did the "
    "forward hook hand to you last?",
    variant="the inputs of the layers",
)
def layer_norms(model, loss_fn, x, y):
    norms = {}

    def listener(name):
        def called(module, inputs, output):
            if inputs[0].requires_grad:
                inputs[0].register_hook(lambda gradient: norms.update({name: gradient.norm().item()}))

        return called

    layers = [(name, module) for name, module in model.named_modules() if not list(module.children())]
    handles = [module.register_forward_hook(listener(name)) for name, module in layers]
    loss = loss_fn(model(x), y)
    for handle in handles:
        handle.remove()
    torch.autograd.grad(loss, [parameter for parameter in model.parameters() if parameter.requires_grad])
    return norms


@misconception("C27")
def layer_norms(model, loss_fn, x, y):
    norms = {}

    def listener(name):
        def called(module, inputs, output):
            if output.requires_grad:
                output.register_hook(lambda gradient: norms.update({name: gradient.norm()}))

        return called

    layers = [(name, module) for name, module in model.named_modules() if not list(module.children())]
    handles = [module.register_forward_hook(listener(name)) for name, module in layers]
    loss = loss_fn(model(x), y)
    for handle in handles:
        handle.remove()
    torch.autograd.grad(loss, [parameter for parameter in model.parameters() if parameter.requires_grad])
    return norms


@misconception(
    "G18",
    "A frozen layer stopped the program: its output is not tracked, and a tensor that requires no grad takes no "
    "hook. What does requires_grad say of an output behind which nothing is tracked?",
    variant="hooks on everything",
)
def layer_norms(model, loss_fn, x, y):
    norms = {}

    def listener(name):
        def called(module, inputs, output):
            output.register_hook(lambda gradient: norms.update({name: gradient.norm().item()}))

        return called

    layers = [(name, module) for name, module in model.named_modules() if not list(module.children())]
    handles = [module.register_forward_hook(listener(name)) for name, module in layers]
    loss = loss_fn(model(x), y)
    for handle in handles:
        handle.remove()
    torch.autograd.grad(loss, [parameter for parameter in model.parameters() if parameter.requires_grad])
    return norms


# --------------------------------------------------------------------------------------------------- contributions


@alternative("a generator that walks down")
def contributions(loss, leaf):
    def down(node, slope):
        if node is None:
            return
        if hasattr(node, "variable"):
            if node.variable is leaf:
                yield float(slope)
            return
        sent = node(slope)
        if not isinstance(sent, tuple):
            sent = (sent,)
        for (following, _), part in zip(node.next_functions, sent):
            yield from down(following, part)

    with torch.no_grad():
        return list(down(loss.grad_fn, torch.ones_like(loss)))


@alternative("route by route, from a queue")
def contributions(loss, leaf):
    routes, ends = [(loss.grad_fn, loss.detach() * 0 + 1)], []
    while routes:
        node, slope = routes.pop(0)
        if node.name().endswith("AccumulateGrad"):
            ends += [(node.variable, slope)]
            continue
        with torch.no_grad():
            sent = node(slope)
        parts = list(sent) if isinstance(sent, tuple) else [sent]
        for edge, part in zip(node.next_functions, parts):
            if edge[0] is not None:
                routes.append((edge[0], part))
    return [slope.item() for end, slope in ends if end is leaf]


@misconception(
    "B23",
    "One number came back: the whole gradient, in which all routes are added up. The engine adds up before it "
    "calls a node. What must not be added if the routes are to be told apart?",
    variant="the sum alone",
)
def contributions(loss, leaf):
    (gradient,) = torch.autograd.grad(loss, leaf)
    return [gradient.item()]


@misconception(
    "G27",
    "Each node was called once, with what came along the first route, and later routes end there. Paths and nodes "
    "are counted differently. How often does this walk have to call a node that two routes reach?",
    variant="each node once",
)
def contributions(loss, leaf):
    found, waiting, seen = [], [(loss.grad_fn, torch.ones_like(loss))], set()
    with torch.no_grad():
        while waiting:
            node, slope = waiting.pop()
            if hasattr(node, "variable"):
                if node.variable is leaf:
                    found.append(slope.item())
            elif node not in seen:
                seen.add(node)
                sent = node(slope)
                slopes = sent if isinstance(sent, tuple) else (sent,)
                waiting += [(to, one) for (to, _), one in zip(node.next_functions, slopes) if to is not None]
    return found


@misconception(
    "G28",
    "The walk leaves each node by its first edge, so that one route is found at most. How many entries has "
    "next_functions at a product?",
    variant="the first edge",
)
def contributions(loss, leaf):
    found, node, slope = [], loss.grad_fn, torch.ones_like(loss)
    with torch.no_grad():
        while node is not None and not hasattr(node, "variable"):
            sent = node(slope)
            node, slope = node.next_functions[0][0], sent[0] if isinstance(sent, tuple) else sent
    if node is not None and node.variable is leaf:
        found.append(slope.item())
    return found


@misconception(
    "B15",
    "Each node was called with 1, so that the slopes above it are missing from the product. That is right for the "
    "last operation alone. What does a node multiply its own slope by?",
    variant="starts anew at each node",
)
def contributions(loss, leaf):
    found, waiting = [], [(loss.grad_fn, torch.ones_like(loss))]
    with torch.no_grad():
        while waiting:
            node, slope = waiting.pop()
            if hasattr(node, "variable"):
                if node.variable is leaf:
                    found.append(slope.item())
                continue
            sent = node(torch.ones_like(slope))
            slopes = sent if isinstance(sent, tuple) else (sent,)
            waiting += [(to, one) for (to, _), one in zip(node.next_functions, slopes) if to is not None]
    return found


@misconception(
    "C44",
    "Routes to every leaf are in the list, and the question was about one. Which attribute of its node tells "
    "whose it is?",
    variant="routes to all leaves",
)
def contributions(loss, leaf):
    found, waiting = [], [(loss.grad_fn, torch.ones_like(loss))]
    with torch.no_grad():
        while waiting:
            node, slope = waiting.pop()
            if hasattr(node, "variable"):
                found.append(slope.item())
                continue
            sent = node(slope)
            slopes = sent if isinstance(sent, tuple) else (sent,)
            waiting += [(to, one) for (to, _), one in zip(node.next_functions, slopes) if to is not None]
    return found


@misconception(
    "C37",
    "The leaf was looked for by its value: another leaf with the same number would count as it. Here it happened "
    "to be alone, and its equal routes were put into a set, where equal numbers are one. How many entries have "
    "two routes with equal products?",
    variant="equal routes are one",
)
def contributions(loss, leaf):
    found, waiting = set(), [(loss.grad_fn, torch.ones_like(loss))]
    with torch.no_grad():
        while waiting:
            node, slope = waiting.pop()
            if hasattr(node, "variable"):
                if node.variable is leaf:
                    found.add(slope.item())
                continue
            sent = node(slope)
            slopes = sent if isinstance(sent, tuple) else (sent,)
            waiting += [(to, one) for (to, _), one in zip(node.next_functions, slopes) if to is not None]
    return list(found)


@misconception(
    "A01",
    "The list is right, and the nodes of the leaves were called as well: each call added to a .grad. What does "
    "AccumulateGrad do when somebody calls it?",
    variant="calls the leaves",
)
def contributions(loss, leaf):
    found, waiting = [], [(loss.grad_fn, torch.ones_like(loss))]
    with torch.no_grad():
        while waiting:
            node, slope = waiting.pop()
            if getattr(node, "variable", None) is leaf:
                found.append(slope.item())
            sent = node(slope)
            slopes = sent if isinstance(sent, tuple) else (sent,)
            waiting += [(to, one) for (to, _), one in zip(node.next_functions, slopes) if to is not None]
    return found


@misconception("C27")
def contributions(loss, leaf):
    found, waiting = [], [(loss.grad_fn, torch.ones_like(loss))]
    with torch.no_grad():
        while waiting:
            node, slope = waiting.pop()
            if hasattr(node, "variable"):
                if node.variable is leaf:
                    found.append(slope)
                continue
            sent = node(slope)
            slopes = sent if isinstance(sent, tuple) else (sent,)
            waiting += [(to, one) for (to, _), one in zip(node.next_functions, slopes) if to is not None]
    return found
