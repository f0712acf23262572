#include "runtime/observe/nvtx.h"

#include <dlfcn.h>

#include <cstddef>
#include <iterator>

#include "runtime/observe/ranges.h"

namespace ligerdsl::runtime {
namespace {

constexpr uint16_t kVersion = 3;
constexpr const char* kInitialize = "InitializeInjectionNvtx2";

struct EventAttributes {
  uint16_t version = kVersion;
  uint16_t size = sizeof(EventAttributes);
  uint32_t category = 0;
  int32_t color_type = 0;  // none
  uint32_t color = 0;
  int32_t payload_type = 0;  // 0: no payload; 2: a signed 64-bit number
  int32_t reserved = 0;
  int64_t payload = 0;
  int32_t message_type = 1;  // char
  const char* message = nullptr;
};
static_assert(sizeof(EventAttributes) == 48 && offsetof(EventAttributes, payload) == 24 &&
              offsetof(EventAttributes, message) == 40);

using Function = void (*)();
using DomainCreate = void* (*)(const char* name);
using NameCategory = void (*)(void* domain, uint32_t category, const char* name);
using RangePush = int (*)(void* domain, const EventAttributes* attributes);
using RangePop = int (*)(void* domain);

// Numbers of NVTX's modules, and of the functions in the module with domains. A tool writes its
// functions into one table per module.
constexpr uint32_t kFirstModule = 1, kDomains = 5, kLastModule = 6;
enum DomainFunction : uint32_t {
  kRangePush = 4,
  kRangePop = 5,
  kNameCategory = 8,
  kDomainCreate = 12,
  kFunctions = 16
};

Function functions[kFunctions], unused[kFunctions];
Function* domain_table[kFunctions + 1];
Function* unused_table[kFunctions + 1];

// Returns 1 for a known module, else 0. `size` includes the unused entry 0.
int module_table(uint32_t module, Function*** table, unsigned* size) {
  if (module < kFirstModule || module > kLastModule) return 0;
  if (size != nullptr) *size = kFunctions;
  if (table != nullptr) *table = module == kDomains ? domain_table : unused_table;
  return 1;
}

struct CallbacksTable {
  size_t size = sizeof(CallbacksTable);
  int (*module_table)(uint32_t module, Function*** table, unsigned* size) = runtime::module_table;
};
struct VersionTable {
  size_t size = sizeof(VersionTable);
  uint32_t version = kVersion;
  uint32_t reserved = 0;
  void (*set_tool_version)(uint32_t) = [](uint32_t) {};
};

const void* export_table(uint32_t id) {
  static const CallbacksTable callbacks;
  static const VersionTable version;
  return id == 1 ? static_cast<const void*>(&callbacks) : id == 3 ? &version : nullptr;
}

// Returns a function of the tool, or null if the tool has not set it (yet).
template <class Type>
Type function(DomainFunction which) {
  return reinterpret_cast<Type>(std::atomic_ref(functions[which]).load(std::memory_order_acquire));
}

void fill_tables() {
  for (uint32_t i = 1; i < kFunctions; ++i) {
    domain_table[i] = &functions[i];
    unused_table[i] = &unused[i];
  }
}

}  // namespace

Nvtx* Nvtx::attach(const std::string& path, std::string* problem) {
  void* library = dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL);
  if (library == nullptr) {
    const char* why = dlerror();
    *problem = why != nullptr ? why : path;
    return nullptr;
  }
  using Initialize = int (*)(const void* (*)(uint32_t));
  const auto initialize = reinterpret_cast<Initialize>(dlsym(library, kInitialize));
  fill_tables();
  if (initialize != nullptr && initialize(export_table) != 0) return new Nvtx;
  *problem = '"' + path + "\" " +
             (initialize == nullptr ? "has no function " + std::string(kInitialize)
                                    : "declines: " + std::string(kInitialize) + " returned 0");
  dlclose(library);
  return nullptr;
}

// Concurrent first calls may both create the domain. They get one domain, because tools identify
// domains by name.
void* Nvtx::domain() {
  void* known = domain_.load(std::memory_order_acquire);
  const auto create = function<DomainCreate>(kDomainCreate);
  if (known != nullptr || create == nullptr) return known;
  void* made = create(kNvtxDomain);
  if (const auto name = function<NameCategory>(kNameCategory)) {
    for (uint32_t i = 0; i < std::size(kRangeKinds); ++i) name(made, i + 1, kRangeKinds[i]);
  }
  domain_.store(made, std::memory_order_release);
  return made;
}

bool Nvtx::push(uint32_t category, const char* message, const int64_t* payload) {
  const auto push = function<RangePush>(kRangePush);
  if (push == nullptr) return false;
  EventAttributes event;
  event.category = category;
  event.message = message;
  event.payload_type = payload != nullptr ? 2 : 0;
  event.payload = payload != nullptr ? *payload : 0;
  push(domain(), &event);
  return true;
}

void Nvtx::pop() {
  if (const auto pop = function<RangePop>(kRangePop)) pop(domain());
}

}  // namespace ligerdsl::runtime
