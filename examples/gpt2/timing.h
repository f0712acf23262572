#ifndef GPT2_TIMING_H_
#define GPT2_TIMING_H_

#include <stdint.h>

/* Prints how long each layer takes beside a plain loop, all arrays so many bytes behind a multiple of 64. */
int time_layers(int64_t rows, int64_t width, int64_t behind);

#endif
