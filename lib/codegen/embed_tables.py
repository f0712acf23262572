"""Writes the tables of tuned kernels (kernels/tuned) as strings in a C++ file."""

import argparse
import pathlib

LITERAL = 12000  # characters per literal; compilers guarantee 65,536


def literal(text):
    parts = [text[i : i + LITERAL] for i in range(0, len(text), LITERAL)]
    return "\n".join(f'R"ligerdsl({part})ligerdsl"' for part in parts)


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--out", required=True, type=pathlib.Path)
    arguments.add_argument("tables", nargs="*", type=pathlib.Path)
    options = arguments.parse_args()
    entries = [
        f'      std::make_shared<const TunedTable>({literal(path.read_text(encoding="ascii"))}, '
        f'"shipped {path.name}"),\n' for path in sorted(options.tables)]
    options.out.write_text(
        '#include "lib/abi/tuned_configs.h"\n\n'
        "namespace ligerdsl::lib {\n\n"
        "const std::vector<std::shared_ptr<const TunedTable>>& shipped_tables() {\n"
        "  static const auto* const tables = new std::vector<std::shared_ptr<const TunedTable>>{\n"
        f'{"".join(entries)}  }};\n'
        "  return *tables;\n"
        "}\n\n"
        "}  // namespace ligerdsl::lib\n",
        encoding="ascii",
    )


if __name__ == "__main__":
    main()
