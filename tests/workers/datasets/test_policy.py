"""dataset.yaml: strict, described, and helpful about mistakes."""

from pathlib import Path

import pytest

from ft_assets.settings.dataset.policy import DatasetPolicy, SplitSettings, load_policy, policy_of
from ft_assets.settings.schema import json_schema
from ft_resources.errors import BadRecipe


def test_an_empty_file_is_the_default_policy() -> None:
    assert load_policy("# nothing yet\n", "dataset.yaml") == DatasetPolicy()


def test_every_setting_can_be_written() -> None:
    text = """
    on_bad_row: drop
    max_dropped_share: 0.1
    split: {group_by: source, validation: 0.05, holdout: 0.2, seed: 7}
    """
    assert load_policy(text, "dataset.yaml") == DatasetPolicy(
        on_bad_row="drop",
        max_dropped_share=0.1,
        split=SplitSettings(group_by="source", validation=0.05, holdout=0.2, seed=7),
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("on_bad_rows: drop", "dataset.yaml: on_bad_rows: unknown key; did you mean 'on_bad_row'?"),
        ("split: {hold_out: 0.1}", "dataset.yaml: split.hold_out: unknown key; did you mean 'holdout'?"),
        (
            "min_examples: 5",
            "dataset.yaml: min_examples: unknown key; known here: balance, contamination, duplicates, fields, "
            "form, generated_by, labels, max_dropped_share, mix, on_bad_row, personal_data, quality, source, split, "
            "text, toxicity, turns",
        ),
        ("on_bad_row: ignore", "dataset.yaml: on_bad_row: should be 'reject' or 'drop', not \"ignore\""),
        ("split: {holdout: 0}", "dataset.yaml: split.holdout: should be more than 0, not 0"),
        ("split: {seed: '1'}", 'dataset.yaml: split.seed: should be a whole number, not "1"'),
        (
            "split: {holdout: 0.5, validation: 0.4}",
            "dataset.yaml: split: validation and holdout together take more than 0.8 and leave too little to train on",
        ),
        (
            "split: {seed: 1, seed: 2}",
            "dataset.yaml, line 1, column 18: duplicate key 'seed'; it is already on line 1",
        ),
    ],
)
def test_mistakes_are_named_by_field_with_the_nearest_known_key(text: str, message: str) -> None:
    with pytest.raises(BadRecipe) as error:
        load_policy(text, "dataset.yaml")
    assert str(error.value).splitlines()[0] == message


def test_every_setting_is_described() -> None:
    for model in (DatasetPolicy, SplitSettings):
        assert all(field.description for field in model.model_fields.values())


def test_a_policy_survives_json() -> None:
    policy = DatasetPolicy(split=SplitSettings(group_by="source", holdout=0.25))
    assert policy_of(policy.model_dump(mode="json")) == policy


def test_the_committed_schema_is_current() -> None:
    committed = Path(__file__).parents[3] / "docs" / "dataset.schema.json"
    assert committed.read_text() == json_schema("dataset"), (
        "run: python -m ft_assets.settings.schema dataset > docs/dataset.schema.json"
    )
