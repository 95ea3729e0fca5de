"""Judge models: which of two answers is better, and whether an answer is a refusal."""

import re
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, Strict, model_validator

from ft_assets.settings.keys import RecipeKey, check_classifier_key, check_suite_key
from ft_resources.errors import UserError
from ft_resources.settings import Settings, text_check, unique

KEY_PREFIX = "FT_JUDGE_KEY_"
_LOCAL = re.compile(r"folder:sha256:[0-9a-f]{64}")
_RECIPE = "recipe:"


def _check_local(text: str) -> str:
    if text.startswith(_RECIPE):
        try:
            RecipeKey.parse(text.removeprefix(_RECIPE))
        except UserError as error:
            raise ValueError(f"{error.what}. {error.remedy}") from error
    elif not _LOCAL.fullmatch(text):
        raise ValueError(
            "should be recipe:KEY, the base of a registered recipe, or folder:sha256:DIGEST, an already stored base"
        )
    return text


def _check_endpoint(text: str) -> str:
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise ValueError("is no URL") from error
    if parts.scheme not in ("https", "http") or not parts.hostname or port == 0:
        raise ValueError("should be the URL before /chat/completions, such as https://judge.example.com/v1")
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment or "#" in text:
        raise ValueError("may not contain a user, password, query or fragment: set the key with `key`")
    if not text.isascii() or not text.isprintable() or " " in text:
        raise ValueError("should be written in ASCII, without spaces")
    return text.rstrip("/")


Local = Annotated[str, Field(max_length=200), AfterValidator(_check_local)]


class JudgeModel(Settings):
    """A judge model: behind an OpenAI-compatible endpoint, or local."""

    endpoint: Annotated[str, Field(max_length=500), AfterValidator(_check_endpoint)] | None = Field(
        None,
        description="URL of an OpenAI-compatible API, before /chat/completions; its host must be among judge_hosts of "
        "tenants.yaml. null: a local model, which the worker loads.",
    )
    model: str = Field(
        min_length=1,
        max_length=200,
        description="Name of the model at the endpoint. For a local model: recipe:KEY (the base of a registered "
        "recipe) or folder:sha256:DIGEST (an already stored base).",
    )
    key: Annotated[str, Field(max_length=100, pattern=rf"^{KEY_PREFIX}[A-Z0-9_]+$")] | None = Field(
        None,
        description=f"Worker's environment variable with the endpoint's API key ({KEY_PREFIX}…), or, as NAME_FILE, "
        "with "
        "the path of a file that holds it. The key itself is never stored.",
    )
    family: str | None = Field(
        None,
        min_length=1,
        max_length=40,
        description="Family of the model, such as Qwen, if its name does not contain it.",
    )
    allow_same_family: bool = Field(
        False,
        description="Allow a judge of an unknown family, or of the family of the base or of the model that generated "
        "the "
        "answers. Judges favour their own family.",
    )
    max_new_tokens: int = Field(512, ge=1, le=8192, description="Maximum length of a judgement, in tokens.")
    timeout_s: float = Field(
        60.0, gt=0.0, le=600.0, description="Time limit for one judgement of an endpoint, in seconds."
    )
    concurrency: int = Field(4, ge=1, le=32, description="Concurrent requests to an endpoint.")

    @model_validator(mode="after")
    def _is_one_or_the_other(self) -> "JudgeModel":
        if self.endpoint is None:
            _check_local(self.model)
            if self.key is not None:
                raise ValueError("key: a local model has no key; leave it out, or name an endpoint")
        return self

    @property
    def is_local(self) -> bool:
        """Whether the worker loads it."""
        return self.endpoint is None

    @property
    def host(self) -> str:
        """Host of the endpoint, in lower case; "" for a local model."""
        return (urlsplit(self.endpoint).hostname or "").lower() if self.endpoint else ""

    @property
    def name(self) -> str:
        """Display name: the model and its location."""
        return f"{self.model} at {self.host}" if self.endpoint else self.model


def _different(models: tuple[JudgeModel, ...]) -> tuple[JudgeModel, ...]:
    unique(tuple(f"{model.endpoint} {model.model}" for model in models))
    return models


class PairwiseJudge(Settings):
    """Candidate and base answer the same prompts, and a model judges which answer is better, in both orders."""

    models: Annotated[
        tuple[JudgeModel, ...], Strict(False), Field(min_length=1, max_length=2), AfterValidator(_different)
    ] = Field(description="One or two judges. The first decides; the agreement of the second is reported.")
    prompts: Literal["holdout"] | Annotated[str, text_check(check_suite_key)] = Field(
        "holdout",
        description="Prompts to judge: holdout, or the key of a suite of golden prompts in evaluation.suites. The "
        "answers generated for its metrics are judged.",
    )
    max_prompts: int = Field(200, ge=1, le=10_000, description="Maximum number of prompts to judge.")


class RefusalClassifier(Settings):
    """A model that recognises refusals, in place of the phrase rule."""

    classifier: Annotated[str, text_check(check_classifier_key)] | None = Field(
        None, description="Key of a classifier added with `ft dataset classifier add`, such as refusal.v1."
    )
    labels: Annotated[tuple[str, ...], Strict(False), AfterValidator(unique), Field(max_length=20)] = Field(
        (), description="Labels of the classifier that indicate a refusal."
    )
    threshold: float = Field(0.5, gt=0.0, lt=1.0, description="Minimum score of such a label for a refusal.")
    model: Local | None = Field(
        None,
        description="Instead of a classifier, a causal model to prompt: recipe:KEY (the base of a registered recipe) "
        "or "
        "folder:sha256:DIGEST (an already stored base).",
    )

    @model_validator(mode="after")
    def _is_one_or_the_other(self) -> "RefusalClassifier":
        if (self.classifier is None) == (self.model is None):
            raise ValueError("name either a classifier or a model")
        if (self.classifier is None) != (not self.labels):
            raise ValueError("labels: required for a classifier, and only for a classifier")
        return self
