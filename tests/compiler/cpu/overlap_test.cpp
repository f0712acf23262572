// Tests random orders of loads and stores on views that share memory: a tile keeps the values it
// had when it was loaded.
//
// p and q are one buffer, s is the same buffer shifted by five elements, and r is disjoint. Values
// are small integers, so the interpreter and the CPU target must give the same bits.
#include "oracle.h"
#include "program/print.h"

namespace ligerdsl::testing::overlap_test {
namespace {

constexpr int64_t kRows = 16, kColumns = 32, kShift = 5;

class Shuffler {
 public:
  Shuffler(KernelBuilder& k, unsigned seed, bool withShifted) : k_(k), random_(seed) {
    for (const char* name : {"p", "q", "r"}) views_.push_back(k.view(name, f32, {dyn, dyn}));
    if (withShifted) views_.push_back(k.view("s", f32, {dyn, dyn}));
    for (int i = 0; i < 3; ++i) load();
    for (int step = 0; step < 18; ++step) grow(true);
    views_[2].partition({8, 16}).store({0, 1}, values_.back());
  }

 private:
  int pick(int n) { return static_cast<int>(random_() % unsigned(n)); }
  const Tile& any() {
    return values_[values_.size() - 1 - pick(std::min<int>(5, int(values_.size())))];
  }
  const View& view() { return views_[pick(int(views_.size()))]; }
  Scalar index() { return loop_.empty() || pick(3) ? k_.constant(pick(2), i32) : loop_ % 2; }
  Tile tame(const Tile& v) { return clamp(v, -1000.0f, 1000.0f); }

  void load() {
    if (pick(4) == 0)
      values_.push_back(
          view().partition({16, 8}).load({0, pick(4)}).permute({1, 0}).reshape({8, 16}));
    else
      values_.push_back(view().partition({8, 16}).load({index(), index()}));
  }
  void store() {
    if (pick(4) == 0)
      view().partition({16, 8}).store({0, pick(4)}, any().permute({1, 0}).reshape({16, 8}));
    else
      view().partition({8, 16}).store({index(), index()}, any());
  }
  Tile offsets() {
    Tile row = k_.arange(8).expand_dims(1), column = k_.arange(16).expand_dims(0);
    return pick(2) ? row * int(kColumns) + column : (row * 37 + column * 5 + 11) % 480;
  }
  void compute() {
    Tile x = any(), y = any();
    switch (pick(6)) {
      case 0:
        values_.push_back(tame(x + y));
        break;
      case 1:
        values_.push_back(max(x, -y));
        break;
      case 2:
        values_.push_back(tame(x - reduce_max(y, 1).expand_dims(1)));
        break;
      case 3:
        values_.push_back(tame(x + reduce_max(y, 0).expand_dims(0)));
        break;
      case 4:
        values_.push_back(x.permute({1, 0}).reshape({8, 16}));
        break;
      default:
        values_.push_back(where(x > y, x, reduce_min(y)));
        break;
    }
  }
  // Records steps inside a region. Steps after the region cannot use its tiles, so values_ drops
  // them.
  template <class Body>
  void inside(Body body) {
    size_t count = values_.size();
    body();
    values_.resize(count);
  }
  void loop() {
    Tile start = any();
    auto [result] = k_.for_range(0, 1 + pick(3), 1, carry(start), [&](Scalar i, Tile v) {
      Scalar outer = loop_;
      Tile next;
      inside([&] {
        loop_ = i;
        values_.push_back(v);
        for (int step = 0; step < 5; ++step) grow(false);
        next = any();
      });
      loop_ = outer;
      return carry(next);
    });
    values_.push_back(result);
  }
  void branch() {
    Scalar condition = reduce_max(any()) > reduce_min(any()) + 3.0f;
    auto arm = [&] {
      Tile out;
      inside([&] {
        for (int step = 0; step < 3; ++step) grow(false);
        out = any();
      });
      return out;
    };
    values_.push_back(k_.if_(condition, arm, arm));
  }
  void grow(bool regions) {
    switch (pick(regions ? 12 : 9)) {
      case 0:
      case 1:
      case 2:
        load();
        break;
      case 3:
      case 4:
        store();
        break;
      case 5:
        values_.push_back(ligerdsl::load(view().ptr() + offsets()));
        break;
      case 6:
        ligerdsl::store(view().ptr() + offsets(), any());
        break;
      case 9:
      case 10:
        loop();
        break;
      case 11:
        branch();
        break;
      default:
        compute();
        break;
    }
  }

  KernelBuilder& k_;
  std::mt19937 random_;
  std::vector<View> views_;
  std::vector<Tile> values_;
  Scalar loop_;
};

// Memory of p, q and s (`shared`), and of r (`separate`).
struct Memory {
  std::vector<float> shared, separate;
  explicit Memory(unsigned seed) : shared(kRows * kColumns + kShift), separate(kRows * kColumns) {
    std::mt19937 random(seed);
    for (float& value : shared) value = static_cast<float>(random() % 64) - 32;
    for (float& value : separate) value = static_cast<float>(random() % 64) - 32;
  }
  template <class AddView>
  void bind(bool withShifted, AddView view) {
    view(shared.data()), view(shared.data()), view(separate.data());
    if (withShifted) view(shared.data() + kShift);
  }
};

void checkSeed(unsigned seed, bool withShifted, const program::CompileOptions& options) {
  auto build = [&](KernelBuilder& k) { Shuffler(k, seed, withShifted); };
  KernelBuilder k("shuffle");
  build(k);
  program::Program program = k.finish();
  Memory expected(seed), actual(seed);
  interpreter::Arguments arguments;
  expected.bind(withShifted, [&](float* data) {
    arguments.view(data, f32, {kRows, kColumns}, {kColumns, 1});
  });
  interpreter::run(program, arguments, {});
  Slots slots;
  actual.bind(withShifted, [&](float* data) { slots.view(data, {kRows, kColumns}); });
  CpuKernel(build, options).run(slots);
  ASSERT_TRUE(expected.shared == actual.shared && expected.separate == actual.separate)
      << "seed " << seed << (withShifted ? " with s, " : ", ") << options.facts.size() << " facts\n"
      << program::print(program);
}

TEST(CpuOverlap, LoadsAndStoresKeepTheirOrder) {
  for (unsigned seed = 0; seed < 24; ++seed) {
    checkSeed(seed, true, {});
    checkSeed(seed, false, aliasing({1, 1, 2}));
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace ligerdsl::testing::overlap_test
