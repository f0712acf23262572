"""Replaces the forward functions of a model's modules, and undoes it."""

import functools
import inspect
import typing
import warnings
from dataclasses import dataclass, field

import torch
from torch import nn

from ..errors import Error
from ..torch import functional as F
from ..torch.config import config
from ..torch.dispatch import is_compiling
from . import checkpointing, rotation
from .families import FAMILIES, activation_of, definer_of, family_of, family_of_class, head_of
from .memory import GIB, head_limit, piece_rows
from .roles import MARK, ROLES, give, original_class, role_of, take_back, wrapper_of


class NotPatched(Error):
    """Raised with strict=True if a module would be left unpatched."""


@dataclass
class Report:
    """`patched`: number of patched modules by kind; `left`: (name, reason) of unpatched modules."""

    patched: dict = field(default_factory=dict)
    left: list = field(default_factory=list)

    def add(self, kind):
        self.patched[kind] = self.patched.get(kind, 0) + 1

    def __str__(self):
        lines = [f"{count} x {kind}" for kind, count in self.patched.items()]
        return ("\n".join(lines + [f"left alone: {name}: {why}" for name, why in self.left])
                or "nothing to patch")


# ---- Forward functions ---------------------------------------------------------------------------

def norm_forward(family):
    def forward(self, hidden_states):
        x = hidden_states
        swapped = x.dim() == 4 and not x.is_contiguous()  # a view in which heads precede positions
        if swapped:
            x = x.transpose(1, 2)
        elif x.stride(-1) != 1:  # for example, features of pooled images
            x = x.contiguous()
        eps = self.variance_epsilon if hasattr(self, "variance_epsilon") else self.eps
        y = F.rms_norm(x, self.weight, eps, offset=family.offset, casting=family.casting)
        return y.transpose(1, 2) if swapped else y

    return forward


def gated_forward(before):
    """Returns the forward of a gated MLP. Backward overwrites gate and up, which nothing else
    reads.

    `before`: the MLP's own forward, used for an activation that has no kernel."""
    @functools.wraps(before)
    def forward(self, x):
        activation = activation_of(_activation_function(self))
        if activation is None:
            return before(self, x)
        gate = getattr(F, activation)
        if "gate_up_proj" in self._modules:
            return self.down_proj(gate(self.gate_up_proj(x), in_place=True))
        return self.down_proj(gate(self.gate_proj(x), self.up_proj(x), in_place=True))

    return forward


def _activation_function(mlp):
    return getattr(mlp, "act_fn", None) or getattr(mlp, "activation_fn", None)


def _head_forward(self, input, loss_request=None):
    """Applies the linear layer. With a `loss_request`, returns the loss of its result instead."""
    if loss_request is None:
        return nn.functional.linear(input, self.weight, self.bias)
    labels = loss_request["labels"].to(input.device)
    return F.fused_linear_cross_entropy(input, self.weight, labels, self.bias,
                                        **{k: v for k, v in loss_request.items() if k != "labels"})


def _shifted(labels, ignore_index):
    """Returns the labels shifted by one position: the label of a position is the next token."""
    return nn.functional.pad(labels, (0, 1), value=ignore_index)[..., 1:].contiguous()


def _head_limit(model, rows):
    """Returns a workspace limit if the library's own choice might raise a step's peak memory, else
    None.

    Also returns None if the peak is unknown."""
    heads, settings = linear_layers(model.lm_head), model.config.get_text_config()
    if heads is None or config.max_workspace_bytes is not None or not getattr(
            model.model, "gradient_checkpointing", False):
        return None
    head = heads[0].weight
    hidden, classes, element = settings.hidden_size, head.shape[0], head.element_size()
    if rows * classes * element <= GIB:
        return None
    parameters = [parameter for parameter in model.parameters()
                  if parameter.requires_grad and parameter.grad is None]
    if any(type(parameter) is not nn.Parameter for parameter in parameters):  # sharded parameters
        return None
    other = sum(parameter.numel() * parameter.element_size() for parameter in parameters
                if parameter is not head)
    piece = piece_rows(settings.intermediate_size, element, checkpointing.PIECE_BYTES)
    return head_limit(rows, settings.num_hidden_layers, hidden, settings.intermediate_size, element,
                      piece, classes, other)


def _loss_request(model, head, given, max_workspace_bytes):
    if max_workspace_bytes is None:
        max_workspace_bytes = _head_limit(model, given["labels"].numel())
    ignore_index = given.get("ignore_index", -100)
    shifted = given.get("shift_labels")
    return {"labels": _shifted(given["labels"], ignore_index) if shifted is None else shifted,
            "ignore_index": ignore_index,
            "softcap": getattr(model.config.get_text_config(), "final_logit_softcapping", None)
                       if head.capped else None,
            "num_items": given.get("num_items_in_batch"),
            "max_workspace_bytes": max_workspace_bytes}


def _output_class(kind):
    """Returns the return type that the model's forward declares."""
    from transformers.modeling_outputs import CausalLMOutputWithPast
    returned = inspect.signature(kind.forward).return_annotation
    fields = [(each, getattr(each, "__dataclass_fields__", ()))
              for each in typing.get_args(returned) or (returned,)]
    return next((each for each, names in fields if "loss" in names and "logits" in names),
                CausalLMOutputWithPast)


def _fused_forward(model, head, output_class, given, max_workspace_bytes):
    """Runs the model's forward with lm_head and loss fused, without storing the logits."""
    request = _loss_request(model, head, given, max_workspace_bytes)
    dropped = ("logits_to_keep", "return_dict") if head.takes_labels else (
        "labels", "logits_to_keep", "return_dict")
    outputs = model.model(**{name: value for name, value in given.items() if name not in dropped},
                          return_dict=True)
    hidden, layer = outputs.last_hidden_state, model.lm_head
    loss = _head_forward(layer, hidden, request) if type(layer) is nn.Linear else layer(
        hidden, loss_request=request)
    kept = {name: getattr(outputs, name, None) for name in output_class.__dataclass_fields__
            if name not in ("loss", "logits")}
    output = output_class(loss=loss, logits=None, **kept)
    wanted = given.get("return_dict")
    return output if wanted or wanted is None and model.config.return_dict else output.to_tuple()


def linear_layers(head):
    """Returns the plain linear layers of a head, or None if the head contains anything else."""
    if original_class(head) is nn.Linear:
        return [head]
    # peft keeps a trained copy of the module next to the original
    if type(head).__name__ == "ModulesToSaveWrapper":
        inside = [head.original_module, *head.modules_to_save.values()]
        return inside if all(original_class(each) is nn.Linear for each in inside) else None
    return None


def _gives_loss(head):
    """Returns true if the head can compute its loss now: it is patched, or it replaced the patched
    head and is a plain linear layer."""
    layers = linear_layers(head)
    if layers is None:
        return False
    if all(role_of(each) == "head" for each in layers):
        return True
    return (type(head) is nn.Linear and type(head.weight) is nn.Parameter
            and checkpointing.untouched(head))


def _is_causal_loss(function):
    """Returns true for the causal-model loss of transformers and that of this library."""
    from transformers.loss.loss_utils import ForCausalLMLoss
    return function is ForCausalLMLoss or function is _loss


def _makes_loss(model, given):
    """Returns true if this call is a training step whose loss the head computes."""
    kept = given.get("logits_to_keep", 0)
    if not model.training or given.get("labels") is None or not isinstance(kept, int) or kept != 0:
        return False
    if not _is_causal_loss(model.loss_function):
        return False
    if _gives_loss(model.lm_head):
        return True
    if not is_compiling() and not getattr(model, "_ligerdsl_warned", False):
        model._ligerdsl_warned = True
        warnings.warn(
            f"ligerdsl: lm_head was replaced after the patch by {_describe_class(model.lm_head)}; "
            "the new head computes its logits, and transformers computes the loss. To use the "
            "library's cross_entropy, call ligerdsl.unpatch and then ligerdsl.patch",
            stacklevel=4)
    return False


def _keywords(kind):
    """Returns the forward's positional names, and the keywords that a fused head understands.

    These are the keywords of the model's own forward, of attention and of the loss. A call with any
    other keyword, such as those of TRL's heads, runs the model's own forward."""
    from transformers.utils.generic import TransformersKwargs
    parameters = list(inspect.signature(kind.forward).parameters.values())[1:]
    names = [each.name for each in parameters if each.kind is not inspect.Parameter.VAR_KEYWORD]
    loss = ("num_items_in_batch", "shift_labels", "ignore_index", "return_dict", "past_key_values")
    return names, frozenset([*names, *TransformersKwargs.__annotations__, *loss])


def _model_role(kind):
    names, known = _keywords(kind)
    head, output_class = head_of(kind), _output_class(kind)

    @functools.wraps(kind.forward)
    def forward(self, *args, **kwargs):
        # a wrapper may still call this function after unpatch
        if getattr(self, MARK, None) is not None and all([name in known for name in kwargs]):
            given = {**dict(zip(names, args)), **kwargs}
            if _makes_loss(self, given):
                return _fused_forward(self, head, output_class, given, self._ligerdsl_limit)
        return kind.forward(self, *args, **kwargs)

    return {"forward": forward}


def _loss(logits, labels, vocab_size=None, num_items_in_batch=None, ignore_index=-100,
          shift_labels=None, **_):
    """Computes transformers' loss of a causal model with cross_entropy, from existing logits."""
    labels = _shifted(labels, ignore_index) if shift_labels is None else shift_labels
    labels = labels.to(logits.device)
    if num_items_in_batch is None:
        return F.cross_entropy(logits, labels, ignore_index=ignore_index)
    total = F.cross_entropy(logits, labels, ignore_index=ignore_index, reduction="sum")
    return total / (num_items_in_batch.to(total.device)
                    if isinstance(num_items_in_batch, torch.Tensor) else num_items_in_batch)


ROLES.update({"norm": lambda kind: {"forward": norm_forward(FAMILIES[family_of_class(kind)])},
              "mlp": lambda kind: {"forward": gated_forward(kind.forward)},
              "head": lambda kind: {"forward": _head_forward},
              "model": _model_role})


# ---- Patching ------------------------------------------------------------------------------------

_ROOT = "_ligerdsl_root"  # attribute of the module that was passed to patch
_warned = set()           # names of classes for which a warning was printed


def _describe_class(module):
    kind = original_class(module)
    name = f"{kind.__module__}.{kind.__qualname__}"
    return f"{name}, an adapter" if name.startswith("peft.") else name


def _describe_wrapper(module):
    """Names a module's replaced forward by its code, because functools.wraps copies the wrapped
    function's name."""
    wrapper = wrapper_of(module)
    function = getattr(wrapper, "__func__", wrapper)
    code = getattr(function, "__code__", None)
    name = (type(wrapper).__name__ if code is None
            else f"{function.__globals__['__name__']}.{code.co_name}")
    return f"its forward was replaced by {name}; patch the model before that"


def _patch_attention(family, module):
    give(module, "attention")
    rotation.use(family, module)


def _patch_module(name, module, options, report):
    """Patches the module if it is a norm, an MLP or an attention module of a known family."""
    family = family_of(module)
    if family is None or role_of(module) is not None:
        return
    kind = definer_of(type(module)).__name__
    if kind.endswith("Attention") and options["rope"]:
        _patch_attention(family, module)
    role = ("norm" if kind.endswith("RMSNorm") and options["rms_norm"] else "mlp"
            if kind.endswith("MLP") and options["mlp"] else None)
    if role is None:
        return
    counted = "RMSNorm" if role == "norm" else activation_of(_activation_function(module))
    if counted is None:
        report.left.append((name,
                            f"its activation is {type(_activation_function(module)).__name__}, not "
                            "SiLU or GELU's tanh form"))
    elif wrapper_of(module) is not None:
        report.left.append((name, _describe_wrapper(module)))
    else:
        give(module, role)
        report.add(counted)


def _patch_layers(model, options, report):
    """Patches the decoder layers that layer.py implements; they use layer.py when they are
    recomputed."""
    layers = [module for module in model.modules()
              if family_of(module) and definer_of(type(module)).__name__.endswith("DecoderLayer")]
    layers = [layer for layer in layers if checkpointing.is_plain_layer(layer, family_of(layer))]
    if not layers:
        return
    head = getattr(model, "get_output_embeddings", lambda: None)()
    weight = getattr(head, "weight", None)
    plan = checkpointing.Plan(len(layers), options["keep_attention"], options["mlp_piece_bytes"],
                              0 if weight is None else weight.numel() * weight.element_size(),
                              options["join_weights"])
    for layer in layers:
        checkpointing.take(layer, plan)
        report.add("layer, if it is recomputed")


def has_head(module):
    """Returns true for transformers' models that compute token logits."""
    from transformers import PreTrainedModel
    return isinstance(module, PreTrainedModel) and module.get_output_embeddings() is not None


def _reason_to_keep_logits(name, model):
    """Returns (module name, reason) if the head must keep its logits, else None."""
    if wrapper_of(model) is not None:
        return name or "model", _describe_wrapper(model)
    head_name = f"{name}.lm_head".lstrip(".")
    if head_of(type(model)) is None:
        return (head_name,
                f"{_describe_class(model)} has its own forward, which may need the logits")
    layers = linear_layers(model.lm_head)
    if layers is None:
        return head_name, f"it is a {_describe_class(model.lm_head)}"
    wrapped = next((each for each in layers if wrapper_of(each) is not None), None)
    return None if wrapped is None else (head_name, _describe_wrapper(wrapped))


def patch_loss(name, model, loss, max_workspace_bytes, report):
    """Patches lm_head and loss of a model for which has_head is true."""
    if not _is_causal_loss(model.loss_function):
        report.left.append((name or "model", "its loss is not that of transformers' causal models"))
        return
    if model.loss_function is _loss:
        if loss == "flce":
            report.left.append((name or "model",
                                "apply_to has set its loss_function to cross_entropy already; the "
                                "head keeps its logits"))
        return
    reason = _reason_to_keep_logits(name, model) if loss == "flce" else None
    if reason is not None:
        where, why = reason
        report.left.append((
            where, f"{why}; the head keeps its logits, and the model's loss_function is "
                   "cross_entropy"))
    if loss == "flce" and reason is None:
        for head in linear_layers(model.lm_head):
            give(head, "head")
        model._ligerdsl_limit = max_workspace_bytes
        give(model, "model")
        report.add("fused_linear_cross_entropy")
    else:
        model.loss_function = _loss
        report.add("cross_entropy")


def _report_unknown(model, report):
    """Reports a model of no known family. Warns once per class, and names Liger-Kernel's
    patches."""
    kind = type(model).__name__
    report.left.append((kind, f"its family is none of {', '.join(FAMILIES)}"))
    if kind not in _warned:
        _warned.add(kind)
        warnings.warn(f"ligerdsl.patch: {kind} is left alone: its family is none of "
                      f"{', '.join(FAMILIES)}. Liger-Kernel may have a patch for it, which runs on "
                      "this library's kernels: set LIGER_KERNEL_IMPL=ligerdsl before Python "
                      "starts and call liger_kernel.transformers.apply_liger_kernel_to_<family>()",
                      stacklevel=3)


def _check_options(model, loss, mlp_piece_bytes, keep_attention, join_weights):
    if not isinstance(model, torch.nn.Module):
        raise TypeError(f"patch: expected a model, got {model!r}; to patch classes, call "
                        "apply_to_llama() or the function of another family")
    if keep_attention != "auto" and (not isinstance(keep_attention, int) or keep_attention < 0):
        raise ValueError("patch: keep_attention: expected 'auto' or a number of layers, got "
                         f"{keep_attention!r}")
    if join_weights not in ("auto", True, False):
        raise ValueError("patch: join_weights: expected 'auto', True or False, got "
                         f"{join_weights!r}")
    if mlp_piece_bytes < 0:
        raise ValueError("patch: mlp_piece_bytes: expected 0 or a number of bytes, got "
                         f"{mlp_piece_bytes}")
    if loss not in ("flce", "ce", None):
        raise ValueError(f"patch: loss: expected flce, ce or None, got {loss!r}")
    if _ROOT in vars(model):
        raise ValueError("patch: the model is patched already; call unpatch first")


def patch(model, *, rms_norm=True, rope=True, mlp=True, loss="flce", max_workspace_bytes=None,
          strict=False, layers=True, mlp_piece_bytes=checkpointing.PIECE_BYTES,
          keep_attention="auto", join_weights="auto"):
    """Replaces the forward functions of a model in FAMILIES by the library's kernels.

    Works under peft's wrappers. Returns a Report. In training, with labels, the output has a loss
    and no logits. The rotary embedding is a function of transformers' module, so it changes for
    every model of that family in the process.

    * loss: "flce" fuses lm_head and loss; "ce" keeps the logits; None changes neither.
    * max_workspace_bytes: limit for the fused head. None: the library's choice, or less if that
      choice would raise the peak memory of a step.
    * strict: raise NotPatched if a module is left unpatched.
    * layers: with gradient checkpointing, each decoder layer of Llama and Mistral runs as one
      autograd node.
    * mlp_piece_bytes: memory for the MLP's backward in such a layer, not counting gate and up. Rows
      that exceed it are processed in pieces. 0: no pieces.
    * keep_attention: number of last layers that keep the output of attention, so that its forward
      runs once. "auto": from 4,096 positions on, the number that fits in the memory saved by
      pieces.
    * join_weights: move the weights of gate and up, and those of q, k and v, into contiguous
      memory, now or in the first step. Then one matmul reads all of them, and the gradients of q, k
      and v share a storage. The weights remain separate parameters, but references to their old
      memory (a captured graph, p.data) become stale. "auto": for 16-bit weights on Hopper."""
    _check_options(model, loss, mlp_piece_bytes, keep_attention, join_weights)
    report = Report()
    families = {family_of(module) for module in model.modules()} - {None}
    if not families:
        _report_unknown(model, report)
    if strict and not families:
        raise NotPatched(str(report))
    for name, module in list(model.named_modules()):
        _patch_module(name, module, {"rms_norm": rms_norm, "mlp": mlp, "rope": rope}, report)
        if families and loss and role_of(module) is None and has_head(module):
            patch_loss(name, module, loss, max_workspace_bytes, report)
    for _ in {family_of(module) for module in model.modules() if role_of(module) == "attention"}:
        report.add("rope")
    if layers and rms_norm and rope and mlp:
        _patch_layers(model, {"mlp_piece_bytes": mlp_piece_bytes, "keep_attention": keep_attention,
                               "join_weights": join_weights}, report)
    setattr(model, _ROOT, True)
    if strict and report.left:
        unpatch(model)
        raise NotPatched(str(report))
    return report


def unpatch(model):
    """Undoes patch."""
    for module in model.modules():
        own, role = vars(module), role_of(module)
        own.pop(_ROOT, None)
        if own.get("_loss_function") is _loss:
            del own["_loss_function"]
        if role == "attention":
            rotation.release(family_of(module), module)
        if role == "layer":
            module._ligerdsl_joined.part()
        take_back(module)
