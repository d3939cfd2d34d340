"""Whether two recordings say the same, floats aside in the last bits."""

import re

import torch
from autogradlab.encoding import Storages, decode_tensor

TOLERANCE = 1e-5
NUMBER = re.compile(r"0x[0-9a-f]+|\d+\.?\d*(?:e[-+]?\d+)?")


def alike(a, b):
    """Whether two pieces of plain data are equal, floats (in observed texts and tensors too) within a tolerance."""
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return _dicts_alike(a, b)
    if isinstance(a, list):
        return len(a) == len(b) and all(map(alike, a, b))
    if isinstance(a, float):
        return a == b or (a != a and b != b) or abs(a - b) <= TOLERANCE * (1 + abs(b))
    return a == b


def _dicts_alike(a, b):
    if a.keys() != b.keys():
        return False
    if "storages" in a and "tree" in a:
        return _observed_alike(a["tree"], b["tree"], Storages(a["storages"]), Storages(b["storages"]))
    if "types" in a and isinstance(a.get("message"), str):  # an exception, raised or returned
        rest = a.keys() - {"message"}
        return _texts_alike(a["message"], b["message"]) and all(alike(a[key], b[key]) for key in rest)
    return all(_texts_alike(a[key], b[key]) if key == "printed" else alike(a[key], b[key]) for key in a)


def _observed_alike(a, b, left, right):
    """Compares trees whose tensors are read from storages: the bytes around a view are nobody's business."""
    if type(a) is not type(b):
        return False
    if isinstance(a, list):
        return len(a) == len(b) and all(_observed_alike(x, y, left, right) for x, y in zip(a, b, strict=True))
    if not isinstance(a, dict) or a.get("$") == "exception":
        return alike(a, b)
    if a.keys() != b.keys():
        return False
    if a.get("$") == "tensor":
        if any(a[key] != b[key] for key in a.keys() - {"storage", "offset", "grad"}):
            return False
        if not _observed_alike(a.get("grad"), b.get("grad"), left, right):
            return False
        return _tensors_alike(decode_tensor(a, left), decode_tensor(b, right))
    return all(_observed_alike(a[key], b[key], left, right) for key in a)


def _tensors_alike(a, b):
    if not (a.is_floating_point() or a.is_complex()):
        return torch.equal(a, b)
    return torch.allclose(a, b, rtol=TOLERANCE, atol=TOLERANCE, equal_nan=True)


def _texts_alike(a, b):
    if a == b:
        return True
    if NUMBER.sub("#", a) != NUMBER.sub("#", b):
        return False
    pairs = zip(NUMBER.findall(a), NUMBER.findall(b), strict=True)
    # An address differs from run to run.
    return all(x.startswith("0x") or alike(float(x), float(y)) for x, y in pairs)
