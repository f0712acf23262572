"""Tests `ligerdsl report`: the page of a store of trials, as a browser shows it.

Usage: report_test.py COMMAND FOLDER
"""

import json
import pathlib
import random
import re
import shutil
import sys
from html.parser import HTMLParser

from browser import Browser
from command import Command, expect
import command

DEVICE = {"arch": "sm_90a", "units": 132, "model": "NVIDIA H200", "driver": 12080, "ptx": 88}
CHOICES = {"keep": ["registers", "shared"], "num_warps": [1, 2, 4, 8, 16], "rows": [1, 2, 4],
           "stages": [1, 2, 3, 4], "vector": [1, 2, 4, 8], "cluster": [1, 2, 4]}
HEURISTIC = {"keep": "registers", "num_warps": 4, "rows": 1, "stages": 2, "vector": 4, "cluster": 1}
SEED = 7


def text(config):
    return " ".join(f"{name}={value}" for name, value in sorted(config.items()))


def trial(operation, config, fate="ok", ratio=1.0, samples=5, elapsed=0.0, reason="", **more):
    return {"key": f"{operation} {text(config)} {samples}",
            "operation": operation,
            "kernel": operation,
            "version": 1,
            "options": "cols=4096 type=bf16",
            "config": text(config),
            "heuristic": config == HEURISTIC,
            "device": DEVICE,
            "build": "0.1.0-abcdef",
            "problems": ["dtype=bf16 H=4096 N=1024", "dtype=bf16 H=4096 N=16384"],
            "fate": fate,
            "reason": reason,
            "us": [9.0 * ratio, 120.0 * ratio] if fate in ("ok", "slow") else [],
            "heuristic_us": [9.0, 120.0] if fate in ("ok", "slow") else [],
            "ratio": ratio if fate in ("ok", "slow") else 0,
            "samples": samples,
            "resources": [{"kernel": operation, "registers": 64, "spill_bytes": 0}],
            "date": "2026-11-23T02:41:51Z",
            "elapsed": elapsed,
            "ceiling": {"copy_gb_per_s": 4100.0, "copy_bytes": 2 << 30, "bytes": [16.8e6, 268.4e6],
                        "copy_us": [7.5, 70.0]}} | more


def search(operation, count, random_numbers, gain=0.88):
    """Returns the trials of one search, which end with the heuristic and the best one again, and
    the best configuration."""
    seen, trials = {text(HEURISTIC)}, []
    while len(trials) < count:
        config = {name: random_numbers.choice(values) for name, values in CHOICES.items()}
        if text(config) in seen:
            continue
        seen.add(text(config))
        ratio = (gain + 0.02 + abs(random_numbers.gauss(0, 0.15))
                 + 0.08 * (config["num_warps"] in (1, 16)) + 0.2 * (config["keep"] == "shared"))
        fate = "slow" if ratio > 1.5 else "ok"
        reason = f"{ratio:.2f} times the heuristic's time after 3 samples" if fate == "slow" else ""
        if len(trials) % 16 == 3:
            fate, reason = ("compile",
                            f"{operation}: needs {random_numbers.randrange(70000, 90000)} bytes of "
                            "shared memory")
        if len(trials) % 64 == 5:
            fate, reason = (
                "wrong",
                f"y: {random_numbers.randrange(1, 99)} of 512 beyond 0.01; [0] is 1, expected 2")
        trials.append(trial(operation, config, fate, ratio, elapsed=0.12 * (len(trials) + 1),
                            reason=reason))
    best = min((t for t in trials if t["fate"] == "ok"), key=lambda t: t["ratio"])
    winner = dict(word.split("=") for word in best["config"].split())
    return ([*trials, trial(operation, HEURISTIC, ratio=1.001, samples=45),
             trial(operation, winner, ratio=gain, samples=45)], winner)


class Structure(HTMLParser):
    """Checks that every element is closed, and lists the resources that a page could load."""

    VOID = {"meta", "br", "link", "img", "use", "path", "circle", "rect", "polygon", "hr", "input"}

    def __init__(self):
        super().__init__()
        self.stack, self.loads, self.tags, self.ids = [], [], set(), []

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        self.ids += [value for name, value in attributes if name == "id"]
        self.loads += [value for name, value in attributes
                       if name in ("src", "href", "xlink:href", "data", "action")
                          and not value.startswith("#")]
        self.loads += [name for name, _ in attributes if name.startswith("on")]
        if tag not in self.VOID:
            self.stack.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in self.VOID:
            self.stack.pop()

    def handle_endtag(self, tag):
        if tag in self.VOID:
            return
        expect(self.stack and self.stack[-1] == tag, f"</{tag}> where {self.stack[-3:]} is open")
        if self.stack:
            self.stack.pop()


def write_store(path, trials):
    path.write_text("".join(json.dumps(t) + "\n" for t in trials))
    return path


def look(browser, page, **how):
    """Opens the page and checks that nothing else was loaded or logged. Returns the load time in
    ms."""
    begin = len(browser.events)
    load_ms = browser.open(page, **how)
    events = browser.events[begin:]
    requests = [e["params"]["request"]["url"] for e in events
                if e.get("method") == "Network.requestWillBeSent"]
    expect(all(url.startswith("file://") for url in requests) and len(requests) == 1,
           f"requests {requests}")
    complaints = [e for e in events if e.get("method") in (
        "Log.entryAdded", "Runtime.exceptionThrown", "Runtime.consoleAPICalled")]
    expect(not complaints, f"console: {complaints[:2]}")
    over = browser.evaluate("document.documentElement.scrollWidth - "
                            "document.documentElement.clientWidth")
    expect(over == 0, f"{how}: the page is {over} px wider than the window")
    return load_ms


def series(browser, selector, title):
    """Returns the number of visible marks of a series in a chart."""
    return browser.evaluate(f"""(() => {{
        const group = [...document.querySelectorAll({json.dumps(selector + " g[id]")})].find(
            g => g.querySelector(':scope > title')?.textContent === {json.dumps(title)});
        if (!group) return -1;
        const box = group.ownerSVGElement.getBoundingClientRect();
        return [...group.querySelectorAll('use, polygon')].filter(mark => {{
            const at = mark.getBoundingClientRect();
            return at.width > 0 && at.left >= box.left - 1 && at.right <= box.right + 1 && at.top >= box.top - 1 && at.bottom <= box.bottom + 1;
        }}).length;
    }})()""")


def test_large_store(ligerdsl, browser, folder):
    numbers = random.Random(SEED)
    print("seed", SEED)
    trials, winner = search("layer_norm_forward", 1400, numbers)
    more, _ = search("softmax_forward", 600, numbers, gain=0.998)  # a gain within the noise
    store, page = write_store(folder / "trials.jsonl", trials + more), folder / "report.html"
    result = ligerdsl.json("report", store, "-o", page)
    expect([t["tried"] for t in result["tasks"]] == [1400, 600],
           f"{[t['tried'] for t in result['tasks']]}")
    expect([t["gained"] for t in result["tasks"]] == [True, False],
           "one gains, one is within the noise")
    expect(result["tasks"][0]["winner"]["config"] == text(winner),
           f"{result['tasks'][0]['winner']['config']}")
    size = page.stat().st_size
    expect(size < 1_000_000, f"{size} bytes")
    html = page.read_text()
    structure = Structure()
    structure.feed(html)
    expect(structure.stack == [] and not structure.loads and "script" not in structure.tags,
           f"{structure.stack} {structure.loads}")
    expect(len(structure.ids) == len(set(structure.ids)), "an id occurs twice")

    load_ms = look(browser, page)
    print(f"report of 2,000 candidates: {size} bytes, loaded in {load_ms:.0f} ms")
    failed = sum(t["fate"] in ("compile", "wrong") for t in trials)
    expect(series(browser, "#task-1", "measured") == 1400 - failed,
           f"points {series(browser, '#task-1', 'measured')}")
    expect(series(browser, "#task-1", "failed") == failed,
           f"failures {series(browser, '#task-1', 'failed')}")
    values = sum(len(v) for v in CHOICES.values())
    expect(series(browser, "#task-1", "middle half") == values,
           f"boxes {series(browser, '#task-1', 'middle half')}")
    for name, expected in {"winner": 2, "heuristic": 4, "copy of the same bytes": 4}.items():
        expect(series(browser, ".roofline", name) == expected,
               f"roofline, {name}: {series(browser, '.roofline', name)}")
    expect(browser.evaluate("document.querySelectorAll('.task .chart').length") == 6,
           "three charts of each task")
    expect("4100.0 GB/s" in html, "the large copy's speed")
    labels = browser.evaluate("[...document.querySelectorAll('.chart text')].map(t => "
                              "t.textContent.trim())")
    for label in ("configurations tried", "seconds of searching", "time / heuristic's time",
                  "bytes of a call (MiB)", "GB/s", "num_warps 1", "keep registers"):
        expect(label in labels, f"no '{label}' in the charts")

    row = browser.evaluate("document.querySelector('#winners tbody tr').innerText")
    expect(row.startswith("layer_norm_forward") and "0.880" in row and "+13.6 %" in row, row)
    for name, value in winner.items():
        changed = str(HEURISTIC[name]) != value
        expect((f"{name} {HEURISTIC[name]} → {value}" in row) == changed, f"{name} in {row}")
    row = browser.evaluate("document.querySelectorAll('#winners tbody tr')[1].innerText")
    expect("the heuristic's" in row and "+" not in row, row)
    counted = {row.split()[0]: int(row.split()[1]) for row in browser.evaluate(
        "[...document.querySelectorAll('#task-1 .failures tbody tr')].map(r => "
        "r.children[0].innerText + ' ' + r.children[1].innerText)")}
    expected = {
        fate: sum(t["fate"] == fate for t in trials) for fate in ("slow", "compile", "wrong")}
    expect(counted == expected, f"failures {counted}, expected {expected}")
    browser.screenshot(folder / "wide.png")

    background = "getComputedStyle(document.body).backgroundColor"
    axis = "getComputedStyle(document.querySelector('.chart [fill=black]')).fill"
    light = browser.evaluate(background), browser.evaluate(axis)
    look(browser, page, width=390, height=844)
    expect(browser.evaluate("document.querySelector('#winners tbody "
                            "td').getBoundingClientRect().right") <= 390,
           "cards on a phone")
    expect(browser.evaluate("Math.max(...[...document.querySelectorAll('.chart text')].map(t => "
                            "t.getBoundingClientRect().right))") <= 390,
           "charts fit a phone")
    browser.screenshot(folder / "phone.png")
    look(browser, page, dark=True)
    dark = browser.evaluate(background), browser.evaluate(axis)
    expect(light[0] != dark[0] and light[1] != dark[1], f"{light} {dark}")
    inks = browser.evaluate("[...new Set([...document.querySelectorAll('.chart text')].map(t => "
                            "getComputedStyle(t).fill))]")
    expect(inks == [dark[1]], f"texts of charts in the dark: {inks}")
    browser.screenshot(folder / "dark.png")
    look(browser, page)
    browser.print(folder / "report.pdf")
    pdf = (folder / "report.pdf").read_bytes()
    expect(pdf.startswith(b"%PDF") and 2 <= len(re.findall(rb"/Type\s*/Page\b", pdf)) <= 20,
           "some pages of print")


HOSTILE = ["<script>document.title='taken'</script>", "'`touch taken`' \"$(touch taken)",
           "</table><img src=http://127.0.0.1:9/x onerror=alert(1)>",
           "\\'; system('touch taken') #\x1b[31m\x00 {/=40 big} @x $HOME %s {0}", "é日本"]


def test_untrusted_texts(ligerdsl, browser, folder):
    """All contents of a store are shown as text, on the page and in gnuplot's drawings."""
    trials = []
    for number, hostile in enumerate(HOSTILE):
        config = {hostile.split()[0]: number}
        for value in (1, 2, 3):
            field = {"field": f"a'b`touch${{IFS}}taken{value}`</svg><script>alert(1)</script>"}
            trials.append(trial(hostile, config | field | {"num_warps": value},
                                ratio=0.9 + 0.01 * value, options=hostile, build=hostile,
                                problems=[hostile, "N=1"], device=DEVICE | {"model": hostile},
                                date=hostile))
        trials.append(trial(hostile, config | {"num_warps": "x" * 400}, "crash", reason=hostile,
                            options=hostile, build=hostile, problems=[hostile, "N=1"],
                            device=DEVICE | {"model": hostile}, date=hostile))
    store, page = write_store(folder / "untrusted.jsonl", trials), folder / "untrusted.html"
    code, out, errors = ligerdsl.run("report", store, "-o", page, before=("env", "-C", folder))
    expect(code == 0, out + errors)
    expect(not (folder / "taken").exists(), "gnuplot ran what stood in a store")
    structure = Structure()
    structure.feed(page.read_text())
    expect(structure.stack == [] and not structure.loads and not {"script", "img"} & structure.tags,
           f"{structure.loads}")
    look(browser, page, width=390, height=844)
    expect(browser.evaluate("document.title") == "Tuning report", "a kernel's name ran")
    kernels = browser.evaluate("[...document.querySelectorAll('.task h2')].map(h => h.textContent)")
    expect(kernels == [h.replace("\x1b", "\\x1b").replace("\0", "\\x00") for h in HOSTILE],
           f"{kernels}")
    labels = browser.evaluate("[...document.querySelectorAll('.chart text')].map(t => "
                              "t.textContent)")
    expect(any("a'b`touch${I" in label for label in labels), "the field's value is drawn as it is")


def test_incomplete_stores(ligerdsl, browser, folder):
    """Stores of stopped searches, older stores, and stores without a valid trial."""
    trials, _ = search("softmax_forward", 40, random.Random(SEED))
    stopped = write_store(folder / "stopped.jsonl", trials[:40])
    with stopped.open("a") as file:
        file.write(json.dumps(trials[40])[:50])  # the tuner stopped in mid-line
    result = ligerdsl.json("report", stopped, "-o", folder / "stopped.html")
    expect(not result["tasks"][0]["confirmed"] and not result["tasks"][0]["gained"],
           "the best was not measured again")
    look(browser, folder / "stopped.html")
    expect("the search ended early"
           in browser.evaluate("document.querySelector('#winners').innerText"),
           "and the page says so")

    older = [{name: value for name, value in t.items()
              if name not in ("elapsed", "ceiling", "loaded", "seconds")} for t in trials]
    result = ligerdsl.json("report", write_store(folder / "older.jsonl", older), "-o",
                           folder / "older.html")
    expect(result["tasks"][0]["gained"] and result["tasks"][0]["winner"]["ratio"] == 0.88,
           f"{result['tasks'][0]}")
    look(browser, folder / "older.html")
    expect(browser.evaluate("document.querySelectorAll('.chart').length") == 2,
           "no seconds, no roofline")

    wrong = [trial("softmax_forward", HEURISTIC | {"rows": rows}, "crash",
                   reason=f"killed by SIG{rows}") for rows in (2, 4)]
    result = ligerdsl.json("report", write_store(folder / "wrong.jsonl", wrong), "-o",
                           folder / "wrong.html")
    expect(result["tasks"][0]["winner"] is None and result["tasks"][0]["failures"] == {"crash": 2},
           f"{result['tasks'][0]}")
    look(browser, folder / "wrong.html")
    expect(series(browser, "#task-1", "failed") == 2, "two failures are drawn")

    both = ligerdsl.json("report", folder / "older.jsonl", folder / "wrong.jsonl", "-o",
                         folder / "both.html", "--kernel", "softmax_forward")
    expect(len(both["tasks"]) == 1 and both["tasks"][0]["tried"] in (40, 41, 42),
           "stores of one task go together")


def test_refusals(ligerdsl, folder):
    store = write_store(folder / "one.jsonl", [trial("softmax_forward", HEURISTIC)])
    (folder / "empty.jsonl").touch()
    page, bare = folder / "refused.html", folder / "bare"
    bare.mkdir()
    for arguments, environment, expected, said in [
            (["report", store, "-o", page], {"PATH": str(bare)}, 4, "gnuplot-nox"),
            (["tune", "softmax_forward", "H=64", "N=4", "--store", folder / "none.jsonl",
              "--report", page],
             {"PATH": str(bare)}, 4, "gnuplot-nox"),
            (["tune", "softmax_forward", "H=64", "N=4", "--store", folder / "none.jsonl",
              "--report", folder / "no" / "x.html"],
             {}, 4, "cannot write"),
            (["report", folder / "empty.jsonl", "-o", page], {}, 4, "no trial"),
            (["report", folder / "missing.jsonl", "-o", page], {}, 2, "missing.jsonl"),
            (["report", store, "-o", page, "--kernel", "softmax_forwards"], {}, 4,
             "did you mean 'softmax_forward'"),
            (["report", store, "-o", folder / "no" / "x.html"], {}, 4, "cannot write"),
            (["report", folder, "-o", page], {}, 2, "irectory"),
            (["report", store, "-o", store], {}, 2, "name another file"),
            (["report", store, "-o", folder / "." / "one.jsonl"], {}, 2, "name another file"),
            (["report", "-o", page], {"XDG_DATA_HOME": str(bare)}, 4,
             "run `ligerdsl tune` to create it"),
            (["report", pathlib.Path(__file__), "-o", page], {}, 2, "line 1: expected a trial"),
            (["report", store, folder / "empty.jsonl", pathlib.Path(ligerdsl.path), "-o", page], {},
             2, "line 1: expected a trial"),
            (["report", "/dev/zero", "-o", page], {}, 2, "a line longer than 16 MiB"),
            (["report", store], {}, 2, "--output")]:
        code, out, errors = ligerdsl.run(*arguments, **environment)
        expect(code == expected and said in errors, f"{arguments}: exit {code}\n{out}{errors}")
    expect(json.loads(store.read_text())["operation"] == "softmax_forward",
           "the store is as it was")
    expect(not page.exists(), "a page that is refused is not written")
    expect(not (folder / "none.jsonl").exists() or not (folder / "none.jsonl").read_text(),
           "refused before the search")


def main(path, folder):
    folder = pathlib.Path(folder)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    ligerdsl = Command(path, folder / "cache")
    with Browser(folder / "profile") as browser:
        test_large_store(ligerdsl, browser, folder)
        test_untrusted_texts(ligerdsl, browser, folder)
        test_incomplete_stores(ligerdsl, browser, folder)
    test_refusals(ligerdsl, folder)
    print("FAILED" if command.failures else "passed", f"({command.failures} failures)")
    return 1 if command.failures else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
