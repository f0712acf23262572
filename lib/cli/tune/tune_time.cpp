#include "lib/cli/tune/tune_time.h"

#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "lib/text/output.h"

namespace ligerdsl::cli {

TimedStop::TimedStop(const DeferredSignals& signals, tune::Deadline until)
    : until_(until),
      timer_(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)),
      either_(epoll_create1(EPOLL_CLOEXEC)) {
  bool made = timer_ >= 0 && either_ >= 0;
  for (const int descriptor : {signals.descriptor(), timer_}) {
    epoll_event event{.events = EPOLLIN, .data = {}};
    made = made && epoll_ctl(either_, EPOLL_CTL_ADD, descriptor, &event) == 0;
  }
  if (!made)
    throw Failure(kNothingFound, std::string("cannot create a timer: ") + std::strerror(errno));
  set(until);
}

TimedStop::~TimedStop() {
  close(timer_);
  close(either_);
}

void TimedStop::set(tune::Deadline until) {
  until_ = until;
  // steady_clock is CLOCK_MONOTONIC, in nanoseconds.
  const auto at =
      std::chrono::duration_cast<std::chrono::nanoseconds>(until.at().time_since_epoch()).count();
  constexpr int64_t kNanoseconds = 1000000000;
  itimerspec when{};
  when.it_value = {.tv_sec = at / kNanoseconds, .tv_nsec = at % kNanoseconds};
  timerfd_settime(timer_, TFD_TIMER_ABSTIME, &when, nullptr);
}

TuneTime::TuneTime(const DeferredSignals& signals, double timeout_seconds, double budget_seconds)
    : signals_(signals),
      timeout_seconds_(timeout_seconds),
      end_(tune::Deadline::after(budget_seconds)),
      whole_(signals, end_),
      search_(signals, end_) {}

double TuneTime::opening_seconds() const {
  constexpr double kTimeouts = 10, kLeast = 10;
  return std::max(kLeast, kTimeouts * timeout_seconds_);
}

double TuneTime::trial_seconds(double measuring_seconds) const {
  constexpr double kSlower = 10;
  return timeout_seconds_ + kSlower * measuring_seconds;
}

void TuneTime::require_going_on() const {
  if (signals_.arrived()) throw Stopped();
  if (whole_.passed()) throw BudgetOver();
}

}  // namespace ligerdsl::cli
