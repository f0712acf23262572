// Tests clusters: CTAs that access each other's shared memory.
#include <gtest/gtest.h>

#include <string>

#include "tests/support/ptx/test_kernel.h"

namespace ligerdsl::test::ptx {
namespace {

// Every thread writes a word to its CTA's shared memory. It then reads the word of its counterpart
// in CTA rank + 1.
const std::string kNextCta = R"(
	mov.u32 	%r2, %cluster_ctarank;
	mov.u32 	%r3, %cluster_nctarank;
	add.s32 	%r4, %r2, 1;
	rem.u32 	%r4, %r4, %r3;
	$start
	st.shared.b32 	[%rd2], %r10;
	$arrive
	$wait
	mapa.shared::cluster.u64 	%rd6, %rd2, %r4;
	ld.shared::cluster.b32 	%r5, [%rd6];
	$end
	st.global.b32 	[%rd1], %r5;)";

const std::string kArrive = "barrier.cluster.arrive.aligned;",
                  kWait = "barrier.cluster.wait.aligned;";

struct NextCta {
  std::string start = "", arrive = kArrive, wait = kWait, end = kArrive + "\n	" + kWait;
};

std::string next_cta(const NextCta& n = {}) {
  return with(with(with(with(kNextCta, "$start", n.start), "$arrive", n.arrive), "$wait", n.wait),
              "$end", n.end);
}

TEST(PtxClusters, ReadsSharedMemoryOfAnotherCta) {
  for (uint64_t seed = 1; seed < 9; ++seed) {
    const Result result = run_kernel(next_cta(), {.ctas = 24, .cluster = 4, .seed = seed});
    ASSERT_EQ(result.error, "");
    for (uint32_t i = 0; i < result.out.size(); ++i) {
      EXPECT_EQ(result.out[i], i / 256 * 256 + (i + 64) % 256);
    }
  }
}

TEST(PtxClusters, ParsesTheClusterSize) {
  const std::string text = with(kernel(next_cta()), ".reqntid 64",
                                ".reqntid 64\n.explicitcluster\n.reqnctapercluster 2, 1, 1");
  EXPECT_EQ(parse(text).cluster, (std::array<int64_t, 3>{2, 1, 1}));
}

TEST(PtxClusters, SpecialRegistersHaveClusterIds) {
  const Result result = run_kernel(R"(
	mov.u32 	%r2, %clusterid.x;
	mov.u32 	%r3, %nclusterid.x;
	mov.u32 	%r4, %cluster_ctaid.x;
	mov.u32 	%r5, %cluster_nctaid.x;
	mad.lo.s32 	%r6, %r2, 10, %r3;
	mad.lo.s32 	%r6, %r6, 10, %r4;
	mad.lo.s32 	%r6, %r6, 10, %r5;
	st.global.b32 	[%rd1], %r6;)",
                                   {.ctas = 6, .cluster = 2});
  ASSERT_EQ(result.error, "");
  for (uint32_t cta = 0; cta < 6; ++cta)
    EXPECT_EQ(result.out[64 * cta], cta / 2 * 1000 + 300 + cta % 2 * 10 + 2);
}

// Thread t of each CTA, for t = 0 and 1, sends two words to CTA t. Each CTA waits for its four
// words on its own mbarrier. Successive rounds alternate between two slots and mbarriers.
const std::string kExchange = R"(
	mov.u32 	%r2, %cluster_ctarank;
	@%p9 mbarrier.init.shared.b64 	[%rd5+512], 1;
	@%p9 mbarrier.init.shared.b64 	[%rd5+520], 1;
	fence.mbarrier_init.release.cluster;
	barrier.cluster.arrive.relaxed.aligned;
	barrier.cluster.wait.acquire.aligned;
	mov.b32 	%r3, 0;
	mov.b32 	%r8, 0;
$L__BB0_1:
	and.b32 	%r4, %r3, 1;
	mul.wide.u32 	%rd6, %r4, 8;
	add.s64 	%rd6, %rd5, %rd6;
	@%p9 mbarrier.arrive.expect_tx.shared.b64 	_, [%rd6+512], 16;
	mul.wide.u32 	%rd7, %r4, 32;
	add.s64 	%rd7, %rd5, %rd7;
	mul.wide.u32 	%rd11, %r2, 8;
	add.s64 	%rd12, %rd7, %rd11;
	setp.gt.u32 	%p1, %r1, 1;
	@%p1 bra 	$L__BB0_2;
	mapa.shared::cluster.u64 	%rd13, %rd12, %r1;
	mapa.shared::cluster.u64 	%rd14, %rd6, %r1;
	add.s32 	%r5, %r2, %r3;
	st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.b32 	[%rd13], {%r5, %r3}, [%rd14+512];
$L__BB0_2:
	shr.u32 	%r6, %r3, 1;
	and.b32 	%r6, %r6, 1;
$L__BB0_3:
	mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 	%p2, [%rd6+512], %r6;
	@!%p2 bra 	$L__BB0_3;
	ld.shared.v4.b32 	{%r5, %r6, %r7, %r11}, [%rd7];
	add.s32 	%r8, %r8, %r5;
	mad.lo.s32 	%r8, %r7, 100, %r8;
	$meet
	add.s32 	%r3, %r3, 1;
	setp.lt.u32 	%p3, %r3, 6;
	@%p3 bra 	$L__BB0_1;
	barrier.cluster.arrive.aligned;
	barrier.cluster.wait.aligned;
	st.global.b32 	[%rd1], %r8;)";

TEST(PtxClusters, RemoteStoresCompleteOnRemoteMbarriers) {
  for (uint64_t seed = 1; seed < 20; ++seed) {
    const Result result = run_kernel(with(kExchange, "$meet", "bar.sync 	0;"),
                                     {.ctas = 8, .cluster = 2, .seed = seed});
    ASSERT_EQ(result.error, "");
    for (uint32_t value : result.out) EXPECT_EQ(value, 15 + 100 * 21u);
  }
}

// cp.async.wait_group completes only the warp's own copies. Remote stores in other clusters may
// complete later.
TEST(PtxClusters, WarpWaitsOnlyForItsOwnCopies) {
  const std::string copy = R"(
	cp.async.ca.shared.global 	[%rd2+640], [%rd9], 4;
	cp.async.commit_group;)";
  const std::string meet = "bar.sync 	0;\n\tcp.async.wait_group 	0;" + copy;
  const std::string body = copy + with(kExchange, "$meet", meet) + "\n\tcp.async.wait_group 	0;";
  for (uint64_t seed = 1; seed < 20; ++seed) {
    const Result result = run_kernel(body, {.ctas = 8, .cluster = 2, .seed = seed});
    ASSERT_EQ(result.error, "");
    for (uint32_t value : result.out) EXPECT_EQ(value, 15 + 100 * 21u);
  }
}

// Thread 0 of CTA 1 writes to the memory of CTA 0, and then arrives at an mbarrier of CTA 0.
const std::string kSignal = R"(
	mov.u32 	%r2, %cluster_ctarank;
	@%p9 mbarrier.init.shared.b64 	[%rd5+512], 1;
	@%p9 fence.mbarrier_init.release.cluster;
	barrier.cluster.arrive.release.aligned;
	barrier.cluster.wait.acquire.aligned;
	setp.eq.b32 	%p1, %r2, 0;
	@%p1 bra 	$L__BB0_1;
	mapa.shared::cluster.u32 	%r3, %r7, 0;
	cvt.u64.u32 	%rd6, %r3;
	@%p9 st.shared::cluster.b32 	[%rd6], %r10;
	@%p9 mbarrier.arrive$arrive.shared::cluster.b64 	_, [%rd6+512];
	bra.uni 	$L__BB0_2;
$L__BB0_1:
	mbarrier.try_wait.parity$wait.shared::cta.b64 	%p2, [%rd5+512], 0;
	@!%p2 bra 	$L__BB0_1;
	ld.shared.b32 	%r4, [%rd5];
	st.global.b32 	[%rd1], %r4;
$L__BB0_2:)";

std::string signal(const std::string& arrive, const std::string& wait) {
  const std::string base = "	cvt.u32.u64 	%r7, %rd5;\n";
  return base + with(with(kSignal, "$arrive", arrive), "$wait", wait);
}

TEST(PtxClusters, ArrivesAtRemoteMbarrier) {
  const Result result =
      run_kernel(signal(".release.cluster", ".acquire.cluster"), {.ctas = 2, .cluster = 2});
  ASSERT_EQ(result.error, "");
  for (uint32_t i = 0; i < 64; ++i) EXPECT_EQ(result.out[i], 64u);
}

class PtxClusterFaults : public ::testing::TestWithParam<Fault> {};

TEST_P(PtxClusterFaults, AreErrors) {
  for (uint64_t seed = 1; seed < 6; ++seed) {
    Conditions conditions = GetParam().conditions;
    conditions.seed = seed;
    const Result result = run_kernel(GetParam().body, conditions);
    EXPECT_NE(result.error.find(GetParam().message), std::string::npos) << "got: " << result.error;
  }
}

const Conditions kPair{.ctas = 4, .cluster = 2};

INSTANTIATE_TEST_SUITE_P(
    All, PtxClusterFaults,
    ::testing::Values(
        Fault{"NotWholeClusters", next_cta(), "not whole clusters", {.ctas = 3, .cluster = 2}},
        Fault{"NotKnownToRun", next_cta({.arrive = "", .wait = ""}),
              "before a cluster barrier showed that it runs", kPair},
        Fault{"NoBarrier",
              next_cta({.start = kArrive + "\n	" + kWait, .arrive = "", .wait = ""}),
              "shared memory that", kPair},
        Fault{"OnlyACtaBarrier",
              next_cta({.start = kArrive + "\n	" + kWait, .arrive = "bar.sync 	0;", .wait = ""}),
              "shared memory that", kPair},
        Fault{"Relaxed", next_cta({.arrive = "barrier.cluster.arrive.relaxed.aligned;"}),
              "of CTA rank", kPair},
        Fault{"ArriveTwice", next_cta({.wait = kArrive}), "arrived at twice", kPair},
        Fault{"WaitAlone", next_cta({.arrive = ""}), "without an arrival", kPair},
        Fault{"EndsEarly", next_cta({.end = ""}), "ended", kPair},
        Fault{"UnknownRank", "	mapa.shared::cluster.u64 	%rd6, %rd2, 2;",
              "CTA rank 2 in a cluster of 2", kPair},
        Fault{"OutOfBounds", next_cta({.end = "ld.shared::cluster.b32 	%r5, [%rd6+1024];"}),
              "bytes of shared memory", kPair},
        Fault{"OthersAddressAsOwn", with(next_cta(), "ld.shared::cluster.b32", "ld.shared.b32"),
              "another CTA's address as its own", kPair},
        Fault{"SlotsOverwritten", with(kExchange, "$meet", ""), "shared memory that", kPair},
        Fault{"ArrivalOfTheCta",
              signal("", ".acquire.cluster"),
              "of CTA rank 1",
              {.ctas = 2, .cluster = 2}},
        Fault{"WaitOfTheCta",
              signal(".release.cluster", ""),
              "of CTA rank 1 wrote",
              {.ctas = 2, .cluster = 2}},
        Fault{"OneSlot",
              with(with(kExchange, "$meet", "bar.sync 	0;"), "and.b32 	%r4, %r3, 1",
                   "mov.b32 	%r4, 0"),
              "PTX line", kPair}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace ligerdsl::test::ptx
