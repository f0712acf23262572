"""Tests patched models with other changes: heads, adapters, trainers, hooks, pickles, losses."""

import copy
import functools
import gc
import inspect
import os
import pickle
import subprocess
import sys
import types
import warnings

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import ligerdsl
import ligerdsl.hf
from hf_test import CONFIGS, batch, gradients, model_of
from ligerdsl.hf import rotation
from transformers.models.llama import modeling_llama

FUSED = "fused_linear_cross_entropy"


def untied():
    return model_of("llama", tie_word_embeddings=False).train()


def assert_same_step(found, expected):
    """Compares losses and gradients of two steps."""
    (output, gradients_found), (reference, gradients_expected) = found, expected
    torch.testing.assert_close(output.loss, reference.loss, rtol=1e-5, atol=1e-5)
    assert gradients_found.keys() == gradients_expected.keys()
    for name, gradient in gradients_expected.items():
        torch.testing.assert_close(gradients_found[name], gradient, rtol=1e-3, atol=1e-5, msg=name)


def calls_of(model, data, operation=FUSED, **more):
    """Runs a step; returns it and the number of its calls of the operation."""
    before = ligerdsl.calls(operation)
    step = gradients(model, data, **more)
    return step, ligerdsl.calls(operation) - before


# ---- Changes of the head after the patch ------------------------------------------------------

def test_resized_embeddings_keep_the_fused_head():
    model, data = untied(), batch()
    ligerdsl.patch(model)
    model.resize_token_embeddings(70)
    found, calls = calls_of(model, data)
    assert calls == 1 and found[0].logits is None
    ligerdsl.unpatch(model)
    assert model.lm_head.weight.shape == (70, 32)
    assert_same_step(found, gradients(model, data))


def test_resized_head_with_a_hook_keeps_its_logits():
    model, data, seen = untied(), batch(), []
    ligerdsl.patch(model)
    model.resize_token_embeddings(70)
    model.lm_head.register_forward_hook(lambda *_: seen.append(1))
    with pytest.warns(
            UserWarning,
            match="lm_head was replaced after the patch by torch.nn.modules.linear.Linear"):
        found, calls = calls_of(model, data)
    assert calls == 0 and seen == [1] and found[0].logits is not None
    ligerdsl.unpatch(model)
    assert_same_step(found, gradients(model, data))


def adapted(model, targets):
    peft = pytest.importorskip("peft")
    torch.manual_seed(0)
    return peft.get_peft_model(
        model, peft.LoraConfig(r=4, target_modules=targets, init_lora_weights=False)).train()


@pytest.mark.parametrize("targets",
                         [["lm_head"], ["q_proj", "gate_proj"], ["lm_head", "q_proj", "down_proj"]],
                         ids=",".join)
@pytest.mark.parametrize("order", ["patched first", "adapted first"])
@pytest.mark.filterwarnings("ignore:ligerdsl. lm_head was replaced")
def test_adapters_before_and_after_the_patch(targets, order):
    model, data = untied(), batch()
    if order == "patched first":
        assert ligerdsl.patch(model).left == []
        model = adapted(model, targets)
    else:
        model = adapted(model, targets)
        left = ligerdsl.patch(model).left
        assert len(left) == ("lm_head" in targets)
        assert all(name.endswith("lm_head") and "peft.tuners.lora.layer.Linear, an adapter" in why
                   for name, why in left)
    found, calls = calls_of(model, data)
    assert calls == ("lm_head" not in targets)
    ligerdsl.unpatch(model)
    assert_same_step(found, gradients(model, data))


def test_head_with_an_adapter_warns_once():
    model, data = untied(), batch()
    ligerdsl.patch(model)
    model = adapted(model, ["lm_head"])
    with pytest.warns(UserWarning, match="peft.tuners.lora.layer.Linear, an adapter"):
        model(**data)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model(**data)
    ligerdsl.unpatch(model)


# ---- Trainers with a head of their own --------------------------------------------------------

def add_trainers_head(model):
    """Wraps the instance's forward as add_fused_lm_head of TRL 1.16 does."""
    original = model.forward

    @functools.wraps(type(model).forward)
    def forward(self, *args, fused_lm_head=False, labels=None, **kwargs):
        if not fused_lm_head:
            return original(*args, **kwargs) if labels is None else original(*args, labels=labels,
                                                                             **kwargs)
        hidden = self.base_model(*args, **kwargs).last_hidden_state[:, :-1]
        logits = torch.nn.functional.linear(hidden,
                                            self.get_output_embeddings().weight).log_softmax(-1)
        chosen = logits.gather(-1, labels[:, 1:].clamp(min=0)[..., None])[..., 0] * (
            labels[:, 1:] != -100)
        return transformers.modeling_outputs.CausalLMOutput(
            loss=-chosen.sum() / (labels[:, 1:] != -100).sum(), logits=chosen)

    model.forward = types.MethodType(forward, model)


@pytest.mark.parametrize("order", ["patched first", "trainer first"])
def test_trainers_head_gets_its_calls(order):
    model, data = untied(), batch()
    expected = gradients(model, data)
    if order == "trainer first":
        add_trainers_head(model)
        with pytest.raises(ligerdsl.hf.NotPatched,
                           match="its forward was replaced by patching_test.forward"):
            ligerdsl.patch(model, strict=True)
        report = ligerdsl.patch(model)
        assert report.patched["cross_entropy"] == 1 and FUSED not in report.patched
    else:
        ligerdsl.patch(model)
        add_trainers_head(model)
    wrapper = model.forward
    found, calls = calls_of(model, data, fused_lm_head=True)
    assert calls == 0 and found[0].logits.shape == (2, 8), "log-probabilities of the trainer's head"
    assert_same_step(found, expected)
    assert_same_step(gradients(model, data), expected)
    ligerdsl.unpatch(model)
    assert model.forward.__func__ is wrapper.__func__, "the trainer's forward is still there"
    found, calls = calls_of(model, data, "rms_norm_forward")
    assert calls == 0
    assert_same_step(found, expected)


def test_unknown_keywords_go_to_the_original_forward(monkeypatch):
    seen, original = [], transformers.LlamaForCausalLM.forward

    @functools.wraps(original)
    def forward(self, *args, marker=None, **kwargs):
        seen.append(marker)
        return original(self, *args, **kwargs)

    monkeypatch.setattr(transformers.LlamaForCausalLM, "forward", forward)
    model, data = untied(), batch()
    ligerdsl.patch(model)
    before = ligerdsl.calls(FUSED)
    assert model(**data, marker="mine").logits is not None
    assert seen == ["mine"] and ligerdsl.calls(FUSED) == before
    assert model(**data).logits is None
    ligerdsl.unpatch(model)


# ---- Copies and pickles -----------------------------------------------------------------------

LOADER = """
import importlib.util, sys
import torch, transformers

folder, package, families = sys.argv[1], sys.argv[2], sys.argv[3].split(",")
assert "ligerdsl" not in sys.modules
if importlib.util.find_spec("ligerdsl") is None:
    try:
        torch.load(f"{folder}/{families[0]}.pt", weights_only=False)
    except ModuleNotFoundError as error:
        assert error.name == "ligerdsl", error
    else:
        raise AssertionError("loaded without the package")
    sys.path.insert(0, package)
for family in families:
    model, data, expected = torch.load(f"{folder}/{family}.pt", weights_only=False)
    import ligerdsl
    names = ("rms_norm_forward", "rope", "fused_linear_cross_entropy",
             "geglu_forward" if "gemma" in family else "swiglu_forward")
    before = {name: ligerdsl.calls(name) for name in names}
    loss = model(**data).loss
    assert all(ligerdsl.calls(name) > count for name, count in before.items()), (family, before)
    torch.testing.assert_close(loss, expected, rtol=1e-5, atol=1e-5)
    if family == "llama":
        model.config._attn_implementation = "sdpa"
        model.gradient_checkpointing_enable()
        before = ligerdsl.calls("fused_add_rms_norm_backward")
        model(**data).loss.backward()
        calls = ligerdsl.calls("fused_add_rms_norm_backward")
        assert calls == before + 4, "two layers as one node each"
        model.gradient_checkpointing_disable()
    ligerdsl.unpatch(model)
    before = ligerdsl.calls("rms_norm_forward"), ligerdsl.calls("rope")
    torch.testing.assert_close(model(**data).loss, expected, rtol=1e-5, atol=1e-5)
    assert (ligerdsl.calls("rms_norm_forward"), ligerdsl.calls("rope")) == before
    assert ligerdsl.patch(model).left == []
    torch.testing.assert_close(model(**data).loss, expected, rtol=1e-5, atol=1e-5)
"""


def test_saved_models_load_in_a_fresh_process(tmp_path):
    data = batch()
    for family in CONFIGS:
        model = model_of(family).train()
        expected = model(**data).loss.detach()
        ligerdsl.patch(model)
        torch.save((model, data, expected), tmp_path / f"{family}.pt")
        ligerdsl.unpatch(model)
    package = os.path.dirname(os.path.dirname(ligerdsl.__file__))
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    subprocess.run([sys.executable, "-c", LOADER, str(tmp_path), package, ",".join(CONFIGS)],
                   check=True, env=environment, cwd=tmp_path)


def loss_in_another_process(rank, model, data, losses):
    losses[rank] = model(**data).loss.detach()


def test_a_patched_model_goes_to_a_spawned_process():
    model, data, losses = untied(), batch(), torch.zeros(1).share_memory_()
    ligerdsl.patch(model)
    torch.multiprocessing.spawn(loss_in_another_process, (model, data, losses), nprocs=1)
    torch.testing.assert_close(losses[0], model(**data).loss.detach())
    ligerdsl.unpatch(model)


@pytest.mark.parametrize("family", CONFIGS)
def test_copies_and_pickles_have_steps_of_their_own(family):
    model, data = model_of(family).train(), batch()
    expected = gradients(model, data)
    ligerdsl.patch(model)
    copies = [copy.deepcopy(model), pickle.loads(pickle.dumps(model))]
    ligerdsl.unpatch(model)
    for each in copies:
        step, calls = calls_of(each, data)
        assert calls == 1
        assert_same_step(step, expected)
        ligerdsl.unpatch(each)
        assert type(each) is type(model) and type(each.lm_head) is torch.nn.Linear
        step, calls = calls_of(each, data, "rms_norm_forward")
        assert calls == 0
    assert family not in rotation._rotations


def test_last_unpatch_restores_the_rotation():
    original = modeling_llama.apply_rotary_pos_emb
    model, other = untied(), untied()
    ligerdsl.patch(model)
    ligerdsl.patch(other)
    ligerdsl.unpatch(other)
    assert modeling_llama.apply_rotary_pos_emb is rotation.rotate
    del model
    gc.collect()
    assert modeling_llama.apply_rotary_pos_emb is original


# ---- Hooks of accelerate ----------------------------------------------------------------------

def add_counters(model):
    """Adds hooks to the model, a layer, a norm, an MLP and the head; returns the list of their
    calls."""
    hooks = pytest.importorskip("accelerate.hooks")

    class Counter(hooks.ModelHook):
        def __init__(self, name, seen):
            self.name, self.seen = name, seen

        def pre_forward(self, module, *args, **kwargs):
            self.seen.append(self.name)
            return args, kwargs

    seen, layer = [], model.model.layers[1]
    for name, module in {"model": model, "layer": layer, "norm": layer.input_layernorm,
                         "mlp": layer.mlp, "head": model.lm_head}.items():
        hooks.add_hook_to_module(module, Counter(name, seen))
    return seen


ALL_HOOKS = ["model", "layer", "norm", "mlp", "head"]


@pytest.mark.parametrize("order", ["patched first", "hooks first"])
@pytest.mark.parametrize("checkpointing", [False, True])
def test_hooks_of_accelerate_run(order, checkpointing):
    from accelerate.hooks import remove_hook_from_module
    model, data = untied(), batch()
    expected = gradients(model, data)
    if checkpointing:
        model.gradient_checkpointing_enable()
    if order == "patched first":
        assert ligerdsl.patch(model).left == []
    seen = add_counters(model)
    if order == "hooks first":
        assert ligerdsl.patch(model).left == []
    found, calls = calls_of(model, data)
    assert calls == 1 and [name for name in ALL_HOOKS if name in seen] == ALL_HOOKS
    assert_same_step(found, expected)
    seen.clear()
    ligerdsl.unpatch(model)
    found, calls = calls_of(model, data, "rms_norm_forward")
    assert calls == 0 and [name for name in ALL_HOOKS if name in seen] == ALL_HOOKS
    assert_same_step(found, expected)
    ligerdsl.patch(model)
    remove_hook_from_module(model, recurse=True)
    found, calls = calls_of(model, data)
    assert calls == 1
    ligerdsl.unpatch(model)
    found, calls = calls_of(model, data, "rms_norm_forward")
    assert calls == 0


@pytest.mark.parametrize("order", ["patched first", "offloaded first"])
@pytest.mark.parametrize("where", ["cpu", "disk"])
def test_offloaded_parameters_are_loaded_in_time(order, where, tmp_path):
    accelerate = pytest.importorskip("accelerate")
    model, data = untied(), batch()
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(False)
    expected = model(**data).loss
    if order == "patched first":
        ligerdsl.patch(model)
    if where == "cpu":
        accelerate.cpu_offload(model, execution_device=torch.device("cpu"))
    else:
        accelerate.disk_offload(model, str(tmp_path), execution_device=torch.device("cpu"))
    assert model.model.norm.weight.is_meta and model.lm_head.weight.is_meta
    if order == "offloaded first":
        assert ligerdsl.patch(model).left == []
    before = ligerdsl.calls(FUSED), ligerdsl.calls("rms_norm_forward")
    output = model(**data)
    assert (ligerdsl.calls(FUSED), ligerdsl.calls("rms_norm_forward")) == (before[0] + 1,
                                                                           before[1] + 5)
    torch.testing.assert_close(output.loss, expected, rtol=1e-5, atol=1e-5)
    ligerdsl.unpatch(model)
    torch.testing.assert_close(model(**data).loss, expected, rtol=1e-5, atol=1e-5)


def test_a_replaced_forward_of_a_norm_is_kept_and_reported():
    model, data, seen = untied(), batch(), []
    norm = model.model.layers[0].input_layernorm
    original = norm.forward
    norm.forward = lambda x: seen.append(1) or original(x)
    report = ligerdsl.patch(model)
    assert [name for name, _ in report.left] == ["model.layers.0.input_layernorm"]
    assert "its forward was replaced by patching_test.<lambda>" in report.left[0][1]
    model(**data)
    assert seen == [1]
    ligerdsl.unpatch(model)


# ---- Changes of the loss after the patch ------------------------------------------------------

def own_loss(logits, labels, vocab_size, **_):
    return logits.square().mean()


@pytest.mark.parametrize("loss", ["flce", "ce"])
def test_a_loss_function_that_is_set_after_the_patch_is_used(loss):
    model, data = untied(), batch()
    model.loss_function = own_loss
    expected = gradients(model, data)
    del model._loss_function
    ligerdsl.patch(model, loss=loss)
    model.loss_function = own_loss
    found = gradients(model, data)
    assert found[0].logits is not None
    assert_same_step(found, expected)
    ligerdsl.unpatch(model)
    assert model.loss_function is own_loss


def test_a_loss_type_that_is_set_after_the_patch_is_used():
    model, data = untied(), batch()
    ligerdsl.patch(model)
    model.loss_type = "ForMaskedLM"
    found, calls = calls_of(model, data)
    assert calls == 0
    model.loss_type = "ForCausalLM"
    assert calls_of(model, data)[1] == 1
    ligerdsl.unpatch(model)


# ---- Heads that are not patched ---------------------------------------------------------------

class Renamed(transformers.LlamaForCausalLM):
    """A subclass that keeps the forward of its base class."""


class Rewritten(transformers.LlamaForCausalLM):
    def forward(self, input_ids, labels=None, **kwargs):
        return super().forward(input_ids=input_ids, labels=labels, **kwargs)


def subclass_of_llama(kind):
    torch.manual_seed(0)
    return kind(model_of("llama").config).train()


def test_a_subclass_that_keeps_the_forward_is_patched():
    model, data = subclass_of_llama(Renamed), batch()
    expected = gradients(model, data)
    report = ligerdsl.patch(model, strict=True)
    assert report.patched[FUSED] == 1
    found, calls = calls_of(model, data)
    assert calls == 1 and type(pickle.loads(pickle.dumps(model))).__name__ == "Renamed"
    assert_same_step(found, expected)
    ligerdsl.unpatch(model)
    assert type(model) is Renamed


def assert_head_is_reported(model, data, name, kind):
    expected = gradients(model, data)
    with pytest.raises(ligerdsl.hf.NotPatched, match=name):
        ligerdsl.patch(model, strict=True)
    report = ligerdsl.patch(model)
    assert len(report.left) == 1 and report.left[0][0] == name
    assert kind in report.left[0][1] and "the head keeps its logits" in report.left[0][1]
    found, calls = calls_of(model, data, "cross_entropy")
    assert calls > 0, "the report says so"
    assert_same_step(found, expected)
    ligerdsl.unpatch(model)


def test_a_subclass_with_a_forward_of_its_own_is_reported():
    assert_head_is_reported(subclass_of_llama(Rewritten), batch(), "lm_head",
                            "patching_test.Rewritten")


TEXT = dict(vocab_size=61, hidden_size=32, intermediate_size=48, num_hidden_layers=2,
            num_attention_heads=4, num_key_value_heads=2, head_dim=8, max_position_embeddings=64)
VISION = dict(hidden_size=16, intermediate_size=24, num_hidden_layers=1, num_attention_heads=2,
              image_size=8, patch_size=4, num_channels=3)
CLIP = {"model_type": "clip_vision_model", **VISION}
IMAGE_TOKENS = 4  # image patches per image
# Class name: arguments of its configuration.
VISION_LANGUAGE = {
    "Gemma3": dict(text_config=TEXT, vision_config=VISION, mm_tokens_per_image=IMAGE_TOKENS),
    "Llava": dict(text_config={"model_type": "llama", **TEXT}, vision_config=CLIP),
    "PaliGemma": dict(
        text_config={"model_type": "gemma2", "final_logit_softcapping": 0.5, **TEXT},
        projection_dim=32,
        vision_config={"model_type": "siglip_vision_model", **VISION, "projection_dim": 32}),
    "InternVL": dict(text_config={"model_type": "qwen2", **TEXT}, downsample_ratio=1.0,
                     vision_config={**VISION, "image_size": [8, 8], "patch_size": [4, 4]}),
    "LlavaNext": dict(text_config={"model_type": "llama", **TEXT}, vision_config=CLIP,
                      image_grid_pinpoints=[[8, 8]]),
}


def vision_language_model(name):
    torch.manual_seed(0)
    options = {"image_token_index": 60, "image_token_id": 60}
    config = getattr(transformers, f"{name}Config")(**VISION_LANGUAGE[name], **options)
    model = getattr(transformers, f"{name}ForConditionalGeneration")(config).train()
    for parameter in model.parameters():
        if parameter.dim() == 1:
            parameter.data += 0.3 * torch.randn_like(parameter)
    return model


def image_batch(name):
    data = batch()
    data["input_ids"] = data["input_ids"].clamp(max=59)
    data["input_ids"][:, 1:1 + IMAGE_TOKENS] = 60
    data["labels"][:, :1 + IMAGE_TOKENS] = -100
    if name in ("Gemma3", "PaliGemma"):
        data["token_type_ids"] = ((data["input_ids"] == 60).long() if name == "Gemma3"
                                  else torch.zeros_like(data["input_ids"]))
    return {**data, "pixel_values": torch.randn(2, 3, 8, 8)}


@pytest.mark.parametrize("name", ["Gemma3", "Llava", "PaliGemma", "InternVL"])
def test_vision_language_models_have_a_fused_head(name):
    model, data = vision_language_model(name), image_batch(name)
    expected = gradients(model, data)
    report = ligerdsl.patch(model, strict=True)
    assert report.patched[FUSED] == 1
    found, calls = calls_of(model, data)
    assert calls == 1 and found[0].logits is None and type(found[0]) is type(expected[0])
    assert any("vision" in each or "visual" in each
               for each in found[1]), "gradients reach the images"
    assert_same_step(found, expected)
    ligerdsl.unpatch(model)


def test_heads_of_other_vision_language_models_are_reported():
    data = batch()
    data["input_ids"] = data["input_ids"].clamp(max=59)
    assert_head_is_reported(vision_language_model("LlavaNext"), data, "lm_head",
                            "modeling_llava_next.LlavaNextForConditionalGeneration")


def test_an_unknown_family_warns_once_and_names_the_other_way():
    config = transformers.GPT2Config(n_embd=16, n_layer=1, n_head=2, vocab_size=11)
    models = [transformers.GPT2LMHeadModel(config) for _ in range(2)]
    ligerdsl.hf.patch.__globals__["_warned"].discard("GPT2LMHeadModel")
    with pytest.warns(UserWarning, match="LIGER_KERNEL_IMPL=ligerdsl"):
        ligerdsl.patch(models[0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ligerdsl.patch(models[1])


# ---- Completion of names in an editor ---------------------------------------------------------

def test_names_can_be_completed():
    assert {"patch", "unpatch", "ops"} <= set(dir(ligerdsl))
    for family in CONFIGS:
        function = getattr(ligerdsl.hf, f"apply_to_{family}")
        assert inspect.isfunction(function) and function.__name__ == f"apply_to_{family}"
        expected = list(inspect.signature(ligerdsl.hf.apply_to).parameters.values())[1:]
        assert list(inspect.signature(function).parameters.values()) == expected
        assert (
            family in inspect.getdoc(function) and pickle.loads(pickle.dumps(function)) is function)
