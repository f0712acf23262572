// Tests mbarriers and asynchronous copies.
#include <gtest/gtest.h>

#include <string>

#include "tests/support/ptx/test_kernel.h"

namespace ligerdsl::test::ptx {
namespace {

// Thread 0 loads the CTA's inputs by one bulk copy. Each thread then stores its input to its
// output.
const std::string kFetch = R"(
	@%p9 mbarrier.init.shared.b64 	[%rd5+512], 1;
	$fence
	$meet
	@!%p9 bra 	$L__BB0_1;
	mbarrier.arrive.expect_tx.shared.b64 	%rd6, [%rd5+512], $expect;
	cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes 	[%rd5], [%rd9], $bytes, [%rd5+512];
$L__BB0_1:
	$wait
	ld.shared.b32 	%r2, [%rd2];
	st.global.b32 	[%rd1], %r2;)";

const std::string kSpin =
    "mbarrier.try_wait.parity.shared.b64 	%p1, [%rd5+512], 0;\n	@!%p1 bra 	$L__BB0_1;";

struct Fetch {
  std::string fence = "fence.mbarrier_init.release.cluster;", meet = "bar.sync 	0;", wait = kSpin,
              expect = "256", bytes = "256";
};

std::string fetch(const Fetch& f = {}) {
  std::string text = with(with(kFetch, "$fence", f.fence), "$meet", f.meet);
  return with(with(with(text, "$wait", f.wait), "$expect", f.expect), "$bytes", f.bytes);
}

TEST(PtxCopies, BulkCopyCompletesOnAnMbarrier) {
  for (uint64_t seed = 1; seed < 20; ++seed) {
    const Result result = run_kernel(fetch(), {.ctas = 6, .seed = seed});
    ASSERT_EQ(result.error, "");
    EXPECT_EQ(result.out, result.in);
  }
}

// A ring with one slot. Thread 0 loads the inputs of four CTAs, beginning with its own, one after
// another. The other warp adds them.
const std::string kRing = R"(
	@%p9 mbarrier.init.shared.b64 	[%rd5+512], 1;
	@%p9 mbarrier.init.shared.b64 	[%rd5+520], 32;
	@%p9 fence.mbarrier_init.release.cluster;
	bar.sync 	0;
	mov.b32 	%r2, 0;
	mov.b32 	%r3, 0;
	setp.lt.u32 	%p1, %r1, 32;
	@%p1 bra 	$L__BB0_3;
$L__BB0_1:
	and.b32 	%r4, %r3, 1;
$L__BB0_2:
	mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 	%p2, [%rd5+512], %r4;
	@!%p2 bra 	$L__BB0_2;
	ld.shared.b32 	%r5, [%rd2];
	add.s32 	%r2, %r2, %r5;
	fence.proxy.async.shared::cta;
	$release
	add.s32 	%r3, %r3, 1;
	setp.lt.u32 	%p3, %r3, 4;
	@%p3 bra 	$L__BB0_1;
	st.global.b32 	[%rd1], %r2;
	bra.uni 	$L__BB0_6;
$L__BB0_3:
	@!%p9 bra 	$L__BB0_6;
$L__BB0_4:
	not.b32 	%r4, %r3;
	and.b32 	%r4, %r4, 1;
$L__BB0_5:
	mbarrier.try_wait.parity.shared::cta.b64 	%p2, [%rd5+520], %r4;
	@!%p2 bra 	$L__BB0_5;
	mbarrier.expect_tx.relaxed.cta.shared::cta.b64 	[%rd5+512], 256;
	mbarrier.arrive.shared::cta.b64 	_, [%rd5+512];
	cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes 	[%rd5], [%rd9], 256, [%rd5+512];
	add.s64 	%rd9, %rd9, 256;
	add.s32 	%r3, %r3, 1;
	setp.lt.u32 	%p3, %r3, 4;
	@%p3 bra 	$L__BB0_4;
$L__BB0_6:
	$end)";

std::string ring(const std::string& release, const std::string& end = "") {
  return with(with(kRing, "$release", release), "$end", end);
}

TEST(PtxCopies, RingIsRefilledAfterItsRelease) {
  for (uint64_t seed = 1; seed < 20; ++seed) {
    const Result result = run_kernel(ring("mbarrier.arrive.shared.b64 	%rd6, [%rd5+520];"),
                                     {.ctas = 4, .seed = seed});
    EXPECT_EQ(result.error.find("outside the arguments' buffers") != std::string::npos,
              true);  // CTAs 1 to 3 read beyond the inputs
    const Result first = run_kernel(
        with(ring("mbarrier.arrive.shared.b64 	%rd6, [%rd5+520];"), "[%rd9]", "[%rd8]"),
        {.ctas = 4, .seed = seed});
    ASSERT_EQ(first.error, "");
    for (uint32_t i = 32; i < 64; ++i) EXPECT_EQ(first.out[i], 4 * (1000 + i));
  }
}

// Waits by the state that the arrive returned, and not by parity. After inval, the bytes of the
// mbarrier hold data again.
TEST(PtxCopies, WaitsByStateAndInvalidates) {
  const Result result = run_kernel(R"(
	@%p9 mbarrier.init.shared::cta.b64 	[%rd5+512], 64;
	bar.sync 	0;
	st.shared.b32 	[%rd2], %r1;
	mbarrier.arrive.release.cta.shared::cta.b64 	%rd6, [%rd5+512];
$L__BB0_1:
	mbarrier.test_wait.shared::cta.b64 	%p1, [%rd5+512], %rd6;
	@!%p1 bra 	$L__BB0_1;
	xor.b64 	%rd7, %rd4, 128;
	add.s64 	%rd7, %rd5, %rd7;
	ld.shared.b32 	%r2, [%rd7];
	st.global.b32 	[%rd1], %r2;
	bar.sync 	0;
	@%p9 mbarrier.inval.shared::cta.b64 	[%rd5+512];
	@%p9 st.shared.b64 	[%rd5+512], %rd3;
	bar.sync 	0;
	@%p9 mbarrier.init.shared::cta.b64 	[%rd5+512], 1;)");
  ASSERT_EQ(result.error, "");
  for (uint32_t i = 0; i < 64; ++i) EXPECT_EQ(result.out[i], i ^ 32);
}

// Each thread copies four bytes from global memory, followed by twelve zeros. After a barrier,
// other threads read them.
const std::string kGather = R"(
	mul.wide.u32 	%rd6, %r1, 16;
	add.s64 	%rd6, %rd5, %rd6;
	and.b64 	%rd7, %rd9, -16;
	cp.async.cg.shared.global 	[%rd6], [%rd7], 16, 4;
	cp.async.commit_group;
	$wait
	$meet
	xor.b32 	%r2, %r1, 32;
	mul.wide.u32 	%rd6, %r2, 16;
	add.s64 	%rd6, %rd5, %rd6;
	ld.shared.v4.b32 	{%r3, %r4, %r5, %r6}, [%rd6];
	add.s32 	%r3, %r3, %r4;
	add.s32 	%r3, %r3, %r5;
	add.s32 	%r3, %r3, %r6;
	st.global.b32 	[%rd1], %r3;)";

std::string gather(const std::string& wait, const std::string& meet) {
  return with(with(kGather, "$wait", wait), "$meet", meet);
}

TEST(PtxCopies, WaitsForGroupsOfAsyncCopies) {
  for (const char* wait : {"cp.async.wait_group 	0;", "cp.async.wait_all;"}) {
    const Result result = run_kernel(gather(wait, "bar.sync 	0;"));
    ASSERT_EQ(result.error, "");
    for (uint32_t i = 0; i < 64; ++i) EXPECT_EQ(result.out[i], 1000 + ((i ^ 32) & ~3u)) << i;
  }
}

const std::string kBulkStore = R"(
	st.shared.b32 	[%rd2], %r1;
	$fence
	bar.sync 	0;
	@%p9 cp.async.bulk.global.shared::cta.bulk_group 	[%rd1], [%rd5], 256;
	cp.async.bulk.commit_group;
	$wait
	bar.sync 	0;
	st.shared.b32 	[%rd2], %r10;)";

std::string bulk_store(const std::string& fence, const std::string& wait) {
  return with(with(kBulkStore, "$fence", fence), "$wait", wait);
}

TEST(PtxCopies, BulkStoreWritesGlobalMemory) {
  for (uint64_t seed = 1; seed < 9; ++seed) {
    const std::string body =
        bulk_store("fence.proxy.async.shared::cta;", "cp.async.bulk.wait_group.read 	0;");
    const Result result = run_kernel(body, {.seed = seed});
    ASSERT_EQ(result.error, "");
    for (uint32_t i = 0; i < 64; ++i) EXPECT_EQ(result.out[i], i);
  }
}

// Thread 0 loads a box of 256 bytes. The swizzle exchanges 16-byte units in every second line of
// 128 bytes.
const std::string kTensor = R"(
	@%p9 mbarrier.init.shared.b64 	[%rd5+512], 1;
	$fence
	bar.sync 	0;
	mov.b64 	%rd11, k_param_2;
	cvta.param.u64 	%rd12, %rd11;
	mov.b32 	%r20, $column;
	mov.b32 	%r21, $row;
	@!%p9 bra 	$L__BB0_1;
	mbarrier.arrive.expect_tx.shared.b64 	%rd6, [%rd5+512], $expect;
	cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes 	[%rd5+$to], [%rd12, {%r20, %r21}], [%rd5+512];
$L__BB0_1:
	$wait
	shr.u32 	%r22, %r1, 5;
	shl.b32 	%r22, %r22, 4;
	cvt.u64.u32 	%rd13, %r22;
	xor.b64 	%rd14, %rd2, %rd13;
	ld.shared.b32 	%r2, [%rd14];
	st.global.b32 	[%rd1], %r2;)";

struct Box {
  std::string fence = "fence.proxy.async.shared::cta;", wait = kSpin, expect = "256", column = "0",
              row = "0", to = "0";
};

std::string box(const Box& b = {}) {
  std::string text =
      with(with(with(kTensor, "$fence", b.fence), "$wait", b.wait), "$expect", b.expect);
  return with(with(with(text, "$column", b.column), "$row", b.row), "$to", b.to);
}

TEST(PtxCopies, TmaCopyLoadsABoxWithZeroPadding) {
  for (int row : {0, 3, 8, -2, -8})
    for (int column : {0, 8, 10, 16, -8, -16}) {
      const Result result =
          run_kernel(box({.column = std::to_string(column), .row = std::to_string(row)}));
      ASSERT_EQ(result.error, "");
      for (int i = 0; i < 64; ++i) {  // 64 words in rows of eight
        const int from = i / 8 + row, at = i % 8 + column / 2;
        const bool inside = from >= 0 && from < 8 && at >= 0 && at < 8;
        EXPECT_EQ(result.out[static_cast<size_t>(i)],
                  inside ? 1000u + static_cast<unsigned>(8 * from + at) : 0u)
            << i << " at " << row << ", " << column;
      }
    }
}

// Thread 0 stores a swizzled box to the inputs. Word i of the box is i.
const std::string kTensorStore = R"(
	mov.b64 	%rd11, k_param_2;
	cvta.param.u64 	%rd12, %rd11;
	mov.b32 	%r20, $column;
	mov.b32 	%r21, $row;
	shr.u32 	%r22, %r1, 5;
	shl.b32 	%r22, %r22, 4;
	cvt.u64.u32 	%rd13, %r22;
	xor.b64 	%rd14, %rd2, %rd13;
	st.shared.b32 	[%rd14], %r1;
	$fence
	bar.sync 	0;
	@!%p9 bra 	$L__BB0_1;
	cp.async.bulk.tensor.2d.global.shared::cta.bulk_group 	[%rd12, {%r20, %r21}], [%rd5];
	cp.async.bulk.commit_group;
$L__BB0_1:
	$wait
	bar.sync 	0;
	st.shared.b32 	[%rd2], %r10;)";

struct StoredBox {
  std::string fence = "fence.proxy.async.shared::cta;", wait = "cp.async.bulk.wait_group.read 	0;",
              column = "0", row = "0";
};

std::string stored_box(const StoredBox& b = {}) {
  return with(
      with(with(with(kTensorStore, "$fence", b.fence), "$wait", b.wait), "$column", b.column),
      "$row", b.row);
}

TEST(PtxCopies, TmaStoreDropsElementsOutside) {
  for (int row : {0, 3, 8, -2, -8})
    for (int column : {0, 8, 16, -8, -16}) {
      const Result result =
          run_kernel(stored_box({.column = std::to_string(column), .row = std::to_string(row)}));
      ASSERT_EQ(result.error, "");
      for (int i = 0; i < 64; ++i) {
        const int of = i / 8 - row, at = i % 8 - column / 2;
        const bool stored = of >= 0 && of < 8 && at >= 0 && at < 8;
        EXPECT_EQ(result.in[static_cast<size_t>(i)],
                  static_cast<uint32_t>(stored ? 8 * of + at : 1000 + i))
            << i << " at " << row << ", " << column;
      }
    }
}

// Replaces `part`, which must occur in the text.
std::string but(const std::string& text, const std::string& part, const std::string& by) {
  EXPECT_NE(text.find(part), std::string::npos) << part;
  return with(text, part, by);
}

class PtxCopyFaults : public ::testing::TestWithParam<Fault> {};

TEST_P(PtxCopyFaults, AreErrors) {
  for (uint64_t seed = 1; seed < 6; ++seed) {
    Conditions conditions = GetParam().conditions;
    conditions.seed = seed;
    const Result result = run_kernel(GetParam().body, conditions);
    EXPECT_NE(result.error.find(GetParam().message), std::string::npos) << "got: " << result.error;
  }
}

const std::string kWaitAll = "cp.async.wait_all;", kMeet = "bar.sync 	0;";
const std::string kArrive = "mbarrier.arrive.shared.b64 	%rd6, [%rd5+520];";

INSTANTIATE_TEST_SUITE_P(
    All, PtxCopyFaults,
    ::testing::Values(
        Fault{"NoInit", "	@%p9 mbarrier.arrive.shared.b64 	%rd6, [%rd5];",
              "was not initialised"},
        Fault{"InitTwice",
              "	@%p9 mbarrier.init.shared.b64 	[%rd5], 1;\n	@%p9 mbarrier.init.shared.b64 	"
              "[%rd5], 1;",
              "initialised twice"},
        Fault{"InitByAll", "	mbarrier.init.shared.b64 	[%rd5], 1;", "initialised twice"},
        Fault{"InitOfNothing", "	@%p9 mbarrier.init.shared.b64 	[%rd5], 0;",
              "for 0 arrivals"},
        Fault{"InitMisaligned", "	@%p9 mbarrier.init.shared.b64 	[%rd5+4], 1;",
              "misaligned"},
        Fault{"InitNotShown", fetch({.meet = ""}), "initialised"},
        Fault{"InitNotFenced", fetch({.fence = ""}), "without fence.proxy.async or .mbarrier_init"},
        Fault{"TooManyArrivals",
              "	@%p9 mbarrier.init.shared.b64 	[%rd5], 2;\n	@%p9 mbarrier.arrive.shared.b64 "
              "	%rd6, [%rd5], "
              "3;",
              "3 arrivals at an mbarrier that waits for 2 more"},
        Fault{"TooManyBytes",
              "	@%p9 mbarrier.init.shared.b64 	[%rd5], 2;\n	@%p9 mbarrier.expect_tx.shared.b64 "
              "	[%rd5], "
              "1048576;",
              "expects 1048576 bytes"},
        Fault{"BytesRead",
              "	@%p9 mbarrier.init.shared.b64 	[%rd5], 2;\n	@%p9 ld.shared.b32 	%r2, "
              "[%rd5];",
              "read of an mbarrier's bytes"},
        Fault{"BytesWritten",
              "	@%p9 mbarrier.init.shared.b64 	[%rd5], 2;\n	@%p9 st.shared.b32 	[%rd5+4], "
              "%r1;",
              "write to an mbarrier's bytes"},
        Fault{"Invalidated",
              "	@%p9 mbarrier.init.shared.b64 	[%rd5], 2;\n	@%p9 mbarrier.inval.shared.b64 	"
              "[%rd5];\n"
              "	@%p9 mbarrier.arrive.shared.b64 	%rd6, [%rd5];",
              "was not initialised"},
        Fault{
            "InvalidatedEarly",
            but(ring(kArrive, "@%p9 mbarrier.inval.shared.b64 	[%rd5+512];"), "[%rd9]", "[%rd8]"),
            "may still use"},
        Fault{"NoWait", fetch({.wait = ""}), "shared memory that"},
        Fault{"WaitWithoutLoop",
              fetch({.wait = "mbarrier.try_wait.parity.shared.b64 	%p1, [%rd5+512], 1;"}),
              "shared memory that"},
        Fault{"RelaxedWait",
              but(fetch(), "try_wait.parity.shared", "try_wait.parity.relaxed.cta.shared"),
              "wrote, without a barrier between"},
        Fault{"NeverEnough", fetch({.expect = "272"}),
              "deadlock, all warps wait:\n  k, CTA (0, 0, 0): PTX line"},
        Fault{"NothingExpected", fetch({.expect = "0"}), "wrote, without a barrier between"},
        Fault{"OddBytes", fetch({.bytes = "248"}), "a bulk copy of 248 bytes"},
        Fault{"MisalignedTarget", but(fetch(), "[%rd5], [%rd9]", "[%rd5+4], [%rd9]"), "misaligned"},
        Fault{"MisalignedSource", but(fetch(), "[%rd5], [%rd9]", "[%rd5], [%rd9+8]"), "misaligned"},
        Fault{"SourceOutOfBounds", but(fetch(), "[%rd5], [%rd9]", "[%rd5], [%rd9+16]"),
              "access of 256 bytes at"},
        Fault{"TargetOutOfBounds", but(fetch(), "[%rd5], [%rd9]", "[%rd5+896], [%rd9]"),
              "bytes of shared memory"},
        Fault{"CopyBeforeTheWait", fetch() + "\n	griddepcontrol.wait;",
              "before griddepcontrol.wait"},
        Fault{"NotReleased",
              but(ring("mbarrier.arrive.relaxed.cta.shared.b64 	%rd6, [%rd5+520];"), "[%rd9]",
                  "[%rd8]"),
              "copy into shared memory that"},
        Fault{
            "ReleasedEarly",
            but(but(ring(""), "ld.shared.b32", kArrive + "\n	ld.shared.b32"), "[%rd9]", "[%rd8]"),
            "read"},
        Fault{"ReleasedUnfenced",
              but(but(ring(kArrive), "	fence.proxy.async.shared::cta;", ""), "[%rd9]", "[%rd8]"),
              "read, without fence.proxy.async between"},
        Fault{"StoreUnderACopy",
              but(fetch(), "$L__BB0_1:", "	st.shared.b32 	[%rd5+4], %r1;\n$L__BB0_1:"),
              "write to shared memory that a copy on the mbarrier at offset 512 wrote"},
        Fault{"CopyOverPlainStores",
              but(fetch({.fence = ""}), "bar.sync", "st.shared.b32 	[%rd2], %r1;\n	bar.sync"),
              "without fence.proxy.async"},
        Fault{"CopyOverOthersStores",
              but(but(fetch(), "fence.mbarrier_init.release.cluster", "fence.proxy.async"),
                  "cp.async", "add.s64 	%rd7, %rd5, 768;\n	cp.async") +
                  "\n	st.shared.b32 	[%rd2+768], %r1;\n	@%p9 mbarrier.expect_tx.shared.b64 "
                  "	[%rd5+512], "
                  "256;\n"
                  "	@%p9 cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes 	"
                  "[%rd5+768], [%rd9], "
                  "256, "
                  "[%rd5+512];",
              "copy into shared memory that warp"},
        Fault{"TensorNoWait", box({.wait = ""}), "shared memory that"},
        Fault{"TensorNotFenced", box({.fence = ""}), "without fence.proxy.async or .mbarrier_init"},
        Fault{"TensorTooFewExpected", box({.expect = "128"}), "deadlock"},
        Fault{"TensorTooManyExpected", box({.expect = "512"}), "deadlock"},
        Fault{"TensorEndsBefore", box({.wait = "ret;"}), "ends before"},
        Fault{"TensorMisaligned", box({.to = "64"}), "misaligned"},
        Fault{"TensorWithoutMap", but(box(), "[%rd12,", "[%rd9,"), "without a tensor map"},
        Fault{"TensorOverPlainStores",
              but(box({.fence = "@%p9 fence.mbarrier_init.release.cluster;"}), "bar.sync",
                  "st.shared.b32 	[%rd2], %r1;\n	bar.sync"),
              "without fence.proxy.async"},
        Fault{"TensorOverReads",
              but(box(), "@!%p9 bra", "@!%p9 ld.shared.b32 	%r2, [%rd2];\n	@!%p9 bra"),
              "shared memory that"},
        Fault{"AddressOfASlot", "	mov.b64 	%rd11, k_param_1;",
              "the address of a parameter that is not a tensor map"},
        Fault{"EndsBeforeCopy", but(fetch({.wait = "ret;"}), "ld.shared", "ld.shared"),
              "ends before"},
        Fault{"NoGroupWait", gather("", kMeet), "a cp.async of warp"},
        Fault{"GroupWaitTooShort", gather("cp.async.wait_group 	1;", kMeet), "a cp.async of warp"},
        Fault{"GroupOfOthers", gather(kWaitAll, ""), "shared memory that"},
        Fault{"GroupNotAwaited", "	cp.async.ca.shared.global 	[%rd2], [%rd9], 4;",
              "ends before it waited"},
        Fault{"SourceTooLarge", "	cp.async.ca.shared.global 	[%rd2], [%rd9], 4, 8;",
              "a source larger than"},
        Fault{"OddCopy", "	cp.async.ca.shared.global 	[%rd2], [%rd9], 2;",
              "other than 4, 8 or 16 bytes"},
        Fault{"BulkStoreNotFenced", bulk_store("", "cp.async.bulk.wait_group 	0;"),
              "without fence.proxy.async"},
        Fault{"BulkStoreNotAwaited", bulk_store("fence.proxy.async;", ""),
              "write to shared memory that a bulk store of"},
        Fault{"TensorStoreNotFenced", stored_box({.fence = ""}), "without fence.proxy.async"},
        Fault{"TensorStoreNotAwaited", stored_box({.wait = ""}),
              "write to shared memory that a bulk store of"},
        Fault{"TensorStoreMisaligned", but(stored_box(), "[%rd5];", "[%rd5+64];"), "misaligned"},
        Fault{"TensorStoreWithoutMap", but(stored_box(), "[%rd12,", "[%rd9,"),
              "without a tensor map"}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace ligerdsl::test::ptx
