"""The audit: what it proves of a sound unit, and with which words it refuses a wrong one."""

import json
import re
import shutil
from pathlib import Path

import pytest
from autogradlab import accelerator
from autogradlab.exercises import Same, exercise

from autograder import audit, proofs, proofs_of_grading, proofs_of_lessons, proofs_of_predictions, trials
from autograder.build import build, recorded
from autograder.classroom import UNTOUCHED_ANSWER as UNTOUCHED
from autograder.lessons import read
from autograder.mutants import mutants

FIXTURES = Path(__file__).parent / "fixtures"
UNIT = "90_tiny"


@pytest.fixture
def few_seeds(monkeypatch):
    """Fewer seeds and rewrites, where a test is about words and not about proof."""
    monkeypatch.setattr(trials, "SEEDS", 2)
    monkeypatch.setattr(proofs, "EXTRA_CASES", 60)
    monkeypatch.setattr(proofs, "REWRITES", 10)


@pytest.fixture
def course(tmp_path, few_seeds):
    """A copy of the tiny course that a test may spoil."""
    shutil.copytree(FIXTURES, tmp_path / "course", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path / "course"


def spoil(course, file, old, new):
    """Replaces a text that stands once in a file of the unit; the number of the line where it began."""
    path = course / "units" / UNIT / file
    text = path.read_text("utf-8")
    assert text.count(old) == 1, f"{old!r} stands {text.count(old)} times in {file}"
    path.write_text(text.replace(old, new), "utf-8")
    return text[: text.index(old)].count("\n") + 1


def loaded(course):
    return proofs.load(UNIT, course)


def the_problem(proof, file, *words):
    """The one problem, which stands in the file and says the words."""
    (problem,) = proof.problems
    assert problem.file.name == file
    for word in words:
        assert word in str(problem)
    return problem


EQUIVALENT = """

EQUIVALENT = [
    {{
        "exercise": "slope",
        "operator": {operator!r},
        "line": {line!r},
        "change": {change!r},
        "reason": "for the test",
    }},
]
"""


def list_as_equivalent(course, operator, line, change):
    path = course / "units" / UNIT / "attempts.py"
    text = path.read_text("utf-8")
    path.write_text(text + EQUIVALENT.format(operator=operator, line=line, change=change), "utf-8")
    return text.count("\n") + 4


# --- a sound unit ----------------------------------------------------------------------------------------------------


def test_the_names_that_a_class_of_static_methods_alone_looks_up_are_found():
    class Function:
        @staticmethod
        def forward(x):
            return x

    class Named:
        @classmethod
        def of(cls):
            return cls

    assert proofs.globals_of(Function) is proofs.globals_of(Named) is globals()


def test_a_sound_unit_passes_and_says_so_as_json(tmp_path, capfd):
    build([UNIT], tmp_path, FIXTURES)
    capfd.readouterr()
    assert audit.audit([UNIT], as_json=True, course=FIXTURES, into=tmp_path, processes=2) == 0
    found = json.loads(capfd.readouterr().out)
    assert list(found["exercises"]) == ["90_tiny/slope", "90_tiny/slopes"]
    slope, total = found["exercises"]["90_tiny/slope"], found["total"]
    assert slope["problems"] == total["problems"] == []
    assert slope["seeds"] == total["seeds"] == 20
    assert total["devices"][0] == "cpu" and total["exercises"] == 2
    assert ("sim" in total["devices"]) == accelerator.is_available()
    assert total["misconceptions"] == total["diagnosed"] == 12
    assert total["alternatives"] == total["alternatives_passed"] == 4
    assert slope["rewrites"] == slope["rewrites_passed"] == 100
    assert total["mutants"] == total["killed"] > 20
    assert total["equivalent"] == total["surviving"] == total["misnamed"] == 0


def test_a_unit_that_is_not_there_is_a_usage_error(capsys):
    assert audit.audit(["91_none"], course=FIXTURES) == 2
    assert "Units here: 90_tiny" in capsys.readouterr().err


def test_people_get_a_table_and_the_problems_with_their_way_out(course, tmp_path, capsys):
    spoil(course, "attempts.py", "    return loss.item()\n", "    return w.grad.item()\n")
    assert audit.audit([UNIT], course=course, into=tmp_path, processes=0) == 1
    said = " ".join(capsys.readouterr().out.split())
    assert "5/6" in said
    assert "Z02 of slope passes" in said and "attempts.py:" in said
    assert "run `build`" in said.lower() and "problems." in said


# --- wrong units -----------------------------------------------------------------------------------------------------


def test_a_misconception_that_passes_is_refused(course):
    line = spoil(course, "attempts.py", "    return loss.item()\n", "    return w.grad.item()\n")
    proof = proofs.prove_attempts(loaded(course), "slope")
    problem = the_problem(proof, "attempts.py", "Z02 of slope passes in the visible cases", "Add a case")
    assert problem.line == line - 4
    assert (proof.counts["misconceptions"], proof.counts["diagnosed"]) == (6, 5)


def test_an_alternative_that_fails_is_refused(course):
    spoil(course, "attempts.py", "    return float(w.grad)\n", "    return w.grad\n")
    proof = proofs.prove_attempts(loaded(course), "slope")
    the_problem(
        proof, "attempts.py", "'empties in place' of slope misses 'the slope comes back as a float'", "a tensor"
    )
    assert (proof.counts["alternatives"], proof.counts["alternatives_passed"]) == (2, 1)


def test_a_reference_that_is_left_to_chance_is_refused(course):
    spoil(
        course,
        "lesson.py",
        "    return w.grad.item()\n    ### END",
        "    return w.grad.item() + __import__('time').perf_counter_ns() % 997\n    ### END",
    )
    problems = proofs.prove_attempts(loaded(course), "slope").problems
    assert any("the reference of slope misses" in str(one) and one.file.name == "lesson.py" for one in problems)


def test_a_reference_that_needs_a_demonstration_is_refused(course):
    # `turn` is a variable of the demonstration.
    spoil(
        course,
        "lesson.py",
        "    loss.backward()\n    return w.grad",
        "    loss.backward(retain_graph=turn)\n    return w.grad",
    )
    proof = proofs.prove_attempts(loaded(course), "slope")
    the_problem(proof, "lesson.py", "the reference of slope raises NameError", "set-up")


def test_two_attempts_with_one_behaviour_are_refused_unless_declared(course):
    line = spoil(
        course, "attempts.py", "    loss.backward(inputs=[w])\n    return w.grad.item()\n", "    return loss.item()\n"
    )
    proof = proofs.prove_attempts(loaded(course), "slope")
    problem = the_problem(proof, "attempts.py", "Z10 of slope is diagnosed as Z02", 'declare same_as="Z02"')
    assert problem.line == line - 4


def test_attempts_declared_the_same_count_once(course):
    spoil(
        course, "attempts.py", "    loss.backward(inputs=[w])\n    return w.grad.item()\n", "    return loss.item()\n"
    )
    spoil(course, "attempts.py", '@misconception("Z10")', '@misconception("Z10", same_as="Z02")')
    proof = proofs.prove_attempts(loaded(course), "slope")
    assert proof.problems == []
    assert proof.counts["misconceptions"] == proof.counts["diagnosed"] == 5


def test_attempts_wrongly_declared_the_same_are_refused(course):
    spoil(course, "attempts.py", '@misconception("Z10")', '@misconception("Z10", same_as="Z02")')
    the_problem(proofs.prove_attempts(loaded(course), "slope"), "attempts.py", "Z10 of slope is not recognised")


def test_a_wrong_name_for_a_left_out_misconception_is_counted(course):
    # Z10 now does to the slope what Z03 does, and something else to w.grad.
    spoil(
        course,
        "attempts.py",
        "    loss.backward(inputs=[w])\n    return w.grad.item()\n",
        "    found, w.grad = w.grad, None\n    return found\n",
    )
    proof = proofs.prove_attempts(loaded(course), "slope")
    assert proof.counts["misnamed"] > 0
    assert any("without Z10, its program is named Z03" in remark for remark in proof.remarks)


def test_too_many_wrong_names_are_refused_in_the_sum(course, tmp_path):
    spoil(
        course,
        "attempts.py",
        "    loss.backward(inputs=[w])\n    return w.grad.item()\n",
        "    found, w.grad = w.grad, None\n    return found\n",
    )
    problems = audit.audit_unit(UNIT, course, tmp_path, processes=0)["total"]["problems"]
    assert any("misconceptions bear another's name when left out" in one and "Z03" in one for one in problems)


def test_a_mutant_that_survives_is_refused(course):
    spoil(course, "cases.py", "    if case.kind != 0:\n", "    if case.kind > 9:\n")
    proof = proofs.prove_mutants(loaded(course), "slope")
    problem = next(one for one in proof.problems if "`w.grad = None` was deleted" in str(one))
    lines = (course / "units" / UNIT / "lesson.py").read_text("utf-8").split("\n")
    assert problem.file.name == "lesson.py" and lines[problem.line - 1].strip() == "w.grad = None"
    assert "list it in attempts.py: {'exercise': 'slope', 'operator': 'statement', 'line': 'w.grad = None'" in str(
        problem
    )
    assert proof.counts["surviving"] == len(proof.problems) > 0


def test_a_listed_equivalent_is_counted_and_survives_more_cases(course):
    spoil(course, "cases.py", "    if case.kind != 0:\n", "    if case.kind > 9:\n")
    list_as_equivalent(course, "statement", "w.grad = None", "`w.grad = None` was deleted")
    proof = proofs.prove_mutants(loaded(course), "slope")
    assert proof.counts["equivalent"] == 1
    assert not any("was deleted" in str(one) for one in proof.problems)
    assert proofs.prove_equivalents(loaded(course), "slope").problems == []


def test_an_equivalent_that_shows_itself_in_more_cases_is_refused(course):
    line = list_as_equivalent(course, "statement", "w.grad = None", "`w.grad = None` was deleted")
    proof = proofs.prove_equivalents(loaded(course), "slope")
    assert the_problem(proof, "attempts.py", "listed as equivalent is not", "Delete the entry").line == line


def test_stale_equivalents_are_refused(course):
    line = list_as_equivalent(course, "statement", "w.grad = 0", "`w.grad = 0` was deleted")
    proof = proofs.prove_mutants(loaded(course), "slope")
    assert (
        the_problem(proof, "attempts.py", "is none that is made of the solution now", "Delete the entry").line == line
    )


def test_an_equivalent_that_the_cases_tell_apart_is_refused(course):
    list_as_equivalent(course, "statement", "w.grad = None", "`w.grad = None` was deleted")
    the_problem(proofs.prove_mutants(loaded(course), "slope"), "attempts.py", "is told apart by the cases")


def test_an_equivalent_without_a_reason_is_refused(course):
    line = list_as_equivalent(course, "statement", "w.grad = None", "`w.grad = None` was deleted")
    spoil(course, "attempts.py", '"reason": "for the test"', '"reason": " "')
    with pytest.raises(proofs.ContentError, match=rf"attempts.py:{line}: this equivalent mutant cannot be read"):
        loaded(course)


def test_an_equivalent_of_no_exercise_is_refused(course, tmp_path):
    list_as_equivalent(course, "statement", "w.grad = None", "`w.grad = None` was deleted")
    spoil(course, "attempts.py", '"exercise": "slope"', '"exercise": "slop"')
    problems = proofs_of_lessons.prove_lesson(UNIT, course, tmp_path).problems
    assert any("an equivalent mutant of 'slop', which is no exercise" in str(one) for one in problems)


def test_more_equivalents_than_their_share_are_refused(course, tmp_path, monkeypatch):
    monkeypatch.setattr(audit, "MOST_EQUIVALENT", 0.01)
    spoil(course, "cases.py", "    if case.kind != 0:\n", "    if case.kind > 9:\n")
    list_as_equivalent(course, "statement", "w.grad = None", "`w.grad = None` was deleted")
    problems = audit.audit_unit(UNIT, course, tmp_path, processes=0)["total"]["problems"]
    assert any(re.search(r"1 of \d+ mutants are listed as equivalent. At most 1%", one) for one in problems)


def test_an_exercise_that_refuses_a_style_is_refused(course):
    spoil(
        course,
        "cases.py",
        '    return {"slope": program(w, x)}\n',
        '    return {"slope": [program(w, x), len(program.__wrapped__.__code__.co_varnames)]}\n',
    )
    proof = proofs.prove_rewrites(loaded(course), "slope")
    assert proof.counts["rewrites_passed"] < proof.counts["rewrites"] == 10
    assert "a rewrite of" in str(proof.problems[0]) and "steps:" in str(proof.problems[0])


def test_an_attempt_that_cannot_be_defined_is_a_problem_with_its_line(course, tmp_path):
    line = spoil(course, "attempts.py", '@alternative("a loop")', '1 / 0\n\n\n@alternative("a loop")')
    (problem,) = [one for one in proofs_of_lessons.prove_lesson(UNIT, course, tmp_path).problems if "Zero" in str(one)]
    assert (problem.file.name, problem.line) == ("attempts.py", line)


def test_a_unit_that_is_not_built_is_refused(course, tmp_path):
    problems = proofs_of_lessons.prove_lesson(UNIT, course, tmp_path).problems
    assert any("build" in one.way_out for one in problems)


def test_a_set_up_that_needs_a_demonstration_is_refused(course, tmp_path):
    test_cell = '# %% nbgrader={"grade": true, "grade_id": "slope_tests"'
    line = spoil(course, "lesson.py", test_cell, f'# %% tags=["setup"]\nprint(turn)\n\n{test_cell}') + 1
    problems = proofs_of_lessons.prove_lesson(UNIT, course, tmp_path).problems
    assert [(one.file.name, one.line) for one in problems if "NameError" in str(one)] == [("lesson.py", line)]


def test_a_stub_that_would_score_is_refused(course, tmp_path):
    spoil(
        course,
        "lesson.py",
        "    ### BEGIN SOLUTION\n    w.grad = None\n",
        "    (w.grad,) = torch.autograd.grad((w * x + 1) ** 2, w)\n    return w.grad.item()\n    ### BEGIN SOLUTION\n",
    )
    problems = proofs_of_lessons.prove_lesson(UNIT, course, tmp_path).problems
    assert any("the stub of slope would score 100%" in str(one) for one in problems)


def test_a_stub_that_raises_when_its_cell_runs_is_refused(course, tmp_path):
    spoil(course, "lesson.py", "def slope(w, x):\n", "undefined\n\n\ndef slope(w, x):\n")
    problems = proofs_of_lessons.prove_lesson(UNIT, course, tmp_path).problems
    assert any("NameError" in str(one) for one in problems)


# --- predictions -----------------------------------------------------------------------------------------------------

CASES = """

@exercise(
    Prediction("the first two readings", slice(0, 2), weight=2),
    Prediction("the last reading", slice(2, {last})),
    variants=30,
)
def reading(variant):
    return f"What does the meter show after {{variant}} steps?"
"""
ATTEMPTS = """

@reference
def reading(variant):
    return [variant + 1.0, None, [variant, "up"]]


@misconception("Z01")
def reading(variant):
    return [{wrong}, None, [variant, "up"]]


@misconception("Z02")
def reading(variant):
    return [variant + 1, 0, [variant, "up"]]


@alternative("as whole numbers")
def reading(variant):
    return (variant + 1, None, (variant, "up"))
"""
LESSON = '''

# %% [markdown]
# Predict it.


# %% nbgrader={answer}
def reading():
    """Your variant and your answers."""
    variant = 7
    ### BEGIN SOLUTION
    return variant, [8, None, [7, "up"]]
    ### END SOLUTION


# %% nbgrader={test}
check("reading")
'''
PLAIN = {"locked": False, "schema_version": 3, "task": False}
ANSWER = json.dumps(PLAIN | {"grade": False, "grade_id": "reading", "solution": True})
TEST = json.dumps(PLAIN | {"grade": True, "grade_id": "reading_tests", "locked": True, "points": 1, "solution": False})


def with_a_prediction(course, last="None", wrong="-1"):
    folder = course / "units" / UNIT
    spoil(course, "cases.py", "import Same, exercise", "import Prediction, Same, exercise")
    spoil(course, "attempts.py", "import alternative, misconception", "import alternative, misconception, reference")
    for name, text in (
        ("cases.py", CASES.format(last=last)),
        ("attempts.py", ATTEMPTS.format(wrong=wrong)),
        ("lesson.py", LESSON.format(answer=ANSWER, test=TEST)),
    ):
        with (folder / name).open("a", encoding="utf-8") as file:
            file.write(text)
    return loaded(course)


def test_predictions_are_proved_for_every_variant(course):
    unit = with_a_prediction(course)
    proof = proofs_of_predictions.prove_predictions(unit, "reading")
    assert proof.problems == []
    assert dict(proof.counts) == {
        "seeds": 30,
        "misconceptions": 2,
        "diagnosed": 2,
        "alternatives": 1,
        "alternatives_passed": 1,
        "misnamed": 0,
    }


def test_a_wrong_mental_model_that_is_right_for_some_variant_is_refused(course):
    unit = with_a_prediction(course, wrong="20")
    proof = proofs_of_predictions.prove_predictions(unit, "reading")
    the_problem(proof, "attempts.py", "Z01 of reading is right for variant 19")


def test_one_wrong_answer_among_right_ones_is_refused(course):
    proof = proofs_of_predictions.prove_changed_answers(with_a_prediction(course), "reading")
    assert (proof.counts["mutants"], proof.counts["killed"], proof.problems) == (3, 3, [])


def test_an_answer_that_no_requirement_reaches_is_refused(course):
    proof = proofs_of_predictions.prove_changed_answers(with_a_prediction(course, last="2"), "reading")
    the_problem(proof, "cases.py", "answer 3 of reading may be anything")
    assert proof.counts["surviving"] == 1


def test_right_answers_are_right_in_a_hundred_forms(course):
    proof = proofs_of_predictions.prove_other_forms(with_a_prediction(course), "reading")
    assert proof.counts["rewrites"] == proof.counts["rewrites_passed"] == 100


def built_beside(course, tmp_path):
    """The files that checks read, as `build` would make them if it took a unit with so few attempts."""
    folder = tmp_path / "source" / UNIT
    folder.mkdir(parents=True)
    shutil.copy(course / "units" / UNIT / "cases.py", folder)
    (folder / "recorded.bin").write_bytes(recorded(read(UNIT, course)))
    return folder


def test_every_solution_is_right_and_every_stub_not_attempted_without_the_demonstrations(course, tmp_path):
    with_a_prediction(course)
    lesson, folder = read(UNIT, course), built_beside(course, tmp_path)
    solved = proofs_of_lessons.checks(lesson, folder, {name: one.solution for name, one in lesson.exercises.items()})
    assert {name: float(result) for name, result in solved.items()} == {"slope": 2, "slopes": 3, "reading": 1}
    empty = proofs_of_lessons.checks(lesson, folder, {name: one.stub for name, one in lesson.exercises.items()})
    assert {result.record["status"] for result in empty.values()} == {"not attempted"}


def test_a_solution_that_its_own_check_refuses_is_refused(course, tmp_path, monkeypatch):
    with_a_prediction(course)
    spoil(course, "lesson.py", 'return variant, [8, None, [7, "up"]]', 'return variant, [9, None, [7, "up"]]')
    proofs.load.cache_clear()
    built_beside(course, tmp_path)
    monkeypatch.setattr(proofs_of_lessons, "check", lambda *_: [])
    monkeypatch.setattr(proofs_of_lessons, "current", lambda *_: [])
    proof = proofs_of_lessons.prove_lesson(UNIT, course, tmp_path)
    the_problem(proof, "lesson.py", "the check of reading says of its own solution", "mend the solution")


def test_a_stub_that_its_check_does_not_know_is_refused(course, tmp_path, monkeypatch):
    built_beside(course, tmp_path)
    spoil(course, "lesson.py", '"""The slope for each x."""', '"""The slopes."""')
    monkeypatch.setattr(proofs_of_lessons, "check", lambda *_: [])
    monkeypatch.setattr(proofs_of_lessons, "current", lambda *_: [])
    proof = proofs_of_lessons.prove_lesson(UNIT, course, tmp_path)
    the_problem(proof, "lesson.py", "the check of slopes takes its stub for an answer")


# --- costs -----------------------------------------------------------------------------------------------------------


def test_costs_are_looked_at_in_two_cases_of_a_seed_and_judged_there_alone():
    from autogradlab.exercises import Flat, Same, define, exercise

    @exercise(
        Same("the sum", "returned.total"), Flat("memory is flat", "cost.peak_bytes", over="steps"), arguments=("x", "n")
    )
    def grow(program, case):
        return {"total": program(case.normal(64, requires_grad=True), case.over("steps", 3)).detach()}

    kept = define("grow", "def grow(x, n):\n    return sum(x.exp().sum() for _ in range(n))\n", {})
    freed = define("grow", "def grow(x, n):\n    return sum(x.exp().sum().detach() for _ in range(n))\n", {})
    trial = trials.Trial(grow)
    far = next(one for one in trial.situations() if one.seed == 1)
    expected, yours = trial.watch(freed, far), trial.watch(kept, far)
    assert ["cost" in one for one in expected] == [index in far.costed for index in far.indexes]
    assert len(far.costed) == trials.COSTED
    assert trial.judge(yours, expected).met == [True, False]
    free = trials.replace(far, costed=())
    assert trial.judge(trial.watch(kept, free), trial.watch(freed, free)).met == [True, True]


@pytest.mark.skipif(not accelerator.is_available(), reason=str(accelerator.why_unavailable()))
def test_a_share_of_the_seeds_is_tried_on_the_simulated_accelerator(monkeypatch):
    monkeypatch.setattr(trials, "SEEDS", 20)

    def moved(program, case):
        return {"moved": program(case.normal(3), case.device)}

    both = exercise(Same("it moved", "returned.moved", "returned.moved.device"), dtypes=("float32", "float64"))(moved)
    tried = [one for one in trials.Trial(both).situations() if one.device == "sim"]
    assert [(one.seed, one.dtype) for one in tried] == [(0, "float32"), (1, "float64"), (11, "float32")]
    trial = trials.Trial(both)
    here, stays = (lambda x, device: x.to(device)), (lambda x, device: x.to("cpu"))
    assert not trial.judge(trial.watch(stays, tried[1]), trial.watch(here, tried[1])).met[0]
    assert trial.judge(trial.watch(stays, trial.near()), trial.watch(here, trial.near())).met[0]
    at_home = trials.replace(both, devices=("cpu",))
    assert {one.device for one in trials.Trial(at_home).situations()} == {"cpu"}


def test_a_mutant_that_never_ends_is_stopped(course):
    unit = loaded(course)
    expected = proofs.Expected(trials.Trial(unit.exercises["slope"]), unit.references["slope"])
    endless = proofs.define("slope", "def slope(w, x):\n    while True:\n        pass\n", {})
    assert expected.is_missed(endless, expected.trial.near())


def test_the_entry_that_a_problem_offers_is_the_key_of_its_mutant():
    for mutant in mutants("def f(x):\n    return x + 1\n"):
        entry = proofs.ast.literal_eval(proofs.entry_text("f", mutant))
        assert proofs.entry_key(entry) == mutant.key


def test_an_attempt_that_the_engine_grades_as_another_is_refused_with_its_line(tmp_path, monkeypatch):
    build([UNIT], tmp_path, FIXTURES)
    handed_in = proofs_of_grading._handed_in
    monkeypatch.setattr(
        proofs_of_grading, "_handed_in", lambda released, given: handed_in(released, dict.fromkeys(given, UNTOUCHED))
    )
    problems = proofs_of_grading.prove_grading(UNIT, FIXTURES, tmp_path).problems
    lines = (FIXTURES / "units" / UNIT / "attempts.py").read_text(encoding="utf-8").splitlines()
    wrong = [problem for problem in problems if "misconception Z01" in problem.message]
    assert wrong and all(lines[problem.line - 1].startswith("def slope") for problem in wrong)
    assert any("the engine, reference gets 0" in problem.message for problem in problems)
