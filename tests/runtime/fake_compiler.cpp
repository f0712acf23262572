// A compiler library without LLVM that exports the C table of the real one. The text of the
// "program" selects the result:
// - "error ...": a faulty program; "internal": a compiler bug; "fatal ...": an LLVM fatal error
// - "slow ...": compiles in 50 ms; "gate FILE": writes FILE.begun, waits until FILE exists,
//   compiles
// - "persistent ...": a kernel that reads the number of programs
// - "next_program ...": a kernel that takes its programs from a counter
// - "mapped ...": a kernel that reads its second argument, a 2-D view, through a tensor map
// - ".version ...": PTX, returned unchanged
// - "crash", "abort", "quit", "overflow": end the process by a null access, abort(), exit or stack
//   overflow
// - "hang FILE": writes its process id to FILE and never returns; "spin": computes forever
// - "hungry": allocates until memory is exhausted
// - "descriptors": a faulty program whose error lists the open descriptors
// - anything else compiles: for the CPU to a kernel of this library, for a GPU to PTX-like text
//   that contains the program
//
// An edited tile stage is appended to the generated code. If the stage begins with "bad", its first
// line becomes an error. A CPU kernel has the slots {pointer to int64, n}: program i computes i * 3
// + 1 in its arena and stores it to element i.
#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>

#include "compiler/compiler_api.h"
#include "ligerdsl_build_id.h"
#include "program/serialize.h"

namespace {

using namespace ligerdsl::program;

std::atomic<int64_t> compiles{0}, loads{0}, unloads{0};
void (*fatal_hook)(const char*) = nullptr;

ligerdsl_bytes copy(const std::string& text) {
  auto* data = static_cast<uint8_t*>(malloc(text.size() + 1));
  memcpy(data, text.data(), text.size());
  return {data, text.size()};
}

void kernel(const uint64_t* slots, const int32_t*, int64_t begin, int64_t end, void* arena) {
  auto* out = reinterpret_cast<int64_t*>(slots[0]);
  auto* scratch = static_cast<int64_t*>(arena);
  for (int64_t i = begin; i < end; ++i) {
    scratch[0] = i * 3;
    scratch[511] = 1;
    out[i] = scratch[0] + scratch[511];
  }
}

int overflow(int depth) {
  volatile char frame[4096];
  frame[0] = static_cast<char>(depth);
  return depth < 0 ? 0 : overflow(depth + 1) + frame[0];
}

// Ends the process, or never returns, if the program's text requests it. Otherwise returns false.
bool ends_badly(const std::string& text) {
  if (text.starts_with("crash")) {
    fprintf(stderr, "Stack dump: the fake compiler\n");
    *const_cast<volatile int*>(static_cast<int*>(nullptr)) = 1;
  }
  if (text.starts_with("abort")) abort();
  if (text.starts_with("quit")) _exit(7);
  if (text.starts_with("overflow")) return overflow(0) != 0;
  if (text.starts_with("hang ")) {
    std::ofstream(text.substr(5)) << getpid() << std::endl;
    for (;;) pause();
  }
  if (text.starts_with("spin"))
    for (volatile unsigned i = 0;;) i = i + 1;
  if (text.starts_with("hungry"))
    for (;;) static_cast<void>(*new volatile char[1 << 20]);
  return false;
}

std::string descriptors() {
  std::string all;
  for (int fd = 0; fd < 256; ++fd)
    if (fcntl(fd, F_GETFD) >= 0) all += std::to_string(fd) + " ";
  return all;
}

int32_t compile(const uint8_t* program, size_t program_size, const uint8_t* options,
                size_t options_size, ligerdsl_bytes* artifact, ligerdsl_bytes* error) {
  ++compiles;
  const std::string text(reinterpret_cast<const char*>(program), program_size);
  const CompileOptions wanted =
      parseOptions({reinterpret_cast<const char*>(options), options_size});
  if (text.starts_with("error")) {
    *error = copy("kernel.cpp:3:7: error: shapes [4] and [8] do not broadcast");
    return 1;
  }
  if (text.starts_with("internal")) {
    *error = copy("assertion");
    return 2;
  }
  if (text.starts_with("fatal")) fatal_hook("Cannot select: fsin");
  if (text.starts_with("slow")) usleep(50000);
  if (text.starts_with("gate ")) {
    std::ofstream(text.substr(5) + ".begun") << getpid() << std::endl;
    while (access(text.substr(5).c_str(), F_OK) != 0) usleep(1000);
  }
  if (ends_badly(text)) return 2;
  if (text.starts_with("descriptors")) {
    *error = copy(descriptors());
    return 1;
  }
  Artifact result;
  result.target = wanted.target;
  result.arch = wanted.arch;
  result.entry = "ligerdsl_fake";
  result.slots = 2;
  result.threads = 32 * wanted.num_warps;
  result.cluster = wanted.num_ctas;
  result.shared_bytes = text.starts_with("shared") ? 100 << 10 : 0;
  result.launch_overlap = wanted.target == Target::nvptx && wanted.launch_overlap;
  result.persistent = text.starts_with("persistent");
  result.dynamic_persistent = text.starts_with("next_program");
  result.arena_bytes = 4096;
  result.times = {{"mlir", 1.5}, {"llvm", 2.5}};
  result.code = ".version 8.0\n.entry ligerdsl_fake " + text;
  if (text.starts_with(".version")) result.code = text;
  if (text.starts_with("mapped")) {
    result.slots = 6;
    const int maps = text == "mapped" ? 1 : std::stoi(text.substr(6));
    result.maps.assign(
        maps, {.slot = 1, .type = ligerdsl::DType::bf16, .box = {128, 64}, .swizzle = 128});
    for (int slot = 0; slot < 6; ++slot)
      result.code += "\n\t.param .u64 slot" + std::to_string(slot);
    for (int map = 0; map < maps; ++map)
      result.code += "\n\t.param .align 64 .b8 map" + std::to_string(map) + "[128]";
    result.code += "\n{";
  }
  if (wanted.tile.starts_with("bad")) {
    *error = copy(wanted.tile_file + ":1:1: error: expected an operation");
    return 1;
  }
  if (!wanted.tile.empty()) result.code += " with " + wanted.tile;
  if (!wanted.emit.empty()) result.code = "stage " + wanted.emit + " of " + text;
  *artifact = copy(serialize(result));
  return 0;
}

int32_t cpu_load(const uint8_t* object, size_t object_size, const char*,
                 ligerdsl_cpu_module** module, void** entry, ligerdsl_bytes* error) {
  const std::string text(reinterpret_cast<const char*>(object), object_size);
  if (text.find("unlinkable") != std::string::npos) {
    *error = copy("undefined symbol");
    return 2;
  }
  ++loads;
  *module = reinterpret_cast<ligerdsl_cpu_module*>(&loads);
  *entry = reinterpret_cast<void*>(&kernel);
  return 0;
}

const ligerdsl_compiler_table table = {
    LIGERDSL_COMPILER_API_VERSION,
#ifdef FAKE_BUILD_ID
    FAKE_BUILD_ID,
#else
    LIGERDSL_BUILD_ID,
#endif
    "22.0.fake",
    compile,
    cpu_load,
    [](ligerdsl_cpu_module*) { ++unloads; },
    [] { return "fake-cpu"; },
    [] { return "+fake"; },
    [](ligerdsl_bytes bytes) { free(bytes.data); },
    [](void (*hook)(const char*)) { fatal_hook = hook; },
};

}  // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT const ligerdsl_compiler_table* ligerdsl_compiler_entry() {
  return &table;
}
EXPORT int64_t fake_compiler_compiles() {
  return compiles;
}
EXPORT int64_t fake_compiler_loaded() {
  return loads - unloads;
}
