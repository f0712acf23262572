"""Tests the Python package in LIGERDSL_PYTHON_PATH, or the installed one if it is unset."""

import gc
import os
import sys

import pytest

if os.environ.get("LIGERDSL_PYTHON_PATH"):
    sys.path.insert(0, os.environ["LIGERDSL_PYTHON_PATH"])


@pytest.fixture(autouse=True)
def same_numbers():
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(1)


def pytest_collection_finish(session):
    """Imported modules live to the end, so garbage collections skip their objects."""
    gc.collect()
    gc.freeze()
