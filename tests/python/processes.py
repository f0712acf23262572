"""Starts several processes: on a CPU with gloo, or one per GPU with NCCL if there are enough
GPUs."""

import os
import socket

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

COUNT = 2
KIND = "cuda" if torch.cuda.device_count() >= COUNT else "cpu"


def spawn(work, *arguments):
    """Calls work(rank, port, *arguments) in each process."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    mp.spawn(work, (port, *arguments), nprocs=COUNT)


def begin(rank, port, *modules):
    """Makes this process's device the default, and moves tensors of `modules` to it."""
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
