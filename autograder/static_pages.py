"""The units as pages to read before anything is installed: every text, exercise and hint, and no solution."""

import html
import json
import re
from pathlib import Path

from autogradlab import outline, overview
from autogradlab.merging import source_of
from autogradlab.output import Picture
from markupsafe import Markup
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer

from autograder import pages
from autograder.bundles import bundle
from autograder.lessons import ROOT, ContentError, Problem

INTO = ROOT / "dist" / "pages"
# The kinds of tokens that templates/unit.html.j2 has a style for: words of the language, comments, strings.
STYLED = {"k", "kn", "kc", "ow", "c1", "sd", "s1", "s2", "sa"}
_SPAN = re.compile(r'<span class="(\w+)">([^<]*)</span>')


def build_pages(units=(), into: Path = INTO, release: Path = ROOT / "release") -> list[Path]:
    """The pages that were written: one for each unit of the release, or for the named ones, and the course's first.

    Beside each unit's page lies its zip, for notebooks elsewhere.
    """
    found = outline.read_units(release)
    _refuse(found, units, release)
    wanted = [unit for unit in found if not units or unit.name in units]
    written = [pages.write(into / f"{unit.name}.html", unit_page(unit, found)) for unit in wanted]
    for unit in wanted:
        bundle(unit.notebook.parent, into)
    if not units:
        written.append(pages.write(into / "index.html", first_page(found)))
    return written


def unit_page(unit, units) -> str:
    """The page of one unit: its released notebook as it would be read in Jupyter."""
    cells = json.loads(unit.notebook.read_bytes())["cells"]
    shown = [_cell(cell, {one.name for one in units}) for cell in cells]
    position = [one.name for one in units].index(unit.name)
    around = {
        "before": units[position - 1] if position else None,
        "after": units[position + 1] if position + 1 < len(units) else None,
    }
    title = f"{unit.number} {unit.title}"
    return pages.render("unit.html.j2", title=title, name=unit.name, cells=shown, **around)


def first_page(units) -> str:
    """The page from which the units are reached: the map of the course, and what each unit is for."""
    picture = overview.map_svg(units, with_progress=False)
    alt = f"A map of {len(units)} units, with arrows from each to those that require it; the list below says the same."
    titles = {unit.name: f"{unit.number} {unit.title}" for unit in units}
    rows = [
        {
            "unit": unit,
            "title": titles[unit.name],
            "requires": [titles.get(name, name) for name in unit.requires],
        }
        for unit in units
    ]
    return pages.render(
        "course.html.j2", title="Tensors and Autograd", rows=rows, map=picture and Markup(Picture(picture, alt).html)
    )


def _refuse(found, wanted, release):
    if not found:
        raise ContentError([Problem(release, 1, "there is no unit in it", "Run `build`")])
    damaged = [Problem(unit.notebook, 1, unit.problem, "Run `build`") for unit in found if unit.problem]
    if damaged:
        raise ContentError(damaged)


def _cell(cell, names) -> dict:
    source = source_of(cell)
    if cell["cell_type"] == "code":
        settings = cell["metadata"].get("nbgrader", {})
        kind = "answer" if settings.get("solution") else "check" if settings.get("grade") else "code"
        marked = highlight(source, PythonLexer(stripnl=False), HtmlFormatter(nowrap=True))
        return {"kind": kind, "html": Markup(_styled(marked))}
    return {"kind": "text", "html": Markup(_scrolling(_linked(_prose(source), names)))}


def _styled(marked):
    """Code as HTML in which only that is still marked up which the style sheet tells from the rest."""
    return _SPAN.sub(lambda span: span[0] if span[1] in STYLED else span[2], marked)


class _Renderer(IPythonRenderer):
    """Headings with the anchors that JupyterLab gives them, and code without colours."""

    def heading(self, text, level, **attributes):
        anchor = html.escape(outline.anchor(html.unescape(re.sub(r"<[^>]+>", "", text))))
        return f'<h{level} id="{anchor}">{text}</h{level}>\n'


def _prose(source):
    return _styled(MarkdownWithMath(renderer=_Renderer(escape=False)).render(source))


def _linked(page, names):
    """Links between notebooks as links between pages."""
    return re.sub(
        r'href="(?:\.\./\w+/)?(\w+)\.ipynb',
        lambda found: f'href="{found[1]}.html' if found[1] in names else found[0],
        page,
    )


def _scrolling(page):
    """Tables that scroll by themselves, by keyboard too, where a window is narrower than they are."""
    region = '<div class="scroll" tabindex="0" role="region" aria-label="Table"><table'
    return page.replace("<table", region).replace("</table>", "</table></div>")
