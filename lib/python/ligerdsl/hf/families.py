"""Properties of the model families in transformers 5."""

import inspect
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Family:
    casting: str = "llama"  # where the norm rounds; see rms_norm
    offset: float = 0.0     # number that is added to the norm's weight


GEMMA = Family("gemma", 1.0)
# Keys are the names of folders in transformers.models.
FAMILIES = {"llama": Family(), "mistral": Family(), "qwen2": Family(), "qwen3": Family(),
            "phi3": Family(), "gemma": GEMMA, "gemma2": GEMMA, "gemma3": GEMMA}


@dataclass(frozen=True)
class Head:
    """Steps of a model's forward between the base model and the loss."""

    capped: bool = False        # the model applies the configuration's final_logit_softcapping
    takes_labels: bool = False  # the base model also receives the labels


# Vision-language models, by folder. Their forward calls the base model, lm_head and loss_function.
VISION_LANGUAGE = {"gemma3": Head(takes_labels=True), "internvl": Head(), "llava": Head(),
                   "paligemma": Head(capped=True)}


def definer_of(kind):
    """Returns the class that defines the forward of `kind`, ignoring subclasses from roles.py."""
    return next(each for each in kind.__mro__
                if "forward" in vars(each) and "_ligerdsl_made" not in vars(each))


def _folder_of(kind):
    """Returns the folder in transformers.models that defines the forward of `kind`, or None."""
    parts = definer_of(kind).__module__.split(".")
    return (parts[2]
            if parts[:2] == ["transformers", "models"] and parts[3:] == [f"modeling_{parts[2]}"]
            else None)


def family_of_class(kind):
    """Returns the family that defines the forward of `kind`, or None. A user's subclass with the
    inherited forward belongs to the family."""
    folder = _folder_of(kind)
    return folder if folder in FAMILIES else None


def head_of(kind):
    """Returns the Head of a model that can run without logits, or None. The model's forward must
    call loss_function, which this library replaces."""
    definer = definer_of(kind)
    name, code = definer.__name__, getattr(inspect.unwrap(definer.forward), "__code__", None)
    if code is None or "loss_function" not in code.co_names:
        return None
    if name.endswith("ForCausalLM") and family_of_class(kind):
        return Head(capped=True)
    return (VISION_LANGUAGE.get(_folder_of(kind)) if name.endswith("ForConditionalGeneration")
            else None)


def family_of(module):
    return family_of_class(type(module))


def activation_of(function):
    """Returns "swiglu", "geglu" or None."""
    name = type(function).__name__
    if name in ("SiLU", "SiLUActivation"):
        return "swiglu"
    if (name in ("GELUTanh", "PytorchGELUTanh")
        or isinstance(function, torch.nn.GELU) and function.approximate == "tanh"):
        return "geglu"
    return None
