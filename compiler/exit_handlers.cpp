// Nothing of libligerdsl-compiler.so is destroyed when the process exits.
//
// A compile may run on another thread while main() returns, and nearly all that it uses has a static lifetime: LLVM's
// command-line options, registries and target machines, MLIR's type ids. The library is never unloaded (-z nodelete)
// and none of these objects holds more than memory, so their destructors are registered here, where they are forgotten.
// The linker resolves every call in this library, LLVM's archives included, to this definition; it is hidden from
// others.
extern "C" __attribute__((visibility("hidden"))) int __cxa_atexit(void (*)(void*), void*, void*) noexcept {
  return 0;
}
