// Captures an execute as a graph and replays it with other contents of its tensors. The bits must
// be those of eager calls, so no result may depend on the contents during the capture.
#include <gtest/gtest.h>

#include <functional>

#include "tests/every_op/op_run.h"

namespace ligerdsl::test::replay_test {
namespace {

// Makes a CUDA context current for the driver calls of the test, because the library leaves the
// current context unchanged.
class CurrentContext {
 public:
  CurrentContext() {
    EXPECT_EQ(driver_function<int(void**, int)>("cuDevicePrimaryCtxRetain")(&context_, 0), 0);
    EXPECT_EQ(driver_function<int(void*)>("cuCtxPushCurrent_v2")(context_), 0);
  }
  ~CurrentContext() {
    EXPECT_EQ(driver_function<int(void**)>("cuCtxPopCurrent_v2")(&context_), 0);
    EXPECT_EQ(driver_function<int(int)>("cuDevicePrimaryCtxRelease_v2")(0), 0);
  }

 private:
  void* context_ = nullptr;
};

class Graph {
 public:
  Graph(ligerdsl_stream_t stream, const std::function<void()>& work) {
    EXPECT_EQ(driver_function<int(void*, int)>("cuStreamBeginCapture_v2")(stream, 0), 0);
    work();
    EXPECT_EQ(driver_function<int(void*, void**)>("cuStreamEndCapture")(stream, &graph_), 0);
    using Instantiate = int(void**, void*, unsigned long long);
    EXPECT_EQ(driver_function<Instantiate>("cuGraphInstantiateWithFlags")(&executable_, graph_, 0),
              0);
  }
  ~Graph() {
    EXPECT_EQ(driver_function<int(void*)>("cuGraphExecDestroy")(executable_), 0);
    EXPECT_EQ(driver_function<int(void*)>("cuGraphDestroy")(graph_), 0);
  }
  size_t nodes() const {
    size_t count = 0;
    EXPECT_EQ(
        driver_function<int(void*, void**, size_t*)>("cuGraphGetNodes")(graph_, nullptr, &count),
        0);
    return count;
  }
  void launch(ligerdsl_stream_t stream) const {
    EXPECT_EQ(driver_function<int(void*, void*)>("cuGraphLaunch")(executable_, stream), 0);
  }

 private:
  void *graph_ = nullptr, *executable_ = nullptr;
};

class Replay : public testing::TestWithParam<Case> {};

TEST_P(Replay, EqualsEager) {
  const ContextHandle context;
  const PlanHandle plan(context, GetParam());
  if (!plan.not_supported().empty()) GTEST_SKIP() << plan.not_supported();
  OpRun run(context, GetParam(), plan);
  const StreamHandle stream(context);
  const auto eager = [&](int content) {
    run.set(content, stream);
    run.execute(stream);
    return run.results(stream);
  };
  std::vector<std::string> expected;
  for (int content = 0; content < OpRun::kContents; ++content) expected.push_back(eager(content));
  ASSERT_TRUE(expected[0] != expected[1] && expected[1] != expected[2])
      << "the contents do not differ enough";
  ASSERT_TRUE(eager(0) == expected[0]) << "two eager calls differ";
  if (!session().cuda) return;  // a CPU has no graphs

  const CurrentContext current;
  run.set(1, stream);
  const std::string before = run.results(stream);
  const Graph graph(stream, [&] { run.execute(stream); });
  EXPECT_TRUE(run.results(stream) == before) << "the call ran while it was captured";
  EXPECT_GE(graph.nodes(), 1u);
  for (const int content : {1, 0, 2, 2, 1, 0}) {
    run.set(content, stream);
    graph.launch(stream);
    EXPECT_TRUE(run.results(stream) == expected[static_cast<size_t>(content)])
        << "content " << content;
  }
  EXPECT_EQ(ligerdsl_context_check(context, stream), LIGERDSL_SUCCESS) << ligerdsl_last_error();
}

INSTANTIATE_TEST_SUITE_P(EveryOp, Replay, testing::ValuesIn(cases(session().rows)),
                         [](const auto& info) { return name_of(info.param); });

TEST(Cases, CoverEveryOperation) {
  EXPECT_EQ(operations_without(cases(1)), std::vector<std::string>());
}

}  // namespace
}  // namespace ligerdsl::test::replay_test
