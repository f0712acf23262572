// Ranges for profilers, by NVTX's protocol (version 3): the tool's library is named in the environment, is loaded here
// and puts its functions into tables of ours. As with the driver (cuda_api.h), what is needed is declared here, so no
// toolkit's headers are.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

namespace ligerdsl::runtime {

inline constexpr const char* kNvtxDomain = "ligerdsl";

// A tool that is attached, and our domain in it. It may begin to listen later. Never destroyed: ranges end until the
// process does.
class Nvtx {
 public:
  // The tool of this library; null with a reason in `problem` where it cannot be loaded or declines.
  static Nvtx* attach(const std::string& path, std::string* problem);

  // Ranges of a thread nest. `category` groups them in tools: 1 and up, in the order of kRangeKinds. False where the tool
  // does not listen; then there is nothing to pop.
  bool push(uint32_t category, const char* message, const int64_t* payload);
  void pop();

 private:
  void* domain();

  std::atomic<void*> domain_{nullptr};
};

}  // namespace ligerdsl::runtime
