"""Writes the tables of docs/design/training.md between the page's two marks.

    python bench/e2e_tables.py

It uses the newest result of each kind in bench/results. A file's kind is its name before the date:
e2e, e2e-again (fewer points, another version of a peer), e2e-adamw, e2e-workspace, e2e-backend,
convergence, fsdp, fsdp-compiled, train-llama.
"""

import argparse
import json
import pathlib
import re
import textwrap

from e2e_plot import NAMES

ROOT = pathlib.Path(__file__).resolve().parent.parent
BEGIN, END = "<!-- bench/e2e_tables.py writes from here -->", "<!-- to here -->"
PEERS = ("hf", "liger", "ligerdsl")
PLOTS = "../training"  # relative to the page's folder
WIDTH = 100  # characters per line of text


def table(head, rows):
    return "\n".join(["| " + " | ".join(head) + " |", "|---" * len(head) + "|", *("| " + " | ".join(map(str, row)) + " |" for row in rows)])


def where(result):
    """Returns device, date, commit and parameters of a result."""
    commit = re.search(r"commit ([0-9a-f]{7,40})", result.get("library", ""))
    parts = [result.get("device"), result.get("date"), commit and f"commit {commit.group(1)[:10]}",
             *(f"{name} {result[key]}" for name, key in (("torch", "torch"), ("transformers", "transformers"), ("Liger-Kernel", "liger")) if key in result)]
    return ", ".join(part for part in parts if part)


def cell(row):
    if row is None:
        return "not run"
    if row.get("out_of_memory"):
        return "out of memory"
    if "tokens_per_s" not in row:
        return "not tried" if "memory" in str(row.get("skipped")) else "no time" if "skipped" in row else "failed"
    memory = row.get("peak_gb")
    return f"{row['tokens_per_s']:,.0f}" + ("" if memory is None else f", {memory:.2f} GB")


def ratio(ours, theirs):
    both = ours and theirs and "tokens_per_s" in ours and "tokens_per_s" in theirs
    return f"{ours['tokens_per_s'] / theirs['tokens_per_s']:.3f}" if both else ""


def by_place(result, sweep, axis):
    places = {}
    for row in result["rows"]:
        if row.get("sweep") == sweep and axis in row:
            places.setdefault(row[axis], {})[row["contender"]] = row
    return dict(sorted(places.items()))


def sweep_table(result, sweep, axis, words):
    places = by_place(result, sweep, axis)
    names = [name for name in PEERS if any(name in rows for rows in places.values())]
    head = [words, *(NAMES[name] for name in names), "ours / transformers", "ours / Liger-Kernel"]
    return table(head, [[f"{place:,}", *(cell(rows.get(name)) for name in names), ratio(rows.get("ligerdsl"), rows.get("hf")),
                         ratio(rows.get("ligerdsl"), rows.get("liger"))] for place, rows in places.items()])


def pairs(result, value, peer):
    """Returns (size, ours / theirs) for each size that both measured."""
    found = []
    for sweep, axis in (("batch", "batch"), ("length", "length")):
        for place, rows in by_place(result, sweep, axis).items():
            ours, theirs = (rows.get(name, {}).get(value) for name in ("ligerdsl", peer))
            if ours and theirs:
                found.append((f"{'batch' if sweep == 'batch' else 'T ='} {place:,}", ours / theirs))
    return found


def goal(words, found, holds):
    if not found:
        return [words, "not measured", ""]
    missed = [f"{place}: {value:.3f}" for place, value in found if not holds(value)]
    return [words, f"{len(found) - len(missed)} of {len(found)}", ", ".join(missed) or "none"]


def fits(result, sweep, place):
    rows = by_place(result, sweep, sweep).get(place, {})
    return ", ".join(f"{NAMES[name]} {'yes' if 'tokens_per_s' in row else 'no' if row.get('out_of_memory') else 'not tried'}"
                     for name, row in rows.items() if name in PEERS)


def goals(result):
    at_least = lambda least: lambda value: value >= least  # noqa: E731
    rows = [goal("1.15 times transformers' throughput wherever that fits", pairs(result, "tokens_per_s", "hf"), at_least(1.15)),
            goal("1.05 times Liger-Kernel's", pairs(result, "tokens_per_s", "liger"), at_least(1.05)),
            goal("1.8 times Liger-Kernel's at batch 4", [pair for pair in pairs(result, "tokens_per_s", "liger") if pair[0] == "batch 4"], at_least(1.8)),
            goal("no more memory than Liger-Kernel", pairs(result, "peak_gb", "liger"), lambda value: value <= 1)]
    for sweep, place, words in (("batch", 144, "batch 144 fits"), ("length", 36864, "T = 36,864 fits")):
        if place in by_place(result, sweep, sweep):
            rows.append([words, fits(result, sweep, place), ""])
    return table(["goal", "points that reach it", "points that miss it"], rows)


def list_table(result, sweep, words, key):
    rows = [row for row in result["rows"] if row.get("sweep") == sweep]
    return table([words, "tokens/s", "peak GB", "first loss"],
                 [[key(row), f"{row['tokens_per_s']:,.0f}", row.get("peak_gb"), f"{row['first_loss']:.4f}"] for row in rows if "tokens_per_s" in row])


def of_allocator(result):
    limit = f", limited to {result['cap_gb']} GB" if result.get("cap_gb") else ""
    return f"{where(result)}. Cells show tokens per second and the step's peak of torch's allocator{limit}."


def again(results):
    result = results["e2e-again"]
    return [f"### Second run, with Liger-Kernel {result.get('liger')}", of_allocator(result),
            *(sweep_table(result, sweep, sweep, words) for sweep, words in (("batch", "batch, T = 1,024"), ("length", "T, batch 4"))),
            "Goals:", goals(result)]


def e2e(results):
    result, parts = results["e2e"], []
    parts += ["### Forward and backward", of_allocator(result)]
    for sweep, axis, words in (("batch", "batch", "batch, T = 1,024"), ("length", "length", "T, batch 4")):
        if len(by_place(result, sweep, axis)) > 1:
            parts += [f"![{words}]({PLOTS}/{sweep}-throughput.svg) ![{words}]({PLOTS}/{sweep}-memory.svg)", sweep_table(result, sweep, axis, words)]
    parts += ["Goals:", goals(result)]
    if any(row.get("sweep") == "ablation" for row in result["rows"]):
        parts += ["### Ablation", f"![ablation]({PLOTS}/ablation-throughput.svg) ![ablation]({PLOTS}/ablation-memory.svg)",
                  list_table(result, "ablation", "batch 4, T = 1,024", lambda row: NAMES[row["contender"]])]
    if any(row.get("timeline") for row in result["rows"]):
        parts += ["### Memory within one step", f"![timeline]({PLOTS}/timeline.svg)"]
    return parts


def adamw(results):
    result = results["e2e-adamw"]
    return ["### With AdamW", f"{where(result)}. Every contender uses torch's fused AdamW with bf16 weights and moments."
            + (f" torch's allocator is limited to {result['cap_gb']} GB." if result.get("cap_gb") else ""),
            *(sweep_table(result, sweep, axis, words) for sweep, axis, words in
              (("batch", "batch", "batch, T = 1,024"), ("length", "length", "T, batch 4")) if by_place(result, sweep, axis))]


def backend(results):
    result = results["e2e-backend"]
    return ["### Liger-Kernel's patches on its kernels and on ours", where(result) + ".",
            list_table(result, "backend", "batch 4, T = 1,024", lambda row: NAMES[row["contender"]])]


def workspace(results):
    result = results["e2e-workspace"]
    some = next(row for row in result["rows"] if row.get("sweep") == "workspace")
    return ["### The fused lm_head with less workspace", where(result) + ".",
            list_table(result, "workspace", f"MiB, batch {some['batch']}, T = {some['length']:,}", lambda row: row["workspace_mib"])]


def convergence(results):
    result = results["convergence"]
    runs = [[f"{NAMES[run['contender']]}, seed {run['seed']}", f"{sum(run['losses'][-20:]) / len(run['losses'][-20:]):.4f}", f"{run['held_out']:.4f}"]
            for run in result["runs"] if "held_out" in run]
    names = {"two seeds of hf": "transformers with two seeds"} | NAMES
    apart = [[names[name], *(f"{each[key]:.4f}" for key in ("last_20_steps", "held_out"))] for name, each in result.get("apart", {}).items()]
    return ["### Convergence", f"{where(result)}. A small Llama on text, {result['steps']} steps, "
            + ("bf16 by autocast." if result.get("precision", "autocast") == "autocast" else "bf16 weights, f32 ones in AdamW, every layer recomputed."), f"![losses]({PLOTS}/convergence.svg)",
            table(["run", "loss of the last 20 steps", "held out"], runs), "Difference from transformers with seed 0:",
            table(["", "last 20 steps", "held out"], apart)]


def fsdp(results):
    parts = ["### FSDP2"]
    for kind in ("fsdp", "fsdp-compiled"):
        if kind not in results:
            continue
        result = results[kind]
        measured = result.get("apart", {})  # difference between one GPU and all of them
        rows = []
        for row in result["rows"]:
            alone = next((each for each in result["rows"] if each["contender"] == row["contender"] and each["gpus"] == 1 and "losses" in each), None)
            apart = max(abs(a - b) / abs(a) for a, b in zip(alone["losses"], row["losses"])) if alone and "losses" in row else None
            gradients = "" if row is alone or row["contender"] not in measured else f"{measured[row['contender']]['first_gradients']:.1e}"
            rows.append([NAMES[row["contender"]], row["gpus"], *([f"{row['tokens_per_s']:,.0f}", row["peak_gb"], f"{row['losses'][-1]:.4f}",
                         "" if row is alone or apart is None else f"{apart:.1e}"] if "losses" in row else ["failed", "", "", ""]), *([gradients] if measured else [])])
        parts += [f"{where(result)}. Batch {result['batch']} over all GPUs, T = {result['length']:,}, sharded f32 weights, bf16 matmuls, AdamW"
                  + (", every layer compiled by torch.compile." if result["compiled"] else "."),
                  table(["", "GPUs", "tokens/s of all", "largest peak, GB", "last loss", "difference of losses from one GPU",
                        *(["difference of first gradients"] if measured else [])], rows)]
    return parts


def train_llama(results):
    result = results["train-llama"]
    words = {"adamw": "with AdamW", "forward_backward": "forward and backward"}
    measured = [row for row in result["rows"] if "tokens_per_s" in row]
    rows = [[row["batch"], f"{row['tokens']:,}", words[row["step"]], f"{row['tokens_per_s']:,.0f}", f"{row['tensor_bytes'] / 1e9:.2f}",
             f"{row['device_bytes_used'] / 1e9:.2f}"] for row in measured]
    attention = " and ".join(sorted({{"fused": "fused attention", "products": "attention by plain matmuls"}[row.get("attention", "products")] for row in measured}))
    return ["### The same shape in C++", f"{where(result)}. `train_llama --preset llama-3.2-1b` with f32 master weights and gradients, "
            f"cuBLAS, {attention}, no limit of memory.",
            table(["batch", "T", "step", "tokens/s", "GB of tensors", "GB in use on the GPU"], rows)]


SECTIONS = {"e2e": e2e, "e2e-again": again, "e2e-adamw": adamw, "e2e-backend": backend, "e2e-workspace": workspace, "convergence": convergence, "fsdp": fsdp,
            "train-llama": train_llama}


def newest(folder):
    found = {}
    for path in sorted(folder.glob("*.json"), key=lambda each: each.stem):  # DATE-2 comes after DATE
        name = re.fullmatch(r"(.+?)-(\d{4}-\d\d-\d\d.*)", path.stem)
        if name and name.group(1) in {*SECTIONS, "fsdp-compiled"}:
            found[name.group(1)] = json.loads(path.read_text())
    return found


def page(results):
    parts = [part for kind, section in SECTIONS.items() if kind in results for part in section(results)]
    return "\n\n".join(["## Measured", *map(wrapped, parts)] if parts else [])


def wrapped(part):
    """Wraps text at WIDTH; leaves tables, headings and images unchanged."""
    return part if part.startswith(("|", "#", "!")) else textwrap.fill(part, WIDTH, break_long_words=False, break_on_hyphens=False)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=pathlib.Path, default=ROOT / "bench/results")
    parser.add_argument("--page", type=pathlib.Path, default=ROOT / "docs/design/training.md")
    options = parser.parse_args()
    text = options.page.read_text()
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    options.page.write_text(f"{before}{BEGIN}\n{page(newest(options.results))}\n{END}{after}")


if __name__ == "__main__":
    main()
