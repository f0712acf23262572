// The target on which a test body runs its operations: the reference interpreter, the CPU, a GPU,
// or an emulated GPU. Test programs accept
// --backend=interpreter|interpreter-nvptx|cpu|cuda|ptx|ptx-cluster2|ptx-cluster4|ptx-sm80
// (main.cpp). Test bodies adapt to the backend's budget and machine; only a few read its name.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kernels/core/launch.h"
#include "tests/support/tensor.h"

namespace ligerdsl::test {

// Tensors and scalars of an Operation, by name.
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
  // Largest number of elements that a test case should process on this backend.
  virtual int64_t budget() const = 0;
  // Factor by which errors of long f32 additions may exceed those of compiled code.
  virtual double summation_slack() const { return 1; }
  // Sets the number of CPU threads of the backend `cpu`. Other backends ignore it.
  virtual void set_threads(int) {}
  // Returns the names of programs launched since the last call of this function with a variant
  // other than `aligned` and `contiguous` (kernels/core/argument_facts.h). Backends that cannot
  // observe the variant return none.
  virtual std::vector<std::string> took_generic() { return {}; }

  // Runs all launches of the operation in order. Each run gets new scratch buffers filled with
  // poison.
  void run(const kernels::Operation& operation, int64_t rows, Arguments arguments);

 protected:
  virtual void launch(const kernels::Step& step, const kernels::Grid& grid,
                      const Arguments& arguments) = 0;
};

// The new backend, or null with the reason why it is not available.
struct BackendChoice {
  std::unique_ptr<Backend> backend;
  std::string why;
};

// An entry in the list of backends that are linked into this program. The source file of a backend
// defines a static BackendEntry.
struct BackendEntry {
  BackendEntry(const char* name, BackendChoice (*make)());
};
BackendChoice make_backend(const std::string& name);

Backend& backend();  // main() sets it
void set_backend(std::unique_ptr<Backend> backend);

}  // namespace ligerdsl::test
