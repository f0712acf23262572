"""The kernels to compare, one function each: build(context, *shape, dtype) -> Case."""

from .attention import attention
from .chains import rms_norm_chain
from .common import DTYPES, GATES, Case, Contender, Pass, nbytes
from .divergences import jsd, kl_div, tvd
from .elementwise import (bias_add, dropout, geglu, gelu_erf, gelu_tanh, relu, relu_squared, rope,
                          rope_interleaved, scale, silu, swiglu, vector_add)
from .experts import grouped_matmul_nt
from .linear import (flce_deviation_1, flce_deviation_4, flce_deviation_12, flce_losses,
                     flce_per_token, flce_trained, fused_linear_cross_entropy, fused_linear_jsd)
from .losses import (cross_entropy, cross_entropy_smoothing, cross_entropy_softcap, softmax,
                     sparsemax)
from .norms import (dyt, fused_add_layer_norm, fused_add_rms_norm, group_norm, layer_norm,
                    modulated_rms_norm, poly_norm, rms_norm)
from .products import matmul_nn, matmul_nt, matmul_tn
from .steps import adamw, embedding, embedding_positions, global_norm
from .vocab_parallel import vocab_parallel_cross_entropy

BUILDERS = {f.__name__: f for f in (
    adamw, attention, bias_add, cross_entropy, cross_entropy_smoothing, cross_entropy_softcap,
    dropout, dyt, embedding, embedding_positions, flce_deviation_1, flce_deviation_4,
    flce_deviation_12, flce_losses, flce_per_token, flce_trained, fused_add_layer_norm,
    fused_add_rms_norm, fused_linear_cross_entropy, fused_linear_jsd, geglu, gelu_erf, gelu_tanh,
    global_norm, group_norm, grouped_matmul_nt, jsd, kl_div, layer_norm, matmul_nn, matmul_nt,
    matmul_tn, modulated_rms_norm, poly_norm, relu, relu_squared, rms_norm, rms_norm_chain, rope,
    rope_interleaved, scale, silu, softmax, sparsemax, swiglu, tvd, vector_add,
    vocab_parallel_cross_entropy)}


def build(context, wanted):
    """Returns the case of a sets.Wanted on the context's device."""
    return BUILDERS[wanted.kernel](context, *wanted.shape, dtype=DTYPES[wanted.dtype])
