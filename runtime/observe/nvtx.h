// Ranges for profilers by the NVTX protocol (version 3). The environment names the tool's library.
// It is loaded here and writes its functions into our tables. As for the driver (cuda_api.h), the
// required types are declared here, so no toolkit header is needed.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

namespace ligerdsl::runtime {

inline constexpr const char* kNvtxDomain = "ligerdsl";

// An attached tool and our domain in it. The tool may start to listen later. Never destroyed:
// ranges may end as late as the process.
class Nvtx {
 public:
  // Loads and attaches the tool at `path`. Returns null with a reason in `problem` if it cannot be
  // loaded or declines.
  static Nvtx* attach(const std::string& path, std::string* problem);

  // Begins a range; the ranges of a thread nest. `category` groups ranges in tools: 1 and up, in
  // the order of kRangeKinds. Returns false if the tool does not listen; then do not call pop().
  bool push(uint32_t category, const char* message, const int64_t* payload);
  void pop();

 private:
  void* domain();

  std::atomic<void*> domain_{nullptr};
};

}  // namespace ligerdsl::runtime
