"""A step of AdamW and the norm that clips gradients."""

from table import Op, Tensor, TensorList, Value, dtype, present

OPS = [
    Op("adamw_step", "AdamW on one tensor",
       """g = grad * clip_factor; m = beta1 m + (1 - beta1) g; v = beta2 v + (1 - beta2) g^2;
param -= lr * (m / (1 - beta1^step) / (sqrt(v / (1 - beta2^step)) + eps) + weight_decay * param). Arithmetic in f32, one
rounding into param and one into param_copy. Updates param, m and v in place.
If skip is passed and is not 0, the step is left out: param, m, v and param_copy keep their bits, whatever grad and
clip_factor hold. The device reads the flag, so the host does not wait for it. device_step must be 1 or more; with a
smaller one everything keeps its bits as well, and ligerdsl_context_check reports it.""",
       [dtype("dtype", "param", "of param"), dtype("grad_dtype", "grad"),
        dtype("copy_dtype", "param_copy", "of param_copy; 0 = no copy", optional=True), present("clip_factor"),
        present("device_step", "1: device_lr and device_step are passed, so that a captured graph can be replayed"),
        dtype("skip_dtype", "skip", "of skip; 0 = no step is skipped", dtypes=("i32", "f32"), optional=True)],
       [Value("lr", "float", "1e-3f", "learning rate, unless device_lr is passed", 0, unless="with_device_step"),
        Value("beta1", "float", "0.9f", "decay of m", 0, 1, below_high=True),
        Value("beta2", "float", "0.999f", "decay of v", 0, 1, below_high=True),
        Value("eps", "float", "1e-8f", "added to the root", 0),
        Value("weight_decay", "float", "0.0f", "decoupled decay", 0),
        Value("step", "int64_t", "1", "number of this step, unless device_step is passed", 1, unless="with_device_step"),
        Tensor("param", "inout", "N*", "dtype", "parameters"), Tensor("grad", "in", "N*", "grad_dtype", "gradient"),
        Tensor("m", "inout", "N*", "f32", "first moment"), Tensor("v", "inout", "N*", "f32", "second moment"),
        Tensor("param_copy", "out", "N*", "copy_dtype", "rounded copy of param, or NULL", "copy_dtype"),
        Tensor("clip_factor", "in", "1", "f32", "multiplies grad, or NULL", "with_clip_factor"),
        Tensor("device_lr", "in", "1", "f32", "learning rate on the device, or NULL", "with_device_step"),
        Tensor("device_step", "in", "1", "i64", "step on the device, or NULL", "with_device_step"),
        Tensor("skip", "in", "1", "skip_dtype", "not 0: leave the step out, as nonfinite of global_norm (i32) or found_inf of a "
               "gradient scaler (f32) says; or NULL", "skip_dtype")],
       rows="elements", reports="step"),

    Op("global_norm", "norm of a list of tensors and the factor that clips it",
       """norm = sqrt(sum over all tensors of g^2), clip_factor = min(1, max_norm / (norm + 1e-6)); f32, fixed order. Squares
that would overflow or underflow are scaled, so that each norm that f32 holds is right. A NaN or Inf anywhere gives a
norm that is not finite. An empty list gives 0 and 1.
steps and skipped are counters on the device: a finite norm adds 1 to steps, another one adds 1 to skipped. adamw_step
takes steps as device_step and nonfinite as skip; then a step that is left out does not count in the bias correction.""",
       [dtype("dtype", "", "of every tensor; the one-call form takes it from the first"), present("clip_factor"),
        present("nonfinite"), present("steps"), present("skipped")],
       [TensorList("tensors", "contiguous tensors of one dtype"),
        Value("max_norm", "float", "1.0f", "largest norm that is not scaled down", 0, infinite=True),
        Tensor("norm", "out", "1", "f32", "the norm"),
        Tensor("clip_factor", "out", "1", "f32", "what to multiply gradients with, or NULL", "with_clip_factor"),
        Tensor("nonfinite", "out", "1", "i32", "1 if the norm is NaN or infinite, else 0; or NULL", "with_nonfinite"),
        Tensor("steps", "inout", "1", "i64", "how many norms were finite, or NULL", "with_steps"),
        Tensor("skipped", "inout", "1", "i64", "how many norms were NaN or infinite, or NULL", "with_skipped")],
       rows="elements of all tensors, plus 65,536 for each tensor"),
]
