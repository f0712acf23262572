/* libligerdsl: fused training kernels with a C ABI. C99 and C++11 or later; no other header is
 * needed.
 *
 * Every operation of ops.h has four parts:
 *   desc     versioned struct with dtypes, widths and options; decides which kernels are needed
 *   plan     created from a desc; holds every kernel that a later call needs; creating it may
 *            compile, load and access the disk
 *   execute  runs a plan on tensors; never allocates, synchronises or compiles, so a CUDA graph can
 *            capture it. Another library may run the matmuls of the fused linear losses: see ops.h
 *   call     looks up the plan in the context, fills the shape fields of the desc from the tensors,
 *            and provides the workspace. Its first use of a configuration creates the plan and may
 *            compile. A context keeps its 512 most recently used plans
 *
 * Threads:
 *   context, plan, kernel   any number of threads at the same time
 *   workspace               one call at a time
 *   destroy functions       wait for calls of other threads that use the handle (one may be
 *                           compiling); afterwards the handle is reported as dead and never
 *                           dereferenced
 *   last error              per thread
 *
 * End of the process: main may return, and any thread may call exit, while other threads are inside
 * the library. A context with static lifetime may be destroyed then.
 *
 * fork: a child may destroy the handles that it inherits, and exit, whatever the parent's threads
 * were doing. It may use a CPU context with its plans and kernels. They run on the calling thread
 * alone, and the first call allocates memory. A context that the child creates has its own threads.
 * FORKED_PROCESS is the status for a CUDA context created before the fork. It is also the status
 * for a call that must compile (or link, on a CPU) if another thread was compiling during the fork.
 *
 * Determinism: the same build, device model, shapes and options give the same bits with any number
 * of threads. */
#ifndef LIGERDSL_LIGERDSL_H_
#define LIGERDSL_LIGERDSL_H_

#include <stddef.h>
#include <stdint.h>

#include "ligerdsl/target.h"

#define LIGERDSL_VERSION_MAJOR 0
#define LIGERDSL_VERSION_MINOR 2
#define LIGERDSL_VERSION_PATCH 0
#define LIGERDSL_VERSION \
  (LIGERDSL_VERSION_MAJOR * 10000 + LIGERDSL_VERSION_MINOR * 100 + LIGERDSL_VERSION_PATCH)

#if defined(__GNUC__) && !defined(_WIN32)
#define LIGERDSL_API __attribute__((visibility("default")))
#define LIGERDSL_NODISCARD __attribute__((warn_unused_result))
#else
#define LIGERDSL_API
#define LIGERDSL_NODISCARD
#endif

/* Casts and null in the form of each language, so that the header causes no warnings in strict C or
 * C++ projects. */
#ifdef __cplusplus
#define LIGERDSL_CAST(type, value) static_cast<type>(value)
#define LIGERDSL_NULL nullptr
extern "C" {
#else
#define LIGERDSL_CAST(type, value) ((type)(value))
#define LIGERDSL_NULL NULL
#endif

/* ---- Status -------------------------------------------------------------------------------------
 * The thousands digit is the kind: 1 state of the process, 2 the caller's arguments, 3 not
 * available here, 4 compiler or library, 5 execution. Numbers are never reused. */
typedef int32_t ligerdsl_status_t;
enum {
  LIGERDSL_SUCCESS = 0,
  LIGERDSL_NOT_INITIALIZED = 1000,
  LIGERDSL_ABI_MISMATCH = 1001,
  LIGERDSL_FORKED_PROCESS =
      1002,                    /* CUDA was in use before fork(), or another thread was compiling */
  LIGERDSL_DEAD_HANDLE = 1003, /* the handle was destroyed or never existed */
  LIGERDSL_INVALID_ARGUMENT = 2000,
  LIGERDSL_INVALID_NULL_POINTER = 2001,
  LIGERDSL_INVALID_SHAPE = 2002,
  LIGERDSL_INVALID_DTYPE = 2003,
  LIGERDSL_INVALID_DEVICE = 2004,
  LIGERDSL_INVALID_ALIAS = 2005,
  LIGERDSL_INVALID_MISALIGNED = 2006,
  LIGERDSL_INVALID_LABEL = 2007, /* detected on the device; see ligerdsl_context_check */
  LIGERDSL_WORKSPACE_TOO_SMALL = 2008,
  LIGERDSL_INVALID_PROGRAM = 2009, /* in the bytes for ligerdsl_kernel_create */
  LIGERDSL_INVALID_BOUNDS = 2010,  /* of groups, sequences or a step; detected on the device */
  LIGERDSL_NOT_SUPPORTED = 3000,   /* also: libligerdsl-compiler.so was not found */
  LIGERDSL_NO_DEVICE = 3001,
  LIGERDSL_DRIVER_TOO_OLD = 3002,
  LIGERDSL_ARCH_NOT_SUPPORTED = 3003,
  LIGERDSL_CAPTURE_UNSAFE = 3004, /* would compile or allocate while the stream is being captured */
  LIGERDSL_INTERNAL_ERROR = 4000,
  LIGERDSL_COMPILE_FAILED = 4001,
  LIGERDSL_CACHE_ERROR = 4002, /* only when the cache is required */
  LIGERDSL_OUT_OF_HOST_MEMORY = 4003,
  LIGERDSL_EXECUTION_FAILED = 5000,
  LIGERDSL_OUT_OF_DEVICE_MEMORY = 5001,
  LIGERDSL_DRIVER_SHUTDOWN = 5002,
  LIGERDSL_STICKY_DEVICE_ERROR = 5003 /* caused by an earlier kernel of this process */
};
/* Returns the constant's name without its prefix, or "UNKNOWN_STATUS" for other numbers. Never
 * NULL. */
LIGERDSL_API const char* ligerdsl_status_name(ligerdsl_status_t status);
/* Returns the message of this thread's latest failing call: operation, argument, expected, got.
 * Never NULL. Valid until the thread's next failing call. */
LIGERDSL_API const char* ligerdsl_last_error(void);
LIGERDSL_API uint32_t
ligerdsl_version(void); /* version of the loaded library; compare with LIGERDSL_VERSION */
/* Returns the origin of the build: "0.2.0-0123456789abcdef commit HASH clean". The digest covers
 * all sources. "dirty" replaces "clean" if a source differs from the commit. "commit unknown" means
 * a build without git. Never NULL. */
LIGERDSL_API const char* ligerdsl_build_info(void);

/* ---- Tensors: the memory layout of DLPack's DLTensor ----------------------------------------- */

typedef struct ligerdsl_dtype {
  uint8_t code; /* 0 signed integer, 1 unsigned integer, 2 float, 4 bfloat, 6 bool, 10 and 12 fp8 */
  uint8_t bits;
  uint16_t lanes; /* 1 */
} ligerdsl_dtype_t;

typedef struct ligerdsl_device {
  int32_t type; /* LIGERDSL_CPU or LIGERDSL_CUDA */
  int32_t id;
} ligerdsl_device_t;
enum { LIGERDSL_CPU = 1, LIGERDSL_CUDA = 2 };

typedef struct ligerdsl_tensor {
  void* data;
  ligerdsl_device_t device;
  int32_t ndim;
  ligerdsl_dtype_t dtype;
  int64_t* shape;
  int64_t* strides; /* in elements; NULL = contiguous, last dimension fastest */
  uint64_t byte_offset;
} ligerdsl_tensor_t;

/* A dtype as one number, for the dtype fields of descriptors: code | bits << 8 | lanes << 16. Zero
 * means "none". In the one-call form it means "the tensor's dtype". */
enum {
  LIGERDSL_I8 = 0x00010800, /* I8, I16 and BOOL: for views of your own kernels */
  LIGERDSL_I16 = 0x00011000,
  LIGERDSL_BOOL = 0x00010806, /* one byte, 0 or 1; i1 in ligerdsl/dsl.h */
  LIGERDSL_I32 = 0x00012000,
  LIGERDSL_I64 = 0x00014000,
  LIGERDSL_F16 = 0x00011002,
  LIGERDSL_F32 = 0x00012002,
  LIGERDSL_BF16 = 0x00011004,
  LIGERDSL_F8E4M3 = 0x0001080a, /* without infinities; fp8 is for scaled matmuls and for
                                   views of your own kernels */
  LIGERDSL_F8E5M2 = 0x0001080c
};
static inline ligerdsl_dtype_t ligerdsl_dtype_of(int32_t code) {
  ligerdsl_dtype_t t;
  t.code = LIGERDSL_CAST(uint8_t, code & 0xff);
  t.bits = LIGERDSL_CAST(uint8_t, (code >> 8) & 0xff);
  t.lanes = LIGERDSL_CAST(uint16_t, (code >> 16) & 0xffff);
  return t;
}
/* Returns a contiguous tensor; `shape` must outlive it. */
static inline ligerdsl_tensor_t ligerdsl_tensor_make(void* data, ligerdsl_device_t device,
                                                     int32_t dtype, int32_t ndim, int64_t* shape) {
  ligerdsl_tensor_t t;
  t.data = data;
  t.device = device;
  t.ndim = ndim;
  t.dtype = ligerdsl_dtype_of(dtype);
  t.shape = shape;
  t.strides = LIGERDSL_NULL;
  t.byte_offset = 0;
  return t;
}

/* ---- Versioned structs --------------------------------------------------------------------------
 * Initialise with the struct's _INIT macro. The library accepts structs of an older header; fields
 * that they lack get defaults. */
#define LIGERDSL_MAGIC 0x4c494752u
#define LIGERDSL_STRUCT_HEADER \
  size_t struct_size;          \
  uint32_t magic;              \
  uint32_t version
#define LIGERDSL_HEADER_OF(type) sizeof(type), LIGERDSL_MAGIC, LIGERDSL_VERSION

/* ---- Context: a device and its plans --------------------------------------------------------- */

typedef struct ligerdsl_context* ligerdsl_context_t;
struct CUstream_st;                            /* cudaStream_t and CUstream point to it */
typedef struct CUstream_st* ligerdsl_stream_t; /* NULL = the default stream; ignored on a CPU, where
                                                  calls return when done */

typedef struct ligerdsl_context_config {
  LIGERDSL_STRUCT_HEADER;
  ligerdsl_device_t device;
  int32_t num_threads; /* CPU: threads, including the caller; 0 = LIGERDSL_NUM_THREADS, else one
                          per core that this process may use */
  uint32_t flags;      /* LIGERDSL_CTX_* */
  const char* cache_dir; /* NULL = LIGERDSL_CACHE_DIR and its defaults */
  void* user;            /* first argument of the functions below; any thread may call them */
  /* Allocator for long-lived host memory of a CPU context: buffers, scratch, arenas. `align` is a
   * power of two. Return NULL if there is no memory. Set both functions or neither; NULL uses the C
   * library. They must not throw. */
  void* (*host_alloc)(void* user, size_t bytes, size_t align);
  void (*host_free)(void* user, void* pointer);
  /* Receives the library's log lines up to LIGERDSL_LOG's level while the context lives; stderr
   * then gets none. `level`: 1 error, 2 warning, 3 info, 4 debug. Must not call the library. */
  void (*log)(void* user, int32_t level, const char* line);
  int64_t cache_limit_bytes; /* disk cache; 0 = LIGERDSL_CACHE_SIZE, else 1 GiB; evicts the least
                                recently used */
  /* Path of a table of tuned kernels (`ligerdsl tune --export`), which maps a plan's kernels to
   * configurations. It has precedence over the table in the library. ligerdsl_context_create reads
   * it; a file that is no table is INVALID_ARGUMENT. NULL = LIGERDSL_TABLE, else none.
   * LIGERDSL_TUNING=off ignores all tables, =same ignores entries that change bits of a result. */
  const char* table;
  /* Allocator for the workspace of the one-call form: memory of the context's device that one call
   * uses on its stream. The library frees it after it has launched the call's kernels. Reuse freed
   * memory in stream order only, as caching allocators do. The thread that calls the operation also
   * calls these functions, even while the stream is being captured. A captured call is then allowed
   * if its plan exists.
   *
   * The argument `align` is a power of two. Return NULL if there is no memory. Set both functions
   * or neither. NULL = memory of the context, which grows and is freed with the context. They must
   * not throw or call the library. */
  void* (*workspace_alloc)(void* user, size_t bytes, size_t align, ligerdsl_stream_t stream);
  void (*workspace_free)(void* user, void* pointer, ligerdsl_stream_t stream);
} ligerdsl_context_config_t;
enum {
  LIGERDSL_CTX_DETERMINISTIC =
      1, /* as LIGERDSL_DETERMINISTIC=1: reject authors' kernels that add floats atomically */
  LIGERDSL_CTX_NO_JIT =
      2, /* as LIGERDSL_NO_JIT=1: never compile; a kernel that is in no cache is
            NOT_SUPPORTED, and a plan's error has its line for `ligerdsl cache warm` */
  LIGERDSL_CTX_VALIDATE =
      4 /* as LIGERDSL_VALIDATE=1: wait for every call and check what it wrote */
};
#define LIGERDSL_CONTEXT_CONFIG_INIT                                                        \
  {                                                                                         \
    LIGERDSL_HEADER_OF(ligerdsl_context_config_t), {LIGERDSL_CPU, 0}, 0, 0u, LIGERDSL_NULL, \
        LIGERDSL_NULL, LIGERDSL_NULL, LIGERDSL_NULL, LIGERDSL_NULL, 0, LIGERDSL_NULL,       \
        LIGERDSL_NULL, LIGERDSL_NULL                                                        \
  }

/* Creates a context. A CUDA context retains the device's primary context. The caller's current
 * context is the same before and after every call. Errors: INVALID_ARGUMENT, NO_DEVICE,
 * INVALID_DEVICE, DRIVER_TOO_OLD, ARCH_NOT_SUPPORTED, FORKED_PROCESS. */
LIGERDSL_API LIGERDSL_NODISCARD ligerdsl_status_t
ligerdsl_context_create(const ligerdsl_context_config_t* config, ligerdsl_context_t* context);
/* Destroys a context; NULL is allowed. Waits for calls that use it. Plans and kernels created from
 * it stay valid. */
LIGERDSL_API void ligerdsl_context_destroy(ligerdsl_context_t context);
typedef struct {
  const char* operation; /* "cross_entropy", valid as long as the library; NULL: no fault */
  int64_t row; /* first row, group or sequence with a label, index or bounds out of range */
} ligerdsl_fault_t;
/* Reports the errors that kernels have detected so far. INVALID_LABEL: a label or an index was out
 * of range. INVALID_BOUNDS: offsets of groups, bounds of sequences or a step were out of range. The
 * message has the operation, the row (group, sequence) and the words "out of bounds". A call
 * reports one operation and clears its report; call again for the next one.
 *
 * Does not wait, and is allowed during a capture. Kernels that still run on a GPU may detect more
 * errors. `fault_bytes` is sizeof(ligerdsl_fault_t); a larger struct is zeroed beyond the known
 * fields. */
LIGERDSL_API LIGERDSL_NODISCARD ligerdsl_status_t ligerdsl_context_poll(ligerdsl_context_t context,
                                                                        ligerdsl_fault_t* fault,
                                                                        size_t fault_bytes);
/* Synchronises the stream, then reports as ligerdsl_context_poll does. */
LIGERDSL_API LIGERDSL_NODISCARD ligerdsl_status_t ligerdsl_context_check(ligerdsl_context_t context,
                                                                         ligerdsl_stream_t stream);
/* Returns the properties of the device, for kernels of your own. `target_bytes` is
 * sizeof(ligerdsl_target_t): nothing is written beyond it, and fields that this library does not
 * know are 0. */
LIGERDSL_API LIGERDSL_NODISCARD ligerdsl_status_t
ligerdsl_context_target(ligerdsl_context_t context, ligerdsl_target_t* target, size_t target_bytes);
/* Returns the tuned configuration of a kernel of your own: "block=4096 num_warps=8", valid as long
 * as the context. It comes from the table in the context's config, or from LIGERDSL_TABLE. It is ""
 * if no table has the kernel with these options for this device, or if LIGERDSL_TUNING is off or
 * same. The argument `options` is the text between the kernel and the @ in `ligerdsl table ls
 * FILE`. In C++ use ligerdsl::tuned (launch.hpp). */
LIGERDSL_API LIGERDSL_NODISCARD ligerdsl_status_t ligerdsl_context_tuned(ligerdsl_context_t context,
                                                                         const char* kernel,
                                                                         const char* options,
                                                                         const char** config);

/* Returns how many calls to an operation, in either form, succeeded on this context. `operation` is
 * "rms_norm_forward". A captured call counts once; replays of its graph do not count.
 * INVALID_ARGUMENT for an operation that ops.h does not have. */
LIGERDSL_API LIGERDSL_NODISCARD ligerdsl_status_t ligerdsl_context_calls(ligerdsl_context_t context,
                                                                         const char* operation,
                                                                         int64_t* calls);

/* ---- Plans ----------------------------------------------------------------------------------- */

typedef struct ligerdsl_plan* ligerdsl_plan_t;
/* Returns the bytes of workspace that execute needs for this number of rows (ops.h defines the rows
 * of an operation). The result depends only on the plan and the number. More rows never need less,
 * except for the fused linear losses, whose chunks differ.
 *
 * Returns SIZE_MAX for a dead handle, for a descriptor's limit that is too small, or for a number
 * of rows that no call can have. Execute then fails with INVALID_ARGUMENT for the limit, or with
 * INVALID_SHAPE for the rows. ligerdsl_last_error gives the reason. */
LIGERDSL_API size_t ligerdsl_plan_workspace_bytes_for(ligerdsl_plan_t plan, int64_t rows);
/* Returns the bytes of workspace with which execute can also copy tensors whose rows are not
 * aligned, and compiles the kernels that copy them. With fewer bytes, execute reads such rows in
 * place, which may take ten times as long. The one-call form uses this workspace.
 *
 * The result is larger than that of ligerdsl_plan_workspace_bytes_for only for some operations on a
 * GPU (ops.h names them). It depends only on the plan and the number of rows. Errors are the same.
 * Do not call it while a stream is being captured. */
LIGERDSL_API size_t ligerdsl_plan_workspace_bytes_with_copies(ligerdsl_plan_t plan, int64_t rows);
LIGERDSL_API size_t ligerdsl_plan_workspace_align(ligerdsl_plan_t plan);
LIGERDSL_API void ligerdsl_plan_destroy(ligerdsl_plan_t plan); /* NULL is allowed */

/* ---- Memory and streams, for programs that do not link CUDA -------------------------------------
 * On a CPU context, memory is host memory, streams are NULL, and a call returns when it is
 * finished. */
LIGERDSL_API LIGERDSL_NODISCARD ligerdsl_status_t ligerdsl_buffer_alloc(
    ligerdsl_context_t context, size_t bytes, void** data); /* aligned to 256 bytes */
LIGERDSL_API LIGERDSL_NODISCARD ligerdsl_status_t ligerdsl_buffer_free(ligerdsl_context_t context,
                                                                       void* data);
/* Copies in stream order. Either side may be host or device memory. */
LIGERDSL_API LIGERDSL_NODISCARD ligerdsl_status_t ligerdsl_buffer_copy(ligerdsl_context_t context,
                                                                       void* to, const void* from,
                                                                       size_t bytes,
                                                                       ligerdsl_stream_t stream);
LIGERDSL_API LIGERDSL_NODISCARD ligerdsl_status_t ligerdsl_buffer_fill(ligerdsl_context_t context,
                                                                       void* data, uint8_t value,
                                                                       size_t bytes,
                                                                       ligerdsl_stream_t stream);
LIGERDSL_API LIGERDSL_NODISCARD ligerdsl_status_t ligerdsl_stream_create(ligerdsl_context_t context,
                                                                         ligerdsl_stream_t* stream);
LIGERDSL_API LIGERDSL_NODISCARD ligerdsl_status_t ligerdsl_stream_sync(ligerdsl_context_t context,
                                                                       ligerdsl_stream_t stream);
LIGERDSL_API LIGERDSL_NODISCARD ligerdsl_status_t
ligerdsl_stream_destroy(ligerdsl_context_t context, ligerdsl_stream_t stream);

/* ---- Kernels of your own: programs recorded with ligerdsl/dsl.h ------------------------------ */

typedef struct ligerdsl_kernel* ligerdsl_kernel_t;
typedef struct ligerdsl_kernel_options {
  LIGERDSL_STRUCT_HEADER;
  int32_t num_warps;     /* GPU: warps of 32 threads per CTA */
  int32_t num_ctas;      /* GPU: CTAs of a cluster per program */
  int32_t num_stages;    /* depth of software pipelines */
  int32_t max_registers; /* GPU: per thread, 24 to 255; 0 = no cap */
  int32_t no_alias; /* 1: no argument that the kernel writes overlaps another; launches check views
                     but not pointers */
  int32_t forbid_contract; /* 1: never fuse a * b + c into an fma */
  int32_t min_ctas_per_sm; /* GPU: minimum CTAs per SM, which limits registers and resident rows; 0
                              = no minimum */
} ligerdsl_kernel_options_t;
#define LIGERDSL_KERNEL_OPTIONS_INIT \
  { LIGERDSL_HEADER_OF(ligerdsl_kernel_options_t), 4, 1, 2, 0, 0, 0, 0 }

/* A launch argument. A launch has one per argument of the program, in order. */
typedef struct ligerdsl_kernel_arg {
  int32_t kind; /* LIGERDSL_ARG_* */
  int32_t reserved;
  const ligerdsl_tensor_t* tensor; /* for a view */
  void* pointer;                   /* for a pointer */
  int64_t integer;                 /* for an integer scalar */
  double number;                   /* for a float scalar */
} ligerdsl_kernel_arg_t;
enum {
  LIGERDSL_ARG_TENSOR = 1,
  LIGERDSL_ARG_POINTER = 2,
  LIGERDSL_ARG_INTEGER = 3,
  LIGERDSL_ARG_NUMBER = 4
};

/* Compiles the program, or loads it from the cache. `program` has the bytes of
 * KernelBuilder::finish_bytes(). `options` may be NULL. */
LIGERDSL_API LIGERDSL_NODISCARD ligerdsl_status_t
ligerdsl_kernel_create(ligerdsl_context_t context, const void* program, size_t program_bytes,
                       const ligerdsl_kernel_options_t* options, ligerdsl_kernel_t* kernel);
/* Runs one program per point of the grid {x, y, z}. A grid with a zero runs nothing. Never
 * allocates, synchronises or compiles. */
LIGERDSL_API LIGERDSL_NODISCARD ligerdsl_status_t
ligerdsl_kernel_launch(ligerdsl_kernel_t kernel, const ligerdsl_kernel_arg_t* args, size_t n_args,
                       const int32_t grid[3], ligerdsl_stream_t stream);
/* A parameter of a kernel, for bindings to other languages. */
typedef struct ligerdsl_kernel_parameter {
  const char* name; /* valid as long as the kernel */
  int32_t kind;     /* LIGERDSL_ARG_* */
  int32_t dtype;    /* dtype of the elements, or of the scalar: LIGERDSL_F32 ... */
  int32_t rank;     /* number of dimensions of a view, else 0 */
  int32_t written;  /* 1: the kernel may write this view's memory, or through this pointer */
} ligerdsl_kernel_parameter_t;
/* Returns the parameters in the order of a launch's arguments. `*count` is the capacity of
 * `parameters` at the call, and the number of parameters afterwards. NULL for `parameters` queries
 * the number. Pass sizeof(ligerdsl_kernel_parameter_t) as `parameter_bytes`, the distance between
 * elements. */
LIGERDSL_API LIGERDSL_NODISCARD ligerdsl_status_t
ligerdsl_kernel_parameters(ligerdsl_kernel_t kernel, ligerdsl_kernel_parameter_t* parameters,
                           size_t parameter_bytes, size_t* count);
LIGERDSL_API void ligerdsl_kernel_destroy(ligerdsl_kernel_t kernel); /* NULL is allowed */

#ifdef __cplusplus
}
#endif

#include "ligerdsl/ops.h"

#endif /* LIGERDSL_LIGERDSL_H_ */
