"""Selection of results for the page: loading, order, ranges over runs, permitted ratios. Needs no
torch.

A result is shown if it names its commit; results of changed sources are refused. Runs are ordered
by date and number. A case comes from the runs of the last commit that measured it completely, on
one device. Ratios are formed within a run.
"""

import json
from collections import defaultdict

from results import build_fields, case_key

WRONG = 0.1  # a peer with a larger error has not done the work
FULL, OURS, NO_PEER = "full", "ligerdsl", ("copy", "floor")
MAIN_FORMS = ("liger", "liger_cute", "quack", "quack_logits", "compile")  # forms that every case should time if they exist


class Dirty(ValueError):
    """A result of sources that differ from their commit."""


def load(folder, pattern):
    """Returns [(result, file name)] of shown results, newest first, and the names of those without
    a commit."""
    shown, without = [], []
    for file in sorted(folder.glob(pattern)):
        result = json.loads(file.read_text())
        result.update(build_fields(result.get("build", "")))
        if result["dirty"]:
            raise Dirty(f"{file}: its sources were changed after commit {result['commit']}: commit them, build and measure again")
        if result["commit"]:
            shown.append((result, file.name))
        else:
            without.append(file.name)
    return sorted(shown, key=lambda entry: (entry[0].get("date", ""), entry[0].get("run", 0), entry[1]), reverse=True), without


def by_device(results):
    """Returns {device: its results}, with the device of the most rows at the newest commit
    first."""
    found = defaultdict(list)
    for entry in results:
        found[entry[0]["device"]].append(entry)
    newest = results[0][0]["commit"] if results else None
    rows = lambda entries: sum(len(result["rows"]) for result, _ in entries if result["commit"] == newest)
    return dict(sorted(found.items(), key=lambda item: -rows(item[1])))


def cases_of(results):
    """Returns {case: [({(pass, provider): row}, result, name) of each shown run, newest first]}.

    All runs are of one commit: the newest without a peer that ran out of time, else the newest.
    """
    found = defaultdict(lambda: defaultdict(list))
    for result, name in results:
        mine = defaultdict(dict)
        for row in result["rows"]:
            if row["kernel"] != "copy":
                mine[case_key(row)][row["pass"], row["provider"]] = row
        for key, rows in mine.items():
            found[key][result["commit"]].append((rows, result, name))
    return {key: next((runs for runs in commits.values() if not lacks_a_peer(key, runs)), next(iter(commits.values())))
            for key, commits in found.items()}


def lacks_a_peer(key, runs):
    """Returns true if a peer of this case ran out of time and no run timed it: the best peer is
    unknown."""
    timed = {provider for run, _, _ in runs for _, provider in run}
    start = f"{key[0]} {'x'.join(map(str, key[1]))} {key[2]} "
    left = [text[len(start):].split(":")[0] for _, result, _ in runs for text in result.get("not_measured", []) if text.startswith(start)]
    late = [f["provider"] for _, result, _ in runs for f in result.get("failures", [])  # the compiler wraps the alarm in its own error
            if (f["kernel"], tuple(f["shape"]), f["dtype"]) == (key[0], tuple(key[1]), key[2]) and "Late: " in f["error"]]
    return any(provider in MAIN_FORMS and provider not in timed for provider in left + late)


def used(cases):
    """Returns the results that the cases use, in the order of the page."""
    found = {name: result for runs in cases.values() for _, result, name in runs}
    return sorted(((result, name) for name, result in found.items()),
                  key=lambda entry: (entry[0]["date"], entry[0].get("run", 0), entry[1]), reverse=True)


def family(provider):
    """Returns the family of a contender: ligerdsl, liger, quack, compile or torch."""
    return provider.rstrip("0123456789").split("_")[0]


def time_of(row):
    """Returns a contender's best time: of its kernels alone if its host waits for the GPU between
    them."""
    return min(row["us"], row.get("us_kernels", row["us"]))


def peers(rows, pass_name):
    """Returns the peers' rows of a pass with acceptable errors."""
    return [row for (name, provider), row in rows.items() if name == pass_name and provider not in NO_PEER and family(provider) != OURS and
            row["max_error"] <= WRONG]


def beside_best(runs, pass_name, read=time_of):
    """Returns [(our row, the best peer's row)] of the runs that timed that peer.

    The best peer has the smallest ratio to our time in any run.
    """
    both = [(rows[pass_name, OURS], peers(rows, pass_name)) for rows, _, _ in runs if (pass_name, OURS) in rows]
    ratios = {read(peer) / read(ours): peer["provider"] for ours, theirs in both for peer in theirs}
    nearest = ratios[min(ratios)] if ratios else None
    return [(ours, min(theirs, key=read)) for ours, theirs in both if any(peer["provider"] == nearest for peer in theirs)]


def ratios(runs, pass_name, read=time_of):
    """Returns the best peer's time over ours, for each run that timed it."""
    return [read(peer) / read(ours) for ours, peer in beside_best(runs, pass_name, read)]


def values(runs, pass_name, provider, read):
    """Returns read(row) of each run that has this contender."""
    found = [read(rows[pass_name, provider]) for rows, _, _ in runs if (pass_name, provider) in rows]
    return [value for value in found if value is not None]


def span(numbers, form="{:.1f}"):
    """Formats '169.2', or '168.9-170.3' for several numbers."""
    texts = list(dict.fromkeys(form.format(value) for value in (min(numbers), max(numbers)))) if numbers else [""]
    return "-".join(texts)
