"""pages_test.py COMMAND PAGE...: tests that a page shows the output of each "$ ligerdsl ..." in it.

The lines of such a block must occur in this order in the output. "..." stands for omitted lines;
all other lines must be consecutive.
"""

import pathlib
import re
import subprocess
import sys

GAP = "..."


def blocks(text):
    """Yields (arguments of the command, lines) for each block of a page."""
    for block in re.findall(r"^```\n\$ ligerdsl (.*?)^```", text, re.M | re.S):
        command, *lines = block.rstrip("\n").split("\n")
        yield command.split(), lines


def missing(lines, printed):
    """Returns the first line of the page that is missing or misplaced in the output, or None."""
    printed = [line for line in printed if line.strip()]
    place, after_gap = 0, False
    for line in filter(str.strip, lines):
        if line.strip() == GAP:
            after_gap = True
            continue
        while after_gap and place < len(printed) and printed[place].strip() != line.strip():
            place += 1
        if place == len(printed) or printed[place].strip() != line.strip():
            return line
        place, after_gap = place + 1, False
    return None


def main():
    tool, *pages = sys.argv[1:]
    wrong = checked = 0
    for page in pages:
        for arguments, lines in blocks(pathlib.Path(page).read_text()):
            done = subprocess.run([tool, *arguments], capture_output=True, text=True)
            if done.returncode != 0:
                sys.exit(f"{page}: ligerdsl {' '.join(arguments)}: {done.stderr}")
            line, checked = missing(lines, done.stdout.split("\n")), checked + 1
            if line is not None:
                wrong += 1
                print(f"{page}: ligerdsl {' '.join(arguments)} does not print at this place:\n"
                      f"{line}")
    if not checked:
        sys.exit("no page shows a command")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
