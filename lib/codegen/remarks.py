"""remarks.py [--check]: writes docs/reference/remarks.md from the table dsl/program/remarks.def.

--check writes nothing and exits 1 if the page does not match the table.
"""

import pathlib
import re
import sys

import remark_table
from pages import write_or_check

PAGE = remark_table.ROOT / "docs/reference/remarks.md"
TEMPLATE = pathlib.Path(__file__).resolve().parent / "remarks.md.in"


def row(*cells):
    return f"| {' | '.join(cells)} |"


def change_of(remark):
    """Returns a remark's advice, with links in place of `R`."""
    links = [f"[{group.replace('-', ' ')}](#reasons-{group})"
             for group in remark_table.groups_of(remark.text)]
    return re.sub(r"\bR$", ", ".join(links), remark.change) if links else remark.change


def remark_rows(remarks, sources, with_pass):
    columns = ["pass"] * with_pass + ["id", "remark", "cause", "what to change"]
    rows = [row(*columns), "|" + "---|" * len(columns)]
    for remark in remarks:
        if remark.source in sources:
            rows.append(row(
                *[f"`{remark.source}`"] * with_pass, f'<a id="{remark.id}"></a>`{remark.id}`',
                f"`{remark_table.shown(remark.text)}`", remark.cause, change_of(remark)))
    return rows


def reason_rows(reasons, groups):
    anchors = [f'<a id="reasons-{group}"></a>' for group in groups]
    return [*anchors, "", "| R | what to change |", "|---|---|",
            *(row(f"`{remark_table.shown(reason.text)}`", reason.change) for reason in reasons
              if reason.group in groups)]


def page():
    """Returns the template, with a table in place of each line {{remarks SOURCE}}, {{passes
    SOURCE...}} or {{reasons GROUP...}}."""
    remarks, reasons = remark_table.read()
    sources, groups = {remark.source for remark in remarks}, {reason.group for reason in reasons}
    lines = []
    for line in TEMPLATE.read_text(encoding="utf-8").splitlines():
        if not line.startswith("{{"):
            lines.append(line)
            continue
        kind, *names = line.strip("{}").split()
        left = groups if kind == "reasons" else sources
        if unknown := [name for name in names if name not in left]:
            sys.exit(f"{TEMPLATE.name}: {line}: the table has no {' or '.join(unknown)}, or an "
                     "earlier table shows it")
        left.difference_update(names)
        lines += reason_rows(reasons, names) if kind == "reasons" else remark_rows(remarks, names,
                                                                                   kind == "passes")
    if missing := sorted(sources | groups):
        sys.exit(f"{TEMPLATE.name}: no table shows {', '.join(missing)}")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    write_or_check(__doc__, [(PAGE, page())], remark_table.TABLE.name, "remarks.py")
