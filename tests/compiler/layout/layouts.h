// Sample layouts for tests of properties, and helpers that enumerate their elements.
#pragma once

#include <functional>
#include <vector>

#include "compiler/layout/linear_layout.h"

namespace ligerdsl::compiler {

inline const std::vector<LinearLayout::Shape>& sampleShapes() {
  static const std::vector<LinearLayout::Shape> shapes = {
      {1},     {2},      {8},       {64},       {256},     {3},       {12},
      {96},    {5 * 16}, {1, 1},    {4, 8},     {8, 4},    {1, 32},   {32, 1},
      {3, 16}, {6, 20},  {2, 2, 2}, {4, 2, 16}, {3, 1, 8}, {2, 3, 4}, {1, 7, 1}};
  return shapes;
}

inline std::vector<LinearLayout> layoutsOf(const LinearLayout::Shape& shape) {
  std::vector<LinearLayout> result;
  for (int64_t vector : {1, 2, 4})
    for (auto [lanes, warps] : {std::pair<int64_t, int64_t>{4, 2}, {8, 1}, {2, 4}}) {
      result.push_back(LinearLayout::blocked(shape, vector, lanes, warps));
      result.push_back(LinearLayout::rowsPerWarp(shape, vector, lanes, warps));
    }
  result.push_back(LinearLayout::replicated(shape, 4, 2));
  return result;
}

// Returns layouts in which the CTAs of a cluster divide or replicate a tile.
inline std::vector<LinearLayout> cutLayoutsOf(const LinearLayout::Shape& shape) {
  std::vector<LinearLayout> result;
  const int last = static_cast<int>(shape.size()) - 1;
  for (int64_t ctas : {2, 4})
    for (const ClusterCut& cut :
         {ClusterCut{ctas}, ClusterCut{ctas, {last}}, ClusterCut{ctas, {0, last}}}) {
      result.push_back(LinearLayout::blocked(shape, 2, 4, 2, cut));
      result.push_back(LinearLayout::rowsPerWarp(shape, 4, 8, 2, cut));
    }
  result.push_back(LinearLayout::replicated(shape, 4, 2, 4));
  return result;
}

inline std::vector<LinearLayout> sampleLayouts() {
  std::vector<LinearLayout> result;
  for (const auto& shape : sampleShapes())
    for (auto& layout : layoutsOf(shape)) result.push_back(std::move(layout));
  return result;
}

inline void forEachThread(const LinearLayout& layout,
                          const std::function<void(int64_t lane, int64_t warp)>& body) {
  for (int64_t warp = 0; warp < layout.warps(); ++warp)
    for (int64_t lane = 0; lane < layout.lanes(); ++lane) body(lane, warp);
}

inline void forEachElement(const LinearLayout::Shape& shape,
                           const std::function<void(const LinearLayout::Coordinates&)>& body) {
  LinearLayout::Coordinates at(shape.size(), 0);
  while (true) {
    body(at);
    int dim = static_cast<int>(shape.size()) - 1;
    while (dim >= 0 && ++at[dim] == shape[dim]) at[dim--] = 0;
    if (dim < 0) return;
  }
}

// Returns the elements of one thread in register order.
inline std::vector<LinearLayout::Coordinates> elementsOf(const LinearLayout& layout, int64_t lane,
                                                         int64_t warp) {
  std::vector<LinearLayout::Coordinates> result;
  for (int64_t reg = 0; reg < layout.registers(); ++reg)
    result.push_back(layout.coordinates({reg, lane, warp}));
  return result;
}

inline std::string valid(const LinearLayout& layout) {
  return LinearLayout::check(layout.shape(), layout.bases(Axis::reg), layout.bases(Axis::lane),
                             layout.bases(Axis::warp), layout.bases(Axis::cta));
}

inline int64_t rowMajor(const LinearLayout::Shape& shape, const LinearLayout::Coordinates& at) {
  int64_t index = 0;
  for (size_t dim = 0; dim < shape.size(); ++dim) index = index * shape[dim] + at[dim];
  return index;
}

}  // namespace ligerdsl::compiler
