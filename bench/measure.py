"""Checks one contender of one case, then times its passes and returns them as rows of the
result."""

import torch

from cases import GATES, Contender, Pass


class Wrong(Exception):
    """An error of one of our results exceeds its gate."""


def copy_contender(timer, nbytes):
    """Returns a copy that reads and writes `nbytes` in total."""
    source = torch.zeros(max(nbytes // 2, 1), dtype=torch.uint8, device=timer.device)
    target = torch.empty_like(source)
    return Contender({"fwd": Pass(lambda: target.copy_(source), lambda: {"target": target}, 0)})


class Copies:
    """Copies of `ceiling_bytes` (2 GiB on a GPU) and of the sizes that cases move, each measured
    once per run."""

    def __init__(self, timer, ceiling_bytes):
        self.timer, self.ceiling_bytes, self.measured = timer, ceiling_bytes, {}
        self.gbps = 2 * ceiling_bytes / self.of(2 * ceiling_bytes)["us"] / 1e3

    def of(self, nbytes):
        if nbytes not in self.measured:
            contender = copy_contender(self.timer, nbytes)
            self.measured[nbytes] = self.timer.measure(contender.passes["fwd"].run)
        return self.measured[nbytes]

    def row(self, kernel, pass_name, shape, dtype, nbytes):
        return self.finish({"kernel": kernel, "pass": pass_name, "shape": list(shape),
                            "dtype": dtype, "provider": "copy", "peak_mb": 0.0, "max_error": 0.0},
                           self.of(nbytes), nbytes)

    def finish(self, row, times, nbytes):
        """Sets the fields derived from a time and from the pass's least bytes."""
        row.update({name: value if isinstance(value, str) else round(value, 2)
                    for name, value in times.items()})
        row["gbps"] = round(nbytes / times["us"] / 1e3, 6)
        row["frac_copy"] = round(nbytes / times["us"] / 1e3 / self.gbps, 6)
        row["frac_same_copy"] = round(self.of(nbytes)["us"] / times["us"], 6)
        return row


def check(case, contender):
    """Returns {pass: {output: error}}.

    Before each pass, overwritten inputs are restored. If none are overwritten, preallocated outputs
    are filled with NaN.
    """
    errors = {}
    for name, one in contender.passes.items():
        if contender.restore:
            contender.restore()
        elif one.wrote:
            for tensor in one.wrote().values():
                tensor.fill_(float("nan") if tensor.is_floating_point() else 0xEE)
        errors[name] = case.errors(one.outputs())
    if contender.restore:
        contender.restore()
    return errors


def peak_mb(timer, one):
    if one.own_bytes is not None:
        return round(one.own_bytes / 2**20, 2)
    peak = timer.peak_bytes(one.run)
    return None if peak is None else round(peak / 2**20, 2)


def time_pass(case, timer, one, restore):
    if case.links:
        return timer.chain(one.run, case.links)
    if not case.bursts:
        return timer.measure(one.run, restore)
    us, p20, p80 = timer.bursts(one.run)
    return {"us": us, "us_p20": p20, "us_p80": p80, "us_sustained": timer.sustained(one.run),
            "wall_us": us, "host_us": timer.host_us(one.run, calls=1)}


def kernel_times(case, provider, timer):
    """Returns {pass: us of its GPU kernels} from a profiler, for contenders whose host waits within
    a pass."""
    contender = case.make[provider]()
    return {name: round(timer.kernels_us(one.run, contender.restore), 2)
            for name, one in contender.passes.items()}


def checked(case, wanted, provider):
    """Returns a contender and {pass: {output: error}}. Raises the contender's exceptions, and Wrong
    if it is ours and inaccurate."""
    contender = case.make[provider]()
    errors = check(case, contender)
    gate = GATES[wanted.dtype]
    bad = {f"{name} {output}": error for name, of in errors.items() for output, error in of.items()
           if not error <= gate}
    if bad and case.gated and provider.startswith("ligerdsl"):
        raise Wrong(f"{wanted} {provider}: relative error: expected at most {gate}, got "
                    + ", ".join(f"{error:.3g} ({name})" for name, error in bad.items()))
    return contender, errors


def measure(case, wanted, provider, timer, copies):
    """Returns a contender's rows, with rates relative to copies. Raises what `checked` raises."""
    contender, errors = checked(case, wanted, provider)
    rows = []
    for name, one in contender.passes.items():
        row = {"kernel": case.kernel, "pass": name, "shape": list(case.shape),
               "dtype": wanted.dtype, "provider": provider}
        copies.finish(row, time_pass(case, timer, one, contender.restore), case.bytes[name])
        if contender.restore:
            contender.restore()
        row["peak_mb"] = peak_mb(timer, one)
        row["workspace_mb"] = round(one.workspace_bytes / 2**20, 2)
        row["max_error"], row["errors"] = max(errors[name].values()), errors[name]
        if timer.host_waits(one.run):
            row["host_waits"] = True
        if name in case.flops:
            row["tflops"] = round(case.flops[name] / row["us"] / 1e6, 1)
        rows.append(row)
    if contender.restore:
        contender.restore()
    return rows
