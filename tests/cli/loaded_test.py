"""loaded_test.py COMMAND KERNELS.so SHADOWING.so CLASHING.so FAKE_CUDA.so FOLDER: the command with
kernels loaded with --load."""

import pathlib
import shutil
import struct
import sys

import command as shared
from command import Command, expect

path, kernels, shadowing, clashing, fake_cuda, folder = *sys.argv[1:6], pathlib.Path(sys.argv[6])
shutil.rmtree(folder, ignore_errors=True)
folder.mkdir(parents=True)
ligerdsl = Command(path, folder / "cache")


def write_npy(name, descr, code, values):
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': ({len(values)},), }}"
    header += " " * (63 - (10 + len(header)) % 64) + "\n"
    (folder / name).write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header))
                                + header.encode() + struct.pack(f"<{len(values)}{code}", *values))
    return f"{folder}/{name}"


def data_of(name, code, count):
    return struct.unpack(f"<{count}{code}",
                         (folder / name).read_bytes()[-count * struct.calcsize(code):])


def says(arguments, code, words, load=kernels, absent=()):
    got, text, errors = ligerdsl.run("--load", load, *arguments.split())
    missing = [word for word in words if word not in text + errors] + [
        f"not {word}" for word in absent if word in text + errors]
    expect(got == code and not missing,
           f"{arguments}: exit {got}, expected {code}; missing {missing} in\n{text}{errors}")
    return text


def lists_arguments():
    says("list", 0,
         ["gather", "f32 view [?], written", "i32 view [?]", "f32 pointer", "type=f32 block=256",
          "i64 scalar"])
    loaded = {one["name"]: one for one in ligerdsl.json("--load", kernels, "list")["loaded"]}
    gather = loaded["gather"]
    expect([(one["name"], one["kind"], one["dtype"], one["written"]) for one in gather["arguments"]]
           == [("out", "view", "f32", True), ("index", "view", "i32", False),
               ("table", "pointer", "f32", False)],
           gather)
    expect(gather["arguments"][0]["rank"] == 1 and gather["arguments"][0]["dims"] == [None], gather)
    expect(gather["settings"][0]["name"] == "type" and "bf16" in gather["settings"][0]["choices"]
           and gather["settings"][0]["default"] == "f32",
           gather)
    expect(gather["settings"][1] == {"name": "block", "type": "int", "default": "256"}
           and "num_warps" in gather["launch_settings"],
           gather)


def names_that_shadow():
    says("list", 2, ["the library has an operation named 'softmax_forward'", shadowing],
         load=shadowing)
    says("list", 2, ["kernel 'ones': a meta-parameter has the name 'num_warps'", "rename it"],
         load=clashing)
    says(f"list --load {kernels}", 2, ["a kernel named 'gather' was loaded already, from", kernels])
    says("run gathr", 2,
         ["no operation or loaded kernel is named 'gathr' (did you mean 'gather'?)"])


def arguments_that_are_missing():
    says("run gather", 2,
         ["gather: 3 arguments are missing", "out, f32 view [?]: out=4096", "--in index=FILE.npy",
          "table, f32 pointer: table=ELEMENTS"])
    says("run offsets out=256", 2,
         ["4 arguments are missing", "base, i64 scalar: base=NUMBER", "half, f16 scalar"],
         absent=["out,"])
    says("bench quantise x=out", 2, ["2 arguments are missing"])


def scalars_of_their_types():
    good = {"base": "0", "add": "0", "flag": "0", "half": "0"}

    def offsets(code, words, **changed):
        says("run offsets out=256 "
             + " ".join(f"{name}={value}" for name, value in (good | changed).items()),
             code, words)

    offsets(2,
            ["add (i32): expected an integer from -2147483648 to 2147483647, got '1099511627776'"],
            add=str(2**40))
    offsets(2, ["add (i32): expected an integer", "got '2147483648'"], add=str(2**31))
    offsets(2, ["add (i32): expected an integer", "got '1.5'"], add="1.5")
    offsets(2, ["flag (i1): expected an integer from 0 to 1, got '2'"], flag="2")
    offsets(2, ["base (i64): expected an integer from -9223372036854775808"], base=str(2**63))
    offsets(2, ["half (f16): expected a number from -65504 to 65504, got '65520'"], half="65520")
    offsets(2, ["half (f16): expected a number, got '1x'"], half="1x")
    large = 2**62 + 1  # not representable as a double
    says(f"run offsets out=256 base={large} add=-3 flag=1 half=2 --check --out-dir {folder}", 0,
         ["right"])
    expect(data_of("out.npy", "q", 256)[:2] == (large - 1, large), data_of("out.npy", "q", 256)[:2])


def generated_integers():
    says(f"run gather out=1000 index=out:0..99 table=100 --check --out-dir {folder}", 0, ["right"])
    expect(len(set(data_of("out.npy", "f", 1000))) > 50, "indices differ")
    says("run gather out=1000 index=out:0..99 table=100:2..2 --check", 0, ["right"])
    expect(ligerdsl.run("--load", kernels,
                        *"run gather out=1000 index=out:5..5 table=100:-1..1 --out-dir "
                         f"{folder}".split())[0] == 0,
           "gather")
    values = data_of("out.npy", "f", 1000)
    expect(len(set(values)) == 1 and -1 <= values[0] <= 1, values[:3])
    says(f"run gather out=1000 index=out:0..99 table=100:5..6 --check --out-dir {folder}", 0,
         ["right"])
    values = data_of("out.npy", "f", 1000)
    expect(min(values) >= 5 and max(values) <= 6 and max(values) - min(values) > 0.5,
           f"{min(values)} to {max(values)} of 5 to 6")
    for text, words in (("index=1000:7", "expected LOW..HIGH after the colon"),
                        ("index=1000:9..2", "index: expected LOW <= HIGH, got 9..2"),
                        ("index=1000:0..3e9", "index (i32): expected an integer"),
                        ("index=table:0..1", "name of another view")):
        says(f"run gather out=1000 {text} table=100", 2, [words])


def files_and_launch_settings():
    index = write_npy("index.npy", "<i4", "i", [3, 1, 2])
    table = write_npy("table.npy", "<f4", "f", [10.0, 11.0, 12.0, 13.0])
    says(f"run gather out=index --in index={index} --in table={table} num_warps=4 no_alias=1 "
         f"max_registers=64 --check --out-dir {folder}",
         0, ["right"])
    expect(data_of("out.npy", "f", 3) == (13.0, 11.0, 12.0), "the rows of a file")
    says(f"bench --list gather out=index --in index={index} --in table={table}", 0,
         ["gather", "40 B"])
    says(f"bench --in index={index}", 2, ["--in needs a kernel"])
    for text, words in (("num_warps=3", "num_warps: expected a power of two from 1 to 32, got 3"),
                        ("num_warps=64", "num_warps: expected an integer from 1 to 32"),
                        ("num_stages=0", "num_stages: expected"),
                        ("no_alias=2", "no_alias: expected"),
                        ("num_warp=4", "did you mean 'num_warps'?")):
        says(f"run gather out=3 index=3 table=1 {text}", 2, [words])
    says(f"run quantise out=3 x=3 --in step={table} step=1", 2, ["step is a scalar"])
    reported = ligerdsl.json("--load", kernels, "bench",
                             *f"gather out=index --in index={index} --in table={table} num_warps=8 "
                              "--budget-ms 2".split())
    expect(reported["results"][0]["settings"].endswith("num_warps=8")
           and reported["results"][0]["bytes"] == 40,
           reported)


def launch_settings_reach_the_launch():
    """The fake driver runs nothing, so the test reads the dump of the code compiled for the
    launch."""
    for command in ("run", "bench --budget-ms 1 --copy-bytes 1000"):
        dumps = folder / f"dumps-{command[:3]}"
        asked = (f"--device cuda:0 {command} gather out=1000 index=out:0..99 table=100 num_warps=8 "
                 "max_registers=64 min_ctas_per_sm=3 no_alias=1")
        got, text, errors = ligerdsl.run("--load", kernels, *asked.split(),
                                         LIGERDSL_LIBCUDA=fake_cuda, LIGERDSL_CACHE="off",
                                         LIGERDSL_DUMP="ptx", LIGERDSL_DUMP_DIR=str(dumps))
        written = [path.read_text() for path in dumps.glob("*/05-kernel.ptx")]
        gathers = [ptx for ptx in written if ".entry ligerdsl_gather" in ptx]
        expect(got == 0 and gathers, f"{asked}: exit {got}, {len(written)} dumps\n{text}{errors}")
        for ptx in gathers:
            for directive in (".reqntid 256", ".maxnreg 64", ".minnctapersm 3"):
                expect(directive in ptx, f"{command}: no {directive} in\n{ptx[:1500]}")


def checked_before_it_runs():
    """An index outside the table would, on a device, read any memory or crash the command."""
    says("run gather out=8 index=out:1000000000..1000000001 table=4 --check", 2,
         ["loaded_kernels.cpp:", "error: load", "outside the memory"])
    says("run gather out=8 index=out:-1..-1 table=4 --check", 2, ["loaded_kernels.cpp:"])


def finds_faults():
    """Finds faults that a comparison of two results would miss, and one that it would find."""
    says("run faulty y=7x41 x=y --check", 0, ["right"])
    says("run faulty fault=1 y=7x41 x=y --check", 1,
         ["NOT WRITTEN: 41 of 287 elements, the first is [246]", "y=SHAPE:0..0"], absent=["right"])
    # `:0..0` declares that y has contents before the launch, so unwritten elements are no fault
    says("run faulty fault=1 y=7x41:0..0 x=y --check", 0, ["right"])
    says("run faulty fault=2 y=7x41 x=y --check", 2,
         ["loaded_kernels.cpp:",
          "error: store_tile: program 1 writes this element and program 2 writes another"])
    says("run faulty fault=3 y=7x41 x=y --check", 1, ["WRONG: ", "beyond", "expected"],
         absent=["right"])
    says("run faulty fault=4 y=7x41 x=y:2..3 --check", 2,
         ["loaded_kernels.cpp:",
          "rem: division by zero in element 41; if the divisor is outside its view"])
    entry = ligerdsl.json("--load", kernels, "run", *"faulty fault=1 y=7x41 x=y --check".split(),
                          code=1)
    expect(entry and entry[0]["not_written"] == 41 and entry[0]["beyond_gate"] == 0, entry)


def integers_made_from_floats():
    # Every x / step is close to k + 1/2, so f32 and double may round it to different integers.
    step = struct.unpack("<f", struct.pack("<f", 0.1))[0]
    values = (
        [struct.unpack("<f", struct.pack("<f", (k + 0.5) * 0.1))[0] for k in range(-100, 100)] * 5)
    x = write_npy("x.npy", "<f4", "f", values)
    exact = [int((value / step + 0.5) // 1) for value in values]
    says(f"run quantise out=x --in x={x} step=0.1 --check --out-dir {folder}", 0, ["right"])
    expect(list(data_of("out.npy", "b", len(values))) != exact, "no value tells f32 from double")
    says("run quantise out=20000 x=out step=0.05 --check", 0, ["right"])
    says("run quantise out=20000 x=out step=0.05 type=bf16 --check", 0, ["right"])


def numbers_of_fp8():
    x = write_npy("numbers.npy", "<f4", "f", [1, -0.3, 500, 1e-3, -1e9])
    for kind, codes, numbers in (
            ("f8e4m3", (0x38, 0xaa, 0x7e, 0x01, 0xfe), (1, -0.3125, 448, 2**-9, -448)),
            ("f8e5m2", (0x3c, 0xb5, 0x60, 0x14, 0xfb), (1, -0.3125, 512, 2**-10, -57344))):
        says(f"run encode type={kind} out=x --in x={x} scale=1 --check --out-dir {folder}", 0,
             ["right", kind])
        expect(
            data_of("out.npy", "B", 5) == codes and b"'|u1'" in (folder / "out.npy").read_bytes(),
            data_of("out.npy", "B", 5))
        (folder / "out.npy").rename(folder / "codes.npy")
        says(f"run decode type={kind} out=x --in x={folder}/codes.npy --check --out-dir {folder}",
             0, ["right"])
        expect(data_of("out.npy", "f", 5) == numbers, data_of("out.npy", "f", 5))
        says(f"run decode type={kind} out=x --in x={x} --check", 0, ["right"])
        says(f"run encode type={kind} out=3000 x=out scale=0.5 --check", 0, ["right"])
        says(f"run decode type={kind} out=3000 x=out --check", 0, ["right"])
        largest = {"f8e4m3": 448, "f8e5m2": 57344}[kind]
        says(f"run encode type={kind} out=3 x=3 scale=60000", 2,
             [f"scale ({kind}): expected a number from -{largest} to {largest}, got '60000'"])
        bench = f"decode type={kind} out=x --in x={folder}/codes.npy"
        says(f"bench --list {bench}", 0, ["decode", f"type={kind}", "25 B"])
        for arguments, moved in ((bench, 25),
                                 (f"encode type={kind} out=3000 x=out scale=0.5", 15000)):
            measured = ligerdsl.json("--load", kernels, "bench", *arguments.split(), "--budget-ms",
                                     "2")["results"][0]
            expect(measured["bytes"] == moved and f"type={kind}" in measured["settings"]
                   and measured["median_ms"] > 0,
                   measured)
        says(f"bench encode type={kind} out=3 x=3 scale=60000", 2,
             [f"scale ({kind}): expected a number from -{largest} to {largest}"])
    says(f"run quantise out=5 step=1 --in x={folder}/codes.npy", 2,
         ["expected f32, got |u1 (uint8), which is read as fp8 codes"])


def bits_of_nans():
    """Targets may give different NaNs: these elements are not compared, all others are."""
    codes = write_npy("every_code.npy", "|u1", "B", range(256))
    halves = write_npy("halves.npy", "<f2", "H",
                       [0x3c00, 0x7c01, 0xfe00, 0xffff, 0x8000, 0x7c00, 0xfc00, 1])
    for kind, bits, x in (("f8e4m3", "i8", codes), ("f8e5m2", "i8", codes), ("f16", "i16", halves)):
        say = f"run bits type={kind} bits={bits} out=x kind=x --in x={x} --check"
        says(say, 0, ["right"], absent=["WRONG"])
        says(f"{say} fault=true rows=2x41", 1, ["WRONG: "])
    says("run bits type=f32 bits=i32 out=300 kind=out x=out --check", 0, ["right"])


def overflows():
    """An overflow in f32 but not in float64 is reported as wrong, with its reason, with and without
    rounding."""
    x = write_npy("large.npy", "<f4", "f", [1.0] * 5 + [100.0])
    for whole in ("", " whole=true"):
        says(f"run overflowing out=x x=600{whole} --check", 0, ["right"])
        says(f"run overflowing out=x --in x={x}{whole} --check", 1,
             ["WRONG: 1 of 6 elements beyond",
              "[5] is nan, expected 0: an intermediate value is too large for its type"])


def validates():
    """LIGERDSL_VALIDATE works as in the C ABI: it names broken promises and NaNs made from
    numbers."""
    x = write_npy("made.npy", "<f4", "f", [1.0, 100.0])
    for arguments, words in (
            ("faulty fault=5 y=7x41 x=y", ["loaded_kernels.cpp:", "assume: the assumption"]),
            (f"overflowing out=x --in x={x}", ["`out` holds a NaN at [1]"])):
        expect(ligerdsl.run("--load", kernels, "run", *arguments.split())[0] == 0,
               f"{arguments}: it runs where nobody looks")
        code, output, errors = ligerdsl.run("--load", kernels, "run", *arguments.split(),
                                            LIGERDSL_VALIDATE="1")
        expect(code == 4 and all(word in errors for word in [*words, "LIGERDSL_VALIDATE"]),
               f"{arguments}: exit {code}\n{output}{errors}")
    code, output, errors = ligerdsl.run("--load", kernels, "run", "faulty", "fault=5", "y=4x41",
                                        "x=y", LIGERDSL_VALIDATE="1")
    expect(code == 0, f"a promise that holds: exit {code}\n{output}{errors}")
    atomic = ["--load", kernels, "run", "faulty", "fault=6", "y=4x41", "x=y"]
    expect(ligerdsl.run(*atomic)[0] == 0, "atomic sums run where nobody asks for one order")
    code, output, errors = ligerdsl.run(*atomic, LIGERDSL_DETERMINISTIC="1")
    expect(code == 4 and "loaded_kernels.cpp:" in errors and "LIGERDSL_DETERMINISTIC" in errors,
           f"exit {code}\n{output}{errors}")


def kernels_of_a_target():
    """A kernel that reads its device is recorded for --device; LIGERDSL_CPU chooses the
    processor."""
    def command(*arguments, **environment):
        return ligerdsl.run("--load", kernels, *arguments, **environment)

    for words, device, environment in (("[?, 64]", "cpu", {"LIGERDSL_CPU": "x86-64-v2"}),
                                       ("[?, 128]", "cpu", {"LIGERDSL_CPU": "x86-64-v3"}),
                                       ("[?, 2048]", "cuda", {"LIGERDSL_LIBCUDA": fake_cuda})):
        code, output, errors = command("--device", device, "list", **environment)
        expect(code == 0 and words in output,
               f"{device} {environment}: exit {code}, expected {words} in\n{output}{errors}")
    code, output, errors = command("--device", "cuda", "list", LIGERDSL_LIBCUDA="/nothing")
    expect(code == 3, f"list for a device that is not here: exit {code}\n{output}{errors}")
    code, output, errors = command("bench", "for_target", "y=4x64", "--list",
                                   LIGERDSL_CPU="x86-64-v2")
    expect(code == 0 and "1.00 KiB" in output, f"exit {code}\n{output}{errors}")
    code, output, errors = command("bench", "for_target", "y=4x128", "--list",
                                   LIGERDSL_CPU="x86-64-v2")
    expect(code == 2 and "expected the size 64 in dimension 1" in errors,
           f"exit {code}\n{output}{errors}")
    for target, width in (("sm_90a", 2048), ("sm_120", 1536)):
        says(f"compile for_target --target {target} --emit program", 0, [f"f32[?, {width}]"])


lists_arguments()
kernels_of_a_target()
validates()
names_that_shadow()
arguments_that_are_missing()
scalars_of_their_types()
generated_integers()
files_and_launch_settings()
launch_settings_reach_the_launch()
checked_before_it_runs()
finds_faults()
integers_made_from_floats()
numbers_of_fp8()
bits_of_nans()
overflows()
shared.finish()
