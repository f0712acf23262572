"""The tables of the performance pages, from the cases of shown.py. Needs no torch."""

import math
from collections import defaultdict

import sets
from shown import (FULL, MAIN_FORMS, NO_PEER, OURS, best_peer, counts, family, ratios, span,
                   sustained, time_of)

NAMES = {"ligerdsl": "libligerdsl",
         "liger": "Liger",
         "liger_inplace": "Liger in place",
         "liger_cute": "Liger CuTe",
         "liger_cute_new": "Liger CuTe, not in place",
         "liger_cute_registry": "Liger CuTe, dispatched",
         "liger_cute_scaled": "Liger CuTe, no logits",
         "liger32": "Liger, f32 accumulators",
         "quack": "QuACK",
         "quack_logits": "QuACK, stored logits",
         "quack_tuned": "QuACK tuned",
         "quack_8192": "QuACK, chunks of 8,192",
         "quack_logits_8192": "QuACK, stored logits, chunks of 8,192",
         "liger_chunks": "Liger, chunks of 4,096 or more",
         "compile": "torch.compile",
         "compile_max": "torch.compile max",
         "torch": "PyTorch",
         "flash4": "FlashAttention-4",
         "torch_cudnn": "PyTorch, cuDNN",
         "torch_flash": "PyTorch, FlashAttention-2",
         "floor": "bare matmuls",
         "copy": "copy",
         "ligerdsl_new": "libligerdsl, not in place",
         "ligerdsl_apart": "libligerdsl, separate gradient",
         "ligerdsl_kernels": "libligerdsl, own matmuls",
         "ligerdsl_f32": "libligerdsl, f32 dW",
         "ligerdsl_300mb": "libligerdsl, f32 dW, 300 MB",
         "ligerdsl_300mb_dw16": "libligerdsl, 300 MB",
         "ligerdsl_64mb": "libligerdsl, f32 dW, 64 MB",
         "ligerdsl_64mb_dw16": "libligerdsl, 64 MB"}
FLCE = "fused_linear_cross_entropy"
# Options of fused linear cross-entropy, from the fastest to the smallest workspace, for each dtype
# of d_weight.
KNOBS = {"ligerdsl": "default, `max_workspace_bytes` unset",
         "ligerdsl_300mb_dw16": "`max_workspace_bytes` = 300 MB",
         "ligerdsl_64mb_dw16": "`max_workspace_bytes` = 64 MB",
         "ligerdsl_f32": "f32 d_weight",
         "ligerdsl_64mb": "f32 d_weight, 64 MB"}
ERRORS = {"flce_deviation_1": "deviation 1", "flce_deviation_4": "4", "flce_deviation_12": "12",
          "flce_trained": "trained rows"}
STANDING = ["kernel", "shape", "ours, us", "best peer, us", "which", "peer / ours", "forward alone",
            "backward alone", "of a copy", "peak MB: ours, peer"]


def name_of(provider):
    return NAMES.get(provider, provider)


def key_of(wanted):
    return wanted.kernel, wanted.shape, wanted.dtype


def shape_text(key):
    return "x".join(map(str, key[1])) + ("" if key[2] == "bf16" else " " + key[2])


def table(head, rows):
    return ["", "| " + " | ".join(head) + " |", "|" + "---|" * len(head),
            *("| " + " | ".join(row) + " |" for row in rows)] if rows else []


def micros(value):
    """Returns a time in us, or in ms if it is long."""
    return (f"{value / 1e3:.2f} ms" if value >= 1e4 else f"{value:.0f}" if value >= 1e3
            else f"{value:.1f}")


def readings(kernel):
    """Returns functions that read a case's times: bursts and sustained for fused linear
    cross-entropy, else one function."""
    return [("", time_of)] if kernel != FLCE else [(", bursts", time_of),
                                                   (", sustained", sustained)]


def standing(cases, keys):
    """Returns a line per case, sorted by our lead, smallest first. A case without backward shows
    its forward."""
    rows = []
    for key in keys:
        whole = FULL if (FULL, OURS) in cases.get(key, ()) else "fwd"
        for words, read in readings(key[0]) if key in cases else []:
            found = best_peer(cases[key], whole, read)
            if not found:
                continue
            ours, peer, faster = found
            memory = [
                f"{row['peak_mb']:.0f}" if row.get("peak_mb") else "0" for row in (ours, peer)]
            copy = "" if key[0] == FLCE else f"{ours['frac_same_copy']:.2f}"
            rows.append((faster,
                         [key[0].replace("_", " ") + words, shape_text(key), micros(read(ours)),
                          micros(read(peer)), name_of(peer["provider"]), f"{faster:.2f}",
                          *(span(ratios(cases[key], name), "{:.2f}") for name in ("fwd", "bwd")),
                          copy, ", ".join(memory)]))
    return table(STANDING, [row for _, row in sorted(rows, key=lambda each: each[0])])


def summary(cases, groups):
    """Returns a line per group of cases: the range of ratios to the best peer. groups: {name:
    keys}."""
    rows = []
    for what, keys in groups.items():
        found = [cases[key] for key in keys if key in cases and best_peer(cases[key], FULL)]
        spans = [span([each for case in found for each in ratios(case, name)], "{:.2f}")
                 for name in (FULL, "fwd", "bwd")]
        if found:
            rows.append([what, str(len(found)), *spans])
    return table(["kernels", "cases", "peer / ours, forward + backward", "forward alone",
                  "backward alone"], rows)


def mean_of(cases):
    """Returns the geometric mean of the large cases' ratios, or None if one is missing."""
    of_cases = [ratios(cases.get(key, {}), FULL) for key in map(key_of, sets.geometric_mean())]
    return (math.exp(sum(math.log(each[0]) for each in of_cases) / len(of_cases)) if all(of_cases)
            else None)


def best_forms(rows):
    """Returns the page's contenders of fused linear cross-entropy: all of ours, the bare matmuls,
    each peer's best form."""
    of_families = defaultdict(list)
    for name, provider in rows:
        if name == FULL and (
                family(provider) == OURS or provider in NO_PEER or counts(rows[FULL, provider])):
            of_families[provider if family(provider) == OURS or provider in NO_PEER
                        else family(provider)].append(provider)
    fastest = lambda provider: time_of(rows[FULL, provider])  # noqa: E731
    return sorted((min(forms, key=fastest) for forms in of_families.values()), key=fastest)


def linear_row(rows, provider):
    """Returns a contender's [bursts, sustained, peak MB, workspace MB, error]. Times are in ms,
    each with its ratio to the bare matmuls."""
    row, floor = rows[FULL, provider], rows.get((FULL, "floor"))
    times = [f"{read(row) / 1e3:.1f}" + (f" ({read(row) / read(floor):.2f})" if floor else "")
             for read in (time_of, sustained)]
    return [*times, f"{row.get('peak_mb', 0):.0f}",
            f"{row['workspace_mb']:.0f}" if row.get("workspace_mb") else "",
            f"{row['max_error']:.1e}"]


def linear_table(cases, kernel=FLCE):
    """Returns the table of a head's contenders, with ratios to the bare matmuls in the same run."""
    rows = [[shape_text(key), name_of(provider), *linear_row(rows, provider)]
            for key, rows in sorted(cases.items()) if key[0] == kernel
            for provider in best_forms(rows)]
    return table(["rows x H x V", "contender", "bursts, ms (of bare matmuls)", "sustained, ms",
                  "peak MB", "workspace MB", "error"], rows)


def knob_table(cases, shape):
    """Returns a table of memory and time for the fused head's options at one shape."""
    rows = cases.get((FLCE, shape, "bf16"), {})
    found = [[KNOBS[provider], *linear_row(rows, provider)[:4]] for provider in KNOBS
             if (FULL, provider) in rows]
    best = best_peer(rows, FULL) if found else None
    return table(["fused linear cross-entropy, " + shape_text((FLCE, shape, "bf16")),
                  "bursts, ms (of bare matmuls)", "sustained, ms", "peak MB", "workspace MB"],
                 found + ([[f"best peer: {name_of(best[1]['provider'])}",
                            *linear_row(rows, best[1]["provider"])[:4]]] if best else []))


def error_table(cases):
    """Returns a table of errors in the loss and both gradients, for flat and peaked rows."""
    found = defaultdict(dict)
    for (kernel, _, _), rows in cases.items():
        for (_, provider), row in rows.items():
            if kernel in ERRORS and "errors" in row and provider in (OURS, *MAIN_FORMS):
                found[provider][kernel] = [row["errors"][name] for name in ("loss", "dx", "dw")]
    cell = lambda errors: (  # noqa: E731
        ", ".join(f"{error:.1e}" for error in errors) if errors else "")
    return table(["error of loss, dx, dw", *ERRORS.values()],
                 [[name_of(provider), *(cell(of.get(kernel)) for kernel in ERRORS)]
                  for provider, of in found.items()])


def chain_table(cases):
    rows = [[shape_text(key), name_of(provider), f"{row['us']:.1f}",
             f"{row['us_graph']:.1f}" if "us_graph" in row else "",
             f"{row['host_us']:.1f}"] for key, rows in cases.items()
            for (name, provider), row in rows.items() if name == "chain"]
    return table(["RMSNorm", "contender", "on a stream, us", "in a CUDA graph, us", "host, us"],
                 rows)


# Each function in READ formats the numbers of a goal: (cases, selection, the goal's limit) -> text.
def chosen(cases, text):
    """Returns the cases that "KERNEL [SHAPE] [DTYPE]" selects, {key: rows}."""
    kernel, *more = text.split()
    shape = next((word for word in more if word[0].isdigit()), None)
    dtype = next((word for word in more if not word[0].isdigit()), "bf16")
    found = {key: rows for key, rows in cases.items() if key[0] == kernel and key[2] == dtype and (
        shape is None or "x".join(map(str, key[1])) == shape)}
    if not found:
        raise KeyError(f"bench/goals.csv: expected KERNEL [SHAPE] [DTYPE] of a case in "
                       f"bench/baselines, got '{text}', which no row matches")
    return found


def of_copies(cases, text, goal):
    """Returns fractions of an equal copy's speed for forward, backward, both; bold below the
    goal."""
    parts = []
    for key, rows in chosen(cases, text).items():
        each = [rows[name, OURS]["frac_same_copy"] for name in ("fwd", "bwd", FULL)
                if (name, OURS) in rows and "frac_same_copy" in rows[name, OURS]]
        parts.append(f"{shape_text(key)} " + ", ".join(
            f"**{value:.3f}**" if goal and value < goal else f"{value:.3f}" for value in each))
    return "; ".join(parts)


def times_of_peer(cases, text, goal):
    """Returns our time and the best peer's for "KERNEL PASS SHAPE [DTYPE]"; bold above the goal."""
    kernel, name, *more = text.split()
    (rows,) = chosen(cases, " ".join([kernel, *more])).values()
    found = best_peer(rows, name)
    ours = time_of(rows[name, OURS])
    mine = (f"**{ours:,.0f}**" if goal and ours > goal else f"{ours:,.0f}" if ours >= 100
            else f"{ours:.1f}")
    return mine + (
        f"; {name_of(found[1]['provider'])} {time_of(found[1]):,.0f}" if found and ours >= 100
        else f"; {name_of(found[1]['provider'])} {time_of(found[1]):.1f}" if found else "")


def of_floors(cases, text, goal):
    """Returns ratios to the bare matmuls for "PROVIDER SHAPE", bursts / sustained; bold above the
    goal."""
    provider, shape = text.split()
    (rows,) = chosen(cases, f"{FLCE} {shape}").values()
    row, floor = rows[FULL, provider], rows[FULL, "floor"]
    each = [read(row) / read(floor) for read in (time_of, sustained)]
    return shape.rsplit("x", 1)[0] + " " + " / ".join(
        f"**{value:.3f}**" if goal and value > goal else f"{value:.3f}" for value in each)


def of_peer(cases, text, goal):
    """Returns the best peer's time / ours for a matmul "KERNEL SHAPE"; bold below the goal."""
    (rows,) = chosen(cases, text).values()
    value = best_peer(rows, "fwd")[2]
    return text.split()[1] + " " + (f"**{value:.3f}**" if goal and value < goal else f"{value:.3f}")


READ = {"ratio": of_peer, "copy": of_copies, "us": times_of_peer, "products": of_floors}


def goal_tables(cases, goals):
    """Returns the sections of goals.md from the rows of bench/goals.csv."""
    out = []
    for area in dict.fromkeys(row["area"] for row in goals):
        rows = []
        for row in (each for each in goals if each["area"] == area):
            texts = row["select"].split(";") if row["show"] else []
            # one limit for all selections, or one for each
            limits = [float(limit) for limit in row["at"].split()] or [None]
            kernels = {text.split()[0] for text in texts}
            read = [(text.split()[0].replace("_", " ") + " ") * (len(kernels) > 1)
                    + READ[row["show"]](cases, text, limits[i % len(limits)])
                    for i, text in enumerate(texts)]
            rows.append([row["what"], row["goal"], "; ".join(filter(None, [*read, row["reached"]])),
                         row["limit"]])
        out += ["", "## " + area,
                *table(["call", "goal", "reached", "what limits it, what was tried"], rows)]
    return out
