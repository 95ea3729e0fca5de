"""The pack's page for people, with decoded samples."""

from collections.abc import Mapping
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
        count, rows = counts.get("spelled", 0), counts.get("spelled_rows", [])
        if count:
            what = f"1 {split} row spells" if count == 1 else f"{count:,} {split} rows spell"
            named = (
                ("row " if count == 1 else "rows ") + ", ".join(map(str, rows)) + (", …" if count > len(rows) else "")
            )
            warnings.append(
                f"{what} control tokens, which are packed as plain text ({named} of the upload). Remove them from the "
                "texts: the template writes its own control tokens."
            )
    return warnings
