"""Writes what the standard library's pickle makes of PyTorch's objects: `python make_plain.py FILE`, under either implementation.

`files/plain_pytorch_2_13.pkl` is what it wrote under PyTorch 2.13.
"""

import pickle
import sys

import torch
import torch.nn.functional as F


def objects() -> dict:
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2), torch.nn.MultiheadAttention(2, 1))
    optimizer = torch.optim.SGD(module.parameters(), lr=0.5, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.StepLR(torch.optim.SGD([torch.ones(1, requires_grad=True)], lr=0.5), 2)
    generator = torch.Generator().manual_seed(5)
    torch.rand(3, generator=generator)
    return {
        "tensor": torch.arange(6.0).reshape(2, 3).t(),
        "half": torch.tensor([1.5, -2], dtype=torch.bfloat16),
        "grad": torch.ones(2, dtype=torch.float64, requires_grad=True),
        "meta": torch.ones(2, 3, device="meta"),
        "parameter": torch.nn.Parameter(torch.tensor([1.0, 2.0]), requires_grad=False),
        "module": module,
        "optimizer": optimizer,
        "scheduler": scheduler,
        "generator": generator,
        "dtype": torch.int16,
        "device": torch.device("cpu"),
        "size": torch.Size([2, 3]),
        "layout": torch.strided,
        "result": torch.tensor([1.0, 3.0, 2.0]).max(0),
        "distribution": torch.distributions.Normal(0.0, 2.0),
        "transform": torch.distributions.ExpTransform(),
        "dataset": torch.utils.data.TensorDataset(torch.arange(3)),
        "functions": [F.relu, F.gelu, torch.sigmoid, torch.add, torch.einsum, torch.nn.init.xavier_uniform_],
        "classes": [torch.Tensor, torch.nn.Linear, torch.no_grad, torch.autograd.Function, torch.FloatTensor],
        "errors": [torch.OutOfMemoryError("no"), torch.linalg.LinAlgError("singular")],
    }


if __name__ == "__main__":
    with open(sys.argv[1], "wb") as file:
        pickle.dump(objects(), file, protocol=2)
