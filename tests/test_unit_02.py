"""What unit 2 says is what runs: its numbers, its errors, and the mistakes that it shows or recognises."""

import re
import tomllib

import pytest
import torch
from autogradlab import accelerator
from autogradlab.diagnosis import judge
from autogradlab.exercises import load_cases
from autogradlab.observation import observe
from autogradlab.recorded import visible
from lesson_runs import executed, prose, unanswered

from autograder import lessons
from autograder.engine.knowledge import devices_for

UNIT = "02_moving_between_devices"

pytestmark = pytest.mark.skipif(not accelerator.is_available(), reason=accelerator.why_unavailable() or "")


@pytest.fixture(scope="module")
def lesson():
    return lessons.read(UNIT)


@pytest.fixture(scope="module")
def run(lesson):
    return executed(lesson)


@pytest.fixture(scope="module")
def exercises(lesson):
    return load_cases(lesson.directory / "cases.py")


@pytest.fixture(scope="module")
def references(lesson, run):
    return lessons.references(lesson)


def shown(run, beginning):
    """What follows on the one line of the output that begins like this."""
    (line,) = [line for line in run.output.splitlines() if line.startswith(beginning)]
    return line.removeprefix(beginning).strip()


# --- the story -------------------------------------------------------------------------------------------------------


def test_the_lesson_runs_top_to_bottom_in_ten_seconds_without_a_warning(run):
    assert run.seconds < 10


def test_a_prediction_shows_nothing_before_an_answer(lesson):
    asked = [cell for cell in lesson.cells if cell.role == "prediction"]
    revealing = [cell for cell in lesson.cells if "@reveal" in cell.source]
    lines = unanswered(lesson, [*lesson.setup, *asked, *revealing])
    assert lines.count("Commit an answer and a confidence first.") == len(asked) == len(revealing) >= 4
    assert not any(line.startswith("It is") for line in lines)


def test_one_program_has_two_histories(run, lesson):
    assert "0.8, then 0.64, then 0.512" in prose(lesson)
    assert "It is [[0.512, 0.512, 0.512], [0.8, 0.64, 0.512]].\n" in run.output


def test_devices_are_compared_by_kind(run):
    assert shown(run, "compared with text, with an address, by kind:") == "False False True"


def test_a_tensor_stays_and_its_twin_is_elsewhere(run):
    assert shown(run, "after x.to(device):") == "x is on cpu"
    assert shown(run, "after y = x.to(device):") == "y is on sim:0 and x on cpu"
    assert shown(run, "after x += 1:") == "x [2.0, 2.0, 2.0]  y [1.0, 1.0, 1.0]"
    assert shown(run, "y.to(device) is y:") == shown(run, "x.to('cpu') is x:") == "True"


def test_results_stay_where_they_were_computed(run):
    assert shown(run, "y.sum().device") == shown(run, "(y * 2).device") == "sim:0"
    assert shown(run, "torch.zeros(3).device") == "cpu"


@pytest.mark.parametrize("line", ["x + y", "y + torch.ones(1)", "x * y.sum()"])
def test_two_places_do_not_meet(run, line):
    assert f"{line}\n    RuntimeError: Expected all tensors to be on the same device" in run.output


def test_a_cpu_tensor_without_dimensions_may_join(run):
    assert shown(run, "y + torch.tensor(2.0)") == "tensor([3., 3., 3.], device='sim:0')"


def test_a_device_as_context_moves_no_array(run):
    assert shown(run, "torch.from_numpy(array)") == "cpu"
    assert {shown(run, f"{line} ") for line in ("torch.zeros(2)", "torch.as_tensor(array)")} == {"sim:0"}


def test_four_taxis_and_a_lorry_carry_the_same_bytes_and_float64_twice_as_many(run):
    assert shown(run, "four taxis, float32:").startswith("4 trips, 4000 bytes")
    assert shown(run, "one lorry,  float32:").startswith("1 trips, 4000 bytes")
    assert shown(run, "one lorry,  float64:").startswith("1 trips, 8000 bytes")


def test_a_helper_from_elsewhere_raises_or_widens(run):
    assert shown(run, "with_first_step          torch.float16 on cpu:") == "torch.float32 on cpu"
    assert shown(run, "with_first_step          torch.float32 on sim:0:").startswith("Expected all tensors")
    assert shown(run, "with_first_step_at_home  torch.float32 on sim:0:") == "torch.float32 on sim:0"


def test_a_moved_tracked_tensor_is_no_leaf_and_no_optimizer_takes_it(run):
    assert "can't optimize a non-leaf Tensor\nIt is [True, False].\n" in run.output
    assert shown(run, "start.to('cpu').requires_grad_() ").endswith("start itself: True")


def test_a_module_moves_itself_and_leaves_a_plain_attribute_behind(run):
    assert shown(run, "moved is model:") == "True"
    assert shown(run, "the same weight, still leaf:") == "True True"
    assert [shown(run, f"{name:13} on") for name in ("weight", "scale", "inner.weight")] == ["sim:0"] * 3
    assert shown(run, "mask          on") == "cpu"


def test_four_of_six_lines_wait(run, lesson):
    assert 'No line says "wait", and four of the six do.' in prose(lesson)
    assert "It is [0, 1, 1, 1, 1, 0].\n" in run.output
    assert shown(run, "item() in every step:") == "45.0  waits: 10"
    assert shown(run, "item() at the end:") == "45.0  waits: 1"


def test_one_mebibyte_holds_sixteen_batches(run):
    assert "sim out of memory. at batch 17\n" in run.output and "It is 17.\n" in run.output


def test_memory_is_held_until_the_last_name_is_gone(run):
    assert shown(run, "torch.sim, with a window of one:") == shown(run, "torch.sim:") == "1048576 bytes more"
    assert shown(run, "torch.sim, with no name left:") == "0 bytes more"


def test_only_the_third_reading_of_the_kitchen_is_a_measurement(run):
    words = ("read when the order is taken:", "read after the wait:           ", "once more, nothing left over:")
    assert [shown(run, word).split()[0] for word in words] == ["0.001", "4.001", "2.001"]


# --- the catalogue ---------------------------------------------------------------------------------------------------

#: What the lesson shows against a mistake that no exercise is about: where its line begins, what it shows, and what the
#: line would show if the mistake were none.
REFUTED = {
    "D05": ("compared with text, with an address, by kind:", "False False True", "True True True"),
    "D13": (
        "torch.ones(2, 2) @ torch.ones(2, 2, device='meta'):",
        "no error, shape (2, 2) on cpu",
        "Tensor on device meta is not on the expected device cpu!",
    ),
    "D18": ("read at once: ", "[0.0, 0.0]", "[1.0, 1.0]"),
    **({} if torch.cuda.is_available() else {"D19": ("torch.cuda.memory_allocated() says", "0", "1048576")}),
}


def test_every_silent_mistake_of_the_unit_is_recognised_or_refuted(run, lesson, exercises):
    catalogue = tomllib.loads((lesson.course / "misconceptions.toml").read_text("utf-8"))
    silent = {name for name, entry in catalogue.items() if entry["unit"] == UNIT and entry["silent"]}
    recognised = {attempt.id for attempt in lessons.attempts(lesson, exercises) if attempt.kind == "misconception"}
    for beginning, result, believed in REFUTED.values():
        assert shown(run, beginning) == result != believed
    assert sorted(silent - recognised - set(REFUTED) - ({"D19"} if torch.cuda.is_available() else set())) == []


#: What the catalogue says was measured: an expression with x on the CPU and y on the accelerator, and its value.
MEASURED = {
    "D02": ("(lambda model: model.to('sim') is model)(torch.nn.Linear(2, 1))", True),
    "D11": ("[setattr(m := torch.nn.Linear(1, 1), 'mask', x), m.to('sim').mask.device.type][1]", "cpu"),
    "D14": ("(y * torch.tensor(2.0)).device.type", "sim"),
    "D20": ("y.sum().device.type", "sim"),
    "D23": ("torch.zeros(len(y)).device.type", "cpu"),
    "D26": ("torch.device(torch.device('cuda:1').type).index", None),
    "D30": ("y.to('sim', copy=True) is y", False),
    "D32": ("torch.ones(2, requires_grad=True).detach().to('sim').requires_grad", False),
    "D35": ("torch.ones(2, requires_grad=True).to('sim', copy=True).requires_grad_().is_leaf", False),
}


@pytest.mark.parametrize("name", MEASURED)
def test_what_the_catalogue_measured_is_what_happens(run, name):
    expression, value = MEASURED[name]
    assert eval(expression, {"torch": torch, "x": torch.ones(2), "y": torch.ones(2, device="sim")}) == value


# --- the exercises ---------------------------------------------------------------------------------------------------


def test_the_table_at_the_end_names_every_objective_and_every_exercise(lesson):
    (table,) = [cell.source for cell in lesson.cells if cell.source.startswith("## What you can do now")]
    rows = [row.strip("| ").split(" | ") for row in table.splitlines() if row.startswith("| ")][1:]
    assert [row[0] for row in rows] == list(lesson.objectives)
    assert {name for row in rows for name in re.findall(r"`(\w+)`", row[1])} == set(lesson.exercises)


def test_forms_are_mixed(lesson):
    forms = [exercise.tagged("form")[0] for exercise in lesson.exercises.values()]
    assert {"predict", "repair", "complete", "review", "write"} <= set(forms) and forms.count("review") >= 2


def test_exercises_about_places_are_graded_in_both(exercises):
    both = {name for name, exercise in exercises.items() if devices_for(exercise)[-1] == "sim"}
    assert {"to_device", "one_trip", "masked_mean", "make_param", "weight_log", "window_means"} <= both
    assert all(devices_for(exercise)[0] == "cpu" for exercise in exercises.values())


@pytest.mark.parametrize("name", ["make_param", "weight_log", "window_means", "pick_device", "masked_mean"])
def test_the_broken_programs_of_the_lesson_are_wrong(run, exercises, references, name):
    exercise = exercises[name]
    expected = visible(exercise, references[name])
    assert judge(exercise, visible(exercise, run.names[f"broken_{name}"]), expected, []).status != "right"


@pytest.mark.parametrize("place", ["cpu", "sim"])
@pytest.mark.parametrize("name", ["to_device", "one_trip", "masked_mean", "make_param", "weight_log", "window_means"])
def test_the_solutions_raise_nothing_in_either_place(exercises, references, name, place):
    exercise = exercises[name]
    seen = [observe(exercise, references[name], 0, index, device=place) for index in range(exercise.visible)]
    assert [one["raised"] for one in seen] == [None] * exercise.visible


def test_a_log_that_is_wrong_on_the_cpu_alone_is_found_in_either_place(exercises, references):
    exercise = exercises["weight_log"]

    def aliases(w, step, steps):
        log = []
        for _ in range(steps):
            step()
            log.append(w.detach().cpu())
        return log

    for place in ("cpu", "sim"):
        programs = (aliases, references["weight_log"])
        seen, expected = ([observe(exercise, one, 0, 0, device=place)] for one in programs)
        assert not judge(exercise, seen, expected, []).met[0]


@pytest.mark.parametrize("answer", [None, 3, [], {}, torch.ones(2), ["text"]])
@pytest.mark.parametrize(
    "name",
    ["to_device", "one_trip", "masked_mean", "make_param", "weight_log", "window_means", "pick_device", "bench"],
)
def test_an_answer_of_any_type_is_a_miss_in_words(exercises, references, name, answer):
    exercise = exercises[name]
    seen = visible(exercise, lambda *arguments: answer)
    assert [one["raised"] for one in seen] == [None] * exercise.visible
    verdict = judge(exercise, seen, visible(exercise, references[name]), [])
    assert verdict.status == "wrong" and verdict.difference.words
