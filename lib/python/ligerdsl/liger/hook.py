"""Registers the back end with Liger-Kernel when Liger-Kernel is imported."""

import functools
import importlib
import importlib.abc
import importlib.machinery
import sys
import warnings

NAME = "ligerdsl"
handed_on = set()  # dispatched operations that this library lacks; they run Liger's own kernels


def _register_functions(registry):
    """Registers all Functions together, so that LIGER_KERNEL_IMPL can choose them."""
    registry.register_impl(registry.ImplInfo(NAME, ("cuda", "cpu"),
                                             module_path="ligerdsl.liger.ops"))


def _register_dispatched(registry):
    """Registers operations that later versions of Liger look up one by one.

    Operations that this library lacks fall back to Liger's, with one warning each."""
    from . import dispatched
    for operation, function in dispatched.OPERATIONS.items():
        registry.register_impl(operation, impl_name=NAME, preference_rank=10,
                               tolerances=dispatched.tolerances())(function)
    find = registry.get_registered

    def get_registered(operation, implementation):
        found = find(operation, implementation)
        if found is not None or implementation != NAME:
            return found
        usable = [each for each in registry.list_registered(operation)
                  if each.capability.is_satisfied(None)]
        if not usable:
            return None
        best = min(usable, key=lambda each: each.preference_rank)
        if operation not in handed_on:
            handed_on.add(operation)
            warnings.warn(f"ligerdsl does not implement {operation}, so Liger's implementation "
                          f"{best.impl_name!r} runs instead", stacklevel=2)
        return best

    registry.get_registered = get_registered


def dispatched_operations():
    """Returns {operation: implementation that Liger's dispatcher chooses now}, without warnings. It
    is empty before Liger 0.8.5."""
    from . import dispatched
    try:
        importlib.import_module("liger_kernel.functional")  # the import declares the operations
        registry = importlib.import_module("liger_kernel.backends.registry")
        resolve = importlib.import_module("liger_kernel.backends.dispatch").resolve_impl
    except ImportError:
        return {}
    names = {*registry.all_registered_ops(), *getattr(registry, "_DISCOVERY_MAP", ())}
    return {name: resolve(name).impl_name if name in dispatched.OPERATIONS else "liger"
            for name in sorted(names)}


def chosen():
    """Returns true if LIGER_KERNEL_IMPL, as Liger read it, names this back end."""
    from . import ops
    return (importlib.import_module("liger_kernel.ops").LigerSiLUMulFunction
            is ops.LigerSiLUMulFunction)


def _bind_past_the_choice(module):
    """Replaces a Function that the module imports directly, which skips LIGER_KERNEL_IMPL."""
    from . import ops
    if chosen():
        module.LigerVocabParallelCEFunction = ops.LigerVocabParallelCEFunction


def _bind_in_patch_of_megatron(module):
    """Wraps a Megatron patch that imports the gate from its defining module when it runs."""
    from . import ops
    name, before = ("LigerFusedGateUpSiLUMulFunction",
                    getattr(module, "_patch_swiglu_function", None))
    if before is None or not chosen():
        return

    @functools.wraps(before)
    def patch():
        defining = importlib.import_module("liger_kernel.ops.swiglu")
        theirs = getattr(defining, name)
        setattr(defining, name, getattr(ops, name))
        try:
            before()
        finally:
            setattr(defining, name, theirs)

    module._patch_swiglu_function = patch


def _name_kernels_without_a_gpu(module):
    """Makes Liger's own Triton kernels explain their error on a machine without a GPU."""
    from torch.autograd import Function
    if not chosen():
        return
    for name, value in list(vars(module).items()):
        if (isinstance(value, type) and issubclass(value, Function)
            and value.__module__.startswith("liger_kernel.ops.")):
            own = {"forward": staticmethod(_naming(name, value.forward)),
                   "__module__": value.__module__,
                   "__qualname__": value.__qualname__}
            setattr(module, name, type(value)(name, (value,), own))


def _naming(name, forward):
    from ..errors import NotSupported

    @functools.wraps(forward)
    def named(*args, **kwargs):
        try:
            return forward(*args, **kwargs)
        except RuntimeError as error:
            if "active drivers" not in str(error):
                raise
            raise NotSupported(f"{name}: ligerdsl has no such kernel, and Liger's own Triton "
                               "kernel needs a GPU; pass tensors on a GPU, or a model that Liger "
                               f"has not patched with {name}") from error

    return named


AFTER = {"liger_kernel.ops": _name_kernels_without_a_gpu,
         "liger_kernel.ops.backends.registry": _register_functions,
         "liger_kernel.backends.registry": _register_dispatched,
         "liger_kernel.transformers.vocab_parallel_cross_entropy": _bind_past_the_choice,
         "liger_kernel.megatron.monkey_patch": _bind_in_patch_of_megatron}


class _Loader(importlib.abc.Loader):
    def __init__(self, loader, then):
        self.loader, self.then = loader, then

    def create_module(self, spec):
        return self.loader.create_module(spec)

    def exec_module(self, module):
        self.loader.exec_module(module)
        self.then(module)


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name not in AFTER:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, AFTER[name])
        return spec


def install():
    if any(name in sys.modules for name in AFTER):
        raise ImportError("ligerdsl.liger.hook must be imported before liger_kernel")
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


install()
