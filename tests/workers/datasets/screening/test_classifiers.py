"""Classifiers are stored once, by content, and only when they are safe and say what their outputs mean."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ft_assets.settings.keys import check_classifier_key
from ft_assets.workers.suites.classifiers import add_classifier, list_classifiers, require_labels
from ft_assets.workers.suites.registered import get_classifier
from ft_resources.artifacts import Address, Artifacts
from ft_resources.errors import BadBase, BadRecipe, UserError
from ft_resources.store import Store
from tests.fake_hub import FakeHub


@pytest.fixture
def changed(classifier_folder: Path, tmp_path: Path) -> Callable[..., Path]:
    """A copy of the classifier with other values in its config.json."""

    def change(**values: Any) -> Path:
        folder = tmp_path / f"changed-{len(list(tmp_path.iterdir()))}"
        shutil.copytree(classifier_folder, folder)
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps({**config, **values}))
        return folder

    return change


def test_a_folder_becomes_a_shared_artifact_with_a_name(store: Store, classifier_folder: Path) -> None:
    added = add_classifier(store, str(classifier_folder), "toxic.v1", actor="tester")
    assert added.created
    assert added.labels == ("ok", "toxic")
    assert get_classifier(store, "toxic.v1") == added.ref
    assert list_classifiers(store) == ["toxic.v1"]
    artifact = Artifacts(store).get(Address.parse(added.ref.address))
    assert artifact.address.tenant == "shared"
    assert artifact.facts["labels"] == ["ok", "toxic"]
    assert artifact.verify() == []


def test_the_same_again_changes_nothing_and_other_content_needs_another_version(
    store: Store, classifier_folder: Path, changed: Callable[..., Path]
) -> None:
    first = add_classifier(store, str(classifier_folder), "toxic.v1", actor="tester")
    again = add_classifier(store, str(classifier_folder), "toxic.v1", actor="another")
    assert not again.created
    assert again.ref == first.ref
    with pytest.raises(BadRecipe, match=r"(?s)registered with other content.*toxic\.v2"):
        add_classifier(store, str(changed(layer_norm_eps=1e-6)), "toxic.v1", actor="tester")


def test_a_hub_model_is_taken_without_its_pickles(store: Store, classifier_folder: Path) -> None:
    folder = classifier_folder.parent / "with-pickle"
    shutil.copytree(classifier_folder, folder, dirs_exist_ok=True)
    (folder / "pytorch_model.bin").write_bytes(b"\x80\x04")
    hub = FakeHub()
    hub.commit("org/toxic", folder)
    added = add_classifier(store, "hub:org/toxic@main", "toxic.v1", actor="tester", hub=hub)
    local = add_classifier(store, str(classifier_folder), "same.v1", actor="tester")
    assert added.ref == local.ref
    assert "pytorch_model.bin" not in hub.downloads


class _LyingHub(FakeHub):
    """Serves other weights than it lists."""

    def download(self, repo: str, commit: str, name: str, target: Path) -> None:
        super().download(repo, commit, name, target)
        if name == "model.safetensors":
            target.write_bytes(target.read_bytes()[:-1] + b"x")


def test_a_hub_file_that_is_not_what_is_listed_is_refused(store: Store, classifier_folder: Path) -> None:
    hub = _LyingHub()
    hub.commit("org/toxic", classifier_folder)
    with pytest.raises(BadBase, match="not the file that the Hub lists"):
        add_classifier(store, "hub:org/toxic@main", "toxic.v1", actor="tester", hub=hub)
    assert list_classifiers(store) == []


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"architectures": ["BertForMaskedLM"]}, "BertForMaskedLM is not a text classifier"),
        ({"id2label": None}, "does not name the labels"),
        ({"id2label": {"0": "ok", "1": "ok"}}, "does not name the labels"),
        ({"id2label": {"0": "ok", "2": "toxic"}}, "does not name the labels"),
        ({"id2label": {"0": "toxic"}}, "a number, not labels"),
        ({"problem_type": "regression"}, "a number, not labels"),
        ({"auto_map": {"AutoModel": "code.Model"}}, "custom code"),
    ],
)
def test_what_is_no_classifier_is_refused_and_leaves_nothing(
    store: Store, changed: Callable[..., Path], values: dict[str, Any], problem: str
) -> None:
    with pytest.raises(BadBase, match=problem):
        add_classifier(store, str(changed(**values)), "toxic.v1", actor="tester")
    assert list_classifiers(store) == []
    assert list(store.entries("shared")) == []


def test_pickles_are_refused(store: Store, changed: Callable[..., Path]) -> None:
    folder = changed()
    (folder / "pytorch_model.bin").write_bytes(b"\x80\x04")
    with pytest.raises(BadBase, match="pickle"):
        add_classifier(store, str(folder), "toxic.v1", actor="tester")


def test_an_unknown_classifier_is_answered_with_the_nearest(store: Store, classifier_folder: Path) -> None:
    add_classifier(store, str(classifier_folder), "toxic.v1", actor="tester")
    with pytest.raises(UserError, match=r"did you mean 'toxic\.v1'"):
        get_classifier(store, "toxik.v1")


@pytest.mark.parametrize("key", ["toxic", "toxic.v0", "toxic.v", "Toxic.v1", "a.b.v1", "../x.v1", "toxic.v1.v", ".v1"])
def test_a_malformed_key_is_refused(key: str) -> None:
    with pytest.raises(UserError):
        check_classifier_key(key)


def test_a_label_that_the_model_lacks_is_answered_with_the_nearest() -> None:
    require_labels(("ok", "toxic"), ("toxic",), "policy")
    with pytest.raises(UserError, match="did you mean 'toxic'"):
        require_labels(("ok", "toxic"), ("toxik",), "policy")


def test_the_command_adds_and_lists(store: Store, classifier_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ft_assets.cli import classifier

    monkeypatch.setenv("FT_STORE", store.url)
    added = CliRunner().invoke(classifier.app, ["add", str(classifier_folder), "toxic.v1"])
    assert added.exit_code == 0, added.output
    assert added.stdout == "toxic.v1\n"
    listed = CliRunner().invoke(classifier.app, ["list"])
    assert "ok, toxic" in listed.output
