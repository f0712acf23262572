#include "compiler/layout/linear_layout.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "layouts.h"

namespace ligerdsl::compiler {
namespace {

using Bases = LinearLayout::Bases;
using Coordinates = LinearLayout::Coordinates;
using Shape = LinearLayout::Shape;

TEST(LinearLayout, MatchesHeaderExample1Row) {
  auto layout = LinearLayout::blocked({64}, 4, 4, 2);
  EXPECT_EQ(layout.bases(Axis::reg), (Bases{{1}, {2}, {32}}));
  EXPECT_EQ(layout.bases(Axis::lane), (Bases{{4}, {8}}));
  EXPECT_EQ(layout.bases(Axis::warp), (Bases{{16}}));
  EXPECT_EQ(layout.coordinates({.reg = 5, .lane = 1, .warp = 0}), Coordinates{37});
  EXPECT_EQ(layout.owner({21}), (Place{.reg = 1, .lane = 1, .warp = 1}));
  EXPECT_EQ(layout.contiguous(), 4);
}

TEST(LinearLayout, MatchesHeaderExample2Rows) {
  auto layout = LinearLayout::blocked({4, 8}, 2, 4, 2);
  EXPECT_EQ(layout.bases(Axis::reg), (Bases{{0, 1}, {2, 0}}));
  EXPECT_EQ(layout.bases(Axis::lane), (Bases{{0, 2}, {0, 4}}));
  EXPECT_EQ(layout.bases(Axis::warp), (Bases{{1, 0}}));
  EXPECT_EQ(layout.along(1), (BitMasks{.reg = 1, .lane = 3, .warp = 0}));
}

TEST(LinearLayout, MatchesHeaderExample3Replication) {
  auto layout = LinearLayout::blocked({8}, 4, 4, 2);
  EXPECT_EQ(layout.bases(Axis::lane), (Bases{{4}, {0}}));
  EXPECT_EQ(layout.redundant(), (BitMasks{.reg = 0, .lane = 2, .warp = 1}));
}

TEST(LinearLayout, MatchesHeaderExample4Slice) {
  auto sums = LinearLayout::blocked({4, 8}, 2, 4, 2).slice(1);
  EXPECT_EQ(sums, LinearLayout({4}, {{2}}, {{0}, {0}}, {{1}}));
}

TEST(LinearLayout, MatchesHeaderExample5OddFactor) {
  auto layout = LinearLayout::blocked({96}, 4, 4, 2);
  EXPECT_EQ(layout.bases(Axis::reg), (Bases{{1}, {2}}));
  EXPECT_EQ(layout.copies(), 3);
  EXPECT_EQ(layout.registers(), 12);
  EXPECT_EQ(layout.coordinates({.reg = 4}), Coordinates{32});
}

TEST(LinearLayout, CopiesAreRowMajorAndOutermost) {
  auto layout = LinearLayout::replicated({3 * 2, 5}, 1, 1);
  ASSERT_EQ(layout.linearRegisters(), 2);
  EXPECT_EQ(layout.coordinates({.reg = 1}), (Coordinates{1, 0}));
  EXPECT_EQ(layout.coordinates({.reg = 2}), (Coordinates{0, 1}));
  EXPECT_EQ(layout.coordinates({.reg = 2 * 5 + 1}), (Coordinates{3, 0}));
}

TEST(LinearLayout, ConstructorsObeyTheRules) {
  for (const auto& layout : sampleLayouts()) EXPECT_EQ(valid(layout), "") << layout.str();
}

TEST(LinearLayout, EveryElementIsHeldAndOwnedOnce) {
  for (const auto& layout : sampleLayouts()) {
    std::map<Coordinates, int> holders, owners;
    BitMasks redundant = layout.redundant();
    EXPECT_EQ(redundant.reg, 0u);
    forEachThread(layout, [&](int64_t lane, int64_t warp) {
      auto elements = elementsOf(layout, lane, warp);
      EXPECT_EQ(std::set<Coordinates>(elements.begin(), elements.end()).size(), elements.size())
          << layout.str();
      bool owner = !(lane & redundant.lane) && !(warp & redundant.warp);
      for (auto& element : elements) {
        ++holders[element];
        if (owner) ++owners[element];
      }
    });
    size_t count = 0;
    forEachElement(layout.shape(), [&](const Coordinates& at) {
      ++count;
      EXPECT_GE(holders[at], 1) << layout.str();
      EXPECT_EQ(owners[at], 1) << layout.str();
      Place owner = layout.owner(at);
      EXPECT_EQ(layout.coordinates(owner), at) << layout.str();
      EXPECT_FALSE((owner.lane & redundant.lane) || (owner.warp & redundant.warp));
    });
    EXPECT_EQ(holders.size(), count) << "a register holds no element of the tile: " << layout.str();
  }
}

TEST(LinearLayout, BlockedFillsLanesBeforeWarpsAlongTheLastDimension) {
  // In memory order, consecutive vectors belong to consecutive threads until all threads have one.
  for (const auto& shape : sampleShapes()) {
    auto layout = LinearLayout::blocked(shape, 2, 4, 2);
    int64_t linear = layout.linearRegisters() / layout.contiguous();
    if (layout.copies() != 1 || layout.isReplicated() || linear != 1) continue;
    forEachElement(shape, [&](const Coordinates& at) {
      Place place = layout.owner(at);
      EXPECT_EQ(rowMajor(shape, at) / layout.contiguous(), place.lane + 4 * place.warp)
          << layout.str();
    });
  }
}

TEST(LinearLayout, RowsPerWarpKeepsARowInOneWarp) {
  auto layout = LinearLayout::rowsPerWarp({8, 256}, 4, 32, 4);
  EXPECT_EQ(layout.along(1).warp, 0u);
  EXPECT_EQ(layout.bases(Axis::warp), (Bases{{1, 0}, {2, 0}}));
  auto narrow = LinearLayout::rowsPerWarp({2, 1024}, 4, 32, 4);
  EXPECT_EQ(narrow.bases(Axis::warp), (Bases{{1, 0}, {0, 128}}));
}

TEST(LinearLayout, ContiguousIsTheWidestVector) {
  auto isVector = [](const LinearLayout& layout, int dim, int64_t width) {
    bool good = layout.registers() % width == 0;
    forEachThread(layout, [&](int64_t lane, int64_t warp) {
      for (int64_t reg = 0; good && reg < layout.registers(); ++reg) {
        Coordinates first = layout.coordinates({reg / width * width, lane, warp});
        Coordinates expected = first;
        expected[dim] += reg % width;
        good = good && first[dim] % width == 0 && layout.coordinates({reg, lane, warp}) == expected;
      }
    });
    return good;
  };
  for (const auto& layout : sampleLayouts())
    for (int dim = 0; dim < layout.rank(); ++dim) {
      int64_t width = layout.contiguous(dim);
      EXPECT_TRUE(isVector(layout, dim, width)) << layout.str();
      if (2 * width <= layout.linearRegisters()) {
        EXPECT_FALSE(isVector(layout, dim, 2 * width)) << layout.str();
      }
    }
  // Registers have stride 2 and lanes have stride 1, so no lane holds two contiguous elements.
  EXPECT_EQ(LinearLayout({4}, {{2}}, {{1}}, {{0}}).contiguous(), 1);
}

TEST(LinearLayout, AlongReturnsTheBitsOfADimension) {
  for (const auto& layout : sampleLayouts())
    for (int dim = 0; dim < layout.rank(); ++dim) {
      EXPECT_TRUE(layout.isSeparable(dim));
      BitMasks masks = layout.along(dim);
      for (size_t bit = 0; bit < layout.bases(Axis::lane).size(); ++bit)
        EXPECT_EQ(
            (masks.lane >> bit & 1) != 0,
            layout.coordinates({.lane = int64_t{1} << bit})[dim] != layout.coordinates({})[dim]);
      for (size_t bit = 0; bit < layout.bases(Axis::warp).size(); ++bit)
        EXPECT_EQ(
            (masks.warp >> bit & 1) != 0,
            layout.coordinates({.warp = int64_t{1} << bit})[dim] != layout.coordinates({})[dim]);
    }
  EXPECT_FALSE(LinearLayout({2, 2}, {{1, 1}}, {{0, 1}}, {}).isSeparable(0));
}

TEST(ClusterLayout, HighestBitsGoToCtas) {
  auto row = LinearLayout::blocked({96}, 4, 4, 1, {.ctas = 2, .dims = {0}});
  EXPECT_EQ(row.bases(Axis::cta), (Bases{{16}}));
  EXPECT_EQ(row.bases(Axis::lane), (Bases{{4}, {8}}));
  EXPECT_EQ(row.coordinates({.reg = 5, .cta = 1}), Coordinates{49});  // copy 1 starts at 32
  auto rows = LinearLayout::blocked({2, 64}, 2, 4, 2, {.ctas = 8, .dims = {0, 1}});
  EXPECT_EQ(rows.bases(Axis::cta), (Bases{{0, 16}, {0, 32}, {1, 0}}));
  auto small = LinearLayout::blocked({2}, 2, 4, 2, {.ctas = 4, .dims = {0}});
  EXPECT_EQ(small.bases(Axis::cta), (Bases{{0}, {1}}));
  EXPECT_EQ(small.redundant().cta, 1u);
}

// Every element is held, has one owner in the cluster, and one owner in each CTA that holds it.
TEST(ClusterLayout, EveryElementIsHeldAndOwnedOnce) {
  for (const auto& shape : sampleShapes())
    for (const auto& layout : cutLayoutsOf(shape)) {
      EXPECT_EQ(valid(layout), "") << layout.str();
      BitMasks redundant = layout.redundant();
      std::map<Coordinates, int> owners;
      for (int64_t cta = 0; cta < layout.ctas(); ++cta) {
        std::map<Coordinates, int> holders, local;
        forEachThread(layout, [&](int64_t lane, int64_t warp) {
          for (int64_t reg = 0; reg < layout.registers(); ++reg) {
            Coordinates at = layout.coordinates({reg, lane, warp, cta});
            ++holders[at];
            if ((lane & redundant.lane) || (warp & redundant.warp)) continue;
            ++local[at];
            if (!(cta & redundant.cta)) ++owners[at];
          }
        });
        for (const auto& [at, count] : holders) EXPECT_EQ(local[at], 1) << layout.str();
      }
      forEachElement(shape,
                     [&](const Coordinates& at) { EXPECT_EQ(owners[at], 1) << layout.str(); });
    }
}

// A CTA's part is the tile without the elements of other CTAs, in the same registers. In a layout
// with copies, each copy has this property.
TEST(ClusterLayout, PartOfCtaIsAValidTile) {
  for (const auto& shape : sampleShapes())
    for (const auto& layout : cutLayoutsOf(shape)) {
      auto part = layout.partOfCta();
      ASSERT_TRUE(part) << layout.str();
      EXPECT_EQ(valid(*part), "") << layout.str();
      EXPECT_EQ(part->registers(), layout.registers());
      for (int64_t cta = 0; cta < layout.ctas(); ++cta)
        forEachThread(layout, [&](int64_t lane, int64_t warp) {
          for (int64_t reg = 0; reg < layout.registers(); ++reg) {
            Coordinates whole = layout.coordinates({reg, lane, warp, cta});
            Coordinates inside = part->coordinates({reg, lane, warp}),
                        first = layout.coordinates({.cta = cta});
            for (int dim = 0; dim < layout.rank(); ++dim) {
              int64_t size = int64_t{1} << splitOdd(shape[dim]).second;
              int64_t own = int64_t{1} << splitOdd(part->shape()[dim]).second;
              EXPECT_EQ(whole[dim], inside[dim] / own * size + first[dim] + inside[dim] % own)
                  << layout.str();
            }
          }
        });
    }
  EXPECT_FALSE(LinearLayout({4}, {{2}}, {}, {}, {{1}}).partOfCta());
  EXPECT_FALSE(LinearLayout({4}, {{3}}, {}, {}, {{2}}).partOfCta());
}

// Returns the elements without repetitions, in the order of their first occurrence.
std::vector<Coordinates> unique(const std::vector<Coordinates>& elements) {
  std::vector<Coordinates> result;
  std::set<Coordinates> seen;
  for (const auto& element : elements)
    if (seen.insert(element).second) result.push_back(element);
  return result;
}

std::set<Coordinates> asSet(const std::vector<Coordinates>& elements) {
  return {elements.begin(), elements.end()};
}

TEST(LinearLayout, SliceKeepsThreadsAndDropsDuplicates) {
  for (const auto& layout : sampleLayouts())
    for (int dim = 0; dim < layout.rank(); ++dim) {
      auto slice = layout.slice(dim);
      EXPECT_EQ(valid(slice), "") << layout.str();
      forEachThread(layout, [&](int64_t lane, int64_t warp) {
        auto expected = elementsOf(layout, lane, warp);
        for (auto& at : expected) at.erase(at.begin() + dim);
        EXPECT_EQ(elementsOf(slice, lane, warp), unique(expected))
            << layout.str() << " dim " << dim;
      });
    }
}

TEST(LinearLayout, ExpandDimsInvertsSlice) {
  for (const auto& layout : sampleLayouts())
    for (int dim = 0; dim <= layout.rank(); ++dim) {
      auto expanded = layout.expandDims(dim);
      EXPECT_EQ(valid(expanded), "");
      EXPECT_EQ(expanded.slice(dim), layout);
      EXPECT_EQ(expanded.shape()[dim], 1);
    }
}

TEST(LinearLayout, ShrinkHoldsTheOperandOfABroadcast) {
  for (const auto& layout : sampleLayouts())
    for (int dim = 0; dim < layout.rank(); ++dim) {
      Shape shape = layout.shape();
      shape[dim] = 1;
      auto shrunk = layout.shrink(shape);
      EXPECT_EQ(valid(shrunk), "");
      forEachThread(layout, [&](int64_t lane, int64_t warp) {
        auto expected = elementsOf(layout, lane, warp);
        for (auto& at : expected) at[dim] = 0;
        EXPECT_EQ(elementsOf(shrunk, lane, warp), unique(expected));
      });
    }
}

TEST(LinearLayout, BroadcastAddsRegisters) {
  auto layout = LinearLayout::blocked({8, 1}, 1, 4, 2).broadcastTo({8, 12});
  EXPECT_EQ(valid(layout), "");
  EXPECT_EQ(layout.registers(), 12);
  EXPECT_EQ(layout.shrink({8, 1}), LinearLayout::blocked({8, 1}, 1, 4, 2));
}

TEST(LinearLayout, PermuteMovesEveryElement) {
  for (const auto& layout : sampleLayouts()) {
    std::vector<int64_t> permutation(layout.rank());
    for (int dim = 0; dim < layout.rank(); ++dim) permutation[dim] = (dim + 1) % layout.rank();
    auto permuted = layout.permute(permutation);
    EXPECT_EQ(valid(permuted), "");
    forEachThread(layout, [&](int64_t lane, int64_t warp) {
      std::set<Coordinates> expected;
      for (auto& at : elementsOf(layout, lane, warp)) {
        Coordinates moved;
        for (int64_t dim : permutation) moved.push_back(at[dim]);
        expected.insert(moved);
      }
      EXPECT_EQ(asSet(elementsOf(permuted, lane, warp)), expected);
    });
  }
}

TEST(LinearLayout, ReshapeKeepsRowMajorOrderAndRegisters) {
  std::vector<std::pair<Shape, Shape>> pairs = {
      {{64}, {4, 16}}, {{4, 8}, {32}},      {{4, 8}, {8, 4}},     {{96}, {3, 32}},
      {{3, 32}, {96}}, {{96}, {3, 4, 8}},   {{12, 8}, {96}},      {{12, 8}, {1, 96}},
      {{3, 5}, {15}},  {{5 * 16}, {5, 16}}, {{2, 3, 4}, {2, 12}}, {{2, 6}, {2, 3, 2}}};
  for (auto& [from, to] : pairs)
    for (const auto& layout : layoutsOf(from)) {
      auto reshaped = layout.reshape(to);
      ASSERT_TRUE(reshaped) << layout.str();
      EXPECT_EQ(valid(*reshaped), "");
      forEachThread(layout, [&](int64_t lane, int64_t warp) {
        for (int64_t reg = 0; reg < layout.registers(); ++reg)
          EXPECT_EQ(rowMajor(from, layout.coordinates({reg, lane, warp})),
                    rowMajor(to, reshaped->coordinates({reg, lane, warp})));
      });
      EXPECT_EQ(reshaped->reshape(from), layout);
    }
}

TEST(LinearLayout, ReshapeRejectsNonLinearShapes) {
  std::vector<std::pair<Shape, Shape>> pairs = {
      {{2, 3}, {6}}, {{6}, {2, 3}}, {{2, 96}, {192}}, {{4, 6}, {2, 12}}};
  for (auto& [from, to] : pairs)
    for (const auto& layout : layoutsOf(from)) EXPECT_FALSE(layout.reshape(to)) << layout.str();
}

TEST(LinearLayout, RegisterAtFindsTheRegisterOfThreadZero) {
  for (const auto& layout : sampleLayouts()) {
    std::map<Coordinates, int64_t> held;
    for (int64_t reg = 0; reg < layout.registers(); ++reg)
      held[layout.coordinates({.reg = reg})] = reg;
    forEachElement(layout.shape(), [&](const Coordinates& at) {
      auto reg = layout.registerAt(at);
      ASSERT_EQ(reg.has_value(), held.count(at) == 1);
      if (reg) {
        EXPECT_EQ(*reg, held[at]);
      }
    });
  }
}

TEST(LinearLayout, CheckNamesTheBrokenRule) {
  auto error = [](const Shape& shape, const Bases& reg, const Bases& lane = {}) {
    return LinearLayout::check(shape, reg, lane, {});
  };
  EXPECT_EQ(error({4}, {{1}, {2}}), "");
  EXPECT_NE(error({4}, {{1}}).find("no thread would hold the others"), std::string::npos);
  EXPECT_NE(error({4}, {{1}, {4}}).find("expected 0 <= offset < 4"), std::string::npos);
  EXPECT_NE(error({4}, {{1}, {2}, {3}}).find("holds an element twice"), std::string::npos);
  EXPECT_NE(error({4}, {{1, 0}, {2, 0}}).find("expected one per dimension"), std::string::npos);
  EXPECT_NE(error({4 * 33}, {{1}, {2}}).find("odd factor 33"), std::string::npos);
  EXPECT_NE(error({0}, {}).find("expected at least 1"), std::string::npos);
  EXPECT_EQ(error({4}, {{1}}, {{2}, {1}}), "");
}

TEST(LinearLayout, PrintsItsTable) {
  auto layout = LinearLayout::blocked({2, 6}, 2, 2, 2);
  EXPECT_EQ(layout.table(),
            "reg: (0,1); lane: (1,0); warp: (0,0); copies: 3\n"
            "replicated: the owner of an element has these bits 0: lane 0x0, warp 0x1; threads "
            "with one of them set hold copies\n"
            "(0):  w0 l0 r0  w0 l0 r1  w0 l0 r2  w0 l0 r3  w0 l0 r4  w0 l0 r5\n"
            "(1):  w0 l1 r0  w0 l1 r1  w0 l1 r2  w0 l1 r3  w0 l1 r4  w0 l1 r5\n");
}

}  // namespace
}  // namespace ligerdsl::compiler
