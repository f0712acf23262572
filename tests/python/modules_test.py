"""Tests of the modules and of the optimiser."""

import pytest

torch = pytest.importorskip("torch")

import ligerdsl.torch as lt

F = torch.nn.functional


def pair(ours, theirs):
    theirs.load_state_dict(ours.state_dict())
    return ours, theirs


@pytest.mark.parametrize("make", [
    lambda: (*pair(lt.RMSNorm(16), torch.nn.RMSNorm(16, 1e-6)), lambda: torch.randn(3, 16)),
    lambda: (*pair(lt.LayerNorm(16), torch.nn.LayerNorm(16)), lambda: torch.randn(3, 16)),
    lambda: (*pair(lt.LayerNorm(16, bias=False), torch.nn.LayerNorm(16, bias=False)),
             lambda: torch.randn(3, 16)),
    lambda: (*pair(lt.GroupNorm(4, 8), torch.nn.GroupNorm(4, 8)), lambda: torch.randn(3, 8, 5)),
    lambda: (*pair(lt.Embedding(9, 4, padding_idx=1), torch.nn.Embedding(9, 4, padding_idx=1)),
             lambda: torch.tensor([1, 0, 8])),
])
def test_module_matches_torch(make):
    ours, theirs, data = make()
    batch = data()
    one, other = ours(batch), theirs(batch)
    torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)
    one.square().sum().backward()
    other.square().sum().backward()
    for (name, parameter), reference in zip(ours.named_parameters(), theirs.parameters()):
        torch.testing.assert_close(parameter.grad, reference.grad, rtol=1e-4, atol=1e-5, msg=name)
    assert repr(ours)


def test_gemma_starts_at_zero():
    norm = lt.RMSNorm(8, offset=1.0, casting="gemma")
    x = torch.randn(3, 8)
    assert not norm.weight.any()
    torch.testing.assert_close(norm(x), F.rms_norm(x, (8,), eps=1e-6))


@pytest.mark.parametrize(
    "kind, activation",
    [(lt.SwiGLUMLP, F.silu), (lt.GeGLUMLP, lambda u: F.gelu(u, approximate="tanh"))])
@pytest.mark.parametrize("in_place", [False, True])
def test_gated_mlp(kind, activation, in_place):
    mlp, x = kind(8, 12, in_place=in_place), torch.randn(3, 8, requires_grad=True)
    expected = mlp.down_proj(activation(mlp.gate_proj(x)) * mlp.up_proj(x))
    parameters = [x, *mlp.parameters()]
    for one, other in zip(torch.autograd.grad(mlp(x).square().sum(), parameters),
                          torch.autograd.grad(expected.square().sum(), parameters)):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_losses():
    x, w, labels = torch.randn(5, 8), torch.randn(7, 8), torch.tensor([0, 6, -1, 2, 3])
    class_weight = torch.rand(7)
    expected = F.cross_entropy(x @ w.T, labels, class_weight, ignore_index=-1, label_smoothing=0.1)
    options = dict(class_weight=class_weight, ignore_index=-1, label_smoothing=0.1)
    torch.testing.assert_close(lt.CrossEntropyLoss(**options)(x @ w.T, labels), expected)
    torch.testing.assert_close(lt.FusedLinearCrossEntropyLoss(**options)(x, w, labels), expected)


def train(optimiser, parameters, steps=5):
    torch.manual_seed(2)
    for _ in range(steps):
        for parameter in parameters:
            parameter.grad = torch.randn_like(parameter)
        optimiser.step()


@pytest.mark.parametrize("capturable", [False, True])
def test_adamw(capturable):
    options = dict(lr=0.01, betas=(0.8, 0.95), eps=1e-6, weight_decay=0.1)
    one, other = ([torch.nn.Parameter(t.clone()) for t in (torch.ones(5, 7), torch.ones(3),
                                                           torch.ones(4, 6).T)] for _ in range(2))
    ours = lt.AdamW(one, **options, capturable=capturable)
    train(ours, one)
    train(torch.optim.AdamW(other, **options), other)
    for a, b in zip(one, other):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)
    restored = lt.AdamW(one, **options, capturable=capturable)
    restored.load_state_dict(ours.state_dict())
    train(restored, one, 1)
    assert int(restored.state[one[0]]["step"]) == 6


def parameters_with_gradients(poison=None):
    parameters = [torch.nn.Parameter(torch.linspace(-1, 1, 40)),
                  torch.nn.Parameter(torch.ones(4, 6).T),
                  torch.nn.Parameter(torch.linspace(-1, 1, 24).bfloat16())]
    for parameter in parameters:
        parameter.grad = torch.full_like(parameter, 0.5)
    if poison is not None:
        parameters[1].grad[2, 1] = poison
    return parameters


def everything(optimiser, parameters):
    tensors = [t for p in parameters for t in (
        p.detach(),
        *(optimiser.state[p].get(n) for n in ("exp_avg", "exp_avg_sq", "master"))) if t is not None]
    return [t.clone() for t in tensors]


def same(before, after):
    return len(before) == len(after) and all(torch.equal(a, b) for a, b in zip(before, after))


@pytest.mark.parametrize("poison", [float("inf"), float("nan")])
@pytest.mark.parametrize("capturable", [False, True])
def test_clipped_step_with_nonfinite_gradient_changes_nothing(poison, capturable):
    parameters = parameters_with_gradients()
    optimiser = lt.AdamW(parameters, lr=0.1, master_weights=True, capturable=capturable)
    lt.clip_grad_norm_(parameters, 1.0)
    optimiser.step()
    before = everything(optimiser, parameters)
    for _ in range(2):
        for parameter, poisoned in zip(parameters, parameters_with_gradients(poison)):
            parameter.grad = poisoned.grad
        lt.clip_grad_norm_(parameters, 1.0)
        optimiser.step()
    assert same(before, everything(optimiser, parameters))
    assert int(optimiser.skipped_steps()) == 2
    assert {int(optimiser.state[p]["step"]) for p in parameters} == {1}
    for parameter, good in zip(parameters, parameters_with_gradients()):
        parameter.grad = good.grad
    lt.clip_grad_norm_(parameters, 1.0)
    optimiser.step()
    assert int(optimiser.skipped_steps()) == 2
    assert not same(before, everything(optimiser, parameters))

    reference = parameters_with_gradients()  # takes only the two steps that are not skipped
    theirs = lt.AdamW(reference, lr=0.1, master_weights=True)
    for _ in range(2):
        for parameter, good in zip(reference, parameters_with_gradients()):
            parameter.grad = good.grad
        lt.clip_grad_norm_(reference, 1.0)
        theirs.step()
    assert same(everything(optimiser, parameters), everything(theirs, reference))


def test_changed_gradients_are_not_skipped():
    parameters = parameters_with_gradients(float("inf"))
    optimiser = lt.AdamW(parameters)
    lt.clip_grad_norm_(parameters, 1.0)
    optimiser.zero_grad(set_to_none=False)
    for parameter in parameters:
        parameter.grad += 1
    before = everything(optimiser, parameters)
    optimiser.step()
    assert not same(before, everything(optimiser, parameters))
    assert int(optimiser.skipped_steps()) == 0


@pytest.mark.parametrize("dtype", [torch.int32, torch.float32])
def test_step_takes_a_skip_flag(dtype):
    parameters = parameters_with_gradients(float("nan"))
    optimiser = lt.AdamW(parameters)
    before = [p.detach().clone() for p in parameters]
    optimiser.step(skip=torch.ones((), dtype=dtype))
    assert all(torch.equal(a, b) for a, b in zip(before, parameters))
    assert int(optimiser.skipped_steps()) == 1
    for parameter in parameters:
        parameter.grad = torch.ones_like(parameter)
    optimiser.step(skip=torch.zeros((), dtype=dtype))
    assert int(optimiser.skipped_steps()) == 1
    assert not any(torch.equal(a, b) for a, b in zip(before, parameters))


def test_grad_scaler_skips_and_unscales_on_the_device():
    ours, theirs = (torch.nn.Parameter(torch.linspace(-1, 1, 40)) for _ in range(2))
    optimisers = lt.AdamW([ours], lr=0.1), torch.optim.AdamW([theirs], lr=0.1)
    scalers = [torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=2) for _ in range(2)]
    for step, poison in enumerate([1.0, float("inf"), 1.0, float("nan"), 1.0, 1.0]):
        for parameter, optimiser, scaler in zip((ours, theirs), optimisers, scalers):
            optimiser.zero_grad()
            scaler.scale((parameter * (step + 1)).sum() * poison).backward()
            scaler.step(optimiser)
            scaler.update()
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)
    assert scalers[0].get_scale() == scalers[1].get_scale()
    assert int(optimisers[0].skipped_steps()) == 2
    assert int(optimisers[0].state[ours]["step"]) == 4


def test_copied_and_pickled_optimisers_step():
    import copy
    import pickle
    parameters = parameters_with_gradients()
    for again in (copy.deepcopy(lt.AdamW(parameters)),
                  pickle.loads(pickle.dumps(lt.AdamW(parameters)))):
        for parameter in again.param_groups[0]["params"]:
            parameter.grad = torch.ones_like(parameter)
        again.step(skip=torch.ones(()))
        assert int(again.skipped_steps()) == 1


@pytest.mark.parametrize("scale", [1e30, 1e-30])
def test_global_norm_of_large_and_small_gradients(scale):
    tensors = [torch.full((40,), scale), torch.full((30,), scale).bfloat16()]
    exact = torch.cat([t.double() for t in tensors]).norm()
    norm, factor = lt.global_norm(tensors, 1.0)
    torch.testing.assert_close(norm.double(), exact, rtol=1e-6, atol=0)
    torch.testing.assert_close(factor.double(), (1 / (exact + 1e-6)).clamp(max=1), rtol=1e-6,
                               atol=0)


def test_adamw_with_master_weights():
    exact = torch.nn.Parameter(torch.linspace(0.5, 1, 40))
    rounded = torch.nn.Parameter(exact.detach().bfloat16())
    exact.data.copy_(rounded.data)
    ours, theirs = (lt.AdamW([rounded], lr=1e-4, master_weights=True),
                    torch.optim.AdamW([exact], lr=1e-4))
    for step in range(30):
        gradient = torch.randn(40).bfloat16()
        rounded.grad, exact.grad = gradient.clone(), gradient.float()
        ours.step()
        theirs.step()
    torch.testing.assert_close(ours.state[rounded]["master"], exact.detach(), rtol=1e-5, atol=1e-6)
    assert torch.equal(rounded.detach(), ours.state[rounded]["master"].bfloat16())
    restored = lt.AdamW([rounded], master_weights=True)
    restored.load_state_dict(ours.state_dict())
    assert {t.dtype for t in restored.state[rounded].values() if isinstance(t, torch.Tensor)} == {
        torch.float32}
    assert torch.equal(restored.state[rounded]["master"], ours.state[rounded]["master"])


def test_optimiser_step_bumps_versions():
    parameter = torch.nn.Parameter(torch.randn(4))
    y = lt.softmax(parameter)
    product = (parameter * parameter).sum()
    parameter.grad = torch.randn(4)
    lt.AdamW([parameter]).step()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.backward()
    assert y.requires_grad


@pytest.mark.parametrize("mixed", [False, True])
def test_clip_grad_norm(mixed):
    parameters = [torch.nn.Parameter(torch.randn(5, 7)), torch.nn.Parameter(torch.randn(6, 4).T),
                  torch.nn.Parameter(torch.randn(3))]
    if mixed:
        parameters[1] = torch.nn.Parameter(parameters[1].detach().bfloat16())
    for parameter in parameters:
        parameter.grad = torch.randn_like(parameter)
    expected = [p.grad.clone() for p in parameters]
    reference = torch.nn.utils.get_total_norm(expected)
    norm = lt.clip_grad_norm_(parameters, 1.0)
    torch.testing.assert_close(norm, reference.float(), rtol=1e-3, atol=1e-3)
    for parameter, gradient in zip(parameters, expected):
        torch.testing.assert_close(parameter.grad, gradient / reference.to(gradient.dtype),
                                   rtol=1e-2 if mixed else 1e-5, atol=1e-2 if mixed else 1e-6)
    assert lt.clip_grad_norm_([], 1.0) == 0


def test_step_takes_a_gradient_factor():
    one, other = torch.nn.Parameter(torch.ones(6)), torch.nn.Parameter(torch.ones(6))
    one.grad, other.grad = torch.full((6,), 3.0), torch.full((6,), 3.0)
    norm, factor = lt.global_norm([one.grad], 1.0)
    lt.AdamW([one], eps=1.0).step(clip_factor=factor)
    torch.nn.utils.clip_grad_norm_([other], 1.0)
    torch.optim.AdamW([other], eps=1.0).step()
    torch.testing.assert_close(one, other)
