"""GroupNorm."""

from fields.parameters import LAYER_NORM_EPS, NORM_ACCUMULATE, NORM_BIAS, NORM_D_BIAS, NORM_D_WEIGHT
from table import Op, Plan, Tensor, absent, dim, dtype, in_place, present

KIND, TITLE = "norms", "GroupNorm"

GROUP_NORM_DOC = """x is [..., C, S]: C channels of S positions, one after the other. Images are [N, C, height * width].
Each of the K groups has C / K contiguous channels. mean and rstd = 1 / sqrt(mean((x - mean)^2) + eps)
are computed for each group of each batch:
  y = round((x - mean) * rstd * weight + bias)
with weight and bias of the channel; bias is 0 if it is not passed. Arithmetic is f32. The
statistics stay accurate if the mean is much larger than the deviations. Squares and their sum are
f32:
  - if the sum of squared deviations of a group is above 3.4e38 (4,096 deviations of 2.9e17), rstd
    is 0 or NaN;
  - if its variance plus eps is below 1e-38, rstd is above 1e19, infinite or NaN, and y has lost
    digits.
rstd thus shows both. The stride between batches is free. mean and rstd are contiguous."""
GROUP_NORM_GRAD = """n = (x - mean) * rstd, q = d_y * weight, means over a group of a batch, sums
over the batches and positions of a channel:
  d_x = round(rstd * (q - n * mean(n * q) - mean(q)))
  d_weight = sum of d_y * n
  d_bias = sum of d_y
Accumulates in f32 in a fixed order. Without batches d_weight and d_bias are 0. x, d_y and d_x are
[..., C, S] like the forward's x. d_x may be exactly d_y when in_place is set."""
IMAGE_HINT = "an image [N, C, height, width] is passed as [N, C, height * width]"
GROUP_NORM_SIZES = [dim("n_channels", "C", "weight", "channels"),
                    dim("n_positions", "S", "x", "elements of a channel"),
                    dim("n_groups", "K", "mean", "groups, a divisor of n_channels")]
GROUP_NORM_CASE_SIZES = {
    "N": "std::min(rows, std::max<int64_t>((rows + 3) / 4, 2))", "C": 24, "S": 49, "K": 3}

OPS = [
    Op("group_norm_forward",
       "GroupNorm",
       GROUP_NORM_DOC, [
           *GROUP_NORM_SIZES,
           dtype("dtype", "x"),
           dtype("weight_dtype", "weight"), LAYER_NORM_EPS,
           present("mean", usual=True),
           present("rstd", usual=True), NORM_BIAS
       ], [
           Tensor("x", "in", "N* C S", "dtype", "channels", hint=IMAGE_HINT),
           Tensor("weight", "in", "C", "weight_dtype", "scale of each channel"),
           Tensor("bias", "in", "C", "bias_dtype", "added to each channel, or NULL", "bias_dtype"),
           Tensor("y", "out", "N* C S", "dtype", "normalised channels", hint=IMAGE_HINT),
           Tensor("mean",
                  "out",
                  "N* K",
                  "f32",
                  "mean of each group, which the backward reads, or NULL",
                  "with_mean",
                  contiguous=True),
           Tensor("rstd",
                  "out",
                  "N* K",
                  "f32",
                  "rstd of each group, which the backward reads, or NULL",
                  "with_rstd",
                  contiguous=True)
       ],
       rows="batches of x",
       sharding="groups",
       plan=Plan(
           "channels=n_channels groups=n_groups positions=n_positions type=dtype "
           "weight_type=weight_dtype with_mean with_rstd without_bias=!bias_dtype",
           numbers="eps",
           hook=True),
       cases=["dtype=bf16", "with_mean=0 bias_dtype=none S=1 C=96"],
       checks=["N=3 C=12 S=20 K=4 dtype=bf16", "N=5 C=24 S=1 K=3 bias_dtype=none with_mean=0"],
       sizes={"N": 8, "C": 320, "K": 32, "S": 4096},
       small={"C": 12},
       case_sizes=GROUP_NORM_CASE_SIZES,
       large=["row dtype=bf16 C=8 S={512|8} K=2", "narrow dtype=bf16 C=2 S=1 K=1"],
       bench=["dtype={bf16|f32} N=rows(32|2) C=320 S=4096 K=32"]),
    Op("group_norm_backward",
       "gradient of GroupNorm",
       GROUP_NORM_GRAD, [
           *GROUP_NORM_SIZES,
           dtype("dtype", "x"),
           dtype("weight_dtype", "weight"), NORM_D_WEIGHT, NORM_D_BIAS, NORM_ACCUMULATE,
           in_place("1: d_x may be exactly d_y"),
           absent("d_x")
       ], [
           Tensor("d_y", "in", "N* C S", "dtype", "gradient of y", hint=IMAGE_HINT),
           Tensor("x", "in", "N* C S", "dtype", "the forward's x", hint=IMAGE_HINT),
           Tensor("weight", "in", "C", "weight_dtype", "the forward's weight"),
           Tensor("mean", "in", "N* K", "f32", "the forward's mean", contiguous=True),
           Tensor("rstd", "in", "N* K", "f32", "the forward's rstd", positive=True,
                  contiguous=True),
           Tensor("d_x",
                  "out",
                  "N* C S",
                  "dtype",
                  "gradient of x, or NULL",
                  "!without_d_x",
                  hint=IMAGE_HINT),
           Tensor("d_weight", "inout", "C", "d_weight_dtype", "gradient of weight, or NULL",
                  "d_weight_dtype"),
           Tensor("d_bias", "inout", "C", "d_bias_dtype", "gradient of bias, or NULL",
                  "d_bias_dtype")
       ],
       rows="batches of x",
       sharding="groups",
       aliases=[("d_x", "d_y")],
       plan=Plan(
           """channels=n_channels groups=n_groups positions=n_positions type=dtype
           weight_type=weight_dtype d_weight_type=d_weight_dtype
accumulate without_d_x""",
           hook=True),
       cases=[
           "dtype=bf16 d_weight_dtype=f32", "accumulate=1 in_place=1 S=1 C=96",
           "without_d_x=1 d_bias_dtype=none", "C=4 K=1 S=70000 dtype=bf16"
       ],
       checks=[
           "N=3 C=12 S=20 K=4 accumulate=1 in_place=1",
           "N=50 C=24 S=1 K=3 dtype=bf16 d_weight_dtype=f32",
           "N=5 C=6 S=100 K=2 dtype=f16 without_d_x=1 d_bias_dtype=none", "N=0 C=6 S=100 K=2"
       ],
       sizes={"N": 8, "C": 320, "K": 32, "S": 4096},
       small={"C": 12},
       case_sizes=GROUP_NORM_CASE_SIZES,
       large=[
           "row dtype=bf16 C=8 S={512|8} K=2 d_weight_dtype=f32",
           "narrow dtype=bf16 C=2 S=1 K=1 d_weight_dtype=f32"
       ],
       bench=["dtype={bf16|f32} N=rows(32|2) C=320 S=4096 K=32 d_weight_dtype=f32"]),
]
