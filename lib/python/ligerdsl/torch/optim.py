"""AdamW in one kernel a tensor, and the norm of all gradients in one pass."""

import torch
from torch.optim import Optimizer

from .. import ops as arrays
from . import ops


def _flat(tensor):
    """All elements in the order of memory, or None where there are gaps."""
    if tensor.is_contiguous():
        return tensor
    order = sorted(range(tensor.dim()), key=lambda i: (tensor.stride(i), tensor.shape[i]), reverse=True)
    dense = tensor.permute(order)
    return dense if dense.is_contiguous() else None


def _like(tensor, other):
    """`tensor` with the memory order of `other`."""
    return tensor if tensor.stride() == other.stride() else torch.empty_like(other, dtype=tensor.dtype).copy_(tensor)


class AdamW(Optimizer):
    """torch.optim.AdamW's update. Moments are f32. master_weights: parameters of 16 bits have an f32 copy, which is what is updated and
    then rounded into them. capturable: learning rate and step are on the device, so that a CUDA graph of step() can be replayed."""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=1e-2, *, master_weights=False, capturable=False):
        if lr < 0 or eps < 0 or weight_decay < 0 or not all(0 <= beta < 1 for beta in betas):
            raise ValueError(f"AdamW: expected lr, eps, weight_decay >= 0 and 0 <= betas < 1, got {lr}, {eps}, {weight_decay}, {betas}")
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay,
                                  "master_weights": master_weights, "capturable": capturable})

    def _prepare(self, parameter, group):
        state = self.state[parameter]
        if state:
            return state
        state["step"] = 0
        state["exp_avg"] = torch.zeros_like(parameter, dtype=torch.float32)
        state["exp_avg_sq"] = torch.zeros_like(parameter, dtype=torch.float32)
        if group["master_weights"] and parameter.dtype != torch.float32:
            state["master"] = parameter.detach().to(torch.float32, copy=True)
        if group["capturable"]:
            state["step"] = torch.zeros((), dtype=torch.int64, device=parameter.device)
            state["lr"] = torch.full((), float(group["lr"]), dtype=torch.float32, device=parameter.device)
        return state

    def load_state_dict(self, state_dict):
        """torch casts what it loads to the parameter's dtype; here moments, master weights and steps keep theirs."""
        super().load_state_dict(state_dict)
        saved = [number for group in state_dict["param_groups"] for number in group["params"]]
        parameters = [parameter for group in self.param_groups for parameter in group["params"]]
        for number, parameter in zip(saved, parameters):
            for name, value in state_dict["state"].get(number, {}).items():
                if isinstance(value, torch.Tensor):
                    self.state[parameter][name] = value.to(parameter.device, copy=True)

    @torch.no_grad()
    def step(self, closure=None, *, clip_factor=None):
        """clip_factor: what gradients are multiplied by, a tensor of one element, as global_norm() gives it."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._update(parameter, group, clip_factor)
        return loss

    def _update(self, parameter, group, clip_factor):
        if parameter.grad.is_sparse:
            raise ValueError("AdamW: sparse gradients are not supported")
        state = self._prepare(parameter, group)
        master = state.get("master")
        target = parameter if master is None else master
        tensors = [_flat(_like(t, target)) for t in (target, parameter.grad, state["exp_avg"], state["exp_avg_sq"])]
        if any(t is None for t in tensors):
            raise ValueError("AdamW: a parameter whose memory has gaps is not supported; make it contiguous")
        beta1, beta2 = group["betas"]
        numbers = {"beta1": beta1, "beta2": beta2, "eps": group["eps"], "weight_decay": group["weight_decay"]}
        if group["capturable"]:
            state["step"] += 1
            if not (parameter.is_cuda and torch.cuda.is_current_stream_capturing()):
                state["lr"].fill_(group["lr"])
            place = {"device_lr": state["lr"], "device_step": state["step"]}
        else:
            state["step"] += 1
            numbers |= {"lr": float(group["lr"]), "step": state["step"]}
            place = {}
        copy = None if master is None else _flat(parameter)
        ops.adamw_step(*tensors, copy, clip_factor, **place, **numbers)
        torch.autograd.graph.increment_version(parameter)


def global_norm(tensors, max_norm=float("inf")):
    """(norm, clip_factor) of a list of tensors: the norm of all their elements, and min(1, max_norm / (norm + 1e-6))."""
    groups = {}
    for tensor in tensors:
        groups.setdefault((tensor.dtype, tensor.device), []).append(tensor.contiguous())
    if not groups:
        return torch.zeros(()), torch.ones(())
    found = [ops.global_norm(group, max_norm=max_norm, with_clip_factor=True)[:2] for group in groups.values()]
    if len(found) == 1:
        return found[0]
    first = found[0][0].device
    norm = torch.stack([norm.to(first) for norm, _ in found]).square().sum().sqrt()
    return norm, (max_norm / (norm + 1e-6)).clamp(max=1.0)


@torch.no_grad()
def clip_grad_norm_(parameters, max_norm):
    """Scales gradients so that their common norm is at most max_norm; returns the norm before. Nothing is waited for."""
    parameters = [parameters] if isinstance(parameters, torch.Tensor) else parameters
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    norm, factor = global_norm(gradients, max_norm)
    for tensor in gradients:
        flat = _flat(tensor)
        if flat is None:
            tensor.mul_(factor.to(tensor.device))
            continue
        arrays.scale(flat, factor.to(tensor.device), out=flat)
        torch.autograd.graph.increment_version(tensor)
    return norm
