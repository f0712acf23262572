// Compares overlap() of two tensors with brute force over their elements.
#include "program/overlap.h"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <vector>

namespace ligerdsl::program {
namespace {

struct Tensor {
  std::byte* data;
  std::vector<int64_t> dims, strides;
  operator Strided() const {
    return {data, DType::f32, static_cast<int>(dims.size()), dims.data(), strides.data()};
  }
};

Tensor tensor(int64_t offset, std::vector<int64_t> dims, std::vector<int64_t> strides) {
  static std::byte memory[1 << 16];
  for (size_t i = 0; i < dims.size(); ++i) strides[i] = dims[i] == 1 ? 0 : strides[i];
  return {memory + offset * 4, std::move(dims), std::move(strides)};
}

// Returns the address of each element, in row-major order.
std::vector<const std::byte*> elements(const Tensor& t, size_t dim = 0, int64_t offset = 0) {
  if (dim == t.dims.size()) return {t.data + offset * 4};
  std::vector<const std::byte*> all;
  for (int64_t i = 0; i < t.dims[dim]; ++i) {
    const auto inner = elements(t, dim + 1, offset + i * t.strides[dim]);
    all.insert(all.end(), inner.begin(), inner.end());
  }
  return all;
}

bool share(const Tensor& a, const Tensor& b) {
  const auto first = elements(a), second = elements(b);
  const std::set<const std::byte*> set(first.begin(), first.end());
  for (const std::byte* address : second) {
    if (set.count(address)) return true;
  }
  return false;
}

TEST(Overlap, SlicesOfOneBufferAreDisjoint) {
  const Tensor q = tensor(0, {6, 2, 4}, {24, 4, 1}), k = tensor(8, {6, 4, 4}, {24, 4, 1});
  EXPECT_EQ(overlap(q, k), Overlap::none);
  EXPECT_EQ(overlap(k, q), Overlap::none);
  EXPECT_EQ(overlap(q, tensor(7, {6, 4, 4}, {24, 4, 1})), Overlap::other);
}

TEST(Overlap, ExactNeedsTheSameIndices) {
  const Tensor a = tensor(0, {4, 8}, {8, 1});
  EXPECT_EQ(overlap(a, tensor(0, {4, 8}, {8, 1})), Overlap::exact);
  EXPECT_EQ(overlap(a, tensor(0, {4, 8}, {16, 1})), Overlap::other);
  EXPECT_EQ(overlap(a, tensor(0, {32}, {1})), Overlap::other);
  EXPECT_EQ(overlap(a, tensor(32, {4, 8}, {8, 1})), Overlap::none);
  EXPECT_EQ(overlap(a, tensor(0, {0, 8}, {8, 1})), Overlap::none);
}

// overlap() must never call tensors disjoint if they share memory. It must recognise all disjoint
// tensors whose rows have one common stride.
TEST(Overlap, MatchesBruteForce) {
  std::mt19937 random(7);
  const auto pick = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
  int none = 0;
  for (int i = 0; i < 20000; ++i) {
    const int64_t stride = pick(1, 12);
    const auto make = [&] {
      const int64_t width = pick(1, stride), rows = pick(1, 5);
      return tensor(pick(0, 40), {rows, width}, {pick(0, 4) ? stride : pick(0, 14), 1});
    };
    const Tensor a = make(), b = make();
    const Overlap found = overlap(a, b);
    if (found == Overlap::none) {
      ++none;
      ASSERT_FALSE(share(a, b)) << a.dims[0] << "x" << a.dims[1] << " and " << b.dims[0] << "x"
                                << b.dims[1];
    } else if (found == Overlap::exact) {
      ASSERT_EQ(elements(a), elements(b));
    }
  }
  EXPECT_GT(none, 2000);
}

TEST(Overlap, InjectiveMatchesBruteForce) {
  std::mt19937 random(11);
  const auto pick = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
  int injectives = 0;
  for (int i = 0; i < 20000; ++i) {
    const Tensor t = tensor(0, {pick(0, 3), pick(1, 4), pick(1, 4)}, {pick(0, 20), pick(0, 8), 1});
    const auto all = elements(t);
    const bool distinct = std::set<const std::byte*>(all.begin(), all.end()).size() == all.size();
    if (injective(t)) {
      ++injectives;
      ASSERT_TRUE(distinct);
    }
  }
  EXPECT_GT(injectives, 5000);
}

}  // namespace
}  // namespace ligerdsl::program
