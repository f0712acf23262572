// Signals that ask a run to stop.
#pragma once

namespace train {

// From here on the first SIGINT (Ctrl-C), SIGTERM or SIGHUP (the terminal was closed) is only noted; a second one ends
// the process at once. What was ignored before stays ignored, as nohup wants it. Files that reach a size limit become
// failed writes instead of a signal.
void catch_stop_signals();

int stop_signal();  // the signal that was noted, or 0
const char* stop_signal_name();

}  // namespace train
