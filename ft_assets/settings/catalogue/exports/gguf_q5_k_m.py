"""``gguf-q5_k_m``: llama.cpp's Q5_K_M."""

from ft_assets.settings.catalogue.exports.gguf import gguf

GGUF_Q5_K_M = gguf("Q5_K_M", 5.7)
