// C functions for contexts, memory and streams.
#include <algorithm>
#include <charconv>
#include <cstring>
#include <iterator>
#include <string>

#include "lib/abi/build_info.h"
#include "lib/abi/context.h"
#include "lib/abi/entry.h"
#include "lib/abi/failure.h"
#include "lib/abi/handles.h"
#include "lib/abi/structs.h"
#include "runtime/compile/compiler_library.h"
#include "runtime/environment/options.h"

using namespace ligerdsl;
using namespace ligerdsl::lib;

namespace {

runtime::Stream native(ligerdsl_stream_t stream) {
  return reinterpret_cast<runtime::Stream>(stream);
}

std::string hex(uint32_t mask) {
  char text[8];
  return "0x" + std::string(text, std::to_chars(std::begin(text), std::end(text), mask, 16).ptr);
}

struct Config {
  runtime::DeviceConfig device;
  ContextOptions options;
};

Config read_config(const ligerdsl_context_config_t* given) {
  const ligerdsl_context_config_t defaults = LIGERDSL_CONTEXT_CONFIG_INIT;
  ligerdsl_context_config_t config;
  read_struct("config", given, sizeof config,
              offsetof(ligerdsl_context_config_t, flags) + sizeof config.flags, &defaults, &config);
  if (config.device.type != LIGERDSL_CPU && config.device.type != LIGERDSL_CUDA) {
    fail(Status::invalid_device,
         "`device.type`: expected LIGERDSL_CPU (1) or LIGERDSL_CUDA (2), got " +
             std::to_string(config.device.type));
  }
  if (config.num_threads < 0 || config.num_threads > 4096) {
    fail(Status::invalid_argument,
         "`num_threads`: expected 0 to 4096, got " + std::to_string(config.num_threads));
  }
  constexpr uint32_t kFlags =
      LIGERDSL_CTX_DETERMINISTIC | LIGERDSL_CTX_NO_JIT | LIGERDSL_CTX_VALIDATE;
  if (config.flags & ~kFlags)
    fail(Status::invalid_argument, "`flags`: expected a sum of LIGERDSL_CTX_* (at most " +
                                       hex(kFlags) + "), got " + hex(config.flags));
  if ((config.host_alloc == nullptr) != (config.host_free == nullptr))
    fail(Status::invalid_argument,
         std::string("`host_alloc` and `host_free`: expected both or neither, got only ") +
             (config.host_alloc ? "host_alloc" : "host_free"));
  if ((config.workspace_alloc == nullptr) != (config.workspace_free == nullptr))
    fail(
        Status::invalid_argument,
        std::string("`workspace_alloc` and `workspace_free`: expected both or neither, got only ") +
            (config.workspace_alloc ? "workspace_alloc" : "workspace_free"));
  if (config.device.type == LIGERDSL_CPU) config.device.id = 0;
  if (config.cache_limit_bytes < 0) {
    fail(Status::invalid_argument,
         "`cache_limit_bytes`: expected a positive number of bytes, or 0 for the default, got " +
             std::to_string(config.cache_limit_bytes));
  }
  Config result;
  result.device = {.kind = static_cast<runtime::DeviceKind>(config.device.type),
                   .ordinal = config.device.id,
                   .num_threads = config.num_threads,
                   .cache_limit_bytes = config.cache_limit_bytes,
                   .no_jit = (config.flags & LIGERDSL_CTX_NO_JIT) != 0,
                   .allocator = {config.user, config.host_alloc, config.host_free}};
  if (config.cache_dir) result.device.cache_dir = config.cache_dir;
  result.options = {
      .validate = runtime::options().validate || (config.flags & LIGERDSL_CTX_VALIDATE) != 0,
      .deterministic =
          runtime::options().deterministic || (config.flags & LIGERDSL_CTX_DETERMINISTIC) != 0,
      .no_jit = runtime::options().no_jit || (config.flags & LIGERDSL_CTX_NO_JIT) != 0,
      .table = config.table ? config.table : "",
      .log = config.log,
      .log_user = config.user,
      .workspace = {config.user, config.workspace_alloc, config.workspace_free}};
  return result;
}

}  // namespace

extern "C" {

uint32_t ligerdsl_version(void) {
  return LIGERDSL_VERSION;
}

const char* ligerdsl_build_info(void) {
  return build_info();
}

ligerdsl_status_t ligerdsl_context_create(const ligerdsl_context_config_t* config,
                                          ligerdsl_context_t* context) {
  return guarded("ligerdsl_context_create", [&] {
    require_pointer(context, "context");
    *context = nullptr;
    const Config read = read_config(config);
    auto made = std::make_unique<ContextRef>(std::make_shared<Context>(read.device, read.options));
    *context = static_cast<ligerdsl_context_t>(make_handle(HandleKind::context, made.get()));
    made.release();
  });
}

void ligerdsl_context_destroy(ligerdsl_context_t context) {
  delete static_cast<ContextRef*>(remove_handle(HandleKind::context, context));
}

ligerdsl_status_t ligerdsl_context_check(ligerdsl_context_t context, ligerdsl_stream_t stream) {
  return guarded("ligerdsl_context_check", [&] { ContextUse(context)->check(native(stream)); });
}

ligerdsl_status_t ligerdsl_context_poll(ligerdsl_context_t context, ligerdsl_fault_t* fault,
                                        size_t fault_bytes) {
  return guarded("ligerdsl_context_poll", [&] {
    require_pointer(fault, "fault");
    if (fault_bytes < sizeof *fault)
      fail(Status::invalid_argument,
           "`fault_bytes`: expected sizeof(ligerdsl_fault_t) = " + std::to_string(sizeof *fault) +
               ", got " + std::to_string(fault_bytes));
    std::memset(fault, 0, fault_bytes);
    const auto found = ContextUse(context)->poll();
    if (!found) return;
    fault->operation = found->operation->name;
    fault->row = found->row;
    throw error_of(*found);
  });
}

ligerdsl_status_t ligerdsl_context_target(ligerdsl_context_t context, ligerdsl_target_t* target,
                                          size_t target_bytes) {
  return guarded("ligerdsl_context_target", [&] {
    require_pointer(target, "target");
    if (target_bytes < sizeof target->name)
      fail(Status::invalid_argument, "`target_bytes`: expected sizeof(ligerdsl_target_t) = " +
                                         std::to_string(sizeof *target) + ", got " +
                                         std::to_string(target_bytes));
    const ligerdsl_target_t known = ContextUse(context)->machine();
    std::memset(target, 0, target_bytes);
    std::memcpy(target, &known, std::min(target_bytes, sizeof known));
  });
}

ligerdsl_status_t ligerdsl_context_tuned(ligerdsl_context_t context, const char* kernel,
                                         const char* options, const char** config) {
  return guarded("ligerdsl_context_tuned", [&] {
    require_pointer(config, "config");
    *config = "";
    const ContextUse use(context);
    require_pointer(kernel, "kernel");
    require_pointer(options, "options");
    *config = use->tuned_author_kernel(kernel, options);
  });
}

ligerdsl_status_t ligerdsl_context_calls(ligerdsl_context_t context, const char* operation,
                                         int64_t* calls) {
  return guarded("ligerdsl_context_calls", [&] {
    require_pointer(calls, "calls");
    *calls = 0;
    const ContextUse use(context);
    require_pointer(operation, "operation");
    for (const OpInfo* info : op_table()) {
      if (std::strcmp(info->name, operation) == 0) {
        *calls = use->calls_of(*info).load(std::memory_order_relaxed);
        return;
      }
    }
    fail(Status::invalid_argument,
         std::string("`operation`: expected an operation of ligerdsl/ops.h, got '") + operation +
             "'");
  });
}

ligerdsl_status_t ligerdsl_buffer_alloc(ligerdsl_context_t context, size_t bytes, void** data) {
  return guarded("ligerdsl_buffer_alloc", [&] {
    require_pointer(data, "data");
    *data = nullptr;
    *data = ContextUse(context)->device().alloc(bytes);
  });
}

ligerdsl_status_t ligerdsl_buffer_free(ligerdsl_context_t context, void* data) {
  return guarded("ligerdsl_buffer_free", [&] { ContextUse(context)->device().free(data); });
}

ligerdsl_status_t ligerdsl_buffer_copy(ligerdsl_context_t context, void* to, const void* from,
                                       size_t bytes, ligerdsl_stream_t stream) {
  return guarded("ligerdsl_buffer_copy", [&] {
    const ContextUse use(context);
    if (bytes == 0) return;
    require_pointer(to, "to");
    require_pointer(from, "from");
    use->device().copy(to, from, bytes, native(stream));
  });
}

ligerdsl_status_t ligerdsl_buffer_fill(ligerdsl_context_t context, void* data, uint8_t value,
                                       size_t bytes, ligerdsl_stream_t stream) {
  return guarded("ligerdsl_buffer_fill", [&] {
    const ContextUse use(context);
    if (bytes == 0) return;
    require_pointer(data, "data");
    use->device().fill(data, value, bytes, native(stream));
  });
}

ligerdsl_status_t ligerdsl_stream_create(ligerdsl_context_t context, ligerdsl_stream_t* stream) {
  return guarded("ligerdsl_stream_create", [&] {
    require_pointer(stream, "stream");
    *stream = nullptr;
    *stream = reinterpret_cast<ligerdsl_stream_t>(ContextUse(context)->device().create_stream());
  });
}

ligerdsl_status_t ligerdsl_stream_sync(ligerdsl_context_t context, ligerdsl_stream_t stream) {
  return guarded("ligerdsl_stream_sync",
                 [&] { ContextUse(context)->device().synchronize(native(stream)); });
}

ligerdsl_status_t ligerdsl_stream_destroy(ligerdsl_context_t context, ligerdsl_stream_t stream) {
  return guarded("ligerdsl_stream_destroy", [&] {
    const ContextUse use(context);
    if (stream) use->device().destroy_stream(native(stream));
  });
}

}  // extern "C"
