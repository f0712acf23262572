"""One job of a comparison: measures each contender of its cases and writes a file, within a time
limit."""

import signal
import time

import torch

from cases import build
from measure import kernel_times, measure

OK, FAILED, LOST, CUT = 0, 1, 4, 5
SLOW = ("compile_max", "quack_tuned")  # run only on request: their tuning takes minutes


class Late(Exception):
    """A contender exceeded its time limit."""


def on_alarm(signum, frame):
    raise Late("ran longer than --contender-s, or than the time left by --budget-s or --jobs")


class Budget:
    """Remaining seconds, and earlier times of each kernel's contenders. 0: no limit."""

    def __init__(self, seconds):
        self.seconds, self.begin, self.took = seconds, time.monotonic(), {}

    def allows(self, kernel, provider):
        return self.took.get((kernel, provider), 8.0) < self.left()

    def left(self):
        return self.seconds - (time.monotonic() - self.begin) if self.seconds else float("inf")

    def note(self, kernel, provider, seconds):
        self.took[kernel, provider] = seconds


def wanted_of(case, providers):
    """Returns the requested contenders of a case, their variants (ligerdsl_f32, liger32) and the
    floor, in order."""
    def asked(name):
        family = name.rstrip("0123456789").split("_")[0]
        return name in providers or name == "floor" or family in providers and name not in SLOW

    return [name for name in case.make if asked(name)]


def context_is_lost(device):
    if device.type != "cuda":
        return False
    try:
        torch.cuda.synchronize()
        return False
    except RuntimeError:
        return True


def show(row):
    print(f"{row['kernel']:26s} {row['pass']:4s} {'x'.join(map(str, row['shape'])):20s} "
          f"{row['dtype']:4s} {row['provider']:14s} {row['us']:10.1f} us wall "
          f"{row['wall_us']:10.1f} host {row['host_us']:8.1f} {row['gbps']:7.0f} GB/s copy "
          f"{row['frac_copy']:.3f} same {row['frac_same_copy']:.3f} peak "
          f"{row['peak_mb'] or 0:9.1f} MB err {row['max_error']:.1e}",
          flush=True)


class Run:
    """The process sets context, device, timer and copies; the job sets file and budget.

    copies: None for a job whose rows are not compared with copies.
    """

    def __init__(self, context, device, timer, copies, file, budget, contender_s):
        self.context, self.device, self.timer, self.copies = context, device, timer, copies
        self.file, self.budget, self.contender_s = file, budget, contender_s
        if copies:
            file.rows.insert(0, copies.row("copy", "fwd", [copies.ceiling_bytes], "u8",
                                           2 * copies.ceiling_bytes))

    def limited(self, what):
        """Calls what(); gives up after a contender's time limit."""
        signal.alarm(int(min(self.contender_s, max(self.budget.left(), 5))))
        try:
            return what()
        finally:
            signal.alarm(0)

    def contender(self, case, wanted, provider):
        """Measures one contender; records a failure and continues."""
        begin = time.monotonic()
        try:
            torch._dynamo.reset()
            rows = self.limited(lambda: measure(case, wanted, provider, self.timer, self.copies))
            self.file.add(rows)
            for row in rows:
                show(row)
        except Exception as error:
            print(f"FAILED {wanted} {provider}: {type(error).__name__}: {error}"[:1000], flush=True)
            self.file.fail(wanted, provider, f"{type(error).__name__}: {error}")
        self.budget.note(wanted.kernel, provider, time.monotonic() - begin)

    def one_case(self, wanted, providers, slow):
        """Measures either the fast or the slow contenders of a case, unless the file has them."""
        torch.manual_seed(0)
        case = build(self.context, wanted)
        contenders = [name for name in wanted_of(case, providers) if (name in SLOW) == slow]
        if all(self.file.has(wanted, provider) for provider in contenders):
            return
        if not slow:
            self.file.drop(wanted)
            self.file.add([self.copies.row(case.kernel, name, case.shape, wanted.dtype, size)
                           for name, size in case.bytes.items()])
        for provider in contenders:
            if self.file.has(wanted, provider):  # the file already lists it as failed
                continue
            if not self.budget.allows(wanted.kernel, provider):
                self.cut(f"{wanted} {provider}")
                continue
            self.contender(case, wanted, provider)
            self.after()

    def all(self, cases, providers):
        """Measures every case without its slow contenders, then the slow ones while time
        remains."""
        self.each(cases, providers, False)
        if set(SLOW) & set(providers):
            self.each(cases, providers, True)
        self.file.write()

    def each(self, cases, providers, slow):
        for i, wanted in enumerate(cases):
            if not self.budget.allows(wanted.kernel, "ligerdsl"):
                for left in cases[i:]:
                    self.cut(f"{left}{' slow contenders' * slow}")
                break
            try:
                self.one_case(wanted, providers, slow)
            except Exception as error:
                print(f"FAILED {wanted}: {type(error).__name__}: {error}", flush=True)
                self.file.fail(wanted, "case", f"{type(error).__name__}: {error}")
                self.after()

    def kernel_times(self, cases):
        """Measures us_kernels for contenders whose host waits. Runs last, because a profiler may
        slow later passes."""
        for wanted in cases:
            providers = self.file.waiting(wanted)
            if not providers:
                continue
            torch.manual_seed(0)
            case = build(self.context, wanted)
            for provider in providers:
                if not self.budget.allows("kernels", "any"):
                    self.cut(f"{wanted} {provider}: kernel time")
                    continue
                try:
                    self.file.note_kernels(
                        wanted, provider,
                        self.limited(lambda: kernel_times(case, provider, self.timer)))
                except Exception as error:
                    self.file.data["not_measured"].append(f"{wanted} {provider}: kernel time: "
                                                          f"{type(error).__name__}: {error}"[:300])
                self.after()
        self.file.write()

    def cut(self, what):
        self.file.data["not_measured"].append(f"{what}: the time limit of {self.budget.seconds:g} "
                                              "s "
                                              "leaves no time")

    def after(self):
        """Stops the process if a contender broke the GPU's context."""
        if context_is_lost(self.device):
            raise SystemExit(LOST)
        if self.device.type == "cuda":
            torch.cuda.empty_cache()
