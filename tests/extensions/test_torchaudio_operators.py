"""torch.ops.torchaudio: what loading torchaudio's compiled library registers, with numbers of torchaudio 2.11."""

from __future__ import annotations

import sys
import types
from pathlib import Path

import pytest

import flambeau as torch
from flambeau.extensions import torchaudio


@pytest.fixture(autouse=True)
def loaded(tmp_path: Path) -> None:
    """Files where torchaudio's wheel has them; they aren't read."""
    folder = tmp_path / "torchaudio" / "lib"
    folder.mkdir(parents=True)
    for name in ("_torchaudio.abi3.so", "libtorchaudio.abi3.so"):
        (folder / name).touch()
        torch.ops.load_library(folder / name)


def test_which_libraries_are_known(tmp_path: Path) -> None:
    assert torch.ops._torchaudio.is_align_available() is True and torch.ops._torchaudio.cuda_version() is None
    assert str(torch.ops.torchaudio.forced_align.default._schema) == (
        "torchaudio::forced_align(Tensor log_probs, Tensor targets, Tensor input_lengths, Tensor target_lengths, int blank) -> "
        "(Tensor, Tensor)"
    )
    for name in ("torchaudio_prefixctc.abi3.so", "libtorchaudio.abi3.so"):
        (tmp_path / name).touch()
        with pytest.raises(OSError, match=r"Could not load this library: .*flambeau has no C"):
            torch.ops.load_library(tmp_path / name)


def test_releases_before_the_operators_import_a_module(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = types.ModuleType("torchaudio.lib")
    monkeypatch.setitem(sys.modules, "torchaudio.lib._torchaudio", folder)
    torchaudio.stand_in(folder)
    assert sys.modules["torchaudio.lib._torchaudio"] is folder._torchaudio
    assert folder._torchaudio.is_align_available() and not folder._torchaudio.is_rir_available()


def test_filter_and_overdrive() -> None:
    x = torch.tensor([[[1.0, -2, 3, 0.5], [0, 1, 0, 1]]])
    a = torch.tensor([[0.25, -0.5, 1.0], [0.1, 0.3, 1.0]])
    y = torch.zeros(1, 2, 6)
    y[:, :, :2] = torch.tensor([0.5, -1.0])
    assert torch.ops.torchaudio._lfilter_core_loop(x, a, y).equal(y)
    assert y.tolist() == [
        [
            [0.5, -1.0, 0.375, -1.5625, 2.125, 1.953125],
            [0.5, -1.0, 0.25, 1.024999976158142, -0.33250001072883606, 0.997249960899353],
        ]
    ]
    with pytest.raises(RuntimeError, match="don't go with an output"):
        torch.ops.torchaudio._lfilter_core_loop(x, a, y[..., 1:].contiguous())
    with pytest.raises(RuntimeError, match="all float32 or all float64"):
        torch.ops.torchaudio._lfilter_core_loop(x, a.double(), y)
    wave, bent = torch.tensor([[0.1, -0.2, 0.3]]), torch.tensor([[0.4, 0.5, -0.6]])
    last_in, last_out, out = torch.tensor([0.2]), torch.tensor([-0.3]), torch.zeros(1, 3)
    torch.ops.torchaudio._overdrive_core_loop(wave, bent, last_in, last_out, out)
    assert (last_in.tolist(), last_out.tolist()) == ([-0.6000000238418579], [-1.0980174541473389])
    assert out.tolist() == [[-0.023875003680586815, -0.09850563853979111, -0.6735130548477173]]


def test_forced_align() -> None:
    log_probs = torch.tensor(
        [[[-1.5, -0.5, -2.0], [-0.5, -1.5, -2.0], [-2.0, -0.5, -1.0], [-1.0, -1.0, -1.0], [-1.0, -3.0, -0.5], [-0.5, -1.0, -2.0]]]
    )

    def align(labels: list[int], times: int = 6) -> list[list[int]]:
        lengths = torch.tensor([times]), torch.tensor([len(labels)])
        return torch.ops.torchaudio.forced_align(log_probs[:, :times], torch.tensor([labels]), *lengths, 0)[0].tolist()

    assert align([1, 1, 2]) == [[1, 0, 1, 2, 2, 0]] and align([2, 1]) == [[0, 0, 2, 2, 2, 1]]
    with pytest.raises(RuntimeError, match=r"too long for CTC. Found log_probs length: 3, targets length: 3, and number"):
        align([1, 1, 2], 3)


def test_loss_of_transducers() -> None:
    logits = (torch.arange(72).reshape(2, 3, 3, 4) * 7 % 11) / 4.0
    targets, times, counts = (torch.tensor(each, dtype=torch.int32) for each in ([[1, 2], [3, 0]], [3, 2], [2, 1]))
    weights = torch.arange(72).reshape(logits.shape)
    losses, gradients = torch.ops.torchaudio.rnnt_loss_forward(logits, targets, times, counts, 0, -1.0, True)
    torch.testing.assert_close(losses, torch.tensor([5.752841472625732, 4.099044322967529]))
    torch.testing.assert_close(gradients[0, 0, 0], torch.tensor([-0.01258998, -0.66658926, 0.10055051, 0.57862836]))
    torch.testing.assert_close(gradients[1].abs().sum().item(), 3.816582679748535)
    torch.testing.assert_close((gradients * weights).sum().item(), 6.253795146942139, rtol=1e-4, atol=0)
    found = torch.ops.torchaudio.rnnt_loss_forward(logits.log_softmax(-1), targets, times, counts, 0, 0.25, False)
    torch.testing.assert_close(found[0], losses)
    torch.testing.assert_close((found[1] * weights).sum().item(), -80.52801513671875, rtol=1e-4, atol=0)
    with pytest.raises(RuntimeError, match="targets must be int32 type"):
        torch.ops.torchaudio.rnnt_loss_forward(logits, targets.long(), times, counts, 0, -1.0, True)
