"""Which results the page shows, and what it may divide: loading, order, ranges over runs. Needs no torch.

A result is shown when it names its commit; one of changed sources is refused. Runs are ordered by date and number. A case comes
from the runs of the last commit that has it complete, on one device. Ratios are formed within a run.
"""

import json
from collections import defaultdict

from results import build_fields, case_key

WRONG = 0.1  # a peer whose result is off by more has not done the work
FULL, OURS, NO_PEER = "full", "ligerdsl", ("copy", "floor")
MAIN_FORMS = ("liger", "liger_cute", "quack", "quack_logits", "compile")  # what every case is to be timed beside, where it exists


class Dirty(ValueError):
    """A result of sources that are not a commit's."""


def load(folder, pattern):
    """([(result, file name)] of the results that may be shown, the newest first; names of those without a commit)."""
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
    """{device: its results}, the one with the most rows of the newest commit first."""
    found = defaultdict(list)
    for entry in results:
        found[entry[0]["device"]].append(entry)
    newest = results[0][0]["commit"] if results else None
    rows = lambda entries: sum(len(result["rows"]) for result, _ in entries if result["commit"] == newest)
    return dict(sorted(found.items(), key=lambda item: -rows(item[1])))


def cases_of(results):
    """{case: [({(pass, provider): row}, result, name) of each run that is shown, the newest first]}.

    These are the runs of one commit: the newest where time ran out for no peer of the case, or the newest of all.
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
    """Whether time ran out for a peer of this case that no run timed: then nobody knows which is the best."""
    timed = {provider for run, _, _ in runs for _, provider in run}
    start = f"{key[0]} {'x'.join(map(str, key[1]))} {key[2]} "
    left = [text[len(start):].split(":")[0] for _, result, _ in runs for text in result.get("not_measured", []) if text.startswith(start)]
    return any(provider in MAIN_FORMS and provider not in timed for provider in left)


def used(cases):
    """The results that cases come from, in the order of the page."""
    found = {name: result for runs in cases.values() for _, result, name in runs}
    return sorted(((result, name) for name, result in found.items()),
                  key=lambda entry: (entry[0]["date"], entry[0].get("run", 0), entry[1]), reverse=True)


def family(provider):
    """ligerdsl, liger, quack, compile, torch: whose contender it is."""
    return provider.rstrip("0123456789").split("_")[0]


def time_of(row):
    """A contender's time at its best: of its kernels alone where its host waits for the GPU between them."""
    return min(row["us"], row.get("us_kernels", row["us"]))


def best_peer(rows, pass_name, of_family=None, read=time_of):
    """The fastest row of a pass that is no contender of ours and right, or None."""
    peers = [row for (name, provider), row in rows.items() if name == pass_name and provider not in NO_PEER and
             family(provider) != OURS and (of_family is None or family(provider) == of_family) and row["max_error"] <= WRONG]
    return min(peers, key=read, default=None)


def ratios(runs, pass_name, peer):
    """Peer time / our time of each run that has both. peer: a function of a run's rows returning a row or None."""
    found = []
    for rows, _, _ in runs:
        ours, theirs = rows.get((pass_name, OURS)), peer(rows)
        if ours and theirs:
            found.append(time_of(theirs) / ours["us"])
    return found


def values(runs, pass_name, provider, read):
    """read(row) of each run that has this contender."""
    found = [read(rows[pass_name, provider]) for rows, _, _ in runs if (pass_name, provider) in rows]
    return [value for value in found if value is not None]


def span(numbers, form="{:.1f}"):
    """'169.2', or '168.9-170.3' of several."""
    texts = list(dict.fromkeys(form.format(value) for value in (min(numbers), max(numbers)))) if numbers else [""]
    return "-".join(texts)
