"""The processes of tests that need several: a CPU's with gloo, or one for each GPU with NCCL where there are enough."""

import os
import socket

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

COUNT = 2
KIND = "cuda" if torch.cuda.device_count() >= COUNT else "cpu"


def spawn(work, *arguments):
    """work(rank, port, *arguments) in each."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    mp.spawn(work, (port, *arguments), nprocs=COUNT)


def begin(rank, port, *modules):
    """The tensors that `modules` hold move to this process's device, where new ones are made from now on."""
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    if KIND == "cuda":
        torch.cuda.set_device(rank)
        torch.set_default_device(torch.device("cuda", rank))
        for module in modules:
            for name, value in list(vars(module).items()):
                if isinstance(value, torch.Tensor):
                    setattr(module, name, value.cuda())
    dist.init_process_group("nccl" if KIND == "cuda" else "gloo", rank=rank, world_size=COUNT)


def end():
    dist.barrier()
    dist.destroy_process_group()
