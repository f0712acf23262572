// Keeps every static object of libligerdsl-compiler.so alive when the process exits.
//
// A compile may run on another thread while main() returns. Nearly everything that it uses has a
// static lifetime: LLVM's command-line options, registries and target machines, MLIR's type ids.
// C++ registers their destructors by __cxa_atexit, and this definition ignores the registrations.
// That is safe because the library is never unloaded (-z nodelete), and these objects hold only
// memory. The linker resolves every call in this library, including LLVM's archives, to this
// definition. It is hidden from other libraries.
extern "C" __attribute__((visibility("hidden"))) int __cxa_atexit(void (*)(void*), void*,
                                                                  void*) noexcept {
  return 0;
}
