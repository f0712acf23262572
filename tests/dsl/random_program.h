// Random programs with one correct result. It does not depend on the order of evaluation or on
// fused rounding, so every implementation must give the same bits. The programs contain exactly
// rounded arithmetic, additions of small integers, integer ops, max and min reductions, masks,
// loops, branches, gathers and scatters.
//
// Arguments, for any numbers of rows and columns:
// - inputs [rows, columns]: a f32, b bf16, c i32, e f8e4m3; input v f32 [16]
// - outputs [rows, columns]: x f32, y i32, g f8e5m2
// - outputs z f32 [rows, programs along y], w f32 [rows * columns]
// One program computes one tile of random_tile(seed): grid = {ceil(rows / tile[0]), ceil(columns /
// tile[1])}.
#pragma once

#include <random>
#include <vector>

#include "ligerdsl/dsl.h"

namespace ligerdsl::test {

// Returns the low 8 bits as a code of f8e4m3, with NaN replaced by 0.
inline uint8_t random_f8e4m3(unsigned bits) {
  const auto code = static_cast<uint8_t>(bits);
  return (code & 0x7f) == 0x7f ? 0 : code;
}

inline Shape random_tile(unsigned seed) {
  static const std::vector<Shape> shapes{{1, 8},  {4, 16}, {2, 64}, {8, 20},
                                         {16, 4}, {3, 32}, {1, 256}};
  return shapes[seed % shapes.size()];
}

class RandomProgram {
 public:
  RandomProgram(KernelBuilder& k, unsigned seed)
      : k_(k), random_(seed), shape_(random_tile(seed)) {}

  void build() {
    View a = k_.view("a", f32, {dyn, dyn});
    View b = k_.view("b", bf16, {dyn, dyn});
    View c = k_.view("c", i32, {dyn, dyn});
    View e = k_.view("e", f8e4m3, {dyn, dyn});
    View v = k_.view("v", f32, {16});
    View x = k_.view("x", f32, {dyn, dyn});
    View y = k_.view("y", i32, {dyn, dyn});
    View g = k_.view("g", f8e5m2, {dyn, dyn});
    View z = k_.view("z", f32, {dyn, dyn});
    View w = k_.view("w", f32, {dyn});
    auto exact = k_.exact_rounding();
    table_ = v.ptr();
    Scalar i = k_.program_id(0), j = k_.program_id(1);

    floats_.push_back(a.partition(shape_).load({i, j}, {.pad = 0.5}));
    floats_.push_back(b.partition(shape_).load({i, j}).to(f32));
    codes_ = e.partition(shape_).load({i, j}, {.pad = -448});
    floats_.push_back(codes_.to(f32));
    integers_.push_back(c.partition(shape_).load({i, j}, {.pad = -3}));
    integers_.push_back(column_index());
    scalars_.push_back(v.load({i}, {.pad = 1.0}));
    scalars_.push_back(tame(max(floats_[0])));
    const int steps = 6 + pick(18);
    for (int step = 0; step < steps; ++step) grow(true);

    x.partition(shape_).store({i, j}, last(floats_));
    y.partition(shape_).store({i, j}, last(integers_));
    g.partition(shape_).store({i, j}, moved(last(floats_).to(f8e5m2)));
    z.partition({shape_[0], squeeze}).store({i, j}, reduce_max(last(floats_), 1));
    scatter(w.ptr(), a, i, j);
  }

 private:
  int pick(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }
  template <class T>
  const T& any(const std::vector<T>& values) {
    return values[pick(static_cast<int>(values.size()))];
  }
  template <class T>
  static const T& last(const std::vector<T>& values) {
    return values.back();
  }

  // Limits magnitudes to 1000, so that nothing overflows and casts to integers are defined.
  static Tile tame(const Tile& x) { return clamp(x, -1000.0f, 1000.0f); }
  static Scalar tame(const Scalar& x) { return clamp(x, -1000.0f, 1000.0f); }
  // Returns integers in [-8, 8]. Additions of them are exact in any order.
  static Tile whole(const Tile& x) { return floor(clamp(x, -8.0f, 8.0f)); }

  // Returns max(a, b / 2), computed in another shape with the same number of elements.
  Tile reshaped_maximum(const Tile& a, const Tile& b) {
    const Shape other =
        pick(2) ? Shape{shape_[1], shape_[0]} : Shape{shape_[0], 1, shape_[1] / 2, 2};
    return max(a.reshape(other), b.reshape(other) * 0.5f).reshape(shape_);
  }

  // Exchanges pairs of elements whose indices differ in the bits of a random mask, along a random
  // axis.
  Tile partners(const Tile& x) {
    const int axis = pick(2);
    const int64_t size = shape_[axis];
    return shuffle_xor(x, pick(static_cast<int>(size & -size)), axis);
  }

  // Programs move and select fp8 values, but do not compute with them.
  Tile moved(const Tile& x) {
    switch (pick(5)) {
      case 0:
        return gather(x, any(integers_), pick(2));
      case 1:
        return partners(x);
      case 2:
        return where(condition(), x, 1.5f);
      case 3:
        return x.reshape({shape_[0], 1, shape_[1] / 2, 2}).permute({1, 0, 2, 3}).reshape(shape_);
      default:
        return x;
    }
  }
  Tile through_fp8(const Tile& x) {
    if (pick(3) == 0) return moved(where(condition(), codes_, x.to(f8e4m3))).to(f32);
    return moved(x.to(pick(2) ? f8e4m3 : f8e5m2)).to(f32);
  }

  Tile column_index() { return k_.arange(shape_[1]).expand_dims(0).broadcast_to(shape_); }

  Tile condition() {
    switch (pick(4)) {
      case 0:
        return any(floats_) < any(floats_);
      case 1:
        return any(integers_) >= pick(5);
      case 2:
        return (any(integers_) & 1) == 0;
      default:
        return !(any(floats_) > any(scalars_)) || any(integers_) != any(integers_);
    }
  }

  Tile float_step() {
    Tile a = any(floats_), b = any(floats_);
    switch (pick(18)) {
      case 0:
        return tame(a + b);
      case 1:
        return tame(a - b);
      case 2:
        return tame(a * b);
      case 3:
        return a / (abs(b) + 1.0f);
      case 4:
        return sqrt(abs(a));
      case 5:
        return min(a, b);
      case 6:
        return max(a, any(scalars_));
      case 7:
        return where(condition(), a, b);
      case 8:
        return floor(a) + ceil(-b);
      case 9:
        return tame(a * any(scalars_)).to(pick(2) ? bf16 : f16).to(f32);
      case 10:
        return any(integers_).to(f32);
      case 11:
        return reduce_max(a, pick(2) ? 1 : -1).expand_dims(1).broadcast_to(shape_);
      case 12:
        return load(table_ + (any(integers_) & 15), condition(), any(scalars_));
      case 13:
        return gather(a, any(integers_), pick(2));
      case 14:
        return partners(a);
      case 15:
        return reshaped_maximum(a, b);
      case 16:
        return through_fp8(a);
      default:
        return tame((a.to(bf16) + b.to(bf16)).to(f32));
    }
  }

  Tile integer_step() {
    Tile a = any(integers_), b = any(integers_);
    switch (pick(14)) {
      case 0:
        return a + b;
      case 1:
        return a - b * 3;
      case 2:
        return a * b;
      case 3:
        return a / ((b & 7) + 1);
      case 4:
        return a % ((b & 15) + 2);
      case 5:
        return (a ^ b) | 1;
      case 6:
        return (a << (b & 7)) >> 2;
      case 7:
        return where(condition(), a, b);
      case 8:
        return any(floats_).to(i32);
      case 9:
        return cumsum(a, 1, pick(2) == 1);
      case 10:
        return min(max(a, -100), b).to(i8).to(i32);
      case 11:
        return gather(a, b & 31, pick(2));
      case 12:
        return partners(a);
      default:
        return argmax(whole(any(floats_)), 1).expand_dims(1).broadcast_to(shape_);
    }
  }

  Scalar scalar_step() {
    switch (pick(4)) {
      case 0:
        return tame(sum(whole(any(floats_))));
      case 1:
        return min(any(floats_));
      case 2:
        return tame(any(scalars_) * any(scalars_));
      default:
        return where(any(scalars_) < any(scalars_), any(scalars_), sum(any(integers_) & 3).to(f32));
    }
  }

  // Records a few steps and a result inside a region, then restores the pools. Values made in the
  // region cannot be used outside of it.
  template <class Result>
  Result inside(Result (RandomProgram::*result)()) {
    const auto floats = floats_;
    const auto integers = integers_;
    const auto scalars = scalars_;
    const int steps = 1 + pick(3);
    for (int step = 0; step < steps; ++step) grow(false);
    Result value = (this->*result)();
    floats_ = floats;
    integers_ = integers;
    scalars_ = scalars;
    return value;
  }

  void loop() {
    Scalar trips = clamp(any(scalars_), 0, 4).to(i32);
    auto [f, n] = k_.for_range(0, trips, 1, carry(any(floats_), any(integers_)),
                               [&](Scalar i, Tile f, Tile n) {
                                 const auto floats = floats_;
                                 const auto integers = integers_;
                                 floats_.push_back(tame(f + i.to(f32)));
                                 integers_.push_back(n + i);
                                 Tile next = inside(&RandomProgram::float_step);
                                 Tile count = inside(&RandomProgram::integer_step);
                                 floats_ = floats;
                                 integers_ = integers;
                                 return carry(next, count);
                               });
    floats_.push_back(f);
    integers_.push_back(n);
  }

  void branch() {
    Scalar test = any(scalars_) < any(scalars_);
    floats_.push_back(k_.if_(
        test, [&] { return inside(&RandomProgram::float_step); },
        [&] { return inside(&RandomProgram::float_step); }));
  }

  void grow(bool regions) {
    switch (pick(regions ? 10 : 8)) {
      case 0:
      case 1:
      case 2:
        integers_.push_back(integer_step());
        break;
      case 3:
        scalars_.push_back(scalar_step());
        break;
      case 8:
        loop();
        break;
      case 9:
        branch();
        break;
      default:
        floats_.push_back(float_step());
        break;
    }
  }

  // Stores a random float tile to w: element [r, c] of the matrix at w[r * columns + c]. Elements
  // outside the matrix are masked.
  void scatter(const Ptr& w, const View& a, const Scalar& i, const Scalar& j) {
    Tile row = k_.arange(shape_[0]).expand_dims(1) + i * shape_[0];
    Tile column = k_.arange(shape_[1]).expand_dims(0) + j * shape_[1];
    Scalar rows = a.dim(0).to(i32), columns = a.dim(1).to(i32);
    store(w + (row * columns + column), any(floats_), row < rows && column < columns);
  }

  KernelBuilder& k_;
  std::mt19937 random_;
  Shape shape_;
  Ptr table_;
  Tile codes_;  // the tile of argument e
  std::vector<Tile> floats_, integers_;
  std::vector<Scalar> scalars_;
};

}  // namespace ligerdsl::test
