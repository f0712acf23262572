// Lists the launches of an operation on a GPU that need not be present.
#pragma once

#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "lib/abi/structs.h"
#include "lib/cli/kernels/launch_list.h"
#include "lib/instance/op_instance.h"

namespace ligerdsl::cli {

// Returns a context that has recorded the kernels and launches of the call. `text`: an operation
// and its settings in the command's syntax, like "matmul_nt dtype=bf16 M=4096 N=4096 K=4096".
inline std::shared_ptr<Listing<RecordingContext>> listed_call(const std::string& text,
                                                              const std::string& arch) {
  std::istringstream words(text);
  std::string op;
  words >> op;
  std::vector<std::string> settings;
  for (std::string setting; words >> setting;) settings.push_back(setting);
  program::CompileOptions options;
  options.target = program::Target::nvptx;
  options.arch = arch;
  auto context = std::make_shared<Listing<RecordingContext>>(options);
  OpInstance instance(find_op(op), settings);
  lib::check_desc(instance.info(), instance.desc());
  const auto plan = instance.plan(context);
  instance.place_tensors(*plan);
  lib::Call bound = instance.bound(*plan);
  bound.workspace = OpInstance::address_of_workspace();
  context->list.open = true;
  plan->op().execute(bound);
  return context;
}

}  // namespace ligerdsl::cli
