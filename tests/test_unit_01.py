"""What unit 1 says is what runs: its numbers, its errors, and the mistakes that it shows or recognises."""

import re
import tomllib

import numpy
import pytest
import torch
from autogradlab.case import Case
from autogradlab.diagnosis import judge
from autogradlab.exercises import load_cases
from autogradlab.observation import observe
from autogradlab.recorded import SEED, visible
from lesson_runs import executed, prose, unanswered

from autograder import lessons

UNIT = "01_creating_tensors"


@pytest.fixture(scope="module")
def lesson():
    return lessons.read(UNIT)


@pytest.fixture(scope="module")
def run(lesson):
    return executed(lesson)


@pytest.fixture(scope="module")
def exercises(lesson):
    return load_cases(lesson.directory / "cases.py")


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


def test_the_page_that_says_48_and_72_is_wrong(run, lesson):
    assert "The page says that they are 48 and 72" in prose(lesson)
    assert "by torch, x.grad and w.grad:      28.0 42.0\n" in run.output
    assert "z: 7.0   loss: 49.0" in run.output


def test_one_step_of_a_hundredth_of_42_leads_to_158_and_below_49(run):
    assert "w: 1.58   loss before: 49.0   loss after: 32.9476\nIt is [1.58, True].\n" in run.output


def test_every_pair_of_the_bridge_gives_the_same_values(run):
    lines = [line for line in run.output.splitlines() if "same values:" in line]
    assert len(lines) == len(run.names["bridge"]) and all(line.endswith("same values: True") for line in lines)


def test_std_divides_by_one_less_in_torch(run):
    numbers = numpy.arange(6.0)
    assert float(shown(run, "array.std()").split()[-1]) == pytest.approx(numbers.std())
    assert float(shown(run, "tensor.std()").split()[-1]) == pytest.approx(numbers.std(ddof=1))


def test_a_second_device_is_shown_or_its_absence_explained(run):
    accelerator = run.names["accelerator"]
    expected = accelerator.why_unavailable() or "tensor([0., 0.], device='sim:0')"
    assert f"{expected}\n" in run.output


def test_the_shapes_of_the_four_constructors(run):
    assert "It is [[2], [2, 3], [], [3]].\n" in run.output


def test_300_wraps_around_to_44_unless_a_dimension_or_a_fraction_widens_it(run, lesson):
    assert "300 wraps around to 44" in prose(lesson)
    for line, result in (("100", "[44]"), ("torch.tensor(100)", "[44]"), ("torch.tensor([100])", "[300]")):
        assert f"tensor({result}" in shown(run, f"byte + {line} ")
    assert "float32" in shown(run, "byte + 100.0 ")


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


def test_a_view_of_the_transposed_shape_is_no_transpose(run):
    assert "both have the shape (3, 2) and agree: False\n" in run.output


def test_the_perfect_model_scores_worse_than_no_model(run):
    assert shown(run, "plain ") == "plain     w 0.000000   b 1.000000   loss 3.315789"
    w, _, loss = run.names["fit"](run.names["squeezed"])
    assert w == pytest.approx(3, abs=1e-4) and loss < 1e-6
    assert "the plain loss of the true line: 6.631579\n" in run.output
    assert "the variance of y:               3.315789\n" in run.output
    # "The true line scores twice as badly."
    x, y, plain = (run.names[name] for name in ("x", "y", "plain"))
    assert plain(3 * x + 1, y).item() == pytest.approx(2 * y.var(correction=0).item(), rel=1e-5)


def test_the_plain_loss_of_equal_values_is_not_zero_and_torch_warns(run):
    assert "the loss of three predictions that are all right: 1.3333" in run.output
    assert "F.mse_loss: Using a target size (torch.Size([3])) that is different" in run.output


def test_two_of_four_conversions_share_the_memory_of_the_array(run):
    assert "It is [False, True, True, False].\n" in run.output
    assert "float() of a float32 array: [9.0, 1.0, 1.0]   of a float64 array: [1.0, 1.0, 1.0]\n" in run.output


def test_only_an_edit_shows_in_the_other_window(run):
    assert "after a = a + 1: [1.0, 2.0]\nafter a += 1:    [2.0, 3.0]\n" in run.output
    assert "before, after same += 1: [2.0]   the clone: [1.0]\n" in run.output


def test_the_photocopier_leaves_the_history_and_says_so(run):
    assert shown(run, "torch.tensor(a * 2):") == "torch.tensor(a * 2): tensor(4.)"
    assert shown(run, "torch.tensor([a, b]):") == "torch.tensor([a, b]): tensor([2., 3.])"
    assert "grad_fn=<StackBackward0>" in shown(run, "torch.stack([a, b]):")
    assert (
        "To copy construct from a tensor" in run.output and "Converting a tensor with requires_grad=True" in run.output
    )


def test_a_function_that_seeds_makes_its_caller_repeat_itself(run):
    draws = [shown(run, f"round {number} draws").split("draws")[1] for number in range(3)]
    assert len(set(draws)) == 1


def test_a_generator_gives_the_numbers_of_the_common_sequence(run):
    own, common = (shown(run, words).split(":")[1] for words in ("of one's own", "of everybody"))
    assert own == common


def test_all_views_of_the_table_lie_on_one_line_of_twelve_numbers(run):
    assert shown(run, "lines of numbers:") == "lines of numbers: 1   numbers in it: 12"


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
