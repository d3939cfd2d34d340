"""Whether a submission can be read at all, in words for the person who has to ask for it again."""

import json
from pathlib import Path

import nbformat


def unreadable(path: Path) -> str:
    """Why the notebook expected at `path` cannot be read, or an empty string."""
    if not path.is_file():
        others = ", ".join(sorted(other.name for other in path.parent.iterdir())) or "nothing"
        return f"The folder holds {others}. Expected {path.name}: rename the notebook and grade again."
    try:
        content = json.loads(path.read_bytes())
        notebook = nbformat.convert(nbformat.from_dict(content), 4)
        if not all(isinstance(cell.source, str | list) for cell in notebook.cells):
            return f"{path.name} holds a cell whose source is not text. Ask for the file again."
        if not any("nbgrader" in cell.metadata for cell in notebook.cells):
            return (
                f"{path.name} has lost nbgrader's marks on its cells, as some editors do. "
                "Copy the answers into a fresh release and grade that."
            )
    except json.JSONDecodeError as error:
        return f"{path.name}, line {error.lineno}: {error.msg}. A notebook is JSON. Ask for the file again."
    except UnicodeDecodeError as error:
        return f"{path.name}, byte {error.start}: not UTF-8, as a notebook is. Ask for the file again."
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        return f"{path.name} is JSON and not a notebook ({type(error).__name__}: {error}). Ask for the file again."
    return ""
