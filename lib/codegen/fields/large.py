"""Rules for configurations on more than 2^31 elements."""

# matmuls of other sizes round differently
MATMUL_TOLERANCES = {"tolerance": (1e-2, 1e-3), "sum_tolerance": 1e-3}
