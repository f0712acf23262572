#include "tests/continuity/launch_path.h"

#include <algorithm>
#include <bit>
#include <map>

#include "program/gpu_arch.h"

namespace ligerdsl::test {
namespace {

using program::Op;
using program::OpCode;

constexpr int64_t kVector = 16;  // bytes of the widest access
constexpr int64_t kShare = 8;    // tiles below 1 / 8 of the largest tile's bytes are small

// Sizes of the tiles that a program loads from or stores to each argument.
class Tiles {
 public:
  struct Tile {
    int64_t bytes = 0;          // bytes of the largest tile
    int64_t run = kVector;      // least number of contiguous bytes in a row of a tile
    int64_t least = INT64_MAX;  // bytes of the smallest tile
    bool with_offset = true;    // true if all accesses pass an alignment offset
    bool own_offset = true;     // true if all accesses pass the alignment offset of this argument
    bool sliced = false;        // true if it loads slices: only the compiler knows their start
  };

  explicit Tiles(const program::Program& program)
      : program_(program), tiles_(program.arguments.size()) {
    for (size_t i = 0; i < tiles_.size(); ++i) argument_of_[program.arguments[i].value] = i;
    collect(program.body);
  }
  const Tile& of(size_t argument) const { return tiles_[argument]; }
  int64_t most_bytes() const {
    int64_t most = 0;
    for (const Tile& tile : tiles_) most = std::max(most, tile.bytes);
    return most;
  }

 private:
  void collect(const program::Region& region) {
    for (const Op& op : region.ops) {
      visit(op);
      for (const program::Region& inner : op.regions) collect(inner);
    }
  }
  void visit(const Op& op) {
    if (op.operands.empty()) return;
    const auto argument = argument_of_.find(op.operands[0]);
    if (argument == argument_of_.end()) return;
    Tile& tile = tiles_[argument->second];
    switch (op.code) {
      case OpCode::slice:
        tile.sliced |= op.integer(program::AttrKey::axis) + 1 ==
                       static_cast<int64_t>(program_.values[op.operands[0]].shape.size());
        [[fallthrough]];
      case OpCode::view_ptr:
      case OpCode::addptr:
      case OpCode::splat:
      case OpCode::expand_dims:
      case OpCode::broadcast:
      case OpCode::reshape:
      case OpCode::permute:
        argument_of_[op.results[0]] = argument->second;
        return;
      case OpCode::alignment_offset:
        offset_of_[op.results[0]] = argument->second;
        return;
      case OpCode::load_tile:
      case OpCode::store_tile:
        meet_offset(&tile, op, argument->second);
        return meet(&tile, std::get<program::Shape>(*op.find(program::AttrKey::tile_shape)),
                    argument->second);
      case OpCode::load:
      case OpCode::store:
        tile.with_offset = tile.own_offset = false;
        return meet(&tile, program_.values[op.operands[0]].shape, argument->second);
      default:
        return;
    }
  }
  // The alignment offset is the last operand of a load, and the second to last of a store.
  void meet_offset(Tile* tile, const Op& op, size_t argument) const {
    const bool has_offset = op.integer(program::AttrKey::has_alignment_offset) != 0;
    tile->with_offset = tile->with_offset && has_offset;
    const size_t after = op.code == OpCode::load_tile ? 1 : 2;
    const auto of =
        has_offset ? offset_of_.find(op.operands[op.operands.size() - after]) : offset_of_.end();
    tile->own_offset = tile->own_offset && of != offset_of_.end() && of->second == argument;
  }
  void meet(Tile* tile, const program::Shape& shape, size_t argument) const {
    const DType type = program_.values[program_.arguments[argument].value].dtype;
    int64_t elements = 1;
    for (const int64_t size : shape) elements *= std::max<int64_t>(size, 1);
    const auto element = static_cast<int64_t>(size_of(type));
    const int64_t row = shape.empty() ? 1 : std::max<int64_t>(shape.back(), 1);
    tile->bytes = std::max(tile->bytes, elements * element);
    tile->least = std::min(tile->least, elements * element);
    tile->run = std::min(tile->run, row * element);
  }

  const program::Program& program_;
  std::map<program::ValueId, size_t> argument_of_, offset_of_;
  std::vector<Tile> tiles_;
};

int64_t power_of_two_in(int64_t bytes) {
  return bytes & -bytes;
}

// Returns the bytes of the widest access, at most kVector, to which all rows of the view are
// aligned.
int64_t row_alignment(const program::Type& type, const program::ArgFacts& facts,
                      const Tiles::Tile& tile) {
  const auto element = static_cast<int64_t>(size_of(type.dtype));
  const size_t rank = type.shape.size();
  if (type.kind != program::TypeKind::view || rank == 0) return element;
  const bool contiguous =
      type.strides[rank - 1] == 1 || (!facts.strides.empty() && facts.strides[rank - 1].exact == 1);
  if (!contiguous) return element;
  // With the alignment offset of its own row, each block begins at a 16-byte boundary.
  if (tile.own_offset) return kVector;
  int64_t bytes = std::clamp(facts.pointer_align, element, kVector);
  if (tile.with_offset) return bytes;
  for (size_t i = 0; i + 1 < rank; ++i) {
    int64_t stride = type.strides[i];
    if (stride == program::kDynamic)
      stride = facts.strides.empty()         ? 1
               : facts.strides[i].exact >= 0 ? facts.strides[i].exact
                                             : facts.strides[i].divisor;
    if (stride > 0) bytes = std::min(bytes, power_of_two_in(stride * element));
  }
  return std::max(bytes, element);
}

bool is_short(DType type) {
  return type == DType::f16 || type == DType::bf16;
}

double multiply_adds_of(const Op& op, const program::Program& program) {
  const program::Shape &a = program.values[op.operands[0]].shape,
                       &b = program.values[op.operands[1]].shape;
  double product = static_cast<double>(b.back());
  for (const int64_t size : a) product *= static_cast<double>(size);
  return product;
}

// Multiply-adds of 16-bit dots, summed per innermost loop.
class Dots {
 public:
  Dots(const program::Program& program, int ctas) : program_(program), ctas_(ctas) {
    collect(program.body, nullptr);
  }
  std::vector<DotLoop> loops() const {
    if (outside_) return {};
    std::vector<DotLoop> found;
    for (const auto& [loop, sum] : sums_) found.push_back({sum / ctas_});
    return found;
  }

 private:
  void collect(const program::Region& region, const Op* loop) {
    for (const Op& op : region.ops) {
      if (op.code == OpCode::dot && is_short(program_.values[op.operands[0]].dtype)) {
        if (loop)
          sums_[loop] += multiply_adds_of(op, program_);
        else
          outside_ = true;
      }
      const bool is_loop = op.code == OpCode::for_range || op.code == OpCode::while_loop;
      for (const program::Region& inner : op.regions) collect(inner, is_loop ? &op : loop);
    }
  }

  const program::Program& program_;
  double ctas_;
  std::map<const Op*, double> sums_;
  bool outside_ = false;
};

}  // namespace

LaunchPath launch_path(const program::Program& program, const program::CompileOptions& options,
                       kernels::Variant variant, const analysis::Work& work) {
  const program::GpuArch* arch = program::find_gpu_arch(options.arch);
  LaunchPath path{.has_wgmma = arch && arch->wgmma,
                  .threads = options.num_warps * program::kWarpThreads};
  for (const analysis::DotWork& dot : work.dots)
    if (is_short(dot.dtype)) path.multiply_adds += dot.multiply_adds;
  path.loops = Dots(program, options.num_ctas).loops();
  const Tiles tiles(program);
  size_t slot = 0;
  for (size_t i = 0; i < program.arguments.size(); ++i) {
    const program::Type& type = program.values[program.arguments[i].value];
    const Tiles::Tile& tile = tiles.of(i);
    ArgumentPath argument{.name = program.arguments[i].name, .slot = slot};
    slot += program::slotCount(type);
    const program::ArgFacts facts =
        i < options.facts.size() ? options.facts[i] : program::ArgFacts{};
    const auto element = static_cast<int64_t>(size_of(type.dtype));
    const int64_t aligned = row_alignment(type, facts, tile);
    const int64_t of_thread = tile.least / (int64_t{path.threads} * options.num_ctas);
    const int64_t vector = std::min({aligned, power_of_two_in(tile.run),
                                     static_cast<int64_t>(std::bit_floor(
                                         static_cast<uint64_t>(std::max(of_thread, element))))});
    const bool is_proved = variant != kernels::Variant::any || tile.own_offset;
    const bool counts =
        is_proved && tile.bytes > 0 && !tile.sliced && tile.bytes * kShare >= tiles.most_bytes();
    if (counts && vector > element) argument.vector = static_cast<int>(vector);
    argument.is_operand =
        i < work.traffic.size() && work.traffic[i].to_dots > 0 && counts && aligned == kVector;
    path.arguments.push_back(std::move(argument));
  }
  return path;
}

}  // namespace ligerdsl::test
