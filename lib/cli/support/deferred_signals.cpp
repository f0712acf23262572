#include "lib/cli/support/deferred_signals.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "lib/text/output.h"

namespace ligerdsl::cli {

namespace {

constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP};

struct sigaction before[3];
int ends[2] = {-1, -1};  // pipe to which the handler writes the signal's number
volatile sig_atomic_t came = 0;
const struct sigaction at_once {};  // SIG_DFL

void note(int signal) {
  const int error = errno;
  if (came)
    sigaction(signal, &at_once, nullptr), raise(signal);  // delivered when this handler returns
  came = 1;
  const auto number = static_cast<unsigned char>(signal);
  [[maybe_unused]] const ssize_t put = write(ends[1], &number, 1);
  errno = error;
}

}  // namespace

DeferredSignals::DeferredSignals() {
  if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0)
    throw Failure(kNothingFound, std::string("cannot create a pipe: ") + std::strerror(errno));
  came = 0;
  struct sigaction action {};
  action.sa_handler = note;
  for (int i = 0; i < 3; ++i) {
    sigaction(kSignals[i], nullptr, &before[i]);
    if (before[i].sa_handler != SIG_IGN) sigaction(kSignals[i], &action, nullptr);
  }
}

DeferredSignals::~DeferredSignals() {
  for (int i = 0; i < 3; ++i) sigaction(kSignals[i], &before[i], nullptr);
  unsigned char number = 0;
  const bool caught = read(ends[0], &number, 1) == 1;
  close(ends[0]);
  close(ends[1]);
  if (caught) raise(number);
}

int DeferredSignals::descriptor() const {
  return ends[0];
}

bool DeferredSignals::arrived() const {
  return came != 0;
}

}  // namespace ligerdsl::cli
