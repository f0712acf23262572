/* A driver library that reports compute capability 8.0 and otherwise passes calls to the machine's
 * driver. It lets code for sm_80 (mma.sync, cp.async) run on a newer card. Other libraries in the
 * process, such as PyTorch's CUDA runtime, see the real capability.
 *
 *     cc -shared -fPIC -o older_card.so bench/older_card.c -Wl,--no-as-needed -lcuda -ldl
 *     LIGERDSL_LIBCUDA=./older_card.so python3 bench/tiles.py --kernels-only matmul --dtype float16
 *         --kernels ... --out ...
 */
#define _GNU_SOURCE
#include <dlfcn.h>

typedef int (*attribute_fn)(int* value, int attribute, int device);

int cuDeviceGetAttribute(int* value, int attribute, int device) {
  enum { capability_major = 75, capability_minor = 76 }; /* CUdevice_attribute, cuda.h */
  attribute_fn real = (attribute_fn)dlsym(RTLD_NEXT, "cuDeviceGetAttribute");
  int result = real ? real(value, attribute, device) : 999 /* CUDA_ERROR_UNKNOWN */;
  if (result == 0 && attribute == capability_major) *value = 8;
  if (result == 0 && attribute == capability_minor) *value = 0;
  return result;
}
