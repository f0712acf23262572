// Kernels whose CTAs run program after program.
#include "ligerdsl/dsl.h"
#include "recorder.h"

namespace ligerdsl {

using detail::Handle;
using detail::Recorder;

void KernelBuilder::record_by_tickets(const std::function<void()>& body, Loc loc) {
  const std::string op = "by_tickets";
  if (!recorder_->at_top())
    detail::fail(loc, op, "it encloses the whole kernel: call it outside loops, branches and by_tickets");
  if (recorder_->has_arguments())
    detail::fail(loc, op, "arguments were declared before it; declare the views inside the body");
  View tickets = view("tickets", i32, {1}, {}, loc);
  Scalar programs = scalar("programs", i32, loc);
  // What follows the last program may not be an i32.
  Scalar ctas = num_programs(0, loc).to(i64), mine = program_id(0, loc).to(i64);
  // The first two programs of a CTA need no ticket, so a ticket is on its way for as long as a program takes.
  Scalar following = mine + ctas, first_ticket = ctas + ctas;
  const auto is_program = [&](const std::vector<Handle>& in) {
    return std::vector<Handle>{(Scalar(in[0]) < programs).handle()};
  };
  const auto run = [&](const std::vector<Handle>& in) {
    Scalar drawn = atomic_add(tickets.ptr(), 1);
    const Recorder::TicketScope scope(*recorder_, {Scalar(in[0]).to(i32).handle(), programs.handle()});
    body();
    return std::vector<Handle>{in[1], (first_ticket + drawn).handle()};
  };
  detail::record_while(*recorder_, {mine.handle(), following.handle()}, is_program, run, /*independent=*/true, loc);
}

}  // namespace ligerdsl
