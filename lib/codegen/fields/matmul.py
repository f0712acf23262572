"""Sizes of matmuls."""

SMALL_SIZES = {"K": 40, "M": 30}
