"""Tests of the Python package. LIGERDSL_PYTHON_PATH: the folder that holds it; without it, an installed one is tested."""

import os
import sys

import pytest

if os.environ.get("LIGERDSL_PYTHON_PATH"):
    sys.path.insert(0, os.environ["LIGERDSL_PYTHON_PATH"])


@pytest.fixture(autouse=True)
def same_numbers():
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(1)
