"""Operations in the form of Liger's dispatcher: arguments by position or name, and only one
`mode`."""

import functools

import torch

from . import ops


def _with_default_mode(name, function):
    @functools.wraps(function)
    def call(*args, mode=None, **kwargs):
        if mode not in (None, "default"):
            raise ValueError(f"ligerdsl's {name} has only mode='default', got {mode!r}")
        return function(*args, **kwargs)

    return call


FUNCTIONS = {"rms_norm": ops.LigerRMSNormFunction,
             "layer_norm": ops.LigerLayerNormFunction,
             "fused_add_rms_norm": ops.LigerFusedAddRMSNormFunction,
             "swiglu": ops.LigerSiLUMulFunction,
             "geglu": ops.LigerGELUMulFunction,
             "rope": ops.LigerRopeFunction,
             "softmax": ops.LigerSoftmaxFunction,
             "cross_entropy": ops.LigerCrossEntropyFunction,
             "fused_linear_cross_entropy": ops.LigerFusedLinearCrossEntropyFunction,
             "kl_div": ops.LigerKLDivLossFunction,
             "jsd": ops.LigerJSDFunction,
             "fused_linear_jsd": ops.LigerFusedLinearJSDFunction}
OPERATIONS = {
    name: _with_default_mode(name, function.apply) for name, function in FUNCTIONS.items()}


def tolerances():
    """Returns the tolerances of Liger's own kernels."""
    return {
        torch.float16: {"atol_fwd": 5e-3, "atol_bwd": 5e-2, "rtol_fwd": 1e-3, "rtol_bwd": 1e-2},
        torch.bfloat16: {"atol_fwd": 2e-2, "atol_bwd": 1e-1, "rtol_fwd": 1e-2, "rtol_bwd": 2e-2},
        torch.float32: {"atol_fwd": 1e-5, "atol_bwd": 1e-4, "rtol_fwd": 1e-5, "rtol_bwd": 1e-4}}
