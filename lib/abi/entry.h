// The three C functions of every operation, driven by the operation's row of the table.
#pragma once

#include "lib/abi/handles.h"
#include "lib/abi/op_info.h"
#include "lib/abi/plan.h"

namespace ligerdsl::lib {

ligerdsl_status_t plan_entry(const OpInfo& info, ligerdsl_context_t context, const void* desc,
                             ligerdsl_plan_t* plan) noexcept;
ligerdsl_status_t execute_entry(const OpInfo& info, ligerdsl_plan_t plan, const void* args,
                                void* workspace, size_t bytes, ligerdsl_stream_t stream) noexcept;
ligerdsl_status_t call_entry(const OpInfo& info, ligerdsl_context_t context, const void* desc,
                             const void* args, ligerdsl_stream_t stream) noexcept;

// Access to a handle's context, which is not destroyed while this object lives. Throws
// INVALID_NULL_POINTER or DEAD_HANDLE.
class ContextUse {
 public:
  explicit ContextUse(ligerdsl_context_t context) : use_(HandleKind::context, context, "context") {}
  const ContextRef& ref() const { return *static_cast<ContextRef*>(use_.object()); }
  Context* operator->() const { return ref().get(); }

 private:
  HandleUse use_;
};

}  // namespace ligerdsl::lib
