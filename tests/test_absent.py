"""Names that exist only as such: they are listed for users, and every one of them says what to do instead."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import flambeau as torch
from flambeau.core.operator import unsupported as absent


def test_the_list_is_what_the_package_has(root: Path) -> None:
    command = [sys.executable, str(root / "tools" / "list_absent.py"), "--check"]
    checked = subprocess.run(command, capture_output=True, text=True, cwd=root, check=False)
    assert checked.returncode == 0, "write it again by `python tools/list_absent.py`\n" + checked.stderr


def test_a_name_can_be_imported_tested_for_and_not_called() -> None:
    assert not isinstance(torch.zeros(1), torch.StaticModule)
    for name in ("StaticModule", "fbgemm_linear_int8_weight"):
        with pytest.raises(NotImplementedError, match=f"torch.{name} is not implemented in flambeau: {absent.ADVICE[name]}"):
            getattr(torch, name)()
