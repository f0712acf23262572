"""Operations of baseline rows (bench/cases), in the syntax of the `ligerdsl` command."""

ACTIVATIONS = {"gelu_tanh": 0, "gelu_erf": 1, "silu": 2, "relu": 3, "relu_squared": 4}
SHARDS = 8


def typed(dtype, *names):
    return " ".join(f"{name}={dtype}" for name in ("dtype", *names))


def two(name, forward, backward):
    """Returns the operations of a forward and a backward pass."""
    first, second = f"{name}_forward {forward}", f"{name}_backward {backward}"
    return {"fwd": [first], "bwd": [second], "full": [first, second]}


def norm(kernel, s, d):
    size = f"N={s[0]} H={s[1]}"
    forward = {"rms_norm": "weight_dtype", "fused_add_rms_norm": "weight_dtype"}.get(kernel)
    if forward:
        return two(kernel, f"{typed(d, 'weight_dtype')} with_rstd=1 {size}",
                   f"{typed(d, 'weight_dtype', 'd_weight_dtype')} {size}" +
                   (" with_d_sum=1" if "fused" in kernel else ""))
    return two(kernel, f"{typed(d, 'weight_dtype', 'bias_dtype')} with_mean=1 with_rstd=1 {size}",
               f"{typed(d, 'weight_dtype', 'd_weight_dtype', 'd_bias_dtype')} {size}" +
               (" with_d_sum=1" if "fused" in kernel else ""))


def operations(kernel, s, d, provider="ligerdsl"):
    """Returns {pass: operations of the command} of a case, or {} if the command has none."""
    rows = f"N={s[0]}"
    if kernel in ("rms_norm", "layer_norm", "fused_add_rms_norm", "fused_add_layer_norm"):
        return norm(kernel, s, d)
    if kernel in ("swiglu", "geglu"):
        return two(kernel, f"dtype={d} {rows} F={s[1]}", f"dtype={d} {rows} F={s[1]}")
    if kernel in ACTIVATIONS:
        about = f"dtype={d} kind={kernel} {rows} F={s[1]}"
        return two("activation", about, about)
    if kernel == "dropout":
        return two("dropout", f"dtype={d} {rows} F={s[1]}", f"dtype={d} {rows} F={s[1]}")
    if kernel == "bias_add":
        return two("bias_add", f"{typed(d, 'bias_dtype')} {rows} F={s[1]}",
                   f"{typed(d, 'd_bias_dtype')} {rows} F={s[1]}")
    if kernel == "scale":
        return {"fwd": [f"scale dtype={d} {rows} H={s[1]}"]}
    if kernel == "vector_add":
        return {"fwd": [f"vector_add dtype={d} N={s[0]}"]}
    if kernel in ("softmax", "sparsemax"):
        about = f"dtype={d} {rows} H={s[1]}"
        return two(kernel, about, about)
    if kernel == "dyt":
        return two("dyt", f"{typed(d, 'weight_dtype', 'bias_dtype')} {rows} H={s[1]}",
                   f"{typed(d, 'weight_dtype', 'd_weight_dtype', 'd_bias_dtype')} {rows} H={s[1]}")
    if kernel == "poly_norm":
        return two("poly_norm", f"{typed(d, 'weight_dtype')} with_rstd=1 {rows} H={s[1]}",
                   f"{typed(d, 'weight_dtype', 'd_weight_dtype', 'd_bias_dtype')} {rows} H={s[1]}")
    if kernel == "modulated_rms_norm":
        size = f"{rows} H={s[1]} K={s[2]}"
        types = ("weight_dtype", "scale_dtype")
        gradients = ("d_weight_dtype", "d_scale_dtype", "d_shift_dtype")
        return two(kernel, f"{typed(d, *types)} with_shift=1 with_rstd=1 {size}",
                   f"{typed(d, *types, *gradients)} {size}")
    if kernel == "group_norm":
        size = f"N={s[0]} C={s[1]} S={s[2]} n_groups={s[3]}"
        return two(
            kernel, f"{typed(d, 'weight_dtype', 'bias_dtype')} with_mean=1 with_rstd=1 {size}",
            f"{typed(d, 'weight_dtype', 'd_weight_dtype', 'd_bias_dtype')} {size}")
    if kernel == "rope":
        place = 0 if provider == "ligerdsl_new" else 1
        about = (f"{typed(d, 'table_dtype')} with_k=1 in_place={place} "
                 f"B={s[0]} S={s[1]} A={s[2]} K={s[3]} D={s[4]}")
        first, second = f"rope {about} inverse=0", f"rope {about} inverse=1"
        return {"fwd": [first], "bwd": [second], "full": [first, second]}
    if kernel.startswith("cross_entropy"):
        about = f"cross_entropy dtype={d} label_dtype=i64 {rows} V={s[1]}"
        if kernel.endswith("softcap"):
            about += " softcap=30"
        if kernel.endswith("smoothing"):
            about += " label_smoothing=0.1"
        place = 0 if provider == "ligerdsl_apart" else 1
        return {"fwd": [f"{about} with_d_logits=0"],
                "full": [f"{about} with_d_logits=1 in_place={place}"]}
    if kernel in ("kl_div", "jsd", "tvd"):
        about = f"{kernel} {typed(d, 'target_dtype')} {rows} V={s[1]}"
        return {"fwd": [f"{about} with_d_input=0"], "full": [f"{about} with_d_input=1"]}
    if kernel == "vocab_parallel_cross_entropy":
        about = f"dtype={d} label_dtype=i64 {rows} V={s[1]} total_classes={SHARDS * s[1]}"
        first = f"vocab_parallel_cross_entropy_partials {about}"
        second = f"vocab_parallel_cross_entropy {about} with_d_logits=1 in_place=1"
        return {"fwd": [first], "full": [first, f"{second} M={SHARDS * s[0]}"]}
    if kernel in ("embedding", "embedding_positions"):
        about = f"{typed(d)} index_dtype=i64 N={s[0]} V={s[1]} H={s[2]}"
        if kernel == "embedding":
            return two("embedding", about, f"{about} d_weight_dtype={d}")
        return two("embedding", f"{about} with_position_weight=1 P={s[3]}",
                   f"{about} d_weight_dtype={d} d_position_weight_dtype={d} P={s[3]}")
    if kernel == "adamw":
        return {"fwd": [f"adamw_step {typed(d, 'grad_dtype')} N={s[0]}"]}
    if kernel == "global_norm":
        return {"fwd": [f"global_norm dtype={d} with_clip_factor=1 N={s[0]}"]}
    if kernel.startswith("matmul_"):
        m, n, k = s
        return {"fwd": [f"{kernel} dtype={d} M={m} N={n} K={k}"]}
    if kernel == "grouped_matmul_nt":
        e, m, k, n = s
        return {"fwd": [f"{kernel} dtype={d} index_dtype=i32 E={e} M={m} N={n} K={k}"]}
    if kernel == "attention":
        b, t, a, kh, hd = s
        about = f"dtype={d} causal=1 B={b} T={t} S={t} A={a} K={kh} D={hd}"
        first, second = f"attention_forward {about} with_lse=1", f"attention_backward {about}"
        return {"fwd": [first], "bwd": [second], "full": [first, second]}
    if kernel == "fused_linear_cross_entropy" or kernel.startswith("flce_"):
        loss = kernel == "flce_losses"
        about = f"fused_linear_cross_entropy dtype={d} label_dtype=i64 N={s[0]} H={s[1]} V={s[2]}"
        if not loss:
            is_f32 = any(part in provider for part in ("_f32", "_300mb", "_64mb"))
            dtype = "f32" if is_f32 and not provider.endswith("dw16") else d
            about += f" with_d_x=1 with_d_loss=1 d_weight_dtype={dtype}"
        if provider == "ligerdsl_kernels":
            about += " products=2"
        for name, limit in (("300mb", 300_000_000), ("64mb", 64_000_000)):
            if name in provider:
                about += f" max_workspace_bytes={limit}"
        if loss:
            return {"fwd": [f"{about} with_d_x=0 d_weight_dtype=none"]}
        return {"full": [about]}
    return {}
