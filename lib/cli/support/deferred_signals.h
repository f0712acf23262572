// Delays the effect of Ctrl-C until cleanup is done.
#pragma once

namespace ligerdsl::cli {

// During an object's lifetime, SIGINT, SIGTERM and SIGHUP do not end the command at once. Instead
// descriptor() becomes readable, the work stops, and the destructor raises the signal again. A
// second signal ends the command at once, even if the work hangs. An ignored signal (nohup) stays
// ignored. Make the object before any object that needs cleanup. At most one may exist.
class DeferredSignals {
 public:
  DeferredSignals();
  ~DeferredSignals();
  DeferredSignals(const DeferredSignals&) = delete;
  DeferredSignals& operator=(const DeferredSignals&) = delete;

  int descriptor() const;
  bool arrived() const;  // Returns true if a signal has arrived.
};

}  // namespace ligerdsl::cli
