"""Hugging Face models on the library's kernels, changed in place by one line:

    report = ligerdsl.hf.patch(model)     # norms, rotary embedding, gated MLPs, head and loss
    ligerdsl.hf.unpatch(model)
"""

from .families import FAMILIES
from .patch import NotPatched, Report, patch, unpatch

__all__ = ["FAMILIES", "NotPatched", "Report", "patch", "unpatch"]
