"""What an artifact's identity holds beside inputs and settings: the versions of the code and tools that make it."""

# Raise an asset's version when its code would give other bytes for the same inputs.
CODE_VERSIONS: dict[str, str] = {
    "raw_dataset": "1",
    "dataset": "2",
    "base_model": "1",
    "baseline_report": "2",
    "token_pack": "3",
    "reference_logps": "1",
    "checkpoint": "2",
    "eval_report": "4",
    "adapter": "3",
}
# What decides a pack's tokens beside our code, as pinned in constraints.txt: an upgrade may encode or render otherwise.
# Named here and not asked of the installation, as the code location has not all of them; the worker compares.
PACK_TOOLS: dict[str, str] = {
    "jinja2": "3.1.6",
    "tiktoken": "0.14.0",
    "tokenizers": "0.23.3",
    "trl": "1.16.0",
}
