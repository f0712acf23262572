// Helpers of the runtime's tests: a scratch folder, the fakes, and expectations about errors.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "fake_cuda.h"
#include "runtime/device/device.h"
#include "runtime/system/status.h"

namespace ligerdsl::runtime::test {

// A new temporary folder. The destructor removes it.
class TempFolder {
 public:
  TempFolder();
  ~TempFolder();
  TempFolder(const TempFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Returns the controls of the fake driver. Settings of the driver's version and devices apply to
// drivers opened afterwards.
const FakeCudaControl& fake_cuda();
std::shared_ptr<const Driver> fake_driver();  // opens the driver again

std::shared_ptr<CompilerLibrary> fake_compiler();
int64_t fake_compiles();       // compiles since the process started
int64_t fake_modules_alive();  // number of loaded CPU modules

// Returns a device on the fake compiler and driver. Its disk cache is in `folder`.
std::shared_ptr<Device> fake_cpu(const std::string& folder, int32_t threads = 2);
std::shared_ptr<Device> fake_gpu(const std::string& folder);

// Collects the library's warnings while the object exists.
class Warnings {
 public:
  Warnings();
  ~Warnings();
  Warnings(const Warnings&) = delete;
  std::vector<std::string> lines;

 private:
  int id_;
};

// True in sanitizer builds. Sanitizers reserve much memory and address space, so these builds
// skip tests of such limits.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

// Runs `work` and expects an Error with this status. Returns the error's message.
std::string expect_error(Status status, const std::function<void()>& work);

// Runs `work` in a forked child. Returns true if `work` returns true within a minute, without a
// failed expectation or an exception.
bool passes_in_child(const std::function<bool()>& work);

// Runs one disabled test of this program in a new process with these environment variables added.
// Writes its stderr to the file `errors_to`, if given. Returns true if the test passed.
bool passes_with(const std::string& name, const std::vector<std::string>& variables,
                 const std::string& errors_to = "");

int count_files(const std::string& folder, const std::string& ending);
int count(const std::string& text, const std::string& part);

std::string read_file(const std::string& path);
void write_file(const std::string& path, const std::string& content);

}  // namespace ligerdsl::runtime::test
