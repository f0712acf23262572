"""One step of AdamW."""

from table import Op, Plan, Tensor, Value, dtype, present

KIND, TITLE = "optimizer", "AdamW"

OPS = [
    Op("adamw_step", "AdamW on one tensor",
       """g = grad * clip_factor
  m = beta1 m + (1 - beta1) g
  v = beta2 v + (1 - beta2) g^2
  param -= lr * (m / (1 - beta1^step) / (sqrt(v / (1 - beta2^step)) + eps) + weight_decay * param)
Arithmetic is f32, with one rounding into param and one into param_copy. Updates param, m and v in
place.
If skip is passed and is not 0, the step is skipped: param, m, v and param_copy keep their bits,
for any grad and clip_factor. The device reads the flag, so the host does not wait for it.
device_step must be at least 1. If it is smaller, all tensors keep their bits as well, and
ligerdsl_context_check reports it.""",
       [dtype("dtype", "param", "of param"), dtype("grad_dtype", "grad"),
        dtype("copy_dtype", "param_copy", "of param_copy; 0 = no copy", optional=True),
        present("clip_factor", usual=True),
        present(
            "device_step",
            "1: device_lr and device_step are passed, so that a captured graph can be replayed"),
        dtype("skip_dtype", "skip", "of skip; 0 = no step is skipped", dtypes=("i32", "f32"),
              optional=True)],
       [Value("lr", "float", "1e-3f", "learning rate, unless device_lr is passed", 0,
              unless="with_device_step"),
        Value("beta1", "float", "0.9f", "decay of m", 0, 1, below_high=True),
        Value("beta2", "float", "0.999f", "decay of v", 0, 1, below_high=True),
        Value("eps", "float", "1e-8f", "added to the square root", 0),
        Value("weight_decay", "float", "0.0f", "decoupled decay", 0),
        Value("step", "int64_t", "1", "number of this step, unless device_step is passed", 1,
              unless="with_device_step"),
        Tensor("param", "inout", "N*", "dtype", "parameters"),
        Tensor("grad", "in", "N*", "grad_dtype", "gradient"),
        Tensor("m", "inout", "N*", "f32", "first moment"),
        Tensor("v", "inout", "N*", "f32", "second moment", positive=True),
        Tensor("param_copy", "out", "N*", "copy_dtype", "rounded copy of param, or NULL",
               "copy_dtype"),
        Tensor("clip_factor", "in", "1", "f32", "multiplies grad, or NULL", "with_clip_factor"),
        Tensor("device_lr", "in", "1", "f32", "learning rate on the device, or NULL",
               "with_device_step"),
        Tensor("device_step", "in", "1", "i64", "step on the device, or NULL", "with_device_step"),
        Tensor("skip", "in", "1", "skip_dtype",
               "not 0: skip the step; nonfinite of global_norm (i32) or found_inf of a gradient "
               "scaler (f32); or NULL",
               "skip_dtype")],
       rows="elements", reports="step",
       plan=Plan("type=dtype gradient_type=grad_dtype with_copy=copy_dtype copy_type=copy_dtype "
                 "with_clip=with_clip_factor device_step=with_device_step with_skip=skip_dtype "
                 "skip_type=skip_dtype",
                 kernel="adamw_kernel", values="lr beta1 beta2 eps weight_decay",
                 tensors="parameter=param gradient=grad copy=param_copy clip=clip_factor "
                         "lr=device_lr step=device_step",
                 hook=True),
       cases=[
           "copy_dtype=bf16",
           "dtype=bf16 grad_dtype=bf16 with_device_step=1",
           "dtype=bf16 grad_dtype=bf16 copy_dtype=f16 with_device_step=1 skip_dtype=i32",
           "skip_dtype=f32"
       ],
       recorded=["copy_dtype=bf16", "with_device_step=1 with_clip_factor=0"],
       checks=[
           "copy_dtype=bf16 N=1000", "with_device_step=1 with_clip_factor=0 N=1000",
           "skip_dtype=i32 copy_dtype=bf16 N=1000", "with_device_step=1 skip_dtype=f32 N=1000"
       ],
       sizes={"N": 1 << 24},
       case_sizes={"N": "500 * rows + 3"},
       large=["flat grad_dtype=bf16 copy_dtype=bf16"],
       bench=["dtype=f32 grad_dtype=f32 copy_dtype=bf16 N={67108864|16777216}"]),
]
