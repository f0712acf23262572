#include "kernels/elementwise/dropout_reference.h"

#include "kernels/core/reference.h"

namespace ligerdsl::reference {

namespace {

DropoutCase dropout_case(const ReferenceCall& call) {
  DropoutCase out{
      .p = call.number("p"), .seed = call.integer("seed"), .offset = call.integer("offset")};
  if (!call.flag("with_device_seed")) return out;
  out.seed = call.integers("device_seed")[0];
  out.offset += call.integers("device_offset")[0];
  return out;
}

}  // namespace

LIGERDSL_REFERENCE(dropout_forward) {
  return {{"y", {dropout_reference(call["x"], call["residual"], dropout_case(call))}}};
}

LIGERDSL_REFERENCE(dropout_backward) {
  return {{"d_x",
           {dropout_reference(call["d_y"], call.flag("accumulate") ? call["d_x"] : Values(),
                              dropout_case(call))}}};
}

}  // namespace ligerdsl::reference
