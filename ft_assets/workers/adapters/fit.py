"""Whether weights trained on one base can be used on another."""

from typing import Any

from ft_assets.workers.model_size.model_size import read_architecture
from ft_resources.artifacts import Artifact

PEFT_CONFIG = "final/adapter_config.json"


def misfit(checkpoint: Artifact, before: Artifact | None, after: Artifact, *, template_given: bool) -> str:
    """Why the weights of ``checkpoint``, trained on ``before``, cannot be used on ``after``; "" if they can.

    Only shapes, tokenizer and template are compared; the gates decide whether the model still answers well.
    ``template_given``: the recipe brings its own chat template, so the bases' templates do not count.
    """
    if PEFT_CONFIG not in checkpoint.manifest.files:
        return "a fully trained model replaces its base, so it cannot be put on another one"
    if before is None:
        return "the base that it was trained on is no longer in the store, so nobody knows whether the new one fits"
    if _shapes(before) != _shapes(after):
        return "the new base has other shapes"
    if before.facts.get("tokenizer_digest") != after.facts.get("tokenizer_digest"):
        return "the new base has another tokenizer"
    if not template_given and before.facts.get("template_digest") != after.facts.get("template_digest"):
        return "the new base has another chat template"
    return ""


def _shapes(base: Artifact) -> tuple[Any, ...]:
    """Class, number of parameters, and the matrices that its config.json describes."""
    parameters = base.facts.get("parameters")
    config = base.read_json("config.json") if "config.json" in base.manifest.files else {}
    return base.facts.get("architecture"), parameters, read_architecture(config, parameters)
