"""The map of the course, the line below each title, and the table of what was asked and where it is taught."""

import re
import shutil
from pathlib import Path

import pytest

from autograder import lessons
from autograder.build import build, stale_pages
from autograder.course_map import WORDS_A_MINUTE, CourseMap, Section
from autograder.lessons import Cell, ContentError

FIXTURES = Path(__file__).parent / "fixtures"
ROOT = Path(__file__).resolve().parent.parent
STATEMENT = """
[[statement]]
section = "Backward"
says = "Gradients appear."
concepts = {concepts}
"""


@pytest.fixture(scope="module")
def whole():
    return CourseMap()


def cell(source, kind="code", tags=(), solution=False):
    settings = {"solution": True, "grade": False, "grade_id": "f"} if solution else {}
    return Cell(source, kind, tuple(tags), settings, 1)


def test_the_minutes_of_a_section_are_made_of_its_words_its_cells_and_the_lines_of_its_solution():
    words = cell("word " * 476, "markdown")
    hint = cell("<details><summary>Hint 1</summary>" + "word " * 900, "markdown")
    demonstration = cell("print(1)", tags=["demonstration"])
    answer = cell("def f():\n    ### BEGIN SOLUTION\n    x = 1\n\n    return x\n    ### END SOLUTION", solution=True)
    assert Section("Text", (words, hint)).minutes == pytest.approx(2.0)
    assert Section("Text", (words, demonstration, demonstration)).minutes == pytest.approx(3.0)
    # "def f():" and the marks are read, the two lines between the marks are written.
    read = 2.0 + 8 / WORDS_A_MINUTE
    assert Section("Exercise: f (spine, write)", (words, answer)).minutes == pytest.approx(read + 2.0 + 2 * 0.5)


def test_the_spine_of_the_course_is_at_most_fifteen_exercises_and_three_hours(whole):
    assert sum(whole.exercises(lesson)[0] for lesson in whole.lessons) <= 15
    assert sum(whole.minutes(lesson)[0] for lesson in whole.lessons) <= 180
    assert all(whole.exercises(lesson)[0] >= 1 for lesson in whole.lessons)


def test_the_solutions_of_the_spine_have_at_most_twelve_lines_to_write(whole):
    for lesson in whole.lessons:
        for exercise in lesson.exercises.values():
            if "spine" in exercise.tagged("tier"):
                lines = [line for region in exercise.regions for line in region.splitlines() if line.strip()]
                assert len(lines) <= 12, f"{lesson.unit}/{exercise.name}: {len(lines)} lines"


def test_who_does_the_spine_alone_is_shown_all_that_its_exercises_need(whole):
    shown = set()
    for lesson in whole.lessons:
        for section in whole._sections[lesson.unit]:
            if section.answer is not None and whole.is_on_the_spine(section):
                needed = section.tagged("needs") - shown
                assert not needed, f"{lesson.unit}, {section.heading}: {needed}"
            elif whole.is_on_the_spine(section):
                shown |= section.tagged("teaches")


def test_what_calls_itself_depth_or_a_workshop_is_not_on_the_spine(whole):
    further = [
        section
        for found in whole._sections.values()
        for section in found
        if section.answer is None and re.match(r"#+ .*\n#?\s*(Depth|Workshop)\.", section.cells[0].source)
    ]
    assert len(further) > 10 and not any(map(whole.is_on_the_spine, further))


def test_each_notebook_says_its_place_and_links_to_its_neighbours(whole):
    for number, lesson in enumerate(whole.lessons, 1):
        text = whole.below_title(lesson)
        title, _, rest = lesson.cells[0].source.partition("\n")
        assert text.startswith(f"{title}\n\nUnit {number} of {len(whole.lessons)}.") and text.endswith(rest)
        links = re.findall(r"\]\(\.\./(\w+)/(\w+)\.ipynb\)", text)
        neighbours = [one.unit for one in whole.lessons[max(number - 2, 0) : number + 1] if one.unit != lesson.unit]
        assert links == [(unit, unit) for unit in neighbours]
        assert all((ROOT / "release" / unit / f"{unit}.ipynb").is_file() for unit, _ in links)


def test_a_course_of_one_unit_has_no_places_to_tell():
    alone = CourseMap(FIXTURES)
    assert alone.below_title(alone.lessons[0]) == alone.lessons[0].cells[0].source


def test_a_unit_builds_on_units_before_it(whole):
    names = [lesson.unit for lesson in whole.lessons]
    for number, lesson in enumerate(whole.lessons):
        assert set(lesson.requires) <= set(names[:number])


def test_readme_and_the_table_of_coverage_are_as_a_build_makes_them():
    assert stale_pages() == []


# ------------------------------------------------------------------------------------------------ on a small course


@pytest.fixture
def course(tmp_path):
    shutil.copytree(FIXTURES, tmp_path / "course")
    return tmp_path / "course"


def concept_of(course):
    (unit,) = lessons.units(course)
    lesson = lessons.read(unit, course)
    taught = {value for one in lesson.cells if one.role == "demonstration" for value in one.tagged("teaches")}
    asked = {value for one in lesson.exercises.values() for key in ("teaches", "needs") for value in one.tagged(key)}
    return sorted(taught & asked)[0]


def test_a_build_makes_the_pages_and_a_second_one_leaves_them(course, tmp_path):
    (course / "coverage.toml").write_text(STATEMENT.format(concepts=f'["{concept_of(course)}"]'))
    (tmp_path / "docs").mkdir()
    marks = "<!-- course map, made by `python3 run.py build` -->", "<!-- end of the course map -->"
    (tmp_path / "README.md").write_text(f"before\n{marks[0]}\nold\n{marks[1]}\nafter\n")
    changed = build(into=tmp_path, course=course)
    assert {tmp_path / "README.md", tmp_path / "docs" / "coverage.md"} <= set(changed)
    readme = (tmp_path / "README.md").read_text()
    assert readme.startswith("before\n") and readme.endswith("after\n") and "old" not in readme
    assert f"| 90 {CourseMap(course).lessons[0].title} | - |" in readme
    assert "Gradients appear." in (tmp_path / "docs" / "coverage.md").read_text()
    assert build(into=tmp_path, course=course) == []


@pytest.mark.parametrize("concepts", ['["no-such-concept"]', "[]"])
def test_what_no_unit_teaches_is_told_with_its_line(course, concepts):
    (course / "coverage.toml").write_text(STATEMENT.format(concepts=concepts))
    with pytest.raises(ContentError, match=r"coverage.toml:2: no demonstration has one of the concepts"):
        CourseMap(course).coverage()
