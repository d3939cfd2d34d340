"""What `audit` proves of a prediction exercise, whose answers are data about the learner's variant.

Every variant stands where other exercises have seeds. A mutant is the right list with one answer changed; a rewrite is
the right list with its answers in other forms (42.0, tensor(42.), a tuple for a list).
"""

import random
from collections import Counter

import numpy
import torch
from autogradlab.diagnosis import judge
from autogradlab.predictable import normalise
from autogradlab.recorded import predicted_once, prediction

from autograder.lessons import Problem
from autograder.proofs import REWRITES, Proof, Unit, candidate, misdiagnosis

# How many variants' lists are changed item by item, and how many tries each rewrite may take.
CHANGED_VARIANTS = 20
TRIES = 40


def prove_predictions(unit: Unit, name: str) -> Proof:
    """For every variant: alternatives are right, wrong mental models are wrong and diagnosed as themselves."""
    exercise, reference = unit.exercises[name], unit.references[name]
    right, wrong = unit.of(name, "alternative"), unit.of(name, "misconception")
    own = [attempt for attempt in wrong if attempt.same_as is None]
    proof, failed, misnamed = Proof(Counter(seeds=exercise.variants)), set(), {}
    for variant in range(exercise.variants):
        expected = [predicted_once(exercise, reference, variant)]
        for attempt in right:
            verdict = judge(exercise, [predicted_once(exercise, attempt.program, variant)], expected, [])
            if attempt.line not in failed and verdict.status != "right":
                failed.add(attempt.line)
                message = (
                    f"the alternative {attempt.variant!r} of {name} differs from the reference for variant {variant}"
                )
                proof.problems.append(unit.listed(attempt.line, message, "Mend the one that is wrong"))
        candidates = [candidate(unit, attempt, [predicted_once(exercise, attempt.program, variant)]) for attempt in own]
        for attempt in wrong:
            yours = [predicted_once(exercise, attempt.program, variant)]
            verdict = judge(exercise, yours, expected, candidates)
            said = "is right" if verdict.status == "right" else misdiagnosis(attempt, verdict)
            if said and attempt.line not in failed:
                failed.add(attempt.line)
                way_out = "Choose values in cases.py that tell them apart for every variant, or declare same_as"
                proof.problems.append(
                    unit.listed(attempt.line, f"{attempt.key} of {name} {said} for variant {variant}", way_out)
                )
            elif not said and attempt.same_as is None:
                others = [one for one in candidates if one.key != attempt.key]
                names = {one.id for one, _ in judge(exercise, yours, expected, others).diagnosis} - {attempt.id}
                if names:
                    said = (
                        f"without {attempt.key}, its answers for variant {variant} are named {', '.join(sorted(names))}"
                    )
                    misnamed.setdefault(attempt.key, f"{name}: {said}")
    proof.counts.update(
        misconceptions=len(own),
        diagnosed=sum(attempt.line not in failed for attempt in own),
        alternatives=len(right),
        alternatives_passed=sum(attempt.line not in failed for attempt in right),
        misnamed=len(misnamed),
    )
    proof.remarks += misnamed.values()
    return proof


def prove_changed_answers(unit: Unit, name: str) -> Proof:
    """One wrong answer among right ones is refused, whichever it is."""
    exercise, reference = unit.exercises[name], unit.references[name]
    proof = Proof()
    accepted: dict[int, int] = {}  # number of an answer that may be anything, and a variant that shows it
    for variant in range(min(CHANGED_VARIANTS, exercise.variants)):
        answers = list(reference(variant))
        proof.counts["mutants"] = max(proof.counts["mutants"], len(answers))
        for number, answer in enumerate(answers):
            changed = [*answers[:number], _other(answer), *answers[number + 1 :]]
            if _verdict(exercise, reference, variant, changed).status == "right":
                accepted.setdefault(number, variant)
    proof.counts.update(killed=proof.counts["mutants"] - len(accepted), surviving=len(accepted))
    for number, variant in sorted(accepted.items()):
        message = f"answer {number + 1} of {name} may be anything (variant {variant})"
        way_out = "Give a Prediction requirement whose items reach it"
        proof.problems.append(Problem(unit.lesson.directory / "cases.py", exercise.line, message, way_out))
    return proof


def _other(answer):
    """A wrong answer of the same kind."""
    if answer is None:
        return 0
    if isinstance(answer, bool):
        return not answer
    if isinstance(answer, str):
        return answer + "x"
    if isinstance(answer, torch.dtype):
        return "int8" if answer != torch.int8 else "int16"
    if isinstance(answer, (list, tuple)):
        return [*answer, 1]
    return answer + 1


def _verdict(exercise, reference, variant, answers):
    yours = prediction(exercise, variant, [normalise(answer) for answer in answers])
    return judge(exercise, [yours], [predicted_once(exercise, reference, variant)], [])


def prove_other_forms(unit: Unit, name: str) -> Proof:
    """Right answers are right in a hundred other written forms."""
    exercise, reference = unit.exercises[name], unit.references[name]
    chance, proof, seen = random.Random(0), Proof(), set()
    for attempt in range(REWRITES * TRIES):
        if len(seen) == REWRITES:
            break
        variant = attempt % exercise.variants
        answers = list(reference(variant))
        forms = [chance.choice(_forms(answer)) for answer in answers]
        if repr(forms) == repr(answers) or (variant, repr(forms)) in seen:
            continue
        seen.add((variant, repr(forms)))
        verdict = _verdict(exercise, reference, variant, forms)
        if verdict.status == "right":
            proof.counts["rewrites_passed"] += 1
        else:
            message = f"{name} refuses {forms} for variant {variant}, which says the same as {answers}"
            line = unit.lesson.exercises[name].line
            proof.problems.append(Problem(unit.lesson.file, line, message, "Mend `normalise` in predictable.py"))
    proof.counts["rewrites"] = len(seen)
    return proof


def _forms(answer) -> list:
    """The answer, and what people write for it."""
    if answer is None or isinstance(answer, bool):
        return [answer]
    if isinstance(answer, str):
        return [answer, f" {answer} ", answer.upper(), answer.replace(" ", "  ")]
    if isinstance(answer, torch.dtype):
        return [answer, str(answer), str(answer).removeprefix("torch.")]
    if isinstance(answer, (list, tuple)):
        return [list(answer), tuple(answer), *([torch.tensor(answer)] if _is_numeric(answer) else [])]
    value = answer.item() if isinstance(answer, (torch.Tensor, numpy.generic)) else answer
    whole = [int(value)] if float(value).is_integer() else []
    return [value, float(value), torch.tensor(float(value)), numpy.float64(value), *whole]


def _is_numeric(answer) -> bool:
    return bool(answer) and all(type(one) in (int, float) for one in answer)
