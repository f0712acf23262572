// Programs that several tests use.
#pragma once

#include "ligerdsl/dsl.h"
#include "program/program.h"

namespace ligerdsl::test {

// Returns a program with every op code at least once.
inline program::Program every_op() {
  KernelBuilder k("every_op");
  View x = k.view("x", bf16, {dyn, 64});
  View y = k.view("y", f32, {dyn, dyn}, {.strides = {dyn, dyn}});
  View v = k.view("v", f32, {dyn});
  Ptr table = k.ptr("table", i32);
  Scalar n = k.scalar("n", i64);
  Scalar flag = k.scalar("flag", i1);

  Scalar pid = k.program_id(0) + k.num_programs(2);
  Scalar width = assume_divisible(x.dim(1), 16) + x.stride(0);
  assume(n > 0);
  Tile t = x.partition({8, 64})
               .load({pid, 0}, {.pad = -1.5, .cache = Cache::streaming, .evict = Evict::first})
               .to(f32);
  Tile row = (k.arange(64) - x.max_alignment_offset()).expand_dims(0);
  Tile i = row.broadcast_to({8, 64});
  Tile bits = ((i & 7) | (i ^ 3)) << 1 >> 1;
  Tile lt = bits < i % 5 / 2;
  Tile m = where(lt && !(i == 3), t, -t);
  m = fma(m, t, 1.0f) + min(max(t, 0.0f), m) - clamp(m, -1, 1) * abs(floor(ceil(t)));
  m = exp(m) + exp2(m) + log(m) + log2(m) + sqrt(m) + rsqrt(m) + tanh(m) + erf(m) + sigmoid(m) +
      sin(m) + cos(m) + log1p(m) + expm1(m) + round(m) + fast_div(m, t) / 2 + pow(m, t);
  bits += lshr(udiv(bitcast(t, i32), 7) + urem(bits, 5), 1);
  Tile r = m.reshape({64, 8}).permute({1, 0});
  r = gather(shuffle_xor(r, 5, 1), i, 1);
  r = dot(r, r.permute({1, 0}), k.zeros({8, 8}, f32)).reshape({1, 64}).broadcast_to({8, 64}) + r;
  r = cumsum(r, 1);
  auto [prefix] = scan(
      {r}, 0, [](Scalar a, Scalar b) { return max(a, b); }, true);
  Scalar total = sum(prefix) + reduce_max(m) + reduce_min(m);
  auto [best, at] = max_with_index(m, 1);
  y.slice(0, pid, n).partition({8, squeeze}).store({pid, n}, best);
  v.store({0}, total + v.load({pid}));
  v.add({pid}, total);
  Scalar alignment_offset = x.alignment_offset({pid});
  Partition led = x.partition({squeeze, 32});
  led.store({pid, 0}, led.load({pid, 1}, {.alignment_offset = alignment_offset}),
            {.alignment_offset = alignment_offset});

  PtrTile p = table + at;
  Tile old = load(p, at < 3, 7) + load(p);
  store(p, old);
  store(p, old, at > 1);
  atomic_add(p, 1);
  atomic_max(table + 5, load(table), flag);
  atomic_min(p, 0, old > 2);
  atomic_xchg(p, old);
  atomic_cas(p, old, 2);
  Ptr base = v.ptr();
  device_print("total ", {total, at});

  auto [acc] = k.for_range(0, n, 2, LoopOptions{.num_stages = 3, .unroll = 2}, carry(total),
                           [&](Scalar index, Scalar acc) { return carry(acc + index.to(f32)); });
  Scalar chosen = k.if_(
      acc > 0, [&] { return acc; }, [&] { return acc * 2; });
  auto [last] = k.while_(
      carry(chosen), [](Scalar s) { return s < 100; }, [](Scalar s) { return carry(s + 1); });
  k.if_(flag, [&] { store(base + width, last); });
  return k.finish();
}

}  // namespace ligerdsl::test
