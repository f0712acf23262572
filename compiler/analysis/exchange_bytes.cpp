#include "compiler/analysis/exchange_bytes.h"

#include "compiler/analysis/shared_buffer.h"
#include "compiler/dialect/layout_attr.h"
#include "compiler/layout/conversion.h"
#include "compiler/layout/matrix_read.h"
#include "compiler/layout/swizzle.h"

using namespace mlir;

namespace ligerdsl::compiler {
namespace {

constexpr int64_t kAlignment =
    16;  // alignment of a buffer in bytes; also the bytes of a pair of mbarriers

// Returns the number of padding elements after each row.
int64_t rowPad(RankedTensorType type, const LinearLayout& from, const LinearLayout& to) {
  if (type.getRank() < 2) return 0;
  const int last = static_cast<int>(type.getRank()) - 1;
  // Padding does not help if lanes 0 and 1 access one row in both layouts.
  auto firstLaneInRow = [&](const LinearLayout& layout) {
    const auto& lane = layout.bases(Axis::lane);
    return lane.empty() || lane[0] == LinearLayout::Basis(layout.rank(), 0) || lane[0][last] != 0;
  };
  if (firstLaneInRow(from) && firstLaneInRow(to)) return 0;
  int64_t bytes = sharedElementBytes(type.getElementType());
  return std::max<int64_t>(std::max<int64_t>(from.contiguous(), to.contiguous()), 4 / bytes);
}

// Returns the swizzle width, in bytes, for an exchange between matmul fragments and vectors, or 0
// for other exchanges. In a fragment, four lanes hold 16 consecutive bytes (32 for f32) of each of
// eight rows. If a row's length is a power of two, these bytes of all eight rows would be in the
// same four banks (eight for f32). Swizzled rows avoid these conflicts (for f32 in pairs), and the
// other side still accesses whole 16-byte vectors.
int64_t swizzle(RankedTensorType type, const LinearLayout& from, const LinearLayout& to) {
  if (type.getRank() != 2 || from.ctas() > 1 || !type.getElementType().isIntOrFloat() ||
      (type.getElementTypeBitWidth() != 16 && type.getElementTypeBitWidth() != 32))
    return 0;
  const int64_t bytes = sharedElementBytes(type.getElementType());
  const auto isOfVectors = [&](const LinearLayout& layout) {
    return layout.contiguous(1) * bytes >= Swizzle::kUnit;
  };
  const auto isOfFragments = [](const LinearLayout& layout) {
    const std::optional<MatrixRead> read = matrixRead(layout);
    return read && !read->transposed;
  };
  if (!(isOfFragments(from) && isOfVectors(to)) && !(isOfVectors(from) && isOfFragments(to)))
    return 0;
  if (type.getNumElements() * bytes <= kMostAlternatingBytes) return 0;
  return Swizzle::widest(type.getDimSize(0), type.getDimSize(1) * bytes);
}

int64_t tileBytes(RankedTensorType type) {
  return type.getNumElements() * sharedElementBytes(type.getElementType());
}

// Returns the bytes of an exchange's buffers. A small exchange, or one between CTAs, alternates
// between two buffers.
int64_t withAlternation(int64_t buffer, int64_t wholeTile, bool amongCtas) {
  const int64_t inCta = buffer <= kMostAlternatingBytes ? 2 * buffer : buffer;
  return std::max(inCta, amongCtas ? 2 * wholeTile : 0) + kAlignment;
}

int64_t bytesOf(tgpu::ConvertLayoutOp op) {
  auto source = cast<RankedTensorType>(op.getSource().getType()),
       result = cast<RankedTensorType>(op.getType());
  if (!passesMemory(op)) return 0;
  const tgpu::MemDescType buffer = exchangeBuffer(source, result);
  return withAlternation(bufferBytes(buffer), tileBytes(source),
                         travel(layoutOf(source), layoutOf(result)) == Travel::cluster) +
         bufferAlignment(buffer) - kLeastAlignment;
}

// Returns the bytes for a reduction, which exchanges one value per warp along the axis. Row padding
// at most doubles them.
int64_t bytesOf(tile::ReduceOp op) {
  int64_t bytes = 0;
  for (Value source : op.getSources()) {
    auto type = cast<RankedTensorType>(source.getType());
    const LinearLayout layout = layoutOf(type);
    const BitMasks along = layout.along(static_cast<int>(op.getAxis()));
    if (along.warp == 0 && along.cta == 0) return 0;
    const int64_t values = int64_t{1} << (llvm::popcount(along.warp) + llvm::popcount(along.cta));
    const int64_t partials = tileBytes(type) / type.getDimSize(op.getAxis()) * values;
    bytes +=
        withAlternation(type.getRank() == 1 ? partials : 2 * partials, partials, along.cta != 0);
  }
  return bytes;
}

// Returns the bytes for a scan, which converts to a layout whose axis is within a warp, and back.
// Row padding at most doubles them.
int64_t bytesOf(tile::ScanOp op) {
  int64_t bytes = 0;
  for (Value source : op.getSources()) {
    auto type = cast<RankedTensorType>(source.getType());
    bytes += 2 * withAlternation(type.getRank() == 1 ? tileBytes(type) : 2 * tileBytes(type),
                                 tileBytes(type), layoutOf(type).ctas() > 1);
  }
  return bytes;
}

}  // namespace

bool staysInWarp(tile::ShuffleXorOp op) {
  const Place partner = shufflePartner(layoutOf(op.getSource()), op.getAxis(), op.getMask());
  return partner.warp == 0 && partner.cta == 0;
}

bool passesMemory(tgpu::ConvertLayoutOp op) {
  const LinearLayout from = layoutOf(op.getSource()), to = layoutOf(op.getResult());
  const Type element = getElementTypeOrSelf(op.getType());
  const bool isWord = element.isIntOrFloat() && element.getIntOrFloatBitWidth() == 32;
  return travel(from, to) > Travel::registers && !(isWord && bitSwap(from, to));
}

tgpu::MemDescType exchangeBuffer(RankedTensorType source, RankedTensorType result) {
  RankedTensorType type = source;
  std::optional<RankedTensorType> from = partOfCta(source), to = partOfCta(result);
  const bool sameCut = layoutOf(source).bases(Axis::cta) == layoutOf(result).bases(Axis::cta);
  if (sameCut && from && to) type = *from;
  if (const int64_t bytes = swizzle(type, layoutOf(source), layoutOf(result)))
    return tgpu::MemDescType::get(source.getContext(), type.getShape(), type.getElementType(), 0,
                                  bytes);
  return tgpu::MemDescType::get(source.getContext(), type.getShape(), type.getElementType(),
                                rowPad(type, layoutOf(source), layoutOf(result)));
}

// Returns the bytes of all buffers that are in use at the same time:
// - A gather reads its buffer immediately, so the next gather may reuse the memory. Small buffers
//   (kUnsharedBytes) are not reused.
// - Other exchanges may be in progress together if they are in one block. Exchanges of different
//   blocks are not, so the largest block counts.
// - Alternating buffers, buffers that several blocks use, and buffers for exchanges between CTAs
//   are reserved in the whole kernel, so those of all blocks are added.
int64_t exchangeBytes(Operation* scope, const Conversions& vanishing) {
  auto kernel = dyn_cast<func::FuncOp>(scope);
  if (!kernel) kernel = scope->getParentOfType<func::FuncOp>();
  int64_t lasting = 0, most = 0;
  kernel.walk([&](Block* block) {
    const bool inScope = scope->isAncestor(block->getParentOp());
    int64_t together = 0;
    for (Operation& op : *block) {
      if (auto alloc = dyn_cast<tgpu::LocalAllocOp>(op);
          alloc &&
          llvm::any_of(op.getUsers(), [&](Operation* user) { return user->getBlock() != block; }))
        lasting += llvm::alignTo(bufferBytes(alloc.getType()), kLeastAlignment);
      if (op.getNumOperands() == 0 || !hasLayout(op.getOperand(0).getType())) continue;
      int64_t bytes = 0;
      if (auto conversion = dyn_cast<tgpu::ConvertLayoutOp>(op))
        bytes = vanishing.contains(&op) ? 0 : bytesOf(conversion);
      if (auto reduce = dyn_cast<tile::ReduceOp>(op)) bytes = bytesOf(reduce);
      if (auto scan = dyn_cast<tile::ScanOp>(op)) bytes = bytesOf(scan);
      auto shuffle = dyn_cast<tile::ShuffleXorOp>(op);
      if (isa<tile::GatherOp>(op) || (shuffle && !staysInWarp(shuffle))) {
        const int64_t read = tileBytes(cast<RankedTensorType>(op.getOperand(0).getType()));
        if (read <= kUnsharedBytes)
          lasting += read + kAlignment;
        else if (inScope)
          most = std::max(most, read + kAlignment);
      }
      // If a store immediately follows the conversion, the buffer is free before the next exchange.
      if (isa<tgpu::ConvertLayoutOp>(op) && isa_and_nonnull<tile::StoreTileOp>(op.getNextNode()) &&
          !isa_and_nonnull<tgpu::ConvertLayoutOp>(op.getPrevNode()) &&
          bytes > 2 * kMostAlternatingBytes + kAlignment) {
        if (inScope) most = std::max(most, bytes);
        continue;
      }
      const bool lasts =
          bytes <= 2 * kMostAlternatingBytes + kAlignment || layoutOf(op.getOperand(0)).ctas() > 1;
      (lasts ? lasting : together) += bytes;
    }
    if (inScope) most = std::max(most, together);
  });
  return lasting + most;
}

}  // namespace ligerdsl::compiler
