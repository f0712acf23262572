// What a compile depends on beside the program: target, resources, and facts about the arguments.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ligerdsl::program {

enum class Target : uint8_t { cpu = 0, nvptx = 1 };

// Facts about one dimension or stride that hold for every launch of the artifact. The launcher checks them.
struct SizeFact {
  int64_t exact = -1;   // the value itself, or -1
  int64_t divisor = 1;  // the value is a multiple of this
  bool operator==(const SizeFact&) const = default;
};

// Facts about one kernel argument, in the program's argument order. Scalars use none of them.
struct ArgFacts {
  int64_t pointer_align = 1;      // bytes; the base pointer is a multiple of this (element size is always assumed)
  std::vector<SizeFact> dims;     // views: per dimension; empty = nothing known
  std::vector<SizeFact> strides;  // views: per dimension, in elements; empty = nothing known
  // 0: may overlap any other argument. n > 0: overlaps only arguments of the same class n, and those exactly (same base
  // and strides), so one element is reached through equal indices only.
  uint32_t alias_class = 0;
  bool read_only = false;  // no store in this launch, through any argument, reaches this memory
  bool operator==(const ArgFacts&) const = default;
};

struct CompileOptions {
  Target target = Target::cpu;
  std::string arch;      // nvptx: "sm_80", "sm_90a", ...; cpu: LLVM's CPU name, empty = this host
  std::string features;  // cpu: LLVM's feature string, empty = this host's
  int32_t ptx_version =
      90;                 // nvptx: highest PTX version the driver accepts, times ten; the lowest that serves is emitted
  int32_t num_warps = 4;  // nvptx: warps of 32 threads per CTA
  int32_t num_ctas = 1;   // nvptx: CTAs per cluster
  int32_t num_stages = 2;       // depth of software pipelines
  int32_t max_registers = 0;    // nvptx: per thread, 0 = no cap
  int32_t min_ctas_per_sm = 0;  // nvptx: occupancy floor for registers and resident rows, 0 = none
  // nvptx, sm_90 and later (elsewhere without effect): the kernel waits by itself for what its stream did before, so it
  // may be launched while that still runs, and it lets its successor do the same.
  bool launch_overlap = true;
  bool contract = true;         // a * b + c may become fma where the program does not forbid it
  std::vector<ArgFacts> facts;  // empty = nothing known about any argument, else one per argument
  std::string emit;  // "" = artifact; else a stage: tile, tgpu, loops, llvm, ptx, asm (text in Artifact::code)
  std::string tile;  // "" = the program's; else tile IR that takes its place, such as `emit` = "tile" gives
  std::string tile_file;  // what errors call that text
  bool spans = false;     // fill Artifact::spans
};

}  // namespace ligerdsl::program
