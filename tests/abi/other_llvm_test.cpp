// The library works next to a second LLVM with global symbols, loaded before or after the
// compiler's LLVM.
#include <dlfcn.h>

#include <numeric>

#include "support.h"

namespace ligerdsl::test::other_llvm_test {
namespace {

void load_other_llvm() {
  void* library = dlopen(OTHER_LLVM, RTLD_NOW | RTLD_GLOBAL);
  ASSERT_NE(library, nullptr) << dlerror();
  using Create = void* (*)();
  const auto create = reinterpret_cast<Create>(dlsym(library, "LLVMContextCreate"));
  ASSERT_NE(create, nullptr);
  EXPECT_NE(create(), nullptr);
}

// Uses a new context and no disk cache, so that every call compiles.
void add(int64_t n) {
  Context context = Context::cpu(1);
  Owned a(LIGERDSL_F32, {n}), b(LIGERDSL_F32, {n}), out(LIGERDSL_F32, {n});
  std::iota(a.floats(), a.floats() + n, 0.0f);
  std::fill_n(b.floats(), n, 0.5f);
  VectorAddArgs args = vector_add_args();
  args.a = a;
  args.b = b;
  args.out = out;
  vector_add(context, vector_add_desc(), args);
  for (int64_t i = 0; i < n; ++i) ASSERT_EQ(out.floats()[i], static_cast<float>(i) + 0.5f) << i;
}

TEST(OtherLlvm, LoadedBefore) {
  setenv("LIGERDSL_CACHE", "off", 1);
  load_other_llvm();
  add(1000);
}

TEST(OtherLlvm, LoadedAfter) {
  setenv("LIGERDSL_CACHE", "off", 1);
  add(1000);
  load_other_llvm();
  add(500);
}

}  // namespace
}  // namespace ligerdsl::test::other_llvm_test
