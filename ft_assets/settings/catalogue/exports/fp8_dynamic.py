"""``fp8-dynamic``: weights of linear layers in 8-bit floats, with a scale for each output, and what enters them too,
with a scale for each token."""

from ft_assets.settings.catalogue.exports.compressed import compressed

FP8_DYNAMIC = compressed(
    "fp8-dynamic",
    "FP8_DYNAMIC",
    "in 8-bit floats, and what enters them",
    bits=8.0,
    served_on="GPUs of compute capability 8.9 and above (from 7.5 on with weights in 8 bits only)",
    method="rounding",
)
