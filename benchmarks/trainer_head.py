"""Peak memory of the output layer and the loss: ours beside all logits at once, each in a process of its own.

One training step (forward and backward) of 4,096 tokens, all learned, with a vocabulary of 128k in float32: a Llama of
two narrow layers with LoRA, so that hardly anything but the output layer takes memory or time.
"""

import json
import resource
import subprocess
import sys
import time

from benchmarks.table import Figure

_TOKENS, _VOCABULARY, _GOAL = 4096, 128_256, 0.5


def measure() -> dict[str, dict[str, float]]:
    """``peak_gb`` of the process and ``step_s`` of ``ours`` and of ``peer``."""
    return {name: _in_a_process(name) for name in ("ours", "peer")}


def figures(found: dict[str, dict[str, float]]) -> list[Figure]:
    """The table row of what ``measure`` found."""
    ours, peer = found["ours"], found["peer"]
    ratio = ours["peak_gb"] / peer["peak_gb"]
    return [
        Figure(
            key="fused_head_peak_ratio",
            what=f"peak of a process that computes a step of 4,096 tokens over 128k words ({ours['peak_gb']:.1f} GB, "
            f"{ours['step_s']:.1f} s) / with all logits",
            ours=ratio,
            peer=1.0,
            peer_is=f"all logits at once, {peer['peak_gb']:.1f} GB, {peer['step_s']:.1f} s",
            goal=f"<= {_GOAL}",
            met=ratio <= _GOAL,
        )
    ]


def _in_a_process(name: str) -> dict[str, float]:
    done = subprocess.run([sys.executable, "-m", __name__, name], check=True, capture_output=True, text=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def _step(name: str) -> dict[str, float]:
    import torch
    from peft import get_peft_model
    from torch.nn.functional import cross_entropy
    from transformers import LlamaConfig, LlamaForCausalLM

    from benchmarks.trainer_step import peft_config
    from ft_assets.workers.packs.isolation.output_layer import losses_at

    torch.manual_seed(0)
    config = LlamaConfig(
        hidden_size=256,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=512,
        vocab_size=_VOCABULARY,
        tie_word_embeddings=True,
    )
    model = get_peft_model(LlamaForCausalLM(config), peft_config())
    ids = torch.randint(0, _VOCABULARY, (1, _TOKENS + 1))
    inputs, targets = ids[:, :-1], ids[0, 1:]
    began = time.monotonic()
    if name == "ours":
        losses = losses_at(model, torch.arange(_TOKENS), targets, input_ids=inputs)
    else:
        losses = cross_entropy(model(input_ids=inputs).logits[0], targets, reduction="none")
    losses.mean().backward()
    seconds = time.monotonic() - began
    return {"peak_gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9, "step_s": seconds}


if __name__ == "__main__":
    print(json.dumps(_step(sys.argv[1])))
