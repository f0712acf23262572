#include "lib/abi/structs.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstring>
#include <optional>

#include "lib/abi/bind.h"
#include "lib/abi/failure.h"

namespace ligerdsl::lib {

namespace {

struct Header {
  size_t struct_size;
  uint32_t magic;
  uint32_t version;
};

// Returns "0.2.0" for 200.
std::string version_text(uint32_t version) {
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

// Returns the shortest text that parses to exactly this number.
std::string number(float value) {
  if (std::isnan(value)) return "nan";
  char text[32];
  return {text, std::to_chars(std::begin(text), std::end(text), value).ptr};
}

void set_integer(void* desc, const FieldInfo& field, int64_t value) {
  auto* at = static_cast<std::byte*>(desc) + field.offset;
  if (field.type == FieldType::i64) {
    *reinterpret_cast<int64_t*>(at) = value;
  } else {
    *reinterpret_cast<int32_t*>(at) = static_cast<int32_t>(value);
  }
}

// Returns the position, counted from the end, of the tensor's dimension with this symbol, or -1.
int from_end(const TensorInfo& tensor, int symbol, int64_t* factor) {
  for (int i = 0; i < tensor.rank; ++i) {
    if (tensor.dims[i].symbol != symbol) continue;
    *factor = tensor.dims[i].factor;
    return tensor.rank - 1 - i;
  }
  return -1;
}

// Returns the sizes that the description gives, by symbol; -1 for other symbols.
std::array<int64_t, kMaxSymbols> known_sizes(const OpInfo& info, const void* desc) {
  std::array<int64_t, kMaxSymbols> sizes;
  sizes.fill(-1);
  for (const FieldInfo& field : info.fields) {
    const int64_t size =
        field.role == FieldRole::dim ? read_integer(desc, field.offset, field.type) : 0;
    if (size > 0) sizes[field.symbol] = size;
  }
  return sizes;
}

// Returns a size from the tensor that the table names. If this tensor is not passed, returns it
// from another tensor with this size. Returns 0 for an optional size that no passed tensor has.
int64_t dim_from_tensors(const OpInfo& info, const FieldInfo& field, const void* desc,
                         const void* args) {
  const auto size_of = [&](const TensorInfo& from) -> std::optional<int64_t> {
    int64_t factor = 1;
    const int position = from_end(from, field.symbol, &factor);
    const ligerdsl_tensor_t* tensor = position < 0 ? nullptr : read_tensor(args, from);
    if (!tensor) return {};
    require_shape(from.name, *tensor);
    if (position >= tensor->ndim)
      fail_shape(info, from, known_sizes(info, desc).data(), *tensor,
                 std::string(", which does not determine `") + field.name + "`");
    const int dimension = tensor->ndim - 1 - position;
    const int64_t size = tensor->shape[dimension] / factor;
    if (size == 0 && !field.optional)
      fail(Status::invalid_shape, std::string("`") + from.name + "`: expected at least " +
                                      std::to_string(factor) + " along dimension " +
                                      std::to_string(dimension) + " (`" + field.name + "`), got " +
                                      std::to_string(tensor->shape[dimension]) +
                                      "; gather a tensor that is sharded over devices before the "
                                      "call");
    return size;
  };
  if (const auto size = size_of(info.tensors[field.source])) return *size;
  std::string having;
  for (const TensorInfo& tensor : info.tensors) {
    if (const auto size = size_of(tensor)) return *size;
    int64_t factor = 1;
    if (from_end(tensor, field.symbol, &factor) >= 0)
      having += (having.empty() ? "" : ", ") + std::string(tensor.name);
  }
  if (field.optional) return 0;
  fail(Status::invalid_shape,
       std::string("`") + field.name +
           "`: expected at least 1, got 0, and no tensor with this size (" + having +
           ") is passed; set it in the description, or pass one of these tensors");
}

bool any_alias(const OpInfo& info, const void* args) {
  const auto data = [&](int index) -> uintptr_t {
    const ligerdsl_tensor_t* tensor = read_tensor(args, info.tensors[index]);
    return tensor && tensor->data ? reinterpret_cast<uintptr_t>(tensor->data) + tensor->byte_offset
                                  : 0;
  };
  return std::any_of(info.aliases.begin(), info.aliases.end(), [&](const AliasInfo& alias) {
    return data(alias.output) && data(alias.output) == data(alias.input);
  });
}

const ligerdsl_tensor_t* source_tensor(const OpInfo& info, const FieldInfo& field,
                                       const void* args) {
  if (field.source >= 0) return read_tensor(args, info.tensors[field.source]);
  const auto list = list_of(info, args);
  return list.empty() ? nullptr : list.data();
}

// Returns the range in words.
std::string expected(const char* name, FieldType type, const Range& range) {
  const bool low = std::isfinite(range.low), high = std::isfinite(range.high);
  const auto text = [type](double bound) {
    return type == FieldType::f32 ? number(static_cast<float>(bound))
                                  : std::to_string(static_cast<int64_t>(bound));
  };
  if (type != FieldType::f32)
    return text(range.low) + (high ? " to " + text(range.high) : " or more");
  if (range.or_zero) return "0, or " + text(range.low) + " <= " + name + " <= " + text(range.high);
  if (low && high)
    return text(range.low) + " <= " + name + (range.below_high ? " < " : " <= ") + text(range.high);
  return std::string(range.infinite ? "a number" : "a finite number") +
         (low ? " >= " + text(range.low) : "");
}

bool contains(const Range& range, double value) {
  if (range.or_zero && value == 0) return true;
  return value >= range.low && (range.below_high ? value < range.high : value <= range.high);
}

[[noreturn]] void fail_range(Status status, const char* name, FieldType type, const Range& range,
                             const std::string& got, const char* more = "") {
  fail(status, std::string("`") + name + "`: expected " + expected(name, type, range) + ", got " +
                   got + more);
}

void check_integer(const FieldInfo& field, int64_t value) {
  if (contains(field.range, static_cast<double>(value))) return;
  const bool size = field.role == FieldRole::dim || field.role == FieldRole::queries;
  const char* const more =
      " (0 means \"as in the tensors\", but only in the one-call form; a width must not be 0)";
  fail_range(size ? Status::invalid_shape : Status::invalid_argument, field.name, field.type,
             field.range, std::to_string(value), size && value == 0 ? more : "");
}

void check_dtype(const FieldInfo& field, int64_t code) {
  if (code == 0 && field.optional) return;
  DType type;
  if (dtype_from_code(code, &type) && (field.dtypes & bit(type))) return;
  std::string allowed;
  for (size_t i = 0; i < std::size(kDTypes); ++i) {
    if (field.dtypes & bit(static_cast<DType>(i)))
      allowed += (allowed.empty() ? "" : ", ") + std::string(kDTypes[i].name);
  }
  fail(Status::invalid_dtype,
       std::string("`") + field.name + "`: expected one of " + allowed + ", got " +
           dtype_name(code) +
           (code == 0 ? " (0 means \"as in the tensors\", but only in the one-call form)" : ""));
}

void check_float(const char* name, const Range& range, float value) {
  if ((std::isfinite(value) || range.infinite) && contains(range, value)) return;
  fail_range(Status::invalid_argument, name, FieldType::f32, range, number(value));
}

}  // namespace

bool dtype_from_code(int64_t code, DType* type) {
  for (size_t i = 0; i < std::size(kDTypes); ++i) {
    const auto bits = static_cast<uint8_t>(8 * kDTypes[i].bytes);
    if (code_of({kDTypes[i].dlpack, bits, /*lanes=*/1}) == code) {
      *type = static_cast<DType>(i);
      return true;
    }
  }
  return false;
}

int64_t code_of(ligerdsl_dtype_t dtype) {
  return dtype.code | (static_cast<int64_t>(dtype.bits) << 8) |
         (static_cast<int64_t>(dtype.lanes) << 16);
}

std::string dtype_name(int64_t code) {
  DType type;
  if (dtype_from_code(code, &type)) return name(type);
  if (code == 0) return "none";
  return "dtype code " + std::to_string(code & 255) + ", " + std::to_string((code >> 8) & 255) +
         " bits, " + std::to_string((code >> 16) & 65535) + " lanes";
}

void read_struct(const char* what, const void* given, size_t size, size_t first_size,
                 const void* defaults, void* out) {
  require_pointer(given, what);
  Header header;
  std::memcpy(&header, given, sizeof header);
  constexpr const char* kInitialise = "; initialise the struct with its _INIT macro";
  constexpr const char* kRebuild = "; rebuild the caller with the headers of this library";
  const auto mismatch = [&](const std::string& text, const char* remedy) {
    fail(Status::abi_mismatch, std::string("`") + what + "`: " + text + remedy);
  };
  if (header.magic != LIGERDSL_MAGIC) mismatch("the magic number is missing", kInitialise);
  if (header.version / 10000 != LIGERDSL_VERSION_MAJOR) {
    mismatch("the struct is of major version " + std::to_string(header.version / 10000) +
                 ", expected " + std::to_string(LIGERDSL_VERSION_MAJOR),
             kRebuild);
  }
  if (header.struct_size < first_size) {
    mismatch("struct_size is " + std::to_string(header.struct_size) + ", expected at least " +
                 std::to_string(first_size),
             kInitialise);
  }
  if (header.struct_size > 64 * 1024)
    mismatch("struct_size is " + std::to_string(header.struct_size) + ", expected at most 65536",
             kInitialise);
  const auto* bytes = static_cast<const char*>(given);
  if (header.struct_size > size &&
      std::any_of(bytes + size, bytes + header.struct_size, [](char byte) { return byte != 0; })) {
    mismatch("the caller (version " + version_text(header.version) + ") sets fields after byte " +
                 std::to_string(size) + " that this library (" + version_text(LIGERDSL_VERSION) +
                 ") does not know",
             "; load a library of the caller's version, or rebuild the caller with the headers of "
             "this library");
  }
  std::memcpy(out, defaults, size);
  std::memcpy(out, given, std::min(size, header.struct_size));
}

bool is_of_this_release(const void* given, size_t size) {
  static_assert(sizeof(Header) == kHeaderBytes);
  Header header;
  std::memcpy(&header, given, sizeof header);
  return header.struct_size == size && header.magic == LIGERDSL_MAGIC &&
         header.version / 10000 == LIGERDSL_VERSION_MAJOR;
}

void fill_from_args(const OpInfo& info, const void* args, void* desc) {
  for (const TensorInfo& tensor : info.tensors) {
    if (tensor.given_field < 0) require_pointer(read_tensor(args, tensor), tensor.name);
  }
  for (const FieldInfo& field : info.fields) {
    if (field.type == FieldType::f32 || field.role == FieldRole::option) continue;
    if (read_integer(desc, field.offset, field.type) != 0) continue;
    if (field.role == FieldRole::in_place) {
      set_integer(desc, field, any_alias(info, args));
      continue;
    }
    if (field.role == FieldRole::dim) {
      set_integer(desc, field, dim_from_tensors(info, field, desc, args));
      continue;
    }
    const ligerdsl_tensor_t* tensor = source_tensor(info, field, args);
    if (field.role == FieldRole::absent) {
      set_integer(desc, field, !tensor);
      continue;
    }
    if (!tensor && field.role == FieldRole::dtype && field.source < 0)
      set_integer(desc, field, LIGERDSL_F32);  // an empty list fits every dtype
    if (!tensor) continue;
    require_shape(field.source >= 0 ? info.tensors[field.source].name : "tensors[0]", *tensor);
    if (field.role == FieldRole::dtype) set_integer(desc, field, code_of(tensor->dtype));
    if (field.role == FieldRole::present) set_integer(desc, field, 1);
    if (field.role == FieldRole::queries) {
      const FieldInfo& causal = info.fields[field.symbol];
      if (read_integer(desc, causal.offset, causal.type)) {
        set_integer(desc, field, tensor->ndim >= 2 ? tensor->shape[tensor->ndim - 2] : 1);
      }
    }
  }
}

void check_desc(const OpInfo& info, const void* desc) {
  for (const FieldInfo& field : info.fields) {
    if (field.type == FieldType::f32) {
      check_float(field.name, field.range, read_float(desc, field.offset));
    } else if (field.role == FieldRole::dtype) {
      check_dtype(field, read_integer(desc, field.offset, field.type));
    } else {
      check_integer(field, read_integer(desc, field.offset, field.type));
    }
  }
}

void check_value(const ValueInfo& value, const void* args) {
  if (value.type == FieldType::f32)
    return check_float(value.name, value.range, read_float(args, value.offset));
  const int64_t number = read_integer(args, value.offset, value.type);
  if (contains(value.range, static_cast<double>(number))) return;
  fail_range(Status::invalid_argument, value.name, value.type, value.range, std::to_string(number));
}

std::span<const ligerdsl_tensor_t> list_of(const OpInfo& info, const void* args) {
  if (info.list_offset < 0) return {};
  const auto* at = static_cast<const std::byte*>(args) + info.list_offset;
  const auto* first = *reinterpret_cast<const ligerdsl_tensor_t* const*>(at);
  const int64_t count = *reinterpret_cast<const int64_t*>(at + sizeof(void*));
  if (count < 0)
    fail(Status::invalid_argument, "`n_tensors`: expected 0 or more, got " + std::to_string(count));
  if (count > 0 && !first) {
    fail(Status::invalid_null_pointer,
         "`tensors` is NULL: expected n_tensors = " + std::to_string(count) +
             " tensors; an empty list has n_tensors = 0");
  }
  return {first, static_cast<size_t>(count)};
}

size_t desc_key(const OpInfo& info, const void* desc, char* out) {
  size_t used = 0;
  for (const FieldInfo& field : info.fields) {
    const size_t bytes = field.type == FieldType::i64 ? 8 : 4;
    std::memcpy(out + used, static_cast<const char*>(desc) + field.offset, bytes);
    used += bytes;
  }
  return used;
}

}  // namespace ligerdsl::lib
