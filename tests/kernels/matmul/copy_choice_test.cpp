// Tests which operands of a matmul call are copied to aligned rows.
#include "kernels/matmul/copy_choice.h"

#include <gtest/gtest.h>

namespace ligerdsl::test::copy_choice_test {
namespace {

using kernels::CopyChoice;
using kernels::MatmulOptions;
using kernels::RowStart;
using kernels::Transposes;
using Operands = CopyChoice::Operands;

constexpr Operands kNone{false, false}, kA{true, false}, kB{false, true}, kBoth{true, true};

MatmulOptions options_of(Transposes transposes, int64_t cols, int64_t width) {
  return {.transposes = transposes, .cols = cols, .width = width};
}

Operands copied(const MatmulOptions& options, int64_t rows, RowStart a, RowStart b) {
  return CopyChoice(kernels::gpu("sm_90a", 132, 86), options).operands_to_copy(rows, {a, b});
}

TEST(CopyChoice, CopiesNothingThatIsAlignedToSectors) {
  for (const Transposes transposes : {Transposes::nn, Transposes::nt, Transposes::tn})
    EXPECT_EQ(copied(options_of(transposes, 4096, 4096), 4096, RowStart::sector, RowStart::sector),
              kNone);
}

TEST(CopyChoice, CopiesUnalignedOperandsOfLargeMatmuls) {
  for (const Transposes transposes : {Transposes::nn, Transposes::nt, Transposes::tn}) {
    const MatmulOptions options = options_of(transposes, 4096, 4096);
    EXPECT_EQ(copied(options, 4096, RowStart::element, RowStart::sector), kA);
    EXPECT_EQ(copied(options, 4096, RowStart::sector, RowStart::element), kB);
    EXPECT_EQ(copied(options, 4096, RowStart::element, RowStart::element), kBoth);
  }
}

TEST(CopyChoice, CopiesNothingForSmallMatmuls) {
  EXPECT_EQ(copied(options_of(Transposes::nt, 64, 64), 64, RowStart::element, RowStart::element),
            kNone);
  EXPECT_EQ(copied(options_of(Transposes::nt, 4096, 4096), 1, RowStart::sector, RowStart::element),
            kNone)
      << "copying b takes longer than one row";
}

TEST(CopyChoice, CopiesRowsInsideSectorsIfManyTilesReadThem) {
  const MatmulOptions options = options_of(Transposes::nt, 4096, 4096);
  EXPECT_EQ(copied(options, 65536, RowStart::vector, RowStart::vector), kB);
  EXPECT_EQ(copied(options, 512, RowStart::vector, RowStart::vector), kNone);
}

TEST(CopyChoice, CopiesNoOperandWithUnknownOrUnalignedRowLength) {
  const CopyChoice tt(kernels::gpu("sm_90a", 132, 86), options_of(Transposes::tt, 4096, 4096));
  EXPECT_TRUE(tt.may_copy(0));
  EXPECT_FALSE(tt.may_copy(1)) << "the row length of b is K, the number of rows of a";
  const MatmulOptions odd = options_of(Transposes::nt, 4096, 4097);
  EXPECT_EQ(copied(odd, 4096, RowStart::element, RowStart::element), kNone);
}

TEST(CopyChoice, KnowsTheRowsOfB) {
  const auto rows_of_b = [](Transposes transposes) {
    return CopyChoice(kernels::gpu("sm_90a", 132, 86), options_of(transposes, 24, 40))
        .rows_of(1, 1000);
  };
  EXPECT_EQ(rows_of_b(Transposes::nt), 24);
  EXPECT_EQ(rows_of_b(Transposes::nn), 40);
  EXPECT_EQ(rows_of_b(Transposes::tn), 1000);
}

}  // namespace
}  // namespace ligerdsl::test::copy_choice_test
