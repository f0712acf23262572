"""Matmuls c [M, N] over K in the operand orders nn, nt and tn, compared with cuBLAS."""

import torch

from .common import CODES, Case, Contender, Maker, Pass, by_compiler, case, nbytes, normwise


def product(context, layout, M, N, K, dtype):
    make, (ta, tb) = Maker(context.device), (letter == "t" for letter in layout)
    a = make.randn(*((K, M) if ta else (M, K)), dtype=dtype)
    b = make.randn(*((N, K) if tb else (K, N)), dtype=dtype)
    left, right = a.t() if ta else a, b.t() if tb else b

    def ligerdsl():
        c = make.empty(M, N, dtype=dtype)
        run = context.plan(
            f"matmul_{layout}", n_cols=N, dtype=CODES[dtype],
            **({"n_rows": M} if ta else {"n_inner": K})).bind(K if ta else M, a=a, b=b, c=c)
        return Contender({"fwd": Pass(run, lambda: {"c": c}, nbytes(c) + run.workspace_bytes,
                                      run.workspace_bytes)})

    def eager():
        c = make.empty(M, N, dtype=dtype)
        return Contender({
            "fwd": Pass(lambda: torch.mm(left, right, out=c), lambda: {"c": c}, nbytes(c))})

    compiled = lambda f: Contender({"fwd": Pass(lambda: {"c": f(left, right)})})
    rows = make.rows(M)
    check = normwise(lambda: left[rows].double() @ right.double())
    return Case(f"matmul_{layout}", (M, N, K), dtype,
                {"fwd": nbytes(a, b) + M * N * a.element_size()},
                {"ligerdsl": ligerdsl,
                 "torch": eager,
                 "compile_max": by_compiler(torch.mm, compiled)["compile_max"]},
                {"c": lambda found: check(found[rows])}, {"fwd": 2 * M * N * K}, True)


@case
def matmul_nn(context, M, N, K, dtype):
    return product(context, "nn", M, N, K, dtype)


@case
def matmul_nt(context, M, N, K, dtype):
    return product(context, "nt", M, N, K, dtype)


@case
def matmul_tn(context, M, N, K, dtype):
    return product(context, "tn", M, N, K, dtype)
