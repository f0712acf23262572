"""Registers the back end with Liger-Kernel when that is imported."""

import importlib.abc
import importlib.machinery
import sys
import warnings

NAME = "ligerdsl"
handed_on = set()  # dispatched operations that Liger computes itself


def _register_functions(registry):
    """All Functions at once: what LIGER_KERNEL_IMPL chooses among."""
    registry.register_impl(registry.ImplInfo(NAME, ("cuda", "cpu"), module_path="ligerdsl.liger.ops"))


def _register_dispatched(registry):
    """Operations that later versions look up one by one. Those that are not here are handed on, and said so once."""
    from . import dispatched
    for operation, function in dispatched.OPERATIONS.items():
        registry.register_impl(operation, impl_name=NAME, preference_rank=10, tolerances=dispatched.tolerances())(function)
    find = registry.get_registered

    def get_registered(operation, implementation):
        found = find(operation, implementation)
        if found is not None or implementation != NAME:
            return found
        usable = [each for each in registry.list_registered(operation) if each.capability.is_satisfied(None)]
        if not usable:
            return None
        best = min(usable, key=lambda each: each.preference_rank)
        if operation not in handed_on:
            handed_on.add(operation)
            warnings.warn(f"ligerdsl has no {operation}; Liger's {best.impl_name} is used", stacklevel=2)
        return best

    registry.get_registered = get_registered


AFTER = {"liger_kernel.ops.backends.registry": _register_functions, "liger_kernel.backends.registry": _register_dispatched}


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
