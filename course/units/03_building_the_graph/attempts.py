"""What people hand in for the exercises of unit 3: wrong programs by their IDs, and other right ones."""

from autogradlab.exercises import alternative, misconception, reference

# ----------------------------------------------------------------------------------------------------- read_tape


def facts(tensor):
    """The three answers about one tensor."""
    made_by = tensor.grad_fn and tensor.grad_fn.name().split("Backward")[0]
    return [tensor.requires_grad, tensor.is_leaf, made_by]


def played(variant, **changed):
    """The answers of a variant, those of the changed names computed from the right ones."""
    names, answers = {"torch": torch}, []
    for name, line in cases.tape(variant):
        exec(line, names)
        answer = facts(names[name])
        answers.append(changed[name](answer) if name in changed else answer)
    return answers


@reference
def read_tape(variant):
    return played(variant)


@alternative("tuples")
def read_tape(variant):
    return [tuple(answer) for answer in played(variant)]


@alternative("worked out on paper")
def read_tape(variant):
    lines = dict(cases.tape(variant))
    bare, flagged = (False, True, None), (True, True, None)
    operation = {"+": "Add", "-": "Sub", "*": "Mul"}[lines["z"].split()[3]]
    level, bound = (int(lines[name].split("(")[1].split(".")[0]) for name in ("w", "x"))
    taken = "Mul" if level > int(lines["t"].split()[-1]) else "Exp"
    assert bound > 0
    results = [(True, False, operation), (True, False, "Clone")]
    return [flagged, bare, bare, *results, bare, bare, bare, flagged, (True, False, "ToCopy"), (True, False, taken)]


@misconception(
    "G02",
    "Here nothing has a grad_fn, because nobody called backward(). The record is made while the program walks "
    "forward. What does z.grad_fn print right after the line of z?",
    variant="no graph yet",
)
def read_tape(variant):
    def unrecorded(answer):
        return [*answer[:2], None]

    return played(variant, z=unrecorded, u=unrecorded, q=unrecorded, p=unrecorded)


@misconception(
    "G03",
    "Tensors that were computed are no leaves in these answers, whether anything was recorded or not. A product "
    "of two untracked tensors has no history. What is its grad_fn?",
    variant="computed is no leaf",
)
def read_tape(variant):
    def computed(answer):
        return [answer[0], False, answer[2]]

    return played(variant, y=computed, v=computed, t=computed, s=computed)


@misconception(
    "G03",
    "The tensor that double() returns is called a leaf here, because its line begins with torch.tensor. Two "
    "tensors are made in that line. Which of them does q name?",
    variant="made in one line",
)
def read_tape(variant):
    return played(variant, q=lambda answer: [True, True, None])


@misconception(
    "G04",
    "These answers call a tensor tracked as soon as a tracked one went into its line, and keep it a leaf. A "
    "tracked leaf and a tracked result differ. Into which of them does backward() put a .grad?",
    variant="tracked results as leaves",
)
def read_tape(variant):
    def leaf(answer):
        return [answer[0], True, answer[2]]

    return played(variant, z=leaf, u=leaf, q=leaf, p=leaf)


@misconception(
    "G14",
    "Here the comparison is recorded like a product. It gives True or False, and a small change of w moves "
    "neither. What does (w > 1).grad_fn print?",
    variant="comparison recorded",
)
def read_tape(variant):
    return played(variant, t=lambda answer: [True, False, "Gt"])


@misconception("G20", variant="clone cuts")
def read_tape(variant):
    return played(variant, u=lambda answer: [False, True, None])


@misconception("G21", variant="flag ignored")
def read_tape(variant):
    return played(variant, r=lambda answer: [False, True, None])


@misconception(
    "G21",
    "An operation inside a no_grad block is recorded in these answers. The block stops exactly that, whatever "
    "goes in. What does the result of w * 2 show as its grad_fn when it is computed there?",
    variant="block ignored",
)
def read_tape(variant):
    return played(variant, s=lambda answer: [True, False, "Exp"])


@misconception("G23", variant="branch unrecorded")
def read_tape(variant):
    return played(variant, p=lambda answer: [False, True, None])


@misconception(
    "G23",
    "The operation that is named belongs to the branch that did not run. Autograd is shown what runs and nothing "
    "else. What does the condition give for this w?",
    variant="branch not taken",
)
def read_tape(variant):
    return played(variant, p=lambda answer: [True, False, {"Mul": "Exp", "Exp": "Mul"}[answer[2]]])


# --------------------------------------------------------------------------------------------------- scaled_leaf


@alternative("scales without recording")
def scaled_leaf(initial, scale):
    with torch.no_grad():
        w = initial * scale
    w.requires_grad = True
    return w


@alternative("a copy that is scaled in place")
def scaled_leaf(initial, scale):
    w = initial.detach().clone()
    w.mul_(scale)
    return w.requires_grad_(True)


@alternative("detaches the product")
def scaled_leaf(initial, scale):
    product = initial * scale
    return product.detach().requires_grad_()


@alternative("a new tensor from the numbers")
def scaled_leaf(initial, scale):
    return torch.tensor((initial * scale).tolist(), dtype=initial.dtype, device=initial.device, requires_grad=True)


@misconception("G05", variant="flags the caller's tensor")
def scaled_leaf(initial, scale):
    return initial.requires_grad_() * scale


@misconception("G05")
def scaled_leaf(initial, scale):
    return initial.detach().clone().requires_grad_() * scale


@misconception(
    "G03",
    "The product comes back as it is. Where `initial` is not tracked that is a leaf without a flag, and elsewhere "
    "a result with a history. What does `backward()` find in each of the two cases?",
    variant="returns the product",
)
def scaled_leaf(initial, scale):
    return initial * scale


@misconception("G18")
def scaled_leaf(initial, scale):
    w = initial * scale
    w.requires_grad = False
    w.requires_grad = True
    return w


@misconception(
    "G18",
    "requires_grad_() changes nothing on a tensor that is tracked already, and a result stays a result. Where "
    "`initial` was tracked, no leaf comes back. Which call leaves the history behind?",
    variant="flags the product",
)
def scaled_leaf(initial, scale):
    return (initial * scale).requires_grad_()


@misconception("G20", same_as="G18")
def scaled_leaf(initial, scale):
    return (initial * scale).clone().requires_grad_()


@misconception(
    "G07",
    "The values are scaled in place, in the caller's own tensor; where that is a tracked leaf torch raises an "
    "error. Whose numbers are those?",
    variant="scales the caller's leaf",
)
def scaled_leaf(initial, scale):
    initial *= scale
    return initial.detach().clone().requires_grad_()


@misconception(
    "G10",
    "Through .data the caller's own numbers are scaled, and no error says so. What does `initial` hold after the call?",
    variant="scales through data",
)
def scaled_leaf(initial, scale):
    initial.data.mul_(scale)
    return initial.detach().clone().requires_grad_()


@misconception(
    "G16",
    "A leaf comes back on which nothing is recorded: its flag was never set. What will the next operation on it "
    "write down?",
    variant="never flagged",
)
def scaled_leaf(initial, scale):
    return initial.detach() * scale


@misconception(
    "G06",
    "Where the scale is 1 the tensor that comes back lies on the memory of `initial`. Each update of the weights "
    "then changes both. Which operations make new memory?",
    variant="a window on the values",
)
def scaled_leaf(initial, scale):
    if scale == 1:
        return initial.detach().requires_grad_()
    return (initial.detach() * scale).requires_grad_()


# --------------------------------------------------------------------------------------------------- count_nodes


@alternative("breadth first")
def count_nodes(tensor):
    if tensor.grad_fn is None:
        return 0
    seen, queue = {tensor.grad_fn}, [tensor.grad_fn]
    while queue:
        for following, _ in queue.pop(0).next_functions:
            if following is not None and following not in seen:
                seen.add(following)
                queue.append(following)
    return len(seen)


@alternative("a list that grows while it is walked")
def count_nodes(tensor):
    order = [] if tensor.grad_fn is None else [tensor.grad_fn]
    known = dict.fromkeys(order)
    for node in order:
        new = [following for following, _ in node.next_functions if following is not None]
        order += [one for one in dict.fromkeys(new) if one not in known]
        known.update(dict.fromkeys(new))
    return len(order)


@alternative("level by level, with None thrown out at the end")
def count_nodes(tensor):
    level, seen = {tensor.grad_fn} - {None}, set()
    while level:
        seen |= level
        level = {following for node in level for following, _ in node.next_functions} - seen - {None}
    return len(seen)


@misconception("G27")
def count_nodes(tensor):
    count, waiting = 0, [tensor.grad_fn]
    while waiting:
        node = waiting.pop()
        if node is not None:
            count += 1
            waiting += [following for following, _ in node.next_functions]
    return count


@misconception(
    "G27",
    "Each node is visited once, by a function that calls itself for the next. A graph can be thousands of nodes "
    "deep, and Python bounds how many calls may wait for each other. Where could the nodes that wait be kept?",
    variant="calls itself",
)
def count_nodes(tensor):
    seen = set()

    def visit(node):
        if node is not None and node not in seen:
            seen.add(node)
            for following, _ in node.next_functions:
                visit(following)

    visit(tensor.grad_fn)
    return len(seen)


@misconception("G25")
def count_nodes(tensor):
    seen, waiting = set(), [tensor.grad_fn]
    while waiting:
        node = waiting.pop()
        if node not in seen:
            seen.add(node)
            waiting += [following for following, _ in node.next_functions]
    return len(seen)


@misconception(
    "G25",
    "The None at the end of an edge is counted as if it were a node. It says that nothing there is tracked. What "
    "would backward() hand to it?",
    variant="counts None",
)
def count_nodes(tensor):
    seen, waiting = set(), [tensor.grad_fn]
    while waiting:
        node = waiting.pop()
        if node not in seen:
            seen.add(node)
            if node is not None:
                waiting += [following for following, _ in node.next_functions]
    return len(seen)


@misconception(
    "G25",
    "A tensor without a grad_fn raises an error here. There is no first node from which the walk could begin. How"
    " many nodes are behind it?",
    variant="no first node",
)
def count_nodes(tensor):
    seen, waiting = {tensor.grad_fn}, [tensor.grad_fn]
    while waiting:
        for following, _ in waiting.pop().next_functions:
            if following is not None and following not in seen:
                seen.add(following)
                waiting.append(following)
    return len(seen)


@misconception("G01")
def count_nodes(tensor):
    seen, waiting = set(), [tensor]
    while waiting:
        tensor = waiting.pop()
        if tensor.grad_fn is not None and tensor not in seen:
            seen.add(tensor)
            waiting += [following for following, _ in tensor.grad_fn.next_functions]
    return len(seen)


@misconception("G24")
def count_nodes(tensor):
    seen, waiting = set(), [(tensor.grad_fn, 0)]
    while waiting:
        node, index = waiting.pop()
        if node is not None and (node, index) not in seen:
            seen.add((node, index))
            waiting += node.next_functions
    return len(seen)


@misconception("G28")
def count_nodes(tensor):
    count, node = 0, tensor.grad_fn
    while node is not None:
        count += 1
        node = node.next_functions[0][0] if node.next_functions else None
    return count


@misconception("G29")
def count_nodes(tensor):
    names, waiting = set(), [tensor.grad_fn]
    while waiting:
        node = waiting.pop()
        if node is not None and node.name() not in names:
            names.add(node.name())
            waiting += [following for following, _ in node.next_functions]
    return len(names)


@misconception("G30")
def count_nodes(tensor):
    seen, waiting = set(), [tensor.grad_fn]
    while waiting:
        node = waiting.pop()
        if node is not None and node not in seen and not hasattr(node, "variable"):
            seen.add(node)
            waiting += [following for following, _ in node.next_functions]
    return len(seen)


# -------------------------------------------------------------------------------------------------------- edited


@alternative("tries each piece and compares")
def edited(piece):
    values = [0.75, 1.5, 1.9]
    x = torch.tensor(values, requires_grad=True)
    try:
        cases.edits[piece](x).backward()
    except RuntimeError:
        return "raises"
    right = {
        "A": [6.0] * 3,
        "F": [0.0, *map(math.exp, values[1:])],
        "H": [6 * value for value in values],
    }.get(piece, [math.exp(value) for value in values])
    return "right" if torch.allclose(x.grad, torch.tensor(right)) else "wrong"


@alternative("three groups")
def edited(piece):
    if piece in "BEG":
        return "raises"
    return "wrong" if piece in ("C", "D") else "right"


@misconception(
    "G08",
    "Every edit in place is taken to raise an error, or to spoil the gradient. Pieces A, F and H run and leave "
    "the right gradient. Does any node still need the values that are overwritten there?",
    variant="all of them raise",
)
def edited(piece):
    return "raises"


@misconception(
    "G08",
    "Piece F is taken to raise an error. It writes into the result of clone(). What does a copy need of its own "
    "values to go backward?",
    variant="index edit raises",
)
def edited(piece):
    return "raises" if piece == "F" else "raises" if piece in "BEG" else "wrong" if piece in "CD" else "right"


@misconception(
    "G08",
    "Piece H is taken to raise an error. The product keeps its inputs, x, and the edit overwrites its output. "
    "What does the sum of y * 3 need of y?",
    variant="output edit raises",
)
def edited(piece):
    return "raises" if piece in "BEGH" else "wrong" if piece in "CD" else "right"


@misconception(
    "G09",
    "The pieces that write over the output of exp and of relu are taken to run. These two keep their output for "
    "the way back, and the version tells that it changed. At which version was it kept?",
    variant="outputs may change",
)
def edited(piece):
    return "right" if piece in "BG" else "raises" if piece == "E" else "wrong" if piece in "CD" else "right"


@misconception(
    "G09",
    "Piece G is taken to run: relu's slope is 0 or 1, as if it needed no values. It has kept its output to know "
    "which. What did the += do to that output?",
    variant="relu keeps nothing",
)
def edited(piece):
    return "raises" if piece in "BE" else "wrong" if piece in "CD" else "right"


@misconception(
    "G09",
    "The pieces that write over a kept output are taken to leave a wrong gradient without a word. Their version "
    "has moved, and a node compares it. What does backward() do when the two numbers differ?",
    variant="silently wrong",
)
def edited(piece):
    return "wrong" if piece in "BEGCD" else "right"


@misconception(
    "G10",
    "The write through .data is taken to be harmless. It reaches the numbers that exp kept for its slope. Which "
    "numbers does backward() multiply with?",
    variant="data is harmless",
)
def edited(piece):
    return "raises" if piece in "BEG" else "wrong" if piece == "D" else "right"


@misconception(
    "G10",
    "The write through .data is taken to raise an error. It goes past the version counter. What does y._version "
    "show before and after it?",
    variant="data is watched",
)
def edited(piece):
    return "raises" if piece in "BEGC" else "wrong" if piece == "D" else "right"


@misconception(
    "G10",
    "The write through detach() is taken to go unnoticed, as one through .data does. A detached tensor shares the"
    " memory and the version counter. What does y._version show after the write?",
    variant="detach like data",
)
def edited(piece):
    return "raises" if piece in "BG" else "wrong" if piece in "CDE" else "right"


@misconception(
    "G11",
    "The array is taken for a copy, so that writing into it would leave y alone. numpy() opens a window on the "
    "same memory. What does y show after the write?",
    variant="array as a copy",
)
def edited(piece):
    return "raises" if piece in "BEG" else "wrong" if piece == "C" else "right"


@misconception(
    "G11",
    "The write through NumPy is taken to raise an error. NumPy knows nothing of version counters. What does "
    "y._version show before and after it?",
    variant="NumPy is watched",
)
def edited(piece):
    return "raises" if piece in "BEGD" else "wrong" if piece == "C" else "right"


# --------------------------------------------------------------------------------------------------- saved_bytes


@alternative("addresses and sizes in a set")
def saved_bytes(build, parameters):
    def key(tensor):
        return tensor.untyped_storage().data_ptr(), tensor.untyped_storage().nbytes()

    own, kept = {key(parameter) for parameter in parameters}, set()

    def pack(tensor):
        kept.add(key(tensor))
        return tensor.detach()

    def unpack(tensor):
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
        build()
    return sum(size for _, size in kept - own)


@alternative("reads the attributes of every node")
def saved_bytes(build, parameters):
    def address(tensor):
        return tensor.untyped_storage().data_ptr()

    seen, waiting, sizes = set(), [build().grad_fn], {}
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        waiting += [following for following, _ in node.next_functions]
        for name in dir(node):
            saved = getattr(node, name) if name.startswith("_saved_") else None
            if isinstance(saved, torch.Tensor) and address(saved) not in map(address, parameters):
                sizes[address(saved)] = saved.untyped_storage().nbytes()
    return sum(sizes.values())


@alternative("numbers stand for what is kept")
def saved_bytes(build, parameters):
    kept, sizes = [], {}

    def pack(tensor):
        kept.append(tensor.detach())
        return len(kept) - 1

    with torch.autograd.graph.saved_tensors_hooks(pack, kept.__getitem__):
        loss = build()
    own = [parameter.untyped_storage().data_ptr() for parameter in parameters]
    for tensor in kept:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            sizes[storage.data_ptr()] = len(storage)
    del loss
    return sum(sizes.values())


@misconception("G31")
def saved_bytes(build, parameters):
    own, sizes = {parameter.untyped_storage().data_ptr() for parameter in parameters}, []

    def look(tensor):
        if tensor.untyped_storage().data_ptr() not in own:
            sizes.append(tensor.untyped_storage().nbytes())
        return tensor.detach()

    with torch.autograd.graph.saved_tensors_hooks(look, lambda kept: kept):
        build()
    return sum(sizes)


@misconception(
    "G31",
    "Of a view only its own elements are counted. A view keeps the whole storage alive on which it lies. How many"
    " bytes does h[:2] hold in memory when nobody else holds h?",
    variant="views by their elements",
)
def saved_bytes(build, parameters):
    sizes = {}

    def look(tensor):
        sizes[tensor.untyped_storage().data_ptr()] = tensor.numel() * tensor.element_size()
        return tensor.detach()

    with torch.autograd.graph.saved_tensors_hooks(look, lambda kept: kept):
        build()
    for parameter in parameters:
        sizes.pop(parameter.untyped_storage().data_ptr(), None)
    return sum(sizes.values())


@misconception(
    "G31",
    "Elements are counted, and bytes were asked for. How many bytes has a float32, and how many a float64?",
    variant="elements for bytes",
)
def saved_bytes(build, parameters):
    sizes = {}

    def look(tensor):
        sizes[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes() // tensor.element_size()
        return tensor.detach()

    with torch.autograd.graph.saved_tensors_hooks(look, lambda kept: kept):
        build()
    for parameter in parameters:
        sizes.pop(parameter.untyped_storage().data_ptr(), None)
    return sum(sizes.values())


@misconception(
    "G31",
    "Every element is taken to have four bytes. That is so for float32 alone. What does the storage itself say?",
    variant="four bytes each",
)
def saved_bytes(build, parameters):
    sizes = {}

    def look(tensor):
        count = tensor.untyped_storage().nbytes() // tensor.element_size()
        sizes[tensor.untyped_storage().data_ptr()] = 4 * count
        return tensor.detach()

    with torch.autograd.graph.saved_tensors_hooks(look, lambda kept: kept):
        build()
    for parameter in parameters:
        sizes.pop(parameter.untyped_storage().data_ptr(), None)
    return sum(sizes.values())


@misconception("G32")
def saved_bytes(build, parameters):
    sizes = {}

    def look(tensor):
        sizes[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor.detach()

    with torch.autograd.graph.saved_tensors_hooks(look, lambda kept: kept):
        build()
    return sum(sizes.values())


@misconception(
    "G32",
    "Every tracked leaf is left off the bill, and nothing else. A frozen weight is a parameter too, and a tracked"
    " input need not be one. Which list says what the parameters are?",
    variant="goes by the flag",
)
def saved_bytes(build, parameters):
    sizes = {}

    def look(tensor):
        if not (tensor.is_leaf and tensor.requires_grad):
            sizes[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor.detach()

    with torch.autograd.graph.saved_tensors_hooks(look, lambda kept: kept):
        build()
    return sum(sizes.values())


@misconception(
    "G32",
    "The bytes of all parameters are taken off the sum, those too that no node has kept. Which of the parameters "
    "stand on the bill in the first place?",
    variant="takes off too much",
)
def saved_bytes(build, parameters):
    sizes = {}

    def look(tensor):
        sizes[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor.detach()

    with torch.autograd.graph.saved_tensors_hooks(look, lambda kept: kept):
        build()
    return sum(sizes.values()) - sum(parameter.untyped_storage().nbytes() for parameter in parameters)


@misconception("G33")
def saved_bytes(build, parameters):
    storages = {}

    def look(tensor):
        storages[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(look, lambda kept: kept):
        build()
    for parameter in parameters:
        storages.pop(parameter.untyped_storage().data_ptr(), None)
    return sum(storages.values())


@misconception(
    "G33",
    "The hooks are put in by hand and taken out by hand. When build() raises an error the second line never runs,"
    " and the hooks listen to everything that follows. Which statement of Python undoes itself on every way out?",
    variant="listens on",
)
def saved_bytes(build, parameters):
    storages = {}

    def look(tensor):
        storages[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor.detach()

    hooks = torch.autograd.graph.saved_tensors_hooks(look, lambda kept: kept)
    hooks.__enter__()
    build()
    hooks.__exit__()
    for parameter in parameters:
        storages.pop(parameter.untyped_storage().data_ptr(), None)
    return sum(storages.values())


@misconception(
    "G33",
    "build() runs twice: once to see what it returns, and once under the hooks. Where it draws random numbers, "
    "the two graphs are not the same. What does one call give you already?",
    variant="builds twice",
)
def saved_bytes(build, parameters):
    storages = {}
    build()

    def look(tensor):
        storages[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor.detach()

    with torch.autograd.graph.saved_tensors_hooks(look, lambda kept: kept):
        build()
    for parameter in parameters:
        storages.pop(parameter.untyped_storage().data_ptr(), None)
    return sum(storages.values())


# ------------------------------------------------------------------------------------------------- where_it_died


@alternative("looks for the leaf's own node")
def where_it_died(loss, w):
    if w.grad_fn is not None:
        return "no leaf"
    if loss.grad_fn is None:
        return "nothing recorded"
    found = set()
    for closed in (frozenset(), frozenset(cases.STEPS)):
        order, known = [loss.grad_fn], {loss.grad_fn}
        for node in order:
            if node.name() in closed:
                continue
            if node.name() == "torch::autograd::AccumulateGrad" and node.variable is w:
                found.add(closed)
            for following, _ in node.next_functions:
                if following is not None and following not in known:
                    known.add(following)
                    order.append(following)
    return "no route" if not found else "alive" if frozenset(cases.STEPS) in found else "flat"


@alternative("asks autograd.grad for the route, and walks for the steps")
def where_it_died(loss, w):
    if not w.is_leaf:
        return "no leaf"
    if not loss.requires_grad or loss.is_leaf:
        return "nothing recorded"
    if not w.requires_grad:
        return "no route"
    (gradient,) = torch.autograd.grad(loss, w, retain_graph=True, allow_unused=True)
    if gradient is None:
        return "no route"
    waiting, seen = [loss.grad_fn], {None}
    while waiting:
        node = waiting.pop()
        if node in seen or node.name() in cases.STEPS:
            continue
        if getattr(node, "variable", None) is w:
            return "alive"
        seen.add(node)
        waiting.extend(following for following, _ in node.next_functions)
    return "flat"


@misconception(
    "G13",
    "Only the flag of the loss is asked. A loss that was wrapped anew has a flag and no way to w, and a cut on "
    "the way does not show in it. How does a gradient find its way from a loss to the weights?",
    variant="asks the flag",
)
def where_it_died(loss, w):
    if not w.is_leaf:
        return "no leaf"
    return "alive" if loss.requires_grad else "nothing recorded"


@misconception(
    "G12",
    "A cut in the middle is taken to show in the loss: where the loss has a grad_fn, all is taken to be recorded."
    " Another term can be whole. To which leaves do the edges lead?",
    variant="one whole term will do",
)
def where_it_died(loss, w):
    if not w.is_leaf:
        return "no leaf"
    if loss.grad_fn is None:
        return "nothing recorded"
    seen, waiting = set(), [loss.grad_fn]
    while waiting:
        node = waiting.pop()
        if node is not None and node not in seen:
            seen.add(node)
            waiting += [following for following, _ in node.next_functions]
    return "flat" if any(node.name() in cases.STEPS for node in seen) else "alive"


@misconception(
    "G15",
    "A way that exists is taken for a way on which something arrives. Over a step such as round the slope is zero"
    " everywhere. What does such a node hand on of the gradient that it gets?",
    variant="connected is alive",
)
def where_it_died(loss, w):
    if not w.is_leaf:
        return "no leaf"
    if loss.grad_fn is None:
        return "nothing recorded"
    seen, waiting = set(), [loss.grad_fn]
    while waiting:
        node = waiting.pop()
        if node is not None and node not in seen:
            seen.add(node)
            waiting += [following for following, _ in node.next_functions]
    return "alive" if any(getattr(node, "variable", None) is w for node in seen) else "no route"


@misconception(
    "G15",
    "One step anywhere in the graph makes this verdict flat. A gradient may go another way beside it. Do all the "
    "ways to w lead over that node?",
    variant="one step is enough",
)
def where_it_died(loss, w):
    if not w.is_leaf:
        return "no leaf"
    if loss.grad_fn is None:
        return "nothing recorded"
    seen, waiting = set(), [loss.grad_fn]
    while waiting:
        node = waiting.pop()
        if node is not None and node not in seen:
            seen.add(node)
            waiting += [following for following, _ in node.next_functions]
    if not any(getattr(node, "variable", None) is w for node in seen):
        return "no route"
    return "flat" if any(node.name() in cases.STEPS for node in seen) else "alive"


@misconception(
    "G15",
    "The gradient's value decides here: all zeros are taken for a flat way. A factor that is zero makes a zero "
    "too, on a way that is whole. What would the same graph give for other numbers?",
    variant="zero is flat",
)
def where_it_died(loss, w):
    if not w.is_leaf:
        return "no leaf"
    if loss.grad_fn is None:
        return "nothing recorded"
    (gradient,) = torch.autograd.grad(loss, w, retain_graph=True, allow_unused=True)
    return "no route" if gradient is None else "alive" if gradient.any() else "flat"


@misconception(
    "G02",
    "backward() runs to see what arrives. It adds to w.grad, and frees the values that the next backward() needs."
    " What is left of the graph for the caller?",
    variant="drives to look",
)
def where_it_died(loss, w):
    if not w.is_leaf:
        return "no leaf"
    if loss.grad_fn is None:
        return "nothing recorded"
    before = None if w.grad is None else w.grad.clone()
    loss.backward()
    if w.grad is None or before is not None and torch.equal(w.grad, before):
        return "no route"
    seen, waiting = set(), [loss.grad_fn]
    while waiting:
        node = waiting.pop()
        if node is not None and node not in seen and node.name() not in cases.STEPS:
            seen.add(node)
            waiting += [following for following, _ in node.next_functions]
    return "alive" if any(getattr(node, "variable", None) is w for node in seen) else "flat"


@misconception(
    "G04",
    "A tensor that is tracked counts as a leaf here. A result is tracked too, and its .grad stays empty. What "
    "tells the two apart?",
    variant="tracked is a leaf",
)
def where_it_died(loss, w):
    if not w.requires_grad:
        return "no leaf"
    if loss.grad_fn is None:
        return "nothing recorded"

    def arrives(closed):
        seen, waiting = set(), [loss.grad_fn]
        while waiting:
            node = waiting.pop()
            if node is not None and node not in seen and node.name() not in closed:
                seen.add(node)
                waiting += [following for following, _ in node.next_functions]
        return any(node is w.grad_fn if w.grad_fn else getattr(node, "variable", None) is w for node in seen)

    return "no route" if not arrives(()) else "alive" if arrives(cases.STEPS) else "flat"


@misconception(
    "G16",
    "Where nothing was recorded the walk has no node to begin at, and an error comes out. A flag that is set "
    "after the forward pass leaves such a loss. What is its grad_fn?",
    variant="nothing to begin at",
)
def where_it_died(loss, w):
    if not w.is_leaf:
        return "no leaf"

    def arrives(closed):
        seen, waiting = {loss.grad_fn}, [loss.grad_fn]
        while waiting:
            for following, _ in waiting.pop().next_functions:
                if following is not None and following not in seen and following.name() not in closed:
                    seen.add(following)
                    waiting.append(following)
        return any(getattr(node, "variable", None) is w for node in seen)

    return "no route" if not arrives(()) else "alive" if arrives(cases.STEPS) else "flat"


@misconception(
    "G01",
    "The search compares the nodes themselves with w, and finds it nowhere. A node is an operation; the leaf "
    "hangs on one of them. Which attribute of AccumulateGrad holds it?",
    variant="w among the nodes",
)
def where_it_died(loss, w):
    if not w.is_leaf:
        return "no leaf"
    if loss.grad_fn is None:
        return "nothing recorded"
    seen, waiting = set(), [loss.grad_fn]
    while waiting:
        node = waiting.pop()
        if node is not None and node not in seen:
            seen.add(node)
            waiting += [following for following, _ in node.next_functions]
    return "alive" if any(node is w for node in seen) else "no route"


# ----------------------------------------------------------------------------------------------------- safe_sqrt


@alternative("roots of the positive ones alone, put in their places")
def safe_sqrt(x):
    above = x > 0
    roots = torch.zeros_like(x)
    roots[above] = x[above].sqrt()
    return roots


@alternative("fills what is not positive, in front and behind")
def safe_sqrt(x):
    outside = x <= 0
    return x.masked_fill(outside, 1.0).sqrt().masked_fill(outside, 0.0)


@alternative("relu, which hands nothing on at 0, whatever comes")
def safe_sqrt(x):
    return x.relu().sqrt()


@alternative("a mask on both sides of the power")
def safe_sqrt(x):
    above = (x > 0).to(x.dtype)
    return (x * above + (1 - above)) ** 0.5 * above


@misconception("G19")
def safe_sqrt(x):
    return torch.where(x > 0, x.sqrt(), 0.0)


@misconception(
    "G19",
    "The root is multiplied by a mask. Below 0 it is not a number before it meets the mask, and at 0 its slope is"
    " infinite; zero times either is not a number. What does sqrt see there?",
    variant="times a mask",
)
def safe_sqrt(x):
    return x.sqrt() * (x > 0)


@misconception(
    "G19",
    "nan_to_num mends the values, and on the way back the gradient still goes through the root of what is not "
    "positive. What does sqrt hand on there?",
    variant="mends the values",
)
def safe_sqrt(x):
    return x.sqrt().nan_to_num(0.0)


@misconception(
    "G19",
    "clamp takes away what is below 0. At 0 the root still has its infinite slope. Which number could sqrt see "
    "there instead?",
    variant="clamps at zero",
)
def safe_sqrt(x):
    return x.clamp(min=0).sqrt()


@misconception("G34")
def safe_sqrt(x):
    return torch.where(x > 0, (x.clamp(min=0) + 1e-6).sqrt(), 0.0)


@misconception(
    "G34",
    "Small positive numbers are lifted to a bound, so that their roots are off, and their gradient is 0. Which "
    "numbers had to be kept from sqrt, and which not?",
    variant="lifts to a bound",
)
def safe_sqrt(x):
    return torch.where(x > 0, x.clamp(min=1e-3).sqrt(), 0.0)


@misconception(
    "G13",
    "The roots come from numbers that were taken out of the graph. The values are right, and no gradient comes "
    "back. What is the grad_fn of the roots?",
    variant="roots without a past",
)
def safe_sqrt(x):
    return torch.where(x > 0, x.detach().clamp(min=0).sqrt(), 0.0 * x)


@misconception(
    "G12",
    "NumPy computes the roots, and records nothing. No gradient comes back through them. What is the grad_fn of "
    "the result?",
    variant="roots by NumPy",
)
def safe_sqrt(x):
    return torch.from_numpy(numpy.sqrt(x.detach().cpu().clamp(min=0).numpy())).to(x.device)


# -------------------------------------------------------------------------------------------------------- routes


@alternative("from the leaves back, in reverse order of finishing")
def routes(tensor):
    finished, begun, waiting = [], set(), [(tensor.grad_fn, False)]
    while waiting:
        node, done = waiting.pop()
        if done:
            finished.append(node)
        elif node not in begun:
            begun.add(node)
            waiting.append((node, True))
            waiting += [(following, False) for following, _ in node.next_functions if following is not None]
    ways, found = Counter({tensor.grad_fn: 1}), {}
    for node in reversed(finished):
        if hasattr(node, "variable"):
            found[node.variable] = ways[node]
        for following, _ in node.next_functions:
            if following is not None:
                ways[following] += ways[node]
    return found


@alternative("adds up what each node leads to, from the leaves")
def routes(tensor):
    totals, waiting = {}, [tensor.grad_fn]
    while waiting:
        node = waiting[-1]
        following = [one for one, _ in node.next_functions if one is not None]
        missing = [one for one in following if one not in totals]
        if node in totals or not missing:
            waiting.pop()
        if node not in totals and not missing:
            total = Counter({node.variable: 1} if hasattr(node, "variable") else {})
            for one in following:
                total.update(totals[one])
            totals[node] = total
        elif node not in totals:
            waiting += missing
    return dict(totals[tensor.grad_fn])


@misconception("G35")
def routes(tensor):
    found, seen, waiting = {}, set(), [tensor.grad_fn]
    while waiting:
        node = waiting.pop()
        if node not in seen:
            seen.add(node)
            for following, _ in node.next_functions:
                if following is not None:
                    waiting.append(following)
                    if hasattr(following, "variable"):
                        found[following.variable] = found.get(following.variable, 0) + 1
    return found


@misconception(
    "G35",
    "Each leaf has one route here. A value that is used twice is reached on two. How many edges leave x * x?",
    variant="one route each",
)
def routes(tensor):
    found, seen, waiting = {}, set(), [tensor.grad_fn]
    while waiting:
        node = waiting.pop()
        if node is not None and node not in seen:
            seen.add(node)
            if hasattr(node, "variable"):
                found[node.variable] = 1
            waiting += [following for following, _ in node.next_functions]
    return found


@misconception("G27")
def routes(tensor):
    found, waiting = {}, [tensor.grad_fn]
    while waiting:
        node = waiting.pop()
        if hasattr(node, "variable"):
            found[node.variable] = found.get(node.variable, 0) + 1
        waiting += [following for following, _ in node.next_functions if following is not None]
    return found


@misconception(
    "G27",
    "The counts of nodes are remembered, so that none is computed twice, and the function still calls itself for "
    "each step of the way. A graph can be thousands of nodes deep. What else could keep the nodes that wait?",
    variant="calls itself",
)
def routes(tensor):
    known = {}

    def below(node):
        if node not in known:
            total = Counter({node.variable: 1} if hasattr(node, "variable") else {})
            for following, _ in node.next_functions:
                if following is not None:
                    total.update(below(following))
            known[node] = total
        return known[node]

    return dict(below(tensor.grad_fn))


@misconception(
    "G36",
    "A node hands on what it has as soon as it is met. What arrives later by another edge is never handed on. How"
    " many edges lead to the node, and how many of them had been used?",
    variant="too early",
)
def routes(tensor):
    ways, seen, waiting, found = Counter({tensor.grad_fn: 1}), {tensor.grad_fn}, [tensor.grad_fn], {}
    while waiting:
        node = waiting.pop(0)
        for following, _ in node.next_functions:
            if following is not None:
                ways[following] += ways[node]
                if hasattr(following, "variable"):
                    found[following.variable] = ways[following]
                if following not in seen:
                    seen.add(following)
                    waiting.append(following)
    return found


@misconception("G25")
def routes(tensor):
    ways, ready, found = Counter({tensor.grad_fn: 1}), [tensor.grad_fn], {}
    into = Counter(following for node in ready for following, _ in node.next_functions)
    order = list(into)
    for node in order:
        for following, _ in node.next_functions:
            if following not in into:
                order.append(following)
            into[following] += 1
    while ready:
        node = ready.pop()
        if hasattr(node, "variable"):
            found[node.variable] = ways[node]
        for following, _ in node.next_functions:
            ways[following] += ways[node]
            into[following] -= 1
            if into[following] == 0:
                ready.append(following)
    return found


@misconception(
    "G30",
    "The nodes called AccumulateGrad come back as keys. They are where the way ends, and the leaf hangs on them. "
    "Which attribute of such a node is the tensor?",
    variant="nodes as keys",
)
def routes(tensor):
    finished, begun, waiting = [], set(), [(tensor.grad_fn, False)]
    while waiting:
        node, done = waiting.pop()
        if done:
            finished.append(node)
        elif node not in begun:
            begun.add(node)
            waiting.append((node, True))
            waiting += [(following, False) for following, _ in node.next_functions if following is not None]
    ways, found = Counter({tensor.grad_fn: 1}), {}
    for node in reversed(finished):
        if hasattr(node, "variable"):
            found[node] = ways[node]
        for following, _ in node.next_functions:
            if following is not None:
                ways[following] += ways[node]
    return found


@misconception(
    "G24",
    "Edges to the same node are counted once for each output index, so that two uses of one result are one. What "
    "tells two edges apart that lead to the same output?",
    variant="parallel edges as one",
)
def routes(tensor):
    finished, begun, waiting = [], set(), [(tensor.grad_fn, False)]
    while waiting:
        node, done = waiting.pop()
        if done:
            finished.append(node)
        elif node not in begun:
            begun.add(node)
            waiting.append((node, True))
            waiting += [(following, False) for following, _ in node.next_functions if following is not None]
    ways, found = Counter({tensor.grad_fn: 1}), {}
    for node in reversed(finished):
        if hasattr(node, "variable"):
            found[node.variable] = ways[node]
        for following, _ in set(node.next_functions):
            if following is not None:
                ways[following] += ways[node]
    return found


# ------------------------------------------------------------------------------------------------------- picture


@alternative("depth first, words for names")
def picture(tensor, names):
    leaves = {id(leaf): name for name, leaf in names.items()}
    found, waiting = {}, [tensor.grad_fn]
    while waiting:
        node = waiting.pop()
        if node not in found:
            found[node] = f"node_{len(found)}"
            waiting += [following for following, _ in reversed(node.next_functions) if following is not None]
    lines, edges = [], 0
    for node, name in found.items():
        label = leaves[id(node.variable)] if hasattr(node, "variable") else node.name()
        label = "".join("\\" + letter if letter in '"\\' else letter for letter in label)
        lines.append(f'    {name} [label="{label}"];')
        for following, index in node.next_functions:
            if following is not None:
                edges += 1
                lines.append(f"    {name} -> {found[following]} [label={index}];")
    return f"// {len(found)} nodes, {edges} edges\ndigraph {{\n" + "\n".join(lines) + "\n}\n"


@alternative("level by level, the edges first")
def picture(tensor, names):
    def escaped(text):
        return text.replace("\\", r"\\").replace('"', r"\"")

    numbers, queue, edges = {tensor.grad_fn: 0}, [tensor.grad_fn], []
    while queue:
        node = queue.pop(0)
        for following, index in node.next_functions:
            if following is None:
                continue
            if following not in numbers:
                queue.append(following)
            number = numbers.setdefault(following, len(numbers))
            edges.append(f'{numbers[node]} -> {number} [label="{index}"]')
    nodes = []
    for node, number in numbers.items():
        label = node.name()
        for name, leaf in names.items():
            if getattr(node, "variable", None) is leaf:
                label = name
        nodes.append(f'{number} [label="{escaped(label)}"]')
    return "\n".join((f"// {len(nodes)} nodes, {len(edges)} edges", "digraph graph_of_it {", *edges, *nodes, "}"))


@misconception(
    "G29",
    "Names are in use twice: what stands in front of a node is the name of its operation, or of its type. Two "
    "products are two nodes with one name. What tells them apart?",
    variant="names of operations",
)
def picture(tensor, names):
    order, known, edges = [tensor.grad_fn], {tensor.grad_fn}, []
    for node in order:
        for following, index in node.next_functions:
            if following is not None:
                if following not in known:
                    known.add(following)
                    order.append(following)
                edges.append(f'{type(node).__name__} -> {type(following).__name__} [label="{index}"]')
    lines = [f'{type(node).__name__} [label="{node.name()}"]' for node in order]
    return "\n".join([f"// {len(lines)} nodes, {len(edges)} edges", "digraph {", *lines, *edges, "}"])


@misconception("G37")
def picture(tensor, names):
    numbers, order, nodes, edges = {tensor.grad_fn: 0}, [tensor.grad_fn], [], []
    for node in order:
        leaf = getattr(node, "variable", None)
        label = node.name() if leaf is None else next(name for name in names if names[name] is leaf)
        label = label.replace("\\", "\\\\").replace('"', '\\"')
        nodes.append(f'n{id(node)} [label="{label}"]')
        for following, index in node.next_functions:
            if following is not None:
                if following not in numbers:
                    numbers[following] = len(order)
                    order.append(following)
                edges.append(f'n{id(node)} -> n{id(following)} [label="{index}"]')
    return "\n".join([f"// {len(nodes)} nodes, {len(edges)} edges", "digraph {", *nodes, *edges, "}"])


@misconception(
    "G24",
    "Every edge carries the index 0. The second output of a split leads elsewhere than the first. Which number "
    "stands beside the node in next_functions?",
    variant="index dropped",
)
def picture(tensor, names):
    numbers, order, nodes, edges = {tensor.grad_fn: 0}, [tensor.grad_fn], [], []
    for node in order:
        leaf = getattr(node, "variable", None)
        label = node.name() if leaf is None else next(name for name in names if names[name] is leaf)
        label = label.replace("\\", "\\\\").replace('"', '\\"')
        nodes.append(f'n{numbers[node]} [label="{label}"]')
        for following, _ in node.next_functions:
            if following is not None:
                if following not in numbers:
                    numbers[following] = len(order)
                    order.append(following)
                edges.append(f'n{numbers[node]} -> n{numbers[following]} [label="0"]')
    return "\n".join([f"// {len(nodes)} nodes, {len(edges)} edges", "digraph {", *nodes, *edges, "}"])


@misconception(
    "G35",
    "Two edges between the same two nodes are drawn as one. A value that is used twice gets two parts of its "
    "gradient. How many edges leave x * x?",
    variant="parallel edges as one",
)
def picture(tensor, names):
    numbers, order, nodes, edges = {tensor.grad_fn: 0}, [tensor.grad_fn], [], []
    for node in order:
        leaf = getattr(node, "variable", None)
        label = node.name() if leaf is None else next(name for name in names if names[name] is leaf)
        label = label.replace("\\", "\\\\").replace('"', '\\"')
        nodes.append(f'n{numbers[node]} [label="{label}"]')
        for following, index in dict.fromkeys(node.next_functions):
            if following is not None:
                if following not in numbers:
                    numbers[following] = len(order)
                    order.append(following)
                edges.append(f'n{numbers[node]} -> n{numbers[following]} [label="{index}"]')
    return "\n".join([f"// {len(nodes)} nodes, {len(edges)} edges", "digraph {", *nodes, *edges, "}"])


@misconception(
    "G30",
    "The leaves are drawn as AccumulateGrad, and their names are nowhere. Which of the tensors in `names` is the "
    "node's variable?",
    variant="nameless leaves",
)
def picture(tensor, names):
    numbers, order, nodes, edges = {tensor.grad_fn: 0}, [tensor.grad_fn], [], []
    for node in order:
        label = node.name()
        label = label.replace("\\", "\\\\").replace('"', '\\"')
        nodes.append(f'n{numbers[node]} [label="{label}"]')
        for following, index in node.next_functions:
            if following is not None:
                if following not in numbers:
                    numbers[following] = len(order)
                    order.append(following)
                edges.append(f'n{numbers[node]} -> n{numbers[following]} [label="{index}"]')
    return "\n".join([f"// {len(nodes)} nodes, {len(edges)} edges", "digraph {", *nodes, *edges, "}"])


@misconception(
    "G38",
    "A quotation mark or a backslash in a name stands in the label as it is. There the text of the label ends too"
    " early, or says something else. Which two characters need a backslash in front?",
    variant="names not escaped",
)
def picture(tensor, names):
    numbers, order, nodes, edges = {tensor.grad_fn: 0}, [tensor.grad_fn], [], []
    for node in order:
        leaf = getattr(node, "variable", None)
        label = node.name() if leaf is None else next(name for name in names if names[name] is leaf)
        nodes.append(f'n{numbers[node]} [label="{label}"]')
        for following, index in node.next_functions:
            if following is not None:
                if following not in numbers:
                    numbers[following] = len(order)
                    order.append(following)
                edges.append(f'n{numbers[node]} -> n{numbers[following]} [label="{index}"]')
    return "\n".join([f"// {len(nodes)} nodes, {len(edges)} edges", "digraph {", *nodes, *edges, "}"])


@misconception(
    "G38",
    "Quotation marks are escaped, and backslashes are not. In which order do the two replacements have to come?",
    variant="backslashes forgotten",
)
def picture(tensor, names):
    numbers, order, nodes, edges = {tensor.grad_fn: 0}, [tensor.grad_fn], [], []
    for node in order:
        leaf = getattr(node, "variable", None)
        label = node.name() if leaf is None else next(name for name in names if names[name] is leaf)
        label = label.replace('"', '\\"')
        nodes.append(f'n{numbers[node]} [label="{label}"]')
        for following, index in node.next_functions:
            if following is not None:
                if following not in numbers:
                    numbers[following] = len(order)
                    order.append(following)
                edges.append(f'n{numbers[node]} -> n{numbers[following]} [label="{index}"]')
    return "\n".join([f"// {len(nodes)} nodes, {len(edges)} edges", "digraph {", *nodes, *edges, "}"])


@misconception(
    "G38",
    "The backslashes are doubled after the quotation marks got theirs, so that those are doubled as well. Which "
    "of the two replacements has to come first?",
    variant="escaped twice",
)
def picture(tensor, names):
    numbers, order, nodes, edges = {tensor.grad_fn: 0}, [tensor.grad_fn], [], []
    for node in order:
        leaf = getattr(node, "variable", None)
        label = node.name() if leaf is None else next(name for name in names if names[name] is leaf)
        label = label.replace('"', '\\"').replace("\\", "\\\\")
        nodes.append(f'n{numbers[node]} [label="{label}"]')
        for following, index in node.next_functions:
            if following is not None:
                if following not in numbers:
                    numbers[following] = len(order)
                    order.append(following)
                edges.append(f'n{numbers[node]} -> n{numbers[following]} [label="{index}"]')
    return "\n".join([f"// {len(nodes)} nodes, {len(edges)} edges", "digraph {", *nodes, *edges, "}"])


@misconception(
    "G25",
    "Edges to None are counted in the first line, and no line draws them. What does an edge to None stand for?",
    variant="counts edges to None",
)
def picture(tensor, names):
    numbers, order, nodes, edges = {tensor.grad_fn: 0}, [tensor.grad_fn], [], []
    for node in order:
        leaf = getattr(node, "variable", None)
        label = node.name() if leaf is None else next(name for name in names if names[name] is leaf)
        label = label.replace("\\", "\\\\").replace('"', '\\"')
        nodes.append(f'n{numbers[node]} [label="{label}"]')
        for following, index in node.next_functions:
            if following is not None:
                if following not in numbers:
                    numbers[following] = len(order)
                    order.append(following)
                edges.append(f'n{numbers[node]} -> n{numbers[following]} [label="{index}"]')
    return "\n".join(
        [
            f"// {len(nodes)} nodes, {sum(len(node.next_functions) for node in order)} edges",
            "digraph {",
            *nodes,
            *edges,
            "}",
        ]
    )


@misconception("G25", variant="no node at the end")
def picture(tensor, names):
    numbers, order, lines = {tensor.grad_fn: 0}, [tensor.grad_fn], []
    for node in order:
        for following, index in node.next_functions:
            if following not in numbers:
                numbers[following] = len(order)
                order.append(following)
            lines.append(f'n{numbers[node]} -> n{numbers[following]} [label="{index}"]')
    nodes = [f'n{number} [label="{node.name()}"]' for node, number in numbers.items()]
    return "\n".join([f"// {len(nodes)} nodes, {len(lines)} edges", "digraph {", *nodes, *lines, "}"])


@misconception("G27", variant="draws every route")
def picture(tensor, names):
    nodes, edges, met, waiting = [], [], 1, [(tensor.grad_fn, 0)]
    while waiting:
        node, number = waiting.pop()
        leaf = getattr(node, "variable", None)
        label = node.name() if leaf is None else next(name for name in names if names[name] is leaf)
        label = label.replace("\\", "\\\\").replace('"', '\\"')
        nodes.append(f'n{number} [label="{label}"]')
        for following, index in node.next_functions:
            if following is not None:
                edges.append(f'n{number} -> n{met} [label="{index}"]')
                waiting.append((following, met))
                met += 1
    return "\n".join([f"// {len(nodes)} nodes, {len(edges)} edges", "digraph {", *nodes, *edges, "}"])


EQUIVALENT = [
    {
        "exercise": "saved_bytes",
        "operator": "None",
        "line": "storages.pop(parameter.untyped_storage().data_ptr(), None)",
        "change": "`None` became `0`",
        "reason": "what pop() gives for a missing key is thrown away",
    },
    {
        "exercise": "where_it_died",
        "operator": "None",
        "line": 'return any(getattr(node, "variable", None) is w for node in seen)',
        "change": "`None` became `0`",
        "reason": "neither None nor 0 is the tensor w",
    },
    {
        "exercise": "safe_sqrt",
        "operator": "number",
        "line": "harmless = torch.where(x > 0, x, 1.0)",
        "change": "`1.0` became `2.0`",
        "reason": "any positive number is harmless, and the second where drops its root",
    },
    {
        "exercise": "routes",
        "operator": "condition",
        "line": "if following is not None:",
        "change": "`following is not None` became `True`",
        "occurrence": 2,
        "reason": "None has no edges into it in the Counter, so that its count goes below 0 and it is never ready",
    },
]
