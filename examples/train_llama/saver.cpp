#include "saver.h"

#include <fmt/format.h>

namespace train {

void Saver::save(const Checkpoint& checkpoint) {
  std::string failure;
  try {
    save_checkpoint(path_, checkpoint);
    good_ = path_;
    good_step_ = checkpoint.step;
  } catch (const Diverged&) {
    throw;
  } catch (const std::exception& e) {
    failure = e.what();
  }
  if (failure != failure_ && !failure.empty()) {
    const std::string kept = good_.empty()
                                 ? "no state is saved yet"
                                 : fmt::format("{} keeps step {}", good_.string(), good_step_);
    fmt::print(stderr, "warning: step {} could not be saved: {}; {}\n", checkpoint.step, failure,
               kept);
  }
  failure_ = failure;
}

}  // namespace train
