"""``gptq-w4a16``: weights of linear layers in 4 bits, with a scale for each 128."""

from ft_assets.settings.catalogue.exports.gptq import gptq

GPTQ_W4A16 = gptq("W4A16", "in 4 bits", bits=4.125)
