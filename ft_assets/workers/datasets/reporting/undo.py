"""What undoes a finding: a sentence with the line of ``dataset.yaml``, or what to do if no setting does it."""

import json
from collections.abc import Sequence

from ft_assets.settings.dataset.policy import PersonalDataSettings
from ft_assets.settings.dataset.recogniser import ENTITY_TYPES
from ft_assets.workers.datasets.forms.reasons import Reason
from ft_assets.workers.datasets.reporting.report import DatasetReport, Finding, Step

_CORRECT = "Correct the row in the file, and add the file again."
_NONE: dict[str, str] = {
    Reason.UNKNOWN_SCHEMA: "Name the fields under `fields` in dataset.yaml, such as `fields: {prompt: question}`.",
    Reason.NO_GROUP: "Give each row a value of the field that `split.group_by` names.",
    Reason.BAD_WEIGHT: "Give each row a weight above 0, or take `weight` out of `fields`.",
    Reason.MIXED_KINDS: "Add the rows of each kind as a dataset of its own.",
    Reason.DUPLICATE: "An exact copy teaches nothing more. To let a row count more, give it a weight: "
    "`fields: {weight: weight}` names the field.",
    Reason.HELD_OUT: "A model that learned these could not be compared with earlier ones. To start afresh, add the "
    "data under another name.",
    Reason.SET_ASIDE: "To learn from these, take the rows with the same prompt or group out of the file that you set "
    "aside.",
    Reason.HOLDOUT_OVERLAP: "Where such rows come from one document or conversation, `split: {group_by: source}` with "
    "the field that says so keeps them on one side.",
    "stays_held_out": "No setting moves them to training. To start afresh, add the data under another name.",
    "no_category": "Name the field under `fields`, or take `balance` out.",
}
_PERSONAL = {
    "changed": "`personal_data: {action: detect}` leaves the texts as they are.",
    "warned": "`personal_data: {action: scrub}` puts placeholders in their place.",
    "held": "`personal_data: {action: scrub}` puts placeholders in their place, and nothing is held.",
}


def undo_of(step: Step, finding: Finding, report: DatasetReport) -> str:
    """What to do for another result. Settings are between backticks, as in YAML."""
    policy = report.policy
    if finding.reason in _NONE:
        return _NONE[finding.reason]
    if step == "read":
        return _CORRECT
    if step == "personal_data":
        without = _without(finding.subject, policy.personal_data)
        return _PERSONAL[finding.action] + (f" {without} does not look for these." if without else "")
    if step == "duplicates":
        if finding.action == "warned":
            return "`duplicates: {near: remove}` keeps only the first of such rows."
        return "`duplicates: {near: keep}` keeps all of them, on one side of the split."
    if step == "contamination":
        suites = [suite for suite in report.suites if suite != finding.subject]
        others = f"`contamination: {{suites: {_listed(suites)}}}` compares with {'the others' if suites else 'none'}"
        action, done = ("warn", "keeps all such rows") if finding.action == "removed" else ("remove", "leaves them out")
        return f"`contamination: {{action: {action}}}` {done}; {others}."
    if step == "paraphrases" and policy.contamination.paraphrases:
        asked = policy.contamination.paraphrases
        action, done = ("warn", "keeps them") if finding.action == "removed" else ("remove", "leaves them out")
        higher = round((1 + asked.threshold) / 2, 3)
        return (
            f"`contamination: {{paraphrases: {{encoder: {asked.encoder}, threshold: {asked.threshold:g}, "
            f"action: {action}}}}}` {done}; a higher `threshold`, such as {higher:g}, finds fewer."
        )
    if step == "quality":
        filters = _listed(sorted({*policy.quality.filter} ^ {finding.reason}))
        return f"`quality: {{filter: {filters}}}` {'keeps them' if finding.action == 'removed' else 'leaves them out'}."
    if step == "toxicity" and policy.toxicity:
        higher = round((1 + policy.toxicity.threshold) / 2, 3)
        return f"`toxicity: {{threshold: {higher:g}}}` asks for more certainty; without `toxicity`, none is looked for."
    if step == "balance" and policy.balance:
        return f"`balance: {{max_ratio: {2 * policy.balance.max_ratio:g}}}` allows more; without `balance`, all stay."
    return ""


def _without(kind: str, settings: PersonalDataSettings) -> str:
    """The setting that keeps looking for every other type of finding; empty if no other type is looked for."""
    if kind in settings.types:
        types = [name for name in settings.types if name != kind]
        return f"`personal_data: {{types: {_listed(types)}}}`" if types else ""
    if kind == "id" or settings.names is None:
        return "A policy without `recogniser`"
    rest = [entity for entity in settings.names.entities if ENTITY_TYPES[entity] != kind]
    if not rest:
        return "A policy without `names`"
    return f"`personal_data: {{names: {{model: {settings.names.model}, entities: {_listed(rest)}}}}}`"


def _listed(names: Sequence[str]) -> str:
    """A list in YAML; names that YAML would read as something else are quoted."""
    return json.dumps(names, ensure_ascii=False)
