"""environment.py [--check]: writes docs/reference/environment.md.

The table is runtime/environment/options.def; the prose is in environment.md.in. --check writes
nothing and exits 1 if the page does not match the table.
"""

import dataclasses
import pathlib
import re
import sys

from pages import write_or_check
from remark_table import ROOT, fields
from remarks import row

TABLE = ROOT / "runtime/environment/options.def"
PAGE = ROOT / "docs/reference/environment.md"
TEMPLATE = pathlib.Path(__file__).resolve().parent / "environment.md.in"

START = re.compile(r"^LIGERDSL_[A-Z]+\(", re.M)
ENTRY = re.compile(
    r'^LIGERDSL_(OPTION|FOREIGN|VARIABLE)\(((?:"(?:\\.|[^"\\])*"[\s,]*)+)([^"]*?)\)$', re.M)


@dataclasses.dataclass(frozen=True)
class Option:
    """A variable of the library."""
    name: str
    section: str
    values: str
    default: str
    help: str
    meaning: str
    parser: str

    columns = ("variable", "values", "default", "meaning")

    def cells(self):
        meaning = self.meaning or self.help
        return f"`{self.name}`", self.shown_values(), self.shown_default(), meaning

    def shown_values(self):
        """Returns the values for the page: a|b becomes `a`, `b`, and integer 0..9 becomes 0 to
        9."""
        if bounds := re.fullmatch(r"integer (\d+)\.\.(\d+)", self.values):
            return f"{bounds.group(1)} to {bounds.group(2)}"
        return re.sub(
            r"\S+[|,]\S+",
            lambda names: ", ".join(f"`{name}`" for name in re.split("[|,]", names.group())),
            self.values)

    def shown_default(self):
        """Returns the default, with values, paths, numbers and the library's name as code."""
        choices = self.values.split("|")

        def mark(match):
            word = match.group()
            is_code = word in choices or re.search(r"[$/.\d]|ligerdsl", word)
            return f"`{word}`" if is_code else word
        return re.sub(r"[^\s;,]+", mark, self.default)


@dataclasses.dataclass(frozen=True)
class Variable:
    """A variable that another program defines or reads.

    If the library reads it, `member` of Options has its text."""
    name: str
    section: str
    reader: str
    meaning: str
    member: str

    columns = ("variable", "read by", "meaning")

    def cells(self):
        return f"`{self.name}`", self.reader, self.meaning


def read(text=None):
    """Returns all entries in the table's order."""
    text = TABLE.read_text(encoding="utf-8") if text is None else text
    entries = []
    for kind, strings, last in ENTRY.findall(text):
        values = [*fields(strings.rstrip(", \n")), last]
        entry = Option if kind == "OPTION" else Variable
        if len(values) != len(dataclasses.fields(entry)) or bool(last) != (kind != "VARIABLE"):
            raise SystemExit(f"{TABLE.name}: {values[0]} does not have the arguments of "
                             f"LIGERDSL_{kind}: {values}")
        entries.append(entry(*values))
    begun = len(START.findall(text))
    if begun != len(entries):
        raise SystemExit(f"{TABLE.name}: {begun} entries, but {len(entries)} are well-formed")
    return entries


def page():
    """Returns the template, with a table in place of each line {{variables SECTION}}."""
    entries = read()
    left = {entry.section for entry in entries}
    lines = []
    for line in TEMPLATE.read_text(encoding="utf-8").splitlines():
        if not line.startswith("{{"):
            lines.append(line)
            continue
        section = line.removeprefix("{{variables ").removesuffix("}}")
        shown = [entry for entry in entries if entry.section == section]
        if section not in left:
            sys.exit(f"{TEMPLATE.name}: {line}: expected a section of the table, shown once")
        if len({entry.columns for entry in shown}) != 1:
            sys.exit(f"{TABLE.name}: section {section} mixes options of the library with other "
                     "variables")
        left.remove(section)
        lines += [row(*shown[0].columns), "|" + "---|" * len(shown[0].columns)]
        lines += [row(*entry.cells()) for entry in shown]
    if left:
        sys.exit(f"{TEMPLATE.name}: no line shows {', '.join(sorted(left))}")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    write_or_check(__doc__, [(PAGE, page())], TABLE.name, "environment.py")
