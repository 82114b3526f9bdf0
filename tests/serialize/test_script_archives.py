"""torch.load of a file that torch.jit.save wrote: what torch.jit.load gives, unless only weights may be loaded."""

from __future__ import annotations

import pytest

import flambeau as torch


class Doubled(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(2, 2)

    def forward(self, x):
        return self.linear(x) * 2


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_script_archive_is_loaded_as_a_program(tmp_path):
    path, module = tmp_path / "program.pt", Doubled()
    torch.jit.script(module).save(path)
    with path.open("rb") as file:
        for source in path, file:
            with pytest.warns(UserWarning, match="looks like a TorchScript archive dispatching to 'torch.jit.load'"):
                loaded = torch.load(source, weights_only=False, map_location="cpu")
            assert isinstance(loaded, torch.jit.ScriptModule)
            assert torch.equal(loaded(torch.ones(1, 2)), module(torch.ones(1, 2)))
    with (
        pytest.warns(UserWarning, match=r"torch\.jit\.load"),
        pytest.raises(RuntimeError, match="Cannot use ``weights_only=True`` with TorchScript archives"),
    ):
        torch.load(path)
