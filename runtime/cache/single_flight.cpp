#include "runtime/cache/single_flight.h"

#include <map>
#include <mutex>

#include "runtime/environment/log.h"
#include "runtime/system/fork.h"

namespace ligerdsl::runtime {

// Guarded by the mutex of Flights.
struct SingleFlight::Flight {
  const uint32_t generation = fork_generation();
  bool over = false;
  std::shared_ptr<const std::string> bytes;
};

struct SingleFlight::Flights {
  ForkMutex mutex;
  EventCount changed;
  std::map<std::string, std::shared_ptr<Flight>> by_name;
};

SingleFlight::Flights& SingleFlight::flights() {
  static auto* const all = new Flights;
  return *all;
}

// Contexts that store entries in the same folder share flights. So do all contexts that store
// nothing.
SingleFlight::SingleFlight(const DiskCache& disk, const Digest& key, const char* suffix,
                           const FileStamp& seen, std::chrono::milliseconds longest)
    : name_((disk.writable() ? disk.directory() : "") + "/" + entry_name(key, suffix)) {
  join();
  if (made_ || !disk.writable()) return;
  try {
    lock_.emplace(disk.folder(), entry_name(key, suffix), seen, longest);
  } catch (...) {
    leave();
    throw;
  }
}

SingleFlight::~SingleFlight() {
  lock_.reset();  // unlock before the next thread becomes the maker of the entry
  leave();
}

void SingleFlight::join() {
  Flights& all = flights();
  const auto fresh = std::make_shared<Flight>();
  std::unique_lock lock(all.mutex);
  for (;;) {
    std::shared_ptr<Flight>& place = all.by_name[name_];
    if (!place || place->generation != fork_generation()) {
      place = flight_ = fresh;
      return;
    }
    const std::shared_ptr<Flight> other = place;
    if (!other->bytes && !waited_) {
      waited_ = true;
      lock.unlock();
      log(LogLevel::debug, "waiting for another thread that is already creating cache entry " +
                               name_.substr(name_.rfind('/') + 1));
      lock.lock();
      continue;
    }
    while (!other->bytes && !other->over) all.changed.wait(lock);
    made_ = other->bytes;
    if (made_) return;
  }
}

void SingleFlight::leave() {
  if (!flight_) return;
  Flights& all = flights();
  {
    const std::lock_guard lock(all.mutex);
    flight_->over = true;
    const auto place = all.by_name.find(name_);
    if (place != all.by_name.end() && place->second == flight_) all.by_name.erase(place);
  }
  all.changed.notify_all();
}

void SingleFlight::land(std::string bytes) {
  auto shared = std::make_shared<const std::string>(std::move(bytes));
  Flights& all = flights();
  {
    const std::lock_guard lock(all.mutex);
    flight_->bytes = std::move(shared);
  }
  all.changed.notify_all();
}

}  // namespace ligerdsl::runtime
