import pytest
import torch
from torch.nn import functional

from halfscale.workloads.data import markov
from halfscale.workloads.models.transformer import build


def next_token_loss(model, batch):
    return functional.cross_entropy(model(batch.inputs).flatten(0, 1).float(), batch.targets.flatten())


def test_shape_and_parameters():
    v, t, d, depth = 32, 64, 128, 2
    model = build()
    assert model(torch.zeros(3, 10, dtype=torch.int64)).shape == (3, 10, v)
    block = 12 * d**2 + 13 * d  # 12 d^2 weights (the count that FLOPs rest on), 9 d biases, two norms of 2 d
    expected = v * d + t * d + depth * block + 2 * d + d * v + v
    assert sum(parameter.numel() for parameter in model.parameters()) == expected


def test_names_read_well_in_reports():
    names = {name for name, _ in build(depth=1).named_parameters() if name.endswith("weight")}
    assert names == {
        "token_embedding.weight",
        "position_embedding.weight",
        "blocks.0.attention.query.weight",
        "blocks.0.attention.key.weight",
        "blocks.0.attention.value.weight",
        "blocks.0.attention.output.weight",
        "blocks.0.attention_norm.weight",
        "blocks.0.feed_forward.expand.weight",
        "blocks.0.feed_forward.contract.weight",
        "blocks.0.feed_forward_norm.weight",
        "final_norm.weight",
        "head.weight",
    }


def test_no_token_sees_a_later_one():
    torch.manual_seed(0)
    model = build()
    tokens = torch.randint(32, (1, 20))
    changed = tokens.clone()
    changed[0, 12] = (tokens[0, 12] + 1) % 32
    before, after = model(tokens)[0], model(changed)[0]
    torch.testing.assert_close(before[:12], after[:12])
    assert ((before[12:] - after[12:]).abs().amax(dim=1) > 1e-6).all()


def test_every_parameter_gets_a_finite_gradient():
    torch.manual_seed(0)
    model = build()
    next_token_loss(model, markov.build(0).batch(0, 2)).backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name


def test_an_untrained_model_knows_nothing():
    torch.manual_seed(0)
    loss = next_token_loss(build(), markov.build(0).batch(0, 16)).item()
    assert loss == pytest.approx(torch.tensor(32.0).log().item(), abs=0.1)


def test_a_causal_mask_leaves_no_row_empty_under_fp16():
    torch.manual_seed(0)
    model = build(width=32, depth=1, context=8)
    attention = model.blocks[0].attention
    with torch.no_grad():
        attention.query.weight.mul_(2000)
        attention.key.weight.mul_(2000)
    batch = markov.build(0, context=8).batch(0, 2)
    projected = []
    attention.query.register_forward_hook(lambda *call: projected.append(call[-1]))
    attention.key.register_forward_hook(lambda *call: projected.append(call[-1]))
    with torch.autocast("cpu", torch.float16):
        logits = model(batch.inputs)
    query, key = (attention.split(part).float() for part in projected)
    assert (query @ key.transpose(-1, -2) / 8**0.5).abs().max() > 100  # a softmax saturated long before the mask
    assert logits.dtype == torch.float16
    loss = functional.cross_entropy(logits.flatten(0, 1).float(), batch.targets.flatten())
    loss.backward()
    assert loss.isfinite()
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())


def test_a_tiny_transformer_learns_what_the_source_has_to_teach():
    torch.manual_seed(0)
    data = markov.build(0, vocabulary=8, context=16)
    model = build(vocabulary=8, context=16, width=32, depth=1, heads=2)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for index in range(40):
        optimizer.zero_grad()
        next_token_loss(model, data.batch(index, 16)).backward()
        optimizer.step()
    with torch.no_grad():
        batches = list(data.evaluation(64))
        excess = sum(next_token_loss(model, batch) - batch.oracle_loss for batch in batches) / len(batches)
    untrained = torch.tensor(8.0).log().item() - data.floor
    print("EXC", excess, untrained)
    assert 0 < excess < untrained / 10


def test_dropout_acts_in_training_alone():
    torch.manual_seed(0)
    model = build(dropout=0.5)
    tokens = torch.randint(32, (1, 8))
    assert not torch.equal(model(tokens), model(tokens))
    model.eval()
    assert torch.equal(model(tokens), model(tokens))


def test_heads_must_divide_the_width():
    with pytest.raises(ValueError, match="width 10 is not divisible by heads 4"):
        build(width=10)


def test_a_sequence_longer_than_the_context_is_refused():
    with pytest.raises(ValueError, match="9 tokens do not fit a context of 8"):
        build(context=8)(torch.zeros(1, 9, dtype=torch.int64))
