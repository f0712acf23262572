#include "lib/cli/npy.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <fstream>
#include <regex>

#include "lib/cli/output.h"

namespace ligerdsl::cli {

namespace {

static_assert(std::endian::native == std::endian::little);

constexpr char kMagic[] = "\x93NUMPY\x01\x00";

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

// To nearest even, through the integer that the half's bits are when subnormals and carries are let through.
uint16_t float_to_half(float value) {
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const float magnitude = std::fabs(value);
  if (std::isnan(value)) return sign | 0x7e00;
  if (magnitude >= 65520.0f) return sign | 0x7c00;
  if (magnitude < std::ldexp(1.0f, -14)) return sign | static_cast<uint16_t>(std::nearbyint(std::ldexp(magnitude, 24)));
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
    case DType::i64:
      return static_cast<double>(read<int64_t>(at));
    case DType::i32:
      return read<int32_t>(at);
    default:
      return read<int8_t>(at);
  }
}

template <class T>
void put(std::string* bytes, T value) {
  bytes->append(reinterpret_cast<const char*>(&value), sizeof value);
}

[[noreturn]] void broken(const std::string& path, const std::string& what) {
  throw Failure(kUsage, fmt::format("{}: {}", path, what));
}

}  // namespace

int64_t elements(const std::vector<int64_t>& shape) {
  int64_t n = 1;
  for (const int64_t d : shape) n *= d;
  return n;
}

Array read_npy(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) broken(path, "cannot be read");
  char head[10];
  if (!file.read(head, sizeof head) || std::memcmp(head, kMagic, 8) != 0)
    broken(path, "not a .npy file of version 1.0");
  std::string header(read<uint16_t>(head + 8), '\0');
  if (!file.read(header.data(), static_cast<std::streamsize>(header.size()))) broken(path, "the header is cut off");
  std::smatch match;
  Array array;
  if (!std::regex_search(header, match, std::regex("'descr': *'([^']*)'"))) broken(path, "no descr in the header");
  array.descr = match[1];
  if (header.find("'fortran_order': False") == std::string::npos) broken(path, "expected C order");
  if (!std::regex_search(header, match, std::regex("'shape': *\\(([^)]*)\\)"))) broken(path, "no shape in the header");
  const std::string dims = match[1];
  const std::regex number("\\d+");
  for (std::sregex_iterator it(dims.begin(), dims.end(), number), end; it != end; ++it)
    array.shape.push_back(std::stoll(it->str()));
  const int64_t item = array.descr.size() == 3 ? array.descr[2] - '0' : 0;
  if (item < 1 || item > 8) broken(path, "unsupported type " + array.descr);
  array.bytes.resize(static_cast<size_t>(elements(array.shape) * item));
  if (!file.read(array.bytes.data(), static_cast<std::streamsize>(array.bytes.size())))
    broken(path, "the data is cut off");
  return array;
}

void write_npy(const std::string& path, const Array& array) {
  std::string shape;
  for (const int64_t d : array.shape) shape += fmt::format("{}, ", d);
  if (array.shape.size() > 1) shape.resize(shape.size() - 2);
  std::string header = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", array.descr, shape);
  header.append(63 - (10 + header.size()) % 64, ' ').push_back('\n');
  std::ofstream file(path, std::ios::binary);
  file.write(kMagic, 8);
  const auto size = static_cast<uint16_t>(header.size());
  file.write(reinterpret_cast<const char*>(&size), 2);
  file << header << array.bytes;
  if (!file) broken(path, "cannot be written");
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
    case DType::i64:
      put(bytes, static_cast<int64_t>(value));
      break;
    case DType::i32:
      put(bytes, static_cast<int32_t>(value));
      break;
    default:
      put(bytes, static_cast<int8_t>(value));
      break;
  }
}

std::vector<double> to_doubles(const std::string& bytes, DType type) {
  std::vector<double> values(bytes.size() / static_cast<size_t>(size_of(type)));
  for (size_t i = 0; i < values.size(); ++i) values[i] = value_at(bytes, type, i);
  return values;
}

std::string convert(const Array& array, DType to) {
  const auto n = static_cast<size_t>(elements(array.shape));
  std::string bytes;
  bytes.reserve(n * static_cast<size_t>(size_of(to)));
  const bool integers = array.descr[1] == 'i' || array.descr[1] == 'b';
  if (array.descr == "<u2" && to == DType::bf16) return array.bytes;
  if (array.descr == "<i8" && to == DType::i64) return array.bytes;  // beyond 2^53
  if (is_integer(to) && !integers)
    throw Failure(kUsage, fmt::format("expected integers for {}, got {}", name(to), array.descr));
  for (size_t i = 0; i < n; ++i) {
    double value = 0;
    if (array.descr == "<f4")
      value = value_at(array.bytes, DType::f32, i);
    else if (array.descr == "<f8")
      value = read<double>(array.bytes.data() + 8 * i);
    else if (array.descr == "<f2")
      value = value_at(array.bytes, DType::f16, i);
    else if (array.descr == "<i8")
      value = value_at(array.bytes, DType::i64, i);
    else if (array.descr == "<i4")
      value = value_at(array.bytes, DType::i32, i);
    else
      throw Failure(kUsage, fmt::format("unsupported type {} for {}", array.descr, name(to)));
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
                                            : "|i1";
  return {descr, std::move(shape), bytes};
}

}  // namespace ligerdsl::cli
