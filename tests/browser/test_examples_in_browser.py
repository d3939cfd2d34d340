"""The notebook of examples in a real JupyterLab: everybody can read its pictures and tables, in light and dark."""

from pathlib import Path

import jupytext
import pytest

FILE = Path(__file__).resolve().parents[2] / "docs" / "examples.py"

pytestmark = pytest.mark.browser


def test_everybody_can_read_the_examples_in_light_and_dark(lab, open_notebook, artifacts):
    examples = jupytext.read(FILE)
    examples.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3"}
    jupytext.write(examples, lab.folder / "examples.ipynb")
    notebook = open_notebook("examples.ipynb")
    notebook.execute("notebook:run-all-cells")
    outputs = [output for cell in notebook.cells() for output in cell.get("outputs", ())]
    assert [output for output in outputs if output["output_type"] == "error" or output.get("name") == "stderr"] == []
    for theme in ("JupyterLab Light", "JupyterLab Dark"):
        notebook.execute("apputils:change-theme", theme=theme)
        assert notebook.accessibility() == []
        notebook.screenshot(artifacts / f"examples-{theme.split()[-1].lower()}.png")
    pictures = notebook.page.locator(".jp-OutputArea img")
    assert pictures.count() >= 5
    assert all(picture.get_attribute("alt") for picture in pictures.all())
