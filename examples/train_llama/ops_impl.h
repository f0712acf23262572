// Shared by ops*.cpp: one overloaded function that calls any operation, and tensor descriptors.
#pragma once

#include <ligerdsl/ligerdsl.h>

#include <array>
#include <set>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "ops.h"

namespace train {

inline void require_success(ligerdsl_status_t status) {
  if (status == LIGERDSL_SUCCESS) return;
  throw std::runtime_error(std::string(ligerdsl_status_name(status)) + ": " +
                           ligerdsl_last_error());
}

inline int32_t dtype(Type type) {
  switch (type) {
    case Type::f32:
      return LIGERDSL_F32;
    case Type::bf16:
      return LIGERDSL_BF16;
    case Type::i32:
      return LIGERDSL_I32;
    case Type::i64:
      break;
  }
  return LIGERDSL_I64;
}

// Every operation of the library as an overload of `call`, with its name.
#define TRAIN_CALL(op, outputs)                                                                 \
  inline ligerdsl_status_t call(ligerdsl_context_t context, const ligerdsl_##op##_desc_t& desc, \
                                const ligerdsl_##op##_args_t& args, ligerdsl_stream_t stream) { \
    return ligerdsl_##op(context, &desc, &args, stream);                                        \
  }                                                                                             \
  inline const char* name_of(const ligerdsl_##op##_desc_t&) {                                   \
    return #op;                                                                                 \
  }
LIGERDSL_FOR_EACH_OPERATION(TRAIN_CALL)
#undef TRAIN_CALL

// Describes the tensors of one call; the descriptors live as long as this object.
class Arguments {
 public:
  explicit Arguments(ligerdsl_device_t device) : device_(device) {}
  Arguments(const Arguments&) = delete;

  // Returns NULL for an empty tensor.
  const ligerdsl_tensor_t* operator()(const Tensor& t) {
    if (!t.data) return nullptr;
    Slot& slot = slots_.at(used_++);
    slot.tensor = t;
    slot.described =
        ligerdsl_tensor_make(t.data, device_, dtype(t.type), t.rank, slot.tensor.shape.data());
    slot.described.strides = slot.tensor.stride.data();
    return &slot.described;
  }

 private:
  struct Slot {
    Tensor tensor;
    ligerdsl_tensor_t described;
  };
  ligerdsl_device_t device_;
  std::array<Slot, 16> slots_;
  size_t used_ = 0;
};

struct Ops::Impl {
  ligerdsl_context_t context = nullptr;
  ligerdsl_stream_t stream = nullptr;
  ligerdsl_device_t device{LIGERDSL_CPU, 0};
  std::vector<void*> memory;
  int64_t bytes = 0;
  const char* latest = "";
  std::set<std::string_view> called;  // names of the operations called so far

  template <class Desc, class Args>
  void run(const Desc& desc, const Args& args) {
    latest = name_of(desc);
    called.insert(latest);
    require_success(call(context, desc, args, stream));
  }

  ~Impl() {
    for (void* data : memory) (void)!ligerdsl_buffer_free(context, data);
    if (stream) (void)!ligerdsl_stream_destroy(context, stream);
    ligerdsl_context_destroy(context);
  }
};

}  // namespace train
