"""The base's own chat template, and the names that moved to ``packs/encoding``."""

from pathlib import Path

from ft_assets.packs.encoding.tokenizer import TOKENIZER_FILES, ChatTokenizer, Tokens, tokenizer_settings
from ft_assets.packs.template import ChatTemplate
from ft_resources.errors import BadBase

__all__ = ["TOKENIZER_FILES", "ChatTokenizer", "Tokens", "base_template", "load_template"]


def load_template(folder: Path, tokenizer: ChatTokenizer, override: str | None) -> ChatTemplate:
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


def base_template(folder: Path, tokenizer: ChatTokenizer) -> ChatTemplate | None:
    """The base's own template, or None where it has none."""
    return load_template(folder, tokenizer, None) if _template_source(folder) is not None else None


def _template_source(folder: Path) -> str | None:
    """A file of its own goes before the settings, where several templates may be named; ``default`` is for chats."""
    path = folder / "chat_template.jinja"
    if path.exists():
        return path.read_text(encoding="utf-8")
    template = tokenizer_settings(folder).get("chat_template")
    if isinstance(template, list):
        template = {item["name"]: item["template"] for item in template}.get("default")
    return template if isinstance(template, str) else None
