// wgmma. Each of the four warps of a group computes its own rows of the accumulator. Until the warp
// has waited, the tensor cores own the accumulator, operands in registers, and the bytes of
// operands in shared memory.
#include <stdexcept>

#include "tests/support/ptx/mma_operand.h"
#include "tests/support/ptx/warp.h"

namespace ligerdsl::test::ptx {
namespace {

constexpr int kRows = 16, kMostDepth = 32,
              kGroupWarps = 4;  // rows per warp, most elements along k, warps per group
constexpr uint64_t kUnit = 16;  // bytes

// PTX ISA, "Matrix Descriptor". A row of shared memory has one index along m or n, or along k if
// transposed.
class Descriptor {
 public:
  Descriptor(uint64_t bits, uint64_t number_bytes, bool transposed)
      : begin_(field(bits, 0)),
        leading_(field(bits, 16)),
        stride_(field(bits, 32)),
        panel_(0),
        number_(number_bytes),
        transposed_(transposed) {
    switch (bits >> 62) {
      case 1:
        panel_ = 128;
        break;
      case 2:
        panel_ = 64;
        break;
      case 3:
        panel_ = 32;
        break;
      default:
        throw std::runtime_error("a descriptor without a swizzle");
    }
    if (bits >> 49 & 7) throw std::runtime_error("a descriptor with a base offset");
  }
  // Returns the shared-memory address of the element with index `at` along m or n and index `k`.
  uint64_t address(uint64_t at, uint64_t k) const {
    // A panel is as wide as the swizzle. `stride_` is the distance in bytes between groups of eight
    // rows of a panel, and `leading_` the distance between panels.
    const uint64_t row = transposed_ ? k : at, column = transposed_ ? at : k,
                   width = panel_ / number_;
    if (!transposed_ && column >= width)
      throw std::runtime_error("a descriptor's k leaves its panel");
    const uint64_t plain = begin_ + row % 8 * panel_ + row / 8 * stride_ +
                           column / width * leading_ + column % width * number_;
    return plain ^ (plain >> 7 & (panel_ / kUnit - 1)) * kUnit;
  }

 private:
  static uint64_t field(uint64_t bits, int at) { return (bits >> at & 0x3fff) * kUnit; }
  uint64_t begin_, leading_, stride_, panel_, number_;
  bool transposed_;
};

}  // namespace

void Warp::expect_alike(const Instruction& i, uint64_t left, uint64_t right) {
  const std::array product{left, right, static_cast<uint64_t>(i.line)};
  const std::pair key{number_ / kGroupWarps, group_products_++};
  const auto [entry, first] = cta_.products.emplace(key, product);
  if (!first && entry->second != product)
    throw std::runtime_error("the warps of a wgmma have different descriptors");
}

void Warp::group_multiply(const Instruction& i) {
  if (!group_fenced_) throw std::runtime_error("wgmma without wgmma.fence before");
  // wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16
  const Accumulator acc{word_of(i.opcode, 5) == "s32"};
  const MmaOperand first = mma_operand_named(word_of(i.opcode, 6)),
                   second = mma_operand_named(word_of(i.opcode, 7));
  const bool in_registers = i.operands[1].kind == Operand::Kind::vector;
  const int depth = first.depth();
  const auto number_bytes = static_cast<uint64_t>(first.bytes);
  const bool wide = first.bytes == 2;  // 16-bit operands may be transposed
  const auto the_same = [&](const Operand& o) {
    const Lanes& values = read(o, kAllLanes);
    for (uint64_t value : values)
      if (value != values[0])
        throw std::runtime_error("the threads of a wgmma have different operands");
    return values[0];
  };
  const Epoch done = open_group(products_, "a wgmma of ");
  const auto load = [&](const Descriptor& from, const MmaOperand& operand, uint64_t at,
                        uint64_t k) {
    const uint64_t address = SharedMemory::kBase + from.address(at, k);
    cta_.shared.borrow(address, number_bytes, order_, done);
    const uint8_t* bytes = cta_.shared.bytes(address);
    uint32_t bits = 0;
    for (uint64_t byte = 0; byte < number_bytes; ++byte) bits |= uint32_t{bytes[byte]} << 8 * byte;
    return operand.number(bits);
  };
  const auto is_set = [&](size_t operand) { return the_same(i.operands[operand]) != 0; };
  const size_t last = i.operands.size() - 1;
  if (!acc.whole && (the_same(i.operands[4]) != 1 || the_same(i.operands[5]) != 1))
    throw std::runtime_error("negated operands are not supported");
  const uint64_t left = in_registers ? 0 : the_same(i.operands[1]), right = the_same(i.operands[2]);
  expect_alike(i, left, right);
  const uint64_t base =
      SharedMemory::kBase / kUnit;  // descriptors count from the start of the CTA's window
  double a[kRows][kMostDepth];
  if (in_registers) {
    const auto& fragment = i.operands[1].parts;
    if (fragment.size() != 4)
      throw std::runtime_error("an operand in registers has four registers");
    for (int reg = 0; reg < 4; ++reg) {
      const Lanes words = read(fragment[reg], kAllLanes);
      for (int lane = 0; lane < kLanes; ++lane)
        for (int n = 0; n < first.each(); ++n)
          a[MmaOperand::row(lane) + 8 * (reg % 2)][first.k(lane, n, reg / 2)] =
              first.at(words[lane], n);
    }
    for (const Operand& part : fragment) pending_[part.reg] = products_.committed + 1;
  } else {
    const Descriptor from(left - base, number_bytes, wide && is_set(last - 1));
    for (int row = 0; row < kRows; ++row)
      for (int k = 0; k < depth; ++k)
        a[row][k] = load(from, first, static_cast<uint64_t>(number_ % kGroupWarps * kRows + row),
                         static_cast<uint64_t>(k));
  }
  const Descriptor from(right - base, number_bytes, wide && is_set(last));
  const bool adds = is_set(3);
  for (int column = 0; column < i.columns; column += 8) {
    double b[kMostDepth][8];
    for (int k = 0; k < depth; ++k)
      for (int n = 0; n < 8; ++n)
        b[k][n] = load(from, second, static_cast<uint64_t>(column + n), static_cast<uint64_t>(k));
    for (int reg = 0; reg < 4; ++reg) {
      const int at = i.operands[0].parts[column / 2 + reg].reg;
      if (adds && defined_[at] != kAllLanes)
        throw std::runtime_error("the accumulator is read before it is written");
      defined_[at] = kAllLanes;
      pending_[at] = products_.committed + 1;
      for (int lane = 0; lane < kLanes; ++lane) {
        const int row = lane / 4 + 8 * (reg / 2), n = lane % 4 * 2 + reg % 2;
        double sum = adds ? acc.number(registers_[at][lane]) : 0.0;
        for (int k = 0; k < depth; ++k) sum += a[row][k] * b[k][n];
        registers_[at][lane] = acc.bits(sum);
      }
    }
  }
}

void Warp::group_wait(const Instruction& i) {
  const uint64_t pending = i.operands[0].constant[0];
  if (products_.open) throw std::runtime_error("wgmma.wait_group before the commit");
  if (products_.agent == 0 || products_.committed <= pending) return;
  products_.waited = std::max(products_.waited, products_.committed - pending);
  order_.seen.raise(make_epoch(products_.agent, products_.waited));
}

}  // namespace ligerdsl::test::ptx
