"""build_info_test.py ROOT CMAKE FOLDER: tests the scripts that write build id and commit, on small
trees."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT, CMAKE, FOLDER = (pathlib.Path(sys.argv[1]), shutil.which(sys.argv[2]),
                       pathlib.Path(sys.argv[3]))
FOLDERS = ("compiler", "dsl", "kernels", "runtime", "lib")
sys.path.insert(0, str(ROOT / "bench"))

from results import build_fields  # noqa: E402


def environment(**more):
    """Returns the environment without settings of the user or of a git hook that runs this test."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return {**kept, "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null", "LC_ALL": "C",
            **more}


class Tree(unittest.TestCase):
    """A copy of the scripts with a source in each folder."""

    def setUp(self):
        FOLDER.mkdir(parents=True, exist_ok=True)
        self.place = pathlib.Path(tempfile.mkdtemp(dir=FOLDER))
        self.addCleanup(shutil.rmtree, self.place, ignore_errors=True)
        self.root = self.place / "tree"
        shutil.copytree(ROOT / ".cmake", self.root / ".cmake")
        (self.root / "CMakeLists.txt").write_text("project(x)\n")
        for folder in FOLDERS:
            (self.root / folder / "deep").mkdir(parents=True)
            (self.root / folder / "deep" / "a.cpp").write_text("int a;\n")
            (self.root / folder / "README.md").write_text("text\n")

    def git(self, *arguments, where=None):
        subprocess.run(["git", "-c", "user.name=n", "-c", "user.email=e", "-C", where or self.root,
                        *arguments],
                       check=True, env=environment(), stdout=subprocess.DEVNULL)

    def script(self, name, expected, **more):
        out = self.place / name
        subprocess.run([CMAKE, f"-DOUT={out}", f"-DROOT={self.root}", "-DVERSION=1",
                        "-DFLAGS=" + more.pop("flags", ""), "-P", self.root / ".cmake" / name],
                       check=True, env=environment(**more))
        text = out.read_text()
        self.assertRegex(text, expected)
        return text

    def build_id(self, **more):
        return self.script("build_id.cmake", r'LIGERDSL_BUILD_ID "1-[0-9a-f]{16}"\n', **more)

    def commit(self, **more):
        text = self.script("commit.cmake", r'LIGERDSL_COMMIT " commit .*"\n', **more)
        return re.search(r'"(.*)"', text)[1]


class Commit(Tree):
    def setUp(self):
        super().setUp()
        self.git("init", "-q")
        self.git("add", ".")
        self.git("commit", "-qm", "one")

    def test_only_sources_of_binaries_make_it_dirty(self):
        clean = self.commit()
        self.assertRegex(clean, "^ commit [0-9a-f]{40} clean$")
        (self.root / "lib" / "README.md").write_text("other\n")
        (self.root / "kernels" / "notes.txt").write_text("not in git\n")
        (self.root / "bench").mkdir()
        (self.root / "bench" / "new.py").write_text("\n")
        self.assertEqual(self.commit(), clean)
        for file in (*(f"{folder}/deep/a.cpp" for folder in FOLDERS), "lib/untracked.cpp",
                     ".cmake/build_id.cmake", "CMakeLists.txt"):
            before = (self.root / file).read_text() if (self.root / file).exists() else None
            (self.root / file).write_text((before or "") + "\n")
            self.assertEqual(self.commit(), clean.replace("clean", "dirty"), file)
            (self.root / file).unlink() if before is None else (self.root / file).write_text(before)
        self.assertEqual(self.commit(), clean)

    def test_the_header_is_written_when_it_changes_only(self):
        self.commit()
        out = self.place / "commit.cmake"
        os.utime(out, ns=(1, 1))
        self.commit()
        self.assertEqual(out.stat().st_mtime_ns, 1)
        self.git("commit", "-q", "--allow-empty", "-m", "two")
        self.commit()
        self.assertNotEqual(out.stat().st_mtime_ns, 1)

    def test_a_shallow_clone_knows_its_commit(self):
        self.git("clone", "-q", "--depth", "1", f"file://{self.root}", self.place / "clone")
        expected, self.root = self.commit(), self.place / "clone"
        self.assertEqual(self.commit(), expected)

    def test_commit_is_unknown_without_git_or_trust(self):
        (self.place / "empty").mkdir()
        self.assertEqual(self.commit(PATH=str(self.place / "empty")), " commit unknown")
        self.assertEqual(self.commit(GIT_TEST_ASSUME_DIFFERENT_OWNER="1"), " commit unknown")

    def test_variables_of_a_hook_are_ignored(self):
        clean = self.commit()
        self.assertEqual(self.commit(GIT_DIR="/nowhere", GIT_INDEX_FILE="/nowhere/index",
                                     GIT_WORK_TREE="/nowhere"),
                         clean)

    def test_build_id_does_not_contain_the_commit(self):
        before = self.build_id()
        (self.root / "lib" / "README.md").write_text("other\n")
        self.git("commit", "-qam", "two")
        self.assertEqual(self.build_id(), before)


class Archive(Tree):
    def test_an_unpacked_archive_has_no_commit(self):
        self.assertEqual(self.commit(), " commit unknown")
        self.git("init", "-q", where=self.place)  # another project's checkout contains the archive
        self.git("add", ".", where=self.place)
        self.git("commit", "-qm", "of something else", where=self.place)
        self.assertEqual(self.commit(), " commit unknown")

    def test_every_source_and_flag_is_in_the_build_id(self):
        seen = {self.build_id()}
        for file in (*(f"{folder}/deep/a.cpp" for folder in FOLDERS), "lib/codegen.py", "lib/x.in",
                     "compiler/a.td", "runtime/CMakeLists.txt", "CMakeLists.txt",
                     ".cmake/commit.cmake"):
            with open(self.root / file, "a") as source:
                source.write("# more\n")
            self.assertNotIn(self.build_id(), seen, file)
            seen.add(self.build_id())
        (self.root / "dsl" / "deep" / "a.cpp").rename(self.root / "dsl" / "deep" / "b.cpp")
        self.assertNotIn(self.build_id(), seen)
        self.assertNotEqual(self.build_id(flags="Debug"), self.build_id(flags="Release"))


class Fields(unittest.TestCase):
    def test_build_text_is_parsed(self):
        commit = "0123456789abcdef" * 2 + "01234567"
        for text, fields in ((f"0.1.0-x commit {commit} clean", (commit, False)),
                             (f"0.1.0-x commit {commit} dirty", (commit, True)),
                             ("0.1.0-x commit unknown", (None, False)), ("0.1.0-x", (None, False)),
                             ("", (None, False))):
            self.assertEqual(build_fields(text),
                             {"build": text, "commit": fields[0], "dirty": fields[1]})


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
