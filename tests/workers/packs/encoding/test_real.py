"""Real tokenizers over real text: the fast engines' ids, and documents', are those of Hugging Face's."""

import importlib.util
import json
import os
import random
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers

from ft_assets.workers.templates.rendering import Span
from ft_assets.workers.templates.template import ChatTemplate
from ft_assets.workers.tokenizers.choice import choose_encoder, open_encoder
from ft_assets.workers.tokenizers.encoder import Encoder
from ft_assets.workers.tokenizers.segments import Cuts
from ft_assets.workers.tokenizers.tokenizer import ChatTokenizer
from ft_resources.errors import BadBase, BadData
from tests.workers.packs.corners import corners
from tests.workers.packs.encoding.conftest import ATOMS

pytestmark = [
    pytest.mark.realdata,
]
FOLDERS = {
    "qwen2.5": "hf_tokenizers/qwen2.5",
    "gpt2": "hf_tokenizers/gpt2",
    "phi-3": "tokenizers_ort/phi-3",
    "stories260K": "stories260K-hf",
    "mistral": "",
}
ENGINES = {"qwen2.5": "compiled", "gpt2": "compiled", "phi-3": "words", "stories260K": "words", "mistral": "words"}
TRL = Path(str(importlib.util.find_spec("trl").origin)).parent / "chat_templates"  # type: ignore[union-attr]
CONVERSATION = [
    {"role": "user", "content": "  What's 多言語 in 1234 words? e\u0301 🙂\n"},
    {"role": "assistant", "content": "\nIt isn't <|im_start|> or [INST], </s> nor <|end|>.  "},
    {"role": "user", "content": "شكرا \u200b"},
    {"role": "assistant", "content": "שלום!"},
]


def _data() -> Path:
    return Path(os.environ["FT_REAL_DATA"])


@cache
def _tokenizer(name: str) -> ChatTokenizer:
    return _mistral() if name == "mistral" else ChatTokenizer.load(_data() / FOLDERS[name])


@cache
def _chosen(name: str) -> Encoder:
    choice = choose_encoder(_tokenizer(name), _texts(200))
    assert choice.engine == ENGINES[name], choice.why
    return open_encoder(_tokenizer(name), choice.engine)


def _mistral() -> ChatTokenizer:
    """Version 3, which comes as a SentencePiece model, by the rules of transformers."""
    from transformers.convert_slow_tokenizer import generate_merges
    from transformers.utils import sentencepiece_model_pb2_new as sentencepiece

    model: Any = vars(sentencepiece)["ModelProto"]()
    model.ParseFromString(next((_data() / "tokenizer_mistral").glob("*.model*")).read_bytes())
    vocabulary = {piece.piece: number for number, piece in enumerate(model.pieces)}
    scores = {piece.piece: piece.score for piece in model.pieces}
    merges = generate_merges(vocabulary, scores)
    tokenizer = Tokenizer(models.BPE(vocabulary, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    control = [piece.piece for piece in model.pieces if piece.type == 3]
    tokenizer.add_special_tokens([AddedToken(text, normalized=False) for text in ["<unk>", *control]])
    return ChatTokenizer(tokenizer, {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"})


def _texts(count: int) -> list[str]:
    lines = (_data() / "gsm8k" / "train.jsonl").read_text().splitlines()[:count]
    rows = [json.loads(line) for line in lines]
    return [text for row in rows for text in (row["question"], row["answer"])]


def _strange(count: int) -> Iterator[str]:
    generator = random.Random(7)
    for _ in range(count):
        pieces = generator.choices(ATOMS, k=generator.randint(1, 12))
        yield "".join([*pieces, chr(generator.choice([*range(0xA0, 0xD800), *range(0xE000, 0x20000)]))])


# One of each engine.
CORNERS = corners(FOLDERS, ("gpt2", "phi-3"))


@pytest.mark.parametrize("name", CORNERS)
def test_the_chosen_engine_gives_the_ids_and_marks_of_hugging_face(name: str) -> None:
    segments = [*_texts(20), *_strange(100)]
    learned: list[list[Span]] = [[(len(text) // 3, 2 * len(text) // 3)] for text in segments]
    ours = _chosen(name).encode(segments, learned)
    theirs = open_encoder(_tokenizer(name), "tokenizers").encode(segments, learned)
    assert np.array_equal(ours.ids, theirs.ids)
    assert np.array_equal(ours.offsets, theirs.offsets)
    assert np.array_equal(ours.learned, theirs.learned)


@pytest.mark.parametrize("name", CORNERS)
def test_documents_of_every_template_of_trl_have_the_ids_of_the_whole_rendering(name: str) -> None:
    tokenizer = _tokenizer(name)
    documents = tokenizer.documents(_chosen(name))
    rendered = 0
    for path in sorted(TRL.glob("*.jinja")):
        template = ChatTemplate(path.read_text(), name=path.name, variables=tokenizer.named, control=tokenizer.control)
        try:
            rendering = template.trace(CONVERSATION, where=path.name, with_turns=False)
        except (BadData, BadBase):
            continue
        rendered += 1
        cuts = Cuts()
        tokenizer.cut(cuts, rendering, [])
        found = documents.encode(cuts)
        ids = found.ids
        assert np.array_equal(found.control, np.isin(ids, list(tokenizer.control_ids)))
        if not rendering.quoted:
            assert ids.tolist() == tokenizer.tokenizer.encode(rendering.text, add_special_tokens=False).ids
    assert rendered >= 10


def test_control_tokens_that_swallow_white_space_do_so_as_in_hugging_face() -> None:
    # The real Phi-3 has rstrip on its turns' tokens; this copy's settings do not say so.
    description = json.loads(_tokenizer("phi-3").tokenizer.to_str())
    for token in description["added_tokens"]:
        token["rstrip"] = token["content"] in ("<|end|>", "<|user|>", "<|assistant|>", "<|system|>")
    tokenizer = ChatTokenizer(Tokenizer.from_str(json.dumps(description)), {"eos_token": "<|endoftext|>"})
    text = "".join(
        f"<|user|>\n{text}<|end|>\n<|assistant|>\n \n{text}<|end|>\n" for text in _strange(50) if "<|" not in text
    )
    cuts = Cuts()
    cuts.add(text, [found.span() for found in tokenizer.control.finditer(text)], tokenizer.special_ids, [])
    ids = tokenizer.documents(open_encoder(tokenizer, "tokenizers")).encode(cuts).ids
    assert ids.tolist() == tokenizer.tokenizer.encode(text, add_special_tokens=False).ids
