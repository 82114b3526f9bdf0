"""What native code raises: the words of its errors, and the exception for bad data that a kernel finds. Stands on nothing."""

from __future__ import annotations


class KernelCheck(Exception):
    """A kernel found bad data (an index out of range, say); args[0] is the code it left."""


NO_MEMORY = (
    "[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to "
    "allocate %d bytes. Error code 12 (Cannot allocate memory)"
)
NO_DATA = "Tensor on device meta is not on the expected device cpu!"
OUTSIDE = (
    "a tensor reaches outside its storage: its memory was taken away or exchanged while it was used. Don't let one "
    "thread resize or set a tensor that another one computes with"
)
PENDING = (
    "a conjugate or negative view came to a kernel that reads memory as it is: hand over x.resolve_conj().resolve_neg(), "
    "or for a result a tensor of its own"
)
FORKED = (
    "a signal's handler forked while an operator was at work: the threads that had a part in it are not in this process, "
    "so that its result is not to be had here"
)
INFERENCE_WRITE = (
    "Inplace update to inference tensor outside InferenceMode is not allowed.You can make a clone to get a normal "
    "tensor before doing inplace update.See https://github.com/pytorch/rfcs/pull/17 for more details."
)
INFERENCE_SAVE = (
    "Inference tensors cannot be saved for backward. Please do not use Tensors created in inference mode in "
    "computation tracked by autograd. To work around this, you can make a clone to get a normal tensor and use "
    "it in autograd, or use `torch.no_grad()` instead of `torch.inference_mode()`."
)
