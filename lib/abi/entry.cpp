#include "lib/abi/entry.h"

#include <cstring>

#include "lib/abi/failure.h"
#include "lib/abi/handles.h"
#include "lib/abi/operand_copies.h"
#include "lib/abi/recent_calls.h"
#include "lib/abi/structs.h"

namespace ligerdsl::lib {

namespace {

struct Struct {
  alignas(8) std::byte bytes[kMaxStruct];
};

void read_desc(const OpInfo& info, const void* given, Struct* desc) {
  read_struct("desc", given, info.desc_size, info.desc_first_size, info.desc_defaults, desc->bytes);
}

void read_args(const OpInfo& info, const void* given, Struct* args) {
  read_struct("args", given, info.args_size, info.args_first_size, info.args_defaults, args->bytes);
}

void prepare_call(const Struct& args, void* workspace, size_t bytes, ligerdsl_stream_t stream,
                  Call* call) {
  call->args = args.bytes;
  call->workspace = static_cast<std::byte*>(workspace);
  call->workspace_bytes = bytes;
  call->stream = reinterpret_cast<runtime::Stream>(stream);
}

// Returns the context's plan for this description, and creates it if there is none.
PlanRef plan_of_call(const OpInfo& info, const ContextRef& context, const Struct& desc,
                     runtime::Stream stream) {
  char key[sizeof(void*) + kMaxStruct];
  const OpInfo* which = &info;
  std::memcpy(key, &which, sizeof which);
  const std::string_view text(key, sizeof which + desc_key(info, desc.bytes, key + sizeof which));
  if (PlanRef plan = context->plans().find(text)) return plan;
  if (context->device().capturing(stream)) {
    fail(Status::capture_unsafe,
         std::string("the stream is being captured, and this call has no plan yet; make the same "
                     "call once before the capture, or create the plan before it (ligerdsl_") +
             info.name + "_plan) and capture ligerdsl_" + info.name + "_execute");
  }
  // The context owns the plan, so the plan must not own the context.
  const ContextRef unowned(ContextRef(), context.get());
  return context->plans().add(text, std::make_shared<Plan>(info, unowned, desc.bytes));
}

// Returns the operands that the one-call form copies. Compiles their copy kernels, unless the
// stream is being captured. A captured call copies only with kernels that earlier calls compiled.
CopiedOperands prepare_copies(const Plan& plan, const Call& call) {
  const OperandCopies* const copies = plan.op().copies();
  if (!copies) return {};
  const CopiedOperands copied = copies->operands_to_copy(call);
  if (copies->are_compiled(copied)) return copied;
  if (plan.context().device().capturing(call.stream)) return {};
  copies->compile(copied);
  return copied;
}

// A call that differs from a recent call of this thread only in addresses and numeric arguments. It
// reuses the results of the recent call's checks.
class RepeatedCall {
 public:
  // `plans` is null if the caller holds the plan. The object converts to false, and has no effect,
  // if no recent call has the same key or the call needs the full checks. The one-call form has two
  // more conditions. It must not need to compile a kernel that copies an operand. The plan's last
  // lookup in `plans` must be recent, because only lookups keep the cache from dropping the plan.
  RepeatedCall(RecentCalls* calls, const CallKey& key, const PlanCache* plans, const OpInfo& info,
               const void* args) {
    RecentCalls::Entry* entry = calls && key ? calls->find(key) : nullptr;
    if (!entry || (plans && !plans->is_recent(entry->use)) || !entry->place(info, args)) return;
    plan_ = entry->plan.lock();
    if (!plan_) return;
    is_one_call_ = plans != nullptr;
    if (const OperandCopies* const copies = is_one_call_ ? plan_->op().copies() : nullptr) {
      copied_ = copies->operands_to_copy(entry->call);
      if (!copies->are_compiled(copied_)) return;
    }
    plan_->check_values(args);
    entry_ = entry;
    entry_->in_use = true;
  }
  ~RepeatedCall() {
    if (entry_) entry_->in_use = false;
  }
  RepeatedCall(const RepeatedCall&) = delete;
  RepeatedCall& operator=(const RepeatedCall&) = delete;

  explicit operator bool() const { return entry_; }
  // Returns the bytes of workspace that the one-call form uses.
  size_t bytes() const { return entry_->workspace + plan_->bytes_of_copies(entry_->call, copied_); }

  void launch(void* workspace, size_t bytes, ligerdsl_stream_t stream) {
    entry_->call.workspace = static_cast<std::byte*>(workspace);
    entry_->call.workspace_bytes = bytes;
    entry_->call.stream = reinterpret_cast<runtime::Stream>(stream);
    if (is_one_call_)
      plan_->launch(entry_->call, entry_->workspace, copied_);
    else
      plan_->launch(entry_->call, entry_->workspace);
  }

 private:
  std::shared_ptr<const Plan> plan_;
  RecentCalls::Entry* entry_ = nullptr;
  bool is_one_call_ = false;
  CopiedOperands copied_{};  // by the one-call form
};

// Caches the resolved call, so that the next identical call skips binding.
void remember(RecentCalls* calls, const CallKey& key, const Plan& plan, const Call& call,
              size_t needed, uint64_t use = 0) {
  if (calls && key) calls->remember(key, plan, call, needed, use);
}

// Returns the bytes that `bytes_of` reports, or SIZE_MAX after an error, and prepares the plan for
// calls with `rows` rows.
size_t workspace_entry(const char* function, ligerdsl_plan_t handle, int64_t rows,
                       size_t (Plan::*bytes_of)(int64_t) const) noexcept {
  size_t bytes = 0;
  const ligerdsl_status_t status = guarded(function, [&] {
    const HandleUse use(HandleKind::plan, handle, "plan");
    const Plan& plan = **static_cast<PlanRef*>(use.object());
    bytes = (plan.*bytes_of)(rows);
    plan.op().prepare(rows);
  });
  return status == LIGERDSL_SUCCESS ? bytes : SIZE_MAX;
}

}  // namespace

ligerdsl_status_t plan_entry(const OpInfo& info, ligerdsl_context_t context, const void* desc,
                             ligerdsl_plan_t* plan) noexcept {
  return guarded(info.name, [&] {
    require_pointer(plan, "plan");
    *plan = nullptr;
    const ContextUse use(context);
    Struct copy;
    read_desc(info, desc, &copy);
    check_desc(info, copy.bytes);
    auto made = std::make_unique<PlanRef>(std::make_shared<Plan>(info, use.ref(), copy.bytes));
    *plan = static_cast<ligerdsl_plan_t>(make_handle(HandleKind::plan, made.get()));
    made.release();
    RecentCalls::of_this_thread(/*make=*/true);  // an execute must not allocate the cache
  });
}

ligerdsl_status_t execute_entry(const OpInfo& info, ligerdsl_plan_t handle, const void* args,
                                void* workspace, size_t bytes, ligerdsl_stream_t stream) noexcept {
  return guarded(info.name, [&] {
    const HandleUse use(HandleKind::plan, handle, "plan");
    const Plan& plan = **static_cast<PlanRef*>(use.object());
    if (&plan.info() != &info) {
      fail(Status::invalid_argument, std::string("`plan`: expected a plan of ") + info.name +
                                         ", got one of " + plan.info().name);
    }
    RecentCalls* const calls = RecentCalls::of_this_thread(/*make=*/false);
    const CallKey key(info, handle, nullptr, args);
    if (RepeatedCall again(calls, key, nullptr, info, args); again)
      return again.launch(workspace, bytes, stream);
    Struct copy;
    read_args(info, args, &copy);
    Call call;
    prepare_call(copy, workspace, bytes, stream, &call);
    plan.bind(&call);
    const size_t needed = plan.count(&call);
    plan.launch(call, needed);
    remember(calls, key, plan, call, needed);
  });
}

ligerdsl_status_t call_entry(const OpInfo& info, ligerdsl_context_t context, const void* desc,
                             const void* args, ligerdsl_stream_t stream) noexcept {
  return guarded(info.name, [&] {
    const ContextUse use(context);
    const ContextRef& ref = use.ref();
    RecentCalls* const calls = RecentCalls::of_this_thread(/*make=*/true);
    const CallKey key = desc ? CallKey(info, context, desc, args) : CallKey();
    if (RepeatedCall again(calls, key, &ref->plans(), info, args); again) {
      const size_t bytes = again.bytes();
      const Context::Lease lease(*ref, info, bytes, reinterpret_cast<runtime::Stream>(stream));
      return again.launch(lease.data(), bytes, stream);
    }
    Struct desc_copy, args_copy;
    read_desc(info, desc, &desc_copy);
    read_args(info, args, &args_copy);
    fill_from_args(info, args_copy.bytes, desc_copy.bytes);
    Call call;
    prepare_call(args_copy, nullptr, 0, stream, &call);
    check_desc(info, desc_copy.bytes);
    bind_tensors(make_bind_rules(info, desc_copy.bytes, ref->api_device()),
                 &call);  // before the plan is made, so that invalid arguments cost no compile
    const PlanRef plan = plan_of_call(info, ref, desc_copy, call.stream);
    const uint64_t use_of_plan = ref->plans().uses();
    const size_t needed = plan->count(&call);
    const CopiedOperands copied = prepare_copies(*plan, call);
    call.workspace_bytes = needed + plan->bytes_of_copies(call, copied);
    const Context::Lease lease(*ref, info, call.workspace_bytes, call.stream);
    call.workspace = lease.data();
    plan->launch(call, needed, copied);
    remember(calls, key, *plan, call, needed, use_of_plan);
  });
}

}  // namespace ligerdsl::lib

using namespace ligerdsl::lib;

extern "C" {

size_t ligerdsl_plan_workspace_bytes_for(ligerdsl_plan_t plan, int64_t rows) {
  return workspace_entry("ligerdsl_plan_workspace_bytes_for", plan, rows, &Plan::workspace_bytes);
}

size_t ligerdsl_plan_workspace_bytes_with_copies(ligerdsl_plan_t plan, int64_t rows) {
  return workspace_entry("ligerdsl_plan_workspace_bytes_with_copies", plan, rows,
                         &Plan::workspace_bytes_with_copies);
}

size_t ligerdsl_plan_workspace_align(ligerdsl_plan_t) {
  return kWorkspaceAlign;
}

void ligerdsl_plan_destroy(ligerdsl_plan_t plan) {
  delete static_cast<PlanRef*>(remove_handle(HandleKind::plan, plan));
}

}  // extern "C"
