#include "oracle.h"

#include "ligerdsl/dtype.h"
#include "tests/support/fp8.h"

namespace ligerdsl::testing {

double readElement(const void* data, DType dtype, size_t i) {
  switch (dtype) {
    case DType::i1:
      return static_cast<const uint8_t*>(data)[i];
    case DType::i8:
      return static_cast<const int8_t*>(data)[i];
    case DType::i16:
      return static_cast<const int16_t*>(data)[i];
    case DType::i32:
      return static_cast<const int32_t*>(data)[i];
    case DType::i64:
      return static_cast<double>(static_cast<const int64_t*>(data)[i]);
    case DType::f16:
      return fromF16(static_cast<const uint16_t*>(data)[i]);
    case DType::bf16:
      return fromBf16(static_cast<const uint16_t*>(data)[i]);
    case DType::f8e4m3:
      return test::from_fp8(test::kE4m3, static_cast<const uint8_t*>(data)[i]);
    case DType::f8e5m2:
      return test::from_fp8(test::kE5m2, static_cast<const uint8_t*>(data)[i]);
    case DType::f32:
      return static_cast<const float*>(data)[i];
  }
  return NAN;
}

void writeElement(void* data, DType dtype, size_t i, double value) {
  switch (dtype) {
    case DType::i1:
      static_cast<uint8_t*>(data)[i] = value != 0;
      break;
    case DType::i8:
      static_cast<int8_t*>(data)[i] = static_cast<int8_t>(value);
      break;
    case DType::i16:
      static_cast<int16_t*>(data)[i] = static_cast<int16_t>(value);
      break;
    case DType::i32:
      static_cast<int32_t*>(data)[i] = static_cast<int32_t>(value);
      break;
    case DType::i64:
      static_cast<int64_t*>(data)[i] = static_cast<int64_t>(value);
      break;
    case DType::f16:
      static_cast<uint16_t*>(data)[i] = toF16(static_cast<float>(value));
      break;
    case DType::bf16:
      static_cast<uint16_t*>(data)[i] = toBf16(static_cast<float>(value));
      break;
    case DType::f8e4m3:
      static_cast<uint8_t*>(data)[i] = test::to_fp8(test::kE4m3, value);
      break;
    case DType::f8e5m2:
      static_cast<uint8_t*>(data)[i] = test::to_fp8(test::kE5m2, value);
      break;
    case DType::f32:
      static_cast<float*>(data)[i] = static_cast<float>(value);
      break;
  }
}

std::vector<double> randomNumbers(size_t count, unsigned seed, double low, double high) {
  std::vector<float> floats =
      randomFloats(count, seed, static_cast<float>(low), static_cast<float>(high));
  return std::vector<double>(floats.begin(), floats.end());
}

std::vector<double> randomIntegers(size_t count, unsigned seed, int64_t low, int64_t high) {
  std::mt19937_64 engine(seed);
  std::uniform_int_distribution<int64_t> distribution(low, high);
  std::vector<double> values(count);
  for (double& value : values) value = static_cast<double>(distribution(engine));
  return values;
}

program::CompileOptions distinct(size_t arguments) {
  std::vector<uint32_t> classes(arguments);
  for (size_t i = 0; i < arguments; ++i) classes[i] = static_cast<uint32_t>(i + 1);
  return aliasing(classes);
}

Case& Case::view(DType dtype, const std::vector<double>& elements, std::vector<int64_t> dims,
                 std::vector<int64_t> strides) {
  Argument& argument = arguments.emplace_back();
  argument.dtype = dtype;
  argument.count = elements.size();
  argument.words.resize((elements.size() * size_of(dtype) + 7) / 8 + 1);
  for (size_t i = 0; i < elements.size(); ++i)
    writeElement(argument.words.data(), dtype, i, elements[i]);
  if (strides.empty()) {
    strides.resize(dims.size());
    int64_t stride = 1;
    for (size_t i = dims.size(); i-- > 0; stride *= dims[i]) strides[i] = stride;
  }
  argument.dims = std::move(dims);
  argument.strides = std::move(strides);
  return *this;
}

Case& Case::out(DType dtype, std::vector<int64_t> dims, std::vector<int64_t> strides) {
  int64_t count = 1;
  for (size_t i = 0; i < dims.size(); ++i)
    count = strides.empty() ? count * dims[i] : count + (dims[i] - 1) * strides[i];
  return view(dtype, std::vector<double>(count + 16, dtype == DType::i1 ? 1 : 7), std::move(dims),
              std::move(strides));
}

Case& Case::pointer(DType dtype, const std::vector<double>& elements) {
  view(dtype, elements, {});
  arguments.back().isPointer = true;
  return *this;
}

Case& Case::scalar(DType dtype, double value) {
  Argument& argument = arguments.emplace_back();
  argument.dtype = dtype;
  argument.isScalar = true;
  argument.number = value;
  return *this;
}

void Case::check(const std::function<void(KernelBuilder&)>& build, std::vector<int32_t> grid,
                 Tolerance tolerance, std::vector<program::CompileOptions> optionSets) {
  grid.resize(3, 1);
  KernelBuilder k("kernel");
  build(k);
  program::Program program = k.finish();
  std::vector<Argument> expected = arguments;
  interpreter::Arguments in;
  for (Argument& argument : expected) {
    if (argument.isScalar && is_float(argument.dtype))
      in.scalar(argument.dtype, argument.number);
    else if (argument.isScalar)
      in.scalar(argument.dtype, static_cast<int64_t>(argument.number));
    else if (argument.isPointer)
      in.pointer(argument.words.data(), argument.count * size_of(argument.dtype));
    else
      in.view(argument.words.data(), argument.dtype, argument.dims, argument.strides);
  }
  interpreter::run(program, in, {grid[0], grid[1], grid[2]});

  for (const program::CompileOptions& options : optionSets) {
    std::vector<Argument> actual = arguments;
    Slots slots;
    for (Argument& argument : actual) {
      uint64_t word = 0;
      if (argument.isScalar) {
        writeElement(&word, argument.dtype, 0, argument.number);
        slots.value(word);
      } else if (argument.isPointer) {
        slots.value(argument.words.data());
      } else {
        slots.view(argument.words.data(), argument.dims, argument.strides);
      }
    }
    CpuKernel kernel(build, options);
    kernel.run(slots, grid);
    for (size_t a = 0; a < actual.size(); ++a) {
      for (size_t i = 0; i < actual[a].count; ++i) {
        double x = readElement(actual[a].words.data(), actual[a].dtype, i);
        double y = readElement(expected[a].words.data(), expected[a].dtype, i);
        bool same = x == y || (std::isnan(x) && std::isnan(y)) ||
                    std::fabs(x - y) <= tolerance.absolute + tolerance.relative * std::fabs(y);
        ASSERT_TRUE(same) << "argument " << a << " element " << i << ": got " << x << ", expected "
                          << y << " (" << options.facts.size() << " facts)";
      }
    }
  }
}

}  // namespace ligerdsl::testing
