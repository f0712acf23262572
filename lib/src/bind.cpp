#include "lib/src/bind.h"

#include <algorithm>
#include <string>

#include "lib/src/failure.h"
#include "lib/src/overlap.h"
#include "lib/src/structs.h"

namespace ligerdsl::lib {

namespace {

constexpr int kMaxGivenRank = 8;  // of a caller's tensor
constexpr int64_t kMaxElements = int64_t{1} << 60;

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

// "[N*, 2F]", and "[N*, 2F] = [?, 8192]" once sizes are known.
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
    letters += comma + (dim.factor > 1 ? std::to_string(dim.factor) : "") + info.symbols[dim.symbol] +
               (tensor.shape == ShapeKind::leading && i == 0 ? "..." : "");
    numbers += comma + (sizes[dim.symbol] < 0 ? "?" : std::to_string(sizes[dim.symbol] * dim.factor));
  }
  return letters + "] = " + numbers + "]";
}

[[noreturn]] void fail_argument(Status status, const char* name, const std::string& text) {
  fail(status, std::string("`") + name + "`: " + text);
}

// Sizes and strides of a caller's tensor, checked to be usable at all. Strides of contiguous tensors are computed.
struct Given {
  int64_t dims[kMaxGivenRank];
  int64_t strides[kMaxGivenRank];
  int rank;
};

Given read_given(const char* name, const ligerdsl_tensor_t& t) {
  require_shape(name, t);
  Given given;
  given.rank = t.ndim;
  int64_t elements = 1;
  for (int i = t.ndim - 1; i >= 0; --i) {
    const int64_t size = t.shape[i];
    if (size < 0) fail_argument(Status::invalid_shape, name, "a size is negative: " + shape_text(t));
    const int64_t stride = t.strides ? t.strides[i] : elements;
    if (stride < 0)
      fail_argument(Status::invalid_shape, name, "negative strides are not supported: " + strides_text(t));
    given.dims[i] = size;
    given.strides[i] = size == 1 ? 0 : stride;
    if (size > 0 && elements > kMaxElements / size) {
      fail_argument(Status::invalid_shape, name, "more than 2^60 elements: " + shape_text(t));
    }
    if (size > 0 && stride > kMaxElements / size) {
      fail_argument(Status::invalid_shape, name, "reaches beyond 2^60 elements: strides " + strides_text(t));
    }
    elements *= size > 0 ? size : 1;
  }
  return given;
}

// Joins dimensions [0, count) into one evenly strided dimension.
bool join_leading(const Given& given, int count, int64_t* size, int64_t* stride) {
  *size = 1;
  *stride = 0;
  bool even = true;
  for (int i = count - 1; i >= 0; --i) {
    if (given.dims[i] == 1) continue;
    if (*size <= 1) {
      *stride = given.strides[i];
    } else if (given.strides[i] != *stride * *size) {
      even = false;
    }
    *size *= given.dims[i];
  }
  return even || *size == 0;
}

void check_base(const char* name, const ligerdsl_tensor_t& t, DType dtype, ligerdsl_device_t device) {
  if (t.device.type != device.type || (device.type != LIGERDSL_CPU && t.device.id != device.id)) {
    fail_argument(Status::invalid_device, name,
                  "expected device {" + std::to_string(device.type) + ", " + std::to_string(device.id) + "}, got {" +
                      std::to_string(t.device.type) + ", " + std::to_string(t.device.id) + "}");
  }
  DType got;
  if (!dtype_from_code(code_of(t.dtype), &got) || got != dtype) {
    fail_argument(Status::invalid_dtype, name,
                  std::string("expected ") + ligerdsl::name(dtype) + ", got " + dtype_name(code_of(t.dtype)));
  }
}

void check_data(const char* name, const ligerdsl_tensor_t& t, BoundTensor* out, bool any_strides = false) {
  constexpr uint64_t kMaxOffset = uint64_t{1} << 62;
  if (t.byte_offset > kMaxOffset)
    fail_argument(Status::invalid_shape, name,
                  "byte_offset: expected at most 2^62, got " + std::to_string(t.byte_offset));
  // As a number: the sum of a null pointer and an offset is none.
  out->data = reinterpret_cast<std::byte*>(reinterpret_cast<uintptr_t>(t.data) + t.byte_offset);
  const bool empty = std::any_of(out->dims, out->dims + out->rank, [](int64_t d) { return d == 0; });
  if (!t.data && !empty) fail(Status::invalid_null_pointer, std::string("`") + name + "`: data is NULL");
  if (reinterpret_cast<uintptr_t>(out->data) % static_cast<uintptr_t>(size_of(out->dtype)) != 0) {
    fail_argument(Status::invalid_misaligned, name,
                  std::string("the address is not a multiple of the element's ") + std::to_string(size_of(out->dtype)) +
                      " bytes");
  }
  if (!any_strides && out->rank > 0 && out->dims[out->rank - 1] > 1 && out->strides[out->rank - 1] != 1) {
    fail_argument(Status::invalid_shape, name,
                  "the last dimension needs a stride of 1, got strides " + strides_text(t));
  }
}

void bind_shape(const BindRules& rules, const TensorInfo& info, const ligerdsl_tensor_t& t, Call* call,
                BoundTensor* out) {
  const Given given = read_given(info.name, t);
  const auto mismatch = [&](const std::string& why) {
    fail_argument(Status::invalid_shape, info.name,
                  "expected " + expected_shape(*rules.info, info, call->sizes) + ", got " + shape_text(t) + why);
  };
  out->rank = info.rank;
  const int trailing = info.shape == ShapeKind::leading ? info.rank - 1 : info.rank;
  const bool scalar = info.shape == ShapeKind::fixed && info.rank == 1 && info.dims[0].symbol < 0 && given.rank == 0;
  const int leading = given.rank - trailing;
  if (leading < 0 && !scalar) mismatch("");
  if (info.shape == ShapeKind::fixed && leading > 0) mismatch("");
  for (int i = 0; i < trailing; ++i) {
    const int to = info.rank - trailing + i;
    out->dims[to] = scalar ? 1 : given.dims[leading + i];
    out->strides[to] = scalar ? 0 : given.strides[leading + i];
  }
  if (info.shape == ShapeKind::leading && !join_leading(given, leading, &out->dims[0], &out->strides[0])) {
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
    if (t) fail_argument(Status::invalid_argument, info.name, "the plan was made without it; pass NULL or describe it");
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
  check_data(info.name, *t, out);
}

bool may_alias(const BindRules& rules, int a, int b) {
  return rules.in_place &&
         std::any_of(rules.info->aliases.begin(), rules.info->aliases.end(), [&](const AliasInfo& alias) {
           return (alias.output == a && alias.input == b) || (alias.output == b && alias.input == a);
         });
}

[[noreturn]] void fail_alias(const BindRules& rules, int output, int other, bool allowed) {
  const auto tensors = rules.info->tensors;
  fail_argument(
      Status::invalid_alias, tensors[output].name,
      std::string("shares memory with `") + tensors[other].name + "`" +
          (allowed ? ", but not with the same address and strides" : "; expected separate memory (or in_place)"));
}

// Every output against every other tensor. Address ranges settle nearly all pairs.
void check_aliases(const BindRules& rules, const Call& call) {
  struct Range {
    const std::byte *begin, *end;
  } ranges[kMaxTensors];
  const auto tensors = rules.info->tensors;
  const int n = static_cast<int>(tensors.size());
  for (int i = 0; i < n; ++i) {
    const BoundTensor& tensor = call.tensors[i];
    ranges[i] = tensor.present ? Range{tensor.data, tensor.data + span_bytes(tensor)} : Range{nullptr, nullptr};
  }
  for (int a = 0; a < n; ++a) {
    if (tensors[a].direction == Direction::in || ranges[a].begin == ranges[a].end) continue;
    if (!injective(call.tensors[a])) {
      fail_argument(Status::invalid_alias, tensors[a].name,
                    "an output reaches one element through two indices; check its strides");
    }
    for (int b = 0; b < n; ++b) {
      if (a == b || ranges[a].end <= ranges[b].begin || ranges[b].end <= ranges[a].begin) continue;
      if (ranges[b].begin == ranges[b].end || (b < a && tensors[b].direction != Direction::in)) continue;
      const Overlap found = overlap(call.tensors[a], call.tensors[b]);
      const bool allowed = may_alias(rules, a, b);
      if (found == Overlap::other || (found == Overlap::exact && !allowed)) fail_alias(rules, a, b, allowed);
    }
  }
}

}  // namespace

BindRules make_bind_rules(const OpInfo& info, const void* desc, ligerdsl_device_t device) {
  BindRules rules{};
  rules.info = &info;
  rules.device = device;
  std::fill(std::begin(rules.sizes), std::end(rules.sizes), -1);
  for (const FieldInfo& field : info.fields) {
    if (field.role == FieldRole::dim) rules.sizes[field.symbol] = read_integer(desc, field.offset, field.type);
    if (field.role == FieldRole::in_place) rules.in_place = read_integer(desc, field.offset, field.type) != 0;
  }
  for (size_t i = 0; i < info.tensors.size(); ++i) {
    const TensorInfo& tensor = info.tensors[i];
    const auto value = [&](int field) {
      return read_integer(desc, info.fields[field].offset, info.fields[field].type);
    };
    rules.given[i] = tensor.given_field < 0 || (value(tensor.given_field) != 0) != tensor.given_when_zero;
    rules.dtypes[i] = tensor.dtype;
    if (tensor.dtype_field >= 0) dtype_from_code(value(tensor.dtype_field), &rules.dtypes[i]);
  }
  return rules;
}

void require_shape(const char* name, const ligerdsl_tensor_t& t) {
  if (t.ndim < 0 || t.ndim > kMaxGivenRank) {
    fail_argument(Status::invalid_shape, name, "expected 0 to 8 dimensions, got " + std::to_string(t.ndim));
  }
  if (t.ndim > 0 && !t.shape) fail(Status::invalid_null_pointer, std::string("`") + name + "`: shape is NULL");
}

void bind_tensors(const BindRules& rules, Call* call) {
  std::copy(std::begin(rules.sizes), std::end(rules.sizes), std::begin(call->sizes));
  for (size_t i = 0; i < rules.info->tensors.size(); ++i) bind_one(rules, static_cast<int>(i), call);
  check_aliases(rules, *call);
}

void bind_free_tensor(const char* name, const ligerdsl_tensor_t& t, DType dtype, ligerdsl_device_t device,
                      BoundTensor* out, bool any_strides) {
  check_base(name, t, dtype, device);
  const Given given = read_given(name, t);
  if (given.rank > kMaxRank)
    fail_argument(Status::invalid_shape, name, "expected at most 5 dimensions, got " + shape_text(t));
  out->present = true;
  out->dtype = dtype;
  out->rank = given.rank;
  std::copy(given.dims, given.dims + given.rank, out->dims);
  std::copy(given.strides, given.strides + given.rank, out->strides);
  check_data(name, t, out, any_strides);
}

}  // namespace ligerdsl::lib
