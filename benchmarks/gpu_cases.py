"""What the GPU benchmark measures: model shapes, configurations, and the settings that each may be given.

Nothing here needs torch or a GPU.
"""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields, replace
from types import MappingProxyType
from typing import Any, Literal

from pydantic import TypeAdapter

from ft_assets.settings.bounds import Bounds
from ft_assets.settings.gpus import Hardware
from ft_assets.workers.model_size.memory import Setup, peak_memory
from ft_assets.workers.model_size.model_size import Architecture, read_architecture
from ft_assets.workers.model_size.time import Work, training_flops

RANK, ALPHA = 16, 32
By = Literal["ours", "trl"]

_LLAMA = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "rms_norm_eps": 1e-5}
_TINY = {
    **_LLAMA,
    "vocab_size": 3072,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 8192,
    "tie_word_embeddings": True,
}
SHAPES: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "8b": {
            **_LLAMA,
            "vocab_size": 128256,
            "hidden_size": 4096,
            "intermediate_size": 14336,
            "num_hidden_layers": 32,
            "num_attention_heads": 32,
            "num_key_value_heads": 8,
            "head_dim": 128,
            "max_position_embeddings": 8192,
            "rope_theta": 500000.0,
            "tie_word_embeddings": False,
        },
        "1b": {
            **_LLAMA,
            "vocab_size": 128256,
            "hidden_size": 2048,
            "intermediate_size": 8192,
            "num_hidden_layers": 16,
            "num_attention_heads": 32,
            "num_key_value_heads": 8,
            "head_dim": 64,
            "max_position_embeddings": 8192,
            "rope_theta": 500000.0,
            "tie_word_embeddings": True,
        },
        "tiny": _TINY,
    }
)
"""``config.json`` of Llama-3-8B's shape, of Llama-3.2-1B's, and of one that a CPU trains in a second."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """One thing to measure, and every setting that can be switched (``--set name=value``).

    Args:
        by: whose trainer: ours or stock TRL's.
        micro: windows in a forward pass; ``accumulate`` forward passes make an optimizer step.
        documents: median tokens of a document; 0 fills each window with one document.
        masked: share of each document that is not learned.
        precision: as recipes name it; fp8 is ours only, for full and lora, and needs ``compile`` to be of use.
        weights: as recipes name it, for full; TRL rounds updates in bfloat16 to the nearest number.
        optimizer: as recipes name it; ``adamw_unfused`` is for comparison only. TRL has AdamW in place of ``muon``.
        recompute: activations of every ``recompute_every``-th layer, ``offload`` with its input on the host.
        attention: ``fused`` is what the trainer does on a GPU; ``own`` is PyTorch's as it comes, without FlashAttention
            2 to 4 where they are installed; ``documents`` runs them one by one (ours only).
        compile: each layer through ``torch.compile``.
        sync: ``error`` lets a timed step fail where the host waits for the GPU, but for the one wait that reads its
            loss (``torch.cuda.set_sync_debug_mode``; ours only).
        warm, steps: optimizer steps before, and while, time is taken.
    """

    name: str
    shape: str
    variant: Literal["full", "lora", "qlora"]
    by: By = "ours"
    device: Literal["cuda", "cpu"] = "cuda"
    window: int = 4096
    micro: int = 2
    accumulate: int = 4
    documents: int = 0
    masked: float = 0.0
    precision: Literal["bf16", "fp8"] = "bf16"
    weights: Literal["float32", "bfloat16"] = "float32"
    optimizer: Literal["adamw", "adamw_8bit", "adafactor", "muon", "adamw_unfused"] = "adamw"
    recompute: bool = False
    recompute_every: int = 1
    offload: bool = False
    attention: Literal["fused", "own", "documents"] = "fused"
    compile: bool = False
    sync: Literal["default", "error"] = "default"
    warm: int = 4
    steps: int = 8

    @property
    def config(self) -> dict[str, Any]:
        """``config.json`` of its model."""
        return dict(SHAPES[self.shape])

    @property
    def architecture(self) -> Architecture:
        found = read_architecture(self.config)
        assert found is not None
        return found

    @property
    def setup(self) -> Setup:
        """What our trainer holds in memory."""
        learned = 1 - self.masked
        return Setup(
            variant=self.variant,
            precision="bf16",
            weights=self.weights,
            optimizer="adamw" if self.optimizer == "adamw_unfused" else self.optimizer,
            tokens=self.micro * self.window,
            learned=Bounds(lower=learned, expected=learned, upper=learned),
            rank=RANK if self.variant != "full" else 0,
            accumulates=self.accumulate > 1,
            recompute=self.recompute_every if self.recompute else 0,
            offload=self.offload,
            gpus=1 if self.device == "cuda" else 0,
        )

    @property
    def predicted_bytes(self) -> float:
        """The peak that the memory model expects of our trainer, without the CUDA context, which no tensor holds."""
        found = peak_memory(self.architecture, self.setup)
        return found.total.expected - found.overhead

    def flops(self, tokens: int, document_length: float) -> float:
        """Model FLOPs of so many tokens, as ``model_size/time.py`` counts them."""
        work = Work(tokens=tokens, steps=1, learned=1 - self.masked, document_length=document_length)
        return training_flops(self.architecture, self.setup, work)

    def mfu(self, tokens_s: float, document_length: float, gpu: Hardware | None) -> float | None:
        """Share of the GPU's dense bf16 peak; None where the GPU is not known."""
        return None if gpu is None else tokens_s * self.flops(1, document_length) / gpu.peak_flops


CASES = (
    Case(name="full_8b", shape="8b", variant="full", micro=1, accumulate=8),
    Case(name="lora_8b", shape="8b", variant="lora"),
    Case(name="qlora_8b", shape="8b", variant="qlora"),
    Case(name="full_1b", shape="1b", variant="full", micro=4, accumulate=2),
)


def tiny(case: Case) -> Case:
    """The same at a size that a CPU trains in a second."""
    return replace(case, shape="tiny", device="cpu", window=64, micro=1, accumulate=2, warm=1, steps=2)


def changed(case: Case, settings: Mapping[str, str]) -> Case:
    """``case`` with settings given as text. Raises ValueError for an unknown name or value."""
    unknown = sorted(set(settings) - {each.name for each in fields(case)})
    if unknown:
        raise ValueError(f"no setting {', '.join(unknown)}; there are {', '.join(each.name for each in fields(case))}")
    return TypeAdapter(Case).validate_python({**asdict(case), **settings})


def ladder(case: Case) -> Iterator[Case]:
    """``case``, then the same with less and less memory: recomputation, moments in 8 bits, Adafactor, and at last one
    window at a time.

    What is not recomputed is faster, so with each optimizer it is tried first; windows of a step stay as many.
    """
    smaller = ("adamw_8bit", "adafactor") if case.variant == "full" else ()
    optimizers = dict.fromkeys([case.optimizer, *smaller])
    for optimizer in optimizers:
        for recompute in dict.fromkeys([case.recompute, True]):
            yield replace(case, optimizer=optimizer, recompute=recompute)
    if case.micro > 1:
        yield replace(
            case,
            optimizer=list(optimizers)[-1],
            recompute=True,
            micro=1,
            accumulate=case.micro * case.accumulate,
        )
