"""Which template a base is packed with: the recipe's, the base's own, or the training variant that TRL ships of it."""

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ft_assets.packs.templates.template import ChatTemplate
from ft_resources.errors import BadBase

if TYPE_CHECKING:
    from ft_assets.packs.encoding.tokenizer import ChatTokenizer


def load_template(folder: Path, tokenizer: "ChatTokenizer", override: str | None) -> ChatTemplate:
    """The recipe's template where it names one, else the base's. Raises BadBase where there is neither."""
    source = override if override is not None else _template_source(folder)
    if source is None:
        raise BadBase(
            "the base has no chat template",
            where="tokenizer_config.json",
            remedy="Name a Jinja file in the recipe's chat_template, or take an instruction-tuned base.",
        )
    name = "the recipe's chat_template" if override is not None else "the base's chat template"
    return ChatTemplate(source, name=name, variables=tokenizer.named, control=tokenizer.control)


def base_template(folder: Path, tokenizer: "ChatTokenizer") -> ChatTemplate | None:
    """The base's own template, or None where it has none."""
    return load_template(folder, tokenizer, None) if _template_source(folder) is not None else None


def training_variant(template: ChatTemplate) -> ChatTemplate | None:
    """TRL's template with ``{% generation %}`` marks for exactly this text, or None.

    A variant may render other text (some keep the reasoning of earlier turns that the original drops), so whoever
    uses it compares; ``Tracer`` does.
    """
    if template.marked:
        return None
    for original, variant in _shipped():
        if original.read_text(encoding="utf-8") == template.source:
            source = variant.read_text(encoding="utf-8")
            return ChatTemplate(source, name=template.name, variables=template.variables, control=template.control)
    return None


def _shipped() -> Iterator[tuple[Path, Path]]:
    """Files of templates and their training variants inside TRL, found without importing it."""
    trl = importlib.util.find_spec("trl")
    if trl is None or trl.origin is None:
        return
    for variant in sorted((Path(trl.origin).parent / "chat_templates").glob("*_training.jinja")):
        original = variant.with_name(variant.name.replace("_training", ""))
        if original.exists():
            yield original, variant


def _template_source(folder: Path) -> str | None:
    """A file of its own goes before the settings, where several templates may be named; ``default`` is for chats."""
    from ft_assets.packs.encoding.tokenizer import tokenizer_settings

    path = folder / "chat_template.jinja"
    if path.exists():
        return path.read_text(encoding="utf-8")
    template = tokenizer_settings(folder).get("chat_template")
    if isinstance(template, list):
        template = {item["name"]: item["template"] for item in template}.get("default")
    return template if isinstance(template, str) else None
