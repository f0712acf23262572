#include "tests/onnx/proto.h"

#include <cstring>
#include <stdexcept>
#include <string_view>

namespace ligerdsl::test::onnx {
namespace {

// One field of a protobuf message. It has a varint or bytes, depending on the wire type.
struct Field {
  int number = 0;
  int wire = 0;
  uint64_t value = 0;
  std::string_view bytes;
};

class Reader {
 public:
  explicit Reader(std::string_view bytes) : rest_(bytes) {}

  bool done() const { return rest_.empty(); }
  uint64_t varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<uint8_t>(take(1)[0]);
      value |= static_cast<uint64_t>(byte & 127) << shift;
      if (byte < 128) return value;
    }
    throw std::runtime_error("protobuf: a varint is too long");
  }
  Field field() {
    const uint64_t key = varint();
    Field f{.number = static_cast<int>(key >> 3), .wire = static_cast<int>(key & 7)};
    switch (f.wire) {
      case 0:
        f.value = varint();
        break;
      case 1:
        f.bytes = take(8);
        break;
      case 2:
        f.bytes = take(varint());
        break;
      case 5:
        f.bytes = take(4);
        break;
      default:
        throw std::runtime_error("protobuf: unknown wire type");
    }
    return f;
  }
  std::string_view take(uint64_t n) {
    if (n > rest_.size()) throw std::runtime_error("protobuf: truncated");
    const std::string_view out = rest_.substr(0, n);
    rest_.remove_prefix(n);
    return out;
  }

 private:
  std::string_view rest_;
};

template <class T, class Out>
void append_raw(std::string_view bytes, std::vector<Out>& out) {
  for (; bytes.size() >= sizeof(T); bytes.remove_prefix(sizeof(T))) {
    T value;
    std::memcpy(&value, bytes.data(), sizeof value);
    out.push_back(static_cast<Out>(value));
  }
}

// Appends the integers of a repeated field, which may be packed.
void append_integers(const Field& f, std::vector<int64_t>& out) {
  if (f.wire == 0) out.push_back(static_cast<int64_t>(f.value));
  for (Reader packed(f.bytes); !packed.done();)
    out.push_back(static_cast<int64_t>(packed.varint()));
}

enum DataType { kFloat = 1, kInt32 = 6, kInt64 = 7, kDouble = 11 };

}  // namespace

TensorProto parse_tensor(const std::string& bytes) {
  TensorProto out;
  uint64_t type = 0;
  std::string_view raw;
  for (Reader reader(bytes); !reader.done();) {
    const Field f = reader.field();
    if (f.number == 1) append_integers(f, out.dims);
    if (f.number == 2) type = f.value;
    if (f.number == 4) append_raw<float>(f.bytes, out.numbers);
    if (f.number == 5 || f.number == 7) append_integers(f, out.integers);
    if (f.number == 9) raw = f.bytes;
    if (f.number == 10) append_raw<double>(f.bytes, out.numbers);
  }
  out.is_float = type == kFloat || type == kDouble;
  switch (type) {
    case kFloat:
      append_raw<float>(raw, out.numbers);
      break;
    case kDouble:
      append_raw<double>(raw, out.numbers);
      break;
    case kInt32:
      append_raw<int32_t>(raw, out.integers);
      break;
    case kInt64:
      append_raw<int64_t>(raw, out.integers);
      break;
    default:
      throw std::runtime_error("ONNX tensor of the unsupported data type " + std::to_string(type));
  }
  return out;
}

namespace {

Node parse_node(std::string_view bytes) {
  Node node;
  for (Reader reader(bytes); !reader.done();) {
    const Field f = reader.field();
    if (f.number == 1) node.inputs.emplace_back(f.bytes);
    if (f.number == 4) node.op = f.bytes;
    if (f.number != 5) continue;
    std::string name;
    Attribute attribute;
    for (Reader inner(f.bytes); !inner.done();) {
      const Field a = inner.field();
      if (a.number == 1) name = a.bytes;
      if (a.number == 2) {
        std::vector<double> real;
        append_raw<float>(a.bytes, real);
        attribute.real = real.at(0);
      }
      if (a.number == 3) attribute.integer = static_cast<int64_t>(a.value);
      if (a.number == 4) attribute.text = a.bytes;
    }
    node.attributes[name] = attribute;
  }
  return node;
}

}  // namespace

std::vector<Node> parse_nodes(const std::string& model_bytes) {
  std::vector<Node> nodes;
  for (Reader model(model_bytes); !model.done();) {
    const Field graph = model.field();
    if (graph.number != 7) continue;
    for (Reader reader(graph.bytes); !reader.done();) {
      const Field f = reader.field();
      if (f.number == 1) nodes.push_back(parse_node(f.bytes));
    }
  }
  return nodes;
}

}  // namespace ligerdsl::test::onnx
