#include "runtime/device/measure.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <memory>

#include "runtime/environment/options.h"

namespace ligerdsl::runtime {
namespace {

// Device memory that the destructor releases.
class Scratch {
 public:
  Scratch(Device& device, size_t bytes)
      : device_(device), bytes_(bytes), memory_(bytes > 0 ? device.alloc(bytes) : nullptr) {}
  ~Scratch() { device_.free(memory_); }
  Scratch(const Scratch&) = delete;
  void* get() const { return memory_; }
  void overwrite(uint8_t value, Stream stream) const {
    if (bytes_ > 0) device_.fill(memory_, value, bytes_, stream);
  }

 private:
  Device& device_;
  size_t bytes_;
  void* memory_;
};

class Timer {
 public:
  explicit Timer(Device& device)
      : device_(device), begin_(device.create_event()), end_(device.create_event()) {}
  ~Timer() {
    device_.destroy_event(begin_);
    device_.destroy_event(end_);
  }
  Timer(const Timer&) = delete;
  void start(Stream stream) { device_.record(begin_, stream); }
  double stop(Stream stream) {
    device_.record(end_, stream);
    return device_.elapsed_ms(begin_, end_);
  }

 private:
  Device& device_;
  Event begin_, end_;
};

class OwnStream {
 public:
  explicit OwnStream(Device& device) : device_(device), stream_(device.create_stream()) {}
  ~OwnStream() { device_.destroy_stream(stream_); }
  OwnStream(const OwnStream&) = delete;
  Stream get() const { return stream_; }

 private:
  Device& device_;
  Stream stream_;
};

// Returns the bytes to overwrite before a sample: LIGERDSL_COLD_MEGABYTES, or twice the last-level
// cache (of a GPU: the L2), but at least 64 and at most 512 MiB.
size_t flush_bytes(const Device& device) {
  if (const int64_t megabytes = options().cold_megabytes; megabytes > 0)
    return static_cast<size_t>(megabytes) << 20;
  constexpr int64_t least = int64_t{64} << 20, most = int64_t{512} << 20;
  const int64_t cache =
      device.is_cpu() ? sysconf(_SC_LEVEL3_CACHE_SIZE) : device.description().l2_bytes;
  return static_cast<size_t>(std::clamp(cache * 2, least, most));
}

double quantile(const std::vector<double>& sorted, double q) {
  const double place = q * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(place);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (sorted[above] - sorted[below]) * (place - static_cast<double>(below));
}

Measurement summarize(std::vector<double> samples) {
  std::vector<double> sorted = samples;
  std::sort(sorted.begin(), sorted.end());
  return {quantile(sorted, 0.5), quantile(sorted, 0.2), quantile(sorted, 0.8), sorted.front(),
          std::move(samples)};
}

}  // namespace

std::vector<Measurement> measure_alternately(Device& device, const std::vector<Work>& works,
                                             const MeasureOptions& options) {
  const OwnStream stream(device);
  const Scratch flush(device, options.cold ? flush_bytes(device) : 0);
  Timer timer(device);
  for (const Work& work : works)
    for (int32_t i = 0; i < options.warmup; ++i) work(stream.get());
  device.synchronize(stream.get());
  std::vector<std::vector<double>> samples(works.size());
  double spent = 0;
  // The wall time is limited as well, because overwriting the caches may take far longer than the
  // work: for example, 512 MiB before each copy of 1000 bytes.
  constexpr double kMostOverhead = 10;
  const auto began = std::chrono::steady_clock::now();
  const auto over = [&] {
    const std::chrono::duration<double, std::milli> elapsed =
        std::chrono::steady_clock::now() - began;
    return spent >= options.budget_ms || elapsed.count() >= kMostOverhead * options.budget_ms;
  };
  const auto least = static_cast<size_t>(std::max(options.min_samples, 1));
  const auto most = std::max(static_cast<size_t>(std::max(options.max_samples, 0)), least);
  for (size_t done = 0; done < least || (done < most && !over()); ++done) {
    for (size_t i = 0; i < works.size(); ++i) {
      flush.overwrite(static_cast<uint8_t>(done), stream.get());
      timer.start(stream.get());
      works[i](stream.get());
      samples[i].push_back(timer.stop(stream.get()));
    }
    spent += samples.front().back();
  }
  std::vector<Measurement> results;
  for (std::vector<double>& times : samples) results.push_back(summarize(std::move(times)));
  return results;
}

Measurement measure(Device& device, const Work& work, const MeasureOptions& options) {
  return std::move(measure_alternately(device, {work}, options).front());
}

Work copy_work(Device& device, int64_t bytes) {
  const auto size = static_cast<size_t>(bytes);
  const auto from = std::make_shared<Scratch>(device, size),
             to = std::make_shared<Scratch>(device, size);
  from->overwrite(1, nullptr);
  to->overwrite(2, nullptr);
  device.synchronize_all();
  return [&device, from, to, size](Stream stream) {
    device.copy(to->get(), from->get(), size, stream);
  };
}

double copy_bandwidth_gbps(Device& device, int64_t bytes) {
  return copy_gbps(bytes, measure(device, copy_work(device, bytes)));
}

double host_time_us(Device& device, Stream stream, int32_t calls,
                    const std::function<void()>& work) {
  constexpr int batches = 11;
  std::vector<double> times;
  work();
  device.synchronize(stream);
  for (int batch = 0; batch < batches; ++batch) {
    const auto begin = std::chrono::steady_clock::now();
    for (int32_t i = 0; i < calls; ++i) work();
    const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - begin;
    times.push_back(took.count() / calls);
    device.synchronize(stream);
  }
  return summarize(std::move(times)).median_ms;
}

}  // namespace ligerdsl::runtime
