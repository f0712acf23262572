"""Tests that help, manual pages and completion agree, and that bash and zsh complete on a terminal.

Usage: manual_test.py COMMAND KERNELS.so FOLDER
"""

import os
import pathlib
import pty
import re
import select
import shutil
import subprocess
import sys
import time

from command import Command, expect
import command


def sections(text):
    """Returns the names of commands and options on a help page."""
    commands, options, here = [], [], None
    for line in text.splitlines():
        if line and not line.startswith(" "):
            here = line
        elif here == "Subcommands:" and re.match(r"  [a-z]", line):
            commands.append(line.split()[0])
        elif here == "Options:" and re.match(r"  -", line):
            options += line.split()[0].split(",")
    return commands, options


def candidates(ligerdsl, *words):
    code, out, errors = ligerdsl.run("complete", "ligerdsl", *words)
    expect(code == 0 and not errors, f"complete {words}: {code} {errors}")
    return [line.split("\t")[0] for line in out.splitlines()]


def tree(ligerdsl, path=()):
    """Yields each command as (path, commands, options, text), as --help lists them."""
    code, text, errors = ligerdsl.run(*path, "--help")
    expect(code == 0, errors)
    commands, options = sections(text)
    yield path, commands, options, text
    for name in commands:
        yield from tree(ligerdsl, (*path, name))


def plain(page):
    """Returns the text of a manual page without markup."""
    return re.sub(r"\\f[A-Z]", "", page).replace("\\-", "-").replace("\\&", "").replace("\\e", "\\")


def test_help_pages_and_completion_agree(ligerdsl, pages):
    names = set()
    for path, commands, options, text in tree(ligerdsl):
        expect("--help" in options, f"{path}: {options}")
        expect(set(candidates(ligerdsl, *path, "-")) >= set(options),
               f"{path}: completion of options lacks {options}")
        if path != ("help",):
            expect(set(commands) <= set(candidates(ligerdsl, *path, "")) or not commands,
                   f"{path}: completion of {commands}")
        code, again, errors = ligerdsl.run("help", *path)
        expect(code == 0 and sections(again) == (commands, options),
               f"help {path}: {again}{errors}")
        name = "ligerdsl" + (f"-{path[0]}" if path else "")
        names.add(name + ".1")
        page = plain((pages / f"{name}.1").read_text())
        for word in [*options, *commands, *path]:
            expect(re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", page),
                   f"{name}.1 lacks {word}")
    expect({page.name for page in pages.iterdir()} == names, f"{names}")
    expect(len(names) > 8, f"{names}")


def test_pages_are_clean(pages):
    for page in pages.iterdir():
        for lint in (["mandoc", "-Tlint", "-W", "warning"],
                     ["groff", "-ww", "-man", "-Tutf8", "-z"],
                     ["man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8"]):
            done = subprocess.run([*lint, str(page)], stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, text=True)
            said = done.stderr + (done.stdout if lint[0] == "mandoc" else "")
            expect(done.returncode == 0 and not said, f"{lint[0]} {page.name}: {said}")


def test_candidates(ligerdsl, kernels):
    for words, some, none in [
        (["compile", "rms"], ["rms_norm_forward", "rms_norm_backward"], ["list"]),
        (["compile", "rms_norm_forward", ""], ["dtype=", "H=", "config.num_warps="], ["--emit"]),
        (["compile", "rms_norm_forward", "dtype="], ["dtype=bf16"], ["dtype="]),
        (["compile", "rms_norm_forward", "config.keep="], ["config.keep=shared"], []),
        (["compile", "--emit", "t"], ["tile", "tgpu"], ["ptx"]),
        (["compile", "--emit=t"], ["--emit=tile"], ["tile"]),
        (["compile", "--target", "sm_9"], ["sm_90a"], ["cpu"]),
        (["compile", "vector_add", "-o", ""], [":files"], []),
        (["tune", "--strategy", ""], ["guided", "random", "exhaustive"], []),
        (["bench", "--model", "llama-3-8"], ["llama-3-8b"], []),
        (["list", "--device", ""], ["cpu", "cuda:0"], []),
        (["table", "m"], ["merge"], ["ls"]),
        (["help", "table", ""], ["merge", "ls"], ["tune"]),
        (["tune", "su"], [], ["sums"]),
        (["--load", kernels, "tune", "su"], ["sums"], []),
        (["tune", f"--load={kernels}", "sums", ""], ["part=", "x=", "num_warps="], ["dtype="]),
        (["--load", kernels, "tune", "sums", "part="], ["part=16", "part=256"], []),
        (["cache", "trim", "--dr"], ["--dry-run"], []),
        (["complet"], [], ["complete"]),
    ]:
        found = candidates(ligerdsl, *words)
        expect(set(some) <= set(found) and not set(none) & set(found), f"{words}: {found}")
    expect("softmax_forward" in candidates(ligerdsl, "tune", "--nothing", "soft"),
           "an option that is none is passed over")
    code, out, errors = ligerdsl.run("complete", "ligerdsl", "--load", "/nowhere.so", "tune", "")
    expect(out == "" and code != 0, f"{code}: {out}")


BASH = ('PS1="> "; bind "set bell-style none"; bind "set enable-bracketed-paste off"; '
        'source "{script}"; ligerdsl() {{ echo "GOT[$*]"; }}\n')
# The script is installed in a folder of fpath, where zsh finds it by its file name at the first
# completion.
ZSH = ('PS1="> "; unsetopt zle_bracketed_paste beep prompt_sp; fpath=("{folder}" $fpath); '
       'autoload -Uz compinit; compinit -u -d "{folder}/zcompdump"; '
       'ligerdsl() {{ print -r -- "GOT[$*]"; }}\n')


def completed(shell, start, folder, environment, typed):
    """Returns the arguments that the shell passes to the command after `typed`, tabs included."""
    master, slave = pty.openpty()
    process = subprocess.Popen(shell, stdin=slave, stdout=slave, stderr=slave, env=environment,
                               cwd=folder, start_new_session=True)
    os.close(slave)

    def read_until(pattern):
        text, until = "", time.monotonic() + 20
        while time.monotonic() < until and not re.search(pattern, text):
            if select.select([master], [], [], 0.1)[0]:
                try:
                    text += os.read(master, 65536).decode(errors="replace")
                except OSError:  # the shell has ended
                    break
        return text

    try:
        os.write(master, start.encode() + b"echo READY$((1+1))\n")
        said = read_until("READY2")
        os.write(master, typed.encode())
        time.sleep(1)  # the shell drops input during a completion
        os.write(master, b"\n")
        said += read_until(r"GOT\[[^\]$]*\]\r")
        found = re.findall(r"GOT\[([^\]$]*)\]\r", said)
        return found[-1] if found else f"nothing in {said!r}"
    finally:
        process.kill()
        process.wait()
        os.close(master)


def test_shells(ligerdsl, kernels, folder):
    place = folder / "place"
    (place / "bin").mkdir(parents=True)
    (place / "bin/ligerdsl").symlink_to(ligerdsl.path)
    (place / "tables.json").write_text("")
    environment = ligerdsl.environment | {"PATH": f"{place}/bin:{os.environ['PATH']}",
                                          "TERM": "dumb", "HOME": str(place), "ZDOTDIR": str(place)}
    shells = [("bash", ["bash", "--norc", "--noprofile", "-i"], BASH),
              ("zsh", ["zsh", "-f", "-i"], ZSH)]
    for name, shell, start in shells:
        script = folder / "_ligerdsl" if name == "zsh" else folder / "ligerdsl"
        code, text, errors = ligerdsl.run("generate", name)
        script.write_text(text)
        done = subprocess.run([name, "-n", str(script)], capture_output=True, text=True)
        expect(done.returncode == 0 and not done.stderr, f"{name} -n: {done.stderr}")
        for typed, wanted in [
                ("ligerdsl expl\t", "explain"),
                ("ligerdsl compile rms_norm_f\tcast\tg\t",
                 "compile rms_norm_forward casting=gemma"),
                ("ligerdsl compile vector_add --emit=prog\t", "compile vector_add --emit=program"),
                ("ligerdsl table mer\ttab\t", "table merge tables.json"),
                (f"ligerdsl --load {kernels} tune sum\tpar\t25\t",
                 f"--load {kernels} tune sums part=256"),
                ("ligerdsl tune --strategy exh\t", "tune --strategy exhaustive"),
        ]:
            got = completed(shell, start.format(script=script, folder=folder), place, environment,
                            typed)
            expect(got.split() == wanted.split(),
                   f"{name}: '{typed}' became '{got}', not '{wanted}'")


def test_suggestions_name_the_nearest(ligerdsl, kernels):
    for arguments, meant in [
            (["tabel"], "table"), (["table", "lss"], "ls"), (["help", "tabel"], "table"),
            (["help", "table", "marge"], "merge"), (["list", "--jsn", "-"], "--json"),
            (["table", "merge", "--outptu", "x"], "--output"),
            (["compile", "vectr_add"], "vector_add"),
            (["compile", "vector_add", "dtpe=f32"], "dtype"),
            (["compile", "vector_add", "dtype=bf61"], "bf16"),
            (["compile", "rms_norm_forward", "config.num_wraps=8"], "config.num_warps"),
            (["compile", "rms_norm_forward", "config.keep=sharde"], "shared"),
            (["compile", "vector_add", "--emit", "prgram"], "program"),
            (["compile", "vector_add", "--target", "sm_90b"], "sm_90"),
            (["compile", "vector_add", "--variant", "alined"], "aligned"),
            (["--device", "cdua:0", "list"], "cuda:0"), (["--color", "nver", "list"], "never"),
            (["tune", "softmax_forward", "--strategy", "guidd"], "guided"),
            (["tune", "softmax_forward", "--bits", "rwo"], "row"),
            (["bench", "--model", "lama-3-8b"], "llama-3-8b"),
            (["--load", kernels, "run", "suns"], "sums"),
            (["--load", kernels, "run", "faulty", "fault=nnoe", "y=4", "x=4"], "none"),
            (["--load", kernels, "run", "sums", "prt=64", "y=4", "x=4x4"], "part"),
    ]:
        code, out, errors = ligerdsl.run(*arguments)
        expect(code == 2 and f"did you mean '{meant}" in errors,
               f"{arguments}: exit {code}: {errors}")


def main():
    path, kernels, folder = (os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2]),
                             pathlib.Path(sys.argv[3]).resolve())
    shutil.rmtree(folder, ignore_errors=True)
    pages = folder / "man1"
    pages.mkdir(parents=True)
    ligerdsl = Command(path, folder / "cache")
    code, _, errors = ligerdsl.run("generate", "man", pages)
    expect(code == 0, errors)
    test_help_pages_and_completion_agree(ligerdsl, pages)
    test_pages_are_clean(pages)
    test_candidates(ligerdsl, kernels)
    test_suggestions_name_the_nearest(ligerdsl, kernels)
    test_shells(ligerdsl, kernels, folder)
    sys.exit(1 if command.failures else 0)


if __name__ == "__main__":
    main()
