"""Changes Hugging Face models in place to use the library's kernels:

    # replaces norms, rotary embedding, gated MLPs, and lm_head with its loss
    report = ligerdsl.hf.patch(model)
    ligerdsl.hf.unpatch(model)

To change the classes before a model exists:

    # or apply_to_mistral, _qwen2, _qwen3, _phi3, _gemma, _gemma2, _gemma3
    ligerdsl.hf.apply_to_llama()
    ligerdsl.hf.unapply("llama")
"""

from .classes import apply_to, one_line, unapply
from .families import FAMILIES
from .patch import NotPatched, Report, patch, unpatch

_one_line = {f"apply_to_{family}": one_line(family) for family in FAMILIES}
globals().update(_one_line)

__all__ = ["FAMILIES", "NotPatched", "Report", "apply_to", "patch", "unapply", "unpatch",
           *_one_line]
