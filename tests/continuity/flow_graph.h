// Control flow of a kernel's PTX: which instructions are hot, and which can run without another.
#pragma once

#include <cstddef>
#include <vector>

#include "tests/support/ptx/program.h"

namespace ligerdsl::test {

using Instructions = std::vector<size_t>;  // numbers of instructions, ascending

class FlowGraph {
 public:
  explicit FlowGraph(const ptx::Program& program);

  // Returns the instructions of each innermost loop. A loop counts if it accesses memory, copies or
  // multiplies tiles. Other loops wait or compute scalars; they are part of the loop around them.
  std::vector<Instructions> innermost_loops() const;
  // Returns the innermost loops, or the whole kernel if it has no loop.
  std::vector<Instructions> hot_blocks() const;

  // Returns true if a thread can execute `one` and skip `other`: not all paths to `one`, and not
  // all paths from it, pass `other`.
  bool runs_without(size_t one, size_t other) const;

 private:
  using Edges = std::vector<std::vector<size_t>>;
  using Sets = std::vector<std::vector<bool>>;

  void connect();
  static Sets dominators(size_t entry, const Edges& before);
  void add_body(size_t block, std::vector<bool>* loop) const;
  bool has_work(const std::vector<bool>& loop) const;

  const ptx::Program& program_;
  std::vector<size_t> begin_;     // first instruction of each basic block, then the end
  std::vector<size_t> block_of_;  // by instruction
  Edges after_, before_;          // edges between basic blocks; the last block is the exit
  Sets dominators_, postdominators_;
};

}  // namespace ligerdsl::test
