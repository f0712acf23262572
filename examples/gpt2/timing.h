#ifndef GPT2_TIMING_H_
#define GPT2_TIMING_H_

#include <stdint.h>

/* Prints how long each layer takes beside a plain loop; rows are a multiple of 64. */
int time_layers(int64_t rows, int64_t width);

#endif
