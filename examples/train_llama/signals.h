// Handles signals that ask a run to stop.
#pragma once

namespace train {

// After this call, the first SIGINT (Ctrl-C), SIGTERM or SIGHUP (closed terminal) is only recorded;
// a second one ends the process at once. Ignored signals stay ignored, as nohup requires. Exceeding
// a file-size limit makes the write fail instead of raising SIGXFSZ.
void catch_stop_signals();

int stop_signal();  // number of the recorded signal, or 0
const char* stop_signal_name();

}  // namespace train
