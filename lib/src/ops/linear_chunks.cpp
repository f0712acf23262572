#include "lib/src/ops/linear_chunks.h"

#include <algorithm>
#include <bit>

#include "kernels/launch.h"
#include "lib/src/plan.h"

namespace ligerdsl::lib {

namespace {

using kernels::ceil_div;
using kernels::round_up;

constexpr double kDefaultLimit = 512 << 20;  // bytes
constexpr int64_t kChunkAlign = 128;         // rows: a multiple of every matrix library's tile
constexpr int64_t kRowAlign = 128;           // bytes between rows of logits: aligned rows whatever the vocabulary
constexpr int64_t kChunkBuffers = 3;         // logits, x, d_x: each may be rounded up to the workspace's alignment

int64_t signed_bytes(size_t bytes) {
  return static_cast<int64_t>(bytes);
}

}  // namespace

int64_t LinearChunks::logits_stride() const {
  return round_up(o_.classes, kRowAlign / size_of(o_.product_type));
}

int64_t LinearChunks::bytes_of_row() const {
  const int64_t copies = converts() ? 1 + (o_.with_d_x ? 1 : 0) : 0;
  return (logits_stride() + copies * o_.cols) * size_of(o_.product_type);
}

bool LinearChunks::sums_beside(int64_t rows, int64_t chunk) const {
  return o_.with_d_weight && o_.d_weight_type != DType::f32 && (converts() || chunk < rows);
}

LinearLayout LinearChunks::place(int64_t rows, int64_t chunk) const {
  LinearLayout l;
  l.chunk = chunk;
  l.logits_stride = logits_stride();
  l.add_up_d_weight = sums_beside(rows, chunk);
  const auto take = [&](int64_t elements, DType type) {
    const size_t at = l.bytes;
    l.bytes += static_cast<size_t>(round_up(elements * size_of(type), static_cast<int64_t>(kWorkspaceAlign)));
    return at;
  };
  const DType type = o_.product_type;
  l.counts = take(4, DType::f32);
  l.row_loss = take(rows, DType::f32);
  l.row_z_loss = take(rows, DType::f32);
  l.row_accuracy = take(rows, DType::f32);
  l.products = take(rows > 0 ? signed_bytes(o_.product_workspace) : 0, DType::i8);
  l.logits = take(chunk * l.logits_stride, type);
  l.x = take(converts() ? chunk * o_.cols : 0, type);
  l.d_x = take(converts() && o_.with_d_x ? chunk * o_.cols : 0, type);
  l.weight = take(converts() && rows > 0 ? o_.classes * o_.cols : 0, type);
  l.d_weight = take(l.add_up_d_weight ? o_.classes * o_.cols : 0, DType::f32);
  l.d_bias = take(o_.with_d_bias && o_.d_bias_type != DType::f32 ? o_.classes : 0, DType::f32);
  return l;
}

// As many rows as the limit leaves room for, spread evenly over the chunks.
int64_t LinearChunks::chunk_by_workspace(int64_t rows) const {
  const int64_t of_row = bytes_of_row();
  const int64_t sums = sums_beside(rows, 1) && !sums_beside(rows, rows) ? o_.classes * o_.cols * 4 : 0;
  const double hidden = static_cast<double>(rows) * static_cast<double>(o_.cols * size_of(o_.type));
  int64_t room = static_cast<int64_t>(std::min(16 * hidden, kDefaultLimit));
  if (o_.max_workspace_bytes > 0) {
    const int64_t fixed = signed_bytes(place(rows, 0).bytes) - (sums_beside(rows, 0) ? sums : 0);
    room = o_.max_workspace_bytes - fixed - kChunkBuffers * signed_bytes(kWorkspaceAlign);
    if (rows * of_row <= room) return rows;
    room -= sums;
  } else if (rows * of_row <= room + sums) {
    return rows;  // cutting would save less than the sums take
  }
  int64_t most = std::clamp<int64_t>(room / of_row, 1, rows);
  if (most == rows) return rows;
  if (most >= kChunkAlign) most = most / kChunkAlign * kChunkAlign;
  const int64_t even = ceil_div(rows, ceil_div(rows, most));
  return most >= kChunkAlign ? round_up(even, kChunkAlign) : even;
}

int64_t LinearChunks::chunk_of(int64_t rows) const {
  if (rows == 0) return 0;
  if (o_.chunk_rows > 0) return std::min(rows, o_.chunk_rows);
  if (o_.rule == ChunkRule::by_workspace) return chunk_by_workspace(rows);
  const int64_t wanted = ceil_div(rows, ceil_div(o_.classes, o_.cols));
  return std::min(rows, static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(wanted))));
}

LinearLayout LinearChunks::layout(int64_t rows) const {
  return place(rows, chunk_of(rows));
}

}  // namespace ligerdsl::lib
