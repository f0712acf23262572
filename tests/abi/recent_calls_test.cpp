// A call that resembles a recent call of its thread gets the same answer as a first call. The tests
// cover every operation of the table and every fault of the second call. execute_test.cpp covers
// the computed results, in the order of a trainer's calls.
#include "lib/abi/recent_calls.h"

#include <functional>
#include <limits>
#include <thread>
#include <vector>

#include "lib/abi/structs.h"
#include "table_call.h"

namespace ligerdsl::test::recent_calls_test {
namespace {

struct Answer {
  ligerdsl_status_t status;
  std::string text;
  int launches;
  bool operator==(const Answer&) const = default;
};
void PrintTo(const Answer& answer, std::ostream* out) {
  *out << answer.launches << " launches, " << ligerdsl_status_name(answer.status) << ": "
       << answer.text;
}

class RecentCalls : public testing::TestWithParam<std::string> {
 protected:
  const lib::OpInfo& info() const { return op_named(GetParam()); }
  bool multiplies() const { return test::multiplies(info()); }

  // Returns the memory that this call may access: its tensors, its workspace and its error flag.
  std::vector<Memory> memory_of(const TableCall& call) const {
    const auto word =
        reinterpret_cast<uintptr_t>(lib::ContextUse(context_)->error_word(info()).data);
    std::vector<Memory> all{{"workspace", 1 << 24, 2 << 24},
                            {"error word", word, word + sizeof(int64_t)}};
    for (const lib::TensorInfo& tensor : info().tensors) {
      const ligerdsl_tensor_t* t = lib::read_tensor(call.args(), tensor);
      if (!t || !t->shape || t->ndim > 8) continue;  // invalid rank: the call launches nothing
      const uint64_t begin = reinterpret_cast<uintptr_t>(t->data) + t->byte_offset;
      uint64_t bytes = t->dtype.bits / 8;
      for (int i = 0; i < t->ndim; ++i) bytes *= static_cast<uint64_t>(t->shape[i]);
      all.push_back({tensor.name, begin, begin + bytes});
    }
    return info().list_offset < 0 ? all : std::vector<Memory>{{"everything", 0, uint64_t{1} << 63}};
  }

  Answer ask(const TableCall& call, ligerdsl_plan_t plan) const {
    expectations() = {plan ? memory_of(call)
                           : std::vector<Memory>{{"everything", 0, uint64_t{1} << 63}}};
    const ligerdsl_status_t status =
        plan ? lib::execute_entry(info(), plan, call.args(), reinterpret_cast<void*>(1 << 24),
                                  1 << 24, nullptr)
             : lib::call_entry(info(), context_, call.desc(), call.args(), nullptr);
    for (const std::string& violation : expectations().violations) ADD_FAILURE() << violation;
    return {status, status == LIGERDSL_SUCCESS ? "" : ligerdsl_last_error(),
            expectations().launches};
  }
  Answer ask_on_another_thread(const TableCall& call, ligerdsl_plan_t plan) const {
    Answer answer;
    std::thread([&] { answer = ask(call, plan); }).join();
    return answer;
  }

  bool remembered(const TableCall& call, ligerdsl_plan_t plan) const {
    const void* const handle =
        plan ? static_cast<const void*>(plan) : static_cast<ligerdsl_context_t>(context_);
    const lib::CallKey key(info(), handle, plan ? nullptr : call.desc(), call.args());
    lib::RecentCalls* const calls = lib::RecentCalls::of_this_thread(false);
    return calls && key && calls->find(key);
  }

  // Faults that one tensor can have.
  static std::vector<std::pair<const char*, std::function<void(ligerdsl_tensor_t&)>>> faults() {
    return {
        {"no data", [](ligerdsl_tensor_t& t) { t.data = nullptr; }},
        {"a byte on", [](ligerdsl_tensor_t& t) { t.data = static_cast<std::byte*>(t.data) + 1; }},
        {"an odd offset", [](ligerdsl_tensor_t& t) { t.byte_offset += 1; }},
        {"a large offset", [](ligerdsl_tensor_t& t) { t.byte_offset = uint64_t{1} << 63; }},
        {"another type", [](ligerdsl_tensor_t& t) { t.dtype.lanes = 2; }},
        {"another device", [](ligerdsl_tensor_t& t) { t.device.type = LIGERDSL_CUDA; }},
        {"another size", [](ligerdsl_tensor_t& t) { t.shape[t.ndim - 1] += 1; }},
        {"no elements", [](ligerdsl_tensor_t& t) { t.shape[0] = 0; }},
        {"another rank", [](ligerdsl_tensor_t& t) { t.ndim += 100; }},
        {"no shape", [](ligerdsl_tensor_t& t) { t.shape = nullptr; }},
        {"elsewhere", [](ligerdsl_tensor_t& t) {
           t.data = static_cast<std::byte*>(t.data) + (int64_t{1} << 50);
         }}};
  }

  void answers_are_the_same(bool everything, bool in_place, bool with_plan) {
    TableCall call(info(), 64, everything);
    if (in_place) call.set("in_place", 1), call.set("accumulate", 0);
    call.make_tensors(6);
    ligerdsl_plan_t plan = nullptr;
    if (with_plan) {
      ASSERT_EQ(call.plan(context_, &plan), LIGERDSL_SUCCESS) << ligerdsl_last_error();
    }
    if (!multiplies()) {
      ASSERT_EQ(ask(call, plan).status, LIGERDSL_SUCCESS) << ligerdsl_last_error();
      EXPECT_EQ(remembered(call, plan), info().list_offset < 0);
    }
    const auto same = [&](const std::string& what) {
      SCOPED_TRACE(what);
      const Answer fresh = ask_on_another_thread(call, plan);
      if (!multiplies() || fresh.status != LIGERDSL_SUCCESS) {
        EXPECT_EQ(ask(call, plan), fresh);
      }
    };
    if (!multiplies()) same("nothing");
    for (size_t i = 0; i < info().tensors.size(); ++i) {
      ligerdsl_tensor_t* const tensor = call.tensor(i);
      if (!tensor) continue;
      const ligerdsl_tensor_t right = *tensor;
      const std::vector<int64_t> shape(right.shape, right.shape + right.ndim);
      const auto restore = [&] {
        *tensor = right;
        std::copy(shape.begin(), shape.end(), tensor->shape);
      };
      for (const auto& [what, spoil] : faults()) {
        if (tensor->ndim == 0 || (multiplies() && what == std::string("elsewhere"))) continue;
        spoil(*tensor);
        same(std::string(info().tensors[i].name) + ": " + what);
        restore();
      }
      for (size_t j = 0; j < info().tensors.size(); ++j) {
        if (i == j || !call.tensor(j)) continue;
        for (const int64_t offset : {0, 4}) {
          tensor->data = static_cast<std::byte*>(call.tensor(j)->data) + offset;
          if (!multiplies())
            same(std::string(info().tensors[i].name) + " over " + info().tensors[j].name);
          restore();
        }
      }
    }
    if (!multiplies()) {
      for (const lib::ValueInfo& value : info().values) {
        auto* const number = static_cast<std::byte*>(const_cast<void*>(call.args())) + value.offset;
        int64_t right;
        const size_t bytes = value.type == lib::FieldType::i64 ? 8 : 4;
        std::memcpy(&right, number, bytes);
        call.set(value.name,
                 value.type == lib::FieldType::f32 ? std::numeric_limits<double>::quiet_NaN() : -1);
        same(value.name);
        std::memcpy(number, &right, bytes);
      }
      same("nothing, in the end");
    }
    if (plan) {
      ligerdsl_plan_destroy(plan);
      EXPECT_STREQ(ligerdsl_status_name(ask(call, plan).status), "DEAD_HANDLE");
    }
  }

  const TableContext context_{program::Target::cpu};
};

TEST_P(RecentCalls, AnswerLikeFirstCalls) {
  for (const bool everything : {false, true}) {
    if (!TableCall(info(), 64, everything).has_result()) continue;
    for (const bool with_plan : {false, true}) answers_are_the_same(everything, false, with_plan);
  }
  if (info().in_place_field >= 0)
    for (const bool with_plan : {false, true}) answers_are_the_same(true, true, with_plan);
}

INSTANTIATE_TEST_SUITE_P(Table, RecentCalls, testing::ValuesIn(names_of_table()),
                         [](const auto& row) { return row.param; });

// The library checks the header of a struct before it follows any pointer of the struct.
TEST(RecentCallsOfAThread, InvalidStructsAreRefused) {
  const lib::OpInfo& info = op_named("vector_add");
  const TableContext context(program::Target::cpu);
  TableCall call(info, 64, true);
  call.make_tensors(3);
  ligerdsl_plan_t plan = nullptr;
  ASSERT_EQ(call.plan(context, &plan), LIGERDSL_SUCCESS) << ligerdsl_last_error();
  std::vector<std::byte> garbage(info.args_size, std::byte{0x5a});
  std::memcpy(garbage.data(), call.args(), sizeof(size_t));  // only the size is valid
  const auto refused = [&](ligerdsl_status_t status) {
    return std::string(ligerdsl_status_name(status)) == "ABI_MISMATCH";
  };
  EXPECT_TRUE(refused(lib::call_entry(info, context, call.desc(), garbage.data(), nullptr)));
  EXPECT_TRUE(refused(lib::execute_entry(info, plan, garbage.data(), nullptr, 0, nullptr)));
  std::memcpy(garbage.data(), call.args(), lib::kHeaderBytes);
  garbage[lib::kHeaderBytes - 2] = std::byte{0xff};  // part of the version
  EXPECT_TRUE(refused(lib::call_entry(info, context, call.desc(), garbage.data(), nullptr)));
  ligerdsl_plan_destroy(plan);
}

TEST(RecentCallsOfAThread, HoldSixteenCalls) {
  const lib::OpInfo& info = op_named("vector_add");
  const TableContext context(program::Target::cpu);
  TableCall call(info, 64, true);
  const auto key_of = [&](int64_t rows) {
    call.make_tensors(rows);
    return lib::CallKey(info, static_cast<ligerdsl_context_t>(context), call.desc(), call.args());
  };
  for (int64_t rows = 1; rows <= 20; ++rows) {
    key_of(rows);
    ASSERT_EQ(lib::call_entry(info, context, call.desc(), call.args(), nullptr), LIGERDSL_SUCCESS);
  }
  int known = 0;
  for (int64_t rows = 1; rows <= 20; ++rows)
    known += lib::RecentCalls::of_this_thread(false)->find(key_of(rows)) != nullptr;
  EXPECT_GE(known, 16);
}

}  // namespace
}  // namespace ligerdsl::test::recent_calls_test
