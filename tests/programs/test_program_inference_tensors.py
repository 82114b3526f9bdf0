"""Tensors of inference mode outside it: which graphs keep them, and which writes reach them."""

import pytest
from implementation import torch

with torch.inference_mode():
    POSITIONS, MASK = torch.tensor([0, 1]), torch.tensor([True, False, True])


@pytest.mark.parametrize("use", [lambda w: w[POSITIONS], lambda w: w[MASK]])
def test_a_graph_keeps_no_index_of_inference_mode(use):
    with pytest.raises(RuntimeError, match="Inference tensors cannot be saved for backward"):
        use(torch.ones(3, requires_grad=True))
    with torch.no_grad():
        assert use(torch.ones(3, requires_grad=True)).sum() >= 2
    assert use(torch.ones(3)).sum() >= 2


def test_a_detached_inference_tensor_can_be_written_to():
    with torch.inference_mode():
        x = torch.ones(3)
    with pytest.raises(RuntimeError, match="Inplace update to inference tensor"):
        x.add_(1)
    x.detach().add_(1)
    assert x.tolist() == [2, 2, 2]
    assert x.detach().is_inference()
