#include "lib/instance/npy.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <istream>
#include <optional>

#include "interpreter/convert.h"
#include "lib/instance/npy_header.h"
#include "lib/text/clipped.h"
#include "lib/text/output.h"

namespace ligerdsl::cli {

namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr size_t kMaxHeader = size_t{1} << 20;  // limit for reading; write_npy() usually writes 118
constexpr size_t kChunk = size_t{1}
                          << 24;  // bytes per read, so that a wrong shape allocates little memory

// Element type of an .npy file.
struct Item {
  std::string_view descr;
  DType type;  // f32 and bytes = 8: float64
  int64_t bytes;
};
constexpr Item kItems[] = {{"<f4", DType::f32, 4},   {"<f8", DType::f32, 8}, {"<f2", DType::f16, 2},
                           {"<u2", DType::bf16, 2},  {"<i4", DType::i32, 4}, {"<i8", DType::i64, 8},
                           {"<i2", DType::i16, 2},   {"|i1", DType::i8, 1},  {"|b1", DType::i8, 1},
                           {"|u1", DType::f8e4m3, 1}};  // codes of f8e4m3 or of f8e5m2

template <class T>
T read(const char* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

float bf16_to_float(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

uint16_t float_to_bf16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if (std::isnan(value)) return static_cast<uint16_t>((bits >> 16) | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

float half_to_float(uint16_t bits) {
  const int exponent = (bits >> 10) & 31;
  const float fraction = static_cast<float>(bits & 1023);
  const float sign = bits & 0x8000 ? -1.0f : 1.0f;
  if (exponent == 31) return fraction != 0 ? NAN : sign * INFINITY;
  if (exponent == 0) return sign * std::ldexp(fraction, -24);
  return sign * std::ldexp(1024 + fraction, exponent - 25);
}

// Rounds to nearest even. The sum of exponent and fraction bits also handles a carry into the
// exponent and subnormals.
uint16_t float_to_half(float value) {
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const float magnitude = std::fabs(value);
  if (std::isnan(value)) return sign | 0x7e00;
  if (magnitude >= 65520.0f) return sign | 0x7c00;
  if (magnitude < std::ldexp(1.0f, -14))
    return sign | static_cast<uint16_t>(std::nearbyint(std::ldexp(magnitude, 24)));
  const int exponent = std::ilogb(magnitude);
  const auto fraction = static_cast<uint32_t>(std::nearbyint(std::ldexp(magnitude, 10 - exponent)));
  return sign | static_cast<uint16_t>(((exponent + 14) << 10) + fraction);
}

double value_at(const std::string& bytes, DType type, size_t i) {
  const char* at = bytes.data() + i * static_cast<size_t>(size_of(type));
  switch (type) {
    case DType::f32:
      return read<float>(at);
    case DType::f16:
      return half_to_float(read<uint16_t>(at));
    case DType::bf16:
      return bf16_to_float(read<uint16_t>(at));
    case DType::f8e4m3:
    case DType::f8e5m2:
      return interpreter::read_float(type, at);
    default:
      return static_cast<double>(interpreter::read_integer(type, at));
  }
}

template <class T>
void put(std::string* bytes, T value) {
  bytes->append(reinterpret_cast<const char*>(&value), sizeof value);
}

// A one-byte dtype may have any byte-order character; NumPy writes '|'.
const Item& item_of(const std::string& descr) {
  std::string known;
  for (const Item& item : kItems) {
    const bool same = item.bytes == 1 ? descr.size() == 3 && descr.substr(1) == item.descr.substr(1)
                                      : descr == item.descr;
    if (same) return item;
    known += (known.empty() ? "" : ", ") + std::string(item.descr);
  }
  throw NpyError(
      fmt::format("unsupported type '{}'{}; expected one of {} (<u2 for bf16, |u1 for fp8)",
                  tune::clipped(descr), descr.starts_with('>') ? ", big-endian" : "", known));
}

void read_exactly(std::istream& in, char* to, size_t bytes, const char* what) {
  if (!in.read(to, static_cast<std::streamsize>(bytes)))
    throw NpyError(fmt::format("{} is cut off", what));
}

std::string read_header(std::istream& in) {
  char head[8];
  if (!in.read(head, sizeof head) || std::string_view(head, kMagic.size()) != kMagic)
    throw NpyError("not a .npy file");
  const int major = static_cast<unsigned char>(head[6]),
            minor = static_cast<unsigned char>(head[7]);
  if (major < 1 || major > 3 || minor != 0)
    throw NpyError(
        fmt::format("a .npy file of version {}.{}; expected 1.0, 2.0 or 3.0", major, minor));
  char length[4] = {};
  read_exactly(in, length, major == 1 ? 2 : 4, "the header");
  const size_t bytes = read<uint32_t>(length);
  if (bytes > kMaxHeader)
    throw NpyError(fmt::format("a header of {} bytes; expected at most {}", bytes, kMaxHeader));
  std::string header(bytes, '\0');
  read_exactly(in, header.data(), bytes, "the header");
  return header;
}

std::string read_data(std::istream& in, size_t bytes) {
  std::string data;
  while (data.size() < bytes) {
    const size_t before = data.size(), piece = std::min(kChunk, bytes - before);
    data.resize(before + piece);
    in.read(data.data() + before, static_cast<std::streamsize>(piece));
    const auto got = static_cast<size_t>(in.gcount());
    if (got < piece)
      throw NpyError(
          fmt::format("expected {} bytes of data for the shape, got {}", bytes, before + got));
  }
  if (in.peek() != std::istream::traits_type::eof())
    throw NpyError(fmt::format("expected {} bytes of data for the shape, got more", bytes));
  return data;
}

// Returns the number of elements, or nothing if it exceeds any memory. If one dimension is 0, the
// product of the others must not overflow either.
std::optional<int64_t> product(const std::vector<int64_t>& shape) {
  constexpr int64_t kMost = int64_t{1} << 59;  // kMost elements of 8 bytes fit in int64_t
  int64_t n = 1;
  bool empty = false;
  for (const int64_t d : shape) {
    empty = empty || d == 0;
    if (d != 0 && n > kMost / d) return std::nullopt;
    if (d != 0) n *= d;
  }
  return empty ? 0 : n;
}

}  // namespace

int64_t elements(const std::vector<int64_t>& shape) {
  const std::optional<int64_t> n = product(shape);
  if (!n)
    throw Failure(
        kUsage, fmt::format("a tensor of [{}] is larger than any memory", fmt::join(shape, ", ")));
  return *n;
}

Array parse_npy(std::istream& in) {
  const NpyHeader header = parse_npy_header(read_header(in));
  Array array{.descr = header.descr, .shape = header.shape};
  const Item& item = item_of(header.descr);
  const std::optional<int64_t> n = product(header.shape);
  if (!n)
    throw NpyError(
        fmt::format("a shape of ({}) is larger than any memory", fmt::join(header.shape, ", ")));
  if (header.fortran_order && header.shape.size() > 1)
    throw NpyError("the array is in Fortran order; save numpy.ascontiguousarray(x)");
  array.bytes = read_data(in, static_cast<size_t>(*n * item.bytes));
  return array;
}

Array read_npy(const std::string& path) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file)
    throw Failure(kUsage, fmt::format("{}: cannot be read: {}", path, std::strerror(errno)));
  try {
    Array array = parse_npy(file);
    array.source = path;
    return array;
  } catch (const NpyError& error) {
    throw Failure(kUsage, fmt::format("{}: {}", path, error.what()));
  }
}

void write_npy(const std::string& path, const Array& array) {
  std::string shape;
  for (const int64_t d : array.shape) shape += fmt::format("{}, ", d);
  if (array.shape.size() > 1) shape.resize(shape.size() - 2);
  std::string header =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", array.descr, shape);
  header.append(63 - (10 + header.size()) % 64, ' ').push_back('\n');
  std::string file(kMagic);
  file.append("\x01\x00", 2);
  put(&file, static_cast<uint16_t>(header.size()));
  write_file(path, file + header + array.bytes);
}

void append(std::string* bytes, DType type, double value) {
  switch (type) {
    case DType::f32:
      put(bytes, static_cast<float>(value));
      break;
    case DType::f16:
      put(bytes, float_to_half(static_cast<float>(value)));
      break;
    case DType::bf16:
      put(bytes, float_to_bf16(static_cast<float>(value)));
      break;
    case DType::f8e4m3:
    case DType::f8e5m2:
      bytes->push_back('\0');
      interpreter::write_float(type, &bytes->back(), interpreter::saturate(type, value));
      break;
    default:
      bytes->resize(bytes->size() + static_cast<size_t>(size_of(type)));
      interpreter::write_integer(type, bytes->data() + bytes->size() - size_of(type),
                                 static_cast<int64_t>(value));
      break;
  }
}

std::vector<double> to_doubles(const std::string& bytes, DType type) {
  std::vector<double> values(bytes.size() / static_cast<size_t>(size_of(type)));
  for (size_t i = 0; i < values.size(); ++i) values[i] = value_at(bytes, type, i);
  return values;
}

namespace {

double number_at(const Array& array, const Item& item, size_t i) {
  if (item.bytes == 8 && item.type == DType::f32) return read<double>(array.bytes.data() + 8 * i);
  return value_at(array.bytes, item.type, i);
}

// Returns true if `to` is a float dtype, or an integer dtype that holds the value.
bool fits(DType to, double value) {
  if (to == DType::i64 || is_float(to)) return true;  // i64 holds every integer of a file
  return value >= static_cast<double>(least_of(to)) && value <= static_cast<double>(most_of(to));
}

}  // namespace

std::string convert(const Array& array, DType to) {
  const Item& item = item_of(array.descr);
  if (item.bytes == size_of(to) && item.type == to)
    return array.bytes;  // without conversion to double, which would round large i64
  if (is_fp8(item.type) && is_fp8(to)) return array.bytes;
  if (is_fp8(item.type) || item.type == DType::bf16)
    throw Failure(
        kUsage,
        fmt::format("{}: expected {}, got {}; save the array with another dtype, such as {}",
                    array.source, name(to),
                    is_fp8(item.type) ? "|u1 (uint8), which is read as fp8 codes"
                                      : "<u2 (uint16), which is read as bf16",
                    is_integer(to) ? "int32" : "float32"));
  if (is_integer(to) && !is_integer(item.type))
    throw Failure(kUsage, fmt::format("{}: expected integers for {}, got {}", array.source,
                                      name(to), array.descr));
  const auto n = static_cast<size_t>(elements(array.shape));
  std::string bytes;
  bytes.reserve(n * static_cast<size_t>(size_of(to)));
  for (size_t i = 0; i < n; ++i) {
    const double value = number_at(array, item, i);
    if (!fits(to, value))
      throw Failure(kUsage,
                    fmt::format("{}: element {} is {}, outside the range of {} ({} to {})",
                                array.source, i, value, name(to), least_of(to), most_of(to)));
    append(&bytes, to, value);
  }
  return bytes;
}

Array from_memory(const std::string& bytes, DType type, std::vector<int64_t> shape) {
  const char* descr = type == DType::f32    ? "<f4"
                      : type == DType::f16  ? "<f2"
                      : type == DType::bf16 ? "<u2"
                      : type == DType::i64  ? "<i8"
                      : type == DType::i32  ? "<i4"
                      : type == DType::i16  ? "<i2"
                      : is_fp8(type)        ? "|u1"
                                            : "|i1";
  return {.descr = descr, .shape = std::move(shape), .bytes = bytes};
}

}  // namespace ligerdsl::cli
