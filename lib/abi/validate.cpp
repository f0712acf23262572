#include "lib/abi/validate.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "lib/abi/context.h"
#include "lib/abi/failure.h"
#include "runtime/environment/log.h"

namespace ligerdsl::lib {

namespace {

enum class Wanted : uint8_t { nan, not_finite };

// In an infinity or NaN all bits of `exponent` are set; in a NaN also at least one bit of
// `mantissa`.
struct Format {
  uint32_t exponent, mantissa;
};
Format format_of(DType type) {
  if (type == DType::f32) return {0x7f800000u, 0x007fffffu};
  if (type == DType::f8e5m2) return {0x7cu, 0x03u};
  if (type == DType::f8e4m3) return {0x7fu, 0x7fu};  // NaN has all 7 bits set; there is no infinity
  return type == DType::f16 ? Format{0x7c00u, 0x03ffu} : Format{0x7f80u, 0x007fu};
}

// Returns the number of elements in the contiguous last dimensions, and the number of other
// dimensions in `outer_rank`.
int64_t run_length(const BoundTensor& tensor, int* outer_rank) {
  int64_t run = 1;
  int rank = tensor.rank;
  while (rank > 0 && (tensor.dims[rank - 1] == 1 || tensor.strides[rank - 1] == run))
    run *= tensor.dims[--rank];
  *outer_rank = rank;
  return run;
}

std::string place(const BoundTensor& tensor, int64_t index) {
  std::string text;
  for (int i = tensor.rank - 1; i >= 0; --i) {
    text = std::to_string(index % tensor.dims[i]) + (text.empty() ? "" : ", " + text);
    index /= tensor.dims[i];
  }
  return "[" + text + "]";
}

class Scanner {
 public:
  Scanner(Context& context, runtime::Stream stream) : context_(context), stream_(stream) {}

  // Returns the row-major index of the first element that is NaN or, if wanted, not finite.
  std::optional<int64_t> find(const BoundTensor& tensor, Wanted wanted) {
    if (!tensor.present || !is_float(tensor.dtype)) return std::nullopt;
    int64_t total = 1;
    for (int i = 0; i < tensor.rank; ++i) total *= tensor.dims[i];
    int outer = 0;
    const int64_t run = run_length(tensor, &outer);
    for (int64_t first = 0; first < total; first += run) {
      int64_t offset = 0, rest = first / run;
      for (int i = outer - 1; i >= 0; --i) {
        offset += rest % tensor.dims[i] * tensor.strides[i];
        rest /= tensor.dims[i];
      }
      if (const auto at = find_in_run(tensor, offset, run, wanted)) return first + *at;
    }
    return std::nullopt;
  }

 private:
  std::optional<int64_t> find_in_run(const BoundTensor& tensor, int64_t offset, int64_t run,
                                     Wanted wanted) {
    constexpr int64_t kElements = int64_t{1} << 20;
    const int64_t bytes = size_of(tensor.dtype);
    const Format format = format_of(tensor.dtype);
    host_.resize(static_cast<size_t>(std::min(run, kElements) * bytes));
    for (int64_t done = 0; done < run; done += kElements) {
      const int64_t part = std::min(run - done, kElements);
      context_.device().copy(host_.data(), tensor.data + (offset + done) * bytes,
                             static_cast<size_t>(part * bytes), stream_);
      context_.device().synchronize(stream_);
      for (int64_t i = 0; i < part; ++i) {
        uint32_t bits = 0;
        std::memcpy(&bits, host_.data() + i * bytes, static_cast<size_t>(bytes));
        if ((bits & format.exponent) != format.exponent) continue;
        if (wanted == Wanted::not_finite || (bits & format.mantissa)) return done + i;
      }
    }
    return std::nullopt;
  }

  Context& context_;
  runtime::Stream stream_;
  std::vector<char> host_;
};

}  // namespace

void run_validated(Context& context, std::span<const Watched> tensors, runtime::Stream stream,
                   const std::function<void()>& run) {
  if (context.device().capturing(stream)) {
    runtime::log_once(
        runtime::LogLevel::warning, "validate:capture",
        "LIGERDSL_VALIDATE: calls on a stream that is being captured are not checked");
    return run();
  }
  Scanner scanner(context, stream);
  const bool finite = std::none_of(tensors.begin(), tensors.end(), [&](const Watched& watched) {
    return watched.read && scanner.find(*watched.tensor, Wanted::not_finite);
  });
  run();
  context.check(stream);
  if (!finite) return;
  for (const Watched& watched : tensors) {
    if (!watched.written) continue;
    if (const auto at = scanner.find(*watched.tensor, Wanted::nan))
      fail(Status::execution_failed, std::string("`") + watched.name + "` holds a NaN at " +
                                         place(*watched.tensor, *at) +
                                         ", but all tensors that the call read are finite (found "
                                         "by LIGERDSL_VALIDATE)");
  }
}

}  // namespace ligerdsl::lib
