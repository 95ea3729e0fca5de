"""The recipe's sections on the training itself: adapters, optimization and token windows."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from ft_assets.settings.recipe.base_ref import parse_adapter
from ft_resources.settings import Auto, Names, Settings
from ft_resources.strict_model import added_field

# Training settings that never change the result, except by rounding.
WITHOUT_EFFECT = {
    "checkpoint_every_steps",
    "checkpoint_every_minutes",
    "recompute",
    "recompute_every",
    "offload",
    "compile",
}
# Maximum number of validations if the recipe does not set their interval.
VALIDATIONS = 10


class LoraSettings(Settings):
    """Low-rank adapters (https://arxiv.org/abs/2106.09685); ignored by variant full."""

    rank: Annotated[int, Field(ge=1, le=1024)] | Auto = Field(
        "auto",
        description="Rank r of the two low-rank matrices. auto: 16, or 32 for bases of at least 30 billion parameters.",
    )
    alpha: Annotated[int, Field(ge=1, le=65536)] | Auto = Field(
        "auto",
        description="Scale: updates are multiplied by alpha / rank. auto: twice the rank; 8 with use_rslora, which is "
        "the same at rank 16.",
    )
    dropout: float = Field(0.0, ge=0.0, lt=1.0, description="Dropout on the adapters' inputs while training.")
    target_modules: Literal["all-linear"] | Annotated[Names, Field(min_length=1)] = Field(
        "all-linear",
        description="Modules that get an adapter: all-linear (every linear layer except the output head), "
        "or a list of module names such as [q_proj, v_proj].",
    )
    use_rslora: bool = added_field(
        False,
        description="Multiply updates by alpha / sqrt(rank), so that large ranks learn too (rsLoRA, "
        "https://arxiv.org/abs/2312.03732).",
    )
    use_dora: bool = added_field(
        False,
        description="Train the length of each row of a weight apart from its direction, which the adapter changes "
        "(DoRA, https://arxiv.org/abs/2402.09353): often better at small ranks, and slower.",
    )
    init: Literal["default", "pissa"] = added_field(
        "default",
        description="First values of the adapters: default (A random, B zero), or pissa, the largest singular values "
        "and vectors of the base's weights, which are taken out of the base while it trains "
        "(https://arxiv.org/abs/2404.02948). The saved adapter has twice the rank and is for the base as it is.",
    )
    lora_plus_ratio: float | None = added_field(
        None,
        ge=1.0,
        le=1000.0,
        description="LoRA+ (https://arxiv.org/abs/2402.12354): the matrix B learns at this many times "
        "training.learning_rate, which is then that of A; 16 is usual, with half the learning rate. null: both learn "
        "at one rate.",
    )


KINDS = {name: field.default for name, field in LoraSettings.model_fields.items() if field.exclude_if is not None}
"""Settings that ask for another kind of adapter than plain LoRA, with their defaults, which stored settings omit."""


class EarlyStoppingSettings(Settings):
    """Ends a training before its last step, once its validation loss no longer falls."""

    patience: int = Field(
        ge=1, le=1000, description="Stop after this many validations in a row that did not lower the best loss."
    )
    min_delta: float = Field(
        0.0, ge=0.0, description="A validation lowers the best loss only if it is below it by more than this, in nats."
    )


class TrainingSettings(Settings):
    """The optimizer's run. A window is one packed row of at most ``packing.max_length`` tokens."""

    learning_rate: Annotated[float, Field(gt=0.0, le=1.0)] | Auto = Field(
        "auto",
        description="Peak learning rate. auto: 2e-5 for full, ten times that for lora and qlora; dpo and orpo take "
        "smaller steps (5e-7 and 5e-6 for full).",
    )
    epochs: Annotated[int, Field(ge=1, le=1000)] | Auto = Field(
        "auto",
        description="Passes over the training windows. auto: 1 above 10,000 examples, and for cpt and dpo; else 3.",
    )
    max_steps: int | None = Field(
        None, ge=1, description="Stop after this many optimizer steps; null: at the end of the epochs."
    )
    global_batch_size: Annotated[int, Field(ge=1, le=65536)] | Auto = Field(
        "auto",
        description="Packed windows per optimizer step, over all devices and accumulation. auto: 64 to 256, by the "
        "size of the data; fewer if an epoch would have fewer than ten steps.",
    )
    micro_batch_size: Annotated[int, Field(ge=1, le=65536)] | Auto = Field(
        "auto",
        description="Packed windows per forward pass; must divide global_batch_size. auto: as many as keep the "
        "device busy and fit in its memory.",
    )
    schedule: Literal["cosine", "linear", "constant"] = Field(
        "cosine", description="Learning rate after the warm-up: falls to 0 as a cosine or linearly, or stays constant."
    )
    warmup_ratio: float = Field(
        0.03, ge=0.0, lt=1.0, description="Share of the optimizer steps in which the learning rate rises from 0."
    )
    weight_decay: float = Field(0.0, ge=0.0, le=1.0, description="Decoupled weight decay of AdamW.")
    max_grad_norm: float = Field(
        1.0, gt=0.0, le=1e6, description="Largest L2 norm of the gradient; a longer one is scaled down."
    )
    seed: int = Field(17, ge=0, lt=2**31, description="Seeds packing, sampling order, initialisation, dropout.")
    precision: Literal["fp32", "bf16", "fp16", "fp8", "auto"] = Field(
        "auto",
        description="Number format of training. fp8: bf16, and the products of the layers' large matrices in 8 bits "
        "(torchao's float8 training with a scale for each row), for GPUs that have them and variants full and lora. "
        "auto: bf16 on cuda, fp16 with loss scaling on GPUs without bf16, fp32 on cpu.",
    )
    weights: Literal["auto", "float32", "bfloat16"] = added_field(
        "float32",
        description="Number format of the weights that train, and of their gradients: float32, or bfloat16 with "
        "updates rounded at random (stochastic rounding, https://arxiv.org/abs/2010.06192), half the memory, for "
        "variant full with precision bf16 or fp8. auto: float32, unless only bfloat16 fits.",
    )
    optimizer: Literal["auto", "adamw", "adamw_8bit", "adafactor", "muon"] = Field(
        "adamw",
        description="The optimizer: AdamW with betas 0.9 and 0.999; with moments in 8 bits, a quarter of their "
        "memory (https://arxiv.org/abs/2110.02861); Adafactor, whose state takes hardly any "
        "(https://arxiv.org/abs/1804.04235); or Muon for the layers' matrices and AdamW for the rest, for variant full "
        "(https://arxiv.org/abs/2502.16982). auto: adamw, or adamw_8bit where that does not fit.",
    )
    recompute: Literal["auto", "on", "off"] = Field(
        "auto",
        description="Recompute activations in the backward pass (gradient checkpointing): slower, with less memory. "
        "auto: only if the memory model says that it is needed. Does not change the result.",
    )
    recompute_every: Annotated[int, Field(ge=1)] | Auto = added_field(
        "auto",
        description="With recompute: recompute the activations of only every n-th layer, the first included; those of "
        "the others are kept, which is faster and takes more memory. auto: the largest of 4, 2 and 1 that fits where "
        "recompute is auto too, else 1. Does not change the result.",
    )
    offload: Literal["auto", "on", "off"] = added_field(
        "auto",
        description="With recompute: hold what is kept of the recomputed layers, their inputs, in pinned host memory "
        "until the backward pass; for GPUs, and slower, as it is copied there and back. auto: only if nothing fits "
        "without. Does not change the result.",
    )
    compile: Literal["auto", "on", "off"] = added_field(
        "auto",
        description="Compile the model's layers (torch.compile), which takes minutes and makes steps faster. auto: on "
        "for trainings of half an hour and more on GPUs whose fused attention takes the base's documents. Changes the "
        "result by rounding only.",
    )
    checkpoint_every_steps: int = Field(
        500, ge=1, description="Save for resumption after this many optimizer steps. Does not change the result."
    )
    checkpoint_every_minutes: float = Field(
        10.0, gt=0.0, description="Save for resumption after this many minutes. Does not change the result."
    )
    validate_every_steps: int | None = Field(
        None,
        ge=1,
        description="Measure validation loss every this many optimizer steps, and at the end. null: ten times, or as "
        "often as a twentieth of the training time allows, and only at the end in runs of fewer than 50 steps.",
    )

    keep_best: int | None = added_field(
        None,
        ge=1,
        le=20,
        description="Keep the weights of this many validations with the lowest loss, besides the last weights, for "
        "evaluation.candidate to choose from; null: only the last ones. Not with sharded weights.",
    )

    early_stopping: EarlyStoppingSettings | None = added_field(
        None,
        description="Stop when validation loss no longer falls, such as {patience: 3}; null: train to the end. Without "
        "validate_every_steps there are ten validations, whatever they cost.",
    )

    warm_start: Annotated[str, AfterValidator(lambda text: (parse_adapter(text), text)[1])] | None = added_field(
        None,
        description="An accepted adapter whose weights the training starts from, instead of new ones: "
        "artifact:ADDRESS, artifact:DATASET|RECIPE or artifact:LINE@STAGE (tenant.dataset.recipe@production), locked "
        "when the recipe is registered. Same base and same shape of adapter; optimizer and schedule start anew. Only "
        "for lora and qlora.",
    )

    @model_validator(mode="after")
    def _micro_divides_global(self) -> "TrainingSettings":
        if self.global_batch_size == "auto" or self.micro_batch_size == "auto":
            return self
        if self.global_batch_size % self.micro_batch_size:
            raise ValueError(
                f"micro_batch_size ({self.micro_batch_size}) should divide global_batch_size ({self.global_batch_size})"
            )
        return self


class PackingSettings(Settings):
    """How examples become token windows."""

    max_length: int = Field(
        1024,
        ge=16,
        le=1_048_576,
        description="Tokens in a window; no example is longer. At most the base's context, which is also the default "
        "of a base with a shorter one.",
    )
    mode: Literal["auto", "packed", "apart"] = added_field(
        "auto",
        description="packed: documents share rows without padding; apart: each has a row of its own, for bases whose "
        "layers would let documents of one row see each other; auto: packed where that is proved for the base.",
    )
    learn: Literal["all_assistant", "all_assistant_bare", "last_assistant"] = Field(
        "all_assistant",
        description="Which tokens carry loss: those of every assistant turn, or only of the last one. Where the "
        "template drops the thoughts of earlier turns, their bare answers would teach to answer without thinking: they "
        "carry loss only with all_assistant_bare.",
    )
    end_of_turn: Annotated[Names, Field(min_length=1, max_length=8)] | None = added_field(
        None,
        description="For a template that leaves the last answer open: the control tokens that end an answer, such as "
        "[<|user|>, <|observation|>]. The first is written behind a last answer; each is learned where it follows one.",
    )
    overlong: Literal["reject", "drop", "truncate", "split"] = Field(
        "reject",
        description="Examples longer than max_length: reject (an error that names them), drop (counted and named), "
        "truncate (the longest text without loss is cut at its end; an answer is never cut: if it alone is too long, "
        "the example is dropped), or, for cpt, split (pieces as long as a window; every token once).",
    )


class SettledTraining(TrainingSettings):
    """``params["training"]`` of a checkpoint: the recipe's, with every ``auto`` resolved."""

    learning_rate: float = Field(gt=0.0, le=1.0)
    epochs: int = Field(ge=1)
    global_batch_size: int = Field(ge=1)
    micro_batch_size: int = Field(ge=1)
    precision: Literal["fp32", "bf16", "fp16", "fp8"]
    weights: Literal["float32", "bfloat16"] = added_field("float32")
    optimizer: Literal["adamw", "adamw_8bit", "adafactor", "muon"]


class SettledLora(LoraSettings):
    """``params["lora"]`` of a checkpoint, if it is not null."""

    rank: int = Field(ge=1)
    alpha: int = Field(ge=1)
