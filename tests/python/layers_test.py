"""Decoder layers recomputed in backward as one node of autograd, compared with torch's
checkpointing."""

import copy
import gc
import importlib.util
import pickle

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import ligerdsl
import ligerdsl.hf
import ligerdsl.torch as lt
from ligerdsl.hf import rotation
from ligerdsl.hf.memory import GIB, head_limit, kept_layers, piece_rows

SMALL = dict(vocab_size=61, hidden_size=32, intermediate_size=48, num_hidden_layers=3,
             num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64,
             attn_implementation="sdpa", tie_word_embeddings=True, head_dim=8)
PIECE = 2 * 48 * 4 * 5  # bytes of gate and up (48 columns, f32) for five rows


@pytest.fixture(autouse=True)
def no_rotation_is_left():
    """A patched model that is garbage collected restores the rotation."""
    yield
    gc.collect()
    assert rotation._rotations == {}


def model_of(kind="Llama", dtype=torch.float32, **more):
    torch.manual_seed(0)
    model = getattr(transformers, f"{kind}ForCausalLM")(getattr(
        transformers, f"{kind}Config")(**{**SMALL, **more})).to(dtype).train()
    for parameter in model.parameters():
        if parameter.dim() == 1:
            parameter.data += 0.3 * torch.randn_like(parameter)
    model.gradient_checkpointing_enable()
    return model


def batch(rows=2, length=9):
    ids = torch.randint(1, 61, (rows, length), generator=torch.Generator().manual_seed(3))
    return {"input_ids": ids, "labels": ids}


def gradients(model, data, **more):
    model.zero_grad()
    loss = model(**data, **more).loss
    loss.backward()
    return (loss.detach(),
            {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None})


def nodes():
    """Returns the number of layers that ran backward as one node. Each has two fused add-norms."""
    return ligerdsl.calls("fused_add_rms_norm_backward") // 2


def check(model, data, expected_nodes, rtol=1e-3, atol=1e-5, patching=None, **more):
    """Compares a model before and after patching. `data`: arguments of the model's forward."""
    expected_loss, expected = gradients(model, data, **more)
    ligerdsl.hf.patch(model, **patching or {})
    before = nodes()
    loss, found = gradients(model, data, **more)
    assert nodes() - before == expected_nodes
    ligerdsl.hf.unpatch(model)
    torch.testing.assert_close(loss, expected_loss, rtol=rtol, atol=atol)
    assert found.keys() == expected.keys()
    for name, gradient in expected.items():
        torch.testing.assert_close(found[name], gradient, rtol=rtol, atol=atol, msg=name)


@pytest.mark.parametrize("patching",
                         [{}, {"mlp_piece_bytes": PIECE}, {"mlp_piece_bytes": 0},
                          {"keep_attention": 2}, {"keep_attention": 9, "mlp_piece_bytes": PIECE},
                          {"join_weights": True}, {"join_weights": True, "mlp_piece_bytes": PIECE}],
                         ids=str)
@pytest.mark.parametrize("kind", ["Llama", "Mistral"])
def test_loss_and_gradients(kind, patching):
    check(model_of(kind), batch(), 3, patching=patching)


def test_norms_of_two_epsilons():
    model = model_of()
    for layer in model.model.layers:
        layer.post_attention_layernorm.variance_epsilon = 0.5
    check(model, batch(), 3)


@pytest.mark.parametrize("in_memory", [False, True])
def test_pieces_are_summed_in_float32(in_memory):
    from ligerdsl.hf.layer import Sum
    d_out, x = torch.randn(512, 4).bfloat16(), torch.randn(512, 6).bfloat16()
    exact, narrow = d_out.double().t() @ x.double(), torch.zeros(4, 6, dtype=torch.bfloat16)
    total = Sum(narrow, several=True, in_memory=in_memory)
    for begin in range(0, 512, 2):
        part = slice(begin, begin + 2)
        total.add(d_out[part], x[part])
        narrow += d_out[part].t() @ x[part]
    distance = lambda found: (found.double() - exact).norm()
    assert (
        total.result().dtype == torch.bfloat16 and distance(total.result()) < distance(narrow) / 3)


def test_kept_attention_has_no_memory_of_its_inputs():
    from ligerdsl.hf.layer import KeptAttention, attention
    q, k, v = (torch.randn(1, 2, 5, 8) for _ in range(3))
    kept = KeptAttention(q, k, v, 0.3)
    assert all(leaf.numel() == 0 for leaf in kept.leaves)
    d_out = torch.randn_like(kept.out)
    leaves = [t.clone().requires_grad_() for t in (q, k, v)]
    expected = torch.autograd.grad(attention(*leaves, 0.3), leaves, d_out)
    before = [t.clone() for t in (q, k, v)]
    for t in (q, k, v):
        t.zero_()  # backward must not read these
    for one, other in zip(kept.backward(*before, d_out), expected):
        torch.testing.assert_close(one, other)


def test_equally_many_heads_of_queries_and_keys():
    check(model_of(num_key_value_heads=4), batch(), 3, patching={"keep_attention": 1})


@pytest.mark.parametrize("join", [False, True])
def test_transposed_gradients_of_attention(join):
    """The math back end returns transposed key gradients if each key head serves one query head."""
    from torch.nn.attention import SDPBackend, sdpa_kernel
    with sdpa_kernel(SDPBackend.MATH):
        check(model_of(num_key_value_heads=4), batch(), 3, patching={"join_weights": join})


@pytest.mark.parametrize("join", [False, True])
def test_frozen_weights(join):
    model = model_of()
    for name, parameter in model.named_parameters():
        parameter.requires_grad_("q_proj" in name or "1.mlp.down_proj" in name
                                 or "2.input_layernorm" in name)
    check(model, batch(), 3, patching={"mlp_piece_bytes": PIECE, "join_weights": join})
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    model.disable_input_require_grads()
    model.model.layers[2].self_attn.o_proj.weight.requires_grad_()
    check(model, batch(), 1)


def test_bfloat16_is_equally_close_to_float32():
    model, exact = model_of(dtype=torch.bfloat16), model_of()
    exact.load_state_dict(model.state_dict())
    _, reference = gradients(exact, batch())
    _, theirs = gradients(model, batch())
    ligerdsl.hf.patch(model, mlp_piece_bytes=PIECE // 2)
    before = nodes()
    _, ours = gradients(model, batch())
    assert nodes() - before == 3
    distance = lambda found: sum((found[name].float() - gradient).square().sum()
                                 for name, gradient in reference.items()).sqrt()
    assert distance(ours) < 1.1 * distance(theirs)


def test_attention_runs_once_if_its_output_is_kept(monkeypatch):
    from ligerdsl.hf import layer
    forwards, attention = [], layer.attention
    monkeypatch.setattr(layer, "attention",
                        lambda *arguments: forwards.append(1) or attention(*arguments))
    for keep in (0, 1, 3):
        model = model_of()
        ligerdsl.hf.patch(model, keep_attention=keep)
        forwards.clear()
        loss = model(**batch()).loss
        assert len(forwards) == 3
        loss.backward()
        assert len(forwards) == 6 - keep
        ligerdsl.hf.unpatch(model)


def test_backward_twice():
    model, data = model_of(), batch()
    ligerdsl.hf.patch(model, loss=None, keep_attention=1)
    loss = model(**data).logits.float().square().mean()
    first = torch.autograd.grad(loss, list(model.parameters()), retain_graph=True)
    for one, other in zip(first, torch.autograd.grad(loss, list(model.parameters()))):
        torch.testing.assert_close(one, other)
    loss = model(**data).logits.float().square().mean()
    gradient, = torch.autograd.grad(loss, [model.model.layers[0].mlp.up_proj.weight],
                                    create_graph=True)
    with pytest.raises(ligerdsl.NotSupported, match="second derivatives are not supported"):
        gradient.sum().backward()


def test_a_cache_is_left_out_as_transformers_does():
    check(model_of(), batch(), 3, use_cache=True)


def hook_within(model):
    model.seen = []
    model.model.layers[1].self_attn.q_proj.register_forward_hook(lambda *_: model.seen.append(1))


def hook_of_a_part(model):
    model.seen = []
    model.model.layers[1].mlp.register_forward_hook(lambda *_: model.seen.append(1))


def adapter(model):
    class Adapted(torch.nn.Linear):
        pass

    old = model.model.layers[1].mlp.up_proj
    model.model.layers[1].mlp.up_proj = new = Adapted(32, 48, bias=False)
    new.load_state_dict(old.state_dict())


@pytest.mark.parametrize("change, expected", [(hook_within, 2), (hook_of_a_part, 2), (adapter, 2)])
def test_other_parts_of_a_layer_are_respected(change, expected):
    """The changed layer runs under torch's checkpointing."""
    model = model_of()
    change(model)
    check(model, batch(), expected)
    assert len(getattr(model, "seen", [1, 1])) >= 2, "patched and not"


def test_changed_after_patching():
    model = model_of()
    ligerdsl.hf.patch(model)
    adapter(model)
    before = nodes()
    gradients(model, batch())
    assert nodes() - before == 2
    ligerdsl.hf.unpatch(model)


def test_calls_beyond_a_causal_step():
    data = batch()
    mask = torch.ones_like(data["input_ids"])
    mask[0, :3] = 0
    check(model_of(), data, 0, attention_mask=mask)
    check(model_of(attn_implementation="eager"), data, 0)
    model = model_of()
    model.gradient_checkpointing_disable()
    check(model, data, 0)
    check(model_of(), data, 0, patching={"layers": False})
    check(model_of("Qwen2"), data, 0)  # Qwen2's layers have biases
    with torch.autocast("cpu", torch.bfloat16):
        check(model_of(), data, 0, rtol=5e-2, atol=5e-2)
    model = model_of(attention_dropout=0.3)
    ligerdsl.hf.patch(model)
    before = nodes()
    gradients(model, data)
    assert nodes() == before
    ligerdsl.hf.unpatch(model)
    model = model_of(dtype=torch.bfloat16)
    ligerdsl.hf.patch(model)
    for layer in model.model.layers[:2]:
        layer.input_layernorm.to(torch.float32)
    before = nodes()
    loss, _ = gradients(model, data)
    assert nodes() - before == 1 and torch.isfinite(loss)
    ligerdsl.hf.unpatch(model)


def test_main_grad_takes_modules():
    model = model_of()
    ligerdsl.hf.patch(model)
    lt.config.main_grad = True
    try:
        before = nodes()
        gradients(model, batch())
        assert nodes() == before
    finally:
        lt.config.main_grad = False
        ligerdsl.hf.unpatch(model)


def test_compiled_layers():
    model, data = model_of(use_cache=False), batch()
    _, expected = gradients(model, data)
    ligerdsl.hf.patch(model)
    torch._dynamo.reset()
    if torch.cuda.is_available():
        # dynamo reads the device's random state, and torch's checkpointing fails if a layer
        # initialises the device
        torch.cuda.init()
    for layer in model.model.layers:
        layer.compile(backend="aot_eager")
    before = nodes()
    _, found = gradients(model, data)
    assert nodes() == before
    for name, gradient in expected.items():
        torch.testing.assert_close(found[name], gradient, rtol=1e-3, atol=1e-5, msg=name)


def test_classes_copies_and_unpatching():
    model, data = model_of(), batch()
    kind = type(model.model.layers[0])
    ligerdsl.hf.patch(model)
    layer = model.model.layers[0]
    assert (isinstance(layer, kind) and type(layer).__name__ == kind.__name__
            and type(layer) is type(model.model.layers[1]))
    other = copy.deepcopy(model)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.mul_(1.5)
    before = nodes()
    loss, _ = gradients(other, data)
    assert nodes() - before == 3 and all(parameter.grad is None for parameter in model.parameters())
    assert loss != gradients(model, data)[0]
    ligerdsl.hf.unpatch(model)
    assert type(layer) is kind and "forward" not in vars(layer)
    pickle.dumps(model.model.layers[0])


def are_contiguous(*weights):
    return all(after.data_ptr() == weight.data_ptr() + weight.numel() * weight.element_size()
               for weight, after in zip(weights, weights[1:]))


def products_of_both(model, data):
    """Returns the number of gated matmuls in the forward pass, which equals that in backward."""
    calls = lambda: (ligerdsl.calls("gated_matmul_nt"), ligerdsl.calls("gated_matmul_nt_backward"))
    before = calls()
    gradients(model, data)
    forward, backward = (now - then for now, then in zip(calls(), before))
    assert backward == forward
    return forward


def test_joined_weights_become_contiguous():
    model, data = model_of(), batch()
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    held = dict(model.named_parameters())
    ligerdsl.hf.patch(model)
    assert products_of_both(model, data) == 0, "no faster on a CPU"
    ligerdsl.hf.unpatch(model)
    ligerdsl.hf.patch(model, join_weights=True)
    mlps = [layer.mlp for layer in model.model.layers]
    attentions = [layer.self_attn for layer in model.model.layers]
    of_attention = [
        [part.q_proj.weight, part.k_proj.weight, part.v_proj.weight] for part in attentions]
    for weights in (*of_attention, *([mlp.gate_proj.weight, mlp.up_proj.weight] for mlp in mlps)):
        assert are_contiguous(*weights)
        assert all(w.storage_offset() == 0 and w.untyped_storage().nbytes() == w.numel() * 4
                   for w in weights)
    for name, parameter in model.named_parameters():
        assert parameter is held[name] and torch.equal(parameter, before[name])
    assert products_of_both(model, data) == 3, "of three layers"
    other = copy.deepcopy(model)
    assert (products_of_both(other, data) == 3
            and other.model.layers[0].mlp.gate_proj.weight.data_ptr()
                != mlps[0].gate_proj.weight.data_ptr())
    mlps[0].up_proj.weight.data = mlps[0].up_proj.weight.data.clone()
    of_attention[1][2].data = of_attention[1][2].data.clone()
    assert products_of_both(model, data) == 2, "one layer's were separated"
    joined = [layer._ligerdsl_joined.qkv.of(*weights) is not None
              for layer, weights in zip(model.model.layers, of_attention)]
    assert joined == [True, False, True]
    moved = model_of()
    ligerdsl.hf.patch(moved, join_weights=True)
    assert (products_of_both(moved.bfloat16(), data) == 0
            and products_of_both(moved.float(), data) == 0), "no more after that"
    with torch.no_grad():
        mlps[1].gate_proj.weight.mul_(2)
        of_attention[0][1].mul_(2)
    loss, _ = gradients(model, data)
    ligerdsl.hf.unpatch(model)
    torch.testing.assert_close(loss, gradients(model, data)[0], rtol=1e-4, atol=1e-5)
    gate, up = mlps[2].gate_proj.weight, mlps[2].up_proj.weight
    assert not are_contiguous(gate, up) and torch.equal(up,
                                                        before["model.layers.2.mlp.up_proj.weight"])
    assert not are_contiguous(*of_attention[2][:2]) and not are_contiguous(*of_attention[2][1:])


@pytest.mark.parametrize("join", [False, True])
def test_number_of_matmuls_for_queries_keys_and_values(join, monkeypatch):
    from ligerdsl.hf import layer
    model, rows, linear = model_of(), [], layer.linear
    ligerdsl.hf.patch(model, join_weights=join)
    monkeypatch.setattr(layer, "linear",
                        lambda x, weight: rows.append(len(weight)) or linear(x, weight))
    gradients(model, batch())
    first = model.model.layers[0].self_attn
    together = sum(len(part.weight) for part in (first.q_proj, first.k_proj, first.v_proj))
    assert rows.count(together) == (6 if join else 0), "forward and backward of three layers"


def test_separated_weights_are_detected():
    model, data = model_of(num_key_value_heads=4), batch()  # so that q, k and v are square
    ligerdsl.hf.patch(model, join_weights=True)
    first, second, third = (layer.self_attn for layer in model.model.layers)
    first.v_proj.weight.data = first.v_proj.weight.data.t()
    second.v_proj.weight.data = torch.empty(0)
    values = torch.randn(32, 32)
    memory = [layer._ligerdsl_joined.qkv.memory for layer in model.model.layers]
    for part in (third.q_proj, third.k_proj, third.v_proj):
        part.weight.data = values.clone()
    assert [alive.expired() for alive in memory] == [False, False,
                                                     True], "nothing keeps what is used no more"
    second.v_proj.weight.data = values.clone()
    loss, _ = gradients(model, data)
    ligerdsl.hf.unpatch(model)
    torch.testing.assert_close(loss, gradients(model, data)[0], rtol=1e-4, atol=1e-5)
    assert not any(are_contiguous(part.q_proj.weight, part.k_proj.weight)
                   for part in (first, second, third))


def test_unpatching_separates_weights_of_a_replaced_layer():
    model = model_of()
    ligerdsl.hf.patch(model, join_weights=True)
    mlp = model.model.layers[0].mlp
    gate, up = mlp.gate_proj.weight, mlp.up_proj.weight
    mlp.up_proj = torch.nn.Sequential(mlp.up_proj)  # adapters wrap modules like this
    ligerdsl.hf.unpatch(model)
    assert not are_contiguous(gate, up)


def test_model_moves_to_its_device_after_patching(monkeypatch):
    model = model_of()
    ligerdsl.hf.patch(model)
    assert products_of_both(model, batch()) == 0
    monkeypatch.setattr("ligerdsl.hf.contiguous_weights.is_faster", lambda gate: True)
    assert products_of_both(model, batch()) == 3


def test_joined_weights_are_saved_separately(tmp_path):
    """Savers that identify tensors by their storages must save each weight."""
    model = model_of()
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    ligerdsl.hf.patch(model, join_weights=True)
    save_model = pytest.importorskip("safetensors.torch").save_model
    save_model(model, tmp_path / "model.safetensors")
    model.save_pretrained(tmp_path / "pretrained")
    torch.save(model.model.layers[0].mlp.up_proj.weight.detach(), tmp_path / "one")
    assert (tmp_path / "one").stat().st_size < 2 * 48 * 32 * 4

    def without_values():
        other = model_of()
        for parameter in other.parameters():
            parameter.data.zero_()
        return other

    found = [transformers.LlamaForCausalLM.from_pretrained(tmp_path / "pretrained"),
             without_values()]
    pytest.importorskip("safetensors.torch").load_model(found[1], tmp_path / "model.safetensors")
    if importlib.util.find_spec("accelerate"):
        import accelerate
        saver = accelerate.Accelerator(cpu=True)
        saver.save_model(model, tmp_path / "accelerate")
        found.append(without_values())
        accelerate.load_checkpoint_in_model(found[2], tmp_path / "accelerate")
    for each in found:
        for name, parameter in each.named_parameters():
            assert torch.equal(parameter, before[name]), name


def test_weights_in_a_foreign_buffer_stay_there():
    model = model_of()
    parameters = [layer.mlp.gate_proj.weight for layer in model.model.layers] + [
        layer.mlp.up_proj.weight for layer in model.model.layers]
    flat = torch.cat([parameter.detach().flatten() for parameter in parameters])
    for i, parameter in enumerate(parameters):
        parameter.data = flat[i * 1536:(i + 1) * 1536].view(48, 32)
    ligerdsl.hf.patch(model, join_weights=True)
    assert products_of_both(model, batch()) == 0
    flat.zero_()
    assert all(not parameter.any() for parameter in parameters)


def test_bad_options():
    model = model_of()
    with pytest.raises(ValueError,
                       match="join_weights: expected 'auto', True or False, got 'always'"):
        ligerdsl.hf.patch(model, join_weights="always")
    for bad in ("all", -1, None):
        with pytest.raises(ValueError,
                           match="keep_attention: expected 'auto' or a number of layers"):
            ligerdsl.hf.patch(model, keep_attention=bad)
    with pytest.raises(ValueError, match="mlp_piece_bytes"):
        ligerdsl.hf.patch(model, mlp_piece_bytes=-1)


# Sizes of Llama-3.2-1B in bf16. HEAD and WEIGHTS are in bytes.
LAYERS, HIDDEN, WIDE, CLASSES, WEIGHTS = 16, 2048, 8192, 128256, 2_471_628_800
HEAD = 2 * CLASSES * HIDDEN
OTHERS = WEIGHTS - HEAD
PIECE_ROWS = piece_rows(WIDE, 2, GIB // 2)


def limit(rows, others=OTHERS):
    return head_limit(rows, LAYERS, HIDDEN, WIDE, 2, PIECE_ROWS, CLASSES, others)


def test_head_needs_no_more_memory_than_backward():
    assert PIECE_ROWS == 16384
    peak = lambda rows: WEIGHTS + (LAYERS + 4) * rows * HIDDEN * 2 + HEAD + (limit(rows) or 2.19e9)
    end = lambda rows: 2 * WEIGHTS + max(HEAD, rows * 2 * (8 * HIDDEN + 4 * WIDE))
    for rows in (8192, 12288, 16384):
        assert peak(rows) <= end(rows) + 2**26
    assert limit(1024) is None
    assert limit(8192) < 2.1e9, "all rows at once take 2.10 GB and the products' workspace"
    assert limit(8192, 0) == 4 * CLASSES * HIDDEN + 3 * GIB // 4 + GIB // 16, (
        "gradients are there: never less than this")


def test_layers_that_keep_attention():
    kept = lambda rows, free: kept_layers(rows, LAYERS, HIDDEN, WIDE, 2, 2 * HIDDEN + 128,
                                          PIECE_ROWS, free, HEAD)
    assert kept(16384, 1 << 50) == 0, "pieces save nothing there"
    for rows in (32768, 65536, 131072):
        some = kept(rows, 1 << 50)
        assert 3 <= some <= 7 and some * (2 * HIDDEN + 128) <= 4 * WIDE * (rows - PIECE_ROWS) / rows
        assert kept(rows, 0) == 0
    assert 0 < kept(131072, 12e9) < kept(131072, 1 << 50)
