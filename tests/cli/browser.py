"""A headless Chromium that shows pages to a test, over the DevTools protocol on a pipe."""

import base64
import itertools
import json
import os
import shutil
import subprocess


def find_chromium():
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if path := shutil.which(name):
            return path
    raise SystemExit("FAILED: no Chromium in PATH; .ci/install-packages test installs it (Debian: "
                     "apt-get install chromium)")


class Browser:
    """A browser as a context manager. `events` holds all events of the browser in order."""

    def __init__(self, profile):
        to_browser, ours_out = os.pipe()
        ours_in, from_browser = os.pipe()

        def numbered():
            # The browser reads its commands from descriptor 3 and writes answers to 4. `source` and
            # `target` must be other numbers, so that no dup2 overwrites the second one.
            source, target = os.dup2(to_browser, 100), os.dup2(from_browser, 101)
            os.dup2(source, 3)
            os.dup2(target, 4)

        # Chromium cannot set up its sandbox as root in a container. It needs none here, because the
        # test wrote the pages.
        self.process = subprocess.Popen(
            [find_chromium(), "--headless", "--no-sandbox", "--remote-debugging-pipe",
             "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking",
             "--disable-component-update", "--no-first-run", f"--user-data-dir={profile}",
             "about:blank"],
            preexec_fn=numbered, close_fds=False, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL)
        os.close(to_browser)
        os.close(from_browser)
        self.out, self.incoming = ours_out, os.fdopen(ours_in, "rb")
        self.rest, self.ids, self.events, self.session = b"", itertools.count(1), [], None
        target = next(t for t in self.ask("Target.getTargets")["targetInfos"]
                      if t["type"] == "page")
        self.session = self.ask("Target.attachToTarget", targetId=target["targetId"],
                                flatten=True)["sessionId"]
        for domain in ("Page", "Network", "Runtime", "Log"):
            self.ask(domain + ".enable")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.session = None
        try:
            self.ask("Browser.close")
            self.process.wait(30)
        except (EOFError, OSError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()

    def receive(self):
        while b"\0" not in self.rest:
            more = self.incoming.read1(1 << 20)
            if not more:
                raise EOFError("the browser ended")
            self.rest += more
        message, self.rest = self.rest.split(b"\0", 1)
        return json.loads(message)

    def ask(self, method, **parameters):
        number = next(self.ids)
        message = {"id": number, "method": method, "params": parameters} | (
            {"sessionId": self.session} if self.session else {})
        text = json.dumps(message).encode() + b"\0"
        while text:
            text = text[os.write(self.out, text):]
        while True:
            answer = self.receive()
            if answer.get("id") != number:
                self.events.append(answer)
                continue
            if "error" in answer:
                raise RuntimeError(f"{method}: {answer['error']}")
            return answer["result"]

    def wait_for(self, method, begin):
        """Returns the first event `method` at or after index `begin`."""
        while True:
            for event in self.events[begin:]:
                if event.get("method") == method:
                    return event["params"]
            self.events.append(self.receive())

    def open(self, path, width=1200, height=900, dark=False):
        """Loads a local file; returns the number of milliseconds until everything was loaded."""
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=height,
                 deviceScaleFactor=1, mobile=width < 600)
        self.ask("Emulation.setEmulatedMedia",
                 features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        begin = len(self.events)
        self.ask("Page.navigate", url=f"file://{path}")
        self.wait_for("Page.loadEventFired", begin)
        return self.evaluate("performance.getEntriesByType('navigation')[0].loadEventStart")

    def evaluate(self, expression):
        result = self.ask("Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in result:
            raise RuntimeError(f"{expression}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def seen(self, method):
        return [event["params"] for event in self.events if event.get("method") == method]

    def screenshot(self, path):
        picture = self.ask("Page.captureScreenshot", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(picture["data"]))

    def print(self, path):
        page = self.ask("Page.printToPDF", printBackground=False, preferCSSPageSize=True)
        path.write_bytes(base64.b64decode(page["data"]))
