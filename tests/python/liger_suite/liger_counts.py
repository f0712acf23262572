"""A pytest plugin for Liger-Kernel's own tests on the library's kernels.

For every test, it writes a line of JSON to the file that LIGER_COUNTS names: the library's
operations that ran, and Liger's Triton kernels that were launched.
"""

import collections
import json
import os

import pytest

import ligerdsl.liger.hook  # noqa: F401  before Liger
import ligerdsl
import ligerdsl.ops
import ligerdsl.torch

_launched = collections.Counter()


def _count_launches():
    try:
        from triton.runtime.jit import JITFunction
    except ImportError:
        return
    run = JITFunction.run

    def counted(self, *args, **kwargs):
        if self.fn.__module__.startswith("liger_kernel"):
            _launched[self.fn.__name__] += 1
        return run(self, *args, **kwargs)

    JITFunction.run = counted


def _calls():
    return collections.Counter({name: ligerdsl.calls(name) for name in ligerdsl.ops.__all__})


def pytest_configure(config):
    _count_launches()
    ligerdsl.torch.config.check_labels = "sync"  # like Liger, waits for the labels


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item):
    calls, launched = _calls(), _launched.copy()
    yield
    item.user_properties.append(("ran", json.dumps([_calls() - calls, _launched - launched])))


def pytest_runtest_logreport(report):
    """Writes the line in the process that collects the workers' reports, or in the only process."""
    path = os.environ.get("LIGER_COUNTS")
    if not path or "PYTEST_XDIST_WORKER" in os.environ or not (
            report.when == "call" or report.outcome != "passed"):
        return
    calls, launched = json.loads(dict(report.user_properties).get("ran", "[{}, {}]"))
    outcome = report.outcome
    if hasattr(report, "wasxfail"):
        outcome = "xfailed" if outcome == "skipped" else "xpassed"
    row = {"test": report.nodeid, "outcome": outcome, "when": report.when,
           "seconds": round(report.duration, 2), "calls": calls, "triton": launched}
    if outcome in ("failed", "skipped"):
        text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        row["why"] = text[-1500:]
    with open(path, "a") as file:
        file.write(json.dumps(row) + "\n")
