"""Texts of one meaning have one direction, however long they are and whatever stands beside them."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from ft_assets.workers.datasets.screening.encoding import Encoder
from ft_assets.workers.suites.encoders import add_encoder
from ft_assets.workers.suites.registered import get_encoder
from ft_resources.artifacts import Address, Artifacts
from ft_resources.errors import BadBase
from ft_resources.store import Store
from tests.workers.datasets.screening.conftest import CONTEXT, make_encoder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_encoder(tmp_path_factory.mktemp("encoder"))


def test_other_words_of_the_same_meaning_are_near_and_others_are_not(folder: Path) -> None:
    vectors, owners = Encoder(folder, "mean").encode(
        ["which organ makes insulin", "what gland produces insulin", "who wrote hamlet"]
    )
    assert owners.tolist() == [0, 1, 2]
    near = vectors @ vectors.T
    assert near[0, 1] > 0.99
    assert near[0, 2] < 0.6
    assert np.allclose(np.diagonal(near), 1)


def test_vectors_do_not_depend_on_company_order_or_batch(folder: Path) -> None:
    texts = ["which organ makes insulin", "who", "wrote " * 20, "", "hamlet who wrote"]
    vectors, owners = Encoder(folder, "mean").encode(texts)
    assert owners.tolist() == [0, 1, 2, 4]
    alone = np.concatenate([Encoder(folder, "mean", batch=1).encode([text])[0] for text in texts if text])
    assert np.allclose(vectors, alone, atol=1e-5)


def test_a_long_text_has_several_vectors_so_that_its_end_is_seen(folder: Path) -> None:
    encoder = Encoder(folder, "mean")
    long, owners = encoder.encode(["who wrote hamlet " * CONTEXT + "which organ makes insulin " * 6])
    asked, _ = encoder.encode(["which organ makes insulin"])
    assert len(owners) > 2
    assert set(owners.tolist()) == {0}
    assert (long @ asked[0]).argmax() == len(long) - 1


def test_the_first_token_alone_may_be_the_vector(folder: Path) -> None:
    vectors, _ = Encoder(folder, "cls").encode(["which organ", "who wrote"])
    # Without layers the first token knows nothing of the others.
    assert np.allclose(vectors[0], vectors[1])


def test_missing_weights_are_refused_not_made_up(folder: Path, tmp_path: Path) -> None:
    from safetensors.numpy import load_file, save_file

    shutil.copytree(folder, tmp_path / "less")
    weights = load_file(tmp_path / "less" / "model.safetensors")
    del weights["embeddings.word_embeddings.weight"]
    save_file(weights, tmp_path / "less" / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(BadBase, match="word_embeddings"):
        Encoder(tmp_path / "less", "mean").encode(["who"])


@pytest.mark.parametrize(
    ("written", "pooling"), [("pooling_mode_cls_token", "cls"), ("pooling_mode_mean_tokens", "mean")]
)
def test_a_folder_of_sentence_transformers_says_its_pooling(
    store: Store, folder: Path, tmp_path: Path, written: str, pooling: str
) -> None:
    shutil.copytree(folder, tmp_path / "own")
    (tmp_path / "own" / "1_Pooling").mkdir()
    (tmp_path / "own" / "1_Pooling" / "config.json").write_text(
        json.dumps({"word_embedding_dimension": 32, written: True})
    )
    added = add_encoder(store, str(tmp_path / "own"), "tiny.v1", pooling=None, actor="ann")
    assert (added.created, added.pooling) == (True, pooling)
    assert get_encoder(store, "tiny.v1") == added.ref
    assert Artifacts(store).get(Address.parse(added.ref.address)).facts["pooling"] == pooling


@pytest.mark.parametrize("settings", [{"pooling_mode_max_tokens": True}, {}])
def test_a_pooling_that_is_not_known_is_refused(store: Store, folder: Path, tmp_path: Path, settings: dict) -> None:
    shutil.copytree(folder, tmp_path / "own")
    (tmp_path / "own" / "1_Pooling").mkdir()
    (tmp_path / "own" / "1_Pooling" / "config.json").write_text(json.dumps(settings))
    with pytest.raises(BadBase, match="its pooling"):
        add_encoder(store, str(tmp_path / "own"), "tiny.v1", pooling=None, actor="ann")
    assert add_encoder(store, str(tmp_path / "own"), "tiny.v1", pooling="mean", actor="ann").pooling == "mean"
