// Tests interleaved tiles, and 32-bit words that stay in 64-bit lanes. Results must match the
// interpreter, and the code must have the expected number of ops.
#include <regex>

#include "oracle.h"

namespace ligerdsl::testing::interleave_test {
namespace {

Tile four(const Tile& a, const Tile& b, const Tile& c, const Tile& d) {
  return interleave(interleave(a, c), interleave(b, d));
}

int64_t count(const std::string& text, const char* pattern) {
  const std::regex regex(pattern);
  return std::distance(std::sregex_iterator(text.begin(), text.end(), regex),
                       std::sregex_iterator());
}

// Rows in blocks of 2 to 512 elements. The last block is ragged.
TEST(CpuInterleave, InterleavesComputedTiles) {
  for (int64_t rows : {1, 3})
    for (int64_t block : {2, 4, 8, 16, 32, 64, 128, 512}) {
      const auto build = [&](KernelBuilder& k) {
        View y = k.view("y", f32, {dyn, dyn}), x = k.view("x", f32, {dyn, dyn});
        Tile n = k.arange(block / 2).to(f32).expand_dims(0),
             r = k.arange(rows).to(f32).expand_dims(1);
        Tile woven = interleave(r * 100.0f + n, r * 100.0f - n);
        auto at = [&](const View& v) { return v.partition({rows, block}); };
        at(y).store({0, k.program_id(0)}, at(x).load({0, k.program_id(0)}) + woven);
      };
      SCOPED_TRACE(block);
      const int64_t width = 2 * block + 1;
      Case()
          .out(f32, {rows, width})
          .view(f32, randomNumbers(rows * width), {rows, width})
          .check(build, {3});
    }
}

TEST(CpuInterleave, InterleavesLoadedTiles) {
  const auto build = [](KernelBuilder& k) {
    View y = k.view("y", f32, {dyn, dyn}), total = k.view("total", f32, {dyn});
    std::array<Tile, 4> words;
    for (int i = 0; i < 4; ++i) {
      View x = k.view("x" + std::to_string(i), i == 1 ? bf16 : f32, {dyn, dyn});
      words[i] = x.partition({2, 64}).load({0, k.program_id(0)}).to(f32);
    }
    Tile woven = four(words[0], words[1], words[2], words[3]);
    y.partition({2, 256}).store({0, k.program_id(0)}, woven);
    total.store({k.program_id(0)}, sum(woven));
  };
  Case all;
  all.out(f32, {2, 301}).out(f32, {2});
  for (unsigned i = 0; i < 4; ++i) all.view(i == 1 ? bf16 : f32, randomNumbers(2 * 75, i), {2, 75});
  all.check(build, {2}, {1e-5, 1e-5});
}

// Applies math functions to interleaved tiles that are wider than one vector register.
TEST(CpuInterleave, AppliesFunctionsToInterleavedTiles) {
  for (int64_t block : {32, 64, 256}) {
    const auto build = [&](KernelBuilder& k) {
      View y = k.view("y", f32, {dyn}), x = k.view("x", f32, {dyn});
      const Tile n = k.arange(block / 4).to(f32) * 0.01f;
      const Tile woven =
          four(n, n + 1.0f, n + 2.0f, n + 3.0f) + x.partition({block}).load({k.program_id(0)});
      const Tile positive = abs(woven) + 0.5f;
      y.partition({block}).store({k.program_id(0)}, exp(woven) + log(positive) + fast_exp(woven) +
                                                        tanh(woven) + pow(positive, woven));
    };
    Case().out(f32, {300}).view(f32, randomNumbers(300), {300}).check(build, {10}, {1e-4, 1e-5});
  }
}

// A tile that is read with stride 2 is not computed in halves.
TEST(CpuInterleave, StridedLoadsAreNotSplit) {
  const auto build = [](KernelBuilder& k) {
    View y = k.view("y", f32, {dyn}), x = k.view("x", f32, {dyn, 2});
    y.partition({64}).store({0}, x.partition({32, 2}).load({0, 0}).reshape({64}) * 2.0f);
  };
  Case().out(f32, {64}).view(f32, randomNumbers(60), {30, 2}).check(build);
}

// Four contiguous elements use the words of one Philox call: 19 multiplications of 64-bit lanes,
// two per round, but only one in the first round.
TEST(CpuInterleave, PhiloxIsCalledOnceForFourElements) {
  const auto build = [](KernelBuilder& k) {
    View y = k.view("y", i32, {dyn});
    const auto w =
        philox(k.constant(7, i64), k.program_id(0).to(i64) * 256 + k.arange(256).to(i64));
    y.partition({1024}).store({k.program_id(0)}, four(w[0], w[1], w[2], w[3]));
  };
  Case().out(i32, {2048}).check(build, {2});
  KernelBuilder k("words");
  build(k);
  program::CompileOptions options;
  options.emit = "loops";
  const std::string loops = compileProgram(k.finish(), options).code;
  const int64_t bodies = count(loops, "masked.store|llvm.store [^\\n]*vector<64xi32>");
  ASSERT_GE(bodies, 1) << loops;
  EXPECT_EQ(count(loops, "arith.muli [^\\n]*: vector<16xi64>"), 19 * bodies) << loops;
  EXPECT_EQ(count(loops, "vector<64xi64>"), 0) << loops;
  EXPECT_EQ(count(loops, "arith.xori [^\\n]*: vector<16xi32>"), 2 * bodies)
      << loops;  // the keys of the last round
}

// Truncates i64 to 32-bit words, combines the words and widens them again. Covers masks of 24, 32
// and 33 bits, sign extension, and upper words.
TEST(CpuInterleave, WordsInWideLanesMatchTheInterpreter) {
  const auto build = [](KernelBuilder& k) {
    View y = k.view("y", i64, {6, dyn}), a = k.view("a", i64, {dyn}), b = k.view("b", i64, {dyn});
    Scalar key = k.scalar("key", i32);
    const auto load = [&](const View& v) {
      return v.partition({32}).load({0}) * int64_t{0x10000001};
    };
    const auto word = [](const Tile& t) { return t.to(i32); };
    const Tile x = load(a), z = load(b), mixed = word(x) ^ word(z), keyed = mixed ^ key;
    const std::array<Tile, 6> results = {
        keyed.to(i64) & int64_t{0xffffffff},
        keyed.to(i64) & int64_t{0x1ffffffff},
        keyed.to(i64),
        (word(x) & int64_t{0x7fff00ff}).to(i64) & int64_t{0xffffff},
        ((word(x) | word(z)).to(i64) & int64_t{0xffffffff}) + mixed.to(i64),
        (word(x >> 32) ^ key).to(i64) & int64_t{0xffffffff},
    };
    for (int64_t i = 0; i < 6; ++i) y.partition({squeeze, 32}).store({i, 0}, results[i]);
  };
  Case()
      .out(i64, {6, 30})
      .view(i64, randomNumbers(30, 1, -3e8, 3e8), {30})
      .view(i64, randomNumbers(30, 2, -3e8, 3e8), {30})
      .scalar(i32, -559038737)
      .check(build);
}

}  // namespace
}  // namespace ligerdsl::testing::interleave_test
