"""What unit 3 says is what runs: its numbers, its graphs, and the wrong programs that its exercises spell out."""

import ast
import contextlib
import io
import re
import tomllib
from pathlib import Path

import pytest
import torch
from autogradlab.diagnosis import judge
from autogradlab.exercises import load_cases
from autogradlab.recorded import visible
from lesson_runs import executed

from autograder import lessons

UNIT = "03_building_the_graph"
CATALOGUE = Path(__file__).parent.parent / "course" / "misconceptions.toml"


@pytest.fixture(scope="module")
def lesson():
    return lessons.read(UNIT)


@pytest.fixture(scope="module")
def run(lesson):
    return executed(lesson)


@pytest.fixture(scope="module")
def exercises(lesson):
    return load_cases(lesson.directory / "cases.py")


def shown(lesson, exercise, program):
    """The verdict on a program, with no wrong program at hand."""
    reference = lessons.references(lesson)[exercise.name]
    return judge(exercise, visible(exercise, program), visible(exercise, reference), [])


# --- the story -------------------------------------------------------------------------------------------------------


def test_the_lesson_runs_top_to_bottom_in_ten_seconds(run):
    assert run.seconds < 10


def test_the_lesson_runs_untouched_and_then_shows_no_result(lesson):
    """The open problem and the picture have stubs, which a cell below them has to live with."""
    cells = [cell for cell in lesson.cells if cell.kind == "code" and cell.role != "test"]
    output = io.StringIO()
    untouched = [cell for cell in cells if cell.role != "solution"]

    def picture(tensor, names):
        raise NotImplementedError

    with contextlib.redirect_stdout(output):
        names = lessons.execute(lesson, untouched[:1])
        names["picture"] = picture
        for cell in untouched[1:]:
            exec(compile(cell.source, "<cell>", "exec"), names)
    lines = output.getvalue().splitlines()
    predictions = [cell for cell in cells if cell.role == "prediction"]
    assert lines.count("Commit an answer and a confidence first.") == len(predictions) >= 10
    assert not any(line.startswith("It is") for line in lines)
    assert "picture() is not written yet." in lines


def test_operations_on_tracked_tensors_are_recorded_and_comparisons_are_not(run):
    assert "It is [True, False, False, True, True]." in run.output


def test_a_leaf_is_a_tensor_without_grad_fn(run):
    assert "It is [True, True, False, False, True, True]." in run.output
    table = run.output.split("is_leaf  tracked  grad_fn\n")[1].splitlines()[:6]
    rows = [re.split(r"  +", line.strip()) for line in table]
    assert [row[1] == "True" for row in rows] == [row[3] == "None" for row in rows]


def test_a_tensor_that_is_named_too_late_is_refused_by_an_optimizer(run):
    assert "an optimizer:    can't optimize a non-leaf Tensor\n" in run.output


def test_a_flag_counts_from_where_it_is_set(run):
    assert "before the flag, edges lead to [None, 'torch::autograd::AccumulateGrad']\n" in run.output
    assert "w.grad None and v.grad tensor(2.)\n" in run.output
    assert "you can only change requires_grad flags of leaf variables\n" in run.output


def test_an_update_without_no_grad_makes_a_result(run):
    assert "It is [False, None]." in run.output
    assert "a leaf Variable that requires grad is being used in an in-place operation" in run.output


def test_an_edge_is_a_node_and_an_index_and_two_pieces_share_a_node(run):
    assert "no tensor: 'AddBackward0' object has no attribute 'shape'\n" in run.output
    assert "one machine, two chutes: True [0, 1]\n" in run.output
    assert "It is [2, 1, 3]." in run.output


def test_forty_doublings_are_41_nodes_and_a_trillion_routes(run):
    assert "It is [41, 1099511627776, A]." in run.output
    assert "12 doublings: 8191 visits for 13 nodes" in run.output


def test_the_gradient_is_that_of_the_branch_taken(run):
    assert "It is [21, 2.5, False]." in run.output


@pytest.mark.parametrize(
    ("operation", "kept"),
    [
        (torch.exp, "output"),
        (lambda x: x + 1, "nothing"),
        (lambda x: x**2, "input"),
        (torch.relu, "output"),
        (lambda x: x * 3, "nothing"),
        (torch.sin, "input"),
        (torch.sigmoid, "output"),
    ],
)
def test_a_node_keeps_what_its_slope_needs(run, operation, kept):
    x = torch.tensor([0.5, -1.5], requires_grad=True)
    assert run.names["kept_by"](operation(x), x) == kept


def test_backward_frees_what_was_kept_and_leaves_the_nodes(run):
    assert re.search(r"before: .*\(4,000 bytes\) kept by 4 nodes", run.output)
    assert "after:  Nodes only, 4 nodes: no bytes are kept but theirs.\n" in run.output


def test_data_and_numpy_write_past_the_version_counter_and_detach_does_not(run):
    assert "It is [raises, wrong, wrong]." in run.output
    (line,) = [line for line in run.output.splitlines() if line.startswith("y.detach().zero_()")]
    assert line.split() == ["y.detach().zero_()", "version", "1:", "raises", "None"]


def test_a_hook_that_hands_back_its_tensor_keeps_it_alive(run):
    assert run.names["alive_after"](lambda tensor: tensor)
    assert not run.names["alive_after"](lambda tensor: tensor.detach())
    assert run.output.count("of a storage of 24 bytes\n") == 5


def test_of_six_losses_one_moves_the_weight(run):
    assert "It is [True, False, False, False, False, False]." in run.output


def test_the_branch_not_taken_makes_a_slope_that_is_no_number(run):
    assert "It is [0.25, nan]." in run.output
    assert "times a mask           values [2.0, 0.0]  slopes [0.25, nan]\n" in run.output


def test_a_module_does_not_list_plain_tensors_and_lists(run):
    assert re.search(r"shift +moved by 0\.000\nlayers\[0\]\.weight +moved by 0\.000\n", run.output)
    assert "with nn.Parameter and nn.ModuleList: 4 parameters\nIt is 1." in run.output


def test_edges_are_not_routes(run):
    assert "edges into: [2, 2] and the slope is 4.0\n" in run.output


def test_the_answers_of_the_lesson_count_draw_and_judge_its_own_graphs(run):
    names = run.names
    w, x = torch.tensor(2.0, requires_grad=True), torch.tensor(3.0, requires_grad=True)
    loss = (w * x + 1) ** 2
    assert names["count_nodes"](loss) == 5
    assert names["routes"](loss) == {w: 1, x: 1}
    assert names["routes"](names["cases"].doublings(x, 70)) == {x: 2**70}
    assert names["where_it_died"](loss, w) == "alive"
    assert names["saved_bytes"](lambda: (w * x).exp(), [w, x]) == 4
    assert names["svg"](names["picture"](loss, {"w": w, "x": x})).count("<text") == 9


def test_the_broken_programs_of_the_lesson_are_wrong(run, exercises, lesson):
    assert not shown(lesson, exercises["scaled_leaf"], run.names["broken_scaled_leaf"]).met[0]
    assert not shown(lesson, exercises["count_nodes"], run.names["broken_count_nodes"]).met[0]
    around = shown(lesson, exercises["safe_sqrt"], lambda x: torch.where(x > 0, x.sqrt(), 0.0))
    assert around.met == [True, True, False, False, False]


# --- the exercises ---------------------------------------------------------------------------------------------------


def test_the_solution_of_the_tape_is_what_its_lines_do(lesson, run):
    variant, answers = lessons.references(lesson)["read_tape"]()
    names, found = {"torch": torch}, []
    for name, line in run.names["cases"].tape(variant):
        exec(line, names)
        tensor = names[name]
        found.append(
            [tensor.requires_grad, tensor.is_leaf, tensor.grad_fn and tensor.grad_fn.name().split("Backward")[0]]
        )
    assert found == answers


def test_every_variant_of_the_tape_takes_each_branch_and_sign_somewhere(run):
    tapes = [dict(run.names["cases"].tape(variant)) for variant in range(100)]
    signs = {tape["z"].split()[3] for tape in tapes}
    taken = set()
    for tape in tapes:
        names = {"torch": torch}
        exec("\n".join([tape["w"], tape["x"], tape["p"]]), names)
        taken.add(names["p"].grad_fn.name())
    assert signs == {"+", "-", "*"} and taken == {"MulBackward0", "ExpBackward0"}


def test_the_verdicts_on_the_edits_are_what_backward_does(lesson, run):
    cases, verdict = run.names["cases"], lessons.references(lesson)["edited"]
    values = torch.tensor([0.6, 1.3, 1.9])
    for letter, piece in cases.edits.items():
        assert verdict(letter) == cases.fate(piece, cases.unspoilt[letter], values), letter
    assert {verdict(letter) for letter in cases.edits} == set(cases.FATES)


def test_each_piece_returns_the_loss_of_its_twin_without_an_edit(run):
    cases, x = run.names["cases"], torch.tensor([0.6, 1.3, 1.9])
    for letter, piece in cases.edits.items():
        assert torch.allclose(piece(x.clone()), cases.unspoilt[letter](x)), letter


@pytest.mark.parametrize("answer", [None, "fine", 3, ["right"], "Right"])
def test_a_verdict_of_any_form_is_a_miss_in_words(lesson, exercises, answer):
    verdict = shown(lesson, exercises["edited"], lambda piece: answer)
    assert verdict.status == "wrong" and "none of right, wrong, raises" in verdict.difference.words


@pytest.mark.parametrize("answer", [None, 3, [1, 2], "x"])
def test_routes_of_any_form_are_a_miss_in_words(lesson, exercises, answer):
    verdict = shown(lesson, exercises["routes"], lambda tensor: answer)
    assert verdict.status == "wrong" and "and no dict" in verdict.difference.words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "a value of type NoneType came back, and no text"),
        ("", "there is no digraph { ... }"),
        ("// 1 nodes, 0 edges", "there is no digraph { ... }"),
        ('// 1 nodes, 0 edges\ndigraph {\nn0 [label="a"]\nn0 [label="b"]\n}', "a node has two lines"),
        ('// 1 nodes, 0 edges\ndigraph {\nn0 [label="a "b""]\n}', "neither a node nor an edge"),
        ('// 1 nodes, 1 edges\ndigraph {\nn0 -> n1 [label="0"]\n}', "an end that no line declares"),
        ('// 2 nodes, 0 edges\ndigraph {\nn0 [label="a"]\nn1 [label="b"]\n}', "2 nodes have no edge that leads"),
    ],
)
def test_a_picture_that_cannot_be_read_is_a_miss_in_words(lesson, exercises, text, words):
    verdict = shown(lesson, exercises["picture"], lambda tensor, names: text)
    assert verdict.status == "wrong" and words in verdict.difference.words


def test_a_picture_is_read_as_graphviz_reads_it(run):
    read = run.names["cases"].read
    nodes = ['p [label="a \\"b\\" \\\\n"]', 'q [label="Mul"]']
    text = "\n".join(["// 2 nodes, 2 edges", "digraph {", "  q -> p [label=1];", *nodes, 'q -> p [label="0"]', "}"])
    assert read(text) == {
        "the form of your text": "as agreed",
        "nodes": ["Mul", 'a "b" \\n'],
        "edges": [[[1, 1], [1, 0]], []],
        "first line": [2, 2],
    }


def test_a_pair_of_chutes_is_one_node_with_two_edges_into_it(run):
    a, b = torch.tensor(2.0, requires_grad=True), torch.tensor(5.0, requires_grad=True)
    first, second = run.names["cases"].Swap.apply(a, b)
    assert first.grad_fn is second.grad_fn and (first.item(), second.item()) == (10, 6)
    assert torch.autograd.gradcheck(run.names["cases"].Swap.apply, (a.double(), b.double()))


# --- the catalogue ---------------------------------------------------------------------------------------------------

#: Silent entries that no exercise recognises: a demonstration shows the number that refutes each.
SHOWN = {"G22": "with nn.Parameter and nn.ModuleList: 4 parameters"}


def test_every_silent_misconception_is_recognised_or_refuted(lesson, exercises, run):
    silent = {name for name, entry in tomllib.loads(CATALOGUE.read_text("utf-8")).items() if entry["silent"]}
    silent = {name for name in silent if name.startswith("G")}
    recognised = {attempt.id for attempt in lessons.attempts(lesson, exercises)}
    assert all(words in run.output for words in SHOWN.values())
    assert silent - recognised - SHOWN.keys() == set()


def test_what_the_catalogue_measures_is_so():
    w, x = torch.tensor(2.0, requires_grad=True), torch.tensor(3.0, requires_grad=True)
    node = (w * x).grad_fn
    assert len(node.next_functions) == 2 and node is not (w * x).grad_fn  # G28
    twice = ((w * x) * w).grad_fn
    walked = {twice, *(n for n, _ in twice.next_functions), *(n for n, _ in twice.next_functions[0][0].next_functions)}
    assert len(walked) == 4 and len({n.name() for n in walked}) == 2  # G29
    for shift, slope in ((1e-6, 500), (0.0, 500_000)):  # G34
        tiny = torch.tensor(1e-12, requires_grad=True, dtype=torch.float64)
        (tiny + shift).sqrt().backward()
        assert tiny.grad.item() == pytest.approx(slope, rel=1e-3)


def test_the_demonstrations_of_the_catalogue_are_headings_of_the_lesson(lesson):
    catalogue = tomllib.loads(CATALOGUE.read_text("utf-8"))
    headings = set(re.findall(r"^#+ (.+)$", "\n".join(cell.source for cell in lesson.cells), re.M))
    named = {
        name: entry["demonstration"] for name, entry in catalogue.items() if name[0] == "G" and "demonstration" in entry
    }
    assert len(named) >= 15
    for name, place in named.items():
        unit, _, heading = place.partition("#")
        assert unit == UNIT and heading in {one.replace(" ", "-") for one in headings}, name


# --- what it covers --------------------------------------------------------------------------------------------------

OBJECTIVES = {
    "Tell of any tensor": ["read_tape"],
    "Make a leaf": ["scaled_leaf"],
    "Read the real graph": ["count_nodes", "picture"],
    "Explain why every call draws": ["read_tape"],
    "Walk a graph of any size": ["count_nodes", "routes"],
    "Say what an operation keeps": ["edited", "saved_bytes"],
    "Find the place where a gradient stops": ["where_it_died", "safe_sqrt"],
    "Draw the graph": ["picture"],
}


def test_every_objective_has_an_exercise_and_every_exercise_an_objective(lesson):
    found = {
        objective: [names for words, names in OBJECTIVES.items() if objective.startswith(words)]
        for objective in lesson.settings["objectives"]
    }
    assert all(len(names) == 1 for names in found.values()), found
    assert {name for names in OBJECTIVES.values() for name in names} == set(lesson.exercises)


def test_the_forms_are_mixed(lesson):
    forms = {cell.tagged("form")[0] for cell in lesson.cells if cell.role == "solution"}
    assert forms >= {"predict", "repair", "review", "complete", "write"}


def test_the_answers_of_the_tape_stand_nowhere_in_the_cases(lesson):
    tree = ast.parse((lesson.directory / "cases.py").read_text("utf-8"))
    texts = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    assert "ToCopy" not in texts and "Clone" not in texts
