"""Model cards of exports: what each is made from, and where to read how it was trained and evaluated."""

from ft_assets.settings.ungated import NOT_JUDGED, UNGATED
from ft_assets.workers.adapters.card import OURS
from ft_resources.artifacts import Artifact


def merged_card(adapter: Artifact, base: Artifact) -> str:
    """Markdown with the front matter that the Hub reads."""
    source, revision = str(base.facts["source"]), str(base.facts["revision"])
    hub = source.removeprefix("hub:") if source.startswith("hub:") else ""
    below = (
        f"the model `{base.address}` of the same store" if source.startswith(OURS) else f"`{source}` at `{revision}`"
    )
    lines = [
        "---",
        "library_name: transformers",
        "pipeline_tag: text-generation",
        *([f"base_model: {hub}"] if hub else []),
        "---",
        f"# {adapter.facts['line']}, merged",
        "",
        f"The adapter `{adapter.address}` merged into {below}: one model, in the base's dtype, that needs neither "
        "of the two. Before it was stored, its logits were compared with those of base and adapter together.",
        "",
        f"**Ungated: {NOT_JUDGED}.**"
        if adapter.address.asset == UNGATED
        else "How the adapter scored, and what it was trained on, is in its own card: `ft adapter download "
        f"{adapter.address} FOLDER`.",
        "",
        "The tokenizer and the chat template in this folder are those of training: use them, and no others.",
    ]
    return "\n".join(lines) + "\n"


def quantized_card(adapter: Artifact, merged: Artifact, *, kind: str, tool: str) -> str:
    """Markdown of a model that ``tool`` quantised as ``kind``."""
    lines = [
        f"# {adapter.facts['line']}, {kind}",
        "",
        f"The merged model `{merged.address}` of the adapter `{adapter.address}`, quantised by {tool} as {kind}.",
        "",
        f"**Ungated: {NOT_JUDGED}.**"
        if adapter.address.asset == UNGATED
        else "What it lost by that was measured before it was given out: it was evaluated on the adapter's own suites "
        "and holdout, and passed the adapter's gates again.",
        "",
        "The tokenizer and the chat template are those of training: use them, and no others.",
    ]
    return "\n".join(lines) + "\n"
