// Reads the parts of ONNX files that the tests use: nodes with their attributes, and tensors.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace ligerdsl::test::onnx {

struct TensorProto {
  std::vector<int64_t> dims;
  bool is_float = true;
  std::vector<double> numbers;    // values of float and double tensors
  std::vector<int64_t> integers;  // values of int32 and int64 tensors
};

struct Attribute {
  int64_t integer = 0;
  double real = 0;
  std::string text;
};

struct Node {
  std::string op;
  std::vector<std::string> inputs;
  std::map<std::string, Attribute> attributes;
};

TensorProto parse_tensor(const std::string& bytes);
std::vector<Node> parse_nodes(const std::string& model_bytes);  // returns the nodes of the graph

}  // namespace ligerdsl::test::onnx
