#include "tests/support/tensor.h"

#include <sys/mman.h>

#include <stdexcept>

namespace ligerdsl::test {
namespace {

Sizes contiguous(const Sizes& shape) {
  Sizes strides(shape.size());
  int64_t step = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    strides[i] = step;
    step *= shape[i];
  }
  return strides;
}

// Elements from the first to one past the last.
int64_t extent(const Sizes& shape, const Sizes& strides) {
  int64_t last = 0;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == 0) return 0;
    last += (shape[i] - 1) * strides[i];
  }
  return last + 1;
}

template <class T>
T read(const uint8_t* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

template <class T>
void write(uint8_t* to, T value) {
  std::memcpy(to, &value, sizeof value);
}

}  // namespace

Storage::Storage(int64_t elements_bytes) : bytes_(elements_bytes + 2 * kCanary, kPoison) {
  begin_ = bytes_.data();
  size_ = static_cast<int64_t>(bytes_.size());
}

std::shared_ptr<Storage> Storage::sparse(int64_t elements_bytes) {
  std::shared_ptr<Storage> out(new Storage);
  out->size_ = elements_bytes + 2 * kCanary;
  void* memory = mmap(nullptr, out->size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::runtime_error("mmap of " + std::to_string(out->size_) + " bytes failed");
  out->begin_ = static_cast<uint8_t*>(memory);
  return out;
}

Storage::Storage(const Storage& other) : bytes_(other.bytes_), begin_(bytes_.data()), size_(other.size_) {
  if (is_sparse()) throw std::logic_error("a sparse storage is not copied");
}

Storage::~Storage() {
  if (is_sparse()) munmap(begin_, size_);
}

Tensor::Tensor(DType type, Sizes shape, Sizes strides, int64_t shift)
    : type_(type), shape_(std::move(shape)), strides_(std::move(strides)), offset_(shift) {
  if (strides_.empty()) strides_ = contiguous(shape_);
  allocate(false, shift);
}

Tensor Tensor::sparse(DType type, Sizes shape, Sizes strides) {
  Tensor out;
  out.type_ = type;
  out.shape_ = std::move(shape);
  out.strides_ = std::move(strides);
  out.allocate(true, 0);
  return out;
}

void Tensor::allocate(bool sparse, int64_t shift) {
  // The gap behind the last row belongs to the tensor too.
  const bool rows = shape_.size() > 1 && shape_.back() > 0;
  const int64_t tail = rows ? std::max<int64_t>(0, strides_[shape_.size() - 2] - shape_.back()) : 0;
  const int64_t bytes = (extent(shape_, strides_) + shift + tail) * size_of(type_);
  storage_ = sparse ? Storage::sparse(bytes) : std::make_shared<Storage>(bytes);
}

Tensor Tensor::view(Sizes shape, Sizes strides, int64_t offset) const {
  Tensor out = *this;
  out.shape_ = std::move(shape);
  out.strides_ = std::move(strides);
  out.offset_ += offset;
  return out;
}

int64_t Tensor::size() const {
  int64_t n = 1;
  for (int64_t dim : shape_) n *= dim;
  return n;
}

int64_t Tensor::position(int64_t i) const {
  int64_t at = 0;
  for (size_t d = shape_.size(); d-- > 0;) {
    at += i % shape_[d] * strides_[d];
    i /= shape_[d];
  }
  return at;
}

double Tensor::get(int64_t i) const {
  const uint8_t* from = element(i);
  switch (type_) {
    case DType::bf16:
      return from_bf16(read<uint16_t>(from));
    case DType::f16:
      return from_f16(read<uint16_t>(from));
    case DType::f32:
      return read<float>(from);
    case DType::f8e4m3:
      return from_fp8(kE4m3, *from);
    case DType::f8e5m2:
      return from_fp8(kE5m2, *from);
    default:
      return static_cast<double>(get_integer(i));
  }
}

void Tensor::set(int64_t i, double value) {
  uint8_t* to = element(i);
  switch (type_) {
    case DType::bf16:
      return write(to, to_bf16(static_cast<float>(value)));
    case DType::f16:
      return write(to, to_f16(static_cast<float>(value)));
    case DType::f32:
      return write(to, static_cast<float>(value));
    case DType::f8e4m3:
      return write(to, to_fp8(kE4m3, value));
    case DType::f8e5m2:
      return write(to, to_fp8(kE5m2, value));
    default:
      return set_integer(i, static_cast<int64_t>(value));
  }
}

int64_t Tensor::get_integer(int64_t i) const {
  const uint8_t* from = element(i);
  switch (type_) {
    case DType::i1:
      return *from != 0;
    case DType::i8:
      return read<int8_t>(from);
    case DType::i16:
      return read<int16_t>(from);
    case DType::i32:
      return read<int32_t>(from);
    case DType::i64:
      return read<int64_t>(from);
    default:
      throw std::logic_error("get_integer of a float tensor");
  }
}

void Tensor::set_integer(int64_t i, int64_t value) {
  uint8_t* to = element(i);
  switch (type_) {
    case DType::i1:
      return write<uint8_t>(to, value != 0);
    case DType::i8:
      return write(to, static_cast<int8_t>(value));
    case DType::i16:
      return write(to, static_cast<int16_t>(value));
    case DType::i32:
      return write(to, static_cast<int32_t>(value));
    case DType::i64:
      return write(to, value);
    default:
      throw std::logic_error("set_integer of a float tensor");
  }
}

Values Tensor::values() const {
  Values out(size());
  for (int64_t i = 0; i < size(); ++i) out[i] = get(i);
  return out;
}

Tensor& Tensor::fill(const Values& values) {
  for (int64_t i = 0; i < size(); ++i) set(i, values.at(i));
  return *this;
}

Tensor& Tensor::fill(const std::vector<int64_t>& values) {
  for (int64_t i = 0; i < size(); ++i) set_integer(i, values.at(i));
  return *this;
}

Tensor Tensor::clone() const {
  Tensor out = *this;
  out.storage_ = std::make_shared<Storage>(*storage_);
  return out;
}

bool Tensor::same_bits(const Tensor& other) const {
  if (shape_ != other.shape_ || type_ != other.type_) return false;
  for (int64_t i = 0; i < size(); ++i) {
    if (std::memcmp(element(i), other.element(i), size_of(type_)) != 0) return false;
  }
  return true;
}

bool Tensor::untouched_outside() const {
  std::vector<bool> ours(storage_->size(), false);
  const uint8_t* begin = storage_->begin();
  for (int64_t i = 0; i < size(); ++i) {
    for (int64_t b = 0; b < size_of(type_); ++b) ours[element(i) - begin + b] = true;
  }
  for (size_t i = 0; i < ours.size(); ++i) {
    if (!ours[i] && begin[i] != kPoison) return false;
  }
  return true;
}

}  // namespace ligerdsl::test
