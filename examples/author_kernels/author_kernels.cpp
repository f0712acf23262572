// Shared object for `ligerdsl --load`. It registers these kernels; `ligerdsl list` prints them.
#include "bias_gelu.h"
#include "dropout.h"
#include "flash_attention.h"
#include "generalized_jsd.h"
#include "group_norm.h"
#include "matmul.h"
#include "quantize_int8.h"
#include "selective_log_softmax.h"
#include "sparsemax.h"
#include "top2.h"

using namespace author_kernels;

LIGERDSL_REGISTER_KERNEL(generalized_jsd_kernel);
LIGERDSL_REGISTER_KERNEL(selective_log_softmax_kernel);
LIGERDSL_REGISTER_KERNEL(group_norm_kernel);
LIGERDSL_REGISTER_KERNEL(sparsemax_kernel);
LIGERDSL_REGISTER_KERNEL(dropout_kernel);
LIGERDSL_REGISTER_KERNEL(top2_kernel);
LIGERDSL_REGISTER_KERNEL(quantize_int8_kernel);
LIGERDSL_REGISTER_KERNEL(bias_gelu_kernel);
LIGERDSL_REGISTER_KERNEL(bias_gelu_backward_kernel);
LIGERDSL_REGISTER_KERNEL(bias_gelu_d_bias_kernel);
LIGERDSL_REGISTER_KERNEL(matmul_kernel);
LIGERDSL_REGISTER_KERNEL(flash_attention_kernel);
LIGERDSL_EXPORT_KERNELS();
