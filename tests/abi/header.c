/* Uses everything that ligerdsl.h declares in plain C: initialisers, structs, a call. */
#include <ligerdsl/ligerdsl.h>

int use_header(void);

int use_header(void) {
  ligerdsl_context_config_t config = LIGERDSL_CONTEXT_CONFIG_INIT;
  ligerdsl_kernel_options_t options = LIGERDSL_KERNEL_OPTIONS_INIT;
  ligerdsl_cross_entropy_desc_t desc = LIGERDSL_CROSS_ENTROPY_DESC_INIT;
  ligerdsl_adamw_step_args_t args = LIGERDSL_ADAMW_STEP_ARGS_INIT;
  int64_t shape[1] = {4};
  float data[4] = {0};
  ligerdsl_tensor_t tensor = ligerdsl_tensor_make(data, config.device, LIGERDSL_F32, 1, shape);
  ligerdsl_target_t target;
  ligerdsl_context_t context;
  args.param = &tensor;
  if (ligerdsl_context_create(&config, &context) != LIGERDSL_SUCCESS) return options.num_warps;
  if (ligerdsl_context_target(context, &target, sizeof target) != LIGERDSL_SUCCESS)
    return target.sms;
  ligerdsl_context_destroy(context);
  return desc.reduction + (args.step == 1);
}
