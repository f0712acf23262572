#include "tests/every_op/op_run.h"

#include <cstring>

#include "lib/abi/entry.h"
#include "lib/abi/handles.h"

namespace ligerdsl::test {
namespace {

size_t bytes_of(const cli::OpInstance::Slot& slot) {
  size_t bytes = static_cast<size_t>(size_of(slot.dtype));
  for (int64_t dim : slot.shape) bytes *= static_cast<size_t>(dim);
  return bytes;
}

// Returns content number `content` of a tensor: `bytes` for 0. Other contents repeat their first
// elements at the end. Labels therefore stay valid, and variances positive. A tensor of a single
// f32 gets a larger number.
std::string content_of(const std::string& bytes, DType type, int content) {
  const size_t size = static_cast<size_t>(size_of(type)), n = bytes.size() / size;
  std::string out = bytes;
  if (n == 1 && type == DType::f32) {
    float value;
    std::memcpy(&value, bytes.data(), sizeof value);
    value *= 1.0f + 0.5f * static_cast<float>(content);
    std::memcpy(out.data(), &value, sizeof value);
  }
  const size_t period = std::max<size_t>(n - static_cast<size_t>(content) * n / 4, 1);
  for (size_t i = period; i < n; ++i) std::memcpy(&out[i * size], &bytes[i % period * size], size);
  return out;
}

// Sets some labels to ignore_index, so that the loss's row count depends on the content.
void ignore_some(std::string* labels, DType type, int content) {
  for (size_t i = 0; i < static_cast<size_t>(content); ++i) {
    const int64_t ignored = -100;  // the default ignore_index; an i32 gets its low bytes
    std::memcpy(labels->data() + i * static_cast<size_t>(size_of(type)), &ignored,
                static_cast<size_t>(size_of(type)));
  }
}

// Scales the offsets between the first and the last offset. Groups then differ between contents,
// but still end at the row count.
void move_offsets(std::string* offsets, DType type, int content) {
  const size_t size = static_cast<size_t>(size_of(type)), n = offsets->size() / size;
  for (size_t i = 1; i + 1 < n; ++i) {
    int64_t offset = 0;
    std::memcpy(&offset, offsets->data() + i * size, size);
    offset = offset * (OpRun::kContents - content) / OpRun::kContents;
    std::memcpy(offsets->data() + i * size, &offset, size);
  }
}

}  // namespace

PlanHandle::PlanHandle(ligerdsl_context_t context, const Case& which) {
  const cli::OpInstance instance(cli::find_op(which.op), which.settings);
  const ligerdsl_status_t status =
      lib::plan_entry(instance.info(), context, instance.desc(), &handle_);
  if (status == LIGERDSL_NOT_SUPPORTED)
    not_supported_ = ligerdsl_last_error();
  else
    must(status, which.op.c_str());
}

ligerdsl_status_t execute_on(ligerdsl_context_t context, const PlanHandle& plan,
                             cli::OpInstance& instance,
                             const std::vector<ligerdsl_tensor_t>& tensors) {
  const lib::OpInfo& info = instance.info();
  const void* given = instance.call().args;  // null if the instance has no tensors
  alignas(8) std::byte args[lib::kMaxStruct];
  std::memcpy(args, given ? given : info.args_defaults, info.args_size);
  std::vector<ligerdsl_tensor_t> list;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const ligerdsl_tensor_t* tensor = &tensors[i];
    if (const lib::TensorInfo* slot = instance.slots()[i].info)
      std::memcpy(args + slot->offset, &tensor, sizeof tensor);
    else
      list.push_back(*tensor);
  }
  if (info.list_offset >= 0) {
    const ligerdsl_tensor_t* first = list.data();
    std::memcpy(args + info.list_offset, &first, sizeof first);
  }
  lib::Call call{};
  call.args = args;
  const lib::Plan& made =
      **static_cast<lib::PlanRef*>(lib::HandleUse(lib::HandleKind::plan, plan, "plan").object());
  made.bind(&call);
  const size_t bytes = made.count(&call);
  const Memory workspace(context, bytes);
  const ligerdsl_status_t status =
      lib::execute_entry(info, plan, args, workspace.data(), bytes, nullptr);
  must(ligerdsl_stream_sync(context, nullptr), info.name);
  return status;
}

OpRun::OpRun(ligerdsl_context_t context, const Case& which, const PlanHandle& plan)
    : context_(context),
      plan_(plan),
      instance_(std::make_unique<cli::OpInstance>(cli::find_op(which.op), which.settings)) {
  instance_->allocate(lib::ContextUse(context).ref());
  instance_->prepare(
      **static_cast<lib::PlanRef*>(lib::HandleUse(lib::HandleKind::plan, plan_, "plan").object()));
  for (auto& slot : instance_->slots()) {
    if (slot.same_as >= 0) continue;
    Kept kept{&slot, bytes_of(slot), {}};
    const bool input = !slot.info || slot.info->direction != lib::Direction::out;
    const std::string original = input ? instance_->read(slot) : "";
    for (int content = 0; input && content < kContents; ++content) {
      const bool sorted = !instance_->defaults().of(slot.name).bounds.empty();
      std::string bytes = sorted ? original : content_of(original, slot.dtype, content);
      if (sorted) move_offsets(&bytes, slot.dtype, content);
      if (slot.name == "labels") ignore_some(&bytes, slot.dtype, content);
      kept.contents.push_back(std::make_unique<Memory>(context, bytes.size()));
      must(ligerdsl_buffer_copy(context, kept.contents.back()->data(), bytes.data(), bytes.size(),
                                nullptr),
           "copy");
      must(ligerdsl_stream_sync(context, nullptr),
           "ligerdsl_stream_sync");  // before `bytes` goes out of scope
    }
    kept_.push_back(std::move(kept));
  }
}

void OpRun::set(int content, ligerdsl_stream_t stream) {
  for (const Kept& kept : kept_) {
    if (kept.contents.empty()) {
      must(ligerdsl_buffer_fill(context_, kept.slot->data, 0xee, kept.bytes, stream), "fill");
    } else {
      const void* from = kept.contents[static_cast<size_t>(content)]->data();
      must(ligerdsl_buffer_copy(context_, kept.slot->data, from, kept.bytes, stream), "copy");
    }
  }
  lib::Call& call = instance_->call();
  must(ligerdsl_buffer_fill(context_, call.workspace, 0xff, call.workspace_bytes, stream), "fill");
}

void OpRun::execute(ligerdsl_stream_t stream) {
  lib::Call& call = instance_->call();
  must(lib::execute_entry(instance_->info(), plan_, call.args, call.workspace, call.workspace_bytes,
                          stream),
       instance_->info().name);
}

void OpRun::call(ligerdsl_stream_t stream) {
  must(lib::call_entry(instance_->info(), context_, instance_->desc(), instance_->call().args,
                       stream),
       instance_->info().name);
}

std::string OpRun::results(ligerdsl_stream_t stream) {
  must(ligerdsl_stream_sync(context_, stream), "ligerdsl_stream_sync");
  std::string all;
  for (const auto& slot : instance_->slots()) {
    if (!slot.info || slot.info->direction == lib::Direction::in) continue;
    const size_t begin = all.size();
    all.resize(begin + bytes_of(slot));
    must(ligerdsl_buffer_copy(context_, &all[begin], slot.data, all.size() - begin, stream),
         "copy");
  }
  must(ligerdsl_stream_sync(context_, stream), "ligerdsl_stream_sync");
  return all;
}

}  // namespace ligerdsl::test
