"""PyTorch functions with autograd, modules, an optimiser, and operators torch.ops.ligerdsl.*.

All run the library's kernels on f32, f16 and bf16 tensors of a CPU or CUDA device. Unsupported
input raises NotSupported or InvalidArgument with the library's text. Nothing falls back to torch's
own operators. Before a graph capture, call each configuration once."""

from .. import calls, check, doctor, poll
from . import functional, ops, register  # noqa: F401
from .config import config
from .dispatch import learn_sharding as _learn_sharding
from .functional import *  # noqa: F403
from .functional import __all__ as _functions
from .modules import (CrossEntropyLoss, Embedding, FusedLinearCrossEntropyLoss, GeGLUMLP, GroupNorm,
                      LayerNorm, RMSNorm, SwiGLUMLP)
from .optim import AdamW

__all__ = [*_functions, "AdamW", "CrossEntropyLoss", "Embedding", "FusedLinearCrossEntropyLoss",
           "GeGLUMLP", "GroupNorm", "LayerNorm", "RMSNorm", "SwiGLUMLP", "calls", "check", "config",
           "doctor", "functional", "ops", "poll"]

_learn_sharding()  # done at import, because compiled functions do not check for DTensors
