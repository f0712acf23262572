"""The norm of a list of tensors, which clips gradients."""

from table import Large, Op, Tensor, TensorList, Value, dtype, present

KIND, TITLE = "optimizer", "global norm"

OPS = [
    Op("global_norm", "norm of a list of tensors and the factor that clips it",
       """norm = sqrt(sum over all tensors of g^2), clip_factor = min(1, max_norm / (norm + 1e-6)).
Arithmetic is f32 in a fixed order. Squares that would overflow or underflow are scaled, so that
every norm that f32 can represent is accurate. A NaN or Inf anywhere gives a norm that is not
finite. An empty list gives 0 and 1. steps and skipped are counters on the device: a finite norm adds 1 to
steps, any other norm adds 1 to skipped. adamw_step takes steps as device_step and nonfinite as
skip. Its bias correction then does not count a skipped step.""",
       [dtype("dtype", "", "of every tensor; the one-call form takes it from the first"),
        present("clip_factor", usual=True), present("nonfinite"), present("steps"),
        present("skipped")],
       [TensorList("tensors", "contiguous tensors of one dtype"),
        Value("max_norm", "float", "1.0f", "largest norm that is not scaled down", 0,
              infinite=True),
        Tensor("norm", "out", "1", "f32", "the norm"),
        Tensor("clip_factor", "out", "1", "f32", "factor for gradients, or NULL",
               "with_clip_factor"),
        Tensor("nonfinite", "out", "1", "i32", "1 if the norm is NaN or infinite, else 0; or NULL",
               "with_nonfinite"),
        Tensor("steps", "inout", "1", "i64", "number of finite norms, or NULL", "with_steps"),
        Tensor("skipped", "inout", "1", "i64", "number of norms that were NaN or infinite, or NULL",
               "with_skipped")],
       rows="elements of all tensors, plus 65,536 for each tensor",
       cases=["dtype=bf16 with_nonfinite=1", "with_nonfinite=1 with_steps=1 with_skipped=1", ""],
       recorded=["with_nonfinite=1"],
       checks=["N=1000 T=3 with_nonfinite=1", "N=1000 T=3 with_steps=1 with_skipped=1", "N=0 T=2"],
       case_sizes={"N": "500 * rows + 3", "T": 3},
       large=[Large("flat dtype=bf16", combine={"norm": "norm", "clip_factor": "clip_factor"})],
       bench=["dtype=f32 N={67108864|16777216}"]),
]
