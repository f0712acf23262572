"""The tables of docs/performance.md, from the cases of shown.py. Needs no torch."""

import math
from collections import defaultdict

import sets
from shown import FULL, MAIN_FORMS, NO_PEER, OURS, beside_best, family, lacks_a_peer, ratios, span, time_of, values

NAMES = {"ligerdsl": "libligerdsl", "liger": "Liger", "liger_inplace": "Liger in place", "liger_cute": "Liger CuTe",
         "liger_cute_new": "Liger CuTe, not in place", "liger_cute_registry": "Liger CuTe, dispatched",
         "liger_cute_scaled": "Liger CuTe, no logits", "liger32": "Liger, f32 sums",
         "quack": "QuACK", "quack_logits": "QuACK, stored logits", "quack_tuned": "QuACK tuned", "quack_8192": "QuACK, chunks of 8,192",
         "quack_logits_8192": "QuACK, stored logits, chunks of 8,192", "liger_chunks": "Liger, chunks of 4,096 or more", "compile": "torch.compile",
         "compile_max": "torch.compile max", "torch": "PyTorch", "flash4": "FlashAttention-4", "torch_cudnn": "PyTorch, cuDNN",
         "torch_flash": "PyTorch, FlashAttention-2", "floor": "bare products", "copy": "copy",
         "ligerdsl_new": "libligerdsl, not in place", "ligerdsl_apart": "libligerdsl, gradient apart",
         "ligerdsl_kernels": "libligerdsl, own products", "ligerdsl_f32": "libligerdsl, f32 dW", "ligerdsl_300mb": "libligerdsl, f32 dW, 300 MB",
         "ligerdsl_300mb_dw16": "libligerdsl, 300 MB", "ligerdsl_64mb": "libligerdsl, f32 dW, 64 MB", "ligerdsl_64mb_dw16": "libligerdsl, 64 MB"}
FAMILIES = {"flash": "FlashAttention-4", "liger": "Liger", "quack": "QuACK", "compile": "torch.compile", "torch": "PyTorch"}
FLCE = "fused_linear_cross_entropy"
ERRORS = {"flce_deviation_1": "deviation 1", "flce_deviation_4": "4", "flce_deviation_12": "12", "flce_trained": "trained rows"}


def name_of(provider):
    return NAMES.get(provider, provider)


def key_of(wanted):
    return wanted.kernel, wanted.shape, wanted.dtype


def shape_text(key):
    return "x".join(map(str, key[1])) + ("" if key[2] == "bf16" else " " + key[2])


def table(head, rows):
    return ["", "| " + " | ".join(head) + " |", "|" + "---|" * len(head), *("| " + " | ".join(row) + " |" for row in rows)] if rows else []


def micros(numbers):
    """Formats a range of times in us, or in ms if they are long."""
    most = max(numbers)
    return span([value / 1e3 for value in numbers], "{:.2f}") + " ms" if most >= 1e4 else span(numbers, "{:.0f}" if most >= 1e3 else "{:.1f}")


def readings(kernel):
    """Returns the times to read: fused linear cross-entropy has one in bursts and one sustained."""
    return [("", time_of)] if kernel != FLCE else [(", bursts", time_of), (", sustained", lambda row: row["us_sustained"])]


def standing(cases, keys):
    """Returns a line per case: forward + backward against the best peer, each alone, and relative
    to a copy."""
    rows = []
    for key in keys:
        runs = complete(cases, key)
        for words, read in readings(key[0]) if runs else []:
            pairs = beside_best(runs, FULL, read)
            if not pairs:
                continue
            names = " / ".join(dict.fromkeys(name_of(peer["provider"]) for _, peer in pairs))
            copies = "" if key[0] == FLCE else span(values(runs, FULL, OURS, lambda row: row["frac_same_copy"]), "{:.2f}")
            rows.append([key[0].replace("_", " ") + words, shape_text(key), micros(values(runs, FULL, OURS, read)),
                         micros([read(peer) for _, peer in pairs]), names, span(ratios(runs, FULL, read), "{:.2f}"),
                         *(span(ratios(runs, name), "{:.2f}") for name in ("fwd", "bwd")), copies])
    return table(["kernel", "shape", "ours, us", "best peer, us", "which", "peer / ours", "forward alone", "backward alone", "of a copy"], rows)


def complete(cases, key):
    """Returns the runs of a case, or [] if a peer ran out of time."""
    runs = [entry for entry in cases.get(key, []) if (FULL, OURS) in entry[0]]
    return [] if runs and lacks_a_peer(key, runs) else runs


def summary(cases, groups):
    """Returns a line per group of cases: the range of ratios to the best peer. groups: {title:
    keys}."""
    rows = []
    for what, keys in groups.items():
        found = [runs for key in keys if (runs := complete(cases, key))]
        spans = [span([ratio for runs in found for ratio in ratios(runs, name)], "{:.2f}") for name in (FULL, "fwd", "bwd")]
        if spans[0]:
            rows.append([what, str(len(found)), *spans])
    return table(["kernels", "cases", "peer / ours, forward + backward", "forward alone", "backward alone"], rows)


def mean_line(cases):
    """Returns the geometric means of the large cases' smallest and largest ratios."""
    of_cases = [ratios(cases.get(key, []), FULL) for key in map(key_of, sets.geometric_mean())]
    if not all(of_cases):
        return []
    means = [math.exp(sum(math.log(end(of_case)) for of_case in of_cases) / len(of_cases)) for end in (min, max)]
    return ["", f"Geometric mean of the ratio over the {len(of_cases)} large cases: {span(means, '{:.2f}')}."]


def best_forms(runs):
    """Returns the contenders of fused linear cross-entropy on the page: ours, the floor, each
    peer's best form."""
    of_families = defaultdict(list)
    for provider in dict.fromkeys(provider for run, _, _ in runs for _, provider in run if provider != "copy"):
        own = family(provider) == OURS or provider in NO_PEER
        of_families[provider if own else family(provider)].append(provider)
    in_ours = lambda run, provider: time_of(run[FULL, provider]) / time_of(run[FULL, OURS])  # runs differ in the card's speed
    fastest = lambda provider: min((in_ours(run, provider) for run, _, _ in runs if {(FULL, provider), (FULL, OURS)} <= run.keys()), default=math.inf)
    return sorted((min(forms, key=fastest) for forms in of_families.values()), key=fastest)


def linear_table(cases, kernel=FLCE):
    """Returns the table of kernels with matmuls: contenders against the bare matmuls of their
    run."""
    rows = []
    for key, runs in sorted(cases.items()):
        for provider in best_forms(runs) if key[0] == kernel else []:
            both = [(run[FULL, provider], run.get((FULL, "floor"))) for run, _, _ in runs if (FULL, provider) in run]
            cells = [shape_text(key), name_of(provider)]
            for read in (time_of, lambda row: row["us_sustained"]):
                times = span([read(row) / 1e3 for row, _ in both], "{:.1f}")
                multiple = [read(row) / read(floor) for row, floor in both if floor]
                cells.append(times + (f" ({span(multiple, '{:.2f}')})" if multiple else ""))
            row = both[0][0]
            rows.append([*cells, f"{row['peak_mb'] or 0:.0f}", f"{row['workspace_mb']:.0f}" if row["workspace_mb"] else "",
                         f"{max(r['max_error'] for r, _ in both):.1e}"])
    return table(["rows x H x V", "contender", "bursts, ms (of bare products)", "sustained, ms", "peak MB", "workspace MB", "error"], rows)


def error_table(cases):
    """Returns the errors of the loss and of both gradients on flat and peaked rows."""
    found = defaultdict(dict)
    for (kernel, _, _), runs in cases.items():
        if kernel in ERRORS:
            for run, _, _ in runs:
                for (_, provider), row in run.items():
                    if "errors" in row and provider in (OURS, *MAIN_FORMS):
                        worst = [max(row["errors"][name], was) for name, was in zip(("loss", "dx", "dw"), found[provider].get(kernel, (0, 0, 0)))]
                        found[provider][kernel] = worst
    cell = lambda errors: ", ".join(f"{error:.1e}" for error in errors) if errors else ""
    return table(["error of loss, dx, dw", *ERRORS.values()],
                 [[name_of(provider), *(cell(of.get(kernel)) for kernel in ERRORS)] for provider, of in found.items()])


def chain_table(cases):
    rows = []
    for key, runs in cases.items():
        for provider in dict.fromkeys(p for run, _, _ in runs for name, p in run if name == "chain" and p != "copy"):
            of = values(runs, "chain", provider, lambda row: row)
            graphs = [row["us_graph"] for row in of if "us_graph" in row]
            rows.append([shape_text(key), name_of(provider), span([row["us"] for row in of]),
                         span(graphs) or of[0].get("graph_error", ""), span([row["host_us"] for row in of])])
    return table(["RMSNorm", "contender", "on a stream, us", "in a CUDA graph, us", "host, us"], rows)
