"""AdamW with one kernel launch per tensor, and the norm of all gradients in one pass."""

import torch
from torch.optim import Optimizer

from .. import ops as arrays
from . import ops


def _flat(tensor):
    """Returns the elements as a contiguous tensor in memory order, or None if memory has gaps."""
    if tensor.is_contiguous():
        return tensor
    order = sorted(range(tensor.dim()), key=lambda i: (tensor.stride(i), tensor.shape[i]),
                   reverse=True)
    dense = tensor.permute(order)
    return dense if dense.is_contiguous() else None


def _like(tensor, other):
    """Returns `tensor` in the memory order of `other`."""
    return tensor if tensor.stride() == other.stride() else torch.empty_like(
        other, dtype=tensor.dtype).copy_(tensor)


def _sum_of_flags(flags, device):
    """Returns one f32 on the device, 0 only if all flags (tensors of one element) are 0; None
    without flags."""
    flags = [flag.to(device, torch.float32, non_blocking=True).reshape(()) for flag in flags]
    if len(flags) < 2:
        return flags[0] if flags else None
    return torch.stack(flags).ne(0).sum(dtype=torch.float32)


class AdamW(Optimizer):
    """torch.optim.AdamW's update with f32 moments.

    * master_weights: 16-bit parameters have an f32 copy; it is updated and then rounded into them.
    * capturable: learning rate and step are on the device, so a CUDA graph of step() can be
      replayed.

    A step with gradients that are not finite is skipped: parameters, moments, master weights and
    the step count do not change, and skipped_steps() counts it. The skip flag comes from
    torch.amp.GradScaler, clip_grad_norm_ or step(skip=...). The device reads it, so the host does
    not wait."""

    # makes GradScaler.step set grad_scale and found_inf, without waiting for the device
    _step_supports_amp_scaling = True

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=1e-2, *,
                 master_weights=False, capturable=False):
        if lr < 0 or eps < 0 or weight_decay < 0 or not all(0 <= beta < 1 for beta in betas):
            raise ValueError("AdamW: expected lr, eps, weight_decay >= 0 and 0 <= betas < 1, got "
                             f"lr={lr}, eps={eps}, weight_decay={weight_decay}, betas={betas}")
        super().__init__(params,
                         {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay,
                          "master_weights": master_weights, "capturable": capturable})
        self._on_device()

    def _on_device(self):
        self._skipped = {}  # device -> number of skipped steps
        # (index of the parameter group, device) -> (learning rate, its copy on the device)
        self._rates = {}

    def __setstate__(self, state):
        super().__setstate__(state)
        self._on_device()

    def skipped_steps(self):
        """Returns the number of skipped steps, i64 on the device. Reading it waits for the
        device."""
        counts = list(self._skipped.values())
        if not counts:
            return torch.zeros((), dtype=torch.int64)
        return torch.stack([count.to(counts[0].device) for count in counts]).amax()

    def _prepare(self, parameter, group):
        state = self.state[parameter]
        if not state:
            state["step"] = 0
            state["exp_avg"] = torch.zeros_like(parameter, dtype=torch.float32)
            state["exp_avg_sq"] = torch.zeros_like(parameter, dtype=torch.float32)
            if group["master_weights"] and parameter.dtype != torch.float32:
                state["master"] = parameter.detach().to(torch.float32, copy=True)
        if group["capturable"] and "lr" not in state:
            self._move_step(parameter, state)
            state["lr"] = torch.full((), float(group["lr"]), dtype=torch.float32,
                                     device=parameter.device)
        return state

    @staticmethod
    def _move_step(parameter, state):
        """Moves the step count to the device, which alone knows if a step is skipped."""
        if not isinstance(state["step"], torch.Tensor):
            state["step"] = torch.full((), state["step"], dtype=torch.int64,
                                       device=parameter.device)

    def load_state_dict(self, state_dict):
        """Loads the state. torch casts it to the parameter's dtype; this restores the dtypes of
        moments, master weights and steps."""
        super().load_state_dict(state_dict)
        saved = [number for group in state_dict["param_groups"] for number in group["params"]]
        parameters = [parameter for group in self.param_groups for parameter in group["params"]]
        for number, parameter in zip(saved, parameters):
            for name, value in state_dict["state"].get(number, {}).items():
                if isinstance(value, torch.Tensor):
                    self.state[parameter][name] = value.to(parameter.device, copy=True)

    @torch.no_grad()
    def step(self, closure=None, *, clip_factor=None, skip=None):
        """Updates the parameters.

        clip_factor: factor of the gradients, a tensor of one element from global_norm().
        skip: a tensor of one element; if it is not 0, or NaN, the step is skipped."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        scale = getattr(self, "grad_scale", None)
        if scale is not None:
            clip_factor = (
                1 / scale if clip_factor is None else clip_factor / scale.to(clip_factor.device))
        flags = self._flags([skip, getattr(self, "found_inf", None)])
        updates = [(parameter, number) for number, group in enumerate(self.param_groups)
                   for parameter in group["params"] if parameter.grad is not None]
        self._count(updates, flags)
        for parameter, number in updates:
            self._update(parameter, number, clip_factor, flags.get(parameter.device))
        return loss

    def _count(self, updates, flags):
        """Increments the step counts, on the device if a flag there may skip the step."""
        counts = {}
        for parameter, number in updates:
            state = self._prepare(parameter, self.param_groups[number])
            if parameter.device in flags:
                self._move_step(parameter, state)
            if isinstance(state["step"], torch.Tensor):
                counts.setdefault(state["step"].device, []).append(state["step"])
            else:
                state["step"] += 1
        for device, steps in counts.items():
            torch._foreach_add_(steps, flags[device].eq(0).long() if device in flags else 1)

    def _flags(self, given):
        """Counts skipped steps; returns a flag per device that is not 0 if the step is skipped."""
        devices, flags = set(), {id(flag): flag for flag in given if flag is not None}
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    devices.add(parameter.device)
                    if (flag := _flag_of(parameter.grad)) is not None:
                        flags[id(flag)] = flag
        found = (
            {device: _sum_of_flags(flags.values(), device) for device in devices} if flags else {})
        for device, flag in found.items():
            if device not in self._skipped:
                self._skipped[device] = torch.zeros((), dtype=torch.int64, device=device)
            self._skipped[device] += flag.ne(0)
        return found

    def _update(self, parameter, number, clip_factor, skip):
        if parameter.grad.is_sparse:
            raise ValueError("AdamW: sparse gradients are not supported; make them dense with "
                             "to_dense()")
        group, state = self.param_groups[number], self.state[parameter]
        master = state.get("master")
        target = parameter if master is None else master
        tensors = [_flat(_like(t, target))
                   for t in (target, parameter.grad, state["exp_avg"], state["exp_avg_sq"])]
        if any(t is None for t in tensors):
            raise ValueError("AdamW: expected parameters without gaps in memory, got one of shape "
                             f"{list(parameter.shape)} with strides {list(parameter.stride())}; "
                             "make it contiguous")
        beta1, beta2 = group["betas"]
        numbers = {"beta1": beta1, "beta2": beta2, "eps": group["eps"],
                   "weight_decay": group["weight_decay"]}
        place = {}
        if isinstance(state["step"], torch.Tensor):
            place = {"device_lr": self._device_rate(parameter, number, state),
                     "device_step": state["step"],
                     "skip": skip}
        else:
            numbers |= {"lr": float(group["lr"]), "step": state["step"]}
        copy = None if master is None else _flat(parameter)
        if clip_factor is not None:
            clip_factor = clip_factor.to(parameter.device, torch.float32)
        ops.adamw_step(*tensors, copy, clip_factor, **place, **numbers)
        torch.autograd.graph.increment_version(parameter)

    def _device_rate(self, parameter, number, state):
        """Returns the learning rate on the device: the parameter's own if a graph may replay with
        it, else the group's."""
        group = self.param_groups[number]
        if group["capturable"]:
            if not (parameter.is_cuda and torch.cuda.is_current_stream_capturing()):
                state["lr"].fill_(group["lr"])
            return state["lr"]
        rate, key = float(group["lr"]), (number, parameter.device)
        if self._rates.get(key, (None, None))[0] != rate:
            self._rates[key] = (rate,
                                torch.full((), rate, dtype=torch.float32, device=parameter.device))
        return self._rates[key][1]


def _norm(tensors, max_norm):
    """Returns (norm, clip_factor, nonfinite) for a list of one or more tensors."""
    groups = {}
    for tensor in tensors:
        groups.setdefault((tensor.dtype, tensor.device), []).append(tensor.contiguous())
    wanted = {"max_norm": max_norm, "with_clip_factor": True, "with_nonfinite": True}
    found = [ops.global_norm(group, **wanted) for group in groups.values()]
    if len(found) == 1:
        return found[0]
    first = found[0][0].device
    return ops.global_norm([norm.to(first) for norm, _, _ in found], **wanted)


def global_norm(tensors, max_norm=float("inf")):
    """Returns the norm of all elements of the tensors, and min(1, max_norm / (norm + 1e-6))."""
    tensors = list(tensors)
    return _norm(tensors, max_norm)[:2] if tensors else (torch.zeros(()), torch.ones(()))


def _set_flag(gradient, flag):
    """Attaches the nonfinite flag of the clipped norm to a gradient, for AdamW.step."""
    gradient._ligerdsl_nonfinite = (flag, gradient._version)


def _flag_of(gradient):
    """Returns the attached flag, or None if the gradient has changed since."""
    flag, version = getattr(gradient, "_ligerdsl_nonfinite", (None, None))
    return flag if version == gradient._version else None


@torch.no_grad()
def clip_grad_norm_(parameters, max_norm):
    """Scales gradients so that their common norm is at most max_norm; returns the norm before
    scaling.

    Does not wait for the device. If the norm is NaN or infinite, the gradients stay unchanged and
    AdamW skips its next step."""
    parameters = [parameters] if isinstance(parameters, torch.Tensor) else parameters
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    if not gradients:
        return torch.zeros(())
    norm, factor, nonfinite = _norm(gradients, max_norm)
    factor = torch.where(nonfinite.ne(0), 1.0, factor)
    for tensor in gradients:
        flat = _flat(tensor)
        if flat is None:
            tensor.mul_(factor.to(tensor.device))
        else:
            arrays.scale(flat, factor.to(tensor.device), out=flat)
            torch.autograd.graph.increment_version(tensor)
        _set_flag(tensor, nonfinite)
    return norm
