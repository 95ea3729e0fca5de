"""What do parts of GPUs save? 200 LoRA trainings of small bases on H100s, whole ones, and with parts in the recipe.

Each is settled by the platform's own rules, and its time is the estimate's. GPUs are counted for all of them to end
in time, with each H100 whole or divided into parts of one kind. No GPU is used.
"""

import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.table import Figure
from ft_assets.control.auto.configure import configure
from ft_assets.control.auto.fitting import fit_of, memory_setup
from ft_assets.settings.bounds import Bounds
from ft_assets.settings.gpus import find_hardware
from ft_assets.settings.recipe.recipe import Recipe
from ft_assets.workers.model_size.known import Known
from ft_assets.workers.model_size.model_size import Architecture, read_architecture
from ft_assets.workers.model_size.time import Work, startup_seconds, training_seconds

TRAININGS, WITHIN_S = 200, 1.5 * 3600
WHOLE, PARTS = "H100", {"H100-1g.10gb": 7, "H100-3g.40gb": 2}
"""Parts, and how many of a kind one GPU is divided into."""
_SEED = 20261127


def _config(hidden: int, layers: int, heads: int, kv_heads: int, inner: int, vocabulary: int) -> dict[str, Any]:
    return {
        "model_type": "llama" if vocabulary < 150_000 else "qwen2",
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "intermediate_size": inner,
        "vocab_size": vocabulary,
        "tie_word_embeddings": layers != 32,
    }


BASES = (
    (_config(896, 24, 14, 2, 4864, 151_936), 80),  # Qwen2.5-0.5B
    (_config(1536, 28, 12, 2, 8960, 151_936), 60),  # Qwen2.5-1.5B
    (_config(2048, 36, 16, 2, 11_008, 151_936), 40),  # Qwen2.5-3B
    (_config(4096, 32, 32, 8, 14_336, 128_256), 20),  # Llama-3-8B
)
"""Each with how many of 200 trainings are of it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Training:
    """Where a training runs, for how long, and the part of a GPU that it is billed for."""

    gpu_type: str
    seconds: float
    share: float

    @property
    def gpu_hours(self) -> float:
        return self.seconds * self.share / 3600


def figures() -> list[Figure]:
    whole, packed = list(trainings([])), list(trainings(list(PARTS)))
    return [
        _less("packing_gpu_hours", f"GPU-hours of {TRAININGS} small LoRA trainings", hours(packed), hours(whole)),
        _less("packing_gpus", f"GPUs on which they end within {WITHIN_S / 3600:g} h", gpus(packed), gpus(whole)),
    ]


def trainings(parts: Sequence[str]) -> Iterator[Training]:
    """The trainings, where a recipe names ``parts``: the same data with and without."""
    chance = random.Random(_SEED)
    hardware = {"gpus": 1, "gpu_type": WHOLE, "parts": tuple(parts)}
    for config, many in BASES:
        model = read_architecture(config)
        assert model is not None
        for _ in range(many):
            window, examples = chance.choice((1024, 2048)), round(10 ** chance.uniform(2.7, 4.3))
            asked = {"key": "small.v1", "base": "folder:./base", "packing": {"max_length": window}}
            recipe = Recipe.model_validate({**asked, "hardware": hardware})
            yield _training(recipe, model, examples, examples * chance.randint(100, 600))


def _training(recipe: Recipe, model: Architecture, examples: int, tokens: int) -> Training:
    windows = -(-tokens // recipe.packing.max_length)
    share = Bounds(lower=0.4, expected=0.4, upper=1.0)
    known = Known(model=model, examples=examples, windows=windows, tokens=tokens, learned=share, counted=True)
    settled = configure(recipe, known).recipe
    batch, epochs = settled.training.global_batch_size, settled.training.epochs
    assert isinstance(batch, int)
    assert isinstance(epochs, int)
    gpu = find_hardware(settled.hardware.gpu_type or "")
    assert gpu is not None
    work = Work(
        tokens=tokens * epochs, steps=epochs * -(-windows // batch), learned=0.4, document_length=tokens / examples
    )
    trained = training_seconds(model, memory_setup(settled, known, fit_of(settled)), work, gpu)
    seconds = (trained + startup_seconds(2.0 * model.parameters)).expected
    return Training(gpu_type=gpu.name, seconds=seconds, share=gpu.share)


def hours(found: Sequence[Training]) -> float:
    return sum(each.gpu_hours for each in found)


def gpus(found: Sequence[Training], within_s: float = WITHIN_S) -> float:
    """GPUs on which all trainings end in time, the longest placed first, each GPU divided into parts of one kind."""
    by_type: dict[str, list[float]] = defaultdict(list)
    for each in found:
        by_type[each.gpu_type].append(each.seconds)
    needed = 0
    for gpu_type, seconds in by_type.items():
        slots: list[float] = []
        for longest in sorted(seconds, reverse=True):
            place = next((at for at, busy in enumerate(slots) if busy + longest <= within_s), None)
            if place is None:
                slots.append(longest)
            else:
                slots[place] += longest
        needed += -(-len(slots) // PARTS.get(gpu_type, 1))
    return float(needed)


def _less(key: str, what: str, ours: float, peer: float) -> Figure:
    return Figure(key=key, what=what, ours=ours, peer=peer, peer_is="whole GPUs", goal="less", met=ours < peer)
