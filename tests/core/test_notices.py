"""Warnings: their words, that each is given once or always, and that it points at the caller."""

from __future__ import annotations

import subprocess
import sys
import warnings

import pytest

import flambeau as torch

ONCE = """
import warnings
import flambeau as torch
x, z = torch.eye(3), torch.ones(2, dtype=torch.complex64)
calls = [(lambda: z.float(), "Casting complex values to real discards the imaginary part"),
         (lambda: torch.zeros(2).copy_(z), None), (lambda: torch.cross(x, x), "Using torch.cross without specifying the dim"),
         (lambda: torch.qr(x), "torch.qr is deprecated in favor of torch.linalg.qr"),
         (lambda: torch.stft(torch.ones(9), 4, return_complex=True), "A window was not provided. A rectangular window will"),
         (lambda: torch.where(x.byte(), x, 0), "where received a uint8 condition tensor"),
         (lambda: torch.meshgrid(x[0]), "torch.meshgrid: in an upcoming release"),
         (lambda: x[None].T, "The use of `x.T` on tensors of dimension other than 2"), (lambda: z.bool(), None)]
for call, words in calls:
    for words in (words, None):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            call()
        assert [str(w.message).startswith(words) for w in seen] == [True] if words else not seen, (words, seen)
        assert all(w.filename == "<string>" for w in seen)
"""


def test_warnings_given_once():
    made = subprocess.run([sys.executable, "-c", ONCE], capture_output=True, text=True)
    assert not made.returncode, made.stderr


@pytest.mark.parametrize("call", [lambda: torch.ones(1).std(), lambda: torch.ones(1).std(), lambda: torch.ones(0, 3).std(0)])
def test_degrees_of_freedom_are_missed_each_time(call):
    with pytest.warns(UserWarning, match=r"std\(\): degrees of freedom is <= 0.") as seen:
        call()
    assert seen[0].filename == __file__


def test_factories_resize_out_silently():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert torch.zeros(2, 2, out=torch.empty(5)).shape == (2, 2)
        assert torch.linspace(0, 1, 3, out=torch.empty(5)).tolist() == [0, 0.5, 1]
        assert torch.arange(6, out=torch.empty(2, 3)).shape == (2, 3)
    with pytest.warns(UserWarning, match="The number of elements in the out tensor of shape \\[5\\] is 5 which does not match"):
        assert torch.arange(3, out=torch.empty(5)).tolist() == [0, 1, 2]
