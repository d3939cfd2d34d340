"""What unit 5 says is what runs: its numbers, its data, and the wrong answers that its exercises spell out."""

import hashlib
import itertools
import runpy
import sys
import types
from pathlib import Path

import numpy
import pytest
import torch
from autogradlab.diagnosis import Candidate, judge
from autogradlab.exercises import define, load_cases
from autogradlab.recorded import visible
from lesson_runs import executed, unanswered

from autograder import lessons

UNIT = "05_accumulating_gradients"
SCRIPT = Path(__file__).parent.parent / "scripts" / "make_digits.py"


@pytest.fixture(scope="module")
def lesson():
    return lessons.read(UNIT)


@pytest.fixture(scope="module")
def run(lesson):
    return executed(lesson)


@pytest.fixture(scope="module")
def exercises(lesson):
    return load_cases(lesson.directory / "cases.py")


# --- the story -------------------------------------------------------------------------------------------------------


def test_the_lesson_runs_top_to_bottom_in_ten_seconds(run):
    assert run.seconds < 10


def test_a_prediction_shows_nothing_before_an_answer(lesson):
    cells = [cell for cell in lesson.cells if cell.role in ("setup", "prediction") or "@reveal" in cell.source]
    names = [cell for cell in cells if cell.role == "prediction"]
    needed = [cell for cell in lesson.cells if cell.role == "setup" or "def trap" in cell.source]
    shown = unanswered(lesson, [*needed, *(cell for cell in cells if cell.role != "setup")])
    assert shown.count("Commit an answer and a confidence first.") == len(names) >= 4
    assert not any(line.startswith("It is") for line in shown)


def test_the_trap_reads_the_running_total_of_42(run):
    assert run.names["trap"](3) == [42.0, 84.0, 126.0]


def test_the_half_fix_leaves_x_growing(run):
    assert "step 3: w.grad  42.0   x.grad  84.0" in run.output
    assert run.names["half_fixed"](3) == [(42, 28), (42, 56), (42, 84)]


def test_the_half_fix_stands_before_the_exercise_on_it(lesson):
    sources = [cell.source for cell in lesson.cells]
    (prediction,) = [number for number, source in enumerate(sources) if 'commit("half_a_fix"' in source]
    (exercise,) = [number for number, source in enumerate(sources) if source == 'check("first_wrong")']
    assert prediction < exercise


def test_a_retained_graph_adds_again_and_a_freed_one_raises(run):
    assert "once:   tensor(12.)\ntwice:  tensor(24.)\nthrice: Trying to backward through the graph a" in run.output


def test_gradients_that_are_handed_back_leave_every_meter_alone(run):
    assert "handed back:      (tensor(42.), tensor(28.))\nw.grad and x.grad: None None\n" in run.output


def test_only_a_detached_copy_of_a_gradient_has_no_past(run):
    (shown,) = [line for line in run.output.splitlines() if line.startswith("clone():")]
    assert shown == "clone():          tensor(12., grad_fn=<CloneBackward0>)"
    assert "detach().clone(): tensor(12.)\n" in run.output


def test_a_loop_that_never_clears_swings(run):
    path_of = run.names["path_of"]
    swing = [3.5, 0.95, -1.885, -4.1545, -5.1776, -4.6475, -2.7231, 0.0182, 2.7541, 4.6637]
    assert path_of("never")[1:] == pytest.approx(swing, abs=1e-4)
    assert path_of("before backward")[1:5] == pytest.approx([3.5, 2.45, 1.715, 1.2005])
    assert path_of("before the update") == [5.0] * 11


def test_the_swing_has_the_period_of_the_formula(run):
    assert "measured period 11.325 steps, by formula 11.325 steps" in run.output


def test_zeros_move_a_weight_under_momentum_adam_and_decay_and_none_does_not(run):
    resting, optim = run.names["resting"], torch.optim
    zero = torch.tensor(0.0)
    for make, steps, before, after in (
        (lambda w: optim.SGD(w, lr=0.1, momentum=0.9), 1, 0.8, 0.62),
        (lambda w: optim.Adam(w, lr=0.1), 1, 0.9, 0.833),
        (lambda w: optim.SGD(w, lr=0.1, weight_decay=0.5), 0, 1.0, 0.95),
    ):
        assert resting(make, steps, zero.clone()) == pytest.approx((before, after), abs=1e-3)
        start, end = resting(make, steps, None)
        assert start == end == pytest.approx(before)


def test_a_list_of_gradients_shows_one_whiteboard(run):
    kept = run.names["kept"]
    assert kept(run.names["write_zeros"]) == [3.0, 3.0, 3.0]
    assert kept(run.names["take_away"]) == [1.0, 2.0, 3.0]
    assert kept(lambda w: None) == [6.0, 6.0, 6.0]


def test_each_cleaner_sweeps_its_own_room(run):
    left = run.names["what_is_left"]
    assert left("optimizer") == ["kept", "None"]
    assert left("optimizer", set_to_none=False) == ["kept", "zeros"]
    assert left("model") == ["None", "None"]
    assert left("model", set_to_none=False) == ["zeros", "zeros"]


def test_uneven_parts_need_more_than_their_number(run):
    in_parts = run.names["in_parts"]
    whole = in_parts([0, 1, 2, 3])
    assert in_parts([0, 1], [2, 3]) == pytest.approx(whole, rel=1e-5)
    assert in_parts([0, 1, 2], [3]) != pytest.approx(whole, rel=0.05)


def test_one_backward_for_eight_parts_holds_eight_graphs(run):
    peak_and_gradient = run.names["peak_and_gradient"]
    (single, _), (each, gradient) = (peak_and_gradient(parts, at_once=False) for parts in (1, 8))
    once, other = peak_and_gradient(8, at_once=True)
    assert each == single and once == 8 * each
    assert (gradient - other).abs().max() < 1e-6 * gradient.abs().max()


def test_the_bug_wins_at_the_small_rate_and_loses_at_the_large_one(run):
    share_read = run.names["share_read"]
    assert share_read(0.001, clears=False) > share_read(0.001, clears=True) + 50
    assert share_read(0.3, clears=True) > share_read(0.3, clears=False) + 50


def test_the_broken_programs_of_the_lesson_are_wrong(run, exercises, lesson):
    references = lessons.references(lesson)
    for name in ("train", "frozen_step", "diary"):
        exercise = exercises[name]
        expected = visible(exercise, references[name])
        broken = visible(exercise, run.names[f"broken_{name}"])
        assert not judge(exercise, broken, expected, []).met[0], name


# --- the data --------------------------------------------------------------------------------------------------------


def test_the_digits_are_those_of_scikit_learn(lesson):
    file = lesson.directory / "digits.npy"
    digest = "c45cf27f9e6d1507aa17aa9949fab3d046c8ffa373a108f49991e27f232ad83b"
    assert hashlib.sha256(file.read_bytes()).hexdigest() == digest
    table = numpy.load(file)
    assert table.shape == (1797, 65) and table.dtype == numpy.uint8 and table[:, :64].max() == 16
    # As load_digits() counts them.
    assert numpy.bincount(table[:, 64]).tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]


def test_the_script_writes_the_digits_byte_for_byte(lesson, tmp_path, monkeypatch):
    file = lesson.directory / "digits.npy"
    table = numpy.load(file).astype(float)
    datasets = types.ModuleType("sklearn.datasets")
    datasets.load_digits = lambda return_X_y: (table[:, :64], table[:, 64].astype(int))
    monkeypatch.setitem(sys.modules, "sklearn", types.ModuleType("sklearn"))
    monkeypatch.setitem(sys.modules, "sklearn.datasets", datasets)
    monkeypatch.setattr(sys, "argv", [str(SCRIPT), str(tmp_path / "digits.npy")])
    runpy.run_path(str(SCRIPT), run_name="__main__")
    assert (tmp_path / "digits.npy").read_bytes() == file.read_bytes()


# --- the exercises ---------------------------------------------------------------------------------------------------


def test_the_solution_of_the_meter_is_what_its_lines_do(lesson, run):
    variant, answers = lessons.references(lesson)["meter_reading"]()
    names, readings = {"torch": torch}, []
    for line in run.names["cases"].meter_script(variant):
        exec(line, names)
        grad = names["w"].grad
        readings.append(None if grad is None else grad.item())
    assert readings == answers


def test_the_wrong_loops_are_wrong_where_the_review_says_and_not_before(lesson, run):
    verdicts, loops = lessons.references(lesson)["first_wrong"], run.names["cases"].loops

    def gradients(loop, steps):
        w, x = torch.tensor(2.0, requires_grad=True), torch.tensor(3.0, requires_grad=True)
        loop(w, x, steps)
        return {"w": w.grad.item(), "x": x.grad.item()}

    fresh = {"w": 42.0, "x": 28.0}
    for name, loop in loops.items():
        wrong = {}
        for steps in range(1, 10):
            for tensor, value in gradients(loop, steps).items():
                if value != fresh[tensor]:
                    wrong.setdefault(tensor, steps)
        assert verdicts(name) == wrong, name


def shown(lesson, exercise, program):
    """The verdict on a program, with no wrong program at hand."""
    reference = lessons.references(lesson)[exercise.name]
    seen = visible(exercise, program)
    assert [observation["raised"] for observation in seen] == [None] * len(seen)
    return judge(exercise, seen, visible(exercise, reference), [])


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        *((entry, "not a whole number from 1 to 100") for entry in ("two", None, [2], torch.ones(2), True, 10**9, 2.5)),
        (2.0, None),
        (numpy.int64(2), None),
        (9, "after that many steps w.grad is right"),
    ],
)
def test_an_entry_of_any_type_in_the_review_is_a_hit_or_a_miss_in_words(lesson, exercises, entry, words):
    right = lessons.references(lesson)["first_wrong"]
    verdict = shown(lesson, exercises["first_wrong"], lambda loop: {"w": entry, "x": 2} if loop == "B" else right(loop))
    if words is None:
        assert verdict.status == "right"
    else:
        assert verdict.status == "partly" and words in verdict.difference.words


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (None, "a value of type NoneType came back, and no dict"),
        (["w"], "a value of type list came back, and no dict"),
        ({}, "a tensor whose .grad can be wrong is not named"),
        ({"w": 2, 3: 1}, 'a key is neither "w" nor "x"'),
        ({"w": 2, "x": 1}, "x is named, and its .grad is right after any number of steps"),
    ],
)
def test_an_answer_of_any_form_to_the_review_is_a_miss_in_words(lesson, exercises, answer, words):
    right = lessons.references(lesson)["first_wrong"]
    verdict = shown(lesson, exercises["first_wrong"], lambda loop: answer if loop == "A" else right(loop))
    assert verdict.status == "wrong" and words in verdict.difference.words


def test_the_path_that_differs_is_told_by_its_call(lesson, exercises):
    right = lessons.references(lesson)["pendulum"]

    def never_fades(slope, start, lr, momentum, steps):
        return right(slope, start, lr, momentum and 1, steps)

    verdict = shown(lesson, exercises["pendulum"], never_fades)
    assert verdict.met == [True, True, False] and "the path of call 3" in verdict.difference.words


def test_the_weights_that_differ_are_told_by_their_call(lesson, exercises):
    def steps_for_all(optimizer, frozen):
        optimizer.step()

    verdict = shown(lesson, exercises["frozen_step"], steps_for_all)
    assert "frozen weights after call 2" in verdict.difference.words and "0.weight" in verdict.difference.words


ARRANGED = """
def accumulate(w, batches):
    {first}
    {second}
    {third}
    for x, y in batches:
        {loss}
        {fourth}
        {fifth}
    return total
"""
BEFORE = ("rows = sum(len(y) for _, y in batches)", "w.grad = None", "total = 0.0")
INSIDE = ("loss.backward()", "total += loss.item()")
RIGHT = "loss = ((x @ w - y) ** 2).sum() / rows"
DISTRACTORS = {
    "A08": "loss = ((x @ w - y) ** 2).mean()",
    "A09": "loss = ((x @ w - y) ** 2).mean() / len(batches)",
    "B07": "loss = ((x @ w - y) ** 2).sum()",
}


def arranged(before, inside, loss, namespace):
    first, second, third = before
    source = ARRANGED.format(first=first, second=second, third=third, loss=loss, fourth=inside[0], fifth=inside[1])
    return define("accumulate", source, namespace)


@pytest.fixture(scope="module")
def accumulate(lesson, exercises):
    """What judges an answer to `accumulate`, misconceptions at hand."""
    exercise = exercises["accumulate"]
    expected = visible(exercise, lessons.references(lesson)["accumulate"])
    candidates = [
        Candidate(attempt.key, attempt.id, attempt.id, attempt.message or "?", visible(exercise, attempt.program))
        for attempt in lessons.attempts(lesson, exercises)
        if attempt.exercise == "accumulate" and attempt.kind == "misconception"
    ]
    return lambda program: judge(exercise, visible(exercise, program), expected, candidates)


def test_the_lines_to_arrange_are_those_of_the_contract(lesson):
    contract = lesson.exercises["accumulate"].contract
    for line in (*BEFORE, *INSIDE, RIGHT, *DISTRACTORS.values()):
        assert f" {line}\n" in contract


def test_every_right_order_of_the_lines_passes(lesson, accumulate):
    namespace = lessons.namespace(lesson)
    for before, inside in itertools.product(itertools.permutations(BEFORE), itertools.permutations(INSIDE)):
        assert accumulate(arranged(before, inside, RIGHT, namespace)).status == "right", (before, inside)


@pytest.mark.parametrize("name", DISTRACTORS)
def test_each_distractor_gives_its_own_id(lesson, accumulate, name):
    program = arranged(BEFORE, INSIDE, DISTRACTORS[name], lessons.namespace(lesson))
    verdict = accumulate(program)
    assert verdict.status == "wrong" and [candidate.id for candidate, _ in verdict.diagnosis] == [name]
