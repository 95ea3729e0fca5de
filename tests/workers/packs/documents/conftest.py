"""The base whose tokenizer and template write documents."""

from pathlib import Path

import pytest

from tests.fake_base import make_fake_base


@pytest.fixture(scope="session")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_fake_base(tmp_path_factory.mktemp("base"))
