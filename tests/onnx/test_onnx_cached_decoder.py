"""ONNX models of a decoder with a cache generate in ONNX Runtime, token by token, what the module generates."""

from __future__ import annotations

import warnings

import cached_decoder
import pytest

import flambeau as torch

pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

NAMES = ["ids", "mask", "positions", *[f"past{i}" for i in range(2 * cached_decoder.LAYERS)]]


@pytest.mark.parametrize("dynamo", [True, False])
def test_generates_as_the_module(dynamo, tmp_path):
    model, path = cached_decoder.decoder(), str(tmp_path / "decoder.onnx")
    axes = {n: {0: "batch", 1: "length"} for n in NAMES[:3]} | {"mask": {0: "batch", 1: "total"}}
    axes |= {n: {0: "batch", 2: "past"} for n in NAMES[3:]}
    how = {"dynamic_axes": axes}
    if dynamo:
        kind = torch.export.Dim.AUTO
        open_ = [dict.fromkeys(axes[n], kind) for n in NAMES]
        how = {"dynamic_shapes": (*open_[:3], tuple(open_[3:])), "verbose": False}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        torch.onnx.export(model, cached_decoder.inputs(2, 3, 4), path, dynamo=dynamo, input_names=NAMES, **how)
    session = onnxruntime.InferenceSession(path)
    known = [i.name for i in session.get_inputs()]

    def step(*args):
        given = {n: x.numpy() for n, x in zip(NAMES, args) if n in known}
        return [torch.from_numpy(x) for x in session.run(None, given)]

    for batch, length in ((1, 1), (3, 5), (2, 9)):
        prompt = torch.randint(0, cached_decoder.WORDS, (batch, length), generator=torch.Generator().manual_seed(batch))
        with torch.no_grad():
            assert torch.equal(cached_decoder.generated(step, prompt, 6), cached_decoder.generated(model, prompt, 6))
