// Control flow of a kernel's PTX: the instructions of its loops, and whether a path skips an
// instruction.
#pragma once

#include <cstddef>
#include <vector>

#include "tests/support/ptx/program.h"

namespace ligerdsl::test {

using Instructions = std::vector<size_t>;  // indices of instructions, ascending

class FlowGraph {
 public:
  explicit FlowGraph(const ptx::Program& program);

  // Returns the instructions of each innermost loop. Only loops that access memory, copy or
  // multiply tiles count. The instructions of a loop that only waits or computes scalars belong to
  // the loop around it.
  std::vector<Instructions> innermost_loops() const;
  // Returns the innermost loops, or one block with the whole kernel if it has no loop.
  std::vector<Instructions> hot_blocks() const;

  // Returns true if a thread can execute `one` without `other`: `other` is neither on every path
  // from the entry to `one`, nor on every path from `one` to the exit.
  bool runs_without(size_t one, size_t other) const;

 private:
  using Edges = std::vector<std::vector<size_t>>;
  using Sets = std::vector<std::vector<bool>>;

  void connect();
  static Sets dominators(size_t entry, const Edges& before);
  void add_body(size_t block, std::vector<bool>* loop) const;
  bool has_work(const std::vector<bool>& loop) const;

  const ptx::Program& program_;
  std::vector<size_t> begin_;     // first instruction of each basic block; last: end of the code
  std::vector<size_t> block_of_;  // by instruction
  Edges after_, before_;          // edges between basic blocks; the last block is the exit
  Sets dominators_, postdominators_;
};

}  // namespace ligerdsl::test
