// Inputs of a compile other than the program: target, resources, and facts about the arguments.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ligerdsl::program {

enum class Target : uint8_t { cpu = 0, nvptx = 1 };

// Facts about one dimension or stride that hold for every launch of the artifact. The launcher
// checks them.
struct SizeFact {
  int64_t exact = -1;   // exact value, or -1
  int64_t divisor = 1;  // the value is a multiple of this
  bool operator==(const SizeFact&) const = default;
};

// Facts about one kernel argument. Scalars have none.
struct ArgFacts {
  int64_t pointer_align =
      1;  // bytes; the base pointer is a multiple of this (element size is always assumed)
  std::vector<SizeFact> dims;     // views: per dimension; empty = nothing known
  std::vector<SizeFact> strides;  // views: per dimension, in elements; empty = nothing known
  // 0: may overlap any other argument. n > 0: overlaps only arguments of the same class n, and
  // those exactly (same base and strides). One element is then reached through equal indices only.
  uint32_t alias_class = 0;
  bool read_only = false;  // no store of this launch, through any argument, writes this memory
  bool operator==(const ArgFacts&) const = default;
};

struct CompileOptions {
  Target target = Target::cpu;
  std::string arch;      // nvptx: "sm_80", "sm_90a", ...; cpu: LLVM's CPU name, empty = this host
  std::string features;  // cpu: LLVM's feature string, empty = this host's
  int32_t ptx_version =
      90;  // nvptx: highest PTX version of the driver, times ten; the code uses the lowest possible
  int32_t num_warps = 4;        // nvptx: warps of 32 threads per CTA
  int32_t num_ctas = 1;         // nvptx: CTAs per cluster
  int32_t num_stages = 2;       // depth of software pipelines
  int32_t max_registers = 0;    // nvptx: per thread, 0 = no cap
  int32_t min_ctas_per_sm = 0;  // nvptx: occupancy floor for registers and resident rows, 0 = none
  // nvptx, sm_90 and later (no effect elsewhere): the kernel waits for earlier work of its stream
  // itself, so it may start while that work still runs. It lets its successor do the same.
  bool launch_overlap = true;
  bool contract = true;         // a * b + c may become fma unless the program forbids it
  std::vector<ArgFacts> facts;  // empty = nothing known about any argument, else one per argument
  std::string emit;  // "" = artifact; else a stage: tile, tgpu, loops, llvm, ptx, asm (text in
                     // Artifact::code)
  std::string tile;  // "" = the program's tile IR; else replaces it (the output of `emit` = "tile")
  std::string tile_file;  // file name of `tile` in errors
  bool spans = false;     // fill Artifact::spans
};

}  // namespace ligerdsl::program
