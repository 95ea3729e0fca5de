"""The doctor's evidence in a pack, and what it means now. The code location only reads it and computes nothing."""

import json
import re
from dataclasses import dataclass, replace
from typing import Any

from ft_assets.settings.catalogue.composites import text_settings
from ft_resources.artifacts import EXPLAINING_FOLDERS, Artifact
from ft_resources.errors import BadBase
from ft_resources.json_object import json_object, require_kinds

EVIDENCE = "evidence/doctor.json"
DOCTOR_CHECKS: dict[str, str] = {
    "every_example_is_learned_from": "Every packed example has tokens with a label.",
    "answers_are_learned": "All text of the assistant is learned, and no other text.",
    "end_of_turn_is_learned": "Every learned turn ends with the template's end of turn, so the model learns to stop.",
    "documents_are_apart": "Each prediction is the next token of the same document, and positions restart with each "
    "document.",
    "no_doubled_bos": "No document has two tokens for the beginning of a text in a row.",
    "no_control_token_from_text": "Control tokens come from the template only, never from what a message spells.",
    "within_length": "No window is longer than the recipe's length, and nothing was cut except by the recipe's policy.",
    "vocabulary_fits_model": "Every token has a row in the base model's embedding.",
    "template_is_the_base_s": "Tokens equal a fresh rendering by the base's chat template, and learned tokens follow "
    "exactly the prompt tokens that a server sends to the model.",
    "packed_equals_alone": "Documents have the same loss in their window as alone, by the base's architecture at tiny "
    "size.",
    "holdout_is_absent": "No example of the holdout is packed.",
}
PROVEN_AGAIN = "A training compares again, with its own weights and before its first step."


def in_words(check: str) -> str:
    """A check's name as the start of a sentence: ``template is the base's``."""
    return re.sub(r" s\b", "'s", check.replace("_", " "))


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """One check's verdict. ``detail`` names examples by id and row and never quotes them.

    ``blocks``: whether a pack that did not pass may not be used; otherwise not passing is a warning.
    """

    name: str
    passed: bool
    detail: str
    blocks: bool = True


def verdicts(artifact: Artifact, *, config: bytes) -> list[Finding]:
    """Every check's verdict from the evidence in a pack; a check without valid evidence has failed.

    ``config`` is the config.json of the base in use. Bases with the same tokenizer share packs, so its embedding may be
    smaller than that of the base the doctor used, and its architecture different. Then isolation is not shown for it,
    which is a warning: a training shows it with its own weights or stops.
    """
    vocabulary, wanted = vocabulary_size(config), architecture_of(config)
    evidence, found, problem = _read(artifact)
    if problem:
        return [Finding(name=name, passed=False, detail=problem) for name in DOCTOR_CHECKS]
    lacking = (Finding(name=name, passed=False, detail="the evidence lacks this check") for name in DOCTOR_CHECKS)
    findings = {finding.name: found.get(finding.name, finding) for finding in lacking}
    largest, fits = evidence.get("largest_token"), findings["vocabulary_fits_model"]
    if fits.passed and not (isinstance(largest, int) and largest < vocabulary):
        detail = f"token {largest} does not fit an embedding of {vocabulary} rows"
        findings[fits.name] = replace(fits, passed=False, detail=detail)
    looked_at, apart = str(evidence.get("architecture")), found.get("packed_equals_alone")
    if apart is not None and looked_at != wanted:
        detail = (
            f"Not shown for this base ({wanted}): the pack was made for another with the same tokenizer, and the check "
            f"{'passed' if apart.passed else 'failed'} on its architecture ({looked_at}). {PROVEN_AGAIN}"
        )
        findings[apart.name] = Finding(name=apart.name, passed=False, detail=detail, blocks=False)
    return list(findings.values())


def _read(artifact: Artifact) -> tuple[dict[str, Any], dict[str, Finding], str]:
    """The evidence, its findings by name, and what is wrong with it as a whole ("" if nothing is)."""
    if EVIDENCE not in artifact.manifest.files:
        return {}, {}, "the pack has no evidence of the doctor"
    try:
        evidence = json.loads(artifact.read(EVIDENCE))
        found = {check["name"]: Finding(**check) for check in evidence["checks"]}
        about = evidence["files"]
    except (ValueError, KeyError, TypeError):
        return {}, {}, "the evidence of the doctor cannot be read"
    counted = {
        name: entry.sha256 for name, entry in artifact.manifest.files.items() if not name.startswith(EXPLAINING_FOLDERS)
    }
    stale = "the evidence is stale: it is about other files than the pack has"
    return evidence, found, "" if about == counted else stale


def architecture_of(config: bytes) -> str:
    """How a model's tokens interact according to its config.json: ``qwen2`` or ``phi3, longrope positions``.

    Sizes do not count. Raises BadBase without a config.
    """
    values = _settings(config)
    window = values.get("sliding_window") and values.get("use_sliding_window", True)
    rope = values.get("rope_parameters") or values.get("rope_scaling") or {}
    kind = rope.get("rope_type", rope.get("type", "default"))
    words = [
        str(values.get("model_type")),
        *(f"{kind} layers" for kind in sorted(set(map(str, values.get("layer_types") or [])) - {"full_attention"})),
        "a sliding window" if window else "",
        f"{kind} positions" if kind != "default" else "",
    ]
    return ", ".join(word for word in words if word)


def vocabulary_size(config: bytes) -> int:
    """Rows of the embedding, from a model's config.json (multimodal models nest the text model's).

    Raises BadBase if it is missing.
    """
    try:
        return int(_settings(config)["vocab_size"])
    except (KeyError, ValueError, TypeError) as error:
        raise BadBase(
            "the base's config does not say how large its vocabulary is",
            where="config.json",
            remedy="Add vocab_size to it.",
        ) from error


def _settings(config: bytes) -> dict[str, Any]:
    """The settings of a model's config.json; a multimodal one's text model takes precedence."""
    remedy = "Take a base with a valid one."
    values = json_object(config, BadBase, where="config.json", remedy=remedy, what="the base's config")
    own = {name: value for name, value in values.items() if name != "text_config"}
    found = {**own, **text_settings(values)}
    require_kinds(found, {"layer_types": list, "rope_parameters": dict, "rope_scaling": dict}, values.error)
    return found
