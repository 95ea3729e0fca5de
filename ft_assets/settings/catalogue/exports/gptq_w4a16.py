"""``gptq-w4a16``: weights of linear layers in 4 bits, with a scale for each 128, by GPTQ (Frantar et al. 2022,
https://arxiv.org/abs/2210.17323)."""

from ft_assets.settings.catalogue.exports.compressed import compressed

GPTQ_W4A16 = compressed(
    "gptq-w4a16",
    "W4A16",
    "by GPTQ in 4 bits",
    bits=4.125,
    served_on="GPUs of compute capability 7.5 and above",
)
