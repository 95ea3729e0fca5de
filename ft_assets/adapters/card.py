"""The model card: what the adapter is, what it was made of, what it was measured to do, and how to load it."""

from collections.abc import Mapping
from typing import Any

from ft_assets.adapters.card_base import about_base, is_ours, load_on_ours
from ft_assets.evals.evidence import EXACT_MATCH, Evidence
from ft_assets.evals.gate_rates import SAFETY
from ft_assets.evals.judging import score_table, verdict_table
from ft_assets.evals.verdict import Verdict
from ft_resources.artifacts import InputRef

_CARD = """---
{front}
---
# {line}

{kind} of dataset version `{dataset}` with recipe `{recipe}`. {passed}{base}

## Measured against its base

{scores}

Intervals are 95 %, from paired results on the same items, with the same template, tokenizer and seed. {answers}

## Gates

{verdicts}

## Training

| setting | value |
|---|---|
{settings}

## Made of

| input | address | digest |
|---|---|---|
{inputs}

`lineage.json` goes on from there to the uploaded bytes. `verdicts.json` holds the gates' numbers.

## How to load it

```python
{load}
```

The tokenizer and the chat template in this folder are those of training: use them, and no others.{safety}
"""
_CARRIED = """

Carried from `{source}`: the base moved after that training, and its weights were put on the new base as they were. They
passed the same gates there, which is what is shown below."""
_ANSWERS = """Always giving
the commonest training answer would reach {majority:.1%} exact match; {never_seen:.1%} of the right answers stand in no
training row."""
_LOAD_FOLDER = """from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer

folder = "."  # this folder
base = "BASE"  # a copy of {source}
tokenizer = AutoTokenizer.from_pretrained(folder)
model = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(base), folder)"""
_LOAD_HUB = """from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer

folder = "."  # this folder
base = AutoModelForCausalLM.from_pretrained("{name}", revision="{revision}")
tokenizer = AutoTokenizer.from_pretrained(folder)
model = PeftModel.from_pretrained(base, folder)"""
_LOAD_FULL = """from transformers import AutoModelForCausalLM, AutoTokenizer

folder = "."  # this folder
tokenizer = AutoTokenizer.from_pretrained(folder)
model = AutoModelForCausalLM.from_pretrained(folder)"""


def model_card(
    *,
    address: str,
    params: Mapping[str, Any],
    inputs: Mapping[str, InputRef],
    base: Mapping[str, Any],
    recipe: Mapping[str, Any],
    evidence: Evidence,
    verdicts: list[Verdict],
    is_adapter: bool,
    carried_from: str = "",
) -> str:
    """Markdown with the front matter that the Hub reads.

    Args:
        address: of the adapter in its store.
        params: of the adapter (``line``, ``dataset``, ``recipe``).
        base: facts of the base model.
        recipe: the training settings as resolved (the checkpoint's ``recipe.json``).
        is_adapter: a PEFT folder, not a full model.
        carried_from: address of the checkpoint whose weights these are, where the base moved since they were trained.
    """
    return _CARD.format(
        front=_front(base, is_adapter),
        kind="A PEFT adapter, trained on the training split"
        if is_adapter
        else "A full model, trained on the training split",
        line=params["line"],
        dataset=params["dataset"],
        recipe=params["recipe"],
        scores=score_table(evidence),
        answers=_ANSWERS.format(majority=evidence.majority_rate, never_seen=evidence.never_seen_rate)
        if EXACT_MATCH in evidence.holdout
        else "",
        verdicts=verdict_table(verdicts),
        passed=_passed(verdicts),
        safety=""
        if any(v.gate == SAFETY and v.outcome == "pass" for v in verdicts)
        else " No safety evaluation was made.",
        settings="\n".join(f"| {name} | {value} |" for name, value in [*_chosen(evidence), *_settings(recipe)]),
        inputs="\n".join(f"| {name} | `{ref.address}` | `{ref.digest}` |" for name, ref in sorted(inputs.items())),
        base=about_base(base, inputs["base"].address, is_adapter=is_adapter)
        + (_CARRIED.format(source=carried_from) if carried_from else ""),
        load=_load(base, is_adapter, address),
    )


def _passed(verdicts: list[Verdict]) -> str:
    waived = [verdict.gate for verdict in verdicts if verdict.waiver is not None]
    if not waived:
        return "It passed every gate that was required."
    return f"It passed every gate that was required, but for {', '.join(waived)}: too few samples to tell, and waived."


def _front(base: Mapping[str, Any], is_adapter: bool) -> str:
    lines = [f"library_name: {'peft' if is_adapter else 'transformers'}", "pipeline_tag: text-generation"]
    source = str(base["source"])
    if source.startswith("hub:"):
        lines.append(f"base_model: {source.removeprefix('hub:')}")
    return "\n".join(lines)


def _load(base: Mapping[str, Any], is_adapter: bool, address: str) -> str:
    source = str(base["source"])
    if not is_adapter:
        return _LOAD_FULL
    if is_ours(source):
        return load_on_ours(address)
    if source.startswith("hub:"):
        return _LOAD_HUB.format(name=source.removeprefix("hub:"), revision=base["revision"])
    return _LOAD_FOLDER.format(source=source)


def _chosen(evidence: Evidence) -> list[tuple[str, Any]]:
    """Whose weights these are, where the last ones were not the only choice."""
    return [("weights", evidence.chosen.in_words)] if evidence.chosen else []


def _settings(recipe: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Method, variant and the sections' fields, flat."""
    rows = [("method", recipe["method"]), ("variant", recipe["variant"])]
    for section in ("lora", "preference", "training"):
        rows += sorted((recipe.get(section) or {}).items())
    return rows
