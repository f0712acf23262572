// Execution of author kernels: arguments, types, aliases and parameters.
#include <ligerdsl/dsl.h>

#include <cstring>
#include <numeric>

#include "execute.h"

namespace ligerdsl::test::execute_kernels_test {
namespace {

// Author kernel: out = x * factor.
std::string scale_program() {
  KernelBuilder k("scale");
  View out = k.view("out", f32, {dyn});
  View x = k.view("x", f32, {dyn});
  Scalar factor = k.scalar("factor", f32);
  Scalar i = k.program_id(0);
  out.partition({64}).store({i}, x.partition({64}).load({i}) * factor);
  return k.finish_bytes();
}

TEST_F(Execute, AuthorsKernel) {
  const CompiledKernel kernel(context_, scale_program());
  Owned x(LIGERDSL_F32, {100}), out(LIGERDSL_F32, {100}), wrong(LIGERDSL_F32, {10, 10});
  std::iota(x.floats(), x.floats() + 100, 0.0f);
  kernel.launch(2, {out.tensor, x.tensor, 3.0f});
  for (int i = 0; i < 100; ++i) ASSERT_EQ(out.floats()[i], 3.0f * static_cast<float>(i));
  kernel.launch(0, {x.tensor, x.tensor, 3.0f});  // a grid of 0 runs no program
  EXPECT_EQ(x.floats()[99], 99);

  const int32_t grid[3] = {2, 1, 1}, negative[3] = {2, -1, 1};
  ligerdsl_kernel_arg_t args[3] = {KernelArg(out.tensor).raw(), KernelArg(x.tensor).raw(),
                                   KernelArg(3.0f).raw()};
  expect_failure(ligerdsl_kernel_launch(kernel.get(), args, 2, grid, nullptr),
                 LIGERDSL_INVALID_ARGUMENT, {"takes 3", "got 2"});
  expect_failure(ligerdsl_kernel_launch(kernel.get(), args, 3, negative, nullptr),
                 LIGERDSL_INVALID_SHAPE, {"grid", "got -1"});
  args[2] = KernelArg(3).raw();
  expect_failure(ligerdsl_kernel_launch(kernel.get(), args, 3, grid, nullptr),
                 LIGERDSL_INVALID_ARGUMENT, {"`factor`", "NUMBER"});
  args[2] = KernelArg(3.0f).raw();
  args[0] = KernelArg(wrong.tensor).raw();
  expect_failure(ligerdsl_kernel_launch(kernel.get(), args, 3, grid, nullptr),
                 LIGERDSL_INVALID_SHAPE, {"`out`", "expected 1", "got 2"});
}

TEST_F(Execute, IntegersMustHaveTheirValue) {
  KernelBuilder k("integers");
  k.view("out", f32, {dyn}).store({0}, 1.0f);
  k.scalar("flag", i1);
  k.scalar("small", i8);
  k.scalar("medium", i16);
  k.scalar("n", i32);
  k.scalar("large", i64);
  const CompiledKernel kernel(context_, k.finish_bytes());
  Owned out(LIGERDSL_F32, {1});
  const auto launch = [&](std::vector<int64_t> integers) {
    std::vector<ligerdsl_kernel_arg_t> args{KernelArg(out.tensor).raw()};
    for (const int64_t integer : integers) args.push_back(KernelArg(integer).raw());
    const int32_t grid[3] = {1, 1, 1};
    return ligerdsl_kernel_launch(kernel.get(), args.data(), args.size(), grid, nullptr);
  };
  EXPECT_EQ(launch({1, 127, 32767, INT32_MAX, INT64_MAX}), LIGERDSL_SUCCESS)
      << ligerdsl_last_error();
  EXPECT_EQ(launch({0, -128, -32768, INT32_MIN, INT64_MIN}), LIGERDSL_SUCCESS)
      << ligerdsl_last_error();
  expect_failure(launch({2, 0, 0, 0, 0}), LIGERDSL_INVALID_ARGUMENT,
                 {"`flag`", "0 to 1, the range of i1, got 2"});
  expect_failure(launch({0, 128, 0, 0, 0}), LIGERDSL_INVALID_ARGUMENT,
                 {"`small`", "-128 to 127, the range of i8, got 128"});
  expect_failure(launch({0, 0, 32768, 0, 0}), LIGERDSL_INVALID_ARGUMENT,
                 {"`medium`", "-32768 to 32767, the range of i16, got 32768"});
  expect_failure(launch({0, 0, 0, int64_t{1} << 40, 0}), LIGERDSL_INVALID_ARGUMENT,
                 {"`n`", "-2147483648 to 2147483647, the range of i32, got 1099511627776"});
}

// Loads x, overwrites x through pointers that a loop carries, and stores twice the loaded values.
// The load must not move after the stores to x, and must not be a load of read-only memory.
TEST_F(Execute, StoresThroughCarriedPointers) {
  KernelBuilder k("carried");
  Ptr out = k.ptr("out", f32), x = k.ptr("x", f32);
  Tile value = load(x + k.arange(16));
  k.for_range(0, 2, 1, carry(x + k.arange(8)), [&](Scalar, PtrTile at) {
    store(at, k.full({8}, -1.0, f32));
    return carry(at + 8);
  });
  k.for_range(0, 1, 1, carry(out + k.arange(16)), [&](Scalar, PtrTile at) {
    store(at, value * 2.0f);
    return carry(at);
  });
  const std::string program = k.finish_bytes();
  for (const int32_t no_alias : {0, 1}) {
    ligerdsl_kernel_options_t options = kernel_options();
    options.no_alias = no_alias;
    const CompiledKernel kernel(context_, program, options);
    Owned to(LIGERDSL_F32, {16}), from(LIGERDSL_F32, {16});
    std::iota(from.floats(), from.floats() + 16, 0.0f);
    kernel.launch(1, {to.floats(), from.floats()});
    for (int i = 0; i < 16; ++i) {
      EXPECT_EQ(to.floats()[i], 2.0f * static_cast<float>(i)) << i;
      EXPECT_EQ(from.floats()[i], -1.0f) << i;
    }
  }
}

TEST_F(Execute, WrittenViewsReachEveryElementOnce) {
  KernelBuilder k("rows");
  View to = k.view("to", f32, {dyn, dyn});
  View from = k.view("from", f32, {dyn, dyn});
  to.partition({2, 8}).store({0, 0}, from.partition({2, 8}).load({0, 0}));
  const CompiledKernel rows(context_, k.finish_bytes());
  Owned window(LIGERDSL_F32, {2, 8}, {1, 1}), plain(LIGERDSL_F32, {2, 8});
  std::iota(window.floats(), window.floats() + 9, 0.0f);
  rows.launch(1, {plain.tensor, window.tensor});  // a view that is only read may overlap itself
  EXPECT_EQ(plain.floats()[15], 8);
  const ligerdsl_kernel_arg_t args[2] = {KernelArg(window.tensor).raw(),
                                         KernelArg(plain.tensor).raw()};
  const int32_t grid[3] = {1, 1, 1};
  expect_failure(ligerdsl_kernel_launch(rows.get(), args, 2, grid, nullptr), LIGERDSL_INVALID_ALIAS,
                 {"`to`", "two of its indices refer to one element"});
}

TEST_F(Execute, BytesWordsAndBooleans) {
  KernelBuilder k("bytes");
  View positive = k.view("positive", i1, {dyn});
  View twice = k.view("twice", i8, {dyn});
  View x = k.view("x", i8, {dyn});
  Tile value = x.partition({16}).load({0});
  positive.partition({16}).store({0}, value > 0);
  twice.partition({16}).store({0}, value + value);
  k.view("wide", i16, {dyn}).partition({16}).store({0}, value.to(i16) * 300);
  const CompiledKernel kernel(context_, k.finish_bytes());
  Owned positive_(LIGERDSL_BOOL, {10}), twice_(LIGERDSL_I8, {10}), x_(LIGERDSL_I8, {10}),
      wide_(LIGERDSL_I16, {10});
  auto* in = reinterpret_cast<int8_t*>(x_.floats());
  for (int i = 0; i < 10; ++i) in[i] = static_cast<int8_t>(i - 5);
  kernel.launch(1, {positive_.tensor, twice_.tensor, x_.tensor, wide_.tensor});
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(reinterpret_cast<uint8_t*>(positive_.floats())[i], i > 5);
    EXPECT_EQ(reinterpret_cast<int8_t*>(twice_.floats())[i], 2 * (i - 5));
    EXPECT_EQ(reinterpret_cast<int16_t*>(wide_.floats())[i], 300 * (i - 5));
  }
  EXPECT_EQ(reinterpret_cast<uint8_t*>(positive_.floats())[10], 0) << "written past the end";
}

TEST_F(Execute, Fp8) {
  KernelBuilder k("fp8");
  View small = k.view("small", f8e4m3, {dyn}), wide = k.view("wide", f8e5m2, {dyn}),
       x = k.view("x", f32, {dyn});
  Tile value = x.partition({16}).load({0});
  small.partition({16}).store({0}, value.to(f8e4m3));
  wide.partition({16}).store({0}, (value * k.scalar("scale", f8e5m2).to(f32)).to(f8e5m2));
  const CompiledKernel kernel(context_, k.finish_bytes());
  Owned small_(LIGERDSL_F8E4M3, {10}), wide_(LIGERDSL_F8E5M2, {10}), x_(LIGERDSL_F32, {10});
  for (int i = 0; i < 10; ++i) x_.floats()[i] = static_cast<float>(1 << i);
  kernel.launch(1, {small_.tensor, wide_.tensor, x_.tensor, 2.0f});
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(reinterpret_cast<uint8_t*>(small_.floats())[i], i < 9 ? (7 + i) << 3 : 0x7e) << i;
    EXPECT_EQ(reinterpret_cast<uint8_t*>(wide_.floats())[i], (16 + i) << 2) << i;
  }
  const ligerdsl_kernel_arg_t args[4] = {KernelArg(wide_.tensor).raw(),
                                         KernelArg(wide_.tensor).raw(), KernelArg(x_.tensor).raw(),
                                         KernelArg(2.0f).raw()};
  const int32_t grid[3] = {1, 1, 1};
  expect_failure(ligerdsl_kernel_launch(kernel.get(), args, 4, grid, nullptr),
                 LIGERDSL_INVALID_DTYPE, {"`small`", "expected f8e4m3, got f8e5m2"});
}

TEST_F(Execute, KernelParametersAreReported) {
  KernelBuilder k("reported");
  View out = k.view("out", bf16, {dyn, dyn});
  View x = k.view("x", f8e4m3, {dyn});
  Ptr table = k.ptr("table", i32), sums = k.ptr("sums", f32);
  out.partition({squeeze, 8}).store({0, 0}, x.partition({8}).load({0}).to(f32).to(bf16));
  Scalar first = k.scalar("first", i64), scale = k.scalar("scale", f32);
  store(sums + load(table + first), scale);
  const CompiledKernel kernel(context_, k.finish_bytes());
  struct Parameter {
    const char* name;
    int32_t kind, dtype, rank, written;
  };
  const Parameter expected[] = {{"out", LIGERDSL_ARG_TENSOR, LIGERDSL_BF16, 2, 1},
                                {"x", LIGERDSL_ARG_TENSOR, LIGERDSL_F8E4M3, 1, 0},
                                {"table", LIGERDSL_ARG_POINTER, LIGERDSL_I32, 0, 0},
                                {"sums", LIGERDSL_ARG_POINTER, LIGERDSL_F32, 0, 1},
                                {"first", LIGERDSL_ARG_INTEGER, LIGERDSL_I64, 0, 0},
                                {"scale", LIGERDSL_ARG_NUMBER, LIGERDSL_F32, 0, 0}};
  const auto parameters = kernel.parameters();
  ASSERT_EQ(parameters.size(), std::size(expected));
  for (size_t i = 0; i < parameters.size(); ++i) {
    EXPECT_STREQ(parameters[i].name, expected[i].name);
    EXPECT_EQ(parameters[i].kind, expected[i].kind) << expected[i].name;
    EXPECT_EQ(parameters[i].dtype, expected[i].dtype) << expected[i].name;
    EXPECT_EQ(parameters[i].rank, expected[i].rank) << expected[i].name;
    EXPECT_EQ(parameters[i].written, expected[i].written) << expected[i].name;
  }

  // A later version of the parameter struct, with an added field.
  struct Later {
    ligerdsl_kernel_parameter_t known;
    int64_t added;
  } later[6];
  std::memset(later, 0xff, sizeof later);
  size_t count = 6;
  ASSERT_EQ(ligerdsl_kernel_parameters(kernel.get(), &later[0].known, sizeof later[0], &count),
            LIGERDSL_SUCCESS);
  EXPECT_STREQ(later[5].known.name, "scale");
  EXPECT_EQ(later[5].added, 0);

  ligerdsl_kernel_parameter_t few[5];
  count = 5;
  expect_failure(ligerdsl_kernel_parameters(kernel.get(), few, sizeof few[0], &count),
                 LIGERDSL_INVALID_ARGUMENT, {"`count`", "reported", "at least 6", "got 5"});
  EXPECT_EQ(count, 6u);
  expect_failure(ligerdsl_kernel_parameters(kernel.get(), few, 8, &count),
                 LIGERDSL_INVALID_ARGUMENT,
                 {"`parameter_bytes`", "sizeof(ligerdsl_kernel_parameter_t)", "8"});
  expect_failure(ligerdsl_kernel_parameters(kernel.get(), few, sizeof few[0], nullptr),
                 LIGERDSL_INVALID_NULL_POINTER, {"`count`"});
}

TEST_F(Execute, NoAliasIsChecked) {
  ligerdsl_kernel_options_t options = kernel_options();
  options.no_alias = 1;
  const CompiledKernel kernel(context_, scale_program(), options);
  Owned x(LIGERDSL_F32, {100});
  const ligerdsl_kernel_arg_t args[3] = {KernelArg(x.tensor).raw(), KernelArg(x.tensor).raw(),
                                         KernelArg(3.0f).raw()};
  const int32_t grid[3] = {2, 1, 1};
  expect_failure(ligerdsl_kernel_launch(kernel.get(), args, 3, grid, nullptr),
                 LIGERDSL_INVALID_ALIAS, {"`out`", "`x`", "no_alias"});
}

TEST_F(Execute, ReadOnlyViewsAreNotWritten) {
  KernelBuilder k("copy");
  View to = k.view("to", f32, {dyn});
  View from = k.view("from", f32, {dyn}, {.read_only = true});
  to.partition({16}).store({0}, from.partition({16}).load({0}));
  const CompiledKernel copy(context_, k.finish_bytes());
  Owned x(LIGERDSL_F32, {32}), out(LIGERDSL_F32, {32});
  std::iota(x.floats(), x.floats() + 32, 0.0f);
  copy.launch(1, {out.tensor, x.tensor});
  EXPECT_EQ(out.floats()[15], 15);
  const ligerdsl_kernel_arg_t args[2] = {KernelArg(x.tensor).raw(), KernelArg(x.tensor).raw()};
  const int32_t grid[3] = {1, 1, 1};
  expect_failure(ligerdsl_kernel_launch(copy.get(), args, 2, grid, nullptr), LIGERDSL_INVALID_ALIAS,
                 {"`to`", "`from`", "read_only"});

  View read = k.view("read", f32, {dyn}, {.read_only = true});
  Ptr p = k.ptr("p", f32);
  Scalar first = read.load({0});
  k.for_range(0, 2, 1, carry(p + k.arange(8)), [&](Scalar, PtrTile at) {
    store(at, k.full({8}, 1.0, f32) * first);
    return carry(at + 8);
  });
  const CompiledKernel disjoint(context_, k.finish_bytes());  // p does not point into the view

  View watched = k.view("watched", f32, {dyn}, {.read_only = true});
  k.for_range(0, 2, 1, carry(watched.ptr() + k.arange(8)), [&](Scalar, PtrTile at) {
    store(at, k.full({8}, 1.0, f32));
    return carry(at + 8);
  });
  const std::string bytes = k.finish_bytes();
  ligerdsl_kernel_t refused = nullptr;
  expect_failure(
      ligerdsl_kernel_create(context_.get(), bytes.data(), bytes.size(), nullptr, &refused),
      LIGERDSL_INVALID_PROGRAM, {"watched", "read_only", "a pointer that a loop or"});
}

}  // namespace
}  // namespace ligerdsl::test::execute_kernels_test
