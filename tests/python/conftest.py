"""Tests of the Python package: of the one in LIGERDSL_PYTHON_PATH, else of an installed one."""

import os
import sys

import pytest

if os.environ.get("LIGERDSL_PYTHON_PATH"):
    sys.path.insert(0, os.environ["LIGERDSL_PYTHON_PATH"])


@pytest.fixture(autouse=True)
def same_numbers():
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(1)
