"""The model card: what the adapter is, what it was trained from, how it scored, and how to load it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ft_assets.settings.catalogue.gates.safety import SAFETY
from ft_assets.settings.catalogue.methods import METHODS, SECTIONS
from ft_assets.workers.evals.evidence import Evidence
from ft_assets.workers.evals.verdict import Verdict
from ft_assets.workers.evals.verdicts import score_table, verdict_table
from ft_resources.artifacts import InputRef

OURS = "artifact:"
"""Begins the source of a base that is one of our accepted adapters."""


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
    composite: bool = False,
    ungated: bool = False,
    carried_from: str = "",
    continued_from: str = "",
) -> str:
    """Markdown with the front matter that the Hub reads (``card.md.jinja``).

    Args:
        address: the adapter's address in its store.
        params: the adapter's parameters (``line``, ``dataset``, ``recipe``).
        base: the base model's facts.
        recipe: the training settings as resolved (the checkpoint's ``recipe.json``).
        ungated: whether no gate judged it.
        is_adapter: True for a PEFT folder, False for a full model.
        composite: whether the base has more than a text part, and so another class that loads it.
        carried_from: address of the checkpoint that the weights come from, if the base changed after they were trained.
        continued_from: address of the adapter whose weights the training started from, if they were not new.
    """
    from jinja2 import Environment, StrictUndefined

    source = str(base["source"])
    settings: list[tuple[str, Any]] = [("weights", evidence.chosen.in_words)] if evidence.chosen else []
    settings += [("method", recipe["method"]), ("variant", recipe["variant"])]
    for section in ("lora", *SECTIONS, "training"):
        settings += sorted((recipe.get(section) or {}).items())
    environment = Environment(
        undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True
    )
    template = environment.from_string(Path(__file__).with_name("card.md.jinja").read_text(encoding="utf-8"))
    return template.render(
        address=address,
        params=params,
        inputs=inputs,
        base={"new_tokens": 0, **base},
        hub=source.removeprefix("hub:") if source.startswith("hub:") else "",
        ours=source.removeprefix(OURS) if source.startswith(OURS) else "",
        evidence=evidence,
        scores=score_table(evidence),
        gates=verdict_table(verdicts),
        waived=[verdict.gate for verdict in verdicts if verdict.waiver is not None],
        safe=any(verdict.gate == SAFETY.name and verdict.outcome == "pass" for verdict in verdicts),
        settings=settings,
        is_adapter=is_adapter,
        continues=METHODS[recipe["method"]].form.plain,
        auto_class="AutoModelForImageTextToText" if composite else "AutoModelForCausalLM",
        ungated=ungated,
        carried_from=carried_from,
        continued_from=continued_from,
    )
