"""``awq-w4a16``: weights of linear layers in 4 bits, with a scale for each 128, by AWQ (Lin et al. 2023,
https://arxiv.org/abs/2306.00978).

Symmetric, without zero points: Transformers does not load llm-compressor's packed zero points.
"""

from ft_assets.settings.catalogue.exports.compressed import compressed

AWQ_W4A16 = compressed(
    "awq-w4a16",
    "W4A16",
    "by AWQ in 4 bits",
    bits=4.125,
    served_on="GPUs of compute capability 7.5 and above",
    method="AWQ",
)
