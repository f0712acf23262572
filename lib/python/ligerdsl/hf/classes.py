"""Replaces the forward functions of a family's classes for all models created later; undoes it."""

import functools
import importlib

from . import rotation
from .families import FAMILIES
from .patch import NotPatched, Report, gated_forward, norm_forward, patch_loss


class _Applied(list):
    """List of (class, attribute, previous value) for each change. It counts as a user of the
    rotation (rotation.py)."""


_applied = {}  # key: family


def _init_with_loss(kind, loss, max_workspace_bytes, strict):
    before = kind.__init__

    @functools.wraps(before)
    def init(self, *args, **kwargs):
        before(self, *args, **kwargs)
        report = Report()
        patch_loss("", self, loss, max_workspace_bytes, report)
        if strict and report.left:
            raise NotPatched(str(report))

    return init


def apply_to(family, *, rms_norm=True, rope=True, mlp=True, loss="flce", max_workspace_bytes=None,
             strict=False):
    """Replaces the forward functions of a family's classes by the library's kernels, until unapply.

    Models created later use the kernels, and so do norms and MLPs of existing models. The arguments
    are those of patch. An MLP with another activation keeps transformers' own forward. A head that
    is not a plain linear layer keeps its logits, or raises with strict=True. Returns a Report that
    counts classes."""
    if family not in FAMILIES:
        raise ValueError(f"apply_to: expected one of {', '.join(FAMILIES)}, got {family!r}")
    if loss not in ("flce", "ce", None):
        raise ValueError(f"apply_to: loss: expected flce, ce or None, got {loss!r}")
    if family in _applied:
        raise ValueError(f"apply_to: {family} has the library's kernels already; call "
                         f"unapply({family!r}) first")
    module = importlib.import_module(f"transformers.models.{family}.modeling_{family}")
    report, changed = Report(), _Applied()

    def change(kind, attribute, ours, counted):
        changed.append((kind, attribute, vars(kind).get(attribute)))
        setattr(kind, attribute, ours)
        report.add(counted)

    for name, kind in vars(module).items():
        if not isinstance(kind, type) or kind.__module__ != module.__name__:
            continue
        if rms_norm and name.endswith("RMSNorm"):
            change(kind, "forward", norm_forward(FAMILIES[family]), "RMSNorm")
        if mlp and name.endswith("MLP"):
            change(kind, "forward", gated_forward(kind.forward), "MLP")
        if loss and name.endswith("ForCausalLM"):
            change(kind, "__init__", _init_with_loss(kind, loss, max_workspace_bytes, strict),
                   "fused_linear_cross_entropy" if loss == "flce" else "cross_entropy")
    if rope:
        rotation.use(family, changed)
        report.add("rope")
    _applied[family] = changed
    return report


def unapply(family):
    """Undoes apply_to. Models created after apply_to keep their loss until unpatch."""
    changed = _applied.pop(family, None)
    if changed is None:
        return
    for kind, attribute, before in reversed(changed):
        if before is None:
            delattr(kind, attribute)
        else:
            setattr(kind, attribute, before)
    rotation.release(family, changed)


def one_line(family):
    """Returns the function apply_to_<family>."""
    def apply(*, rms_norm=True, rope=True, mlp=True, loss="flce", max_workspace_bytes=None,
              strict=False):
        return apply_to(family, rms_norm=rms_norm, rope=rope, mlp=mlp, loss=loss,
                        max_workspace_bytes=max_workspace_bytes, strict=strict)

    apply.__name__ = apply.__qualname__ = f"apply_to_{family}"
    apply.__module__ = __package__
    apply.__doc__ = f"apply_to({family!r}, ...).\n\n{apply_to.__doc__}"
    return apply
