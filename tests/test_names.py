"""What things are called: as PyTorch calls them where flambeau is loaded as torch, with its own name in front otherwise."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import flambeau

Run = Callable[..., subprocess.CompletedProcess[str]]

#: What PyTorch 2.13 prints of what its programs meet; below `torch` a path, then the name it has.
CLASSES = """
Tensor torch.Tensor
Size torch.Size
dtype torch.dtype
device torch.device
layout torch.layout
memory_format torch.memory_format
finfo torch.finfo
Generator torch._C.Generator
OutOfMemoryError torch.OutOfMemoryError
AcceleratorError torch.AcceleratorError
linalg.LinAlgError torch._C._LinAlgError
no_grad torch.autograd.grad_mode.no_grad
inference_mode torch.autograd.grad_mode.inference_mode
autocast torch.amp.autocast_mode.autocast
storage.TypedStorage torch.storage.TypedStorage
UntypedStorage torch.storage.UntypedStorage
FloatStorage torch.FloatStorage
return_types.max torch.return_types.max
__version__.__class__ torch.torch_version.TorchVersion
autograd.Function torch.autograd.function.Function
autograd.function.FunctionCtx torch.autograd.function.FunctionCtx
autograd.GradcheckError torch.autograd.gradcheck.GradcheckError
utils.hooks.RemovableHandle torch.utils.hooks.RemovableHandle
overrides.TorchFunctionMode torch.overrides.TorchFunctionMode
nn.Parameter torch.nn.parameter.Parameter
nn.Module torch.nn.modules.module.Module
nn.Linear torch.nn.modules.linear.Linear
nn.MultiheadAttention torch.nn.modules.activation.MultiheadAttention
nn.modules.loss._Loss torch.nn.modules.loss._Loss
nn.CrossEntropyLoss torch.nn.modules.loss.CrossEntropyLoss
nn.utils.rnn.PackedSequence torch.nn.utils.rnn.PackedSequence
optim.Adam torch.optim.adam.Adam
optim.Muon torch.optim.Muon
optim.lr_scheduler.StepLR torch.optim.lr_scheduler.StepLR
optim.lr_scheduler.LRScheduler torch.optim.lr_scheduler.LRScheduler
distributions.Normal torch.distributions.normal.Normal
distributions.AffineTransform torch.distributions.transforms.AffineTransform
utils.data.DataLoader torch.utils.data.dataloader.DataLoader
utils.data.TensorDataset torch.utils.data.dataset.TensorDataset
"""
FUNCTIONS = """
nn.functional.relu torch.nn.functional.relu
nn.functional.softmax torch.nn.functional.softmax
nn.functional.cross_entropy torch.nn.functional.cross_entropy
nn.init.normal_ torch.nn.init.normal_
func.vmap torch.func.vmap
save torch.serialization.save
autograd.grad torch.autograd.grad
nn.utils.clip_grad_norm_ torch.nn.utils.clip_grad.clip_grad_norm_
utils.data.default_collate torch.utils.data._utils.collate.default_collate
"""


@pytest.mark.parametrize("line", (CLASSES + FUNCTIONS).split("\n"), ids=lambda line: line.partition(" ")[0])
def test_own_names_differ_in_the_head_only(line: str) -> None:
    if not line:
        return
    path, name = line.split()
    found = flambeau
    for part in path.split("."):
        found = getattr(found, part)
    own = f"{found.__module__}.{found.__qualname__}"
    head = "torch" if path == "UntypedStorage" else "flambeau"  # that one is native
    assert own == head + name.removeprefix("torch")


PRINTED = """
import sys, torch
for line in sys.argv[1].split("\\n"):
    if line:
        path, name = line.split()
        found = torch
        for part in path.split("."):
            found = getattr(found, part)
        assert repr(found) == f"<class '{name}'>", (repr(found), name)
for line in sys.argv[2].split("\\n"):
    if line:
        path, name = line.split()
        found = torch
        for part in path.split("."):
            found = getattr(found, part)
        assert f"{found.__module__}.{found.__qualname__}" == name, found
assert [module.__name__ for module in (torch, torch.nn, torch.nn.functional)] == ["torch", "torch.nn", "torch.nn.functional"]
try:
    torch.no_such_name
except AttributeError as error:
    assert str(error) == "module 'torch' has no attribute 'no_such_name'"

# nothing that is loaded bears the other name
import torch.nn.utils.prune, torch.fx, torch.library, torch.distributions, torch.optim.swa_utils, torch.utils.checkpoint
strays = []
for where, module in list(sys.modules.items()):
    if where.partition(".")[0] == "torch":
        assert sys.modules["flambeau" + where[5:]] is module if "flambeau" + where[5:] in sys.modules else True
        for name, thing in vars(module).items():
            home = getattr(thing, "__module__", None) if isinstance(thing, type) or callable(thing) else None
            if isinstance(home, str) and home.partition(".")[0] == "flambeau":
                strays.append(f"{where}.{name}: {home}")
assert not strays, strays
raise torch.OutOfMemoryError("no more")
"""


def test_as_torch_everything_prints_as_pytorchs(run_python: Run) -> None:
    answer = run_python("-m", "flambeau_torch", "run", "-c", PRINTED, CLASSES, FUNCTIONS)
    assert answer.stderr.splitlines()[-1] == "torch.OutOfMemoryError: no more", answer.stderr


INSPECTED = """
import collections, dataclasses, doctest, inspect, pickle, typing, warnings
import torch
from torch import nn

assert inspect.getsource(nn.Linear).startswith("class Linear(")
assert inspect.getsource(nn.Linear.forward).lstrip().startswith("def forward(self")
assert inspect.getmodule(nn.Linear).__name__ == "torch.nn.modules.linear"
assert inspect.signature(nn.Linear).parameters["bias"].default is True
assert typing.get_type_hints(torch.utils.data.DataLoader.__init__)

@dataclasses.dataclass
class Settings:
    weight: torch.Tensor
    kind: "torch.dtype" = torch.float32
    shared: typing.ClassVar[int] = 1

assert typing.get_type_hints(Settings)["kind"] is torch.dtype and len(dataclasses.fields(Settings)) == 2

class Net(nn.Module):
    '''Doubles.

    >>> Net()(torch.ones(2))
    tensor([2., 2.])
    >>> type(torch.ones(1))
    <class 'torch.Tensor'>
    '''
    def forward(self, x):
        return 2 * x

assert doctest.testmod() == (0, 2)
assert type(pickle.loads(pickle.dumps(Net()))) is Net
assert pickle.loads(pickle.dumps(Settings(torch.ones(1)))).weight.item() == 1

with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    nn.functional.softmax(torch.ones(2, 3)); first = inspect.currentframe().f_lineno
    nn.functional.mse_loss(torch.ones(2), torch.ones(2, 1)); second = inspect.currentframe().f_lineno
    nn.Softmax()(torch.ones(2, 3)); third = inspect.currentframe().f_lineno
assert [(each.filename, each.lineno) for each in caught] == [(__file__, line) for line in (first, second, third)], caught
with warnings.catch_warnings():
    warnings.simplefilter("error")
    warnings.filterwarnings("ignore", module=r"torch\\\\.optim\\\\.lr_scheduler")
    warnings.filterwarnings("ignore", module="__main__")
    nn.functional.softmax(torch.ones(2, 3))
"""


def test_what_python_finds_out_about_things(run_python: Run, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(INSPECTED)
    answer = run_python("-m", "flambeau_torch", "run", program)
    assert (answer.returncode, answer.stderr) == (0, "")


def test_the_namespace_lists_what_it_loads_at_first_use(run_python: Run) -> None:
    code = (
        "import flambeau\n"
        "listed, unloaded = set(dir(flambeau)), 'manual_seed' not in vars(flambeau)\n"
        "given = {}\n"
        "exec('from flambeau import *', given)\n"
        "wanted = 'manual_seed save load Generator Stream lstm embedding_bag kl_div sparse_coo_tensor FloatTensor GradScaler'\n"
        "wanted = wanted.split()\n"
        "print(unloaded, [n for n in wanted if n not in given or n not in listed])\n"
        "print({'nn', 'optim', 'jit', 'manual_seed'} - listed, [n for n in listed if not hasattr(flambeau, n)])\n"
        "print(sorted({'nn', 'core', 'codegen', 'namespace', 'os', '_dtypes'} & set(flambeau.__all__)))\n"
    )
    answer = run_python("-c", code)
    assert answer.stdout.splitlines() == ["True []", "set() []", "[]"], answer.stdout + answer.stderr
