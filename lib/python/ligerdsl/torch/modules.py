"""Modules with the parameter names of torch's modules."""

import torch
from torch import nn

from . import functional as F


class RMSNorm(nn.Module):
    """`offset`, `casting`, `in_place`: see rms_norm."""

    def __init__(self, hidden_size, eps=1e-6, *, offset=0.0, casting="llama", in_place=False,
                 elementwise_affine=True, device=None, dtype=None):
        super().__init__()
        self.hidden_size, self.eps, self.offset, self.casting, self.in_place = (
            hidden_size, eps, offset, casting, in_place)
        if elementwise_affine:
            self.weight = nn.Parameter(torch.full((hidden_size,), 1.0 - offset, device=device,
                                                  dtype=dtype))
        else:
            self.register_parameter("weight", None)

    def forward(self, x):
        return F.rms_norm(x, self.weight, self.eps, offset=self.offset, casting=self.casting,
                          in_place=self.in_place)

    def extra_repr(self):
        return f"{self.hidden_size}, eps={self.eps}, offset={self.offset}, casting={self.casting}"


class LayerNorm(nn.Module):
    def __init__(self, hidden_size, eps=1e-5, *, bias=True, in_place=False, device=None,
                 dtype=None):
        super().__init__()
        self.hidden_size, self.eps, self.in_place = hidden_size, eps, in_place
        self.weight = nn.Parameter(torch.ones(hidden_size, device=device, dtype=dtype))
        self.register_parameter(
            "bias",
            nn.Parameter(torch.zeros(hidden_size, device=device, dtype=dtype)) if bias else None)

    def forward(self, x):
        return F.layer_norm(x, self.weight, self.bias, self.eps, in_place=self.in_place)

    def extra_repr(self):
        return f"{self.hidden_size}, eps={self.eps}, bias={self.bias is not None}"


class GroupNorm(nn.Module):
    def __init__(self, num_groups, num_channels, eps=1e-5, *, bias=True, device=None, dtype=None):
        super().__init__()
        self.num_groups, self.num_channels, self.eps = num_groups, num_channels, eps
        self.weight = nn.Parameter(torch.ones(num_channels, device=device, dtype=dtype))
        self.register_parameter(
            "bias",
            nn.Parameter(torch.zeros(num_channels, device=device, dtype=dtype)) if bias else None)

    def forward(self, x):
        return F.group_norm(x, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self):
        return f"{self.num_groups}, {self.num_channels}, eps={self.eps}"


class _GatedMLP(nn.Module):
    def __init__(self, hidden_size, intermediate_size, *, bias=False, in_place=False, device=None,
                 dtype=None):
        super().__init__()
        self.in_place = in_place
        self.gate_proj = nn.Linear(hidden_size, intermediate_size, bias=bias, device=device,
                                   dtype=dtype)
        self.up_proj = nn.Linear(hidden_size, intermediate_size, bias=bias, device=device,
                                 dtype=dtype)
        self.down_proj = nn.Linear(intermediate_size, hidden_size, bias=bias, device=device,
                                   dtype=dtype)


class SwiGLUMLP(_GatedMLP):
    """down_proj(silu(gate_proj(x)) * up_proj(x))"""

    def forward(self, x):
        return self.down_proj(F.swiglu(self.gate_proj(x), self.up_proj(x), in_place=self.in_place))


class GeGLUMLP(_GatedMLP):
    """down_proj(gelu(gate_proj(x)) * up_proj(x)), with the tanh form of GELU"""

    def forward(self, x):
        return self.down_proj(F.geglu(self.gate_proj(x), self.up_proj(x), in_place=self.in_place))


class Embedding(nn.Module):
    def __init__(self, num_embeddings, embedding_dim, padding_idx=None, *, device=None, dtype=None):
        super().__init__()
        self.num_embeddings, self.embedding_dim, self.padding_idx = (num_embeddings, embedding_dim,
                                                                     padding_idx)
        self.weight = nn.Parameter(torch.empty(num_embeddings, embedding_dim, device=device,
                                               dtype=dtype))
        nn.init.normal_(self.weight)
        if padding_idx is not None:
            with torch.no_grad():
                self.weight[padding_idx].zero_()

    def forward(self, indices):
        return F.embedding(indices, self.weight, self.padding_idx)

    def extra_repr(self):
        return f"{self.num_embeddings}, {self.embedding_dim}, padding_idx={self.padding_idx}"


class CrossEntropyLoss(nn.Module):
    """Keywords are those of cross_entropy."""

    def __init__(self, class_weight=None, **options):
        super().__init__()
        self.options = options
        self.register_buffer("class_weight", class_weight)

    def forward(self, logits, labels):
        return F.cross_entropy(logits, labels, class_weight=self.class_weight, **self.options)


class FusedLinearCrossEntropyLoss(nn.Module):
    """Keywords are those of fused_linear_cross_entropy."""

    def __init__(self, class_weight=None, **options):
        super().__init__()
        self.options = options
        self.register_buffer("class_weight", class_weight)

    def forward(self, x, weight, labels, bias=None, **more):
        return F.fused_linear_cross_entropy(x, weight, labels, bias, class_weight=self.class_weight,
                                            **self.options, **more)
