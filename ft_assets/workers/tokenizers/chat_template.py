"""The template a base is packed with: the recipe's, the base's own, or TRL's training variant of it."""

import importlib.util
from collections.abc import Iterator
from pathlib import Path

from ft_assets.workers.templates.source import own_template
from ft_assets.workers.templates.template import ChatTemplate
from ft_assets.workers.tokenizers.tokenizer import ChatTokenizer
from ft_resources.errors import BadBase


def load_template(folder: Path, tokenizer: ChatTokenizer, override: str | None) -> ChatTemplate:
    """The recipe's template if it names one, else the base's. Raises BadBase if there is neither."""
    source = override if override is not None else own_template(folder)
    if source is None:
        raise BadBase(
            "the base has no chat template",
            where="tokenizer_config.json",
            remedy="Name a Jinja file in the recipe's chat_template, or take an instruction-tuned base.",
        )
    name = "the recipe's chat_template" if override is not None else "the base's chat template"
    return ChatTemplate(source, name=name, variables=tokenizer.named, control=tokenizer.control)


def base_template(folder: Path, tokenizer: ChatTokenizer) -> ChatTemplate | None:
    """The base's own template, or None if it has none."""
    return load_template(folder, tokenizer, None) if own_template(folder) is not None else None


def training_variant(template: ChatTemplate) -> ChatTemplate | None:
    """TRL's template with ``{% generation %}`` marks for exactly this text, or None.

    A variant may render other text (some keep the reasoning of earlier turns that the original drops), so the caller
    must compare; ``Tracer`` does.
    """
    if template.marked:
        return None
    for original, variant in _shipped():
        if original.read_text(encoding="utf-8") == template.source:
            source = variant.read_text(encoding="utf-8")
            return ChatTemplate(source, name=template.name, variables=template.variables, control=template.control)
    return None


def _shipped() -> Iterator[tuple[Path, Path]]:
    """TRL's files of templates and their training variants, found without importing it."""
    trl = importlib.util.find_spec("trl")
    if trl is None or trl.origin is None:
        return
    for variant in sorted((Path(trl.origin).parent / "chat_templates").glob("*_training.jinja")):
        original = variant.with_name(variant.name.replace("_training", ""))
        if original.exists():
            yield original, variant
