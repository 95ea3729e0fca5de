"""Which folders may become name models: spaCy's own parts, no code, no pickles. Judged without spaCy."""

import pickle
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from ft_assets.workers.suites.name_models import add_name_model
from ft_resources.artifacts import Address, Artifacts
from ft_resources.errors import BadBase, BadRecipe
from ft_resources.store import Store
from tests.workers.suites.name_folder import CONFIG, KEPT, LISTENED, write_name_folder


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., Path]:
    return partial(write_name_folder, tmp_path / "model")


def test_only_what_finds_names_is_kept_with_a_configuration_of_that(store: Store, make: Callable[..., Path]) -> None:
    folder = make()
    (folder / "code.py").write_text("import os")
    (folder / "tagger" / "model").write_bytes(pickle.dumps(print))
    added = add_name_model(store, folder, "tiny.v1", actor="ann")
    assert (added.language, added.entities, added.created) == ("de", ("LOCATION", "PERSON"), True)
    artifact = Artifacts(store).get(Address.parse(added.ref.address))
    assert set(artifact.manifest.files) == {"config.cfg", "meta.json", *KEPT, *LISTENED}
    config = artifact.path("config.cfg", folder.parent).read_text()
    assert 'pipeline = ["tok2vec", "ner"]' in config
    assert "width = 96" in config.split("[components.ner.model.tok2vec]")[1]
    assert not any(word in config for word in ("$", "tagger", "weights"))


def test_a_key_keeps_its_model(store: Store, make: Callable[..., Path]) -> None:
    first = add_name_model(store, make(), "tiny.v1", actor="ann")
    assert not add_name_model(store, make(), "tiny.v1", actor="bob").created
    with pytest.raises(BadRecipe, match=r"name model tiny\.v1 is already registered"):
        add_name_model(store, make(CONFIG.replace("96", "64")), "tiny.v1", actor="ann")
    assert add_name_model(store, make(CONFIG.replace("96", "64")), "tiny.v2", actor="ann").ref != first.ref


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('factory = "tagger"', 'factory = "my_company_tagger"', "made by 'my_company_tagger'"),
        ('factory = "ner"', 'factory = "llm"', "made by 'llm'"),
        ('factory = "ner"', 'source = "en_core_web_sm"', "made by None"),
        ("spacy.TransitionBasedParser.v2", "my_package.Parser.v1", r"calls 'my_package\.Parser\.v1'"),
        ("spacy.TransitionBasedParser.v2", "spacy.TorchBiLSTMEncoder.v1", "TorchBiLSTMEncoder"),
        ("before_creation = null", 'before_creation = {"@callbacks":"mine"}', "calls .*mine"),
        ("before_creation = null", "before_creation = ${training.logger}", "weights-and-biases"),
        ("spacy.Tokenizer.v1", "spacy.ja.JapaneseTokenizer", "JapaneseTokenizer"),
        ("${components.tok2vec.model.width}", "${training}", r"calls '\$\{training\}'"),
        ("${components.tok2vec.model.width}", '{"a":[{"@misc":"mine"}]}', "mine"),
        ('lang = "de"', 'lang = "os.path"', "not a language"),
        ("disabled = []", 'disabled = ["ner"]', "no active ner"),
        ("[nlp]", "nlp", "not a configuration of spaCy"),
    ],
)
def test_a_model_that_needs_more_than_spacy_is_refused(
    store: Store, make: Callable[..., Path], old: str, new: str, said: str
) -> None:
    assert old in CONFIG
    with pytest.raises(BadBase, match=said):
        add_name_model(store, make(CONFIG.replace(old, new)), "tiny.v1", actor="ann")


def test_a_model_without_names_is_refused_with_its_labels(store: Store, make: Callable[..., Path]) -> None:
    with pytest.raises(BadBase, match="its labels are DRUG, DOSE"):
        add_name_model(store, make(labels=("DRUG", "DOSE")), "tiny.v1", actor="ann")


@pytest.mark.parametrize("name", ["config.cfg", "meta.json", "ner/model", "tok2vec/model", "vocab/strings.json"])
def test_a_missing_file_and_a_link_are_refused_by_name(store: Store, make: Callable[..., Path], name: str) -> None:
    folder = make()
    (folder / name).rename(folder / "aside")
    with pytest.raises(BadBase, match=f"{name} is missing"):
        add_name_model(store, folder, "tiny.v1", actor="ann")
    (folder / name).symlink_to(folder / "aside")
    with pytest.raises(BadBase, match=f"{name} is a symbolic link"):
        add_name_model(store, folder, "tiny.v1", actor="ann")
