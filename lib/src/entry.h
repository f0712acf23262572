// The three functions of every operation, over the operation's row of the table.
#pragma once

#include "lib/src/op_info.h"
#include "lib/src/plan.h"

namespace ligerdsl::lib {

ligerdsl_status_t plan_entry(const OpInfo& info, ligerdsl_context_t context, const void* desc,
                             ligerdsl_plan_t* plan) noexcept;
ligerdsl_status_t execute_entry(const OpInfo& info, ligerdsl_plan_t plan, const void* args, void* workspace,
                                size_t bytes, ligerdsl_stream_t stream) noexcept;
ligerdsl_status_t call_entry(const OpInfo& info, ligerdsl_context_t context, const void* desc, const void* args,
                             ligerdsl_stream_t stream) noexcept;

// The context behind a handle. Throws INVALID_NULL_POINTER or DEAD_HANDLE.
const ContextRef& require_context(ligerdsl_context_t context);

}  // namespace ligerdsl::lib
