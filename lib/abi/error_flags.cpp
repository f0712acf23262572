#include "lib/abi/error_flags.h"

#include <atomic>
#include <memory>
#include <string>

#include "kernels/core/error_flag.h"

namespace ligerdsl::lib {

runtime::Error error_of(const Fault& fault) {
  using runtime::Status;
  const std::string begin = std::string(fault.operation->name) + ": ",
                    number = std::to_string(fault.row);
  const std::string lowest = number + " (the lowest such row); expected ";
  switch (fault.operation->reported) {
    case Reported::group:
      return {Status::invalid_bounds,
              begin + "offsets out of bounds at group " + number +
                  " (the first such group); expected 0 <= offsets[e] <= offsets[e + 1] <= number "
                  "of rows of `a`"};
    case Reported::sequence:
      return {Status::invalid_bounds,
              begin + "cu_seqlens out of bounds at sequence " + number +
                  " (the first such sequence); expected cu_seqlens_q and cu_seqlens_k to begin "
                  "with 0, to grow by 0 to max_seqlen tokens per sequence, and to end with the "
                  "number of tokens"};
    case Reported::step:
      return {Status::invalid_bounds,
              begin +
                  "device_step out of bounds: expected 1 or more, got less; the step was skipped; "
                  "count steps from 1"};
    case Reported::index:
      return {Status::invalid_label,
              begin + "index out of bounds at position " + number +
                  " (the lowest such position); expected 0 <= index < n_rows, or with a shard "
                  "0 <= index < total_rows"};
    case Reported::shard_label:
      return {Status::invalid_label,
              begin + "label out of bounds in row " + lowest +
                  "0 <= label < total_classes (if that is 0: first_class + n_classes), or "
                  "ignore_index"};
    default:
      return {Status::invalid_label, begin + "label out of bounds in row " + lowest +
                                         "0 <= label < n_classes, or ignore_index"};
  }
}

ErrorFlags::ErrorFlags(runtime::Device& device) : device_(device) {
  const size_t count = op_table().size();
  words_ = {static_cast<Word*>(device.alloc_mapped(count * sizeof(Word))), count};
  std::uninitialized_value_construct(words_.begin(), words_.end());
}

ErrorFlags::~ErrorFlags() {
  device_.free_mapped(words_.data());
}

BoundTensor ErrorFlags::word(int32_t operation) const {
  BoundTensor word{};
  word.data = reinterpret_cast<std::byte*>(&words_[operation].value);
  word.dims[0] = 1;
  word.strides[0] = 1;
  word.rank = 1;
  word.dtype = DType::i64;
  word.present = true;
  return word;
}

std::optional<Fault> ErrorFlags::take() {
  for (const OpInfo* info : op_table()) {
    const std::atomic_ref<int64_t> word(words_[info->index].value);
    if (word.load(std::memory_order_relaxed) == 0) continue;
    if (const int64_t value = word.exchange(0)) return Fault{info, kernels::kErrorBase - value};
  }
  return std::nullopt;
}

}  // namespace ligerdsl::lib
