"""A back end for Liger-Kernel: with LIGER_KERNEL_IMPL=ligerdsl in the environment its Functions are the library's kernels.

The installed wheel's ligerdsl_liger.pth imports ligerdsl.liger.hook when Python starts; elsewhere import it before liger_kernel. Nothing
is written into Liger. coverage() says which of its Functions are the library's, and which stay Liger's own."""


def coverage():
    """{name of Liger's Function: "ligerdsl" or "liger"}, of what liger_kernel.ops has now; and the dispatched operations that were handed
    on to Liger so far."""
    import liger_kernel.ops as liger

    from . import hook, ops
    names = [name for name in vars(liger) if name.endswith("Function")]
    table = {name: "ligerdsl" if getattr(liger, name) is getattr(ops, name, None) else "liger" for name in sorted(names)}
    return table | {operation: "liger" for operation in sorted(hook.handed_on)}
