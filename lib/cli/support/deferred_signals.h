// Handling of Ctrl-C while there is something to clean up.
#pragma once

namespace ligerdsl::cli {

// While an object lives, SIGINT, SIGTERM and SIGHUP do not end the command at once. Instead
// descriptor() becomes readable, the work unwinds, and the destructor raises the signal again. A
// second signal ends the command at once, even if the work hangs. An ignored signal (nohup) stays
// ignored.
// Make the object before anything that needs cleanup. At most one may exist.
class DeferredSignals {
 public:
  DeferredSignals();
  ~DeferredSignals();
  DeferredSignals(const DeferredSignals&) = delete;
  DeferredSignals& operator=(const DeferredSignals&) = delete;

  int descriptor() const;
  bool arrived() const;  // a signal came
};

}  // namespace ligerdsl::cli
