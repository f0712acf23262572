#include "tests/every_op/far.h"

#include <algorithm>

#include "ligerdsl/dsl.h"
#include "program/serialize.h"

namespace ligerdsl::test {
namespace {

constexpr int64_t kBlock = 4096;
constexpr int64_t kAtATime = int64_t{1} << 30;  // elements per launch

int64_t round_up(int64_t n, int64_t to) {
  return (n + to - 1) / to * to;
}

// Returns a program that sets wrong[period, block] to the number of differing elements of a block.
program::Program comparison(DType type) {
  KernelBuilder k("far_comparison");
  View large = k.view("large", type, {dyn, dyn}), small = k.view("small", type, {dyn});
  View wrong = k.view("wrong", i32, {dyn, dyn});
  Scalar relative = k.scalar("relative", f32), absolute = k.scalar("absolute", f32);
  Scalar period = k.program_id(0), block = k.program_id(1);
  Tile got = large.partition({squeeze, kBlock}).load({period, block});
  Tile expected = small.partition({kBlock}).load({block});
  Tile same = got == expected;
  if (is_float(type)) {
    Tile a = got.to(f32), b = expected.to(f32);
    same = same || abs(a - b) <= abs(b) * relative + absolute;
  }
  wrong.store({period, block}, sum(where(same, k.zeros({kBlock}, i32), k.ones({kBlock}, i32))));
  return k.finish();
}

ligerdsl_kernel_arg_t tensor_arg(const ligerdsl_tensor_t& tensor) {
  ligerdsl_kernel_arg_t arg{};
  arg.kind = LIGERDSL_ARG_TENSOR;
  arg.tensor = &tensor;
  return arg;
}

ligerdsl_kernel_arg_t number_arg(double number) {
  ligerdsl_kernel_arg_t arg{};
  arg.kind = LIGERDSL_ARG_NUMBER;
  arg.number = number;
  return arg;
}

void* unconst(const std::byte* data) {
  return const_cast<std::byte*>(data);
}

}  // namespace

int32_t code_of(DType type) {
  return dtype_info(type).dlpack | static_cast<int32_t>(size_of(type)) * 8 << 8 | 1 << 16;
}

Regions::Regions(int64_t period, const std::vector<int64_t>& limits, int64_t rows)
    : period_(period) {
  int64_t first = 0;
  const auto add = [&](int64_t end) {
    if (end <= first) return;
    all_.push_back({first, end - first, period * static_cast<int64_t>(all_.size())});
    first = end;
  };
  for (const int64_t limit : limits) {
    if (limit < rows) add(round_up(limit, period));
  }
  add(round_up(rows, period));
}

int64_t Regions::small_row(int64_t row) const {
  for (const Region& region : all_) {
    if (row < region.first + region.rows)
      return region.small_first + (row - region.first) % period_;
  }
  return -1;
}

void spread(ligerdsl_context_t context, const Regions& regions, size_t row_bytes,
            const std::byte* small, std::byte* large) {
  const auto copy = [&](std::byte* to, const std::byte* from, size_t bytes) {
    must(ligerdsl_buffer_copy(context, to, from, bytes, nullptr), "ligerdsl_buffer_copy");
  };
  for (const Regions::Region& region : regions.all()) {
    std::byte* begin = large + static_cast<size_t>(region.first) * row_bytes;
    const size_t total = static_cast<size_t>(region.rows) * row_bytes;
    size_t done = static_cast<size_t>(regions.period()) * row_bytes;
    copy(begin, small + static_cast<size_t>(region.small_first) * row_bytes, done);
    for (size_t more; done < total; done += more)
      copy(begin + done, begin, more = std::min(done, total - done));
  }
}

Comparison::Comparison(ligerdsl_context_t context, DType type) : context_(context), type_(type) {
  const std::string bytes = program::serialize(comparison(type));
  must(ligerdsl_kernel_create(context, bytes.data(), bytes.size(), nullptr, &kernel_),
       "far_comparison");
}

void Comparison::compare(int64_t periods, int64_t elements, const std::byte* small,
                         const std::byte* large, const Tolerance& tolerance, int64_t at,
                         Found* found) const {
  const int64_t blocks = (elements + kBlock - 1) / kBlock;
  const Memory counts(context_, static_cast<size_t>(periods * blocks) * sizeof(int32_t));
  int64_t large_shape[] = {periods, elements}, small_shape[] = {elements},
          counts_shape[] = {periods, blocks};
  const ligerdsl_device_t device = session().device();
  const ligerdsl_tensor_t a =
      ligerdsl_tensor_make(unconst(large), device, code_of(type_), 2, large_shape);
  const ligerdsl_tensor_t b =
      ligerdsl_tensor_make(unconst(small), device, code_of(type_), 1, small_shape);
  const ligerdsl_tensor_t c =
      ligerdsl_tensor_make(counts.data(), device, LIGERDSL_I32, 2, counts_shape);
  const ligerdsl_kernel_arg_t args[] = {tensor_arg(a), tensor_arg(b), tensor_arg(c),
                                        number_arg(tolerance.relative),
                                        number_arg(tolerance.absolute)};
  const int32_t grid[] = {static_cast<int32_t>(periods), static_cast<int32_t>(blocks), 1};
  must(ligerdsl_kernel_launch(kernel_, args, std::size(args), grid, nullptr), "far_comparison");
  std::vector<int32_t> wrong(static_cast<size_t>(periods * blocks));
  must(ligerdsl_buffer_copy(context_, wrong.data(), counts.data(), counts.bytes(), nullptr),
       "ligerdsl_buffer_copy");
  must(ligerdsl_stream_sync(context_, nullptr), "ligerdsl_stream_sync");
  for (size_t i = 0; i < wrong.size(); ++i) {
    found->wrong += wrong[i];
    const auto index = static_cast<int64_t>(i);
    if (wrong[i] && found->first < 0)
      found->first = at + index / blocks * elements + index % blocks * kBlock;
  }
}

std::string Comparison::differences(const Regions& regions, int64_t row_elements,
                                    const std::byte* small, const std::byte* large,
                                    const Tolerance& tolerance) const {
  const auto size = static_cast<int64_t>(size_of(type_));
  const int64_t elements = regions.period() * row_elements,
                most = std::max<int64_t>(kAtATime / elements, 1);
  Found found;
  for (const Regions::Region& region : regions.all()) {
    const std::byte* expected = small + region.small_first * row_elements * size;
    for (int64_t done = 0; done < region.rows / regions.period(); done += most) {
      const int64_t periods = std::min(most, region.rows / regions.period() - done);
      const int64_t at = region.first * row_elements + done * elements;
      compare(periods, elements, expected, large + at * size, tolerance, at, &found);
    }
  }
  if (found.wrong == 0) return "";
  return std::to_string(found.wrong) + " of " + std::to_string(regions.rows() * row_elements) +
         " elements are wrong, the first of them in the block that begins at element " +
         std::to_string(found.first);
}

}  // namespace ligerdsl::test
