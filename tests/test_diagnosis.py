"""The diagnosis is the smallest set of wrong programs that did just this, and silence where nothing did."""

import itertools

import pytest
from autogradlab.diagnosis import Candidate, judge
from autogradlab.exercises import AtMost, Holds, Prediction, Rate, Same, exercise
from autogradlab.observation import observe
from autogradlab.recorded import predicted_once, prediction
from hypothesis import given
from hypothesis import strategies as st

CASES = range(3)


def script(program, case):
    """A program returns a dict; each requirement looks at one of its entries."""
    return program(case.index, None)


def same(name, **options):
    return Same(f"{name} is right", f"returned.{name}", **options)


GATE = same("gate", weight=2)
ONE = exercise(GATE, same("second"), same("third"))(script)


def program(gate=0, second=0, third=0):
    return lambda index, _: {"gate": gate, "second": second, "third": third}


def seen(program, one=ONE):
    return [observe(one, program, 0, index) for index in CASES]


def candidate(key, program, one=ONE, message="It did so. Why?"):
    return Candidate(key, key.split()[0], key, message, seen(program, one))


def verdict(yours, candidates, one=ONE, right=None):
    named = [candidate(key, one_program, one) for key, one_program in candidates.items()]
    return judge(one, seen(yours, one), seen(right or program(), one), named)


def named(found):
    return [(candidate.key, numbers) for candidate, numbers in found.diagnosis]


def test_a_right_program_meets_everything_and_is_not_named():
    found = verdict(program(), {"A": program(1)})
    assert (found.met, found.score, found.status) == ([True, True, True], 1.0, "right")
    assert (found.diagnosis, found.unexplained, found.case, found.difference) == ([], [], None, None)


def test_a_missed_gate_scores_nothing():
    found = verdict(program(gate=1), {})
    assert (found.met, found.score, found.status) == ([False, True, True], 0.0, "wrong")
    assert found.unexplained == [0]
    assert found.difference.words == "gate is 1, expected 0"


def test_a_met_gate_scores_the_share_of_the_weights():
    found = verdict(program(second=1), {})
    assert (found.score, found.status) == (0.75, "partly")
    assert verdict(program(second=1, third=1), {}).score == 0.5


def test_a_program_is_named_by_what_it_did():
    candidates = {"A": program(1), "B": program(2), "C": program(1, 1)}
    for key, one in candidates.items():
        found = verdict(one, candidates)
        assert [name for name, _ in named(found)] == [key]
        assert found.unexplained == []


def test_one_program_that_explains_everything_goes_before_two_that_share_it():
    found = verdict(program(1, 1), {"A": program(1), "B": program(0, 1), "AB": program(1, 1)})
    assert named(found) == [("AB", [0, 1])]


def test_two_mistakes_are_named_by_two_programs():
    found = verdict(program(1, 1), {"A": program(1), "B": program(0, 1), "C": program(2, 2)})
    assert named(found) == [("A", [0]), ("B", [1])]


def test_of_equal_sets_the_one_that_is_otherwise_nearer_is_named():
    found = verdict(program(1), {"far": program(1, 1, 1), "near": program(1, 1), "nearest": program(1)})
    assert named(found) == [("nearest", [0])]
    found = verdict(program(1), {"far": program(1, 1, 1), "near": program(1, 1)})
    assert named(found) == [("near", [0])]


def test_among_equals_the_first_is_named():
    assert named(verdict(program(1), {"A": program(1), "B": program(1)})) == [("A", [0])]


def test_what_is_not_explained_is_told():
    found = verdict(program(1, 3), {"A": program(1)})
    assert named(found) == [("A", [0])]
    assert found.unexplained == [1]


def test_without_an_explanation_of_the_gate_nothing_is_named():
    found = verdict(program(3, 1), {"B": program(0, 1)})
    assert found.diagnosis == []
    assert found.unexplained == [0, 1]


def test_a_program_must_be_alike_in_all_cases():
    def sometimes(index, _):
        return {"gate": 1 if index else 0, "second": 0, "third": 0}

    assert verdict(sometimes, {"A": program(1)}).diagnosis == []
    assert verdict(program(1), {"S": sometimes}).diagnosis == []


def test_the_first_case_that_shows_the_first_miss_is_shown():
    def late(index, _):
        return {"gate": 0, "second": int(index > 0), "third": int(index > 1)}

    found = verdict(late, {})
    assert (found.case, found.difference.words) == (1, "second is 1, expected 0")


def test_a_candidate_that_is_right_explains_nothing():
    def nearly(index, _):
        return {"gate": 1 + 2.5e-5, "second": 0, "third": 0}

    def nearer(index, _):
        return {"gate": 1 + 1.5e-5, "second": 1, "third": 0}

    found = verdict(nearly, {"right at the gate": nearer}, right=program(gate=1.0))
    assert not found.met[0]
    assert found.diagnosis == []


def test_where_the_gate_is_missed_what_follows_from_it_is_not_judged():
    assert verdict(program(1, 1), {}).judged == [True, False, True]
    assert verdict(program(1, 1), {"AB": program(1, 1)}).judged == [True, False, True]
    assert verdict(program(0, 1, 1), {}).judged == [True, True, True]
    assert verdict(program(), {}).judged == [True, True, True]


def test_a_second_mistake_that_has_a_name_of_its_own_is_judged():
    assert verdict(program(1, 1, 1), {"A": program(1), "B": program(0, 1)}).judged == [True, True, False]


# ------------------------------------------------------------------------------------------------------ costs

COST = exercise(GATE, same("second"), AtMost("few reads", "cost.syncs", 0), AtMost("few calls", "calls.step", 1))


def costly(program, case):
    tensor = case.normal(9)
    step = case.counted("step", lambda: None)
    return program(tensor, step)


def reading(reads, calls=1, gate=0, second=0):
    def read(tensor, step):
        for number in range(reads):
            tensor[number].item()
        for _ in range(calls):
            step()
        return {"gate": gate, "second": second}

    return read


COST = COST(costly)


def test_costs_are_named_by_being_missed_never_by_their_number():
    found = verdict(reading(5), {"reads": reading(1)}, COST, reading(0))
    assert (found.met, named(found)) == ([True, True, False, True], [("reads", [2])])


def test_costs_that_are_met_do_not_make_a_program_alike():
    assert verdict(reading(5), {"calls": reading(0, 3)}, COST, reading(0)).diagnosis == []


def test_a_cost_alone_does_not_name_a_program_that_is_wrong_elsewhere():
    candidates = {"wrong at the gate": reading(1, gate=7), "wrong at the second": reading(1, second=7)}
    found = verdict(reading(5), candidates, COST, reading(0))
    assert found.diagnosis == []
    assert found.unexplained == [2]


def test_a_wrong_value_and_a_cost_are_named_by_one_program_or_by_two():
    both = {"gate": reading(0, gate=7), "reads": reading(2), "gate and reads": reading(3, gate=7)}
    assert named(verdict(reading(1, gate=7), both, COST, reading(0))) == [("gate and reads", [0, 2])]
    del both["gate and reads"]
    assert named(verdict(reading(1, gate=7), both, COST, reading(0))) == [("gate", [0]), ("reads", [2])]


def test_a_cost_is_judged_whatever_was_computed_but_not_where_the_program_broke_off():
    assert verdict(reading(5, gate=7, second=7), {}, COST, reading(0)).judged == [True, False, True, True]

    def broken(tensor, step):
        raise ValueError

    assert verdict(broken, {}, COST, reading(0)).judged == [True, False, False, False]


def test_two_costs_may_need_two_programs():
    candidates = {"reads": reading(2), "calls": reading(0, 2)}
    assert named(verdict(reading(1, 3), candidates, COST, reading(0))) == [("reads", [2]), ("calls", [3])]


# ------------------------------------------------------------------------------------------------ other kinds


def test_an_exception_is_named_by_what_it_says():
    def raising(error):
        def fail(index, _):
            raise error

        return fail

    candidates = {"no w": raising(AttributeError("no w")), "no x": raising(AttributeError("no x"))}
    found = verdict(raising(AttributeError("no x")), candidates)
    assert named(found) == [("no x", [0, 1, 2])]
    assert verdict(raising(AttributeError("no y")), candidates).diagnosis == []


def test_a_predicate_is_named_by_its_facets():
    one = exercise(Holds("the gate is positive", lambda seen, facts: seen.returned["gate"] > 0, "returned.gate"))(
        script
    )
    candidates = {"A": program(-1), "B": program(-2)}
    assert verdict(program(5), candidates, one, program(1)).status == "right"
    assert named(verdict(program(-2), candidates, one, program(1))) == [("B", [0])]
    assert verdict(program(-3), candidates, one, program(1)).diagnosis == []


def test_a_rate_shows_a_case_that_was_wrong():
    one = exercise(Rate("mostly right", "returned.gate", at_least=0.9))(script)
    found = verdict(lambda index, _: {"gate": 0 if index else 1}, {}, one)
    assert (found.status, found.case) == ("wrong", 0)


def test_predictions_are_named_part_by_part():
    one = exercise(Prediction("first", slice(0, 1)), Prediction("rest", slice(1, None)), variants=10)(
        lambda variant: "?"
    )

    def model(*answers):
        return [predicted_once(one, lambda variant: list(answers), 3)]

    candidates = [Candidate(str(a), "A", "", "Why?", model(*a)) for a in ((9, 2, 3), (1, 8, 8), (9, 8, 8))]
    yours = [prediction(one, 3, ["9", "8", "8"])]
    found = judge(one, yours, model(1, 2, 3), candidates)
    assert [candidate.key for candidate, _ in found.diagnosis] == ["(9, 8, 8)"]
    found = judge(one, yours, model(1, 2, 3), candidates[:2])
    assert [numbers for _, numbers in found.diagnosis] == [[0], [1]]
    assert judge(one, [prediction(one, 3, ["9"])], model(1, 2, 3), candidates).diagnosis == []


# ------------------------------------------------------------------------------------------------ in general

behaviours = st.tuples(*[st.integers(0, 2)] * 3)
OBSERVED = {one: seen(program(*one)) for one in itertools.product(range(3), repeat=3)}


@given(behaviours, st.lists(behaviours.filter(any), max_size=6))
def test_a_diagnosis_is_always_a_smallest_cover_of_what_can_be_explained(yours, wrong):
    candidates = [Candidate(str(one), "A", "", "Why?", OBSERVED[one]) for one in wrong]
    found = judge(ONE, OBSERVED[yours], OBSERVED[0, 0, 0], candidates)
    missed = [number for number in range(3) if yours[number]]
    assert found.met == [number not in missed for number in range(3)]
    explains = {one: {n for n in missed if one[n] == yours[n]} for one in wrong}
    coverable = set().union(*explains.values()) if explains else set()
    if 0 in missed and 0 not in coverable:
        coverable = set()
    covered = {number for _, numbers in found.diagnosis for number in numbers}
    assert covered == coverable
    assert found.unexplained == [number for number in missed if number not in coverable]
    smallest = next(
        size
        for size in range(4)
        if any(coverable <= set().union(*map(explains.get, some)) for some in itertools.combinations(explains, size))
    )
    assert len(found.diagnosis) == smallest
    if yours in wrong:
        assert [candidate.key for candidate, _ in found.diagnosis] == ([str(yours)] if any(yours) else [])


@pytest.mark.parametrize(
    ("message", "question"),
    [
        ("It adds. What empties it?", "What empties it?"),
        ("It adds up, e.g. 1.5 and 2.5: a sum! And now? What empties it?", "What empties it?"),
        ("Two things were read: `w` and `x`. Which one was zeroed?\n", "Which one was zeroed?"),
        ("Who clears the gradients: `w.grad`, or x?", "Who clears the gradients: `w.grad`, or x?"),
    ],
)
def test_the_question_is_the_last_sentence(message, question):
    assert candidate("A", program(1), message=message).question == question
