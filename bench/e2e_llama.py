"""Training steps of a Llama: transformers alone, Liger-Kernel, ligerdsl.

    python bench/e2e_llama.py --sweeps batch,length,ablation --cap-gb 24 --out e2e-DATE.json
    python bench/e2e_plot.py e2e-DATE.json --out docs/training

It measures tokens per second and peak memory by batch size and sequence length, ablations, and one
step's memory over time. Weights and tokens are random, the dtype is bf16, and every layer is
recomputed in backward. Each contender runs in its own process, because Liger's patches affect a
whole process. A point that runs out of memory is marked, and larger ones of its sweep are not
tried.
"""

import argparse
import dataclasses
import datetime
import gc
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

# Contenders, in order: transformers; Liger's kernels; ours; Liger's and ours without fused linear
# cross-entropy; ours with torch's activation checkpointing; Liger's module patches that call our
# kernels.
CONTENDERS = ("hf", "liger", "ligerdsl", "liger_without_flce", "ligerdsl_without_flce",
              "ligerdsl_without_layers", "liger_on_ligerdsl")
PEERS = ("hf", "liger", "ligerdsl")
ABLATION = ("hf", "ligerdsl_without_flce", "ligerdsl")
POINTS = 4000  # largest number of points in a memory timeline
WORKSPACES = (64, 128, 256, 512, 1024)  # workspace limits in MiB


@dataclasses.dataclass(frozen=True)
class Preset:
    """`config`: arguments of transformers' LlamaConfig. `batch` and `length`: for sweeps that do
    not vary them."""

    config: dict
    batch: int
    length: int
    batches: tuple
    lengths: tuple


PRESETS = {
    "llama-3.2-1b": Preset(
        dict(vocab_size=128256, hidden_size=2048, intermediate_size=8192, num_hidden_layers=16,
             num_attention_heads=32, num_key_value_heads=8, head_dim=64,
             max_position_embeddings=131072, rms_norm_eps=1e-5, tie_word_embeddings=True,
             rope_parameters={"rope_type": "llama3", "rope_theta": 500000.0, "factor": 32.0,
                              "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                              "original_max_position_embeddings": 8192}),
        4, 1024, (1, 2, 4, 8, 16, 32, 64, 96, 128, 144),
        (512, 1024, 2048, 4096, 8192, 16384, 24576, 32768, 36864)),
    "tiny": Preset(dict(vocab_size=96, hidden_size=32, intermediate_size=48, num_hidden_layers=2,
                        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64,
                        tie_word_embeddings=True),
                   2, 16, (1, 2), (8, 16)),
}


# Points of each sweep, smallest first: contenders, batch, length, workspace in MiB or None.
SWEEPS = {
    "batch": lambda preset: [(PEERS, batch, preset.length, None) for batch in preset.batches],
    "length": lambda preset: [(PEERS, preset.batch, length, None) for length in preset.lengths],
    "ablation": lambda preset: [(
        (*ABLATION, "ligerdsl_without_layers", "liger_without_flce", "liger"), preset.batch,
        preset.length, None)],
    "timeline": lambda preset: [((*ABLATION, "liger"), preset.batch, preset.length, None)],
    "workspace": lambda preset: [
        (("ligerdsl",), preset.batches[-1], preset.length, mib) for mib in WORKSPACES],
    "backend": lambda preset: [(("liger", "liger_on_ligerdsl"), preset.batch, preset.length, None)],
}


def preset_of(options):
    """Returns the preset, with its sizes replaced by those of the command line."""
    given = {"batches": options.batches, "lengths": options.lengths}
    return dataclasses.replace(PRESETS[options.preset],
                               **{name: tuple(places) for name, places in given.items() if places})


def points_of(preset, sweeps):
    """Returns {contender: [(sweep, batch, length, workspace in MiB or None)]}."""
    points = {}
    for sweep in sweeps:
        if sweep not in SWEEPS:
            raise SystemExit(f"--sweeps: expected {', '.join(SWEEPS)}, got {sweep}")
        for names, *point in SWEEPS[sweep](preset):
            for name in names:
                points.setdefault(name, []).append((sweep, *point))
    return points


# ---- One contender, in its own process
# ------------------------------------------------------------

def make_model(shape, contender, device, dtype, seed=0, checkpointing=True):
    """`shape`: arguments of a LlamaConfig."""
    if contender == "liger_on_ligerdsl":
        import ligerdsl.liger.hook  # noqa: F401  before Liger
    import torch
    import transformers
    if contender.startswith("liger_") or contender == "liger":
        from liger_kernel.transformers import apply_liger_kernel_to_llama
        apply_liger_kernel_to_llama(fused_linear_cross_entropy=contender != "liger_without_flce")
    config = transformers.LlamaConfig(**shape, use_cache=False, attn_implementation="sdpa")
    torch.manual_seed(seed)
    with torch.device(device):
        model = transformers.LlamaForCausalLM(config).to(dtype).train()
    if checkpointing:
        getattr(model, "activation_checkpointing_enable", model.gradient_checkpointing_enable)()
    if contender.startswith("ligerdsl"):
        import ligerdsl.hf
        report = ligerdsl.hf.patch(model,
                                   loss=None if contender == "ligerdsl_without_flce" else "flce",
                                   strict=True, layers=contender != "ligerdsl_without_layers")
        print(str(report).replace("\n", ", "), file=sys.stderr)
    return model


def layers_as_one_node(contender):
    """Returns the number of layers that ran backward as one node: each has two fused add-norms,
    which modules lack."""
    if not contender.startswith("ligerdsl"):
        return None
    import ligerdsl
    return ligerdsl.calls("fused_add_rms_norm_backward") // 2


class Memory:
    """Bytes of torch's allocator; not measured on a CPU."""

    def __init__(self, device, cap_gb):
        import torch
        self.cuda = torch.cuda if device.startswith("cuda") else None
        if self.cuda:
            self.cuda.set_device(torch.device(device))
            if cap_gb:
                total = self.cuda.get_device_properties(torch.device(device)).total_memory
                self.cuda.set_per_process_memory_fraction(min(1.0, cap_gb * 1e9 / total))

    def clear(self):
        gc.collect()
        if self.cuda:
            self.cuda.synchronize()
            self.cuda.empty_cache()
        self.forget_peaks()

    def forget_peaks(self):
        """Keeps the allocator's cached blocks, so that the first timed step needs no driver
        allocation."""
        if self.cuda:
            self.cuda.synchronize()
            self.cuda.reset_peak_memory_stats()

    def wait(self):
        if self.cuda:
            self.cuda.synchronize()

    def peaks(self):
        if not self.cuda:
            return {"peak_gb": None, "reserved_gb": None}
        return {"peak_gb": round(self.cuda.max_memory_allocated() / 1e9, 3),
                "reserved_gb": round(self.cuda.max_memory_reserved() / 1e9, 3)}

    def timeline(self, step):
        """Returns [[ms, MB]] of one step: allocated memory after every allocation and release."""
        if not self.cuda:
            step()
            return []
        self.cuda.synchronize()
        start = self.cuda.memory_allocated()
        self.cuda.memory._record_memory_history(max_entries=1000000, context=None, stacks="python")
        step()
        self.cuda.synchronize()
        traces = self.cuda.memory._snapshot()["device_traces"][self.cuda.current_device()]
        self.cuda.memory._record_memory_history(enabled=None)
        return curve(traces, start)


def curve(traces, start):
    """Converts the allocator's events to [[ms since the first, MB allocated]]."""
    points, held, first = [], start, None
    for event in traces:
        change = {"alloc": event["size"], "free_completed": -event["size"]}.get(event["action"])
        if change is None:
            continue
        first = event["time_us"] if first is None else first
        held += change
        points.append([round((event["time_us"] - first) / 1e3, 3), round(held / 1e6, 3)])
    return points if len(points) <= POINTS else thinned(points)


def thinned(points):
    """Keeps the largest and the last point of each of POINTS / 2 intervals."""
    width, kept = points[-1][0] / (POINTS // 2 - 1) or 1.0, {}
    for point in points:
        largest, _ = kept.get(int(point[0] / width), (point, point))
        kept[int(point[0] / width)] = (max(largest, point, key=lambda each: each[1]), point)
    return [point for largest, last in kept.values()
            for point in ([last] if largest is last else [largest, last])]


def steps_of(model, optimiser, ids):
    def step():
        loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        if optimiser:
            optimiser.step()
        model.zero_grad(set_to_none=True)
        return loss.detach()

    return step


def measure(options, model, optimiser, memory, point, vocab_size):
    import torch
    sweep, batch, length, workspace = point
    if hasattr(model, "_ligerdsl_limit"):
        model._ligerdsl_limit = None if workspace is None else workspace * 2**20
    memory.clear()
    row = {"sweep": sweep, "batch": batch, "length": length} | (
        {} if workspace is None else {"workspace_mib": workspace})
    step = ids = None
    try:
        ids = torch.randint(0, vocab_size, (batch, length),
                            generator=torch.Generator().manual_seed(1)).to(options.device)
        step = steps_of(model, optimiser, ids)
        begin, warm = time.perf_counter(), 0
        row["first_loss"] = float(step())
        if sweep == "timeline":
            return row | {"timeline": memory.timeline(step)} | memory.peaks()
        memory.wait()
        while ((warm := warm + 1) < options.warmup
               and time.perf_counter() - begin < options.point_s / 2):
            step()
            memory.wait()
        memory.forget_peaks()
        times = []
        while len(times) < options.steps and (not times or sum(times) < options.point_s):
            memory.wait()
            begin = time.perf_counter()
            step()
            memory.wait()
            times.append(time.perf_counter() - begin)
        times.sort()
        middle = statistics.median(times)
        row |= {"timed_steps": len(times),
                "step_ms": round(middle * 1e3, 3),
                "step_ms_fastest": round(times[0] * 1e3, 3),
                "step_ms_slowest": round(times[-1] * 1e3, 3),
                "tokens_per_s": round(batch * length / middle, 1)} | memory.peaks()
    except torch.OutOfMemoryError:
        row["out_of_memory"] = True
    model.zero_grad(set_to_none=True)
    return row


def run_contender(options):
    """Prints a line of JSON for each point."""
    import torch
    preset, contender = preset_of(options), options.contender
    memory = Memory(options.device, options.cap_gb)
    print("VERSIONS " + json.dumps(versions(options.device)), flush=True)
    model = make_model(preset.config, contender, options.device, getattr(torch, options.dtype))
    optimiser = (
        torch.optim.AdamW(model.parameters(), fused=True) if options.step == "adamw" else None)
    full, begin = set(), time.monotonic()
    for point in points_of(preset, options.sweeps)[contender]:
        if point[0] in full or time.monotonic() - begin > options.budget_s:
            row = {"sweep": point[0],
                   "batch": point[1],
                   "length": point[2],
                   "skipped": "a smaller one ran out of memory" if point[0] in full else "time"}
        else:
            row = measure(options, model, optimiser, memory, point, preset.config["vocab_size"])
        if row.get("out_of_memory"):
            full.add(point[0])
        print("ROW " + json.dumps({"contender": contender, **row}), flush=True)


def versions(device):
    import torch
    import transformers
    found = {"torch": torch.__version__,
             "transformers": transformers.__version__,
             "python": sys.version.split()[0],
             "device": torch.cuda.get_device_name(torch.device(device)) if device.startswith("cuda")
                       else "cpu"}
    try:
        from importlib.metadata import version
        found["liger"] = version("liger-kernel")
    except ImportError:
        pass
    try:
        import ligerdsl
        found["library"] = ligerdsl.build_info()
    except ImportError:
        pass
    return found


# ---- All contenders
# -------------------------------------------------------------------------------

def child(options, contender, seconds, found, take):
    """Calls take(row) after each measured row; adds the versions printed by the child to
    `found`."""
    command = [sys.executable, __file__, "--contender", contender, "--preset", options.preset,
               "--device", options.device, "--dtype", options.dtype, "--sweeps",
               ",".join(options.sweeps), "--step", options.step, "--steps", str(options.steps),
               "--warmup", str(options.warmup), "--point-s", str(options.point_s), "--budget-s",
               str(seconds)] + (["--cap-gb", str(options.cap_gb)] if options.cap_gb else [])
    for name, places in (("--batches", options.batches), ("--lengths", options.lengths)):
        command += [name, ",".join(map(str, places))] if places else []
    environment = {name: value for name, value in os.environ.items() if name != "LIGER_KERNEL_IMPL"}
    if contender == "liger_on_ligerdsl":
        environment["LIGER_KERNEL_IMPL"] = "ligerdsl"
    with tempfile.TemporaryFile("w+") as said:
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=said,
                              text=True) as process:
            for line in process.stdout:
                kind, _, text = line.partition(" ")
                if kind == "ROW":
                    take(json.loads(text))
                elif kind == "VERSIONS":
                    found |= json.loads(text)
        if process.returncode:
            said.seek(0)
            lines = [line for line in said.read().strip().splitlines() if line]
            sys.stderr.write("\n".join(lines[-30:]) + "\n")
            take({"contender": contender,
                  "failed": (lines[-1:] or [f"exit code {process.returncode}"])[0][:300]})


def arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preset", choices=PRESETS, default="llama-3.2-1b")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--dtype", choices=("bfloat16", "float32"), default="bfloat16")
    parser.add_argument("--sweeps", type=lambda text: text.split(","),
                        default=["batch", "length", "ablation", "timeline"],
                        help="sweeps: " + ", ".join(SWEEPS))
    parser.add_argument("--contenders", type=lambda text: text.split(","),
                        help="contenders, separated by commas, from " + ", ".join(CONTENDERS))
    parser.add_argument("--step", choices=("forward_backward", "adamw"), default="forward_backward",
                        help="adamw: torch's fused AdamW for all contenders")
    parser.add_argument("--cap-gb", type=float, help="limit of torch's allocator in GB (10^9 "
                                                     "bytes)")
    parser.add_argument("--steps", type=int, default=10, help="number of timed steps per point; "
                                                              "the result has their median")
    parser.add_argument("--warmup", type=int, default=3)
    numbers = lambda text: [int(each) for each in text.split(",")]  # noqa: E731
    parser.add_argument("--batches", type=numbers,
                        help="batch sizes of the sweep; default: the preset's")
    parser.add_argument("--lengths", type=numbers,
                        help="sequence lengths of the sweep; default: the preset's")
    parser.add_argument("--point-s", type=float, default=30,
                        help="seconds after which a point gets no more timed steps")
    parser.add_argument("--budget-s", type=float, default=3600,
                        help="time limit per contender in seconds; later points are skipped")
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--contender", help=argparse.SUPPRESS)
    return parser.parse_args()


def main():
    options = arguments()
    if options.contender:
        return run_contender(options)
    points = points_of(preset_of(options), options.sweeps)
    names = [name for name in CONTENDERS
             if name in points and (options.contenders is None or name in options.contenders)]
    deadline = time.monotonic() + options.budget_s
    rows, found = [], {}

    def take(row):
        """Keeps every measured row, even if a later one fails."""
        rows.append(row)
        print({key: value for key, value in row.items() if key != "timeline"}, flush=True)
        write()

    def write():
        result = {"what": "training steps of a Llama with random weights, every layer recomputed "
                          "in backward",
                  "preset": options.preset,
                  "dtype": options.dtype,
                  "allocator": os.environ.get("PYTORCH_CUDA_ALLOC_CONF", ""),
                  "step": options.step,
                  "cap_gb": options.cap_gb,
                  "steps": options.steps,
                  "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d"),
                  **found,
                  "rows": rows}
        if options.out:
            options.out.write_text(json.dumps(result, indent=None, separators=(",", ":")).replace(
                '{"contender"', '\n{"contender"') + "\n")

    weights = [5 + len(points[name]) for name in names]  # making the model costs about 5 points
    for i, name in enumerate(names):
        child(options, name,
              max(0.0, (deadline - time.monotonic()) * weights[i] / sum(weights[i:])), found, take)
        write()
    return 1 if any("failed" in row for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
