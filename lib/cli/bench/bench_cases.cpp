#include "lib/cli/bench/bench_cases.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>

#include "lib/text/nearest.h"
#include "lib/text/output.h"

namespace ligerdsl::cli {

namespace {

using Cases = std::vector<BenchCase>;

struct Scale {
  bool cpu;
  int64_t rows;  // rows of every case; 0: the set chooses
};

// Names of the models, widths and vocabulary sizes from shapes.json.
#include "bench_shapes.inc"

// Builds a list of cases, in f32 for a CPU and bf16 for a GPU.
class Builder {
 public:
  explicit Builder(const Scale& scale)
      : scale_(scale), dtype_(scale.cpu ? "dtype=f32" : "dtype=bf16") {}
  Cases take() { return std::move(cases_); }

  void one(std::string kernel, int64_t rows, std::vector<std::string> settings) {
    settings.insert(settings.begin(), {dtype_, size("N", rows_of(rows))});
    cases_.push_back({std::move(kernel), std::move(settings)});
  }
  // Adds the forward and backward pass of a row kernel. `letter` is the name of the size with the
  // value `width`: H or F. Norms write the weight's gradient in f32.
  void pair(const std::string& kernel, int64_t rows, const char* letter, int64_t width,
            bool norm = false) {
    one(fmt::format("{}_forward", kernel), rows, {size(letter, width)});
    std::vector<std::string> settings = {size(letter, width)};
    if (norm) settings.push_back("d_weight_dtype=f32");
    one(fmt::format("{}_backward", kernel), rows, settings);
  }
  void rope(int64_t batch, int64_t positions, int64_t q, int64_t k, int64_t d) {
    for (const char* direction : {"inverse=0", "inverse=1"}) {
      cases_.push_back({"rope",
                        {dtype_, "table_dtype=f32", direction, "layout=half", size("B", batch),
                         size("S", positions), size("A", q), size("K", k), size("D", d)}});
    }
  }
  void loss(int64_t rows, int64_t classes) {
    one("cross_entropy", rows, {size("V", classes), "with_d_logits=0"});
    one("cross_entropy", rows, {size("V", classes), "in_place=1"});
  }
  int64_t rows_of(int64_t rows) const { return scale_.rows > 0 ? scale_.rows : rows; }
  static std::string size(const char* letter, int64_t value) {
    return fmt::format("{}={}", letter, value);
  }

 private:
  Scale scale_;
  std::string dtype_;
  Cases cases_;
};

// Returns one case per operation (kernels/*/*.op.py), at a size that fills the device. The
// generated file bench_standard.inc uses `gpu` and `rows`.
Cases standard(const Scale& scale) {
  const bool gpu = !scale.cpu;
  const auto rows = [&](const char* letter, int64_t factor, int64_t of_gpu, int64_t of_cpu) {
    return Builder::size(letter, factor * (scale.rows > 0 ? scale.rows : gpu ? of_gpu : of_cpu));
  };
  return {
#include "bench_standard.inc"
  };
}

// Returns the shapes of the speed goals.
Cases paper(const Scale& scale) {
  Builder add(scale);
  for (int64_t width : {2048, 4096, 8192, 16384}) add.pair("rms_norm", 16384, "H", width, true);
  for (int64_t width : {4096, 8192, 16384}) add.pair("layer_norm", 16384, "H", width, true);
  for (const char* gate : {"swiglu", "geglu"}) add.pair(gate, 16384, "F", 14336);
  add.rope(8, 2048, 32, 8, 128);
  add.rope(1, 16384, 64, 8, 128);
  add.loss(4096, 40960);
  add.loss(8192, 128256);
  add.loss(4096, 163840);
  for (const char* norm : {"rms_norm", "layer_norm"}) {
    add.pair(norm, 4096, "H", 65536, true);
    add.pair(norm, 2048, "H", 131072, true);
  }
  add.pair("rms_norm", 2048, "H", 4096, true);
  return add.take();
}

Cases widths(const Scale& scale) {
  Builder add(scale);
  for (int64_t classes : kVocabularies) add.loss(4096, classes);
  for (int64_t width : kWidths) {
    add.pair("rms_norm", 16384, "H", width, true);
    add.pair("layer_norm", 16384, "H", width, true);
    add.pair("swiglu", 8192, "F", width);
  }
  return add.take();
}

// Returns the layers of a model, from shapes.json and kernels/*/*.op.py. The generated file
// bench_layers.inc uses `gpu` and `n`.
Cases layers_of(std::string_view model, const Scale& scale) {
  const bool gpu = !scale.cpu;
  const int64_t tokens = scale.rows > 0 ? scale.rows : gpu ? 8192 : 1024;
  const auto n = [&](const char*) { return static_cast<double>(tokens); };
#include "bench_layers.inc"
  return {};
}

}  // namespace

std::vector<std::string> bench_set_names() {
  std::vector<std::string> names = {"standard", "paper", "widths"};
  for (const char* model : kModels) names.emplace_back(model);
  return names;
}

namespace {

Cases cases_of(const std::string& set, const Scale& scale) {
  if (set == "standard") return standard(scale);
  if (set == "paper") return paper(scale);
  if (set == "widths") return widths(scale);
  for (const char* model : kModels) {
    if (set == model) return layers_of(model, scale);
  }
  const std::vector<std::string> names = bench_set_names();
  throw Failure(kUsage, fmt::format("unknown set or model '{}'{}; expected one of {}", set,
                                    did_you_mean(set, names), fmt::join(names, ", ")));
}

}  // namespace

std::vector<BenchCase> bench_cases(const std::string& set, const BenchScale& scale) {
  if (scale.rows.empty()) return cases_of(set, {scale.cpu, 0});
  Cases all;
  for (const int64_t rows : scale.rows) {
    for (BenchCase& one : cases_of(set, {scale.cpu, rows})) {
      if (std::find(all.begin(), all.end(), one) == all.end()) all.push_back(std::move(one));
    }
  }
  return all;
}

}  // namespace ligerdsl::cli
