/* Properties of the device that a kernel is recorded for and launched on. A schedule may depend
 * only on them and on the kernel's own sizes. Plain data. ligerdsl_context_target() returns those
 * of a context; ligerdsl/dsl/target.h adds C++ functions.
 *
 * A CPU has name, max_cluster and vector_bytes; all other fields are 0. Later versions append
 * fields, and an unknown field is 0. */
#ifndef LIGERDSL_TARGET_H_
#define LIGERDSL_TARGET_H_

#include <stdint.h>

typedef struct ligerdsl_target {
  char name[32];            /* argument of `ligerdsl compile --target`: "sm_90a", "cpu" */
  int32_t gpu;              /* 1: an NVIDIA GPU; 0: a CPU */
  int32_t capability;       /* GPU: compute capability; 90 is 9.0 */
  int32_t sms;              /* GPU: number of SMs; of the usual chip if the GPU is not present */
  int32_t threads_per_sm;   /* GPU: maximum number of threads per SM; a warp has 32 */
  int32_t max_ctas_per_sm;  /* GPU: maximum number of CTAs per SM */
  int32_t registers_per_sm; /* GPU: 32-bit registers per SM */
  int32_t max_registers;    /* GPU: maximum number of 32-bit registers per thread */
  int32_t max_cluster;  /* maximum number of CTAs per cluster, with this driver; 1: no clusters */
  int32_t vector_bytes; /* GPU: bytes of a thread's widest load; CPU: bytes of a vector register */
  int32_t exchange_bytes; /* GPU: bytes of a CTA's shared memory to leave free of resident rows
                             (measured) */
  int64_t shared_per_sm;  /* GPU: bytes of shared memory per SM */
  int64_t shared_per_cta; /* GPU: maximum bytes of shared memory per CTA */
  int64_t
      shared_reserved; /* GPU: bytes of an SM's shared memory that the system reserves per CTA */
  int64_t shared_not_rows; /* GPU: bytes of an SM's shared memory to leave free of a cluster's rows
                              (measured) */
  int64_t l2_bytes;        /* GPU: bytes of L2; of the usual chip if the GPU is not present */
} ligerdsl_target_t;

#endif /* LIGERDSL_TARGET_H_ */
