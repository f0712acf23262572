"""PyTorch functions with autograd, modules, an optimiser, and operators torch.ops.ligerdsl.* over the library's kernels.

Tensors of a CPU or of a CUDA device, in f32, f16 and bf16. What is not supported raises NotSupported or InvalidArgument with the
library's text; nothing falls back to torch's own operators. Graph capture: call a configuration once before."""

from .. import calls, check, doctor, poll
from . import functional, ops, register  # noqa: F401
from .config import config
from .dispatch import learn_sharding as _learn_sharding
from .functional import *  # noqa: F403
from .functional import __all__ as _functions
from .modules import (CrossEntropyLoss, Embedding, FusedLinearCrossEntropyLoss, GeGLUMLP, GroupNorm, LayerNorm, RMSNorm, SwiGLUMLP)
from .optim import AdamW

__all__ = [*_functions, "AdamW", "CrossEntropyLoss", "Embedding", "FusedLinearCrossEntropyLoss", "GeGLUMLP", "GroupNorm", "LayerNorm",
           "RMSNorm", "SwiGLUMLP", "calls", "check", "config", "doctor", "functional", "ops", "poll"]

_learn_sharding()  # compiled functions do not look for it
