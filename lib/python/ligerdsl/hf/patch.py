"""Replaces the forward functions of a model's modules, and takes that back."""

import functools
import inspect
import sys
from dataclasses import dataclass, field
from types import MethodType

import torch
from torch import nn

from ..errors import Error
from ..torch import functional as F
from ..torch.config import config
from . import checkpointing
from .families import FAMILIES, activation_of, family_of
from .memory import GIB, head_limit, piece_rows


class NotPatched(Error):
    """What strict=True raises where a module would be left alone."""


@dataclass
class Report:
    """`patched`: how many modules of a kind; `left`: (name, why) of those that stay torch's."""

    patched: dict = field(default_factory=dict)
    left: list = field(default_factory=list)

    def add(self, kind):
        self.patched[kind] = self.patched.get(kind, 0) + 1

    def __str__(self):
        lines = [f"{count} x {kind}" for kind, count in self.patched.items()]
        return "\n".join(lines + [f"left alone: {name}: {why}" for name, why in self.left]) or "nothing to patch"


# ---- Forward functions ------------------------------------------------------------------------------------------------

def _norm_forward(family):
    def forward(self, hidden_states):
        x = hidden_states
        swapped = x.dim() == 4 and not x.is_contiguous()  # heads first, as a view of positions first
        if swapped:
            x = x.transpose(1, 2)
        eps = self.variance_epsilon if hasattr(self, "variance_epsilon") else self.eps
        y = F.rms_norm(x, self.weight, eps, offset=family.offset, casting=family.casting)
        return y.transpose(1, 2) if swapped else y

    return forward


def _mlp_forward(gate):
    """`gate`: swiglu or geglu, which overwrites what only it reads."""
    def forward(self, x):
        return self.down_proj(gate(self.gate_proj(x), self.up_proj(x), in_place=True))

    def fused_forward(self, hidden_states):
        return self.down_proj(gate(self.gate_up_proj(hidden_states), in_place=True))

    return forward, fused_forward


def _rotate(q, k, cos, sin, unsqueeze_dim=1):
    return F.rope(q, k, cos, sin, heads_dim=unsqueeze_dim, rotary_dim=cos.shape[-1])


def _head_forward(self, input, loss_request=None):
    """A linear layer, or with a request its loss."""
    if loss_request is None:
        return nn.functional.linear(input, self.weight, self.bias)
    labels = loss_request["labels"].to(input.device)
    return F.fused_linear_cross_entropy(input, self.weight, labels, self.bias, **{k: v for k, v in loss_request.items() if k != "labels"})


def _shifted(labels, ignore_index):
    """The label of each position is the next token."""
    return nn.functional.pad(labels, (0, 1), value=ignore_index)[..., 1:].contiguous()


def _head_limit(model, rows):
    """Where the library's own choice of workspace might be what a step's peak is made of; None: it is not, or that is not known."""
    heads, settings = _heads(model), model.config
    if heads is None or config.max_workspace_bytes is not None or not getattr(model.model, "gradient_checkpointing", False):
        return None
    head = heads[0].weight
    hidden, classes, element = settings.hidden_size, head.shape[0], head.element_size()
    if rows * classes * element <= GIB:
        return None
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad and parameter.grad is None]
    if any(type(parameter) is not nn.Parameter for parameter in parameters):  # in shards
        return None
    other = sum(parameter.numel() * parameter.element_size() for parameter in parameters if parameter is not head)
    piece = piece_rows(settings.intermediate_size, element, checkpointing.PIECE_BYTES)
    return head_limit(rows, settings.num_hidden_layers, hidden, settings.intermediate_size, element, piece, classes, other)


def _loss_request(model, given, max_workspace_bytes):
    if max_workspace_bytes is None:
        max_workspace_bytes = _head_limit(model, given["labels"].numel())
    ignore_index = given.get("ignore_index", -100)
    shifted = given.get("shift_labels")
    return {"labels": _shifted(given["labels"], ignore_index) if shifted is None else shifted, "ignore_index": ignore_index,
            "softcap": getattr(model.config, "final_logit_softcapping", None), "num_items": given.get("num_items_in_batch"),
            "max_workspace_bytes": max_workspace_bytes}


def _fused_forward(model, given, max_workspace_bytes):
    """The model's forward with the head and its loss in one; the logits do not exist."""
    from transformers.modeling_outputs import CausalLMOutputWithPast
    request = _loss_request(model, given, max_workspace_bytes)
    base = {name: value for name, value in given.items() if name not in ("labels", "logits_to_keep", "return_dict")}
    outputs = model.model(**base, return_dict=True)
    loss = model.lm_head(outputs.last_hidden_state, loss_request=request)
    kept = {name: getattr(outputs, name, None) for name in ("cache", "past_key_values", "hidden_states", "attentions")}
    known = CausalLMOutputWithPast.__dataclass_fields__
    output = CausalLMOutputWithPast(loss=loss, logits=None, **{name: value for name, value in kept.items() if name in known})
    wanted = given.get("return_dict")
    return output if wanted or wanted is None and model.config.return_dict else output.to_tuple()


def _model_forward(kind):
    """`kind`: the model's class, whose signature stays to be seen."""
    names = list(inspect.signature(kind.forward).parameters)[1:]

    @functools.wraps(kind.forward)
    def forward(self, *args, **kwargs):
        given = {**dict(zip(names, args)), **kwargs}
        kept = given.get("logits_to_keep", 0)
        if self.training and given.get("labels") is not None and isinstance(kept, int) and kept == 0:
            return _fused_forward(self, given, self._ligerdsl_limit)
        return _before(self)(*args, **kwargs)

    return forward


def _loss(logits, labels, vocab_size=None, num_items_in_batch=None, ignore_index=-100, shift_labels=None, **_):
    """transformers' loss of a causal model, from the logits as they are."""
    labels = _shifted(labels, ignore_index) if shift_labels is None else shift_labels
    labels = labels.to(logits.device)
    if num_items_in_batch is None:
        return F.cross_entropy(logits, labels, ignore_index=ignore_index)
    total = F.cross_entropy(logits, labels, ignore_index=ignore_index, reduction="sum")
    return total / (num_items_in_batch.to(total.device) if isinstance(num_items_in_batch, torch.Tensor) else num_items_in_batch)


# ---- Patching ---------------------------------------------------------------------------------------------------------

_MARK = "_ligerdsl_patched"
_rotations = {}  # by family: transformers' own function, and how many patched models need ours


def _replace(module, forward):
    """Bound to the module, so that a copy of it calls itself."""
    module._ligerdsl_before = vars(module).get("forward")
    module.forward = MethodType(forward, module)
    setattr(module, _MARK, True)


def _before(module):
    """The forward that was there."""
    before = module._ligerdsl_before
    return MethodType(type(module).forward, module) if before is None else before


def _module_of(family):
    return sys.modules[f"transformers.models.{family}.modeling_{family}"]


def _take_rotation(family):
    original, users = _rotations.get(family, (_module_of(family).apply_rotary_pos_emb, 0))
    _module_of(family).apply_rotary_pos_emb = _rotate
    _rotations[family] = original, users + 1


def _give_rotation_back(family):
    original, users = _rotations.pop(family, (None, 0))  # none where a copy of the model was unpatched before
    if users > 1:
        _rotations[family] = original, users - 1
    elif users == 1:
        _module_of(family).apply_rotary_pos_emb = original


def _is_causal(module):
    return family_of(module) and type(module).__name__.endswith("ForCausalLM")


def _patch_module(name, module, options, report):
    kind, family = type(module).__name__, family_of(module)
    if family is None or getattr(module, _MARK, False):
        return
    if kind.endswith("RMSNorm") and options["rms_norm"]:
        _replace(module, _norm_forward(FAMILIES[family]))
        report.add("RMSNorm")
    if kind.endswith("MLP") and options["mlp"]:
        function = getattr(module, "act_fn", None) or getattr(module, "activation_fn", None)
        activation = activation_of(function)
        if activation is None:
            report.left.append((name, f"its activation is {type(function).__name__}, not SiLU or GELU's tanh form"))
            return
        forward, fused_forward = _mlp_forward(getattr(F, activation))
        _replace(module, fused_forward if hasattr(module, "gate_up_proj") else forward)
        report.add(activation)


def _heads(model):
    """The linear layers that a head is made of, or None where it is more than that."""
    head = model.lm_head
    if type(head) is nn.Linear:
        return [head]
    if type(head).__name__ == "ModulesToSaveWrapper":  # peft's: a trained copy beside the original
        inside = [head.original_module, *head.modules_to_save.values()]
        return inside if all(type(each) is nn.Linear for each in inside) else None
    return None


def _patch_layers(model, options, report):
    """Layers that are recomputed, if they are that of layer.py."""
    layers = [module for module in model.modules() if type(module).__name__.endswith("DecoderLayer") and family_of(module)]
    layers = [layer for layer in layers if checkpointing.is_plain_layer(layer, family_of(layer))]
    if not layers:
        return
    head = getattr(model, "get_output_embeddings", lambda: None)()
    weight = getattr(head, "weight", None)
    plan = checkpointing.Plan(len(layers), options["keep_attention"], options["mlp_piece_bytes"],
                              0 if weight is None else weight.numel() * weight.element_size(), options["join_weights"])
    for layer in layers:
        checkpointing.take(layer, plan)
        report.add("layer, if it is recomputed")


def _patch_loss(name, model, loss, max_workspace_bytes, report):
    if getattr(model, "loss_type", None) not in (None, "ForCausalLM") or "_loss_function" in vars(model):
        report.left.append((name or "model", "its loss is not that of transformers' causal models"))
        return
    heads = _heads(model)
    if loss == "flce" and heads is None:
        report.left.append((f"{name}.lm_head".lstrip("."), f"a {type(model.lm_head).__name__} keeps its logits; the loss is cross_entropy"))
        loss = "ce"
    if loss == "flce":
        for head in heads:
            _replace(head, _head_forward)
        model._ligerdsl_limit = max_workspace_bytes
        _replace(model, _model_forward(type(model)))
        report.add("fused_linear_cross_entropy")
    else:
        model.loss_function = _loss
        report.add("cross_entropy")
    setattr(model, _MARK, True)


def patch(model, *, rms_norm=True, rope=True, mlp=True, loss="flce", max_workspace_bytes=None, strict=False, layers=True,
          mlp_piece_bytes=checkpointing.PIECE_BYTES, keep_attention="auto", join_weights="auto"):
    """Puts the library's kernels under a model of FAMILIES, peft's wrappers included, and says what it did. In training, with labels, the
    output has a loss and no logits; loss="ce" keeps them, loss=None leaves head and loss alone. The rotary embedding is a function of
    transformers' module, so it changes for every model of that family in the process. strict: raise where a module is left alone.

    max_workspace_bytes: of the fused head; None: the library's choice, or less where that would be a step's peak of memory.
    layers: with gradient checkpointing, layers of Llama and Mistral run as one node of autograd. mlp_piece_bytes: what their MLP's backward
    takes beside gate and up; more rows than fit go in pieces; 0: never. keep_attention: how many of the last layers keep attention's output,
    so that its forward runs once; "auto": as many as pieces of the MLP have made room for, from 4,096 positions on. join_weights: whether the
    weights of a layer's gate and up, and those of its q, k and v, move into one piece of memory, now or in the first step, so that one product
    has them all, and one the gradients of q, k and v, which share a storage; the weights stay parameters of their own, but what points to their old memory (a graph that was captured, p.data) does not; "auto": 16-bit weights on Hopper."""
    if not isinstance(model, torch.nn.Module):
        raise TypeError(f"patch: expected a model, got {model!r}; apply_to_llama() and its like take classes")
    if keep_attention != "auto" and (not isinstance(keep_attention, int) or keep_attention < 0):
        raise ValueError(f"patch: keep_attention: expected 'auto' or a number of layers, got {keep_attention!r}")
    if join_weights not in ("auto", True, False):
        raise ValueError(f"patch: join_weights: expected 'auto', True or False, got {join_weights!r}")
    if mlp_piece_bytes < 0:
        raise ValueError(f"patch: mlp_piece_bytes: expected 0 or a number of bytes, got {mlp_piece_bytes}")
    if loss not in ("flce", "ce", None):
        raise ValueError(f"patch: loss: expected flce, ce or None, got {loss!r}")
    report = Report()
    if getattr(model, "_ligerdsl_rotations", None) is not None:
        raise ValueError("patch: the model is patched already; call unpatch first")
    rotations = []
    families = {family_of(module) for module in model.modules()} - {None}
    if not families:
        report.left.append((type(model).__name__, f"its family is none of {', '.join(FAMILIES)}"))
    if strict and not families:
        raise NotPatched(str(report))
    for name, module in list(model.named_modules()):
        _patch_module(name, module, {"rms_norm": rms_norm, "mlp": mlp}, report)
        if loss and _is_causal(module) and not getattr(module, _MARK, False):
            _patch_loss(name, module, loss, max_workspace_bytes, report)
    if rope:
        for family in sorted(families):
            _take_rotation(family)
            rotations.append(family)
            report.add("rope")
    if layers and rms_norm and rope and mlp:
        _patch_layers(model, {"mlp_piece_bytes": mlp_piece_bytes, "keep_attention": keep_attention,
                               "join_weights": join_weights}, report)
    model._ligerdsl_rotations = rotations
    if strict and report.left:
        unpatch(model)
        raise NotPatched(str(report))
    return report


def unpatch(model):
    """Takes patch back."""
    for module in model.modules():
        checkpointing.give_back(module)
        if vars(module).pop(_MARK, False):
            own = vars(module)
            own.pop("_loss_function", None)
            own.pop("_ligerdsl_limit", None)
            if "_ligerdsl_before" in own:
                before = own.pop("_ligerdsl_before")
                own.pop("forward")
                if before is not None:
                    module.forward = before
    for family in vars(model).pop("_ligerdsl_rotations", None) or []:
        _give_rotation_back(family)
