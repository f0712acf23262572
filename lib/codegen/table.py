"""Classes for the rows of the operation table (ops.py), which describe the operations of
the C ABI."""

from dataclasses import dataclass, field

import formulas

DTYPES = {
    "i32": "LIGERDSL_I32", "i64": "LIGERDSL_I64", "f16": "LIGERDSL_F16", "bf16": "LIGERDSL_BF16",
    "f32": "LIGERDSL_F32", "f8e4m3": "LIGERDSL_F8E4M3", "f8e5m2": "LIGERDSL_F8E5M2"
}
FLOATS = ("f32", "f16", "bf16")
INDEX = ("i64", "i32")
FP8 = ("f8e4m3", "f8e5m2")
# Default sizes of the `ligerdsl` command, by letter. A string is a formula of other sizes, fields
# and values.
DEFAULT_SIZES = {
    "N": 4096, "H": 4096, "F": 8192, "V": 32000, "B": 4, "S": 1024, "A": 32, "K": 8, "D": 128,
    "P": 1024, "T": 4096, "E": 8, "M": "N", "O": "E + 1"
}
# Sizes for `ligerdsl check`, by letter, if they differ from DEFAULT_SIZES.
SMALL_SIZES = {
    "N": 60, "H": 100, "F": 40, "V": 77, "B": 2, "S": 50, "A": 4, "K": 2, "D": 24, "P": 4, "T": 70,
    "E": 3
}
LOSSES = "LZRG"  # letters of losses and their gradients: one element, or every loss with reduction
                 # = NONE
FOLLOW_DTYPE = ("weight_dtype", "target_dtype", "scale_dtype"
                )  # dtype fields that the command sets to `dtype` by default
CASE_SIZES = {"N": "rows", "H": 520, "F": 700,
              "V": 1003}  # sizes of test cases for rows without case_sizes
LARGE_KINDS = ("row", "flat", "narrow")
MODEL_WORDS = {"gate": "swiglu", "rope": "half"}  # words of models that shapes.json does not set
REPORTS = ("label", "shard_label", "index", "group", "sequence", "step")


@dataclass
class Field:
    """One field of an operation's descriptor."""
    name: str
    ctype: str  # int32_t, int64_t or float
    default: object
    doc: str
    role: str = "option"  # option, dim, dtype, present, absent, in_place, queries
    # dim, dtype, present, absent, queries: tensor whose property the one-call form reads
    source: str = ""
    symbol: str = ""      # dim: letter of the size in tensor shapes
    low: float = None     # smallest allowed value, or None for any finite number
    high: float = None
    below_high: bool = False  # values must be less than `high`
    infinite: bool = False    # float: infinity is allowed
    or_zero: bool = False     # float: 0 is allowed even outside low to high
    dtypes: tuple = ()    # dtype: dtypes that the field accepts
    optional: bool = False  # dtype: 0 is allowed; dim: 0 means not used
    # optional dtype: meaning of 0, which is "none" (no tensor), "f32", or the name of another dtype
    # field
    zero: str = ""
    same_as: str = ""     # dtype of a parameter: dtype field that a nonzero value must equal
    usual: bool = False  # present, optional dtype: the command and tests pass the tensor by default
    follows: str = ""     # dtype: dtype field that the command uses as its default
    # dtype of a gradient: dtype field of the parameter. All gradients of one parameter have one
    # dtype
    gradient_of: str = ""
    command: str = ""  # option: formula of the command's default
    # true if added after the first release: older programs pass structs that end before the field
    later: bool = False

    def __post_init__(self):
        if self.later and self.ctype != "int64_t":
            raise ValueError(f"{self.name}: expected 8 bytes for a later field: a shorter one can "
                             "share bytes with the padding of older structs")


def dim(name, symbol, source, doc, optional=False, high=2**31 - 1):
    return Field(name, "int64_t", 0, doc, "dim", source, symbol, 0 if optional else 1, high,
                 optional=optional)


def dtype(name, source, doc="", dtypes=FLOATS, optional=False, zero="none", **rules):
    """Returns a dtype field. rules: same_as and gradient_of, which a generated plan checks, or
    usual and follows, the command's defaults."""
    return Field(name, "int32_t", 0, doc, "dtype", source, dtypes=dtypes, optional=optional,
                 zero=zero if optional else "", **rules)


def present(arg, doc="", usual=False, later=False):
    """Returns a flag that is set if the optional tensor `arg` is passed to execute."""
    return Field(f"with_{arg}", "int64_t" if later else "int32_t", 0,
                 doc or f"1: `{arg}` is passed", "present", arg, low=0, high=1, usual=usual,
                 later=later)


def absent(arg):
    """Returns a flag that is set to omit the output `arg`."""
    return Field(f"without_{arg}", "int32_t", 0, f"1: `{arg}` is not passed, and not computed",
                 "absent", arg, low=0, high=1)


def in_place(doc):
    return Field("in_place", "int32_t", 0, doc, "in_place", low=0, high=1)


def queries(source):
    """Returns the field for the rows of one causal matrix: the second-to-last dimension of
    `source`. It is read only if the field `causal` is set."""
    return Field("n_queries", "int64_t", 0,
                 f"causal: rows of one matrix; 0: the one-call form reads it from {source}",
                 "queries", source, low=0, high=2**31 - 1)


def flag(name, doc, default=0):
    return Field(name, "int32_t", default, doc, low=0, high=1)


def option(name, ctype, default, doc, low=None, high=None, **range_):
    """Returns a field for a number or an enumerator. Without bounds every finite number is
    allowed."""
    return Field(name, ctype, default, doc, low=low, high=high, **range_)


def range_text(f):
    """Returns a field's or value's range for its comment, or "" if its doc contains the range."""
    if f.or_zero:
        return f"0, or {f.low:g} <= {f.name} <= {f.high:g}"
    if f.high is not None:
        return (f"{f.low} <= {f.name} {'<' if f.below_high else '<='} {f.high}"
                if f.ctype == "float" else f"{f.low} to {f.high}")
    if f.low is not None:
        return f">= {f.low}" + (" or infinite" if f.infinite else "")
    return "any finite number" if f.ctype == "float" else ""


@dataclass
class Tensor:
    """One tensor of an operation's arguments.

    shape: letters and numbers. A star after the first letter ("N* H") means any number of leading
    dimensions with one common stride. A number before a letter multiplies it ("N* 2H"). "1" is a
    tensor of one element. "?" leaves the shape to handwritten code. The last dimension has stride 1
    unless any_stride.

    dtype: a dtype's name, or the name of a dtype field.

    given: the field that is set if the tensor is passed; "!field" is set if it is not; "" = always
    passed.

    The fields after `hint` are for the command and for tests.
    """
    name: str
    direction: str  # in, out, inout
    shape: str
    dtype: str
    doc: str
    given: str = ""
    any_stride: bool = False  # strides may have any value, also in the last dimension
    # text added to the error for a wrong shape: a common mistake, and the shape to pass instead
    hint: str = ""
    bounds: str = ""  # letter of the size that these bounds split into groups or sequences
    positive: bool = False  # random numbers are positive; mean and deviation do not apply
    mean: str = ""  # formula of the mean of random numbers; "" = 0
    deviation: str = ""  # formula of the standard deviation of random numbers; "" = 1
    moved: str = ""  # formula of the number of elements that a call moves; "" = all
    accumulate: str = "accumulate"  # inout: flag that makes a call read the tensor; "" = every call
                                    # reads it
    contiguous: bool = False  # rows must be contiguous, without a row stride
    later: bool = False  # true if added after the first release


def indices(name, shape, dtype, doc, given="", bounds=""):
    """Returns a tensor of labels, indices or bounds, which may be a column of a larger tensor."""
    return Tensor(name, "in", shape, dtype, doc, given, any_stride=True, bounds=bounds)


@dataclass
class TensorList:
    """A list of tensors: a pointer and a count in the args struct. Handwritten code checks it."""
    name: str
    doc: str


@dataclass
class Value:
    """A number passed at every call. low, high, below_high, infinite, or_zero are those of
    Field."""
    name: str
    ctype: str
    default: object
    doc: str
    low: float = None
    high: float = None
    below_high: bool = False
    infinite: bool = False
    or_zero: bool = False
    unless: str = ""  # the number is ignored if this field is set


def pairs(text):
    """Returns the pairs of "name in the kernel=name in the row ..."; a single name is both."""
    return [tuple(word.split("=")) if "=" in word else (word, word) for word in text.split()]


@dataclass
class Plan:
    """The kernel of an operation and the sources of its options and arguments, for `make_plan`
    (emit_plans.py).

    options, numbers, integers, values and tensors are texts for pairs(). `tensors` need not list a
    tensor or a number with the same name in the row and in the kernel.
    """
    options: str  # kernel options from fields of the descriptor. !field: true if the field is 0
    kernel: str = ""      # name of the kernel; "" = the operation's name with _kernel
    header: str = ""      # header that declares the kernel; "" = header named like the row's file
    numbers: str = ""     # f32 arguments of the kernel from fields
    integers: str = ""    # integer arguments of the kernel from fields
    values: str = ""      # arguments of the kernel from numbers of a call
    tensors: str = ""     # arguments of the kernel from tensors with another name
    # tensors with one element per row if the field `per_row` is set, else with one element
    reduced: str = ""
    # true if lib/abi/ops/ defines `adjust` for checks and options that fields cannot express
    hook: bool = False


class Large:
    """Configurations on more than 2^31 elements with their own rules, for
    tests/every_op/large_test.cpp.

    Each case is a kind, then settings. The test chooses the number of rows. "H={4096|64}" is H=4096
    on a GPU, and H=64 on a CPU and on the fake GPU. Inputs repeat: after 61 rows for the kind
    `row`, after 65521 rows (251 without a GPU) for `flat` and `narrow`. `narrow` has more than 2^31
    rows, not only elements.
    """

    def __init__(self, *cases, tolerance=None, sum_tolerance=None, weight_scale="", combine=None):
        self.cases = cases
        self.tolerance = tolerance          # relative and absolute, for results with separate rows
        self.sum_tolerance = sum_tolerance  # normwise, for results summed over all rows
        # scale of the tensor `weight`; "{a|b}" as in a size is allowed
        self.weight_scale = weight_scale
        # tensor -> function of large_test.cpp that combines results which are not simply summed
        self.combine = combine or {}


@dataclass
class Op:
    name: str
    brief: str
    doc: str                                     # formulas, shapes, aliasing, errors
    fields: list
    args: list
    rows: str                                    # unit of the rows that workspace_bytes_for takes
    reports: str = "label"  # kind of out-of-bounds value that its kernels report: one of REPORTS
    aliases: list = field(
        default_factory=list
    )  # pairs (output, input) that may be the same memory when in_place is set
    # Rule for DTensors (lib/python/ligerdsl/torch/sharding.py): name and arguments. "" = no rule.
    sharding: str = ""
    plan: Plan = None                            # None: lib/abi/ops/ defines make_plan
    # The command's default sizes by letter, if they differ from DEFAULT_SIZES. A size may be a
    # formula.
    sizes: dict = field(default_factory=dict)
    small: dict = field(default_factory=dict)  # sizes of `ligerdsl check`, like SMALL_SIZES
    # Formula of a call's floating-point operations, if arithmetic bounds its time. If bounds split
    # a size, the formula counts one group or sequence.
    flops: str = ""
    unreduced: str = "N"  # letters whose product is the number of unreduced losses
    cases: list = field(
        default_factory=list
    )  # configurations of tests/every_op, as settings of the command: "dtype=bf16 in_place=1"
    # Settings for which tests/cli compares the operation with its reference; [] = small cases
    checks: list = field(default_factory=list)
    # More settings for which tests/cli records the kernels, without running them
    recorded: list = field(default_factory=list)
    case_sizes: dict = field(
        default_factory=dict
    )  # sizes in `cases` by letter, as C++ expressions of `rows`; {} = CASE_SIZES
    large: list = field(default_factory=list
                        )  # cases on more than 2^31 elements: Large objects, or only their texts
    not_large: str = ""                          # why the operation has no large cases
    # Configurations of `ligerdsl bench --set standard`. {bf16|f32} is bf16 on a GPU, f32 on a CPU.
    # --rows replaces n in rows(n).
    bench: list = field(default_factory=list)
    # Layers of the models in lib/cli/bench/shapes.json, for `ligerdsl bench --model`, in the form
    # of `bench`. Braces contain a word or number of the model, as in {hidden}, or a formula of its
    # numbers and `tokens`. The word gate=geglu limits a layer to models with this gate.
    layers: list = field(default_factory=list)
    not_compared: str = ""  # why bench/cases has no contender for the operation; "" = it has one
    place: str = ""  # the row's file without .op.py: "kernels/norm/rms_norm"; ops.py sets it
    kind: str = ""   # row of the README's table: "norms"; ops.py sets it from KIND of the file
    title: str = ""  # name in that table: "RMSNorm"; ops.py sets it from TITLE of the file

    @property
    def kernel(self):
        return self.plan.kernel or f"{self.name}_kernel"

    @property
    def header(self):
        """Returns the header that declares the kernel."""
        return self.plan.header or f"{self.place}.h"

    def field_named(self, name):
        return next((f for f in self.fields if f.name == name), None)

    @property
    def camel(self):
        return "".join(part.capitalize() for part in self.name.split("_"))

    @property
    def tensors(self):
        return [a for a in self.args if isinstance(a, Tensor)]

    @property
    def symbols(self):
        """Returns the letters of all shapes in order of appearance."""
        seen = []
        for tensor in self.tensors:
            for spec in tensor.shape.split():
                letter = spec.rstrip("*").lstrip("0123456789")
                if letter and letter != "?" and letter not in seen:
                    seen.append(letter)
        return seen

    def check_plan(self):
        """Rejects a plan that names something unknown or omits a field."""
        names, plan = [f.name for f in self.fields], self.plan
        used = [name.lstrip("!") for text in (plan.options, plan.numbers, plan.integers)
                for _, name in pairs(text)]
        for known, given in ((names, used),
                             ([a.name for a in self.args if isinstance(a, Value)],
                              [v for _, v in pairs(plan.values)]),
                             ([t.name for t in self.tensors],
                              [t for _, t in pairs(plan.tensors)] + plan.reduced.split())):
            assert set(given) <= set(known), (
                f"{self.name}: the plan names {set(given) - set(known)}, which the row lacks")
        left = [f.name for f in self.fields if f.role != "in_place" and f.name not in used]
        assert plan.hook or not left, (
            f"{self.name}: the plan does not use {left}; without a hook it must use every field")
        dtypes = [self.field_named(name).gradient_of for option, name in pairs(plan.options)
                  if option.endswith("type") and name in names]
        unchecked = [f.name for f in self.fields if f.gradient_of and f.gradient_of not in dtypes]
        assert not unchecked, f"{self.name}: no option takes the dtype of {unchecked}"
        assert not plan.reduced or "per_row" in names, (
            f"{self.name}: reduced tensors need a field per_row")

    def size(self, letter):
        """Returns a letter's default size, a number or a formula."""
        if letter in LOSSES and letter not in self.sizes:
            return self.losses()
        size = self.sizes.get(letter, DEFAULT_SIZES.get(letter, 1))
        is_known = not isinstance(size, str) or formulas.names(size) <= self.numbers
        return size if is_known or letter in self.sizes else 1

    def losses(self):
        """Returns the number of losses."""
        names = [f.name for f in self.fields]
        test = "reduction == 0" if "reduction" in names else "per_row" if "per_row" in names else ""
        return f"{' * '.join(self.unreduced.split())} if {test} else 1" if test else 1

    def small_size(self, letter):
        """Returns a letter's size for `ligerdsl check`, or 0 to use size()."""
        return self.small.get(letter, SMALL_SIZES.get(letter, 0))

    @property
    def numbers(self):
        """Returns the names that a formula may use."""
        values = [a.name for a in self.args if isinstance(a, Value)]
        return {*self.symbols, *(f.name for f in self.fields), *values}

    @property
    def derived(self):
        """Returns pairs (letter or field, formula of its default)."""
        letters = [(letter, self.size(letter)) for letter in self.symbols]
        queries = [(f.name, "N if causal else 0") for f in self.fields if f.role == "queries"]
        return [pair for pair in letters if isinstance(pair[1], str)
                ] + queries + [(f.name, f.command) for f in self.fields if f.command]

    def usual(self, f):
        """Returns true if the command and tests pass an optional tensor by default: if the field
        says so, or for a gradient."""
        gradients = [
            t.name for t in self.tensors if t.direction == "out" and t.name.startswith("d_")]
        return (f.usual or f.role == "present" and f.source in gradients
                or f.optional and bool(f.same_as or f.gradient_of))

    def leader(self, f):
        """Returns the dtype field that the command uses as the default of `f`, or ""."""
        if f.role != "dtype":
            return ""
        first = ("d_weight_dtype" if f.gradient_of and f.name != "d_weight_dtype" else "dtype"
                 if f.name in FOLLOW_DTYPE else "")
        leader = f.follows or f.same_as or first
        return leader if self.field_named(leader) else ""

    @property
    def large_cases(self):
        """Returns pairs (case on more than 2^31 elements, its rules)."""
        rules = [one if isinstance(one, Large) else Large(one) for one in self.large]
        return [(case, one) for one in rules for case in one.cases]

    @property
    def row_letter(self):
        """Returns the letter that counts rows: N, or the first tensor's first letter."""
        first = self.tensors[0].shape.split()[0].rstrip("*")
        return (first if first.isalpha() and not any("N*" in t.shape.split() for t in self.tensors)
                else "N")

    @property
    def checked(self):
        """Returns the settings for which tests compare the operation with its reference."""
        if self.checks:
            return self.checks
        lists = any(isinstance(a, TensorList) for a in self.args)
        sizes = {letter: self.small_size(letter) for letter in self.symbols}
        sizes |= {"N": 1000, "T": 3} if lists else {}
        small = [(letter, size) for letter, size in sizes.items() if size]
        given = lambda case: {word.split("=")[0] for word in case.split()}
        return [
            " ".join([f"{letter}={size}"
                      for letter, size in small if letter not in given(case)] + case.split())
            for case in self.cases
        ]

    @property
    def settings(self):
        """Returns the names that the command's settings may have. A list of tensors has the letters
        N and T."""
        lists = (
            ["N", "T"]
            if len(self.tensors) < len([a for a in self.args if not isinstance(a, Value)]) else [])
        return ([f.name for f in self.fields] + [v.name for v in self.args if isinstance(v, Value)]
                + self.symbols + lists)

    def check_formulas(self):
        """Rejects a formula with an unknown name, or for a size that another formula gives."""
        derived = dict(self.derived)
        texts = [*derived.values(), self.flops]
        for t in self.tensors:
            texts += [t.mean, t.deviation, t.moved]
            known = not t.bounds or t.bounds in self.symbols
            assert known, f"{self.name}.{t.name}: no shape uses {t.bounds}"
            reported = not t.bounds or self.reports in ("group", "sequence")
            assert reported, (
                f"{self.name}.{t.name}: expected reports = group or sequence with bounds, got "
                f"{self.reports}")
        for text in filter(None, texts):
            formulas.cpp(text)
            unknown = formulas.names(text) - self.numbers
            assert not unknown, f"{self.name}: the formula {text} uses unknown names {unknown}"
        for letter, text in derived.items():
            again = formulas.names(text) & {name for name in derived if name in self.symbols}
            assert not again, (
                f"{self.name}: the size {letter} is a formula of {again}, which are formulas too")

    def check_cases(self):
        """Rejects a configuration with a setting that the row lacks."""
        large = [case.split() for case, _ in self.large_cases]
        words = [word for case in self.cases + self.checks + self.recorded + self.bench
                 for word in case.split()] + [word for case in large for word in case[1:]]
        words += [word for layer in self.layers for word in layer.split()
                  if word.split("=")[0] not in MODEL_WORDS]
        given = [*self.case_sizes, *(word.split("=")[0] for word in words)]
        assert set(given) <= set(
            self.settings), f"{self.name}: unknown settings {set(given) - set(self.settings)}"
        assert {*self.sizes, *self.small, *self.unreduced.split()} <= {
            *self.symbols, "N"
        }, f"{self.name}: sizes, small or unreduced name letters that no shape has"
        assert all(
            case[0] in LARGE_KINDS
            for case in large), f"{self.name}: a large case must begin with one of {LARGE_KINDS}"
        assert not (self.large
                    and self.not_large), f"{self.name}: expected large or not_large, got both"
        assert len(set(self.cases)) == len(self.cases), f"{self.name}: a case appears twice"

    def check(self):
        """Rejects a row that contradicts itself."""
        assert self.reports in REPORTS, (
            f"{self.name}: expected reports to be one of {REPORTS}, got {self.reports}")
        names = [f.name for f in self.fields]
        tensors = [t.name for t in self.tensors]
        for list_ in (names, [a.name for a in self.args]):
            assert len(set(list_)) == len(list_), f"{self.name}: a name appears twice in {list_}"
        for f in self.fields:
            assert not f.source or f.source in tensors, (
                f"{self.name}.{f.name}: no tensor {f.source}")
            decides = any(t.given.lstrip("!") == f.name for t in self.tensors)
            assert f.role != "dtype" or decides == (f.zero == "none"), (
                f"{self.name}.{f.name}: expected zero = none exactly for a field that decides "
                f"whether a tensor is passed, got {f.zero!r}")
            assert f.zero in ("", "none", "f32") or f.zero in names, (
                f"{self.name}.{f.name}: expected zero = none, f32 or a field, got {f.zero!r}")
            assert not f.usual or f.role == "present" or f.role == "dtype" and f.optional, (
                f"{self.name}.{f.name}: only fields of optional tensors can be usual")
            assert not f.follows or f.follows in names, (
                f"{self.name}.{f.name}: no field {f.follows}")
            assert f.role != "dim" or f.symbol in self.symbols, (
                f"{self.name}.{f.name}: no shape uses {f.symbol}")
        for t in self.tensors:
            assert t.dtype in DTYPES or t.dtype in names, (
                f"{self.name}.{t.name}: unknown dtype {t.dtype}")
            assert not t.given or t.given.lstrip("!") in names, (
                f"{self.name}.{t.name}: no field {t.given}")
            assert len(t.shape.split()) <= 4, f"{self.name}.{t.name}: at most four dimensions"
        for v in self.args:
            if isinstance(v, Value):
                assert not v.unless or v.unless in names, (
                    f"{self.name}.{v.name}: no field {v.unless}")
        for a, b in self.aliases:
            assert a in tensors and b in tensors, f"{self.name}: alias of unknown tensors {a}, {b}"
        assert not self.aliases or "in_place" in names, (
            f"{self.name}: aliases need an in_place field")
        for f in self.fields:
            for other in filter(None, (f.same_as, f.gradient_of)):
                assert other in names, f"{self.name}.{f.name}: no field {other}"
        if self.plan:
            self.check_plan()
        self.check_formulas()
        self.check_cases()
