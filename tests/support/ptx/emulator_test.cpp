// Tests the emulator: results of instructions, and the faults that it must report.
#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>
#include <string>
#include <vector>

#include "tests/support/ptx/test_kernel.h"

namespace ligerdsl::test::ptx {
namespace {

TEST(PtxEmulator, LanesDivergeInLoopsAndBranches) {
  const Result result = run_kernel(R"(
	mov.b32 	%r2, 0;
	and.b32 	%r3, %r1, 7;
$L__BB0_1:
	setp.eq.b32 	%p1, %r3, 0;
	@%p1 bra 	$L__BB0_2;
	add.s32 	%r2, %r2, %r3;
	sub.s32 	%r3, %r3, 1;
	bra.uni 	$L__BB0_1;
$L__BB0_2:
	setp.lt.u32 	%p2, %r1, 8;
	@!%p2 add.s32 	%r2, %r2, 100;
	st.global.b32 	[%rd1], %r2;)");
  ASSERT_EQ(result.error, "");
  for (uint32_t i = 0; i < 64; ++i) {
    const uint32_t n = i % 8;
    EXPECT_EQ(result.out[i], n * (n + 1) / 2 + (i < 8 ? 0 : 100)) << i;
  }
}

// Each thread stores a word to shared memory, and reads the word of the same lane of the other
// warp.
const std::string kExchange = R"(
	st.shared.b32 	[%rd2], %r1;
	$barrier
	xor.b64 	%rd6, %rd4, 128;
	add.s64 	%rd7, %rd5, %rd6;
	ld.shared.b32 	%r2, [%rd7];
	st.global.b32 	[%rd1], %r2;)";

std::string exchange(const std::string& barrier) {
  return with(kExchange, "$barrier", barrier);
}

TEST(PtxEmulator, WarpsExchangeThroughSharedMemory) {
  const Result result = run_kernel(exchange("bar.sync 	0;"));
  ASSERT_EQ(result.error, "");
  for (uint32_t i = 0; i < 64; ++i) EXPECT_EQ(result.out[i], i ^ 32);
}

// Loads four matrices of 8 x 8 numbers. Their 32 rows are contiguous, with 16 bytes each. Without
// transposition, lane l gets the numbers 2 l and 2 l + 1 of each matrix.
std::string matrices(const std::string& transposed) {
  return with(R"(
	shl.b32 	%r2, %r1, 16;
	or.b32 	%r2, %r2, %r1;
	mul.wide.u32 	%rd6, %r1, 16;
	add.s64 	%rd7, %rd5, %rd6;
	add.s32 	%r3, %r2, 65536;
	st.shared.v4.b32 	[%rd7], {%r2, %r3, %r2, %r3};
	bar.sync 	0;
	and.b64 	%rd6, %rd6, 511;
	add.s64 	%rd7, %rd5, %rd6;
	ldmatrix.sync.aligned.m8n8.x4$t.shared.b16 	{%r3, %r4, %r5, %r6}, [%rd7];
	add.s32 	%r3, %r3, %r4;
	st.global.b32 	[%rd1], %r3;)",
              "$t", transposed);
}

TEST(PtxEmulator, LdmatrixLoadsMatrices) {
  // Row r contains r, r, r, r + 1, r, r, r, r + 1. The kernel adds the first two matrices in each
  // lane.
  const Result plain = run_kernel(matrices("")), transposed = run_kernel(matrices(".trans"));
  ASSERT_EQ(plain.error, "");
  ASSERT_EQ(transposed.error, "");
  const auto number = [](uint32_t row, uint32_t column) { return row + (column % 4 == 3); };
  for (uint32_t lane = 0; lane < 32; ++lane) {
    const uint32_t one = lane / 4, other = lane % 4 * 2;
    EXPECT_EQ(plain.out[lane],
              2 * (number(one, other) | number(one, other + 1) << 16) + (8 | 8 << 16))
        << lane;
    EXPECT_EQ(transposed.out[lane],
              2 * (number(other, one) | number(other + 1, one) << 16) + (8 | 8 << 16))
        << lane;
  }
}

TEST(PtxEmulator, ShufflesAndPacksHalves) {
  const Result result = run_kernel(R"(
	shfl.sync.bfly.b32 	%r2, %r1, 3, 31, -1;
	cvt.rn.f32.s32 	%r3, %r2;
	cvt.rn.bf16x2.f32 	%r4, %r3, 0f3F800000;
	st.global.b32 	[%rd1], %r4;)");
  ASSERT_EQ(result.error, "");
  EXPECT_EQ(result.out[3], 0x00003f80u);  // upper half 0, lower half 1
  EXPECT_EQ(result.out[2], 0x3f803f80u);
}

// In each segment of 8 lanes, all lanes read lane 1. The shfl.down reads lane + 2, but not past
// lane 4 of the segment.
TEST(PtxEmulator, ShufflesWithinSegments) {
  const Result result = run_kernel(R"(
	shfl.sync.idx.b32 	%r2, %r1, 1, 6175, -1;
	shfl.sync.down.b32 	%r3, %r1, 2, 6148, -1;
	shl.b32 	%r3, %r3, 8;
	or.b32 	%r2, %r2, %r3;
	st.global.b32 	[%rd1], %r2;)");
  ASSERT_EQ(result.error, "");
  for (uint32_t i = 0; i < 64; ++i) {
    const uint32_t below = i % 8 + 2 <= 4 ? i + 2 : i;
    EXPECT_EQ(result.out[i], ((i & ~7u) | 1) | below << 8) << i;
  }
}

TEST(PtxEmulator, PermutesBytesAndAddsPairs) {
  const Result result = run_kernel(R"(
	mov.b32 	%r2, -2130640638;
	prmt.b32 	%r3, %r2, 305419896, 47876U;
	add.s16x2 	%r4, %r3, %r1;
	sub.s16x2 	%r4, %r4, %r2;
	st.global.b32 	[%rd1], %r4;)");
  ASSERT_EQ(result.error, "");
  // The digits b, b, 0, 4 select the bytes 0xff, 0xff, 0x02, 0x78 from 0x81010102 and 0x12345678,
  // from the highest byte to the lowest.
  EXPECT_EQ(result.out[0], 0x7efe0176u);
  EXPECT_EQ(result.out[9], 0x7efe017fu);
}

TEST(PtxEmulator, ConvertsPairsOfFp8) {
  const Result result = run_kernel(R"(
	cvt.rn.satfinite.e4m3x2.f32 	%rs1, 0f43E70000, 0fBA800000;
	cvt.rn.satfinite.e5m2x2.f32 	%rs2, 0fFF800000, 0f7FC00000;
	mov.b32 	%r2, {%rs1, %rs2};
	st.global.b32 	[%rd1], %r2;)");
  ASSERT_EQ(result.error, "");
  // 462 becomes 448, the largest number. -2^-10, between 0 and the smallest number, becomes -0.
  // -inf becomes the least number, and NaN stays NaN.
  EXPECT_EQ(result.out[0], 0xfb7f7e80u);
  const Result halves = run_kernel(R"(
	mov.b32 	%r2, 0x3f807c01;
	mov.b32 	{%rs1, %rs2}, %r2;
	cvt.rn.f16x2.e4m3x2 	%r3, %rs2;
	cvt.rn.satfinite.e4m3x2.f16x2 	%rs3, %r3;
	cvt.rn.f16x2.e5m2x2 	%r4, %rs1;
	cvt.u32.u16 	%r5, %rs3;
	xor.b32 	%r3, %r3, %r4;
	xor.b32 	%r3, %r3, %r5;
	st.global.b32 	[%rd1], %r3;)");
  ASSERT_EQ(halves.error, "");
  // In e4m3, 0x3f is 1.875 and 0x80 is -0. In e5m2, 0x7c is infinity and 0x01 is 2^-16.
  EXPECT_EQ(halves.out[0], 0x3f808000u ^ 0x7c000100u ^ 0x00003f80u);
}

// LLVM may pack an unwritten register if nothing uses that half. The emulator fills such a half
// with a pattern, so that a use gives a wrong result.
TEST(PtxEmulator, UnwrittenHalvesHaveAPattern) {
  const Result result = run_kernel(R"(
	mov.b32 	{%rs1, _}, %r1;
	mov.b32 	%r2, {%rs1, %rs2};
	st.global.b32 	[%rd1], %r2;)");
  ASSERT_EQ(result.error, "");
  EXPECT_EQ(result.out[9], 0xa5a50009u);
}

TEST(PtxEmulator, LoadsOfSignedTypesExtendTheSign) {
  const Result result = run_kernel(R"(
	mov.b32 	%r2, 0x80f07f85;
	st.global.b32 	[%rd1], %r2;
	ld.global.s8 	%rs1, [%rd1];
	cvt.s32.s16 	%r3, %rs1;
	ld.global.s16 	%r4, [%rd1+2];
	sub.s32 	%r3, %r3, %r4;
	ld.global.u8 	%rs1, [%rd1];
	cvt.s32.s16 	%r4, %rs1;
	add.s32 	%r3, %r3, %r4;
	st.global.b32 	[%rd1], %r3;)");
  ASSERT_EQ(result.error, "");
  EXPECT_EQ(static_cast<int32_t>(result.out[3]), -123 - -32528 + 133);
}

TEST(PtxEmulator, DropsUnusedHalvesAndClamps) {
  const Result result = run_kernel(R"(
	mov.b32 	%r2, 0x12345678;
	mov.b32 	{_, %rs1}, %r2;
	cvt.u32.u16 	%r2, %rs1;
	sub.s32 	%r3, %r1, 5;
	min.relu.s32 	%r3, %r3, 7;
	add.s32 	%r2, %r2, %r3;
	st.global.b32 	[%rd1], %r2;)");
  ASSERT_EQ(result.error, "");
  EXPECT_EQ(result.out[3], 0x1234u);
  EXPECT_EQ(result.out[9], 0x1238u);
  EXPECT_EQ(result.out[60], 0x123bu);
}

// The operands are r1 - 20 and 5 - r1, where r1 is the thread's number.
TEST(PtxEmulator, MaxReluIsNotNegative) {
  const Result result = run_kernel(R"(
	sub.s32 	%r2, %r1, 20;
	sub.s32 	%r3, 5, %r1;
	max.relu.s32 	%r4, %r2, %r3;
	st.global.b32 	[%rd1], %r4;)");
  ASSERT_EQ(result.error, "");
  EXPECT_EQ(result.out[2], 3u);
  EXPECT_EQ(result.out[9], 0u) << "of -11 and -4";
  EXPECT_EQ(result.out[25], 5u);
}

// Extracts 12 bits of 0xfedc'ba98'7654'3210 from each bit position on. Bits above bit 63 equal the
// sign.
TEST(PtxEmulator, ExtractsSignedFieldsOf64Bits) {
  const Result result = run_kernel(R"(
	mov.b64 	%rd6, 0xfedcba9876543210;
	bfe.s64 	%rd7, %rd6, %r1, 12;
	cvt.u32.u64 	%r2, %rd7;
	shr.u64 	%rd7, %rd7, 32;
	cvt.u32.u64 	%r3, %rd7;
	add.s32 	%r4, %r2, %r3;
	st.global.b32 	[%rd1], %r4;)");
  ASSERT_EQ(result.error, "");
  const auto both = [](int64_t value) {
    return static_cast<uint32_t>(value) + static_cast<uint32_t>(value >> 32);
  };
  EXPECT_EQ(result.out[0], both(0x210));
  EXPECT_EQ(result.out[28], both(0x987 - 0x1000)) << "the field's own sign";
  EXPECT_EQ(result.out[32], both(0xa98 - 0x1000));
  EXPECT_EQ(result.out[40], both(0xcba - 0x1000));
  EXPECT_EQ(result.out[56], both(-2)) << "8 bits are left: 0xfe";
  EXPECT_EQ(result.out[63], both(-1));
}

TEST(PtxEmulator, ExtractsSignedFieldsAtTheLimits) {
  const Result result = run_kernel(R"(
	mov.b64 	%rd6, 0x8000000000000001;
	bfe.s64 	%rd7, %rd6, 5, 0;
	cvt.u32.u64 	%r2, %rd7;
	bfe.s64 	%rd7, %rd6, 200, 3;
	cvt.u32.u64 	%r3, %rd7;
	bfe.s64 	%rd7, %rd6, 256, 1;
	cvt.u32.u64 	%r4, %rd7;
	xor.b32 	%r2, %r2, %r3;
	and.b32 	%r2, %r2, %r4;
	st.global.b32 	[%rd1], %r2;)");
  ASSERT_EQ(result.error, "");
  EXPECT_EQ(result.out[0], 0xffffffffu)
      << "none; beyond the operand, its sign; places count by their low 8 bits";
}

TEST(PtxEmulator, InsertsBits) {
  const Result result = run_kernel(R"(
	mov.b32 	%r2, 0xabc;
	mov.b32 	%r3, 0x55555555;
	bfi.b32 	%r4, %r2, %r3, %r1, 8;
	st.global.b32 	[%rd1], %r4;)");
  ASSERT_EQ(result.error, "");
  EXPECT_EQ(result.out[0], 0x555555bcu);
  EXPECT_EQ(result.out[4], 0x55555bc5u);
  EXPECT_EQ(result.out[28], 0xc5555555u) << "what does not fit is dropped";
  EXPECT_EQ(result.out[32], 0x55555555u);
  const Result none = run_kernel(R"(
	mov.b32 	%r3, 0x55555555;
	bfi.b32 	%r3, %r1, %r3, 4, 256;
	st.global.b32 	[%rd1], %r3;)");
  ASSERT_EQ(none.error, "");
  EXPECT_EQ(none.out[9], 0x55555555u) << "a length of 256 is one of 0";
}

TEST(PtxEmulator, MultipliesPairs) {
  const Result result = run_kernel(R"(
	mov.b32 	%r2, 0x40003fc0;
	mov.b32 	%r3, 0xbf8040a0;
	mul.rn.bf16x2 	%r4, %r2, %r3;
	st.global.b32 	[%rd1], %r4;)");
  ASSERT_EQ(result.error, "");
  EXPECT_EQ(result.out[0], 0xc00040f0u);  // upper half 2 * -1, lower half 1.5 * 5
}

// An operand of prmt may be unwritten if the selector selects none of its bytes.
TEST(PtxEmulator, PermutesHalves) {
  const Result result = run_kernel(R"(
	prmt.b32 	%r2, %r1, %r3, 0x1032U;
	prmt.b32 	%r2, %r4, %r2, 0x7654U;
	st.global.b32 	[%rd1], %r2;)");
  ASSERT_EQ(result.error, "");
  EXPECT_EQ(result.out[5], 0x50000u);
}

TEST(PtxEmulator, ExtractsForward) {
  const Result result = run_kernel(R"(
	mov.b32 	%r2, 0x44332211;
	prmt.b32.f4e 	%r3, %r2, 0x88776655, 7;
	st.global.b32 	[%rd1], %r3;)");
  ASSERT_EQ(result.error, "");
  EXPECT_EQ(result.out[0], 0x77665544u);
}

// 2^24 + 2^16 + 1 is just above the midpoint of two bf16 numbers. Rounding to f32 first would give
// the midpoint itself.
TEST(PtxEmulator, IntegersAreRoundedOnce) {
  const Result result = run_kernel(R"(
	mov.b32 	%r2, 16842753;
	cvt.rn.bf16.u32 	%rs1, %r2;
	cvt.u32.u16 	%r2, %rs1;
	st.global.b32 	[%rd1], %r2;)");
  ASSERT_EQ(result.error, "");
  EXPECT_EQ(result.out[0], 0x4b81u);
}

// 3 * 87/64 is the midpoint of the bf16 numbers 260/64 and 262/64. In double, the sum would lose
// the small addend.
TEST(PtxEmulator, FusedHalvesAreRoundedOnce) {
  const Result result = run_kernel(R"(
	mov.b32 	%r2, 0x40404040;
	cvt.u16.u32 	%rs1, %r2;
	mov.b32 	%r3, 0x3fae3fae;
	cvt.u16.u32 	%rs2, %r3;
	mov.b32 	%r4, 0x1c801c80;
	cvt.u16.u32 	%rs3, %r4;
	fma.rn.bf16 	%rs4, %rs1, %rs2, %rs3;
	cvt.u32.u16 	%r2, %rs4;
	st.global.b32 	[%rd1], %r2;)");
  ASSERT_EQ(result.error, "");
  EXPECT_EQ(result.out[0], 0x4083u);
}

TEST(PtxEmulator, ComparesPairs) {
  const Result result = run_kernel(R"(
	mov.b32 	%r2, 0x40003fc0;
	mov.b32 	%r3, 0xbf8040a0;
	setp.lt.bf16x2 	%p1|%p2, %r2, %r3;
	selp.b32 	%r3, 1, 0, %p1;
	selp.b32 	%r4, 2, 0, %p2;
	or.b32 	%r4, %r3, %r4;
	st.global.b32 	[%rd1], %r4;)");
  ASSERT_EQ(result.error, "");
  EXPECT_EQ(result.out[0], 1u);  // 1.5 < 5, 2 > -1
}

// Warp 0 writes and warp 1 reads. At the named barrier, warp 1 waits and warp 0 only arrives.
TEST(PtxEmulator, BarrierOfSomeWarps) {
  const Result result = run_kernel(R"(
	setp.lt.u32 	%p1, %r1, 32;
	@%p1 bra 	$L__BB0_1;
	bar.sync 	1, 64;
	ld.shared.b32 	%r2, [%rd2+-128];
	st.global.b32 	[%rd1], %r2;
	bra.uni 	$L__BB0_2;
$L__BB0_1:
	st.shared.b32 	[%rd2], %r1;
	bar.arrive 	1, 64;
$L__BB0_2:)");
  ASSERT_EQ(result.error, "");
  for (uint32_t i = 32; i < 64; ++i) EXPECT_EQ(result.out[i], i - 32);
}

TEST(PtxEmulator, RunsInlineAssembly) {
  const Result result = run_kernel(R"(
	{ .reg .b32 n; .reg .pred P1; mov.b32 n, 3;
	AGAIN: sub.s32 n, n, 1; setp.eq.b32 P1, n, 0; @P1 bra DONE; bra.uni AGAIN; DONE: mov.b32 %r2, n; }
	{ .reg .b32 n; mov.b32 n, 5; bra DONE; mov.b32 n, 6; DONE: add.s32 %r2, %r2, n; }
	elect.sync 	%r3|%p1, -1;
	@%p1 add.s32 	%r2, %r2, 100;
	activemask.b32 	%r4;
	bar.warp.sync 	-1;
	setp.ne.b32 	%p2, %r4, -1;
	@%p2 mov.b32 	%r2, 0;
	st.global.b32 	[%rd1], %r2;)");
  ASSERT_EQ(result.error, "");
  for (uint32_t i = 0; i < 64; ++i) EXPECT_EQ(result.out[i], i % 32 == 0 ? 105 : 5);
}

// Each CTA takes numbers n from a counter until they are used up, and stores its own number to
// out[n]. Several CTAs run at a time.
const std::string kTickets = R"(
$L__BB0_1:
	bar.sync 	0;
	@%p9 atom.relaxed.gpu.global.add.u32 	%r2, [%rd8], 1;
	@%p9 st.shared.b32 	[%rd5], %r2;
	bar.sync 	0;
	ld.shared.b32 	%r3, [%rd5];
	setp.ge.u32 	%p1, %r3, 1100;
	@%p1 bra 	$L__BB0_2;
	sub.s32 	%r4, %r3, 1000;
	mul.wide.u32 	%rd6, %r4, 4;
	add.s64 	%rd7, %rd3, %rd6;
	@%p9 st.global.b32 	[%rd7], %r9;
	bra.uni 	$L__BB0_1;
$L__BB0_2:)";

TEST(PtxEmulator, CtasTakeAtomicTickets) {
  const Result result = run_kernel(kTickets, {.ctas = 5});
  ASSERT_EQ(result.error, "");
  EXPECT_EQ(result.in[0], 1105u);
  std::vector<int> taken(5);
  for (uint32_t n = 0; n < 100; ++n) ++taken.at(result.out[n]);
  EXPECT_GE(std::count_if(taken.begin(), taken.end(), [](int n) { return n > 5; }), 4);
  EXPECT_EQ(run_kernel(kTickets, {.ctas = 5}).out, result.out);
  EXPECT_NE(run_kernel(kTickets, {.ctas = 5, .seed = 2}).out, result.out);
}

// Before griddepcontrol.wait, a launch may read memory that the earlier launch does not write.
// After a barrier with the thread that waited, it may access all memory.
TEST(PtxEmulator, DependentLaunchReadsEarlyInputs) {
  const Result result = run_kernel(R"(
	ld.global.b32 	%r2, [%rd9];
	@%p9 griddepcontrol.wait;
	bar.sync 	0;
	griddepcontrol.launch_dependents;
	st.global.b32 	[%rd1], %r2;)",
                                   {.early_inputs = true});
  ASSERT_EQ(result.error, "");
  EXPECT_EQ(result.out, result.in);
}

class PtxEmulatorFaults : public ::testing::TestWithParam<Fault> {};

TEST_P(PtxEmulatorFaults, AreErrors) {
  const Result result = run_kernel(GetParam().body, GetParam().conditions);
  EXPECT_NE(result.error.find(GetParam().message), std::string::npos) << "got: " << result.error;
}

INSTANTIATE_TEST_SUITE_P(
    All, PtxEmulatorFaults,
    ::testing::Values(
        Fault{"MissingBarrier", exchange(""), "shared memory that"},
        Fault{"MatricesWithoutABarrier", with(matrices(""), "bar.sync 	0;", ""),
              "shared memory that"},
        Fault{"MisalignedMatrices",
              with(matrices(""), "and.b64 	%rd6, %rd6, 511;", "add.s64 	%rd6, %rd6, 8;"),
              "misaligned address"},
        Fault{"OutOfBounds", "	st.global.b32 	[%rd1+4], %r1;", "thread 63: access of 4 bytes at"},
        Fault{"Misaligned", "	ld.global.v2.b32 	{%r2, %r3}, [%rd1];", "misaligned address"},
        Fault{"SharedOutOfBounds", "	st.shared.b32 	[%rd2+772], %r1;",
              "of 1024 bytes of shared memory"},
        Fault{"UnwrittenShared", "	ld.shared.b32 	%r2, [%rd2];", "was not written"},
        Fault{"UnwrittenRegister", "	add.s32 	%r2, %r1, %r8;", "register is read before"},
        Fault{"UnknownOpcode", "	vadd.s32 	%r2, %r1, %r1;", "unknown opcode vadd.s32"},
        Fault{"UnknownQualifier", "	ld.volatile.global.b32 	%r2, [%rd1];", "unknown"},
        Fault{"DivergentBarrier",
              "	setp.lt.u32 	%p1, %r1, 9;\n	@%p1 bra 	$L__BB0_1;\n	bar.sync 	"
              "0;\n$L__BB0_1:",
              "not all threads"},
        Fault{"DivergentShuffle",
              "	setp.lt.u32 	%p1, %r1, 9;\n	@%p1 shfl.sync.bfly.b32 	%r2, %r1, 1, 31, "
              "-1;",
              "not all threads"},
        Fault{"DivergentElect",
              "	setp.lt.u32 	%p1, %r1, 9;\n	@%p1 bra 	$L__BB0_1;\n	elect.sync 	"
              "_|%p2, -1;\n$L__BB0_1:",
              "not all threads"},
        Fault{"PartOfABarrier", "	bar.sync 	1, 16;", "whole warps"},
        Fault{"LonelyBarrier",
              "	setp.lt.u32 	%p1, %r1, 32;\n	@%p1 bra 	$L__BB0_1;\n	bar.sync 	1, "
              "64;\n$L__BB0_1:",
              "deadlock, all warps wait:\n  k, CTA (0, 0, 0): PTX line 23 `bar.sync 	1, 64`"},
        Fault{"CountsDiffer",
              "	setp.lt.u32 	%p1, %r1, 32;\n	@%p1 bra 	$L__BB0_1;\n	bar.sync 	1, "
              "64;\n$L__BB0_1:\n	bar.sync 	1, 96;",
              "at different barriers"},
        Fault{"NoEnd", "$L__BB0_1:\n	bra.uni 	$L__BB0_1;", "a warp does not end"},
        Fault{"BeforeTheWait", "	ld.global.b32 	%r2, [%rd9];\n	griddepcontrol.wait;",
              "before griddepcontrol.wait"},
        Fault{"WriteBeforeTheWait",
              "	st.global.b32 	[%rd1], %r1;\n	griddepcontrol.wait;",
              "before griddepcontrol.wait",
              {.early_inputs = true}},
        Fault{"PrefetchOutside",
              "	prefetch.global.L2 [%rd9];\n	prefetch.global.L2 [%rd8+-1];\n	"
              "griddepcontrol.wait;",
              "outside the arguments' buffers"},
        Fault{"WarpsAtDifferentBarriers",
              "	setp.lt.u32 	%p1, %r1, 32;\n	@%p1 bra 	$L__BB0_1;\n	bar.sync 	"
              "0;\n$L__BB0_1:",
              "at different barriers"}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace ligerdsl::test::ptx
