#include "compiler/layout/conversion.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "layouts.h"

namespace ligerdsl::compiler {
namespace {

using Coordinates = LinearLayout::Coordinates;

// Returns the elements that one thread holds.
std::set<Coordinates> heldBy(const LinearLayout& layout, int64_t lane, int64_t warp) {
  auto elements = elementsOf(layout, lane, warp);
  return {elements.begin(), elements.end()};
}

std::set<Coordinates> heldByWarp(const LinearLayout& layout, int64_t warp) {
  std::set<Coordinates> result;
  for (int64_t lane = 0; lane < layout.lanes(); ++lane) result.merge(heldBy(layout, lane, warp));
  return result;
}

bool contains(const std::set<Coordinates>& outer, const std::set<Coordinates>& inner) {
  return std::includes(outer.begin(), outer.end(), inner.begin(), inner.end());
}

TEST(Conversion, TravelMatchesBruteForce) {
  std::map<Travel, int> seen;
  for (const auto& shape : sampleShapes()) {
    auto layouts = layoutsOf(shape);
    if (shape.size() == 2)
      layouts.push_back(LinearLayout::blocked({shape[1], shape[0]}, 2, 4, 2).permute({1, 0}));
    for (size_t i = 0, count = layouts.size(); i < count;
         ++i) {  // the same threads, registers in another order
      auto reg = layouts[i].bases(Axis::reg);
      std::reverse(reg.begin(), reg.end());
      layouts.emplace_back(shape, reg, layouts[i].bases(Axis::lane), layouts[i].bases(Axis::warp));
    }
    for (const auto& from : layouts)
      for (const auto& to : layouts) {
        if (from.lanes() != to.lanes() || from.warps() != to.warps()) continue;
        bool fixed = true, inWarp = true;
        std::vector<Coordinates> first = elementsOf(to, 0, 0);
        for (int64_t warp = 0; warp < to.warps(); ++warp) {
          inWarp = inWarp && contains(heldByWarp(from, warp), heldByWarp(to, warp));
          for (int64_t lane = 0; lane < to.lanes(); ++lane)
            fixed = fixed && contains(heldBy(from, lane, warp), heldBy(to, lane, warp));
        }
        Travel how = travel(from, to);
        ++seen[how];
        EXPECT_EQ(how == Travel::none, from == to);
        if (how == Travel::registers) {
          EXPECT_TRUE(fixed);
        }
        EXPECT_EQ(how <= Travel::warp, inWarp) << from.str() << " -> " << to.str();
        if (how > Travel::registers) continue;
        auto sources = registerSources(from, to);
        ASSERT_EQ(sources.size(), static_cast<size_t>(to.registers()));
        forEachThread(to, [&](int64_t lane, int64_t warp) {
          for (int64_t reg = 0; reg < to.registers(); ++reg)
            EXPECT_EQ(from.coordinates({sources[reg], lane, warp}),
                      to.coordinates({reg, lane, warp}));
        });
      }
  }
  for (Travel how : {Travel::none, Travel::registers, Travel::warp, Travel::cta})
    EXPECT_GT(seen[how], 0) << "no sample travels by " << name(how);
}

// BitSwap exchanges a bit of the register index with a bit of the lane index. If both bits are
// equal, the register keeps its value. Otherwise its value comes from the register and lane in
// which both bits are inverted.
TEST(Conversion, BitSwapMatchesBruteForce) {
  const LinearLayout from = LinearLayout::blocked({3, 768}, 8, 32, 2);
  for (const BitSwap bits : {BitSwap{2, 0}, BitSwap{0, 4}, BitSwap{1, 2}}) {
    const LinearLayout to = swapped(from, bits);
    const std::optional<BitSwap> found = bitSwap(from, to);
    ASSERT_TRUE(found && found->reg == bits.reg && found->lane == bits.lane);
    EXPECT_EQ(travel(from, to), Travel::warp);
    forEachThread(to, [&](int64_t lane, int64_t warp) {
      for (int64_t reg = 0; reg < to.registers(); ++reg) {
        const int64_t differ = (reg >> bits.reg ^ lane >> bits.lane) & 1;
        EXPECT_EQ(from.coordinates({reg ^ differ << bits.reg, lane ^ differ << bits.lane, warp}),
                  to.coordinates({reg, lane, warp}));
      }
    });
    EXPECT_EQ(swapped(to, bits), from);
    for (const BitSwap second : {BitSwap{0, 1}, BitSwap{2, 3}})
      if (second.reg != bits.reg && second.lane != bits.lane) {
        EXPECT_FALSE(bitSwap(from, swapped(to, second)));
      }
  }
  EXPECT_FALSE(bitSwap(from, from));
}

TEST(Conversion, TravelInClustersMatchesBruteForce) {
  auto heldByCta = [](const LinearLayout& layout, int64_t cta) {
    std::set<Coordinates> result;
    forEachThread(layout, [&](int64_t lane, int64_t warp) {
      for (int64_t reg = 0; reg < layout.registers(); ++reg)
        result.insert(layout.coordinates({reg, lane, warp, cta}));
    });
    return result;
  };
  std::map<Travel, int> seen;
  for (const auto& shape : sampleShapes()) {
    auto layouts = cutLayoutsOf(shape);
    for (const auto& from : layouts)
      for (const auto& to : layouts) {
        if (from.lanes() != to.lanes() || from.warps() != to.warps() || from.ctas() != to.ctas())
          continue;
        bool inCta = true;
        for (int64_t cta = 0; cta < to.ctas(); ++cta)
          inCta = inCta && contains(heldByCta(from, cta), heldByCta(to, cta));
        Travel how = travel(from, to);
        ++seen[how];
        EXPECT_EQ(how <= Travel::cta, inCta) << from.str() << " -> " << to.str();
      }
  }
  for (Travel how : {Travel::none, Travel::cta, Travel::cluster})
    EXPECT_GT(seen[how], 0) << name(how);
}

TEST(Conversion, ReductionGroupsCoverTheTile) {
  for (const auto& layout : sampleLayouts())
    for (int dim = 0; dim < layout.rank(); ++dim) {
      auto slice = layout.slice(dim);
      auto groups = reductionGroups(layout, dim);
      ASSERT_EQ(groups.size(), static_cast<size_t>(slice.registers()));
      forEachThread(layout, [&](int64_t lane, int64_t warp) {
        std::set<int32_t> used;
        for (size_t reg = 0; reg < groups.size(); ++reg) {
          Coordinates target = slice.coordinates({static_cast<int64_t>(reg), lane, warp});
          for (int32_t source : groups[reg]) {
            EXPECT_TRUE(used.insert(source).second);
            Coordinates at = layout.coordinates({source, lane, warp});
            at.erase(at.begin() + dim);
            EXPECT_EQ(at, target);
          }
        }
        EXPECT_EQ(used.size(), static_cast<size_t>(layout.registers()));
      });
    }
}

}  // namespace
}  // namespace ligerdsl::compiler
