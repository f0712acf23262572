"""cli_test.py COMMAND plain|compiled FOLDER: runs the command on every row of a table and checks
exit code and output.

Each row has arguments, an exit code, and words that stdout or stderr must contain.
"""

import json
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

from command import SMALL_FLUSH, expect, finish

command, part, folder = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "lib/codegen"))
from ops import OPS  # noqa: E402

# For these operations, with the options and widths in their rows, `program` must bind all kernel
# arguments for both targets. It needs no compiler.
RECORDED = [op.name for op in OPS] + [
    f"{op.name} {settings}" for op in OPS for settings in op.recorded]

# Operations that `check` compares with their float64 references, with the settings in their rows.
CHECKED = [f"{op.name} {settings}" for op in OPS for settings in op.checked]

PLAIN = [
    ("--version", 0, ["ligerdsl 0.", " commit "]),
    ("--help", 0, ["doctor", "compile", "bench"]),
    ("check", 2, ["nothing to check", "--all"]),
    ("check --all vector_add", 2, ["got both"]),
    ("check vector_ad", 2, ["no operation is named 'vector_ad'", "vector_add"]),
    ("check --help", 0, ["--all", "Check every operation of the library"]),
    ("help", 0, ["doctor", "compile", "bench"]),
    ("help table import", 0, ["ligerdsl table import", "--output"]),
    ("help tune extra", 2, ["tune has no subcommands", "extra"]),
    ("help tune --store", 2, ["help has no option '--store'; it is an option of tune"]),
    ("help table tune", 2, ["unknown command 'table tune'", "import"]),
    ("help tabel", 2, ["did you mean 'table'"]),
    ("", 2, ["subcommand"]),
    ("frobnicate", 2, []),
    ("list", 0, ["rms_norm_forward", "cross_entropy"]),
    ("nonsense", 2, ["unknown command 'nonsense'", "doctor", "bench"]),
    ("lst", 2, ["unknown command 'lst' (did you mean 'list'?)"]),
    ("--frob", 2, ["unknown option '--frob'", "--help"]),
    ("--frob list", 2, ["unknown option '--frob'"]),
    ("list --jsn -", 2, ["unknown option '--jsn' (did you mean '--json'?)"]),
    ("list --frob=3", 2, ["unknown option '--frob'\n", "ligerdsl list --help"]),
    ("bench --budget 3", 2, ["bench has no option '--budget'; it is an option of tune"]),
    ("compile vector_add --variant factors --target sm_90a", 2,
     ["--variant operands: only kernels that multiply tiles have this variant"]),
    ("run vector_add --emit ptx", 2, ["run has no option '--emit'; it is an option of compile"]),
    ("--emit ptx", 2, ["'--emit' must follow its command: compile"]),
    ("list extra", 2, ["list: unexpected argument 'extra'"]),
    *[(f"bench --budget-ms {value}", 2,
       ["--budget-ms: expected a number from 0.001 to 3600000", f"got '{value}'"])
      for value in ("-1", "0", "nan", "inf", "5x", "1e9")],
    *[(f"bench --copy-bytes {value}", 2,
       ["--copy-bytes: expected a number from 1 to 1000000000000"])
      for value in ("-1", "0", "1e20", "1k")],
    *[(f"bench --rows {value}", 2, ["--rows: expected an integer from 1 to 2147483647"])
      for value in ("-1", "1.5", "9999999999", "8x")],
    *[(f"list --threads {value}", 2, ["--threads: expected an integer from 0 to 4096"])
      for value in ("-1", "4097", "4x", "99999999999999999999")],
    *[(f"list --device {value}", 2, ["--device"])
      for value in ("tpu", "cuda:", "cuda:x", "cuda:4x", "cuda:-1", "cuda:99999999999")],
    ("bench rope --axis S", 2, ["'S': expected name=value"]),
    ("bench rope --axis S=", 2, ["a value is missing"]),
    ("bench rope --axis S=1,,2", 2, ["a value is missing"]),
    ("bench rope --axis S=1:8", 2, ["expected FIRST:LAST*FACTOR or FIRST:LAST+STEP, got '1:8'"]),
    ("bench rope --axis S=8:1*2", 2, ["expected an integer from 8 to"]),
    ("bench rope --axis S=1:8*1", 2, ["expected an integer from 2 to"]),
    ("bench rope --axis S=0:8*2", 2, ["expected an integer from 1 to"]),
    ("bench rope --axis S=1:8+0", 2, ["expected an integer from 1 to"]),
    ("bench rope --axis S=1:1000000+1", 2, ["at most 1000 values"]),
    ("bench rope --axis S=1:500+1 --axis B=1:500+1", 2,
     ["at most 10000 combinations of values, got 250000"]),
    ("bench rope S=4 --axis S=1,2", 2, ["--axis S: also given as the setting S="]),
    ("bench --axis S=1,2", 2, ["--axis needs a kernel"]),
    ("bench vector_add --list --axis N=100:250+50,1000", 0,
     ["N=100", "N=150", "N=200", "N=250", "N=1000"]),
    ("bench softmax_forward N=8 --list --axis H=1024:20000*2", 0, ["H=1024", "H=16384"]),
    ("bench vector_add --plot bench.pdf", 2,
     ["expected a file name that ends in .svg or .png, got 'bench.pdf'"]),
    ("bench vector_add --vs /no/such/file.json", 2, ["cannot read /no/such/file.json"]),
    ("bench vector_add --vs /dev/null", 2, ["that `ligerdsl bench --json` writes"]),
    ("bench vector_add --tolerance -1", 2, ["--tolerance: expected a number from 0 to 1000"]),
    ("bench no_such_kernel", 2, ["no operation is named 'no_such_kernel'", "ligerdsl list"]),
    ("bench --set nothing", 2, ["unknown set or model 'nothing'", "paper", "llama-3-70b"]),
    ("bench rope --set paper", 2, ["got both: rope and --set paper"]),
    ("bench rope --rows 64", 2, ["--rows needs --set"]),
    ("bench --rows 0", 2, ["--rows"]),
    ("bench --list", 0, ["fused_linear_cross_entropy", "target_counts", "N=16384 H=4096"]),
    ("bench --list --device cuda:0", 0, ["N=16384 F=14336", "1.31 GiB"]),
    ("bench --list --set paper --rows 1e2", 0, ["N=100 H=2048"]),
    ("bench --list --set paper --set widths --rows 64", 0, ["N=64 H=131072", "V=262144", "F=29568"
                                                            ]),
    *[(f"bench --list --model {name}", 0,
       [f"H={model['hidden']}", f"V={model['vocab']}", f"F={model['ffn']}"])
      for name, model in json.loads((ROOT /
                                     "lib/cli/bench/shapes.json").read_text())["models"].items()],
    ("compile vector_add nonsense=1 --emit program", 2, ["has no setting 'nonsense'", "in_place"]),
    ("compile vector_add inplace=1 --emit program", 2, ["(did you mean 'in_place'?)"]),
    ("compile vector_ad --emit program", 2,
     ["no operation is named 'vector_ad' (did you mean 'vector_add'?)"]),
    ("compile vector_add dtype=bf17 --emit program", 2,
     ["dtype: expected one of bf16, f16, f32", "(did you mean 'bf16'?)"]),
    ("compile vector_add in_place=bf16 --emit program", 2,
     ["in_place: expected one of false, true"]),
    ("compile vector_add in_place=2 --emit program", 2, ["`in_place`: expected 0 to 1, got 2"]),
    ("compile vector_add in_place=99999999999 --emit program", 2,
     ["in_place: expected an integer"]),
    ("compile rms_norm_forward casting=lama --emit program", 2,
     ["casting: expected one of gemma, llama, none", "(did you mean 'llama'?)"]),
    ("compile rms_norm_forward eps=1e-6x --emit program", 2,
     ["eps: expected a number, got '1e-6x'"]),
    ("compile rms_norm_forward eps=1e300 --emit program", 2,
     ["eps: expected a number in the range of f32"]),
    *[(f"compile vector_add N={value} --emit program", 2,
       ["N: expected an integer from 0 to 1099511627776", f"got '{value}'"])
      for value in ("4x", "-1", "1.5", "bf16", "1e30", "nan", "")],
    ("compile rms_norm_forward n_cols=64 H=65 --emit program", 2,
     ["H is 64 by n_cols=64, but 65 by H=65"]),
    ("compile rms_norm_forward n_cols=64 H=64 --emit program", 0, ["program "]),
    ("bench --list --set paperr", 2, ["(did you mean 'paper'?)"]),
    ("compile vector_add dtype=i64 --emit program", 2, ["`dtype`", "got i64"]),
    ("compile vector_add dtype --emit program", 2, ["name=value"]),
    ("compile rms_norm_forward eps=-1 --emit program", 2, ["`eps`", ">= 0"]),
    *[(f"compile vector_add --emit {stage} --target {target}", 2,
       [f"--target: unknown target '{target}'", "expected one of cpu, sm_80, ", "sm_120a"])
      for target in ("z80", "sm_9999", "sm_", "sm_90b", "sm_35") for stage in ("program", "ptx")],
    ("compile vector_add --target SM_90A --emit program", 2, ["(did you mean 'sm_90a'?)"]),
    ("compile vector_add --emit nonsense", 2, ["nonsense", "tile"]),
    ("run vector_add --device tpu", 2, ["--device", "tpu"]),
    ("run vector_add --in a=/nowhere.npy", 2, ["/nowhere.npy", "cannot be read"]),
    ("list --load /nowhere.so", 2, ["/nowhere.so"]),
] + [(f"compile {line} --emit program --target {target}", 0, ["program "])
     for line in RECORDED
     for target in ("cpu", "sm_90a")]

COMPILED = [
    ("compile matmul_nt dtype=bf16 K=768 N=50257 --variant operands --target sm_90a --emit ptx", 0,
     ["wgmma.mma_async", "st.global.b16"]),
    # Layout conversions must leave enough shared memory for the default ring, so that the kernel
    # still loads by TMA copies.
    ("compile matmul_tn dtype=bf16 c_dtype=f32 beta=1 n_rows=128256 n_cols=4096 K=1024 --target "
     "sm_90a --emit ptx",
     0, ["wgmma.mma_async", "cp.async.bulk.tensor", "red.relaxed.gpu.global.add.v4.f32"]),
    ("doctor", 0, ["compiler", "returned correct results on", " commit "]),
    ("compile vector_add dtype=bf16 --emit tile", 0, ["tile."]),
    ("compile vector_add --emit llvm --target cpu", 0, ["define "]),
    ("compile vector_add --emit asm --target cpu", 0, ["ret"]),
    ("compile vector_add dtype=bf16 --emit ptx --target sm_90a", 0,
     [".entry ligerdsl_vector_add_bf16", "ld.global", ".v4"]),
    ("compile softmax_forward --emit ptx", 0, [".target sm_90a"]),
    ("compile vector_add --emit tgpu --target cpu", 2, ["tgpu", "no such stage"]),
    ("compile softmax_forward H=1000000 --emit remarks --target sm_80", 0,
     ["softmax.cpp:",
      "remark: [place-tiles] resident rows: not cached: sm_80 has no bulk copies"]),
    ("run vector_add N=10 dtype=f32 N=20", 2, ["N: given twice; the second time as 'N=20'"]),
    ("compile rms_norm_forward dtype=bf16 H=8192 --target sm_90a --emit config", 0,
     ["rms_norm_forward config.keep=registers config.rows=1 config.num_warps=16 config.vectors=0 "
      "config.num_ctas=1 config.min_ctas_per_sm=4"]),
    ("compile rms_norm_forward dtype=bf16 H=8192 --target sm_90a config.num_warps=8 "
     "config.min_ctas_per_sm=3",
     0, [".reqntid 256", ".minnctapersm 3"]),
    ("compile rms_norm_forward dtype=bf16 H=8192 --target sm_90a config.num_warps=1", 2,
     ["expected at most 16, got 32", "use more warps"]),
    ("compile rms_norm_forward config.num_warp=8", 2,
     ["no setting 'config.num_warp'", "did you mean 'config.num_warps'", "config.keep"]),
    ("compile rms_norm_forward config.num_warps=3", 2,
     ["config.num_warps: expected one of 1, 2, 4, 8, 16, 32, got '3'"]),
    ("compile rms_norm_forward config.keep=register", 2,
     ["config.keep", "did you mean 'registers'"]),
    ("compile target_counts config.num_warps=8", 2, ["target_counts has no schedule to choose"]),
    ("compile target_counts --emit config", 2, ["target_counts has no schedule to choose"]),
    ("compile layer_norm_forward H=65536 --target sm_120 config.num_ctas=16", 2,
     ["num_ctas: expected at most 8 on sm_120, got 16"]),
    ("compile embedding_backward H=512 config.block=1024", 2,
     ["wider than a row", "block=512 or less"]),
    ("compile fused_linear_cross_entropy --emit config", 0, ["cross_entropy config.keep="]),
    ("run rms_norm_forward H=4096 N=8 config.keep=shared config.vectors=1 config.num_warps=4 "
     "--check",
     0, ["right"]),
    ("run layer_norm_backward H=4096 N=80 config.rows=2 config.vectors=8 config.num_warps=8 "
     "--check",
     0, ["right"]),
    ("run embedding_backward N=700 H=100 V=50 config.chunk=32 config.rows=2 config.scan=512 "
     "config.part=512 --check",
     0, ["right"]),
    ("run embedding_forward N=50 H=1000 config.vectors=1 config.num_warps=2 --check", 0, ["right"]),
    ("run adamw_step N=5000 config.vectors=2 config.num_warps=2 --check", 0, ["right"]),
    ("run cross_entropy_backward N=50 V=1000 config.rows=4 --check", 0, ["right"]),
    ("bench softmax_forward N=64 H=100 config.rows=4 --budget-ms 20 --copy-bytes 1048576", 0,
     ["config.rows=4", "GB/s"]),
    ("run rope rotary_dim=65 D=64", 2, ["rotary_dim", "65"]),
    ("run rope layout=multimodal time_section=1 D=64", 2, ["time_section", "32"]),
    ("run target_counts N=3 V=0 with_class_weight=0", 0, ["counts"]),
    ("run vector_add N=1099511627776", 4, ["memory"]),
    ("run group_norm_forward N=1 C=1 K=1 S=2147483647", 2,
     ["`n_positions`: expected groups of at most 2^30 elements"]),
    ("run cross_entropy temperature=1e-30", 2,
     ["`temperature`: expected 0, or 1e-04 <= temperature <= 1e+30, got 1e-30"]),
    ("run cross_entropy N=20 V=100 temperature=1e-4 --check", 0, ["right"]),
    ("run rope B=1099511627776 S=1099511627776", 2, ["larger than any memory"]),
    ("bench vector_add N=100000 --budget-ms 20 --copy-bytes 1048576", 0,
     ["GB/s", "of copy", "median"]),
]


def run(arguments, **environment):
    result = subprocess.run([command] + arguments, capture_output=True, text=True,
                            env={**os.environ, **SMALL_FLUSH, **environment})
    return result.returncode, result.stdout + result.stderr, result.stdout


def table(rows):
    for line, code, words in rows:
        got, output, _ = run(line.split())
        missing = [word for word in words if word not in output]
        expect(got == code and not missing,
               f"ligerdsl {line}\n  exit {got}, expected {code}; missing {missing}\n"
               f"{output[-1500:]}")


def write_npy(path, values):
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({len(values)},), }}"
    header += " " * (63 - (10 + len(header)) % 64) + "\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode()
                     + struct.pack(f"<{len(values)}f", *values))


def contradictions():
    """--in, settings and other arrays may give contradictory sizes."""
    write_npy(folder / "three.npy", [1.0, 2.0, 3.0])
    write_npy(folder / "four.npy", [1.0, 2.0, 3.0, 4.0])
    three, four = f"{folder}/three.npy", f"{folder}/four.npy"
    for arguments, code, words in (
            (["vector_add", "--in", f"a={three}", "N=3"], 0, ["[3]"]),
            (["vector_add", "--in", f"a={three}", "N=4"], 2,
             ["N is 4 by N=4, but 3 by --in a=" + three + " of shape [3]"]),
            (["vector_add", "--in", f"a={three}", "--in", f"b={four}"], 2,
             [f"--in a={three} of shape [3]", f"--in b={four} of shape [4]"]),
            (["vector_add", "--in", f"a={three}", "--in", f"a={four}"], 2, ["--in a: given twice"]),
            (["vector_add", "--in", f"c={three}"], 2, ["no tensor 'c'", "a, b, out"]),
            (["rms_norm_forward", "--in", f"weight={three}", "n_cols=4"], 2,
             ["H is 4 by n_cols=4, but 3 by --in weight="]),
            (["rms_norm_forward", "--in", f"weight={three}", "N=2", "--check"], 0,
             ["[2, 3]", "right"]),
            (["swiglu_forward", "fused=1", "--in", f"gate_up={three}"], 2,
             ["a multiple of 2", "3"]),
            (["rms_norm_backward", "N=2", "--in", f"weight={three}", "--in", f"rstd={three}"], 2,
             ["N is 2 by N=2, but 3 by --in rstd="]),
            (["cross_entropy", "V=5", "reduction=none", "with_class_weight=1", "--in",
              f"class_weight={four}"],
             2, ["V is 5 by V=5, but 4"]),
            (["cross_entropy_backward", "per_row=1", "V=2", "N=3", "--in", f"d_loss={three}"], 0,
             ["[3, 2]"])):
        got, output, _ = run(["run", *arguments])
        expect(got == code and all(word in output for word in words),
               f"run {arguments}: {got}\n{output[-800:]}")


def empty_values():
    for arguments in (["compile", "vector_add", "--output"], ["compile", "vector_add", "--target"],
                      ["list", "--json"], ["run", "vector_add", "--out-dir"],
                      ["bench", "--list", "--set"], ["cache", "trim", "--to"]):
        code, output, text = run([*arguments, ""])
        expect(code == 2 and f"{arguments[-1]}: expected a value, got ''" in output + text,
               f"{arguments}: exit {code}\n{output}{text}")


def files_and_json():
    write_npy(folder / "a.npy", [1.0, 2.0, 3.0])
    write_npy(folder / "b.npy", [0.5, 0.25, -3.0])
    code, output, text = run(["run", "vector_add", "--in", f"a={folder}/a.npy", "--in",
                              f"b={folder}/b.npy", "--out-dir", str(folder), "--check", "--json",
                              "-"])
    expect(code == 0, output)
    entry = json.loads(text)[0] if code == 0 else {}
    expect(entry.get("output") == "out" and entry.get("shape") == [3]
           and entry.get("beyond_gate") == 0,
           output)
    expect(code == 0
           and struct.unpack("<3f", (folder / "out.npy").read_bytes()[-12:]) == (1.5, 2.25, 0.0),
           "out.npy")
    code, output, text = run(["bench", "vector_add", "N=1000", "--budget-ms", "5", "--copy-bytes",
                              "1000000", "--json", "-"])
    expect(code == 0 and json.loads(text)["results"][0]["gb_per_s"] > 0, output)
    # beyond the inputs, the only buffer is `out` (1,000 f32 numbers): there is no workspace
    expect(code == 0 and json.loads(text)["results"][0]["peak_bytes"] == 4000, output)
    code, output, _ = run(["bench", "swiglu_forward", "N=10", "F=100", "--budget-ms", "5",
                           "--copy-bytes", "1000000", "--plot", str(folder / "bench.svg"), "--json",
                           str(folder / "bench.json")])
    bars = ElementTree.parse(folder / "bench.svg").findall(
        ".//{http://www.w3.org/2000/svg}polygon") if code == 0 else []
    bars = [bar for bar in bars if bar.get("fill", "").replace(" ", "") == "rgb(47,126,216)"]
    expect(len(bars) == 1 and json.loads((folder / "bench.json").read_text())["failures"] == [],
           output)
    code, output, _ = run(["bench", "vector_add", "N=10", "--budget-ms", "1", "--copy-bytes",
                           "1000", "--plot", "/no/such/folder/x.svg"])
    expect(code == 4 and "cannot write" in output, output)


def bench_over_axes():
    quick = ["--budget-ms", "2", "--copy-bytes", "1000000"]
    earlier = folder / "earlier.json"
    code, output, text = run(["bench", "softmax_forward", "N=8", "--axis", "H=64:256*2", "--axis",
                              "dtype=f32,bf16", *quick, "--json", str(earlier), "--plot",
                              str(folder / "axis.svg")])
    expect(code == 0, output)
    results = json.loads(earlier.read_text())["results"] if code == 0 else []
    sizes = (64, 64, 128, 128, 256, 256)
    expect(len(results) == 6
           and all(f"H={h}" in r["settings"] and ("bf16" in r["settings"]) == (i % 2 == 1)
                   for i, (r, h) in enumerate(zip(results, sizes))),
           f"{[r['settings'] for r in results]}")
    drawing = ElementTree.parse(folder / "axis.svg") if code == 0 else None
    words = ([t.text.strip() for t in drawing.iter("{http://www.w3.org/2000/svg}text") if t.text]
             if drawing else [])
    expect({"H", "GB/s", "dtype=f32", "dtype=bf16"} <= set(words), f"{words}")
    points = [g for g in drawing.iter("{http://www.w3.org/2000/svg}use")] if drawing else []
    expect(len([p for p in points if "translate" in p.get("transform", "")]) == 6 + 2,
           "six points, two of the key")

    code, output, _ = run(["bench", "vector_add", "--axis", "N=1000,2000", *quick, "--plot",
                           str(folder / "axis.png")])
    expect(code == 0 and (folder / "axis.png").read_bytes().startswith(b"\x89PNG"), output)

    def against(change, *options, cases=("--axis", "H=64:256*2")):
        other = json.loads(earlier.read_text())
        for result in other["results"]:
            for name in ("median_ms", "q20_ms", "q80_ms"):
                result[name] *= change
        (folder / "other.json").write_text(json.dumps(other))
        code, errors, text = run(["bench", "softmax_forward", "N=8", *cases, "--axis", "dtype=f32",
                                  *quick, "--vs", str(folder / "other.json"), "--json", "-",
                                  *options])
        return code, errors, json.loads(text)["results"] if text.startswith("{") else []

    hostile = json.loads(earlier.read_text()) | {"build": "b\x1b[31m\nligerdsl: all is well\t",
                                                 "date": "\x1b]0;title\x07"}
    (folder / "hostile.json").write_text(json.dumps(hostile))
    code, output, text = run(["bench", "softmax_forward", "N=8", "--axis", "H=64:256*2", "--axis",
                              "dtype=f32", *quick, "--tolerance", "1000", "--vs",
                              str(folder / "hostile.json")])
    shown = next((line for line in text.splitlines() if line.startswith("earlier: ")), "")
    expect(code == 0 and "build b\\x1b[31m\\nligerdsl: all is well\\t, " in shown
           and "\\x1b]0;title\\x07" in shown,
           output)
    expect(
        "\x1b" not in output and "\x07" not in output and "\nligerdsl: all is well" not in output,
        repr(output))
    for name, text, said in [
            ("deep", '{"results": ' + "[" * 1000000, "levels deep"),
            ("twice", '{"results": [], "results": []}', "twice"), ("list", "[]", "bench --json"),
            ("type", json.dumps(hostile | {"results": 7}), "bench --json"),
            ("negative",
             json.dumps(hostile | {"results": [hostile["results"][0] | {"median_ms": -1}]}),
             "above 0"), ("none", json.dumps(hostile | {"results": []}), "none of these cases")]:
        (folder / "odd.json").write_text(text)
        code, output, _ = run(["bench", "softmax_forward", "N=8", *quick, "--vs",
                               str(folder / "odd.json")])
        expect(code == 2 and said in output, f"--vs, {name}: exit {code}: {output}")
    code, output, _ = run(["bench", "softmax_forward", *quick, "--vs", str(folder)])
    expect(code == 2 and "--vs: " in output, output)

    # If the device, driver, cache state or thread count changed, `bench` measures nothing and the
    # error names both values.
    for name, value, said in [
            ("device", "Another CPU", '"Another CPU"'), ("threads", 4711, "threads then 4711"),
            ("cold", False, "warm caches"), ("driver", 12080, "driver then 12080")]:
        (folder / "other.json").write_text(
            json.dumps(json.loads(earlier.read_text()) | {name: value}))
        code, output, text = run(["bench", "softmax_forward", "N=8", "--axis", "H=64:256*2",
                                  "--axis", "dtype=f32", *quick, "--vs",
                                  str(folder / "other.json")])
        expect(code == 5 and said in output and ", now " in output and not text,
               f"{name}: exit {code}: {output}{text}")
    # A slowdown by more than kNeverNoise (1.5) counts as slower even if the earlier times vary
    # more. A smaller slowdown within their spread does not count.
    for change, always in ((1 / 50, True), (1, False)):
        other = json.loads(earlier.read_text())
        for result in other["results"]:
            result |= {"median_ms": result["median_ms"] * change, "q20_ms": result["q20_ms"] * 1e-3,
                       "q80_ms": result["q80_ms"] * 1e3}
        (folder / "wide.json").write_text(json.dumps(other))
        code, output, text = run(["bench", "softmax_forward", "N=8", "--axis", "H=64:256*2",
                                  "--axis", "dtype=f32", *quick, "--vs", str(folder / "wide.json"),
                                  "--json", "-"])
        rows = json.loads(text)["results"] if text.startswith("{") else []
        expect(len(rows) == 3
               and all(r["significant"] == (r["of_earlier"] > 1.5 or r["of_earlier"] < 1 / 1.5)
                       for r in rows),
               f"{rows}")
        expect(
            all(r["slower"] == (r["of_earlier"] > 1.5) for r in rows) and (not always or code == 1),
            f"exit {code}: {rows}")

    code, errors, results = against(1e-3)
    expect(code == 1 and "3 cases are slower by more than 5 %" in errors
           and all(r["slower"] and r["of_earlier"] > 1.05 for r in results),
           errors)
    code, errors, results = against(1e3)
    expect(code == 0 and all(not r["slower"] and r["of_earlier"] < 1 for r in results), errors)
    code, errors, results = against(1 / 3, "--tolerance", "1000")
    expect(code == 0 and len(results) == 3, errors)
    code, errors, results = against(1e3, cases=("--axis", "H=64,100"))
    expect(code == 0 and results and results[1]["of_earlier"] is None and not results[1]["slower"],
           errors)
    code, errors, _ = against(1, cases=("--axis", "H=99,100"))
    expect(code == 2 and "none of these cases" in errors, errors)


def remarks_as_data():
    code, output, text = run(
        "compile softmax_forward H=1000000 --emit remarks --target sm_80 --json -".split())
    expect(code == 0, output)
    kernels = json.loads(text) if code == 0 else []
    remarks = [remark for kernel in kernels for remark in kernel["remarks"]
               if remark["pass"] == "place-tiles"]
    expect(len(remarks) == 1 and remarks[0]["file"].endswith("softmax.cpp")
           and remarks[0]["line"] > 0 and remarks[0]["column"] > 0
           and remarks[0]["text"].startswith("resident rows: not cached: sm_80")
           and remarks[0]["id"] == "no-bulk-copies",
           output)


def schedules_as_data():
    code, output, text = run("compile layer_norm_forward H=65536 config.num_warps=8 --target "
                             "sm_90a --emit config --json -".split())
    expect(code == 0, output)
    fields = {field["name"]: field for field in json.loads(text)[0]["config"]} if code == 0 else {}
    expect(fields.get("keep") == {"name": "keep", "type": "enum", "value": "cluster",
                                  "choices": ["registers", "shared", "cluster"], "changes": "row"},
           output)
    expect(fields.get("num_warps", {}).get("value") == "8", output)


def schedules_are_settings():
    """Settings printed by --emit config give the same schedule and code, and settings override the
    heuristic."""
    for kernel in ["rms_norm_forward dtype=bf16 H=8192", "layer_norm_backward dtype=bf16 H=1024",
                   "cross_entropy dtype=bf16 V=128256", "adamw_step",
                   "embedding_backward H=512 V=1000", "rope D=128", "swiglu_forward F=4096"]:
        for target in ["sm_90a", "sm_120", "cpu"]:
            given = [*kernel.split(), "--target", target]
            code, output, text = run(["compile", *given, "--emit", "config"])
            settings = text.split()[1:]
            expect(code == 0 and settings
                   and all(setting.startswith("config.") for setting in settings),
                   output)
            expect(run(["compile", *given, *settings, "--emit", "config"])[2] == text,
                   f"{kernel} {target}: {text}")
            programs = [
                run(["compile", *given, *more, "--emit", "program"]) for more in ([], settings)]
            expect(programs[0][0] == 0 and programs[0][2] == programs[1][2],
                   f"{kernel} {target}: another program")
    other = [run(f"compile adamw_step --target sm_90a {setting} --emit program".split())[2]
             for setting in ("", "config.vectors=2")]
    expect(other[0] != other[1], "config.vectors=2 changes nothing")


def checks_against_references():
    """The check uses the reference, not the program: LLAMA casting rounds twice, the reference does
    not."""
    code, output, text = run(
        "run rms_norm_forward dtype=bf16 casting=llama N=2 H=64 --check --json -".split())
    errors = (
        {one["output"]: one["max_error_of_scale"] for one in json.loads(text)} if code == 0 else {})
    expect(0 < errors.get("y", 0) < 1e-2, output)
    checked = [op.name for op in OPS if op.checked]
    operations = [one["name"] for one in json.loads(run(["list", "--json", "-"])[2])["operations"]]
    expect(checked == operations, f"rows with checks {checked}, operations {operations}")


def checks_operations():
    """`check` runs each operation once, and a fault makes its exit code 1."""
    operations = [one["name"] for one in json.loads(run(["list", "--json", "-"])[2])["operations"]]
    code, output, text = run(["check", "--all", "--json", "-"])
    checked = json.loads(text)
    expect([one["operation"] for one in checked] == operations, output)
    faults = [fault for one in checked for fault in one["faults"]]
    expect(code == (1 if faults else 0), f"check --all: exit {code}\n{faults}")
    expect(all("CBLAS" in fault for fault in faults), f"check --all: {faults}")
    code, output, text = run(["check", "softmax_forward", "vector_add"])
    expect(code == 0 and "2 of 2 operations right on cpu" in text, f"exit {code}\n{output}{text}")
    code, output, text = run(["check", "vector_add"], LIGERDSL_COMPILER="/missing/compiler.so",
                             LIGERDSL_CACHE="off")
    expect(code == 4 and "the compiler cannot be loaded" in output, f"exit {code}\n{output}{text}")


def every_operation_is_right():
    """All outputs of an operation are compared, and they are not the zeros of fresh memory."""
    results = folder / "checked"
    for line in CHECKED:
        shutil.rmtree(results, ignore_errors=True)
        code, output, text = run(
            ["run", *line.split(), "--check", "--json", "-", "--out-dir",
             str(results)])
        if code == 4 and "CBLAS" in output:
            print(f"[SKIP] there is no CBLAS here for {line}")
            continue
        expect(code == 0, f"{line}: exit {code}\n{output}")
        outputs = json.loads(text) if code == 0 else []
        expect(outputs and all(one["beyond_gate"] == 0 for one in outputs), f"{line}\n{output}")
        payloads = [(results / f"{one['output']}.npy").read_bytes()[128:] for one in outputs
                    if 0 not in one["shape"]]
        expect(any(any(payload) for payload in payloads) or re.search(r"\b[NMK]=0\b", line),
               f"{line}: all outputs are zeros\n{output}")


def compiles_in_a_process():
    norm = "compile rms_norm_forward dtype=bf16 --target sm_90a".split()
    plain = run(norm, LIGERDSL_COMPILE="thread")
    expect(plain[0] == 0 and run(norm) == plain, "a worker's PTX is a thread's")
    # from too little memory to enough: no limit may crash the command
    for megabytes in ("1", "64", "80", "96", "128", "4096"):
        code, output, _ = run(norm, LIGERDSL_COMPILE_MEGABYTES=megabytes)
        expect(code == 0 or (code == 4
                             and ("MEGABYTES" in output or "libligerdsl-compiler.so" in output
                                  or "compile-worker" in output)),
               f"{megabytes} MiB: exit {code}\n{output[-500:]}")
        expect(code == 0 or megabytes != "4096", "4 GiB are enough")
    # If a compile worker fails, it must leave a file that reproduces the compile.
    code, output, _ = run(norm, LIGERDSL_COMPILE_WORKER="/bin/false",
                          LIGERDSL_REPRODUCER_DIR=str(folder))
    files = list(folder.glob("*.reproducer"))
    expect(code == 4 and "exit status 1" in output and len(files) == 1 and str(files[0]) in output,
           output)
    expect(files and run(["compile", str(files[0])]) == plain,
           "the reproducer compiles to the same PTX")
    expect(files and run(["compile", str(files[0]), "--emit", "tile"])[0] == 0,
           "the reproducer's tile IR")
    expect(run(["compile", str(folder / "missing.reproducer")])[0] == 2, "a missing reproducer")


shutil.rmtree(folder, ignore_errors=True)
folder.mkdir(parents=True)
table(PLAIN if part == "plain" else COMPILED)
if part == "plain":
    empty_values()
if part == "compiled":
    contradictions()
    files_and_json()
    bench_over_axes()
    remarks_as_data()
    checks_operations()
    every_operation_is_right()
    schedules_as_data()
    schedules_are_settings()
    checks_against_references()
    compiles_in_a_process()
finish()
