"""Versions of the code and tools that make an artifact: part of its identity, besides inputs and settings."""

from ft_assets.settings.catalogue.exports import EXPORTS

# Raise an asset's version if its code now gives other bytes for the same inputs.
CODE_VERSIONS: dict[str, str] = {
    "raw_dataset": "1",
    "dataset": "14",
    "base_model": "1",
    "baseline_report": "6",
    "token_pack": "8",
    "reference_logps": "2",
    "checkpoint": "5",
    "eval_report": "8",
    "adapter": "5",
    "ungated": "2",
    **{each.asset: each.code_version for each in EXPORTS.values()},
}
# Of the prompt that judges read (``evals/preferences/prompt.py``): a report by another one is made again.
JUDGE_PROMPT = "pairwise.2"
# Packages that decide a pack's tokens, as pinned in constraints.txt: an upgrade may encode or render differently.
# Listed here, since the code location does not have all of them installed; the worker compares.
PACK_TOOLS: dict[str, str] = {
    "jinja2": "3.1.6",
    "tiktoken": "0.14.0",
    "tokenizers": "0.23.3",
    "trl": "1.16.0",
}
