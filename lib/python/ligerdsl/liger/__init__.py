"""A back end for Liger-Kernel: LIGER_KERNEL_IMPL=ligerdsl makes its Functions call this library.

The installed wheel's ligerdsl_liger.pth imports ligerdsl.liger.hook when Python starts. Without the
wheel, import it before liger_kernel. No file of Liger is changed. coverage() lists which Functions
are the library's and which remain Liger's own."""


import importlib

# Liger's modules that do not get their kernels from liger_kernel.ops: {module: Function}.
_ADAPTERS = {
    "liger_kernel.megatron.rms_norm": "LigerRMSNormFunction",
    "liger_kernel.megatron.swiglu": "LigerFusedGateUpSiLUMulFunction",
    "liger_kernel.transformers.vocab_parallel_cross_entropy": "LigerVocabParallelCEFunction"}


def _kernels(module):
    """Returns a Liger module's public Functions, and its functions that launch kernels."""
    return {name: value for name, value in vars(module).items()
            if not name.startswith("_") and callable(value) and getattr(
                value, "__module__", "").startswith(("liger_kernel.ops.", "ligerdsl.liger."))}


def coverage():
    """Returns {name: "ligerdsl" or "liger"}: which library implements each operation now.

    Names are those in liger_kernel.ops, "module: Function" for modules that get a Function
    otherwise, and "dispatch: operation" for operations that Liger 0.8.5 dispatches one by one.
    "liger" is Liger's own kernel: this library has none, or another back end is chosen."""
    import liger_kernel.ops as liger

    from . import dispatched, hook, ops
    table = {name: "ligerdsl" if value is getattr(ops, name, None) else "liger"
             for name, value in sorted(_kernels(liger).items())}
    for path, name in _ADAPTERS.items():
        try:
            module = importlib.import_module(path)
        except ImportError:  # a version of Liger without this module
            continue
        table[f"{path}: {name}"] = (
            "ligerdsl" if vars(module).get(name) is getattr(ops, name, 0) else "liger")
    try:
        megatron = importlib.import_module("liger_kernel.megatron.monkey_patch")
        table["liger_kernel.megatron.monkey_patch: LigerFusedGateUpSiLUMulFunction"] = (
            "ligerdsl" if hasattr(megatron._patch_swiglu_function, "__wrapped__") else "liger")
    except (ImportError, AttributeError):
        pass
    found = hook.dispatched_operations()
    return table | {f"dispatch: {name}": "ligerdsl" if owner == hook.NAME else "liger"
                    for name, owner in found.items()}
