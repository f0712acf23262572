// GroupNorm with K groups of C / K channels of S positions. The kernels get a group's channels as
// one row, [batch, group, (C / K) S], or as [batch, group, channel, position].
#include "kernels/norm/group_norm.h"

#include "lib/abi/ops/support.h"

namespace ligerdsl::lib {

namespace {

using Derived = OperationPlan::Bindings::Derived;

constexpr int64_t kMostOfGroup = int64_t{1}
                                 << 30;  // elements: positions within a group have 32 bits

template <class Desc>
void check_groups(const Desc& d) {
  if (d.n_channels % d.n_groups != 0)
    fail(Status::invalid_shape,
         "`n_groups`: expected a divisor of n_channels = " + std::to_string(d.n_channels) +
             ", got " + std::to_string(d.n_groups));
  if (d.n_positions > kMostOfGroup / (d.n_channels / d.n_groups))
    fail(Status::invalid_shape, "`n_positions`: expected groups of at most 2^30 elements, got " +
                                    std::to_string(d.n_channels / d.n_groups) + " channels of " +
                                    std::to_string(d.n_positions) + " positions; use more groups");
}

// Returns a view [batch, dims...] of a tensor [batch, C, S], with any batch stride. Fails if
// channels are not contiguous.
Derived channels(const char* name, int tensor, const std::string& memory,
                 const kernels::GroupNormOptions& o, std::vector<int64_t> dims) {
  const auto view_of = [name, tensor, stride = o.positions, dims](const Call& call) {
    BoundTensor view = call.tensors[tensor];
    if (view.dims[1] > 1 && view.strides[1] != stride)
      fail(Status::invalid_shape,
           std::string("`") + name + "`: expected contiguous channels, with a stride of " +
               std::to_string(stride) + ", got " + std::to_string(view.strides[1]) +
               "; make the channels contiguous");
    view.rank = 1 + static_cast<int>(dims.size());
    int64_t elements = 1;
    for (int i = view.rank - 1; i > 0; --i) {
      view.dims[i] = dims[i - 1];
      view.strides[i] = elements;
      elements *= dims[i - 1];
    }
    return view;
  };
  std::vector<int64_t> exact{-1};
  exact.insert(exact.end(), dims.begin(), dims.end());
  return {.name = name, .memory = memory, .view = view_of, .exact = exact};
}

// Returns a view of a tensor [batch, K] as one row.
Derived statistics(const char* name, int tensor, int64_t groups) {
  const auto view_of = [=](const Call& call) {
    BoundTensor view = call.tensors[tensor];
    if (view.dims[0] > 1 && view.strides[0] != groups)
      fail(Status::invalid_shape,
           std::string("`") + name + "`: expected a contiguous tensor, with a stride of " +
               std::to_string(groups) + " between batches, got " + std::to_string(view.strides[0]) +
               "; make the tensor contiguous");
    view.rank = 1;
    view.dims[0] *= groups;
    view.strides[0] = 1;
    return view;
  };
  return {.name = name, .memory = name, .view = view_of, .exact = {-1}};
}

}  // namespace

void adjust(const ligerdsl_group_norm_forward_desc_t& d, kernels::GroupNormOptions& options,
            OperationPlan::Bindings& bindings) {
  namespace op = group_norm_forward;
  check_groups(d);
  const std::vector<int64_t> rows{d.n_groups, options.row()};
  bindings.views = {channels("x", op::k_x, "x", options, rows),
                    channels("y", op::k_y, "y", options, rows)};
  if (d.with_mean) bindings.views.push_back(statistics("mean", op::k_mean, d.n_groups));
  if (d.with_rstd) bindings.views.push_back(statistics("rstd", op::k_rstd, d.n_groups));
}

void adjust(const ligerdsl_group_norm_backward_desc_t& d, kernels::GroupNormOptions& options,
            OperationPlan::Bindings& bindings) {
  namespace op = group_norm_backward;
  check_groups(d);
  set_wanted_gradients(d, &options);
  const int64_t of_group = options.channels_of_group();
  const std::vector<int64_t> tiles =
      options.positions == 1 ? std::vector<int64_t>{d.n_groups, 1, of_group}
                             : std::vector<int64_t>{d.n_groups, of_group, d.n_positions};
  bindings.views = {channels("d_y", op::k_d_y, "d_y", options, tiles),
                    channels("x", op::k_x, "x", options, tiles),
                    statistics("mean", op::k_mean, d.n_groups),
                    statistics("rstd", op::k_rstd, d.n_groups)};
  if (!d.without_d_x)
    bindings.views.push_back(
        channels("d_x", op::k_d_x, d.in_place ? "d_y" : "d_x", options, tiles));
}

}  // namespace ligerdsl::lib
