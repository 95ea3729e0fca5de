"""The recipe's sections on the training itself: adapters, losses of pairs, the optimizer's run, and token windows."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from ft_assets.recipes.settings import Auto, Names, Settings

# Training settings that change when something is done, or how, and never what comes out.
WITHOUT_EFFECT = {"checkpoint_every_steps", "checkpoint_every_minutes", "recompute"}


class LoraSettings(Settings):
    """Low-rank adapters (https://arxiv.org/abs/2106.09685); ignored by the full variant."""

    rank: Annotated[int, Field(ge=1, le=1024)] | Auto = Field(
        "auto", description="Rank r of the two low-rank matrices. auto: 16, and 32 for bases of 30 billion and more."
    )
    alpha: Annotated[int, Field(ge=1, le=65536)] | Auto = Field(
        "auto", description="Scale: updates are multiplied by alpha / rank. auto: twice the rank."
    )
    dropout: float = Field(0.0, ge=0.0, lt=1.0, description="Dropout on the adapters' inputs while training.")
    target_modules: Literal["all-linear"] | Annotated[Names, Field(min_length=1)] = Field(
        "all-linear",
        description="Modules that get an adapter: all-linear (every linear layer except the output head), "
        "or a list of module names such as [q_proj, v_proj].",
    )


class PreferenceSettings(Settings):
    """Learning from pairs: DPO (https://arxiv.org/abs/2305.18290) and ORPO (https://arxiv.org/abs/2403.07691)."""

    beta: float = Field(
        0.1,
        gt=0.0,
        le=100.0,
        description="dpo: how strongly the policy is held to the reference; orpo: weight of the odds-ratio term.",
    )
    loss: Literal["sigmoid", "sigmoid_norm"] = Field(
        "sigmoid",
        description="dpo: sigmoid, or sigmoid_norm, which divides log-probabilities by the answers' lengths "
        "(https://arxiv.org/abs/2411.15124) and wants a larger beta, such as 5.",
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
        None, ge=1, description="Stop after this many optimizer steps; null: as many as the epochs have."
    )
    global_batch_size: Annotated[int, Field(ge=1, le=65536)] | Auto = Field(
        "auto",
        description="Packed windows per optimizer step, over all devices and accumulation. auto: 64 to 256, by the "
        "size of the data; fewer where an epoch would have fewer than ten steps.",
    )
    micro_batch_size: Annotated[int, Field(ge=1, le=65536)] | Auto = Field(
        "auto",
        description="Packed windows per forward pass; divides global_batch_size. auto: as many as keep the device busy "
        "and fit its memory.",
    )
    schedule: Literal["cosine", "linear", "constant"] = Field(
        "cosine", description="Learning rate after the warm-up: falls to 0 as a cosine or a line, or stays."
    )
    warmup_ratio: float = Field(
        0.03, ge=0.0, lt=1.0, description="Share of the optimizer steps in which the learning rate rises from 0."
    )
    weight_decay: float = Field(0.0, ge=0.0, le=1.0, description="Decoupled weight decay of AdamW.")
    max_grad_norm: float = Field(1.0, gt=0.0, le=1e6, description="Gradients are scaled down to this L2 norm.")
    seed: int = Field(17, ge=0, lt=2**31, description="Seeds packing, sampling order, initialisation, dropout.")
    precision: Literal["fp32", "bf16", "fp16", "auto"] = Field(
        "auto",
        description="Arithmetic of training. auto: bf16 on cuda, fp16 with loss scaling on GPUs without bf16, fp32 on "
        "cpu.",
    )
    optimizer: Literal["adamw", "adafactor"] = Field(
        "adamw",
        description="The optimizer: AdamW with betas 0.9 and 0.999, or Adafactor, whose state takes hardly any memory "
        "(https://arxiv.org/abs/1804.04235).",
    )
    recompute: Literal["auto", "on", "off"] = Field(
        "auto",
        description="Compute activations again in the backward pass (gradient checkpointing): slower, and less "
        "memory. auto: only where the memory model says that it is needed. Does not change the result.",
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
        description="Measure validation loss every so many optimizer steps, and at the end; null: ten times, or as "
        "often as a twentieth of the training allows, and only at the end in runs of fewer than 50 steps.",
    )

    keep_best: int | None = Field(
        None,
        ge=1,
        le=20,
        # A recipe without it says nothing of it, so that its training is what it was before there was any.
        exclude_if=lambda keep: keep is None,
        description="Keep the weights of so many validations with the lowest loss beside the last ones, so that "
        "evaluation.candidate may choose; null: the last ones only. Not with weights in shards.",
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

    max_length: int = Field(1024, ge=16, le=1_048_576, description="Tokens in a window; no example is longer.")
    learn: Literal["all_assistant", "last_assistant"] = Field(
        "all_assistant", description="Whose tokens carry loss: every assistant turn, or only the last one."
    )
    overlong: Literal["reject", "drop", "truncate", "split"] = Field(
        "reject",
        description="Examples longer than max_length: reject (an error that names them), drop (counted and named), "
        "truncate (the longest text that carries no loss loses its end; an answer is never cut: where it alone is too "
        "long, the example is dropped), or, for cpt, split (pieces as long as a window; every token once).",
    )
