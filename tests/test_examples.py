import pathlib

import jupytext
import pytest
from nbclient import NotebookClient

FILE = pathlib.Path(__file__).parents[1] / "docs" / "examples.py"


@pytest.fixture(scope="module")
def told():
    """What each cell of the notebook of examples shows, as text, by its last line."""
    notebook = jupytext.read(FILE)
    NotebookClient(
        notebook, timeout=120, kernel_name="python3", extra_arguments=["--IPKernelApp.log_level=40"]
    ).execute()
    shown = {}
    for cell in notebook.cells:
        parts = []
        for output in cell.get("outputs", []):
            assert output.get("name") != "stderr", output
            parts.append(output.get("text") or output["data"]["text/plain"])
        shown[cell.source.splitlines()[-1]] = "".join(parts)
    return shown


def test_the_gradients_14_28_and_42_travel(told):
    text = told['graph.steps(loss, names={"w": w, "x": x})']
    assert "leaf w receives 42 and leaf x receives 28" in text
    assert "14 to AddBackward0" in text


def test_a_detached_input_gets_no_gradient(told):
    assert (
        "4 nodes, from PowBackward0 to the leaf w"
        in told['graph.compare(loss, cut, names={"w": w, "x": x}, titles=("tracked", "x detached"))']
    )
    assert "leaf w receives 42.\n" in told['graph.steps(cut, names={"w": w, "x": x})']


def test_only_the_kept_loss_grows(told):
    text = told["memory.growth(lambda step: step(), steps=10, variants=variants)"]
    assert "the loss itself grows to" in text
    assert all(f"{way} stays at 0 bytes" in text for way in ("loss.detach()", "loss.item()", "inside no_grad"))


def test_the_leak_ends_where_it_can_be_computed_to_end(told):
    text = told['    print(f"{label}: {steps_survived(step)} steps of 200")']
    assert "sim out of memory. Tried to allocate" in text
    assert "the loss itself: 60 steps of 200" in text
    assert text.count("200 steps of 200") == 3


def test_four_taxis_carry_what_one_lorry_carries(told):
    assert "transfers cpu to sim:0      4     48" in told["taxis"]
    assert "transfers cpu to sim:0      1     48" in told["lorry"]
