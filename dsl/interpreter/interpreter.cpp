#include "interpreter/interpreter.h"

#include <optional>

#include "interpreter/access_log.h"
#include "interpreter/convert.h"
#include "interpreter/machine.h"
#include "ligerdsl/dsl/error.h"
#include "program/serialize.h"

namespace ligerdsl::interpreter {

void Arguments::range(const void* data, size_t bytes) {
  const auto begin = reinterpret_cast<uintptr_t>(data);
  if (bytes > 0) ranges_.push_back({begin, begin + bytes});
}

void Arguments::view(void* data, DType dtype, const std::vector<int64_t>& dims,
                     const std::vector<int64_t>& strides) {
  if (dims.size() != strides.size())
    throw Error("error: a view needs one stride per dimension, got " +
                std::to_string(strides.size()) + " strides for " + std::to_string(dims.size()) +
                " dimensions");
  slots_.push_back(reinterpret_cast<uintptr_t>(data));
  int64_t last = 0;
  bool empty = false;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] < 0 || strides[i] < 0)
      throw Error("error: dimension " + std::to_string(i) + " of a view has size " +
                  std::to_string(dims[i]) + " and stride " + std::to_string(strides[i]) +
                  ", expected 0 or more");
    empty = empty || dims[i] == 0;
    last += (dims[i] - 1) * strides[i];
  }
  slots_.insert(slots_.end(), dims.begin(), dims.end());
  slots_.insert(slots_.end(), strides.begin(), strides.end());
  const int64_t bytes = memory_ == Memory::wide ? 8 : size_of(dtype);
  range(data, empty ? 0 : (last + 1) * bytes);
}

void Arguments::pointer(void* data, size_t bytes) {
  slots_.push_back(reinterpret_cast<uintptr_t>(data));
  range(data, bytes);
}

void Arguments::scalar(DType dtype, double value) {
  slots_.push_back(0);
  if (is_float(dtype)) {
    write_float(dtype, &slots_.back(), value);
  } else {
    write_integer(dtype, &slots_.back(), static_cast<int64_t>(value));
  }
}

void Arguments::scalar(DType dtype, int64_t value) {
  slots_.push_back(0);
  if (is_float(dtype)) {
    write_float(dtype, &slots_.back(), static_cast<double>(value));
  } else {
    write_integer(dtype, &slots_.back(), value);
  }
}

void run(const program::Program& program, const Arguments& arguments, Grid grid,
         const Options& options, AccessLog* log) {
  std::optional<AccessLog> own;
  if (options.find_races && !log) log = &own.emplace(program, arguments);
  Machine machine(program, arguments, options, grid, log);
  for (int64_t z = 0; z < grid.z; ++z) {
    for (int64_t y = 0; y < grid.y; ++y) {
      for (int64_t x = 0; x < grid.x; ++x) machine.run_program({x, y, z});
    }
  }
}

void run(const std::string& program, const Arguments& arguments, Grid grid,
         const Options& options) {
  run(program::parseProgram(program), arguments, grid, options);
}

}  // namespace ligerdsl::interpreter
