"""Matmuls of a mixture of experts, as rows of `tiles.py`: `grouped_linear` forward and both
gradients.

Peers: torch's grouped_mm, QuACK's variable-length gemm (with its autotuner, the default, and
with its heuristic choice) and Liger's Triton kernel of the down projection.
"""

from functools import partial

import torch
import torch.nn.functional as F

import ligerdsl.torch

# experts, experts per token, tokens, width of x, width of y
EXPERTS = [(128, 8, 8192, 2048, 1536), (128, 8, 8192, 768, 2048)]


def _offsets(experts, rows, device):
    """Returns offsets from a random router, whose groups differ in length as in training."""
    counts = torch.bincount(torch.randint(experts, (rows,)), minlength=experts)
    return torch.cat([torch.zeros(1, dtype=torch.int64), counts.cumsum(0)]).to(device=device,
                                                                               dtype=torch.int32)


def _liger(x, weight, offsets, y):
    """Launches Liger's plain grouped matmul as its fused mixture of experts does."""
    import triton
    from liger_kernel.ops.fused_moe import BLOCK_M_TOKEN
    from liger_kernel.ops.fused_moe_kernels import _fused_down_proj_kernel

    tiles = [(begin, group)
             for group, (first, end) in enumerate(zip(offsets[:-1].tolist(), offsets[1:].tolist()))
             for begin in range(first, end, BLOCK_M_TOKEN)]
    begins, groups = torch.tensor(tiles, dtype=torch.int32, device=x.device).T.contiguous()
    (n, k), grid = (weight.shape[1:],
                    lambda meta: (len(tiles), triton.cdiv(y.shape[1], meta["BLOCK_N"])))

    def run():
        _fused_down_proj_kernel[grid](
            x, weight, offsets, begins, groups, y, H_dim=n, I_dim=k, stride_post_TK=x.stride(0),
            stride_post_I=1, stride_w_E=weight.stride(0), stride_w_H=weight.stride(1), stride_w_I=1,
            stride_Y_TK=y.stride(0), stride_Y_H=1, BLOCK_M=BLOCK_M_TOKEN)
    return run


def grouped_products(rows, shapes, dtype):
    device, on_gpu, made = (torch.device(rows.options.device), rows.options.device != "cpu",
                            ligerdsl.torch.ops)
    for experts, of_token, tokens, k, n in shapes:
        offsets = _offsets(experts, of_token * tokens, device)
        ends, total = offsets[1:].contiguous(), of_token * tokens
        x, d_y = (torch.randn(total, width, device=device, dtype=dtype) for width in (k, n))
        weight = torch.randn(experts, n, k, device=device, dtype=dtype)
        # The check compares only the second expert's rows and weight gradient.
        probe = slice(int(offsets[1]), int(offsets[2]))
        held = {}

        def hold(function, *args, **options):
            held["c"] = function(*args, **options)

        def quack(a, b, out, **lengths):
            from quack.gemm_interface import gemm
            return {tuned: partial(gemm, a, b, out=out, tuned=tuned, **lengths)
                    for tuned in (True, False)}

        y, d_x, d_weight = torch.empty_like(d_y), torch.empty_like(x), torch.empty_like(weight)
        passes = (
            ("forward", partial(made.grouped_matmul_nt, x, weight, offsets),
             partial(F.grouped_mm, x, weight.transpose(1, 2), offs=ends),
             partial(quack, x, weight.transpose(1, 2), y, cu_seqlens_m=offsets), y, probe,
             x[probe].double() @ weight[1].double().T),
            ("d_x", partial(made.grouped_matmul_nn, d_y, weight, offsets),
             partial(F.grouped_mm, d_y, weight, offs=ends),
             partial(quack, d_y, weight, d_x, cu_seqlens_m=offsets), d_x, probe,
             d_y[probe].double() @ weight[1].double()),
            ("d_weight",
             partial(made.grouped_matmul_tn, d_y, x, offsets, n_groups=experts, c_dtype=dtype),
             partial(F.grouped_mm, d_y.T, x, offs=ends),
             partial(quack, d_y.T, x, d_weight, cu_seqlens_k=offsets), d_weight, 1,
             d_y[probe].double().T @ x[probe].double()),
        )
        for name, ours, torch_one, quack_runs, out, at, exact in passes:
            case = {"kernel": "grouped_matmul", "shape": f"{experts}x{total}x{k}x{n}",
                    "order": name}
            flops = 2.0 * total * k * n

            def take():
                return held.pop("c")[at]

            def take_out(out=out, at=at):
                found = out[at].clone()
                out.fill_(float("nan"))
                return found

            def of_quack(tuned, quack_runs=quack_runs):
                quack_runs()[tuned]()

            rows.add(case, "ligerdsl", {}, partial(hold, ours), take, exact, flops)
            rows.add(case, "torch", {}, partial(hold, torch_one), take, exact, flops)
            if on_gpu:
                for tuned in (True, False):
                    rows.add(case, "quack", {"tuned": tuned}, partial(of_quack, tuned), take_out,
                             exact, flops)
                if name == "forward":
                    try:
                        run = _liger(x, weight, offsets, out)
                    except ImportError as error:
                        rows.failures.append({**case, "provider": "liger", "reason": str(error)})
                    else:
                        rows.add(case, "liger", {}, run, take_out, exact, flops)
            rows.time()
