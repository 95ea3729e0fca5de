"""What the doctor left in a pack, and what it means now. The code location only reads it and computes nothing."""

import json
from dataclasses import dataclass
from typing import Any

from ft_resources.artifacts import EXPLAINING_FOLDERS, Artifact
from ft_resources.errors import BadBase

EVIDENCE = "evidence/doctor.json"
DOCTOR_CHECKS: dict[str, str] = {
    "every_example_is_learned_from": "Every packed example has tokens with a label.",
    "answers_are_learned": "What is learned is all of the assistant's text, and nothing that others said.",
    "end_of_turn_is_learned": "Every learned turn ends with the template's end of turn, so the model learns to stop.",
    "documents_are_apart": "What is predicted is a document's own next token, and positions start again with each.",
    "no_doubled_bos": "No document has two tokens for the beginning of a text in a row.",
    "no_control_token_from_text": "Control tokens come from the template only, never from what a message spells.",
    "within_length": "No window is longer than the recipe's length, and nothing was cut but by the recipe's policy.",
    "vocabulary_fits_model": "Every token has a row in the base model's embedding.",
    "template_is_the_base_s": "Tokens equal a fresh rendering by the base's chat template.",
    "packed_equals_alone": "Documents lose the same in their window as alone, on the base's architecture at tiny size.",
    "holdout_is_absent": "No example of the holdout is packed.",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """One check's verdict. ``detail`` names examples by id and row and never quotes them."""

    name: str
    passed: bool
    detail: str


def verdicts(artifact: Artifact, *, vocabulary: int) -> list[Finding]:
    """Every check's verdict from the evidence in a pack; a check without sound evidence has failed.

    ``vocabulary`` is the embedding size of the base at hand: packs are shared by bases with one tokenizer.
    """
    evidence, found, problem = _read(artifact)
    findings = []
    for name in DOCTOR_CHECKS:
        finding = found.get(name)
        if problem or finding is None:
            finding = Finding(name=name, passed=False, detail=problem or "the evidence lacks this check")
        largest = evidence.get("largest_token")
        if (
            name == "vocabulary_fits_model"
            and finding.passed
            and not (isinstance(largest, int) and largest < vocabulary)
        ):
            detail = f"token {largest} does not fit an embedding of {vocabulary} rows"
            finding = Finding(name=name, passed=False, detail=detail)
        findings.append(finding)
    return findings


def _read(artifact: Artifact) -> tuple[dict[str, Any], dict[str, Finding], str]:
    """The evidence, its findings by name, and what is wrong with it as a whole ("" for nothing)."""
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


def vocabulary_size(config: bytes) -> int:
    """Rows of the embedding, from a model's config.json (multimodal models nest the text model's).

    Raises BadBase where it does not say.
    """
    try:
        values = json.loads(config)
        return int(values.get("vocab_size") or values["text_config"]["vocab_size"])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadBase(
            "the base's config does not say how large its vocabulary is",
            where="config.json",
            remedy="Add vocab_size to it.",
        ) from error
