// What the emulator computes where lanes diverge, and that it finds what it says it finds.
#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <vector>

#include "tests/support/ptx/machine.h"

namespace ligerdsl::test::ptx {
namespace {

// Every thread's output is at %rd1; %r1 is its number, %rd2 the shared address of its word.
std::string kernel(const std::string& body) {
  return R"(.version 8.0
.visible .entry k(
	.param .u64 k_param_0
)
.reqntid 64
{
	.reg .b32 	%r<9>;
	ld.param.b64 	%rd3, [k_param_0];
	mov.u32 	%r1, %tid.x;
	mul.wide.u32 	%rd4, %r1, 4;
	add.s64 	%rd1, %rd3, %rd4;
	mov.b64 	%rd5, ligerdsl_shared;
	add.s64 	%rd2, %rd5, %rd4;
)" + body +
         "\n\tret;\n}\n";
}

struct Result {
  std::vector<uint32_t> out = std::vector<uint32_t>(64, 0xffffffff);
  std::string error;
};

Result run_kernel(const std::string& body, int64_t bytes = 256) {
  Result result;
  GlobalMemory memory;
  memory.add(result.out.data(), bytes);
  Launch launch;
  launch.slots = {reinterpret_cast<uintptr_t>(result.out.data())};
  launch.shared_bytes = 256;
  try {
    run(parse(kernel(body)), launch, memory);
  } catch (const std::runtime_error& error) {
    result.error = error.what();
  }
  return result;
}

TEST(PtxEmulator, LanesLoopAndBranchApart) {
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

// The other warp's words, through shared memory.
const std::string kExchange = R"(
	st.shared.b32 	[%rd2], %r1;
	BARRIER
	xor.b64 	%rd6, %rd4, 128;
	add.s64 	%rd7, %rd5, %rd6;
	ld.shared.b32 	%r2, [%rd7];
	st.global.b32 	[%rd1], %r2;)";

std::string exchange(const std::string& barrier) {
  return std::string(kExchange).replace(kExchange.find("BARRIER"), 7, barrier);
}

TEST(PtxEmulator, WarpsExchangeThroughSharedMemory) {
  const Result result = run_kernel(exchange("bar.sync 	0;"));
  ASSERT_EQ(result.error, "");
  for (uint32_t i = 0; i < 64; ++i) EXPECT_EQ(result.out[i], i ^ 32);
}

TEST(PtxEmulator, ShuffleAndHalves) {
  const Result result = run_kernel(R"(
	shfl.sync.bfly.b32 	%r2, %r1, 3, 31, -1;
	cvt.rn.f32.s32 	%r3, %r2;
	cvt.rn.bf16x2.f32 	%r4, %r3, 0f3F800000;
	st.global.b32 	[%rd1], %r4;)");
  ASSERT_EQ(result.error, "");
  EXPECT_EQ(result.out[3], 0x00003f80u);  // 0 above 1
  EXPECT_EQ(result.out[2], 0x3f803f80u);
}

struct Fault {
  const char* name;
  std::string body, message;
};

void PrintTo(const Fault& fault, std::ostream* out) {
  *out << fault.message;
}

class PtxEmulatorFinds : public ::testing::TestWithParam<Fault> {};

TEST_P(PtxEmulatorFinds, Fault) {
  const Result result = run_kernel(GetParam().body);
  EXPECT_NE(result.error.find(GetParam().message), std::string::npos) << "got: " << result.error;
}

INSTANTIATE_TEST_SUITE_P(
    All, PtxEmulatorFinds,
    ::testing::Values(
        Fault{"MissingBarrier", exchange(""), "shared memory that"},
        Fault{"OutOfBounds", "	st.global.b32 	[%rd1+4], %r1;", "thread 63: access of 4 bytes at"},
        Fault{"Misaligned", "	ld.global.v2.b32 	{%r2, %r3}, [%rd1];", "misaligned address"},
        Fault{"SharedOutOfBounds", "	st.shared.b32 	[%rd2+4], %r1;", "of 256 bytes of shared memory"},
        Fault{"UnwrittenShared", "	ld.shared.b32 	%r2, [%rd2];", "was not written"},
        Fault{"UnwrittenRegister", "	add.s32 	%r2, %r1, %r8;", "register is read before"},
        Fault{"UnknownOpcode", "	vadd.s32 	%r2, %r1, %r1;", "unknown opcode vadd.s32"},
        Fault{"UnknownQualifier", "	ld.volatile.global.b32 	%r2, [%rd1];", "unknown"},
        Fault{"DivergentBarrier",
              "	setp.lt.u32 	%p1, %r1, 9;\n	@%p1 bra 	$L__BB0_1;\n	bar.sync 	0;\n$L__BB0_1:",
              "not all threads"},
        Fault{"DivergentShuffle",
              "	setp.lt.u32 	%p1, %r1, 9;\n	@%p1 shfl.sync.bfly.b32 	%r2, %r1, 1, 31, -1;",
              "not all threads"},
        Fault{"WarpsApart",
              "	setp.lt.u32 	%p1, %r1, 32;\n	@%p1 bra 	$L__BB0_1;\n	bar.sync 	0;\n$L__BB0_1:",
              "do not meet"}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace ligerdsl::test::ptx
