// Where a test body runs its operations: the reference interpreter, the CPU target, a GPU, or an emulator of one. Test
// programs take --backend=interpreter|interpreter-nvptx|cpu|cuda|ptx|ptx-cluster2|ptx-cluster4|ptx-sm80 (main.cpp); a
// test body never asks which one it got, only what it can afford.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kernels/core/launch.h"
#include "tests/support/tensor.h"

namespace ligerdsl::test {

// The caller's side of an Operation: tensors and scalars by name.
class Arguments {
 public:
  struct Entry {
    std::string name;
    Tensor tensor;
    double number = 0;    // scalars
    int64_t integer = 0;  // scalars
    bool is_tensor = false;
  };

  Arguments& tensor(const std::string& name, const Tensor& tensor);
  Arguments& number(const std::string& name, double value);
  Arguments& integer(const std::string& name, int64_t value);
  const Entry& find(const std::string& name) const;  // throws on an unknown name

 private:
  std::vector<Entry> entries_;
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string name() const = 0;
  virtual kernels::Machine machine() const = 0;
  // Elements that one test case may process in reasonable time.
  virtual int64_t budget() const = 0;
  // How much worse than compiled code's its long f32 sums may be.
  virtual double summation_slack() const { return 1; }
  // Changes how many threads a CPU uses; backends without threads ignore it.
  virtual void set_threads(int) {}
  // The programs that since the last call were launched as other variants than that of aligned arguments
  // (kernels/core/argument_facts.h), where the choice can be seen.
  virtual std::vector<std::string> took_generic() { return {}; }

  // Runs all launches in order. Scratch buffers are fresh and poisoned.
  void run(const kernels::Operation& operation, int64_t rows, Arguments arguments);

 protected:
  virtual void launch(const kernels::Step& step, const kernels::Grid& grid, const Arguments& arguments) = 0;
};

// What making a backend gave: null when it is not available here, and then `why` says why.
struct BackendChoice {
  std::unique_ptr<Backend> backend;
  std::string why;
};

// The backends linked into this program, by name. A backend's file registers it with a static BackendEntry.
struct BackendEntry {
  BackendEntry(const char* name, BackendChoice (*make)());
};
BackendChoice make_backend(const std::string& name);

Backend& backend();  // set by main
void set_backend(std::unique_ptr<Backend> backend);

}  // namespace ligerdsl::test
