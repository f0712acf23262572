/* The one symbol that libligerdsl-compiler.so exports: a table of C functions.
   dsl/program/serialize.h defines the bytes. Every function may be called from any thread. Returned
   buffers are freed with free_bytes. */
#ifndef LIGERDSL_COMPILER_API_H_
#define LIGERDSL_COMPILER_API_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LIGERDSL_COMPILER_API_VERSION 1u
#define LIGERDSL_COMPILER_ENTRY "ligerdsl_compiler_entry"
#define LIGERDSL_COMPILER_NO_MEMORY 3
#define LIGERDSL_OUT_OF_MEMORY "out of memory" /* prefix of the reason if an allocation fails */

typedef struct ligerdsl_bytes {
  uint8_t* data;
  size_t size;
} ligerdsl_bytes;

typedef struct ligerdsl_cpu_module ligerdsl_cpu_module; /* a loaded CPU object */

typedef struct ligerdsl_compiler_table {
  uint32_t api_version;
  const char* build_id; /* must equal libligerdsl's */
  const char* llvm_version;
  /* 0: *artifact holds a serialised Artifact. Otherwise *error holds a diagnostic, UTF-8 text, with
     the author's locations: 1 = the program or options are wrong, 2 = internal error (a bug in the
     compiler), LIGERDSL_COMPILER_NO_MEMORY = an allocation failed. A fatal error inside LLVM calls
     the hook of set_fatal_hook instead of returning. */
  int32_t (*compile)(const uint8_t* program, size_t program_size, const uint8_t* options,
                     size_t options_size, ligerdsl_bytes* artifact, ligerdsl_bytes* error);
  /* Links a CPU artifact's object into this process; *entry is its CpuEntry. Returns the status as
     compile does. */
  int32_t (*cpu_load)(const uint8_t* object, size_t object_size, const char* entry_name,
                      ligerdsl_cpu_module** module, void** entry, ligerdsl_bytes* error);
  void (*cpu_unload)(ligerdsl_cpu_module* module);
  /* LLVM's name and feature string of this host's CPU: part of the cache key. */
  const char* (*host_cpu)(void);
  const char* (*host_features)(void);
  void (*free_bytes)(ligerdsl_bytes bytes);
  /* Sets the process-wide hook, once, before the first compile. LLVM's fatal-error handler calls
     the hook, on the failing thread, instead of ending the process. The hook must not return: it
     reports to the waiting thread and parks its own. */
  void (*set_fatal_hook)(void (*hook)(const char* reason));
} ligerdsl_compiler_table;

/* The exported function: const ligerdsl_compiler_table *ligerdsl_compiler_entry(void); */
typedef const ligerdsl_compiler_table* (*ligerdsl_compiler_entry_fn)(void);

#ifdef __cplusplus
}
#endif
#endif /* LIGERDSL_COMPILER_API_H_ */
