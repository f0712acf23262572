// Small PTX kernels for tests of the emulator.
#pragma once

#include <string>
#include <vector>

#include "tests/support/ptx/machine.h"

namespace ligerdsl::test::ptx {

inline constexpr size_t kThreads = 64;

// Returns a kernel with this body. When the body starts, the registers of a thread are:
// - %r1, %r10: number of the thread in the CTA and in the grid; %p9: true in thread 0
// - %r9: number of the CTA; %rd4: byte offset of the thread's word
// - %rd1, %rd9: addresses of its output and input; the input is %r10 + 1000
// - %rd8, %rd3: addresses of the first input and of the first output
// - %rd2, %rd5: shared-memory addresses of its word and of the first word
// The tensor map k_param_2 describes the inputs of CTA 0 as eight rows of sixteen 16-bit numbers.
inline std::string kernel(const std::string& body) {
  return R"(.version 8.0
.visible .entry k(
	.param .u64 k_param_0
	.param .u64 k_param_1, .param .align 64 .b8 k_param_2[128]
)
.reqntid 64
{
	.reg .b32 	%r<9>;
	ld.param.b64 	%rd3, [k_param_0];
	ld.param.b64 	%rd8, [k_param_1];
	mov.u32 	%r1, %tid.x;
	setp.eq.b32 	%p9, %r1, 0;
	mul.wide.u32 	%rd4, %r1, 4;
	mov.b64 	%rd5, ligerdsl_shared;
	add.s64 	%rd2, %rd5, %rd4;
	mov.u32 	%r9, %ctaid.x;
	mad.lo.s32 	%r10, %r9, 64, %r1;
	mul.wide.u32 	%rd10, %r10, 4;
	add.s64 	%rd1, %rd3, %rd10;
	add.s64 	%rd9, %rd8, %rd10;
)" + body +
         "\n\tret;\n}\n";
}

struct Result {
  std::vector<uint32_t> out, in;
  std::string error;
};

struct Conditions {
  int64_t ctas = 1;
  int64_t cluster = 1;
  uint64_t seed = 1;
  bool early_inputs = false;
};

inline Result run_kernel(const std::string& body, const Conditions& conditions = {}) {
  const size_t count = kThreads * static_cast<size_t>(conditions.ctas);
  Result result{std::vector<uint32_t>(count, 0xffffffff), std::vector<uint32_t>(count), ""};
  for (size_t i = 0; i < count; ++i) result.in[i] = static_cast<uint32_t>(i + 1000);
  GlobalMemory memory;
  memory.add(result.out.data(), static_cast<int64_t>(4 * count));
  memory.add(result.in.data(), static_cast<int64_t>(4 * count), conditions.early_inputs);
  Launch launch;
  launch.slots = {reinterpret_cast<uintptr_t>(result.out.data()),
                  reinterpret_cast<uintptr_t>(result.in.data())};
  TensorMap map{};  // eight rows of 16 numbers
  map.address = launch.slots[1], map.rank = 2, map.element_bytes = 2, map.swizzle = 32;
  map.sizes[0] = 16, map.sizes[1] = 8, map.strides[0] = 32;
  map.box[0] = 16, map.box[1] = 8;
  launch.maps = {map};
  launch.shared_bytes = 1024;
  launch.grid = {conditions.ctas, 1, 1};
  launch.cluster = {conditions.cluster, 1, 1};
  launch.seed = conditions.seed;
  try {
    run(parse(kernel(body)), launch, memory);
  } catch (const std::runtime_error& error) {
    result.error = error.what();
  }
  return result;
}

// Replaces each occurrence of `name` in the text.
inline std::string with(std::string text, const std::string& name, const std::string& value) {
  for (size_t at = text.find(name); at != std::string::npos;
       at = text.find(name, at + value.size())) {
    text.replace(at, name.size(), value);
  }
  return text;
}

// A kernel that must fail, with a part of the expected error.
struct Fault {
  const char* name;
  std::string body, message;
  Conditions conditions = {};
};

inline void PrintTo(const Fault& fault, std::ostream* out) {
  *out << fault.message;
}

}  // namespace ligerdsl::test::ptx
