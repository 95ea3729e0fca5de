"""A tokenizer for public templates, and the day that packs print."""

import datetime as dt

import pytest
from transformers.utils import chat_template_utils

from ft_assets.workers.tokenizers.tokenizer import ChatTokenizer
from tests.workers.packs.templates.templates import make_tokenizer


@pytest.fixture(scope="session")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> ChatTokenizer:
    """Knows the control tokens of public templates; no test changes it."""
    return make_tokenizer(tmp_path_factory.mktemp("public"))


@pytest.fixture
def same_day(monkeypatch: pytest.MonkeyPatch) -> None:
    """transformers prints today's date; here it is the one that packs print."""

    class Then(dt.datetime):
        @classmethod
        def now(cls, tz: dt.tzinfo | None = None) -> dt.datetime:
            return dt.datetime(2024, 7, 26)

    monkeypatch.setattr(chat_template_utils, "datetime", Then)
