"""The recipe: every setting a user may write, what it means, and what it may be.

The descriptions are the documentation; ``docs/recipe.schema.json`` is made from them. Fields that accept ``auto``
are replaced by rules: ``Recipe.resolved`` knows the recipe only, ``checkpoints/configuration`` data and base too.
"""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from ft_assets.keys import RecipeKey
from ft_assets.recipes.acceptance import EvaluationSettings, GateSettings
from ft_assets.recipes.base_ref import BaseReference, parse_base
from ft_assets.recipes.hardware import HardwareSettings
from ft_assets.recipes.promotion import PromotionSettings
from ft_assets.recipes.settings import NewTokens, Settings, text_check
from ft_assets.recipes.training import (
    WITHOUT_EFFECT,
    LoraSettings,
    PackingSettings,
    PreferenceSettings,
    TrainingSettings,
)
from ft_assets.sweeps.paths import path_problems
from ft_assets.sweeps.settings import SweepSettings

MAX_TEMPLATE_CHARACTERS = 64 * 1024


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
        if self.evaluation.candidate != "last" and self.training.keep_best is None:
            raise ValueError(
                f"evaluation.candidate: {self.evaluation.candidate} chooses among kept weights: set training.keep_best"
            )
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
