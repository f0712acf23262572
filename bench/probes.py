"""Times of hand-tuned CUDA, in us: what an H200 can do (driver 580, CUDA 13.0, 2026-11-20, bf16, cold L2, median of at least 13).

Throw-away kernels that fit one shape each; the backward of a norm includes the sum of its partials.
"""

DEVICE = "NVIDIA H200"
US = {
    ("rms_norm", "fwd"): {(16384, 2048): 36.6, (16384, 4096): 69.5, (16384, 8192): 131.7, (16384, 16384): 256.9, (4096, 65536): 261.4,
                          (2048, 131072): 260.4},
    ("rms_norm", "bwd"): {(16384, 4096): 107.3, (16384, 8192): 200.6, (16384, 16384): 388.0},
    ("layer_norm", "fwd"): {(16384, 4096): 71.2, (16384, 8192): 134.9, (16384, 16384): 259.5},
    ("layer_norm", "bwd"): {(16384, 4096): 106.7, (16384, 8192): 198.9, (16384, 16384): 381.7},
    ("cross_entropy", "fwd"): {(4096, 40960): 88.2, (8192, 128256): 462.5, (4096, 163840): 302.0},
    ("cross_entropy", "full"): {(4096, 40960): 171.1, (8192, 128256): 1023.7, (4096, 163840): 658.5},
    ("swiglu", "fwd"): {(16384, 14336): 326.1},
    ("swiglu", "bwd"): {(16384, 14336): 547.5},
    ("geglu", "fwd"): {(16384, 14336): 324.2},
    ("geglu", "bwd"): {(16384, 14336): 543.9},
    ("rope", "fwd"): {(8, 2048, 32, 8, 128): 86.3},
    ("rms_norm_chain", "chain"): {(2048, 4096): 26.0},
    ("rms_norm_chain", "graph"): {(2048, 4096): 25.6},
}


def probe_us(device, row):
    """The hand-tuned time of a row's case, or None."""
    if device != DEVICE or row["dtype"] != "bf16":
        return None
    return US.get((row["kernel"], row["pass"]), {}).get(tuple(row["shape"]))
