// A typed, strided view of memory on the training device. Ops owns the memory (Ops::allocate).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>

namespace train {

enum class Type { f32, bf16, i32, i64 };

inline int64_t size_of(Type type) {
  return type == Type::bf16 ? 2 : type == Type::i64 ? 8 : 4;
}

struct Tensor {
  void* data = nullptr;
  Type type = Type::f32;
  int rank = 0;
  std::array<int64_t, 4> shape{}, stride{};  // strides in elements

  Tensor() = default;
  // Makes a contiguous tensor; the last dimension has stride 1.
  Tensor(void* data, Type type, std::initializer_list<int64_t> dims) : data(data), type(type) {
    for (int64_t dim : dims) shape[rank++] = dim;
    int64_t step = 1;
    for (int i = rank; i-- > 0; step *= shape[i]) stride[i] = step;
  }

  int64_t size() const {
    int64_t n = 1;
    for (int i = 0; i < rank; ++i) n *= shape[i];
    return n;
  }
  int64_t bytes() const { return size() * size_of(type); }

  // Returns a contiguous view of the same memory from element `offset` on, with other dimensions.
  Tensor view(std::initializer_list<int64_t> dims, int64_t offset = 0) const {
    return Tensor(static_cast<std::byte*>(data) + offset * size_of(type), type, dims);
  }
  // Returns a view of the same memory from element `offset` on, with these dimensions and strides.
  Tensor strided(std::initializer_list<int64_t> dims, std::initializer_list<int64_t> strides,
                 int64_t offset) const {
    Tensor t = view(dims, offset);
    int i = 0;
    for (int64_t s : strides) t.stride[i++] = s;
    return t;
  }
  // Returns the first `count` rows.
  Tensor rows(int64_t count) const {
    Tensor t = *this;
    t.shape[0] = count;
    return t;
  }
};

}  // namespace train
