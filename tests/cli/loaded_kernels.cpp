// Kernels for loaded_test.py: integer inputs, scalars of many types, pointers, and floats converted
// to integers.
#include <ligerdsl/dsl.h>

using namespace ligerdsl;

namespace {

struct BlockMeta {
  DType type = f32;
  int64_t block = 256;
  template <class V>
  void visit(V&& v) {
    v("type", type);
    v("block", block);
  }
};

Launch rows_of_blocks(const BlockMeta& m, const LaunchArguments& a) {
  return {.grid = {ceil_div(a.dim("out", 0), m.block)}, .num_warps = 2};
}

// out[i] = table[index[i]]. An index outside the table reads outside the arguments.
void gather(KernelBuilder& k, const BlockMeta& m) {
  View out = k.view("out", m.type, {dyn});
  View index = k.view("index", i32, {dyn});
  Ptr table = k.ptr("table", m.type);
  Scalar i = k.program_id(0);
  Tile at = index.partition({m.block}).load({i});
  out.partition({m.block}).store({i}, load(table + at));
}

// out = floor(x / step + 1/2) as int8. A change of the last bit of x / step can change out by 1.
void quantise(KernelBuilder& k, const BlockMeta& m) {
  View out = k.view("out", i8, {dyn});
  View x = k.view("x", m.type, {dyn});
  Scalar step = k.scalar("step", f32);
  Scalar i = k.program_id(0);
  Tile v = x.partition({m.block}).load({i}).to(f32);
  out.partition({m.block}).store({i}, floor(v / step + 0.5f).to(i8));
}

struct Fp8Meta {
  DType type = f8e4m3;
  template <class V>
  void visit(V&& v) {
    v("type", type);
  }
};

Launch rows_of_fp8(const Fp8Meta&, const LaunchArguments& a) {
  return {.grid = {ceil_div(a.dim("out", 0), 256)}};
}

void encode(KernelBuilder& k, const Fp8Meta& m) {
  View out = k.view("out", m.type, {dyn}), x = k.view("x", f32, {dyn});
  Scalar scale = k.scalar("scale", m.type), i = k.program_id(0);
  out.partition({256}).store({i}, (x.partition({256}).load({i}) * scale.to(f32)).to(m.type));
}

void decode(KernelBuilder& k, const Fp8Meta& m) {
  View out = k.view("out", f32, {dyn}), x = k.view("x", m.type, {dyn});
  Scalar i = k.program_id(0);
  out.partition({256}).store({i}, x.partition({256}).load({i}).to(f32));
}

struct BitsMeta {
  DType type = f8e4m3, bits = i8;
  bool fault = false;  // changes every element on a GPU
  template <class V>
  void visit(V&& v) {
    v("type", type);
    v("bits", bits);
    v("fault", fault);
  }
};

// out = the bits of x; kind = the bits as an i32, or 1000 if x is NaN.
void bits_of(KernelBuilder& k, const BitsMeta& m) {
  View out = k.view("out", m.bits, {dyn}), kind = k.view("kind", i32, {dyn}),
       x = k.view("x", m.type, {dyn});
  Scalar i = k.program_id(0);
  Tile v = x.partition({256}).load({i}), bits = bitcast(v, m.bits), number = v.to(f32);
  if (m.fault)
    bits = bits + k.view("rows", f32, {dyn, dyn}).alignment_offset({1}).to(m.bits);  // 0 on a CPU
  out.partition({256}).store({i}, bits);
  kind.partition({256}).store({i}, where(number == number, bits.to(i32), k.full({256}, 1000, i32)));
}

// out[i] = i + base + (flag ? add : 0) + half, with scalars of four types.
void offsets(KernelBuilder& k, const BlockMeta& m) {
  View out = k.view("out", i64, {dyn});
  Scalar base = k.scalar("base", i64);
  Scalar add = k.scalar("add", i32);
  Scalar flag = k.scalar("flag", i1);
  Scalar half = k.scalar("half", f16);
  Scalar i = k.program_id(0);
  Scalar sum = where(flag, base + add.to(i64), base) + half.to(i64);
  out.partition({m.block}).store({i}, k.arange(m.block).to(i64) + sum);
}

struct OverflowMeta {
  bool whole = false;  // applies floor to the result
  template <class V>
  void visit(V&& v) {
    v("whole", whole);
  }
};

// out = exp(x) - exp(x), which is NaN if exp(x) overflows f32, and otherwise 0.
void overflowing(KernelBuilder& k, const OverflowMeta& m) {
  View out = k.view("out", f32, {dyn});
  View x = k.view("x", f32, {dyn});
  Scalar i = k.program_id(0);
  Tile v = x.partition({256}).load({i});
  Tile zero = exp(v) - exp(v + 0.0f);
  out.partition({256}).store({i}, m.whole ? floor(zero) : zero);
}

struct FaultMeta {
  int64_t fault = 0;
  template <class V>
  void visit(V&& v) {
    v("fault", fault);
  }
};

// y = 1, except for one fault:
// 1. the last row is not written
// 2. two programs write the same elements
// 3. the result depends on the target
// 4. a division by an element outside the view, which reads as 0
// 5. an assumption that is false for five or more rows
// 6. an undefined order of a store and an atomic
void faulty(KernelBuilder& k, const FaultMeta& m) {
  View y = k.view("y", f32, {dyn, dyn});
  View x = k.view("x", f32, {dyn, dyn});
  Scalar i = k.program_id(0);
  Partition rows = y.partition({squeeze, 64});
  Tile one = x.partition({squeeze, 64}).load({i, 0}) * 0.0f + 1.0f;
  if (m.fault == 2) rows.store({i / 2, 0}, one * i.to(f32));
  if (m.fault == 3) one = one + x.alignment_offset({i}).to(f32);
  if (m.fault == 4) one = one * (1 % x.partition({squeeze, 64}).load({i, 0}).to(i32)).to(f32);
  if (m.fault == 5) assume(y.dim(0) < 5);
  if (m.fault == 6) atomic_add(y.ptr(), 0.0f);
  rows.store({i, 0}, one);
}

const Kernel<FaultMeta> faulty_kernel{"faulty", "y = 1, nearly", faulty,
                                      [](const FaultMeta& m, const LaunchArguments& a) {
                                        return Launch{.grid = {a.dim("y", 0) - (m.fault == 1)}};
                                      }};
const Kernel<BlockMeta> gather_kernel{"gather", "out[i] = table[index[i]]", gather, rows_of_blocks};
const Kernel<BlockMeta> quantise_kernel{"quantise", "out = floor(x / step + 1/2)", quantise,
                                        rows_of_blocks};
const Kernel<Fp8Meta> encode_kernel{"encode", "x * scale as fp8", encode, rows_of_fp8};
const Kernel<Fp8Meta> decode_kernel{"decode", "the numbers of fp8", decode, rows_of_fp8};
const Kernel<BitsMeta> bits_kernel{"bits", "the bits of x", bits_of,
                                   [](const BitsMeta&, const LaunchArguments& a) {
                                     return Launch{.grid = {ceil_div(a.dim("out", 0), 256)}};
                                   }};
const Kernel<BlockMeta> offsets_kernel{"offsets", "out[i] = i + base + add + half", offsets,
                                       rows_of_blocks};
const Kernel<OverflowMeta> overflowing_kernel{
    "overflowing", "out = exp(x) - exp(x)", overflowing,
    [](const OverflowMeta&, const LaunchArguments& a) {
      return Launch{.grid = {ceil_div(a.dim("out", 0), 256)}};
    }};

// y = 1. The width of y's rows depends on the target: threads per SM, or bytes of a CPU vector.
struct WidthMeta {
  template <class V>
  void visit(V&&) {}
};

const Kernel<WidthMeta> for_target_kernel{
    .name = "for_target",
    .description = "y = 1",
    .build =
        [](KernelBuilder& k, const WidthMeta&) {
          const int64_t width =
              k.target().is_gpu() ? k.target().threads_per_sm : 4 * k.target().vector_bytes;
          View y = k.view("y", f32, {dyn, width});
          y.partition({squeeze, width}).store({k.program_id(0), 0}, k.ones({width}, f32));
        },
    .launch = [](const WidthMeta&,
                 const LaunchArguments& a) { return Launch{.grid = {a.dim("y", 0)}}; }};

}  // namespace

LIGERDSL_REGISTER_KERNEL(gather_kernel);
LIGERDSL_REGISTER_KERNEL(faulty_kernel);
LIGERDSL_REGISTER_KERNEL(quantise_kernel);
LIGERDSL_REGISTER_KERNEL(encode_kernel);
LIGERDSL_REGISTER_KERNEL(decode_kernel);
LIGERDSL_REGISTER_KERNEL(bits_kernel);
LIGERDSL_REGISTER_KERNEL(overflowing_kernel);
LIGERDSL_REGISTER_KERNEL(offsets_kernel);
LIGERDSL_REGISTER_KERNEL(for_target_kernel);
LIGERDSL_EXPORT_KERNELS();
