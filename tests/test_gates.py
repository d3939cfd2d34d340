"""A wrong unit is refused with the file, the line and the way out."""

import shutil
from pathlib import Path

import pytest

from autograder.gates import check

FIXTURES = Path(__file__).parent / "fixtures"
TINY = "90_tiny"
TEST_CELL = (
    '\n\n# %% nbgrader={"grade": true, "grade_id": "slope_tests", "locked": true, "points": 2, "schema_version": 3, '
    '"solution": false, "task": false}\ncheck("slope")\n'
)


@pytest.fixture
def course(tmp_path):
    return Path(shutil.copytree(FIXTURES, tmp_path / "course"))


def damage(course, file, old, new):
    """Replaces the first `old` in a file of the tiny unit or of the course; returns the file."""
    path = course / file if file == "misconceptions.toml" else course / "units" / TINY / file
    text = path.read_text()
    assert old in text, f"{file} does not hold {old!r}"
    path.write_text(text.replace(old, new, 1), newline="\n")
    return path


def test_a_right_unit_has_no_problems():
    assert check(course=FIXTURES) == []


# What is wrong: the file, what becomes what, the words of the message, and a text on the line that it names.
WRONG = {
    # nbgrader's metadata
    "an old schema version": (
        "lesson.py",
        '"schema_version": 3',
        '"schema_version": 2',
        "schema_version is 2",
        "slope",
    ),
    "a missing key": ("lesson.py", '"solution": true, "task": false', '"solution": true', "['task']", '"slope"'),
    "an unknown key": ("lesson.py", '"points": 2', '"points": 2, "weight": 1', "['weight']", "slope_tests"),
    "a grade_id of other signs": ("lesson.py", '"grade_id": "slope"', '"grade_id": "slo pe"', "is no name", "slo pe"),
    "a test cell that learners may edit": ("lesson.py", '"locked": true', '"locked": false', "`locked`", "slope_tests"),
    "no points": ("lesson.py", '"points": 2', '"points": 0', "points 0", "slope_tests"),
    "half a point": ("lesson.py", '"points": 2', '"points": 0.5', "points 0.5", "slope_tests"),
    "a task": ("lesson.py", '"task": false', '"task": true', "neither answer, test", '"slope"'),
    "no flag set": ("lesson.py", '"solution": true', '"solution": false', "neither answer, test", '"slope"'),
    "a duplicate grade_id": (
        "lesson.py",
        '"slopes_tests"',
        '"slope_tests"',
        "is used in 90_tiny already",
        '"points": 3',
    ),
    # answers and tests
    "an answer without test cell": ("lesson.py", TEST_CELL, "", "slope has no test cell", '"slope"'),
    "a test without answer cell": ("lesson.py", '"slope_tests"', '"slop_tests"', "no answer cell", "slop_tests"),
    "a test cell that says more": ("lesson.py", 'check("slope")', 'check("slope").text', "is 'check", ".text"),
    "a test of another exercise": ("lesson.py", 'check("slope")', 'check("slopes")', "is 'check", 'check("slopes")'),
    "another name in the answer": ("lesson.py", "def slope(w", "def slop(w", "defines something else", '"slope"'),
    "two definitions": ("lesson.py", "def slopes(w", "n = 1\n\n\ndef slopes(w", "defines something else", '"slopes"'),
    "a marker around the function": (
        "lesson.py",
        'def slopes(w, xs):\n    """The slope for each x."""\n    ### BEGIN SOLUTION',
        '### BEGIN SOLUTION\ndef slopes(w, xs):\n    """The slope for each x."""',
        "the stub of slopes defines",
        '"slopes"',
    ),
    "no markers": (
        "lesson.py",
        "    ### BEGIN SOLUTION\n    return [slope(w, x) for x in xs]\n    ### END SOLUTION",
        "    return xs",
        "marks no solution",
        '"slopes"',
    ),
    "an END without BEGIN": (
        "lesson.py",
        "    ### BEGIN SOLUTION\n    return [",
        "    return [",
        "do not alternate",
        "### END",
    ),
    "a marker of another form": ("lesson.py", "### BEGIN", "# BEGIN", "the marker reads", "# BEGIN"),
    "a solution in a demonstration": (
        "lesson.py",
        "    print(turn, w.grad)",
        "    ### BEGIN SOLUTION\n    ### END SOLUTION\n    print(turn, w.grad)",
        "outside an answer cell",
        "### BEGIN",
    ),
    "hidden tests": ("lesson.py", "w = torch", "### BEGIN HIDDEN TESTS\nw = torch", "has no use here", "HIDDEN"),
    "no contract": (
        "lesson.py",
        "# ## Exercise: several slopes",
        "# <details><summary>A hint</summary></details>",
        "slopes has no contract",
        '"slopes"',
    ),
    "no hint": (
        "lesson.py",
        "# <details><summary>Hint 1</summary>\n#\n# What",
        "# What",
        "slope has no hint",
        '"slope"',
    ),
    # text
    "code that ruff would change": (
        "lesson.py",
        "w.grad = None",
        "w.grad=None",
        "not as ruff formats it",
        "w.grad=None",
    ),
    "cases that ruff would change": ("cases.py", "weight=2", "weight = 2", "not as ruff formats it", "weight = 2"),
    "text that jupytext would change": (
        "lesson.py",
        '# %% tags=["setup"]',
        '#%% tags=["setup"]',
        "not as jupytext writes",
        "#%% tags",
    ),
    "a tab": ("lesson.py", "# Repair it.", "#\tRepair it.", "a tab", "Repair it."),
    "a magic": ("lesson.py", "w = torch", "# %matplotlib inline\nw = torch", "the cell is not Python", "%matplotlib"),
    "a cell cut in two": (
        "lesson.py",
        "    (3 * w)",
        "    # %% a thought\n    (3 * w)",
        "the cell is not Python",
        "(3 * w)",
    ),
    "a raw cell": (
        "lesson.py",
        "# %% [markdown]\n# ## Exercise: one",
        "# %% [raw]\n# ## Exercise: one",
        "a raw cell",
        "[raw]",
    ),
    "an attachment": (
        "lesson.py",
        "# Repair it.",
        "# ![a plot](attachment:plot.png) Repair it.",
        "an attachment",
        "[markdown]",
    ),
    "a TODO": ("lesson.py", "# Repair it.", "# TODO Repair it.", "a TODO is left", "TODO"),
    "a TODO in a message": ("attempts.py", "The slope is right,", "TODO", "a TODO is left", "TODO"),
    "Python that does not parse": (
        "attempts.py",
        "return loss.item()",
        "return loss.item(",
        "not Python",
        "return loss.item(",
    ),
    # tags
    "a cell without role": (
        "lesson.py",
        'tags=["demonstration", "form:worked"',
        'tags=["form:worked"',
        "what this cell is for",
        "form:worked",
    ),
    "an unknown tag": ("lesson.py", "tier:spine", "tier:spin", "unknown tag 'tier:spin'", "tier:spin"),
    "a tag without value": ("lesson.py", '"needs:adding-up"]\ndef', '"needs:"]\ndef', "unknown tag 'needs:'", "needs:"),
    "two roles": ("lesson.py", '["setup"]', '["setup", "demonstration"]', "two roles", "setup"),
    "a graded demonstration": (
        "lesson.py",
        '["tier:spine"',
        '["demonstration", "tier:spine"',
        "no demonstration",
        '"slope"',
    ),
    "a demonstration to be repaired": (
        "lesson.py",
        '"form:worked"',
        '"form:repair"',
        "only an exercise",
        "demonstration",
    ),
    "an exercise without tier": ("lesson.py", '"tier:depth", ', "", "exactly one `tier:`", '"slopes"'),
    "an exercise of two forms": (
        "lesson.py",
        '"form:write"',
        '"form:write", "form:review"',
        "exactly one `form:`",
        '"slopes"',
    ),
    "an exercise that is worked": ("lesson.py", '"form:write"', '"form:worked"', "the learner works it", '"slopes"'),
    "an exercise that teaches nothing": ("lesson.py", ', "teaches:clearing"]', "]", "teaches nothing", '"slopes"'),
    "a set-up that comes late": (
        "lesson.py",
        'tags=["setup"]',
        'tags=["demonstration"]',
        "not tagged setup",
        "demonstration",
    ),
    "the set-up of another unit": ("lesson.py", 'unit("90_tiny")', 'unit("91_other")', "names the units", "setup"),
    # order
    "an unknown concept": (
        "lesson.py",
        "teaches:clearing",
        "teaches:cleaning",
        "`teaches:cleaning` names no concept",
        "cleaning",
    ),
    "something needed before it is taught": (
        "lesson.py",
        ' tags=["teaches:adding-up"]\n# ## Why',
        "\n# ## Why",
        "needs `adding-up` before it is taught",
        '"form:worked"',
    ),
    "something that nothing teaches": (
        "unit.toml",
        "[concepts]\n",
        '[concepts]\nlost = "?"\n',
        "no cell teaches `lost`",
        "lost",
    ),
    "something to write with no rung below": (
        "lesson.py",
        "form:repair",
        "form:review",
        "asks to write `clearing`",
        '"slopes"',
    ),
    "something to write that was not shown": (
        "lesson.py",
        ', "form:worked"',
        "",
        "asks to write `clearing`",
        '"slopes"',
    ),
    "a unit that is required but does not exist": (
        "unit.toml",
        "requires = []",
        'requires = ["04_running"]',
        "which is no unit",
        "requires",
    ),
    "a unit that requires itself": (
        "unit.toml",
        "requires = []",
        'requires = ["90_tiny"]',
        "which comes later",
        "requires",
    ),
    # spine
    "a long contract": ("lesson.py", "# Repair it.", f"# {'word ' * 110}Repair it.", "has 13", '"slope"'),
    "a long solution": (
        "lesson.py",
        "    w.grad = None\n    loss =",
        "    w.grad = None\n" * 10 + "    loss =",
        "has 13 lines",
        '"slope"',
    ),
    "three new concepts": (
        "lesson.py",
        '"needs:adding-up"]\ndef',
        '"needs:adding-up", "needs:backward", "needs:third"]\ndef',
        "is the first exercise on",
        '"slope"',
    ),
    # cases.py
    "cases without answer cell": ("cases.py", "def slopes", "def slops", "slops has no answer cell", "@exercise"),
    "an answer cell without cases": ("cases.py", "def slopes", "def slops", "slopes has no cases", None),
    "other arguments": (
        "cases.py",
        'arguments=("w", "xs")',
        'arguments=("w",)',
        "but the solution takes ('w', 'xs')",
        "@exercise",
    ),
    "a foreign import": (
        "cases.py",
        "from autogradlab.exercises",
        "import pandas\nfrom autogradlab.exercises",
        "imports pandas",
        "pandas",
    ),
    "an instructor's import": (
        "cases.py",
        "\n\n@exercise",
        "\nimport autograder\n\n\n@exercise",
        "imports autograder",
        "import autograder",
    ),
    "a need from below": (
        "cases.py",
        '    arguments=("w", "x"),',
        '    arguments=("w", "x"),\n    needs=("slopes",),',
        "which is not above it",
        "@exercise",
    ),
    "cases declared twice": (
        "cases.py",
        "def slopes(program, case):",
        "def slope(program, case):",
        "is declared at line",
        "def slope(",
    ),
    "cases that do not load": ("cases.py", '"returned.slopes"', '"retruned.slopes"', "ValueError: facet", "retruned"),
    "an exercise with two requirements in the same words": (
        "cases.py",
        "after the call `w.grad` holds that slope alone",
        "the slope comes back as a float",
        "same words",
        None,
    ),
    "a reference for what is no prediction": (
        "attempts.py",
        '@alternative("recursion")',
        "@reference",
        "slopes has 1 @reference",
        None,
    ),
    # attempts.py and the catalogue
    "an unknown ID": ("attempts.py", '"Z02"', '"Y02"', "'Y02' is no known misconception", "def slope("),
    "an attempt without ID": ("attempts.py", '@misconception("Z02")', "@misconception()", "names no ID", "def slope("),
    "a message that asks nothing": (
        "attempts.py",
        "reads `w.grad` next?",
        "reads `w.grad` next.",
        "does not end in a question",
        "def slope(",
    ),
    "an attempt at no exercise": (
        "attempts.py",
        "def slopes(w, xs):\n    return sum",
        "def slop(w, xs):\n    return sum",
        "there is no such exercise",
        "def slop(",
    ),
    "one alternative": (
        "attempts.py",
        '@alternative("recursion")',
        '@misconception("Z02")',
        "slopes has 1 alternatives",
        "def slopes(",
    ),
    "the same attempt twice": ("attempts.py", '"Z02"', '"Z01"', "the same attempt at line", "def slope("),
    "the same as nothing": ("attempts.py", '"Z02")', '"Z02", same_as="Z07")', "nothing here is 'Z07'", "def slope("),
    "a computed ID": ("attempts.py", '"Z02"', 'f"Z{2}"', "is computed", "def slope("),
    "a catalogue message that asks nothing": (
        "misconceptions.toml",
        "gives its number?",
        "gives its number.",
        "Z03 does not end in a question",
        "[Z03]",
    ),
    "a demonstration in no unit": (
        "misconceptions.toml",
        "90_tiny#",
        "04_running#",
        "'04_running', which is no unit",
        "[Z01]",
    ),
    "a demonstration under no heading": (
        "misconceptions.toml",
        "#Why-it-adds-up",
        "#Why-it-grows",
        "is no heading of 90_tiny",
        "[Z01]",
    ),
    "a name of one word": ("misconceptions.toml", '"clears too late"', '"late"', "two to four words", "[Z04]"),
    "an entry without message": ("misconceptions.toml", "message", "massage", "Z01 has no message", "[Z01]"),
    "an unknown key in the catalogue": ("misconceptions.toml", "demonstration", "demo", "unknown key `demo`", "[Z01]"),
    "an ID of another form": ("misconceptions.toml", "[Z09]", "[late]", "'late' is no ID", "[late]"),
    "a catalogue that is not TOML": ("misconceptions.toml", "[Z09]", "[Z09", "cannot be read", "[Z09"),
    # unit.toml
    "no title": ("unit.toml", 'title = "A tiny unit"\n', "", "`title` is not text", None),
    "a list for a text": ("unit.toml", '"A tiny unit"', '["A tiny unit"]', "`title` is not text", "title"),
    "a text for a list": ("unit.toml", "requires = []", 'requires = "90_tiny"', "`requires` is not a list", "requires"),
    "a number in a list": ("unit.toml", "assumes = [", "assumes = [3, ", "`assumes` is not a list of texts", "assumes"),
    "a number for a concept": (
        "unit.toml",
        'clearing = "',
        'clearing = 3 # "',
        "`concepts` is not a table",
        "[concepts]",
    ),
    "an empty title": ("unit.toml", "A tiny unit", "", "the title is empty", "title"),
    "no objectives": ("unit.toml", '["Repair a program whose slopes grow."]', "[]", "no objectives", "objectives"),
    "an objective without verb": ("unit.toml", "Repair a program", "The program", "begins with no verb", "objectives"),
    "an unknown setting": ("unit.toml", "requires", "minutes = 30\nrequires", "unknown key `minutes`", "minutes"),
    "a concept without meaning": (
        "unit.toml",
        '"backward() adds to what .grad holds"',
        '""',
        "is not explained",
        "adding-up",
    ),
}


@pytest.mark.parametrize(("file", "old", "new", "words", "place"), WRONG.values(), ids=WRONG)
def test_a_wrong_unit_is_refused_with_file_line_and_way_out(course, file, old, new, words, place):
    path = damage(course, file, old, new)
    problems = [problem for problem in check(course=course) if words in problem.message + problem.way_out]
    assert problems, check(course=course)
    assert problems[0].way_out
    if place is not None:
        assert problems[0].file == path
        assert place in path.read_text().split("\n")[problems[0].line - 1]


def test_attempts_that_behave_alike_count_once(course):
    damage(course, "attempts.py", '"Z02")', '"Z02", same_as="Z01")')
    assert check(course=course) == []  # six became five
    path = damage(course, "attempts.py", '"Z03")', '"Z03", same_as="Z01")')
    (problem,) = check(course=course)
    assert problem.message == "slope has 4 misconceptions"
    assert problem.file == path


def test_carriage_returns_are_named_with_their_line(course):
    path = course / "units" / TINY / "cases.py"
    path.write_bytes(path.read_bytes().replace(b"@exercise(\n", b"@exercise(\r\n", 1))
    assert any("ends in CR" in problem.message and problem.line == 6 for problem in check(course=course))


@pytest.mark.parametrize("name", ["cases.py", "attempts.py"])
def test_a_missing_file_is_named(course, name):
    path = course / "units" / TINY / name
    path.unlink()
    assert any(problem.file == path and "is missing" in problem.message for problem in check(course=course))


@pytest.mark.parametrize("name", ["notes.md", "helpers.py", "lesson.ipynb", "data.pkl"])
def test_a_file_of_which_nobody_knows_whether_it_travels_is_named(course, name):
    path = course / "units" / TINY / name
    path.write_text("")
    (problem,) = check(course=course)
    assert problem.file == path


@pytest.mark.parametrize("name", ["digits.npy", "pictures/plot.png", "equivalent.toml"])
def test_data_and_settings_may_stand_in_a_unit(course, name):
    path = course / "units" / TINY / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("")
    assert check(course=course) == []


def copied(course, name, **changes):
    """Another unit with the tiny unit's text, its exercises and concepts under other names."""
    directory = Path(shutil.copytree(course / "units" / TINY, course / "units" / name))
    for file in directory.glob("*.*"):
        text = file.read_text().replace(TINY, name).replace("slope", "hill").replace("adding-up", "piling-up")
        text = text.replace("clearing", "emptying").replace(
            'assumes = ["backward"]', changes.get("assumes", "assumes = []")
        )
        file.write_text(text.replace("requires = []", changes.get("requires", "requires = []")), newline="\n")
    return directory


def test_two_units_that_share_nothing_are_right(course):
    copied(course, "91_other", requires='requires = ["90_tiny"]')
    assert check(course=course) == []


def test_a_grade_id_is_unique_in_the_whole_course(course):
    directory = copied(course, "91_other")
    for name in ("lesson.py", "cases.py", "attempts.py"):
        file = directory / name
        file.write_text(file.read_text().replace("hills", "slopes"), newline="\n")
    problems = check(course=course)
    assert [problem.message for problem in problems] == [
        "grade_id 'slopes' is used in 90_tiny already",
        "grade_id 'slopes_tests' is used in 90_tiny already",
    ]
    assert {problem.file for problem in problems} == {directory / "lesson.py"}
    assert check([TINY], course) == problems


def test_what_a_required_unit_teaches_is_known(course):
    directory = copied(course, "91_other", requires='requires = ["90_tiny"]')
    lesson = directory / "lesson.py"
    lesson.write_text(
        lesson.read_text().replace('"form:write", "teaches:emptying"', '"form:write", "teaches:clearing"'),
        newline="\n",
    )
    assert check(course=course) == []


def test_a_concept_may_not_be_assumed_once_an_earlier_unit_teaches_it(course):
    directory = copied(course, "91_other", assumes='assumes = ["clearing"]')
    (problem,) = check(course=course)
    assert problem.message == "assumes `clearing`, which 90_tiny teaches"
    assert (problem.file, problem.line) == (directory / "unit.toml", 3)


def test_two_units_may_not_declare_the_same_concept(course):
    directory = copied(course, "91_other")
    settings = directory / "unit.toml"
    settings.write_text(settings.read_text() + 'clearing = "the same again"\n', newline="\n")
    messages = [problem.message for problem in check(course=course)]
    assert messages == ["`clearing` is a concept of 90_tiny already", "no cell teaches `clearing`"]


def test_a_required_unit_that_cannot_be_read_is_named(course):
    copied(course, "91_other", requires='requires = ["90_tiny"]')
    path = damage(course, "unit.toml", "requires = []", "requires = 1 2")
    (problem,) = check(["91_other"], course)
    assert problem.file == path


def test_the_spine_has_at_most_fifteen_exercises(course):
    path = course / "units" / TINY / "lesson.py"
    text = path.read_text()
    block = text[
        text.index("# %% [markdown]\n# ## Exercise: one") : text.index("# %% [markdown]\n# ## Exercise: several")
    ]
    blocks = [block.replace("slope", f"slope_{number}") for number in range(15)]
    path.write_text(text.replace(block, block + "".join(blocks)), newline="\n")
    problems = [problem for problem in check(course=course) if "spine exercise number" in problem.message]
    assert [problem.message for problem in problems] == ["slope_14 is spine exercise number 16"]


def test_gates_can_be_asked_for_some_units_alone(course):
    directory = copied(course, "91_other")
    (directory / "notes.md").write_text("")
    assert check([TINY], course) == []
    assert len(check(["91_other"], course)) == 1


def test_a_unit_that_does_not_exist_is_a_problem(course):
    (problem,) = check(["92_nowhere"], course)
    assert "no unit 92_nowhere" in problem.message
