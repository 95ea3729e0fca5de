import json
from contextlib import suppress
from typing import Annotated, Literal

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field

from ft_assets.settings.recipe.foreign_names import FOREIGN_NAMES
from ft_assets.settings.recipe.recipe import Recipe
from ft_resources.errors import BadRecipe
from ft_resources.strict import MAX_BYTES, parse_strict, parse_yaml
from ft_resources.strict_model import StrictModel


class Inner(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    learning_rate: float | None = Field(None, ge=0)
    names: list[str] = []


class Outer(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    key: str
    training: Inner = Inner()
    choice: int | Inner = 1
    by_name: dict[str, Inner] = {}


def problem(text: str) -> str:
    with pytest.raises(BadRecipe) as caught:
        parse_yaml(text, "r.yaml")
    return str(caught.value)


def complaint(value: object) -> str:
    with pytest.raises(BadRecipe) as caught:
        parse_strict(Outer, value, "r.yaml")
    assert caught.value.where == "r.yaml"
    assert caught.value.remedy
    return caught.value.what


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a: 2e-4", 2e-4),
        ("a: 1e5", 1e5),
        ("a: -1.5", -1.5),
        ("a: 12", 12),
        ("a: no", "no"),
        ("a: on", "on"),
        ("a: 2026-01-01", "2026-01-01"),
        ("a: 010", "010"),
        ("a: 1:30", "1:30"),
        ("a: true", True),
        ("a:", None),
        ("a: ~", None),
        ("a: 'null'", "null"),
        ("a: .nan", ".nan"),
        ("a: [1, {b: x}]", [1, {"b": "x"}]),
    ],
)
def test_plain_values_mean_what_they_look_like(text: str, value: object) -> None:
    assert parse_yaml(text, "r.yaml") == {"a": value}


@pytest.mark.parametrize(
    ("text", "place", "what"),
    [
        ("a: 1\nb: 2\na: 3", "line 3, column 1", "already on line 1"),
        ("a: {b: 1, b: 2}", "line 1, column 11", "duplicate key 'b'"),
        ("a: &x [1]\nb: *x", "line 2, column 4", "aliases"),
        ("a: !!python/object/apply:os.system [ls]", "line 1, column 4", "tags"),
        ("a: !function utils.f", "line 1, column 4", "tags"),
        ("1: x", "line 1, column 1", "keys must be text"),
        ("a: [1", "line 2, column", "expected"),
        ("a: b: c", "line 1, column 5", "not allowed"),
        ("a: 1\n---\nb: 1", "line 2", "document"),
        ("[" * 100, "line 1, column 33", "deeper than 32"),
        ("a: 1e999", "line 1, column 4", "too large"),
        ("a: " + "9" * 10_000, "line 1, column 4", "too long"),
        ('a: "\\ud800"', "line 1, column 7", "invalid Unicode character escape"),
        ("a: \x00", "r.yaml", "not valid YAML"),
        ("a: \ud800", "line 1", "surrogate"),
        ("a: " + "x" * MAX_BYTES, "r.yaml", "larger than 256 KiB"),
        ("a: [" + "1," * 5_000 + "]", "line 1, column 9", "more than 5,000 keys and values"),
        ("".join(f"k{n}: v\n" for n in range(2_500)), "line 2500, column 8", "more than 5,000 keys and values"),
        ("- - - -\n" * 2_000, "line", "more than 5,000 keys and values"),
    ],
)
def test_bad_yaml_is_refused_with_its_place(text: str, place: str, what: str) -> None:
    message = problem(text)
    assert place in message
    assert what in message


def test_an_alias_bomb_is_refused_before_it_grows() -> None:
    lines = ["a0: &a0 [x]"] + [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    assert "aliases" in problem("\n".join(lines))


# json.dumps escapes what lies beyond the basic plane as two surrogates, which YAML (unlike JSON) does not join.
# Its keys have at most 1024 characters as written, six for each of these.
texts = st.text(st.characters(max_codepoint=0xFFFF, exclude_categories=["Cs"]), max_size=40)
numbers = st.integers(-(2**60), 2**60) | st.floats(allow_nan=False, allow_infinity=False)
json_values = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda children: st.lists(children, max_size=4) | st.dictionaries(texts, children, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(texts, json_values, max_size=4))
def test_json_is_read_as_itself(value: dict[str, object]) -> None:
    assert parse_yaml(json.dumps(value), "r.yaml") == value


@given(st.text(max_size=60))
def test_any_text_gives_a_value_or_a_user_error(text: str) -> None:
    with suppress(BadRecipe):
        parse_yaml(text, "r.yaml")


@given(json_values)
def test_any_value_gives_a_model_or_one_user_error(value: object) -> None:
    with suppress(BadRecipe):
        parse_strict(Outer, value, "r.yaml")


def test_an_unknown_key_comes_with_the_nearest_known_one_or_all_also_in_mappings_and_unions() -> None:
    assert complaint({"key": "x", "training": {"learning_rat": 1}}) == (
        "training.learning_rat: unknown key; did you mean 'learning_rate'?"
    )
    assert complaint({"key": "x", "training": {"zzz": 1}}) == (
        "training.zzz: unknown key; known here: learning_rate, names"
    )
    assert "did you mean 'names'?" in complaint({"key": "x", "by_name": {"one": {"name": []}}})
    assert "choice.nams: unknown key; did you mean 'names'?" in complaint({"key": "x", "choice": {"nams": []}})


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ({"training": {"lr": 1e-4}}, "training.learning_rate"),
        ({"learning_rate": 1e-4}, "training.learning_rate"),
        ({"training": {"num_train_epochs": 3}}, "training.epochs"),
        ({"training": {"batch_size": 8}}, "training.global_batch_size"),
        ({"lora": {"r": 8}}, "lora.rank"),
        ({"lora_alpha": 16}, "lora.alpha"),
        ({"training": {"max_seq_length": 512}}, "packing.max_length"),
        ({"model_name_or_path": "x"}, "base"),
    ],
)
def test_another_trainers_name_of_a_setting_is_answered_with_ours(written: dict[str, object], meant: str) -> None:
    with pytest.raises(BadRecipe) as caught:
        parse_strict(Recipe, {"key": "a.v1", "base": "folder:./base", **written}, "r.yaml")
    assert caught.value.what.endswith(f"unknown key; did you mean {meant!r}?")


def test_every_such_answer_is_a_setting_of_the_recipe() -> None:
    recipe = parse_strict(Recipe, {"key": "a.v1", "base": "folder:./base"}, "r.yaml")
    for meant in FOREIGN_NAMES.values():
        section, _, name = meant.partition(".")
        assert hasattr(getattr(recipe, section), name or "__class__"), meant


def test_a_key_with_an_odd_letter_is_shown_so_that_it_can_be_seen_and_reaches_no_terminal() -> None:
    with pytest.raises(BadRecipe) as caught:
        parse_strict(Recipe, {"k\u0435y": "a.v1"}, "r.yaml")
    assert r"unknown key (spelt 'k\u0435y'); did you mean 'key'?" in caught.value.what
    with pytest.raises(BadRecipe) as caught:
        parse_strict(Recipe, {"\x1b[31mkey": "a.v1"}, "r.yaml")
    assert "\x1b" not in str(caught.value)


def test_every_problem_is_named_in_one_error() -> None:
    text = complaint({"trainin": {}, "training": {"learning_rate": -1, "names": ["a", 2]}, "choice": "x"})
    assert text.startswith("5 problems")
    for part in (
        "key: is missing",
        "trainin: unknown key; did you mean 'training'?",
        "training.learning_rate: should be at least 0",
        "training.names[1]: should be text, not 2",
        "choice: should be a whole number or a mapping",
    ):
        assert part in text, part


def test_of_thousands_of_problems_the_first_twenty_are_told_and_a_long_key_short() -> None:
    text = complaint({"key": "x", **{f"k{n}": n for n in range(4_000)}})
    assert text.startswith("20 problems and more\n")
    assert len(text.splitlines()) == 21
    assert len(complaint({"key": "x", "y" * 200_000: 1})) < 200


def test_a_file_is_read_by_libyaml(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its scanner is C; PyYAML's own takes seconds for a text of 256 KiB, whatever is counted afterwards."""
    monkeypatch.delattr(yaml.scanner.Scanner, "fetch_more_tokens")
    assert parse_yaml("a: [1, x]", "r.yaml") == {"a": [1, "x"]}


def test_a_wrong_type_is_told_in_yamls_words_and_a_long_value_short() -> None:
    assert "training.names: should be a list, not a mapping" in complaint({"key": "x", "training": {"names": {}}})
    assert 'not "1"' in complaint({"key": "x", "training": {"learning_rate": "1"}})
    assert "not true" in complaint({"key": "x", "training": {"learning_rate": True}})
    assert len(complaint({"key": "x", "training": {"learning_rate": "y" * 10_000}})) < 200


class _Files(StrictModel):
    kind: Literal["files"]


class _Sql(StrictModel):
    kind: Literal["sql"]


class _Shaped(StrictModel):
    name: str = Field("ab", min_length=2, max_length=3, pattern="^[a-z]+$")
    filled: str = Field("a", min_length=1)
    items: list[str] = Field(["a"], min_length=1, max_length=2)
    source: Annotated[_Files | _Sql, Field(discriminator="kind")] = _Files(kind="files")


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ({"name": "a"}, "name: should have at least 2 letters"),
        ({"name": "abcd"}, "name: should have at most 3 letters"),
        ({"name": "A1"}, "name: should look like ^[a-z]+$"),
        ({"filled": ""}, "filled: should not be empty"),
        ({"items": []}, "items: should not be empty"),
        ({"items": ["a", "b", "c"]}, "items: should have at most 2 items"),
        ({"source": {"kind": "ftp"}}, "source: has a 'kind' that should be one of 'files', 'sql'"),
        ({"source": {}}, "source: should have 'kind'"),
    ],
)
def test_a_value_of_another_shape_is_told_in_our_words(written: dict[str, object], told: str) -> None:
    with pytest.raises(BadRecipe) as caught:
        parse_strict(_Shaped, written, "r.yaml")
    assert caught.value.what == told


@pytest.mark.parametrize("value", [None, [], "text", 3])
def test_a_file_that_holds_no_mapping_is_refused(value: object) -> None:
    assert complaint(value).startswith("should be a mapping")


def test_yaml_dumped_by_pyyaml_is_read_as_itself() -> None:
    value = {"a": "no", "b": [1, 2.5, None, True], "c": {"d": "x: y"}}
    assert parse_yaml(yaml.safe_dump(value), "r.yaml") == value
