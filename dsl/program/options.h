// Inputs of a compile other than the program: target, resources, and facts about the arguments.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ligerdsl::program {

enum class Target : uint8_t { cpu = 0, nvptx = 1 };

// Facts about one dimension or stride that the launcher checks at every launch of the artifact.
struct SizeFact {
  int64_t exact = -1;   // exact value, or -1
  int64_t divisor = 1;  // the value is a multiple of this
  bool operator==(const SizeFact&) const = default;
};

// Facts about one kernel argument. Scalars have none.
struct ArgFacts {
  int64_t pointer_align =
      1;  // bytes; the address is a multiple of this, and always of the element size
  std::vector<SizeFact> dims;     // views: per dimension; empty if nothing is known
  std::vector<SizeFact> strides;  // views: per dimension, in elements; empty if nothing is known
  // If 0, the argument may overlap any other. If n > 0, it overlaps only arguments of class n, with
  // the same base and strides, so that the same indices refer to the same element.
  uint32_t alias_class = 0;
  bool read_only = false;  // no store of the launch writes this memory through any argument
  bool operator==(const ArgFacts&) const = default;
};

struct CompileOptions {
  Target target = Target::cpu;
  std::string arch;      // nvptx: "sm_80", "sm_90a", ...; cpu: LLVM's CPU name, empty = this host
  std::string features;  // cpu: LLVM's feature string, empty = this host's
  int32_t ptx_version =
      90;  // nvptx: highest PTX version of the driver, times ten; code uses the lowest that works
  int32_t num_warps = 4;      // nvptx: warps of 32 threads per CTA
  int32_t num_ctas = 1;       // nvptx: CTAs per cluster
  int32_t num_stages = 2;     // depth of software pipelines
  int32_t max_registers = 0;  // nvptx: cap of registers per thread; 0 = no cap
  int32_t min_ctas_per_sm =
      0;  // nvptx: CTAs per SM that registers and resident rows must allow; 0 = none
  // nvptx, from sm_90: the kernel may start while earlier work on its stream runs, because it waits
  // for that work itself. It allows the next kernel to do the same. Ignored on other targets.
  bool launch_overlap = true;
  bool contract = true;         // a * b + c may become fma unless the program forbids it
  std::vector<ArgFacts> facts;  // one per argument, or empty if nothing is known
  std::string emit;  // "" = artifact; else a stage, with its text in Artifact::code: tile, tgpu,
                     // layouts, loops, llvm, ptx, asm
  std::string tile;  // if not "", tile IR that replaces the program's (output of `emit` = "tile")
  std::string tile_file;  // file name of `tile` in errors
  bool spans = false;     // fill Artifact::spans
};

}  // namespace ligerdsl::program
