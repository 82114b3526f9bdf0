"""A sample of hostile.py: damaged and hostile archives end in an exception, and nothing in them runs."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture
def hostile() -> Any:
    spec = importlib.util.spec_from_file_location("hostile_archives", HERE / "hostile.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_files_that_are_cut_or_have_turned_bits(hostile: Any) -> None:
    attack = hostile.Attack()
    attack.cuts(HERE / "archives" / "scripted_flow.pt", step=20)
    attack.flips(HERE / "archives" / "scripted_parts.pt", 15)
    attack.flips(HERE / "archives" / "traced_lstm.pt", 10)
    assert attack.wrong == [] and attack.refused > 5


def test_code_and_pickles_that_were_written_to_do_harm(hostile: Any) -> None:
    attack = hostile.Attack()
    attack.payloads(every=3)
    assert attack.wrong == [] and attack.refused > 35


def test_the_hook_hears_what_it_should(hostile: Any, tmp_path: Path) -> None:
    attack = hostile.Attack()

    class Evil:
        def read(self, size: int = -1) -> bytes:
            (tmp_path / "written").write_text("x")
            raise ValueError

        def seek(self, *place: int) -> int:
            return 0

        tell = seek

    hostile.io = type("io", (), {"BytesIO": lambda content: Evil()})
    attack.load(b"", "evil")
    assert "ran" in attack.wrong[0]
