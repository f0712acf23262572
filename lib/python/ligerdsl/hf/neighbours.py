"""A gated MLP's weights of gate and up as neighbours in memory, which one kernel multiplies by. They stay two parameters, each with a storage
of its own: what saves a model tells tensors apart by these."""

import torch


def may_join(gate, up):
    """Whether they are plain tensors that have their memory to themselves."""
    def is_plain(weight):
        storage = weight.untyped_storage()
        alone = weight.storage_offset() == 0 and storage.nbytes() == weight.numel() * weight.element_size()
        return alone and weight.is_contiguous() and not (weight.device.type == "cpu" and weight.is_shared())

    return all(type(w) is torch.nn.Parameter and not w.is_meta and is_plain(w) for w in (gate, up)) and (
        gate.shape, gate.dtype, gate.device) == (up.shape, up.dtype, up.device)


def is_faster(gate):
    """Where the library's products are as fast as those of the device's maker."""
    return gate.is_cuda and gate.element_size() == 2 and torch.cuda.get_device_capability(gate.device) == (9, 0)


class Neighbours:
    """Of one layer. wanted: True, False or "auto". A copy of it, by copy or pickle, joins its own."""

    def __init__(self, wanted):
        self.wanted, self.both, self.tried = wanted, None, False

    def __reduce__(self):
        return Neighbours, (self.wanted,)

    def join(self, gate, up):
        """Once, where both are wanted so and may: what takes them apart later has a reason to."""
        if self.tried or not self.wanted or (self.wanted == "auto" and not is_faster(gate)) or not may_join(gate, up):
            return
        if gate.is_cuda and torch.cuda.is_current_stream_capturing():
            return
        self.tried, self.both = True, torch.cat([gate.detach(), up.detach()])
        gate.data, up.data = (torch.from_dlpack(part) for part in self.both.chunk(2))

    def of(self, gate, up):
        """[2F, K], gate's rows first, or None where they are neighbours no more: what moves one of them takes them apart."""
        if self.both is not None and [t.data_ptr() for t in (gate, up)] != [t.data_ptr() for t in self.both.chunk(2)]:
            self.both = None
        return self.both

    def part(self, gate, up):
        """Gives each memory of its own."""
        if self.of(gate, up) is not None:
            self.both = None
            gate.data, up.data = gate.data.clone(), up.data.clone()
