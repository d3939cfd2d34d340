"""Values in one line, as messages show them: short, the same in every run, and whatever the value is."""

import inspect
import re

import torch

MAX_ITEMS = 8
MAX_DEPTH = 4
MAX_ELEMENTS = 24


def value_text(value, limit: int = 300) -> str:
    """A value in one line of at most `limit` characters."""
    try:
        text = _text(value, 0)
    except Exception as error:  # a learner's own __repr__, or what else looking at a value runs
        text = f"<{type(value).__name__} whose repr raises {type(error).__name__}>"
    return text if len(text) <= limit else text[: limit - 1] + "…"


def number_text(value) -> str:
    """A number with at most seven significant digits."""
    if type(value) is not float:
        return str(value)
    text = f"{value:.7g}"
    return f"{text}.0" if re.fullmatch(r"-?\d+", text) else text


def _text(value, depth) -> str:
    if type(value) is float:
        return number_text(value)
    if isinstance(value, torch.Tensor):
        return _tensor_text(value, MAX_ELEMENTS if depth == 0 else MAX_ITEMS)
    if isinstance(value, torch.nn.Module):
        children = [type(child).__name__ for child in value.children()]
        return f"{type(value).__name__}({', '.join(children)})" if children else _one_line(repr(value))
    if isinstance(value, torch.optim.Optimizer):
        options = {
            key: option for key, option in value.param_groups[0].items() if type(option) in (int, float) and option
        }
        return f"{type(value).__name__}({', '.join(f'{key}={number_text(options[key])}' for key in options)})"
    if inspect.isroutine(value):
        return value.__name__ if value.__name__.isidentifier() else "a function"
    if type(value) in (list, tuple):
        items = _shortened((_text(item, depth + 1) for item in value), len(value), depth)
        if type(value) is list:
            return f"[{items}]"
        return f"({items}{',' * (len(value) == 1)})"
    if type(value) is dict:
        items = (f"{_text(key, depth + 1)}: {_text(item, depth + 1)}" for key, item in value.items())
        return f"{{{_shortened(items, len(value), depth)}}}"
    if type(value) is str:
        return repr(value[:1000])
    # Addresses differ from run to run.
    return re.sub(r" at 0x[0-9a-f]+", "", _one_line(repr(value)))


def _tensor_text(tensor, elements) -> str:
    name = "Parameter" if isinstance(tensor, torch.nn.Parameter) else "tensor"
    if tensor.numel() > elements or tensor.device.type == "meta":
        dtype = f", {str(tensor.dtype)[6:]}" if tensor.dtype is not torch.float32 else ""
        return f"a {name} of shape {tuple(tensor.shape)}{dtype}"
    return _one_line(repr(tensor)).replace("Parameter containing: tensor", "Parameter")


def _shortened(items, count: int, depth: int) -> str:
    if depth >= MAX_DEPTH:
        return "…" if count else ""
    shown = [item for _, item in zip(range(MAX_ITEMS), items)]
    return ", ".join(shown + [f"… {count - MAX_ITEMS} more"] * (count > MAX_ITEMS))


def _one_line(text: str) -> str:
    return re.sub(r"\s+", " ", text)
