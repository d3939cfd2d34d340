"""What `audit` proves of an exercise whose answers are programs; a proof gives its counts and what falls short."""

import ast
import traceback
from collections import Counter
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path

from autogradlab.diagnosis import Candidate
from autogradlab.exercises import Attempt, define, load_cases

from autograder.gates.attempts import read_catalogue
from autograder.lessons import ContentError, Lesson, Problem, attempts, namespace, read, references
from autograder.mutants import Mutant, mutants
from autograder.rewrites import Answer, mix, rewrites
from autograder.trials import SEEDS, Situation, Trial

REWRITES = 100
EXTRA_CASES = 2000
# In the extra cases of equivalent mutants, costs are looked at in one case of these.
COSTS_EVERY = 10
COUNTS = (
    *("seeds", "misconceptions", "diagnosed", "alternatives", "alternatives_passed", "rewrites", "rewrites_passed"),
    *("misnamed", "mutants", "killed", "equivalent", "surviving"),
)
ENTRY_KEYS = {"exercise", "operator", "line", "change", "reason"}


@dataclass
class Proof:
    """Counts by name, what falls short, and remarks that are no shortcoming by themselves."""

    counts: Counter = field(default_factory=Counter)
    problems: list[Problem] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    steps: Counter = field(default_factory=Counter)


@dataclass(frozen=True)
class Unit:
    """One unit, loaded."""

    lesson: Lesson
    exercises: dict
    attempts: list[Attempt]
    references: dict
    catalogue: dict
    equivalents: list[dict]

    @property
    def attempts_file(self) -> Path:
        return self.lesson.directory / "attempts.py"

    def of(self, name: str, kind: str) -> list[Attempt]:
        """The attempts of one kind at one exercise."""
        return [attempt for attempt in self.attempts if attempt.exercise == name and attempt.kind == kind]

    def namespace(self, name: str) -> dict:
        """What an answer to the exercise may use."""
        return namespace(self.lesson, self.exercises[name].needs)

    def declared_equivalents(self, name: str) -> dict[tuple, dict]:
        return {entry_key(entry): entry for entry in self.equivalents if entry.get("exercise") == name}

    def listed(self, line: int, message: str, way_out: str) -> Problem:
        return Problem(self.attempts_file, line, message, way_out)


@cache
def load(unit: str, course: Path) -> Unit:
    """The unit with its programs. Raises ContentError, with file and line, where one of them cannot be made."""
    lesson = read(unit, course)
    try:
        exercises = load_cases(lesson.directory / "cases.py")
        missing = [name for name in exercises if name not in lesson.exercises]
        if missing:
            way_out = "Write its answer cell in lesson.py, or take it out of cases.py"
            line = exercises[missing[0]].line
            raise ContentError([Problem(lesson.directory / "cases.py", line, f"{missing[0]} has no answer", way_out)])
        tried = attempts(lesson, exercises)
        programs = references(lesson, tried)
    except ContentError:
        raise
    except Exception as error:  # an author's module may raise anything
        raise ContentError([problem_of(error, lesson.directory)]) from error
    entries = equivalents(lesson.directory / "attempts.py")
    return Unit(lesson, exercises, tried, programs, read_catalogue(course), entries)


def problem_of(error: Exception, directory: Path) -> Problem:
    """An author's exception, at the line of the author's files where it came from."""
    if isinstance(error, SyntaxError) and error.filename:
        return Problem(Path(error.filename), error.lineno or 1, f"SyntaxError: {error.msg}", "Mend it: it must load")
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename).parent == directory]
    file, line = (Path(frames[-1].filename), frames[-1].lineno) if frames else (directory / "attempts.py", 1)
    return Problem(file, line, f"{type(error).__name__}: {error}", "Mend it: the file must load")


def equivalents(file: Path) -> list[dict]:
    """The entries of `EQUIVALENT = [{...}, ...]` in attempts.py, each with its line in the file.

    Raises ContentError where the list or an entry is not plain data with the keys it needs.
    """
    found = []
    for node in ast.parse(file.read_text("utf-8")).body:
        if not isinstance(node, ast.Assign) or ast.unparse(node.targets[0]) != "EQUIVALENT":
            continue
        for element in node.value.elts if isinstance(node.value, ast.List) else [node.value]:
            try:
                entry = ast.literal_eval(element)
            except ValueError:
                entry = None
            texts = isinstance(entry, dict) and entry.keys() - {"occurrence"} == ENTRY_KEYS
            if not texts or not str(entry["reason"]).strip():
                way_out = f"Write a dict of texts with the keys {', '.join(sorted(ENTRY_KEYS))}"
                raise ContentError([Problem(file, element.lineno, "this equivalent mutant cannot be read", way_out)])
            found.append(entry | {"at": element.lineno})
    return found


def entry_key(entry: dict) -> tuple:
    return (entry["operator"], entry["line"], entry["change"], entry.get("occurrence", 1))


# --- attempts: right ones pass, wrong ones fail and are named --------------------------------------------------------


def prove_attempts(unit: Unit, name: str) -> Proof:
    """The reference and the alternatives pass everywhere; every misconception fails and is diagnosed as itself."""
    trial = Trial(unit.exercises[name])
    reference = Expected(trial, unit.references[name])
    proof = Proof(Counter(seeds=SEEDS))
    right, wrong = unit.of(name, "alternative"), unit.of(name, "misconception")
    own = [attempt for attempt in wrong if attempt.same_as is None]
    failed: set[int] = set()
    misnamed: dict[str, str] = {}
    for situation in trial.situations():
        expected = reference[situation]
        raising = _raising(unit, name, expected, situation)
        if raising:
            proof.problems.append(raising)
            break
        for attempt in (None, *right):
            line = attempt.line if attempt else 0
            # The reference beside itself: once in the visible cases is enough to see that it is not left to chance.
            if line not in failed and (attempt or situation.seed == 0):
                yours = trial.watch(attempt.program if attempt else reference.program, situation)
                problem = _refused(unit, name, trial.judge(yours, expected), situation, attempt)
                if problem:
                    failed.add(line)
                    proof.problems.append(problem)
        if not situation.is_rest:
            running = [attempt for attempt in wrong if attempt.line not in failed]
            problems, names = _named(unit, running, situation, reference)
            failed |= problems.keys()
            proof.problems += problems.values()
            misnamed = names | misnamed
    proof.counts.update(
        misconceptions=len(own),
        diagnosed=sum(attempt.line not in failed for attempt in own),
        alternatives=len(right),
        alternatives_passed=sum(attempt.line not in failed for attempt in right),
        misnamed=len(misnamed),
    )
    proof.remarks += misnamed.values()
    return proof


def _named(unit: Unit, wrong: list[Attempt], situation: Situation, reference: "Expected", whole: bool = False):
    """Problems, by line, of wrong programs that pass or bear another's name here; and who bears one when left out."""
    trial, expected = reference.trial, reference[situation]
    seen = {attempt.line: trial.watch(attempt.program, situation) for attempt in wrong}
    candidates = [candidate(unit, attempt, seen[attempt.line]) for attempt in wrong if attempt.same_as is None]
    problems, misnamed = {}, {}
    for attempt in wrong:
        others = [one for one in candidates if one.key != attempt.key]
        verdict = alone = trial.judge(seen[attempt.line], expected, others)
        if alone.status == "right":
            # What is hidden shows in fresh cases, and in some of those only.
            hidden = situation.seed == 0 and trial.has_hidden
            rest = situation.seed > 0 and reference.is_missed(attempt.program, trial.whole(situation))
            if not hidden and not rest:
                problems[attempt.line] = _passing(unit, attempt, situation)
            continue
        if attempt.same_as is None:
            if not alone.diagnosis:
                continue  # unlike all others, so that with itself among them it is the only name
            verdict = trial.judge(seen[attempt.line], expected, candidates)
        problem = _unnamed(unit, attempt, verdict, situation)
        names = {one.id for one, _ in alone.diagnosis} - {attempt.id}
        if problem:
            problems[attempt.line] = problem
        elif attempt.same_as is None and names:
            said = f"without {attempt.key}, its program is named {', '.join(sorted(names))} ({situation})"
            misnamed[attempt.key] = f"{attempt.exercise}: {said}"
    if situation.seed > 0 and not whole and (misnamed or problems):
        # One case of each kind did not settle it; all cases of the seed do.
        return _named(unit, wrong, trial.whole(situation), reference, whole=True)
    return problems, misnamed


def candidate(unit: Unit, attempt: Attempt, observations: list[dict]) -> Candidate:
    """The misconception as a diagnosis sees it."""
    entry = unit.catalogue.get(attempt.id, {})
    message = attempt.message or entry.get("message", "")
    return Candidate(attempt.key, attempt.id, entry.get("name", ""), message, observations)


def _raising(unit: Unit, name: str, expected: list[dict], situation: Situation) -> Problem | None:
    """The problem of a reference that raises what no requirement declares: a mistake would then be right."""
    declared = set().union(*(getattr(one, "raises", ()) for one in unit.exercises[name].requirements))
    for index, observation in zip(situation.indexes, expected):
        raised = observation["raised"]
        if raised and not declared & set(raised["types"]):
            said = f"raises {raised['types'][0]} ({situation}, case {index}): {raised['message']}"
            way_out = "Mend it, perhaps a set-up cell is missing; where it is meant to raise, declare raises=(...)"
            line = unit.lesson.exercises[name].line
            return Problem(unit.lesson.file, line, f"the reference of {name} {said}", way_out)
    return None


def _refused(unit, name, verdict, situation, attempt) -> Problem | None:
    """The problem of a right program that is not accepted."""
    if verdict.status == "right":
        return None
    requirement = unit.exercises[name].requirements[verdict.met.index(False)]
    where = f"{situation}, case {situation.indexes[verdict.case]}"
    said = f"misses {requirement.words!r} ({where}): {verdict.difference.words}"
    if attempt is None:
        way_out = "Make the solution and its cases give the same every time, and mend the requirement in cases.py"
        return Problem(unit.lesson.file, unit.lesson.exercises[name].line, f"the reference of {name} {said}", way_out)
    way_out = "Mend the alternative, or ask for less in cases.py"
    return unit.listed(attempt.line, f"the alternative {attempt.variant!r} of {name} {said}", way_out)


def _passing(unit: Unit, attempt: Attempt, situation: Situation) -> Problem:
    """The problem of a wrong program that passes."""
    cases = "fresh cases" if situation.seed else "the visible cases"
    way_out = "Add a case or a requirement that tells it from a right answer, or drop it"
    return unit.listed(attempt.line, f"{attempt.key} of {attempt.exercise} passes in {cases} ({situation})", way_out)


def _unnamed(unit: Unit, attempt: Attempt, verdict, situation: Situation) -> Problem | None:
    """The problem of a wrong program that is not diagnosed as itself."""
    said = misdiagnosis(attempt, verdict)
    if said is None:
        return None
    same = verdict.diagnosis[0][0].id if verdict.diagnosis else attempt.same_as
    declare = f', or declare same_as="{same}" if they are one behaviour' if same else ""
    way_out = f"Tell them apart by a case or a facet{declare}"
    return unit.listed(attempt.line, f"{attempt.key} of {attempt.exercise} {said} ({situation})", way_out)


def misdiagnosis(attempt: Attempt, verdict) -> str | None:
    """What a wrong program is called instead of itself, in words; None where it is called by its name."""
    named = [one for one, _ in verdict.diagnosis]
    itself = named and (named[0].key == attempt.key if attempt.same_as is None else named[0].id == attempt.same_as)
    if itself and len(named) == 1 and not verdict.unexplained:
        return None
    if not named:
        return "is not recognised"
    return f"is diagnosed as {' and '.join(one.key for one in named)}{', in part' * bool(verdict.unexplained)}"


# --- mutants ---------------------------------------------------------------------------------------------------------


def prove_mutants(unit: Unit, name: str) -> Proof:
    """Every mutant of the reference fails somewhere, or is listed as equivalent."""
    cell, names = unit.lesson.exercises[name].cell, unit.namespace(name)
    proof, listed = Proof(), unit.declared_equivalents(name)
    expected = Expected(Trial(unit.exercises[name]), unit.references[name])
    made = mutants(cell.source, cell.line + 1)
    survivors = [mutant for mutant in made if not _is_killed(name, mutant, expected, names)]
    for mutant in survivors:
        if mutant.key not in listed:
            way_out = f"Add a case that tells it apart, or list it in attempts.py: {entry_text(name, mutant)}"
            message = f"a mutant of {name} passes everything: {mutant.change}"
            proof.problems.append(Problem(unit.lesson.file, mutant.line, message, way_out))
    for key, entry in listed.items():
        if key not in {mutant.key for mutant in survivors}:
            is_made = key in {mutant.key for mutant in made}
            said = "is told apart by the cases" if is_made else "is none that is made of the solution now"
            message = f"the equivalent mutant of {name} {said}: {entry['change']} in {entry['line']!r}"
            proof.problems.append(unit.listed(entry["at"], message, "Delete the entry, or bring it up to date"))
    equivalent = sum(mutant.key in listed for mutant in survivors)
    proof.counts.update(
        mutants=len(made),
        killed=len(made) - len(survivors),
        equivalent=equivalent,
        surviving=len(survivors) - equivalent,
    )
    return proof


def entry_text(name: str, mutant: Mutant) -> str:
    """The entry for EQUIVALENT that fits a mutant, but for its reason."""
    entry = {"exercise": name, "operator": mutant.operator, "line": mutant.text, "change": mutant.change}
    if mutant.occurrence > 1:
        entry["occurrence"] = mutant.occurrence
    return str(entry | {"reason": ""})


class Expected:
    """What the reference does, looked up by situation; and the number of steps past which a program never ends."""

    def __init__(self, trial: Trial, program) -> None:
        self.trial, self.program, self.seen = trial, program, {}
        # Once without a limit, so that what torch imports on first use is not counted, or cut off half-way.
        stopped = any(_is_stopped(one) for one in trial.watch(program, trial.near()))
        limit = 1000
        while not stopped and any(_is_stopped(one) for one in trial.watch(program, trial.near(), limit)):
            limit *= 4
        self.step_limit = 8 * limit

    def __getitem__(self, situation: Situation) -> list[dict]:
        return [self.case(situation, index) for index in situation.indexes]

    def case(self, situation: Situation, index: int) -> dict:
        place = (situation.seed, index, situation.dtype, situation.device, index in situation.costed)
        if place not in self.seen:
            self.seen[place] = self.trial.once_in(self.program, situation, index)
        return self.seen[place]

    def is_missed(self, program, situation: Situation) -> bool:
        """Whether a program misses a requirement; stops at the first difference."""
        trial, yours, theirs = self.trial, [], []
        for index in situation.indexes:
            yours.append(trial.once_in(program, situation, index, self.step_limit))
            theirs.append(self.case(situation, index))
            if any(one.difference(trial.lenient, yours[-1], theirs[-1]) for one in trial.once):
                return True
        return not all(one.met(trial.lenient, yours, theirs) for one in trial.rates)


def _is_stopped(observation: dict) -> bool:
    return observation["raised"] is not None and observation["raised"]["types"][0] == "StepLimit"


def _is_killed(name: str, mutant: Mutant, expected: Expected, names: dict) -> bool:
    """Whether the mutant misses a requirement in some case."""
    program = _defined(name, mutant.source, names)
    return program is None or any(expected.is_missed(program, one) for one in expected.trial.situations())


def _defined(name: str, source: str, names: dict):
    """The mutant's program; None where not even its definition runs."""
    try:
        return define(name, source, names)
    except Exception:  # whatever a mutant raises, it is no answer
        return None


def prove_equivalents(unit: Unit, name: str) -> Proof:
    """Every mutant that is listed as equivalent does what the reference does in 2,000 more cases."""
    exercise, cell = unit.exercises[name], unit.lesson.exercises[name].cell
    proof, listed = Proof(), unit.declared_equivalents(name)
    names = unit.namespace(name)
    running = [mutant for mutant in mutants(cell.source, cell.line + 1) if mutant.key in listed]
    programs = {mutant.key: _defined(name, mutant.source, names) for mutant in running}
    expected = Expected(Trial(exercise), unit.references[name])
    for number in range(EXTRA_CASES):
        if not running:
            break
        seed, index = divmod(number, exercise.fresh)
        costed = (index,) if number % COSTS_EVERY == 0 else ()
        dtype = exercise.dtypes[number % len(exercise.dtypes)]
        situation = Situation(SEEDS + 1 + seed, (index,), dtype, "cpu", costed)
        expected.seen.clear()
        for mutant in list(running):
            if expected.is_missed(programs[mutant.key], situation):
                running.remove(mutant)
                message = f"a mutant of {name} that is listed as equivalent is not ({situation}, case {index})"
                way_out = "Delete the entry, and add a visible case that tells it apart"
                proof.problems.append(unit.listed(listed[mutant.key]["at"], f"{message}: {mutant.change}", way_out))
    return proof


# --- rewrites --------------------------------------------------------------------------------------------------------


def prove_rewrites(unit: Unit, name: str) -> Proof:
    """A hundred forms of the reference and the alternatives are accepted: in the visible cases and in fresh ones."""
    exercise, trial = unit.exercises[name], Trial(unit.exercises[name])
    expected = Expected(trial, unit.references[name])
    right = {"the reference": (unit.lesson.exercises[name].solution, unit.namespace(name))}
    for attempt in unit.of(name, "alternative"):
        right[f"the alternative {attempt.variant!r}"] = (attempt.source, globals_of(attempt.program))
    answers = [Answer(words, source, partial(_run_noted, trial, scope)) for words, (source, scope) in right.items()]
    made = rewrites(answers, REWRITES, 0, exercise.forbidden, _allowed(exercise))
    proof = Proof(Counter(rewrites=len(made)), steps=mix(made))
    for number, rewrite in enumerate(made):
        program = define(name, rewrite.source, right[rewrite.answer][1])
        for situation in (trial.near(number), trial.of_each_kind(1 + number % SEEDS, number)):
            yours = trial.watch(program, situation)
            verdict = trial.judge(yours, expected[situation])
            if verdict.status != "right":
                proof.problems.append(_refused_rewrite(unit, name, rewrite, verdict, situation))
                break
        else:
            proof.counts["rewrites_passed"] += 1
    if len(made) < REWRITES:
        line = unit.lesson.exercises[name].line
        way_out = "Write alternatives that differ more from each other"
        message = f"only {len(made)} rewrites of {name} could be made"
        proof.problems.append(Problem(unit.lesson.file, line, message, way_out))
    return proof


def _run_noted(trial: Trial, scope: dict, text: str, notes: dict) -> None:
    """Runs an answer with notes in it, in one case of each kind that learners see and one that they do not."""
    program = define(trial.exercise.name, text, scope | notes)
    for situation in (trial.near(), trial.of_each_kind(1, 1)):
        trial.watch(program, situation)


def globals_of(program) -> dict:
    """The names that the code of a function or class looks up."""
    members = [program] if hasattr(program, "__globals__") else vars(program).values()
    functions = (getattr(one, "__func__", one) for one in members)  # of static and class methods
    return next(one.__globals__ for one in functions if hasattr(one, "__globals__"))


def _allowed(exercise) -> list[str]:
    """The steps that change nothing that this exercise asks about."""
    counted = any(
        facet.part == "cost" and facet.name == "operations" for one in exercise.requirements for facet in one.facets
    )
    versions = "version" in exercise.aspects("returned") | exercise.aspects("arguments")
    return [*([] if counted else ["clone"]), *([] if counted or versions else ["in-place"])]


def _refused_rewrite(unit, name, rewrite, verdict, situation) -> Problem:
    requirement = unit.exercises[name].requirements[verdict.met.index(False)]
    where = f"{situation}, case {situation.indexes[verdict.case]}"
    message = (
        f"a rewrite of {rewrite.answer} of {name} misses {requirement.words!r} ({where}): {verdict.difference.words}; "
        f"steps: {', '.join(rewrite.steps)}; program:\n{rewrite.source}\n"
    )
    way_out = "Ask for less in cases.py, or, where the program is wrong indeed, mend the step in rewrite_steps.py"
    return Problem(unit.lesson.file, unit.lesson.exercises[name].line, message, way_out)
