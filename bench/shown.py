"""Selects and compares rows of bench/baselines. Needs no torch."""

from collections import defaultdict

from baselines import (COLUMNS, FULL, MAIN_FORMS, NO_PEER, NUMBERS, OURS, WRONG, counts, family,
                       time_of)  # noqa: F401


def typed(row):
    """Returns a table's row with numbers instead of texts, without empty fields."""
    made = {name: float(row[name]) if name in NUMBERS else row[name] for name in COLUMNS
            if row[name] != ""}
    made["shape"] = tuple(int(n) for n in row["shape"].split("x"))
    if "errors" in made:
        made["errors"] = {name: float(value)
                          for name, value in (each.split("=") for each in made["errors"].split())}
    return made


def cases_of(rows):
    """Returns {(kernel, shape, dtype): {(pass, provider): row}} in the order of the table."""
    found = defaultdict(dict)
    for row in map(typed, rows):
        found[row["kernel"], row["shape"], row["dtype"]][row["pass"], row["provider"]] = row
    return dict(found)


def sustained(row):
    return row.get("us_sustained", float("inf"))


def ratio(row, ours, read=time_of):
    """Returns a row's time / ours, both from one run."""
    return row["in_ours"] if read is time_of and "in_ours" in row else read(row) / read(ours)


def best_peer(rows, pass_name, read=time_of):
    """Returns (our row, the best peer's row, peer's time / ours) for a pass, or None."""
    ours = rows.get((pass_name, OURS))
    theirs = [row for (name, _), row in rows.items() if name == pass_name and counts(row) and (
        read is time_of or row["run"] == ours["run"])] if ours else []
    best = min(theirs, key=lambda row: ratio(row, ours, read), default=None)
    return (ours, best, ratio(best, ours, read)) if best else None


def ratios(rows, pass_name, read=time_of):
    """Returns [the best peer's time / ours], or [] without a peer."""
    found = best_peer(rows, pass_name, read)
    return [found[2]] if found else []


def span(numbers, form="{:.1f}"):
    """Returns a text for one number, '169.2', or several, '168.9-170.3'."""
    texts = (list(dict.fromkeys(form.format(value) for value in (min(numbers), max(numbers))))
             if numbers else [""])
    return "-".join(texts)
