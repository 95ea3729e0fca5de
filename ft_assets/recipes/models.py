"""The recipe: every setting a user may write, what it means, and what it may be.

The descriptions are the documentation; ``docs/recipe.schema.json`` is made from them. Fields that accept ``auto``
are replaced by rules: ``Recipe.resolved`` knows the recipe only, ``checkpoints/configuration`` data and base too.
"""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from ft_assets.keys import RecipeKey
from ft_assets.recipes.acceptance import EvaluationSettings, GateSettings
from ft_assets.recipes.base_ref import BaseReference, parse_base
from ft_assets.recipes.promotion import PromotionSettings
from ft_assets.recipes.settings import Auto, Names, NewTokens, Settings, text_check
from ft_assets.sweeps.paths import path_problems
from ft_assets.sweeps.settings import SweepSettings
from ft_resources.work import Resources

MAX_TEMPLATE_CHARACTERS = 64 * 1024


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


class HardwareSettings(Settings):
    """Where the training runs."""

    device: Literal["auto", "cpu", "cuda"] = Field(
        "auto", description="Device of the worker. auto: cuda where gpus is at least 1, else cpu."
    )
    gpus: int = Field(0, ge=0, le=8, description="GPUs for one training on each of its nodes: at most 8.")
    nodes: int = Field(
        1,
        ge=1,
        le=64,
        # A recipe for one machine says nothing of nodes, so that its digest is what it was before there were any.
        exclude_if=lambda nodes: nodes == 1,
        description="Machines that train together, with gpus each (without GPUs, with one process each). More than one "
        "needs a cluster to run on. Does not change the result.",
    )
    gpu_type: str | None = Field(
        None, min_length=1, max_length=100, description="Kind of GPU to ask a cluster for; null: any."
    )
    sharding: Literal["auto", "none", "zero1", "zero2", "zero3", "fsdp"] = Field(
        "auto",
        description="What several GPUs divide between them: nothing, optimizer states (zero1), gradients too (zero2), "
        "weights too (zero3, fsdp). auto: as little as fits. Does not change the result.",
    )
    memory_gib: float | None = Field(
        None,
        gt=0.0,
        exclude_if=lambda memory: memory is None,
        description="Host memory to ask a cluster for on each node, in GiB; null: the cluster's usual share.",
    )
    spot: bool | None = Field(
        None,
        exclude_if=lambda spot: spot is None,
        description="Whether to ask a cluster for machines that it may take away, which cost less; null: as the "
        "cluster's settings say. Does not change the result.",
    )
    image: str | None = Field(
        None,
        min_length=1,
        max_length=500,
        description="Container image of cluster workers, by digest (NAME@sha256:…); null: the platform's.",
    )
    max_gpu_hours: float | None = Field(
        None, gt=0.0, description="Most GPU-hours one training may take; null: the submission's or tenant's limit."
    )

    def resources(self, gpus: int) -> Resources:
        """What a worker with ``gpus`` of these GPUs (none where there are none) asks of the place it runs in."""
        return Resources(
            gpus=min(gpus, self.gpus),
            gpu_type=self.gpu_type,
            memory_gib=self.memory_gib,
            spot=self.spot,
            image=self.image,
        )

    @property
    def all_gpus(self) -> int:
        """GPUs of one training, over all its nodes; 0 on CPUs."""
        return self.gpus * self.nodes

    @property
    def world(self) -> int:
        """Processes of one training, over all its nodes: one for each GPU, and one on a node without any."""
        return max(1, self.gpus) * self.nodes

    @model_validator(mode="after")
    def _device_matches_gpus(self) -> "HardwareSettings":
        if self.device == "cuda" and self.gpus == 0:
            raise ValueError("device cuda needs gpus of at least 1")
        if self.device == "cpu" and self.gpus > 0:
            raise ValueError(f"device cpu and gpus {self.gpus} contradict each other")
        return self


class Recipe(Settings):
    """One immutable version of how to fine-tune."""

    key: Annotated[str, text_check(RecipeKey.parse)] = Field(
        description="Name and version: name.vN (shared by all tenants) or tenant.name.vN."
    )
    description: str = Field("", max_length=2000, description="What the recipe is for, for humans.")
    base: Annotated[str, AfterValidator(lambda text: (parse_base(text), text)[1])] = Field(
        description="The base model: folder:PATH (relative to this file), folder:sha256:DIGEST (already stored), "
        "hub:ORG/NAME@REVISION, or an accepted adapter of ours to go on from: artifact:ADDRESS or "
        "artifact:DATASET|RECIPE. Revision and content are locked when the recipe is registered."
    )
    chat_template: Annotated[str, Field(min_length=1, max_length=MAX_TEMPLATE_CHARACTERS)] | None = Field(
        None,
        description="Path (relative to this file) of a Jinja chat template that replaces the base's own; its "
        "text is stored with the recipe. null: the base's.",
    )
    method: Literal["sft", "cpt", "dpo", "orpo"] = Field(
        "sft",
        description="Training method. sft: supervised fine-tuning on conversations; cpt: continued pre-training on "
        "text; dpo and orpo: learning from pairs of a chosen and a rejected answer, with and without a reference.",
    )
    variant: Literal["lora", "qlora", "full"] = Field(
        "lora",
        description="Which weights are trained: low-rank adapters (lora), the same over a base held in 4 bits (qlora), "
        "or all (full).",
    )
    new_tokens: NewTokens = Field(
        (),
        # A recipe without any says nothing of them, so that its digest is what it was before there were any.
        exclude_if=lambda tokens: not tokens,
        description="Texts that become tokens of their own, with embeddings that training learns: of cpt with variant "
        "full only. Each is one token wherever it stands, within words too.",
    )
    lora: LoraSettings = Field(LoraSettings(), description="Adapter settings of the lora and qlora variants.")
    preference: PreferenceSettings = Field(PreferenceSettings(), description="Settings of dpo and orpo.")
    training: TrainingSettings = Field(TrainingSettings(), description="The optimizer's run.")
    packing: PackingSettings = Field(PackingSettings(), description="How examples become token windows.")
    hardware: HardwareSettings = Field(HardwareSettings(), description="Where the training runs.")
    evaluation: EvaluationSettings = Field(EvaluationSettings(), description="What candidate and base are scored on.")
    gates: GateSettings = Field(GateSettings(), description="What a candidate must reach.")
    sweep: SweepSettings | None = Field(
        None,
        # A recipe without one says nothing of sweeps, so that its digest is what it was before there were any.
        exclude_if=lambda sweep: sweep is None,
        description="Train several variants and go on with the best: see docs/sweeps.md. null: one training.",
    )
    promotion: PromotionSettings | None = Field(
        None,
        # A recipe without it has the digest that it had before there was any.
        exclude_if=lambda promotion: promotion is None,
        description="When an accepted adapter goes to staging by itself; null: only when somebody promotes it.",
    )

    @model_validator(mode="after")
    def _gate_metric_is_measured(self) -> "Recipe":
        metric = self.gates.task_gain.metric
        if metric not in ("perplexity", "preference_accuracy") and metric not in self.evaluation.holdout.metrics:
            raise ValueError(
                f"gates.task_gain.metric: {metric!r} is not measured; "
                "add it to evaluation.holdout.metrics or use perplexity"
            )
        return self

    @model_validator(mode="after")
    def _there_is_a_choice(self) -> "Recipe":
        if self.evaluation.candidate == "best_validation" and self.training.keep_best is None:
            raise ValueError("evaluation.candidate: best_validation chooses among kept weights: set training.keep_best")
        return self

    @model_validator(mode="after")
    def _sweep_tries_what_matters(self) -> "Recipe":
        sections: dict[str, type[Settings]] = {
            "training": TrainingSettings,
            "lora": LoraSettings,
            "preference": PreferenceSettings,
        }
        fields = {name: model.model_fields for name, model in sections.items()}
        problems = path_problems(self.sweep.parameters if self.sweep else (), fields, WITHOUT_EFFECT)
        if problems:
            raise ValueError("; ".join(problems))
        return self

    @property
    def recipe_key(self) -> RecipeKey:
        return RecipeKey.parse(self.key)

    @property
    def base_reference(self) -> BaseReference:
        return parse_base(self.base)

    def resolved(self) -> tuple["Recipe", dict[str, str]]:
        """The recipe with every ``auto`` settled that it settles by itself, and where each setting came from.

        What depends on data or base stays ``auto``. Origins: dotted field path to ``recipe``, ``default`` or
        ``auto: <why this value>``.
        """
        from ft_assets.recipes.resolve import resolve

        return resolve(self)

    def token_settings(self) -> dict[str, Any]:
        """What touches tokens, as JSON: equal settings share token packs."""
        return {
            "packing": self.packing.model_dump(mode="json"),
            "chat_template": self.chat_template,
            "seed": self.training.seed,
        }

    def training_settings(self) -> dict[str, Any]:
        """What decides the trained weights beside pack and base, as JSON; ``lora`` is null for full."""
        recipe, _ = self.resolved()
        settings = {
            "method": recipe.method,
            "variant": recipe.variant,
            "lora": recipe.lora.model_dump(mode="json") if recipe.variant != "full" else None,
            "training": recipe.training.model_dump(mode="json", exclude=WITHOUT_EFFECT),
            "chat_template": recipe.chat_template,
        }
        # Only where it counts, so that it never moves the address of a training without pairs.
        if recipe.method in ("dpo", "orpo"):
            settings["preference"] = recipe.preference.model_dump(mode="json")
        return settings
