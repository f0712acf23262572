// Ctrl-C while there is something to clean up.
#pragma once

namespace ligerdsl::cli {

// While an object lives, SIGINT, SIGTERM and SIGHUP do not end the command at once: descriptor() becomes readable, the
// work unwinds, and the destructor lets the signal do what it would have done. Make it before what has to be cleaned
// up. A second signal ends the command at once, whatever hangs. A signal that is ignored (nohup) stays ignored. One
// object at a time.
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
