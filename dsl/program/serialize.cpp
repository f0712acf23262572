// The byte formats. Integers are little-endian. Strings and lists begin with a 32-bit count. Each
// format begins with four magic letters and the version of this file.
#include "program/serialize.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>

#include "program/op_info.h"
#include "program/verify.h"

namespace ligerdsl::program {
namespace {

constexpr uint32_t kVersion = 6;
constexpr uint64_t kCanonicalNan = 0x7ff8000000000000u;

class Writer {
 public:
  explicit Writer(const char* magic) {
    bytes_.append(magic, 4);
    u32(kVersion);
  }
  void u8(uint8_t value) { bytes_.push_back(static_cast<char>(value)); }
  void u16(uint16_t value) { little(value, 2); }
  void u32(uint32_t value) { little(value, 4); }
  void i32(int32_t value) { u32(static_cast<uint32_t>(value)); }
  void i64(int64_t value) { little(static_cast<uint64_t>(value), 8); }
  void f64(double value) {
    little(std::isnan(value) ? kCanonicalNan : std::bit_cast<uint64_t>(value), 8);
  }
  void text(std::string_view value) {
    u32(static_cast<uint32_t>(value.size()));
    bytes_.append(value);
  }
  template <class T, class Each>
  void list(const std::vector<T>& items, Each each) {
    u32(static_cast<uint32_t>(items.size()));
    for (const T& item : items) each(item);
  }
  void numbers(const std::vector<int64_t>& values) {
    list(values, [&](int64_t value) { i64(value); });
  }
  void ids(const std::vector<ValueId>& values) {
    list(values, [&](ValueId value) { u32(value); });
  }
  std::string take() { return std::move(bytes_); }

 private:
  void little(uint64_t value, int width) {
    for (int i = 0; i < width; ++i) bytes_.push_back(static_cast<char>(value >> (8 * i)));
  }
  std::string bytes_;
};

class Reader {
 public:
  Reader(std::string_view bytes, const char* magic, const char* what) : bytes_(bytes), what_(what) {
    if (bytes.size() < 8 || bytes.substr(0, 4) != std::string_view(magic, 4))
      fail("expected bytes that begin with " + std::string(magic, 4));
    at_ = 4;
    const uint32_t version = u32();
    if (version != kVersion) {
      fail("the bytes have version " + std::to_string(version) +
           ", but this library reads version " + std::to_string(kVersion));
    }
  }

  [[noreturn]] void fail(const std::string& reason) const {
    throw std::runtime_error(std::string("bad ") + what_ + " bytes at offset " +
                             std::to_string(at_) + ": " + reason);
  }
  uint8_t u8() { return static_cast<uint8_t>(little(1)); }
  uint16_t u16() { return static_cast<uint16_t>(little(2)); }
  uint32_t u32() { return static_cast<uint32_t>(little(4)); }
  int32_t i32() { return static_cast<int32_t>(u32()); }
  int64_t i64() { return static_cast<int64_t>(little(8)); }
  double f64() {
    const uint64_t bits = little(8);
    const auto value = std::bit_cast<double>(bits);
    if (std::isnan(value) && bits != kCanonicalNan)
      fail("a NaN has other bits than 0x7ff8000000000000");
    return value;
  }
  bool boolean() {
    const uint8_t value = u8();
    if (value > 1) fail("expected a boolean, 0 or 1, got " + std::to_string(value));
    return value == 1;
  }
  template <class E>
  E enumerator(uint8_t last) {
    const uint8_t value = u8();
    if (value > last)
      fail("expected an enumerator from 0 to " + std::to_string(last) + ", got " +
           std::to_string(value));
    return static_cast<E>(value);
  }
  std::string text() {
    const size_t size = count(1);
    std::string value(bytes_.substr(at_, size));
    at_ += size;
    return value;
  }
  // Reads the number of items in a list. Fails if the input is too short for that number of items
  // of `least` bytes, so that a wrong count allocates no memory.
  size_t count(size_t least) {
    const size_t n = u32();
    if (n > (bytes_.size() - at_) / least)
      fail("truncated: expected " + std::to_string(n) + " items of " + std::to_string(least) +
           " bytes or more, but only " + std::to_string(bytes_.size() - at_) + " bytes are left");
    return n;
  }
  template <class Each>
  auto list(size_t least, Each each) {
    std::vector<decltype(each())> items;
    const size_t n = count(least);
    items.reserve(n);
    for (size_t i = 0; i < n; ++i) items.push_back(each());
    return items;
  }
  std::vector<int64_t> numbers() {
    return list(8, [&] { return i64(); });
  }
  std::vector<ValueId> ids() {
    return list(4, [&] { return u32(); });
  }
  void end() const {
    if (at_ != bytes_.size()) fail(std::to_string(bytes_.size() - at_) + " bytes follow the end");
  }

 private:
  uint64_t little(size_t width) {
    if (bytes_.size() - at_ < width)
      fail("truncated: expected " + std::to_string(width) + " bytes, but only " +
           std::to_string(bytes_.size() - at_) + " are left");
    uint64_t value = 0;
    for (size_t i = 0; i < width; ++i)
      value |= uint64_t{static_cast<unsigned char>(bytes_[at_ + i])} << (8 * i);
    at_ += width;
    return value;
  }

  std::string_view bytes_;
  const char* what_;
  size_t at_ = 0;
};

// Program.

void write(Writer& out, const Type& type) {
  out.u8(static_cast<uint8_t>(type.kind));
  out.u8(static_cast<uint8_t>(type.dtype));
  out.numbers(type.shape);
  out.numbers(type.strides);
}

Type readType(Reader& in) {
  Type type;
  type.kind = in.enumerator<TypeKind>(static_cast<uint8_t>(TypeKind::ptr_tile));
  type.dtype = in.enumerator<DType>(static_cast<uint8_t>(std::size(kDTypes) - 1));
  type.shape = in.numbers();
  type.strides = in.numbers();
  return type;
}

void write(Writer& out, const Attr& attr) {
  out.u16(static_cast<uint16_t>(attr.key));
  out.u8(static_cast<uint8_t>(attr.value.index()));
  if (const auto* integer = std::get_if<int64_t>(&attr.value)) out.i64(*integer);
  if (const auto* number = std::get_if<double>(&attr.value)) out.f64(*number);
  if (const auto* text = std::get_if<std::string>(&attr.value)) out.text(*text);
  if (const auto* list = std::get_if<std::vector<int64_t>>(&attr.value)) out.numbers(*list);
}

Attr readAttr(Reader& in) {
  Attr attr{static_cast<AttrKey>(in.u16()), {}};
  if (!find(attr.key))
    in.fail("there is no attribute with number " + std::to_string(static_cast<int>(attr.key)));
  switch (in.enumerator<int>(3)) {
    case 0:
      attr.value = in.i64();
      break;
    case 1:
      attr.value = in.f64();
      break;
    case 2:
      attr.value = in.text();
      break;
    default:
      attr.value = in.numbers();
      break;
  }
  return attr;
}

void write(Writer& out, const Region& region);

void write(Writer& out, const Op& op) {
  out.u16(static_cast<uint16_t>(op.code));
  out.ids(op.operands);
  out.ids(op.results);
  out.list(op.attrs, [&](const Attr& attr) { write(out, attr); });
  out.list(op.regions, [&](const Region& region) { write(out, region); });
  out.u32(op.loc.file);
  out.u32(op.loc.line);
  out.u32(op.loc.column);
}

void write(Writer& out, const Region& region) {
  out.ids(region.arguments);
  out.list(region.ops, [&](const Op& op) { write(out, op); });
}

Region readRegion(Reader& in, int depth);

Op readOp(Reader& in, int depth) {
  Op op;
  op.code = static_cast<OpCode>(in.u16());
  if (!find(op.code))
    in.fail("there is no operation with number " + std::to_string(static_cast<int>(op.code)));
  op.operands = in.ids();
  op.results = in.ids();
  op.attrs = in.list(3, [&] { return readAttr(in); });
  op.regions = in.list(8, [&] { return readRegion(in, depth + 1); });
  op.loc = {in.u32(), in.u32(), in.u32()};
  return op;
}

Region readRegion(Reader& in, int depth) {
  if (depth > kMaxRegionDepth)
    in.fail("regions nest deeper than " + std::to_string(kMaxRegionDepth));
  Region region;
  region.arguments = in.ids();
  region.ops = in.list(30, [&] { return readOp(in, depth); });
  return region;
}

// Options and artifacts.

void write(Writer& out, const std::vector<SizeFact>& sizes) {
  out.list(sizes, [&](const SizeFact& size) {
    out.i64(size.exact);
    out.i64(size.divisor);
  });
}

std::vector<SizeFact> readSizes(Reader& in) {
  return in.list(16, [&] {
    SizeFact size;
    size.exact = in.i64();
    size.divisor = in.i64();
    if (size.exact < -1 || size.divisor < 1)
      in.fail("a size fact has exact " + std::to_string(size.exact) + " and divisor " +
              std::to_string(size.divisor) + ", expected -1 or more and 1 or more");
    return size;
  });
}

void write(Writer& out, const std::vector<ArgFacts>& facts) {
  out.list(facts, [&](const ArgFacts& fact) {
    out.i64(fact.pointer_align);
    write(out, fact.dims);
    write(out, fact.strides);
    out.u32(fact.alias_class);
    out.u8(fact.read_only);
  });
}

void write(Writer& out, const std::vector<TensorMap>& maps) {
  out.list(maps, [&](const TensorMap& map) {
    out.u32(map.slot);
    out.u8(static_cast<uint8_t>(map.type));
    out.numbers(map.box);
    out.i32(map.swizzle);
    out.i32(map.sliced);
    out.u8(map.stores);
  });
}

std::vector<TensorMap> readMaps(Reader& in) {
  return in.list(18, [&] {
    TensorMap map;
    map.slot = in.u32();
    map.type = in.enumerator<DType>(static_cast<uint8_t>(std::size(kDTypes) - 1));
    map.box = in.numbers();
    map.swizzle = in.i32();
    map.sliced = in.i32();
    map.stores = in.boolean();
    if (map.box.empty() || map.dims() > TensorMap::kMostDims)
      in.fail(
          "expected a tensor map with a box of 1 or more dimensions and at most 5 dimensions "
          "in all, got a box of " +
          std::to_string(map.box.size()) + " and " + std::to_string(map.dims()) + " in all");
    if (map.sliced >= static_cast<int32_t>(map.box.size()) - 1 && map.sliced >= 0)
      in.fail("expected a tensor map of slices along a dimension before the last (" +
              std::to_string(map.box.size() - 1) + "), got dimension " +
              std::to_string(map.sliced));
    return map;
  });
}

std::vector<ArgFacts> readFacts(Reader& in) {
  return in.list(21, [&] {
    ArgFacts fact;
    fact.pointer_align = in.i64();
    if (fact.pointer_align < 1)
      in.fail("pointer_align must be positive, got " + std::to_string(fact.pointer_align));
    fact.dims = readSizes(in);
    fact.strides = readSizes(in);
    fact.alias_class = in.u32();
    fact.read_only = in.boolean();
    return fact;
  });
}

void write(Writer& out, const std::vector<std::string>& lines) {
  out.list(lines, [&](const std::string& line) { out.text(line); });
}

std::vector<std::string> readLines(Reader& in) {
  return in.list(4, [&] { return in.text(); });
}

}  // namespace

std::string serialize(const Program& program) {
  Writer out("LGDP");
  out.text(program.name);
  write(out, program.files);
  out.list(program.values, [&](const Type& type) { write(out, type); });
  out.list(program.arguments, [&](const Argument& argument) {
    out.text(argument.name);
    out.u32(argument.value);
    out.u8(argument.read_only);
  });
  write(out, program.body);
  return out.take();
}

Program parseProgram(std::string_view bytes) {
  Reader in(bytes, "LGDP", "program");
  Program program;
  program.name = in.text();
  program.files = readLines(in);
  program.values = in.list(10, [&] { return readType(in); });
  program.arguments = in.list(9, [&] {
    Argument argument;
    argument.name = in.text();
    argument.value = in.u32();
    argument.read_only = in.boolean();
    return argument;
  });
  program.body = readRegion(in, 0);
  in.end();
  verify(program);
  return program;
}

std::string serialize(const CompileOptions& options) {
  Writer out("LGDO");
  out.u8(static_cast<uint8_t>(options.target));
  out.text(options.arch);
  out.text(options.features);
  for (int32_t value : {options.ptx_version, options.num_warps, options.num_ctas,
                        options.num_stages, options.max_registers, options.min_ctas_per_sm}) {
    out.i32(value);
  }
  out.u8(options.launch_overlap);
  out.u8(options.contract);
  write(out, options.facts);
  out.text(options.emit);
  out.text(options.tile);
  out.text(options.tile_file);
  out.u8(options.spans);
  return out.take();
}

CompileOptions parseOptions(std::string_view bytes) {
  Reader in(bytes, "LGDO", "options");
  CompileOptions options;
  options.target = in.enumerator<Target>(1);
  options.arch = in.text();
  options.features = in.text();
  for (int32_t* value : {&options.ptx_version, &options.num_warps, &options.num_ctas,
                         &options.num_stages, &options.max_registers, &options.min_ctas_per_sm}) {
    *value = in.i32();
  }
  options.launch_overlap = in.boolean();
  options.contract = in.boolean();
  options.facts = readFacts(in);
  options.emit = in.text();
  options.tile = in.text();
  options.tile_file = in.text();
  options.spans = in.boolean();
  in.end();
  return options;
}

std::string serialize(const Artifact& artifact) {
  Writer out("LGDA");
  out.u8(static_cast<uint8_t>(artifact.target));
  out.text(artifact.arch);
  out.text(artifact.entry);
  out.text(artifact.code);
  out.u32(artifact.slots);
  out.i32(artifact.threads);
  out.i32(artifact.cluster);
  out.i64(artifact.shared_bytes);
  out.u8(artifact.launch_overlap);
  out.u8(artifact.persistent);
  out.u8(artifact.dynamic_persistent);
  out.i64(artifact.arena_bytes);
  out.i32(artifact.ptx_version);
  write(out, artifact.maps);
  write(out, artifact.facts);
  out.list(artifact.remarks, [&](const Remark& remark) {
    out.text(remark.file);
    out.u32(remark.line);
    out.u32(remark.column);
    out.text(remark.pass);
    out.text(remark.text);
    out.text(remark.id);
  });
  out.list(artifact.times, [&](const PhaseTime& time) {
    out.text(time.name);
    out.f64(time.milliseconds);
  });
  out.list(artifact.spans, [&](const Span& span) {
    out.text(span.name);
    out.text(span.detail);
    out.i64(span.begin_us);
    out.i64(span.duration_us);
  });
  return out.take();
}

Artifact parseArtifact(std::string_view bytes) {
  Reader in(bytes, "LGDA", "artifact");
  Artifact artifact;
  artifact.target = in.enumerator<Target>(1);
  artifact.arch = in.text();
  artifact.entry = in.text();
  artifact.code = in.text();
  artifact.slots = in.u32();
  artifact.threads = in.i32();
  artifact.cluster = in.i32();
  artifact.shared_bytes = in.i64();
  artifact.launch_overlap = in.boolean();
  artifact.persistent = in.boolean();
  artifact.dynamic_persistent = in.boolean();
  artifact.arena_bytes = in.i64();
  artifact.ptx_version = in.i32();
  artifact.maps = readMaps(in);
  artifact.facts = readFacts(in);
  artifact.remarks = in.list(24, [&] {
    Remark remark;
    remark.file = in.text();
    remark.line = in.u32();
    remark.column = in.u32();
    remark.pass = in.text();
    remark.text = in.text();
    remark.id = in.text();
    return remark;
  });
  artifact.times = in.list(12, [&] {
    PhaseTime time;
    time.name = in.text();
    time.milliseconds = in.f64();
    return time;
  });
  artifact.spans = in.list(24, [&] {
    Span span;
    span.name = in.text();
    span.detail = in.text();
    span.begin_us = in.i64();
    span.duration_us = in.i64();
    return span;
  });
  in.end();
  if (artifact.shared_bytes < 0 || artifact.arena_bytes < 0 || artifact.threads < 0 ||
      artifact.cluster < 1) {
    in.fail(
        "shared_bytes, arena_bytes and threads must not be negative, and cluster must be 1 or "
        "more");
  }
  return artifact;
}

}  // namespace ligerdsl::program
