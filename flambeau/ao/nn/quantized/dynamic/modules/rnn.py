"""Recurrent layers and cells with integer or float16 weights, for float inputs. Stands on torch.ops.quantized."""

from __future__ import annotations

import numbers
import warnings
from typing import Any

import flambeau as torch
from flambeau import nn
from flambeau.ao.nn.quantized.modules.utils import _quantize_weight
from flambeau.nn.utils.rnn import PackedSequence

__all__ = ["GRU", "LSTM", "GRUCell", "LSTMCell", "RNNCell", "pack_weight_bias"]

ops = torch.ops.quantized
_DTYPES = (torch.qint8, torch.float16)


def pack_weight_bias(qweight: Any, bias: Any, dtype: Any) -> Any:
    """A packed weight, of qint8 or of float16."""
    return ops.linear_prepack(qweight, bias) if dtype is torch.qint8 else ops.linear_prepack_fp16(qweight, bias)


class PackedParameter(nn.Module):
    """Packed weights as a module, so that they are in the state dict."""

    def __init__(self, param: Any) -> None:
        super().__init__()
        self.param = param

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "param"] = self.param

    def _load_from_state_dict(
        self,
        state_dict: Any,
        prefix: str,
        local_metadata: Any,
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        self.param = state_dict[prefix + "param"]
        super()._load_from_state_dict(state_dict, prefix, local_metadata, False, missing_keys, unexpected_keys, error_msgs)


def _weight_observer(mod: Any) -> Any:
    if mod.qconfig is not None and mod.qconfig.weight is not None:
        made = mod.qconfig.weight
    else:
        from flambeau.ao.quantization.qconfig import default_dynamic_qconfig

        made = default_dynamic_qconfig.weight
    if made().dtype not in _DTYPES:
        raise RuntimeError(f"Unsupported dtype for dynamic RNN quantization: {made().dtype}")
    return made


def _packed(weight: Any, bias: Any, observer: Any) -> Any:
    """A float weight, packed by an observer that is made for it."""
    seen = observer()
    seen(weight)
    return pack_weight_bias(
        _quantize_weight(weight.float(), seen) if seen.dtype is torch.qint8 else weight.float(), bias, seen.dtype
    )


class RNNBase(nn.Module):
    """What LSTM and GRU have in common. The arguments are those of nn.LSTM; dtype: qint8 or float16."""

    _FLOAT_MODULE: Any = nn.RNNBase
    _version = 2
    _GATES = {"LSTM": 4, "GRU": 3}

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
        dtype: Any = torch.qint8,
    ) -> None:
        super().__init__()
        self.mode, self.input_size, self.hidden_size, self.num_layers = mode, input_size, hidden_size, num_layers
        self.bias, self.batch_first, self.dropout, self.bidirectional = bias, batch_first, float(dropout), bidirectional
        self.dtype, self.version, self.training = dtype, 2, False
        ways = 2 if bidirectional else 1
        if not isinstance(dropout, numbers.Number) or not 0 <= dropout <= 1 or isinstance(dropout, bool):
            raise ValueError("dropout should be a number in range [0, 1] representing the probability of an element being zeroed")
        if dropout > 0 and num_layers == 1:
            warnings.warn(
                "dropout option adds dropout after all but last recurrent layer, so non-zero dropout expects num_layers greater "
                f"than 1, but got dropout={dropout} and num_layers={num_layers}",
                stacklevel=3,
            )
        if mode not in self._GATES:
            raise ValueError("Unrecognized RNN mode: " + mode)
        rows = self._GATES[mode] * hidden_size
        cells = []
        for layer in range(num_layers):
            width = input_size if layer == 0 else hidden_size * ways
            for _ in range(ways):
                weights = torch.randn(rows, width).to(torch.float), torch.randn(rows, hidden_size).to(torch.float)
                biases = torch.randn(rows).to(torch.float), torch.randn(rows).to(torch.float)
                if dtype is torch.qint8:
                    weights = tuple(torch.quantize_per_tensor(w, 1, 0, torch.qint8) for w in weights)
                ih, hh = (pack_weight_bias(w, b, dtype) for w, b in zip(weights, biases))
                cells.append(self._cell(ih, hh, *biases))
        self._all_weight_values = nn.ModuleList(map(PackedParameter, cells))

    def _cell(self, ih: Any, hh: Any, b_ih: Any, b_hh: Any) -> Any:
        if self.dtype is torch.qint8:
            return ops.make_quantized_cell_params_dynamic(ih, hh, b_ih, b_hh, self.version is not None and self.version >= 2)
        return ops.make_quantized_cell_params_fp16(ih, hh)

    def _get_name(self) -> str:
        return "DynamicQuantizedRNN"

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        if self.num_layers != 1:
            text += f", num_layers={self.num_layers}"
        if self.bias is not True:
            text += f", bias={self.bias}"
        if self.batch_first is not False:
            text += f", batch_first={self.batch_first}"
        if self.dropout != 0:
            text += f", dropout={self.dropout}"
        return text + (f", bidirectional={self.bidirectional}" if self.bidirectional is not False else "")

    def __repr__(self) -> str:
        return f"{self._get_name()}({self.extra_repr()})"

    # ---- arguments
    def check_input(self, input: Any, batch_sizes: Any) -> None:
        """RuntimeError for an input of other dimensions or width."""
        expected = 2 if batch_sizes is not None else 3
        if input.dim() != expected:
            raise RuntimeError(f"input must have {expected} dimensions, got {input.dim()}")
        if self.input_size != input.size(-1):
            raise RuntimeError(f"input.size(-1) must be equal to input_size. Expected {self.input_size}, got {input.size(-1)}")

    def get_expected_hidden_size(self, input: Any, batch_sizes: Any) -> tuple[int, int, int]:
        """The shape of a state."""
        batch = int(batch_sizes[0]) if batch_sizes is not None else input.size(0 if self.batch_first else 1)
        return self.num_layers * (2 if self.bidirectional else 1), batch, self.hidden_size

    def check_hidden_size(self, hx: Any, expected: Any, msg: str = "Expected hidden size {}, got {}") -> None:
        """RuntimeError for a state of another shape."""
        if hx.size() != expected:
            raise RuntimeError(msg.format(expected, list(hx.size())))

    def check_forward_args(self, input: Any, hidden: Any, batch_sizes: Any) -> None:
        """RuntimeError for arguments that don't fit."""
        self.check_input(input, batch_sizes)
        expected = self.get_expected_hidden_size(input, batch_sizes)
        for name, state in zip(("hidden[0]", "hidden[1]"), hidden if isinstance(hidden, tuple) else (hidden,)):
            text = f"Expected {name} size {{}}, got {{}}" if isinstance(hidden, tuple) else "Expected hidden size {}, got {}"
            self.check_hidden_size(state, expected, text)

    def permute_hidden(self, hx: Any, permutation: Any) -> Any:
        """A state, or both, with its sequences in another order."""
        if permutation is None:
            return hx
        if isinstance(hx, tuple):
            return tuple(x.index_select(1, permutation) for x in hx)
        return hx.index_select(1, permutation)

    def forward(self, input: Any, hx: Any = None) -> Any:
        """(results of all steps, last state), as of nn.LSTM or nn.GRU; the input may be a PackedSequence."""
        packed = isinstance(input, PackedSequence)
        data, sizes, order, back = input if packed else (input, None, None, None)
        lstm = self.mode == "LSTM"
        if hx is None:
            zeros = torch.zeros(*self.get_expected_hidden_size(data, sizes), dtype=data.dtype, device=data.device)
            hx = (zeros, zeros) if lstm else zeros
        else:
            hx = self.permute_hidden(tuple(hx) if lstm else hx, order)
        self.check_forward_args(data, hx, sizes)
        weights = [each.param for each in self._all_weight_values]
        settings = (self.bias, self.num_layers, float(self.dropout), self.training, self.bidirectional)
        run = torch.quantized_lstm if lstm else torch.quantized_gru
        arguments = (data, sizes, hx, weights, *settings) if packed else (data, hx, weights, *settings, self.batch_first)
        made, *states = run(*arguments)
        state = tuple(states) if lstm else states[0]
        out = PackedSequence(made, sizes, order, back) if packed else made
        return out, self.permute_hidden(state, back)

    def _load_from_state_dict(self, state_dict: Any, prefix: str, local_metadata: Any, *rest: Any) -> None:
        self.version = local_metadata.get("version", None)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)

    def set_weight_bias(self, weight_bias_dict: dict[str, Any]) -> None:
        """Take on other weights, by their names in a float module."""
        self._take(lambda name: weight_bias_dict[name], lambda w, b: pack_weight_bias(w, b, w.dtype))

    def _take(self, of: Any, pack: Any) -> None:
        cells = []
        for layer in range(self.num_layers):
            for end in ("", "_reverse")[: 2 if self.bidirectional else 1]:
                names = [f"{what}_{which}_l{layer}{end}" for what in ("weight", "bias") for which in ("ih", "hh")]
                w_ih, w_hh, b_ih, b_hh = (of(name) for name in names)
                cells.append(self._cell(pack(w_ih, b_ih), pack(w_hh, b_hh), b_ih, b_hh))
        self._all_weight_values = nn.ModuleList(map(PackedParameter, cells))

    @classmethod
    def from_reference(cls, ref_mod: Any) -> Any:
        """The module that a reference layer becomes."""
        names = ref_mod.get_quantized_weight_bias_dict()
        dtype = ref_mod.weight_ih_l0_dtype
        kind: Any = cls
        made = kind(
            ref_mod.input_size,
            ref_mod.hidden_size,
            ref_mod.num_layers,
            ref_mod.bias,
            ref_mod.batch_first,
            ref_mod.dropout,
            ref_mod.bidirectional,
            dtype=dtype,
        )
        both = {**names["weight"], **names["bias"]}
        made._take(both.__getitem__, lambda w, b: pack_weight_bias(w, b, dtype))
        return made

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """The module that a float layer becomes, by its qconfig or the default one."""
        assert type(mod) in {nn.LSTM, nn.GRU}, "nn.quantized.dynamic.RNNBase.from_float only works for nn.LSTM and nn.GRU"
        assert hasattr(mod, "qconfig"), "Input float module must have qconfig defined"
        observer = _weight_observer(mod)
        assert mod.bias, "a float layer without biases can't be quantized"
        shared = (mod.input_size, mod.hidden_size, mod.num_layers, mod.bias, mod.batch_first, mod.dropout, mod.bidirectional)
        made = {"LSTM": LSTM, "GRU": GRU}[mod.mode](*shared, observer().dtype)
        made._take(lambda name: getattr(mod, name), lambda w, b: _packed(w, b, observer))
        return made

    def _weight_bias(self) -> dict[str, dict[str, Any]]:
        """Weights and biases by the names that a float module has for them."""
        made: dict[str, dict[str, Any]] = {"weight": {}, "bias": {}}
        cells = iter(self._all_weight_values)
        for layer in range(self.num_layers):
            for end in ("", "_reverse")[: 2 if self.bidirectional else 1]:
                cell = next(cells).param
                for which, packed, bias in (("ih", cell.ih, cell.bias_ih), ("hh", cell.hh, cell.bias_hh)):
                    made["weight"][f"weight_{which}_l{layer}{end}"] = packed.unpack()[0]
                    made["bias"][f"bias_{which}_l{layer}{end}"] = bias
        return made

    def get_weight(self) -> dict[str, Any]:
        """The weights by name."""
        return self._weight_bias()["weight"]

    def get_bias(self) -> dict[str, Any]:
        """The biases by name."""
        return self._weight_bias()["bias"]


class LSTM(RNNBase):
    """nn.LSTM with integer or float16 weights."""

    _FLOAT_MODULE = nn.LSTM

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("LSTM", *args, **kwargs)

    def _get_name(self) -> str:
        return "DynamicQuantizedLSTM"


class GRU(RNNBase):
    """nn.GRU with integer or float16 weights."""

    _FLOAT_MODULE = nn.GRU

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("GRU", *args, **kwargs)

    def _get_name(self) -> str:
        return "DynamicQuantizedGRU"


class RNNCellBase(nn.Module):
    """What the cells have in common."""

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, num_chunks: int = 4, dtype: Any = torch.qint8
    ) -> None:
        super().__init__()
        self.input_size, self.hidden_size, self.bias, self.weight_dtype = input_size, hidden_size, bias, dtype
        rows = num_chunks * hidden_size
        self.bias_ih = torch.randn(rows).to(torch.float) if bias else None
        self.bias_hh = torch.randn(rows).to(torch.float) if bias else None
        weights = torch.randn(rows, input_size).to(torch.float), torch.randn(rows, hidden_size).to(torch.float)
        if dtype is torch.qint8:
            weights = tuple(torch.quantize_per_tensor(w, 1, 0, torch.qint8) for w in weights)
        self._packed_weight_ih = pack_weight_bias(weights[0], self.bias_ih, dtype)
        self._packed_weight_hh = pack_weight_bias(weights[1], self.bias_hh, dtype)

    def _get_name(self) -> str:
        return "DynamicQuantizedRNNBase"

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}" + (f", bias={self.bias}" if self.bias is not True else "")
        nonlinearity = getattr(self, "nonlinearity", "tanh")
        return text + (f", nonlinearity={nonlinearity}" if nonlinearity != "tanh" else "")

    def check_forward_input(self, input: Any) -> None:
        """RuntimeError for an input of another width."""
        if input.size(1) != self.input_size:
            raise RuntimeError(f"input has inconsistent input_size: got {input.size(1)}, expected {self.input_size}")

    def check_forward_hidden(self, input: Any, hx: Any, hidden_label: str = "") -> None:
        """RuntimeError for a state of another shape."""
        if input.size(0) != hx.size(0):
            raise RuntimeError(f"Input batch size {input.size(0)} doesn't match hidden{hidden_label} batch size {hx.size(0)}")
        if hx.size(1) != self.hidden_size:
            raise RuntimeError(
                f"hidden{hidden_label} has inconsistent hidden_size: got {hx.size(1)}, expected {self.hidden_size}"
            )

    def _state(self, input: Any, hx: Any) -> Any:
        return torch.zeros(input.size(0), self.hidden_size, dtype=input.dtype, device=input.device) if hx is None else hx

    def _run(self, name: str, input: Any, hx: Any) -> Any:
        operator = getattr(ops, f"quantized_{name}_cell_dynamic")
        return operator(input, hx, self._packed_weight_ih, self._packed_weight_hh, self.bias_ih, self.bias_hh)

    @classmethod
    def from_reference(cls, ref_mod: Any) -> Any:
        """The module that a reference cell becomes."""
        dtype = ref_mod.weight_ih_dtype
        more = {"nonlinearity": ref_mod.nonlinearity} if hasattr(ref_mod, "nonlinearity") else {}
        kind: Any = cls
        made = kind(ref_mod.input_size, ref_mod.hidden_size, ref_mod.bias, dtype=dtype, **more)
        names = ref_mod.get_quantized_weight_bias_dict()
        made.set_weight_bias({**names["weight"], **names["bias"]})
        return made

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """The module that a float cell becomes, by its qconfig or the default one."""
        assert type(mod) in {nn.LSTMCell, nn.GRUCell, nn.RNNCell}, (
            "nn.quantized.dynamic.RNNCellBase.from_float                                  only works "
            "for nn.LSTMCell, nn.GRUCell and nn.RNNCell"
        )
        assert hasattr(mod, "qconfig"), "Input float module must have qconfig defined"
        observer = _weight_observer(mod)
        dtype = observer().dtype
        kind = {nn.LSTMCell: LSTMCell, nn.GRUCell: GRUCell}.get(type(mod))
        if kind is not None:
            made: Any = kind(mod.input_size, mod.hidden_size, bias=mod.bias, dtype=dtype)
        else:
            made = RNNCell(mod.input_size, mod.hidden_size, bias=mod.bias, nonlinearity=mod.nonlinearity, dtype=dtype)
        assert mod.bias, "a float cell without biases can't be quantized"
        made.bias_ih, made.bias_hh = mod.bias_ih, mod.bias_hh
        made._packed_weight_ih = _packed(mod.weight_ih, mod.bias_ih, observer)
        made._packed_weight_hh = _packed(mod.weight_hh, mod.bias_hh, observer)
        return made

    def get_weight(self) -> dict[str, Any]:
        """The weights by name."""
        return {"weight_ih": self._packed_weight_ih.unpack()[0], "weight_hh": self._packed_weight_hh.unpack()[0]}

    def get_bias(self) -> dict[str, Any]:
        """The biases by name."""
        return {"bias_ih": self._packed_weight_ih.unpack()[1], "bias_hh": self._packed_weight_hh.unpack()[1]}

    def set_weight_bias(self, weight_bias_dict: dict[str, Any]) -> None:
        """Take on other weights by name."""
        given = weight_bias_dict
        self._packed_weight_ih = pack_weight_bias(given["weight_ih"], given["bias_ih"], self.weight_dtype)
        self._packed_weight_hh = pack_weight_bias(given["weight_hh"], given["bias_hh"], self.weight_dtype)

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "_packed_weight_ih"] = self._packed_weight_ih
        destination[prefix + "_packed_weight_hh"] = self._packed_weight_hh

    def _load_from_state_dict(
        self,
        state_dict: Any,
        prefix: str,
        local_metadata: Any,
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        self._packed_weight_ih = state_dict.pop(prefix + "_packed_weight_ih")
        self._packed_weight_hh = state_dict.pop(prefix + "_packed_weight_hh")
        super()._load_from_state_dict(state_dict, prefix, local_metadata, False, missing_keys, unexpected_keys, error_msgs)


class RNNCell(RNNCellBase):
    """nn.RNNCell with integer or float16 weights."""

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, nonlinearity: str = "tanh", dtype: Any = torch.qint8
    ) -> None:
        super().__init__(input_size, hidden_size, bias, num_chunks=1, dtype=dtype)
        self.nonlinearity = nonlinearity

    def _get_name(self) -> str:
        return "DynamicQuantizedRNNCell"

    def forward(self, input: Any, hx: Any = None) -> Any:
        """The next state."""
        self.check_forward_input(input)
        hx = self._state(input, hx)
        self.check_forward_hidden(input, hx, "")
        if self.nonlinearity not in ("tanh", "relu"):
            raise RuntimeError(f"Unknown nonlinearity: {self.nonlinearity}")
        return self._run(f"rnn_{self.nonlinearity}", input, hx)


class LSTMCell(RNNCellBase):
    """nn.LSTMCell with integer or float16 weights."""

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True, dtype: Any = torch.qint8) -> None:
        super().__init__(input_size, hidden_size, bias, num_chunks=4, dtype=dtype)

    def _get_name(self) -> str:
        return "DynamicQuantizedLSTMCell"

    def forward(self, input: Any, hx: Any = None) -> Any:
        """The next two states."""
        self.check_forward_input(input)
        hx = (self._state(input, None),) * 2 if hx is None else hx
        self.check_forward_hidden(input, hx[0], "[0]")
        self.check_forward_hidden(input, hx[1], "[1]")
        return self._run("lstm", input, list(hx))


class GRUCell(RNNCellBase):
    """nn.GRUCell with integer or float16 weights."""

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True, dtype: Any = torch.qint8) -> None:
        super().__init__(input_size, hidden_size, bias, num_chunks=3, dtype=dtype)

    def _get_name(self) -> str:
        return "DynamicQuantizedGRUCell"

    def forward(self, input: Any, hx: Any = None) -> Any:
        """The next state."""
        self.check_forward_input(input)
        hx = self._state(input, hx)
        self.check_forward_hidden(input, hx, "")
        return self._run("gru", input, hx)
