"""Peak memory of full training at the size of an 8B: held against storages of tensors without contents."""

from typing import Any

import pytest

from ft_assets.workers.model_size.memory import peak_memory
from tests.workers.packs.estimate.made import LLAMA_3_8B, llama, setup, share

TOKENS, LEARNED, LAYERS = 4096, 1024, 8


@pytest.mark.training
@pytest.mark.parametrize(
    ("weights", "recompute", "offload"),
    [
        *(("bfloat16", 0, False), ("float32", 1, False), ("bfloat16", 2, True)),
        *(
            pytest.param(weights, recompute, offload, marks=pytest.mark.long)
            for weights in ("float32", "bfloat16")
            for recompute, offload in ((0, False), (1, False), (2, False), (1, True), (2, True))
        ),
    ],
)
def test_the_peak_of_layers_of_an_8b_is_within_a_twentieth_of_what_is_counted(
    monkeypatch: pytest.MonkeyPatch, weights: Any, recompute: int, offload: bool
) -> None:
    """Two forward passes of a step in bf16, beside two float32 moments; autocast caches as the trainer lets it."""
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode
    from transformers import LlamaConfig, LlamaForCausalLM

    from tests.workers.packs.estimate.meter import Meter, elsewhere

    monkeypatch.setattr("transformers.modeling_utils.save_on_cpu", elsewhere)
    sizes = LLAMA_3_8B | {"num_hidden_layers": LAYERS}
    config = LlamaConfig(**{name: value for name, value in sizes.items() if name != "model_type"})
    meter = Meter()

    def half() -> torch.autocast:
        return torch.autocast("cpu", torch.bfloat16, cache_enabled=not recompute)

    with FakeTensorMode():
        model: Any = LlamaForCausalLM._from_config(config, dtype=getattr(torch, weights)).train()
        if recompute:
            model.activation_checkpointing_enable(every_n_layers=recompute, offload=offload)
        ids = torch.zeros(1, TOKENS, dtype=torch.int64)
        moments = [torch.zeros(weight.shape) for weight in model.parameters() for _ in range(2)]
        meter.track([list(model.parameters()), moments])
        with meter:
            for _ in range(2):
                # The output layer has an autocast of its own, as ``isolation/output_layer.py`` calls it apart.
                with half():
                    hidden = model.model(ids, use_cache=False).last_hidden_state[0, :LEARNED]
                with half():
                    logits = model.lm_head(hidden)
                    loss = torch.nn.functional.cross_entropy(logits.float(), ids[0, :LEARNED])
                del hidden, logits
                loss.backward()
                del loss

    found = peak_memory(
        llama(**sizes),
        setup(
            variant="full",
            precision="bf16",
            weights=weights,
            tokens=TOKENS,
            learned=share(LEARNED / TOKENS),
            recompute=recompute,
            offload=offload,
            gpus=1,
        ),
    )
    ours = found.weights + found.gradients + found.optimizer + found.activations
    assert ours == pytest.approx(meter.peak, rel=0.05)
