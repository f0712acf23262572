// Tests launches by argument name: kernels are recorded and compiled once, mistakes give errors,
// and dynamic persistent kernels get their counter.
#include <cstdio>
#include <ligerdsl/launch.hpp>
#include <string>
#include <type_traits>
#include <vector>

using namespace ligerdsl;

namespace {

int recorded = 0;

struct ShiftMeta {
  int64_t block = 128;
  bool dynamic_persistent = false;
  template <class V>
  void visit(V&& v) {
    v("block", block);
    v("dynamic_persistent", dynamic_persistent);
  }
};

void shift(KernelBuilder& k, const ShiftMeta& m) {
  View y = k.view("y", i32, {dyn});
  View x = k.view("x", i32, {dyn});
  Scalar by = k.scalar("by", i32);
  Scalar scale = k.scalar("scale", f32);
  Scalar i = k.program_id(0);
  Tile v = x.partition({m.block}).load({i}) + by;
  y.partition({m.block}).store({i}, (v.to(f32) * scale).to(i32));
}

const Kernel<ShiftMeta> shift_kernel{
    .name = "shift",
    .description = "y = (x + by) * scale",
    .build =
        [](KernelBuilder& k, const ShiftMeta& m) {
          ++recorded;
          m.dynamic_persistent ? k.dynamic_persistent([&] { shift(k, m); }) : shift(k, m);
        },
    .launch =
        [](const ShiftMeta& m, const LaunchArguments& a) {
          return Launch{.grid = {ceil_div(a.dim("y", 0), m.block)}, .num_warps = 1};
        }};

struct PlainMeta {  // no `visit`: the recorded program identifies the kernel
  int64_t block = 128;
};
const Kernel<PlainMeta> plain_kernel{
    .name = "plain_shift",
    .description = "the same",
    .build = [](KernelBuilder& k, const PlainMeta& m) { shift(k, {.block = m.block}); },
    .launch =
        [](const PlainMeta& m, const LaunchArguments& a) {
          return Launch{.grid = {ceil_div(a.dim("y", 0), m.block)}};
        }};

// `visit` omits the field `more`, which `build` reads.
struct UnlistedMeta {
  int64_t block = 128;
  int32_t more = 0;
  template <class V>
  void visit(V&& v) {
    v("block", block);
  }
};
// `visit` also omits `sign`, whose characters may be outside the object.
struct UnlistedTextMeta : UnlistedMeta {
  std::string sign = "+";
};

template <class Meta>
const Kernel<Meta> unlisted_kernel{
    .name = "unlisted",
    .description = "y = x + more, or x - more",
    .build =
        [](KernelBuilder& k, const Meta& m) {
          ++recorded;
          View y = k.view("y", i32, {dyn}), x = k.view("x", i32, {dyn});
          Scalar i = k.program_id(0);
          int more = m.more;
          if constexpr (std::is_same_v<Meta, UnlistedTextMeta>) more = m.sign == "-" ? -more : more;
          y.partition({m.block}).store({i}, x.partition({m.block}).load({i}) + more);
        },
    .launch =
        [](const Meta& m, const LaunchArguments& a) {
          return Launch{.grid = {ceil_div(a.dim("y", 0), m.block)}};
        }};

struct Fp8Meta {
  DType from = f8e4m3, to = f8e5m2;
  template <class V>
  void visit(V&& v) {
    v("from", from);
    v("to", to);
  }
};
const Kernel<Fp8Meta> recode_kernel{
    .name = "recode",
    .description = "y = x * scale, from one fp8 to another",
    .build =
        [](KernelBuilder& k, const Fp8Meta& m) {
          View y = k.view("y", m.to, {dyn}), x = k.view("x", m.from, {dyn});
          Scalar scale = k.scalar("scale", m.from), i = k.program_id(0);
          y.partition({8}).store({i},
                                 (x.partition({8}).load({i}).to(f32) * scale.to(f32)).to(m.to));
        },
    .launch =
        [](const Fp8Meta&, const LaunchArguments& a) {
          return Launch{.grid = {ceil_div(a.dim("y", 0), 8)}};
        }};

bool fail(const std::string& text) {
  std::printf("named_launch: %s\n", text.c_str());
  return false;
}

template <class Call>
bool refuses(const std::vector<std::string>& words, Call call) {
  try {
    call();
  } catch (const std::exception& error) {
    for (const std::string& word : words) {
      if (std::string(error.what()).find(word) == std::string::npos)
        return fail("expected '" + word + "' in the error, got: " + error.what());
    }
    return true;
  }
  return fail("expected an error with '" + words.front() + "', got none");
}

bool launches_work() {
  const Context context = Context::cpu();
  constexpr int n = 1000;
  std::vector<int32_t> x(n), y(n);
  for (int i = 0; i < n; ++i) x[i] = i;
  const Tensor tx(x.data(), context.device(), LIGERDSL_I32, {n}),
      ty(y.data(), context.device(), LIGERDSL_I32, {n});
  const auto is = [&](int by, int scale) {
    for (int i = 0; i < n; ++i) {
      if (y[i] != (i + by) * scale)
        return fail("y[" + std::to_string(i) + "] is " + std::to_string(y[i]));
      y[i] = -1;
    }
    return true;
  };

  KernelLauncher launcher(context, shift_kernel);
  for (int by : {1, 2, 3}) {  // an int is accepted for an f32 scalar
    launcher({}, {{"by", by}, {"x", tx}, {"scale", 2}, {"y", ty}});
    if (!is(by, 2)) return false;
  }
  if (recorded != 1)
    return fail("expected 1 recording for one Meta, got " + std::to_string(recorded));
  launcher({.block = 64}, {{"y", ty}, {"x", tx}, {"by", 5}, {"scale", 1.0f}});
  if (!is(5, 1) || recorded != 2) return fail("another Meta");
  for (int by : {7, 8}) {  // the second launch fails unless the counter is reset
    launcher({.dynamic_persistent = true}, {{"y", ty}, {"x", tx}, {"by", by}, {"scale", 1.0f}});
    if (!is(by, 1)) return false;
  }
  interpret(shift_kernel, {.dynamic_persistent = true},
            {{"y", ty}, {"x", tx}, {"by", 9}, {"scale", 1}});
  if (!is(9, 1)) return false;
  launcher.prepare({}, {{"y", ty}, {"x", tx}, {"by", 1}, {"scale", 1.0f}});
  if (y[0] != -1) return fail("prepare ran the kernel");
  KernelLauncher plain(context, plain_kernel);
  plain({}, {{"y", ty}, {"x", tx}, {"by", 4}, {"scale", 1.0f}});
  if (!is(4, 1)) return false;

  recorded = 0;
  KernelLauncher unlisted(context, unlisted_kernel<UnlistedMeta>);
  for (int more : {5, 6, 5, 6}) {
    unlisted({.more = more}, {{"y", ty}, {"x", tx}});
    if (!is(more, 1)) return fail("a field that visit does not list chose another program");
  }
  if (recorded != 2)
    return fail("expected 2 recordings for two values, got " + std::to_string(recorded));
  KernelLauncher by_text(context, unlisted_kernel<UnlistedTextMeta>);
  for (const char* sign : {"+", "-"}) {
    UnlistedTextMeta meta;
    meta.more = 7, meta.sign = sign;
    by_text(meta, {{"y", ty}, {"x", tx}});
    if (!is(*sign == '-' ? -7 : 7, 1))
      return fail("a string that visit does not list chose another program");
  }

  const Tensor square(x.data(), context.device(), LIGERDSL_I32, {10, 10});
  const Tensor floats(x.data(), context.device(), LIGERDSL_F32, {n});
  const Tensor nowhere(nullptr, context.device(), LIGERDSL_I32, {n});
  return refuses({"kernel 'shift'", "unknown 'z'", "given twice: 'x'", "missing 'y'",
                  "missing 'scale'"},
                 [&] {
                   launcher({}, {{"z", 1}, {"x", tx}, {"x", tx}, {"by", 1}});
                 }) &&
         refuses({"'by'", "from -2147483648 to 2147483647", "got 1099511627776"},
                 [&] {
                   launcher({}, {{"y", ty}, {"x", tx}, {"by", int64_t{1} << 40}, {"scale", 1}});
                 }) &&
         refuses({"'by'", "an integer for i32, got a float"},
                 [&] {
                   launcher({}, {{"y", ty}, {"x", tx}, {"by", 1.5}, {"scale", 1}});
                 }) &&
         refuses({"'x'", "a Tensor of i32, got an integer"},
                 [&] {
                   launcher({}, {{"y", ty}, {"x", 1}, {"by", 1}, {"scale", 1}});
                 }) &&
         refuses({"'x'", "rank 1, got rank 2"},
                 [&] {
                   launcher({}, {{"y", ty}, {"x", square}, {"by", 1}, {"scale", 1}});
                 }) &&
         refuses({"'x'", "a tensor of i32"},
                 [&] {
                   interpret(shift_kernel, {}, {{"y", ty}, {"x", floats}, {"by", 1}, {"scale", 1}});
                 }) &&
         refuses(
             {"'x'", "memory, got NULL"},
             [&] {
               interpret(shift_kernel, {}, {{"y", ty}, {"x", nowhere}, {"by", 1}, {"scale", 1}});
             }) &&
         refuses(
             {"kernel 'plain_shift'", "num_warps = 3"},
             [&] {
               Kernel<PlainMeta> wrong = plain_kernel;
               wrong.launch = [](const PlainMeta&, const LaunchArguments&) {
                 return Launch{.num_warps = 3};
               };
               KernelLauncher(context, wrong)({}, {{"y", ty}, {"x", tx}, {"by", 1}, {"scale", 1}});
             }) &&
         refuses({"x", "i32"}, [&] {
           launcher({}, {{"y", ty}, {"x", floats}, {"by", 1}, {"scale", 1}});
         });
}

// Runs fp8 tensors with f32 scalars, compiled and by the interpreter.
bool fp8_works() {
  const Context context = Context::cpu();
  std::vector<uint8_t> x{0x38, 0xb8, 0x7e, 0x01, 0x80, 0x7f},
      y(x.size());  // 1, -1, 448, 2^-9, -0, NaN
  const std::vector<uint8_t> twice{0x40, 0xc0, 0x63, 0x1c, 0x80},
      half{0x38, 0xb8, 0x5b, 0x14, 0x80};
  const int64_t n = static_cast<int64_t>(x.size());
  const Tensor tx(x.data(), context.device(), LIGERDSL_F8E4M3, {n}),
      ty(y.data(), context.device(), LIGERDSL_F8E5M2, {n});
  const auto is = [&](const std::vector<uint8_t>& codes) {
    for (size_t i = 0; i < codes.size(); ++i) {
      if (y[i] != codes[i])
        return fail("fp8 " + std::to_string(i) + " has the code " + std::to_string(y[i]));
    }
    if ((y.back() & 0x7f) <= 0x7c)
      return fail("a NaN of fp8 became the code " + std::to_string(y.back()));
    y.assign(y.size(), 0);
    return true;
  };
  KernelLauncher launcher(context, recode_kernel);
  launcher({}, {{"y", ty}, {"x", tx}, {"scale", 2}});
  if (!is(twice)) return false;
  launcher({}, {{"y", ty}, {"x", tx}, {"scale", 0.5f}});
  if (!is(half)) return false;
  interpret(recode_kernel, {}, {{"y", ty}, {"x", tx}, {"scale", 2}});
  if (!is(twice)) return false;
  return refuses({"'x'", "f8e4m3"},
                 [&] {
                   launcher({}, {{"y", ty}, {"x", 1}, {"scale", 1}});
                 }) &&
         refuses({"x", "f8e4m3"},
                 [&] {
                   launcher({}, {{"y", ty}, {"x", ty}, {"scale", 1}});
                 }) &&
         refuses({"'x'", "f8e4m3"}, [&] {
           interpret(recode_kernel, {}, {{"y", ty}, {"x", ty}, {"scale", 1}});
         });
}

}  // namespace

int main() {
  return launches_work() && fp8_works() ? 0 : 1;
}
