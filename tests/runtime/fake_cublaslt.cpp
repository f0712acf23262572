// A fake cuBLASLt on host memory. It has the functions that the library uses, for f32, f16 and bf16
// with f32 accumulation. Matrices are column-major, as in cuBLASLt. The opaque layout and algorithm
// structs hold the fields of the fake.
#include <cstddef>
#include <cstdint>

#include "tests/support/half.h"

namespace {

using ligerdsl::test::from_bf16, ligerdsl::test::from_f16, ligerdsl::test::to_bf16,
    ligerdsl::test::to_f16;

constexpr uint64_t kF16 = 2, kBf16 = 14;  // CUDA_R_16F, CUDA_R_16BF

struct Layout {
  uint64_t type, rows, cols, stride;
  uint64_t rest[4];
};
struct Desc {
  int transpose[2] = {0, 0};
};
struct Preference {
  size_t workspace = 0;
  uint32_t align[4] = {256, 256, 256, 256};
};
struct Heuristic {
  uint64_t algorithm[8];
  size_t workspace;
  int state;
  float waves;
  int reserved[4];
};

constexpr uint64_t kAlgorithm = 0x1234;
// Ids of the proposed tiles. The library must reject the first one. The others are 320x128, 128x160
// and 256x128.
constexpr int kTiles[] = {0, 248, 29, 24};
constexpr int kInvalidValue = 7, kNotSupported = 15;

int handle_value = 0;
int choices = 0, last_tile = 0;
float waves = 1;
uint32_t last_align[4] = {};

float at(const void* data, const Layout& layout, bool transposed, uint64_t i, uint64_t j) {
  const uint64_t row = transposed ? j : i, col = transposed ? i : j,
                 place = row + col * layout.stride;
  if (layout.type == kF16) return from_f16(static_cast<const uint16_t*>(data)[place]);
  if (layout.type == kBf16) return from_bf16(static_cast<const uint16_t*>(data)[place]);
  return static_cast<const float*>(data)[place];
}

void put(void* data, const Layout& layout, uint64_t i, uint64_t j, float value) {
  const uint64_t place = i + j * layout.stride;
  if (layout.type == kF16)
    static_cast<uint16_t*>(data)[place] = to_f16(value);
  else if (layout.type == kBf16)
    static_cast<uint16_t*>(data)[place] = to_bf16(value);
  else
    static_cast<float*>(data)[place] = value;
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

int fake_cublaslt_choices() {
  return choices;
}
const uint32_t* fake_cublaslt_alignments() {
  return last_align;
}
// Returns the tile id of the last matmul. set_waves sets the number of waves that the proposals
// report.
int fake_cublaslt_last_tile() {
  return last_tile;
}
void fake_cublaslt_set_waves(float value) {
  waves = value;
}

int cublasLtCreate(void** handle) {
  *handle = &handle_value;
  return 0;
}
int cublasLtDestroy(void* handle) {
  return handle == &handle_value ? 0 : kInvalidValue;
}
int cublasLtMatmulDescCreate(void** desc, int compute, int scale) {
  if (compute != 68 || scale != 0) return kInvalidValue;
  *desc = new Desc;
  return 0;
}
int cublasLtMatmulDescDestroy(void* desc) {
  delete static_cast<Desc*>(desc);
  return 0;
}
int cublasLtMatmulDescSetAttribute(void* desc, int attribute, const void* value, size_t bytes) {
  if (bytes != 4 || attribute < 3 || attribute > 4) return kInvalidValue;
  static_cast<Desc*>(desc)->transpose[attribute - 3] = *static_cast<const int*>(value);
  return 0;
}
int cublasLtMatrixLayoutInit_internal(Layout* layout, size_t bytes, int type, uint64_t rows,
                                      uint64_t cols, int64_t stride) {
  if (bytes != sizeof(Layout) || stride < static_cast<int64_t>(rows)) return kInvalidValue;
  *layout = {static_cast<uint64_t>(type), rows, cols, static_cast<uint64_t>(stride), {}};
  return 0;
}
int cublasLtMatmulPreferenceCreate(void** preference) {
  *preference = new Preference;
  return 0;
}
int cublasLtMatmulPreferenceDestroy(void* preference) {
  delete static_cast<Preference*>(preference);
  return 0;
}
int cublasLtMatmulPreferenceSetAttribute(void* preference, int attribute, const void* value,
                                         size_t bytes) {
  auto* p = static_cast<Preference*>(preference);
  if (attribute == 1 && bytes == sizeof(size_t)) {
    p->workspace = *static_cast<const size_t*>(value);
  } else if (attribute >= 5 && attribute <= 8 && bytes == 4) {
    p->align[attribute - 5] = *static_cast<const uint32_t*>(value);
  } else {
    return kInvalidValue;
  }
  return 0;
}

int cublasLtMatmulAlgoGetHeuristic(void*, void*, const Layout* a, const Layout*, const Layout*,
                                   const Layout*, void* preference, int wanted, Heuristic* found,
                                   int* count) {
  ++choices;
  const auto* p = static_cast<const Preference*>(preference);
  for (int i = 0; i < 4; ++i) last_align[i] = p->align[i];
  *count = 0;
  if (wanted < 1 || a->rows == 13) return kNotSupported;  // 13 rows: no kernel
  for (const int tile : kTiles) {
    if (*count == wanted) break;
    found[(*count)++] = {{kAlgorithm, static_cast<uint64_t>(tile)},
                         p->workspace,
                         tile == 0 ? kNotSupported : 0,
                         waves,
                         {}};
  }
  return 0;
}

int cublasLtMatmulAlgoConfigGetAttribute(const uint64_t* algorithm, int attribute, void* value,
                                         size_t bytes, size_t* written) {
  if (algorithm[0] != kAlgorithm || attribute != 1 || bytes != sizeof(int)) return kInvalidValue;
  *static_cast<int*>(value) = static_cast<int>(algorithm[1]);
  *written = sizeof(int);
  return 0;
}

int cublasLtMatmul(void* handle, void* desc, const void* alpha, const void* a, const Layout* la,
                   const void* b, const Layout* lb, const void* beta, const void* c,
                   const Layout* lc, void* d, const Layout* ld, const uint64_t* algorithm, void*,
                   size_t, void*) {
  if (handle != &handle_value || c != d || lc != ld || algorithm[0] != kAlgorithm)
    return kInvalidValue;
  if (algorithm[1] == 0) return kInvalidValue;
  last_tile = static_cast<int>(algorithm[1]);
  const auto* product = static_cast<const Desc*>(desc);
  const bool ta = product->transpose[0] != 0, tb = product->transpose[1] != 0;
  const uint64_t m = ta ? la->cols : la->rows, k = ta ? la->rows : la->cols,
                 n = tb ? lb->rows : lb->cols;
  if ((tb ? lb->cols : lb->rows) != k || ld->rows != m || ld->cols != n) return kInvalidValue;
  const float scale = *static_cast<const float*>(alpha), add = *static_cast<const float*>(beta);
  for (uint64_t j = 0; j < n; ++j) {
    for (uint64_t i = 0; i < m; ++i) {
      float sum = 0;
      for (uint64_t l = 0; l < k; ++l) sum += at(a, *la, ta, i, l) * at(b, *lb, tb, l, j);
      put(d, *ld, i, j, scale * sum + (add == 0 ? 0 : add * at(d, *ld, false, i, j)));
    }
  }
  return 0;
}

}  // extern "C"
#pragma GCC visibility pop
