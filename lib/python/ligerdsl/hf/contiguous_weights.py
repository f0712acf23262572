"""Places weights that multiply the same matrix contiguously, so that one matmul reads all of them.

The weights remain separate parameters, each with its own storage object, because code that saves
models identifies tensors by storage."""

import weakref

import torch
from torch.multiprocessing.reductions import StorageWeakRef


def may_join(weights):
    """Returns true if the weights are plain tensors that share their memory with no other
    tensor."""
    def is_plain(weight):
        storage = weight.untyped_storage()
        alone = (weight.storage_offset() == 0
                 and storage.nbytes() == weight.numel() * weight.element_size())
        return alone and weight.is_contiguous() and not (
            weight.device.type == "cpu" and weight.is_shared())

    return (all(type(w) is torch.nn.Parameter and not w.is_meta and is_plain(w) for w in weights)
            and len({(w.shape[1:], w.dtype, w.device) for w in weights}) == 1)


def is_faster(weight):
    """Returns true if the library's matmuls are as fast as cuBLAS: 16-bit weights on sm_90."""
    return (weight.is_cuda and weight.element_size() == 2
            and torch.cuda.get_device_capability(weight.device) == (9, 0))


def _place(weight):
    return weight.data_ptr(), weight.shape, weight.stride(), weight.dtype, weight.device


class ContiguousWeights:
    """Weights that share one contiguous buffer.

    wanted: True, False or "auto". A copy of this object joins its own weights. The object has no
    reference to the buffer, which is freed with the last weight."""

    def __init__(self, wanted):
        self.wanted, self.tried = wanted, False
        self.memory = None  # weak reference to the storage that all weights share
        self.places, self.weights = [], []

    def __reduce__(self):
        return ContiguousWeights, (self.wanted,)

    def join(self, *weights):
        """Moves the weights into one buffer if wanted and possible, but only once.

        Weights that other code separates later are not joined again, because that code has a
        reason."""
        if (self.tried or not self.wanted or (self.wanted == "auto" and not is_faster(weights[0]))
            or not may_join(weights)):
            return
        if weights[0].is_cuda and torch.cuda.is_current_stream_capturing():
            return
        self.tried, joined = True, torch.cat([weight.detach() for weight in weights])
        for weight, part in zip(weights, joined.split([len(weight) for weight in weights])):
            weight.data = torch.from_dlpack(part)
        self.memory, self.shape = StorageWeakRef(joined.untyped_storage()), joined.shape
        self.places, self.weights = ([_place(weight) for weight in weights],
                                     [weakref.ref(weight) for weight in weights])

    def of(self, *weights):
        """Returns the weights' rows in this order as one matrix, or None if moving a weight has
        separated them."""
        if self.memory is None or [_place(weight) for weight in weights] != self.places:
            return None
        storage = torch.UntypedStorage._new_with_weak_ptr(self.memory.cdata)
        if storage is None:
            return None
        return torch.empty(0, dtype=weights[0].dtype,
                           device=weights[0].device).set_(storage, 0, self.shape)

    def part(self):
        """Gives its own memory to each weight that is still in the shared buffer."""
        for reference, place in zip(self.weights, self.places):
            weight = reference()
            if weight is not None and _place(weight) == place:
                weight.data = weight.data.clone()
        self.memory = None


class Joined:
    """The contiguous weights of one decoder layer."""

    def __init__(self, wanted):
        self.qkv, self.gate_up = ContiguousWeights(wanted), ContiguousWeights(wanted)

    def join(self, weights):
        """Joins weights. `weights`: the layer's weights of q, k, v, o, gate, up and down."""
        self.qkv.join(*weights[:3])
        self.gate_up.join(*weights[4:6])

    def part(self):
        self.qkv.part()
        self.gate_up.part()
