#include "lib/abi/bind.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <string>

#include "lib/abi/failure.h"
#include "lib/abi/structs.h"

namespace ligerdsl::lib {

namespace {

using kernels::Count;
using program::Overlap;

constexpr int kMaxGivenRank = 8;  // largest rank of a caller's tensor
constexpr const char* kMaxText = "2^56";
static_assert(kMaxElements == int64_t{1} << 56);

std::string shape_text(const ligerdsl_tensor_t& t) {
  std::string text = "[";
  for (int i = 0; i < t.ndim; ++i) text += (i ? ", " : "") + std::to_string(t.shape[i]);
  return text + "]";
}

std::string strides_text(const ligerdsl_tensor_t& t) {
  if (!t.strides) return "contiguous";
  std::string text = "[";
  for (int i = 0; i < t.ndim; ++i) text += (i ? ", " : "") + std::to_string(t.strides[i]);
  return text + "]";
}

// Returns the expected shape in letters and in numbers, like "[N..., 2F] = [?, 8192]".
std::string expected_shape(const OpInfo& info, const TensorInfo& tensor, const int64_t* sizes) {
  std::string letters = "[", numbers = "[";
  for (int i = 0; i < tensor.rank; ++i) {
    const DimSpec& dim = tensor.dims[i];
    const std::string comma = i ? ", " : "";
    if (dim.symbol < 0) {
      letters += comma + std::to_string(dim.factor);
      numbers += comma + std::to_string(dim.factor);
      continue;
    }
    letters += comma + (dim.factor > 1 ? std::to_string(dim.factor) : "") +
               info.symbols[dim.symbol] +
               (tensor.shape == ShapeKind::leading && i == 0 ? "..." : "");
    numbers +=
        comma + (sizes[dim.symbol] < 0 ? "?" : std::to_string(sizes[dim.symbol] * dim.factor));
  }
  return letters + "] = " + numbers + "]";
}

[[noreturn]] void fail_argument(Status status, const char* name, const std::string& text) {
  fail(status, std::string("`") + name + "`: " + text);
}

// Checked sizes and strides of a caller's tensor. If the caller gives no strides, or the tensor has
// no elements, the strides are those of a contiguous tensor.
struct Given {
  int64_t dims[kMaxGivenRank];
  int64_t strides[kMaxGivenRank];
  int rank;
};

Given read_given(const char* name, const ligerdsl_tensor_t& t) {
  require_shape(name, t);
  Given given;
  given.rank = t.ndim;
  const bool empty = std::find(t.shape, t.shape + t.ndim, 0) != t.shape + t.ndim;
  const int64_t* strides = empty ? nullptr : t.strides;
  Count elements = 1, reach = 0;
  for (int i = t.ndim - 1; i >= 0; --i) {
    const int64_t size = t.shape[i];
    if (size < 0)
      fail_argument(Status::invalid_shape, name,
                    "expected sizes of 0 or more, got shape " + shape_text(t));
    const int64_t stride = strides ? strides[i] : elements.value();
    if (stride < 0)
      fail_argument(
          Status::invalid_shape, name,
          "expected strides of 0 or more, got " + strides_text(t) + "; pass a contiguous copy");
    given.dims[i] = size;
    given.strides[i] = size == 1 ? 0 : stride;
    if (size == 0) continue;
    elements = elements * size;
    reach = reach + Count(size - 1) * stride;
    if (elements > kMaxElements)
      fail_argument(
          Status::invalid_shape, name,
          std::string("expected at most ") + kMaxText + " elements, got shape " + shape_text(t));
    if (reach > kMaxElements)
      fail_argument(Status::invalid_shape, name,
                    std::string("expected strides that span at most ") + kMaxText +
                        " elements, got " + strides_text(t) + " with shape " + shape_text(t));
  }
  return given;
}

// Joins dimensions [0, count) into one. Returns false if the joined dimension has elements but no
// single stride.
bool join_leading(const Given& given, int count, int64_t* size, int64_t* stride) {
  *size = 1;
  *stride = 0;
  bool even = true;
  for (int i = count - 1; i >= 0; --i) {
    if (given.dims[i] == 1) continue;
    if (*size <= 1) {
      *stride = given.strides[i];
    } else if (Count(*stride) * *size != given.strides[i]) {
      even = false;
    }
    *size *= given.dims[i];
  }
  return even || *size == 0;
}

// Returns the device's name as the `ligerdsl` command writes it: "cpu", "cuda:0".
std::string device_text(ligerdsl_device_t device) {
  if (device.type == LIGERDSL_CPU) return "cpu";
  if (device.type == LIGERDSL_CUDA) return "cuda:" + std::to_string(device.id);
  return "an unknown device type " + std::to_string(device.type) +
         " (LIGERDSL_CPU is 1, LIGERDSL_CUDA is 2)";
}

void check_base(const char* name, const ligerdsl_tensor_t& t, DType dtype,
                ligerdsl_device_t device) {
  if (t.device.type != device.type || (device.type != LIGERDSL_CPU && t.device.id != device.id)) {
    fail_argument(Status::invalid_device, name,
                  "expected a tensor on " + device_text(device) +
                      ", the context's device, got one on " + device_text(t.device));
  }
  DType got;
  if (!dtype_from_code(code_of(t.dtype), &got) || got != dtype) {
    fail_argument(
        Status::invalid_dtype, name,
        std::string("expected ") + ligerdsl::name(dtype) + ", got " + dtype_name(code_of(t.dtype)));
  }
}

void check_data(const char* name, const ligerdsl_tensor_t& t, BoundTensor* out,
                bool any_strides = false) {
  constexpr uint64_t kMaxOffset = uint64_t{1} << 62;
  if (t.byte_offset > kMaxOffset)
    fail_argument(Status::invalid_shape, name,
                  "byte_offset: expected at most 2^62, got " + std::to_string(t.byte_offset));
  // The sum is computed as an integer, because adding an offset to a null pointer is undefined.
  out->data = reinterpret_cast<std::byte*>(reinterpret_cast<uintptr_t>(t.data) + t.byte_offset);
  const bool empty =
      std::any_of(out->dims, out->dims + out->rank, [](int64_t d) { return d == 0; });
  if (!t.data && !empty)
    fail(Status::invalid_null_pointer, std::string("`") + name + "`: data is NULL");
  if (reinterpret_cast<uintptr_t>(out->data) % static_cast<uintptr_t>(size_of(out->dtype)) != 0) {
    fail_argument(Status::invalid_misaligned, name,
                  "expected an address that is a multiple of " +
                      std::to_string(size_of(out->dtype)) + " bytes, the size of " +
                      ligerdsl::name(out->dtype) + ", got " + address_text(out->data));
  }
  if (!any_strides && out->rank > 0 && out->dims[out->rank - 1] > 1 &&
      out->strides[out->rank - 1] != 1) {
    fail_argument(Status::invalid_shape, name,
                  "the last dimension needs a stride of 1, got strides " + strides_text(t) +
                      "; make the tensor contiguous");
  }
}

void bind_shape(const BindRules& rules, const TensorInfo& info, const ligerdsl_tensor_t& t,
                Call* call, BoundTensor* out) {
  const Given given = read_given(info.name, t);
  const int rows = info.shape == ShapeKind::leading ? info.dims[0].symbol : -1;
  const int64_t rows_before = rows < 0 ? -1 : call->sizes[rows];
  const auto mismatch = [&](const std::string& why) {
    if (rows >= 0 && given.rank > info.rank)
      call->sizes[rows] = rows_before;  // undoes the join of leading dimensions
    fail_shape(*rules.info, info, call->sizes, t, why);
  };
  out->rank = info.rank;
  const int trailing = info.shape == ShapeKind::leading ? info.rank - 1 : info.rank;
  const bool scalar = info.shape == ShapeKind::fixed && info.rank == 1 && info.dims[0].symbol < 0 &&
                      given.rank == 0;
  const int leading = given.rank - trailing;
  if (leading < 0 && !scalar) mismatch("");
  if (info.shape == ShapeKind::fixed && leading > 0) mismatch("");
  for (int i = 0; i < trailing; ++i) {
    const int to = info.rank - trailing + i;
    out->dims[to] = scalar ? 1 : given.dims[leading + i];
    out->strides[to] = scalar ? 0 : given.strides[leading + i];
  }
  if (info.shape == ShapeKind::leading &&
      !join_leading(given, leading, &out->dims[0], &out->strides[0])) {
    mismatch(" with strides " + strides_text(t) +
             ": the leading dimensions are not evenly strided; make the tensor contiguous");
  }
  for (int i = 0; i < info.rank; ++i) {
    const DimSpec& dim = info.dims[i];
    if (dim.symbol < 0) {
      if (out->dims[i] != dim.factor) mismatch("");
      continue;
    }
    int64_t& size = call->sizes[dim.symbol];
    if (size < 0 && out->dims[i] % dim.factor == 0) size = out->dims[i] / dim.factor;
    if (out->dims[i] != size * dim.factor) mismatch("");
  }
}

void bind_one(const BindRules& rules, int index, Call* call) {
  const TensorInfo& info = rules.info->tensors[index];
  const ligerdsl_tensor_t* t = read_tensor(call->args, info);
  BoundTensor* out = &call->tensors[index];
  out->present = rules.given[index];
  if (!out->present) {
    if (t)
      fail_argument(Status::invalid_argument, info.name,
                    "expected NULL, because the plan's description does not include this tensor; "
                    "pass NULL, or make a plan with it");
    return;
  }
  require_pointer(t, info.name);
  if (info.shape == ShapeKind::free) {
    bind_free_tensor(info.name, *t, rules.dtypes[index], rules.device, out);
    out->present = true;
    return;
  }
  check_base(info.name, *t, rules.dtypes[index], rules.device);
  out->dtype = rules.dtypes[index];
  bind_shape(rules, info, *t, call, out);
  check_data(info.name, *t, out, info.any_stride);
}

// Returns true if the operation has an in-place form in which these tensors are the same.
bool has_alias(const OpInfo& info, int a, int b) {
  return std::any_of(info.aliases.begin(), info.aliases.end(), [&](const AliasInfo& alias) {
    return (alias.output == a && alias.input == b) || (alias.output == b && alias.input == a);
  });
}

[[noreturn]] void fail_alias(const BindRules& rules, int output, int other, Overlap found) {
  const auto tensors = rules.info->tensors;
  const bool can = has_alias(*rules.info, output, other);
  const char* wanted = "; expected separate memory";
  if (can && found == Overlap::other)
    wanted =
        ", but not with the same address, shape and strides; expected exactly the same memory or "
        "separate memory";
  else if (can)
    wanted = "; expected separate memory, or `in_place` set in the description";
  fail_argument(Status::invalid_alias, tensors[output].name,
                std::string("shares memory with `") + tensors[other].name + "`" + wanted);
}

// Fails if an output overlaps itself, or a tensor that it may not overlap. For nearly all pairs of
// tensors, comparing the address ranges suffices.
void check_aliases(const BindRules& rules, const Call& call) {
  struct Range {
    const std::byte *begin, *end;
  } ranges[kMaxTensors];
  const auto tensors = rules.info->tensors;
  const int n = static_cast<int>(tensors.size());
  for (int i = 0; i < n; ++i) {
    const BoundTensor& tensor = call.tensors[i];
    ranges[i] = tensor.present ? Range{tensor.data, tensor.data + span_bytes(memory_of(tensor))}
                               : Range{nullptr, nullptr};
  }
  for (int a = 0; a < n; ++a) {
    if (tensors[a].direction == Direction::in || ranges[a].begin == ranges[a].end) continue;
    if (!injective(memory_of(call.tensors[a]))) {
      fail_argument(Status::invalid_alias, tensors[a].name,
                    "an output reaches one element through two indices; pass a tensor without "
                    "overlapping elements");
    }
    for (int b = 0; b < n; ++b) {
      if (a == b || ranges[a].end <= ranges[b].begin || ranges[b].end <= ranges[a].begin) continue;
      if (ranges[b].begin == ranges[b].end || (b < a && tensors[b].direction != Direction::in))
        continue;
      const Overlap found = overlap(memory_of(call.tensors[a]), memory_of(call.tensors[b]));
      const bool allowed = rules.in_place && has_alias(*rules.info, a, b);
      if (found == Overlap::other || (found == Overlap::exact && !allowed))
        fail_alias(rules, a, b, found);
    }
  }
}

// Returns the size of a dimension as the description gives it, or -1 if only the tensors give it.
Count size_of_dim(const BindRules& rules, const DimSpec& dim) {
  const int64_t size = dim.symbol < 0 ? 1 : rules.sizes[dim.symbol];
  return size < 0 ? Count(-1) : Count(size) * dim.factor;
}

}  // namespace

BindRules make_bind_rules(const OpInfo& info, const void* desc, ligerdsl_device_t device) {
  BindRules rules{};
  rules.info = &info;
  rules.device = device;
  std::fill(std::begin(rules.sizes), std::end(rules.sizes), -1);
  for (const FieldInfo& field : info.fields) {
    if (field.role == FieldRole::dim)
      rules.sizes[field.symbol] = read_integer(desc, field.offset, field.type);
    if (field.role == FieldRole::in_place)
      rules.in_place = read_integer(desc, field.offset, field.type) != 0;
  }
  for (size_t i = 0; i < info.tensors.size(); ++i) {
    const TensorInfo& tensor = info.tensors[i];
    const auto value = [&](int field) {
      return read_integer(desc, info.fields[field].offset, info.fields[field].type);
    };
    rules.given[i] =
        tensor.given_field < 0 || (value(tensor.given_field) != 0) != tensor.given_when_zero;
    rules.dtypes[i] = tensor.dtype;
    for (const int field : {tensor.dtype_zero_field, tensor.dtype_field})
      if (field >= 0) dtype_from_code(value(field), &rules.dtypes[i]);
  }
  for (size_t i = 0; i < info.values.size(); ++i) {
    const int unless = info.values[i].unless_field;
    rules.read[i] =
        unless < 0 || read_integer(desc, info.fields[unless].offset, info.fields[unless].type) == 0;
  }
  return rules;
}

void check_described_sizes(const BindRules& rules) {
  for (size_t i = 0; i < rules.info->tensors.size(); ++i) {
    const TensorInfo& tensor = rules.info->tensors[i];
    Count elements = rules.given[i] ? 1 : 0;
    for (int d = tensor.shape == ShapeKind::leading ? 1 : 0; d < tensor.rank; ++d)
      elements = elements * std::max<Count>(size_of_dim(rules, tensor.dims[d]), 1);
    if (elements <= kMaxElements) continue;
    fail_argument(Status::invalid_shape, tensor.name,
                  std::string("expected at most ") + kMaxText +
                      " elements, but the description gives it shape " +
                      expected_shape(*rules.info, tensor, rules.sizes));
  }
}

kernels::Count elements_per_row(const BindRules& rules, int tensor) {
  const TensorInfo& info = rules.info->tensors[tensor];
  if (!rules.given[tensor] || info.shape == ShapeKind::free) return 0;
  const bool leading = info.shape == ShapeKind::leading;
  Count elements = leading ? info.dims[0].factor : 1;
  int open = 0;  // sizes that the description lacks; in a fixed shape, a single one is the rows
  for (int i = leading ? 1 : 0; i < info.rank; ++i) {
    const Count size = size_of_dim(rules, info.dims[i]);
    if (!leading && size < 0) {
      ++open;
      continue;
    }
    elements = elements * std::max<Count>(size, 0);
  }
  return leading || open == 1 ? elements : Count(0);
}

std::string address_text(const void* address) {
  char text[2 * sizeof address];
  const auto end =
      std::to_chars(std::begin(text), std::end(text), reinterpret_cast<uintptr_t>(address), 16).ptr;
  return "0x" + std::string(text, end);
}

void fail_shape(const OpInfo& info, const TensorInfo& tensor, const int64_t* sizes,
                const ligerdsl_tensor_t& t, const std::string& why) {
  const std::string hint = tensor.hint;
  fail_argument(Status::invalid_shape, tensor.name,
                "expected " + expected_shape(info, tensor, sizes) + ", got " + shape_text(t) + why +
                    (hint.empty() ? "" : "; " + hint));
}

void require_shape(const char* name, const ligerdsl_tensor_t& t) {
  if (t.ndim < 0 || t.ndim > kMaxGivenRank) {
    fail_argument(Status::invalid_shape, name,
                  "expected 0 to 8 dimensions, got " + std::to_string(t.ndim));
  }
  if (t.ndim > 0 && !t.shape)
    fail(Status::invalid_null_pointer, std::string("`") + name + "`: shape is NULL");
}

void check_values(const BindRules& rules, const void* args) {
  for (size_t i = 0; i < rules.info->values.size(); ++i)
    if (rules.read[i]) check_value(rules.info->values[i], args);
}

void bind_tensors(const BindRules& rules, Call* call) {
  check_values(rules, call->args);
  std::copy(std::begin(rules.sizes), std::end(rules.sizes), std::begin(call->sizes));
  for (size_t i = 0; i < rules.info->tensors.size(); ++i)
    bind_one(rules, static_cast<int>(i), call);
  check_aliases(rules, *call);
}

void bind_free_tensor(const char* name, const ligerdsl_tensor_t& t, DType dtype,
                      ligerdsl_device_t device, BoundTensor* out, bool any_strides) {
  check_base(name, t, dtype, device);
  const Given given = read_given(name, t);
  if (given.rank > kMaxRank)
    fail_argument(Status::invalid_shape, name,
                  "expected at most 5 dimensions, got shape " + shape_text(t));
  out->present = true;
  out->dtype = dtype;
  out->rank = given.rank;
  std::copy(given.dims, given.dims + given.rank, out->dims);
  std::copy(given.strides, given.strides + given.rank, out->strides);
  check_data(name, t, out, any_strides);
}

}  // namespace ligerdsl::lib
