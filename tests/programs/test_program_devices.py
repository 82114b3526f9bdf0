"""Device-agnostic programs on a machine without an accelerator."""

import pytest
from implementation import torch

nn = torch.nn


@pytest.fixture(autouse=True)
def _without_an_accelerator():
    if torch.cuda.is_available():
        pytest.skip("there is an accelerator")


def test_the_usual_choice_of_a_device():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    assert device == torch.device("cpu") and device.type == "cpu" and device.index is None
    model, x = nn.Linear(4, 2).to(device), torch.randn(3, 4, device=device)
    assert model(x).device == device and x.to(device) is x and x.cpu() is x
    assert not torch.backends.mps.is_available()


def test_questions_about_the_accelerator_have_answers():
    assert torch.cuda.device_count() == 0 and torch.version.cuda is None
    assert torch.cuda.memory_allocated() == 0 and torch.cuda.memory_reserved() == 0
    torch.cuda.empty_cache()
    torch.cuda.manual_seed_all(0)
    torch.backends.cudnn.benchmark = True
    with pytest.raises(AssertionError, match="Torch not compiled with CUDA enabled"):
        torch.cuda.current_device()


def test_a_device_is_parsed_even_where_there_is_none():
    device = torch.device("cuda:1")
    assert device.type == "cuda" and device.index == 1 and str(device) == "cuda:1"
    assert repr(device) == "device(type='cuda', index=1)"


def test_the_meta_device_computes_shapes_only():
    x = torch.empty(1 << 40, 4, device="meta")
    assert (x + 1).shape == (1 << 40, 4) and x.device.type == "meta"


def test_the_device_as_a_context():
    with torch.device("meta"):
        model = nn.Linear(1000, 1000)
    assert model.weight.device.type == "meta"


def test_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    assert torch.get_num_threads() == 1
    torch.set_num_threads(before)
