// Runs our kernels on ONNX's node cases, tests of single operators. The class axis is moved to the
// end, and all other axes become rows.
#include <filesystem>
#include <fstream>
#include <iterator>

#include "kernels/cross_entropy/cross_entropy.h"
#include "kernels/matmul/matmul.h"
#include "kernels/softmax/softmax.h"
#include "tests/kernels/shapes.h"
#include "tests/onnx/proto.h"

namespace ligerdsl::test {
namespace {

namespace fs = std::filesystem;
using onnx::TensorProto;

const fs::path kCases = "/usr/share/libonnx-testdata/data/node";

std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path.string());
  return {std::istreambuf_iterator<char>(file), {}};
}

// Returns the case folders that begin with `prefix` and whose graph is a single node of operator
// `op`.
std::vector<fs::path> cases_of(const std::string& prefix, const std::string& op) {
  std::vector<fs::path> out;
  if (!fs::exists(kCases)) return out;
  for (const auto& entry : fs::directory_iterator(kCases)) {
    if (!entry.path().filename().string().starts_with(prefix)) continue;
    const auto nodes = onnx::parse_nodes(read(entry.path() / "model.onnx"));
    if (nodes.size() == 1 && nodes[0].op == op) out.push_back(entry.path());
  }
  std::sort(out.begin(), out.end());
  return out;
}

struct Case {
  onnx::Node node;
  std::vector<TensorProto> inputs, outputs;

  explicit Case(const fs::path& folder)
      : node(onnx::parse_nodes(read(folder / "model.onnx")).at(0)) {
    const fs::path data = folder / "test_data_set_0";
    for (int i = 0; fs::exists(data / ("input_" + std::to_string(i) + ".pb")); ++i) {
      inputs.push_back(onnx::parse_tensor(read(data / ("input_" + std::to_string(i) + ".pb"))));
    }
    for (int i = 0; fs::exists(data / ("output_" + std::to_string(i) + ".pb")); ++i) {
      outputs.push_back(onnx::parse_tensor(read(data / ("output_" + std::to_string(i) + ".pb"))));
    }
  }
  std::string reduction() const {
    const auto at = node.attributes.find("reduction");
    return at == node.attributes.end() ? "mean" : at->second.text;
  }
  int64_t ignore_index() const {
    const auto at = node.attributes.find("ignore_index");
    return at == node.attributes.end() ? INT64_MIN : at->second.integer;  // no label has this value
  }
};

// Moves the class axis to the end: [a, axis, b] becomes [a * b, axis].
struct AxisLast {
  int64_t before = 1, axis = 1, after = 1;
  AxisLast(const Sizes& dims, int64_t axis_index) {
    if (axis_index < 0) axis_index += static_cast<int64_t>(dims.size());
    for (int64_t d = 0; d < static_cast<int64_t>(dims.size()); ++d) {
      (d < axis_index ? before : d > axis_index ? after : axis) *= dims[d];
    }
  }
  int64_t rows() const { return before * after; }
  Values apply(const Values& values) const {
    Values out(values.size());
    for (int64_t i = 0; i < before; ++i) {
      for (int64_t c = 0; c < axis; ++c) {
        for (int64_t j = 0; j < after; ++j)
          out[(i * after + j) * axis + c] = values[(i * axis + c) * after + j];
      }
    }
    return out;
  }
};

TEST(Onnx, SoftmaxMatches) {
  const auto folders = cases_of("test_softmax_", "Softmax");
  if (folders.empty()) GTEST_SKIP() << "libonnx-testdata is not installed";
  EXPECT_GE(folders.size(), 7u);
  for (const auto& folder : folders) {
    SCOPED_TRACE(folder.filename().string());
    const Case c(folder);
    const auto axis = c.node.attributes.find("axis");
    const AxisLast order(c.inputs[0].dims,
                         axis == c.node.attributes.end() ? -1 : axis->second.integer);
    Tensor x = Tensor::rows(f32, order.rows(), order.axis).fill(order.apply(c.inputs[0].numbers));
    Tensor y = Tensor::rows(f32, order.rows(), order.axis);
    backend().run(kernels::softmax_forward(machine(), {.cols = order.axis, .type = f32}),
                  order.rows(), Arguments().tensor("x", x).tensor("y", y).number("scale", 1.0));
    EXPECT_TRUE(close(y.values(), order.apply(c.outputs[0].numbers), {1e-5, 1e-6}));
  }
}

// Losses that our kernel computes for a case. There is one loss, or one per row if the reduction is
// none.
struct Losses {
  Values loss, lse;
};

Losses losses_of(const Case& c, kernels::Reduction reduction) {
  const AxisLast order(c.inputs[0].dims, 1);
  kernels::CrossEntropyOptions o{.classes = order.axis, .type = f32, .reduction = reduction};
  o.has_weight = c.inputs.size() > 2;
  o.with_lse = true;
  Tensor logits =
      Tensor::rows(f32, order.rows(), order.axis).fill(order.apply(c.inputs[0].numbers));
  Tensor labels = Tensor(i64, {order.rows()}).fill(c.inputs[1].integers);
  Tensor weight(f32, {order.axis}), lse(f32, {order.rows()});
  if (o.has_weight) weight.fill(c.inputs[2].numbers);
  Tensor loss(f32, {reduction == kernels::Reduction::none ? order.rows() : 1});
  Tensor error = Tensor(i64, {1}).fill(std::vector<int64_t>{0});
  backend().run(kernels::cross_entropy(machine(), o), order.rows(),
                Arguments()
                    .tensor("logits", logits)
                    .tensor("labels", labels)
                    .tensor("weight", weight)
                    .tensor("loss", loss)
                    .tensor("lse", lse)
                    .tensor("error", error)
                    .integer("ignore_index", c.ignore_index()));
  EXPECT_EQ(error.get_integer(0), 0);
  return {loss.values(), lse.values()};
}

kernels::Reduction reduction_of(const std::string& name) {
  if (name == "none") return kernels::Reduction::none;
  return name == "sum" ? kernels::Reduction::sum : kernels::Reduction::mean;
}

TEST(Onnx, SoftmaxCrossEntropyLossMatches) {
  const auto folders = cases_of("test_sce_", "SoftmaxCrossEntropyLoss");
  if (folders.empty()) GTEST_SKIP() << "libonnx-testdata is not installed";
  EXPECT_GE(folders.size(), 34u);
  for (const auto& folder : folders) {
    SCOPED_TRACE(folder.filename().string());
    const Case c(folder);
    const Losses ours = losses_of(c, reduction_of(c.reduction()));
    EXPECT_TRUE(close(ours.loss, c.outputs[0].numbers, {1e-5, 1e-6})) << "loss";
    if (c.outputs.size() < 2) continue;
    // The second output is the log-probability z - lse. Compares it at the label of each row that
    // is not ignored.
    const AxisLast order(c.inputs[0].dims, 1);
    const Values z = order.apply(c.inputs[0].numbers), log_prob = order.apply(c.outputs[1].numbers);
    for (int64_t i = 0; i < order.rows(); ++i) {
      const int64_t label = c.inputs[1].integers[i];
      if (label == c.ignore_index()) continue;
      EXPECT_NEAR(z[i * order.axis + label] - ours.lse[i], log_prob[i * order.axis + label], 1e-5)
          << "row " << i;
    }
  }
}

// With scores x and label y, ONNX's NLL loss is -w_y x_y. Our per-row loss is w_y (lse - x_y), so
// the test subtracts w_y lse.
TEST(Onnx, NegativeLogLikelihoodLossMatches) {
  const auto folders = cases_of("test_nllloss_", "NegativeLogLikelihoodLoss");
  if (folders.empty()) GTEST_SKIP() << "libonnx-testdata is not installed";
  EXPECT_GE(folders.size(), 18u);
  for (const auto& folder : folders) {
    SCOPED_TRACE(folder.filename().string());
    const Case c(folder);
    const Losses ours = losses_of(c, kernels::Reduction::none);
    Values rows(ours.loss.size());
    double total = 0, weights = 0;
    for (size_t i = 0; i < rows.size(); ++i) {
      const int64_t label = c.inputs[1].integers[i];
      if (label == c.ignore_index()) continue;
      const double w = c.inputs.size() > 2 ? c.inputs[2].numbers[label] : 1.0;
      rows[i] = ours.loss[i] - w * ours.lse[i];
      total += rows[i];
      weights += w;
    }
    if (c.reduction() == "sum") rows = {total};
    if (c.reduction() == "mean") rows = {total / weights};
    EXPECT_TRUE(close(rows, c.outputs[0].numbers, {1e-5, 1e-5}));
  }
}

struct Product {
  int64_t m, n, k;
  bool transposed_a = false, transposed_b = false;
  double alpha = 1, beta = 0;
};

// Returns the Gemm alpha op(a) op(b) + beta c, in f32. `op` transposes its operand if the node's
// attribute requires it.
Values product_of(const Product& p, const Values& a, const Values& b, const Values& c) {
  using kernels::Transposes;
  const kernels::MatmulOptions options{
      .transposes = p.transposed_a   ? p.transposed_b ? Transposes::tt : Transposes::tn
                    : p.transposed_b ? Transposes::nt
                                     : Transposes::nn,
      .cols = p.n,
      .width = p.transposed_a ? p.m : p.k,
      .type = f32,
      .c_type = f32,
      .scaled = p.alpha != 1,
      .adds = p.beta != 0};
  Tensor left = Tensor::rows(f32, p.transposed_a ? p.k : p.m, options.width).fill(a);
  Tensor right = Tensor::rows(f32, p.transposed_b ? p.n : p.k, p.transposed_b ? p.k : p.n).fill(b);
  Tensor out = Tensor::rows(f32, p.m, p.n);
  if (p.beta != 0) out.fill(c);
  backend().run(kernels::matmul(machine(), options), p.transposed_a ? p.k : p.m,
                Arguments()
                    .tensor("a", left)
                    .tensor("b", right)
                    .tensor("c", out)
                    .number("alpha", p.alpha)
                    .number("beta", p.beta));
  return out.values();
}

// Returns operand C of a Gemm as an [m, n] matrix. It may be a scalar, a row or a column.
Values spread(const TensorProto& c, int64_t m, int64_t n) {
  Sizes dims = c.dims;
  while (dims.size() < 2) dims.insert(dims.begin(), 1);
  Values out(m * n);
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j)
      out[i * n + j] = c.numbers[(dims[0] == 1 ? 0 : i) * dims[1] + (dims[1] == 1 ? 0 : j)];
  return out;
}

TEST(Onnx, GemmMatches) {
  const auto folders = cases_of("test_gemm_", "Gemm");
  if (folders.empty()) GTEST_SKIP() << "libonnx-testdata is not installed";
  EXPECT_GE(folders.size(), 11u);
  for (const auto& folder : folders) {
    SCOPED_TRACE(folder.filename().string());
    const Case c(folder);
    const auto attribute = [&](const char* name) {
      const auto at = c.node.attributes.find(name);
      return at == c.node.attributes.end() ? onnx::Attribute{.real = 1} : at->second;
    };
    Product p{.transposed_a = attribute("transA").integer != 0,
              .transposed_b = attribute("transB").integer != 0,
              .alpha = attribute("alpha").real,
              .beta = c.inputs.size() > 2 ? attribute("beta").real : 0};
    p.m = c.outputs[0].dims[0], p.n = c.outputs[0].dims[1],
    p.k = c.inputs[0].dims[p.transposed_a ? 0 : 1];
    const Values sums = p.beta != 0 ? spread(c.inputs[2], p.m, p.n) : Values{};
    const Values ours = product_of(p, c.inputs[0].numbers, c.inputs[1].numbers, sums);
    EXPECT_TRUE(close(ours, c.outputs[0].numbers, {1e-5, 1e-5}));
  }
}

// Multiplies pairs of matrices one by one, over all leading dimensions.
TEST(Onnx, MatMulMatches) {
  const auto folders = cases_of("test_matmul_", "MatMul");
  if (folders.empty()) GTEST_SKIP() << "libonnx-testdata is not installed";
  EXPECT_GE(folders.size(), 3u);
  for (const auto& folder : folders) {
    SCOPED_TRACE(folder.filename().string());
    const Case c(folder);
    const Sizes &a = c.inputs[0].dims, &b = c.inputs[1].dims;
    const Product p{.m = a[a.size() - 2], .n = b.back(), .k = a.back()};
    const auto matrix = [](const Values& values, int64_t index, int64_t size) {
      return Values(values.begin() + index * size, values.begin() + (index + 1) * size);
    };
    const auto count = static_cast<int64_t>(c.outputs[0].numbers.size()) / (p.m * p.n);
    for (int64_t i = 0; i < count; ++i) {
      const Values ours = product_of(p, matrix(c.inputs[0].numbers, i, p.m * p.k),
                                     matrix(c.inputs[1].numbers, i, p.k * p.n), {});
      EXPECT_TRUE(close(ours, matrix(c.outputs[0].numbers, i, p.m * p.n), {1e-5, 1e-5}))
          << "matrix " << i;
    }
  }
}

}  // namespace
}  // namespace ligerdsl::test
