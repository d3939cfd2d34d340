"""Gates on the order of what is taught, within a unit and across the units that it requires."""

from autograder.lessons import ContentError, Problem, line_of, read, units

PRACTICE = {"arrange", "complete", "repair"}
NEW_CONCEPTS = 2


def order(lesson):
    """Problems with requires, assumes and the tags `teaches:` and `needs:`."""
    earlier = required(lesson)
    return [*_requires(lesson), *_assumes(lesson), *_concepts(lesson, earlier), *_steps(lesson, earlier)]


def required(lesson):
    """The lessons that must have been taken before, in their order."""
    found, names = {}, list(lesson.requires)
    while names:
        name = names.pop()
        if name not in found and name in units(lesson.course) and name < lesson.unit:
            found[name] = read(name, lesson.course)
            names += found[name].requires
    return [found[name] for name in sorted(found)]


def known_before(lesson, earlier):
    """Concepts that a learner who begins the unit has met."""
    return {concept for each in [*earlier, lesson] for concept in each.assumes} | {
        concept for each in earlier for concept in each.concepts
    }


def _requires(lesson):
    file = lesson.directory / "unit.toml"
    for name in lesson.requires:
        if name not in units(lesson.course):
            yield Problem(
                file, line_of(file, "requires"), f"requires {name}, which is no unit", "Move its concepts to assumes"
            )
        elif name >= lesson.unit:
            yield Problem(
                file, line_of(file, "requires"), f"requires {name}, which comes later", "Require earlier units"
            )


def _assumes(lesson):
    """`assumes` stands in for units that do not exist yet, so that it must go when they do."""
    file = lesson.directory / "unit.toml"
    for name in units(lesson.course):
        if name >= lesson.unit:
            continue
        try:
            other = read(name, lesson.course)
        except ContentError:
            continue  # that unit's own gates say so
        for concept in sorted(set(lesson.assumes) & set(other.concepts)):
            way_out = f"Take it out, and require {name}"
            yield Problem(file, line_of(file, "assumes"), f"assumes `{concept}`, which {name} teaches", way_out)
        for concept in sorted(set(lesson.concepts) & set(other.concepts)):
            way_out = "Choose another name, or require that unit"
            yield Problem(file, line_of(file, concept), f"`{concept}` is a concept of {name} already", way_out)


def _concepts(lesson, earlier):
    known = known_before(lesson, earlier) | set(lesson.concepts)
    tagged = set()
    for cell in lesson.cells:
        for key in ("teaches", "needs"):
            for concept in cell.tagged(key):
                if concept not in known and concept != "TODO":
                    way_out = f"Concepts are declared in unit.toml; known here: {', '.join(sorted(known))}"
                    yield Problem(lesson.file, cell.line, f"`{key}:{concept}` names no concept", way_out)
        tagged |= set(cell.tagged("teaches"))
    file = lesson.directory / "unit.toml"
    for concept in sorted(set(lesson.concepts) - tagged):
        way_out = f"Tag the cell that teaches it `teaches:{concept}`, or take it out of [concepts]"
        yield Problem(file, line_of(file, concept), f"no cell teaches `{concept}`", way_out)


def _steps(lesson, earlier):
    """Follows a learner through the cells: what was taught, worked and practised before each of them."""
    taught = known_before(lesson, earlier)
    worked, practised, met = set(taught), set(taught), set(taught)
    for each in [*earlier, lesson]:
        for cell in each.cells:
            teaches, needs = set(cell.tagged("teaches")), set(cell.tagged("needs"))
            if each is lesson:
                yield from _step(lesson, cell, taught, worked & practised, met)
            taught |= teaches
            forms = set(cell.tagged("form"))
            if "worked" in forms:
                worked |= teaches
            if forms & PRACTICE:
                practised |= teaches & worked
            if cell.role == "solution":
                met |= teaches | needs


def _step(lesson, cell, taught, mastered, met):
    name = cell.nbgrader.get("grade_id", "this cell")
    for concept in cell.tagged("needs"):
        if concept not in taught:
            later = [below.line for below in lesson.cells if concept in below.tagged("teaches")]
            where = f"it is taught at line {later[0]}" if later else "nothing teaches it"
            way_out = "Move the cell down, teach it before, require its unit, or list it in assumes"
            yield Problem(lesson.file, cell.line, f"{name} needs `{concept}` before it is taught: {where}", way_out)
    if cell.role != "solution":
        return
    if "write" in cell.tagged("form"):
        for concept in sorted(set(cell.tagged("teaches")) - mastered):
            way_out = "Show it before (form:worked), then let it be arranged, completed or repaired"
            yield Problem(lesson.file, cell.line, f"{name} asks to write `{concept}` with no rung below", way_out)
    new = sorted((set(cell.tagged("teaches")) | set(cell.tagged("needs"))) - met)
    if "tier:spine" in cell.tags and len(new) > NEW_CONCEPTS:
        way_out = f"At most {NEW_CONCEPTS}: put an exercise on some of them before it, or tag it tier:depth"
        yield Problem(lesson.file, cell.line, f"{name} is the first exercise on {', '.join(new)}", way_out)
