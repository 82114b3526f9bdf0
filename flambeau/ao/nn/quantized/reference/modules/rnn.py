"""Recurrent modules with rounded weights, each weight by parameters of its own. Stands on utils."""

from __future__ import annotations

from typing import Any

import flambeau as torch
from flambeau import nn
from flambeau.ao.nn.quantized.reference.modules.utils import WeightQParams, dequantized, quantized

__all__ = ["GRU", "LSTM", "GRUCell", "LSTMCell", "RNNBase", "RNNCell", "RNNCellBase", "get_quantized_weight"]

_DEFAULT = {
    "qscheme": torch.per_tensor_affine,
    "dtype": torch.quint8,
    "scale": 1.0,
    "zero_point": 0,
    "quant_min": None,
    "quant_max": None,
    "is_decomposed": False,
}


def get_quantized_weight(module: Any, wn: str) -> Any:
    """The quantized form of the weight of this name; None where the module has no such weight."""
    weight = getattr(module, wn, None)
    if weight is None:
        return None
    return quantized(weight, WeightQParams.of(module, wn), module.is_decomposed)


def _rounded(module: Any, wn: str) -> Any:
    return dequantized(getattr(module, wn), WeightQParams.of(module, wn), module.is_decomposed)


class _Rounding:
    """What cells and layers have in common: parameters of each weight by its name."""

    _FLOAT: Any

    def _keep_qparams(self, weight_qparams_dict: Any, names: list[str]) -> None:
        given = {} if weight_qparams_dict is None else weight_qparams_dict
        if weight_qparams_dict is not None:
            self.is_decomposed = given.get("is_decomposed", False)
        for name in names:
            device = getattr(self, name).device
            WeightQParams.keep(self, name, given.get(name, dict(_DEFAULT)), device)

    def _get_name(self) -> str:
        return f"Quantized{type(self).__name__}(Reference)"

    def get_quantized_weight_bias_dict(self) -> dict[str, dict[str, Any]]:
        """The quantized weights and the biases by their names."""
        made: dict[str, dict[str, Any]] = {"weight": {}, "bias": {}}
        for name in self._own_names():
            kind = "weight" if name.startswith("weight") else "bias"
            made[kind][name] = get_quantized_weight(self, name) if kind == "weight" else getattr(self, name)
        return made

    def _own_names(self) -> list[str]:
        raise NotImplementedError

    @classmethod
    def from_float(cls, mod: Any, weight_qparams_dict: dict[str, Any]) -> Any:
        """The reference module of a float one; parameters are shared."""
        made = cls._like(mod, weight_qparams_dict)
        for name in made._own_names():
            if getattr(mod, name, None) is not None:
                setattr(made, name, nn.Parameter(getattr(mod, name).detach()))
        return made

    @classmethod
    def _like(cls, mod: Any, weight_qparams_dict: dict[str, Any]) -> Any:
        raise NotImplementedError


class RNNCellBase(_Rounding, nn.RNNCellBase):
    """What the cells have in common."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool,
        num_chunks: int,
        device: Any = None,
        dtype: Any = None,
        weight_qparams_dict: Any = None,
    ) -> None:
        nn.RNNCellBase.__init__(self, input_size, hidden_size, bias, num_chunks, device=device, dtype=dtype)
        self._keep_qparams(weight_qparams_dict, ["weight_ih", "weight_hh"])

    def _own_names(self) -> list[str]:
        return ["weight_ih", "weight_hh", "bias_ih", "bias_hh"]

    def get_quantized_weight_ih(self) -> Any:
        """The quantized weight of the input."""
        return get_quantized_weight(self, "weight_ih")

    def get_quantized_weight_hh(self) -> Any:
        """The quantized weight of the state."""
        return get_quantized_weight(self, "weight_hh")

    def get_weight_ih(self) -> Any:
        """The weight of the input after it was quantized."""
        return _rounded(self, "weight_ih")

    def get_weight_hh(self) -> Any:
        """The weight of the state after it was quantized."""
        return _rounded(self, "weight_hh")

    @classmethod
    def _like(cls, mod: Any, weight_qparams_dict: dict[str, Any]) -> Any:
        kind: Any = cls
        more = {"nonlinearity": mod.nonlinearity} if hasattr(mod, "nonlinearity") else {}
        return kind(
            mod.input_size,
            mod.hidden_size,
            mod.bias,
            device=mod.weight_ih.device,
            dtype=mod.weight_ih.dtype,
            weight_qparams_dict=weight_qparams_dict,
            **more,
        )

    def _step(self, function: Any, input: Any, state: Any) -> Any:
        if input.dim() not in (1, 2):
            raise AssertionError(f"{type(self).__name__}: Expected input to be 1-D or 2-D but received {input.dim()}-D tensor")
        batched = input.dim() == 2
        batch = input if batched else input.unsqueeze(0)
        given = state if isinstance(state, tuple) else (state,)
        if state is None:
            zeros = torch.zeros(batch.size(0), self.hidden_size, dtype=batch.dtype, device=batch.device)
            given = (zeros, zeros) if function is torch.lstm_cell else (zeros,)
        elif not batched:
            given = tuple(each.unsqueeze(0) for each in given)
        whole = given if function is torch.lstm_cell else given[0]
        made = function(batch, whole, self.get_weight_ih(), self.get_weight_hh(), self.bias_ih, self.bias_hh)
        if batched:
            return made
        return tuple(each.squeeze(0) for each in made) if isinstance(made, tuple) else made.squeeze(0)


class RNNCell(RNNCellBase):
    """nn.RNNCell with rounded weights."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: Any = None,
        dtype: Any = None,
        weight_qparams_dict: Any = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 1, device, dtype, weight_qparams_dict)
        self.nonlinearity = nonlinearity

    def forward(self, input: Any, hx: Any = None) -> Any:
        """The next state. RuntimeError for another nonlinearity than tanh and relu."""
        if self.nonlinearity not in ("tanh", "relu"):
            raise RuntimeError(f"Unknown nonlinearity: {self.nonlinearity}")
        return self._step(torch.rnn_tanh_cell if self.nonlinearity == "tanh" else torch.rnn_relu_cell, input, hx)


class LSTMCell(RNNCellBase):
    """nn.LSTMCell with rounded weights."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
        weight_qparams_dict: Any = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 4, device, dtype, weight_qparams_dict)

    def forward(self, input: Any, hx: Any = None) -> Any:
        """The next states (h, c)."""
        return self._step(torch.lstm_cell, input, hx)


class GRUCell(RNNCellBase):
    """nn.GRUCell with rounded weights."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
        weight_qparams_dict: Any = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 3, device, dtype, weight_qparams_dict)

    def forward(self, input: Any, hx: Any = None) -> Any:
        """The next state."""
        return self._step(torch.gru_cell, input, hx)


class RNNBase(_Rounding):
    """What the layers have in common."""

    _flat_weights_names: list[str]
    _flat_weights: list[Any]

    def _keep(self, weight_qparams_dict: Any) -> None:
        self._keep_qparams(weight_qparams_dict, [name for name in self._flat_weights_names if name.startswith("weight")])

    def _own_names(self) -> list[str]:
        return list(self._flat_weights_names)

    def get_flat_weights(self) -> list[Any]:
        """All parameters in the order of the operators, weights after they were quantized."""
        return [_rounded(self, name) if name.startswith("weight") else getattr(self, name) for name in self._flat_weights_names]

    def forward(self, input: Any, hx: Any = None) -> Any:
        """The layer with its rounded weights."""
        own, self._flat_weights = self._flat_weights, self.get_flat_weights()
        try:
            return self._FLOAT.forward(self, input, hx)
        finally:
            self._flat_weights = own

    @classmethod
    def _like(cls, mod: Any, weight_qparams_dict: dict[str, Any]) -> Any:
        kind: Any = cls
        return kind(
            mod.input_size,
            mod.hidden_size,
            mod.num_layers,
            mod.bias,
            mod.batch_first,
            mod.dropout,
            mod.bidirectional,
            weight_qparams_dict=weight_qparams_dict,
        )


class LSTM(RNNBase, nn.LSTM):
    """nn.LSTM with rounded weights: nn.LSTM's arguments and weight_qparams_dict."""

    _FLOAT = nn.LSTM

    def __init__(self, *args: Any, weight_qparams_dict: Any = None, **kwargs: Any) -> None:
        nn.LSTM.__init__(self, *args, **kwargs)
        self._keep(weight_qparams_dict)


class GRU(RNNBase, nn.GRU):
    """nn.GRU with rounded weights: nn.GRU's arguments and weight_qparams_dict."""

    _FLOAT = nn.GRU

    def __init__(self, *args: Any, weight_qparams_dict: Any = None, **kwargs: Any) -> None:
        nn.GRU.__init__(self, *args, **kwargs)
        self._keep(weight_qparams_dict)
