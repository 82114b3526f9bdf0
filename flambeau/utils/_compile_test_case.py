"""The TestCase of torch._dynamo.test_case and torch._inductor.test_case: forgets what was compiled before and after each test.

Its base is torch.testing._internal.common_utils.TestCase where a program has brought that module along and imported it, and
unittest's else, with torch.testing.assert_close for assertEqual of tensors. Stands on the package; for programs' tests.
"""

from __future__ import annotations

import contextlib
import importlib.util
import sys
import unittest
from typing import Any

import flambeau as torch

__all__ = ["TestCase", "run_tests"]


class _Plain(unittest.TestCase):
    """Compares tensors by value."""

    def assertEqual(self, first: Any, second: Any, msg: Any = None, **tolerances: Any) -> None:
        """Equal, tensors within tolerances (atol, rtol)."""
        if tolerances or isinstance(first, torch.Tensor) or isinstance(second, torch.Tensor):
            torch.testing.assert_close(first, second, msg=msg, **tolerances)
        else:
            super().assertEqual(first, second, msg)


def _base() -> Any:
    brought = sys.modules.get("torch.testing._internal.common_utils")
    return _Plain if brought is None else brought.TestCase


class TestCase(_base()):  # type: ignore[misc]
    """Begins and ends each test with nothing compiled; failures of backends are errors in it."""

    __test__ = False  # itself; classes made of it are
    _settings: contextlib.ExitStack

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "__test__" not in cls.__dict__:
            cls.__test__ = True

    @classmethod
    def setUpClass(cls) -> None:
        """Set what all tests of the class are run with."""
        super().setUpClass()
        cls._settings = contextlib.ExitStack()
        settings = torch._dynamo.config.patch(raise_on_ctx_manager_usage=True, suppress_errors=False)  # type: ignore[attr-defined]
        cls._settings.enter_context(settings)

    @classmethod
    def tearDownClass(cls) -> None:
        """Set back."""
        cls._settings.close()
        super().tearDownClass()

    def setUp(self) -> None:
        """Forget what was compiled."""
        self._grad = torch.is_grad_enabled()
        super().setUp()
        torch._dynamo.reset()

    def tearDown(self) -> None:
        """Forget what was compiled; gradients are recorded as they were before."""
        torch._dynamo.reset()
        super().tearDown()
        torch.set_grad_enabled(self._grad)


def run_tests(needs: str | tuple[str, ...] = ()) -> None:
    """Run the tests of the program's file, unless a package that they need is absent."""
    for name in (needs,) if isinstance(needs, str) else needs:
        if importlib.util.find_spec(name) is None:
            return
    unittest.main()
