"""Writes the tables of docs/design/training.md, between the page's two marks, from the tables of
bench/baselines (training.csv, training-runs.csv).

    python bench/e2e_tables.py [RESULT.json ...]

A RESULT replaces the rows of its kind. Its file name before the date is the kind: e2e, e2e-again
(fewer points, another version of a peer), e2e-adamw, e2e-workspace, e2e-backend, convergence, fsdp,
fsdp-compiled, train-llama."""

import argparse
import json
import pathlib
import re
import textwrap

from baselines import FOLDER, Tables
from e2e_plot import NAMES

ROOT = pathlib.Path(__file__).resolve().parent.parent
BEGIN, END = "<!-- bench/e2e_tables.py writes from here -->", "<!-- to here -->"
PEERS = ("hf", "liger", "ligerdsl")
PLOTS = "../training"  # relative to the page's folder
WIDTH = 100  # characters per line of text


FACTS = ("kind", "date", "commit", "device", "torch", "transformers", "liger", "cap_gb", "steps",
         "precision", "batch", "length", "compiled", "attention")
COLUMNS = ("kind", "sweep", "contender", "batch", "length", "step", "workspace_mib", "gpus", "seed",
           "tokens_per_s", "peak_gb", "first_loss", "last_loss", "loss_apart", "gradients_apart",
           "last_20", "held_out", "tensor_gb", "device_gb", "state")
TEXT = ("kind", "sweep", "contender", "step", "state")


def compact(kind, result):
    """Returns {"facts": {..}, "rows": [..]} of a result, as the tables store it."""
    facts = {name: result[name] for name in FACTS if name in result} | {"kind": kind}
    commit = re.search(r"commit ([0-9a-f]{7,40})", result.get("library", ""))
    facts |= {"commit": commit.group(1)[:10]} if commit else {}
    attention = sorted({row.get("attention", "products") for row in result.get("rows", ())
                        if "tensor_bytes" in row})
    facts |= {"attention": " ".join(attention)} if attention else {}
    rows, differences = [], result.get("apart", {})
    for row in [*result.get("rows", ()), *result.get("runs", ())]:
        made = {name: row[name] for name in COLUMNS if name in row} | {"kind": kind}
        losses = row.get("losses")
        if "tokens" in row:
            made |= {"length": row["tokens"], "tensor_gb": row["tensor_bytes"] / 1e9,
                     "device_gb": row["device_bytes_used"] / 1e9}
        if losses and "gpus" in row:
            alone = next((each["losses"] for each in result["rows"]
                          if each["contender"] == row["contender"] and each["gpus"] == 1
                             and "losses" in each), None)
            made["last_loss"] = losses[-1]
            if alone and alone is not losses:
                made["loss_apart"] = max(abs(a - b) / abs(a) for a, b in zip(alone, losses))
                made |= ({"gradients_apart": differences[row["contender"]]["first_gradients"]}
                         if row["contender"] in differences else {})
        if losses and "held_out" in row:
            made["last_20"] = sum(losses[-20:]) / len(losses[-20:])
        made |= {"state": state} if (state := state_of(row)) else {}
        rows.append(made)
    rows += [{"kind": kind, "sweep": "apart", "contender": name, "last_20": each["last_20_steps"],
              "held_out": each["held_out"]}
             for name, each in differences.items() if "held_out" in each]
    return {"facts": facts, "rows": rows}


def state_of(row):
    """Returns the reason why a row has no time, or else whether it has a timeline."""
    if row.get("out_of_memory"):
        return "out of memory"
    if "skipped" in row:
        return "not tried" if "memory" in str(row["skipped"]) else "no time"
    return "failed" if "failed" in row else "timeline" if row.get("timeline") else ""


def read(folder):
    """Returns {kind: {"facts": .., "rows": ..}} of the tables."""
    tables = Tables(folder)
    filled = lambda row: {name: value for name, value in row.items() if value != ""}  # noqa: E731
    found = {
        row["kind"]: {"facts": filled(row), "rows": []} for row in tables.read("training-runs.csv")}
    for row in map(filled, tables.read("training.csv")):
        found[row["kind"]]["rows"].append({
            name: value if name in TEXT else int(value) if value.isdigit() else float(value)
            for name, value in row.items()})
    return found


def write(folder, results):
    tables = Tables(folder)
    tables.write("training-runs.csv", FACTS, [result["facts"] for result in results.values()])
    exact = lambda value: f"{value:.10g}" if isinstance(value, float) else value  # noqa: E731
    tables.write("training.csv", COLUMNS,
                 [{name: exact(value) for name, value in row.items()} for result in results.values()
                  for row in result["rows"]])


def table(head, rows):
    return "\n".join(["| " + " | ".join(head) + " |", "|---" * len(head) + "|",
                      *("| " + " | ".join(map(str, row)) + " |" for row in rows)])


def where(result):
    """Returns device, date and settings of a result."""
    facts = result["facts"]
    parts = [facts.get("device"), facts.get("date"),
             "commit" in facts and f"commit {facts['commit']}",
             *(f"{name} {facts[key]}"
               for name, key in (("torch", "torch"), ("transformers", "transformers"),
                                 ("Liger-Kernel", "liger")) if key in facts)]
    return ", ".join(part for part in parts if part)


def cell(row):
    if row is None:
        return "not run"
    if "tokens_per_s" not in row:
        return row.get("state", "failed")
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
    return table(head,
                 [[f"{place:,}", *(cell(rows.get(name)) for name in names),
                   ratio(rows.get("ligerdsl"), rows.get("hf")),
                   ratio(rows.get("ligerdsl"), rows.get("liger"))]
                  for place, rows in places.items()])


def pairs(result, value, peer):
    """Returns (place, ours / theirs) wherever both were measured."""
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
    answer = lambda row: ("yes" if "tokens_per_s" in row  # noqa: E731
                          else "no" if row.get("state") == "out of memory" else "not tried")
    return ", ".join(f"{NAMES[name]} {answer(row)}" for name, row in rows.items() if name in PEERS)


def goals(result):
    at_least = lambda least: lambda value: value >= least  # noqa: E731
    rows = [
        goal("1.15 times transformers' throughput wherever that fits",
             pairs(result, "tokens_per_s", "hf"), at_least(1.15)),
        goal("1.05 times Liger-Kernel's", pairs(result, "tokens_per_s", "liger"), at_least(1.05)),
        goal("1.8 times Liger-Kernel's at batch 4",
             [pair for pair in pairs(result, "tokens_per_s", "liger") if pair[0] == "batch 4"],
             at_least(1.8)),
        goal("no more memory than Liger-Kernel", pairs(result, "peak_gb", "liger"),
             lambda value: value <= 1)]
    for sweep, place, words in (("batch", 144, "batch 144 fits"),
                                ("length", 36864, "T = 36,864 fits")):
        if place in by_place(result, sweep, sweep):
            rows.append([words, fits(result, sweep, place), ""])
    return table(["goal", "points that reach it", "points that miss it"], rows)


def list_table(result, sweep, words, key):
    rows = [row for row in result["rows"] if row.get("sweep") == sweep]
    return table([words, "tokens/s", "peak GB", "first loss"],
                 [[key(row), f"{row['tokens_per_s']:,.0f}", row.get("peak_gb"),
                   f"{row['first_loss']:.4f}"] for row in rows if "tokens_per_s" in row])


def of_allocator(result):
    limit = f", limited to {result['facts']['cap_gb']} GB" if "cap_gb" in result["facts"] else ""
    return (f"{where(result)}. Cells show tokens per second and the step's peak of torch's "
            f"allocator{limit}.")


def again(results):
    result = results["e2e-again"]
    return [f"### Second run, with Liger-Kernel {result['facts'].get('liger')}",
            of_allocator(result),
            *(sweep_table(result, sweep, sweep, words)
              for sweep, words in (("batch", "batch, T = 1,024"), ("length", "T, batch 4"))),
            "Goals:", goals(result)]


def e2e(results):
    result, parts = results["e2e"], []
    parts += ["### Forward and backward", of_allocator(result)]
    for sweep, axis, words in (("batch", "batch", "batch, T = 1,024"),
                               ("length", "length", "T, batch 4")):
        if len(by_place(result, sweep, axis)) > 1:
            parts += [f"![{words}]({PLOTS}/{sweep}-throughput.svg) "
                      f"![{words}]({PLOTS}/{sweep}-memory.svg)",
                      sweep_table(result, sweep, axis, words)]
    parts += ["Goals:", goals(result)]
    if any(row.get("sweep") == "ablation" for row in result["rows"]):
        parts += ["### Ablation",
                  f"![ablation]({PLOTS}/ablation-throughput.svg) "
                  f"![ablation]({PLOTS}/ablation-memory.svg)",
                  list_table(result, "ablation", "batch 4, T = 1,024",
                             lambda row: NAMES[row["contender"]])]
    if any(row.get("state") == "timeline" for row in result["rows"]):
        parts += ["### Memory within one step", f"![timeline]({PLOTS}/timeline.svg)"]
    return parts


def adamw(results):
    result = results["e2e-adamw"]
    return [
        "### With AdamW",
        f"{where(result)}. Every contender uses torch's fused AdamW with bf16 weights and moments."
        + (f" torch's allocator is limited to {result['facts']['cap_gb']} GB."
           if "cap_gb" in result["facts"] else ""),
        *(sweep_table(result, sweep, axis, words) for sweep, axis, words in (
            ("batch", "batch", "batch, T = 1,024"),
            ("length", "length", "T, batch 4")) if by_place(result, sweep, axis))]


def backend(results):
    result = results["e2e-backend"]
    return [
        "### Liger-Kernel's patches on its kernels and on ours", where(result) + ".",
        list_table(result, "backend", "batch 4, T = 1,024", lambda row: NAMES[row["contender"]])]


def workspace(results):
    result = results["e2e-workspace"]
    some = next(row for row in result["rows"] if row.get("sweep") == "workspace")
    return ["### The fused lm_head with less workspace", where(result) + ".",
            list_table(result, "workspace", f"MiB, batch {some['batch']}, T = {some['length']:,}",
                       lambda row: row["workspace_mib"])]


def convergence(results):
    result = results["convergence"]
    facts, losses = (result["facts"],
                     lambda row: [f"{row[key]:.4f}" for key in ("last_20", "held_out")])
    runs = [[f"{NAMES[row['contender']]}, seed {row['seed']}", *losses(row)]
            for row in result["rows"] if "seed" in row and "held_out" in row]
    names = {"two seeds of hf": "transformers with two seeds"} | NAMES
    differences = [[names[row["contender"]], *losses(row)] for row in result["rows"]
                   if row.get("sweep") == "apart"]
    return ["### Convergence",
            f"{where(result)}. A small Llama on text, {facts['steps']} steps, "
            + ("bf16 by autocast." if facts.get("precision", "autocast") == "autocast"
               else "bf16 weights, f32 ones in AdamW, every layer recomputed."),
            f"![losses]({PLOTS}/convergence.svg)",
            table(["run", "loss of the last 20 steps", "held out"], runs),
            "Difference from transformers with seed 0:",
            table(["", "last 20 steps", "held out"], differences)]


def fsdp(results):
    parts = ["### FSDP2"]
    for kind in ("fsdp", "fsdp-compiled"):
        if kind not in results:
            continue
        result, rows = results[kind], []
        measured = any("gradients_apart" in row for row in result["rows"])
        short = lambda row, name: f"{row[name]:.1e}" if name in row else ""  # noqa: E731
        for row in result["rows"]:
            done = "last_loss" in row
            rows.append([NAMES[row["contender"]], row["gpus"],
                         *([f"{row['tokens_per_s']:,.0f}", row["peak_gb"],
                            f"{row['last_loss']:.4f}",
                            short(row, "loss_apart")] if done else ["failed", "", "", ""]),
                         *([short(row, "gradients_apart")] if measured else [])])
        facts = result["facts"]
        parts += [f"{where(result)}. Batch {facts['batch']} over all GPUs, T = "
                  f"{int(facts['length']):,}, sharded f32 weights, bf16 matmuls, AdamW"
                  + (", every layer compiled by torch.compile." if str(facts["compiled"]) == "True"
                     else "."),
                  table(["", "GPUs", "tokens/s of all", "largest peak, GB", "last loss",
                         "difference of losses from one GPU",
                         *(["difference of first gradients"] if measured else [])], rows)]
    return parts


def train_llama(results):
    result = results["train-llama"]
    words = {"adamw": "with AdamW", "forward_backward": "forward and backward"}
    rows = [[row["batch"], f"{row['length']:,}", words[row["step"]], f"{row['tokens_per_s']:,.0f}",
             f"{row['tensor_gb']:.2f}",
             f"{row['device_gb']:.2f}"] for row in result["rows"] if "tokens_per_s" in row]
    attention = " and ".join({"fused": "fused attention",
                              "products": "attention by plain matmuls"}[each]
                             for each in result["facts"]["attention"].split())
    return [
        "### The same shape in C++",
        f"{where(result)}. `train_llama --preset llama-3.2-1b` with f32 master weights and "
        f"gradients, cuBLAS, {attention}, no limit of memory.",
        table(["batch", "T", "step", "tokens/s", "GB of tensors", "GB in use on the GPU"], rows)]


SECTIONS = {"e2e": e2e, "e2e-again": again, "e2e-adamw": adamw, "e2e-backend": backend,
            "e2e-workspace": workspace, "convergence": convergence, "fsdp": fsdp,
            "train-llama": train_llama}


def kind_of(path):
    name = re.fullmatch(r"(.+?)-\d{4}-\d\d-\d\d.*", path.stem)
    if not name or name.group(1) not in {*SECTIONS, "fsdp-compiled"}:
        raise SystemExit(f"e2e_tables.py: {path}: expected a name KIND-YYYY-MM-DD.json with "
                         f"KIND one of {', '.join([*SECTIONS, 'fsdp-compiled'])}")
    return name.group(1)


def page(results):
    parts = [
        part for kind, section in SECTIONS.items() if kind in results for part in section(results)]
    return "\n\n".join(["## Measured", *map(wrapped, parts)] if parts else [])


def wrapped(part):
    """Returns text in lines of WIDTH; leaves tables, headings and images unchanged."""
    return part if part.startswith(("|", "#", "!")) else textwrap.fill(
        part, WIDTH, break_long_words=False, break_on_hyphens=False)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", nargs="*", type=pathlib.Path)
    parser.add_argument("--baselines", type=pathlib.Path, default=FOLDER)
    parser.add_argument("--page", type=pathlib.Path, default=ROOT / "docs/design/training.md")
    options = parser.parse_args()
    results = read(options.baselines)
    for path in options.results:
        results[kind_of(path)] = compact(kind_of(path), json.loads(path.read_text()))
    if options.results:
        write(options.baselines, results)
    text = options.page.read_text()
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    options.page.write_text(f"{before}{BEGIN}\n{page(results)}\n{END}{after}")


if __name__ == "__main__":
    main()
