"""tensor_split by the names of its signatures: indices= and sections=."""

from __future__ import annotations

import pytest

import flambeau as torch


def test_each_signature_has_its_name() -> None:
    x = torch.arange(6)
    for parts in (
        torch.tensor_split(x, indices=(2, 4), dim=0),
        x.tensor_split(indices=[2, 4]),
        x.tensor_split(sections=3),
        torch.tensor_split(x, torch.tensor(3)),
    ):
        assert [part.tolist() for part in parts] == [[0, 1], [2, 3], [4, 5]]


@pytest.mark.parametrize("places", [torch.tensor(1.5), torch.tensor([1.5]), torch.tensor([2], dtype=torch.int32)])
def test_places_in_a_tensor_are_of_int64(places):
    with pytest.raises(RuntimeError, match=r"tensor_indices_or_sections to have dtype of long, but got (Float|Int)"):
        torch.tensor_split(torch.arange(6), places)
