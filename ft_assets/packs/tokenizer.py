"""Names that moved to ``packs/encoding`` and ``packs/variants``."""

from ft_assets.packs.encoding.tokenizer import TOKENIZER_FILES, ChatTokenizer, Tokens
from ft_assets.packs.variants import base_template, load_template

__all__ = ["TOKENIZER_FILES", "ChatTokenizer", "Tokens", "base_template", "load_template"]
