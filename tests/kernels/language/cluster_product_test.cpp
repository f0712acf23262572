// Tests matmuls whose tiles the CTAs of a cluster share, or compute redundantly. The matmuls are in
// loops and branches, with exchanges between CTAs after and between them. Some tiles and operands
// cannot be shared. Numbers are small and whole, so results are exact.
#include <algorithm>
#include <functional>

#include "ligerdsl/dsl.h"
#include "tests/kernels/shapes.h"

namespace ligerdsl::test::cluster_product_test {
namespace {

constexpr int64_t kRows = 200, kColumns = 72, kDepth = 264, kBlockN = 64, kBlockK = 64;

enum class Around { nothing, tiles, branch, while_, two_loops };

struct Product {
  int num_ctas = 2;
  int64_t block_m = 128;
  Around around = Around::nothing;
  bool fixed = false;  // the tile of operand A is the same in all iterations
  bool no_alias = true;
};

class Builder {
 public:
  Builder(KernelBuilder& k, const Product& p)
      : k_(k),
        p_(p),
        c_(k.view("c", f32, {dyn, kColumns})),
        highest_(k.view("highest", f32, {dyn, kColumns})),
        a_(k.view("a", bf16, {dyn, kDepth}).partition({p.block_m, kBlockK})),
        b_(k.view("b", bf16, {kDepth, kColumns}).partition({kBlockK, kBlockN})) {}

  void build() {
    const auto tiles = static_cast<int32_t>(ceil_div(kRows, p_.block_m) * kAcross);
    if (p_.around == Around::while_) {
      k_.while_(
          carry(k_.program_id(0)), [&](Scalar tile) { return tile < tiles; },
          [&](Scalar tile) {
            make(tile);
            return carry(tile + k_.num_programs(0));
          });
    } else if (p_.around == Around::tiles || p_.around == Around::two_loops) {
      k_.for_range(k_.program_id(0), tiles, k_.num_programs(0), [&](Scalar tile) { make(tile); });
    } else {
      make(k_.program_id(0));
    }
  }
  int64_t programs() const {
    const bool one_each = p_.around == Around::nothing || p_.around == Around::branch;
    return one_each ? ceil_div(kRows, p_.block_m) * kAcross : 1;
  }

 private:
  static constexpr int64_t kAcross = ceil_div(kColumns, kBlockN),
                           kIterations = ceil_div(kDepth, kBlockK);

  Tile sums(const Scalar& row, const Scalar& column, int64_t from, int64_t to, const Tile& before) {
    auto [all] = k_.for_range(from, to, 1, {.num_stages = 3, .tensor_copies = true}, carry(before),
                              [&](Scalar step, Tile sums) {
                                const Tile a = p_.fixed ? a_.load({row, 1}) : a_.load({row, step});
                                return carry(dot(a, b_.load({step, column}), sums));
                              });
    return all;
  }

  void make(const Scalar& tile) {
    const Scalar row = tile / static_cast<int32_t>(kAcross),
                 column = tile % static_cast<int32_t>(kAcross);
    const Tile zeros = k_.zeros({p_.block_m, kBlockN}, f32);
    Tile all;
    if (p_.around == Around::two_loops)
      all = sums(row, column, 2, kIterations, sums(row, column, 0, 2, zeros));
    else if (p_.around == Around::branch)
      all = k_.if_(
          row < 100, [&] { return sums(row, column, 0, kIterations, zeros); },
          [&] { return zeros; });
    else
      all = sums(row, column, 0, kIterations, zeros);
    // The maximum over the rows of all CTAs.
    highest_.partition({squeeze, kBlockN}).store({row, column}, reduce_max(all, 0));
    c_.partition({p_.block_m, kBlockN}).store({row, column}, all);
  }

  KernelBuilder& k_;
  Product p_;
  View c_, highest_;
  Partition a_, b_;
};

void expect_exact(const Product& p) {
  SCOPED_TRACE(std::to_string(p.num_ctas) + " CTAs, rows " + std::to_string(p.block_m) +
               ", around " + std::to_string(static_cast<int>(p.around)) +
               (p.fixed ? ", fixed" : "") + (p.no_alias ? "" : ", may alias"));
  KernelBuilder k("products");
  Builder builder(k, p);
  builder.build();
  kernels::Step step{.program = k.finish(),
                     .launch = kernels::library_launch(builder.programs(), 4)};
  step.launch.num_ctas = p.num_ctas, step.launch.no_alias = p.no_alias;
  Random random(7);
  const auto small = [&](int64_t rows, int64_t cols) {
    Tensor tensor(bf16, {rows, cols});
    for (int64_t i = 0; i < tensor.size(); ++i)
      tensor.set(i, static_cast<double>(random.below(5)) - 2);
    return tensor;
  };
  Tensor a = small(kRows, kDepth), b = small(kDepth, kColumns), c(f32, {kRows, kColumns});
  const int64_t tiles = ceil_div(kRows, p.block_m);
  Tensor highest(f32, {tiles, kColumns});
  backend().run(
      {.steps = {step}}, kRows,
      Arguments().tensor("a", a).tensor("b", b).tensor("c", c).tensor("highest", highest));
  Values wanted(kRows * kColumns, 0.0),
      most(tiles * kColumns, 0.0);  // rows after the last one are zeros
  for (int64_t i = 0; i < kRows; ++i)
    for (int64_t j = 0; j < kColumns; ++j) {
      double& sum = wanted[i * kColumns + j];
      for (int64_t d = 0; d < kDepth; ++d) {
        const int64_t from = p.fixed ? kBlockK + d % kBlockK : d;
        sum += a.get(i * kDepth + from) * b.get(d * kColumns + j);
      }
    }
  for (int64_t tile = 0; tile < tiles; ++tile)
    for (int64_t j = 0; j < kColumns; ++j) {
      const int64_t end = std::min(kRows, (tile + 1) * p.block_m);
      double highest_of = end - tile * p.block_m < p.block_m ? 0 : -INFINITY;
      for (int64_t i = tile * p.block_m; i < end; ++i)
        highest_of = std::max(highest_of, wanted[i * kColumns + j]);
      most[tile * kColumns + j] = highest_of;
    }
  EXPECT_EQ(c.values(), wanted);
  EXPECT_EQ(highest.values(), most);
}

class ClusterProduct : public ::testing::Test {
 protected:
  void SetUp() override {
    if (machine().max_cluster < 4) GTEST_SKIP() << "no clusters";
  }
};

TEST_F(ClusterProduct, IsExactInLoopsAndBranches) {
  for (const int num_ctas : {2, 4})
    for (const Around around :
         {Around::nothing, Around::tiles, Around::branch, Around::while_, Around::two_loops})
      expect_exact({.num_ctas = num_ctas, .block_m = 64 * num_ctas, .around = around});
}

TEST_F(ClusterProduct, TilesThatCannotBeShared) {
  for (const Around around : {Around::nothing, Around::tiles}) {
    expect_exact({.block_m = 64, .around = around});   // too few rows for each CTA
    expect_exact({.block_m = 192, .around = around});  // not a power of two
    expect_exact({.block_m = 384, .around = around});
    expect_exact({.around = around, .fixed = true});
    expect_exact({.around = around, .no_alias = false});
  }
}

}  // namespace
}  // namespace ligerdsl::test::cluster_product_test
