"""The torch namespace under test, for programs that run under either implementation.

    from implementation import torch

It is flambeau, or what the variable FLAMBEAU_TEST_IMPL names: `FLAMBEAU_TEST_IMPL=torch pytest tests/programs` checks
the expected figures and words against PyTorch itself.
"""

import importlib
import os

NAME = os.environ.get("FLAMBEAU_TEST_IMPL", "flambeau")
torch = importlib.import_module(NAME)

__all__ = ["NAME", "torch"]
