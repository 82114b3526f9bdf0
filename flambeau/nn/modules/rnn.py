"""Recurrent layers (RNN, LSTM, GRU) and cells. The arithmetic is in `recurrence`."""

from __future__ import annotations

import math
import numbers
import warnings
from typing import Any

import flambeau
from flambeau.core.tensor.tensor import Tensor
from flambeau.nn import init
from flambeau.nn.modules import recurrence
from flambeau.nn.modules.module import Module
from flambeau.nn.parameter import Parameter
from flambeau.nn.utils.rnn import PackedSequence

__all__ = ["GRU", "LSTM", "RNN", "GRUCell", "LSTMCell", "RNNBase", "RNNCell", "RNNCellBase"]

_GATES = {"LSTM": 4, "GRU": 3, "RNN_TANH": 1, "RNN_RELU": 1}


def apply_permutation(tensor: Tensor, permutation: Tensor, dim: int = 1) -> Tensor:
    """Deprecated: tensor.index_select(dim, permutation)."""
    warnings.warn(
        "`apply_permutation` is deprecated, please use `tensor.index_select(dim, permutation)` instead",
        FutureWarning,
        stacklevel=2,
    )
    return tensor.index_select(dim, permutation)


class RNNBase(Module):
    """What the recurrent layers share: weights named weight_ih_l0, weight_hh_l0, bias_ih_l0, ..., and checks."""

    __constants__ = [
        "mode", "input_size", "hidden_size", "num_layers", "bias", "batch_first", "dropout", "bidirectional",
        "proj_size",
    ]  # fmt: skip
    mode: str

    def __init__(
        self,
        mode: str,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device=None,
        dtype=None,
    ) -> None:
        super().__init__()
        self.mode = mode
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout = float(dropout) if isinstance(dropout, numbers.Number) else dropout
        self.bidirectional = bidirectional
        self.proj_size = proj_size
        self._check_arguments(dropout)
        gate_size = _GATES[mode] * hidden_size
        self._flat_weights_names: list[str] = []
        self._all_weights: list[list[str]] = []
        directions = 2 if bidirectional else 1
        output_size = proj_size if proj_size > 0 else hidden_size
        for layer in range(num_layers):
            for direction in range(directions):
                suffix = f"_l{layer}" + ("_reverse" if direction else "")
                layer_input = input_size if layer == 0 else output_size * directions
                shapes: dict[str, tuple[int, ...]] = {
                    "weight_ih": (gate_size, layer_input),
                    "weight_hh": (gate_size, output_size),
                }
                if bias:
                    shapes["bias_ih"] = shapes["bias_hh"] = (gate_size,)
                if proj_size > 0:
                    shapes["weight_hr"] = (proj_size, hidden_size)
                names = [name + suffix for name in shapes]
                for name, shape in zip(names, shapes.values()):
                    setattr(self, name, Parameter(flambeau.empty(shape, device=device, dtype=dtype)))
                self._flat_weights_names.extend(names)
                self._all_weights.append(names)
        self.reset_parameters()

    def _check_arguments(self, dropout: Any) -> None:
        if not isinstance(dropout, numbers.Number) or not 0 <= dropout <= 1 or isinstance(dropout, bool):
            raise ValueError("dropout should be a number in range [0, 1] representing the probability of an element being zeroed")
        if dropout > 0 and self.num_layers == 1:
            warnings.warn(
                "dropout option adds dropout after all but last "
                "recurrent layer, so non-zero dropout expects "
                f"num_layers greater than 1, but got dropout={dropout} and "
                f"num_layers={self.num_layers}",
                stacklevel=4,
            )
        if not isinstance(self.input_size, int):
            raise TypeError(f"input_size should be of type int, got: {type(self.input_size).__name__}")
        if self.input_size <= 0:
            raise ValueError("input_size must be greater than zero")
        if not isinstance(self.hidden_size, int):
            raise TypeError(f"hidden_size should be of type int, got: {type(self.hidden_size).__name__}")
        if self.hidden_size <= 0:
            raise ValueError("hidden_size must be greater than zero")
        for name in ("bias", "batch_first"):
            if not isinstance(getattr(self, name), bool):
                raise TypeError(f"{name} should be of type bool, got: {type(getattr(self, name)).__name__}")
        if self.num_layers <= 0:
            raise ValueError("num_layers must be greater than zero")
        if self.proj_size < 0:
            raise ValueError("proj_size should be a positive integer or zero to disable projections")
        if self.proj_size >= self.hidden_size:
            raise ValueError("proj_size has to be smaller than hidden_size")
        if self.mode not in _GATES:
            raise ValueError("Unrecognized RNN mode: " + self.mode)

    @property
    def _flat_weights(self) -> list[Tensor]:
        """The weights in the order `recurrence` wants; read each time, so that replaced ones are seen."""
        return [getattr(self, name) for name in self._flat_weights_names]

    @property
    def all_weights(self) -> list[list[Parameter]]:
        """The weights of each layer and direction."""
        return [[getattr(self, name) for name in names] for names in self._all_weights]

    def flatten_parameters(self) -> None:
        """Nothing to do: only GPU libraries want the weights in one block."""

    def reset_parameters(self) -> None:
        """Uniform in +-1/sqrt(hidden_size), in order of registration."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def __getstate__(self) -> dict[str, Any]:
        # PyTorch's layers read this list, and make it only where they are built.
        return {**super().__getstate__(), "_flat_weights": self._flat_weights}

    def __setstate__(self, state: dict[str, Any]) -> None:
        # The list is read afresh here; old files of PyTorch carry references to its weights too.
        state = {name: value for name, value in state.items() if name not in ("_flat_weights", "_flat_weight_refs")}
        super().__setstate__(state)
        self.__dict__.setdefault("proj_size", 0)
        if "all_weights" in self.__dict__:
            self._all_weights = self.__dict__.pop("all_weights")
        self._flat_weights_names = [name for names in self._all_weights for name in names]

    # ------------------------------------------------------------------- checks
    def check_input(self, input: Tensor, batch_sizes: Tensor | None) -> None:
        """Dtype, rank and features of the input."""
        weight_type = getattr(self, self._flat_weights_names[0]).dtype
        if input.dtype != weight_type and not flambeau.is_autocast_enabled(input.device.type):
            raise ValueError(
                f"RNN input dtype ({input.dtype}) does not match weight dtype ({weight_type}). "
                f"Convert input: input.to({weight_type}), or convert model: model.to({input.dtype})"
            )
        expected = 2 if batch_sizes is not None else 3
        if input.dim() != expected:
            raise RuntimeError(f"input must have {expected} dimensions, got {input.dim()}")
        if self.input_size != input.size(-1):
            raise RuntimeError(f"input.size(-1) must be equal to input_size. Expected {self.input_size}, got {input.size(-1)}")

    def _batch_size(self, input: Tensor, batch_sizes: Tensor | None) -> int:
        if batch_sizes is not None:
            return int(batch_sizes[0])
        return input.size(0) if self.batch_first else input.size(1)

    def get_expected_hidden_size(self, input: Tensor, batch_sizes: Tensor | None) -> tuple[int, int, int]:
        """(layers * directions, batch, hidden_size or proj_size)."""
        count = self.num_layers * (2 if self.bidirectional else 1)
        return count, self._batch_size(input, batch_sizes), self.proj_size or self.hidden_size

    def check_hidden_size(
        self, hx: Tensor, expected_hidden_size: tuple[int, int, int], msg: str = "Expected hidden size {}, got {}"
    ) -> None:
        """RuntimeError unless hx has the expected size."""
        if tuple(hx.size()) != expected_hidden_size:
            raise RuntimeError(msg.format(expected_hidden_size, list(hx.size())))

    def check_forward_args(self, input: Tensor, hidden: Any, batch_sizes: Tensor | None) -> None:
        """All checks of a call."""
        self.check_input(input, batch_sizes)
        self.check_hidden_size(hidden, self.get_expected_hidden_size(input, batch_sizes))

    def permute_hidden(self, hx: Any, permutation: Tensor | None) -> Any:
        """The batch dimension in another order."""
        return hx if permutation is None else hx.index_select(1, permutation)

    # ------------------------------------------------------------------ forward
    # The words of the complaint about an input's rank.
    _kind = _noun = ""

    def _initial_states(self, input: Tensor, batch_sizes: Tensor | None) -> tuple[Tensor, ...]:
        count = self.num_layers * (2 if self.bidirectional else 1)
        max_batch_size = self._batch_size(input, batch_sizes)
        sizes = (self.proj_size or self.hidden_size, self.hidden_size) if self.mode == "LSTM" else (self.hidden_size,)
        return tuple(flambeau.zeros(count, max_batch_size, size, dtype=input.dtype, device=input.device) for size in sizes)

    def _check_state_rank(self, states: tuple[Tensor, ...], batched: bool) -> None:
        rank = 3 if batched else 2
        if any(state.dim() != rank for state in states):
            word = "batched" if batched else "unbatched"
            raise RuntimeError(f"For {word} {rank}-D input, hx should also be {rank}-D but got {states[0].dim()}-D tensor")

    def _forward(self, input: Any, states: tuple[Tensor, ...] | None) -> tuple[Any, tuple[Tensor, ...]]:
        """The forward of every kind, with states as a tuple."""
        packed = isinstance(input, PackedSequence)
        batched = True
        batch_sizes = unsorted_indices = None
        if packed:
            original = input
            input, batch_sizes, sorted_indices, unsorted_indices = original
            if states is not None:
                states = tuple(RNNBase.permute_hidden(self, state, sorted_indices) for state in states)
        else:
            if input.dim() not in (2, 3):
                raise ValueError(f"{self._kind}: Expected input to be 2D or 3D, got {input.dim()}D{self._noun} instead")
            batched = input.dim() == 3
            if states is not None:
                self._check_state_rank(states, batched)
            if not batched:
                input = input.unsqueeze(0 if self.batch_first else 1)
                if states is not None:
                    states = tuple(state.unsqueeze(1) for state in states)
        if states is None:
            states = self._initial_states(input, batch_sizes)
        self.check_forward_args(input, states if len(states) > 1 else states[0], batch_sizes)
        # The public function, by which whoever watches calls sees a layer as one operator.
        function = getattr(flambeau, self.mode.lower())
        hx = states if self.mode == "LSTM" else states[0]
        rest = (self._flat_weights, self.bias, self.num_layers, self.dropout, self.training, self.bidirectional)
        output, *finals = function(input, batch_sizes, hx, *rest) if packed else function(input, hx, *rest, self.batch_first)
        if packed:
            output = PackedSequence(output, batch_sizes, original.sorted_indices, unsorted_indices)
            return output, tuple(RNNBase.permute_hidden(self, final, unsorted_indices) for final in finals)
        if not batched:
            output = output.squeeze(0 if self.batch_first else 1)
            finals = [final.squeeze(1) for final in finals]
        return output, tuple(finals)

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        if self.proj_size != 0:
            text += f", proj_size={self.proj_size}"
        if self.num_layers != 1:
            text += f", num_layers={self.num_layers}"
        if self.bias is not True:
            text += f", bias={self.bias}"
        if self.batch_first is not False:
            text += f", batch_first={self.batch_first}"
        if self.dropout != 0:
            text += f", dropout={self.dropout}"
        if self.bidirectional is not False:
            text += f", bidirectional={self.bidirectional}"
        return text


class RNN(RNNBase):
    """h_t = tanh(W_ih x_t + b_ih + W_hh h_{t-1} + b_hh), or relu.

    input (L, N, input_size), (N, L, input_size) with batch_first, (L, input_size) or a PackedSequence; hx
    (layers * directions, N, hidden_size). Returns (output (L, N, directions * hidden_size), last hidden).
    """

    _kind, _noun = "RNN", " tensor"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if "proj_size" in kwargs:
            raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")
        if len(args) > 3:
            nonlinearity = args[3]
            args = args[:3] + args[4:]
        else:
            nonlinearity = kwargs.pop("nonlinearity", "tanh")
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'.")
        super().__init__(f"RNN_{nonlinearity.upper()}", *args, **kwargs)
        self.nonlinearity = nonlinearity

    def forward(self, input: Any, hx: Tensor | None = None) -> tuple[Any, Tensor]:
        output, (hidden,) = self._forward(input, None if hx is None else (hx,))
        return output, hidden


class LSTM(RNNBase):
    """Long short-term memory with gates i, f, g, o; proj_size > 0 projects the hidden state.

    input as RNN; hx is (hidden, cell) with cell (layers * directions, N, hidden_size). Returns
    (output, (hidden, cell)).
    """

    _kind = "LSTM"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("LSTM", *args, **kwargs)

    def get_expected_cell_size(self, input: Tensor, batch_sizes: Tensor | None) -> tuple[int, int, int]:
        """(layers * directions, batch, hidden_size)."""
        count = self.num_layers * (2 if self.bidirectional else 1)
        return count, self._batch_size(input, batch_sizes), self.hidden_size

    def check_forward_args(self, input: Tensor, hidden: Any, batch_sizes: Tensor | None) -> None:
        """All checks of a call."""
        self.check_input(input, batch_sizes)
        expected = self.get_expected_hidden_size(input, batch_sizes)
        self.check_hidden_size(hidden[0], expected, "Expected hidden[0] size {}, got {}")
        expected = self.get_expected_cell_size(input, batch_sizes)
        self.check_hidden_size(hidden[1], expected, "Expected hidden[1] size {}, got {}")

    def permute_hidden(self, hx: Any, permutation: Tensor | None) -> Any:
        """The batch dimension of both states in another order."""
        return hx if permutation is None else tuple(state.index_select(1, permutation) for state in hx)

    def _check_state_rank(self, states: tuple[Tensor, ...], batched: bool) -> None:
        rank = 3 if batched else 2
        if any(state.dim() != rank for state in states):
            word = "batched" if batched else "unbatched"
            raise RuntimeError(
                f"For {word} {rank}-D input, hx and cx should also be {rank}-D but got "
                f"({states[0].dim()}-D, {states[1].dim()}-D) tensors"
            )

    def forward(self, input: Any, hx: tuple[Tensor, Tensor] | None = None) -> tuple[Any, tuple[Tensor, Tensor]]:
        return self._forward(input, None if hx is None else tuple(hx))


class GRU(RNNBase):
    """Gated recurrent unit with gates r, z, n. Arguments, input and results as RNN."""

    _kind = "GRU"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if "proj_size" in kwargs:
            raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")
        super().__init__("GRU", *args, **kwargs)

    def forward(self, input: Any, hx: Tensor | None = None) -> tuple[Any, Tensor]:
        output, (hidden,) = self._forward(input, None if hx is None else (hx,))
        return output, hidden


class RNNCellBase(Module):
    """Weights of one recurrent step: weight_ih, weight_hh, bias_ih, bias_hh."""

    __constants__ = ["input_size", "hidden_size", "bias"]

    def __init__(self, input_size: int, hidden_size: int, bias: bool, num_chunks: int, device=None, dtype=None) -> None:
        super().__init__()
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.bias = bias
        rows = num_chunks * hidden_size
        self.weight_ih = Parameter(flambeau.empty((rows, input_size), device=device, dtype=dtype))
        self.weight_hh = Parameter(flambeau.empty((rows, hidden_size), device=device, dtype=dtype))
        if bias:
            self.bias_ih = Parameter(flambeau.empty(rows, device=device, dtype=dtype))
            self.bias_hh = Parameter(flambeau.empty(rows, device=device, dtype=dtype))
        else:
            self.register_parameter("bias_ih", None)
            self.register_parameter("bias_hh", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Uniform in +-1/sqrt(hidden_size)."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def _weights(self) -> tuple[Tensor | None, ...]:
        return self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh

    def _check_rank(self, tensor: Tensor, what: str) -> None:
        if tensor.dim() not in (1, 2):
            raise ValueError(f"{type(self).__name__}: Expected {what} to be 1D or 2D, got {tensor.dim()}D instead")

    def _step(self, function: Any, input: Tensor, hx: Tensor | None) -> Tensor:
        """One step of a kind with a single state, with or without a batch."""
        self._check_rank(input, "input")
        if hx is not None:
            self._check_rank(hx, "hidden")
        batched = input.dim() == 2
        if not batched:
            input = input.unsqueeze(0)
        if hx is None:
            hx = flambeau.zeros(input.size(0), self.hidden_size, dtype=input.dtype, device=input.device)
        elif not batched:
            hx = hx.unsqueeze(0)
        result = function(input, hx, *self._weights())
        return result if batched else result.squeeze(0)

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        if self.bias is not True:
            text += f", bias={self.bias}"
        nonlinearity = self.__dict__.get("nonlinearity", "tanh")
        if nonlinearity != "tanh":
            text += f", nonlinearity={nonlinearity}"
        return text


class RNNCell(RNNCellBase):
    """tanh (or relu) of W_ih x + b_ih + W_hh h + b_hh. x (N, input_size) or (input_size), h (N, hidden_size)."""

    __constants__ = ["input_size", "hidden_size", "bias", "nonlinearity"]
    nonlinearity: str

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, nonlinearity: str = "tanh", device=None, dtype=None
    ) -> None:
        super().__init__(input_size, hidden_size, bias, num_chunks=1, device=device, dtype=dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        functions = {"tanh": recurrence.rnn_tanh_cell, "relu": recurrence.rnn_relu_cell}
        if self.nonlinearity not in functions:
            raise RuntimeError(f"Unknown nonlinearity: {self.nonlinearity}")
        return self._step(functions[self.nonlinearity], input, hx)


class GRUCell(RNNCellBase):
    """One step of a gated recurrent unit. x (N, input_size) or (input_size), h (N, hidden_size)."""

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True, device=None, dtype=None) -> None:
        super().__init__(input_size, hidden_size, bias, num_chunks=3, device=device, dtype=dtype)

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        return self._step(recurrence.gru_cell, input, hx)


class LSTMCell(RNNCellBase):
    """One step of a long short-term memory: x and (h, c) to the next (h, c)."""

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True, device=None, dtype=None) -> None:
        super().__init__(input_size, hidden_size, bias, num_chunks=4, device=device, dtype=dtype)

    def forward(self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Tensor]:
        self._check_rank(input, "input")
        if hx is not None:
            for position, state in enumerate(hx):
                self._check_rank(state, f"hx[{position}]")
        batched = input.dim() == 2
        if not batched:
            input = input.unsqueeze(0)
        if hx is None:
            zeros = flambeau.zeros(input.size(0), self.hidden_size, dtype=input.dtype, device=input.device)
            hx = (zeros, zeros)
        elif not batched:
            hx = (hx[0].unsqueeze(0), hx[1].unsqueeze(0))
        hidden, cell = recurrence.lstm_cell(input, hx, *self._weights())
        return (hidden, cell) if batched else (hidden.squeeze(0), cell.squeeze(0))
