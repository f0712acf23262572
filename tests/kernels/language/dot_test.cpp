// Matmuls of tiles of every shape, in pipelined loops, by several warps, and in persistent
// programs.
#include <functional>

#include "tests/kernels/language/dot_product.h"

namespace ligerdsl::test::dot_test {
namespace {

TEST(Dot, MultipliesTilesOfEveryShape) {
  uint64_t seed = 3;
  for (const DType type : kFloats)
    for (const Product& p : kProducts)
      for (const bool transposed : {false, true}) check_product(type, p, transposed, seed += 2);
}

// Cases: rows with and without 16-byte copies; panels of 128, 64 and 32 bytes, and no panels; odd
// shapes; more stages than iterations.
TEST(Dot, PipelinedLoopsMultiplyFromSlots) {
  uint64_t seed = 71;
  for (const DType type : kFloats)
    for (const Product& p : std::vector<Product>{
             {.m = 64, .n = 64, .k = 160, .bm = 32, .bn = 32, .bk = 32, .stages = 2},
             {.m = 50,
             .n = 72,
             .k = 264,
             .bm = 32,
             .bn = 64,
             .bk = 64,
             .num_warps = 8,
             .stages = 3},
             {.m = 32, .n = 16, .k = 80, .bm = 32, .bn = 16, .bk = 16, .num_warps = 1, .stages = 4},
             {.m = 96, .n = 96, .k = 96, .bm = 48, .bn = 96, .bk = 48, .num_warps = 2, .stages = 3},
             {.m = 64,
             .n = 128,
             .k = 64,
             .bm = 64,
             .bn = 128,
             .bk = 32,
             .num_warps = 8,
             .stages = 4},
             {.m = 64,
             .n = 64,
             .k = 160,
             .bm = 16,
             .bn = 64,
             .bk = 64,
             .num_warps = 8,
             .stages = 3,
             .dynamic = true},
             {.m = 40, .n = 35, .k = 70, .bm = 32, .bn = 32, .bk = 32, .stages = 3},
             {.m = 32,
             .n = 32,
             .k = 64,
             .bm = 32,
             .bn = 32,
             .bk = 16,
             .num_warps = 2,
             .num_ctas = 2,
             .stages = 2}})
      for (const bool transposed : {false, true}) check_product(type, p, transposed, seed += 2);
}

// Cases: one or two warp groups of 64 rows, several blocks of 64 rows, odd shapes. Both operands
// have panels of 128, 64 and 32 bytes in either order, or A is in registers. With two stages, the
// loop waits for each wgmma; more stages are tested, too.
TEST(Dot, WarpgroupsMultiplyFromSlots) {
  uint64_t seed = 171;
  for (const DType type : {f16, bf16})
    for (const Product& p : std::vector<Product>{
             {.m = 64, .n = 64, .k = 192, .bm = 64, .bn = 64, .bk = 64, .stages = 3},
             {.m = 100,
             .n = 136,
             .k = 264,
             .bm = 128,
             .bn = 128,
             .bk = 64,
             .num_warps = 8,
             .stages = 4},
             {.m = 128, .n = 48, .k = 80, .bm = 128, .bn = 16, .bk = 16, .stages = 3},
             {.m = 192, .n = 96, .k = 96, .bm = 192, .bn = 96, .bk = 32, .stages = 3},
             {.m = 256,
             .n = 32,
             .k = 256,
             .bm = 256,
             .bn = 32,
             .bk = 128,
             .num_warps = 8,
             .stages = 2},
             {.m = 64,
             .n = 256,
             .k = 64,
             .bm = 64,
             .bn = 256,
             .bk = 32,
             .stages = 4,
             .dynamic = true}})
      for (const bool transposed : {false, true}) {
        Product by = p;
        check_product(type, by, transposed, seed += 2);
        by.columns = true;
        check_product(type, by, transposed, seed += 2);
        by.columns = false, by.doubled = true;
        check_product(type, by, transposed, seed += 2);
      }
}

// Programs have more or fewer tiles than iterations per tile; tiles are whole or partial. Copies
// for the next tile are in flight while the accumulator is stored in one segment, in two, or
// directly. Covers mma.sync, and wgmma with and without overlap of the next iteration.
TEST(Dot, PersistentPrograms) {
  uint64_t seed = 371;
  const std::vector<Product> products{
      {.m = 200, .n = 200, .k = 192, .bm = 64, .bn = 64, .bk = 64, .stages = 4, .programs = 3},
      {.m = 256,
       .n = 520,
       .k = 64,
       .bm = 128,
       .bn = 256,
       .bk = 64,
       .num_warps = 8,
       .stages = 4,
       .programs = 2},
      {.m = 256,
       .n = 264,
       .k = 128,
       .bm = 128,
       .bn = 128,
       .bk = 32,
       .num_warps = 8,
       .stages = 3,
       .dynamic = true,
       .programs = 2},
      {.m = 130, .n = 64, .k = 96, .bm = 64, .bn = 64, .bk = 32, .stages = 2, .programs = 1},
      {.m = 96, .n = 96, .k = 160, .bm = 32, .bn = 32, .bk = 32, .stages = 3, .programs = 4},
      {.m = 48,
       .n = 64,
       .k = 16,
       .bm = 16,
       .bn = 64,
       .bk = 16,
       .num_warps = 1,
       .stages = 4,
       .programs = 1}};
  enum class Form { rows, columns, doubled };
  const std::vector<Form> forms{Form::rows, Form::columns, Form::doubled};
  const std::vector<DType> types{f16, bf16};
  const std::vector<bool> flags{false, true};
  for (const auto& [type, product, form, wide_result, transposed] :
       combinations(types, products, forms, flags, flags)) {
    Product by = product;
    by.result = wide_result ? f32 : type;
    by.columns = form == Form::columns, by.doubled = form == Form::doubled;
    check_product(type, by, transposed, seed += 2);
  }
}

}  // namespace
}  // namespace ligerdsl::test::dot_test
