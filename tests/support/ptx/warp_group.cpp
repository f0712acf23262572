// wgmma: every warp of a group of four makes its rows of the product. Sums and factors in registers, and bytes in shared
// memory, are the tensor cores' from the instruction on until the warp has waited.
#include <bit>
#include <stdexcept>

#include "tests/support/fp8.h"
#include "tests/support/half.h"
#include "tests/support/ptx/warp.h"

namespace ligerdsl::test::ptx {
namespace {

constexpr int kRows = 16, kMostDepth = 32, kGroupWarps = 4;  // of a warp, of an instruction
constexpr uint64_t kUnit = 16;                               // bytes

// PTX ISA, "Matrix Descriptor". Rows are those of m or n, unless transposed.
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
  // Of the number of row (or column) `at` of m or n, and of k, in the CTA's shared memory.
  uint64_t address(uint64_t at, uint64_t k) const {
    // Groups of eight rows of a panel are `stride` apart, panels `leading`.
    const uint64_t row = transposed_ ? k : at, column = transposed_ ? at : k, width = panel_ / number_;
    if (!transposed_ && column >= width) throw std::runtime_error("a descriptor's k leaves its panel");
    const uint64_t plain =
        begin_ + row % 8 * panel_ + row / 8 * stride_ + column / width * leading_ + column % width * number_;
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
  if (!first && entry->second != product) throw std::runtime_error("the warps of a wgmma have different descriptors");
}

void Warp::group_multiply(const Instruction& i) {
  if (!group_fenced_) throw std::runtime_error("wgmma without wgmma.fence before");
  const bool is_f16 = i.opcode.find(".f16") != std::string::npos, is_fp8 = i.opcode.find("k32") != std::string::npos;
  const bool in_registers = i.operands[1].kind == Operand::Kind::vector;
  const int depth = is_fp8 ? 32 : 16;
  const uint64_t bytes_of_number = is_fp8 ? 1 : 2;
  const auto number = [&](uint64_t bits) {
    const auto half = static_cast<uint16_t>(bits);
    return static_cast<double>(is_f16 ? from_f16(half) : from_bf16(half));
  };
  // Of the first factor and of the second.
  const std::string formats = i.opcode.substr(i.opcode.find(".f32.") + 5);
  const auto of_code = [&](uint8_t code, bool second) {
    const bool e5m2 = formats.substr(second ? 5 : 0, 4) == "e5m2";
    return from_fp8(e5m2 ? kE5m2 : kE4m3, code);
  };
  const auto the_same = [&](const Operand& o) {
    const Lanes& values = read(o, kAllLanes);
    for (uint64_t value : values)
      if (value != values[0]) throw std::runtime_error("the threads of a wgmma have different operands");
    return values[0];
  };
  const Epoch done = open_group(products_, "a wgmma of ");
  const auto load = [&](const Descriptor& from, bool second, uint64_t at, uint64_t k) {
    const uint64_t address = SharedMemory::kBase + from.address(at, k);
    cta_.shared.borrow(address, bytes_of_number, order_, done);
    const uint8_t* bytes = cta_.shared.bytes(address);
    if (is_fp8) return of_code(bytes[0], second);
    return number(bytes[0] | static_cast<uint64_t>(bytes[1]) << 8);
  };
  const auto is_set = [&](size_t operand) { return the_same(i.operands[operand]) != 0; };
  const size_t last = i.operands.size() - 1;
  if (the_same(i.operands[4]) != 1 || the_same(i.operands[5]) != 1) throw std::runtime_error("factors are not negated");
  const uint64_t left = in_registers ? 0 : the_same(i.operands[1]), right = the_same(i.operands[2]);
  expect_alike(i, left, right);
  const uint64_t base = SharedMemory::kBase / kUnit;  // of the CTA's window, which descriptors count from
  double a[kRows][kMostDepth];
  if (in_registers) {
    const auto& fragment = i.operands[1].parts;
    if (fragment.size() != 4) throw std::runtime_error("a factor in registers has four");
    for (int reg = 0; reg < 4; ++reg) {
      const Lanes pairs = read(fragment[reg], kAllLanes);
      for (int lane = 0; lane < kLanes; ++lane)
        for (int half = 0; half < 2; ++half)
          a[lane / 4 + 8 * (reg % 2)][lane % 4 * 2 + half + 8 * (reg / 2)] = number(pairs[lane] >> 16 * half);
    }
    for (const Operand& part : fragment) pending_[part.reg] = products_.committed + 1;
  } else {
    const Descriptor from(left - base, bytes_of_number, !is_fp8 && is_set(last - 1));
    for (int row = 0; row < kRows; ++row)
      for (int k = 0; k < depth; ++k)
        a[row][k] =
            load(from, false, static_cast<uint64_t>(number_ % kGroupWarps * kRows + row), static_cast<uint64_t>(k));
  }
  const Descriptor from(right - base, bytes_of_number, !is_fp8 && is_set(last));
  const bool adds = is_set(3);
  for (int column = 0; column < i.columns; column += 8) {
    double b[kMostDepth][8];
    for (int k = 0; k < depth; ++k)
      for (int n = 0; n < 8; ++n)
        b[k][n] = load(from, true, static_cast<uint64_t>(column + n), static_cast<uint64_t>(k));
    for (int reg = 0; reg < 4; ++reg) {
      const int at = i.operands[0].parts[column / 2 + reg].reg;
      if (adds && defined_[at] != kAllLanes) throw std::runtime_error("a sum is read before it is written");
      defined_[at] = kAllLanes;
      pending_[at] = products_.committed + 1;
      for (int lane = 0; lane < kLanes; ++lane) {
        const int row = lane / 4 + 8 * (reg / 2), n = lane % 4 * 2 + reg % 2;
        double sum = adds ? std::bit_cast<float>(static_cast<uint32_t>(registers_[at][lane])) : 0.0;
        for (int k = 0; k < depth; ++k) sum += a[row][k] * b[k][n];
        registers_[at][lane] = std::bit_cast<uint32_t>(static_cast<float>(sum));
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
