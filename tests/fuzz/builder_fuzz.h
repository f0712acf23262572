// Random calls of the DSL, valid and invalid: operands of any kind, type and shape, extreme
// numbers, handles from a region that has ended, and regions left by an exception.
//
// Each call must either be recorded, or throw an Error that names the line of the call. record()
// returns the program of the recorded calls.
#pragma once

#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "ligerdsl/dsl.h"
#include "program/program.h"

namespace ligerdsl::test {

class BuilderFuzz {
 public:
  explicit BuilderFuzz(unsigned seed) : random_(seed), k_("fuzz") {}

  // Records about `steps` ops. Throws std::logic_error if an Error does not name its source line.
  program::Program record(int steps) {
    if (once_in(20)) {  // finishes a first program and keeps its handles, which are then invalid
      arguments();
      k_.finish();
    }
    arguments();
    for (int i = 0; i < steps; ++i) step();
    for (const View& view : views_) attempt([&] { store_somewhere(view); });
    return k_.finish();
  }

  int accepted() const { return accepted_; }
  int refused() const { return refused_; }

 private:
  // ---- choices
  int pick(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }
  bool once_in(int n) { return pick(n) == 0; }
  template <class T>
  T any(const std::vector<T>& values) {
    return values.empty() ? T() : values[pick(static_cast<int>(values.size()))];
  }
  DType dtype() {
    constexpr DType types[] = {f32, f32, f32, i32,    i32,    bf16, f16,
                               i64, i8,  i16, f8e4m3, f8e5m2, i1};
    return types[pick(std::size(types))];
  }
  int64_t dim() {
    constexpr int64_t usual[] = {1, 2, 4, 8, 16, 32, 64, 3, 20, 96};
    constexpr int64_t odd[] = {
        0, -1, 33, 1000, 37, INT64_MAX, dyn, int64_t{1} << 20, int64_t{1} << 33};
    return once_in(25) ? odd[pick(9)] : usual[pick(10)];
  }
  Shape shape(int rank = -1) {
    Shape result;
    const int n = rank >= 0 ? rank : once_in(30) ? pick(9) : 1 + pick(2);
    for (int i = 0; i < n; ++i) result.push_back(dim());
    return result;
  }
  double real() {
    constexpr double values[] = {0, 1, -1, 0.5, 3.25, -7, 1e-40, 1e30, 1e300, 65504, 70000};
    return once_in(20) ? (once_in(2) ? NAN : INFINITY) : values[pick(11)];
  }
  int64_t integer() {
    constexpr int64_t values[] = {0,  1,   2,   3,    5,          8,         -1,
                                  -8, 127, 128, 4096, 5000000000, INT64_MAX, INT64_MIN};
    return values[pick(once_in(4) ? 14 : 8)];
  }
  ScalarArg number() { return once_in(2) ? ScalarArg(real()) : ScalarArg(integer()); }
  NumberArg literal() { return once_in(2) ? NumberArg(real()) : NumberArg(integer()); }

  Scalar scalar() { return any(scalars_); }
  Tile tile() { return any(tiles_); }
  // Returns a tile, mostly of the dtype and shape of `to`.
  Tile like(const Tile& to) {
    if (once_in(8)) return tile();
    for (int tries = 0; tries < 20; ++tries) {
      const Tile t = tile();
      if (!t.empty() && !to.empty() && t.dtype() == to.dtype() && t.shape() == to.shape()) return t;
    }
    return to;
  }
  Scalar like(const Scalar& to) {
    for (int tries = 0; tries < 20 && !once_in(10); ++tries) {
      const Scalar s = scalar();
      if (!s.empty() && !to.empty() && s.dtype() == to.dtype()) return s;
    }
    return scalar();
  }
  template <class T>
  T of(std::initializer_list<DType> types, T (BuilderFuzz::*from)()) {
    for (int tries = 0; tries < 20 && !once_in(10); ++tries) {
      const T value = (this->*from)();
      for (const DType type : types)
        if (!value.empty() && value.dtype() == type) return value;
    }
    return (this->*from)();
  }
  Tile condition() { return of({i1}, &BuilderFuzz::tile); }
  Scalar test() { return of({i1}, &BuilderFuzz::scalar); }
  Tile offset() { return of({i32, i64}, &BuilderFuzz::tile); }
  Scalar index() { return of({i32, i64}, &BuilderFuzz::scalar); }
  TileArg operand(const Tile& to) {
    if (once_in(5)) return number_for_tile();
    return once_in(5) ? TileArg(scalar()) : TileArg(like(to));
  }
  TileArg number_for_tile() { return once_in(2) ? TileArg(real()) : TileArg(integer()); }

  // ---- outcomes
  void attempt(const std::function<void()>& call) {
    try {
      call();
      ++accepted_;
    } catch (const Error& error) {
      ++refused_;
      const std::string text = error.what();
      const size_t file = text.find("builder_fuzz.h:"), kind = text.find(": error: ");
      if (file == std::string::npos || kind == std::string::npos || file > kind)
        throw std::logic_error("an error that does not name the caller's line: " + text);
      if (text.size() < kind + 20) throw std::logic_error("an error without a text: " + text);
      if (depth_ > 0 && once_in(6)) throw;  // leaves the loop or branch that is being recorded
    }
  }
  void keep(const Tile& value) { tiles_.push_back(value); }
  void keep(const Scalar& value) { scalars_.push_back(value); }
  void keep(const Ptr& value) { pointers_.push_back(value); }
  void keep(const PtrTile& value) { pointer_tiles_.push_back(value); }

  // ---- Calls that an author may write
  void arguments() {
    for (int i = 0, n = 2 + pick(3); i < n; ++i)
      attempt([&] {
        Shape dims;
        for (int d = 0, rank = 1 + pick(3); d < rank; ++d) dims.push_back(once_in(3) ? dim() : dyn);
        views_.push_back(k_.view("v" + std::to_string(i), dtype(), dims));
      });
    for (int i = 0, n = pick(3); i < n; ++i)
      attempt([&] { keep(k_.scalar("s" + std::to_string(i), dtype())); });
    attempt([&] { keep(k_.ptr("p", dtype())); });
    if (once_in(20)) attempt([&] { k_.scalar(once_in(2) ? "p" : "no name", f32); });
    keep(k_.program_id(0));
    keep(k_.arange(64));
    keep(k_.zeros({4, 16}, f32));
    keep(k_.full({32}, 1.5, f32));
  }

  Indices indices(size_t n) {
    Indices result;
    for (size_t i = 0; i < n; ++i)
      result.push_back(once_in(3) ? ScalarArg(integer()) : ScalarArg(index()));
    if (once_in(15)) result.push_back(number());
    return result;
  }
  Shape partition_of(const View& view) {
    Shape tile;
    for (int i = 0; i < view.rank(); ++i) tile.push_back(once_in(3) ? squeeze : dim());
    return once_in(15) ? shape() : tile;
  }
  void store_somewhere(const View& view) {
    const Partition part = view.partition(partition_of(view));
    Tile value;
    for (const Tile& t : tiles_)
      if (!t.empty() && t.dtype() == view.dtype() && t.shape() == part.shape()) value = t;
    part.store(indices(view.rank()),
               value.empty() || once_in(10) ? number_for_tile() : TileArg(value));
  }

  void leaf() {
    switch (pick(6)) {
      case 0:
        return keep(k_.full(shape(), number(), dtype()));
      case 1:
        return keep(k_.zeros(shape(), dtype()));
      case 2:
        return keep(k_.arange(dim()));
      case 3:
        return keep(k_.constant(literal(), dtype()));
      case 4:
        return keep(k_.program_id(once_in(10) ? 3 : pick(3)));
      default:
        return keep(k_.num_programs(pick(3)));
    }
  }
  void memory() {
    const View view = any(views_);
    switch (pick(7)) {
      case 0:
      case 1:
        return keep(view.partition(partition_of(view)).load(indices(view.rank()), {.pad = real()}));
      case 2:
        return store_somewhere(view);
      case 3:
        return keep(view.load(indices(view.rank())));
      case 4:
        return view.store(indices(view.rank()), once_in(3) ? number() : ScalarArg(scalar()));
      case 5:
        return keep(once_in(2) ? view.dim(pick(4) - 1) : view.stride(pick(4) - 1));
      default:
        return keep(view.ptr());
    }
  }
  void pointers() {
    const Ptr p = any(pointers_);
    const PtrTile many = any(pointer_tiles_);
    const Tile value = of({p.dtype()}, &BuilderFuzz::tile);
    switch (pick(11)) {
      case 0:
        return keep(p + index());
      case 1:
      case 2:
        return keep(p + offset());
      case 3:
        return keep(many + offset());
      case 4:
        return keep(load(many, condition(), operand(value)));
      case 5:
        return keep(load(p));
      case 6:
        return store(many, operand(value), condition());
      case 7:
        return store(p, once_in(2) ? number() : ScalarArg(scalar()), test());
      case 8:
        return keep(atomic_add(many, operand(value)));
      case 9:
        return keep(atomic_cas(many, operand(value), operand(value), condition()));
      default:
        return keep(atomic_max(many, operand(value), condition()));
    }
  }
  void unary() {
    const Tile x = tile();
    const Scalar s = scalar();
    switch (pick(26)) {
      case 0:
        return keep(abs(x));
      case 1:
        return keep(floor(x));
      case 2:
        return keep(exp(x));
      case 3:
        return keep(exp2(x));
      case 4:
        return keep(log(x));
      case 5:
        return keep(sqrt(x));
      case 6:
        return keep(rsqrt(s));
      case 7:
        return keep(tanh(x));
      case 8:
        return keep(erf(x));
      case 9:
        return keep(sigmoid(x));
      case 10:
        return keep(fast_exp(x));
      case 11:
        return keep(-x);
      case 12:
        return keep(~x);
      case 13:
        return keep(!x);
      case 14:
        return keep(log2(s));
      case 15:
        return keep(ceil(s));
      case 16:
        return keep(-s);
      case 17:
        return keep(softmax(x, pick(4) - 1));
      case 18:
        return keep(silu(x));
      case 19:
        return keep(s.to(dtype()));
      case 20:
        return keep(sin(x));
      case 21:
        return keep(bitcast(x, dtype()));
      case 22:
        return keep(pow(expm1(log1p(cos(round(x)))), 1.5f));
      case 23:
        return keep(ligerdsl::any(x, pick(4) - 1));
      default:
        return keep(x.to(dtype()));
    }
  }
  void binary() {
    const Tile a = tile(), b = like(a);
    switch (pick(20)) {
      case 0:
        return keep(a + b);
      case 1:
        return keep(a - number());
      case 2:
        return keep(a * b);
      case 3:
        return keep(a / b);
      case 4:
        return keep(a % b);
      case 5:
        return keep(a == b);
      case 6:
        return keep(a < number());
      case 7:
        return keep(a >= b);
      case 8:
        return keep(a & b);
      case 9:
        return keep(a | number());
      case 10:
        return keep(a ^ b);
      case 11:
        return keep(a << number());
      case 12:
        return keep(a >> b);
      case 13:
        return keep(condition() && condition());
      case 14:
        return keep(min(a, b));
      case 15:
        return keep(max(a, scalar()));
      case 16:
        return keep(fast_div(a, b));
      case 17:
        return keep(clamp(a, operand(a), operand(a)));
      case 18:
        return keep(fma(a, operand(a), operand(a)));
      default:
        return keep(where(condition(), operand(a), operand(a)));
    }
  }
  void scalars() {
    const Scalar a = scalar(), b = like(a);
    switch (pick(10)) {
      case 0:
        return keep(a + b);
      case 1:
        return keep(a - literal());
      case 2:
        return keep(a * b);
      case 3:
        return keep(a / b);
      case 4:
        return keep(a % literal());
      case 5:
        return keep(a < b);
      case 6:
        return keep(min(a, b));
      case 7:
        return keep(where(test(), ScalarArg(a), ScalarArg(b)));
      case 8:
        return keep(assume_divisible(a, integer()));
      default:
        return keep(a.broadcast_to(shape()));
    }
  }
  void shapes() {
    const Tile x = tile();
    switch (pick(5)) {
      case 0:
        return keep(x.expand_dims(pick(5) - 1));
      case 1: {
        Shape to = x.shape();
        for (int64_t& n : to)
          if (n == 1) n = dim();
        return keep(x.broadcast_to(once_in(8) ? shape() : to));
      }
      case 2: {
        Shape flat{x.empty() ? 8 : x.size()};
        return keep(x.reshape(once_in(4) ? shape() : flat));
      }
      case 3: {
        std::vector<int> order;
        for (int i = x.rank() - 1; i >= 0; --i) order.push_back(i);
        if (once_in(6)) order.push_back(pick(3));
        return keep(x.permute(order));
      }
      default:
        return keep(x.broadcast_to(shape(x.rank())));
    }
  }
  void reductions() {
    const Tile x = tile(), y = like(x);
    const int axis = pick(4) - 1;
    const auto pair = [&](Scalar a0, Scalar b0, Scalar a1, Scalar b1) {
      return once_in(12) ? carry(a0, scalar()) : carry(a0 + a1, max(b0, b1));
    };
    switch (pick(11)) {
      case 0:
        return keep(sum(x));
      case 1:
        return keep(sum(x, axis));
      case 2:
        return keep(reduce_max(x, axis));
      case 3:
        return keep(reduce_min(x));
      case 4:
        return keep(argmax(x, axis));
      case 5:
        return keep(argmin(x));
      case 6:
        return keep(cumsum(x, axis, once_in(2)));
      case 7: {
        auto [a, b] = reduce({x, y}, axis, pair);
        keep(a);
        return keep(b);
      }
      case 8: {
        auto [a, b] = reduce({x, y}, pair);
        keep(a);
        return keep(b);
      }
      case 9: {
        auto [a] = scan(
            {x}, axis, [](Scalar l, Scalar r) { return carry(l + r); }, once_in(2));
        return keep(a);
      }
      default: {
        auto [value, at] = max_with_index(x, axis);
        keep(value);
        return keep(at);
      }
    }
  }
  void hints() {
    switch (pick(3)) {
      case 0:
        return assume(test());
      case 1:
        return device_print("value", {scalar(), tile()});
      default: {
        if (depth_ > 0 && once_in(3)) k_.finish();
        auto exact = k_.exact_rounding();
        return binary();
      }
    }
  }

  // Records a few steps inside a loop or branch. Afterwards drops its handles, or keeps them so
  // that later calls misuse them.
  void inside() {
    const auto tiles = tiles_;
    const auto scalars = scalars_;
    const auto pointers = pointers_;
    const auto pointer_tiles = pointer_tiles_;
    const auto restore = [&] {
      --depth_;
      if (once_in(10)) return;
      tiles_ = tiles;
      scalars_ = scalars;
      pointers_ = pointers;
      pointer_tiles_ = pointer_tiles;
    };
    ++depth_;
    try {
      for (int i = 0, n = 1 + pick(4); i < n; ++i) step();
    } catch (...) {
      restore();
      throw;
    }
    last_ = tile();
    restore();
  }
  LoopOptions loop_options() {
    return {once_in(4) ? pick(9) - 1 : 0, once_in(4) ? pick(9) - 1 : 0};
  }
  void regions() {
    const Tile carried = tile();
    switch (pick(5)) {
      case 0:
        return k_.for_range(number(), index(), literal_step(), [&](Scalar i) {
          keep(i);
          inside();
        });
      case 1: {
        auto [out] =
            k_.for_range(0, index(), 1, loop_options(), carry(carried), [&](Scalar, Tile t) {
              keep(t);
              inside();
              return carry(once_in(8) ? last_ : like(t));
            });
        return keep(out);
      }
      case 2:
        return k_.if_(test(), [&] { inside(); });
      case 3:
        return keep(k_.if_(
            test(), [&] { return inside(), like(carried); },
            [&] { return inside(), like(carried); }));
      default: {
        auto [n, t] = k_.while_(
            carry(index(), carried), [&](Scalar i, Tile) { return once_in(8) ? i : i < 3; },
            [&](Scalar i, Tile t) {
              inside();
              return carry(i + 1, like(t));
            });
        keep(n);
        return keep(t);
      }
    }
  }
  ScalarArg literal_step() { return once_in(3) ? ScalarArg(integer()) : ScalarArg(1); }

  void step() {
    attempt([&] {
      switch (pick(depth_ < 3 ? 14 : 13)) {
        case 0:
          return leaf();
        case 1:
        case 2:
          return memory();
        case 3:
          return pointers();
        case 4:
          return unary();
        case 5:
        case 6:
          return binary();
        case 7:
          return scalars();
        case 8:
          return shapes();
        case 9:
          return reductions();
        case 10:
          return once_in(4) ? hints() : unary();
        case 11:
          return binary();
        case 12:
          return memory();
        default:
          return regions();
      }
    });
  }

  std::mt19937 random_;
  KernelBuilder k_;
  std::vector<View> views_;
  std::vector<Tile> tiles_;
  std::vector<Scalar> scalars_;
  std::vector<Ptr> pointers_;
  std::vector<PtrTile> pointer_tiles_;
  Tile last_;
  int depth_ = 0, accepted_ = 0, refused_ = 0;
};

}  // namespace ligerdsl::test
