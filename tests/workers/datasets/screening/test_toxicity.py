"""Scores say how bad the worst part of a text is, whatever its length and whatever stands beside it."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from ft_assets.workers.datasets.screening.toxicity import classify
from ft_resources.errors import BadBase, UserError
from tests.workers.datasets.screening.conftest import make_classifier


def test_nasty_texts_score_high_and_nice_ones_low(classifier_folder: Path) -> None:
    scores = classify(["vile kind", "good kind", "foul warm", ""], classifier_folder, ("toxic",))
    assert scores.dtype == np.float32
    assert scores[0] > 0.8
    assert scores[1] < 0.2
    assert scores[2] > 0.8
    assert scores[3] == 0


def test_of_several_labels_the_highest_counts(classifier_folder: Path) -> None:
    texts = ["vile kind", "good kind"]
    assert (classify(texts, classifier_folder, ("ok", "toxic")) > 0.8).all()
    assert classify(texts, classifier_folder, ("ok",))[1] > 0.8


def test_the_end_of_a_long_text_is_seen(classifier_folder: Path) -> None:
    # 200 words in windows of 30: what stands at the very end would be lost to truncation.
    nice = "good kind warm calm " * 50
    low, high = classify([nice, f"{nice} vile vile vile vile vile vile vile vile"], classifier_folder, ("toxic",))
    assert low < 0.5 < high


def test_scores_do_not_depend_on_company_order_or_batch(classifier_folder: Path) -> None:
    texts = ["vile kind", "good " * 40, "warm", "foul calm mean", "good kind", "vile kind"]
    scores = classify(texts, classifier_folder, ("toxic",))
    assert scores[0] == scores[5]
    assert (classify(texts, classifier_folder, ("toxic",)) == scores).all()
    assert np.allclose(classify(texts[::-1], classifier_folder, ("toxic",), batch=2)[::-1], scores, atol=2e-4)
    assert np.allclose([classify([text], classifier_folder, ("toxic",))[0] for text in texts], scores, atol=2e-4)


def test_several_labels_can_hold_where_the_configuration_says_so(tmp_path: Path) -> None:
    folder = make_classifier(tmp_path / "multi", problem="multi_label_classification")
    # With both outputs pushed up both labels hold; a softmax would still share out one.
    folder = _with_weights(folder, tmp_path / "pushed", "classifier.bias", 20.0)
    assert [classify(["vile kind"], folder, (label,))[0] for label in ("ok", "toxic")] == [1, 1]


def test_an_unknown_label_is_refused(classifier_folder: Path) -> None:
    with pytest.raises(UserError, match="no label 'rude'"):
        classify(["good"], classifier_folder, ("rude",))


def test_a_score_that_is_not_a_number_is_refused(classifier_folder: Path, tmp_path: Path) -> None:
    folder = _with_weights(classifier_folder, tmp_path / "broken", "classifier.bias", np.nan)
    with pytest.raises(BadBase, match="not a number"):
        classify(["good"], folder, ("toxic",))


def test_missing_weights_are_refused_not_made_up(classifier_folder: Path, tmp_path: Path) -> None:
    folder = _with_weights(classifier_folder, tmp_path / "less", "classifier.weight", None)
    with pytest.raises(BadBase, match=r"classifier\.weight"):
        classify(["good"], folder, ("toxic",))


def _with_weights(source: Path, target: Path, name: str, value: float | None) -> Path:
    shutil.copytree(source, target)
    weights = load_file(target / "model.safetensors")
    if value is None:
        del weights[name]
    else:
        weights[name] = np.full_like(weights[name], value)
    save_file(weights, target / "model.safetensors", metadata={"format": "pt"})
    return target
