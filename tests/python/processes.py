"""Starts several processes: on a CPU with gloo, or one per GPU with NCCL if there are enough
GPUs."""

import os
import socket
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

COUNT = 2
IMPORTED = ("torch", "torch._dynamo", "torch.distributed.fsdp", "torch.distributed.tensor",
            "transformers.models.llama.modeling_llama")
KIND = "cuda" if torch.cuda.device_count() >= COUNT else "cpu"


def spawn(work, *arguments):
    """Calls work(rank, port, *arguments) in each process."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    # The forkserver imports these modules once, and each process is a fork of it. It uses no GPU,
    # and under ctest it has one thread.
    mp.set_forkserver_preload([name for name in IMPORTED if name in sys.modules])
    mp.start_processes(work, (port, *arguments), nprocs=COUNT, start_method="forkserver")


def begin(rank, port, *modules):
    """Joins the process group. With GPUs, makes this process's GPU the default device and moves
    tensors of `modules` to it."""
    torch.set_num_threads(1)  # the processes share the CPU's cores
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
