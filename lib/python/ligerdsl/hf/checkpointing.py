"""Chooses the decoder layers that run as one autograd node (layer.py) under gradient checkpointing.

Such a layer has two norms, attention with four plain linear layers, and a gated MLP with three. A
call uses torch's checkpointing instead if it has a mask, autocast, torch.compile, hooks inside the
layer, adapters or mixed dtypes."""

import dataclasses
import functools
from types import MethodType

import torch
from torch import nn

from ..torch.config import config
from ..torch.dispatch import call, is_compiling, is_direct
from .contiguous_weights import Joined
from .families import FAMILIES, Family, activation_of
from .layer import LayerFunction, Shape
from .memory import kept_layers, piece_rows
from .roles import FORWARDS, ROLES, give, is_bare, patched_class, wrapper_of

PARTS = {"self_attn": ("q_proj", "k_proj", "v_proj", "o_proj"),
         "mlp": ("gate_proj", "up_proj", "down_proj")}
NORMS = ("input_layernorm", "post_attention_layernorm")
# arguments that transformers removes before it recomputes a layer
CACHE = ("use_cache", "past_key_values", "cache")
PIECE_BYTES = 512 << 20  # bytes of memory for pieces of gate * up and of its gradient
LONG = 4096  # number of positions from which attention takes a large part of a layer's time


@dataclasses.dataclass
class Plan:
    """Settings and state for all layers of a model.

    keep: number of last layers that keep attention's output; "auto": set by free memory.
    join: whether weights that multiply the same matrix become contiguous; "auto": if faster."""

    layers: int
    keep: object
    piece_bytes: int
    head_bytes: int
    join: object
    kept: int = 0  # number of layers that keep attention's output in the current step


def parts_of(layer):
    """Returns the linear layers, or None if the layer contains anything else."""
    found = []
    for name, members in PARTS.items():
        inside = layer._modules.get(name)
        if inside is None:
            return None
        inside = inside._modules
        for member in members:
            found.append(inside.get(member))
        if any(name not in members and name != "act_fn" for name in inside):
            return None
    if any(type(part) is not nn.Linear or part.bias is not None for part in found):
        return None
    return found


def is_plain_layer(layer, family):
    """Returns true if layer.py implements this layer's formula."""
    return (FAMILIES[family] == Family() and set(layer._modules) == {*PARTS, *NORMS}
            and parts_of(layer) is not None and activation_of(layer.mlp.act_fn) == "swiglu"
            and hasattr(layer, "gradient_checkpointing") and is_bare(layer))


def untouched(module):
    """Returns true if nothing intercepts a call of the module: it has no torch hooks and no forward
    of its own (accelerate's hooks set one)."""
    return not (module._forward_hooks or module._forward_pre_hooks or module._backward_hooks
                or module._backward_pre_hooks or "forward" in vars(module))


def _is_plain_call(layer, kwargs):
    """Returns true for a training step with purely causal attention and no hooks inside the
    layer."""
    if (not torch.is_grad_enabled() or is_compiling() or layer._compiled_call_impl is not None
        or config.main_grad):
        return False
    for name, value in kwargs.items():
        if value is not None and value is not False and name not in ("position_embeddings",
                                                                     "position_ids", *CACHE):
            return False
    attention = layer._modules["self_attn"]
    if attention.config._attn_implementation != "sdpa" or attention.attention_dropout:
        return False
    parts = parts_of(layer)
    if parts is None or nn.modules.module._has_any_global_hook() or wrapper_of(layer) is not None:
        return False
    inner = (attention, layer._modules["mlp"], *(layer._modules[name] for name in NORMS))
    return all(map(untouched, (*inner, *parts)))


def _shape_of(layer, x):
    """Returns the layer's Shape, with `keep` set from the plan of this step."""
    plan, attention, mlp = layer._ligerdsl_plan, layer.self_attn, layer.mlp
    piece = piece_rows(mlp.down_proj.in_features, x.element_size(), plan.piece_bytes)
    shape = _shape(attention.head_dim, attention.scaling,
                   tuple(layer._modules[name].variance_epsilon for name in NORMS), piece)
    wanted = plan.kept
    if plan.keep == "auto":
        wanted = plan.kept = _kept(layer, plan, x, piece) if attention.layer_idx == 0 else plan.kept
    else:
        wanted = plan.keep
    return shape if attention.layer_idx < plan.layers - wanted else dataclasses.replace(shape,
                                                                                        keep=True)


_shape = functools.lru_cache(Shape)


def _kept(layer, plan, x, piece):
    if x.device.type != "cuda" or x.shape[1] < LONG:
        return 0
    rows, element = x.shape[0] * x.shape[1], x.element_size()
    fraction = getattr(torch.cuda, "get_per_process_memory_fraction", lambda device: 1.0)(x.device)
    unused, total = torch.cuda.mem_get_info(x.device)
    free = (min(fraction * total, unused + torch.cuda.memory_reserved(x.device))
            - torch.cuda.memory_allocated(x.device))
    attention, mlp = layer.self_attn, layer.mlp
    free -= (plan.layers - 1) * rows * x.shape[2] * element  # subtracts the saved inputs of the
                                                             # other layers
    row = (attention.o_proj.in_features * element
           + 4 * attention.o_proj.in_features // attention.head_dim)
    return kept_layers(rows, plan.layers, x.shape[2], mlp.down_proj.in_features, element, row,
                       piece, free, plan.head_bytes)


def _forward(self, hidden_states, *args, ligerdsl_layer=False, **kwargs):
    """Runs the layer's forward, as one node if __call__ requests it."""
    if not ligerdsl_layer:
        return type(self).forward(self, hidden_states, *args, **kwargs)
    kwargs.update((name, None) for name in CACHE if name in kwargs)
    weights = [part.weight for part in parts_of(self)]
    first, second = (self._modules[name].weight for name in NORMS)
    cos, sin = kwargs["position_embeddings"]
    x = hidden_states.contiguous()
    if (not is_direct(x, cos, sin, first, second, *weights)
        or torch.is_autocast_enabled(x.device.type)
        or any(weight.dtype != x.dtype for weight in (first, second, *weights))):
        return self._gradient_checkpointing_func(
            functools.partial(patched_class(self).forward, self, **kwargs), hidden_states)
    self._ligerdsl_joined.join(weights)  # needed if the model moved to its device after the patch
    return call(LayerFunction, _shape_of(self, x), self._ligerdsl_joined, x, cos, sin, first,
                *weights[:4], second, *weights[4:])


def _warn_without_cache(name):
    from transformers.modeling_layers import logger
    logger.warning_once(f"Caching is incompatible with gradient checkpointing in {name}: there is "
                        "no cache.")


def _layer_role(kind):
    """Returns the attributes of a layer's subclass.

    `forward` is an attribute of the instance, because transformers wraps the forward of every
    subclass of a layer with checkpointing."""
    def __call__(self, *args, **kwargs):
        if (self.gradient_checkpointing and self.training and len(args) == 1
            and "_ligerdsl_plan" in vars(self) and _is_plain_call(self, kwargs)):
            if any(kwargs.get(name) for name in CACHE):
                _warn_without_cache(type(self).__name__)
            return nn.Module.__call__(self, *args, ligerdsl_layer=True, **kwargs)
        return kind.__call__(self, *args, **kwargs)

    def __getstate__(self):
        state = kind.__getstate__(self)
        if getattr(state.get("forward"), "__func__", None) is _forward:
            del state["forward"]
        return state

    def __setstate__(self, state):
        kind.__setstate__(self, state)
        if "_ligerdsl_plan" in state and "forward" not in state:
            self.forward = MethodType(_forward, self)

    return {"__call__": __call__, "__getstate__": __getstate__, "__setstate__": __setstate__}


ROLES["layer"] = _layer_role
FORWARDS.add(_forward)


def take(layer, plan):
    layer._ligerdsl_plan = plan
    layer._ligerdsl_joined = Joined(plan.join)
    layer._ligerdsl_joined.join([part.weight for part in parts_of(layer)])
    give(layer, "layer")
    layer.forward = MethodType(_forward, layer)
