"""The work of ``adapter``: judge the candidate once more and export a folder that needs only the base.

The gates cannot be bypassed here. Whatever Dagster let through, nothing is exported unless every verdict, recomputed
from the verified per-sample results, passes.
"""

import json
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ft_assets.settings.catalogue.composites import COMPOSITES
from ft_assets.settings.ungated import UNGATED, without_gates
from ft_assets.workers.adapters.card import OURS, model_card
from ft_assets.workers.adapters.carried_checkpoint import SOURCE
from ft_assets.workers.adapters.lineage import lineage
from ft_assets.workers.adapters.rejection import require_pass
from ft_assets.workers.base_models.chain import unchanged_input
from ft_assets.workers.base_models.contents import PROCESSOR_FILES, TEMPLATE, TOKENIZER_FILES
from ft_assets.workers.base_models.placing import write_json
from ft_assets.workers.base_models.token_ids import settle_tokenizer
from ft_assets.workers.evals.evidence import Evidence
from ft_assets.workers.evals.gates import unjudged
from ft_assets.workers.evals.selection_rule import chosen_weights
from ft_assets.workers.evals.verdicts import judge_candidate, load_evidence
from ft_assets.workers.tokenizers.chat_template import template_text
from ft_assets.workers.training.earlier import CONTINUED_FROM
from ft_assets.workers.training.kept_weights import Weights, candidate_weights, stored_weights
from ft_resources.artifacts import Artifact
from ft_resources.errors import CorruptArtifact, UserError
from ft_resources.worker_context import WorkContext, WorkResult


def export_adapter(context: WorkContext) -> WorkResult:
    """Export the accepted adapter, or an ungated result to an address of its own; raises GateRejected for any other.
    Files: ``docs/reference/artifacts.md``."""
    context.progress("judging")
    verdicts = judge_candidate(context.artifacts, context.spec.inputs, context.params)
    ungated = context.spec.asset == UNGATED and without_gates(context.params) and unjudged(verdicts)
    if not ungated:
        require_pass(verdicts, context.spec.label)
    context.progress("writing")
    checkpoint, base = unchanged_input(context, "checkpoint"), unchanged_input(context, "base")
    report = context.input("eval_report")
    evidence = load_evidence(report)
    carried = checkpoint.manifest.inputs.get(SOURCE)
    output = context.output
    weights = measured_weights(checkpoint, report, evidence)
    _copy(checkpoint, weights.prefix, output, context.scratch)
    _pin_base(output, base)
    is_adapter = (output / "adapter_config.json").exists()
    if not is_adapter:
        _take(PROCESSOR_FILES, base, output, context.scratch)
    _write_tokenizer(base, context.params["chat_template"], output, context.scratch)
    tree = {
        "line": context.params["line"],
        "dataset": context.params["dataset"],
        "recipe": context.params["recipe"],
        "inputs": {
            name: lineage(context.artifacts, ref.address).as_json() for name, ref in context.spec.inputs.items()
        },
    }
    if evidence.chosen:
        tree["step"] = weights.step
    if continued := checkpoint.facts.get(CONTINUED_FROM, ""):
        tree[CONTINUED_FROM] = continued
    if carried:
        tree[SOURCE] = carried.address
    write_json(output / "lineage.json", tree)
    write_json(output / "verdicts.json", [verdict.model_dump(mode="json") for verdict in verdicts])
    recipe = checkpoint.read_json("recipe.json")
    card = model_card(
        address=str(context.spec.address),
        params=context.params,
        inputs=context.spec.inputs,
        base=base.facts,
        recipe=recipe,
        evidence=evidence,
        verdicts=verdicts,
        ungated=ungated,
        is_adapter=is_adapter,
        composite=_is_composite(base),
        carried_from=carried.address if carried else "",
        continued_from=continued,
    )
    (output / "README.md").write_text(card, encoding="utf-8")
    metrics = {name: {"base": m.base, "candidate": m.candidate} for name, m in evidence.holdout.items()}
    metrics |= {key: {"base": s.base, "candidate": s.candidate} for key, s in evidence.suites.items()}
    chosen = {"step": weights.step, "steps": evidence.chosen.steps} if evidence.chosen else {}
    return WorkResult(folder=output, facts={"line": context.params["line"], "metrics": metrics, **chosen})


def measured_weights(checkpoint: Artifact, report: Artifact, evidence: Evidence) -> Weights:
    """The weights that the report is about, chosen again by the rule. Raises CorruptArtifact if it names others."""
    evaluation = report.manifest.identity["params"].get("evaluation", {})
    wish = evaluation.get("candidate", "last")
    said = evidence.chosen.step if evidence.chosen else None
    remedy = "Delete the report's manifest and materialize eval_report again."
    if wish == "best_suite":
        try:
            # Its scores match its samples, or there would be no verdict.
            return chosen_weights(stored_weights(checkpoint.facts), evidence.chosen.by if evidence.chosen else None)
        except ValueError as error:
            raise CorruptArtifact(str(error), where=str(report.address), remedy=remedy) from error
    try:
        weights = candidate_weights(checkpoint.facts, wish)
    except ValueError as error:
        raise CorruptArtifact(str(error), where=str(report.address), remedy=remedy) from error
    if said != (weights.step if "candidate" in evaluation else None):
        raise CorruptArtifact(
            f"the report is about the weights after step {said}, and the rule chooses those after step {weights.step}",
            where=str(report.address),
            remedy=remedy,
        )
    return weights


def _copy(artifact: Artifact, prefix: str, output: Path, scratch: Path) -> None:
    """The artifact's verified files under ``prefix``, by name without the prefix."""
    for name in artifact.manifest.files:
        if name.startswith(prefix):
            target = output / name.removeprefix(prefix)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(artifact.path(name, scratch), target)


def _pin_base(output: Path, base: Artifact) -> None:
    """Check that a PEFT folder pins its base and revision, and name a hub base as PEFT and servers load it.

    Without the pin, a server would load the adapter onto whatever the name resolves to at that time.
    """
    path = output / "adapter_config.json"
    if not path.exists():
        return
    config = json.loads(path.read_bytes())
    source, revision = base.facts["source"], base.facts["revision"]
    named = (config.get("base_model_name_or_path"), config.get("revision"))
    if named != (source, revision) or not all(named):
        raise UserError(
            f"the adapter names base {named[0]} at revision {named[1]}, but was trained on {source} at {revision}",
            where="final/adapter_config.json",
            remedy="Materialize checkpoint for this pair again.",
        )
    if source.startswith(OURS):
        # The source was an adapter; this adapter depends on the model built from it.
        source, revision = f"{OURS}{base.address}", base.digest
    write_json(path, {**config, "base_model_name_or_path": source.removeprefix("hub:"), "revision": revision})


def _write_tokenizer(base: Artifact, chat_template: str | None, output: Path, scratch: Path) -> None:
    """The base's tokenizer with the template that training used, if any, stored in exactly one file.

    Raises BadBase if AutoTokenizer would not read texts from this folder as training read them.
    """
    _take((*TOKENIZER_FILES, TEMPLATE), base, output, scratch)
    settings_path = output / "tokenizer_config.json"
    settings: dict[str, Any] = json.loads(settings_path.read_bytes()) if settings_path.exists() else {}
    settings.pop("chat_template", None)
    template = template_text(output, chat_template)
    # Registration refuses a recipe that needs one; texts are learned without.
    if template:
        (output / TEMPLATE).write_text(template, encoding="utf-8")
    if settings:
        write_json(settings_path, settings)
    settle_tokenizer(output)


def _take(names: Iterable[str], base: Artifact, output: Path, scratch: Path) -> None:
    for name in names:
        if name in base.manifest.files:
            shutil.copyfile(base.path(name, scratch), output / name)


def _is_composite(base: Artifact) -> bool:
    config = base.read_json("config.json") if "config.json" in base.manifest.files else {}
    return config.get("model_type") in COMPOSITES
