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

// Returns the number of elements from the first element in memory to the last, both included.
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

int64_t read_integer(DType type, const uint8_t* from) {
  switch (type) {
    case DType::i1:
      return *from != 0;
    case DType::i8:
      return read<int8_t>(from);
    case DType::i16:
      return read<int16_t>(from);
    case DType::i32:
      return read<int32_t>(from);
    default:
      return read<int64_t>(from);
  }
}

void write_integer(DType type, uint8_t* to, int64_t value) {
  switch (type) {
    case DType::i1:
      return write<uint8_t>(to, value != 0);
    case DType::i8:
      return write(to, static_cast<int8_t>(value));
    case DType::i16:
      return write(to, static_cast<int16_t>(value));
    case DType::i32:
      return write(to, static_cast<int32_t>(value));
    default:
      return write(to, value);
  }
}

// `count` elements at equal distances of `step` bytes.
struct Run {
  uint8_t* begin;
  int64_t count, step;
};

void read_run(DType type, const Run& run, double* to) {
  const auto each = [&](const auto& value_at) {
    const uint8_t* from = run.begin;
    for (int64_t i = 0; i < run.count; ++i, from += run.step)
      to[i] = static_cast<double>(value_at(from));
  };
  switch (type) {
    case DType::bf16:
      return each([](const uint8_t* at) { return from_bf16(read<uint16_t>(at)); });
    case DType::f16:
      return each([](const uint8_t* at) { return from_f16(read<uint16_t>(at)); });
    case DType::f32:
      return each([](const uint8_t* at) { return read<float>(at); });
    case DType::f8e4m3:
      return each([](const uint8_t* at) { return from_fp8(kE4m3, *at); });
    case DType::f8e5m2:
      return each([](const uint8_t* at) { return from_fp8(kE5m2, *at); });
    default:
      return each([&](const uint8_t* at) { return read_integer(type, at); });
  }
}

void write_run(DType type, const Run& run, const double* from) {
  const auto each = [&](const auto& put) {
    uint8_t* to = run.begin;
    for (int64_t i = 0; i < run.count; ++i, to += run.step) put(to, from[i]);
  };
  switch (type) {
    case DType::bf16:
      return each([](uint8_t* at, double value) { write(at, to_bf16(static_cast<float>(value))); });
    case DType::f16:
      return each([](uint8_t* at, double value) { write(at, to_f16(static_cast<float>(value))); });
    case DType::f32:
      return each([](uint8_t* at, double value) { write(at, static_cast<float>(value)); });
    case DType::f8e4m3:
      return each([](uint8_t* at, double value) { write(at, to_fp8(kE4m3, value)); });
    case DType::f8e5m2:
      return each([](uint8_t* at, double value) { write(at, to_fp8(kE5m2, value)); });
    default:
      return each(
          [&](uint8_t* at, double value) { write_integer(type, at, static_cast<int64_t>(value)); });
  }
}

}  // namespace

Storage::Storage(int64_t elements_bytes) : bytes_(elements_bytes + 2 * kCanary, kPoison) {
  begin_ = bytes_.data();
  size_ = static_cast<int64_t>(bytes_.size());
}

std::shared_ptr<Storage> Storage::sparse(int64_t elements_bytes) {
  std::shared_ptr<Storage> out(new Storage);
  out->size_ = elements_bytes + 2 * kCanary;
  void* memory = mmap(nullptr, out->size_, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED)
    throw std::runtime_error("mmap of " + std::to_string(out->size_) + " bytes failed");
  out->begin_ = static_cast<uint8_t*>(memory);
  return out;
}

Storage::Storage(const Storage& other)
    : bytes_(other.bytes_), begin_(bytes_.data()), size_(other.size_) {
  if (is_sparse()) throw std::logic_error("a sparse storage cannot be copied");
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
  // The gap after the last row also belongs to the storage.
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
  double value = 0;
  read_run(type_, {element(i), 1, 0}, &value);
  return value;
}

void Tensor::set(int64_t i, double value) {
  write_run(type_, {element(i), 1, 0}, &value);
}

int64_t Tensor::get_integer(int64_t i) const {
  if (is_float(type_)) throw std::logic_error("get_integer of a float tensor");
  return read_integer(type_, element(i));
}

void Tensor::set_integer(int64_t i, int64_t value) {
  if (is_float(type_)) throw std::logic_error("set_integer of a float tensor");
  write_integer(type_, element(i), value);
}

// Calls body(i, run) for each row. One call per element would be too slow for the tests.
template <class Body>
void Tensor::for_each_run(const Body& body) const {
  const int64_t n = size(), length = shape_.empty() ? 1 : shape_.back();
  const int64_t step = (shape_.empty() ? 1 : strides_.back()) * size_of(type_);
  for (int64_t i = 0; i < n; i += length) body(i, Run{element(i), length, step});
}

Values Tensor::values() const {
  Values out(size());
  for_each_run([&](int64_t i, const Run& run) { read_run(type_, run, &out[i]); });
  return out;
}

Tensor& Tensor::fill(const Values& values) {
  if (static_cast<int64_t>(values.size()) < size())
    throw std::out_of_range("too few values for a tensor");
  for_each_run([&](int64_t i, const Run& run) { write_run(type_, run, &values[i]); });
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
  const int64_t bytes = size_of(type_),
                other_step = (shape_.empty() ? 1 : other.strides_.back()) * bytes;
  bool same = true;
  for_each_run([&](int64_t i, const Run& run) {
    const uint8_t* there = other.element(i);
    if (run.step == bytes && other_step == bytes) {
      same = same && std::memcmp(run.begin, there, run.count * bytes) == 0;
      return;
    }
    for (int64_t j = 0; j < run.count; ++j)
      same = same && std::memcmp(run.begin + j * run.step, there + j * other_step, bytes) == 0;
  });
  return same;
}

bool Tensor::untouched_outside() const {
  std::vector<uint8_t> outside(storage_->size(), 0xff);
  const uint8_t* begin = storage_->begin();
  for_each_run([&](int64_t, const Run& run) {
    uint8_t* to = outside.data() + (run.begin - begin);
    if (run.step == size_of(type_)) {
      std::memset(to, 0, run.count * run.step);
      return;
    }
    for (int64_t j = 0; j < run.count; ++j) std::memset(to + j * run.step, 0, size_of(type_));
  });
  uint8_t touched = 0;
  for (size_t i = 0; i < outside.size(); ++i) touched |= outside[i] & (begin[i] ^ kPoison);
  return touched == 0;
}

}  // namespace ligerdsl::test
