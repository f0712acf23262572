"""The table of remarks, dsl/program/remarks.def, and the patterns of its texts."""

import dataclasses
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
TABLE = ROOT / "dsl/program/remarks.def"

ENTRY = re.compile(r'^LIGERDSL_(REMARK|REASON)\((\w+),\s*((?:"(?:\\.|[^"\\])*"[\s,]*)+)\)$', re.M)
STRING = re.compile(r'"((?:\\.|[^"\\])*)"(\s*,)?')
PLACEHOLDER = re.compile(r"\{([^{}]*(?:\{[^{}]*\}[^{}]*)*)\}")
# Pattern of each kind of argument. A PLACE is FILE:LINE, without spaces, semicolons and commas.
KINDS = {"N": r"-?\d+", "M": r"-?\d+", "B": r"\d+", "PLACE": r"(?:[^\s;,]+|an unknown place)",
         "NAME": r"\w+"}


@dataclasses.dataclass(frozen=True)
class Remark:
    id: str
    source: str
    text: str
    cause: str
    change: str

    @property
    def name(self):
        """Returns the enumerator of RemarkId."""
        return self.id.replace("-", "_")


@dataclasses.dataclass(frozen=True)
class Reason:
    group: str
    text: str
    change: str


def fields(arguments):
    """Returns an entry's arguments. Adjacent string literals are one argument."""
    found, last = [""], 0
    for match in STRING.finditer(arguments):
        found[-1] += match.group(1)
        if match.group(2):
            found.append("")
        last = match.end()
    if arguments[last:].strip():
        raise SystemExit(f"{TABLE.name}: expected string literals, got {arguments[last:]}")
    return found


def read(text=None):
    """Returns (remarks, reasons) in the table's order."""
    text = TABLE.read_text(encoding="utf-8") if text is None else text
    remarks, reasons = [], []
    for kind, name, arguments in ENTRY.findall(text):
        values = [name.replace("_", "-"), *fields(arguments)]
        to, entry = (remarks, Remark) if kind == "REMARK" else (reasons, Reason)
        if len(values) != len(dataclasses.fields(entry)):
            raise SystemExit(f"{TABLE.name}: {name} has {len(values) - 1} strings, expected "
                             f"{len(dataclasses.fields(entry)) - 1}")
        to.append(entry(*values))
    read_at = {match.start() for match in ENTRY.finditer(text)}
    malformed = [f"{match.group(1)} (line {text.count(chr(10), 0, match.start()) + 1})"
                 for match in re.finditer(r"^LIGERDSL_RE(?:MARK|ASON)\((\w*)", text, re.M)
                 if match.start() not in read_at]
    if malformed:
        raise SystemExit(f"{TABLE.name}: malformed entries: {', '.join(malformed)}; expected "
                         "(name, \"string\", ...), as the head of the file describes")
    return remarks, reasons


def groups_of(text):
    """Returns the groups of reasons that a text names."""
    return [group for inside in PLACEHOLDER.findall(text) if inside.startswith("R ")
            for group in inside[2:].split()]


def shown(text):
    """Returns the text for the page: {N} becomes N, {R group} becomes R, {a|b} becomes a/b, {?a}
    becomes {a}."""
    def show(match):
        inside = match.group(1)
        if inside.startswith("R "):
            return "R"
        if inside.startswith("?"):
            return "{" + shown(inside[1:]) + "}"
        return "FILE:LINE" if inside == "PLACE" else inside.replace("|", "/")
    return PLACEHOLDER.sub(show, text)


def pattern(text, reasons):
    """Returns a text's regular expression, with all reasons of its groups."""
    parts, last = [], 0
    for match in PLACEHOLDER.finditer(text):
        parts.append(re.escape(text[last:match.start()]))
        inside, last = match.group(1), match.end()
        if inside.startswith("R "):
            wanted = inside[2:].split()
            parts.append("(?:" + "|".join(pattern(reason.text, ()) for reason in reasons
                                          if reason.group in wanted) + ")")
        elif inside.startswith("?"):
            parts.append(f"(?:{pattern(inside[1:], reasons)})?")
        elif "|" in inside:
            parts.append("(?:" + "|".join(map(re.escape, inside.split("|"))) + ")")
        else:
            parts.append(KINDS[inside])
    return "".join(parts) + re.escape(text[last:])
