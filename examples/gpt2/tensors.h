/* Describes arrays as tensors of the library. */
#ifndef GPT2_TENSORS_H_
#define GPT2_TENSORS_H_

#include <ligerdsl/ligerdsl.h>
#include <stddef.h>

/* A tensor lives until the end of the enclosing block, as every compound literal does. The body of
 * an `if` is such a block, even without braces. */
#define TENSOR(values, code, ndim, ...)                       \
  (&(ligerdsl_tensor_t){(void*)(values),                      \
                        {LIGERDSL_CPU, 0},                    \
                        (ndim),                               \
                        {(code)&0xff, (code) >> 8 & 0xff, 1}, \
                        (int64_t[]){__VA_ARGS__},             \
                        NULL,                                 \
                        0})
#define ROWS(values, n, h) TENSOR(values, LIGERDSL_F32, 2, n, h)
#define VECTOR(values, n) TENSOR(values, LIGERDSL_F32, 1, n)
#define IDS(values, n) TENSOR(values, LIGERDSL_I32, 1, n)

#endif
