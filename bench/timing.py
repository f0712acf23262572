"""Times one pass: cold caches, a queue that never waits for the host, median and quantiles; host
time; peak memory.

A GPU repetition restores inputs, overwrites 256 MB until the host has enqueued the pass (at least
once, to flush the L2), then records an event, the pass and an event. So `us` includes no waits of
the GPU for Python. `wall_us` has one overwrite and includes such waits, like a caller's time.
"""

import math
import time
import warnings

import torch
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile

from results import one_line

FLUSH_BYTES = 256 << 20  # several times the L2 size of every supported card
FLUSH_US = 55  # about the shortest time to overwrite FLUSH_BYTES
MOST_FLUSHES = 64
# Upper bound of the extra host time in us of the first call after a pause; 100 to 130 for cuBLAS.
WAKING_US = 500
MOST_IN_ROUND = 32  # largest number of repetitions of a run in one round of `repeats`
ROUNDS = 12  # runs of a chain between two events, enough to hide the events' own cost


def quantiles(samples):
    """Returns median, 20 % and 80 % quantiles, interpolated."""
    ordered = sorted(samples)

    def at(q):
        place = q * (len(ordered) - 1)
        below = int(place)
        above = min(below + 1, len(ordered) - 1)
        return ordered[below] + (ordered[above] - ordered[below]) * (place - below)

    return at(0.5), at(0.2), at(0.8)


class GpuTimer:
    def __init__(self, device, repetitions=31):
        self.device, self.repetitions = device, repetitions
        self.flush = torch.empty(FLUSH_BYTES, dtype=torch.uint8, device=device)

    def synchronize(self):
        torch.cuda.synchronize()

    def _sample(self, run, before, flushes):
        if before:
            before()
        for _ in range(flushes):
            self.flush.zero_()
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        run()
        end.record()
        return begin, end

    def _times(self, run, before, flushes, repetitions):
        events = [self._sample(run, before, flushes) for _ in range(repetitions)]
        torch.cuda.synchronize()
        return [b.elapsed_time(e) * 1e3 for b, e in events]

    def measure(self, run, before=None):
        """Returns us, us_p20, us_p80, wall_us, host_us of a pass."""
        for _ in range(3):
            if before:
                before()
            run()
        host = self.host_us(run, before)
        flushes = min(MOST_FLUSHES, 1 + math.ceil(1.5 * host / FLUSH_US))
        slow = self._times(run, before, 1, 3)
        # limits this measurement to about two seconds
        repetitions = max(11, min(self.repetitions, int(2e6 / max(*slow, 1.0))))
        us, p20, p80 = quantiles(self._times(run, before, flushes, repetitions))
        wall = quantiles(self._times(run, before, 1, 11))[0]
        return {"us": us, "us_p20": p20, "us_p80": p80, "wall_us": wall, "host_us": host}

    def host_us(self, run, before=None, calls=20):
        """Returns the host time of a call into an empty queue, including the pass's waits for the
        GPU."""
        def batch(count):
            if before:
                before()
            torch.cuda.synchronize()
            begin = time.perf_counter()
            for _ in range(count):
                run()
            queued = time.perf_counter()
            torch.cuda.synchronize()
            return (queued - begin) * 1e6 / count, (time.perf_counter() - begin) * 1e6 / count

        whole = batch(1)[1]
        # limits a batch to about 50 ms
        count = 1 if before else max(1, min(calls, int(5e4 / whole)))
        return quantiles([batch(count)[0] for _ in range(5)])[0]

    def bursts(self, run, gap_s=0.25, most=7):
        """Returns quantiles of repetitions after idle gaps, in which the card cools and regains
        power.

        Overwrites continue until the host has enqueued the repetition, as in measure(), and
        WAKING_US longer, because the host was idle too.
        """
        samples, flushes = [], min(
            MOST_FLUSHES, 1 + math.ceil((WAKING_US + 1.5 * self.host_us(run, calls=1)) / FLUSH_US))
        for _ in range(most):
            torch.cuda.synchronize()
            time.sleep(gap_s)
            samples += self._times(run, None, flushes, 1)
        return quantiles(samples)

    def sustained(self, run, seconds=1.2):
        """Returns the median of uninterrupted repetitions over `seconds`, without the first
        third."""
        once = self._times(run, None, 1, 1)[0]
        count = max(6, min(80, int(seconds * 1e6 / once)))
        return quantiles(self._times(run, None, 1, count)[count // 3:])[0]

    def alternately(self, runs, rounds=9, gap_s=0.15, block_s=0.12):
        """Returns [(us, us_p20, us_p80, us_sustained)] of runs that are compared.

        Each run has one burst and one block of repetitions per round. Another run begins each
        round, so that the card's heat and power affect all runs equally.
        """
        if not runs:
            return []
        flushes = min(
            MOST_FLUSHES,
            1 + math.ceil(
                (WAKING_US + 1.5 * max(self.host_us(run, calls=1) for run in runs)) / FLUSH_US))
        bursts, blocks = [[] for _ in runs], [[] for _ in runs]
        order = lambda round: [(round + i) % len(runs) for i in range(len(runs))]
        for round in range(rounds):
            for i in order(round):
                torch.cuda.synchronize()
                time.sleep(gap_s)
                bursts[i] += self._times(runs[i], None, flushes, 1)
        count = max(4, int(block_s * 1e6 / quantiles(bursts[0])[0]))
        for round in range(max(2, rounds // 2)):
            for i in order(round):
                begin, end = (torch.cuda.Event(enable_timing=True),
                              torch.cuda.Event(enable_timing=True))
                begin.record()
                for _ in range(count):
                    runs[i]()
                end.record()
                torch.cuda.synchronize()
                blocks[i].append(begin.elapsed_time(end) * 1e3 / count)
        return [(*quantiles(burst), quantiles(block)[0]) for burst, block in zip(bursts, blocks)]

    def repeats(self, runs, repeats=3, rounds=5, round_us=2000):
        """Returns a list of us per repeat for each (run, before), to compare runs.

        Each round repeats each run with a cold L2 for round_us, but 1 to MOST_IN_ROUND times.
        Rounds begin with different runs. A repeat is the median of its rounds.
        """
        settings = []
        for run, before in runs:
            for _ in range(2):
                if before:
                    before()
                run()
            flushes = min(MOST_FLUSHES,
                          1 + math.ceil(1.5 * self.host_us(run, before, calls=1) / FLUSH_US))
            once = min(self._times(run, before, flushes, 3))
            settings.append((run, before, flushes,
                             max(1, min(MOST_IN_ROUND, math.ceil(round_us / once)))))
        found = [[] for _ in runs]
        for _ in range(repeats):
            samples = [[] for _ in runs]
            for round in range(rounds):
                for i in [(round + i) % len(runs) for i in range(len(runs))]:
                    samples[i] += self._times(*settings[i])
            for times, each in zip(found, samples):
                times.append(quantiles(each)[0])
        return found

    def chain(self, run, links):
        """Returns quantiles of one link's time, from many consecutive runs on the stream and in a
        CUDA graph (us_graph).

        The host enqueues the links between the events, so us is the host's time if that is longer;
        us_graph never is.
        """
        def rounds():
            for _ in range(ROUNDS):
                run()

        rounds()
        per_link = lambda work: [us / (ROUNDS * links) for us in self._times(work, None, 1, 15)]
        us, p20, p80 = quantiles(per_link(rounds))
        found = {"us": us, "us_p20": p20, "us_p80": p80, "wall_us": us,
                 "host_us": self.host_us(run) / links}
        try:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, stream=torch.cuda.current_stream()):
                rounds()
            found["us_graph"] = quantiles(per_link(graph.replay))[0]
        except RuntimeError as error:  # some contenders cannot be captured
            found["graph_error"] = one_line(str(error))[:120]
        return found

    def host_waits(self, run):
        """Returns true if the host waits for the GPU within a pass (.item() and the like)."""
        torch.cuda.synchronize()
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            torch.cuda.set_sync_debug_mode("warn")
            try:
                run()
            finally:
                torch.cuda.set_sync_debug_mode("default")
        return any("called a synchronizing" in str(warning.message) for warning in heard)

    def kernels_us(self, run, before=None, repetitions=5):
        """Returns the median sum of a pass's kernels, copies and fills with a cold L2: GPU work
        without waits."""
        samples = []
        for _ in range(repetitions):
            if before:
                before()
            self.flush.zero_()
            torch.cuda.synchronize()
            with profile(activities=[ProfilerActivity.CUDA]) as profiler:
                run()
                torch.cuda.synchronize()
            samples.append(sum(event.time_range.elapsed_us() for event in profiler.events()
                               if event.device_type == DeviceType.CUDA))
        return quantiles(samples)[0]

    def peak_bytes(self, run):
        """Returns a pass's peak memory in torch's allocator, beyond the memory held before."""
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        base = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        run()
        torch.cuda.synchronize()
        return torch.cuda.max_memory_allocated() - base


class CpuTimer:
    """CPU counterpart, for the smoke test. torch uses one thread, so host time is the pass's
    time."""

    def __init__(self, device, repetitions=3):
        self.device, self.repetitions = device, repetitions
        self.flush = torch.empty(64 << 20, dtype=torch.uint8)

    def synchronize(self):
        pass

    def measure(self, run, before=None):
        samples = []
        for _ in range(self.repetitions):
            if before:
                before()
            self.flush.zero_()
            begin = time.perf_counter()
            run()
            samples.append((time.perf_counter() - begin) * 1e6)
        us, p20, p80 = quantiles(samples)
        return {"us": us, "us_p20": p20, "us_p80": p80, "wall_us": us, "host_us": us}

    def host_us(self, run, before=None, calls=1):
        return self.measure(run, before)["host_us"]

    def chain(self, run, links):
        return {name: us / links for name, us in self.measure(run).items()}

    def bursts(self, run):
        found = self.measure(run)
        return found["us"], found["us_p20"], found["us_p80"]

    def sustained(self, run):
        return self.measure(run)["us"]

    def alternately(self, runs):
        return [(*self.bursts(run), self.sustained(run)) for run in runs]

    def repeats(self, runs, repeats=3):
        found = [[] for _ in runs]
        for _ in range(repeats):
            for times, (run, before) in zip(found, runs):
                times.append(self.measure(run, before)["us"])
        return found

    def host_waits(self, run):
        return False

    def peak_bytes(self, run):
        return None  # torch does not count host memory


def timer_for(device):
    return GpuTimer(device) if device.type == "cuda" else CpuTimer(device)
