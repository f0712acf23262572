// Includes the DSL's headers as an author's file does, with every kind of argument.
#include <ligerdsl/dsl.h>
#include <ligerdsl/dsl/author.h>

using namespace ligerdsl;

void use_dsl_header(KernelBuilder& k) {
  View x = k.view("x", f32, {dyn, 128});
  Scalar row = k.program_id(0);
  Tile v = x.partition({squeeze, 128}).load({row, 0}, {.pad = -INFINITY});
  x.partition({squeeze, 128}).store({row, 0}, exp(v - reduce_max(v)) * 2 + row.to(f32));
}
