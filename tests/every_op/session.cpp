#include "tests/every_op/session.h"

#include <dlfcn.h>
#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <stdexcept>

namespace ligerdsl::test {
namespace {

Session current;

// Sets the path of the compiler library. The library would look for it next to its own code, which
// is linked into this program.
void find_compiler() {
  namespace fs = std::filesystem;
  std::error_code error;
  fs::path folder = fs::read_symlink("/proc/self/exe", error).parent_path();
  for (int up = 0; up < 4 && !error; ++up, folder = folder.parent_path()) {
    const fs::path file = folder / "lib" / "libligerdsl-compiler.so";
    if (fs::exists(file, error)) {
      setenv("LIGERDSL_COMPILER", file.c_str(), 0);
      return;
    }
  }
}

const char* library_of_driver() {
  const char* named = std::getenv("LIGERDSL_LIBCUDA");
  return named && *named ? named : "libcuda.so.1";
}

}  // namespace

void must(ligerdsl_status_t status, const char* what) {
  if (status == LIGERDSL_SUCCESS) return;
  throw std::runtime_error(std::string(what) + ": " + ligerdsl_status_name(status) + ": " +
                           ligerdsl_last_error());
}

const Session& session() {
  return current;
}

ContextHandle::ContextHandle() {
  ligerdsl_context_config_t config = LIGERDSL_CONTEXT_CONFIG_INIT;
  config.device = session().device();
  must(ligerdsl_context_create(&config, &handle_), "ligerdsl_context_create");
}

StreamHandle::StreamHandle(ligerdsl_context_t context) : context_(context) {
  if (session().cuda) must(ligerdsl_stream_create(context, &handle_), "ligerdsl_stream_create");
}

StreamHandle::~StreamHandle() {
  if (handle_) (void)!ligerdsl_stream_destroy(context_, handle_);
}

Memory::Memory(ligerdsl_context_t context, size_t bytes, bool sparse)
    : context_(context), bytes_(bytes), mapped_(sparse && !session().cuda) {
  if (!mapped_) {
    must(ligerdsl_buffer_alloc(context, bytes, &data_), "ligerdsl_buffer_alloc");
    return;
  }
  data_ = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
               -1, 0);
  if (data_ == MAP_FAILED)
    throw std::runtime_error("mmap of " + std::to_string(bytes) + " bytes failed");
}

Memory::~Memory() {
  if (mapped_)
    munmap(data_, bytes_);
  else
    (void)!ligerdsl_buffer_free(context_, data_);
}

void* driver_symbol(const char* name) {
  static void* const library = dlopen(library_of_driver(), RTLD_NOW);
  void* symbol = library ? dlsym(library, name) : nullptr;
  if (!symbol)
    throw std::runtime_error(std::string(library_of_driver()) + ": " +
                             (library ? "has no function " : "cannot be opened to find ") + name);
  return symbol;
}

int start_session(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    if (std::strncmp(argv[i], "--device=", 9) == 0)
      current.cuda = std::strcmp(argv[i] + 9, "cuda") == 0;
    if (std::strncmp(argv[i], "--rows=", 7) == 0) current.rows = std::atoll(argv[i] + 7);
  }
  current.emulated =
      current.cuda && std::string(library_of_driver()).find("emulated_cuda") != std::string::npos;
  find_compiler();
  try {
    const ContextHandle probe;
  } catch (const std::exception& error) {
    std::printf("[SKIP] %s\n", error.what());
    return current.cuda ? 77 : 1;  // 77 makes CTest skip: only a GPU may be missing
  }
  return 0;
}

}  // namespace ligerdsl::test
