#ifndef GPT2_TIMING_H_
#define GPT2_TIMING_H_

#include <stdint.h>

/* Prints the time of each layer and of a plain loop, with all arrays `offset` bytes after a
 * multiple of 64. */
int time_layers(int64_t rows, int64_t width, int64_t offset);

#endif
