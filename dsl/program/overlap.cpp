// Compares two tensors modulo their common row stride, if both consist of rows [count, width] with
// this stride. This proves that slices of one buffer are disjoint, such as q and k of a fused
// projection.
#include "program/overlap.h"

#include <algorithm>

namespace ligerdsl::program {

namespace {

struct Rows {
  int64_t count = 1, stride = 0, width = 1;  // in elements
  bool regular = true;
};

bool empty(const Strided& t) {
  return std::any_of(t.dims, t.dims + t.rank, [](int64_t d) { return d == 0; });
}

// Sorts the dimensions by stride, largest first, and omits those of size 1.
int sorted_dims(const Strided& t, int64_t (&dims)[kMaxViewRank], int64_t (&strides)[kMaxViewRank]) {
  int n = 0;
  for (int i = 0; i < t.rank; ++i) {
    if (t.dims[i] == 1) continue;
    int at = n++;
    for (; at > 0 && strides[at - 1] < t.strides[i]; --at) {
      dims[at] = dims[at - 1];
      strides[at] = strides[at - 1];
    }
    dims[at] = t.dims[i];
    strides[at] = t.strides[i];
  }
  return n;
}

Rows rows_of(const Strided& t) {
  int64_t dims[kMaxViewRank], strides[kMaxViewRank];
  int n = sorted_dims(t, dims, strides);
  Rows rows;
  while (n > 0 && strides[n - 1] == rows.width) rows.width *= dims[--n];  // the contiguous tail
  if (n == 0) {
    rows.stride = rows.width;
    return rows;
  }
  rows.stride = strides[n - 1];
  rows.count = dims[n - 1];
  for (--n; n > 0 && rows.regular; --n) {
    rows.regular = strides[n - 1] == rows.stride * rows.count;
    rows.count *= dims[n - 1];
  }
  rows.regular = rows.regular && n == 0 && rows.stride >= rows.width;
  return rows;
}

// Returns true if the same indices refer to the same element in both. Ignores strides of dimensions
// of size 1.
bool same(const Strided& a, const Strided& b) {
  if (a.data != b.data || a.dtype != b.dtype || a.rank != b.rank) return false;
  for (int i = 0; i < a.rank; ++i) {
    if (a.dims[i] != b.dims[i] || (a.dims[i] > 1 && a.strides[i] != b.strides[i])) return false;
  }
  return true;
}

}  // namespace

int64_t span_bytes(const Strided& t) {
  int64_t last = 0;
  for (int i = 0; i < t.rank; ++i) {
    if (t.dims[i] == 0) return 0;
    last += (t.dims[i] - 1) * t.strides[i];
  }
  return (last + 1) * size_of(t.dtype);
}

Overlap overlap(const Strided& a, const Strided& b) {
  if (empty(a) || empty(b)) return Overlap::none;
  if (a.data + span_bytes(a) <= b.data || b.data + span_bytes(b) <= a.data) return Overlap::none;
  if (same(a, b)) return Overlap::exact;
  const Rows ra = rows_of(a), rb = rows_of(b);
  const int64_t size_a = size_of(a.dtype), size_b = size_of(b.dtype);
  const int64_t stride =
      std::max(ra.count > 1 ? ra.stride * size_a : 0, rb.count > 1 ? rb.stride * size_b : 0);
  const bool common = (ra.count == 1 || ra.stride * size_a == stride) &&
                      (rb.count == 1 || rb.stride * size_b == stride);
  if (!ra.regular || !rb.regular || !common || stride == 0) return Overlap::other;
  int64_t offset = (b.data - a.data) % stride;
  if (offset < 0) offset += stride;
  const bool disjoint = offset >= ra.width * size_a && offset + rb.width * size_b <= stride;
  return disjoint ? Overlap::none : Overlap::other;
}

bool injective(const Strided& t) {
  int64_t dims[kMaxViewRank], strides[kMaxViewRank];
  const int n = sorted_dims(t, dims, strides);
  int64_t reach = 0;  // largest offset in the dimensions with smaller strides
  for (int i = n - 1; i >= 0; --i) {
    if (strides[i] <= reach) return empty(t);
    reach += (dims[i] - 1) * strides[i];
  }
  return true;
}

}  // namespace ligerdsl::program
