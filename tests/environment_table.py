"""environment_table.py: checks that runtime/environment/options.def agrees with the sources.

1. Each name is in the table once, and the values of an option are those that its parser accepts.
2. Each LIGERDSL_ variable that a source reads has an entry. In shipped sources, every variable has
   one.
3. Each variable that the library does not read is read by another source.
4. In the library, only options.cpp reads the environment.
5. In other shipped sources, calls to getenv name their variable.
"""

import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib/codegen"))
import environment
from environment import ROOT

SHIPPED = ("compiler", "dsl", "kernels", "lib", "runtime")
LIBRARY = ("compiler", "dsl", "kernels", "lib/abi", "runtime")
FOLDERS = (*SHIPPED, ".ci", ".cmake", "bench", "examples", "tests")
PARSERS = "runtime/environment/options.cpp"
# Files that call getenv with names from the table, not with literals.
READS_TABLE = (PARSERS, "lib/cli/doctor.cpp")

READS = {
    "c": r'\bgetenv\(\s*"(\w+)"',
    "python": r"""(?:\benviron(?:\.\w+\(|\[)|\bgetenv\()\s*["'](\w+)["']"""
              r"""|["'](\w+)["']\s+(?:not\s+)?in\s+(?:os\.)?environ\b""",
    "cmake": r"\$ENV\{(\w+)\}",
    "shell": r"\$\{?(LIGERDSL_\w+)",
}
LANGUAGES = {
    ".c": "c", ".cpp": "c", ".h": "c", ".hpp": "c", ".py": "python", ".pth": "python",
    ".cmake": "cmake", ".sh": "shell"
}
failures = []


def expect(condition, message):
    if not condition:
        failures.append(str(message))


def sources(folders):
    """Yields (path from the root, language, text) of each source."""
    inside = [path for folder in folders for path in sorted((ROOT / folder).rglob("*"))]
    for path in (path for path in [*inside, ROOT / "CMakeLists.txt"] if path.is_file()):
        language = "cmake" if path.name == "CMakeLists.txt" else LANGUAGES.get(path.suffix)
        if not language and path.suffix:
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        if not language and (shebang := re.match(r"#!.*\b(python3|bash|sh)\b", text)):
            language = "python" if shebang.group(1) == "python3" else "shell"
        if language:
            yield path.relative_to(ROOT).as_posix(), language, text


def accepted(parser):
    """Returns the values that a parser of options.cpp compares with."""
    body = re.search(rf"^bool {parser}\(.*?^}}", (ROOT / PARSERS).read_text(encoding="utf-8"),
                     re.M | re.S)
    return set(re.findall(r'"([^"]+)"', body.group())) if body else set()


def expected_parser(option):
    """Returns the pattern of the parser of an option, or None if its values do not determine it."""
    if bounds := re.fullmatch(r"integer (\d+)\.\.(\d+)", option.values):
        return rf"parse_number<&Options::\w+, {bounds.group(1)}, {bounds.group(2)}>"
    if option.values == "0|1":
        return r"parse_switch<&Options::\w+>"
    return r"parse_text<&Options::\w+>" if option.values in ("path", "text") else None


def table_is_well_formed(entries):
    names = [entry.name for entry in entries]
    expect(len(set(names)) == len(names), "expected each name once in the table, got more than "
           f"once: {sorted(name for name in set(names) if names.count(name) > 1)}")
    for entry in entries:
        if not isinstance(entry, environment.Option):
            continue
        expect(entry.name.startswith("LIGERDSL_"), f"{entry.name}: expected a name that "
               "starts with LIGERDSL_")
        parser = expected_parser(entry)
        if parser:
            expect(re.fullmatch(parser, entry.parser),
                   f"{entry.name}: values {entry.values}: expected a parser that matches {parser}, "
                   f"got {entry.parser}")
        elif "|" in entry.values and entry.parser != "parse_cpu":  # for a CPU, LLVM has the list
            words = accepted(entry.parser)
            expect(words == set(entry.values.split("|")),
                   f"{entry.name}: expected that {entry.parser} accepts {entry.values}, got "
                   f"{'|'.join(sorted(words))}")


def sources_agree(entries):
    names, read = {entry.name for entry in entries}, set()
    for path, language, text in sources(FOLDERS):
        for match in re.finditer(READS[language], text):
            name = next(filter(None, match.groups()))
            read.add(name)
            if name.startswith("LIGERDSL_") or path.split("/")[0] in SHIPPED:
                expect(name in names,
                       f"{path}: reads {name}, which {environment.TABLE.name} does not declare")
    for entry in entries:
        expect(
            not isinstance(entry, environment.Variable) or entry.member or entry.name in read,
            f"{entry.name}: no source reads this variable; remove its entry")


def library_reads_in_one_place():
    for path, language, text in sources(SHIPPED):
        if language != "c" or path in READS_TABLE:
            continue
        calls = re.findall(r"\bgetenv\(\s*(\S?)", text)
        expect(not calls or not path.startswith(tuple(f"{folder}/" for folder in LIBRARY)),
               f"{path}: calls getenv; add the variable to {environment.TABLE.name} and read "
               "options() instead")
        expect(set(calls) <= {'"'}, f"{path}: calls getenv without a literal; write the variable's "
                                    "name in the call")


entries = environment.read()
table_is_well_formed(entries)
sources_agree(entries)
library_reads_in_one_place()
print("\n".join(failures) if failures else f"environment: {len(entries)} variables")
sys.exit(bool(failures))
