"""Replaces the forward functions of a family's classes, for all models that are made afterwards, and takes that back."""

import functools
import importlib

from ..torch import functional as F
from .families import FAMILIES, activation_of
from .patch import NotPatched, Report, _give_rotation_back, _mlp_forward, _norm_forward, _patch_loss, _take_rotation

_applied = {}  # by family: (what was changed: (class, attribute, what was there), whether the rotary embedding was)


def _gated_forward(kind):
    """Of an MLP's class: which activation a module has is known when it runs."""
    before = kind.forward
    ours = {name: _mlp_forward(getattr(F, name)) for name in ("swiglu", "geglu")}

    @functools.wraps(before)
    def forward(self, x):
        activation = activation_of(getattr(self, "act_fn", None) or getattr(self, "activation_fn", None))
        if activation is None:
            return before(self, x)
        apart, fused = ours[activation]
        return (fused if hasattr(self, "gate_up_proj") else apart)(self, x)

    return forward


def _init_with_loss(kind, loss, max_workspace_bytes, strict):
    before = kind.__init__

    @functools.wraps(before)
    def init(self, *args, **kwargs):
        before(self, *args, **kwargs)
        report = Report()
        _patch_loss("", self, loss, max_workspace_bytes, report)
        if strict and report.left:
            raise NotPatched(str(report))

    return init


def apply_to(family, *, rms_norm=True, rope=True, mlp=True, loss="flce", max_workspace_bytes=None, strict=False):
    """Puts the library's kernels under the classes of a family of FAMILIES: every model that is made from now on has them, and norms and
    MLPs of models that are there already, too. The arguments are those of patch; an MLP with another activation stays transformers' own, a
    head that is no plain linear layer keeps its logits and with strict raises. Returns a Report that counts classes. Ended by unapply."""
    if family not in FAMILIES:
        raise ValueError(f"apply_to: expected one of {', '.join(FAMILIES)}, got {family!r}")
    if loss not in ("flce", "ce", None):
        raise ValueError(f"apply_to: loss: expected flce, ce or None, got {loss!r}")
    if family in _applied:
        raise ValueError(f"apply_to: {family} has the library's kernels already; call unapply({family!r}) first")
    module = importlib.import_module(f"transformers.models.{family}.modeling_{family}")
    report, changed = Report(), []

    def change(kind, attribute, ours, counted):
        changed.append((kind, attribute, vars(kind).get(attribute)))
        setattr(kind, attribute, ours)
        report.add(counted)

    for name, kind in vars(module).items():
        if not isinstance(kind, type) or kind.__module__ != module.__name__:
            continue
        if rms_norm and name.endswith("RMSNorm"):
            change(kind, "forward", _norm_forward(FAMILIES[family]), "RMSNorm")
        if mlp and name.endswith("MLP"):
            change(kind, "forward", _gated_forward(kind), "MLP")
        if loss and name.endswith("ForCausalLM"):
            change(kind, "__init__", _init_with_loss(kind, loss, max_workspace_bytes, strict),
                   "fused_linear_cross_entropy" if loss == "flce" else "cross_entropy")
    if rope:
        _take_rotation(family)
        report.add("rope")
    _applied[family] = changed, rope
    return report


def unapply(family):
    """Takes apply_to back. Models made in between keep their loss until unpatch."""
    changed, rope = _applied.pop(family, ((), False))
    for kind, attribute, before in reversed(changed):
        if before is None:
            delattr(kind, attribute)
        else:
            setattr(kind, attribute, before)
    if rope:
        _give_rotation_back(family)


def one_line(family):
    """apply_to of this family."""
    function = functools.partial(apply_to, family)
    functools.update_wrapper(function, apply_to)
    function.__name__ = function.__qualname__ = f"apply_to_{family}"
    return function
