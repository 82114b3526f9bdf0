"""Mistakes that everybody makes, and PyTorch's words for them."""

import re

import pytest
from implementation import torch

nn, optim = torch.nn, torch.optim


def backward_twice():
    x = torch.ones(3, requires_grad=True)
    y = (x**2).sum()
    y.backward()
    y.backward()


def in_place_on_saved():
    x = torch.ones(3, requires_grad=True)
    y = x.exp()
    y += 1
    y.sum().backward()


def in_place_on_leaf():
    x = torch.ones(3, requires_grad=True)
    x += 1


def module_without_init():
    class Forgetful(nn.Module):
        def __init__(self):
            self.layer = nn.Linear(1, 1)

    Forgetful()


ERRORS = {
    "view": (
        lambda: torch.arange(12.0).reshape(3, 4).t().view(12),
        RuntimeError,
        "view size is not compatible with input tensor's size and stride (at least one dimension spans across two "
        "contiguous subspaces). Use .reshape(...) instead.",
    ),
    "reshape": (lambda: torch.ones(4).reshape(3), RuntimeError, "shape '[3]' is invalid for input of size 4"),
    "broadcast": (
        lambda: torch.ones(3) + torch.ones(4),
        RuntimeError,
        "The size of tensor a (3) must match the size of tensor b (4) at non-singleton dimension 0",
    ),
    "matmul": (
        lambda: torch.ones(2, 3) @ torch.ones(2, 3),
        RuntimeError,
        "mat1 and mat2 shapes cannot be multiplied (2x3 and 2x3)",
    ),
    "linear": (
        lambda: nn.Linear(4, 2)(torch.ones(3, 5)),
        RuntimeError,
        "mat1 and mat2 shapes cannot be multiplied (3x5 and 4x2)",
    ),
    "matmul_dtype": (
        lambda: torch.ones(2, 3) @ torch.ones(3, 2).long(),
        RuntimeError,
        "expected m1 and m2 to have the same dtype, but got: float != long int",
    ),
    "linear_dtype": (
        lambda: nn.Linear(4, 2)(torch.ones(3, 4).long()),
        RuntimeError,
        "mat1 and mat2 must have the same dtype, but got Long and Float",
    ),
    "numpy": (
        lambda: torch.ones(3, requires_grad=True).numpy(),
        RuntimeError,
        "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.",
    ),
    "not_a_scalar": (
        lambda: torch.ones(3, requires_grad=True).backward(),
        RuntimeError,
        "grad can be implicitly created only for scalar outputs",
    ),
    "no_graph": (
        lambda: torch.ones(3).sum().backward(),
        RuntimeError,
        "element 0 of tensors does not require grad and does not have a grad_fn",
    ),
    "backward_twice": (backward_twice, RuntimeError, "Trying to backward through the graph a second time"),
    "in_place_on_saved": (
        in_place_on_saved,
        RuntimeError,
        "one of the variables needed for gradient computation has been modified by an inplace operation: "
        "[torch.FloatTensor [3]], which is output 0 of Exp",
    ),
    "in_place_on_leaf": (
        in_place_on_leaf,
        RuntimeError,
        "a leaf Variable that requires grad is being used in an in-place operation.",
    ),
    "index": (lambda: torch.ones(3)[5], IndexError, "index 5 is out of bounds for dimension 0 with size 3"),
    "dimension": (
        lambda: torch.zeros(2, 3).squeeze(5),
        IndexError,
        "Dimension out of range (expected to be in range of [-2, 1], but got 5)",
    ),
    "cat": (
        lambda: torch.cat([torch.ones(2, 3), torch.ones(3, 2)]),
        RuntimeError,
        "Sizes of tensors must match except in dimension 0. Expected size 3 but got size 2 for tensor number 1 in the list.",
    ),
    "stack": (
        lambda: torch.stack([torch.ones(2), torch.ones(3)]),
        RuntimeError,
        "stack expects each tensor to be equal size, but got [2] at entry 0 and [3] at entry 1",
    ),
    "expand": (
        lambda: torch.ones(2, 3).expand(3, 3),
        RuntimeError,
        "The expanded size of the tensor (3) must match the existing size (2) at non-singleton dimension 0.",
    ),
    "bool": (lambda: bool(torch.ones(2)), RuntimeError, "Boolean value of Tensor with more than one value is ambiguous"),
    "item": (lambda: torch.ones(2).item(), RuntimeError, "a Tensor with 2 elements cannot be converted to Scalar"),
    "ragged": (lambda: torch.tensor([[1, 2], [3]]), ValueError, "expected sequence of length 2 at dim 1 (got 1)"),
    "integer_gradient": (
        lambda: torch.ones(2).long().requires_grad_(),
        RuntimeError,
        "only Tensors of floating point dtype can require gradients",
    ),
    "class_out_of_range": (
        lambda: nn.CrossEntropyLoss()(torch.ones(2, 3), torch.tensor([0, 3])),
        IndexError,
        "Target 3 is out of bounds.",
    ),
    "batch_sizes": (
        lambda: nn.CrossEntropyLoss()(torch.ones(2, 3), torch.tensor([0, 1, 2])),
        ValueError,
        "Expected input batch_size (2) to match target batch_size (3).",
    ),
    "bce_shapes": (
        lambda: nn.BCEWithLogitsLoss()(torch.ones(2, 1), torch.ones(2)),
        ValueError,
        "Target size (torch.Size([2])) must be the same as input size (torch.Size([2, 1]))",
    ),
    "batch_norm_of_one": (
        lambda: nn.BatchNorm1d(3)(torch.ones(1, 3)),
        ValueError,
        "Expected more than 1 value per channel when training, got input size torch.Size([1, 3])",
    ),
    "channels": (
        lambda: nn.Conv2d(3, 4, 3)(torch.ones(1, 1, 8, 8)),
        RuntimeError,
        "Given groups=1, weight of size [4, 3, 3, 3], expected input[1, 1, 8, 8] to have 3 channels, but got 1 channels instead",
    ),
    "embedding": (lambda: nn.Embedding(3, 4)(torch.tensor([3])), IndexError, "index out of range in self"),
    "no_forward": (lambda: nn.Module()(1), NotImplementedError, 'Module [Module] is missing the required "forward" function'),
    "no_init": (module_without_init, AttributeError, "cannot assign module before Module.__init__() call"),
    "attribute": (lambda: nn.Linear(2, 2).foo, AttributeError, "'Linear' object has no attribute 'foo'"),
    "size_mismatch": (
        lambda: nn.Linear(2, 2).load_state_dict({"weight": torch.ones(3, 2), "bias": torch.ones(2)}),
        RuntimeError,
        "size mismatch for weight: copying a param with shape torch.Size([3, 2]) from checkpoint, "
        "the shape in current model is torch.Size([2, 2]).",
    ),
    "no_parameters": (lambda: optim.SGD([], lr=0.1), ValueError, "optimizer got an empty parameter list"),
    "not_a_leaf": (
        lambda: optim.SGD([torch.ones(2, requires_grad=True) * 2], lr=0.1),
        ValueError,
        "can't optimize a non-leaf Tensor",
    ),
    "learning_rate": (lambda: optim.Adam([nn.Parameter(torch.ones(1))], lr=-1), ValueError, "Invalid learning rate: -1"),
    "one_cycle": (
        lambda: optim.lr_scheduler.OneCycleLR(optim.SGD([nn.Parameter(torch.ones(1))], lr=0.1), max_lr=0.1),
        ValueError,
        "You must define either total_steps OR (epochs AND steps_per_epoch)",
    ),
    "prefetch": (
        lambda: torch.utils.data.DataLoader([1, 2], prefetch_factor=2),
        ValueError,
        "prefetch_factor option could only be specified in multiprocessing.",
    ),
    "persistent": (
        lambda: torch.utils.data.DataLoader([1, 2], persistent_workers=True),
        ValueError,
        "persistent_workers option needs num_workers > 0",
    ),
    "ragged_batch": (
        lambda: next(iter(torch.utils.data.DataLoader([torch.ones(2), torch.ones(3)], batch_size=2))),
        RuntimeError,
        "stack expects each tensor to be equal size, but got [2] at entry 0 and [3] at entry 1",
    ),
    "split": (
        lambda: torch.utils.data.random_split([1, 2, 3], [1, 1]),
        ValueError,
        "Sum of input lengths does not equal the length of the input dataset!",
    ),
}


@pytest.mark.parametrize("name", ERRORS)
def test_error(name):
    mistake, kind, words = ERRORS[name]
    with pytest.raises(kind, match=re.escape(words)):
        mistake()


@pytest.mark.parametrize(
    "move", [lambda x: x.cuda(), lambda x: x.to("cuda"), lambda x: torch.ones(2, device="cuda")], ids=["cuda", "to", "device"]
)
def test_without_an_accelerator(move):
    if torch.cuda.is_available():
        pytest.skip("there is an accelerator")
    with pytest.raises(AssertionError, match="Torch not compiled with CUDA enabled"):
        move(torch.ones(2))
