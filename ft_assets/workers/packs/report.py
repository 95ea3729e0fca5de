"""The pack's page for people, with decoded samples."""

from collections.abc import Mapping, Sequence
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

SAMPLES_PAGE = "report/samples.html"


def samples_page(label: str, facts: Mapping[str, Any], evidence: Mapping[str, Any]) -> str:
    """The doctor's verdicts and samples as an HTML page without external resources; all text is escaped."""
    environment = Environment(
        loader=PackageLoader("ft_assets.workers.packs", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("samples.html.jinja").render(
        label=label, facts=facts, evidence=evidence, warnings=pack_warnings(facts)
    )


def pack_warnings(facts: Mapping[str, Any]) -> list[str]:
    """Warnings about a pack's facts, in sentences; older packs lack some counts."""
    warnings = []
    for split, counts in (("training", facts), ("validation", facts.get("validation", {}))):
        if count := counts.get("spelled", 0):
            what = f"1 {split} row spells" if count == 1 else f"{count:,} {split} rows spell"
            warnings.append(
                f"{what} control tokens, which are packed as plain text ({_rows(count, counts['spelled_rows'])} of the "
                "upload). Remove them from the texts: the template writes its own control tokens."
            )
        if count := counts.get("bare", 0):
            what = f"1 {split} turn" if count == 1 else f"{count:,} {split} turns"
            warnings.append(
                f"The template drops the thoughts of {what} that other turns follow, so their answers are not learned: "
                "they would teach to answer without thinking. packing.learn: all_assistant_bare learns them all the "
                "same."
            )
        if count := counts.get("unasked", 0):
            what = f"1 {split} turn" if count == 1 else f"{count:,} {split} turns"
            warnings.append(
                f"No prompt asks for {what} as they stand in their rows, so they are not learned: the template renders "
                "them, or what is before them, otherwise once an answer follows. packing.learn: all_assistant_bare "
                "learns them all the same."
            )
        if count := counts.get("equal", 0):
            what = f"1 {split} pair is" if count == 1 else f"{count:,} {split} pairs are"
            warnings.append(
                f"{what} left out: both answers are the same tokens ({_rows(count, counts['equal_rows'])} of the "
                "upload). They differ only in what the template removes, such as white space around them or thoughts."
            )
    examples, documents = facts.get("examples", 0), facts.get("documents", 0)
    if facts.get("form") == "chat" and documents > examples:
        warnings.append(
            f"{examples:,} training rows are {documents:,} documents, one for each turn of the assistant: the template "
            "asks for a turn behind other tokens than it shows before later turns. packing.learn: last_assistant "
            "learns the last turns only, and all_assistant_bare all turns of a row in one document."
        )
    return warnings


def _rows(count: int, named: Sequence[int]) -> str:
    return ("row " if count == 1 else "rows ") + ", ".join(map(str, named)) + (", …" if count > len(named) else "")
