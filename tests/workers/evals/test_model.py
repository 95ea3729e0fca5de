"""A model is loaded for evaluation with the ids it was trained on."""

from pathlib import Path

from transformers import AutoTokenizer

from ft_assets.workers.evals.model import load_model
from ft_assets.workers.tokenizers.tokenizer import ChatTokenizer
from tests.workers.base_models.made import rebuilt_base

TEXT = "<|user|>\nthe hat<|end|> a\u200b🙂"


def test_suites_are_read_with_the_ids_of_packs_also_where_transformers_class_gives_others(tmp_path: Path) -> None:
    folder = rebuilt_base(tmp_path / "base")
    ids = ChatTokenizer.load(folder).tokenizer.encode(TEXT).ids
    assert AutoTokenizer.from_pretrained(folder)(TEXT)["input_ids"] != ids
    assert load_model(folder).tokenizer(TEXT)["input_ids"] == ids
