// A context keeps a bounded number of recent plans, and a plan lives while a call or handle uses
// it.
#include "lib/abi/plan_cache.h"

#include <gtest/gtest.h>

#include <array>
#include <thread>
#include <vector>

#include "table_call.h"

namespace ligerdsl::test::plan_cache_test {
namespace {

// A plan pointer that is compared but never dereferenced.
struct Made {
  std::shared_ptr<std::string> owner;
  std::shared_ptr<lib::Plan> plan() const {
    return {owner, reinterpret_cast<lib::Plan*>(owner.get())};  // NOLINT: never dereferenced
  }
};
Made make(const std::string& name) {
  return {std::make_shared<std::string>(name)};
}
const std::string* named(const std::shared_ptr<lib::Plan>& plan) {
  return reinterpret_cast<const std::string*>(plan.get());
}

TEST(PlanCache, KeepsRecentlyUsedPlans) {
  lib::PlanCache cache(3);
  for (const char* name : {"a", "b", "c"}) cache.add(name, make(name).plan());
  EXPECT_EQ(*named(cache.find("a")), "a");  // b is the least recently used
  EXPECT_EQ(*named(cache.add("c", make("another").plan())), "c") << "the plan that was there first";
  cache.add("d", make("d").plan());
  EXPECT_EQ(cache.size(), 3u);
  EXPECT_EQ(cache.find("b"), nullptr);
  for (const char* name : {"a", "c", "d"}) EXPECT_EQ(*named(cache.find(name)), name);
  cache.clear();
  EXPECT_EQ(cache.size(), 0u);
  EXPECT_EQ(cache.find("a"), nullptr);
}

TEST(PlanCache, PlanInUseOutlivesEviction) {
  lib::PlanCache cache(1);
  std::weak_ptr<std::string> first;
  std::shared_ptr<lib::Plan> in_use;
  {
    const Made made = make("first");
    first = made.owner;
    in_use = cache.add("first", made.plan());
  }
  cache.add("second", make("second").plan());
  EXPECT_EQ(cache.find("first"), nullptr);
  EXPECT_EQ(*named(in_use), "first");
  in_use.reset();
  EXPECT_TRUE(first.expired()) << "something else keeps the plan";
}

TEST(PlanCache, ThreadsFindTheirOwnPlans) {
  lib::PlanCache cache(4);
  std::array<int, 4> wrong{};
  std::vector<std::thread> threads;
  for (size_t t = 0; t < wrong.size(); ++t)
    threads.emplace_back([&, t] {
      for (size_t i = 0; i < 2000; ++i) {
        const std::string key = std::to_string((i * (t + 1)) % 7);
        std::shared_ptr<lib::Plan> plan = cache.find(key);
        if (!plan) plan = cache.add(key, make(key).plan());
        wrong[t] += *named(plan) != key;
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (const int count : wrong) EXPECT_EQ(count, 0);
  EXPECT_LE(cache.size(), 4u);
}

// Each one-call form passes another eps, so each call needs its own plan.
TEST(PlanCache, ManyDescriptionsTakeBoundedMemory) {
  const TableContext context(program::Target::cpu);
  const lib::OpInfo& info = op_named("rms_norm_forward");
  TableCall call(info, 64, false);
  call.make_tensors(3);
  const auto run = [&](int i) {
    call.set("eps", 1e-6 * (i + 1));
    return lib::call_entry(info, context, call.desc(), call.args(), nullptr);
  };
  const int most = static_cast<int>(lib::Context::kMostPlans);
  for (int i = 0; i < most + 100; ++i) {
    ASSERT_EQ(run(i), LIGERDSL_SUCCESS) << i << ": " << ligerdsl_last_error();
    ASSERT_EQ(context.plans().size(), static_cast<size_t>(std::min(i + 1, most)));
  }
  EXPECT_EQ(run(0), LIGERDSL_SUCCESS) << "its plan is made again: " << ligerdsl_last_error();
  EXPECT_EQ(context.plans().size(), static_cast<size_t>(most));
}

// A thread that repeats a call holds the plan of that call, however many plans other calls make in
// between.
TEST(PlanCache, PlanOfRememberedCallStays) {
  const TableContext context(program::Target::cpu);
  const lib::OpInfo& info = op_named("rms_norm_forward");
  TableCall call(info, 64, false);
  call.make_tensors(3);
  const auto run = [&](int i) {
    call.set("eps", 1e-6 * (i + 1));
    expectations() = {.allowed = {{"everything", 0, uint64_t{1} << 63}}};
    return lib::call_entry(info, context, call.desc(), call.args(), nullptr);
  };
  ASSERT_EQ(run(0), LIGERDSL_SUCCESS) << ligerdsl_last_error();
  const uint64_t before = context.plans().uses();
  for (int i = 0; i < 10; ++i) ASSERT_EQ(run(0), LIGERDSL_SUCCESS);
  EXPECT_EQ(context.plans().uses(), before) << "a remembered call looks for no plan";
  std::vector<int64_t> planned;
  for (int i = 1; i <= 3 * static_cast<int>(lib::Context::kMostPlans); ++i) {
    ASSERT_EQ(run(i), LIGERDSL_SUCCESS) << ligerdsl_last_error();
    planned.push_back(context.loads());
    ASSERT_EQ(run(0), LIGERDSL_SUCCESS) << ligerdsl_last_error();
    ASSERT_EQ(context.loads(), planned.back()) << "planned again, after " << i << " others";
  }
}

}  // namespace
}  // namespace ligerdsl::test::plan_cache_test
