#include "compiler/layout/conversion.h"

#include <algorithm>
#include <cassert>

#include "compiler/layout/f2.h"

namespace ligerdsl::compiler {
namespace {

using Bases = LinearLayout::Bases;

void insertAll(F2Span& span, const LinearLayout& layout, Axis axis) {
  for (const auto& basis : layout.bases(axis)) span.insert(layout.flatten(basis));
}

// Returns true if, for every bit of `axis`, the basis vectors of both layouts differ by a vector in
// `reachable`.
bool agree(const LinearLayout& a, const LinearLayout& b, Axis axis, const F2Span& reachable) {
  const Bases& left = a.bases(axis);
  const Bases& right = b.bases(axis);
  assert(left.size() == right.size() && "layouts of one tile have the same threads");
  for (size_t i = 0; i < left.size(); ++i)
    if (!reachable.contains(a.flatten(left[i]) ^ b.flatten(right[i]))) return false;
  return true;
}

bool covered(const LinearLayout& layout, Axis axis, const F2Span& reachable) {
  for (const auto& basis : layout.bases(axis))
    if (!reachable.contains(layout.flatten(basis))) return false;
  return true;
}

}  // namespace

Travel travel(const LinearLayout& from, const LinearLayout& to) {
  assert(from.shape() == to.shape());
  if (from == to) return Travel::none;
  const F2Span nothing;
  F2Span inThread;
  insertAll(inThread, from, Axis::reg);
  F2Span inWarp = inThread;
  insertAll(inWarp, from, Axis::lane);
  F2Span inCta = inWarp;
  insertAll(inCta, from, Axis::warp);

  if (covered(to, Axis::reg, inThread) && agree(from, to, Axis::lane, nothing) &&
      agree(from, to, Axis::warp, nothing) && agree(from, to, Axis::cta, nothing))
    return Travel::registers;
  if (covered(to, Axis::reg, inWarp) && covered(to, Axis::lane, inWarp) &&
      agree(from, to, Axis::warp, inWarp) && agree(from, to, Axis::cta, inWarp))
    return Travel::warp;
  if (covered(to, Axis::reg, inCta) && covered(to, Axis::lane, inCta) &&
      covered(to, Axis::warp, inCta) && agree(from, to, Axis::cta, inCta))
    return Travel::cta;
  return Travel::cluster;
}

LinearLayout swapped(const LinearLayout& layout, BitSwap bits) {
  Bases reg = layout.bases(Axis::reg), lane = layout.bases(Axis::lane);
  std::swap(reg[bits.reg], lane[bits.lane]);
  return {layout.shape(), std::move(reg), std::move(lane), layout.bases(Axis::warp),
          layout.bases(Axis::cta)};
}

std::optional<BitSwap> bitSwap(const LinearLayout& from, const LinearLayout& to) {
  const auto changed = [&](Axis axis) {  // the only bit whose basis differs, or -1
    const Bases &left = from.bases(axis), &right = to.bases(axis);
    if (left.size() != right.size()) return -1;
    const auto [first, other] = std::mismatch(left.begin(), left.end(), right.begin());
    const bool alone = first != left.end() && std::equal(first + 1, left.end(), other + 1);
    return alone ? static_cast<int>(first - left.begin()) : -1;
  };
  const BitSwap bits{changed(Axis::reg), changed(Axis::lane)};
  if (bits.reg < 0 || bits.lane < 0 || from.bases(Axis::warp) != to.bases(Axis::warp) ||
      from.bases(Axis::cta) != to.bases(Axis::cta) ||
      from.bases(Axis::reg)[bits.reg] != to.bases(Axis::lane)[bits.lane] ||
      from.bases(Axis::lane)[bits.lane] != to.bases(Axis::reg)[bits.reg])
    return std::nullopt;
  return bits;
}

std::vector<int32_t> registerSources(const LinearLayout& from, const LinearLayout& to) {
  F2Span inThread;
  insertAll(inThread, from, Axis::reg);
  const int64_t linear = to.linearRegisters();
  std::vector<int32_t> sources;
  sources.reserve(to.registers());
  // Copies are outside the map and the same in both layouts, so only registers of the linear part
  // are renamed.
  for (int64_t copy = 0; copy < to.copies(); ++copy) {
    for (int64_t reg = 0; reg < linear; ++reg) {
      uint64_t offset = 0;
      for (size_t bit = 0; bit < to.bases(Axis::reg).size(); ++bit)
        if (reg >> bit & 1) offset ^= to.flatten(to.bases(Axis::reg)[bit]);
      auto source = inThread.solve(offset);
      assert(source && "registerSources needs layouts whose travel is within registers");
      sources.push_back(
          static_cast<int32_t>(copy * from.linearRegisters() + static_cast<int64_t>(*source)));
    }
  }
  return sources;
}

std::vector<std::vector<int32_t>> reductionGroups(const LinearLayout& layout, int dim) {
  const LinearLayout result = layout.slice(dim);
  std::vector<std::vector<std::pair<int64_t, int32_t>>> groups(result.registers());
  for (int64_t reg = 0; reg < layout.registers(); ++reg) {
    auto at = layout.coordinates({.reg = reg});
    int64_t position = at[dim];
    at.erase(at.begin() + dim);
    auto target = result.registerAt(at);
    assert(target && "a slice keeps every register's element in its thread");
    groups[*target].push_back({position, static_cast<int32_t>(reg)});
  }
  std::vector<std::vector<int32_t>> sources;
  for (auto& group : groups) {
    std::sort(group.begin(), group.end());
    sources.emplace_back();
    for (auto [position, reg] : group) sources.back().push_back(reg);
  }
  return sources;
}

// The map is linear over exclusive or. So the places of elements `i` and `i ^ mask` differ by the
// same bits for every i.
Place shufflePartner(const LinearLayout& layout, int dim, int64_t mask) {
  LinearLayout::Coordinates offset(layout.rank(), 0);
  offset[dim] = mask;
  return layout.owner(offset);
}

const char* name(Travel travel) {
  switch (travel) {
    case Travel::none:
      return "none";
    case Travel::registers:
      return "registers";
    case Travel::warp:
      return "warp";
    case Travel::cta:
      return "cta";
    case Travel::cluster:
      return "cluster";
  }
  return "?";
}

}  // namespace ligerdsl::compiler
