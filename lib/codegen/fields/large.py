"""Rules of the configurations on more than 2^31 elements."""

MATMUL_TOLERANCES = {"tolerance": (1e-2, 1e-3), "sum_tolerance": 1e-3}  # matmuls of other sizes round differently
