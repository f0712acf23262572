"""Reads mutants.txt: the replacement of each mutant, its file, and the steps that may detect it."""
import dataclasses
import hashlib


@dataclasses.dataclass
class Mutant:
    name: str
    why: str
    file: str
    steps: list
    old: str
    new: str

    def digest(self):
        """Identifies the replacement, because a verdict holds for this text only. The file may
        move."""
        return hashlib.sha256("\0".join([self.old, self.new]).encode()).hexdigest()[:16]

    def fits(self, root):
        """Returns True if its text occurs exactly once in its file."""
        return (root / self.file).read_text().count(self.old) == 1


def parse(text):
    mutants = []
    for block in text.split("\n== ")[1:]:
        head, _, rest = block.partition("\n---\n")
        old, _, new = rest.partition("\n+++\n") if "\n+++\n" in rest else rest.partition("\n+++")
        title, *lines = head.splitlines()
        name, _, why = title.partition(": ")
        fields = dict(line.split(" ", 1) for line in lines)
        mutants.append(Mutant(name, why, fields["file"], fields["steps"].split(), old.strip("\n"),
                              new.strip("\n")))
    return mutants
