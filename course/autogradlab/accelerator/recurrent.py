"""The fused cells that PyTorch's LSTM and GRU call on an accelerator; a CPU has no kernel for them.

The gates are numbered as in `torch.nn.LSTM` (input, forget, cell, output) and `torch.nn.GRU` (reset, update, new).
"""

import torch

from autogradlab.accelerator.counters import totals
from autogradlab.accelerator.kernels import to_host
from autogradlab.accelerator.memory import to_device


def _hosts(*tensors):
    totals.operations += 1
    return to_host(tensors, [])


def _devices(*tensors):
    return tuple(None if tensor is None else to_device(tensor.contiguous()) for tensor in tensors)


def _plus(gates, bias):
    return gates if bias is None else gates + bias


def lstm_cell(input_gates, hidden_gates, cx, input_bias=None, hidden_bias=None):
    """`(hy, cy, workspace)`; the workspace holds the four gates after their nonlinearities."""
    input_gates, hidden_gates, cx, input_bias, hidden_bias = _hosts(
        input_gates, hidden_gates, cx, input_bias, hidden_bias
    )
    i, f, g, o = (_plus(input_gates, input_bias) + _plus(hidden_gates, hidden_bias)).chunk(4, 1)
    i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
    cy = f * cx + i * g
    return _devices(o * cy.tanh(), cy, torch.cat([i, f, g, o], 1))


def lstm_cell_backward(grad_hy, grad_cy, cx, cy, workspace, has_bias):
    """`(grad_gates, grad_cx, grad_bias)` for one step."""
    if grad_hy is None and grad_cy is None:
        return None, None, None
    grad_hy, grad_cy, cx, cy, workspace = _hosts(grad_hy, grad_cy, cx, cy, workspace)
    i, f, g, o = workspace.chunk(4, 1)
    tanh_cy = cy.tanh()
    grad_o, grad_c = torch.zeros_like(o), torch.zeros_like(cy) if grad_cy is None else grad_cy
    if grad_hy is not None:
        grad_o = grad_hy * tanh_cy * o * (1 - o)
        grad_c = grad_c + grad_hy * o * (1 - tanh_cy**2)
    gates = torch.cat([grad_c * g * i * (1 - i), grad_c * cx * f * (1 - f), grad_c * i * (1 - g**2), grad_o], 1)
    return _devices(gates, grad_c * f, gates.sum(0) if has_bias else None)


def gru_cell(input_gates, hidden_gates, hx, input_bias=None, hidden_bias=None):
    """`(hy, workspace)`; the workspace holds reset, update and new gate, hx, and the new gate's hidden part."""
    input_gates, hidden_gates, hx, input_bias, hidden_bias = _hosts(
        input_gates, hidden_gates, hx, input_bias, hidden_bias
    )
    input_r, input_z, input_n = _plus(input_gates, input_bias).chunk(3, 1)
    hidden_r, hidden_z, hidden_n = _plus(hidden_gates, hidden_bias).chunk(3, 1)
    r, z = (input_r + hidden_r).sigmoid(), (input_z + hidden_z).sigmoid()
    n = (input_n + r * hidden_n).tanh()
    return _devices(n + z * (hx - n), torch.cat([r, z, n, hx, hidden_n], 1))


def gru_cell_backward(grad_hy, workspace, has_bias):
    """`(grad_input_gates, grad_hidden_gates, grad_hx, grad_input_bias, grad_hidden_bias)` for one step."""
    grad_hy, workspace = _hosts(grad_hy, workspace)
    r, z, n, hx, hidden_n = workspace.chunk(5, 1)
    grad_n = grad_hy * (1 - z) * (1 - n**2)
    grad_z = grad_hy * (hx - n) * z * (1 - z)
    grad_r = grad_n * hidden_n * r * (1 - r)
    inputs, hiddens = torch.cat([grad_r, grad_z, grad_n], 1), torch.cat([grad_r, grad_z, grad_n * r], 1)
    biases = (inputs.sum(0), hiddens.sum(0)) if has_bias else (None, None)
    return _devices(inputs, hiddens, grad_hy * z, *biases)


RECURRENT = {
    "_thnn_fused_lstm_cell": lstm_cell,
    "_thnn_fused_lstm_cell_backward_impl": lstm_cell_backward,
    "_thnn_fused_gru_cell": gru_cell,
    "_thnn_fused_gru_cell_backward": gru_cell_backward,
}
