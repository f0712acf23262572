"""Compares attention with torch's scaled_dot_product_attention on the CPU, in layouts and dtypes of
models."""

import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F

import ligerdsl
import ligerdsl.torch as lt

TOLERANCE = {torch.float32: dict(rtol=1e-4, atol=1e-5), torch.bfloat16: dict(rtol=2e-2, atol=2e-2),
             torch.float16: dict(rtol=4e-3, atol=4e-3)}


def heads(batch, tokens, count, dim, dtype=torch.float32):
    return torch.randn(batch, tokens, count, dim).to(dtype).requires_grad_()


def sdpa(q, k, v, **options):
    """torch's attention in f32, on tensors [batch, tokens, heads, column]."""
    q, k, v = (t.float().transpose(1, 2) for t in (q, k, v))
    return F.scaled_dot_product_attention(q, k, v, enable_gqa=True, **options).transpose(1, 2)


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("dim", [64, 96, 128])
def test_matches_torch(dtype, dim):
    torch.manual_seed(1)
    q, k, v = heads(2, 37, 4, dim, dtype), heads(2, 37, 2, dim, dtype), heads(2, 37, 2, dim, dtype)
    ours, theirs = lt.attention(q, k, v, causal=True), sdpa(q, k, v, is_causal=True)
    upstream = torch.randn_like(theirs)
    torch.testing.assert_close(ours.float(), theirs, **TOLERANCE[dtype])
    for one, other in zip(torch.autograd.grad(ours, (q, k, v), upstream.to(dtype)),
                          torch.autograd.grad(theirs, (q, k, v), upstream)):
        torch.testing.assert_close(one.float(), other.float(), **TOLERANCE[dtype])


def test_slices_of_one_projection():
    """Queries, keys and values in one buffer, and an expanded upstream gradient of ones."""
    torch.manual_seed(2)
    qkv = torch.randn(2, 9, 3, 4, 16, requires_grad=True)
    ours = lt.attention(*qkv.unbind(2), scale=0.3)
    theirs = sdpa(*qkv.unbind(2), scale=0.3)
    torch.testing.assert_close(ours, theirs, **TOLERANCE[torch.float32])
    for one, other in zip(torch.autograd.grad(ours.sum(), qkv),
                          torch.autograd.grad(theirs.sum(), qkv)):
        torch.testing.assert_close(one, other, **TOLERANCE[torch.float32])


def test_window_is_a_mask():
    torch.manual_seed(3)
    q, k, v = heads(1, 20, 2, 8), heads(1, 30, 2, 8), heads(1, 30, 2, 8)
    right_of = torch.arange(30) - (torch.arange(20) + 10)[:, None]
    torch.testing.assert_close(lt.attention(q, k, v, window=(5, 2)),
                               sdpa(q, k, v, attn_mask=(right_of >= -5) & (right_of <= 2)),
                               **TOLERANCE[torch.float32])
    torch.testing.assert_close(lt.attention(q, k, v, window=(5, None), causal=True),
                               sdpa(q, k, v, attn_mask=(right_of >= -5) & (right_of <= 0)),
                               **TOLERANCE[torch.float32])


def test_lse():
    torch.manual_seed(4)
    q, k, v = heads(2, 5, 2, 8), heads(2, 7, 1, 8), heads(2, 7, 1, 8)
    o, lse = lt.attention(q, k, v, return_lse=True)
    scores = torch.einsum("bihd,bjd->bhij", q, k[:, :, 0]) * 8**-0.5
    torch.testing.assert_close(lse, scores.logsumexp(-1).detach(), rtol=1e-5, atol=1e-5)
    assert o.requires_grad and not lse.requires_grad
    with torch.no_grad():
        torch.testing.assert_close(lt.attention(q, k, v, return_lse=True)[1], lse, rtol=0, atol=0)


def test_queries_without_visible_keys_give_zero():
    q, k, v = heads(1, 5, 1, 8), heads(1, 3, 1, 8), heads(1, 3, 1, 8)
    o, lse = lt.attention(q, k, v, causal=True, return_lse=True)
    assert ((o[:, :2] == 0).all() and (lse[..., :2] == -torch.inf).all()
            and lse[..., 2:].isfinite().all())
    d_q, d_k, d_v = torch.autograd.grad(o.sum(), (q, k, v))
    assert (d_q[:, :2] == 0).all() and d_k.isfinite().all() and d_v.isfinite().all()


def test_repeats_bit_for_bit():
    torch.manual_seed(5)
    q, k, v = (heads(2, 70, 4, 64, torch.bfloat16), heads(2, 90, 2, 64, torch.bfloat16),
               heads(2, 90, 2, 64, torch.bfloat16))
    first, second = (torch.autograd.grad(lt.attention(q, k, v, causal=True).float().square().sum(),
                                         (q, k, v)) for _ in range(2))
    for one, other in zip(first, second):
        torch.testing.assert_close(one, other, rtol=0, atol=0)


LENGTHS = [0, 1, 63, 64, 65, 130]


def bounds(lengths, dtype=torch.int32):
    return torch.tensor([0, *lengths], dtype=dtype).cumsum(0, dtype=dtype)


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("options", [{}, {"causal": True}, {"window": (20, 5)}], ids=str)
def test_sequences_match_torch(dtype, options):
    """Compares each sequence with torch's attention; queries and keys have equal lengths."""
    torch.manual_seed(6)
    q, k, v = (heads(1, sum(LENGTHS), count, 64, dtype) for count in (4, 2, 2))
    ends = bounds(LENGTHS)
    ours = lt.attention_varlen(q[0], k[0], v[0], ends, ends, max(LENGTHS), max(LENGTHS), **options)
    theirs = []
    for begin, end in zip(ends.tolist(), ends[1:].tolist()):
        right_of = torch.arange(end - begin) - torch.arange(end - begin)[:, None]
        mask = {"attn_mask": (right_of >= -20) & (right_of <= 5)} if "window" in options else {
            "is_causal": bool(options)}
        theirs.append(sdpa(*(t[:, begin:end] for t in (q, k, v)), **mask)[0])
    theirs = torch.cat(theirs)
    upstream = torch.randn_like(theirs)
    torch.testing.assert_close(ours.float(), theirs, **TOLERANCE[dtype])
    for one, other in zip(torch.autograd.grad(ours, (q, k, v), upstream.to(dtype)),
                          torch.autograd.grad(theirs, (q, k, v), upstream)):
        torch.testing.assert_close(one.float(), other.float(), **TOLERANCE[dtype])


def test_sequences_equal_single_calls_bit_for_bit():
    """Different lengths of queries and keys, and bounds of either type, give the bits of single
    calls."""
    torch.manual_seed(7)
    queries, keys = bounds([5, 70, 0, 9], torch.int64), bounds([9, 3, 4, 80], torch.int64)
    q, k, v = torch.randn(84, 4, 16), torch.randn(96, 2, 16), torch.randn(96, 2, 16)
    o, lse = lt.attention_varlen(q, k, v, queries, keys, 70, 80, causal=True, softcap=2.0,
                                 scale=0.5, return_lse=True)
    again = lt.attention_varlen(q, k, v, queries.int(), keys.int(), 4096, 4096, causal=True,
                                softcap=2.0, scale=0.5)
    assert torch.equal(o, again) and lse.shape == (4, 84)
    for a, b, c, d in zip(queries, queries[1:], keys, keys[1:]):
        if b > a:
            one, its = lt.attention_varlen(q[a:b], k[c:d], v[c:d], bounds([b - a]), bounds([d - c]),
                                           b - a, d - c, causal=True, softcap=2.0, scale=0.5,
                                           return_lse=True)
            assert torch.equal(o[a:b], one) and torch.equal(lse[:, a:b], its)
            dense = lt.attention(q[None, a:b], k[None, c:d], v[None, c:d], causal=True, softcap=2.0,
                                 scale=0.5)
            torch.testing.assert_close(one, dense[0], **TOLERANCE[torch.float32])


def test_sequences_with_no_keys_or_no_queries():
    q, k, v = (t[0] for t in (heads(1, 3, 2, 8), heads(1, 4, 1, 8), heads(1, 4, 1, 8)))
    o, lse = lt.attention_varlen(q, k, v, bounds([3, 0]), bounds([0, 4]), 3, 4, return_lse=True)
    assert (o == 0).all() and (lse == -torch.inf).all()
    for gradient in torch.autograd.grad(o.sum(), (q, k, v)):
        assert (gradient == 0).all()


@pytest.mark.parametrize("queries, keys, longest, number", [
    ([0, 4, 2, 6], [0, 2, 4, 6], 6, 1), ([0, 2, 4, 6], [0, 2, 4, 5], 6, 2),
    ([1, 2, 4, 6], [0, 2, 4, 6], 6, 0), ([0, 2, 4, 6], [0, 1, 5, 6], 3, 1)])
def test_sequences_out_of_bounds(queries, keys, longest, number):
    with pytest.raises(ligerdsl.BoundsError,
                       match=f"cu_seqlens out of bounds at sequence {number}"):
        lt.attention_varlen(torch.randn(6, 2, 8), *[torch.randn(6, 1, 8)] * 2,
                            torch.tensor(queries), torch.tensor(keys), longest, longest)


def test_sequences_without_keys():
    q, k = torch.randn(4, 2, 8, requires_grad=True), torch.randn(0, 1, 8, requires_grad=True)
    o, lse = lt.attention_varlen(q, k, k, bounds([1, 3]), bounds([0, 0]), 3, 0, return_lse=True)
    assert torch.equal(o, torch.zeros(4, 2, 8)) and torch.equal(lse, torch.full((2, 4), -torch.inf))
    o.sum().backward()
    assert torch.equal(q.grad, torch.zeros(4, 2, 8)) and k.grad.shape == (0, 1, 8)


def test_errors_of_sequences():
    q, ends = torch.randn(6, 2, 8), bounds([2, 4])
    with pytest.raises(TypeError, match="max_seqlen_q: expected a whole number, got 3.7"):
        lt.attention_varlen(*(torch.randn(4, 2, 8) for _ in range(3)),
                            *(torch.tensor([0, 4], dtype=torch.int32) for _ in range(2)), 3.7, 4)
    with pytest.raises(TypeError,
                       match="attention_varlen: `cu_seqlens_k`: expected a tensor, got list"):
        lt.attention_varlen(*(torch.randn(4, 2, 8) for _ in range(3)),
                            torch.tensor([0, 4], dtype=torch.int32), [0, 4], 4, 4)
    with pytest.raises(ValueError, match="attention_varlen: window"):
        lt.attention_varlen(q, q, q, ends, ends, 4, 4, window=(None, -1))
    for bad, words in ((dict(cu_seqlens_k=bounds([6])), "cu_seqlens_k"),
                       (dict(cu_seqlens_q=bounds([]), cu_seqlens_k=bounds([])), "n_bounds"),
                       (dict(cu_seqlens_q=ends.float()), "index_dtype"),
                       (dict(cu_seqlens_k=ends.long()), "cu_seqlens_k"),
                       (dict(max_seqlen_k=-1), "max_seqlen_k"), (dict(v=q[:5]), "`v`"),
                       (dict(q=q[None]), "`q`")):
        given = dict(q=q, k=q, v=q, cu_seqlens_q=ends, cu_seqlens_k=ends, max_seqlen_q=4,
                     max_seqlen_k=4) | bad
        with pytest.raises(ligerdsl.Error, match=words):
            lt.attention_varlen(**given)


@pytest.mark.parametrize("call, words", [
    (lambda: lt.attention(heads(1, 2, 3, 8), heads(1, 2, 2, 8), heads(1, 2, 2, 8)), "k_heads"),
    (lambda: lt.attention(heads(1, 2, 1, 257), heads(1, 2, 1, 257), heads(1, 2, 1, 257)),
     "head_dim"),
    (lambda: lt.attention(heads(1, 2, 1, 8), heads(1, 2, 1, 8), heads(1, 3, 1, 8)), "`v`"),
    (lambda: lt.attention(heads(1, 2, 1, 8), heads(1, 2, 1, 8), heads(1, 2, 1, 8), softcap=-1.0),
     "softcap"),
    (lambda: lt.attention(heads(1, 2, 1, 8), heads(1, 2, 1, 8), heads(1, 2, 1, 8), scale=-1.0),
     "scale"),
])
def test_errors_of_the_library(call, words):
    with pytest.raises(ligerdsl.Error, match=words):
        call()


def test_errors():
    q = heads(1, 2, 1, 8)
    with pytest.raises(TypeError, match="attention: `q`: expected a tensor, got NoneType"):
        lt.attention(None, torch.randn(1, 4, 2, 8), torch.randn(1, 4, 2, 8))
    with pytest.raises(ValueError, match="heads_dim"):
        lt.attention(q, q, q, heads_dim=3)
    with pytest.raises(ValueError, match="window"):
        lt.attention(q, q, q, window=(-1, 0))


def test_autocast():
    """Inputs become autocast's dtype, as in torch; gradients have the inputs' dtypes; f64 is
    refused."""
    q, k, v = heads(1, 5, 4, 16), heads(1, 5, 2, 16, torch.bfloat16), heads(1, 5, 2, 16)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        ours, theirs = (lt.attention(q, k, v, causal=True),
                        sdpa(q.bfloat16(), k, v.bfloat16(), is_causal=True))
        with pytest.raises(ligerdsl.InvalidArgument, match="INVALID_DTYPE"):
            lt.attention(q.double(), k.double(), v.double())
    assert ours.dtype == torch.bfloat16
    assert torch.equal(ours, lt.attention(q.bfloat16(), k, v.bfloat16(), causal=True))
    torch.testing.assert_close(ours.float(), theirs.float(), **TOLERANCE[torch.bfloat16])
    found = torch.autograd.grad(ours.float().square().sum(), (q, k, v))
    assert [g.dtype for g in found] == [torch.float32, torch.bfloat16, torch.float32]
    bounds = torch.tensor([0, 2, 5])
    with torch.autocast("cpu", dtype=torch.bfloat16):
        packed = lt.attention_varlen(q[0], k[0], v[0], bounds, bounds, 3, 3)
    assert torch.equal(
        packed, lt.attention_varlen(q[0].bfloat16(), k[0], v[0].bfloat16(), bounds, bounds, 3, 3))
