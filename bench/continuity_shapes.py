"""The calls that continuity.py compares: base shapes, and the calls next to each. Needs no torch.

BASES is the list of base shapes. A base names the sizes that change, their steps, the addresses and
the row pitches. `pairs` lists the pairs of each base, the most important first.
"""

from dataclasses import dataclass, replace

from sets import Wanted

NEAREST = (-8, -4, -2, -1, 1, 2, 4, 8, 64)
PRIME, LINE, MORE, DOUBLE = "prime", "line", "x1.06", "x2"
EVERY = (*NEAREST, PRIME, LINE, MORE, DOUBLE)
FEW = (1, 4, 8, 64, MORE)
ODD = (-1, 1, 8)
FINE = tuple(sign * step for step in (1, 2, 3, 4, 5, 6, 7, 8, 16, 32, 64) for sign in (-1, 1))
ADDRESSES = (2, 4, 8)  # in bytes
PITCHES = (1, 4, 8, 64)  # in elements
# Steps by importance; a short run takes them in this order.
IMPORTANCE = (1, 8, LINE, 4, MORE, -1, PRIME, 64, 2, DOUBLE, -8, -4, -2)
VECTOR = 8  # elements of 16 bits in 16 bytes
QUICK = 60  # pairs of --quick


def is_prime(number):
    return number > 1 and all(number % d for d in range(2, int(number ** 0.5) + 1))


def moved(size, step):
    """Returns the size after a step: a difference, the next prime, the next multiple of 128, or a
    factor."""
    if step == PRIME:
        return next(n for n in range(size + 1, 2 * size + 2) if is_prime(n))
    if step == LINE:
        return (size // 128 + 1) * 128
    if isinstance(step, str):
        return round(size * float(step.removeprefix("x")))
    return size + step


@dataclass(frozen=True)
class Operation:
    """Facts of a kernel's cases.

    Shapes that violate `multiples` or `most` are left out.
    """
    letters: str  # one letter per dimension of the shape
    passes: tuple
    peers: tuple
    ours: str = "ligerdsl"  # libligerdsl's contender; one that overwrites no input, if there is one
    multiples: tuple = ()  # (letter, divisor): a number, or the letter of another size
    most: tuple = ()  # (letter, largest size)


OPERATIONS = {
    "matmul_nt": Operation("MNK", ("fwd",), ("torch",)),
    "matmul_nn": Operation("MNK", ("fwd",), ("torch",)),
    "matmul_tn": Operation("MNK", ("fwd",), ("torch",)),
    "rms_norm": Operation("MH", ("fwd", "bwd"), ("quack", "liger")),
    "layer_norm": Operation("MH", ("fwd", "bwd"), ("quack", "liger")),
    "cross_entropy": Operation("MV", ("full",), ("quack",), "ligerdsl_apart"),
    "softmax": Operation("MH", ("fwd",), ("quack",)),
    "rope": Operation("BSAKD", ("fwd",), ("liger",), "ligerdsl_new", (("D", 2),)),
    "swiglu": Operation("MF", ("fwd", "bwd"), ("liger",)),
    "adamw": Operation("N", ("fwd",), ("torch",)),
    "embedding": Operation("MVH", ("fwd",), ("torch",)),
    "attention": Operation("BTAKD", ("bwd",), ("torch_cudnn",), 
                           multiples=(("D", 8), ("A", "K")), most=(("D", 256),)),
    "fused_linear_cross_entropy": Operation("MHV", ("full",), ("quack",))}


@dataclass(frozen=True)
class Base:
    """A base shape: its kernel, sizes, {letter: steps}, and its inputs' addresses and pitches."""
    kernel: str
    shape: tuple
    steps: dict
    addresses: tuple = ()
    pitches: tuple = ()


SQUARE = (4096, 4096, 4096)
BASES = (
    Base("matmul_nt", SQUARE, {"N": EVERY, "K": EVERY, "M": (*FEW, LINE)}, ADDRESSES, PITCHES),
    Base("rms_norm", (16384, 4096), {"H": EVERY, "M": (*ODD, 64)}, ADDRESSES, PITCHES),
    Base("cross_entropy", (4096, 32000), {"V": EVERY, "M": ODD}, ADDRESSES),
    Base("fused_linear_cross_entropy", (4096, 2048, 32000), {
        "H": (1, 2, 4, 8, 64, MORE), "V": (1, 2, 4, 8, 64, MORE, PRIME), "M": (1, 8, 64)}),
    Base("attention", (4, 1024, 32, 8, 128),
         {"D": (-8, 8, 64, DOUBLE), "T": (-1, 1, 2, 4, 8, 64, PRIME, MORE), "B": (1,)}),
    Base("layer_norm", (16384, 4096), {"H": EVERY, "M": ODD}, ADDRESSES),
    Base("softmax", (16384, 4096), {"H": EVERY}),
    Base("swiglu", (16384, 14336), {"F": EVERY, "M": ODD}, ADDRESSES, (1, 8)),
    Base("rope", (4, 1024, 32, 8, 64), {"D": (-8, 2, 4, 8, DOUBLE), "A": (-1, 1, 8)}, (2, 8)),
    Base("adamw", (1 << 26,), {"N": (-1, 1, 2, 4, 8, 64)}, ADDRESSES),
    Base("embedding", (16384, 50257, 768), {"H": FEW, "M": (1,), "V": (1,)}),
    Base("matmul_nn", SQUARE, {"N": EVERY, "K": ODD, "M": ODD}, (2,), (1, 8)),
    Base("matmul_tn", SQUARE, {"N": EVERY, "K": ODD, "M": ODD}, (2,), (1, 8)),
    Base("matmul_nt", (1024, 4096, 4096), {"M": FEW, "N": (8,)}),
    Base("matmul_nt", (640, 4096, 11008), {"M": FEW, "N": (8, 64)}),
    Base("matmul_nt", (1000, 5120, 3456), {"M": FEW, "N": (8, 64)}),
    Base("matmul_nt", (4096, 4096, 64), {"K": (1, 4, 8, 64), "M": (1, 8)}),
    Base("matmul_nt", (2312, 7048, 1984), {"N": (-8, -2, -1, 1, 8, LINE)}),
    Base("matmul_nt", (8192, 896, 4864), {"N": FEW, "K": (1, 8)}),
    Base("matmul_nt", (1, 4096, 4096), {"M": (1, 2, 4, 8), "K": (1, 8)}),
    Base("matmul_nt", (8, 4096, 4096), {"M": ODD, "K": (1, 8)}),
    Base("matmul_nt", (64, 4096, 4096), {"M": ODD, "K": (1, 8)}),
    Base("rms_norm", (16384, 8192), {"H": FEW}),
    Base("rms_norm", (16384, 5120), {"H": FEW}),
    Base("rms_norm", (16384, 1960), {"H": FEW}),
    Base("rms_norm", (2048, 768), {"H": FEW, "M": (1, 8)}),
    Base("rms_norm", (132, 65536), {"H": (1, 8), "M": (1, 4)}),
    Base("layer_norm", (16384, 8192), {"H": FEW}),
    Base("cross_entropy", (4096, 65536), {"V": FEW}),
    Base("cross_entropy", (4096, 64000), {"V": FEW}),
    Base("cross_entropy", (4096, 14176), {"V": ODD}),
    Base("cross_entropy", (4096, 128256), {"V": (1, 8)}),
    Base("cross_entropy", (262144, 1000), {"V": (*FEW, PRIME, LINE), "M": (1,)}),
    Base("cross_entropy", (262144, 256), {"V": FEW}),
    Base("cross_entropy", (64, 1000000), {"V": (1, 8, PRIME), "M": (1, 4, 64)}),
    Base("softmax", (65536, 256), {"H": FEW}),
    Base("softmax", (65536, 1000), {"H": (*FEW, LINE)}),
    Base("softmax", (65536, 4096), {"H": (1, 8)}),
    Base("rope", (4, 1024, 32, 8, 72), {"D": (8,)}),
    Base("rope", (4, 1024, 32, 8, 80), {"D": (8, 16)}),
    Base("rope", (4, 1024, 32, 8, 112), {"D": (8, 16)}),
    Base("rope", (4, 1024, 32, 8, 128), {"D": (8, DOUBLE)}),
    Base("adamw", (1 << 20,), {"N": (1, 8)}),
    Base("embedding", (16384, 50257, 4096), {"H": FEW}),
    Base("attention", (4, 1024, 32, 8, 64), {"D": (8, DOUBLE), "T": (-1, 1, 8)}),
    Base("attention", (4, 1024, 32, 8, 72), {"D": (8,)}),
    Base("attention", (4, 1024, 32, 8, 80), {"D": (8, 16)}),
    Base("attention", (4, 1024, 32, 8, 96), {"D": (8,)}),
    Base("attention", (4, 1024, 32, 8, 192), {"D": (8, 64)}),
    Base("fused_linear_cross_entropy", (4096, 2048, 50256), {"V": (1, 8, LINE)}),
    Base("fused_linear_cross_entropy", (512, 4096, 128256), {"M": (1, 8)}),
    Base("fused_linear_cross_entropy", (4096, 2880, 32000), {"H": (8,), "V": (1,)}))

# Sizes for a CPU run, which only checks that everything works.
SMOKE = (
    Base("matmul_nt", (24, 40, 32), {"N": (1,), "K": (8,)}, (2,), (1,)),
    Base("rms_norm", (16, 96), {"H": (1, PRIME)}, (2,), (1, 8)),
    Base("cross_entropy", (24, 96), {"V": (1,)}, (2,)),
    Base("rope", (2, 8, 4, 2, 16), {"D": (2,)}, (2,)),
    Base("swiglu", (16, 96), {"F": (1,)}, (2,), (1,)), Base("adamw", (1000,), {"N": (1,)}, (2,)),
    Base("embedding", (40, 30, 16), {"H": (1,)}), Base("matmul_nn", (24, 40, 32), {"N": (1,)}),
    Base("matmul_tn", (24, 40, 32), {"N": (1,)}), Base("layer_norm", (16, 96), {"H": (1,)}),
    Base("softmax", (16, 96), {"H": (1,)}), Base("attention", (1, 32, 2, 2, 16), {"D": (8,)}),
    Base("fused_linear_cross_entropy", (24, 32, 130), {"V": (1,)}))


@dataclass(frozen=True)
class Pair:
    """A base call and the call after one step. step: a size's letter and change, or address+BYTES,
    or pitch+ELEMENTS."""
    base: Wanted
    adjacent: Wanted
    step: str
    sizes: tuple  # the changed size, before and after; () if an address or pitch changed
    aligned: bool  # both sizes are multiples of 8; addresses and rows are multiples of 16 bytes

    @property
    def operation(self):
        return OPERATIONS[self.base.kernel]

    def __str__(self):
        return f"{self.base}, {self.step}"


def step_text(letter, step):
    if isinstance(step, int):
        return f"{letter}{step:+d}"
    return f"{letter} {step}"


def permitted(operation, shape):
    sizes = dict(zip(operation.letters, shape))
    return (min(shape) > 0
            and all(sizes[letter] % sizes.get(each, each) == 0
                    for letter, each in operation.multiples)
            and all(sizes[letter] <= most for letter, most in operation.most))


def pairs_of(base):
    """Returns the pairs of a base shape, the most important first."""
    operation, start = OPERATIONS[base.kernel], Wanted(base.kernel, base.shape)
    ranked = []
    for order, (letter, steps) in enumerate(base.steps.items()):
        at = operation.letters.index(letter)
        for step in steps:
            size = moved(base.shape[at], step)
            shape = (*base.shape[:at], size, *base.shape[at + 1:])
            if not permitted(operation, shape):
                continue
            rank = IMPORTANCE.index(step) if step in IMPORTANCE else len(IMPORTANCE)
            ranked.append((rank, order, Pair(start, replace(start, shape=shape),
                                             step_text(letter, step), (base.shape[at], size),
                                             base.shape[at] % VECTOR == size % VECTOR == 0)))
    for rank, bytes_after in enumerate(base.addresses):
        ranked.append((rank + 1, len(base.steps),
                       Pair(start, replace(start, address=bytes_after),
                            f"address+{bytes_after}", (), bytes_after % 16 == 0)))
    for rank, elements in enumerate(base.pitches):
        ranked.append((rank + 1, len(base.steps) + 1,
                       Pair(start, replace(start, pitch=elements), f"pitch+{elements}", (),
                            (base.shape[-1] + elements) % VECTOR == elements % VECTOR == 0)))
    ranked.sort(key=lambda each: each[:2])
    once = {}
    for _, _, pair in ranked:
        once.setdefault(pair.adjacent, pair)  # two steps may lead to the same size
    return list(once.values())


def pairs(bases=BASES, most=0):
    """Returns the pairs of all bases, grouped by base.

    most: largest number of pairs; the most important pairs of each base remain.
    """
    ranked = [(rank, i, pair) for i, base in enumerate(bases)
              for rank, pair in enumerate(pairs_of(base))]
    ranked.sort(key=lambda each: each[:2])
    taken = ranked[:most] if most else ranked
    return [pair for _, _, pair in sorted(taken, key=lambda each: (each[1], each[0]))]


def quick(bases=BASES):
    """Returns at most QUICK pairs, from the first base of each kernel."""
    first = {}
    for base in bases:
        first.setdefault(base.kernel, base)
    return pairs(first.values(), QUICK)


def around(kernel, shape):
    """Returns a base that scans each size of a shape in fine steps."""
    letters = OPERATIONS[kernel].letters
    if len(shape) != len(letters):
        raise ValueError(f"{kernel}: expected {len(letters)} sizes {'x'.join(letters)}, got "
                         f"{'x'.join(map(str, shape))}")
    return Base(kernel, tuple(shape), {letter: (*FINE, PRIME, LINE, MORE) for letter in letters},
                ADDRESSES, PITCHES)


def bases_of(kernels, bases=BASES):
    """Returns the bases of these kernels, or all bases if `kernels` is empty. Raises KeyError with
    the existing names."""
    unknown = set(kernels) - set(OPERATIONS)
    if unknown:
        raise KeyError(f"--op: unknown kernels: {', '.join(sorted(unknown))}; expected names from "
                       f"{', '.join(OPERATIONS)}")
    return tuple(base for base in bases if not kernels or base.kernel in kernels)
