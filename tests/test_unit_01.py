"""What unit 1 says is what runs: its numbers, its errors, and the mistakes that it shows or recognises."""

import fractions
import itertools
import random
import re
import tomllib
import warnings

import numpy
import pytest
import torch
from autogradlab import commit, predictions
from autogradlab.case import Case
from autogradlab.diagnosis import judge
from autogradlab.observation import observe
from autogradlab.recorded import SEED, visible
from autogradlab.verdicts import call_lines
from claims import claims
from lesson_runs import prose, unanswered

from autograder import lessons

UNIT = "01_creating_tensors"


def shown(run, beginning):
    """The one line of the output that begins like this."""
    (line,) = [line for line in run.output.splitlines() if line.startswith(beginning)]
    return line


# --- the story -------------------------------------------------------------------------------------------------------


def test_the_lesson_runs_top_to_bottom_in_ten_seconds_without_a_warning(run):
    assert run.seconds < 10


def test_the_first_gradient_comes_within_five_code_cells_and_the_first_check_within_ten(lesson):
    code = [cell for cell in lesson.cells if cell.kind == "code"]
    gradient = next(number for number, cell in enumerate(code, 1) if "backward()" in cell.source)
    check = next(number for number, cell in enumerate(code, 1) if cell.role == "test")
    assert gradient <= 5 and check <= 10


def test_a_prediction_shows_nothing_before_an_answer(lesson):
    asked = [cell for cell in lesson.cells if cell.role == "prediction"]
    revealing = [cell for cell in lesson.cells if "@reveal" in cell.source]
    lines = unanswered(lesson, [*lesson.setup, *asked, *revealing])
    assert lines.count("Commit an answer and a confidence first.") == len(asked) == len(revealing) >= 4
    assert not any(line.startswith("It is") for line in lines)


@claims(
    "Before some results you are asked what you expect, and how sure you are, from 1 (a guess) to 5 (certain).",
)
def test_confidence_goes_from_1_to_5(lesson, monkeypatch, capsys):
    assert any(cell.role == "prediction" for cell in lesson.cells)
    monkeypatch.setattr(predictions, "_predictions", type(predictions._predictions)())
    taken = []
    for confidence in range(-1, 8):
        commit("of no lesson", answer=1, confidence=confidence)
        if f"confidence {confidence} of 5" in capsys.readouterr().out:
            taken.append(confidence)
    assert taken == [1, 2, 3, 4, 5]


@claims(
    "The page says that they are 48 and 72.",
    "And a page was wrong.",
)
def test_the_page_that_says_48_and_72_is_wrong(run, lesson):
    assert "The page says that they are 48 and 72" in prose(lesson)
    assert "by torch, x.grad and w.grad:      28.0 42.0\n" in run.output
    assert "z: 7.0   loss: 49.0" in run.output


@claims(
    "`requires_grad=True` asked torch to watch a tensor: it is *tracked*.",
    "The two lines in the middle computed a number, and torch took notes.",
    "`backward()` went through the notes from the end to the beginning and left how fast the loss grows with `x` "
    "and with `w`, the two that you asked to have watched, in their `.grad`.",
    "`x.grad` is then how fast `loss` grows when `x` does, and `w.grad` the same for `w`.",
    "`w.grad` is positive, so a slightly larger `w` makes the loss larger, and a slightly smaller one makes it "
    "smaller.",
)
def test_backward_goes_from_the_end_to_the_beginning_and_fills_the_grad_of_what_is_watched():
    x, w = torch.tensor(3.0, requires_grad=True), torch.tensor(2.0, requires_grad=True)
    product = w * x
    z = product + 1.0
    loss = z**2
    order = []
    for number, result in enumerate((product, z, loss)):
        result.grad_fn.register_hook(lambda *_, number=number: order.append(number))
    loss.backward()
    assert order == [2, 1, 0]
    assert (torch.tensor(3.0) * 2).grad_fn is None, "nothing is noted where nothing is watched"
    assert not z.is_leaf and not z.retains_grad, "a result in between is left without"

    def value(x, w):
        return (w * x + 1) ** 2

    assert x.grad.item() == pytest.approx((value(3 + 1e-6, 2) - value(3 - 1e-6, 2)) / 2e-6, rel=1e-6)
    assert w.grad.item() == pytest.approx((value(3, 2 + 1e-6) - value(3, 2 - 1e-6)) / 2e-6, rel=1e-6)
    assert value(3, 2.01) > value(3, 2) > value(3, 1.99) and w.grad > 0


@claims(
    "`-=` changes the tensor `w` itself.",
    "`with torch.no_grad():` has torch look away: the step is no part of the computation whose slopes you want.",
    "Without it torch refuses the line, because `w` is a tensor that you asked it to watch.",
)
def test_a_step_needs_torch_to_look_away():
    w = torch.tensor(2.0, requires_grad=True)
    same, place = w, w.data_ptr()
    with pytest.raises(RuntimeError, match="leaf Variable that requires grad is being used in an in-place operation"):
        w -= 0.5
    with torch.no_grad():
        w -= 0.5
    assert w is same and w.data_ptr() == place and w.item() == 1.5 and w.grad_fn is None and w.requires_grad
    unwatched = torch.tensor(2.0)
    unwatched -= 0.5


@claims(
    "`backward()` adds to what it finds there.",
)
def test_backward_adds_to_grad():
    w = torch.tensor(2.0, requires_grad=True)
    seen = []
    for _ in range(2):
        ((w * 3 + 1) ** 2).backward()
        seen.append(w.grad.item())
    assert seen == [42, 84]


@claims(
    "A *step* moves `w` by its gradient times a small *learning rate*, downwards.",
)
def test_one_step_of_a_hundredth_of_42_leads_to_158_and_below_49(run):
    assert "w: 1.58   loss before: 49.0   loss after: 32.9476\nIt is [1.58, True].\n" in run.output


@claims(
    "Much has only changed its name: an axis is a `dim`, `concatenate` is `cat`, `copy` is `clone`.",
)
def test_every_pair_of_the_bridge_gives_the_same_values(run):
    lines = [line for line in run.output.splitlines() if "same values:" in line]
    assert len(lines) == len(run.names["bridge"]) and all(line.endswith("same values: True") for line in lines)


@claims(
    "`to` converts as `astype` does, with one difference that comes below: it copies only where something has to "
    "change.",
    "`.to` and `.float()` copy only if something has to change, and hand back the *same tensor* if not:",
)
def test_to_copies_only_where_something_has_to_change():
    array, t = numpy.ones(3, dtype=numpy.float32), torch.ones(3)
    assert not numpy.shares_memory(array.astype(numpy.float32), array)
    assert t.to(torch.float32) is t and t.float() is t and t.to("cpu") is t
    for changed in (t.to(torch.float64), t.double(), t.to(torch.float32, copy=True)):
        assert changed.data_ptr() != t.data_ptr()
    assert numpy.array_equal(array.astype(numpy.int64), t.to(torch.int64))


@claims(
    "Some names look alike and do something else.",
    "The last two pairs are the ones that bite, because neither complains.",
    "A `dim` given to `max` brings the places along with the values.",
    "And `6.0` became 64 bits there, 32 bits here; that gets a section of its own.",
)
def test_four_names_that_look_alike_do_something_else(run):
    array, tensor = numpy.arange(6.0).reshape(2, 3), torch.arange(6.0).reshape(2, 3)
    assert array.size == 6 and callable(tensor.size) and tensor.size() == (2, 3)
    values, places = tensor.max(dim=1)
    assert numpy.array_equal(values, array.max(axis=1)) and numpy.array_equal(places, array.argmax(axis=1))
    assert type(array.std().item()) is type(tensor.std().item()) is float
    assert array.std().item() != tensor.std().item()
    assert shown(run, "array.dtype").endswith(" float64") and array.dtype.itemsize == 8
    assert shown(run, "tensor.dtype").endswith(" torch.float32") and tensor.itemsize == 4
    pairs = [line.split()[0] for line in run.output.splitlines() if line.startswith(("array.", "tensor."))]
    assert [name.split("(")[0] for name in pairs][-4:] == ["array.std", "tensor.std", "array.dtype", "tensor.dtype"]


@claims(
    "Inside `std`, NumPy divides the sum of the squares by the number of elements, and torch by one less.",
)
def test_std_divides_by_one_less_in_torch(run):
    numbers = numpy.arange(6.0)
    assert float(shown(run, "array.std()").split()[-1]) == pytest.approx(numbers.std())
    assert float(shown(run, "tensor.std()").split()[-1]) == pytest.approx(numbers.std(ddof=1))


def test_a_second_device_is_shown_or_its_absence_explained(run):
    accelerator = run.names["accelerator"]
    expected = accelerator.why_unavailable() or "tensor([0., 0.], device='sim:0')"
    assert f"{expected}\n" in run.output


@claims(
    "The first takes values, the other three take a size.",
    "`torch.tensor` read the brackets as two values, `zeros` as a size of 2 by 3.",
)
def test_the_shapes_of_the_four_constructors(run):
    assert "It is [[2], [2, 3], [], [3]].\n" in run.output
    assert torch.tensor((2, 3)).tolist() == [2, 3]
    assert [make((2, 3)).shape for make in (torch.zeros, torch.ones, torch.randn)] == [(2, 3)] * 3


@claims(
    "`randn` for weights that must not all be alike: normal numbers, mean 0, standard deviation 1.",
    "(`rand` is uniform from 0 up to 1, which it never reaches.)",
)
def test_randn_is_standard_normal_and_rand_uniform():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        normal, uniform = torch.randn(10**6).double(), torch.rand(10**6).double()
    for k, share in ((1, 0.6827), (2, 0.9545), (3, 0.9973)):
        assert (normal.abs() < k).double().mean().item() == pytest.approx(share, abs=0.003)
    assert normal.mean().item() == pytest.approx(0, abs=0.005) and normal.std().item() == pytest.approx(1, abs=0.005)
    counts = torch.histc(uniform, bins=20, min=0, max=1) / 10**6
    assert counts.tolist() == pytest.approx([0.05] * 20, abs=0.002)
    assert 0 <= uniform.min() < 1e-4 and 0.9999 < uniform.max() < 1


@claims(
    "`torch.Tensor`, with a capital T, is an old constructor that takes a number for a size: three elements, and "
    "nobody has written into them.",
    "`torch.empty` says openly what it does: it reserves memory, and you fill it.",
)
def test_nobody_writes_into_a_capital_tensor_or_an_empty_one():
    """torch can be told to mark the memory that nobody wrote into."""
    torch.use_deterministic_algorithms(True)
    try:
        marked = [torch.Tensor(3), torch.empty(3)]
        written = [torch.zeros(3), torch.ones(3), torch.tensor([3.0])]
    finally:
        torch.use_deterministic_algorithms(False)
    assert all(one.shape == (3,) and one.isnan().all() for one in marked)
    assert not any(one.isnan().any() for one in written)


@claims(
    "A shape is a `torch.Size`: a tuple that can also count elements.",
    "It compares with tuples, unpacks, and can be sliced.",
)
def test_a_shape_is_a_tuple_that_counts():
    shape = torch.randn(4, 3, 2).shape
    first, *rest = shape
    assert type(shape) is torch.Size and isinstance(shape, tuple)
    assert shape == (4, 3, 2) and (first, rest) == (4, [3, 2]) and shape[1:] == (3, 2) and shape.numel() == 24


@claims(
    "With `torch.tensor` the values choose: Python's whole numbers make int64, `True` and `False` bool, numbers "
    "with a point the default dtype, which is float32 until somebody sets another.",
    "An array brings its own dtype along, and so does a number that NumPy computed.",
    "`zeros`, `ones` and `randn` take the default; `full` asks its fill value, and the `_like` constructors take "
    "over the dtype that they are shown.",
    "`tensor` takes values and lets them choose the dtype; `zeros`, `ones` and `randn` take a size and give "
    "float32 by default.",
)
def test_who_chooses_the_dtype():
    before = torch.get_default_dtype()
    assert before == torch.float32
    try:
        for default in (torch.float32, torch.float64, torch.float16):
            torch.set_default_dtype(default)
            assert torch.tensor([1, 2]).dtype == torch.tensor(-(10**12)).dtype == torch.int64
            assert torch.tensor([True, False]).dtype == torch.bool
            assert torch.tensor([1.0]).dtype == torch.tensor([1, 2.0]).dtype == default
            assert [make(2).dtype for make in (torch.zeros, torch.ones, torch.randn)] == [default] * 3
            assert [torch.full((2,), one).dtype for one in (1, 1.0, True)] == [torch.int64, default, torch.bool]
            for dtype in (numpy.float64, numpy.float32, numpy.float16, numpy.int32, numpy.uint8, numpy.bool_):
                array = numpy.ones(2, dtype=dtype)
                own = torch.from_numpy(array).dtype
                assert torch.tensor(array).dtype == torch.as_tensor(array).dtype == own
                assert torch.tensor([array[0]]).dtype == own
                assert torch.zeros_like(torch.tensor(array)).dtype == torch.ones_like(torch.tensor(array)).dtype == own
    finally:
        torch.set_default_dtype(before)


@claims(
    "It takes half the memory of float64, and rounds a number in the eighth digit or so",
)
def test_float32_takes_half_the_memory_and_rounds_in_the_eighth_digit():
    assert 2 * torch.ones(10).nbytes == torch.ones(10, dtype=torch.float64).nbytes
    with torch.random.fork_rng():
        torch.manual_seed(0)
        exact = torch.rand(10**5, dtype=torch.float64) + 1
    off = ((exact.float().double() - exact) / exact).abs().max().item()
    assert 1e-8 < off < 1e-7


@claims(
    "Three lines, two errors, and one that says nothing:",
    "A mean of whole numbers need not be whole, and a gradient asks what happens when a value moves *a little*.",
    "Both want a dtype with fractions.",
    "The last line cut the fraction off and kept quiet.",
)
def test_whole_numbers_have_no_mean_and_no_gradient_and_lose_fractions():
    for dtype in (torch.int64, torch.int32, torch.uint8, torch.bool):
        with pytest.raises(RuntimeError, match="could not infer output dtype"):
            torch.ones(3, dtype=dtype).mean()
        with pytest.raises(RuntimeError, match="floating point and complex dtype can require gradients"):
            torch.tensor([1, 0], dtype=dtype, requires_grad=True)
    assert torch.ones(3).mean() == 1 and torch.ones(3).requires_grad_().requires_grad
    whole = torch.zeros(3, dtype=torch.int64)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for place, value in enumerate((0.7, 1.7, -1.7)):
            whole[place] = value
    assert whole.tolist() == [0, 1, -1]


@claims(
    "It runs, and no entry is right for every list.",
    "`dtype=torch.float32` and `requires_grad=True` are arguments of all four constructors.",
)
def test_no_entry_of_the_broken_start_is_right_for_every_list(run, exercises, lesson):
    exercise = exercises["start_values"]
    seen = visible(exercise, run.names["broken_start_values"])
    assert [one["raised"] for one in seen] == [None] * len(seen)
    met = judge(exercise, seen, visible(exercise, lessons.references(lesson)["start_values"]), []).met
    assert met[:5] == [False] * 5
    for make, size in ((torch.tensor, [4, -1]), (torch.zeros, 2), (torch.ones, 2), (torch.randn, 2)):
        one = make(size, dtype=torch.float32, requires_grad=True)
        assert one.dtype == torch.float32 and one.requires_grad


@claims(
    "A Python number does not widen a tensor, and 300 wraps around to 44.",
    "A tensor *without dimensions*, beside one that has some, counts as a number and does not widen it either; a "
    "tensor with dimensions does.",
    "A change of *kind*, from whole numbers to fractions, gets through in any case: `+ 100.0` needs them.",
)
def test_300_wraps_around_to_44_unless_a_dimension_or_a_fraction_widens_it(run, lesson):
    assert "300 wraps around to 44" in prose(lesson)
    for line, result in (("100", "[44]"), ("torch.tensor(100)", "[44]"), ("torch.tensor([100])", "[300]")):
        assert f"tensor({result}" in shown(run, f"byte + {line} ")
    assert "float32" in shown(run, "byte + 100.0 ")
    byte, half = torch.tensor([200], dtype=torch.uint8), torch.ones(1, dtype=torch.float16)
    wide = torch.tensor(1.0, dtype=torch.float64)
    assert (half + 1.0).dtype == (half + wide).dtype == torch.float16
    assert (half + wide.reshape(1)).dtype == torch.float64
    assert (byte + wide).dtype == torch.float64, "a change of kind gets through without dimensions too"


@claims(
    "A byte, `torch.uint8`, holds whole numbers from 0 to 255.",
)
def test_a_byte_holds_0_to_255():
    assert torch.arange(256).to(torch.uint8).tolist() == list(range(256))
    assert torch.tensor([-1, 256]).to(torch.uint8).tolist() == [255, 0]


@claims(
    "So a vector of float64, NumPy's default, plus one of float32 is float64, and a matrix of float64 times one of "
    "float32 stops the program.",
)
def test_float64_widens_sums_and_stops_products():
    array = numpy.ones((2, 2))
    assert array.dtype == numpy.float64
    assert (torch.from_numpy(array)[0] + torch.ones(2)).dtype == torch.float64
    with pytest.raises(RuntimeError, match="expected m1 and m2 to have the same dtype"):
        torch.from_numpy(array) @ torch.ones(2, 2)


@claims(
    "A float of 32 bits is never 0.1, only close to it, and beyond 2 to the power of 24 it leaves whole numbers out:",
    "Of a float tensor `item()` makes a Python float, which has 64 bits: so it is the number that float32 made of "
    "0.1, and not equal to the one that 64 bits make of it.",
    "The tensor of the third line rounds the 0.1 beside it to float32 first, and finds the same number.",
)
def test_a_float_of_32_bits_is_close_to_a_tenth():
    tenth = torch.tensor(0.1)
    around = [torch.nextafter(tenth, torch.tensor(end)).item() for end in (0.0, 1.0)]
    exact = fractions.Fraction(1, 10)
    assert fractions.Fraction(around[0]) < exact < fractions.Fraction(tenth.item()) < fractions.Fraction(around[1])
    assert type(tenth.item()) is float and tenth.item() != 0.1
    assert (torch.tensor([0.1]) == 0.1).item() and (torch.tensor([0.1]) == 0.1 + 1e-12).item()
    start = 2**24
    assert torch.arange(start - 1000, start + 1).float().long().tolist() == list(range(start - 1000, start + 1))
    beyond = torch.arange(start, start + 1000)
    assert beyond.float().unique().numel() < beyond.numel()


@claims(
    "count elements instead of step sizes: an inexact step decides by rounding whether one more fits below the end.",
)
def test_an_inexact_step_decides_by_rounding():
    assert (len(torch.arange(0, 0.3, 0.1)), len(torch.arange(1, 1.3, 0.1))) == (3, 4)
    for begin in range(100):
        assert len(torch.linspace(begin, begin + 0.2, 3)) == 3


@claims(
    "`mat1 and mat2 ... (4x3 and 5x3)`: the two numbers in the middle, 3 and 5, had to be equal.",
    "`tensor a (3) must match ... b (4) at non-singleton dimension 1`: the shapes are lined up *from the right*, "
    "so that the 4 of `(4,)` stands below the 3 of `(4, 3)`.",
    "Dimensions count from 0.",
    "`except in dimension 1`: everywhere else they had to agree, and in dimension 0 there are 4 and 2.",
    "`invalid for input of size 6`: 4 times 2 is not 6.",
)
def test_the_errors_read_as_the_text_quotes_them(run, lesson):
    for error, quoted in (
        ("mat1 and mat2 shapes cannot be multiplied (4x3 and 5x3)", "`mat1 and mat2 ... (4x3 and 5x3)`"),
        (
            "The size of tensor a (3) must match the size of tensor b (4) at non-singleton dimension 1",
            "`tensor a (3) must match ... b (4) at non-singleton dimension 1`",
        ),
        ("Sizes of tensors must match except in dimension 1.", "`except in dimension 1`"),
        ("shape '[4, 2]' is invalid for input of size 6", "`invalid for input of size 6`"),
    ):
        assert f"    {error}" in run.output and quoted in prose(lesson)
    # What had to be equal is equal in these, and they run.
    assert (torch.ones(4, 3) @ torch.ones(3, 5)).shape == (4, 5)
    assert (torch.ones(4, 3) + torch.ones(3)).shape == (4, 3)
    assert torch.cat([torch.ones(4, 3), torch.ones(4, 2)], dim=1).shape == (4, 5)
    assert torch.ones(2, 3).view(3, 2).shape == (3, 2)
    assert torch.ones(4, 3).sum(dim=0).shape == (3,) and torch.ones(4, 3).size(0) == 4


@claims(
    "most name two sizes that had to agree, as these do.",
    "Most errors about shapes name two sizes that disagree, and broadcasting happens where no error comes",
)
def test_most_errors_about_shapes_name_two_sizes():
    one, ones, functional = torch.ones(4), torch.ones, torch.nn.functional
    lines = [  # each with the sizes that had to agree; for the last two there are none
        (lambda: ones(4, 3) @ ones(5, 3), (3, 5)),
        (lambda: ones(4, 3) @ ones(4), (3, 4)),
        (lambda: ones(2, 4, 3).bmm(ones(2, 5, 3)), (3, 5)),
        (lambda: ones(4, 3) + one, (3, 4)),
        (lambda: torch.where(ones(3) > 0, one, one), (3, 4)),
        (lambda: torch.cat([ones(4, 3), ones(2, 3)], dim=1), (4, 2)),
        (lambda: torch.stack([ones(3), one]), (3, 4)),
        (lambda: ones(2, 3).view(4, 2), (4, 2, 6)),
        (lambda: ones(2, 3).expand(4, 3), (4, 2)),
        (lambda: ones(3).dot(one), (3, 4)),
        (lambda: one.split([1, 2]), (1, 2, 4)),
        (lambda: ones(2, 3).copy_(one), (3, 4)),
        (lambda: functional.linear(ones(4, 3), ones(2, 5)), (3, 5)),
        (lambda: functional.cross_entropy(ones(4, 3), torch.zeros(5, dtype=torch.int64)), (4, 5)),
        (lambda: ones(2, 3).T.view(6), ()),
        (lambda: one.squeeze(1), ()),
    ]
    named = 0
    for line, sizes in lines:
        with pytest.raises((RuntimeError, ValueError, IndexError)) as caught:
            line()
        found = set(map(int, re.findall(r"(?<![.\w])\d+|(?<=\dx)\d+", str(caught.value))))
        named += bool(sizes) and found >= set(sizes)
    assert named > len(lines) / 2


@claims(
    "`t[:, None]` (or `unsqueeze(1)`) adds a dimension of size 1 after the first, `squeeze(1)` removes dimension 1 "
    "where its size is 1 and leaves any other size alone, `reshape` re-reads the numbers row by row.",
    "`view` is `reshape` that promises not to copy, and refuses where it would have to.",
    "A bare `squeeze()` removes *every* size of 1, which is one too many when a batch has a single row.",
)
def test_what_the_tools_for_shapes_do():
    t = torch.randn(4, 3)
    assert t[:, None].shape == t.unsqueeze(1).shape == (4, 1, 3)
    assert t.unsqueeze(1).squeeze(1).shape == t.squeeze(1).shape == (4, 3)
    assert torch.ones(1, 4, 1).squeeze(1).shape == (1, 4, 1)
    read = [value for row in t.tolist() for value in row]
    assert t.reshape(2, 6).flatten().tolist() == t.reshape(12).tolist() == read
    assert t.T.reshape(12).tolist() == [value for row in t.T.tolist() for value in row]
    dice = random.Random(0)
    for _ in range(200):  # a view exists exactly where reshape does not copy
        source = torch.randn([dice.randint(1, 4) for _ in range(3)]).permute(*dice.sample(range(3), 3))
        shape = dice.choice([(-1,), (source.shape[0], -1), (-1, source.shape[2]), source.shape[::-1]])
        copied = source.reshape(shape).data_ptr() != source.data_ptr()
        if copied:
            with pytest.raises(RuntimeError, match="view size is not compatible"):
                source.view(shape)
        else:
            assert torch.equal(source.view(shape), source.reshape(shape))
    for rows, shape in ((5, (5,)), (1, ())):
        assert torch.ones(rows, 1).squeeze().shape == shape and torch.ones(rows, 1).squeeze(1).shape == (rows,)


@claims(
    "E: `a` (n,), `b` (n, 1), n from 1 up: shape (n, 2), `a` the first column, `b` the second.",
)
def test_line_e_gives_two_columns_from_one_row_up(run, lesson):
    sizes = set()
    for kind in range(5):
        a, b = run.names["cases"].operands(Case("mended", 0, kind, 5))["E"]
        both = lessons.references(lesson)["mended"]("E", a, b)
        assert both.shape == (len(a), 2) and torch.equal(both[:, 0], a) and torch.equal(both[:, 1:], b)
        sizes.add(len(a))
    assert 1 in sizes and len(sizes) > 1


@claims(
    "*Broadcasting* lines them up from the right, and stretches every size of 1 to its partner's; a missing "
    "dimension counts as 1.",
    "Shapes that differ are not always refused.",
)
def test_broadcasting_lines_up_from_the_right_and_stretches_ones():
    dice, refused = random.Random(0), 0
    for _ in range(300):
        shapes = [[dice.choice([1, 1, 2, 3]) for _ in range(dice.randint(0, 3))] for _ in range(2)]
        long = max(map(len, shapes))
        first, second = ([1] * (long - len(shape)) + shape for shape in shapes)
        a, b = (torch.randn(shape) for shape in shapes)
        if all(1 in pair or pair[0] == pair[1] for pair in zip(first, second)):
            whole = [max(pair) for pair in zip(first, second)]
            assert torch.equal(a + b, a.reshape(first).expand(whole) + b.reshape(second).expand(whole))
        else:
            refused += 1
            with pytest.raises(RuntimeError, match="must match the size of tensor b"):
                a + b
    assert 0 < refused < 300


@claims(
    "For a tensor without dimensions `len` raises a TypeError; `numel()` does not.",
)
def test_a_tensor_without_dimensions_has_no_len():
    with pytest.raises(TypeError):
        len(torch.tensor(1.0))
    assert torch.tensor(1.0).numel() == 1


@claims(
    "Here is a repair that silences an error and ruins the data:",
)
def test_a_view_of_the_transposed_shape_is_no_transpose(run):
    assert "both have the shape (3, 2) and agree: False\n" in run.output


@claims(
    "Twenty points lie exactly on the line `y = 3 * x + 1`; `x` has the shape (20, 1), as models like it, and `y` "
    "the shape (20,), as files give it.",
    "A model `x * w + b` starts at 0 and walks down its slope for 300 steps, with the loss `((x * w + b - y) ** "
    "2).mean()`.",
    "`(20, 1)` minus `(20,)` is a table of 20 by 20: every prediction compared with every target.",
    "The best answer to all targets at once is their mean, so the slope goes to 0 and the loss stops at the "
    "variance of `y`.",
    "The true line scores twice as badly.",
    "No error, no warning, and a loss that falls as it should.",
)
def test_the_perfect_model_scores_worse_than_no_model(run):
    assert shown(run, "plain ") == "plain     w 0.000000   b 1.000000   loss 3.315789"
    w, _, loss = run.names["fit"](run.names["squeezed"])
    assert w == pytest.approx(3, abs=1e-4) and loss < 1e-6
    assert "the plain loss of the true line: 6.631579\n" in run.output
    assert "the variance of y:               3.315789\n" in run.output
    x, y, plain = (run.names[name] for name in ("x", "y", "plain"))
    assert x.shape == (20, 1) and y.shape == (20,) and torch.equal(y, 3 * x[:, 0] + 1)
    assert torch.equal(x - y, torch.stack([x[i, 0] - y for i in range(20)])) and (x - y).shape == (20, 20)
    assert plain(3 * x + 1, y).item() == pytest.approx(2 * y.var(correction=0).item(), rel=1e-5)
    losses = []

    def noted(pred, y):
        losses.append(plain(pred, y))
        assert losses[-1].item() == pytest.approx(((pred - y) ** 2).mean().item())
        return losses[-1]

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        w, b, last = run.names["fit"](noted)
    falling = [one.item() for one in losses]
    assert len(falling) == 300 and all(late <= early + 1e-6 for early, late in itertools.pairwise(falling))
    assert falling[0] == pytest.approx((y**2).mean().item()), "w and b start at 0"
    assert (w, b, last) == pytest.approx((0, y.mean().item(), y.var(correction=0).item()), abs=1e-5)


@claims(
    "And `F.mse_loss`, torch's own, at least warns:",
)
def test_the_plain_loss_of_equal_values_is_not_zero_and_torch_warns(run):
    assert "the loss of three predictions that are all right: 1.3333" in run.output
    assert "F.mse_loss: Using a target size (torch.Size([3])) that is different" in run.output


@claims(
    "`torch.tensor` copies, always.",
    "`from_numpy` opens a second window on the memory that is there, and `as_tensor` does so where nothing has to "
    "be converted.",
    "So `torch.from_numpy(a).float()`, tested with float64 arrays, is a copy in every test, and shares memory on "
    "the day when somebody sends float32.",
)
def test_two_of_four_conversions_share_the_memory_of_the_array(run):
    assert "It is [False, True, True, False].\n" in run.output
    assert "float() of a float32 array: [9.0, 1.0, 1.0]   of a float64 array: [1.0, 1.0, 1.0]\n" in run.output
    for dtype in (numpy.float32, numpy.float64, numpy.int64, numpy.uint8, bool):
        a = numpy.ones(3, dtype=dtype)
        shares = {
            one: numpy.shares_memory(a, one(a).numpy()) for one in (torch.tensor, torch.from_numpy, torch.as_tensor)
        }
        assert list(shares.values()) == [False, True, True]
        converted = torch.as_tensor(a, dtype=torch.float32)
        assert numpy.shares_memory(a, converted.numpy()) == (dtype is numpy.float32)
        t = torch.ones(3, dtype=converted.dtype)
        assert torch.tensor(t.tolist()).data_ptr() != t.data_ptr()


@claims(
    "Slices, `view`, `.T`, `expand` and `.numpy()` are such windows too.",
)
def test_slices_views_and_arrays_are_windows():
    t = torch.zeros(2, 3)
    for window in (t[0], t[:, 1:], t.view(6), t.T, t[:1].expand(4, 3), t.numpy()):
        t.zero_()
        before = window.tolist()
        t += 1
        assert window.tolist() != before


@claims(
    "`t = ...` never copies; it moves the name `t`.",
    "`=` moves a name, `+=` edits the tensor under every name",
    "`t += ...`, `t[0] = ...`, and methods like `add_` and `zero_`, with an underscore at the end, edit the "
    "numbers in place, and every name and every window shows it.",
)
def test_only_an_edit_shows_in_the_other_window(run):
    assert "after a = a + 1: [1.0, 2.0]\nafter a += 1:    [2.0, 3.0]\n" in run.output
    assert "before, after same += 1: [2.0]   the clone: [1.0]\n" in run.output
    array = numpy.array([1.0, 2.0])
    t = torch.from_numpy(array)
    name, window = t, t[:1]
    t += 1
    assert name is t and window.item() == array[0] == 2
    t[0] = 7
    assert name[0].item() == window.item() == array[0] == 7
    t.add_(1)
    assert name[0].item() == window.item() == array[0] == 8
    t.zero_()
    assert name[0].item() == window.item() == array[0] == 0
    renamed = t
    assert renamed is t
    t = t + 1
    assert t is not name and name[0].item() == array[0] == 0


@claims(
    "A mask picks elements that need not lie at even steps, so no window shows them: the first pair of brackets "
    "made a copy, and the 5 went there.",
)
def test_a_mask_makes_a_copy():
    x = torch.tensor([1, 2, 3])
    for mask in (x > 1, x > 0, torch.tensor([True, False, True])):
        picked = x[mask]
        picked[0] = 5
        assert x.tolist() == [1, 2, 3] and picked[0] == 5
    window = x[1:]
    window[0] = 5
    assert x.tolist() == [1, 5, 3]


@claims(
    "An array may be read backwards through memory, and a tensor may not.",
    "And `expand` shows one cell three times, so that three results would have one place between them.",
    "`torch.tensor` trips over arrays that are read backwards.",
    "`numpy.array(something)` makes a new array out of lists and arrays, and `.to(torch.float32, copy=True)` "
    "copies whatever the dtype was.",
)
def test_backwards_and_stretched_memory():
    backwards = numpy.arange(3.0)[::-1]
    for make in (torch.from_numpy, torch.tensor, torch.as_tensor):
        with pytest.raises(ValueError, match="negative strides are not currently supported"):
            make(backwards)
    with pytest.raises(ValueError, match="step must be greater than zero"):
        torch.arange(3.0)[::-1]
    stretched = torch.zeros(1).expand(3)
    assert len({stretched[place].data_ptr() for place in range(3)}) == 1
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor refers to a single memory"):
        stretched.add_(1)
    for something in ([1, 2], numpy.ones(2), backwards):
        new = numpy.array(something)
        assert new is not something and not numpy.shares_memory(new, numpy.asarray(something))
        assert torch.from_numpy(new).tolist() == list(something)
    for dtype in (torch.float32, torch.float64, torch.int64, torch.bool):
        t = torch.ones(2, dtype=dtype)
        copied = t.to(torch.float32, copy=True)
        assert copied.dtype == torch.float32 and copied.data_ptr() != t.data_ptr()


@claims(
    "`torch.tensor(t)` is a photocopier: the numbers survive, the history does not.",
    "The same numbers by `stack` keep theirs.",
    "`clone()` copies the numbers and stays in the story.",
    "`detach()` leaves the story and shares the numbers.",
    "Whoever wants a copy without a past says both: `t.detach().clone()`.",
)
def test_the_photocopier_leaves_the_history_and_says_so(run):
    assert shown(run, "torch.tensor(a * 2):") == "torch.tensor(a * 2): tensor(4.)"
    assert shown(run, "torch.tensor([a, b]):") == "torch.tensor([a, b]): tensor([2., 3.])"
    assert "grad_fn=<StackBackward0>" in shown(run, "torch.stack([a, b]):")
    assert (
        "To copy construct from a tensor" in run.output and "Converting a tensor with requires_grad=True" in run.output
    )
    for line, tracked, shares in (
        ("a.clone()", True, False),
        ("a.detach()", False, True),
        ("a.detach().clone()", False, False),
    ):
        assert ("grad_fn" in shown(run, line + ":")) == tracked
        assert shown(run, line + ":").endswith(f"in the memory of a: {shares}")
    t = torch.tensor([1.0, 2.0], requires_grad=True) * 2
    alone = t.detach().clone()
    assert not alone.requires_grad and alone.data_ptr() != t.data_ptr() and torch.equal(alone, t)
    assert not torch.is_warn_always_enabled(), "the lesson puts the setting back"


@claims(
    'Here a function seeds, and its caller\'s "random" numbers repeat:',
)
def test_a_function_that_seeds_makes_its_caller_repeat_itself(run):
    draws = [shown(run, f"round {number} draws").split("draws")[1] for number in range(3)]
    assert len(set(draws)) == 1


def test_a_generator_gives_the_numbers_of_the_common_sequence(run):
    own, common = (shown(run, words).split(":")[1] for words in ("of one's own", "of everybody"))
    assert own == common


@claims(
    "After a seed, the same calls in the same order give the same numbers again; the second call does not repeat the "
    "first.",
    "And there is *one* sequence for everybody on a device: whoever draws in between moves all later numbers on, "
    "and whoever seeds begins it anew for all.",
    "It gives the numbers that the common one of its device gives for the same seed and the same calls, and nobody "
    "else's draws touch it.",
    "`manual_seed` of a generator returns the generator, and `torch.randn` takes a size of any of the three forms.",
    "A seed begins a sequence that everybody shares, so own a generator where numbers have to come again.",
)
def test_a_seed_begins_one_sequence_for_all_and_a_generator_its_own():
    calls = [lambda **g: torch.rand(2, **g), lambda **g: torch.randn(3, **g), lambda **g: torch.randint(9, (20,), **g)]

    def drawn(in_between=lambda: None, **generator):
        found = []
        for call in calls:
            found.append(call(**generator).tolist())
            in_between()
        return found

    with torch.random.fork_rng():
        torch.manual_seed(3)
        first = drawn()
        assert drawn() != first
        torch.manual_seed(3)
        assert drawn() == first
        torch.manual_seed(3)
        torch.rand(1)
        assert drawn() != first, "whoever draws in between moves all later numbers on"
        torch.manual_seed(3)
        assert drawn(in_between=lambda: torch.rand(1))[1:] != first[1:]
        own = torch.Generator()
        assert own.manual_seed(3) is own
        assert drawn(in_between=lambda: torch.manual_seed(torch.seed() % 1000), generator=own) == first
        for size in (2, (2,), torch.Size([2])):
            assert torch.randn(size, generator=own).shape == (2,)


@claims(
    "A transpose swaps two strides and copies nothing.",
    "`expand` is a stride of 0.",
)
def test_all_views_of_the_table_lie_on_one_line_of_twelve_numbers(run):
    assert shown(run, "lines of numbers:") == "lines of numbers: 1   numbers in it: 12"
    t = torch.randn(2, 3, 5)
    assert t.transpose(0, 2).stride() == t.stride()[::-1] and t.transpose(0, 2).data_ptr() == t.data_ptr()
    assert t[:1].expand(4, 3, 5).stride() == (0, *t.stride()[1:])


@claims(
    "A tensor is a line of numbers in memory, and three facts on how to read it: a *shape*, a *stride* for each "
    "dimension (how many numbers to go on for the next index there), and an *offset* (at which number to begin).",
    "`data_ptr()` is the address of its first element.",
    "`t.detach()` is a window that is not tracked.",
)
def test_shape_strides_and_offset_say_where_each_element_lies():
    line = torch.arange(24)
    whole = line.view(2, 3, 4)
    for t in (whole, whole.transpose(0, 2), whole[:, 1:, ::2], whole[1, 2], whole[:, :1].expand(2, 5, 4)):
        assert t.data_ptr() == line.data_ptr() + t.storage_offset() * line.element_size()
        for index in numpy.ndindex(*t.shape):
            place = t.storage_offset() + sum(i * stride for i, stride in zip(index, t.stride()))
            assert t[index] == line[place] and t[index].data_ptr() == line[place].data_ptr()
    tracked = torch.ones(3, requires_grad=True)
    window = tracked.detach()
    assert not window.requires_grad and window.data_ptr() == tracked.data_ptr()


@claims(
    "Three right answers, and it is wrong.",
    "Two columns of one table have no element in common.",
    "Empty ones share nothing.",
    "NumPy has an exact test for two arrays, which `dir(numpy)` will show you; it takes a tensor that is not "
    "tracked for the array over the same memory.",
)
def test_first_addresses_do_not_tell_what_is_shared(run):
    broken, t = run.names["broken_shares_memory"], torch.arange(12).reshape(3, 4)
    pairs = [(t, t), (t, t.T), (t, t.clone())]
    assert "True True False\n" in run.output
    assert [broken(*pair) for pair in pairs] == [numpy.shares_memory(*pair) for pair in pairs] == [True, True, False]
    assert not broken(t, t[1:]) and numpy.shares_memory(t, t[1:])
    assert not numpy.shares_memory(t, t[:0])
    assert not numpy.shares_memory(t[:, 0], t[:, 1]) and "shares_memory" in dir(numpy)
    assert "same first address: False  same line of numbers: True" in shown(run, "t and t[1:]")


@claims(
    "A column against a row compares every pair, without a loop:",
    "A comparison gives a bool tensor.",
    "`torch.arange(classes)` is the row of all column numbers.",
)
def test_a_column_against_a_row_compares_every_pair():
    column, row = torch.tensor([9, 12, 15]), torch.arange(10, 15)
    table = column[:, None] < row
    assert table.dtype == torch.bool
    assert table.tolist() == [[a < b for b in row.tolist()] for a in column.tolist()]
    assert torch.arange(4).tolist() == [0, 1, 2, 3]


def test_no_line_break_makes_a_list_of_a_sentence(lesson):
    """A line that begins with "1. " begins a list, also in the middle of a paragraph."""
    item = re.compile(r"(\d+[.)]|[-+*]) ")
    torn = []
    for cell in lesson.cells:
        if cell.kind == "markdown":
            before = ""
            for line in cell.source.splitlines():
                if item.match(line) and before and not item.match(before) and not before.startswith(" "):
                    torn.append(line)
                before = line
    assert torn == []


# --- the catalogue ---------------------------------------------------------------------------------------------------

#: What the lesson shows against a mistake that no exercise is about: where its line begins, what it shows, and what the
#: line would show if the mistake were none.
REFUTED = {
    "C10": ("a mask, then an index:", "[1, 2, 3]", "[1, 5, 3]"),
    "C11": (
        "arange(1, 1.3, 0.1):",
        "[1.0, 1.100000023841858, 1.2000000476837158, 1.2999999523162842]",
        "three numbers",
    ),
    "C14": ("byte + 100 ", "tensor([44], dtype=torch.uint8) torch.uint8", "tensor([300])"),
    "C15": ("item() == 0.1:", "False", "True"),
    "C22": ("16777217.0 as float32:", "16777216.0   as int64: 16777217", "16777217.0   as int64: 16777217"),
}


def test_every_silent_mistake_of_the_unit_is_recognised_or_refuted(run, lesson, exercises):
    catalogue = tomllib.loads((lesson.course / "misconceptions.toml").read_text("utf-8"))
    silent = {name for name, entry in catalogue.items() if entry["unit"] == UNIT and entry["silent"]}
    recognised = {attempt.id for attempt in lessons.attempts(lesson, exercises) if attempt.kind == "misconception"}
    for beginning, result, believed in REFUTED.values():
        assert shown(run, beginning).removeprefix(beginning).strip() == result != believed
    assert sorted(silent - recognised - set(REFUTED)) == []


def test_the_mistakes_that_raise_are_shown_raising(run):
    for error in (
        "Only Tensors of floating point and complex dtype can require gradients",  # C02
        "mean(): could not infer output dtype",  # C03
        "more than one element of the written-to tensor refers to a single memory location",  # C20
        "At least one stride in the given numpy array is negative",  # C21
        "Boolean value of Tensor with more than one value is ambiguous",  # C25
        "expected m1 and m2 to have the same dtype, but got: double != float",  # C04
    ):
        assert error in run.output


#: What the catalogue says was measured of its newer entries: an expression, and its value.
MEASURED = {
    "C28": ("torch.tensor(numpy.array([1.5])).dtype", torch.float64),
    "C29": ("[round(f(100, 100).mean().item(), 1) + 0.0 for f in (torch.rand, torch.randn)]", [0.5, 0.0]),
    "C30": ("torch.ones(3).unsqueeze_(1).shape", (3, 1)),
    "C31": ("torch.ones(1, 1).squeeze().shape", ()),
    "C32": ("(torch.ones(1, 3) - torch.ones(3, 1)).shape", (3, 3)),
    "C33": ("torch.stack([torch.ones(4), torch.ones(4)]).shape", (2, 4)),
    "C35": ("(lambda a: a.data_ptr() == a[1:].data_ptr())(torch.ones(3))", False),
    "C37": ("(lambda a: torch.equal(a, a.clone()))(torch.ones(3))", True),
    "C38": ("torch.eye(int(torch.tensor([0, 2]).max()) + 1)[torch.tensor([0, 2])].shape", (2, 3)),
    "C40": ("torch.as_strided(torch.arange(6), (3, 2), (1, 3)).tolist()", [[0, 3], [1, 4], [2, 5]]),
    "C41": ("torch.as_strided(torch.arange(6), (2,), (1,), 3).tolist()", [3, 4]),
    "C42": ("torch.tensor([0.5]).requires_grad", False),
    "C47": ("torch.ones(2, 3).T.clone().is_contiguous()", False),
    "C48": ("torch.tensor(numpy.zeros((0, 3)).tolist()).shape", (0,)),
}


@pytest.mark.parametrize("name", MEASURED)
def test_what_the_catalogue_measured_is_what_happens(name):
    expression, value = MEASURED[name]
    assert eval(expression, {"torch": torch, "numpy": numpy}) == value


@pytest.mark.parametrize(
    ("update", "w", "loss"),
    [("w - 0.01 * w.grad", 1.58, 32.9), ("w + 0.01 * w.grad", 2.42, 68.2), ("w - 0.01 * x.grad", 1.72, 38.0)],
)
def test_the_first_step_and_its_wrong_sisters_lead_where_the_catalogue_says(update, w, loss):
    x, weight = torch.tensor(3.0, requires_grad=True), torch.tensor(2.0, requires_grad=True)
    ((weight * x + 1) ** 2).backward()
    moved = eval(update, {"w": weight, "x": x}).item()
    assert moved == pytest.approx(w) and (3 * moved + 1) ** 2 == pytest.approx(loss, abs=0.06)


# --- the exercises ---------------------------------------------------------------------------------------------------


def test_the_table_at_the_end_names_every_objective_and_every_exercise(lesson):
    (table,) = [cell.source for cell in lesson.cells if cell.source.startswith("## What you can do now")]
    rows = [row.strip("| ").split(" | ") for row in table.splitlines() if row.startswith("| ")][1:]
    assert [row[0] for row in rows] == list(lesson.objectives)
    assert {name for row in rows for name in re.findall(r"`(\w+)`", row[1])} == set(lesson.exercises)


def test_forms_are_mixed(lesson):
    forms = [exercise.tagged("form")[0] for exercise in lesson.exercises.values()]
    assert {"predict", "repair", "complete", "write", "review"} <= set(forms) and forms.count("review") >= 2


@pytest.mark.parametrize("name", ["start_values", "sample", "shares_memory"])
def test_the_broken_programs_of_the_lesson_are_wrong(run, exercises, lesson, name):
    exercise = exercises[name]
    expected = visible(exercise, lessons.references(lesson)[name])
    assert judge(exercise, visible(exercise, run.names[f"broken_{name}"]), expected, []).status != "right"


def test_the_plain_loss_of_the_lesson_is_no_answer(run, exercises, lesson):
    exercise = exercises["mse"]
    expected = visible(exercise, lessons.references(lesson)["mse"])
    assert not judge(exercise, visible(exercise, run.names["plain"]), expected, []).met[0]


@pytest.mark.parametrize("kind", range(5))
def test_each_of_the_five_lines_stops_on_what_the_check_hands_over(run, exercises, kind):
    lines, operands = run.names["cases"].lines, run.names["cases"].operands
    for letter, pair in operands(Case("mended", 0, kind, 5)).items():
        with pytest.raises(RuntimeError):
            lines[letter](*pair)


@pytest.mark.parametrize("variant", range(0, 100, 9))
def test_the_twelve_lines_are_what_torch_makes_of_them(lesson, exercises, variant):
    (reference,) = [one for one in lessons.attempts(lesson, exercises) if one.kind == "reference"]
    answers = reference.program(variant)
    dtypes = [dtype for _, dtype in answers]
    floats = {1, 3, 4, 9, 10}
    assert [dtypes[number] for number in sorted(floats)] == ["torch.float32"] * 5
    assert dtypes[6] == dtypes[11] == "torch.float64" and dtypes[5] == "torch.bool"
    assert answers[2][0] == [2] and answers[3][0] != [2] and len(answers[4][0]) == 1


def test_memory_that_nobody_wrote_to_fails_start_values_every_time(lesson, exercises):
    """Leftovers that happen to be zeros pass no check, and the setting that sees to it is put back."""
    exercise, reference = exercises["start_values"], lessons.references(lesson)["start_values"]

    def unwritten(rows, inputs, bias):
        return reference(rows, inputs, bias) | {"state": torch.empty(rows, len(bias))}

    seen = visible(exercise, unwritten)
    verdict = judge(exercise, seen, visible(exercise, reference), [])
    assert [words for words, met in zip(exercise.requirements, verdict.met) if not met] == [exercise.requirements[2]]
    assert all(one["mode"] == {} for one in visible(exercise, lambda rows, inputs, bias: None))
    assert not torch.are_deterministic_algorithms_enabled()


@pytest.mark.parametrize("answer", [None, 3, [], {}, {"bias": "no tensor"}])
def test_start_values_of_any_form_are_a_miss_in_words(lesson, exercises, answer):
    exercise = exercises["start_values"]
    expected = visible(exercise, lessons.references(lesson)["start_values"])
    seen = visible(exercise, lambda rows, inputs, bias: answer)
    assert [one["raised"] for one in seen] == [None] * len(seen)
    verdict = judge(exercise, seen, expected, [])
    assert verdict.status == "wrong" and verdict.difference.words


@pytest.mark.parametrize("loss", [None, 3.0, "loss", torch.ones(3), torch.ones(2, requires_grad=True)])
def test_a_loss_of_any_type_is_a_miss_in_words(lesson, exercises, loss):
    exercise = exercises["mse"]
    expected = visible(exercise, lessons.references(lesson)["mse"])
    seen = visible(exercise, lambda pred, y: loss)
    assert [one["raised"] for one in seen] == [None] * len(seen)
    assert judge(exercise, seen, expected, []).status == "wrong"


def test_a_sample_handed_out_twice_misses_only_what_it_breaks(lesson, exercises):
    exercise, reference = exercises["sample"], lessons.references(lesson)["sample"]
    kept = {}

    def cached(shape, seed):
        key = str(shape), seed
        kept.setdefault(key, reference(shape, seed))
        return kept[key]

    expected, seen = visible(exercise, reference), []
    for index in range(exercise.visible):
        kept.clear()
        seen.append(observe(exercise, cached, SEED, index))
    assert judge(exercise, seen, expected, []).met == [True, True, True, False]


def test_every_pair_that_the_loss_is_asked_about_has_a_tracked_prediction(lesson, exercises):
    exercise, reference, tracked = exercises["mse"], lessons.references(lesson)["mse"], []

    def noting(pred, y):
        tracked.append(pred.requires_grad)
        return reference(pred, y)

    visible(exercise, noting)
    assert len(tracked) > 4 and all(tracked)


def test_a_step_that_moves_x_too_is_judged_for_that_alone(lesson, exercises):
    exercise = exercises["step_down"]

    def both(w, x, lr):
        loss = (w * x + 1) ** 2
        loss.backward()
        with torch.no_grad():
            w -= lr * w.grad
            x -= lr * x.grad
        return loss.item()

    verdict = judge(exercise, visible(exercise, both), visible(exercise, lessons.references(lesson)["step_down"]), [])
    assert [one.words for one, met in zip(exercise.requirements, verdict.met) if not met] == ["`x` has not moved"]
    assert all(verdict.judged) and verdict.difference.words.startswith("x after ")


def test_a_difference_of_losses_leads_to_the_one_call_that_differs(lesson, exercises):
    """Also where what came of the call is told in words."""
    exercise = exercises["mse"]
    attempts = [one for one in lessons.attempts(lesson, exercises) if one.exercise == "mse"]
    expected = visible(exercise, lessons.references(lesson)["mse"])
    found = []
    for attempt in attempts:
        if attempt.kind == "misconception":
            verdict = judge(exercise, visible(exercise, attempt.program), expected, [])
            shown = observe(exercise, attempt.program, SEED, verdict.case, describe=True)
            if shown["call_count"] > 1 and shown["raised"] is None:
                found.append((attempt.key, len(call_lines(shown, verdict.difference).splitlines())))
    assert found and [key for key, lines in found if lines != 2] == []
