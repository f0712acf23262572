"""Timing on a GPU: cold L2, events around each repetition, median and 20/80 % quantiles; host time per call."""

import time

import torch

FLUSH_BYTES = 256 << 20  # several times the L2 of every card supported


class Timer:
    def __init__(self, device):
        self.device = device
        self.flush = torch.empty(FLUSH_BYTES, dtype=torch.uint8, device=device)

    def kernel_us(self, fn, repetitions=31, warmup=5, before=None):
        """Median, 20 % and 80 % of the time between events around fn(); `before` restores inputs, outside the events."""
        for _ in range(warmup):
            if before:
                before()
            fn()
        events = []
        for _ in range(repetitions):
            if before:
                before()
            self.flush.zero_()
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            begin.record()
            fn()
            end.record()
            events.append((begin, end))
        torch.cuda.synchronize()
        samples = sorted(b.elapsed_time(e) * 1e3 for b, e in events)
        at = lambda q: samples[min(len(samples) - 1, int(q * len(samples)))]
        return at(0.5), at(0.2), at(0.8)

    def host_us(self, fn, calls=200):
        """Host time of one call while the device never stalls the queue for long."""
        fn()
        torch.cuda.synchronize()
        best = []
        for _ in range(5):
            begin = time.perf_counter()
            for _ in range(calls // 5):
                fn()
            best.append((time.perf_counter() - begin) * 1e6 / (calls // 5))
            torch.cuda.synchronize()
        return sorted(best)[len(best) // 2]

    def peak_mb(self, fn):
        """Memory that fn() takes at its peak beyond what is held before, through torch's allocator."""
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        base = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        fn()
        torch.cuda.synchronize()
        return (torch.cuda.max_memory_allocated() - base) / 2**20
