"""Architectures that Transformers loads and that are not trained here, each with its reason as a clause."""

from collections.abc import Mapping
from types import MappingProxyType

_TWO_PARTS = "it is an encoder with a decoder"
_INSIDE = "its vision part is inside the module of its text part, which cannot be trained alone"
_DRAFTS = "it is a draft model, which reads the cache of the model that it drafts for"
_SOUND = "it continues sound, several codes at each place, and no text"
UNTRIED = "it has more than a text part, and training that part alone was not tried for this architecture"

REFUSED: Mapping[str, str] = MappingProxyType(
    {
        "blt": "Transformers cannot make a cache for it, as its config has no num_hidden_layers",
        "diffusion_gemma": "it fills in whole blocks of tokens, and does not predict the next one",
        "dots3_note": UNTRIED,
        "emu3": UNTRIED,
        **dict.fromkeys(("florence2", "pix2struct", "t5gemma2", "udop", "vision-encoder-decoder"), _TWO_PARTS),
        **dict.fromkeys(("gemma4_assistant", "gemma4_unified_assistant"), _DRAFTS),
        "gemma4_unified": "its own mask makes rows without pictures look packed, so that it cannot be evaluated",
        "git": _INSIDE,
        "kosmos-2": "it takes no text without a picture",
        "moss_transcribe_diarize": UNTRIED,
        **dict.fromkeys(("musicgen", "musicgen_melody"), _SOUND),
        "paligemma": "it reads prompts in both directions, so a token sees later ones",
        "phi4_multimodal": _INSIDE,
    }
)
"""``model_type`` to the reason, for what is refused whatever else is in ``config.json``."""

_AHEAD = "its tokens see later ones"
_UNLESS = f"{_AHEAD}, unless config.json says is_decoder"
ENCODERS: Mapping[str, str] = MappingProxyType(
    {
        kind: reason
        for reason, kinds in (
            (
                _TWO_PARTS,
                "bart bigbird_pegasus blenderbot blenderbot-small marian mbart mvp pegasus plbart prophetnet whisper",
            ),
            (
                _UNLESS,
                "bert bert-generation big_bird camembert data2vec-text electra ernie megatron-bert rembert roberta "
                "roberta-prelayernorm roc_bert roformer xlm-roberta xlm-roberta-xl xmod",
            ),
            (_AHEAD, "cpmant xlm xlnet"),
        )
        for kind in kinds.split()
    }
)
"""As ``REFUSED``, for models that are found by their config, or by their losses before training."""
