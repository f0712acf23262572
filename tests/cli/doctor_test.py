"""doctor_test.py COMMAND FOLDER: reports of `ligerdsl doctor` about missing components, and its
exit code."""

import os
import pathlib
import shutil
import subprocess
import sys

import command as shared
from command import Command, expect

path, folder = sys.argv[1], pathlib.Path(sys.argv[2])
shutil.rmtree(folder, ignore_errors=True)
folder.mkdir(parents=True)
cache = folder / "cache"
ligerdsl = Command(path, cache)
ligerdsl.environment |= {"LIGERDSL_LIBCUDA": "/nowhere/libcuda.so"}  # hides the driver


def finding(subject, code=0, **environment):
    report = ligerdsl.json("doctor", code=code, **environment)
    found = [one for one in report.get("findings", []) if one["subject"] == subject]
    expect(len(found) > 0, f"{subject}: no finding in {report}")
    return found[-1] if found else {"state": "", "text": "", "remedy": "", "works": False}


def says(subject, state, words, code=0, **environment):
    found = finding(subject, code, **environment)
    text = found["text"] + "; " + found["remedy"]
    missing = [word for word in words if word not in text]
    expect(found["state"] == state and found["works"] == (state == "works") and not missing,
           f"{subject} {environment}: state {found['state']}, expected {state}; missing {missing} "
           f"in\n{text}")


def the_cache():
    says("cache", "works", [str(cache), " 1 entry, ", "of 1.00 GiB"])
    says("cache", "works", ["of 2.00 MiB"], LIGERDSL_CACHE_SIZE="2M")
    expect(not [file for file in cache.iterdir() if file.name.startswith(".")],
           "the probe leaves nothing")
    says("cache", "works", ["LIGERDSL_CACHE is ro", "none is stored"], LIGERDSL_CACHE="ro")
    says("cache", "off", ["LIGERDSL_CACHE is off", "unset LIGERDSL_CACHE"], LIGERDSL_CACHE="off")
    says("cache", "absent", [str(folder / "none"), "No such file", "mkdir -m 700"],
         LIGERDSL_CACHE="ro", LIGERDSL_CACHE_DIR=str(folder / "none"))
    expect(not (folder / "none").exists(), "ro creates nothing")
    (folder / "file").write_text("")
    says("cache", "absent", ["not a folder", "LIGERDSL_CACHE_DIR"],
         LIGERDSL_CACHE_DIR=str(folder / "file"))
    says("cache", "absent", [f'"{folder}/file": Not a directory', "LIGERDSL_CACHE_DIR"],
         LIGERDSL_CACHE_DIR=str(folder / "file/below/it"))
    (folder / "link").symlink_to(cache)
    says("cache", "absent", ["symlink", "LIGERDSL_CACHE_DIR"],
         LIGERDSL_CACHE_DIR=str(folder / "link"))
    (folder / "open").mkdir()
    (folder / "open").chmod(0o777)
    says("cache", "absent", ["writable by group or world", "chmod 700"],
         LIGERDSL_CACHE_DIR=str(folder / "open"))
    says("cache", "absent", ["HOME", "LIGERDSL_CACHE_DIR"], LIGERDSL_CACHE_DIR=None,
         XDG_CACHE_HOME=None, HOME=None)
    required = {"LIGERDSL_CACHE": "required", "LIGERDSL_CACHE_DIR": str(folder / "file")}
    says("cache", "BROKEN", ["not a folder"], code=1, **required)
    if os.geteuid() == 0:
        (folder / "foreign").mkdir()
        os.chown(folder / "foreign", 65534, 65534)
        says("cache", "absent", ["another user", "LIGERDSL_CACHE_DIR"],
             LIGERDSL_CACHE_DIR=str(folder / "foreign"))
    else:
        print("[SKIP] giving a folder to another user needs root")
        (folder / "closed").mkdir(mode=0o500)
        says("cache", "absent", ["read but not written: Permission denied", "chmod u+rwx"],
             LIGERDSL_CACHE_DIR=str(folder / "closed"))
        says("cache", "absent", [f'"{folder}/closed/below": Permission denied'],
             LIGERDSL_CACHE_DIR=str(folder / "closed/below/it"))


def a_disk_that_is_full_or_read_only():
    disk = folder / "disk"
    disk.mkdir()
    for options, words in (
            ("size=64k,mode=700", ["read but not written: No space left on device", "cache trim"]),
            ("size=64k,mode=700,ro",
             ["read but not written: Read-only file system", "LIGERDSL_CACHE_DIR"])):
        before = ["unshare", "-rm", "sh", "-c",
                  f'mount -t tmpfs -o {options} none "{disk}" && exec "$@"', "sh"]
        if subprocess.run([*before, "true"], capture_output=True).returncode != 0:
            print("[SKIP] mounting a small file system is not permitted here")
            return
        says("cache", "absent", words, before=before, LIGERDSL_CACHE_DIR=str(disk))


def libraries_and_programs():
    says("cblas", "absent", ["/nowhere.so", "libopenblas0"], LIGERDSL_LIBCBLAS="/nowhere.so")
    says("cublaslt", "absent", ["/nowhere.so", "LIGERDSL_LIBCUBLASLT"],
         LIGERDSL_LIBCUBLASLT="/nowhere.so")
    says("cuda driver", "absent", ["/nowhere/libcuda.so"])
    says("worker", "works", ["compile-worker", "120 s", "4096 MiB"])
    says("worker", "works", ["not used"], LIGERDSL_COMPILE="thread")
    says("worker", "BROKEN", ["/nowhere/worker", "LIGERDSL_COMPILE_WORKER"], code=1,
         LIGERDSL_COMPILE_WORKER="/nowhere/worker")
    says("compiler", "BROKEN", ["/nowhere.so", "LIGERDSL_COMPILER"], code=1,
         LIGERDSL_COMPILER="/nowhere.so")
    for name in ("ptxas", "cuobjdump", "gnuplot"):
        says(name, "absent", ["not in PATH", "install"], PATH="/nowhere:")
    programs = folder / "bin"
    programs.mkdir()
    for name in ("ptxas", "cuobjdump"):
        (programs / name).write_text("#!/bin/sh\n")
    (programs / "ptxas").chmod(0o755)
    says("ptxas", "works",
         [str(programs / "ptxas"), "--version printed nothing (exit status 0)", "--emit"],
         PATH=f"/nowhere:{programs}")
    for text, version in (("echo 'ptxas: Ptx optimizing assembler'; echo 'Cuda compilation tools, "
                           "release 12.9, V12.9.41'",
                           "release 12.9, V12.9.41"),
                          ("echo; echo plain 5.4; echo more", "plain 5.4, for"),
                          ("exit 3", "--version failed (exit status 3)")):
        (programs / "ptxas").write_text(f"#!/bin/sh\n[ \"$1\" = --version ] || exit 9\n{text}\n")
        says("ptxas", "works", [str(programs / "ptxas"), version], PATH=f"/nowhere:{programs}")
    says("cuobjdump", "absent", ["not in PATH"], PATH=str(programs))  # exists, not executable
    cblas = finding("cblas")
    if cblas["works"]:
        expect(".so" in cblas["text"] and cblas["text"].startswith("/"), cblas)
        expect("openblas" not in cblas["text"].lower() or "kernels for" in cblas["text"], cblas)
    else:
        print("[SKIP] there is no CBLAS here")


def the_environment():
    says("environment", "wrong", ["LIGERDSL_CACHE_SIZE", "much"], LIGERDSL_CACHE_SIZE="much")
    says("environment", "wrong", ["/nowhere/log", '"/nowhere": No such file'],
         LIGERDSL_LOG_FILE="/nowhere/log")
    variables = {row["name"]: row["value"]
                 for row in ligerdsl.json("doctor", LIGERDSL_CACHE_SIZE="3M")["environment"]}
    expect(variables.get("LIGERDSL_CACHE_SIZE") == "3M" and "LIGERDSL_NO_JIT" in variables,
           variables)
    code, output, _ = ligerdsl.run("doctor", LIGERDSL_CACHE="off")
    expect(code == 0 and "off" in output and "unset LIGERDSL_CACHE" in output, output)


the_cache()
a_disk_that_is_full_or_read_only()
libraries_and_programs()
the_environment()
shared.finish()
