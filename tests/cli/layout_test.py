"""Tests that the tables of `ligerdsl layout` agree with the basis vectors of the `tgpu` stage.

Usage: layout_test.py COMMAND KERNELS.so FOLDER
"""

import json
import pathlib
import re
import shutil
import sys

from command import Command, expect
import command

AXES = ["register", "lane", "warp", "cta"]


def held(layout, place):
    """Returns the element at a place {"register": 5, "lane": 3, ...}.

    It is computed from the basis vectors and the copies of odd widths alone.
    """
    shape, at = layout["shape"], [0] * len(layout["shape"])
    for axis in AXES:
        for bit, basis in enumerate(layout[axis]):
            if place[axis] >> bit & 1:
                at = [a ^ b for a, b in zip(at, basis)]
    copy = place["register"] >> len(layout["register"])
    for dim in reversed(range(len(shape))):
        power = shape[dim] & -shape[dim]
        copy, of = divmod(copy, shape[dim] // power)
        at[dim] += of * power
    return at


def place_of(text):
    cta, warp, lane, first, last = re.fullmatch(r"(?:c(\d+) )?w(\d+) l(\d+)(?: r(\d+)(?:-(\d+))?)?",
                                                text).groups()
    place = {"cta": int(cta or 0), "warp": int(warp), "lane": int(lane)}
    return place, range(int(first), int(last or first) + 1) if first else None


def span(text):
    first, _, last = text.partition("-")
    return list(range(int(first), int(last or first) + 1))


def tables(text):
    """Yields (shape, header, rows) of each table of the page."""
    for part in text.split("\ntile ")[1:]:
        lines = part.splitlines()
        rows = [i for i, line in enumerate(lines) if re.search(r"\bw\d+ l\d+", line)]
        yield lines[0].split(":")[0], lines[rows[0] - 1], [lines[i] for i in rows]


def check_elements(layout, header, rows):
    ranges = [span(word) for word in header.split() if word != "row"]
    seen = 0
    for row in rows:
        label, cells = re.match(r" *([\d,]*) *((?:c\d+ )?w.*)", row).groups()
        cells = re.findall(r"(?:c\d+ )?w\d+ l\d+ r[\d-]+", cells)
        expect(len(cells) == len(ranges), f"{row} under {header}")
        for cell, columns in zip(cells, ranges):
            place, registers = place_of(cell)
            for register, column in zip(registers, columns):
                element = [int(i) for i in label.split(",") if i] + [column]
                expect(held(layout, place | {"register": register}) == element,
                       f"{cell} holds {element}? {layout}")
                seen += 1
    return seen


def check_threads(layout, header, rows):
    columns = [span(word.replace("r", "")) for word in header.split()[1:]]
    for row in rows:
        place, _ = place_of(re.match(r"(?:c\d+ )?w\d+ l\d+", row).group())
        cells = re.findall(r"\(([^)]*)\)", row)
        expect(len(cells) == len(columns), f"{row} under {header}")
        for cell, registers in zip(cells, columns):
            *outer, last = cell.split(", ")
            for register, column in zip(registers, span(last)):
                element = [int(i) for i in outer] + [column]
                expect(held(layout, place | {"register": register}) == element,
                       f"{place} {register} {cell} {layout}")
    return len(rows)


def product(numbers):
    result = 1
    for number in numbers:
        result *= number
    return result


def test_tables(ligerdsl):
    for arguments in (
        ["softmax_forward", "dtype=f32", "H=64", "--target", "sm_90a"],
        ["layer_norm_backward", "dtype=bf16", "H=640", "--target", "sm_80"],  # H = 5 * 128
        ["rms_norm_forward", "dtype=bf16", "H=65536", "config.num_ctas=4", "--target", "sm_90a"]):
        kernels = ligerdsl.json("layout", *arguments)
        layouts = [layout for kernel in kernels for layout in kernel["layouts"]]
        code, tgpu, errors = ligerdsl.run("compile", *arguments, "--emit", "tgpu")
        expect(code == 0, errors)
        known = re.findall(r"#tgpu\.layout<register = (\[.*?\]), lane = (\[.*?\]), warp = "
                           r"(\[.*?\]), cta = (\[.*?\]), rank",
                           tgpu)
        known = [[json.loads(bases) for bases in layout] for layout in known]
        for layout in layouts:
            expect([layout[axis] for axis in AXES] in known,
                   f"{layout} is no layout of {arguments}")
        for layout in known:
            expect(any([one[axis] for axis in AXES] == layout for one in layouts),
                   f"{layout} is not listed")
        whole = ["--whole"] if "config.num_ctas=4" not in arguments else []
        for by, check in (("element", check_elements), ("thread", check_threads)):
            code, text, errors = ligerdsl.run("layout", *arguments, "--by", by, *whole)
            expect(code == 0, errors)
            shown = list(tables(text))
            expect(len(shown) == len(layouts), f"{len(shown)} tables of {len(layouts)} layouts")
            for layout, (shape, header, rows) in zip(layouts, shown):
                expect(shape == "x".join(map(str, layout["shape"])), f"{shape}: {layout['shape']}")
                seen = check(layout, header, rows)
                everything = product(layout["shape"]) if by == "element" else product(
                    2 ** len(layout[axis]) for axis in AXES[1:])
                expect(seen == everything if whole else 0 < seen <= everything,
                       f"{seen} of {everything}: {layout}")
            if not whole:
                expect("--whole shows all" in text and "c0 w0 l0" in text, text[:2000])


def test_facts(ligerdsl):
    layouts = ligerdsl.json("layout", "softmax_forward", "dtype=f32", "H=64")[0]["layouts"]
    for layout in layouts:
        bits = sum(len(layout[axis]) for axis in AXES[1:])
        elements = product(layout["shape"])
        expect(layout["registers_per_thread"] * 2**bits
               == elements * layout["threads_with_each_element"],
               f"{layout}")
        for tile in layout["tiles"]:
            expect(tile["file"].endswith("softmax.cpp") and tile["line"] > 0 and tile["op"]
                   and tile["type"],
                   f"{tile}")
    loads = [
        layout for layout in layouts if any(tile["op"] == "load_tile" for tile in layout["tiles"])]
    expect(len(loads) == 1 and loads[0]["vector"] == 4, f"{loads}")


def test_choice(ligerdsl, kernels):
    one = ["layout", "softmax_forward", "dtype=f32", "H=64"]
    every = ligerdsl.json(*one)[0]["layouts"]
    shape = "x".join(map(str, every[0]["shape"]))
    chosen = ligerdsl.json(*one, "--tile", shape)[0]["layouts"]
    expect(chosen == [layout for layout in every if layout["shape"] == every[0]["shape"]],
           f"{chosen}")
    line = next(tile["line"] for layout in every for tile in layout["tiles"]
                if tile["op"] == "load_tile")
    chosen = ligerdsl.json(*one, "--line", line)[0]["layouts"]
    expect(chosen == [
               layout for layout in every if any(tile["line"] == line for tile in layout["tiles"])],
           f"{chosen}")
    expect(0 < len(chosen) < len(every), f"line {line} makes {len(chosen)} of {len(every)} layouts")
    loaded = ligerdsl.json("--load", kernels, "layout", "sums", "x=8x64", "y=8")
    expect(loaded[0]["layouts"] and all(layout["tiles"][0]["file"].endswith("tuned_kernels.cpp")
                                        for layout in loaded[0]["layouts"]),
           f"{loaded}")


def test_refusals(ligerdsl):
    for arguments, code, words in (
        (["softmax_forward", "--tile", "3x5"], 4, ["no tile", "3x5", "have the shapes"]),
        (["softmax_forward", "--line", "99999"], 4, ["line 99999"]),
        (["softmax_forward", "--line", "0"], 2, ["--line"]),
        (["softmax_forward", "--target", "cpu"], 2, ["no layout", "--target"]),
        (["softmax_forwrd"], 2, ["did you mean", "softmax_forward"]),
        (["softmax_forward", "--by", "elements"], 2, ["element"]),
        (["softmax_forward", "--target", "sm_70"], 2, ["sm_70"]),
    ):
        got, out, errors = ligerdsl.run("layout", *arguments)
        expect(got == code and all(word in errors for word in words) and not out,
               f"{arguments}: exit {got}\n{out}{errors}")


def main():
    path, kernels, folder = sys.argv[1:]
    folder = pathlib.Path(folder)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    ligerdsl = Command(path, folder / "cache")
    test_tables(ligerdsl)
    test_facts(ligerdsl)
    test_choice(ligerdsl, kernels)
    test_refusals(ligerdsl)
    sys.exit(1 if command.failures else 0)


if __name__ == "__main__":
    main()
