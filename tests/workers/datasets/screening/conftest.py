"""A tiny text classifier that has learned to tell nasty words from nice ones."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

NICE, NASTY = ("good", "kind", "warm", "calm", "fair", "bright"), ("vile", "nasty", "foul", "cruel", "rotten", "mean")
CONTEXT = 32


@pytest.fixture(scope="session")
def classifier_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A one-layer BERT with labels ok and toxic, trained for a moment; 32 tokens at once."""
    return make_classifier(tmp_path_factory.mktemp("classifier"))


def make_classifier(folder: Path, *, problem: str | None = None) -> Path:
    import torch
    from transformers import BertConfig, BertForSequenceClassification

    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *NICE, *NASTY]
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(words),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=CONTEXT,
        id2label={0: "ok", 1: "toxic"},
        label2id={"ok": 0, "toxic": 1},
        problem_type=problem,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    model = BertForSequenceClassification(config)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    generator = torch.Generator().manual_seed(0)
    for step in range(60):
        # 64 texts of one length, half of them with a nasty word somewhere.
        length = (1, 2, 4, 30)[step % 4]
        ids = torch.randint(4, 4 + len(NICE), (64, length), generator=generator)
        at = torch.randint(0, length, (32,), generator=generator)
        ids[torch.arange(32), at] = torch.randint(4 + len(NICE), len(words), (32,), generator=generator)
        ids = torch.cat([torch.full((64, 1), 2), ids, torch.full((64, 1), 3)], dim=1)
        wanted = (torch.arange(64) < 32).long()
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(input_ids=ids).logits, wanted).backward()
        optimizer.step()
    model.save_pretrained(folder)
    return _with_tokenizer(folder, words)


# Words of one row mean the same.
MEANINGS = (
    ("which", "what"),
    ("organ", "gland"),
    ("makes", "produces", "secretes"),
    ("insulin",),
    ("who",),
    ("wrote", "penned"),
    ("hamlet",),
)


def make_encoder(folder: Path, meanings: Sequence[tuple[str, ...]] = MEANINGS) -> Path:
    """A BERT without layers, in which words of the same meaning have the same vector; ``CONTEXT`` tokens at once."""
    import torch
    from transformers import BertConfig, BertModel

    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *(word for meaning in meanings for word in meaning)]
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(words), hidden_size=32, num_hidden_layers=0, num_attention_heads=2, intermediate_size=32,
        max_position_embeddings=CONTEXT, hidden_dropout_prob=0.0,
    )  # fmt: skip
    model = BertModel(config)
    weights = model.embeddings.word_embeddings.weight.data
    weights.normal_()
    model.embeddings.position_embeddings.weight.data.zero_()
    first = 4
    for meaning in meanings:
        weights[first : first + len(meaning)] = weights[first].clone()
        first += len(meaning)
    model.save_pretrained(folder)
    return _with_tokenizer(folder, words)


def _with_tokenizer(folder: Path, words: Sequence[str]) -> Path:
    """``folder`` with a tokenizer that knows ``words``; the first four are special."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    tokenizer = Tokenizer(models.WordLevel({word: index for index, word in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "pad_token": "[PAD]", "unk_token": "[UNK]"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return folder
