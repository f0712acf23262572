"""Liger-Kernel's Functions by name, with its positional arguments and results.

Activations and cross-entropy overwrite their inputs, as Liger's do. Autograd reports an error if
another node needs such an input. No Function overwrites a result's gradient: it may be shared, and
autograd cannot detect that. For example, the gradient of `residual + norm(x)` is one tensor for
both terms. So a norm's `in_place` is ignored. It would save memory of x's size during the norm's
backward, and no time.

Arguments of later versions of Liger are accepted only with their default values."""

import torch

from ..errors import LabelError, NotSupported
from ..torch import functional as F

_NOTHING = -2**63  # a label that no row has


def _only_default(name, given, default=None):
    if given != default:
        raise NotSupported(f"ligerdsl's {name}: expected the default {default!r} of an argument "
                           f"that this library does not support, got {given!r}")


def _casting(mode):
    return {-1: "none", 0: "llama", 1: "gemma"}.get(mode, mode)


class _GatheredGradient(torch.autograd.Function):
    """Returns y unchanged; gathers its gradient if that arrives as shards."""

    @staticmethod
    def forward(ctx, y):
        return y.view_as(y)

    @staticmethod
    def backward(ctx, d_y):
        return _gathered(d_y)


def _gathered(tensor):
    """Gathers a DTensor. Liger's norms likewise gather a tensor-parallel layer's sharded input and
    return a plain tensor on each rank."""
    return tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor


def _cut_alike(a, b):
    from torch.distributed.tensor import distribute_tensor
    mesh, placements = (a.device_mesh, a.placements) if hasattr(a, "full_tensor") else (
        b.device_mesh, b.placements)
    return tuple(t if hasattr(t, "full_tensor") else distribute_tensor(t, mesh, placements)
                 for t in (a, b))


def _gathering(norm, X, *args, **kwargs):
    if not hasattr(X, "full_tensor"):
        return norm(_contiguous(X), *args, **kwargs)
    y = norm(_contiguous(X.full_tensor()), *args, **kwargs)
    return _GatheredGradient.apply(y) if y.requires_grad else y


def _contiguous(tensor):
    return None if tensor is None else tensor.contiguous()


def _labels_checked(function, *args, **kwargs):
    """Raises AssertionError instead of LabelError, as Liger does."""
    try:
        return function(*args, **kwargs)
    except LabelError as error:
        raise AssertionError(str(error)) from error


class LigerRMSNormFunction:
    @staticmethod
    def apply(X, W, eps, offset=0.0, casting_mode="llama", in_place=True, row_mode=None):
        return _gathering(F.rms_norm, X, _contiguous(W), eps, offset=offset,
                          casting=_casting(casting_mode))


class LigerLayerNormFunction:
    @staticmethod
    def apply(X, W, B, eps):
        return F.layer_norm(_contiguous(X), _contiguous(W), _contiguous(B), eps)


class LigerFusedAddRMSNormFunction:
    @staticmethod
    def apply(X, R, W, eps, offset=0.0, casting_mode="llama", in_place=False):
        return F.fused_add_rms_norm(_contiguous(X), _contiguous(R), _contiguous(W), eps,
                                    offset=offset, casting=_casting(casting_mode))


class LigerModulatedRMSNormFunction:
    """scale and shift have one row for all of X, one per element of X's first dimension, or one per
    row of X."""

    @staticmethod
    def apply(X, W, scale, shift, eps, offset=0.0, casting_mode="llama", in_place=True):
        rows = [
            None if each is None else each.reshape(-1, each.shape[-1]) for each in (scale, shift)]
        return _gathering(F.modulated_rms_norm, X, *rows, _contiguous(W), eps, offset=offset,
                          casting=_casting(casting_mode))


class LigerGroupNormFunction:
    @staticmethod
    def apply(X, affine_scaling_weight, affine_shifting_bias, num_channels, num_groups, eps):
        return F.group_norm(_contiguous(X), num_groups, affine_scaling_weight, affine_shifting_bias,
                            eps)


class LigerDyTFunction:
    @staticmethod
    def apply(x, alpha, gamma, beta):
        return F.dyt(_contiguous(x), alpha, gamma, beta)


class LigerPolyNormFunction:
    @staticmethod
    def apply(X, W, B, eps=1e-6, in_place=True):
        return F.poly_norm(_contiguous(X), W, B, eps)


class LigerSiLUMulFunction:
    """If one operand is a DTensor, the plain one, whole on each rank, is sharded like it."""

    @staticmethod
    def apply(a, b, gate_multiplier=1.0, down_multiplier=1.0):
        if hasattr(a, "full_tensor") != hasattr(b, "full_tensor"):
            a, b = _cut_alike(a, b)
        return F.swiglu(_contiguous(a), _contiguous(b), gate_multiplier=float(gate_multiplier),
                        down_multiplier=float(down_multiplier), in_place=True)


class LigerFusedGateUpSiLUMulFunction:
    @staticmethod
    def apply(y, in_place=False):
        return F.swiglu(_contiguous(y), in_place=in_place)


class LigerGELUMulFunction:
    @staticmethod
    def apply(a, b):
        return F.geglu(_contiguous(a), _contiguous(b), in_place=True)


class LigerReLUSquaredFunction:
    @staticmethod
    def apply(X):
        return F.activation(_contiguous(X), "relu_squared")


class LigerRopeFunction:
    @staticmethod
    def apply(q, k, cos, sin, position_ids=None, unsqueeze_dim=1, rotary_dim=None):
        if cos.dim() == 4:
            cos, sin = cos.squeeze(1), sin.squeeze(1)
        rotary_dim = rotary_dim or min(cos.shape[-1], q.shape[-1]) // 2 * 2
        if cos.shape[-1] > rotary_dim:  # an odd last column of a head is not rotated
            cos, sin = (
                t[..., :rotary_dim // 2].repeat(*[1] * (t.dim() - 1), 2) for t in (cos, sin))
        return F.rope(q, k, cos.contiguous(), sin.contiguous(), heads_dim=1, rotary_dim=rotary_dim)


class LigerLlama4RopeFunction:
    """q and k are [batch, position, head, column]; a complex number rotates each pair of
    columns."""

    @staticmethod
    def apply(q, k, freqs_cis, BLOCK_SIZE=None):
        if freqs_cis.is_complex():
            freqs_cis = torch.view_as_real(freqs_cis.reshape(-1, freqs_cis.shape[-1])[:q.shape[1]])
        return F.rope(q, k, freqs_cis.flatten(-2).contiguous(), layout="interleaved")


class LigerQwen2VLMRopeFunction:
    @staticmethod
    def apply(q, k, cos, sin, mrope_section, unsqueeze_dim=1):
        return F.rope(q, k, cos.contiguous(), sin.contiguous(), heads_dim=1, layout="multimodal",
                      sections=tuple(mrope_section))


class LigerSoftmaxFunction:
    @staticmethod
    def apply(input_):
        return F.softmax(_contiguous(input_))


class LigerSparsemaxFunction:
    @staticmethod
    def apply(x, dim):
        return F.sparsemax(_contiguous(x.transpose(dim, -1))).transpose(dim, -1)


class LigerEmbeddingFunction:
    @staticmethod
    def apply(embeddings, indices):
        return F.embedding(indices, embeddings)


class LigerCrossEntropyFunction:
    """The forward overwrites the input with its gradient."""

    @staticmethod
    def apply(_input, target, weight, ignore_index=-100, lse_square_scale=0.0, label_smoothing=0.0,
              reduction="mean", softcap=None, return_z_loss=False, return_token_accuracy=False,
              return_predicted_tokens=False):
        out = _labels_checked(F.cross_entropy, _contiguous(_input), target,
                              class_weight=_contiguous(weight), ignore_index=ignore_index,
                              reduction=reduction, label_smoothing=label_smoothing,
                              lse_square_scale=lse_square_scale, softcap=softcap,
                              with_z_loss=return_z_loss, with_accuracy=return_token_accuracy,
                              with_predictions=return_predicted_tokens, in_place=True)
        return _four(out, _input.dtype, _input.dtype)


def _four(out, loss_dtype, z_loss_dtype):
    """Returns (loss, z_loss, token_accuracy, predicted_tokens) in the dtypes of Liger."""
    if isinstance(out, torch.Tensor):
        return out.to(loss_dtype), None, None, None
    z_loss = None if out.z_loss is None else out.z_loss.to(z_loss_dtype)
    return out.loss.to(loss_dtype), z_loss, out.accuracy, out.predictions


class LigerFusedLinearCrossEntropyFunction:
    @staticmethod
    def apply(_input, weight, target, bias=None, ce_weight=None, ignore_index=-100,
              lse_square_scale=0.0, label_smoothing=0.0, reduction="mean", softcap=None,
              return_z_loss=False, accum_dtype=None, use_token_scaling=False,
              return_token_accuracy=False, return_predicted_tokens=False, ce_impl=None,
              ce_mode=None, chunk_mem_const=1):
        _only_default("fused_linear_cross_entropy", ce_impl)
        _only_default("fused_linear_cross_entropy", ce_mode)
        _only_default("fused_linear_cross_entropy", chunk_mem_const, 1)
        out = _labels_checked(
            F.fused_linear_cross_entropy, _contiguous(_input), weight, target, bias,
            class_weight=_contiguous(ce_weight), ignore_index=ignore_index, reduction=reduction,
            label_smoothing=label_smoothing, lse_square_scale=lse_square_scale, softcap=softcap,
            use_token_scaling=use_token_scaling, with_z_loss=return_z_loss,
            with_accuracy=return_token_accuracy, with_predictions=return_predicted_tokens)
        return _four(out, torch.float32, _input.dtype)


class LigerVocabParallelCEFunction:
    """Logits are [position, batch, class of this rank], or all classes without a group of several
    ranks. A label outside all classes is an error here; Liger treats it as a class with the largest
    logit."""

    @staticmethod
    def apply(vocab_parallel_logits, target, tp_group, ignore_index, label_smoothing,
              label_smoothing_formula, label_smoothing_mode):
        if vocab_parallel_logits.dim() != 3:
            raise ValueError("vocab_parallel_logits must be 3-D ([seq, batch, vocab]); got shape "
                             f"{tuple(vocab_parallel_logits.shape)}.")
        logits = _contiguous(vocab_parallel_logits)
        group = tp_group if hasattr(tp_group, "size") and tp_group.size() > 1 else None
        return _labels_checked(F.vocab_parallel_cross_entropy, logits,
                               target.reshape(logits.shape[:2]).contiguous(), group=group,
                               ignore_index=_NOTHING if ignore_index is None else ignore_index,
                               reduction="none", label_smoothing=float(label_smoothing),
                               shard_smoothing=label_smoothing_mode == "partition",
                               smooth_others=label_smoothing_formula == "megatron")


class LigerKLDivLossFunction:
    @staticmethod
    def apply(y_pred, y_true, reduction="batchmean", log_target=False, eps=1e-10):
        return F.kl_div(_contiguous(y_pred), _contiguous(y_true).detach(), reduction=reduction,
                        log_target=log_target, eps=eps)


class LigerJSDFunction:
    @staticmethod
    def apply(_input, target, shift_labels=None, beta=0.5, ignore_index=-100, jsd_impl=None,
              jsd_mode=None):
        _only_default("jsd", jsd_impl)
        _only_default("jsd", jsd_mode)
        loss = F.jsd(_contiguous(_input), _contiguous(target).detach(), shift_labels, beta=beta,
                     ignore_index=ignore_index)
        return loss.to(_input.dtype)


class LigerFusedLinearJSDFunction:
    """Gradients of the weights are summed in f32, whatever `accum_dtype` is."""

    @staticmethod
    def apply(student_input, student_weight, teacher_input, teacher_weight, shift_labels=None,
              jsd_beta=0.5, ignore_index=-100, temperature=1.0, accum_dtype=None, jsd_impl=None,
              jsd_mode=None):
        _only_default("fused_linear_jsd", jsd_impl)
        _only_default("fused_linear_jsd", jsd_mode)
        return F.fused_linear_jsd(_contiguous(student_input), student_weight,
                                  _contiguous(teacher_input), teacher_weight, shift_labels,
                                  beta=jsd_beta, temperature=temperature, ignore_index=ignore_index)


class LigerTVDLossFunction:
    @staticmethod
    def apply(p, q, shift_labels=None, reduction="batchmean", ignore_index=-100):
        return F.tvd(_contiguous(p), _contiguous(q).detach(), shift_labels, reduction=reduction,
                     ignore_index=ignore_index)


__all__ = [name for name in dir() if name.startswith("Liger") and name.endswith("Function")]
