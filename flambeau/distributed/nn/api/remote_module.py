"""RemoteModule: a module that another process has, called as if it were here. Stands on distributed.rpc."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import flambeau as torch
from flambeau.distributed import rpc
from flambeau.futures import Future

__all__ = ["RemoteModule"]


def _made(module_cls: Any, args: Any, kwargs: Any, device: str) -> Any:
    return module_cls(*args, **kwargs).to(device)


def _references(module: rpc.RRef[Any], recurse: bool) -> list[rpc.RRef[Any]]:
    return [rpc.RRef(each) for each in module.local_value().parameters(recurse)]


class RemoteModule(torch.nn.Module):
    """RemoteModule("worker1/cpu", Net, args, kwargs): Net(*args, **kwargs), made by another process.

    Calling it, or forward, runs the module there; forward_async gives a Future. Gradients go through it within a context of
    torch.distributed.autograd. What needs the module itself raises ValueError: call that where it is.
    """

    def __init__(
        self, remote_device: str, module_cls: type[Any], args: Any = None, kwargs: Any = None, _module_interface_cls: Any = None
    ) -> None:
        super().__init__()
        if _module_interface_cls is not None:
            raise NotImplementedError("RemoteModule of a script interface is not implemented in flambeau: leave it out")
        if not issubclass(module_cls, torch.nn.Module):
            raise ValueError("Expect `module_cls` to be a subclass of `nn.Module`")
        self.on, _, device = str(remote_device).partition("/")
        self.device = device or "cpu"
        if torch.device(self.device).type != "cpu":
            raise ValueError(f"modules are on the CPU of their process, not on {self.device}")
        self.is_scriptable = False
        self.module_rref = rpc.rpc_sync(self.on, _reference, (module_cls, args or (), kwargs or {}, self.device))

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The module's result."""
        return self.forward_async(*args, **kwargs).wait()

    def forward_async(self, *args: Any, **kwargs: Any) -> Future[Any]:
        """A Future of the module's result."""
        made: Future[Any] = self.module_rref.rpc_async().__call__(*args, **kwargs)
        return made

    def remote_parameters(self, recurse: bool = True) -> list[Any]:
        """References to the module's parameters, as a DistributedOptimizer takes them."""
        made: list[Any] = rpc.rpc_sync(self.on, _references, (self.module_rref, recurse))
        return made

    def get_module_rref(self) -> Any:
        """The reference to the module."""
        return self.module_rref

    def train(self, mode: bool = True) -> RemoteModule:
        """Have the module train, or not."""
        self.module_rref.rpc_sync().train(mode)
        return self

    def eval(self) -> RemoteModule:
        """Have the module not train."""
        return self.train(False)

    def __getstate__(self) -> NoReturn:
        raise RuntimeError("Cannot pickle RemoteModule in python pickler. RemoteModule can only be pickled when using RPC")


def _reference(module_cls: Any, args: Any, kwargs: Any, device: str) -> rpc.RRef[Any]:
    return rpc.RRef(_made(module_cls, args, kwargs, device))


def _not_here(name: str) -> Callable[..., Any]:
    def method(self: Any, *args: Any, **kwargs: Any) -> Iterator[Any]:
        raise ValueError(f"Method ``{name}`` not supported for RemoteModule")

    method.__name__ = name
    method.__doc__ = "Raises ValueError: the module is another process's."
    return method


for _name in """register_buffer register_parameter add_module apply cuda ipu xpu cpu type float double half bfloat16 to
        register_backward_hook register_forward_pre_hook register_forward_hook state_dict load_state_dict parameters
        named_parameters buffers named_buffers children named_children modules named_modules requires_grad_ zero_grad share_memory
        extra_repr""".split():
    setattr(RemoteModule, _name, _not_here(_name))
