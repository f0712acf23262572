// A case of an operation with a plan on a device and its own tensors and workspace. A test may run
// the case any number of times, each time with one of several contents of the tensors.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lib/instance/op_instance.h"
#include "tests/every_op/cases.h"
#include "tests/every_op/session.h"

namespace ligerdsl::test {

// A plan that several runs share.
class PlanHandle {
 public:
  PlanHandle(ligerdsl_context_t context, const Case& which);
  ~PlanHandle() { ligerdsl_plan_destroy(handle_); }
  PlanHandle(const PlanHandle&) = delete;
  PlanHandle& operator=(const PlanHandle&) = delete;
  operator ligerdsl_plan_t() const { return handle_; }
  // Returns why there is no plan: the name of a missing library. Empty if there is a plan.
  const std::string& not_supported() const { return not_supported_; }

 private:
  ligerdsl_plan_t handle_ = nullptr;
  std::string not_supported_;
};

// Runs the plan once on the default stream with a workspace of its own, and waits for the result.
// `tensors` are in the order of the instance's slots.
ligerdsl_status_t execute_on(ligerdsl_context_t context, const PlanHandle& plan,
                             cli::OpInstance& instance,
                             const std::vector<ligerdsl_tensor_t>& tensors);

class OpRun {
 public:
  static constexpr int kContents = 3;

  OpRun(ligerdsl_context_t context, const Case& which, const PlanHandle& plan);

  // Enqueues copies. Inputs get content number `content`, and pure outputs get a pattern that no
  // kernel writes by chance.
  void set(int content, ligerdsl_stream_t stream);
  void execute(ligerdsl_stream_t stream);
  void call(ligerdsl_stream_t stream);  // the one-call form
  // Waits for the stream, and returns the bytes of all outputs.
  std::string results(ligerdsl_stream_t stream);

  cli::OpInstance& instance() { return *instance_; }
  size_t workspace_bytes() { return instance_->call().workspace_bytes; }

 private:
  struct Kept {
    cli::OpInstance::Slot* slot;
    size_t bytes;
    std::vector<std::unique_ptr<Memory>> contents;  // empty for an output
  };

  ligerdsl_context_t context_;
  ligerdsl_plan_t plan_;
  std::unique_ptr<cli::OpInstance> instance_;
  std::vector<Kept> kept_;
};

}  // namespace ligerdsl::test
