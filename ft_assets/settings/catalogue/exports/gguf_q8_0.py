"""``gguf-q8_0``: llama.cpp's Q8_0."""

from ft_assets.settings.catalogue.exports.gguf import gguf

GGUF_Q8_0 = gguf("Q8_0", 8.5)
