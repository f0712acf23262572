// Several threads run the same and different plans at the same time, each with its own tensors and
// workspace. The bits must be those of serial calls. On a GPU this is tested with separate
// streams, with the legacy default stream (shared by all threads), with per-thread default streams,
// and with two contexts.
#include <gtest/gtest.h>

#include <barrier>
#include <map>
#include <thread>

#include "tests/every_op/op_run.h"

namespace ligerdsl::test::streams_test {
namespace {

enum class Mode { own_streams, legacy_stream, per_thread_stream, two_contexts };

// Returns a stream handle with a special meaning for the driver: 1 is CU_STREAM_LEGACY, 2 is
// CU_STREAM_PER_THREAD.
ligerdsl_stream_t special_stream(uintptr_t which) {
  return reinterpret_cast<ligerdsl_stream_t>(which);
}

struct Amount {
  int threads, rounds;
};
Amount amount() {
  if (session().real_gpu()) return {8, 120};
  return session().emulated ? Amount{3, 1} : Amount{4, 3};
}

// A context, with a plan for every case.
class Shared {
 public:
  Shared() {
    for (const Case& which : cases(session().rows)) {
      auto plan = std::make_unique<PlanHandle>(context, which);
      if (!plan->not_supported().empty()) {
        std::printf("[SKIP] %s: %s\n", which.op.c_str(), plan->not_supported().c_str());
        continue;
      }
      list.push_back(which);
      plans.push_back(std::move(plan));
    }
  }
  std::vector<std::string> expected_of(size_t index) const {
    OpRun run(context, list[index], *plans[index]);
    const StreamHandle stream(context);
    std::vector<std::string> expected;
    for (int content = 0; content < OpRun::kContents; ++content) {
      run.set(content, stream);
      run.execute(stream);
      expected.push_back(run.results(stream));
    }
    return expected;
  }

  ContextHandle context;
  std::vector<Case> list;
  std::vector<std::unique_ptr<PlanHandle>> plans;
};

// The work of one thread. In each step it enqueues four calls, and then reads their results.
class Worker {
 public:
  Worker(const Shared& shared, Mode mode, int number)
      : shared_(shared), mode_(mode), number_(number) {
    if (mode == Mode::own_streams || mode == Mode::two_contexts)
      own_ = std::make_unique<StreamHandle>(shared.context);
    for (size_t i = 0; i < shared.list.size(); ++i)
      runs_.push_back(std::make_unique<OpRun>(shared.context, shared.list[i], *shared.plans[i]));
  }

  void work(int rounds, const std::vector<std::vector<std::string>>& expected) {
    ligerdsl_stream_t stream = own_ ? static_cast<ligerdsl_stream_t>(*own_) : special_stream(0);
    if (mode_ == Mode::per_thread_stream && session().cuda) stream = special_stream(2);
    const size_t n = runs_.size();
    const auto n_calls = static_cast<int>(n) * rounds;
    for (int first = 0; first < n_calls; first += 4) {
      const auto each = [&](auto body) {
        for (int i = first; i < std::min(first + 4, n_calls); ++i)
          body(static_cast<size_t>(i + number_ / 2 * 5) % n, (i + number_) % OpRun::kContents, i);
      };
      // Threads 2 n and 2 n + 1 begin with the same case. Every third call uses the one-call form.
      each([&](size_t which, int content, int i) {
        runs_[which]->set(content, stream);
        i % 3 == 2 ? runs_[which]->call(stream) : runs_[which]->execute(stream);
      });
      each([&](size_t which, int content, int i) {
        if (runs_[which]->results(stream) == expected[which][static_cast<size_t>(content)]) return;
        wrong.push_back(name_of(shared_.list[which]) + ", content " + std::to_string(content) +
                        (i % 3 == 2 ? ", one call" : ""));
      });
    }
  }

  std::vector<std::string> wrong;

 private:
  const Shared& shared_;
  Mode mode_;
  int number_;
  std::unique_ptr<StreamHandle> own_;
  std::vector<std::unique_ptr<OpRun>> runs_;
};

// All modes share one context, and the results of serial calls for each case and content.
class Streams : public testing::TestWithParam<Mode> {
 protected:
  static void SetUpTestSuite() {
    first_ = std::make_unique<Shared>();
    expected_ = std::make_unique<std::vector<std::vector<std::string>>>();
    for (size_t i = 0; i < first_->list.size(); ++i) expected_->push_back(first_->expected_of(i));
  }
  static void TearDownTestSuite() {
    expected_.reset();
    first_.reset();
  }
  static std::unique_ptr<Shared> first_;
  static std::unique_ptr<std::vector<std::vector<std::string>>> expected_;
};
std::unique_ptr<Shared> Streams::first_;
std::unique_ptr<std::vector<std::vector<std::string>>> Streams::expected_;

TEST_P(Streams, ConcurrentThreadsGiveSerialBits) {
  const Mode mode = GetParam();
  const bool shares_stream = mode == Mode::legacy_stream || mode == Mode::per_thread_stream;
  if (shares_stream && (!session().cuda || session().emulated))
    GTEST_SKIP() << "a CPU has no streams, and the emulated driver runs work at once";
  const auto [threads, rounds] = amount();
  std::unique_ptr<Shared> second;
  if (mode == Mode::two_contexts) second = std::make_unique<Shared>();
  const std::vector<std::vector<std::string>>& expected = *expected_;

  std::vector<std::unique_ptr<Worker>> workers;
  for (int t = 0; t < threads; ++t)
    workers.push_back(std::make_unique<Worker>(second && t % 2 == 1 ? *second : *first_, mode, t));
  std::barrier together(threads);
  std::vector<std::thread> running;
  for (auto& worker : workers) {
    running.emplace_back([&, rounds = rounds] {
      together.arrive_and_wait();
      try {
        worker->work(rounds, expected);
      } catch (const std::exception& error) {
        worker->wrong.push_back(error.what());
      }
    });
  }
  for (std::thread& thread : running) thread.join();

  std::map<std::string, int> wrong;
  for (const auto& worker : workers) {
    for (const std::string& text : worker->wrong) ++wrong[text];
  }
  for (const auto& [text, times] : wrong) ADD_FAILURE() << text << ": " << times << " times";
  for (const Shared* shared : {first_.get(), second.get()}) {
    if (!shared) continue;
    EXPECT_EQ(ligerdsl_context_check(shared->context, nullptr), LIGERDSL_SUCCESS)
        << ligerdsl_last_error();
  }
}

std::string mode_name(const testing::TestParamInfo<Mode>& info) {
  constexpr const char* kNames[] = {"OwnStreams", "LegacyDefaultStream", "PerThreadDefaultStream",
                                    "TwoContexts"};
  return kNames[static_cast<size_t>(info.param)];
}
INSTANTIATE_TEST_SUITE_P(, Streams,
                         testing::Values(Mode::own_streams, Mode::legacy_stream,
                                         Mode::per_thread_stream, Mode::two_contexts),
                         mode_name);

}  // namespace
}  // namespace ligerdsl::test::streams_test
