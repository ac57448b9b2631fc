"""CUDA's autocast and attention on fake tensors, with no GPU."""

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.functional import layer_norm, scaled_dot_product_attention

from halfscale.numerics.cuda_autocast import CudaAttention, cuda_autocast


def test_it_casts_as_cuda_does_and_leaves_nothing_behind():
    before = torch.is_autocast_enabled("cuda"), torch.get_autocast_dtype("cuda")
    with FakeTensorMode(), torch.device("cuda"):
        x = torch.empty(4, 8)
        with cuda_autocast(torch.bfloat16):
            product = x @ x.T
            normed = layer_norm(product, (4,))
        outside = x @ x.T
    assert (product.dtype, normed.dtype, outside.dtype) == (torch.bfloat16, torch.float32, torch.float32)
    assert (torch.is_autocast_enabled("cuda"), torch.get_autocast_dtype("cuda")) == before


def test_none_is_off():
    with FakeTensorMode(), torch.device("cuda"), cuda_autocast(None):
        assert (torch.empty(4, 8) @ torch.empty(8, 4)).dtype is torch.float32


def test_attention_keeps_no_scores():
    kept = []

    def keep(tensor):
        kept.append(tensor.numel())
        return tensor

    length, features = 256, 8
    for dtype in (None, torch.float16):
        kept.clear()
        with FakeTensorMode(), torch.device("cuda"), cuda_autocast(dtype), CudaAttention():
            query = torch.empty(1, 1, length, features, requires_grad=True)
            with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
                mixed = scaled_dot_product_attention(query, query, query, is_causal=True)
        assert mixed.dtype is (dtype or torch.float32)
        assert max(kept) == length * features
