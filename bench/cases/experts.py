"""Matmuls of a mixture of experts, compared with torch's grouped_mm. Each group of rows is
multiplied by its expert's matrix."""

import torch
import torch.nn.functional as F

from .common import CODES, Case, Contender, Maker, Pass, case, nbytes, normwise


@case
def grouped_matmul_nt(context, E, M, K, N, dtype):
    """c [M, N]: E experts with M / E rows of K columns each; weights [E, N, K]."""
    make = Maker(context.device)
    a, b = make.randn(M, K, dtype=dtype), make.randn(E, N, K, dtype=dtype)
    offsets = torch.arange(0, M + 1, M // E, device=context.device, dtype=torch.int32)

    def ligerdsl():
        c = make.empty(M, N, dtype=dtype)
        run = context.plan("grouped_matmul_nt", n_groups=E, n_cols=N, n_inner=K, dtype=CODES[dtype],
                           index_dtype="i32").bind(M, a=a, b=b, offsets=offsets, c=c)
        return Contender({"fwd": Pass(run, lambda: {"c": c}, nbytes(c) + run.workspace_bytes,
                                      run.workspace_bytes)})

    def eager():
        return Contender({
            "fwd": Pass(lambda: {"c": F.grouped_mm(a, b.transpose(1, 2), offs=offsets[1:])})})

    first = slice(0, min(64, M // E))
    check = normwise(lambda: a[first].double() @ b[0].double().T)
    return Case("grouped_matmul_nt", (E, M, K, N), dtype,
                {"fwd": nbytes(a, b) + M * N * a.element_size()},
                {"ligerdsl": ligerdsl, "torch": eager}, {"c": lambda found: check(found[first])},
                {"fwd": 2 * M * N * K})
