#include "signals.h"

#include <array>
#include <atomic>
#include <csignal>

namespace train {
namespace {

struct Stop {
  int number;
  const char* name;
};
constexpr std::array<Stop, 3> kStops{
    {{SIGINT, "SIGINT"}, {SIGTERM, "SIGTERM"}, {SIGHUP, "SIGHUP"}}};

std::atomic<int> noted{0};
static_assert(std::atomic<int>::is_always_lock_free, "it is set by a signal handler");
std::array<volatile std::sig_atomic_t, kStops.size()> caught{};

void note(int signal) {
  noted = signal;
  for (size_t i = 0; i < kStops.size(); ++i) {
    if (caught[i]) std::signal(kStops[i].number, SIG_DFL);
  }
}

}  // namespace

void catch_stop_signals() {
  for (size_t i = 0; i < kStops.size(); ++i) {
    struct sigaction now {};
    if (sigaction(kStops[i].number, nullptr, &now) == 0 && now.sa_handler == SIG_IGN) continue;
    caught[i] = 1;
    now = {};
    now.sa_handler = note;
    now.sa_flags = SA_RESTART;
    sigaction(kStops[i].number, &now, nullptr);
  }
  std::signal(SIGXFSZ, SIG_IGN);
}

int stop_signal() {
  return noted;
}

const char* stop_signal_name() {
  for (const Stop& stop : kStops) {
    if (stop.number == stop_signal()) return stop.name;
  }
  return "no signal";
}

}  // namespace train
