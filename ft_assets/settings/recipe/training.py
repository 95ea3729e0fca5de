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
        description="Scale: updates are multiplied by alpha / rank. auto: twice the rank; with use_rslora 8, which is "
        "equivalent at rank 16.",
    )
    dropout: float = Field(0.0, ge=0.0, lt=1.0, description="Dropout on the adapters' inputs during training.")
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
        description="Train the magnitude of each weight row separately from its direction, which the adapter changes "
        "(DoRA, https://arxiv.org/abs/2402.09353): often better at small ranks, and slower.",
    )
    init: Literal["default", "pissa"] = added_field(
        "default",
        description="Initialisation of the adapters: default (A random, B zero), or pissa, the largest singular values "
        "and vectors of the base's weights, which are subtracted from the base during training "
        "(https://arxiv.org/abs/2404.02948). The saved adapter has twice the rank and applies to the "
        "unmodified base.",
    )
    lora_plus_ratio: float | None = added_field(
        None,
        ge=1.0,
        le=1000.0,
        description="LoRA+ (https://arxiv.org/abs/2402.12354): learning rate multiplier of the matrix B; "
        "training.learning_rate is then the rate of A. 16 is usual, with half the learning rate. null: one "
        "rate for both.",
    )


KINDS = {name: field.default for name, field in LoraSettings.model_fields.items() if field.exclude_if is not None}
"""Settings that ask for another kind of adapter than plain LoRA, with their defaults, which stored settings omit."""


class EarlyStoppingSettings(Settings):
    """Ends a training before its last step, once its validation loss no longer falls."""

    patience: int = Field(
        ge=1, le=1000, description="Number of consecutive validations without a lower loss after which training stops."
    )
    min_delta: float = Field(
        0.0, ge=0.0, description="Minimum decrease of the best loss that counts as an improvement, in nats."
    )


class TrainingSettings(Settings):
    """The optimizer's run. A window is one packed row of at most ``packing.max_length`` tokens."""

    learning_rate: Annotated[float, Field(gt=0.0, le=1.0)] | Auto = Field(
        "auto",
        description="Peak learning rate. auto: 2e-5 for full, ten times that for lora and qlora; dpo and orpo use "
        "lower "
        "rates (5e-7 and 5e-6 for full).",
    )
    epochs: Annotated[int, Field(ge=1, le=1000)] | Auto = Field(
        "auto",
        description="Passes over the training windows. auto: 1 above 10,000 examples, and for cpt and dpo; else 3.",
    )
    max_steps: int | None = Field(
        None, ge=1, description="Maximum number of optimizer steps; null: train for all epochs."
    )
    global_batch_size: Annotated[int, Field(ge=1, le=65536)] | Auto = Field(
        "auto",
        description="Packed windows per optimizer step, over all devices and accumulation. auto: 64 to 256, by the "
        "size of the data; fewer if an epoch would have fewer than ten steps.",
    )
    micro_batch_size: Annotated[int, Field(ge=1, le=65536)] | Auto = Field(
        "auto",
        description="Packed windows per forward pass; must divide global_batch_size. auto: as many as use the device "
        "fully and fit in its memory.",
    )
    schedule: Literal["cosine", "linear", "constant"] = Field(
        "cosine", description="Learning rate schedule after the warm-up: cosine or linear decay to 0, or constant."
    )
    warmup_ratio: float = Field(
        0.03, ge=0.0, lt=1.0, description="Share of the optimizer steps used for warm-up from 0."
    )
    weight_decay: float = Field(0.0, ge=0.0, le=1.0, description="Decoupled weight decay of AdamW.")
    max_grad_norm: float = Field(
        1.0, gt=0.0, le=1e6, description="Maximum L2 norm of the gradient; larger gradients are clipped."
    )
    seed: int = Field(17, ge=0, lt=2**31, description="Seed for packing, sampling order, initialisation and dropout.")
    precision: Literal["fp32", "bf16", "fp16", "fp8", "auto"] = Field(
        "auto",
        description="Number format of training. fp8: bf16 with the layers' large matrix products in 8 bits (torchao's "
        "float8 training, row-wise scales), for GPUs with fp8 and variants full and lora. auto: bf16 on "
        "cuda, fp16 with loss scaling on GPUs without bf16, fp32 on cpu.",
    )
    weights: Literal["auto", "float32", "bfloat16"] = added_field(
        "float32",
        description="Number format of the trained weights and their gradients: float32, or bfloat16 with updates "
        "rounded "
        "at random (stochastic rounding, https://arxiv.org/abs/2010.06192), half the memory, for variant "
        "full with precision bf16 or fp8. auto: float32, unless only bfloat16 fits.",
    )
    optimizer: Literal["auto", "adamw", "adamw_8bit", "adafactor", "muon"] = Field(
        "adamw",
        description="The optimizer: AdamW with betas 0.9 and 0.999; with moments in 8 bits, a quarter of their memory "
        "(https://arxiv.org/abs/2110.02861); Adafactor, with almost no optimizer state "
        "(https://arxiv.org/abs/1804.04235); or Muon for the layers' matrices and AdamW for the rest, for "
        "variant full (https://arxiv.org/abs/2502.16982). auto: adamw, or adamw_8bit where that does not fit.",
    )
    recompute: Literal["auto", "on", "off"] = Field(
        "auto",
        description="Recompute activations in the backward pass (gradient checkpointing): slower, with less memory. "
        "auto: only if the memory estimate requires it. Does not change the result.",
    )
    recompute_every: Annotated[int, Field(ge=1)] | Auto = added_field(
        "auto",
        description="With recompute: recompute the activations of every n-th layer only, including the first, and keep "
        "the others; faster, with more memory. auto: the largest of 4, 2 and 1 that fits where recompute is "
        "auto too, else 1. Does not change the result.",
    )
    offload: Literal["auto", "on", "off"] = added_field(
        "auto",
        description="With recompute: keep the inputs of recomputed layers in pinned host memory until the backward "
        "pass; "
        "GPUs only; slower because of the copies. auto: only if nothing else fits. Does not change the "
        "result.",
    )
    compile: Literal["auto", "on", "off"] = added_field(
        "auto",
        description="Compile the model's layers (torch.compile): takes minutes, then steps are faster. auto: on for "
        "trainings of half an hour or more on GPUs whose fused attention supports the base's documents. "
        "Changes the result by rounding only.",
    )
    checkpoint_every_steps: int = Field(
        500, ge=1, description="Optimizer steps between saves for resumption. Does not change the result."
    )
    checkpoint_every_minutes: float = Field(
        10.0, gt=0.0, description="Minutes between saves for resumption. Does not change the result."
    )
    validate_every_steps: int | None = Field(
        None,
        ge=1,
        description="Optimizer steps between measurements of validation loss; it is always measured at the end. null: "
        "ten measurements, fewer if they would take more than a twentieth of the training time, and only one "
        "at the end of runs with fewer than 50 steps.",
    )

    keep_best: int | None = added_field(
        None,
        ge=1,
        le=20,
        description="Number of validations with the lowest loss whose weights are kept besides the last ones, as a "
        "choice for evaluation.candidate; null: only the last ones. Not with sharded weights.",
    )

    early_stopping: EarlyStoppingSettings | None = added_field(
        None,
        description="Early stopping when validation loss no longer falls, such as {patience: 3}; null: train to the "
        "end. "
        "Without validate_every_steps there are ten validations, regardless of their cost.",
    )

    warm_start: Annotated[str, AfterValidator(lambda text: (parse_adapter(text), text)[1])] | None = added_field(
        None,
        description="Accepted adapter whose weights initialise the training: artifact:ADDRESS, artifact:DATASET|RECIPE "
        "or artifact:LINE@STAGE (tenant.dataset.recipe@production), locked when the recipe is registered. It "
        "needs the same base and adapter shape; optimizer and schedule restart. Only for lora and qlora.",
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
        description="Window length in tokens, which is also the maximum length of an example. Limited by the base's "
        "context length, also as the default.",
    )
    mode: Literal["auto", "packed", "apart"] = added_field(
        "auto",
        description="packed: documents share rows without padding; apart: one document per row, for bases whose layers "
        "cannot isolate documents in a row; auto: packed where isolation is proved for the base.",
    )
    learn: Literal["all_assistant", "all_assistant_bare", "last_assistant"] = Field(
        "all_assistant",
        description="Tokens with loss: those of every assistant turn, or of the last one only. Where the template "
        "asks for a turn behind other tokens than it shows before later ones, each turn has a document of its own. "
        "Where it drops the thoughts of earlier turns, their answers would teach answering without thinking, and have "
        "no loss. all_assistant_bare: every turn in one document, as the template shows it.",
    )
    end_of_turn: Annotated[Names, Field(min_length=1, max_length=8)] | None = added_field(
        None,
        description="For a template that does not end the last answer: the control tokens that end an answer, such as "
        "[<|user|>, <|observation|>]. The first is appended to the last answer; each is learned where it "
        "follows an answer.",
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
