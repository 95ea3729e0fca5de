"""``gptq-w8a8``: weights of linear layers in 8 bits, and what enters them too, by GPTQ (Frantar et al. 2022,
https://arxiv.org/abs/2210.17323)."""

from ft_assets.settings.catalogue.exports.compressed import compressed

GPTQ_W8A8 = compressed(
    "gptq-w8a8",
    "W8A8",
    "by GPTQ in 8 bits, and what enters them",
    bits=8.0,
    served_on="GPUs of compute capability 7.5 and above",
)
