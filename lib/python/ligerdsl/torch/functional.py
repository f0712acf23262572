"""All functions with autograd."""

from .attention import attention, attention_varlen
from .fused_linear import fused_linear_cross_entropy, fused_linear_jsd
from .gated import geglu, swiglu
from .grouped import grouped_linear
from .linear import linear, matmul
from .losses import LossOutput, cross_entropy, jsd, kl_div, tvd
from .more_norms import dyt, group_norm, modulated_rms_norm, poly_norm
from .norms import fused_add_layer_norm, fused_add_rms_norm, layer_norm, rms_norm
from .optim import clip_grad_norm_, global_norm
from .rope import rope
from .rows import activation, bias_add, dropout, embedding, softmax, sparsemax
from .vocab_parallel import merge_partials, vocab_parallel_cross_entropy, vocab_parallel_partials

__all__ = [name for name in dir() if not name.startswith("_")]
