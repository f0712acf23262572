// Tests each rule with a kernel that obeys it and one that breaks it.
#include "tests/continuity/path_rules.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "tests/continuity/flow_graph.h"
#include "tests/support/ptx/program.h"

namespace ligerdsl::test {
namespace {

// Returns PTX of a kernel with 256 threads. Its parameters are the pointer, size and stride of x,
// then those of y. %rd0 and %rd1 are the addresses of x and y.
std::string kernel(const std::string& body) {
  std::string parameters;
  for (int i = 0; i < 6; ++i)
    parameters += std::string(i ? ", " : "") + ".param .u64 k_param_" + std::to_string(i);
  return ".visible .entry k(" + parameters +
         ")\n.reqntid 256\n{\n"
         "ld.param.b64 %rd10, [k_param_0];\n"
         "ld.param.b64 %rd11, [k_param_3];\n"
         "mov.u32 %r0, %tid.x;\n"
         "mul.wide.u32 %rd2, %r0, 16;\n"
         "add.s64 %rd0, %rd10, %rd2;\n"
         "add.s64 %rd1, %rd11, %rd2;\n" +
         body + "ret;\n}\n";
}

// Returns the instructions of `cold`, followed by a loop over those of `hot`.
std::string loop(const std::string& hot, const std::string& cold = "") {
  return cold + "$again:\n" + hot + "add.s32 %r1, %r1, 1;\nsetp.lt.s32 %p0, %r1, 9;\n" +
         "@%p0 bra $again;\n";
}

const std::string kLoadX = "ld.global.v4.b32 {%r2, %r3, %r4, %r5}, [%rd0];\n",
                  kNarrowX = "ld.global.b16 %rs0, [%rd0];\n",
                  kStoreY = "st.global.v4.b32 [%rd1], {%r2, %r3, %r4, %r5};\n",
                  kCopy =
                      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::"
                      "bytes [%r6], [%rd3, {%r7, %r8}], [%r9];\n",
                  kMma =
                      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%r10, %r11, %r12, "
                      "%r13}, {%r14, %r15, %r16, %r17}, {%r18, %r19}, {%r10, %r11, %r12, "
                      "%r13};\n",
                  kWgmma =
                      "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%r10, %r11, %r12, "
                      "%r13}, %rd4, %rd5, %p1, 1, 1, 0, 0;\n";
constexpr double kWgmmaWork = 2.0 * 64 * 8 * 16;  // the two warp groups of 256 threads

// Facts about a launch of a kernel that loads x and stores y.
LaunchPath launch() {
  LaunchPath path{.has_wgmma = true, .threads = 256};
  path.arguments = {{.name = "x", .slot = 0, .vector = 16}, {.name = "y", .slot = 3, .vector = 16}};
  return path;
}

// Facts about a launch of a kernel that multiplies tiles of x by 16-bit dots.
LaunchPath product(double multiply_adds = 1e9) {
  LaunchPath path = launch();
  path.multiply_adds = multiply_adds;
  path.arguments[0].is_operand = true;
  path.loops = {{.multiply_adds = kWgmmaWork}};
  return path;
}

// Returns the broken rules with their numbers, as text.
std::string broken(const std::string& ptx, const LaunchPath& path) {
  std::string text;
  for (const BrokenRule& each : check_rules(ptx, path).broken)
    text += (text.empty() ? "" : "; ") + each.rule + ": " + each.numbers;
  return text;
}

bool applies(const std::string& rule, const std::string& ptx, const LaunchPath& path) {
  for (const std::string& each : check_rules(ptx, path).applied)
    if (each == rule) return true;
  return false;
}

TEST(PathRules, ProductByWgmmaObeysAllRules) {
  const std::string ptx = kernel(loop(kCopy + kWgmma));
  EXPECT_EQ(broken(ptx, product()), "");
  for (const char* rule : {"wgmma", "local", "copies", "barrier", "multiply_adds"})
    EXPECT_TRUE(applies(rule, ptx, product())) << rule;
}

TEST(PathRules, ReportsMmaSyncOfLargeProducts) {
  LaunchPath path = product();
  path.loops.clear();
  EXPECT_EQ(broken(kernel(loop(kMma)), path),
            "wgmma: 0 wgmma and 1 mma.sync for 1000000000 multiply-adds");
  EXPECT_EQ(broken(kernel(loop(kCopy + kWgmma + kMma)), path),
            "wgmma: 1 wgmma and 1 mma.sync for 1000000000 multiply-adds");
  path.multiply_adds = 1e8;
  EXPECT_EQ(broken(kernel(loop(kMma)), path), "");
  path = product();
  path.loops.clear();
  path.has_wgmma = false;
  EXPECT_EQ(broken(kernel(loop(kMma)), path), "");
}

TEST(PathRules, ReportsLocalMemory) {
  EXPECT_EQ(broken(kernel(".local .align 4 .b8 depot[16];\n" + kLoadX), launch()),
            "local: 1 uses of local memory");
  EXPECT_EQ(broken(kernel("st.local.b32 [%rd6], %r2;\nld.local.b32 %r2, [%rd6];\n"), launch()),
            "local: 2 uses of local memory");
  EXPECT_EQ(broken(kernel("// no .local memory\n.loc 1 2 3\n" + kLoadX), launch()), "");
}

TEST(PathRules, ReportsNarrowLoadsInLoops) {
  EXPECT_EQ(broken(kernel(loop(kLoadX)), launch()), "");
  EXPECT_EQ(broken(kernel(loop(kNarrowX + kNarrowX)), launch()),
            "vectors: x: 2 loads of 2 bytes, facts permit 16");
  EXPECT_EQ(broken(kernel(loop(kLoadX + kNarrowX)), launch()),
            "vectors: x: 1 loads of 2 bytes, facts permit 16");
  EXPECT_EQ(broken(kernel(loop("cp.async.ca.shared.global [%r6], [%rd0], 4;\n")), launch()),
            "vectors: x: 1 copies of 4 bytes, facts permit 16");
}

TEST(PathRules, ReportsNarrowStoresOfKernelsWithoutLoops) {
  EXPECT_EQ(broken(kernel(kLoadX + kStoreY), launch()), "");
  EXPECT_EQ(broken(kernel(kLoadX + "st.global.v2.b32 [%rd1], {%r2, %r3};\n"), launch()),
            "vectors: y: 1 stores of 8 bytes, facts permit 16");
}

TEST(PathRules, NarrowLoadsOutsideOfLoopsAreCold) {
  EXPECT_EQ(broken(kernel(loop(kLoadX, kNarrowX)), launch()), "");
}

TEST(PathRules, FactsLimitTheExpectedVector) {
  LaunchPath path = launch();
  path.arguments[0].vector = 2;
  EXPECT_EQ(broken(kernel(loop(kNarrowX)), path), "");
  path.arguments[0].vector = 0;
  EXPECT_EQ(broken(kernel(loop(kNarrowX)), path), "");
  EXPECT_FALSE(applies("vectors", kernel(loop(kNarrowX)), path));
}

TEST(PathRules, EndsOfRowsMayBeNarrow) {
  const std::string skips = "@%p1 bra $whole;\n" + kNarrowX + "$whole:\n";
  EXPECT_EQ(broken(kernel(loop(kLoadX + skips)), launch()), "");
  EXPECT_EQ(broken(kernel(loop(skips)), launch()),
            "vectors: x: 1 loads of 2 bytes, facts permit 16");
}

TEST(PathRules, ThreadsMayMoveTheEndsOfARowThatABulkCopyMoves) {
  const std::string bulk =
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r6], [%rd0], %r7, "
      "[%r8];\n";
  std::string ends;
  for (int i = 0; i < 16; ++i) ends += kNarrowX;
  EXPECT_EQ(broken(kernel(loop(bulk + ends)), launch()), "");
  EXPECT_EQ(broken(kernel(loop(bulk + ends + kNarrowX)), launch()),
            "vectors: x: 17 loads of 2 bytes, facts permit 16");
}

TEST(PathRules, FollowsAddressesThroughRegisters) {
  const std::string address =
      "mov.b64 %rd7, %rd0;\nselp.b64 %rd8, %rd7, %rd0, %p1;\nadd.s64 %rd9, %rd8, 64;\n";
  EXPECT_EQ(broken(kernel(address + loop("ld.global.b32 %r2, [%rd9+8];\n")), launch()),
            "vectors: x: 1 loads of 4 bytes, facts permit 16");
}

TEST(PathRules, OffsetsOfAlignedAddressesAreNoAddresses) {
  LaunchPath path = launch();
  path.arguments[1].vector = 0;
  const std::string offset = "and.b64 %rd7, %rd0, 15;\nadd.s64 %rd8, %rd1, %rd7;\n";
  EXPECT_EQ(broken(kernel(offset + loop("ld.global.b32 %r2, [%rd8];\n")), path), "");
}

TEST(PathRules, ReportsOperandsThatThreadsLoad) {
  EXPECT_EQ(broken(kernel(loop(kLoadX + kWgmma)), product()), "copies: x: 1 loads by threads");
  EXPECT_EQ(broken(kernel(loop(kCopy + kWgmma, kLoadX)), product()), "");
  LaunchPath path = product();
  path.arguments[0].is_operand = false;
  EXPECT_EQ(broken(kernel(loop(kLoadX + kWgmma)), path), "");
}

TEST(PathRules, ReportsBarriersOfAllThreadsInLoopsOfTmaCopies) {
  for (const char* barrier : {"bar.sync 0;\n", "bar.sync 1, 256;\n"})
    EXPECT_EQ(broken(kernel(loop(kCopy + barrier)), launch()),
              "barrier: 1 barriers of all 256 threads in a loop of TMA copies")
        << barrier;
  EXPECT_EQ(broken(kernel(loop(kCopy, "bar.sync 0;\n")), launch()), "");
  EXPECT_EQ(broken(kernel(loop(kLoadX + "bar.sync 0;\n")), launch()), "");
}

TEST(PathRules, BarriersOfGroupsAreNoBarriersOfAllThreads) {
  EXPECT_EQ(broken(kernel(loop(kCopy + "bar.sync 1, 128;\n")), launch()), "");
  const std::string pair = "@%p1 bar.sync 1, 256;\n@%p2 bar.arrive 1, 256;\n";
  EXPECT_EQ(broken(kernel(loop(kCopy + pair)), launch()), "");
}

TEST(PathRules, ReportsMoreMultiplyAddsThanTheProgramHas) {
  EXPECT_EQ(broken(kernel(loop(kCopy + kWgmma + kWgmma)), product()),
            "multiply_adds: 32768 in a loop, program 16384");
  LaunchPath path = product(0);
  path.threads = 128;
  EXPECT_EQ(broken(kernel(loop(kCopy + kWgmma)), path),
            "multiply_adds: 8192 in a loop, program 16384");
}

TEST(PathRules, ThrowsOnUnknownInstructions) {
  EXPECT_THROW(check_rules(kernel("frobnicate.b32 %r2, %r3;\n"), launch()), std::runtime_error);
}

TEST(FlowGraph, LoopsThatWaitArePartOfTheLoopAroundThem) {
  const std::string waits =
      "$wait:\nmbarrier.try_wait.parity.shared::cta.b64 %p3, [%r6], %r7;\n@!%p3 bra $wait;\n";
  EXPECT_EQ(broken(kernel(loop(waits + kNarrowX)), launch()),
            "vectors: x: 1 loads of 2 bytes, facts permit 16");
}

TEST(FlowGraph, BodiesOfOuterLoopsAreCold) {
  const std::string inner = "$inner:\n" + kLoadX + "@%p1 bra $inner;\n";
  EXPECT_EQ(broken(kernel(loop(kNarrowX + inner + kNarrowX)), launch()), "");
}

TEST(FlowGraph, LoopsContainBlocksAfterTheEndOfTheKernel) {
  const std::string body = "$head:\n@%p1 bra $far;\n$back:\n" + kLoadX +
                           "@%p0 bra $head;\nret;\n$far:\n" + kNarrowX + "bra.uni $back;\n";
  const ptx::Program program = ptx::parse(kernel(body));
  const std::vector<Instructions> loops = FlowGraph(program).innermost_loops();
  ASSERT_EQ(loops.size(), 1u);
  EXPECT_EQ(loops[0].size(), 5u);  // two branches, two loads, and the branch back
}

}  // namespace
}  // namespace ligerdsl::test
