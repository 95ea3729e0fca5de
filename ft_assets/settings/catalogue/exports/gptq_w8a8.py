"""``gptq-w8a8``: weights of linear layers in 8 bits, and what enters them too."""

from ft_assets.settings.catalogue.exports.gptq import gptq

GPTQ_W8A8 = gptq("W8A8", "in 8 bits, and what enters them", bits=8.0)
