"""Rules for configurations on more than 2^31 elements."""

# tolerances for matmuls whose sizes, and thus roundings, differ
MATMUL_TOLERANCES = {"tolerance": (1e-2, 1e-3), "sum_tolerance": 1e-3}
