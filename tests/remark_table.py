"""remark_table.py: checks that the table of remarks (dsl/program/remarks.def) agrees with the
sources, the tests and the pages.

1. Each id is in kebab case and unique; each source file that emits remarks names only ids of the
   table, and each id is emitted.
2. No remark is made without an id: only compiler/remarks.cpp calls MLIR, and only
   dsl/program/remarks.cpp writes the fields.
3. Each expectation of a test and each line of tests/golden/remarks.txt ends with an id, and fits
   the pass and text of this id.
4. Each id is expected by a test or a golden line, except those of UNTESTED.
5. Each link to docs/reference/remarks.md#ID names an id of that page.
"""

import collections
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib/codegen"))
import remark_table
from remark_table import ROOT

# Remarks that no test expects.
UNTESTED = {"argument-not-mapped"}

SHIPPED = ("compiler", "dsl", "kernels", "runtime", "lib")
WORD = re.compile(r"[A-Za-z_]{3,}")
HOLE = re.compile(r"\{\{.*?\}\}")
ENDING = re.compile(r" \[([\w-]+)\]$")
EXPECTED = re.compile(r"//\s*expected-remark(?:-re)?\s*(?:@\S+\s*)?\{\{(.*)\}\}$")
CHECKED = re.compile(r"//\s*[A-Z0-9-]+:\s*(?:.*remark: )?(.*\S)$")
failures = []


def expect(condition, message):
    if not condition:
        failures.append(str(message))


remarks, reasons = remark_table.read()
by_id = {remark.id: remark for remark in remarks}
expected = collections.Counter()


def whole(remark):
    return re.compile(re.escape(f"[{remark.source}] ") + remark_table.pattern(remark.text, reasons))


WHOLE = {remark.id: whole(remark) for remark in remarks}


def texts_of(remark):
    """Returns the patterns of a remark's text, one per reason."""
    inside = re.search(r"\{R ([^{}]+)\}", remark.text)
    wanted = [
        reason.text for reason in reasons if inside and reason.group in inside.group(1).split()]
    texts = ([remark.text[:inside.start()] + text + remark.text[inside.end():] for text in wanted]
             if inside else [remark.text])
    return [f"[{remark.source}] {text}" for text in texts]


def fits(remark, text):
    """Returns true if `text`, with holes for regular expressions, can be part of the remark's text.
    Its words, without file names, must occur there in this order."""
    words = WORD.findall(re.sub(r"\S*\.mlir\S*", " ", HOLE.sub(" ", text)))
    return any(all(word in known for word in words)
               for known in map(iter, map(WORD.findall, texts_of(remark))))


def files(folder, *suffixes):
    return sorted(path for path in (ROOT / folder).rglob("*") if path.suffix in suffixes)


def table_is_well_formed():
    expect(len(by_id) == len(remarks),
           "expected each id once in the table, got twice or more: "
           f"{sorted(id for id, n in collections.Counter(r.id for r in remarks).items() if n > 1)}")
    for remark in remarks:
        expect(re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", remark.id),
               f"{remark.id}: expected an id in kebab case, such as load-not-staged")
        for group in remark_table.groups_of(remark.text):
            expect(any(reason.group == group for reason in reasons),
                   f"{remark.id}: the table has no reason of the group {group}")


def sources_emit_the_table():
    emitted = set()
    for path in (path for folder in SHIPPED for path in files(folder, ".cpp", ".h")):
        text, name = path.read_text(encoding="utf-8"), path.relative_to(ROOT).as_posix()
        if name.startswith("dsl/program/remarks."):
            continue
        code = re.sub(r"//[^\n]*", "", text)
        emitted.update(re.findall(r"RemarkId::(\w+)", code))
        expect(name == "compiler/remarks.cpp" or "emitRemark" not in code,
               f"{name}: calls emitRemark; call missed() (compiler/remarks.h) instead")
        made = re.search(r"\.pass = \"|\"[^\"\n]*remark: \[", code)
        expect(name == "dsl/program/artifact.h" or not made,
               f"{name}: writes a remark without an id; call make_remark() (program/remarks.h)")
    names = {remark.name for remark in remarks}
    expect(emitted <= names, "sources emit remarks that the table lacks: "
                             f"{sorted(emitted - names)}")
    expect(names <= emitted, "no source emits these remarks of the table: "
                             f"{sorted(names - emitted)}")


def read_expectation(where, text):
    ending = ENDING.search(text)
    if not ending or ending.group(1) not in by_id:
        failures.append(f"{where}: expected a remark that ends with [ID], an id of the table, got: "
                        f"{text}")
        return
    remark, said = by_id[ending.group(1)], text[:ending.start()]
    expected[remark.id] += 1
    differs = f"expected a text of the form '[{remark.source}] {remark.text}', got '{said}'"
    if said.startswith(f"[{remark.source}] ") and "{{" not in said:
        expect(WHOLE[remark.id].fullmatch(said), f"{where}: {remark.id}: {differs}")
    else:
        expect(fits(remark, said), f"{where}: {remark.id}: {differs}")


def tests_expect_ids():
    for path in files("tests", ".mlir"):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            where, line = f"{path.relative_to(ROOT)}:{number}", line.strip()
            if match := EXPECTED.match(line):
                read_expectation(where, match.group(1))
            elif (match := CHECKED.match(line)) and (
                    " remark: " in line
                    or ENDING.search(line) and ENDING.search(line).group(1) in by_id):
                read_expectation(where, match.group(1))
    for path in files("tests", ".cpp", ".py"):
        if path.name != pathlib.Path(__file__).name:
            found = re.findall(r"RemarkId::(\w+)|[\"'\[]([a-z0-9]+(?:-[a-z0-9]+)*)[\"'\]]",
                               path.read_text(encoding="utf-8"))
            expected.update(id for name, id in ((name.replace("_", "-"), id) for name, id in found)
                            for id in (name, id) if id in by_id)


def golden_lines_fit():
    lines = (ROOT / "tests/golden/remarks.txt").read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines[1:], 2):
        read_expectation(f"tests/golden/remarks.txt:{number}", line.partition("remark: ")[2])


def links_lead_to_ids():
    anchors = set(re.findall(r'<a id="([\w-]+)"',
                             (ROOT / "docs/reference/remarks.md").read_text(encoding="utf-8")))
    for path in files("docs", ".md"):
        for anchor in re.findall(r"\]\([^)\s]*\bremarks\.md#([\w-]+)\)",
                                 path.read_text(encoding="utf-8")):
            expect(anchor in anchors,
                   f"{path.relative_to(ROOT)}: docs/reference/remarks.md has no #{anchor}")


table_is_well_formed()
sources_emit_the_table()
tests_expect_ids()
golden_lines_fit()
links_lead_to_ids()
untested = set(by_id) - set(expected)
expect(untested <= UNTESTED,
       f"no test expects {sorted(untested - UNTESTED)}: add one, or add the id to UNTESTED of "
       f"{pathlib.Path(__file__).name}")
expect(UNTESTED <= untested,
       f"a test expects {sorted(UNTESTED - untested)}: remove it from UNTESTED of "
       f"{pathlib.Path(__file__).name}")
print("\n".join(failures) if failures
      else f"remarks: {len(remarks)} ids, {sum(expected.values())} expectations")
sys.exit(bool(failures))
