"""The operations of the C ABI, in the order of ops.h; operations/ holds their rows. generate.py turns this into ops.h, ops.hpp, checks
and entry points.

Formulas name sections of no other document: each text stands alone, because it becomes the comment in ops.h.
"""

from operations import (activation, attention, bias_add, cross_entropy, divergence, dropout, dyt, elementwise, embedding,
                        fused_linear_cross_entropy, fused_linear_jsd, gated_activation, gated_matmul, group_norm, grouped_matmul, layer_norm,
                        matmul, optimizer, poly_norm, rms_norm, rope, scaled_matmul, softmax, vocab_parallel)

OPS = [
    *elementwise.OPS,
    *rms_norm.OPS,
    *layer_norm.OPS,
    *group_norm.OPS,
    *poly_norm.OPS,
    *dyt.OPS,
    *bias_add.OPS,
    *matmul.OPS,
    *scaled_matmul.OPS,
    *grouped_matmul.OPS,
    *gated_matmul.OPS,
    *activation.OPS,
    *dropout.OPS,
    *gated_activation.OPS,
    *rope.OPS,
    *attention.OPS,
    *softmax.OPS,
    cross_entropy.CROSS_ENTROPY,
    *fused_linear_cross_entropy.OPS,
    cross_entropy.CROSS_ENTROPY_BACKWARD,
    *vocab_parallel.OPS,
    divergence.KL_DIV,
    divergence.JSD,
    *fused_linear_jsd.OPS,
    divergence.TVD,
    cross_entropy.TARGET_COUNTS,
    *embedding.OPS,
    *optimizer.OPS,
]
