// Ranges for profilers by the NVTX protocol (version 3). NVTX_INJECTION64_PATH names the tool's
// library, which is loaded here and writes its functions into tables of this process. The required
// types are declared here, so that no toolkit header is needed.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

namespace ligerdsl::runtime {

inline constexpr const char* kNvtxDomain = "ligerdsl";

// An attached tool and the library's domain in this tool. The tool may start to listen later. Never
// destroyed, because ranges may end as late as the process.
class Nvtx {
 public:
  // Loads and attaches the tool at `path`. Returns null with a reason in `problem` if the tool
  // cannot be loaded or refuses.
  static Nvtx* attach(const std::string& path, std::string* problem);

  // Begins a range. The ranges of a thread nest. `category` groups ranges in tools: it is the index
  // in kRangeKinds plus 1. Returns false if the tool does not listen; then do not call pop().
  bool push(uint32_t category, const char* message, const int64_t* payload);
  void pop();

 private:
  void* domain();

  std::atomic<void*> domain_{nullptr};
};

}  // namespace ligerdsl::runtime
