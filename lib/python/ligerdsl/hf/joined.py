"""A gated MLP's weights of gate and up as neighbours in memory: parameters of their own, which one kernel multiplies by."""

import torch


def may_join(gate, up):
    """Whether they are plain tensors, which may change their memory."""
    return all(type(w) is torch.nn.Parameter and w.is_contiguous() and not w.is_meta for w in (gate, up)) and (
        gate.shape, gate.dtype, gate.device) == (up.shape, up.dtype, up.device)


def is_faster(gate):
    """Where the library's products are as fast as those of the device's maker."""
    return gate.is_cuda and gate.element_size() == 2 and torch.cuda.get_device_capability(gate.device) == (9, 0)


def join(gate, up):
    """Moves both into one new tensor. What moves or copies one of them takes them apart again."""
    if joined(gate, up) is None:
        both = torch.cat([gate.detach(), up.detach()])
        gate.data, up.data = both[:len(gate)], both[len(gate):]


def joined(gate, up):
    """[2F, K], gate's rows first, or None where they are no neighbours."""
    if not (gate.is_contiguous() and up.is_contiguous() and gate.shape == up.shape and gate.dtype == up.dtype):
        return None
    if (gate.untyped_storage().data_ptr() != up.untyped_storage().data_ptr()
            or up.storage_offset() != gate.storage_offset() + gate.numel()):
        return None
    return gate.detach().as_strided((2 * len(gate), gate.shape[1]), gate.stride())
