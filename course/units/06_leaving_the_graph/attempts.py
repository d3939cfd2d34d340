"""What people hand in for the exercises of unit 6: wrong programs by their IDs, and other right ones."""

from autogradlab.exercises import alternative, misconception, reference

# ---------------------------------------------------------------------------------------------------------- scissors


def tie(names):
    """What `k` still has of `y`, found by trying."""
    k, x, y = names["k"], names["x"], names["y"]
    history = isinstance(k, torch.Tensor) and k.requires_grad
    if history:
        history = torch.autograd.grad(k.sum(), x, allow_unused=True, retain_graph=True)[0] is not None
    memory = False
    if not isinstance(k, list):
        address = k.data_ptr() if isinstance(k, torch.Tensor) else k.__array_interface__["data"][0]
        memory = address == y.data_ptr()
    return {(True, True): "both", (True, False): "history", (False, True): "memory"}.get((history, memory), "neither")


def played(variant, change=None):
    """The answers of a variant; `change(line, answer)` may give another one."""
    answers = []
    for line in cases.ways(variant):
        names = {"torch": torch}
        exec(cases.beginning(variant), names)
        exec(line, names)
        answer = tie(names)
        answers.append(answer if change is None else change(line, answer))
    return answers


def where(changed):
    """A change that gives the lines with these beginnings an answer of their own."""

    def change(line, answer):
        return next((new for beginning, new in changed.items() if line.startswith(beginning)), answer)

    return change


@reference
def scissors(variant):
    return played(variant)


@alternative("a tuple")
def scissors(variant):
    return tuple(played(variant))


@alternative("worked out on paper, from the words in the lines")
def scissors(variant):
    answers = []
    for line in cases.ways(variant):
        made = line.split("k = ")[1]
        cut = "detach" in made or "data" in made or "tolist" in made or "no_grad" in line
        new = any(word in made for word in ("clone", "double", "y *", "y +", "tolist"))
        answers.append([["both", "history"], ["memory", "neither"]][cut][new])
    return answers


@misconception("S01", variant="detach copies")
def scissors(variant):
    return played(variant, lambda line, answer: "neither" if line == "k = y.detach()" else answer)


@misconception("G20", variant="clone cuts")
def scissors(variant):
    return played(variant, lambda line, answer: "neither" if line == "k = y.clone()" else answer)


@misconception(
    "G20",
    "Here a clone that was detached still has a history. The order of the two words does not matter, and one of them "
    "cuts. Which of the two would you leave out to keep the history?",
    variant="clone keeps all",
)
def scissors(variant):
    def change(line, answer):
        return "history" if line in ("k = y.detach().clone()", "k = y.clone().detach()") else answer

    return played(variant, change)


@misconception(
    "G10",
    "The tensor behind .data is taken for a copy in these answers. It is the same memory, and an edit through it is "
    "not even counted. What does y show after y.data[0] = 99?",
    variant="data copies",
)
def scissors(variant):
    return played(variant, lambda line, answer: "neither" if line == "k = y.data" else answer)


@misconception(
    "G10",
    "The tensor behind .data is given a history in these answers. It is cut like a detached one. What does "
    "y.data.requires_grad print?",
    variant="data is y",
)
def scissors(variant):
    return played(variant, lambda line, answer: "both" if line == "k = y.data" else answer)


@misconception(
    "D09",
    "A conversion with nothing to convert makes new memory in these answers. It returns its own tensor, and after a "
    "detach() still the memory of y. What does y.float() is y print where y is float32?",
    variant="conversions copy",
)
def scissors(variant):
    def change(line, answer):
        converts = any(word in line for word in ("float()", "cpu", "reshape"))
        return {"both": "history", "memory": "neither"}.get(answer, answer) if converts else answer

    return played(variant, change)


@misconception(
    "S17",
    "The NumPy array is taken for a copy in these answers. numpy() copies nothing, and the array lies on the memory of "
    "y. What does y show after the array was written to?",
    variant="numpy copies",
)
def scissors(variant):
    return played(variant, lambda line, answer: "neither" if "numpy" in line else answer)


@misconception(
    "G13",
    "A flag set on what was cut off leads back to x in these answers. It begins a history of its own, with a new leaf. "
    "Where does a backward() from k put its gradient?",
    variant="a flag leads back",
)
def scissors(variant):
    def change(line, answer):
        return {"memory": "both", "neither": "history"}[answer] if "requires_grad" in line else answer

    return played(variant, change)


@misconception(
    "S02",
    "The line in the no_grad block is recorded in these answers. It is a block that was entered, with the operation "
    "inside it. What does k.grad_fn print?",
    variant="block ignored",
)
def scissors(variant):
    return played(variant, lambda line, answer: "history" if "no_grad" in line else answer)


@misconception(
    "G24",
    "A slice or a new shape is a tensor without a past in these answers. It is a window on y that was made by a "
    "recorded operation. What does y[:2].grad_fn print?",
    variant="windows are cut",
)
def scissors(variant):
    return played(variant, where({"k = y[": "memory", "k = y.view": "memory"}))


@misconception(
    "S21",
    "A change of dtype or a product by 1 is cut off from x in these answers. Both are operations on a tracked tensor, "
    "and recorded. What does (y * 1).grad_fn print?",
    variant="results are cut",
)
def scissors(variant):
    return played(variant, where(dict.fromkeys(("k = y.double", "k = y *", "k = y +"), "neither")))


# ---------------------------------------------------------------------------------------------------------- evaluate


@alternative("inference_mode, and a dict of flags")
def evaluate(model, loss_fn, batches):
    flags = {module: module.training for module in model.modules()}
    try:
        model.eval()
        with torch.inference_mode():
            sums = [(loss_fn(model(x), y).item() * x.shape[0], x.shape[0]) for x, y in batches]
    finally:
        for module, flag in flags.items():
            module.training = flag
    return sum(loss for loss, _ in sums) / sum(rows for _, rows in sums)


@alternative("a copy of the model is validated")
def evaluate(model, loss_fn, batches):
    twin = copy.deepcopy(model).eval()
    total, rows = 0.0, 0
    with torch.no_grad():
        for x, y in batches:
            total += float(loss_fn(twin(x), y)) * len(x)
            rows += len(x)
    return total / rows


@alternative("all outputs and targets behind one another, one loss")
def evaluate(model, loss_fn, batches):
    in_training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        with torch.no_grad():
            pairs = [(model(x), y) for x, y in batches]
            return loss_fn(*map(torch.cat, zip(*pairs))).item()
    finally:
        for module in in_training:
            module.training = True


@alternative("a decorated helper, and an exit stack")
def evaluate(model, loss_fn, batches):
    @torch.no_grad()
    def weighed(x, y):
        return loss_fn(model(x), y).item() * len(y)

    with contextlib.ExitStack() as stack:
        for module in model.modules():
            stack.callback(setattr, module, "training", module.training)
            module.training = False
        pairs = [(weighed(x, y), len(y)) for x, y in batches]
    return sum(pair[0] for pair in pairs) / sum(pair[1] for pair in pairs)


@misconception("S02")
def evaluate(model, loss_fn, batches):
    in_training = [module for module in model.modules() if module.training]
    total = rows = 0
    model.eval()
    torch.no_grad()
    try:
        for x, y in batches:
            total += loss_fn(model(x), y).item() * len(y)
            rows += len(y)
        return total / rows
    finally:
        for module in in_training:
            module.training = True


@misconception("S03", same_as="S02")
def evaluate(model, loss_fn, batches):
    in_training = [module for module in model.modules() if module.training]
    total = rows = 0
    model.eval()
    torch.inference_mode()
    try:
        for x, y in batches:
            total += loss_fn(model(x), y).item() * len(y)
            rows += len(y)
        return total / rows
    finally:
        for module in in_training:
            module.training = True


@misconception("S05", same_as="S02")
def evaluate(model, loss_fn, batches):
    in_training = [module for module in model.modules() if module.training]
    total = rows = 0
    model.eval()
    try:
        for x, y in batches:
            total += loss_fn(model(x), y).item() * len(y)
            rows += len(y)
        return total / rows
    finally:
        for module in in_training:
            module.training = True


@misconception("S04")
def evaluate(model, loss_fn, batches):
    in_training = [module for module in model.modules() if module.training]
    total = rows = 0
    model.eval()
    torch.set_grad_enabled(False)
    try:
        for x, y in batches:
            total += loss_fn(model(x), y).item() * len(y)
            rows += len(y)
        return total / rows
    finally:
        for module in in_training:
            module.training = True


@misconception(
    "S04",
    "Recording is switched on at the end of this call, whatever it was at the beginning, and left off where an error "
    "came out. Who knows how the switch stood before?",
    variant="on again at the end",
)
def evaluate(model, loss_fn, batches):
    in_training = [module for module in model.modules() if module.training]
    total = rows = 0
    model.eval()
    torch.set_grad_enabled(False)
    try:
        for x, y in batches:
            total += loss_fn(model(x), y).item() * len(y)
            rows += len(y)
    finally:
        for module in in_training:
            module.training = True
    torch.set_grad_enabled(True)
    return total / rows


@misconception("S06")
def evaluate(model, loss_fn, batches):
    total = rows = 0
    with torch.no_grad():
        for x, y in batches:
            total += loss_fn(model(x), y).item() * len(y)
            rows += len(y)
    return total / rows


@misconception("S28", variant="leaves it in evaluation")
def evaluate(model, loss_fn, batches):
    total = rows = 0
    model.eval()
    with torch.no_grad():
        for x, y in batches:
            total += loss_fn(model(x), y).item() * len(y)
            rows += len(y)
    return total / rows


@misconception(
    "S28",
    "The model is in training after this call, all of it, also where it was in evaluation before. A frozen batch norm "
    "would begin to move. Which flags did the model have when the call began?",
    variant="train() at the end",
)
def evaluate(model, loss_fn, batches):
    total = rows = 0
    model.eval()
    try:
        with torch.no_grad():
            for x, y in batches:
                total += loss_fn(model(x), y).item() * len(y)
                rows += len(y)
        return total / rows
    finally:
        model.train()


@misconception(
    "S28",
    "One flag was remembered, that of the whole model, and given to every module inside. A part that was in evaluation "
    "is in training now. How many flags does a model of five modules have?",
    variant="one flag for all",
)
def evaluate(model, loss_fn, batches):
    training = model.training
    total = rows = 0
    model.eval()
    try:
        with torch.no_grad():
            for x, y in batches:
                total += loss_fn(model(x), y).item() * len(y)
                rows += len(y)
        return total / rows
    finally:
        model.train(training)


@misconception(
    "S28",
    "The flags of the modules at the first level were put back. eval() reached those inside them too, and these stay "
    "in evaluation. Which modules does children() leave out that modules() names?",
    variant="first level alone",
)
def evaluate(model, loss_fn, batches):
    in_training = [module for module in (model, *model.children()) if module.training]
    total = rows = 0
    model.eval()
    try:
        with torch.no_grad():
            for x, y in batches:
                total += loss_fn(model(x), y).item() * len(y)
                rows += len(y)
        return total / rows
    finally:
        for module in in_training:
            module.training = True


@misconception("S29")
def evaluate(model, loss_fn, batches):
    in_training = [module for module in model.modules() if module.training]
    total = rows = 0
    model.eval()
    with torch.no_grad():
        for x, y in batches:
            total += loss_fn(model(x), y).item() * len(y)
            rows += len(y)
    for module in in_training:
        module.training = True
    return total / rows


@misconception(
    "S29",
    "One flag was remembered, that of the whole model, and it is put back in a line that an error skips. A part that "
    "was in evaluation is in training now, and after an error everything is in evaluation. Which lines of this call "
    "does an error in a batch leave out?",
    variant="one flag, and no finally",
)
def evaluate(model, loss_fn, batches):
    was = model.training
    total = rows = 0
    model.eval()
    with torch.no_grad():
        for x, y in batches:
            total += loss_fn(model(x), y).item() * len(y)
            rows += len(y)
    model.train(was)
    return total / rows


@misconception(
    "S29",
    "Everything is in training after this call, whatever it was in before, and in evaluation where an error came out: "
    "the line with train() is skipped then. Which lines of this call does an error in a batch leave out?",
    variant="train(), and no finally",
)
def evaluate(model, loss_fn, batches):
    total = rows = 0
    model.eval()
    with torch.no_grad():
        for x, y in batches:
            total += loss_fn(model(x), y).item() * len(y)
            rows += len(y)
    model.train()
    return total / rows


@misconception("S49")
def evaluate(model, loss_fn, batches):
    in_training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        with torch.no_grad():
            rows = sum(len(y) for _, y in batches)
            return sum(loss_fn(model(x), y).item() * len(y) for x, y in batches) / rows
    finally:
        for module in in_training:
            module.training = True


@misconception(
    "S49",
    "The batches were counted with len(), and an iterator has no length: a TypeError comes out. What does the loop "
    "itself see of every batch, so that it can count?",
    variant="len() of an iterator",
)
def evaluate(model, loss_fn, batches):
    in_training = [module for module in model.modules() if module.training]
    total = 0.0
    model.eval()
    try:
        with torch.no_grad():
            for x, y in batches:
                total += loss_fn(model(x), y).item()
        return total / len(batches)
    finally:
        for module in in_training:
            module.training = True


@misconception(
    "S18",
    "A tensor comes back where a float was asked for. A plot, a file or a comparison with None sees the difference. "
    "What makes a Python float out of a tensor with one element?",
    variant="returns a tensor",
)
def evaluate(model, loss_fn, batches):
    in_training = [module for module in model.modules() if module.training]
    total = rows = 0
    model.eval()
    try:
        with torch.no_grad():
            for x, y in batches:
                total += loss_fn(model(x), y) * len(y)
                rows += len(y)
        return total / rows
    finally:
        for module in in_training:
            module.training = True


@misconception(
    "A09",
    "The means of the batches are averaged, so that a row in a short batch counts for more than one in a long batch. "
    "How much should a batch of half the rows count?",
    variant="mean of means",
)
def evaluate(model, loss_fn, batches):
    in_training = [module for module in model.modules() if module.training]
    losses = []
    model.eval()
    try:
        with torch.no_grad():
            for x, y in batches:
                losses.append(loss_fn(model(x), y).item())
        return sum(losses) / len(losses)
    finally:
        for module in in_training:
            module.training = True


@misconception("S30")
def evaluate(model, loss_fn, batches):
    in_training = [module for module in model.modules() if module.training]
    total = rows = 0
    model.eval()
    try:
        with torch.no_grad():
            for x, y in batches:
                total += loss_fn(model(x), y).item() * len(y)
                rows += len(y)
    except Exception:
        total, rows = 0.0, 1
    finally:
        for module in in_training:
            module.training = True
    return total / rows


@misconception(
    "G17",
    "The weights have lost their flags in this call, and the next training step finds nothing to train. Recording can "
    "be stopped without touching a weight. Which block does that?",
    variant="freezes the weights",
)
def evaluate(model, loss_fn, batches):
    in_training = [module for module in model.modules() if module.training]
    total = rows = 0
    model.eval()
    model.requires_grad_(False)
    try:
        for x, y in batches:
            total += loss_fn(model(x), y).item() * len(y)
            rows += len(y)
        return total / rows
    finally:
        for module in in_training:
            module.training = True


# -------------------------------------------------------------------------------------------------------- what_grows


@alternative("grouped by verdict")
def what_grows(log):
    if log in "BDF":
        return "tensors"
    return "nodes" if log in "AG" else "nothing"


@alternative("counts what the loop holds")
def what_grows(log):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    counts = []

    def batches():
        with memory.watch() as watched:
            for _ in range(5):
                counts.append(watched.now)
                yield torch.randn(8, 3), torch.randn(8, 1)

    kept = cases.logs[log](model, batches())
    if counts[-1] > counts[-2] > counts[-3]:
        return "tensors"
    return "nodes" if memory.held_by(kept).nodes else "nothing"


@misconception("S07")
def what_grows(log):
    return {"A": "tensors", "B": "tensors", "D": "tensors", "F": "tensors", "G": "nodes"}.get(log, "nothing")


@misconception("S08", variant="eval is enough")
def what_grows(log):
    return {"A": "nodes", "D": "tensors", "F": "tensors", "G": "nodes"}.get(log, "nothing")


@misconception(
    "S09",
    "This verdict has backward() free the saved tensors although it was told to retain them, and the list holds the "
    "loss. Nodes and tensors pile up. What does retain_graph=True keep, and until when?",
    variant="only nodes",
)
def what_grows(log):
    return {"A": "nodes", "B": "tensors", "D": "nodes", "F": "tensors", "G": "nodes"}.get(log, "nothing")


@misconception(
    "S09",
    "This verdict lets nothing grow where a retained graph hangs on a loss that the list holds. It is kept whole, step "
    "by step. Who holds the loss of the step before in this loop?",
    variant="nothing grows",
)
def what_grows(log):
    return {"A": "nodes", "B": "tensors", "F": "tensors", "G": "nodes"}.get(log, "nothing")


@misconception("S31")
def what_grows(log):
    return {"A": "nodes", "G": "nodes", "E": "nothing", "H": "nothing"}.get(log, "tensors")


@misconception("S32")
def what_grows(log):
    return {"A": "nodes", "G": "nodes", "C": "nothing", "H": "nothing"}.get(log, "tensors")


@misconception(
    "A21",
    "This verdict looks at what the loop returns, a number. While it runs, the sum is tracked and holds the graph of "
    "every batch. What does total hang on before item() is called?",
    variant="a number comes back",
)
def what_grows(log):
    return {"A": "nodes", "B": "tensors", "D": "tensors", "G": "nodes"}.get(log, "nothing")


@misconception(
    "A21",
    "This verdict has the sum of losses keep nodes alone. None of these losses has gone backward, and so nothing was "
    "freed of what their graphs saved. What frees the tensors that a graph has saved?",
    variant="taken for nodes",
)
def what_grows(log):
    return {"A": "nodes", "B": "tensors", "D": "tensors", "F": "nodes", "G": "nodes"}.get(log, "nothing")


@misconception("S19")
def what_grows(log):
    return {"A": "nodes", "B": "tensors", "D": "tensors", "F": "tensors"}.get(log, "nothing")


@misconception(
    "S19",
    "This verdict has the average of weights keep saved tensors. Products with plain numbers and sums save nothing, so "
    "what grows is the chain of nodes. What does memory.held_by say of the average after fifty steps?",
    variant="taken for tensors",
)
def what_grows(log):
    return {"A": "nodes", "C": "nothing", "E": "nothing", "H": "nothing"}.get(log, "tensors")


@misconception(
    "S02",
    "The log in the no_grad block is said to pile something up here. What it keeps are tensors of one number each, "
    "without a past. What is history[0].grad_fn there?",
    variant="block ignored",
)
def what_grows(log):
    return {"A": "nodes", "C": "nothing", "E": "nothing", "G": "nodes"}.get(log, "tensors")


@misconception(
    "S07",
    "This verdict lets nothing grow where backward() has run on what is kept. It frees the saved tensors and leaves "
    "the nodes. How many nodes does memory.held_by find behind such a loss?",
    variant="backward frees all",
)
def what_grows(log):
    return {"B": "tensors", "D": "tensors", "F": "tensors", "G": "nodes"}.get(log, "nothing")


# ---------------------------------------------------------------------------------------------------- bootstrap_step


@alternative("detaches the wanted values, and lerp_")
def bootstrap_step(online, target, optimizer, batch, gamma, share):
    x, reward, following = batch
    wanted = (reward + gamma * target(following)).detach()
    optimizer.zero_grad()
    loss = ((online(x) - wanted) ** 2).mean()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        for slow, fast in zip(target.parameters(), online.parameters()):
            slow.lerp_(fast, share)
    return loss.tolist()


@alternative("autograd.grad, and copy_")
def bootstrap_step(online, target, optimizer, batch, gamma, share):
    x, reward, following = batch
    loss = F.mse_loss(online(x), reward + gamma * target(following).detach())
    parameters = list(online.parameters())
    for parameter, gradient in zip(parameters, torch.autograd.grad(loss, parameters)):
        parameter.grad = gradient
    optimizer.step()
    with torch.no_grad():
        for slow, fast in zip(target.parameters(), parameters):
            slow.copy_((1 - share) * slow + share * fast)
    return loss.item()


@alternative("edits through detached windows")
def bootstrap_step(online, target, optimizer, batch, gamma, share):
    x, reward, following = batch
    with torch.no_grad():
        future = target(following)
    online.zero_grad()
    error = online(x) - reward - gamma * future
    loss = error.square().mean()
    loss.backward()
    optimizer.step()
    for slow, fast in zip(target.parameters(), online.parameters()):
        slow.detach().add_(fast.detach() - slow.detach(), alpha=share)
    return loss.item()


@misconception("S12")
def bootstrap_step(online, target, optimizer, batch, gamma, share):
    x, reward, following = batch
    wanted = reward + gamma * target(following)
    loss = F.mse_loss(online(x).detach(), wanted)
    optimizer.zero_grad()
    if loss.requires_grad:
        loss.backward()
    optimizer.step()
    with torch.no_grad():
        for slow, fast in zip(target.parameters(), online.parameters()):
            slow += share * (fast - slow)
    return loss.item()


@misconception("S33")
def bootstrap_step(online, target, optimizer, batch, gamma, share):
    x, reward, following = batch
    wanted = reward + gamma * target(following)
    loss = F.mse_loss(online(x), wanted)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        for slow, fast in zip(target.parameters(), online.parameters()):
            slow += share * (fast - slow)
    return loss.item()


@misconception(
    "S33",
    "The gradients in the target were cleared after they had been computed, and where both models are one, the step "
    "was made with the gradient of both sides. Which term of the loss should send no gradient at all?",
    variant="clears them afterwards",
)
def bootstrap_step(online, target, optimizer, batch, gamma, share):
    x, reward, following = batch
    wanted = reward + gamma * target(following)
    loss = F.mse_loss(online(x), wanted)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if target is not online:
        target.zero_grad()
    with torch.no_grad():
        for slow, fast in zip(target.parameters(), online.parameters()):
            slow += share * (fast - slow)
    return loss.item()


@misconception("S13")
def bootstrap_step(online, target, optimizer, batch, gamma, share):
    x, reward, following = batch
    with torch.no_grad():
        wanted = reward + gamma * target(following)
        loss = F.mse_loss(online(x), wanted)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        for slow, fast in zip(target.parameters(), online.parameters()):
            slow += share * (fast - slow)
    return loss.item()


@misconception("S14")
def bootstrap_step(online, target, optimizer, batch, gamma, share):
    x, reward, following = batch
    with torch.inference_mode():
        wanted = reward + gamma * target(following)
    loss = F.mse_loss(online(x), wanted)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        for slow, fast in zip(target.parameters(), online.parameters()):
            slow += share * (fast - slow)
    return loss.item()


@misconception(
    "S16",
    "The name slow was bound to another tensor, and the target's own weight did not move. No error says so. Does "
    "`slow = slow + ...` edit the tensor that the model owns?",
    variant="rebinds the name",
)
def bootstrap_step(online, target, optimizer, batch, gamma, share):
    x, reward, following = batch
    with torch.no_grad():
        wanted = reward + gamma * target(following)
    loss = F.mse_loss(online(x), wanted)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        for slow, fast in zip(target.parameters(), online.parameters()):
            slow = slow + share * (fast - slow)
    return loss.item()


@misconception("G07")
def bootstrap_step(online, target, optimizer, batch, gamma, share):
    x, reward, following = batch
    with torch.no_grad():
        wanted = reward + gamma * target(following)
    loss = F.mse_loss(online(x), wanted)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    for slow, fast in zip(target.parameters(), online.parameters()):
        slow += share * (fast - slow)
    return loss.item()


@misconception(
    "S19",
    "A frozen target was averaged with tracked weights outside a block, so that its weights became results that drag a "
    "history along. Will anybody ask for the gradient of these averages?",
    variant="average recorded",
)
def bootstrap_step(online, target, optimizer, batch, gamma, share):
    x, reward, following = batch
    with torch.no_grad():
        wanted = reward + gamma * target(following)
    loss = F.mse_loss(online(x), wanted)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    for slow, fast in zip(target.parameters(), online.parameters()):
        if slow.requires_grad:
            with torch.no_grad():
                slow += share * (fast - slow)
        else:
            slow += share * (fast - slow)
    return loss.item()


@misconception("S34")
def bootstrap_step(online, target, optimizer, batch, gamma, share):
    x, reward, following = batch
    with torch.no_grad():
        wanted = reward + gamma * target(following)
    loss = F.mse_loss(online(x), wanted)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        for slow, fast in zip(target.parameters(), online.parameters()):
            slow.copy_(share * slow + (1 - share) * fast)
    return loss.item()


@misconception(
    "S34",
    "The target is a copy of the online model after this step, where it should have moved by a share of the way. A "
    "target that jumps is as restless as no target. What is `share` for?",
    variant="copies all",
)
def bootstrap_step(online, target, optimizer, batch, gamma, share):
    x, reward, following = batch
    with torch.no_grad():
        wanted = reward + gamma * target(following)
    loss = F.mse_loss(online(x), wanted)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    target.load_state_dict(copy.deepcopy(online.state_dict()))
    return loss.item()


@misconception(
    "S34",
    "The target followed before the online model made its step, and so towards weights that are gone now. In which "
    "order were the step and the following asked for?",
    variant="follows first",
)
def bootstrap_step(online, target, optimizer, batch, gamma, share):
    x, reward, following = batch
    with torch.no_grad():
        wanted = reward + gamma * target(following)
        loss_before = F.mse_loss(online(x), wanted).item()
        for slow, fast in zip(target.parameters(), online.parameters()):
            slow += share * (fast - slow)
    loss = F.mse_loss(online(x), wanted)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss_before


@misconception(
    "A19",
    "The target has new weights after this step, which nobody who held the old ones will see move. The numbers are "
    "right and the tensors are others. Who else may hold on to a parameter?",
    variant="new parameters",
)
def bootstrap_step(online, target, optimizer, batch, gamma, share):
    x, reward, following = batch
    with torch.no_grad():
        wanted = reward + gamma * target(following)
    loss = F.mse_loss(online(x), wanted)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if target is not online:
        with torch.no_grad():
            for slow, fast in zip(target.modules(), online.modules()):
                for name, weight in list(slow.named_parameters(recurse=False)):
                    moved = weight + share * (getattr(fast, name) - weight)
                    setattr(slow, name, nn.Parameter(moved, requires_grad=weight.requires_grad))
    return loss.item()


@misconception("S11")
def bootstrap_step(online, target, optimizer, batch, gamma, share):
    x, reward, following = batch
    with torch.no_grad():
        wanted = reward + gamma * target(following)
    loss = F.mse_loss(online(x), wanted).item()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        for slow, fast in zip(target.parameters(), online.parameters()):
            slow += share * (fast - slow)
    return loss


@misconception("A01")
def bootstrap_step(online, target, optimizer, batch, gamma, share):
    x, reward, following = batch
    with torch.no_grad():
        wanted = reward + gamma * target(following)
    loss = F.mse_loss(online(x), wanted)
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        for slow, fast in zip(target.parameters(), online.parameters()):
            slow += share * (fast - slow)
    return loss.item()


@misconception("A04")
def bootstrap_step(online, target, optimizer, batch, gamma, share):
    x, reward, following = batch
    with torch.no_grad():
        wanted = reward + gamma * target(following)
    loss = F.mse_loss(online(x), wanted)
    loss.backward()
    optimizer.zero_grad()
    optimizer.step()
    with torch.no_grad():
        for slow, fast in zip(target.parameters(), online.parameters()):
            slow += share * (fast - slow)
    return loss.item()


# --------------------------------------------------------------------------------------------------------- truncated


@alternative("one pass over all steps, cut at the multiples of the size and behind the last")
def truncated(cell, head, h, inputs, targets, size):
    cell.zero_grad()
    head.zero_grad()
    total, h, errors = 0.0, h.detach(), []
    for number, (x, y) in enumerate(zip(inputs, targets), 1):
        h = cell(x, h)
        errors.append(((head(h) - y) ** 2).mean())
        if number % size == 0 or number == len(inputs):
            loss = torch.stack(errors).sum() / len(inputs)
            loss.backward()
            total, h, errors = total + loss.item(), h.detach(), []
    return total, h


@alternative("a copy made in no_grad carries the value")
def truncated(cell, head, h, inputs, targets, size):
    for parameter in [*cell.parameters(), *head.parameters()]:
        parameter.grad = None
    total = torch.zeros((), dtype=h.dtype, device=h.device)
    for start in range(0, len(inputs), size):
        with torch.no_grad():
            h = h * 1
        errors = []
        for x, y in zip(inputs[start : start + size], targets[start : start + size]):
            h = cell(x, h)
            errors.append((head(h) - y).square().mean())
        loss = sum(errors) / len(inputs)
        loss.backward()
        total += loss.detach()
    return total.item(), h.detach().clone()


@alternative("each chunk's mean, weighed by its share")
def truncated(cell, head, h, inputs, targets, size):
    cell.zero_grad()
    head.zero_grad()
    total = 0.0
    for start in range(0, len(inputs), size):
        h, states, chunk = h.detach(), [], slice(start, start + size)
        for x in inputs[chunk]:
            h = cell(x, h)
            states.append(h)
        loss = F.mse_loss(head(torch.stack(states)), torch.stack(targets[chunk])) * (len(states) / len(inputs))
        loss.backward()
        total += loss.item()
    return total, h.detach()


@misconception("S20")
def truncated(cell, head, h, inputs, targets, size):
    cell.zero_grad()
    head.zero_grad()
    total, steps = 0.0, list(zip(inputs, targets))
    for start in range(0, len(steps), size):
        loss = 0.0
        for x, y in steps[start : start + size]:
            h = cell(x, h)
            loss = loss + F.mse_loss(head(h), y) / len(steps)
        loss.backward()
        total += loss.item()
    return total, h.detach()


@misconception("S15", same_as="S20")
def truncated(cell, head, h, inputs, targets, size):
    cell.zero_grad()
    head.zero_grad()
    total, steps = 0.0, list(zip(inputs, targets))
    for start in range(0, len(steps), size):
        h.detach()
        loss = 0.0
        for x, y in steps[start : start + size]:
            h = cell(x, h)
            loss = loss + F.mse_loss(head(h), y) / len(steps)
        loss.backward()
        total += loss.item()
    return total, h.detach()


@misconception(
    "S20",
    "The rope is cut at the end of each chunk, so the first chunk still hangs on whatever the first state came from, "
    "and its gradient went on into there. What may the state that is handed to this function bring along?",
    variant="cuts behind, not in front",
)
def truncated(cell, head, h, inputs, targets, size):
    cell.zero_grad()
    head.zero_grad()
    total, steps = 0.0, list(zip(inputs, targets))
    for start in range(0, len(steps), size):
        loss = 0.0
        for x, y in steps[start : start + size]:
            h = cell(x, h)
            loss = loss + F.mse_loss(head(h), y) / len(steps)
        loss.backward()
        total += loss.item()
        h = h.detach()
    return total, h


@misconception("B04")
def truncated(cell, head, h, inputs, targets, size):
    cell.zero_grad()
    head.zero_grad()
    total, steps = 0.0, list(zip(inputs, targets))
    for start in range(0, len(steps), size):
        loss = 0.0
        for x, y in steps[start : start + size]:
            h = cell(x, h)
            loss = loss + F.mse_loss(head(h), y) / len(steps)
        loss.backward(retain_graph=True)
        total += loss.item()
    return total, h.detach()


@misconception("S35")
def truncated(cell, head, h, inputs, targets, size):
    cell.zero_grad()
    head.zero_grad()
    total, steps = 0.0, list(zip(inputs, targets))
    for start in range(0, len(steps), size):
        loss = 0.0
        for x, y in steps[start : start + size]:
            h = cell(x, h.detach())
            loss = loss + F.mse_loss(head(h), y) / len(steps)
        loss.backward()
        total += loss.item()
    return total, h.detach()


@misconception("S36")
def truncated(cell, head, h, inputs, targets, size):
    cell.zero_grad()
    head.zero_grad()
    total, steps = 0.0, list(zip(inputs, targets))
    for start in range(0, len(steps), size):
        h = torch.zeros_like(h)
        loss = 0.0
        for x, y in steps[start : start + size]:
            h = cell(x, h)
            loss = loss + F.mse_loss(head(h), y) / len(steps)
        loss.backward()
        total += loss.item()
    return total, h.detach()


@misconception(
    "S36",
    "Every chunk begins with the state that was handed in, so that nothing of one chunk reaches the next, not even a "
    "number. Which of the two should cross, the value or the history?",
    variant="begins with the first state",
)
def truncated(cell, head, h, inputs, targets, size):
    cell.zero_grad()
    head.zero_grad()
    total, steps, first = 0.0, list(zip(inputs, targets)), h.detach()
    for start in range(0, len(steps), size):
        h = first
        loss = 0.0
        for x, y in steps[start : start + size]:
            h = cell(x, h)
            loss = loss + F.mse_loss(head(h), y) / len(steps)
        loss.backward()
        total += loss.item()
    return total, h.detach()


@misconception(
    "A13",
    "The gradient is right, and the losses of all chunks were added up for a single backward(), so that all their "
    "saved tensors were in memory at once. Cutting into chunks was to prevent that. When is the graph of a chunk no "
    "longer needed?",
    variant="one backward at the end",
)
def truncated(cell, head, h, inputs, targets, size):
    cell.zero_grad()
    head.zero_grad()
    loss, steps = 0.0, list(zip(inputs, targets))
    for start in range(0, len(steps), size):
        h = h.detach()
        for x, y in steps[start : start + size]:
            h = cell(x, h)
            loss = loss + F.mse_loss(head(h), y) / len(steps)
    loss.backward()
    return loss.item(), h.detach()


@misconception(
    "A09",
    "The mean of each chunk is divided by the number of chunks, so that the steps of a shorter last chunk count for "
    "more. How much should a chunk of one step count beside one of three?",
    variant="chunks counted alike",
)
def truncated(cell, head, h, inputs, targets, size):
    cell.zero_grad()
    head.zero_grad()
    total, steps = 0.0, list(zip(inputs, targets))
    chunks = len(range(0, len(steps), size))
    for start in range(0, len(steps), size):
        h = h.detach()
        loss = 0.0
        for x, y in steps[start : start + size]:
            h = cell(x, h)
            loss = loss + F.mse_loss(head(h), y) / (len(steps[start : start + size]) * chunks)
        loss.backward()
        total += loss.item()
    return total, h.detach()


@misconception(
    "A10",
    "The gradients were cleared for each chunk, and those of the last chunk alone are left. How many times are they "
    "to be cleared for one gradient over the whole sequence?",
    variant="clears in every chunk",
)
def truncated(cell, head, h, inputs, targets, size):
    total, steps = 0.0, list(zip(inputs, targets))
    for start in range(0, len(steps), size):
        cell.zero_grad()
        head.zero_grad()
        h = h.detach()
        loss = 0.0
        for x, y in steps[start : start + size]:
            h = cell(x, h)
            loss = loss + F.mse_loss(head(h), y) / len(steps)
        loss.backward()
        total += loss.item()
    return total, h.detach()


@misconception(
    "A11",
    "The steps behind the last full chunk were left out: they are in no gradient, in no loss and not in the state. "
    "What becomes of a sequence of five steps in chunks of two?",
    variant="drops the short chunk",
)
def truncated(cell, head, h, inputs, targets, size):
    cell.zero_grad()
    head.zero_grad()
    total, steps = 0.0, list(zip(inputs, targets))
    for start in range(0, len(steps) - size + 1, size):
        h = h.detach()
        loss = 0.0
        for x, y in steps[start : start + size]:
            h = cell(x, h)
            loss = loss + F.mse_loss(head(h), y) / len(steps)
        loss.backward()
        total += loss.item()
    return total, h.detach()


@misconception(
    "B07",
    "The errors of the steps are summed and not averaged, so that loss and gradient are larger by the number of "
    "entries. What is the sum divided by to make a mean over all entries?",
    variant="sums the errors",
)
def truncated(cell, head, h, inputs, targets, size):
    cell.zero_grad()
    head.zero_grad()
    total, steps = 0.0, list(zip(inputs, targets))
    for start in range(0, len(steps), size):
        h = h.detach()
        loss = 0.0
        for x, y in steps[start : start + size]:
            h = cell(x, h)
            loss = loss + F.mse_loss(head(h), y)
        loss.backward()
        total += loss.item()
    return total, h.detach()


# ---------------------------------------------------------------------------------------------------------- quantize


@alternative("the value from one term, the slope from a difference that is 0")
def quantize(x, low, high):
    limited = x.clamp(low, high)
    return limited.detach().round() + (limited - limited.detach())


@alternative("a function of its own")
def quantize(x, low, high):
    class Nearest(torch.autograd.Function):
        @staticmethod
        def forward(ctx, value):
            ctx.save_for_backward((value >= low) & (value <= high))
            return value.round().clamp(low, high)

        @staticmethod
        def backward(ctx, slope):
            (inside,) = ctx.saved_tensors
            return slope * inside

    return Nearest.apply(x)


@alternative("inside chosen by a mask")
def quantize(x, low, high):
    with torch.no_grad():
        inside = (x >= low) & (x <= high)
        numbers = x.round().clip(low, high)
        rest = numbers - torch.where(inside, x, torch.zeros_like(x))
    return torch.where(inside, x, torch.zeros_like(x)) + rest


@alternative("the result's own memory is rounded past the graph")
def quantize(x, low, high):
    limited = x.clamp(low, high)
    limited.data.round_()
    return limited


@misconception("G15")
def quantize(x, low, high):
    return x.round().clamp(low, high)


@misconception("G15", variant="rounds what was limited", same_as="G15")
def quantize(x, low, high):
    return x.clamp(low, high).round()


@misconception("S27")
def quantize(x, low, high):
    return x.clamp(low, high).round().detach()


@misconception(
    "S27",
    "The value is right and the slope has the wrong sign, because what was detached is the term that should be "
    "followed. Which of the two terms should deliver the gradient?",
    variant="detaches the other term",
)
def quantize(x, low, high):
    limited = x.clamp(low, high)
    return limited.detach() + (limited.round() - limited)


@misconception(
    "S27",
    "The slope is 1 and the value is not rounded: what was added and taken away again is the same. What is the sum of "
    "x and a bracket that is 0?",
    variant="value not rounded",
)
def quantize(x, low, high):
    limited = x.clamp(low, high)
    return limited + (limited - limited.round()).detach() * 0


@misconception("S37")
def quantize(x, low, high):
    return x + (x.round().clamp(low, high) - x).detach()


@misconception(
    "S37",
    "A value just outside the range was rounded into it first, and then let through as if it had been inside. What "
    "does the limit see of 3.2 where 3 is the highest number?",
    variant="limits the rounded value",
)
def quantize(x, low, high):
    return (x + (x.round() - x).detach()).clamp(low, high)


@misconception(
    "C07",
    "The rounded numbers were wrapped in a new tensor, so that nothing leads back to x. What is the grad_fn of a "
    "tensor that was made of a list?",
    variant="a new tensor",
)
def quantize(x, low, high):
    numbers = torch.tensor(x.clamp(low, high).round().tolist(), dtype=x.dtype, device=x.device)
    return numbers.requires_grad_()


@misconception(
    "G09",
    "The limited tensor was rounded in place, and the slope of the rounding came along: it is 0 everywhere. Which "
    "operation is still recorded between x and the result?",
    variant="rounds in place",
    same_as="G15",
)
def quantize(x, low, high):
    return x.clamp(low, high).round_()


@misconception(
    "C11",
    "The numbers were cut off towards 0 or rounded down, and not taken to the nearest. What should become of 1.6?",
    variant="rounds down",
)
def quantize(x, low, high):
    limited = x.clamp(low, high)
    return limited + (limited.floor() - limited).detach()


# ------------------------------------------------------------------------------------------------------------- quiet


@alternative("asks set_grad_enabled to do it")
class quiet(contextlib.ContextDecorator):
    def __init__(self):
        self.open = []

    def __enter__(self):
        self.open.append(torch.set_grad_enabled(False))
        return self

    def __exit__(self, *error):
        self.open.pop().__exit__(*error)

    def __call__(self, function):
        if not inspect.isgeneratorfunction(function):
            return super().__call__(function)

        @functools.wraps(function)
        def pieces(*args, **kwargs):
            steps = function(*args, **kwargs)
            try:
                while True:
                    try:
                        with self:
                            value = next(steps)
                    except StopIteration:
                        break
                    yield value
            finally:
                steps.close()

        return pieces


@alternative("a stack of blocks, and a helper that makes one piece")
class quiet:
    def __init__(self):
        self.stacks = []

    def __enter__(self):
        stack = contextlib.ExitStack()
        stack.callback(torch.set_grad_enabled, torch.is_grad_enabled())
        torch.set_grad_enabled(False)
        self.stacks.append(stack)

    def __exit__(self, *error):
        self.stacks.pop().close()
        return False

    def __call__(self, function):
        @functools.wraps(function)
        def run(*args, **kwargs):
            with quiet():
                return function(*args, **kwargs)

        @functools.wraps(function)
        def pieces(*args, **kwargs):
            steps, end = function(*args, **kwargs), object()
            one = quiet()(lambda: next(steps, end))
            yield from iter(one, end)

        return pieces if inspect.isgeneratorfunction(function) else run


@misconception("S38")
class quiet:
    def __init__(self):
        pass

    def __enter__(self):
        torch.set_grad_enabled(False)

    def __exit__(self, kind, error, traceback):
        torch.set_grad_enabled(True)

    def __call__(self, function):
        def run(*args, **kwargs):
            with self:
                return function(*args, **kwargs)

        def pieces(*args, **kwargs):
            steps, end = function(*args, **kwargs), object()
            while True:
                with self:
                    value = next(steps, end)
                if value is end:
                    return
                yield value

        return functools.wraps(function)(pieces if inspect.isgeneratorfunction(function) else run)


@misconception("S39")
class quiet:
    def __init__(self):
        self.before = None

    def __enter__(self):
        self.before = torch.is_grad_enabled()
        torch.set_grad_enabled(False)

    def __exit__(self, kind, error, traceback):
        torch.set_grad_enabled(self.before)

    def __call__(self, function):
        def run(*args, **kwargs):
            with self:
                return function(*args, **kwargs)

        def pieces(*args, **kwargs):
            steps, end = function(*args, **kwargs), object()
            while True:
                with self:
                    value = next(steps, end)
                if value is end:
                    return
                yield value

        return functools.wraps(function)(pieces if inspect.isgeneratorfunction(function) else run)


@misconception(
    "S39",
    "How recording stood is noted when the object is made, and not when its block begins. An object that is made in "
    "one place and entered in another puts back the wrong state. When does a block begin?",
    variant="notes it too early",
)
class quiet:
    def __init__(self):
        self.before = torch.is_grad_enabled()

    def __enter__(self):
        torch.set_grad_enabled(False)

    def __exit__(self, kind, error, traceback):
        torch.set_grad_enabled(self.before)

    def __call__(self, function):
        def run(*args, **kwargs):
            with self:
                return function(*args, **kwargs)

        def pieces(*args, **kwargs):
            steps, end = function(*args, **kwargs), object()
            while True:
                with self:
                    value = next(steps, end)
                if value is end:
                    return
                yield value

        return functools.wraps(function)(pieces if inspect.isgeneratorfunction(function) else run)


@misconception(
    "S30",
    "An error that left the block did not come out: what __exit__ returned was true, and Python takes that for a "
    "settled matter. What does __exit__ return where it has no return?",
    variant="exit returns True",
)
class quiet:
    def __init__(self):
        self.before = []

    def __enter__(self):
        self.before.append(torch.is_grad_enabled())
        torch.set_grad_enabled(False)

    def __exit__(self, kind, error, traceback):
        torch.set_grad_enabled(self.before.pop())
        return True

    def __call__(self, function):
        def run(*args, **kwargs):
            with self:
                return function(*args, **kwargs)

        def pieces(*args, **kwargs):
            steps, end = function(*args, **kwargs), object()
            while True:
                with self:
                    value = next(steps, end)
                if value is end:
                    return
                yield value

        return functools.wraps(function)(pieces if inspect.isgeneratorfunction(function) else run)


@misconception("S22")
class quiet:
    def __init__(self):
        self.before = []

    def __enter__(self):
        self.before.append(torch.is_grad_enabled())
        torch.set_grad_enabled(False)

    def __exit__(self, kind, error, traceback):
        torch.set_grad_enabled(self.before.pop())

    def __call__(self, function):
        def run(*args, **kwargs):
            with self:
                return function(*args, **kwargs)

        def pieces(*args, **kwargs):
            with self:
                yield from function(*args, **kwargs)

        return functools.wraps(function)(pieces if inspect.isgeneratorfunction(function) else run)


@misconception(
    "S22",
    "The generator's body was recorded. Calling a generator function runs nothing of it, so the block was over before "
    "the first piece began. When does the body of a generator run?",
    variant="block around the call",
)
class quiet:
    def __init__(self):
        self.before = []

    def __enter__(self):
        self.before.append(torch.is_grad_enabled())
        torch.set_grad_enabled(False)

    def __exit__(self, kind, error, traceback):
        torch.set_grad_enabled(self.before.pop())

    def __call__(self, function):
        @functools.wraps(function)
        def run(*args, **kwargs):
            with self:
                return function(*args, **kwargs)

        return run


@misconception(
    "S22",
    "The generator's body was recorded, for a call of a generator function runs nothing of it, and the block was over "
    "before the first piece began. Besides, what is decorated goes by the name of its wrapper. When does the body of a "
    "generator run?",
    variant="block around the call, and no name",
)
class quiet:
    def __init__(self):
        self.before = []

    def __enter__(self):
        self.before.append(torch.is_grad_enabled())
        torch.set_grad_enabled(False)

    def __exit__(self, kind, error, traceback):
        torch.set_grad_enabled(self.before.pop())

    def __call__(self, function):
        def run(*args, **kwargs):
            with self:
                return function(*args, **kwargs)

        return run


@misconception(
    "S22",
    "All pieces of the generator were made at once, before the first was asked for, and what it closes was closed for "
    "a caller who stops early only after everything had run. How many pieces does a caller want who leaves after the "
    "first?",
    variant="makes all pieces at once",
)
class quiet:
    def __init__(self):
        self.before = []

    def __enter__(self):
        self.before.append(torch.is_grad_enabled())
        torch.set_grad_enabled(False)

    def __exit__(self, kind, error, traceback):
        torch.set_grad_enabled(self.before.pop())

    def __call__(self, function):
        def run(*args, **kwargs):
            with self:
                return function(*args, **kwargs)

        def pieces(*args, **kwargs):
            with self:
                values = list(function(*args, **kwargs))
            yield from values

        return functools.wraps(function)(pieces if inspect.isgeneratorfunction(function) else run)


@misconception(
    "S04",
    "An error in the function left the switch off: it is put back in a line that is not reached then. Which construct "
    "runs its last part whatever happens?",
    variant="decorator without a block",
)
class quiet:
    def __init__(self):
        self.before = []

    def __enter__(self):
        self.before.append(torch.is_grad_enabled())
        torch.set_grad_enabled(False)

    def __exit__(self, kind, error, traceback):
        torch.set_grad_enabled(self.before.pop())

    def __call__(self, function):
        def run(*args, **kwargs):
            self.__enter__()
            result = function(*args, **kwargs)
            self.__exit__(None, None, None)
            return result

        def pieces(*args, **kwargs):
            steps, end = function(*args, **kwargs), object()
            while True:
                with self:
                    value = next(steps, end)
                if value is end:
                    return
                yield value

        return functools.wraps(function)(pieces if inspect.isgeneratorfunction(function) else run)


@misconception(
    "S02",
    "The object does nothing at the beginning of its block; the switch is turned when the object is made, and stays "
    "off between. When should the switch turn: where quiet() is called, or where its block begins?",
    variant="turns it when made",
)
class quiet:
    def __init__(self):
        self.before = [torch.is_grad_enabled()]
        torch.set_grad_enabled(False)

    def __enter__(self):
        return self

    def __exit__(self, kind, error, traceback):
        torch.set_grad_enabled(self.before[0])

    def __call__(self, function):
        def run(*args, **kwargs):
            with self:
                return function(*args, **kwargs)

        def pieces(*args, **kwargs):
            steps, end = function(*args, **kwargs), object()
            while True:
                with self:
                    value = next(steps, end)
                if value is end:
                    return
                yield value

        return functools.wraps(function)(pieces if inspect.isgeneratorfunction(function) else run)


@misconception("S48")
class quiet:
    def __init__(self):
        self.before = []

    def __enter__(self):
        self.before.append(torch.is_grad_enabled())
        torch.set_grad_enabled(False)

    def __exit__(self, kind, error, traceback):
        torch.set_grad_enabled(self.before.pop())

    def __call__(self, function):
        def run(*args, **kwargs):
            with self:
                return function(*args, **kwargs)

        def pieces(*args, **kwargs):
            steps, end = function(*args, **kwargs), object()
            while True:
                with self:
                    value = next(steps, end)
                if value is end:
                    return
                yield value

        return pieces if inspect.isgeneratorfunction(function) else run


# --------------------------------------------------------------------------------------------------------- find_leak


@alternative("counts of streaks")
def find_leak(step, state, steps):
    last, streaks = {}, {}
    for _ in range(steps):
        step(state)
        for name in state:
            held = memory.held_by(state[name])
            for what, count in (("tensors", held.bytes), ("nodes", held.nodes)):
                grows = count > last.get((name, what), 0)
                streaks[name, what] = streaks.get((name, what), 0) + 1 if grows else 0
                last[name, what] = count
    return {
        name: next(what for what in ("tensors", "nodes") if streaks[name, what] >= steps // 2)
        for name in state
        if max(streaks[name, "tensors"], streaks[name, "nodes"]) >= steps // 2
    }


@alternative("differences in NumPy")
def find_leak(step, state, steps):
    table = {}
    for number in range(steps):
        step(state)
        for name, value in state.items():
            held = memory.held_by(value)
            table.setdefault(name, numpy.zeros((steps, 2)))[number] = held.nodes, held.bytes
    leaks = {}
    for name, counts in table.items():
        grows = (numpy.diff(counts, axis=0)[-(steps // 2) :] > 0).all(axis=0)
        if grows.any():
            leaks[name] = "tensors" if grows[1] else "nodes"
    return leaks


@misconception("S40")
def find_leak(step, state, steps):
    notes = []
    for _ in range(steps):
        step(state)
        kept = {name: memory.held_by(value) for name, value in state.items()}
        notes.append({name: (held.bytes, held.nodes) for name, held in kept.items()})
    leaks = {}
    for name in state:
        first, last = notes[0].get(name, (0, 0)), notes[-1][name]
        if last[0] > first[0]:
            leaks[name] = "tensors"
        elif last[1] > first[1]:
            leaks[name] = "nodes"
    return leaks


@misconception(
    "S40",
    "What fills up during the first steps and stays is reported here. Growth was asked for in the second half alone. "
    "For how many steps does a window over the last three losses grow?",
    variant="any growth at all",
)
def find_leak(step, state, steps):
    notes = []
    for _ in range(steps):
        step(state)
        kept = {name: memory.held_by(value) for name, value in state.items()}
        notes.append({name: (held.bytes, held.nodes) for name, held in kept.items()})
    leaks = {}
    for name in state:
        counts = [note.get(name, (0, 0)) for note in notes]
        for place, what in ((1, "nodes"), (0, "tensors")):
            if any(before[place] < after[place] for before, after in itertools.pairwise(counts)):
                leaks[name] = what
    return leaks


@misconception(
    "S40",
    "A list that is emptied now and then is reported, because it was longer in the last step than in the middle. What "
    "does it look like from one step to the next?",
    variant="middle against last",
)
def find_leak(step, state, steps):
    notes = []
    for _ in range(steps):
        step(state)
        kept = {name: memory.held_by(value) for name, value in state.items()}
        notes.append({name: (held.bytes, held.nodes) for name, held in kept.items()})
    leaks = {}
    for name in state:
        counts = [note.get(name, (0, 0)) for note in notes[steps // 2 - 1 :]]
        for place, what in ((1, "nodes"), (0, "tensors")):
            if any(before[place] < after[place] for before, after in itertools.pairwise(counts)):
                leaks[name] = what
    return leaks


@misconception("S41")
def find_leak(step, state, steps):
    notes = []
    for _ in range(steps):
        step(state)
        notes.append({name: memory.held_by(value).bytes for name, value in state.items()})
    leaks = {}
    for name in state:
        counts = [note.get(name, 0) for note in notes[steps // 2 - 1 :]]
        if all(before < after for before, after in itertools.pairwise(counts)):
            leaks[name] = "tensors"
    return leaks


@misconception(
    "S41",
    "Nodes alone were counted, so that every leak is reported as one of nodes. Which of the leaks would fill the "
    "memory first?",
    variant="nodes alone",
)
def find_leak(step, state, steps):
    notes = []
    for _ in range(steps):
        step(state)
        notes.append({name: memory.held_by(value).nodes for name, value in state.items()})
    leaks = {}
    for name in state:
        counts = [note.get(name, 0) for note in notes[steps // 2 - 1 :]]
        if all(before < after for before, after in itertools.pairwise(counts)):
            leaks[name] = "nodes"
    return leaks


@misconception(
    "S07",
    "The entries of lists were counted, and not what hangs on them. A list of numbers grows for ever and leaks nothing "
    "that graphs hold. What does memory.held_by say of a list of floats?",
    variant="counts entries",
)
def find_leak(step, state, steps):
    notes = []
    for _ in range(steps):
        step(state)
        notes.append({name: len(value) if isinstance(value, list) else 0 for name, value in state.items()})
    leaks = {}
    for name in state:
        counts = [note.get(name, 0) for note in notes[steps // 2 - 1 :]]
        if all(before < after for before, after in itertools.pairwise(counts)):
            leaks[name] = "tensors"
    return leaks


@misconception("S42")
def find_leak(step, state, steps):
    snapshots = []
    for _ in range(steps):
        step(state)
        snapshots.append({name: [*value] if isinstance(value, list) else value for name, value in state.items()})
    notes = []
    for snapshot in snapshots:
        kept = {name: memory.held_by(value) for name, value in snapshot.items()}
        notes.append({name: (held.bytes, held.nodes) for name, held in kept.items()})
    leaks = {}
    for name in state:
        counts = [note.get(name, (0, 0)) for note in notes[steps // 2 - 1 :]]
        for place, what in ((1, "nodes"), (0, "tensors")):
            if all(before[place] < after[place] for before, after in itertools.pairwise(counts)):
                leaks[name] = what
    return leaks


@misconception("D19")
def find_leak(step, state, steps):
    in_use = []
    for _ in range(steps):
        step(state)
        in_use.append(torch.cuda.memory_allocated() if torch.cuda.is_available() else 0)
    late = in_use[steps // 2 - 1 :]
    grows = all(before < after for before, after in itertools.pairwise(late))
    return dict.fromkeys(state, "tensors") if grows else {}


@misconception(
    "S43",
    "What all entries hold together was measured, and the growth put down to every one of them. Which single entry "
    "grows?",
    variant="blames all",
)
def find_leak(step, state, steps):
    notes = []
    for _ in range(steps):
        step(state)
        held = memory.held_by(state)
        notes.append((held.bytes, held.nodes))
    late = notes[steps // 2 - 1 :]
    for place, what in ((0, "tensors"), (1, "nodes")):
        if all(before[place] < after[place] for before, after in itertools.pairwise(late)):
            return dict.fromkeys(state, what)
    return {}


@misconception(
    "A01",
    "backward() was called on what the loop keeps, so that gradients of the detector's own were added to those of the "
    "loop. Does a look at a graph need a backward()?",
    variant="goes backward to look",
)
def find_leak(step, state, steps):
    notes = []
    for _ in range(steps):
        step(state)
        kept = {name: memory.held_by(value) for name, value in state.items()}
        notes.append({name: (held.bytes, held.nodes) for name, held in kept.items()})
    leaks = {}
    for name in state:
        counts = [note.get(name, (0, 0)) for note in notes[steps // 2 - 1 :]]
        for place, what in ((1, "nodes"), (0, "tensors")):
            if all(before[place] < after[place] for before, after in itertools.pairwise(counts)):
                leaks[name] = what
    for name in leaks:
        held = state[name][-1] if isinstance(state[name], list) else state[name]
        if leaks[name] == "tensors" and isinstance(held, torch.Tensor):
            held.backward(retain_graph=True)
    return leaks


# -------------------------------------------------------------------------------------------------------- suspicious


@alternative("Adam, dropout, and a twin of the model")
def suspicious(train):
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(2, 6), nn.Dropout(0.3), nn.BatchNorm1d(6), nn.Linear(6, 1))
    batches = [(torch.randn(rows, 2), torch.randn(rows, 1)) for rows in (4, 7, 5, 6)]
    results = []
    for loop in (train, plain):
        twin = copy.deepcopy(model)
        optimizer = torch.optim.Adam(twin.parameters(), lr=0.05)
        torch.manual_seed(2)
        losses = loop(twin, optimizer, F.mse_loss, list(batches))
        recorded = torch.is_grad_enabled()
        torch.set_grad_enabled(True)
        values = [tensor.double().flatten() for tensor in twin.state_dict().values()]
        flags = [module.training for module in twin.modules()]
        results.append((recorded, flags, torch.cat([*values, torch.tensor(losses, dtype=torch.float64)])))
    mine, known = results
    return not (mine[:2] == known[:2] and bool(torch.isclose(mine[2], known[2]).all()))


@alternative("in turns, one reason after the other")
def suspicious(train):
    def built():
        torch.manual_seed(3)
        model = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.BatchNorm1d(5), nn.Linear(5, 3))
        data = [(torch.randn(6, 4), torch.randint(3, (6,))) for _ in range(3)]
        return model, torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.8), F.cross_entropy, data

    mine, known = built(), built()
    expected = plain(*known)
    try:
        losses = train(*mine)
        if not torch.is_grad_enabled():
            return True
    finally:
        torch.set_grad_enabled(True)
    if not numpy.allclose(losses, expected, rtol=1e-4):
        return True
    if not all(module.training for module in mine[0].modules()):
        return True
    state = known[0].state_dict()
    return any(not torch.allclose(value, state[name]) for name, value in mine[0].state_dict().items())


@misconception("S44")
def suspicious(train):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Tanh(), nn.Linear(4, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.5)
    x, y = torch.randn(20, 3), torch.randn(20, 2)
    with torch.enable_grad():
        losses = train(model, optimizer, F.mse_loss, [(x, y)] * 30)
    return not losses[-1] < losses[0]


@misconception("S45")
def suspicious(train):
    def left_by(loop):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Tanh(), nn.Linear(4, 2))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        batches = [(torch.randn(5, 3), torch.randn(5, 2)) for _ in range(3)]
        with torch.enable_grad():
            losses = loop(model, optimizer, F.mse_loss, batches)
            switches = [torch.is_grad_enabled(), *(module.training for module in model.modules())]
        return switches, torch.tensor(losses), *model.state_dict().values()

    (switches, *tensors), (known, *others) = left_by(train), left_by(plain)
    return switches != known or not all(map(torch.allclose, tensors, others))


@misconception(
    "S45",
    "The model of this probe has no layer that keeps statistics or minds its flag, so that a loop that treats such "
    "layers wrongly comes out right. Which layers behave differently in evaluation?",
    variant="no layer with a flag",
)
def suspicious(train):
    def left_by(loop):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        batches = [(torch.randn(5, 3), torch.randn(5, 2)) for _ in range(3)]
        with torch.enable_grad():
            losses = loop(model, optimizer, F.mse_loss, batches)
            switches = [torch.is_grad_enabled(), *(module.training for module in model.modules())]
        return switches, torch.tensor(losses), *model.state_dict().values()

    (switches, *tensors), (known, *others) = left_by(train), left_by(plain)
    return switches != known or not all(map(torch.allclose, tensors, others))


@misconception(
    "S45",
    "The probe hands over a single batch. What is forgotten or left over between two steps cannot show in one. How "
    "many batches does a loop need to show that it never clears?",
    variant="a single batch",
)
def suspicious(train):
    def left_by(loop):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Tanh(), nn.Linear(4, 2))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        batches = [(torch.randn(5, 3), torch.randn(5, 2))]
        with torch.enable_grad():
            losses = loop(model, optimizer, F.mse_loss, batches)
            switches = [torch.is_grad_enabled(), *(module.training for module in model.modules())]
        return switches, torch.tensor(losses), *model.state_dict().values()

    (switches, *tensors), (known, *others) = left_by(train), left_by(plain)
    return switches != known or not all(map(torch.allclose, tensors, others))


@misconception(
    "S46",
    "Only the parameters were compared. Running statistics are no parameters, and a loop that moves them behind "
    "everybody's back passes. What does model.state_dict() hold beside the parameters?",
    variant="parameters alone",
)
def suspicious(train):
    def left_by(loop):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Tanh(), nn.Linear(4, 2))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        batches = [(torch.randn(5, 3), torch.randn(5, 2)) for _ in range(3)]
        with torch.enable_grad():
            loop(model, optimizer, F.mse_loss, batches)
            switches = [torch.is_grad_enabled(), *(module.training for module in model.modules())]
        return switches, [parameter.detach() for parameter in model.parameters()]

    (switches, tensors), (known, others) = left_by(train), left_by(plain)
    return switches != known or not all(map(torch.allclose, tensors, others))


@misconception("S46")
def suspicious(train):
    def left_by(loop):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Tanh(), nn.Linear(4, 2))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        batches = [(torch.randn(5, 3), torch.randn(5, 2)) for _ in range(3)]
        with torch.enable_grad():
            losses = loop(model, optimizer, F.mse_loss, batches)
        return torch.tensor(losses), *model.state_dict().values()

    return not all(map(torch.allclose, left_by(train), left_by(plain)))


@misconception(
    "S04",
    "A loop that leaves recording switched off was told from the others, and the switch stays off after the call of "
    "the probe as well. Who puts it back?",
    variant="catches it and leaves it",
)
def suspicious(train):
    def left_by(loop):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Tanh(), nn.Linear(4, 2))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        batches = [(torch.randn(5, 3), torch.randn(5, 2)) for _ in range(3)]
        losses = loop(model, optimizer, F.mse_loss, batches)
        switches = [torch.is_grad_enabled(), *(module.training for module in model.modules())]
        return switches, torch.tensor(losses), *model.state_dict().values()

    (known, *others), (switches, *tensors) = left_by(plain), left_by(train)
    return switches != known or not all(map(torch.allclose, tensors, others))


@misconception("S47")
def suspicious(train):
    def left_by(loop):
        model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Tanh(), nn.Linear(4, 2))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        batches = [(torch.randn(5, 3), torch.randn(5, 2)) for _ in range(3)]
        with torch.enable_grad():
            losses = loop(model, optimizer, F.mse_loss, batches)
            switches = [torch.is_grad_enabled(), *(module.training for module in model.modules())]
        return switches, torch.tensor(losses), *model.state_dict().values()

    (switches, *tensors), (known, *others) = left_by(train), left_by(plain)
    return switches != known or not all(map(torch.allclose, tensors, others))


@misconception(
    "S47",
    "The loop was compared with itself: two runs of one program from one beginning agree, right or wrong. Which loop "
    "is known to be right here?",
    variant="compares it with itself",
)
def suspicious(train):
    def left_by(loop):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Tanh(), nn.Linear(4, 2))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        batches = [(torch.randn(5, 3), torch.randn(5, 2)) for _ in range(3)]
        with torch.enable_grad():
            losses = loop(model, optimizer, F.mse_loss, batches)
        return torch.tensor(losses), *model.state_dict().values()

    return not all(map(torch.allclose, left_by(train), left_by(train)))
