// Tests loops and branches that carry tiles. Each carried tile has one buffer, updated in place if
// that is safe.
#include <array>

#include "oracle.h"

namespace ligerdsl::testing::control_flow_test {
namespace {

const std::vector<program::CompileOptions> kBoth = {{}, distinct(3)};

TEST(CpuControlFlow, AccumulatesTilesOverRows) {
  auto build = [](KernelBuilder& k) {
    View out = k.view("out", f32, {dyn}), x = k.view("x", f32, {dyn, dyn});
    Scalar rows = k.scalar("rows", i32);
    auto [acc, count] = k.for_range(0, rows, 1, carry(k.zeros({64}, f32), k.constant(0, i32)),
                                    [&](Scalar r, Tile a, Scalar n) {
                                      Tile row = x.partition({squeeze, 64}).load({r, 0});
                                      return carry(a + row * sum(row), n + r);
                                    });
    out.partition({64}).store({0}, acc + count.to(f32));
  };
  for (double rows : {0, 1, 7})
    Case()
        .out(f32, {60})
        .view(f32, randomNumbers(7 * 60), {7, 60})
        .scalar(i32, rows)
        .check(build, {1}, {1e-4, 1e-5}, kBoth);
}

// Tests unrolled loops and their remainders: many iteration counts, constant and unknown steps, and
// bounds whose difference overflows.
TEST(CpuControlFlow, UnrolledLoopsRunEveryIteration) {
  const double low = INT32_MIN, high = INT32_MAX, large = 1 << 30;
  const std::vector<std::array<double, 3>> ranges = {
      {0, 0, 1},          {0, 1, 1},           {0, 2, 1},   {0, 3, 1},
      {0, 7, 1},          {0, 21, 1},          {0, 22, 1},  {5, 2, 1},
      {-9, 9, 4},         {-9, 11, 4},         {3, 40, 5},  {high - 10, high, 1},
      {low, low + 13, 3}, {low, large, large}, {0, 29, 14}, {0, 28, 14},
      {7, 8, 1000},       {high, low, 1}};
  for (int copies : {2, 3, 7}) {
    for (bool open : {false, true}) {
      for (const auto& [lo, hi, step] : ranges) {
        auto build = [=, step = step](KernelBuilder& k) {
          View out = k.view("out", i32, {4}), tile = k.view("tile", f32, {16});
          Scalar lo = k.scalar("lo", i32), hi = k.scalar("hi", i32),
                 open_step = k.scalar("step", i32);
          Scalar by = open ? open_step : k.constant(static_cast<int64_t>(step), i32),
                 zero = k.constant(0, i32);
          auto [count, last, mixed, acc] =
              k.for_range(lo, hi, by, unrolled(copies), carry(zero, zero, zero, k.zeros({16}, f32)),
                          [&](Scalar i, Scalar count, Scalar, Scalar mixed, Tile acc) {
                            return carry(count + 1, i, mixed * 3 + i, acc * 2.0f + count.to(f32));
                          });
          out.store({0}, count), out.store({1}, last), out.store({2}, mixed);
          tile.partition({16}).store({0}, acc);
        };
        SCOPED_TRACE(::testing::PrintToString(
            std::vector<double>{lo, hi, step, double(copies), double(open)}));
        Case().out(i32, {4}).out(f32, {16}).scalar(i32, lo).scalar(i32, hi).scalar(i32, step).check(
            build, {1}, {0, 0});
      }
    }
  }
}

// An iteration reads the carried value of the previous iteration, even if the new tile is a shuffle
// of the old one.
TEST(CpuControlFlow, ShuffledCarriedTilesReadThePreviousIteration) {
  auto build = [](KernelBuilder& k) {
    View out = k.view("out", f32, {dyn}), x = k.view("x", f32, {dyn});
    Tile v = x.partition({64}).load({0}), w = x.partition({64}).load({1});
    auto [a, b, c, d] =
        k.for_range(0, 5, 1, carry(v, w, v + w, v.reshape({8, 8})),
                    [&](Scalar, Tile a, Tile b, Tile c, Tile d) {
                      return carry(b, a, c.reshape({4, 16}).permute({1, 0}).reshape({64}),
                                   d.permute({1, 0}) + a.reshape({8, 8}));
                    });
    auto o = out.partition({64});
    o.store({0}, a), o.store({1}, b), o.store({2}, c), o.store({3}, d.reshape({64}));
  };
  Case()
      .out(f32, {256})
      .view(f32, randomNumbers(128), {128})
      .check(build, {1}, {1e-6, 1e-6}, {{}, distinct(2)});
}

TEST(CpuControlFlow, LoopUsesOldAndNewValuesOfACarriedTile) {
  auto build = [](KernelBuilder& k) {
    View out = k.view("out", f32, {dyn}), x = k.view("x", f32, {dyn});
    auto [a, b] = k.for_range(0, 4, 1, carry(x.partition({32}).load({0}), k.zeros({32}, f32)),
                              [&](Scalar i, Tile a, Tile b) {
                                Tile next = a * 0.5f + i.to(f32);
                                out.partition({32}).store({i}, next - a);
                                return carry(next, b + a + next);
                              });
    out.partition({32}).store({4}, a + b);
  };
  Case()
      .out(f32, {160})
      .view(f32, randomNumbers(32), {32})
      .check(build, {1}, {}, {{}, distinct(2)});
}

TEST(CpuControlFlow, NestedLoopsCarryTiles) {
  auto build = [](KernelBuilder& k) {
    View out = k.view("out", f32, {dyn, dyn}), x = k.view("x", f32, {dyn, dyn});
    auto [total] = k.for_range(0, 3, 1, carry(k.zeros({48}, f32)), [&](Scalar i, Tile outer) {
      auto [inner] = k.for_range(i, 4, 2, carry(outer), [&](Scalar j, Tile t) {
        return carry(t + x.partition({squeeze, 48}).load({j, 0}) * (i + 1).to(f32));
      });
      out.partition({squeeze, 48}).store({i, 0}, inner - outer);
      return carry(inner);
    });
    out.partition({squeeze, 48}).store({3, 0}, total);
  };
  Case()
      .out(f32, {4, 48})
      .view(f32, randomNumbers(4 * 48), {4, 48})
      .check(build, {1}, {1e-5, 1e-5}, {{}, distinct(2)});
}

TEST(CpuControlFlow, WhileLoopsCarryTiles) {
  auto build = [](KernelBuilder& k) {
    View out = k.view("out", f32, {dyn}), x = k.view("x", f32, {dyn});
    Tile v = x.partition({64}).load({0});
    auto [t, unchanged, n] = k.while_(
        carry(v, v * 3.0f, k.constant(0, i32)),
        [&](Tile t, Tile, Scalar n) { return (sum(abs(t)) > 10.0f) && (n < 20); },
        [&](Tile t, Tile u, Scalar n) { return carry(t * 0.5f + u * 0.01f, u, n + 1); });
    out.partition({64}).store({0}, t + unchanged);
    out.store({64}, n.to(f32));
  };
  Case()
      .out(f32, {65})
      .view(f32, randomNumbers(64), {64})
      .check(build, {1}, {1e-5, 1e-5}, {{}, distinct(2)});
}

TEST(CpuControlFlow, BranchesReturnTiles) {
  auto build = [](KernelBuilder& k) {
    View out = k.view("out", f32, {dyn}), x = k.view("x", f32, {dyn});
    Scalar i = k.program_id(0);
    Tile v = x.partition({32}).load({i});
    auto [a, s] = k.if_(
        i % 2 == 0, [&] { return carry(v * 2.0f, sum(v)); },
        [&] { return carry(exp(v), k.constant(1.0f, f32)); });
    Tile b = k.if_(
        s > 0.5f, [&] { return a + v; }, [&] { return v; });
    k.if_(i == 3, [&] { out.partition({32}).store({8}, b); });
    out.partition({32}).store({i}, a + b * s);
  };
  Case()
      .out(f32, {32 * 9})
      .view(f32, randomNumbers(120), {120})
      .check(build, {4}, {1e-5, 1e-5}, {{}, distinct(2)});
}

// Ops on the result of a branch move into the branch, so this result needs no buffer.
TEST(CpuControlFlow, OpsMoveIntoBranches) {
  auto build = [](KernelBuilder& k) {
    View out = k.view("out", f32, {dyn}), sums = k.view("sums", f32, {dyn}),
         x = k.view("x", f32, {dyn});
    Scalar i = k.program_id(0);
    auto zero_at_5 = [&](const Tile& t) {
      return k.if_(
          i % 2 == 0,
          [&] {
            return where(k.arange(1024).reshape({16, 64}) == 5, 0.0f, t);
          },
          [&] { return t; });
    };
    Tile v = x.partition({1024}).load({i}).reshape({16, 64});
    sums.partition({64}).store({i}, sum(zero_at_5(exp(v)), 0));
    out.partition({1024}).store({i}, (zero_at_5(fma(v, 2.0f, 1.0f)) * v).reshape({1024}));
  };
  Case()
      .out(f32, {3 * 1024 - 7})
      .out(f32, {3 * 64})
      .view(f32, randomNumbers(3 * 1024 - 7), {3 * 1024 - 7})
      .check(build, {3}, {1e-4, 1e-5}, {{}, distinct(3)});
  EXPECT_LE(CpuKernel(build, distinct(3)).artifact.arena_bytes, 512);
}

// A branch that reads memory stays before a later write to this memory.
TEST(CpuControlFlow, BranchReadsStayBeforeAWrite) {
  auto build = [](KernelBuilder& k) {
    View out = k.view("out", f32, {dyn}), x = k.view("x", f32, {dyn});
    Tile t = k.if_(
        k.program_id(0) == 0, [&] { return x.partition({64}).load({0}); },
        [&] { return k.zeros({64}, f32); });
    x.partition({64}).store({0}, k.full({64}, 3.0f, f32));
    out.partition({64}).store({0}, t * 2.0f);
  };
  Case().out(f32, {64}).view(f32, randomNumbers(64), {64}).check(build, {1}, {}, {{}, distinct(2)});
}

TEST(CpuControlFlow, ProgramIdsHaveThreeAxes) {
  auto build = [](KernelBuilder& k) {
    View out = k.view("out", i32, {dyn, dyn, dyn});
    Scalar x = k.program_id(0), y = k.program_id(1), z = k.program_id(2);
    out.store({z, y, x},
              x + y * 10 + z * 100 +
                  (k.num_programs(0) + k.num_programs(1) * 10 + k.num_programs(2) * 100) * 1000);
  };
  Case().out(i32, {4, 3, 5}).check(build, {5, 3, 4}, {0, 0});
}

TEST(CpuControlFlow, CarriesScalarsOfEveryType) {
  for (DType type : {i1, i8, i16, i32, i64, f16, bf16, f32}) {
    auto build = [&](KernelBuilder& k) {
      View out = k.view("out", type, {dyn});
      Scalar start = k.scalar("start", type);
      auto [v] = k.for_range(0, 3, 1, carry(start), [&](Scalar i, Scalar v) {
        Scalar one = k.constant(1, type);
        return carry(type == i1
                         ? v ^ one
                         : k.if_(
                               i < 2, [&] { return v + one; }, [&] { return v - one - one; }));
      });
      out.store({0}, v);
      out.partition({16}).store({1}, v.broadcast_to({16}));
    };
    SCOPED_TRACE(name(type));
    Case().out(type, {32}).scalar(type, 1).check(build, {1}, {0, 0});
  }
}

}  // namespace
}  // namespace ligerdsl::testing::control_flow_test
