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


def composed(q, k, v, sinks=None, left=None, right=None, cap=0.0, scale=None):
    """Attention in f64 from torch's operations: o and lse. A sink is one more column of scores."""
    q, k, v = (t.double() for t in (q, k, v))
    k, v = (t.repeat_interleave(q.shape[2] // t.shape[2], 2) for t in (k, v))
    z = torch.einsum("bihd,bjhd->bhij", q, k) * (scale or q.shape[-1]**-0.5)
    z = cap * torch.tanh(z / cap) if cap else z
    own = torch.arange(q.shape[1])[:, None] + k.shape[1] - q.shape[1]
    distance = torch.arange(k.shape[1]) - own
    hidden = torch.zeros_like(distance, dtype=torch.bool)
    hidden |= distance < -left if left is not None else False
    hidden |= distance > right if right is not None else False
    z = z.masked_fill(hidden, -torch.inf)
    if sinks is not None:
        z = torch.cat([sinks.double()[None, :, None, None].expand(*z.shape[:3], 1), z], -1)
    lse = z.logsumexp(-1)
    p = (z - lse[..., None]).exp()[..., -k.shape[1]:]
    return torch.einsum("bhij,bjhd->bihd", p, v), lse


def gradients_of(results, inputs, upstream):
    return torch.autograd.grad(results, inputs, [u.to(r.dtype) for u, r in zip(upstream, results)])


MASKS = [({}, {}), (dict(causal=True), dict(right=0)),
         (dict(window=(5, 2), softcap=2.0, scale=0.7), dict(left=5, right=2, cap=2.0, scale=0.7))]


# Every second combination of dtype and mask has sinks.
@pytest.mark.parametrize("dtype, options, formula, with_sinks",
                         [(dtype, *mask, (i + j) % 2 == 1) for i, dtype in enumerate(TOLERANCE)
                          for j, mask in enumerate(MASKS)], ids=str)
def test_sinks_and_gradients_of_lse(dtype, options, formula, with_sinks):
    torch.manual_seed(11)
    q, k, v = heads(2, 19, 4, 16, dtype), heads(2, 23, 2, 16, dtype), heads(2, 23, 2, 16, dtype)
    sinks = torch.tensor([0.5, -20.0, 4.0, 1.0], requires_grad=True) if with_sinks else None
    inputs = (q, k, v, sinks) if with_sinks else (q, k, v)
    ours = lt.attention(q, k, v, sinks=sinks, return_lse=True, **options)
    theirs = composed(q, k, v, sinks, **formula)
    for one, other in zip(ours, theirs):
        torch.testing.assert_close(one.double(), other, **TOLERANCE[dtype])
    upstream = torch.randn(ours[0].shape), torch.randn(ours[1].shape)
    expected = gradients_of(theirs, inputs, upstream)
    for one, other in zip(gradients_of(ours, inputs, upstream), expected):
        assert one.dtype == other.dtype
        scale = other.abs().max().item()
        torch.testing.assert_close(one.float() / scale, other.float() / scale, **TOLERANCE[dtype])
    # a loss that depends on lse only
    lse = lt.attention(q, k, v, sinks=sinks, return_lse=True, **options)[1]
    for one, other in zip(torch.autograd.grad(lse.square().sum(), (q, k)),
                          torch.autograd.grad(
                              composed(q, k, v, sinks, **formula)[1].square().sum(), (q, k))):
        torch.testing.assert_close(one.float(), other.float(), **TOLERANCE[dtype])


def test_lse():
    torch.manual_seed(4)
    q, k, v = heads(2, 5, 2, 8), heads(2, 7, 1, 8), heads(2, 7, 1, 8)
    o, lse = lt.attention(q, k, v, return_lse=True)
    scores = torch.einsum("bihd,bjd->bhij", q, k[:, :, 0]) * 8**-0.5
    torch.testing.assert_close(lse, scores.logsumexp(-1).detach(), rtol=1e-5, atol=1e-5)
    assert o.requires_grad and lse.requires_grad
    o, lse = lt.attention(*(t.detach() for t in (q, k, v)), return_lse=True)
    assert not o.requires_grad and not lse.requires_grad
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


def test_sinks_of_queries_without_visible_keys():
    """Their output is 0 and their lse is the sink. A gradient of lse reaches only the sink."""
    q, k, v = heads(1, 5, 2, 8), heads(1, 3, 1, 8), heads(1, 3, 1, 8)
    sinks = torch.tensor([1.5, -torch.inf], requires_grad=True)
    o, lse = lt.attention(q, k, v, causal=True, sinks=sinks, return_lse=True)
    assert (o[:, :2] == 0).all() and (lse[:, 1, :2] == -torch.inf).all()
    torch.testing.assert_close(lse[:, 0, :2], torch.full((1, 2), 1.5))
    upstream = torch.zeros(1, 2, 5)
    upstream[0, 0, :2], upstream[0, 1, :2] = 3, torch.nan
    d_q, d_k, d_v, d_sinks = torch.autograd.grad(lse, (q, k, v, sinks), upstream)
    assert all((gradient == 0).all() for gradient in (d_q, d_k, d_v))
    torch.testing.assert_close(d_sinks, torch.tensor([6.0, 0]))


def test_sinks_of_minus_infinity_are_none():
    torch.manual_seed(12)
    q, k, v = heads(2, 9, 2, 8), heads(2, 9, 2, 8), heads(2, 9, 2, 8)
    none = torch.full((2,), -torch.inf)
    assert torch.equal(lt.attention(q, k, v, causal=True, sinks=none),
                       lt.attention(q, k, v, causal=True))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32], ids=str)
def test_sinks_of_other_dtypes_and_strides(dtype):
    torch.manual_seed(13)
    q, k, v = heads(2, 9, 4, 8), heads(2, 9, 2, 8), heads(2, 9, 2, 8)
    table = torch.randn(4, 3).to(dtype).requires_grad_()
    ours, theirs = lt.attention(q, k, v, sinks=table[:, 1]), composed(q, k, v, table[:, 1])[0]
    torch.testing.assert_close(ours, theirs.float(), **TOLERANCE[torch.float32])
    found, = torch.autograd.grad(ours.sum(), table)
    expected, = torch.autograd.grad(theirs.sum(), table)
    assert found.dtype == dtype
    torch.testing.assert_close(found.float(), expected.float(), **TOLERANCE[dtype])


def test_sinks_alone_have_a_gradient():
    """Frozen queries, keys and values; heads first; the gradient repeats bit for bit."""
    torch.manual_seed(14)
    q, k, v = (torch.randn(2, 4, 70, 16) for _ in range(3))
    sinks = torch.randn(4, requires_grad=True)
    first, second = (torch.autograd.grad(
        lt.attention(q, k, v, sinks=sinks, heads_dim=1).square().sum(), sinks)[0]
                     for _ in range(2))
    assert torch.equal(first, second)
    theirs = composed(*(t.transpose(1, 2) for t in (q, k, v)), sinks)[0]
    torch.testing.assert_close(first, torch.autograd.grad(theirs.square().sum(), sinks)[0],
                               **TOLERANCE[torch.float32])


def test_two_halves_of_the_keys_merge_by_lse():
    """Attention over parts of the keys, merged by lse as context parallelism does."""
    torch.manual_seed(15)
    q, k, v = heads(2, 9, 4, 16), heads(2, 20, 2, 16), heads(2, 20, 2, 16)
    sinks = torch.randn(4, requires_grad=True)
    parts = [lt.attention(q, k[:, :8], v[:, :8], sinks=sinks, return_lse=True),
             lt.attention(q, k[:, 8:], v[:, 8:], return_lse=True)]
    lse = torch.logaddexp(parts[0][1], parts[1][1])
    merged = sum(o * (one - lse).exp().transpose(1, 2)[..., None] for o, one in parts)
    whole = lt.attention(q, k, v, sinks=sinks)
    torch.testing.assert_close(merged, whole, **TOLERANCE[torch.float32])
    inputs, upstream = (q, k, v, sinks), torch.randn_like(whole)
    for one, other in zip(torch.autograd.grad(merged, inputs, upstream),
                          torch.autograd.grad(whole, inputs, upstream)):
        torch.testing.assert_close(one, other, **TOLERANCE[torch.float32])


LENGTHS = [0, 1, 63, 64, 65, 130]


def bounds(lengths, dtype=torch.int32):
    return torch.tensor([0, *lengths], dtype=dtype).cumsum(0, dtype=dtype)


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("options", [{}, {"causal": True}, {"window": (20, 5)}], ids=str)
def test_sequences_match_torch(dtype, options):
    """Compares each sequence with torch's attention; queries and keys have the same lengths."""
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


def test_sinks_of_sequences():
    """Compares each sequence with the formula: values, lse, and the gradients of a loss of both."""
    torch.manual_seed(16)
    queries, keys = bounds([5, 30, 0, 9]), bounds([9, 33, 4, 9])
    q, k, v = (t[0] for t in (heads(1, 44, 4, 16), heads(1, 55, 2, 16), heads(1, 55, 2, 16)))
    sinks = torch.tensor([1.0, -3.0, 0.0, 5.0], requires_grad=True)
    ours = lt.attention_varlen(q, k, v, queries, keys, 30, 33, causal=True, sinks=sinks,
                               return_lse=True)
    parts = [composed(q[None, a:b], k[None, c:d], v[None, c:d], sinks, right=0)
             for a, b, c, d in zip(queries, queries[1:], keys, keys[1:])]
    theirs = torch.cat([o[0] for o, _ in parts]), torch.cat([lse[0] for _, lse in parts], 1)
    for one, other in zip(ours, theirs):
        torch.testing.assert_close(one, other.float(), **TOLERANCE[torch.float32])
    inputs = (q, k, v, sinks)
    upstream = torch.randn(ours[0].shape), torch.randn(ours[1].shape)
    for one, other in zip(gradients_of(ours, inputs, upstream),
                          gradients_of(theirs, inputs, upstream)):
        torch.testing.assert_close(one, other, **TOLERANCE[torch.float32])


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
    with pytest.raises(TypeError, match="max_seqlen_q: expected an integer, got 3.7"):
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
    (lambda: lt.attention(*[heads(1, 2, 2, 8)] * 3, sinks=torch.randn(3)), "`sinks`"),
    (lambda: lt.attention(*[heads(1, 2, 2, 8)] * 3, sinks=torch.randn(2).double()), "`sinks`"),
])
def test_errors_of_the_library(call, words):
    with pytest.raises(ligerdsl.Error, match=words):
        call()


def test_errors():
    q = heads(1, 2, 1, 8)
    with pytest.raises(TypeError, match="attention: `q`: expected a tensor, got NoneType"):
        lt.attention(None, torch.randn(1, 4, 2, 8), torch.randn(1, 4, 2, 8))
    with pytest.raises(TypeError, match="attention: `sinks`: expected a tensor, got float"):
        lt.attention(q, q, q, sinks=0.5)
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
