"""Record of a release in results/VERSION.json: the verdict, commit and date of each mutant."""
import datetime
import json
import re

NOT_RUN = "not run"
VERDICTS = ("killed", "survived", NOT_RUN)


def version(root):
    return re.search(r"project\(ligerdsl VERSION ([\d.]+)",
                     (root / "CMakeLists.txt").read_text())[1]


def path(root):
    return root / "tests" / "mutation" / "results" / f"{version(root)}.json"


class Record:
    def __init__(self, file):
        self.file = file
        self.entries = json.loads(file.read_text()) if file.exists() else {}

    def of(self, mutant):
        """Returns the entry of a mutant. A verdict on an earlier text of it does not count."""
        entry = self.entries.get(mutant.name, {})
        return entry if entry.get("digest") == mutant.digest() else {"digest": mutant.digest(),
                                                                     "verdict": NOT_RUN}

    def is_run(self, mutant):
        return self.of(mutant)["verdict"] != NOT_RUN

    def set(self, mutant, verdict, step, test, commit):
        day = datetime.date.today().isoformat()
        self.entries[mutant.name] = {"digest": mutant.digest(), "verdict": verdict, "step": step,
                                     "test": test, "commit": commit, "date": day}

    def write(self, mutants):
        """Writes exactly these mutants, in their order."""
        self.entries = {mutant.name: self.of(mutant) for mutant in mutants}
        self.file.parent.mkdir(exist_ok=True)
        lines = [
            f"  {json.dumps(name)}: {json.dumps(entry)}" for name, entry in self.entries.items()]
        self.file.write_text("{\n" + ",\n".join(lines) + "\n}\n")

    def faults(self, mutants, complete):
        """Yields one line per fault of the record. `complete` requires that every mutant was
        run."""
        names = {mutant.name for mutant in mutants}
        for name in self.entries.keys() - names:
            yield f"{name}: recorded, but not in mutants.txt; run.py --record removes the entry"
        for mutant in mutants:
            entry = self.entries.get(mutant.name)
            if not entry or entry["digest"] != mutant.digest():
                yield (f"{mutant.name}: {'changed since it was run' if entry else 'not recorded'}; "
                       f"run.py --record {mutant.name}")
            elif entry["verdict"] not in VERDICTS:
                yield (f"{mutant.name}: recorded as {entry['verdict']!r}; expected one of "
                       f"{', '.join(VERDICTS)}")
            elif entry["verdict"] == "survived":
                yield f"{mutant.name}: survived; write a test that detects it, then run it again"
            elif complete and entry["verdict"] == NOT_RUN:
                yield f"{mutant.name}: not run; run.py --record {mutant.name}"

    def summary(self):
        verdicts = [entry["verdict"] for entry in self.entries.values()]
        return ", ".join(f"{verdicts.count(verdict)} {verdict}" for verdict in VERDICTS)
