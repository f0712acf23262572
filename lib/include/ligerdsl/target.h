/* What is known of the device that a kernel is recorded for and launched on: what a schedule may depend on, beside the
 * kernel's own sizes. Plain data. ligerdsl_context_target() gives a context's; in C++ ligerdsl/dsl/target.h adds to it.
 *
 * A CPU has its name, max_cluster and vector_bytes; what else is said of SMs, threads and CTAs is 0 there. Numbers of
 * bytes say so in their names, or are of memory. Later versions append fields, which are 0 where they are not known. */
#ifndef LIGERDSL_TARGET_H_
#define LIGERDSL_TARGET_H_

#include <stdint.h>

typedef struct ligerdsl_target {
  char name[32];            /* what code is compiled for, as `ligerdsl compile --target` takes it: "sm_90a", "cpu" */
  int32_t gpu;              /* 1: an NVIDIA GPU; 0: a CPU */
  int32_t capability;       /* GPU: its compute capability, 90 for 9.0 */
  int32_t sms;              /* GPU: streaming multiprocessors; of one that is not here, those of its usual chip */
  int32_t threads_per_sm;   /* GPU: that an SM holds at most; a warp is 32 of them */
  int32_t max_ctas_per_sm;  /* GPU: that an SM holds at most */
  int32_t registers_per_sm; /* GPU: of 32 bits */
  int32_t max_registers;    /* GPU: of 32 bits, of a thread */
  int32_t max_cluster;      /* CTAs that a cluster can have, with this driver; 1: there are no clusters */
  int32_t vector_bytes;     /* GPU: of a thread's widest load and store; CPU: of a vector register */
  int32_t exchange_bytes;   /* GPU: of a CTA's shared memory, beside resident rows: usually enough (measured) */
  int64_t shared_per_sm;    /* GPU: bytes of shared memory */
  int64_t shared_per_cta;   /* GPU: bytes of shared memory, at most */
  int64_t shared_reserved;  /* GPU: bytes of an SM's shared memory that the system takes for every CTA */
  int64_t shared_not_rows;  /* GPU: bytes of an SM's shared memory beside the rows that a cluster shares (measured) */
  int64_t l2_bytes;         /* GPU: of the second-level cache; of one that is not here, that of its usual chip */
} ligerdsl_target_t;

#endif /* LIGERDSL_TARGET_H_ */
