"""The recipe: every setting a user may write, its meaning and its allowed values.

The descriptions are the documentation; ``docs/recipe.schema.json`` is generated from them. Rules (``control/auto``)
replace ``auto``: some from the recipe alone, the others once data and base are known.
"""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, get_args

from pydantic import AfterValidator, Field, Strict, model_validator

from ft_assets.settings.catalogue.exports import EXPORTS, ExportName
from ft_assets.settings.catalogue.gates.profiles import PROFILES, profile_of, stated
from ft_assets.settings.catalogue.gates.task_gain import AnswerMetric
from ft_assets.settings.catalogue.methods import METHODS, MethodName
from ft_assets.settings.catalogue.methods.kto import KtoSettings
from ft_assets.settings.catalogue.methods.preference_settings import PreferenceSettings
from ft_assets.settings.catalogue.methods.simpo import SimpoSettings
from ft_assets.settings.keys import RecipeKey
from ft_assets.settings.recipe.acceptance import EvaluationSettings, GateSettings
from ft_assets.settings.recipe.base_ref import BaseReference, parse_base
from ft_assets.settings.recipe.end_of_turn import with_end_of_turn
from ft_assets.settings.recipe.foreign_names import FOREIGN_NAMES
from ft_assets.settings.recipe.hardware import HardwareSettings
from ft_assets.settings.recipe.sweep import SweepSettings
from ft_assets.settings.recipe.sweep_paths import path_problems
from ft_assets.settings.recipe.training import LoraSettings, PackingSettings, TrainingSettings
from ft_assets.settings.ungated import NO_GATES, NoGates
from ft_resources.settings import NewTokens, Settings, text_check, unique
from ft_resources.strict_model import added_field

MAX_TEMPLATE_CHARACTERS = 64 * 1024


class PromotionSettings(Settings):
    """When an accepted adapter is promoted automatically."""

    staging_margin: float = Field(
        ge=0.0,
        le=1000.0,
        description="Minimum gain over the base, computed as in gates.task_gain, for an automatic promotion to "
        "staging: "
        "0.2 is 20 % relative (absolute if the base scores 0). Never to production.",
    )


class Recipe(Settings):
    """One immutable version of how to fine-tune."""

    FOREIGN_NAMES: ClassVar[Mapping[str, str]] = FOREIGN_NAMES

    key: Annotated[str, text_check(RecipeKey.parse)] = Field(
        description="Name and version: name.vN (shared by all tenants) or tenant.name.vN."
    )
    description: str = Field("", max_length=2000, description="Description for users.")
    base: Annotated[str, AfterValidator(lambda text: (parse_base(text), text)[1])] = Field(
        description="The base model: folder:PATH (relative to this file), folder:sha256:DIGEST (already stored), "
        "hub:ORG/NAME@REVISION, or an accepted adapter of this store to continue from: artifact:ADDRESS or "
        "artifact:DATASET|RECIPE. Revision and content are locked when the recipe is registered."
    )
    chat_template: Annotated[str, Field(min_length=1, max_length=MAX_TEMPLATE_CHARACTERS)] | None = Field(
        None,
        description="Path (relative to this file) of a Jinja chat template that replaces the base's own, or the "
        "name of a ready one: plain (turns under lines User: and Assistant:), chatml, mistral, llama3, gemma, qwen3, "
        "harmony and others that TRL ships. Its text is stored with the recipe. null: the base's.",
    )
    method: MethodName = Field(
        "sft",
        description="Training method. " + "; ".join(f"{each.name}: {each.what}" for each in METHODS.values()) + ".",
    )
    variant: Literal["lora", "qlora", "full"] = Field(
        "lora",
        description="Trained weights: low-rank adapters (lora), adapters on a base quantized to 4 bits (qlora), or all "
        "weights (full).",
    )
    new_tokens: NewTokens = added_field(
        (),
        description="Texts added to the tokenizer as new tokens, whose embeddings are trained; only for cpt with "
        "variant full. Each becomes one token wherever it occurs, also within words.",
    )
    lora: LoraSettings = Field(LoraSettings(), description="Adapter settings of the lora and qlora variants.")
    preference: PreferenceSettings = Field(PreferenceSettings(), description="Settings of dpo and orpo.")
    simpo: SimpoSettings | None = added_field(None, description="Settings of simpo; null: its defaults.")
    kto: KtoSettings | None = added_field(None, description="Settings of kto; null: its defaults.")
    training: TrainingSettings = Field(TrainingSettings(), description="Training settings.")
    packing: PackingSettings = Field(PackingSettings(), description="Packing of examples into token windows.")
    hardware: HardwareSettings = Field(HardwareSettings(), description="Hardware of the training.")
    evaluation: EvaluationSettings = Field(EvaluationSettings(), description="Measurements of candidate and base.")
    gates: GateSettings | NoGates = Field(
        GateSettings(),
        description="Acceptance thresholds for the candidate. none: no gates; the result is kept as ungated, for "
        "experiments, and can never be promoted.",
    )
    sweep: SweepSettings | None = added_field(
        None,
        description="Train several variants and continue with the best (docs/how-to/sweep.md). null: one training.",
    )
    promotion: PromotionSettings | None = added_field(
        None,
        description="Automatic promotion of accepted adapters to staging; null: manual promotion only.",
    )

    exports: Annotated[tuple[ExportName, ...], Strict(False), AfterValidator(unique)] = added_field(
        (),
        description="Export formats of the accepted adapter, for other engines. "
        + "; ".join(f"{each.name}: {each.what}" for each in EXPORTS.values())
        + ". Each export is gated again. Empty: none; ft export creates one at any time.",
    )

    @model_validator(mode="before")
    @classmethod
    def _has_the_section_of_its_method(cls, data: Any) -> Any:
        """Fill in the section that belongs to the recipe's method; it is None for other methods."""
        named = data.get("method") if isinstance(data, dict) else None
        method = METHODS.get(named) if isinstance(named, str) else None
        if method is None or not method.section or cls.model_fields[method.section].default is not None:
            return data
        return {**data, method.section: data.get(method.section) or {}}

    @model_validator(mode="before")
    @classmethod
    def _needs_no_suite_without_gates(cls, data: Any) -> Any:
        """Without gates the default is no suite: the recipe of a first try must not need one."""
        if not isinstance(data, dict) or data.get("gates") != NO_GATES:
            return data
        evaluation = data.get("evaluation", {})
        return {**data, "evaluation": {"suites": [], **evaluation}} if isinstance(evaluation, dict) else data

    @model_validator(mode="before")
    @classmethod
    def _is_judged_by_what_its_data_have(cls, data: Any) -> Any:
        """The gate ``task_gain`` of the data's form, where the recipe has gates and names neither a metric nor a
        profile."""
        named = data.get("method") if isinstance(data, dict) else None
        method = METHODS.get(named) if isinstance(named, str) else None
        gates: Any = data.get("gates", {}) if method else None
        if method is None or not method.form.task_gain or not isinstance(gates, dict) or "profile" in gates:
            return data
        gain = gates.get("task_gain", {})
        if not isinstance(gain, dict) or "metric" in gain:
            return data
        return {**data, "gates": {**gates, "task_gain": {**method.form.task_gain, **gain}}}

    # The last "before" validator runs first: the ones above see its result.
    @model_validator(mode="before")
    @classmethod
    def _has_what_its_profile_judges(cls, data: Any) -> Any:
        """A profile of gates decides about them all (none), or what is measured on the holdout by default."""
        gates: Any = data.get("gates") if isinstance(data, dict) else None
        profile = profile_of(gates)
        if profile == NO_GATES:
            if len(gates) > 1:
                raise ValueError(
                    "gates.profile: none disables all gates; choose another profile, or remove the other fields"
                )
            return {**data, "gates": NO_GATES}
        if profile not in PROFILES:
            return data
        evaluation, gain = data.get("evaluation", {}), stated(gates)["task_gain"]
        holdout = evaluation.get("holdout", {}) if isinstance(evaluation, dict) else None
        metric = gain.get("metric") if isinstance(gain, dict) else None
        if not isinstance(holdout, dict) or metric not in get_args(AnswerMetric):
            return data
        return {**data, "evaluation": {**evaluation, "holdout": {"metrics": [metric], **holdout}}}

    @model_validator(mode="after")
    def _gates_have_what_they_judge(self) -> "Recipe":
        if self.gates == NO_GATES:
            if self.promotion is not None:
                raise ValueError("promotion: results without gates cannot be promoted; remove it, or set gates")
            return self
        if not self.evaluation.suites:
            raise ValueError("evaluation.suites: the gates need at least one general suite; or write gates: none")
        metric = self.gates.task_gain.metric
        if metric not in ("perplexity", "preference_accuracy") and metric not in self.evaluation.holdout.metrics:
            raise ValueError(
                f"gates.task_gain.metric: {metric!r} is not measured; "
                "add it to evaluation.holdout.metrics or use perplexity"
            )
        return self

    @model_validator(mode="after")
    def _has_what_it_exports(self) -> "Recipe":
        if self.exports and self.variant == "full":
            raise ValueError("exports: a model of variant full is already complete, with nothing to merge")
        if self.exports and self.gates == NO_GATES:
            raise ValueError("exports: only accepted adapters are exported automatically; use ft export for others")
        return self

    @model_validator(mode="after")
    def _there_is_a_choice(self) -> "Recipe":
        if self.evaluation.candidate != "last" and self.training.keep_best is None:
            raise ValueError(f"evaluation.candidate: {self.evaluation.candidate} requires training.keep_best")
        return self

    @model_validator(mode="after")
    def _sweep_tries_what_matters(self) -> "Recipe":
        if problems := path_problems(self.sweep.parameters if self.sweep else ()):
            raise ValueError("; ".join(problems))
        return self

    @property
    def recipe_key(self) -> RecipeKey:
        return RecipeKey.parse(self.key)

    @property
    def base_reference(self) -> BaseReference:
        return parse_base(self.base)

    @property
    def template(self) -> str | None:
        """The Jinja text that renders conversations, with ``packing.end_of_turn``; None for the base's own as it is."""
        return with_end_of_turn(self.chat_template, self.packing.end_of_turn or ())

    def token_settings(self) -> dict[str, Any]:
        """Settings that affect tokens, as JSON: equal settings share token packs."""
        return {
            # Windows do not depend on how they run through the model.
            "packing": self.packing.model_dump(mode="json", exclude={"mode", "end_of_turn"}),
            "chat_template": self.template,
            "seed": self.training.seed,
        }
