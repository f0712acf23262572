"""A back end for Liger-Kernel: with LIGER_KERNEL_IMPL=ligerdsl in the environment its Functions are the library's kernels.

The installed wheel's ligerdsl_liger.pth imports ligerdsl.liger.hook when Python starts; elsewhere import it before liger_kernel. Nothing
is written into Liger. coverage() says which of its Functions are the library's, and which stay Liger's own."""


import importlib

# Modules of Liger whose kernels do not come through liger_kernel.ops alone, and what each takes.
_ADAPTERS = {"liger_kernel.megatron.rms_norm": "LigerRMSNormFunction", "liger_kernel.megatron.swiglu": "LigerFusedGateUpSiLUMulFunction",
             "liger_kernel.transformers.vocab_parallel_cross_entropy": "LigerVocabParallelCEFunction"}


def _kernels(module):
    """What a module of Liger's has by names without an underscore: Functions, and functions that launch kernels."""
    return {name: value for name, value in vars(module).items() if not name.startswith("_") and callable(value)
            and getattr(value, "__module__", "").startswith(("liger_kernel.ops.", "ligerdsl.liger."))}


def coverage():
    """{name: "ligerdsl" or "liger"} of everything that liger_kernel.ops has now, by its name; of the modules that take a Function by ways
    of their own, as "module: Function"; and of the operations that Liger 0.8.5 dispatches one by one, as "dispatch: operation". "liger" is
    Liger's own kernel: there is none here, or another back end is chosen."""
    import liger_kernel.ops as liger

    from . import dispatched, hook, ops
    table = {name: "ligerdsl" if value is getattr(ops, name, None) else "liger" for name, value in sorted(_kernels(liger).items())}
    for path, name in _ADAPTERS.items():
        try:
            module = importlib.import_module(path)
        except ImportError:  # a version without it
            continue
        table[f"{path}: {name}"] = "ligerdsl" if vars(module).get(name) is getattr(ops, name, 0) else "liger"
    try:
        megatron = importlib.import_module("liger_kernel.megatron.monkey_patch")
        table["liger_kernel.megatron.monkey_patch: LigerFusedGateUpSiLUMulFunction"] = (
            "ligerdsl" if hasattr(megatron._patch_swiglu_function, "__wrapped__") else "liger")
    except (ImportError, AttributeError):
        pass
    found = hook.dispatched_operations()
    return table | {f"dispatch: {name}": "ligerdsl" if owner == hook.NAME else "liger" for name, owner in found.items()}
