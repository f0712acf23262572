// Host tensors for tests. They may have any strides. Gaps contain poison, and canaries surround the
// memory.
//
// Memory of a Storage: canary | elements including gaps | canary. New elements and gaps contain the
// byte 0xff, which gives NaN in every float type and -1 in every integer type. A kernel that reads
// a gap therefore gives a wrong result. Tensor::untouched_outside() detects writes to gaps and
// canaries.
#pragma once

#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <vector>

#include "kernels/core/reference_values.h"
#include "ligerdsl/dtype.h"
#include "tests/support/fp8.h"
#include "tests/support/half.h"

namespace ligerdsl::test {

using namespace reference;  // float64 references, and Values
using Sizes = std::vector<int64_t>;

inline constexpr int64_t kCanary = 256;  // bytes before and after the elements
inline constexpr uint8_t kPoison = 0xff;

class Storage {
 public:
  explicit Storage(int64_t elements_bytes);
  // Returns a storage for tensors of many gigabytes. Its memory reads as zero, and pages are
  // committed only when written.
  static std::shared_ptr<Storage> sparse(int64_t elements_bytes);
  Storage(const Storage& other);  // throws for a sparse storage
  Storage& operator=(const Storage&) = delete;
  ~Storage();

  uint8_t* begin() const { return begin_; }
  int64_t size() const { return size_; }
  bool is_sparse() const { return bytes_.empty(); }

 private:
  Storage() = default;
  std::vector<uint8_t> bytes_;
  uint8_t* begin_ = nullptr;
  int64_t size_ = 0;
};

class Tensor {
 public:
  Tensor() = default;
  // A tensor with the given strides in elements, or a contiguous one. `shift` is the number of
  // elements between the canary and the first element.
  explicit Tensor(DType type, Sizes shape, Sizes strides = {}, int64_t shift = 0);
  // An [n, cols] tensor with `gap` poisoned elements after each row.
  static Tensor rows(DType type, int64_t n, int64_t cols, int64_t gap = 0, int64_t shift = 0) {
    return Tensor(type, {n, cols}, {cols + gap, 1}, shift);
  }
  static Tensor sparse(DType type, Sizes shape, Sizes strides);  // two dimensions
  // Returns a tensor with other dimensions in the same memory. It starts `offset` elements after
  // the first element of this tensor.
  Tensor view(Sizes shape, Sizes strides, int64_t offset = 0) const;

  DType type() const { return type_; }
  const Sizes& shape() const { return shape_; }
  const Sizes& strides() const { return strides_; }
  int64_t size() const;  // elements
  uint8_t* data() const { return storage_->begin() + byte_offset(); }
  const std::shared_ptr<Storage>& storage() const { return storage_; }
  int64_t byte_offset() const { return kCanary + offset_ * size_of(type_); }

  double get(int64_t i) const;  // i is the row-major index
  void set(int64_t i, double value);
  int64_t get_integer(int64_t i) const;
  void set_integer(int64_t i, int64_t value);

  Values values() const;
  Tensor& fill(const Values& values);  // rounds the values to the type
  Tensor& fill(const std::vector<int64_t>& values);
  Tensor clone() const;                       // a copy in new memory, gaps included
  bool same_bits(const Tensor& other) const;  // ignores gaps
  // Returns true if nothing has overwritten the canaries and gaps.
  bool untouched_outside() const;

 private:
  void allocate(bool sparse, int64_t shift);
  int64_t position(int64_t i) const;
  template <class Body>
  void for_each_run(
      const Body& body) const;  // body(index of the run's first element, run), for each row
  uint8_t* element(int64_t i) const { return data() + position(i) * size_of(type_); }

  std::shared_ptr<Storage> storage_;
  DType type_ = f32;
  Sizes shape_, strides_;
  int64_t offset_ = 0;  // elements
};

}  // namespace ligerdsl::test
