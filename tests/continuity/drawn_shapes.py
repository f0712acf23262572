"""Draws shapes at random for predicted_continuity.py and compiled_paths.py."""

# Kernel: (least, largest) of each size, in the order of its letters in continuity_shapes.py.
RANGES = {
    "matmul_nt": ((256, 16384), (256, 16384), (256, 8192)),
    "matmul_nn": ((256, 16384), (256, 16384), (256, 8192)),
    "matmul_tn": ((256, 16384), (256, 16384), (256, 8192)),
    "rms_norm": ((1024, 32768), (256, 20000)),
    "layer_norm": ((1024, 32768), (256, 20000)),
    "cross_entropy": ((1024, 32768), (256, 262144)),
    "softmax": ((1024, 65536), (64, 20000)),
    "rope": ((1, 8), (256, 4096), (8, 64), (1, 8), (32, 256)),
    "swiglu": ((1024, 32768), (512, 30000)),
    "adamw": ((1 << 20, 1 << 28),),
    "embedding": ((1024, 65536), (32000, 262144), (256, 8192)),
    "attention": ((1, 8), (512, 8192), (8, 64), (1, 8), (32, 256))}
# This operation launches several kernels, and only compiled_paths.py draws its shapes.
FUSED_RANGES = {"fused_linear_cross_entropy": ((512, 16384), (512, 8192), (32000, 262144))}


def drawn_size(rng, least, most, aligned):
    """Returns a log-uniform size. If `aligned`, it is a multiple of 8, 64 or 128. Otherwise half of
    the sizes are arbitrary, and half are at most 1 from such a multiple."""
    size = round(least * (most / least) ** rng.random())
    unit = rng.choice([each for each in (8, 64, 128) if each <= size] or [size])
    if aligned:
        return size // unit * unit
    near = size // unit * unit + rng.choice((-1, 0, 1))
    return max(near, 1) if rng.random() < 0.5 else size


def drawn_shape(rng, operation, ranges, aligned):
    """Returns the sizes of a call. The shape may exceed `Operation.most`; the caller checks."""
    sizes = [drawn_size(rng, least, most, aligned) for least, most in ranges]
    for letter, divisor in operation.multiples:
        at = operation.letters.index(letter)
        unit = sizes[operation.letters.index(divisor)] if isinstance(divisor, str) else divisor
        sizes[at] = max(sizes[at] // unit, 1) * unit
    return sizes
