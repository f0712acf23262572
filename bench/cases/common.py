"""Parts of a case. A case has contenders, a contender has passes, and a pass is timed as one unit.

A pass's `run` enqueues the work and returns its outputs by the names that the case checks. A pass
with preallocated outputs returns None and lists them in `wrote`. `own_bytes` is the memory that
such a pass needs in addition to its inputs.
"""

import contextlib
import math
from dataclasses import dataclass, field
from typing import Callable, Optional

import torch

CODES = {torch.bfloat16: "bf16", torch.float16: "f16", torch.float32: "f32"}
DTYPES = {name: dtype for dtype, name in CODES.items()}
# Largest accepted error max |a - r| / max |r| of our outputs a; r is the float64 value. Sums over
# rows use |a - r| / |r| in the 2-norm. Tests have tighter gates.
GATES = {"f32": 2e-5, "f16": 4e-3, "bf16": 1.6e-2}
BUILDERS = {}  # kernel name -> function in this folder that builds a case


def case(build):
    """Registers the function build(context, *shape, dtype) -> Case under its name."""
    BUILDERS[build.__name__] = build
    return build


@dataclass
class Pass:
    run: Callable
    # {name: tensor} that `run` wrote; None: `run` returns its outputs
    wrote: Optional[Callable] = None
    # bytes of preallocated outputs and workspace; None: `run` allocates
    own_bytes: Optional[int] = None
    workspace_bytes: int = 0

    def outputs(self):
        made = self.run()
        return self.wrote() if self.wrote else made


@dataclass
class Contender:
    passes: dict  # fwd, bwd, full or chain -> Pass
    restore: Optional[Callable] = None  # restores overwritten inputs before each repetition


@dataclass
class Case:
    kernel: str
    shape: tuple
    dtype: torch.dtype
    bytes: dict  # pass -> least bytes read and written
    make: dict = field(default_factory=dict)  # provider -> function that returns a Contender
    # output -> function of the output that returns its relative error
    exact: dict = field(default_factory=dict)
    # pass -> floating-point operations, if they bound the time
    flops: dict = field(default_factory=dict)
    bursts: bool = False  # heats the GPU: timed both in bursts and sustained
    links: int = 0  # links in a chain; times are reported per link
    gated: bool = True  # False: the error is the result, and no gate applies

    def errors(self, outputs):
        """Returns {output: error} of the outputs with exact values. Raises KeyError if none has."""
        known = {name: self.exact[name](tensor) for name, tensor in outputs.items()
                 if name in self.exact}
        if not known:
            raise KeyError(f"{self.kernel}: the outputs {', '.join(outputs)} have no exact values; "
                           f"expected at least one of {', '.join(self.exact)}")
        return known


class Maker:
    """Random tensors on the device from a fixed seed, so that all contenders of a case see the same
    numbers.

    A tensor begins `address` bytes after a 256-byte boundary, rounded up to whole elements. If it
    has two or more dimensions, `pitch` unused elements follow each row. Results of torch.empty_like
    are aligned and contiguous.
    """

    address, pitch = 0, 0  # `placed` sets them

    def __init__(self, device):
        self.device, self.address, self.pitch = device, Maker.address, Maker.pitch

    def empty(self, *shape, dtype=torch.float32):
        return self.memory(shape, dtype)[1]

    def memory(self, shape, dtype):
        """Returns a new tensor's memory, flat, and the tensor."""
        if not self.address and not self.pitch:
            out = torch.empty(shape, device=self.device, dtype=dtype)
            return out.view(-1), out
        size = torch.empty(0, dtype=dtype).element_size()
        offset = -(-self.address // size)
        width = shape[-1] + (self.pitch if len(shape) > 1 else 0)
        flat = torch.empty(offset + math.prod(shape[:-1]) * width, device=self.device, dtype=dtype)
        strides = [*(math.prod(shape[i + 1:-1]) * width for i in range(len(shape) - 1)), 1]
        return flat, flat.as_strided(shape, strides, offset)

    def randn(self, *shape, dtype, scale=1.0):
        flat, out = self.memory(shape, dtype)
        for part in flat.split(1 << 28):  # without an f32 copy of the whole tensor
            part.copy_(torch.randn(part.numel(), device=self.device) * scale)
        return out

    def labels(self, rows, classes, ignored=0):
        labels = torch.randint(classes, (rows,), device=self.device)
        if ignored:
            labels[::ignored] = -100
        return labels

    def rows(self, count, sampled=64):
        return torch.randint(count, (min(sampled, count),), device=self.device)


@contextlib.contextmanager
def placed(address, pitch):
    """Sets address and pitch of every Maker created inside the `with` block."""
    Maker.address, Maker.pitch = address, pitch
    try:
        yield
    finally:
        Maker.address, Maker.pitch = 0, 0


def nbytes(*tensors):
    return sum(t.numel() * t.element_size() for t in tensors if t is not None)


def ours(forward, backward, made, saved=(), restore=None):
    """Returns the passes of two bound plans, forward and backward.

    made: (outputs of forward, outputs of backward). saved: tensors that forward saves for backward.
    restore: restores inputs that the outputs overwrite.
    """
    first, second = made
    allocated = lambda outputs: 0 if restore else nbytes(*outputs.values())
    kept = allocated(first) + nbytes(*saved)
    space = forward.workspace_bytes, backward.workspace_bytes

    def full():
        forward()
        backward()

    return Contender({
        "fwd": Pass(forward, lambda: first, kept + space[0], space[0]),
        "bwd": Pass(backward, lambda: second, allocated(second) + space[1], space[1]),
        "full": Pass(full, lambda: {**first, **second}, kept + allocated(second) + max(space),
                     max(space))}, restore)


def autograd(function, inputs, grads, names, restore=None):
    """Returns passes of a differentiable function: fwd without a graph, bwd on a retained graph,
    full = both.

    names: (outputs of the function, gradients of inputs).
    """
    as_tuple = lambda value: value if isinstance(value, tuple) else (value,)
    held = []

    def forward():
        with torch.no_grad():
            return dict(zip(names[0], as_tuple(function())))

    def backward():
        if not held:
            held.append(function())
        return dict(zip(names[1], torch.autograd.grad(held[0], inputs, grads, retain_graph=True)))

    def full():
        made = function()
        return {**dict(zip(names[0], as_tuple(made))),
                **dict(zip(names[1], torch.autograd.grad(made, inputs, grads)))}

    return Contender({"fwd": Pass(forward), "bwd": Pass(backward), "full": Pass(full)}, restore)


def direct(forward, backward, restore=None):
    """Returns passes of a peer's own functions: forward() -> (outputs, state), backward(state) ->
    gradients."""
    state = forward()[1]

    def full():
        made, kept = forward()
        return {**made, **backward(kept)}

    return Contender({"fwd": Pass(lambda: forward()[0]), "bwd": Pass(lambda: backward(state)),
                      "full": Pass(full)}, restore)


# CUDA graphs would copy every input that is not a parameter, within the measured time.
MAX_AUTOTUNE = "max-autotune-no-cudagraphs"


def compiled(function, mode=None, repeated=True):
    """Compiles `function` by torch.compile.

    repeated: its backward runs again on a retained graph, so it must not reuse saved tensors.
    """
    import torch._functorch.config
    torch._functorch.config.donated_buffer = not repeated
    if mode:
        import torch._inductor.select_algorithm
        torch._inductor.select_algorithm.PRINT_AUTOTUNE = False
    return torch.compile(function, dynamic=False, mode=mode)


def by_compiler(reference, contender, repeated=True):
    """Returns the two contenders of torch.compile; contender(function) -> Contender runs when one
    is timed."""
    return {"compile": lambda: contender(compiled(reference, None, repeated)),
            "compile_max": lambda: contender(compiled(reference, MAX_AUTOTUNE, repeated))}


def by_torch(reference, inputs, grads, names):
    """Returns torch's and torch.compile's contenders for a differentiable function of these inputs.
    names: see autograd."""
    contender = lambda f: autograd(lambda: f(*inputs), inputs, grads, names)
    return {**by_compiler(reference, contender), "torch": lambda: contender(reference)}


def put_back(*tensors):
    """Returns a function that restores these tensors' current contents without autograd's
    notice."""
    pristine = [t.detach().clone() for t in tensors]

    def restore():
        for tensor, copy in zip(tensors, pristine):
            tensor.data.copy_(copy)

    return restore


class Check:
    """The error of an output. exact() returns the float64 reference; it is called once, before
    inputs change."""

    def __init__(self, exact):
        self.exact, self.held = exact, None

    def reference(self):
        if self.held is None:
            self.held = self.exact().detach()
        return self.held

    def __call__(self, found):
        error = float(self.error(found.detach().double(), self.reference()))
        return error if error == error else float("inf")


class worst(Check):
    """max |a - r| / max |r| over some rows."""

    def __init__(self, exact, rows=None):
        super().__init__(exact)
        self.rows = rows

    def __call__(self, found):
        return super().__call__(found if self.rows is None else found[self.rows])

    def error(self, a, r):
        if a.shape != r.shape:
            raise ValueError(f"an output has the shape {tuple(a.shape)}, expected {tuple(r.shape)}")
        return (a - r).abs().max() / r.abs().max().clamp_min(1e-30)


class kept(worst):
    """Error `worst` of the elements that dropout kept; infinite if their share is not 1 - p within
    five standard deviations."""

    def __init__(self, exact, rows, p):
        super().__init__(exact, rows)
        self.p = p

    def error(self, a, r):
        stays = a != 0
        if abs(stays.double().mean().item() - (1 - self.p)) > 5 * (
                self.p * (1 - self.p) / a.numel()) ** 0.5:
            return float("inf")
        return super().error(a, r * stays)


class normwise(Check):
    """|a - r|_2 / |r|_2, for sums over rows."""

    def error(self, a, r):
        return (a.reshape(-1) - r.reshape(-1)).norm() / r.norm()


def written_over(exact, *tensors):
    """Computes the exact values; returns a function that restores overwritten inputs."""
    for check in exact.values():
        if isinstance(check, Check):
            check.reference()
    return put_back(*tensors)


def chunks(rows, width, most=1 << 26):
    """Returns ranges of rows whose float64 copies stay small."""
    step = max(1, most // width)
    return [slice(begin, min(begin + step, rows)) for begin in range(0, rows, step)]
