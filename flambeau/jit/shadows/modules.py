# mypy: ignore-errors
"""Forwards of torch.nn's modules for programs, by the names of their classes. Compiled in the place of the classes' own."""

from typing import List, Optional, Tuple

import flambeau as torch
from flambeau import Tensor
from flambeau.nn import functional as F


class Linear:
    def forward(self, input: Tensor) -> Tensor:
        return F.linear(input, self.weight, self.bias)


class Sequential:
    def forward(self, input):
        for module in self:
            input = module(input)
        return input


class Embedding:
    def forward(self, input: Tensor) -> Tensor:
        return F.embedding(
            input, self.weight, self.padding_idx, self.max_norm, self.norm_type, self.scale_grad_by_freq, self.sparse
        )


class LayerNorm:
    def forward(self, input: Tensor) -> Tensor:
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)


class Conv1d:
    def forward(self, input: Tensor) -> Tensor:
        if self.padding_mode != "zeros":
            padded = F.pad(input, self._reversed_padding_repeated_twice, mode=self.padding_mode)
            return F.conv1d(padded, self.weight, self.bias, self.stride, [0], self.dilation, self.groups)
        return F.conv1d(input, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups)


class Conv2d:
    def forward(self, input: Tensor) -> Tensor:
        if self.padding_mode != "zeros":
            padded = F.pad(input, self._reversed_padding_repeated_twice, mode=self.padding_mode)
            return F.conv2d(padded, self.weight, self.bias, self.stride, [0, 0], self.dilation, self.groups)
        return F.conv2d(input, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups)


class Conv3d:
    def forward(self, input: Tensor) -> Tensor:
        if self.padding_mode != "zeros":
            padded = F.pad(input, self._reversed_padding_repeated_twice, mode=self.padding_mode)
            return F.conv3d(padded, self.weight, self.bias, self.stride, [0, 0, 0], self.dilation, self.groups)
        return F.conv3d(input, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups)


class _BatchNorm:
    def forward(self, input: Tensor) -> Tensor:
        exponential_average_factor = 0.0
        if self.momentum is not None:
            exponential_average_factor = self.momentum
        if self.training and self.track_running_stats:
            if self.num_batches_tracked is not None:
                self.num_batches_tracked.add_(1)
                if self.momentum is None:
                    exponential_average_factor = 1.0 / float(self.num_batches_tracked)
        if self.training:
            bn_training = True
        else:
            bn_training = (self.running_mean is None) and (self.running_var is None)
        return F.batch_norm(
            input,
            self.running_mean if not self.training or self.track_running_stats else None,
            self.running_var if not self.training or self.track_running_stats else None,
            self.weight,
            self.bias,
            bn_training,
            exponential_average_factor,
            self.eps,
        )


class MaxPool1d:
    def forward(self, input: Tensor) -> Tensor:
        return F.max_pool1d(input, self.kernel_size, self.stride, self.padding, self.dilation, ceil_mode=self.ceil_mode)


class MaxPool2d:
    def forward(self, input: Tensor) -> Tensor:
        return F.max_pool2d(input, self.kernel_size, self.stride, self.padding, self.dilation, ceil_mode=self.ceil_mode)


class AvgPool1d:
    def forward(self, input: Tensor) -> Tensor:
        return F.avg_pool1d(input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad)


class AvgPool2d:
    def forward(self, input: Tensor) -> Tensor:
        return F.avg_pool2d(
            input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad, self.divisor_override
        )


class _InstanceNorm:
    def forward(self, input: Tensor) -> Tensor:
        return torch.instance_norm(
            input,
            self.weight,
            self.bias,
            self.running_mean,
            self.running_var,
            self.training or not self.track_running_stats,
            self.momentum if self.momentum is not None else 0.0,
            self.eps,
            True,
        )


class ConvTranspose1d:
    def forward(self, input: Tensor) -> Tensor:
        return F.conv_transpose1d(
            input, self.weight, self.bias, self.stride, self.padding, self.output_padding, self.groups, self.dilation
        )


class ConvTranspose2d:
    def forward(self, input: Tensor) -> Tensor:
        return F.conv_transpose2d(
            input, self.weight, self.bias, self.stride, self.padding, self.output_padding, self.groups, self.dilation
        )


class LSTM:
    def forward(self, input: Tensor, hx: Optional[Tuple[Tensor, Tensor]] = None) -> Tuple[Tensor, Tuple[Tensor, Tensor]]:
        if input.dim() not in (2, 3):
            raise ValueError(f"LSTM: Expected input to be 2D or 3D, got {input.dim()}D instead")
        batched = input.dim() == 3
        if not batched:
            input = input.unsqueeze(0 if self.batch_first else 1)
        directions = 2 if self.bidirectional else 1
        if hx is None:
            batch = input.size(0) if self.batch_first else input.size(1)
            width = self.proj_size if self.proj_size > 0 else self.hidden_size
            hidden = torch.zeros(self.num_layers * directions, batch, width, dtype=input.dtype, device=input.device)
            cell = torch.zeros(self.num_layers * directions, batch, self.hidden_size, dtype=input.dtype, device=input.device)
            hx = (hidden, cell)
        elif not batched:
            hx = (hx[0].unsqueeze(1), hx[1].unsqueeze(1))
        result = torch.lstm(
            input,
            hx,
            self._flat_weights,
            self.bias,
            self.num_layers,
            self.dropout,
            self.training,
            self.bidirectional,
            self.batch_first,
        )
        if not batched:
            return result[0].squeeze(0 if self.batch_first else 1), (result[1].squeeze(1), result[2].squeeze(1))
        return result[0], (result[1], result[2])


class GRU:
    def forward(self, input: Tensor, hx: Optional[Tensor] = None) -> Tuple[Tensor, Tensor]:
        if input.dim() not in (2, 3):
            raise ValueError(f"GRU: Expected input to be 2D or 3D, got {input.dim()}D instead")
        batched = input.dim() == 3
        if not batched:
            input = input.unsqueeze(0 if self.batch_first else 1)
        if hx is None:
            batch = input.size(0) if self.batch_first else input.size(1)
            layers = self.num_layers * (2 if self.bidirectional else 1)
            hx = torch.zeros(layers, batch, self.hidden_size, dtype=input.dtype, device=input.device)
        elif not batched:
            hx = hx.unsqueeze(1)
        output, hidden = torch.gru(
            input,
            hx,
            self._flat_weights,
            self.bias,
            self.num_layers,
            self.dropout,
            self.training,
            self.bidirectional,
            self.batch_first,
        )
        if not batched:
            return output.squeeze(0 if self.batch_first else 1), hidden.squeeze(1)
        return output, hidden


class RNN:
    def forward(self, input: Tensor, hx: Optional[Tensor] = None) -> Tuple[Tensor, Tensor]:
        if input.dim() not in (2, 3):
            raise ValueError(f"RNN: Expected input to be 2D or 3D, got {input.dim()}D tensor instead")
        batched = input.dim() == 3
        if not batched:
            input = input.unsqueeze(0 if self.batch_first else 1)
        if hx is None:
            batch = input.size(0) if self.batch_first else input.size(1)
            layers = self.num_layers * (2 if self.bidirectional else 1)
            hx = torch.zeros(layers, batch, self.hidden_size, dtype=input.dtype, device=input.device)
        elif not batched:
            hx = hx.unsqueeze(1)
        if self.mode == "RNN_TANH":
            output, hidden = torch.rnn_tanh(
                input,
                hx,
                self._flat_weights,
                self.bias,
                self.num_layers,
                self.dropout,
                self.training,
                self.bidirectional,
                self.batch_first,
            )
        else:
            output, hidden = torch.rnn_relu(
                input,
                hx,
                self._flat_weights,
                self.bias,
                self.num_layers,
                self.dropout,
                self.training,
                self.bidirectional,
                self.batch_first,
            )
        if not batched:
            return output.squeeze(0 if self.batch_first else 1), hidden.squeeze(1)
        return output, hidden


class LSTMCell:
    def forward(self, input: Tensor, hx: Optional[Tuple[Tensor, Tensor]] = None) -> Tuple[Tensor, Tensor]:
        batched = input.dim() == 2
        if not batched:
            input = input.unsqueeze(0)
        if hx is None:
            zeros = torch.zeros(input.size(0), self.hidden_size, dtype=input.dtype, device=input.device)
            hx = (zeros, zeros)
        elif not batched:
            hx = (hx[0].unsqueeze(0), hx[1].unsqueeze(0))
        hidden, cell = torch.lstm_cell(input, hx, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
        if not batched:
            return hidden.squeeze(0), cell.squeeze(0)
        return hidden, cell


class GRUCell:
    def forward(self, input: Tensor, hx: Optional[Tensor] = None) -> Tensor:
        batched = input.dim() == 2
        if not batched:
            input = input.unsqueeze(0)
        if hx is None:
            hx = torch.zeros(input.size(0), self.hidden_size, dtype=input.dtype, device=input.device)
        elif not batched:
            hx = hx.unsqueeze(0)
        result = torch.gru_cell(input, hx, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
        return result if batched else result.squeeze(0)


class RNNCell:
    def forward(self, input: Tensor, hx: Optional[Tensor] = None) -> Tensor:
        batched = input.dim() == 2
        if not batched:
            input = input.unsqueeze(0)
        if hx is None:
            hx = torch.zeros(input.size(0), self.hidden_size, dtype=input.dtype, device=input.device)
        elif not batched:
            hx = hx.unsqueeze(0)
        if self.nonlinearity == "tanh":
            result = torch.rnn_tanh_cell(input, hx, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
        else:
            result = torch.rnn_relu_cell(input, hx, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
        return result if batched else result.squeeze(0)


class Upsample:
    def forward(self, input: Tensor) -> Tensor:
        size: Optional[List[int]] = None
        factors: Optional[List[float]] = None
        if self.size is not None:
            if isinstance(self.size, int):
                size = [self.size for _ in range(input.dim() - 2)]
            else:
                size = list(self.size)
        if self.scale_factor is not None:
            if isinstance(self.scale_factor, float):
                factors = [self.scale_factor for _ in range(input.dim() - 2)]
            else:
                factors = list(self.scale_factor)
        return F.interpolate(input, size, factors, self.mode, self.align_corners)


class MultiheadAttention:
    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Optional[Tensor] = None,
        need_weights: bool = True,
        attn_mask: Optional[Tensor] = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> Tuple[Tensor, Optional[Tensor]]:
        batched = query.dim() == 3
        if not batched:
            query, key, value = query.unsqueeze(1), key.unsqueeze(1), value.unsqueeze(1)
            if key_padding_mask is not None:
                key_padding_mask = key_padding_mask.unsqueeze(0)
        elif self.batch_first:
            query, key, value = query.transpose(1, 0), key.transpose(1, 0), value.transpose(1, 0)
        if self.in_proj_weight is not None:
            weights = self.in_proj_weight.chunk(3)
            w_q, w_k, w_v = weights[0], weights[1], weights[2]
        else:
            w_q, w_k, w_v = self.q_proj_weight, self.k_proj_weight, self.v_proj_weight
        b_q: Optional[Tensor] = None
        b_k: Optional[Tensor] = None
        b_v: Optional[Tensor] = None
        if self.in_proj_bias is not None:
            biases = self.in_proj_bias.chunk(3)
            b_q, b_k, b_v = biases[0], biases[1], biases[2]
        q, k, v = F.linear(query, w_q, b_q), F.linear(key, w_k, b_k), F.linear(value, w_v, b_v)
        length, batch, width = q.size(0), q.size(1), q.size(2)
        more_k, more_v = self.bias_k, self.bias_v
        if more_k is not None and more_v is not None:
            k = torch.cat([k, more_k.repeat(1, batch, 1)])
            v = torch.cat([v, more_v.repeat(1, batch, 1)])
            if attn_mask is not None:
                attn_mask = F.pad(attn_mask, [0, 1])
            if key_padding_mask is not None:
                key_padding_mask = F.pad(key_padding_mask, [0, 1])
        heads = self.num_heads
        q = q.reshape(length, batch * heads, width // heads).transpose(0, 1)
        k = k.reshape(k.size(0), batch * heads, width // heads).transpose(0, 1)
        v = v.reshape(v.size(0), batch * heads, width // heads).transpose(0, 1)
        if self.add_zero_attn:
            zeros = torch.zeros(batch * heads, 1, width // heads, dtype=k.dtype, device=k.device)
            k, v = torch.cat([k, zeros], dim=1), torch.cat([v, zeros], dim=1)
            if attn_mask is not None:
                attn_mask = F.pad(attn_mask, [0, 1])
            if key_padding_mask is not None:
                key_padding_mask = F.pad(key_padding_mask, [0, 1])
        scores = torch.bmm(q / float(width // heads) ** 0.5, k.transpose(1, 2))
        if attn_mask is not None:
            if attn_mask.dtype == torch.bool:
                scores = scores.masked_fill(attn_mask, float("-inf"))
            else:
                scores = scores + attn_mask
        if key_padding_mask is not None:
            by_head = scores.reshape(batch, heads, length, k.size(1))
            padding = key_padding_mask.reshape(batch, 1, 1, k.size(1))
            if key_padding_mask.dtype == torch.bool:
                by_head = by_head.masked_fill(padding, float("-inf"))
            else:
                by_head = by_head + padding
            scores = by_head.reshape(batch * heads, length, k.size(1))
        attention = scores.softmax(dim=-1)
        if self.training and self.dropout > 0.0:
            attention = F.dropout(attention, self.dropout)
        output = torch.bmm(attention, v).transpose(0, 1).reshape(length, batch, width)
        output = F.linear(output, self.out_proj.weight, self.out_proj.bias)
        shown: Optional[Tensor] = None
        if need_weights:
            by_head = attention.reshape(batch, heads, length, k.size(1))
            shown = by_head.mean(dim=1) if average_attn_weights else by_head
        if not batched:
            output = output.squeeze(1)
            if shown is not None:
                shown = shown.squeeze(0)
        elif self.batch_first:
            output = output.transpose(1, 0)
        return output, shown


class TransformerEncoderLayer:
    def forward(
        self,
        src: Tensor,
        src_mask: Optional[Tensor] = None,
        src_key_padding_mask: Optional[Tensor] = None,
        is_causal: bool = False,
    ) -> Tensor:
        x = src
        if self.norm_first:
            y = self.norm1(x)
            y = self.self_attn(y, y, y, src_key_padding_mask, False, src_mask)[0]
            x = x + self.dropout1(y)
            y = self.linear2(self.dropout(self.activation(self.linear1(self.norm2(x)))))
            return x + self.dropout2(y)
        y = self.self_attn(x, x, x, src_key_padding_mask, False, src_mask)[0]
        x = self.norm1(x + self.dropout1(y))
        y = self.linear2(self.dropout(self.activation(self.linear1(x))))
        return self.norm2(x + self.dropout2(y))
