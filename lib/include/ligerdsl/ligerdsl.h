/* libligerdsl: fused training kernels behind a C ABI. C99 and C++11 or later; no other header is needed.
 *
 * Every operation of ops.h has the same four parts:
 *   desc     a versioned struct: dtypes, widths and options, everything that decides which kernels are needed
 *   plan     made from a desc; may compile, load and touch the disk; holds every kernel that any later call needs
 *   execute  runs a plan on tensors; never allocates, synchronises or compiles, so it can be captured in a CUDA graph.
 *            Matrix products (fused_linear_cross_entropy) are made by another library: ops.h says what that may take
 *   call     one function that looks the plan up in the context, fills the shape fields of the desc from the tensors,
 *            and brings its own workspace; its first use of a configuration plans (and may compile). A context keeps the
 *            512 plans that it used last
 *
 * Threads
 *   context, plan, kernel   any number of threads at the same time
 *   workspace               one call at a time
 *   destroy functions       wait for calls of other threads that use the handle (one may be compiling); from then on the
 *                           handle is reported as dead, never followed
 *   last error              per thread
 *
 * End of the process: main may return, and any thread may call exit, while other threads are inside the library; a
 * context with static lifetime may be destroyed then.
 *
 * fork: a child may destroy what it inherits and exit, whatever the parent's threads were doing, and may use a CPU
 * context, its plans and kernels: they work there on the calling thread alone, and the first call takes memory. A context
 * that the child creates has threads of its own. FORKED_PROCESS is the answer to a CUDA context of before the fork, and
 * to what must be compiled (or linked, on a CPU) in a child that was forked while another thread compiled.
 *
 * Determinism: the same build, device model, shapes and options give the same bits, whatever the number of threads.
 */
#ifndef LIGERDSL_LIGERDSL_H_
#define LIGERDSL_LIGERDSL_H_

#include <stddef.h>
#include <stdint.h>

#include "ligerdsl/target.h"

#define LIGERDSL_VERSION_MAJOR 0
#define LIGERDSL_VERSION_MINOR 1
#define LIGERDSL_VERSION_PATCH 0
#define LIGERDSL_VERSION (LIGERDSL_VERSION_MAJOR * 10000 + LIGERDSL_VERSION_MINOR * 100 + LIGERDSL_VERSION_PATCH)

#if defined(__GNUC__) && !defined(_WIN32)
#define LIGERDSL_API __attribute__((visibility("default")))
#define LIGERDSL_NODISCARD __attribute__((warn_unused_result))
#else
#define LIGERDSL_API
#define LIGERDSL_NODISCARD
#endif

/* What each language wants, so that no warning of a careful C or C++ project names this header. */
#ifdef __cplusplus
#define LIGERDSL_CAST(type, value) static_cast<type>(value)
#define LIGERDSL_NULL nullptr
extern "C" {
#else
#define LIGERDSL_CAST(type, value) ((type)(value))
#define LIGERDSL_NULL NULL
#endif

/* ---- Status -------------------------------------------------------------------------------------------------------
 * The thousands say whose turn it is: 1 state of the process, 2 the caller's arguments, 3 not available here,
 * 4 compiler or library, 5 execution. Numbers are never reused. */
typedef int32_t ligerdsl_status_t;
enum {
  LIGERDSL_SUCCESS = 0,
  LIGERDSL_NOT_INITIALIZED = 1000,
  LIGERDSL_ABI_MISMATCH = 1001,
  LIGERDSL_FORKED_PROCESS = 1002, /* CUDA was in use before fork(), or another thread was compiling */
  LIGERDSL_DEAD_HANDLE = 1003,    /* the handle was destroyed, or never was one */
  LIGERDSL_INVALID_ARGUMENT = 2000,
  LIGERDSL_INVALID_NULL_POINTER = 2001,
  LIGERDSL_INVALID_SHAPE = 2002,
  LIGERDSL_INVALID_DTYPE = 2003,
  LIGERDSL_INVALID_DEVICE = 2004,
  LIGERDSL_INVALID_ALIAS = 2005,
  LIGERDSL_INVALID_MISALIGNED = 2006,
  LIGERDSL_INVALID_LABEL = 2007, /* found on the device; see ligerdsl_context_check */
  LIGERDSL_WORKSPACE_TOO_SMALL = 2008,
  LIGERDSL_INVALID_PROGRAM = 2009, /* bytes given to ligerdsl_kernel_create */
  LIGERDSL_INVALID_BOUNDS = 2010,  /* of groups, sequences or a step, found on the device */
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
  LIGERDSL_STICKY_DEVICE_ERROR = 5003 /* left behind by another kernel of this process */
};
/* The constant's name without its prefix, "UNKNOWN_STATUS" for other numbers. Never NULL. */
LIGERDSL_API const char* ligerdsl_status_name(ligerdsl_status_t status);
/* What went wrong in this thread's latest failing call: operation, argument, expected, got. Never NULL; valid until the
 * thread's next failing call. */
LIGERDSL_API const char* ligerdsl_last_error(void);
LIGERDSL_API uint32_t ligerdsl_version(void); /* of the loaded library; compare with LIGERDSL_VERSION */
/* What the library was built from: "0.1.0-0123456789abcdef commit HASH clean". The digest is of all its sources;
 * "dirty" instead of "clean": a source is not the commit's; "commit unknown": built without git. Never NULL. */
LIGERDSL_API const char* ligerdsl_build_info(void);

/* ---- Tensors: the memory layout of DLPack's DLTensor ------------------------------------------------------------- */

typedef struct ligerdsl_dtype {
  uint8_t code; /* 0 signed integer, 1 unsigned integer, 2 float, 4 bfloat, 6 bool */
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

/* A dtype as one number, for the dtype fields of descriptions: code | bits << 8 | lanes << 16. Zero means "none", or,
 * in the one-call form, "as the tensor has it". */
enum {
  LIGERDSL_I8 = 0x00010800, /* I8, I16 and BOOL: for views of your own kernels */
  LIGERDSL_I16 = 0x00011000,
  LIGERDSL_BOOL = 0x00010806, /* one byte, 0 or 1: i1 of ligerdsl/dsl.h */
  LIGERDSL_I32 = 0x00012000,
  LIGERDSL_I64 = 0x00014000,
  LIGERDSL_F16 = 0x00011002,
  LIGERDSL_F32 = 0x00012002,
  LIGERDSL_BF16 = 0x00011004,
  LIGERDSL_F8E4M3 = 0x0001080a, /* F8E4M3 (without infinities) and F8E5M2: as I8 */
  LIGERDSL_F8E5M2 = 0x0001080c
};
static inline ligerdsl_dtype_t ligerdsl_dtype_of(int32_t code) {
  ligerdsl_dtype_t t;
  t.code = LIGERDSL_CAST(uint8_t, code & 0xff);
  t.bits = LIGERDSL_CAST(uint8_t, (code >> 8) & 0xff);
  t.lanes = LIGERDSL_CAST(uint16_t, (code >> 16) & 0xffff);
  return t;
}
/* A contiguous tensor; `shape` must outlive it. */
static inline ligerdsl_tensor_t ligerdsl_tensor_make(void* data, ligerdsl_device_t device, int32_t dtype, int32_t ndim,
                                                     int64_t* shape) {
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

/* ---- Versioned structs ----------------------------------------------------------------------------------------------
 * Initialise with the struct's _INIT macro. Structs of an older header are accepted; fields they lack take their
 * defaults. */
#define LIGERDSL_MAGIC 0x4c494752u
#define LIGERDSL_STRUCT_HEADER \
  size_t struct_size;          \
  uint32_t magic;              \
  uint32_t version
#define LIGERDSL_HEADER_OF(type) sizeof(type), LIGERDSL_MAGIC, LIGERDSL_VERSION

/* ---- Context: a device and what was planned for it --------------------------------------------------------------- */

typedef struct ligerdsl_context* ligerdsl_context_t;
struct CUstream_st; /* what cudaStream_t and CUstream point to */
typedef struct CUstream_st*
    ligerdsl_stream_t; /* NULL = the default stream; ignored on a CPU, where calls return when done */

typedef struct ligerdsl_context_config {
  LIGERDSL_STRUCT_HEADER;
  ligerdsl_device_t device;
  int32_t num_threads;   /* CPU: worker threads; 0 = LIGERDSL_NUM_THREADS, else all cores this process may use */
  uint32_t flags;        /* LIGERDSL_CTX_* */
  const char* cache_dir; /* NULL = LIGERDSL_CACHE_DIR and its defaults */
  void* user;            /* first argument of the functions below, which any thread may call */
  /* Long-lived host memory of a CPU context: buffers, scratch, arenas; `align` is a power of two. Both or neither; NULL
   * = the C library's. They must not throw; no memory is NULL. */
  void* (*host_alloc)(void* user, size_t bytes, size_t align);
  void (*host_free)(void* user, void* pointer);
  /* Gets the library's log lines of LIGERDSL_LOG's level while the context lives; then none goes to stderr. `level`: 1
   * error, 2 warning, 3 info, 4 debug. Must not call the library. */
  void (*log)(void* user, int32_t level, const char* line);
  int64_t cache_limit_bytes; /* of the disk cache; 0 = LIGERDSL_CACHE_SIZE, else 1 GiB. The least recently used go */
  /* Path of a table of tuned kernels (`ligerdsl tune --export`), looked at before the one that ships: which
   * configuration a plan's kernels have. Read when the context is made; INVALID_ARGUMENT for a file that is no table.
   * NULL = LIGERDSL_TABLE, else none. LIGERDSL_TUNING=off takes no table, =same only what changes no bit. */
  const char* table;
  /* Workspace of the one-call form, from the caller: memory of the context's device that one call uses, on its stream.
   * Freed when the call has launched its kernels, so what is freed must be reused in the stream's order only, as caching
   * allocators do. Called by the thread that calls the operation, also while its stream is being captured, which is then
   * no longer refused. `align` is a power of two; no memory is NULL. Both or neither; NULL = memory that the context
   * keeps, which grows and is not given back before the context is destroyed. They must not throw or call the library. */
  void* (*workspace_alloc)(void* user, size_t bytes, size_t align, ligerdsl_stream_t stream);
  void (*workspace_free)(void* user, void* pointer, ligerdsl_stream_t stream);
} ligerdsl_context_config_t;
enum {
  LIGERDSL_CTX_DETERMINISTIC = 1, /* as LIGERDSL_DETERMINISTIC=1: refuse authors' kernels that add floats atomically */
  LIGERDSL_CTX_NO_JIT = 2,        /* as LIGERDSL_NO_JIT=1: what is in no cache is NOT_SUPPORTED, never compiled; the
                                     error says what `ligerdsl cache warm` needs */
  LIGERDSL_CTX_VALIDATE = 4       /* as LIGERDSL_VALIDATE=1: wait for every call and check what it wrote */
};
#define LIGERDSL_CONTEXT_CONFIG_INIT                                                                       \
  {                                                                                                        \
    LIGERDSL_HEADER_OF(ligerdsl_context_config_t), {LIGERDSL_CPU, 0}, 0, 0u, LIGERDSL_NULL, LIGERDSL_NULL, \
        LIGERDSL_NULL, LIGERDSL_NULL, LIGERDSL_NULL, 0, LIGERDSL_NULL, LIGERDSL_NULL, LIGERDSL_NULL        \
  }

/* A CUDA context retains the device's primary context; the caller's current context is the same before and after every
 * call. Errors: NO_DEVICE, INVALID_DEVICE, DRIVER_TOO_OLD, FORKED_PROCESS. */
LIGERDSL_API LIGERDSL_NODISCARD ligerdsl_status_t ligerdsl_context_create(const ligerdsl_context_config_t* config,
                                                                          ligerdsl_context_t* context);
/* NULL is fine. Waits for calls that use the context. Plans and kernels made from it stay valid. */
LIGERDSL_API void ligerdsl_context_destroy(ligerdsl_context_t context);
typedef struct {
  const char* operation; /* "cross_entropy", which stays as long as the library; NULL: no fault */
  int64_t row;           /* the first row whose label or index, or group or sequence whose bounds, were out of range */
} ligerdsl_fault_t;
/* Reports what kernels found so far. INVALID_LABEL: a label or an index was not in range. INVALID_BOUNDS: offsets of
 * groups or bounds of sequences were not. The text has the operation, the row (group, sequence) and the words "out of
 * bounds". A report is of one operation, and is cleared: call again for the next.
 * Does not wait and is allowed during a capture: what runs on a GPU may still find something. `fault_bytes` is
 * sizeof(ligerdsl_fault_t); more is zeroed. */
LIGERDSL_API LIGERDSL_NODISCARD ligerdsl_status_t ligerdsl_context_poll(ligerdsl_context_t context,
                                                                        ligerdsl_fault_t* fault, size_t fault_bytes);
/* Synchronises the stream, then reports as ligerdsl_context_poll does. */
LIGERDSL_API LIGERDSL_NODISCARD ligerdsl_status_t ligerdsl_context_check(ligerdsl_context_t context,
                                                                         ligerdsl_stream_t stream);
/* What is known of the device, for kernels of your own. `target_bytes` is sizeof(ligerdsl_target_t): no more is
 * written, and what this library does not know is 0. */
LIGERDSL_API LIGERDSL_NODISCARD ligerdsl_status_t ligerdsl_context_target(ligerdsl_context_t context,
                                                                          ligerdsl_target_t* target,
                                                                          size_t target_bytes);
/* How a kernel of your own was tuned: `*config` is "block=4096 num_warps=8", which stays as long as the context, out of
 * the table of the configuration, or of LIGERDSL_TABLE; "" where no table has the kernel with these options for this
 * device, and where LIGERDSL_TUNING is off or same. `options`: what stands between the kernel and the @ in
 * `ligerdsl table ls FILE`. In C++ ligerdsl::tuned (launch.hpp) does the rest. */
LIGERDSL_API LIGERDSL_NODISCARD ligerdsl_status_t ligerdsl_context_tuned(ligerdsl_context_t context, const char* kernel,
                                                                         const char* options, const char** config);

/* How often an operation ran on this context, by either form, its failures left out: `operation` is "rms_norm_forward".
 * A call that is captured counts once, a replay of its graph does not. INVALID_ARGUMENT for an operation that is not of
 * ops.h. */
LIGERDSL_API LIGERDSL_NODISCARD ligerdsl_status_t ligerdsl_context_calls(ligerdsl_context_t context,
                                                                         const char* operation, int64_t* calls);

/* ---- Plans ------------------------------------------------------------------------------------------------------- */

typedef struct ligerdsl_plan* ligerdsl_plan_t;
/* Workspace that execute needs for this many rows (ops.h says what an operation counts as rows). A pure function of the
 * plan and the number; but for fused_linear_cross_entropy, whose chunks differ, more rows never need less. SIZE_MAX
 * where no call can have so many rows (execute is INVALID_SHAPE then, as for negative numbers), where a limit set in
 * the description is too small for them, and for a dead handle: ligerdsl_last_error says which. */
LIGERDSL_API size_t ligerdsl_plan_workspace_bytes_for(ligerdsl_plan_t plan, int64_t rows);
LIGERDSL_API size_t ligerdsl_plan_workspace_align(ligerdsl_plan_t plan);
LIGERDSL_API void ligerdsl_plan_destroy(ligerdsl_plan_t plan); /* NULL is fine */

/* ---- Memory and streams, for programs that do not link CUDA ---------------------------------------------------------
 * On a CPU context memory is host memory, a stream is NULL, and every call has finished when it returns.
 */
LIGERDSL_API LIGERDSL_NODISCARD ligerdsl_status_t ligerdsl_buffer_alloc(ligerdsl_context_t context, size_t bytes,
                                                                        void** data); /* aligned to 256 bytes */
LIGERDSL_API LIGERDSL_NODISCARD ligerdsl_status_t ligerdsl_buffer_free(ligerdsl_context_t context, void* data);
/* Either side may be host or device memory. Ordered on the stream. */
LIGERDSL_API LIGERDSL_NODISCARD ligerdsl_status_t ligerdsl_buffer_copy(ligerdsl_context_t context, void* to,
                                                                       const void* from, size_t bytes,
                                                                       ligerdsl_stream_t stream);
LIGERDSL_API LIGERDSL_NODISCARD ligerdsl_status_t ligerdsl_buffer_fill(ligerdsl_context_t context, void* data,
                                                                       uint8_t value, size_t bytes,
                                                                       ligerdsl_stream_t stream);
LIGERDSL_API LIGERDSL_NODISCARD ligerdsl_status_t ligerdsl_stream_create(ligerdsl_context_t context,
                                                                         ligerdsl_stream_t* stream);
LIGERDSL_API LIGERDSL_NODISCARD ligerdsl_status_t ligerdsl_stream_sync(ligerdsl_context_t context,
                                                                       ligerdsl_stream_t stream);
LIGERDSL_API LIGERDSL_NODISCARD ligerdsl_status_t ligerdsl_stream_destroy(ligerdsl_context_t context,
                                                                          ligerdsl_stream_t stream);

/* ---- Kernels of your own: programs recorded with ligerdsl/dsl.h -------------------------------------------------- */

typedef struct ligerdsl_kernel* ligerdsl_kernel_t;
typedef struct ligerdsl_kernel_options {
  LIGERDSL_STRUCT_HEADER;
  int32_t num_warps;     /* GPU: warps of 32 threads per program */
  int32_t num_ctas;      /* GPU: CTAs of a cluster per program */
  int32_t num_stages;    /* depth of software pipelines */
  int32_t max_registers; /* GPU: per thread, 24 to 255; 0 = no cap */
  int32_t no_alias;      /* 1: an argument the kernel writes never overlaps another one; launches check views, pointers
                            are your promise */
  int32_t forbid_contract; /* 1: a * b + c is never one fma */
  int32_t min_ctas_per_sm; /* GPU: registers and resident rows leave room for as many CTAs; 0 = no floor */
} ligerdsl_kernel_options_t;
#define LIGERDSL_KERNEL_OPTIONS_INIT \
  { LIGERDSL_HEADER_OF(ligerdsl_kernel_options_t), 4, 1, 2, 0, 0, 0, 0 }

/* One argument per argument of the program, in order. */
typedef struct ligerdsl_kernel_arg {
  int32_t kind; /* LIGERDSL_ARG_* */
  int32_t reserved;
  const ligerdsl_tensor_t* tensor; /* for a view */
  void* pointer;                   /* for a pointer */
  int64_t integer;                 /* for an integer scalar */
  double number;                   /* for a float scalar */
} ligerdsl_kernel_arg_t;
enum { LIGERDSL_ARG_TENSOR = 1, LIGERDSL_ARG_POINTER = 2, LIGERDSL_ARG_INTEGER = 3, LIGERDSL_ARG_NUMBER = 4 };

/* Compiles (or finds in the cache) the program's bytes, as ligerdsl::serialize gives them. `options` may be NULL. */
LIGERDSL_API LIGERDSL_NODISCARD ligerdsl_status_t ligerdsl_kernel_create(ligerdsl_context_t context,
                                                                         const void* program, size_t program_bytes,
                                                                         const ligerdsl_kernel_options_t* options,
                                                                         ligerdsl_kernel_t* kernel);
/* Runs one program for every point of the grid {x, y, z}. A grid with a zero runs nothing. Never allocates,
 * synchronises or compiles. */
LIGERDSL_API LIGERDSL_NODISCARD ligerdsl_status_t ligerdsl_kernel_launch(ligerdsl_kernel_t kernel,
                                                                         const ligerdsl_kernel_arg_t* args,
                                                                         size_t n_args, const int32_t grid[3],
                                                                         ligerdsl_stream_t stream);
/* What a launch takes as an argument of a kernel, for bindings. */
typedef struct ligerdsl_kernel_parameter {
  const char* name; /* stays as long as the kernel */
  int32_t kind;     /* LIGERDSL_ARG_* */
  int32_t dtype;    /* of a view's or pointer's elements, or of the scalar: LIGERDSL_F32 ... */
  int32_t rank;     /* of a view; else 0 */
  int32_t written;  /* 1: the kernel may write this view's memory, or through this pointer */
} ligerdsl_kernel_parameter_t;
/* The parameters in the order of a launch's arguments. `*count` is how many `parameters` has room for, and becomes how
 * many there are; `parameters` may be NULL where only the number is asked for. `parameter_bytes` is
 * sizeof(ligerdsl_kernel_parameter_t): elements lie so far apart. */
LIGERDSL_API LIGERDSL_NODISCARD ligerdsl_status_t ligerdsl_kernel_parameters(ligerdsl_kernel_t kernel,
                                                                             ligerdsl_kernel_parameter_t* parameters,
                                                                             size_t parameter_bytes, size_t* count);
LIGERDSL_API void ligerdsl_kernel_destroy(ligerdsl_kernel_t kernel); /* NULL is fine */

#ifdef __cplusplus
}
#endif

#include "ligerdsl/ops.h"

#endif /* LIGERDSL_LIGERDSL_H_ */
