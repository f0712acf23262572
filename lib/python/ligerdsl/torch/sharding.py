"""Sharding rules for DTensors: which arguments may be sharded, and which gradients become Partial.

The row of an operation names its rule (`sharding` in `kernels/*/*.op.py`).

Rows may be sharded along any of their leading dimensions. Parameters are whole on every rank, and
their gradients are Partial. torch redistributes other placements to one of these. These operators
have no rule, and torch raises for them:

* dropout, whose bits depend on the position of an element
* heads with a sharded vocabulary, and jsd of heads
* linear and matmul, whose operators write into a given result
* grouped matmul and attention of sequences, whose bounds count the rows of one rank"""

import dataclasses
import functools

import torch
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard
from torch.distributed.tensor.experimental import register_sharding

from .losses import REDUCTIONS
from .ops import SHARDING

_PARAMETERS = ("weight", "bias", "alpha", "class_weight", "sinks")
_EACH = ("none", "sum")  # reductions for which results of parts of the rows add up
_REDUCED = ("loss", "z_loss", "accuracy", "d_loss")


def _is_tensor(value):
    return hasattr(value, "ndim") and hasattr(value, "shape")


class _Call:
    """One call of an operator, with its arguments by name."""

    def __init__(self, schema, args, kwargs):
        self.schema = schema
        self.given = {argument.name: argument.default_value if argument.has_default_value()
                                     else None for argument in schema.arguments}
        self.given |= (
            {argument.name: value for argument, value in zip(schema.arguments, args)} | kwargs)
        self.tensors = {name: value for name, value in self.given.items() if _is_tensor(value)}

    def makes(self, name):
        """Returns true if this result is not an empty tensor."""
        if f"with_{name}" in self.given:
            return bool(self.given[f"with_{name}"])
        if f"without_{name}" in self.given:
            return not self.given[f"without_{name}"]
        if f"{name}_dtype" in self.given and name != "loss":
            return self.given[f"{name}_dtype"] is not None
        of = {"k_out": "k", "d_gate": "gate", "d_up": "up", "d_gate_up": "gate_up",
              "d_sinks": "sinks"}.get(name)
        return of is None or of in self.tensors

    def placed(self, place, result):
        """Returns (placements of results, placements of arguments); result(name) and place(name)
        give each one."""
        outs = [result(each.name) if self.makes(each.name) else Replicate()
                for each in self.schema.returns]
        positional = [argument for argument in self.schema.arguments if not argument.kwarg_only]
        return outs, [place(argument.name) if argument.name in self.tensors else None
                      for argument in positional]

    def whole(self):
        return self.placed(lambda name: Replicate(), lambda name: Replicate())

    def rows(self, dim, **special):
        """Returns placements sharded along `dim`, except for the names in `special`."""
        def place(name):
            return special.get(name, Replicate() if name in _PARAMETERS else Shard(dim))

        def result(name):
            return special.get(
                name,
                Partial() if name.startswith("d_") and name[2:] in _PARAMETERS else Shard(dim))

        return self.placed(place, result)


def _rows(call, first):
    return [call.rows(dim) for dim in range(call.tensors[first].ndim - 1)]


def _elements(call):
    tensor = next(iter(call.tensors.values()))
    return [call.rows(dim) for dim in range(tensor.ndim - ("gate_up" in call.tensors))]


def _groups(call):
    return [call.rows(0)]


def _softmax(call):
    return [call.rows(dim) for dim in range(call.tensors["y" if "y" in call.tensors else "x"].ndim
                                            - (2 if call.given["causal"] else 1))]


def _modulated(call):
    x, scale = call.tensors["x"], call.tensors["scale"]
    names = ("scale", "shift")
    if scale.shape[0] == 1:
        return [call.rows(dim, **{name: Replicate() for name in names},
                          **{f"d_{name}": Partial() for name in names})
                for dim in range(x.ndim - 1)]
    return [call.rows(0)] if scale.shape[0] == x.shape[0] else []


def _losses(call, first):
    """Sums over rows can be summed across ranks. A mean cannot, because it divides by the rows of
    all ranks."""
    name = next(name for name, number in REDUCTIONS.items() if number == call.given["reduction"])
    if name not in _EACH or name == "sum" and call.given.get("with_accuracy"):
        return []
    special = {} if name == "none" else {"loss": Partial(), "z_loss": Partial(),
                                         "d_loss": Replicate()}
    return [call.rows(dim, **special) for dim in range(call.tensors[first].ndim - 1)]


def _embedding(call):
    if "position_weight" in call.tensors or call.given.get("n_positions"):
        return []
    return [call.rows(dim, d_position_weight=Replicate())
            for dim in range(call.tensors["indices"].ndim)]


def _scale(call):
    if call.given["per_row"]:
        return []
    dims = [call.rows(dim, factor=Replicate()) for dim in range(call.tensors["x"].ndim)]
    return [
        *dims,
        call.placed(lambda name: Partial() if name == "x" else Replicate(), lambda name: Partial())]


def _rope(call):
    """Shards along heads, or along positions and batches together with their angles."""
    q, cos = call.tensors["q"], call.tensors["cos"]
    table = lambda placement: {"cos": placement, "sin": placement}
    found = [call.rows(2, **table(Replicate()))]
    if cos.ndim <= 3:
        found.append(call.rows(1, **table(Shard(cos.ndim - 2))))
        whole = cos.ndim == 2 or cos.shape[0] != q.shape[0] or q.shape[0] == 1
        found.append(call.rows(0, **table(Replicate() if whole else Shard(0))))
    return found


_RULES = {
    "rows": _rows, "elements": _elements, "groups": _groups, "softmax": _softmax,
    "modulated": _modulated, "losses": _losses, "embedding": _embedding, "scale": _scale,
    "rope": _rope
}


def _rule_of(text):
    """Returns the rule that an operation's row names, such as "rows x"."""
    name, *arguments = text.split()
    return lambda call: _RULES[name](call, *arguments)


def _mesh_of_any(strategy):
    """Wraps a strategy, because torch up to 2.11 reads the mesh from the first argument, which may
    be None."""
    @functools.wraps(strategy)
    def of_any(op_schema):
        first = op_schema.args_schema[0]
        if first is None:
            mesh = next(argument.mesh for argument in op_schema.args_schema
                        if hasattr(argument, "mesh"))
            op_schema.get_mesh_from_args = lambda validate=True: mesh
        return strategy(op_schema)

    return of_any


def _register(name, rule):
    operator = getattr(torch.ops.ligerdsl, name).default

    @register_sharding(operator)
    def shardings(*args, **kwargs):
        call = _Call(operator._schema, args, kwargs)
        return [call.whole(), *rule(call)]

    # Flags and dtypes decide which results exist. By default, torch's cache of strategies compares
    # only integers, so keyword arguments are added to its key.
    names = [argument.name for argument in operator._schema.arguments
             if argument.kwarg_only and "float" not in str(argument.type)]
    _known[operator] = dataclasses.replace(_known[operator], static_kwargkey=names or None)
    if operator in _strategies:
        _strategies[operator] = _mesh_of_any(_strategies[operator])


_propagator = getattr(getattr(DTensor, "_op_dispatcher", None), "sharding_propagator", None)
_known, _strategies = (getattr(_propagator, "op_to_schema_info", None),
                       getattr(_propagator, "op_strategy_funcs", {}))
if _known is not None:  # without it torch could confuse calls, so no operator gets a sharding
    for _name, _text in SHARDING.items():
        _register(_name, _rule_of(_text))
