"""What models of transformers 5 have in common and where they differ."""

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Family:
    casting: str = "llama"  # where the norm rounds
    offset: float = 0.0     # what its weight is added to


GEMMA = Family("gemma", 1.0)
# By the name of the folder in transformers.models.
FAMILIES = {"llama": Family(), "mistral": Family(), "qwen2": Family(), "qwen3": Family(), "phi3": Family(), "gemma": GEMMA, "gemma2": GEMMA,
            "gemma3": GEMMA}


def family_of(module):
    """The family that the module's class is defined in, or None."""
    parts = type(module).__module__.split(".")
    if parts[:2] != ["transformers", "models"] or len(parts) != 4 or parts[3] != f"modeling_{parts[2]}":
        return None
    return parts[2] if parts[2] in FAMILIES else None


def activation_of(function):
    """"swiglu", "geglu" or None."""
    name = type(function).__name__
    if name in ("SiLU", "SiLUActivation"):
        return "swiglu"
    if name in ("GELUTanh", "PytorchGELUTanh") or isinstance(function, torch.nn.GELU) and function.approximate == "tanh":
        return "geglu"
    return None
