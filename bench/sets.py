"""The cases to time, without torch: model shapes, the named sets of compare.py, and their order.

A set lists its most important cases first, because a time limit drops the last ones.
"""

import json
import pathlib
import random
import sys
from dataclasses import dataclass

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "lib/codegen"))
from emit_cases import layers_of  # noqa: E402
from formulas import evaluate  # noqa: E402
from ops import OPS  # noqa: E402

Shape = tuple


@dataclass(frozen=True)
class Wanted:
    """A case and the memory of its inputs. They begin `address` bytes after a 256-byte boundary,
    and `pitch` unused elements follow each row."""
    kernel: str
    shape: Shape
    dtype: str = "bf16"
    address: int = 0
    pitch: int = 0

    @property
    def call(self):
        """Returns the shape as a string, and how inputs differ from aligned contiguous ones."""
        return ("x".join(map(str, self.shape)) + f":address+{self.address}" * bool(self.address)
                + f":pitch+{self.pitch}" * bool(self.pitch))

    def __str__(self):
        return f"{self.kernel} {self.call} {self.dtype}"


SHAPES = json.loads((ROOT / "lib/cli/bench/shapes.json").read_text())
MODELS = SHAPES["models"]
WIDTHS, VOCABULARIES = SHAPES["widths"], SHAPES["vocabularies"]
ROPES = ((8, 2048, 32, 8, 128), (1, 16384, 64, 8, 128))
# Batch size, tokens, query heads, key heads, columns per head.
ATTENTION = ((2, 4095, 16, 4, 128), (2, 4095, 16, 4, 64), (2, 4096, 16, 4, 128),
             (3, 3001, 12, 4, 96), (4, 4096, 16, 16, 80), (4, 4096, 16, 16, 72),
             (2, 4096, 8, 8, 192), (2, 4096, 8, 4, 256), (4, 4096, 16, 16, 64),
             (2, 4096, 16, 4, 120))
CE_TABLE = ((4096, 40960), (8192, 128256), (4096, 163840))


def model_cases(name, tokens=8192):
    """Returns a model's layers in `kernels/*/*.op.py`, with this number of tokens."""
    cases = []
    for op, settings in layers_of(OPS, MODELS[name]):
        kernel = op.name.removesuffix("_forward").removesuffix("_backward")
        layout = dict(settings).get("layout", "half")
        sizes = [value.strip("{}") for letter, value in settings if letter in op.symbols]
        cases.append(Wanted(kernel if layout == "half" else f"{kernel}_{layout}",
                            tuple(int(evaluate(size, {"tokens": tokens})) for size in sizes)))
    return list(dict.fromkeys(cases))


def issue2():
    """The kernels of the first release with their peers."""
    return [Wanted("vector_add", (1 << 26,), "f32"), Wanted("rms_norm", (16384, 8192)),
            Wanted("swiglu", (16384, 14336)), Wanted("rope", ROPES[0]),
            Wanted("softmax", (16384, 8192)), Wanted("fused_add_rms_norm", (16384, 8192)),
            Wanted("cross_entropy", (8192, 128256)), Wanted("embedding", (32768, 128256, 2048)),
            Wanted("rms_norm", (16384, 4096)), Wanted("swiglu", (8192, 11008)),
            Wanted("softmax", (16384, 4096)), Wanted("adamw", (1 << 26,), "f32"),
            Wanted("global_norm", (1 << 26,), "f32")]


def table():
    """All rows of the speed table; those of the geometric mean come first."""
    large = [Wanted("rms_norm", (16384, h)) for h in (4096, 8192, 16384)]
    large += [Wanted("layer_norm", (16384, h)) for h in (4096, 16384)]
    large += [Wanted("swiglu", (16384, 14336)), Wanted("geglu", (16384, 14336))]
    large += [Wanted("rope", shape) for shape in ROPES] + [
        Wanted("cross_entropy", shape) for shape in CE_TABLE]
    rest = [Wanted("rms_norm", shape)
            for shape in ((2048, 4096), (16384, 2048), (4096, 65536), (2048, 131072))]
    rest += [
        Wanted("layer_norm", shape) for shape in ((16384, 8192), (4096, 65536), (2048, 131072))]
    return large + rest


def geometric_mean():
    """The large cases whose forward + backward times enter the geometric mean."""
    return table()[:12]


def widths():
    """Widths that are not powers of two, and vocabularies of current models."""
    cases = [Wanted("cross_entropy", (4096, v)) for v in VOCABULARIES]
    for width in WIDTHS:
        cases += [Wanted("rms_norm", (16384, width)), Wanted("layer_norm", (16384, width)),
                  Wanted("swiglu", (8192, width))]
    return cases


def dtypes():
    """f32 and f16, at one shape per kernel that another set times in bf16."""
    cases = []
    for dtype in ("f32", "f16"):
        cases += [Wanted("rms_norm", (16384, 8192), dtype),
                  Wanted("layer_norm", (16384, 4096), dtype),
                  Wanted("swiglu", (16384, 14336), dtype), Wanted("geglu", (16384, 14336), dtype),
                  Wanted("rope", ROPES[0], dtype), Wanted("cross_entropy", (4096, 40960), dtype),
                  Wanted("softmax", (16384, 4096), dtype)]
    return cases


def options():
    """Options of cross-entropy that cost arithmetic."""
    return [Wanted("cross_entropy_softcap", (4096, 256000)),
            Wanted("cross_entropy_smoothing", (8192, 128256)),
            Wanted("cross_entropy_softcap", (8192, 128256)),
            Wanted("cross_entropy_smoothing", (4096, 40960)),
            Wanted("cross_entropy_softcap", (4096, 40960)),
            Wanted("cross_entropy_smoothing", (4096, 256000))]


ACTIVATIONS = ("gelu_tanh", "gelu_erf", "silu", "relu", "relu_squared")


def activations():
    """Activations without a gate, biases, dropout, and residual add with LayerNorm; a large width
    and GPT-2's."""
    cases = [
        Wanted(kernel, shape) for shape in ((16384, 14336), (8192, 3072)) for kernel in ACTIVATIONS]
    cases += [Wanted("bias_add", shape) for shape in ((16384, 4096), (16384, 14336), (8192, 3072))]
    cases += [Wanted("dropout", (16384, 14336)), Wanted("dropout", (8192, 768)),
              Wanted("dropout", (16384, 14336), "f32")]
    cases += [Wanted("fused_add_layer_norm", shape) for shape in ((16384, 8192), (8192, 768))]
    return cases + [
        Wanted(kernel, (16384, 14336), dtype) for dtype in ("f32", "f16") for kernel in ACTIVATIONS]


DIVERGENCES = ("kl_div", "jsd", "tvd")


def divergences():
    """Divergences of distillation, at the vocabularies of Llama 3 and Llama 2."""
    cases = [Wanted(kernel, shape) for shape in ((4096, 128256), (8192, 32000))
             for kernel in DIVERGENCES]
    return cases + [Wanted(kernel, (4096, 128256), "f32") for kernel in DIVERGENCES]


SUBSTITUTES = ("poly_norm", "dyt")


def substitutes():
    """Replacements of norms and activations."""
    cases = [Wanted(kernel, shape) for shape in ((16384, 4096), (16384, 8192), (4096, 16384),
                                                 (16384, 14336)) for kernel in SUBSTITUTES]
    return cases + [Wanted(kernel, (16384, 4096), "f32") for kernel in SUBSTITUTES]


# Batch size, channels, positions, groups. The shapes are latent images of a diffusion model, one
# large image, many small rows, and test shapes of peers.
GROUPS = ((8, 320, 4096, 32), (32, 320, 4096, 32), (2, 512, 16384, 32), (8, 1280, 256, 32),
          (65536, 256, 1, 32), (1, 128, 262144, 32), (16, 48, 8192, 12), (16, 32, 4096, 1),
          (2, 63, 2163, 21))


def groups():
    """GroupNorm of images and of rows."""
    return [Wanted("group_norm", shape) for shape in GROUPS] + [
        Wanted("group_norm", GROUPS[1], "f32")]


def single_precision():
    """f32 for kernels that other sets time mostly in 16 bits; scaling, and embeddings with
    positions."""
    f32 = [Wanted("scale", (16384, 4096), "f32"), Wanted("bias_add", (16384, 4096), "f32"),
           Wanted("fused_add_layer_norm", (16384, 8192), "f32"),
           Wanted("embedding_positions", (16384, 50257, 768, 1024), "f32"),
           *(Wanted(kernel, (16384, 4096), "f32") for kernel in SUBSTITUTES),
           Wanted("group_norm", GROUPS[1], "f32"), Wanted("sparsemax", (16384, 4096), "f32"),
           Wanted("sparsemax", (2048, 131072), "f32")]
    return [Wanted("scale", (16384, 4096)),
            Wanted("embedding_positions", (16384, 50257, 768, 1024)), *f32]


def embeddings():
    """Embeddings and their gradients: Llama 3's vocabulary, and GPT-2's with positions."""
    return [Wanted("embedding", (32768, 128256, 2048)), Wanted("embedding", (16384, 50257, 768)),
            *(Wanted("embedding_positions", (16384, 50257, 768, 1024), dtype)
              for dtype in ("bf16", "f32"))]


def wide_groups():
    """GroupNorm with groups of 512 KB to 2 MB."""
    return [Wanted("group_norm", shape)
            for shape in ((2, 512, 16384, 32), (2, 512, 32768, 32), (8, 128, 262144, 32))]


def modulated():
    """RMSNorm with a scale and a shift per image or prompt."""
    cases = [Wanted("modulated_rms_norm", shape)
             for shape in ((16384, 4096, 4), (16384, 3072, 16), (16384, 1152, 64), (4096, 8192, 1))]
    return cases + [Wanted("modulated_rms_norm", (16384, 4096, 4), "f32")]


def shards():
    """One of eight shards of the vocabularies of Llama 3 and Gemma."""
    return [Wanted("vocab_parallel_cross_entropy", shape, dtype) for shape in (
        (8192, 16032), (16384, 16032), (8192, 32768)) for dtype in ("bf16", "f32")]


def sparse():
    """Sparsemax of attention rows and of wide rows."""
    cases = [Wanted("sparsemax", shape) for shape in ((65536, 128), (32768, 512), (4096, 1024),
                                                      (16384, 4096), (8192, 32768), (2048, 131072))]
    return cases + [Wanted("sparsemax", shape, "f32")
                    for shape in ((4096, 1024), (16384, 4096), (2048, 131072))]


def sparse_widths():
    """16-bit sparsemax, one width for each kind of forward schedule."""
    return [Wanted("sparsemax", shape) for shape in ((65536, 128), (32768, 256), (32768, 512),
                                                     (8192, 24576), (8192, 32768), (2048, 131072))]


def head():
    """A quick overview: one case per kernel of the table, and fused linear cross-entropy."""
    return [Wanted("rms_norm", (16384, 8192)), Wanted("layer_norm", (16384, 4096)),
            Wanted("cross_entropy", (8192, 128256)), Wanted("swiglu", (16384, 14336)),
            Wanted("geglu", (16384, 14336)), Wanted("rope", ROPES[0]),
            Wanted("fused_linear_cross_entropy", (4096, 4096, 128256))]


FLCE_TABLE = ((16384, 4096, 128256), (8192, 2048, 128256), (4096, 4096, 128256),
              (8192, 4096, 128256), (32768, 4096, 128256))
FLCE_ERRORS = ("flce_deviation_1", "flce_deviation_4", "flce_deviation_12", "flce_trained")


def flce():
    return [Wanted("fused_linear_cross_entropy", shape) for shape in FLCE_TABLE]


def flce_losses():
    """Losses alone, as in an evaluation."""
    return [Wanted("flce_losses", shape) for shape in ((4096, 4096, 128256), (16384, 4096, 128256))]


def flce_per_token():
    """Per-row losses, with upstream gradients known only in backward."""
    return [
        Wanted("flce_per_token", shape) for shape in ((4096, 4096, 128256), (16384, 4096, 128256))]


def fused_jsd():
    """Distillation that includes the lm_heads."""
    return [Wanted("fused_linear_jsd", shape)
            for shape in ((4096, 4096, 128256), (8192, 2048, 32000), (8192, 4096, 128256))]


def flce_errors():
    """Errors of fused linear cross-entropy on flat and peaked rows: both whole gradients against
    float64."""
    return [Wanted(kernel, (2048, 1024, 32000)) for kernel in FLCE_ERRORS]


def products():
    """Matmuls: square, an lm_head's three, a small model's layers, few rows, short k, odd sizes,
    unaligned rows."""
    layouts = ("matmul_nt", "matmul_nn", "matmul_tn")
    return [*(Wanted(kernel, (8192, 8192, 8192)) for kernel in layouts),
            *(Wanted(kernel, (4096, 4096, 4096)) for kernel in layouts),
            *(Wanted(kernel, shape) for rows in (4096, 16384) for kernel, shape in zip(
                layouts, ((rows, 128256, 4096), (rows, 4096, 128256), (128256, 4096, rows)))),
            *(Wanted(kernel, (4096, 8192, 2048)) for kernel in layouts),
            *(Wanted("matmul_nt", (rows, 4096, 4096)) for rows in (256, 512, 1024)),
            *(Wanted(kernel, (4000, 4024, 4088)) for kernel in layouts),
            Wanted("matmul_nt", (4096, 4096, 128)), Wanted("matmul_nt", (4001, 4099, 4093)),
            Wanted("matmul_nn", (4096, 4099, 4096)), Wanted("matmul_tn", (4096, 4093, 4096))]


def odd_products():
    """Matmuls whose operand rows do not begin at 128-byte lines."""
    return [Wanted(kernel, shape) for shape in ((4000, 4024, 4088), (8192, 3000, 3000))
            for kernel in ("matmul_nt", "matmul_nn", "matmul_tn")]


def few_rows():
    """Matmuls with few rows, as in a linear layer with few tokens."""
    return [Wanted("matmul_nt", (rows, 4096, 4096)) for rows in (256, 128, 512, 64, 384)] + [
        Wanted("matmul_nn", (256, 4096, 4096)), Wanted("matmul_nt", (1024, 1024, 4096))]


def adjacent():
    """Sizes close to those of other sets: ragged sequences, head widths, vocabularies, unaligned
    rows, short k."""
    return ([Wanted("attention", shape) for shape in ATTENTION]
            + [Wanted("fused_linear_cross_entropy", (4096, 2048, v)) for v in (50257, 32001)] + [
        Wanted("matmul_nt", (4096, 4096, 64)), Wanted("grouped_matmul_nt", (8, 16384, 4096, 14336)),
        Wanted("cross_entropy", (1000000, 257)), Wanted("cross_entropy", (4096, 65000)),
        Wanted("cross_entropy", (4096, 65536)), Wanted("cross_entropy", (262144, 1000)),
        Wanted("adamw", (1 << 26,)), Wanted("adamw", (1 << 26,), "f32")])


def drawn():
    """Random sizes from a fixed seed, for which no schedule was tuned."""
    source = random.Random(50)
    pick, draw = (
        source.choice,
        lambda low, high, multiple=1: multiple * source.randint(low // multiple, high // multiple))
    cases = []
    for _ in range(4):
        kv = pick((1, 2, 4, 8))
        cases += [Wanted("attention",
                         (draw(1, 4), draw(500, 5000), kv * pick((1, 2, 4)), kv, draw(40, 256, 8))),
                  Wanted("matmul_nt", (draw(300, 9000), draw(300, 9000), draw(64, 9000, 8))),
                  Wanted("cross_entropy", (draw(500, 20000), draw(1000, 60000))),
                  Wanted("rms_norm", (draw(1000, 20000), draw(500, 9000)))]
    return cases + [Wanted("fused_linear_cross_entropy",
                           (draw(1000, 5000), draw(512, 4096, 8), draw(20000, 130000)))
                    for _ in range(2)]


def chain():
    """Small kernels one after the other on one stream: the cost of launches while the GPU is
    busy."""
    return [Wanted("rms_norm_chain", (2048, 4096))]


def figure():
    """The sweeps of the published figure: vocabulary, hidden size, sequence length; speed and
    memory."""
    cases = [Wanted("cross_entropy", (4096, v)) for v in (40960, 81920, 122880, 163840)]
    cases += [Wanted(kernel, (16384, h)) for h in (4096, 8192, 12288, 16384)
              for kernel in ("rms_norm", "layer_norm")]
    cases += [Wanted(kernel, (4 * t, 11008)) for t in (1024, 2048, 4096, 8192)
              for kernel in ("swiglu", "geglu")]
    cases += [Wanted("rope", (1, t, 32, 8, 128)) for t in (2048, 4096, 8192, 16384)]
    cases += [Wanted("fused_linear_cross_entropy", (t, 4096, 128256)) for t in (4096, 8192, 16384)]
    return cases


def models():
    return [case for name in MODELS for case in model_cases(name)]


def smoke():
    """Every kernel at a size that a CPU checks in a second, odd widths among them."""
    return [
        Wanted("vector_add", (1000,), "f32"), Wanted("rms_norm", (37, 96), "f32"),
        Wanted("rms_norm", (19, 257), "bf16"), Wanted("fused_add_rms_norm", (16, 96), "f32"),
        Wanted("layer_norm", (37, 96), "f32"), Wanted("layer_norm", (8, 33), "f16"),
        Wanted("fused_add_layer_norm", (16, 96), "f32"),
        *(Wanted(kernel, (16, 96), dtype) for kernel in ("bias_add", "dropout", *ACTIVATIONS)
          for dtype in ("f32", "bf16")),
        Wanted("swiglu", (16, 96), "bf16"), Wanted("geglu", (16, 96), "f32"),
        Wanted("rope", (2, 8, 4, 2, 16), "f32"),
        Wanted("rope_interleaved", (2, 8, 4, 2, 16), "f32"), Wanted("softmax", (16, 96), "f32"),
        Wanted("cross_entropy", (24, 130), "f32"), Wanted("cross_entropy", (24, 97), "bf16"),
        Wanted("cross_entropy_softcap", (24, 130), "f32"),
        Wanted("cross_entropy_smoothing", (24, 97), "bf16"),
        *(Wanted("scale", (16, 97), dtype) for dtype in ("f32", "bf16")),
        Wanted("embedding_positions", (24, 30, 16, 12), "f32"),
        *(Wanted(kernel, (24, 97), dtype)
          for kernel in ("sparsemax", "vocab_parallel_cross_entropy") for dtype in ("f32", "bf16")),
        *(Wanted(kernel, (24, 97), dtype) for kernel in DIVERGENCES for dtype in ("f32", "bf16")),
        *(Wanted(kernel, (24, 96), dtype) for kernel in SUBSTITUTES for dtype in ("f32", "bf16")),
        *(Wanted("group_norm", (3, 8, 10, 2), dtype) for dtype in ("f32", "bf16")),
        *(Wanted("modulated_rms_norm", (24, 96, 3), dtype) for dtype in ("f32", "bf16")),
        Wanted("embedding", (40, 30, 16), "f32"), Wanted("adamw", (1000,), "f32"),
        Wanted("global_norm", (1000,), "f32"),
        Wanted("fused_linear_cross_entropy", (24, 32, 130), "f32"),
        Wanted("fused_linear_jsd", (24, 32, 130), "f32"), Wanted("rms_norm_chain", (16, 96), "f32"),
        *(Wanted(kernel, (24, 40, 32), "bf16")
          for kernel in ("matmul_nn", "matmul_nt", "matmul_tn")),
        Wanted("attention", (2, 13, 4, 2, 16), "f32"), Wanted("attention", (1, 33, 2, 2, 24)),
        Wanted("grouped_matmul_nt", (3, 24, 32, 40)),
        *(Wanted(kernel, (24, 32, 130), "f32")
          for kernel in ("flce_losses", "flce_per_token", *FLCE_ERRORS))]


SETS = {"head": head, "issue2": issue2, "issue3-table": table, "widths": widths, "dtypes": dtypes,
        "options": options, "activations": activations, "divergences": divergences,
        "substitutes": substitutes, "groups": groups, "modulated": modulated,
        "wide_groups": wide_groups, "single_precision": single_precision, "embeddings": embeddings,
        "shards": shards, "sparse": sparse, "sparse_widths": sparse_widths, "flce": flce,
        "flce_losses": flce_losses, "flce_per_token": flce_per_token, "fused_jsd": fused_jsd,
        "flce_errors": flce_errors, "chain": chain, "products": products, "few_rows": few_rows,
        "adjacent": adjacent, "drawn": drawn, "odd_products": odd_products, "figure": figure,
        "models": models, "smoke": smoke}


def select(names, only=()):
    """Returns the cases of these sets in order, without duplicates. `only` selects kernels.

    Raises KeyError with the existing names.
    """
    cases = {}
    for name in names:
        if name in MODELS:
            found = model_cases(name)
        elif name in SETS:
            found = SETS[name]()
        else:
            raise KeyError(f"unknown set or model '{name}'; expected one of "
                           f"{', '.join([*SETS, *MODELS])}")
        cases.update(dict.fromkeys(found))
    unknown = set(only) - {case.kernel for case in cases}
    if unknown:
        raise KeyError(f"--only: the sets {', '.join(names)} have no kernel "
                       f"{', '.join(sorted(unknown))}")
    return [case for case in cases if not only or case.kernel in only]
