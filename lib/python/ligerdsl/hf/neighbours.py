"""Weights that multiply the same matrix as neighbours in memory, so that one product has them all. They stay parameters of their own, each with a
storage of its own: what saves a model tells tensors apart by these."""

import torch


def may_join(weights):
    """Whether they are plain tensors that have their memory to themselves."""
    def is_plain(weight):
        storage = weight.untyped_storage()
        alone = weight.storage_offset() == 0 and storage.nbytes() == weight.numel() * weight.element_size()
        return alone and weight.is_contiguous() and not (weight.device.type == "cpu" and weight.is_shared())

    return all(type(w) is torch.nn.Parameter and not w.is_meta and is_plain(w) for w in weights) and len(
        {(w.shape[1:], w.dtype, w.device) for w in weights}) == 1


def is_faster(weight):
    """Where the library's products are as fast as those of the device's maker."""
    return weight.is_cuda and weight.element_size() == 2 and torch.cuda.get_device_capability(weight.device) == (9, 0)


class Neighbours:
    """wanted: True, False or "auto". A copy of it, by copy or pickle, joins its own."""

    def __init__(self, wanted):
        self.wanted, self.all, self.tried = wanted, None, False

    def __reduce__(self):
        return Neighbours, (self.wanted,)

    def _parts(self, weights):
        return self.all.split([len(weight) for weight in weights])

    def join(self, *weights):
        """Once, where it is wanted and may be: what takes them apart later has a reason to."""
        if self.tried or not self.wanted or (self.wanted == "auto" and not is_faster(weights[0])) or not may_join(weights):
            return
        if weights[0].is_cuda and torch.cuda.is_current_stream_capturing():
            return
        self.tried, self.all = True, torch.cat([weight.detach() for weight in weights])
        for weight, part in zip(weights, self._parts(weights)):
            weight.data = torch.from_dlpack(part)

    def of(self, *weights):
        """One matrix of all their rows, in this order, or None where they are neighbours no more: what moves one of them takes them apart."""
        if self.all is not None and any(weight.data_ptr() != part.data_ptr() for weight, part in zip(weights, self._parts(weights))):
            self.all = None
        return self.all

    def part(self, *weights):
        """Gives each memory of its own."""
        if self.of(*weights) is not None:
            self.all = None
            for weight in weights:
                weight.data = weight.data.clone()


class Joined:
    """Neighbours of one decoder layer. weights: of q, k, v, o, gate, up and down."""

    def __init__(self, wanted):
        self.qkv, self.gate_up = Neighbours(wanted), Neighbours(wanted)

    def join(self, weights):
        self.qkv.join(*weights[:3])
        self.gate_up.join(*weights[4:6])

    def part(self, weights):
        self.qkv.part(*weights[:3])
        self.gate_up.part(*weights[4:6])
