"""``gguf-q4_k_m``: llama.cpp's Q4_K_M."""

from ft_assets.settings.catalogue.exports.gguf import gguf

GGUF_Q4_K_M = gguf("Q4_K_M", 4.9)
