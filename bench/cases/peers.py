"""Calls of peers that several cases share. A peer is imported only when one of its contenders is
requested."""

import os


def liger_cute(operation, *probe):
    """Returns an operation of Liger's dispatched CuTe back end.

    probe: arguments of a first call. The call raises if Liger would fall back to Triton, because
    that time would have the wrong name.
    """
    from liger_kernel import functional
    function = getattr(functional, operation)

    def call(*arguments):
        return function(*arguments, impl="nvidia-cutedsl")

    os.environ["LIGER_KERNEL_STRICT"] = "1"
    try:
        call(*probe)
    finally:
        del os.environ["LIGER_KERNEL_STRICT"]
    return call


def quack_tuned_rms_norm(x, w, eps):
    """QuACK's RMSNorm, tuned by its autotuner over all configurations.

    Returns (forward() -> y, rstd; backward(g, rstd) -> dx, dw).
    """
    import torch
    from quack.rmsnorm import rmsnorm_bwd_tuned, rmsnorm_fwd_tuned
    from quack.rmsnorm_config import get_sm_count
    partials = get_sm_count(x.shape[-1], x.device)

    def forward():
        y, rstd = torch.empty_like(x), torch.empty(x.shape[0], device=x.device, dtype=torch.float32)
        rmsnorm_fwd_tuned(x, w, y, rstd=rstd, eps=eps)
        return y, rstd

    def backward(g, rstd):
        dx, dw = (torch.empty_like(x),
                  torch.empty(partials, x.shape[-1], device=x.device, dtype=torch.float32))
        rmsnorm_bwd_tuned(x, w, g, rstd, dx, dw, has_dw_partial=True)
        return dx, dw.sum(dim=0).to(w.dtype)

    return forward, backward
