"""Weights that multiply the same matrix as neighbours in memory, so that one product has them all. They stay parameters of their own, each with a
storage of its own: what saves a model tells tensors apart by these."""

import weakref

import torch
from torch.multiprocessing.reductions import StorageWeakRef


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


def _place(weight):
    return weight.data_ptr(), weight.shape, weight.stride(), weight.dtype, weight.device


class Neighbours:
    """wanted: True, False or "auto". A copy of it joins its own. It keeps no memory alive: where none of the weights is there any more, it goes."""

    def __init__(self, wanted):
        self.wanted, self.tried = wanted, False
        self.memory = None  # of all, weakly
        self.places, self.weights = [], []

    def __reduce__(self):
        return Neighbours, (self.wanted,)

    def join(self, *weights):
        """Once, where it is wanted and may be: what takes them apart later has a reason to."""
        if self.tried or not self.wanted or (self.wanted == "auto" and not is_faster(weights[0])) or not may_join(weights):
            return
        if weights[0].is_cuda and torch.cuda.is_current_stream_capturing():
            return
        self.tried, joined = True, torch.cat([weight.detach() for weight in weights])
        for weight, part in zip(weights, joined.split([len(weight) for weight in weights])):
            weight.data = torch.from_dlpack(part)
        self.memory, self.shape = StorageWeakRef(joined.untyped_storage()), joined.shape
        self.places, self.weights = [_place(weight) for weight in weights], [weakref.ref(weight) for weight in weights]

    def of(self, *weights):
        """One matrix of all their rows, in this order, or None where these are not neighbours, or no more: what moves one of them takes them
        apart."""
        if self.memory is None or [_place(weight) for weight in weights] != self.places:
            return None
        storage = torch.UntypedStorage._new_with_weak_ptr(self.memory.cdata)
        if storage is None:
            return None
        return torch.empty(0, dtype=weights[0].dtype, device=weights[0].device).set_(storage, 0, self.shape)

    def part(self):
        """Gives each that is where it was memory of its own."""
        for reference, place in zip(self.weights, self.places):
            weight = reference()
            if weight is not None and _place(weight) == place:
                weight.data = weight.data.clone()
        self.memory = None


class Joined:
    """Neighbours of one decoder layer."""

    def __init__(self, wanted):
        self.qkv, self.gate_up = Neighbours(wanted), Neighbours(wanted)

    def join(self, weights):
        """Of q, k, v, o, gate, up and down."""
        self.qkv.join(*weights[:3])
        self.gate_up.join(*weights[4:6])

    def part(self):
        self.qkv.part()
        self.gate_up.part()
