"""Somebody else's tests: a fixed sample of PyTorch's operator database, on the simulated accelerator against the CPU.

`benchmarks/accelerator_ops.py` runs the whole of it.
"""

import importlib.util
import re
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import torch
from autogradlab import accelerator

BENCHMARK = Path(__file__).parents[1] / "benchmarks" / "accelerator_ops.py"
#: random.Random(150).sample(sorted(database()), 150), written down so that it stays the same.
NAMES = re.findall(
    r"\S+",
    """
    __radd__ _segment_reduce.lengths _segment_reduce.offsets _unsafe_masked_index_put_accumulate
    _upsample_bilinear2d_aa addcmul addmv addr alias_copy aminmax as_strided.partial_views as_strided_scatter
    atan atleast_1d bfloat16 bucketize cartesian_prod cdouble chalf char clamp conj contiguous cos cummax
    deg2rad diagonal_copy dist div.trunc_rounding dot einsum empty erf exp2 expand_copy fft.fft fft.fft2
    fft.hfft fft.hfftn fft.ifftshift fft.irfft fft.irfftn flipud float float_power floor_divide full_like gather
    geometric gt hash_tensor histc igamma index_reduce.mean inner isinf isneginf linalg.eig linalg.eigh
    linalg.ldl_solve linalg.lu_factor_ex linalg.pinv.hermitian log_normal log_softmax.with_dtype logaddexp
    logcumsumexp logspace.tensor_overload mH mT masked.amin masked.argmin masked.logaddexp masked.logsumexp
    masked.median masked.prod masked.softmax mm mv mvlgamma.mvlgamma_p_3 nanquantile native_dropout_backward
    native_group_norm nextafter nn.functional.adaptive_avg_pool1d nn.functional.binary_cross_entropy
    nn.functional.conv_transpose2d nn.functional.cosine_embedding_loss nn.functional.ctc_loss
    nn.functional.dropout nn.functional.fractional_max_pool3d nn.functional.hardsigmoid nn.functional.hardswish
    nn.functional.hardtanh nn.functional.hinge_embedding_loss nn.functional.interpolate.bicubic
    nn.functional.local_response_norm nn.functional.max_pool2d nn.functional.max_unpool2d.grad
    nn.functional.pad.circular nn.functional.pixel_shuffle nn.functional.prelu nn.functional.selu
    nn.functional.smooth_l1_loss nn.functional.softmin nn.functional.softmin.with_dtype nn.functional.softshrink
    nn.functional.softsign nn.functional.threshold nonzero_static norm.fro ones_like ormqr permute pinverse
    polygamma.polygamma_n_1 pow qr randn_like reciprocal searchsorted signal.windows.blackman
    signal.windows.cosine signal.windows.hann slice_scatter softmax.with_dtype sparse.sampled_addmm
    special.airy_ai special.chebyshev_polynomial_w special.erfcx special.hermite_polynomial_h
    special.laguerre_polynomial_l special.log_ndtr special.modified_bessel_i0 special.modified_bessel_k1
    special.polygamma.special_polygamma_n_0 special.shifted_chebyshev_polynomial_w special.zeta
    split_with_sizes_copy std.unbiased sub svd_lowrank take take_along_dim tensor_split
    torch.ops.aten._safe_softmax.default transpose_copy tril unique_consecutive view view_copy
""",
)


@pytest.fixture(scope="module")
def ops():
    spec = importlib.util.spec_from_file_location("accelerator_ops", BENCHMARK)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def known(ops):
    accelerator.register(note=False)
    return ops.database()


def test_the_sample_is_of_150_different_operators():
    assert len(NAMES) == len(set(NAMES)) == 150


@pytest.mark.parametrize("name", NAMES)
def test_all_samples_of_the_operator_agree_or_it_is_listed_as_refused(name, ops, known):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = ops.compare(name, known[name], samples=100)
        result["reasons"] += ops.compare_variants(name, known[name], samples=10)
    if name in ops.REFUSED:
        assert result["reasons"]
        assert all("NotImplementedError: sim holds dense tensors only" in reason for reason in result["reasons"])
    else:
        assert not result["reasons"]
        assert result["forward"][0] == result["forward"][1]
        assert result["backward"][0] == result["backward"][1]


def test_every_refused_operator_is_still_refused(ops, known):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in ops.REFUSED:
            assert ops.compare(name, known[name], samples=3)["reasons"]


def test_a_wrong_value_a_wrong_device_and_a_crash_are_seen(ops, known, monkeypatch):
    right = torch.ones(2)
    assert ops._difference([right.to("sim")], [right], "exp") is None
    assert ops._difference([2 * right.to("sim")], [right], "exp").startswith("wrong values")
    assert ops._difference([right], [right], "exp") == "a result on cpu"
    assert ops._difference([], [right], "exp") == "0 results instead of 1"
    crash = "import json, os; print(json.dumps({'next': 'exp'}), flush=True); os.abort()"
    monkeypatch.setattr(
        ops.subprocess, "run", lambda command, **settings: _run([sys.executable, "-c", crash], **settings)
    )
    (result,) = ops.run_chunk(["exp"])
    assert result["crash"]
    assert ops.share([result, {"forward": [3, 3]}], "forward") == 50


_run = subprocess.run
