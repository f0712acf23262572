#include "tests/every_op/large_run.h"

#include <cmath>
#include <cstring>

#include "lib/abi/entry.h"
#include "lib/abi/handles.h"
#include "runtime/system/status.h"
#include "tests/support/fp8.h"
#include "tests/support/half.h"

namespace ligerdsl::test {
namespace {

using Slot = cli::OpInstance::Slot;

int64_t elements_of(const std::vector<int64_t>& shape) {
  int64_t n = 1;
  for (const int64_t dim : shape) n *= dim;
  return n;
}

Case with_rows(Case which, const char* letter, int64_t rows) {
  which.settings.insert(which.settings.begin(),
                        std::string(letter).append("=").append(std::to_string(rows)));
  return which;
}

bool is_result(const Slot& slot) {
  return slot.info && slot.info->direction != lib::Direction::in;
}

// Returns n pseudo-random numbers in [-2, 2), or in [0.01, 2.01) if `positive`, times `scale`.
std::string numbers(DType type, int64_t n, uint64_t seed, bool positive, float scale) {
  std::string bytes(static_cast<size_t>(n * size_of(type)), '\0');
  uint64_t state = seed * 0x9e3779b97f4a7c15 + 1;
  for (int64_t i = 0; i < n; ++i) {
    state = state * 6364136223846793005 + 1442695040888963407;
    const float uniform = static_cast<float>(state >> 40) * 0x1p-24f;
    const float value = scale * (positive ? 0.01f + 2 * uniform : 4 * uniform - 2);
    char* to = &bytes[static_cast<size_t>(i * size_of(type))];
    const uint16_t half = type == DType::bf16 ? to_bf16(value) : to_f16(value);
    if (type == DType::f32)
      std::memcpy(to, &value, sizeof value);
    else if (is_fp8(type))
      *to = static_cast<char>(to_fp8(type == f8e4m3 ? kE4m3 : kE5m2, value));
    else
      std::memcpy(to, &half, sizeof half);
  }
  return bytes;
}

double number_at(const std::byte* from, DType type) {
  uint16_t half;
  std::memcpy(&half, from, sizeof half);
  if (type == DType::bf16) return from_bf16(half);
  if (type == DType::f16) return from_f16(half);
  if (type == DType::f32) {
    float value;
    std::memcpy(&value, from, sizeof value);
    return value;
  }
  int64_t integer = 0;
  std::memcpy(&integer, from, static_cast<size_t>(size_of(type)));
  return static_cast<double>(type == DType::i32 ? static_cast<int32_t>(integer) : integer);
}

}  // namespace

LargeRun::LargeRun(ligerdsl_context_t context, const LargeCase& large, const Limits& limits)
    : context_(context),
      case_(large),
      plan_(context, with_rows(large.which, large.rows, large.period)) {
  why_not_ = plan_.not_supported();
  if (!why_not_.empty()) return;
  choose_rows(limits);
  allocate();
}

void LargeRun::choose_rows(const Limits& limits) {
  const auto& info = cli::find_op(case_.which.op);
  cli::OpInstance one(info, with_rows(case_.which, case_.rows, 1).settings);
  cli::OpInstance two(info, with_rows(case_.which, case_.rows, 2).settings);
  int64_t widest = 1, bytes = 0;  // per row
  for (size_t i = 0; i < one.slots().size(); ++i) {
    const Slot& slot = one.slots()[i];
    if (slot.shape == two.slots()[i].shape) continue;
    by_row_.insert(slot.name);
    widest = std::max(widest, elements_of(slot.shape));
    bytes += elements_of(slot.shape) * size_of(slot.dtype);
  }
  const int64_t limit = case_.many_rows ? limits.elements : (limits.elements + widest - 1) / widest;
  const int64_t after = std::max(limit / 50, case_.period);
  const bool twice = !case_.many_rows && (2 * limit + after) * bytes <= limits.most_bytes;
  regions_ = std::make_unique<Regions>(case_.period, std::vector<int64_t>{limit, 2 * limit},
                                       (twice ? 2 * limit : limit) + after);
}

void LargeRun::allocate() {
  const auto& info = cli::find_op(case_.which.op);
  cli::OpInstance large(info, with_rows(case_.which, case_.rows, regions_->rows()).settings);
  small_ = std::make_unique<cli::OpInstance>(
      info, with_rows(case_.which, case_.rows, regions_->small_rows()).settings);
  small_->allocate(lib::ContextUse(context_).ref());
  small_->prepare(
      **static_cast<lib::PlanRef*>(lib::HandleUse(lib::HandleKind::plan, plan_, "plan").object()));
  for (size_t i = 0; i < small_->slots().size(); ++i) {
    Slot& slot = small_->slots()[i];
    const int64_t n = elements_of(slot.shape);
    if (is_float(slot.dtype)) {
      const bool positive = small_->defaults().of(slot.name).positive;
      const double scale = slot.name == "weight" ? case_.weight_scale : 1;
      small_->write(slot, numbers(slot.dtype, n, i + 1, positive, static_cast<float>(scale)));
    }
    Place place{&slot,  large.slots()[i].shape, by_row_.contains(slot.name), is_result(slot), 0,
                nullptr};
    place.row_elements =
        place.by_row ? elements_of(place.shape) / regions_->rows() : elements_of(place.shape);
    const size_t bytes = static_cast<size_t>(elements_of(place.shape) * size_of(slot.dtype));
    if (place.by_row || place.result) {
      place.memory = std::make_unique<Memory>(context_, bytes);
      must(ligerdsl_buffer_fill(context_, place.data(), 0xee, bytes, nullptr),
           "ligerdsl_buffer_fill");
    }
    const bool reads = !place.result || slot.info->direction == lib::Direction::inout;
    if (place.by_row && reads)
      spread(context_, *regions_, place.row_bytes(), static_cast<std::byte*>(slot.data),
             place.data());
    places_.push_back(std::move(place));
  }
  must(ligerdsl_stream_sync(context_, nullptr), "ligerdsl_stream_sync");
}

ligerdsl_status_t LargeRun::execute(
    const std::function<ligerdsl_tensor_t(const Place&, std::vector<int64_t>*)>& tensor_of) {
  std::vector<std::vector<int64_t>> shapes(places_.size());
  std::vector<ligerdsl_tensor_t> tensors;
  for (size_t i = 0; i < places_.size(); ++i) tensors.push_back(tensor_of(places_[i], &shapes[i]));
  return execute_on(context_, plan_, *small_, tensors);
}

// Sets the offsets of grouped operations, or of sequences, to a single group of `rows` rows.
void LargeRun::set_offsets(int64_t rows) {
  const int64_t all[] = {0, rows};
  for (Slot& slot : small_->slots()) {
    if (small_->defaults().of(slot.name).bounds == case_.rows)
      small_->write(slot, std::string(reinterpret_cast<const char*>(all), sizeof all));
  }
}

ligerdsl_status_t LargeRun::execute_large() {
  set_offsets(regions_->rows());
  return execute([](const Place& place, std::vector<int64_t>* shape) {
    *shape = place.shape;
    return ligerdsl_tensor_make(place.data(), session().device(), code_of(place.small->dtype),
                                static_cast<int32_t>(shape->size()), shape->data());
  });
}

// Runs the operation on `rows` rows of the small tensors, starting at row `first`.
ligerdsl_status_t LargeRun::execute_small(int64_t first, int64_t rows) {
  set_offsets(rows);
  return execute([=, this](const Place& place, std::vector<int64_t>* shape) {
    *shape = place.small->shape;
    auto* data = static_cast<std::byte*>(place.small->data);
    if (place.by_row) {
      (*shape)[0] = place.small->shape[0] / regions_->small_rows() * rows;
      data += static_cast<size_t>(first) * place.row_bytes();
    }
    return ligerdsl_tensor_make(data, session().device(), code_of(place.small->dtype),
                                static_cast<int32_t>(shape->size()), shape->data());
  });
}

// Runs the operation on the rows of each region, and keeps the results that are sums over rows.
void LargeRun::keep_sums() {
  for (const Regions::Region& region : regions_->all()) {
    must(execute_small(region.small_first, regions_->period()), case_.which.op.c_str());
    for (const Place& place : places_) {
      if (place.result && !place.by_row)
        sums_[place.small->name].push_back(read(place, static_cast<std::byte*>(place.small->data)));
    }
  }
}

bool LargeRun::run() {
  if (!why_not_.empty()) return false;
  bool sums = false;
  for (const Place& place : places_) sums = sums || (place.result && !place.by_row);
  if (sums) keep_sums();
  must(execute_small(0, regions_->small_rows()), case_.which.op.c_str());
  ligerdsl_status_t status;
  try {
    status = execute_large();
  } catch (const runtime::Error& error) {  // for example a grid that is too large for a GPU
    if (error.status() != runtime::Status::invalid_shape ||
        !std::strstr(error.what(), "split the call"))
      throw;
    why_not_ = error.what();
    return false;
  }
  must(status, case_.which.op.c_str());
  return true;
}

std::vector<double> LargeRun::read(const Place& place, const std::byte* data) const {
  const DType type = place.small->dtype;
  std::vector<std::byte> bytes(static_cast<size_t>(place.row_elements * size_of(type)) +
                               sizeof(int64_t));
  must(ligerdsl_buffer_copy(context_, bytes.data(), data, place.row_bytes(), nullptr),
       "ligerdsl_buffer_copy");
  must(ligerdsl_stream_sync(context_, nullptr), "ligerdsl_stream_sync");
  std::vector<double> values;
  for (int64_t i = 0; i < place.row_elements; ++i)
    values.push_back(number_at(bytes.data() + i * size_of(type), type));
  return values;
}

std::string LargeRun::check_sums(const Place& place) const {
  const auto combine = case_.combine.find(place.small->name);
  const auto& of_regions = sums_.at(place.small->name);
  const std::vector<double> got = read(place, place.data());
  std::vector<double> times;
  for (const Regions::Region& region : regions_->all())
    times.push_back(static_cast<double>(region.rows / regions_->period()));
  double difference = 0, norm = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    std::vector<double> parts;
    for (const auto& of_region : of_regions) parts.push_back(of_region[i]);
    double expected = 0;
    for (size_t k = 0; k < parts.size(); ++k) expected += times[k] * parts[k];
    if (combine != case_.combine.end()) expected = combine->second(i, parts, times);
    difference += (got[i] - expected) * (got[i] - expected);
    norm += expected * expected;
  }
  const double error = std::sqrt(difference) / std::max(std::sqrt(norm), 1e-30);
  if (error <= case_.sum_tolerance) return "";
  return "normwise error: expected at most " + std::to_string(case_.sum_tolerance) + ", got " +
         std::to_string(error);
}

std::vector<std::string> LargeRun::differences() const {
  std::vector<std::string> all;
  for (const Place& place : places_) {
    if (!place.result) continue;
    std::string found;
    if (place.by_row) {
      const Comparison comparison(context_, place.small->dtype);
      found = comparison.differences(*regions_, place.row_elements,
                                     static_cast<std::byte*>(place.small->data), place.data(),
                                     case_.tolerance);
    } else {
      found = check_sums(place);
    }
    if (!found.empty()) all.push_back(place.small->name + ": " + found);
  }
  return all;
}

std::map<std::string, int64_t> LargeRun::row_results() const {
  std::map<std::string, int64_t> all;
  for (const Place& place : places_) {
    if (place.result && place.by_row) all[place.small->name] = place.row_elements;
  }
  return all;
}

void LargeRun::damage(const std::string& tensor, int64_t element) {
  for (const Place& place : places_) {
    if (place.small->name != tensor) continue;
    const auto size = static_cast<size_t>(size_of(place.small->dtype));
    std::byte* at = place.data() + static_cast<size_t>(element) * size;
    std::vector<std::byte> bytes(size);
    const auto copy = [&](void* to, const void* from) {
      must(ligerdsl_buffer_copy(context_, to, from, size, nullptr), "ligerdsl_buffer_copy");
      must(ligerdsl_stream_sync(context_, nullptr), "ligerdsl_stream_sync");
    };
    copy(bytes.data(), at);
    bytes[size - 1] ^= std::byte{0x40};  // changes the highest bit of the exponent
    copy(at, bytes.data());
  }
}

}  // namespace ligerdsl::test
