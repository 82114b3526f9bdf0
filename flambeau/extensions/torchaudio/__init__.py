"""The operators of torchaudio's compiled library, `torch.ops.torchaudio`: those of its releases from 2.9 on.

torchaudio's own files add gradients in Python. Its decoder on CUDA (`torchaudio_prefixctc`) has no counterpart. Stands on
torch.library; the table of extensions imports it.
"""

from __future__ import annotations

import sys
import types
from typing import Any

import flambeau as torch
from flambeau.extensions.torchaudio.alignment import forced_align
from flambeau.extensions.torchaudio.filters import lfilter_core_loop, overdrive_core_loop
from flambeau.extensions.torchaudio.transducer import rnnt_loss_forward

__all__ = ["register"]

_SCHEMAS = {
    "_lfilter_core_loop(Tensor input_signal_windows, Tensor a_coeff_flipped, Tensor(a!) padded_output_waveform) -> Tensor(a!)": lfilter_core_loop,
    "_overdrive_core_loop(Tensor waveform, Tensor temp, Tensor(a!) last_in, Tensor(b!) last_out, Tensor(c!) output_waveform) "
    "-> (Tensor(a!), Tensor(b!), Tensor(c!))": overdrive_core_loop,
    "forced_align(Tensor log_probs, Tensor targets, Tensor input_lengths, Tensor target_lengths, int blank) "
    "-> (Tensor, Tensor)": forced_align,
    "rnnt_loss_forward(Tensor logits, Tensor targets, Tensor logit_lengths, Tensor target_lengths, int blank, float clamp, "
    "bool fused_log_softmax) -> (Tensor, Tensor)": rnnt_loss_forward,
}
# What the library says of itself: by operators from 2.11 on, by a module before.
_ABOUT = {"is_align_available": lambda: True, "is_rir_available": lambda: False, "cuda_version": lambda: None}


def register() -> list[Any]:
    """Define the operators; returns the libraries that hold them."""
    library = torch.library.Library("torchaudio", "DEF")
    for schema, kernel in _SCHEMAS.items():
        library.define(schema)
        library.impl(schema.partition("(")[0], kernel, "CPU")
    about = torch.library.Library("_torchaudio", "DEF")
    for name, kind in (("is_align_available", "bool"), ("cuda_version", "int?")):
        about.define(f"{name}() -> {kind}")
        about.impl(name, _ABOUT[name], "CompositeImplicitAutograd")
    if "torchaudio.lib" in sys.modules:
        stand_in(sys.modules["torchaudio.lib"])
    return [library, about]


def stand_in(folder: types.ModuleType) -> None:
    """Put a module in the place of `torchaudio.lib._torchaudio`, which releases before 2.11 import after loading the library."""
    made = types.ModuleType(f"{folder.__name__}._torchaudio", "What torchaudio's compiled library says of itself.")
    vars(made).update(_ABOUT)
    sys.modules[made.__name__] = vars(folder)["_torchaudio"] = made
