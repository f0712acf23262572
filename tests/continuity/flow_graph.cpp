// Finds natural loops, one per header. LLVM may move blocks of a loop to the end of the text, so
// the instructions of a loop need not be contiguous.
#include "tests/continuity/flow_graph.h"

#include <algorithm>
#include <numeric>
#include <set>

namespace ligerdsl::test {
namespace {

using ptx::Instruction;
using ptx::Kind;

bool ends_block(const Instruction& i) {
  return i.kind == Kind::branch || i.kind == Kind::exit;
}

bool works(const Instruction& i) {
  switch (i.kind) {
    case Kind::load:  // an acquire load waits for another CTA
      return i.space != ptx::Space::param && i.opcode.find(".acquire") == std::string::npos &&
             i.opcode.find(".volatile") == std::string::npos;
    case Kind::store:
    case Kind::multiply:
    case Kind::load_matrix:
    case Kind::group_multiply:
    case Kind::copy:
    case Kind::bulk_load:
    case Kind::tensor_load:
    case Kind::tensor_store:
    case Kind::bulk_store:
    case Kind::remote_store:
      return true;
    default:
      return false;
  }
}

bool contains(const std::vector<bool>& whole, const std::vector<bool>& part) {
  for (size_t i = 0; i < whole.size(); ++i)
    if (part[i] && !whole[i]) return false;
  return true;
}

}  // namespace

FlowGraph::FlowGraph(const ptx::Program& program) : program_(program) {
  const std::vector<Instruction>& all = program.instructions;
  std::set<size_t> leaders{0};
  for (size_t at = 0; at < all.size(); ++at) {
    if (all[at].kind == Kind::branch) leaders.insert(all[at].target);
    if (ends_block(all[at])) leaders.insert(at + 1);
  }
  for (const size_t leader : leaders)
    if (leader < all.size()) begin_.push_back(leader);
  begin_.push_back(all.size());
  for (size_t block = 0; block + 1 < begin_.size(); ++block)
    block_of_.insert(block_of_.end(), begin_[block + 1] - begin_[block], block);
  connect();
  dominators_ = dominators(0, before_);
  postdominators_ = dominators(before_.size() - 1, after_);
}

void FlowGraph::connect() {
  const size_t exit = begin_.size() - 1;
  after_.resize(exit + 1);
  before_.resize(exit + 1);
  const auto add = [&](size_t from, size_t to) {
    after_[from].push_back(to);
    before_[to].push_back(from);
  };
  const auto block_at = [&](size_t instruction) {
    return instruction < block_of_.size() ? block_of_[instruction] : exit;
  };
  for (size_t block = 0; block < exit; ++block) {
    const size_t end = begin_[block + 1];
    const Instruction& last = program_.instructions[end - 1];
    if (last.kind == Kind::branch) add(block, block_at(last.target));
    if (last.kind == Kind::exit) add(block, exit);
    if (!ends_block(last) || last.predicate >= 0) add(block, block_at(end));
  }
}

// Returns, for each block, its dominators: the blocks that every path from the entry to the block
// contains.
FlowGraph::Sets FlowGraph::dominators(size_t entry, const Edges& before) {
  const size_t size = before.size();
  Sets sets(size, std::vector<bool>(size, true));
  sets[entry].assign(size, false);
  sets[entry][entry] = true;
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t block = 0; block < size; ++block) {
      if (block == entry) continue;
      std::vector<bool> common(size, true);
      for (const size_t from : before[block])
        for (size_t i = 0; i < size; ++i) common[i] = common[i] && sets[from][i];
      common[block] = true;
      if (common == sets[block]) continue;
      sets[block] = std::move(common);
      changed = true;
    }
  }
  return sets;
}

// Adds `block` and the blocks from which a path reaches it without passing the loop's header, which
// is already in `loop`.
void FlowGraph::add_body(size_t block, std::vector<bool>* loop) const {
  if ((*loop)[block]) return;
  (*loop)[block] = true;
  for (const size_t from : before_[block]) add_body(from, loop);
}

bool FlowGraph::has_work(const std::vector<bool>& loop) const {
  for (size_t at = 0; at < block_of_.size(); ++at)
    if (loop[block_of_[at]] && works(program_.instructions[at])) return true;
  return false;
}

std::vector<Instructions> FlowGraph::innermost_loops() const {
  Sets loops;
  for (size_t header = 0; header < before_.size(); ++header) {
    std::vector<bool> loop(before_.size());
    loop[header] = true;
    bool found = false;
    for (const size_t from : before_[header]) {
      if (!dominators_[from][header]) continue;
      found = true;
      add_body(from, &loop);
    }
    if (found && has_work(loop)) loops.push_back(std::move(loop));
  }
  std::vector<Instructions> innermost;
  for (const std::vector<bool>& loop : loops) {
    if (std::any_of(loops.begin(), loops.end(), [&](const std::vector<bool>& other) {
          return &other != &loop && contains(loop, other);
        }))
      continue;
    innermost.emplace_back();
    for (size_t at = 0; at < block_of_.size(); ++at)
      if (loop[block_of_[at]]) innermost.back().push_back(at);
  }
  return innermost;
}

std::vector<Instructions> FlowGraph::hot_blocks() const {
  std::vector<Instructions> blocks = innermost_loops();
  if (!blocks.empty()) return blocks;
  blocks.emplace_back(block_of_.size());
  std::iota(blocks[0].begin(), blocks[0].end(), size_t{0});
  return blocks;
}

bool FlowGraph::runs_without(size_t one, size_t other) const {
  const size_t block = block_of_[one], skipped = block_of_[other];
  return !dominators_[block][skipped] && !postdominators_[block][skipped];
}

}  // namespace ligerdsl::test
