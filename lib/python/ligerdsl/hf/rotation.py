"""Replaces transformers' function that rotates queries and keys.

Attention looks the function up in its family's Python module, so the replacement affects every
model of the family in the process. It lasts while it has a user: a patched attention module, or
apply_to.
"""

import sys
import weakref
from dataclasses import dataclass, field

from ..torch import functional as F
from .families import family_of_class
from .roles import MARK, ROLES


@dataclass
class Rotation:
    original: object
    users: dict = field(default_factory=dict)  # id of the user -> weak reference


_rotations = {}  # key: family


def rotate(q, k, cos, sin, unsqueeze_dim=1):
    return F.rope(q, k, cos, sin, heads_dim=unsqueeze_dim, rotary_dim=cos.shape[-1])


def _module_of(family):
    return sys.modules[f"transformers.models.{family}.modeling_{family}"]


def use(family, user):
    """Replaces the function until `user` calls release or is deleted."""
    if family not in _rotations:
        _rotations[family] = Rotation(_module_of(family).apply_rotary_pos_emb)
        _module_of(family).apply_rotary_pos_emb = rotate
    key = id(user)
    _rotations[family].users[key] = weakref.ref(user, lambda _: _drop(family, key))


def release(family, user):
    _drop(family, id(user))


def _drop(family, key):
    rotation = _rotations.get(family)
    if rotation is None or rotation.users.pop(key, None) is None or rotation.users:
        return
    del _rotations[family]
    _module_of(family).apply_rotary_pos_emb = rotation.original


def _attention_role(kind):
    """Keeps the class's forward. A copy of the module also registers as a user of the rotation."""
    def __setstate__(self, state):
        kind.__setstate__(self, state)
        if MARK in state:
            use(family_of_class(kind), self)

    return {"__setstate__": __setstate__}


ROLES["attention"] = _attention_role
