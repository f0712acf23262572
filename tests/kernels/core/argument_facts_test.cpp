#include "kernels/core/argument_facts.h"

#include <gtest/gtest.h>

#include "kernels/attention/attention.h"
#include "kernels/catalog.h"
#include "kernels/core/workspace.h"
#include "kernels/elementwise/vector_add.h"
#include "kernels/embedding/embedding.h"
#include "kernels/matmul/gated_matmul.h"
#include "kernels/matmul/grouped_matmul.h"
#include "kernels/matmul/matmul.h"
#include "kernels/norm/poly_norm.h"
#include "kernels/norm/rms_norm.h"

namespace ligerdsl::test::argument_facts_test {
namespace {

using kernels::Variant;

const kernels::Machine kGpu = kernels::gpu("sm_90a", 132, 80);

struct Facts {
  program::Program program;
  std::vector<program::ArgFacts> all;

  explicit Facts(const kernels::Step& step, Variant variant = Variant::aligned)
      : program(step.program), all(kernels::argument_facts(program, variant)) {}
  // Facts of the last step, which is the operation's main kernel.
  explicit Facts(const kernels::Operation& operation, Variant variant = Variant::aligned)
      : Facts(operation.steps.back(), variant) {}
  const program::ArgFacts& of(const std::string& name) const {
    for (size_t i = 0; i < all.size(); ++i)
      if (program.arguments[i].name == name) return all[i];
    throw std::invalid_argument(name);
  }
};

kernels::Operation norm(int64_t cols) {
  kernels::RmsNormOptions options;
  options.cols = cols;
  options.type = options.weight_type = bf16;
  options.with_rstd = true;
  return kernels::rms_norm_forward(kGpu, options);
}

TEST(ArgumentFacts, FlatArrays) {
  const Facts facts(kernels::vector_add(kGpu, bf16));
  for (const char* name : {"out", "a", "b"}) {
    EXPECT_EQ(facts.of(name).pointer_align, 16);
    EXPECT_EQ(facts.of(name).dims, (std::vector<program::SizeFact>{{.divisor = 8}}));
    EXPECT_EQ(facts.of(name).strides, (std::vector<program::SizeFact>{{.exact = 1}}));
  }
}

// With 64 columns, a program has several rows, and loads or stores their statistics as one tile.
TEST(ArgumentFacts, StatisticsOfRows) {
  const Facts facts(norm(64));
  for (const char* name : {"x", "y"}) {
    EXPECT_EQ(facts.of(name).pointer_align, 16);
    EXPECT_EQ(facts.of(name).dims, (std::vector<program::SizeFact>(2)));
    EXPECT_EQ(facts.of(name).strides,
              (std::vector<program::SizeFact>{{.divisor = 8}, {.exact = 1}}));
  }
  EXPECT_EQ(facts.of("weight").pointer_align, 16);
  EXPECT_EQ(facts.of("rstd").pointer_align, 16);
  EXPECT_EQ(facts.of("rstd").dims, (std::vector<program::SizeFact>(1)));
  EXPECT_EQ(facts.of("eps"), program::ArgFacts());
}

// With one row per program, the statistic is a single element, which need not be aligned.
TEST(ArgumentFacts, SingleElements) {
  EXPECT_EQ(Facts(norm(8192)).of("rstd").pointer_align, 1);
  EXPECT_EQ(Facts(norm(8192)).of("rstd").dims, (std::vector<program::SizeFact>(1)));
}

// The three statistics of a row are stored as single columns, because rows of 12 bytes are not
// aligned.
TEST(ArgumentFacts, Columns) {
  const Facts facts(kernels::poly_norm_forward(kGpu, {.cols = 64, .type = bf16}));
  EXPECT_EQ(facts.of("rstd").pointer_align, 1);
  EXPECT_EQ(facts.of("rstd").strides, (std::vector<program::SizeFact>{{}, {.exact = 1}}));
  EXPECT_EQ(facts.of("x").pointer_align, 16);
}

// Indices may have any stride. The aligned variant requires stride 1.
TEST(ArgumentFacts, AlignedIndicesAreContiguous) {
  const kernels::EmbeddingOptions options{.cols = 64, .type = bf16};
  const program::ArgFacts aligned = Facts(kernels::embedding_forward(kGpu, options)).of("indices");
  EXPECT_EQ(aligned.strides, (std::vector<program::SizeFact>{{.exact = 1}}));
  EXPECT_EQ(Facts(kernels::embedding_forward(kGpu, options), Variant::any).of("indices").strides,
            (std::vector<program::SizeFact>(1)));
  alignas(16) const char memory[16] = {};
  const auto fits = [&](int64_t size, int64_t stride) {
    return kernels::is_aligned(aligned, memory, &size, &stride);
  };
  EXPECT_TRUE(fits(9, 1));
  EXPECT_FALSE(fits(9, 2));
  EXPECT_FALSE(fits(9, 0));
  EXPECT_TRUE(fits(1, 0)) << "the stride of a single element is not used";
  const int64_t size = 9, stride = 2;
  EXPECT_EQ(kernels::why_not_aligned(aligned, memory, &size, &stride),
            "the stride of dimension 0 is 2, expected 1");
}

// In the `operands` variant, operands are aligned; the result and the bias need not be.
TEST(ArgumentFacts, OperandsVariantAlignsMatmulOperands) {
  const kernels::Operation product = kernels::matmul(kGpu, {.transposes = kernels::Transposes::nt,
                                                            .cols = 50257,
                                                            .width = 768,
                                                            .type = bf16,
                                                            .has_bias = true});
  const std::vector<Variant> three = {Variant::aligned, Variant::operands, Variant::any},
                             two = {three[0], three[2]};
  EXPECT_EQ(kernels::variants_of(product.steps.at(0).program), three);
  const Facts aligned(product), operands(product, Variant::operands);
  for (const char* name : {"a", "b"}) {
    EXPECT_EQ(operands.of(name), aligned.of(name)) << name;
    EXPECT_EQ(operands.of(name).pointer_align, 16) << name;
  }
  for (const char* name : {"c", "bias"}) {
    EXPECT_EQ(aligned.of(name).pointer_align, 16) << name;
    EXPECT_EQ(operands.of(name), Facts(product, Variant::any).of(name)) << name;
  }
  EXPECT_EQ(kernels::variants_of(norm(64).steps.at(0).program), two);
}

// Rows of 4097 columns are aligned only with padding. The contiguous variant requires x and y
// without gaps, and addresses of x, y and the weight at multiples of 16 bytes.
TEST(ArgumentFacts, ContiguousVariantOfRaggedRows) {
  const kernels::Operation ragged = norm(4097);
  EXPECT_EQ(kernels::variants_of(ragged.steps.at(0).program),
            (std::vector<Variant>{Variant::contiguous, Variant::aligned, Variant::any}));
  const Facts contiguous(ragged, Variant::contiguous), aligned(ragged);
  for (const char* name : {"x", "y"}) {
    EXPECT_EQ(contiguous.of(name).strides[0], (program::SizeFact{.exact = 4097})) << name;
    EXPECT_EQ(aligned.of(name).strides[0], (program::SizeFact{.divisor = 8})) << name;
    EXPECT_EQ(contiguous.of(name).pointer_align, 16) << name;
  }
  EXPECT_EQ(contiguous.of("weight").pointer_align, 16);
  EXPECT_EQ(kernels::variants_of(norm(4096).steps.at(0).program),
            (std::vector<Variant>{Variant::aligned, Variant::any}));
}

// A view whose slices are operands counts as an operand.
TEST(ArgumentFacts, OperandsVariantAlignsSlicedOperands) {
  for (const auto transposes : {kernels::GroupedTransposes::nt, kernels::GroupedTransposes::tn}) {
    const kernels::Operation product = kernels::grouped_matmul(kGpu, {.transposes = transposes});
    const Facts aligned(product), of_operands(product, Variant::operands);
    for (const char* name : {"a", "b"}) {
      EXPECT_EQ(aligned.of(name).pointer_align, 16) << name;
      EXPECT_EQ(of_operands.of(name), aligned.of(name)) << name;
    }
    EXPECT_EQ(aligned.of("c").pointer_align, 16);
    EXPECT_EQ(of_operands.of("c"), Facts(product, Variant::any).of("c"));
    EXPECT_EQ(Facts(product.steps.front()).of("offsets").strides[0].exact, 1);
  }
}

// With two matmuls, the stored results need not be aligned.
TEST(ArgumentFacts, OperandsVariantAlignsGatedMatmulOperands) {
  const kernels::Operation product = kernels::gated_matmul(kGpu, {.stores_products = true});
  const Facts aligned(product), of_operands(product, Variant::operands);
  for (const char* name : {"x", "gate_weight", "up_weight"}) {
    EXPECT_EQ(aligned.of(name).pointer_align, 16) << name;
    EXPECT_EQ(of_operands.of(name), aligned.of(name)) << name;
  }
  for (const char* name : {"out", "gate", "up"}) {
    EXPECT_EQ(aligned.of(name).pointer_align, 16) << name;
    EXPECT_EQ(of_operands.of(name), Facts(product, Variant::any).of(name)) << name;
  }
}

// In the backward too, arguments that are not operands need not be aligned.
TEST(ArgumentFacts, OperandsVariantAlignsGatedMatmulBackwardOperands) {
  const kernels::Operation product = kernels::gated_matmul_backward(kGpu, {.stores_out = true});
  const Facts aligned(product), of_operands(product, Variant::operands);
  for (const char* name : {"x", "gate_weight", "up_weight"})
    EXPECT_EQ(of_operands.of(name), aligned.of(name)) << name;
  for (const char* name : {"d_out", "d_gate", "d_up", "out"}) {
    EXPECT_EQ(aligned.of(name).pointer_align, 16) << name;
    EXPECT_EQ(of_operands.of(name), Facts(product, Variant::any).of(name)) << name;
  }
}

// A call of attention with contiguous tensors. `unaligned` lists the arguments that prevent aligned
// variants.
class AttentionCall {
 public:
  AttentionCall(const kernels::AttentionOptions& options, int64_t rows, int64_t tokens)
      : options_(options), rows_(rows), tokens_(tokens) {}

  std::string unaligned(const kernels::Operation& operation) const {
    std::string found;
    for (const kernels::Step& step : operation.steps) {
      const auto facts = kernels::argument_facts(step.program, Variant::aligned);
      for (size_t i = 0; i < facts.size(); ++i) {
        const std::string& name = step.program.arguments[i].name;
        const Shape type = step.program.values[step.program.arguments[i].value].shape;
        if (type.empty()) continue;
        const auto [dims, strides] = layout_of(operation, name);
        const std::string why =
            kernels::why_not_aligned(facts[i], nullptr, dims.data(), strides.data());
        if (!why.empty()) found += step.program.name + ": " + name + ": " + why + "\n";
      }
    }
    return found;
  }

 private:
  using Layout = std::pair<std::vector<int64_t>, std::vector<int64_t>>;

  Layout layout_of(const kernels::Operation& operation, const std::string& name) const {
    for (const kernels::Scratch& scratch : operation.workspace) {
      if (scratch.name != name) continue;
      Layout layout;
      for (const Size& dim : scratch.shape) layout.first.push_back(dim.at(rows_));
      layout.second.resize(layout.first.size());
      kernels::workspace_strides(scratch.dtype, layout.first, layout.second.data());
      return layout;
    }
    if (name.starts_with("cu_seqlens")) return contiguous({options_.sequences + 1});
    if (name == "error") return contiguous({1});
    std::vector<int64_t> dims;
    if (!options_.sequences) dims = {rows_};
    if (name == "lse") {
      dims.insert(dims.end(), {options_.heads, tokens_});
      return contiguous(dims);
    }
    const bool of_keys = name == "k" || name == "v" || name == "d_k" || name == "d_v";
    dims.insert(dims.end(), {tokens_, of_keys ? options_.kv_heads : options_.heads, options_.dim});
    return contiguous(dims);
  }
  static Layout contiguous(const std::vector<int64_t>& dims) {
    std::vector<int64_t> strides(dims.size(), 1);
    for (size_t i = dims.size() - 1; i-- > 0;) strides[i] = strides[i + 1] * dims[i + 1];
    return {dims, strides};
  }

  kernels::AttentionOptions options_;
  int64_t rows_, tokens_;
};

// Heads are whole vectors, so only the rows of lse and delta may be unaligned. They have one
// element per token.
TEST(ArgumentFacts, AttentionIsAlignedForEveryNumberOfTokens) {
  std::vector<int64_t> numbers{4093, 4094, 4095, 4096, 4097, 4098, 4099};
  for (int64_t tokens = 1; tokens <= 64; ++tokens) numbers.push_back(tokens);
  for (const int64_t tokens : numbers)
    for (const int64_t dim : {64, 96, 128, 256})
      for (const int64_t sequences : {0, 3}) {
        const kernels::AttentionOptions options{.dim = dim,
                                                .heads = 6,
                                                .kv_heads = 2,
                                                .queries = tokens,
                                                .keys = tokens,
                                                .with_lse = true,
                                                .sequences = sequences};
        const AttentionCall call(options, sequences ? tokens : 2, tokens);
        EXPECT_EQ(call.unaligned(kernels::attention_forward(kGpu, options)), "")
            << tokens << " x " << dim;
        EXPECT_EQ(call.unaligned(kernels::attention_backward(kGpu, options)), "")
            << tokens << " x " << dim;
      }
}

// lse and delta are broadcast to the shape of the scores, so they need not be aligned.
TEST(ArgumentFacts, RowStatisticsAreNotOperands) {
  const kernels::Operation backward = kernels::attention_backward(kGpu, {});
  const Facts aligned(backward), operands(backward, Variant::operands);
  for (const char* name : {"q", "k", "v", "d_o"}) {
    EXPECT_EQ(aligned.of(name).pointer_align, 16) << name;
    EXPECT_EQ(operands.of(name), aligned.of(name)) << name;
  }
  for (const char* name : {"lse", "delta"}) {
    EXPECT_EQ(aligned.of(name), Facts(backward, Variant::any).of(name)) << name;
    EXPECT_EQ(operands.of(name), aligned.of(name)) << name;
  }
}

// Rows of a workspace may have any length and are padded, so that kernels can use vectors.
TEST(Workspace, RowsAreAlignedToVectors) {
  int buffers = 0;
  for (const kernels::CatalogEntry& entry : kernels::catalog())
    for (const char* width : {"64", "1001", "4097", "50257"}) {
      MetaValues options;
      for (const MetaField& field : entry.options)
        if (field.name == "cols" || field.name == "classes" || field.name == "queries")
          options[field.name] = width;
      for (const kernels::Scratch& scratch : entry.make(kGpu, options).workspace) {
        for (const int64_t rows : {1, 3, 1000, 4097}) {
          std::vector<int64_t> sizes;
          for (const Size& dim : scratch.shape) sizes.push_back(dim.at(rows));
          std::vector<int64_t> strides(sizes.size());
          kernels::workspace_strides(scratch.dtype, sizes, strides.data());
          const std::string which =
              entry.name + " " + scratch.name + " " + width + " x " + std::to_string(rows);
          for (size_t i = 0; i + 1 < strides.size(); ++i) {
            ++buffers;
            EXPECT_EQ(strides[i] * size_of(scratch.dtype) % 16, 0) << which;
            EXPECT_GE(strides[i], sizes[i + 1] * strides[i + 1]) << which;
          }
          EXPECT_GE(kernels::workspace_bytes(scratch).at(rows),
                    sizes[0] * strides[0] * size_of(scratch.dtype))
              << which;
        }
      }
    }
  EXPECT_GT(buffers, 0);
}

TEST(ArgumentFacts, GenericVariantRequiresNoAlignment) {
  const Facts facts(norm(64), Variant::any);
  for (const char* name : {"x", "y", "weight", "rstd"}) EXPECT_EQ(facts.of(name).pointer_align, 1);
  EXPECT_EQ(facts.of("x").strides, (std::vector<program::SizeFact>{{}, {.exact = 1}}));
}

TEST(ArgumentFacts, IsAligned) {
  const Facts add(kernels::vector_add(kGpu, f32)), rows(norm(64));
  alignas(16) char memory[32];
  const int64_t one = 1;
  const auto fits = [&](const program::ArgFacts& facts, int offset, std::vector<int64_t> dims,
                        std::vector<int64_t> strides) {
    return kernels::is_aligned(facts, memory + offset, dims.data(), strides.data());
  };
  EXPECT_TRUE(fits(add.of("a"), 0, {8192}, {one}));
  EXPECT_TRUE(fits(add.of("a"), 16, {0}, {one}));
  EXPECT_FALSE(fits(add.of("a"), 0, {8191}, {one}));
  EXPECT_FALSE(fits(add.of("a"), 4, {8192}, {one}));
  EXPECT_TRUE(fits(rows.of("x"), 0, {5, 64}, {72, one}));
  EXPECT_FALSE(fits(rows.of("x"), 0, {5, 64}, {68, one}));
  EXPECT_FALSE(fits(rows.of("x"), 2, {5, 64}, {64, one}));
  EXPECT_TRUE(fits(rows.of("rstd"), 0, {8191}, {one}));
  EXPECT_FALSE(fits(rows.of("rstd"), 4, {8191}, {one}));
}

}  // namespace
}  // namespace ligerdsl::test::argument_facts_test
