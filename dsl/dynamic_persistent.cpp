// Dynamic persistent kernels: each CTA takes its next program from a counter.
#include "ligerdsl/dsl.h"
#include "recorder.h"

namespace ligerdsl {

using detail::Handle;
using detail::Recorder;

void KernelBuilder::record_dynamic_persistent(const std::function<void()>& body, Loc loc) {
  const std::string op = "dynamic_persistent";
  if (!recorder_->at_top())
    detail::fail(
        loc, op,
        "it encloses the whole kernel: call it outside loops, branches and dynamic_persistent");
  if (recorder_->has_arguments())
    detail::fail(loc, op, "arguments were declared before it; declare the views inside the body");
  View next_program = view("next_program", i32, {1}, {}, loc);
  Scalar programs = scalar("programs", i32, loc);
  // i64, because a number drawn after the last program may exceed an i32.
  Scalar ctas = num_programs(0, loc).to(i64), mine = program_id(0, loc).to(i64);
  // The first two programs of a CTA are known in advance. The atomic that draws a later program can
  // therefore complete while the CTA runs a program.
  Scalar following = mine + ctas, first_drawn = ctas + ctas;
  const auto is_program = [&](const std::vector<Handle>& in) {
    return std::vector<Handle>{(Scalar(in[0]) < programs).handle()};
  };
  const auto run = [&](const std::vector<Handle>& in) {
    Scalar drawn = atomic_add(next_program.ptr(), 1);
    const Recorder::LoopScope scope(*recorder_,
                                    {Scalar(in[0]).to(i32).handle(), programs.handle()});
    body();
    return std::vector<Handle>{in[1], (first_drawn + drawn).handle()};
  };
  detail::record_while(*recorder_, {mine.handle(), following.handle()}, is_program, run,
                       /*independent=*/true, loc);
}

}  // namespace ligerdsl
