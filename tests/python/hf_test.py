"""Compares patched models of transformers with their own forward, with random weights."""

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import ligerdsl
import ligerdsl.hf

SMALL = dict(vocab_size=61, hidden_size=32, intermediate_size=48, num_hidden_layers=2,
             num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64,
             attn_implementation="eager")
CONFIGS = {
    "llama": ("LlamaConfig", {}),
    "mistral": ("MistralConfig", {}),
    "qwen2": ("Qwen2Config", {}),
    "qwen3": ("Qwen3Config", {"head_dim": 8}),
    "phi3": ("Phi3Config", {"pad_token_id": 0}),
    "gemma": ("GemmaConfig", {"head_dim": 8}),
    "gemma2": ("Gemma2Config", {"head_dim": 8, "final_logit_softcapping": 5.0}),
    "gemma3": ("Gemma3TextConfig", {"head_dim": 8}),
}


def model_of(family, dtype=torch.float32, **more):
    name, options = CONFIGS[family]
    torch.manual_seed(0)
    config = getattr(transformers, name)(**SMALL, **options, **more)
    model = transformers.AutoModelForCausalLM.from_config(config).to(dtype)
    for parameter in model.parameters():  # norm weights must differ from 1
        if parameter.dim() == 1:
            parameter.data += 0.3 * torch.randn_like(parameter)
    return model


def batch(rows=2, length=9):
    ids = torch.randint(1, 61, (rows, length))
    labels = ids.clone()
    labels[0, :3] = -100
    return {"input_ids": ids, "labels": labels}


def gradients(model, data, **more):
    model.zero_grad()
    output = model(**data, **more)
    output.loss.backward()
    return (output,
            {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None})


@pytest.mark.parametrize("family", CONFIGS)
def test_loss_and_gradients(family):
    model, data = model_of(family).train(), batch()
    expected, expected_gradients = gradients(model, data)
    report = ligerdsl.patch(model)
    assert report.left == [], str(report)
    assert (report.patched["fused_linear_cross_entropy"] == 1 and report.patched["rope"] == 1
            and report.patched["RMSNorm"] >= 5)
    before = {name: ligerdsl.calls(name)
              for name in ("rms_norm_forward", "rope", "fused_linear_cross_entropy")}
    output, found = gradients(model, data)
    assert all(ligerdsl.calls(name) > count for name, count in before.items())
    assert output.logits is None
    torch.testing.assert_close(output.loss, expected.loss, rtol=1e-5, atol=1e-5)
    assert found.keys() == expected_gradients.keys()
    for name, gradient in expected_gradients.items():
        torch.testing.assert_close(found[name], gradient, rtol=1e-3, atol=1e-5, msg=name)

    model.eval()
    with torch.no_grad():
        patched = model(**data)
        ligerdsl.unpatch(model)
        calls = ligerdsl.calls("rms_norm_forward")
        torch.testing.assert_close(patched.logits, model(**data).logits, rtol=1e-4, atol=1e-4)
        assert ligerdsl.calls("rms_norm_forward") == calls


def test_number_of_items_and_shifted_labels():
    model, data = model_of("llama").train(), batch()
    for more in ({"num_items_in_batch": torch.tensor(7)}, {"num_items_in_batch": 7},
                 {"shift_labels": data["labels"].roll(1, 1)}):
        expected, _ = gradients(model, data, **more)
        ligerdsl.hf.patch(model)
        output, _ = gradients(model, data, **more)
        ligerdsl.hf.unpatch(model)
        torch.testing.assert_close(output.loss, expected.loss, rtol=1e-5, atol=1e-5)


def test_logits_are_kept_on_request():
    model, data = model_of("llama").train(), batch()
    expected = model(**data)
    ligerdsl.hf.patch(model, loss="ce")
    output = model(**data)
    torch.testing.assert_close(output.loss, expected.loss, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(output.logits, expected.logits, rtol=1e-4, atol=1e-4)
    ligerdsl.hf.unpatch(model)
    ligerdsl.hf.patch(model)
    assert model(input_ids=data["input_ids"]).logits.shape == (2, 9, 61)  # without labels
    loss, *_ = model(**data, return_dict=False)
    torch.testing.assert_close(loss, expected.loss, rtol=1e-5, atol=1e-5)
    assert model(**data, logits_to_keep=2,
                 shift_labels=data["labels"][:, -2:].contiguous()).logits.shape == (2, 2, 61)
    ligerdsl.hf.unpatch(model)


def test_gradient_checkpointing():
    model, data = model_of("llama").train(), batch()
    _, expected = gradients(model, data)
    ligerdsl.hf.patch(model)
    model.gradient_checkpointing_enable()
    _, found = gradients(model, data)
    for name, gradient in expected.items():
        torch.testing.assert_close(found[name], gradient, rtol=1e-3, atol=1e-5, msg=name)
    ligerdsl.hf.unpatch(model)


def test_frozen_weights_have_no_gradients():
    model, data = model_of("llama").train(), batch()
    for name, parameter in model.named_parameters():
        parameter.requires_grad_("q_proj" in name)
    _, expected = gradients(model, data)
    ligerdsl.hf.patch(model)
    _, found = gradients(model, data)
    assert found.keys() == expected.keys() and len(found) == 2
    for name, gradient in expected.items():
        torch.testing.assert_close(found[name], gradient, rtol=1e-3, atol=1e-5, msg=name)
    ligerdsl.hf.unpatch(model)


def test_bfloat16():
    model, data = model_of("llama", torch.bfloat16).train(), batch()
    exact = model_of("llama").train()
    exact.load_state_dict(model.state_dict())
    expected, reference = gradients(exact, data)
    _, theirs = gradients(model, data)
    ligerdsl.hf.patch(model)
    output, ours = gradients(model, data)
    ligerdsl.hf.unpatch(model)
    torch.testing.assert_close(output.loss.float(), expected.loss, rtol=2e-2, atol=2e-2)
    distance = lambda found: sum((found[name].float() - gradient).square().sum()
                                 for name, gradient in reference.items()).sqrt()
    assert distance(ours) < 1.1 * distance(theirs)


def test_generation():
    model = model_of("llama").eval()
    ids = batch()["input_ids"]
    expected = model.generate(ids, max_new_tokens=5, do_sample=False)
    ligerdsl.hf.patch(model)
    assert torch.equal(model.generate(ids, max_new_tokens=5, do_sample=False), expected)
    ligerdsl.hf.unpatch(model)


def test_a_head_with_adapters_keeps_its_logits():
    class Adapted(torch.nn.Linear):
        pass

    model, data = model_of("llama", tie_word_embeddings=False).train(), batch()
    head = Adapted(32, 61, bias=False)
    head.load_state_dict(model.lm_head.state_dict())
    model.lm_head = head
    expected = model(**data).loss
    with pytest.raises(ligerdsl.hf.NotPatched, match="lm_head"):
        ligerdsl.hf.patch(model, strict=True)
    report = ligerdsl.hf.patch(model)
    assert "lm_head" in report.left[0][0] and report.patched["cross_entropy"] == 1
    output = model(**data)
    torch.testing.assert_close(output.loss, expected, rtol=1e-5, atol=1e-5)
    assert output.logits is not None
    ligerdsl.hf.unpatch(model)


def test_unknown_parts_are_reported():
    config = transformers.GPT2Config(n_embd=16, n_layer=1, n_head=2, vocab_size=11)
    model = transformers.GPT2LMHeadModel(config)
    assert "family" in str(ligerdsl.hf.patch(model))
    ligerdsl.hf.unpatch(model)
    with pytest.raises(ligerdsl.hf.NotPatched):
        ligerdsl.hf.patch(model, strict=True)
    silly = model_of("llama", hidden_act="relu")
    assert "ReLU" in str(ligerdsl.hf.patch(silly))
    with pytest.raises(ValueError, match="patched already"):
        ligerdsl.hf.patch(silly)
    ligerdsl.hf.unpatch(silly)
    with pytest.raises(ValueError, match="expected flce, ce or None"):
        ligerdsl.hf.patch(silly, loss="mse")
    with pytest.raises(TypeError, match="expected a model, got None"):
        ligerdsl.hf.patch(None)


def test_copy_of_a_patched_model_is_independent():
    import copy
    import inspect
    model, data = model_of("llama").train(), batch()
    signature = inspect.signature(model.forward)
    ligerdsl.hf.patch(model)
    assert inspect.signature(model.forward) == signature
    other = copy.deepcopy(model)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.mul_(1.5)
    assert other(**data).loss != model(**data).loss
    other(**data).loss.backward()
    assert all(parameter.grad is None for parameter in model.parameters())
    ligerdsl.hf.unpatch(model)


def test_wrapped_forward_is_kept():
    """Tools that move weights between devices wrap the forward this way."""
    model, data = model_of("llama").train(), batch()
    calls = []
    original = model.forward

    def wrapped(*args, **kwargs):
        calls.append(1)
        return original(*args, **kwargs)

    model.forward = wrapped
    ligerdsl.hf.patch(model)
    model(input_ids=data["input_ids"])
    ligerdsl.hf.unpatch(model)
    assert calls == [1] and model.forward is wrapped


def test_labels_out_of_range():
    model, data = model_of("llama").train(), batch()
    ligerdsl.hf.patch(model)
    data["labels"][1, 4] = 61
    with pytest.raises(ligerdsl.LabelError, match="fused_linear_cross_entropy"):
        model(**data)
    ligerdsl.hf.unpatch(model)


@pytest.mark.parametrize("modules_to_save", [None, ["lm_head"]])
def test_adapters_of_peft(modules_to_save):
    """Only the adapters have gradients, and with modules_to_save also the head's trained copy."""
    peft = pytest.importorskip("peft")
    torch.manual_seed(0)
    config = peft.LoraConfig(r=4, target_modules=["q_proj", "gate_proj"],
                             modules_to_save=modules_to_save, init_lora_weights=False)
    model = peft.get_peft_model(model_of("llama", tie_word_embeddings=False), config).train()
    data = batch()
    expected_output, expected = gradients(model, data)
    report = ligerdsl.hf.patch(model)
    assert report.left == [] and report.patched["fused_linear_cross_entropy"] == 1
    output, found = gradients(model, data)
    ligerdsl.hf.unpatch(model)
    assert output.logits is None and found.keys() == expected.keys()
    torch.testing.assert_close(output.loss, expected_output.loss, rtol=1e-5, atol=1e-5)
    for name, gradient in expected.items():
        torch.testing.assert_close(found[name], gradient, rtol=1e-3, atol=1e-5, msg=name)


def test_compiled_without_a_graph_break():
    model, data = model_of("llama", use_cache=False).train(), batch()
    model.config._attn_implementation = "sdpa"
    expected, expected_gradients = gradients(model, data)
    ligerdsl.hf.patch(model)
    torch._dynamo.reset()
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    model.zero_grad()
    output = compiled(**data)
    output.loss.backward()
    ligerdsl.hf.unpatch(model)
    torch.testing.assert_close(output.loss, expected.loss, rtol=1e-5, atol=1e-5)
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(parameter.grad, expected_gradients[name], rtol=1e-3, atol=1e-5,
                                   msg=name)


@pytest.mark.parametrize("family", CONFIGS)
def test_classes_are_patched_before_a_model_exists(family):
    data = batch()
    expected, expected_gradients = gradients(model_of(family).train(), data)
    report = getattr(ligerdsl.hf, f"apply_to_{family}")()
    try:
        assert (report.patched["fused_linear_cross_entropy"] >= 1 and report.patched["RMSNorm"] >= 1
                and report.patched["MLP"] >= 1)
        model = model_of(family).train()
        names = ("rms_norm_forward", "rope", "fused_linear_cross_entropy",
                 "geglu_forward" if "gemma" in family else "swiglu_forward")
        before = {name: ligerdsl.calls(name) for name in names}
        output, found = gradients(model, data)
        assert (all(ligerdsl.calls(name) > count for name, count in before.items())
                and output.logits is None)
        with pytest.raises(ValueError, match="call unapply"):
            ligerdsl.hf.apply_to(family)
    finally:
        ligerdsl.hf.unapply(family)
    torch.testing.assert_close(output.loss, expected.loss, rtol=1e-5, atol=1e-5)
    assert found.keys() == expected_gradients.keys()
    for name, gradient in expected_gradients.items():
        torch.testing.assert_close(found[name], gradient, rtol=1e-3, atol=1e-5, msg=name)
    calls = {name: ligerdsl.calls(name) for name in names}
    output, _ = gradients(model_of(family).train(), data)
    assert {name: ligerdsl.calls(name) for name in names} == calls and output.logits is not None


def test_classes_are_patched_in_part():
    data, reference = batch(), model_of("llama").train()
    expected = reference(**data)
    ligerdsl.hf.apply_to_llama(rms_norm=False, rope=False, loss="ce")
    try:
        before = {name: ligerdsl.calls(name)
                  for name in ("rms_norm_forward", "rope", "cross_entropy", "swiglu_forward")}
        model = model_of("llama").train()
        output = model(**data)
        gained = {name: ligerdsl.calls(name) - count for name, count in before.items()}
        assert gained == {"rms_norm_forward": 0, "rope": 0, "cross_entropy": 1, "swiglu_forward": 2}
        torch.testing.assert_close(output.logits, expected.logits, rtol=1e-4, atol=1e-4)
        report = ligerdsl.hf.patch(model)  # patches everything but the loss
        assert "fused_linear_cross_entropy" not in report.patched and report.patched["rope"] == 1
        torch.testing.assert_close(model(**data).loss, expected.loss, rtol=1e-5, atol=1e-5)
        ligerdsl.hf.unpatch(model)
        other = model_of("llama", hidden_act="relu").train()  # no gated kernel has relu
        before = ligerdsl.calls("swiglu_forward")
        assert torch.isfinite(other(**data).loss) and ligerdsl.calls("swiglu_forward") == before
    finally:
        ligerdsl.hf.unapply("llama")
    with pytest.raises(ValueError, match="expected one of llama, mistral"):
        ligerdsl.hf.apply_to("gpt2")
    with pytest.raises(ValueError, match="loss: expected flce, ce or None"):
        ligerdsl.hf.apply_to_llama(loss="mean")
