"""JSON of a base, a classifier, an encoder or the store that holds anything: every reader tells it as an error of ours.

A name of the format's own stands for random JSON where a reader looks: that is where raw TypeErrors came from.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ft_assets.settings.catalogue.families import how_documents_run
from ft_assets.workers.base_models.contents import INDEX, inspect_base
from ft_assets.workers.base_models.context import context_length
from ft_assets.workers.base_models.new_tokens import add_new_tokens
from ft_assets.workers.base_models.tensors import stored_dtype
from ft_assets.workers.model_size.known import score_bytes
from ft_assets.workers.model_size.model_size import read_architecture
from ft_assets.workers.packs.evidence import architecture_of, vocabulary_size
from ft_assets.workers.suites.classifiers import read_facts
from ft_assets.workers.suites.encoders import _pooling_of
from ft_assets.workers.suites.name_models import _meta
from ft_resources.errors import CorruptArtifact, UserError
from ft_resources.json_object import json_object
from ft_resources.store_marker import open_store
from tests.fake_base import make_fake_base

leaves = st.none() | st.booleans() | st.integers(-3, 10**30) | st.floats(allow_nan=True) | st.text(max_size=4)
values = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
)
NAMES = {
    "config.json": [
        "architectures",
        "model_type",
        "vocab_size",
        "text_config",
        "rope_scaling",
        "rope_parameters",
        "layer_types",
        "sliding_window",
        "num_attention_heads",
        "num_local_experts",
        "dtype",
        "torch_dtype",
        "id2label",
        "problem_type",
        "max_position_embeddings",
        "quantization_config",
        "hidden_size",
        "num_hidden_layers",
        "intermediate_size",
        "head_dim",
        "tie_word_embeddings",
    ],
    "tokenizer_config.json": ["added_tokens_decoder", "chat_template", "bos_token", "eos_token", "model_max_length"],
    "added_tokens.json": ["x"],
    "generation_config.json": ["eos_token_id"],
    INDEX: ["weight_map", "metadata"],
    "1_Pooling/config.json": ["pooling_mode_mean_tokens"],
    "meta.json": ["labels", "pipeline", "lang"],
}


@contextmanager
def odd(name: str, content: str) -> Iterator[Path]:
    """A fake base whose file ``name`` has this content."""
    with TemporaryDirectory() as scratch:
        folder = make_fake_base(Path(scratch) / "base")
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(content)
        yield folder


def inspected_and_read(folder: Path) -> None:
    """What workers do with a base that passed."""
    inspect_base(folder, "base", template_given=True)
    config = (folder / "config.json").read_bytes()
    for read in (architecture_of, vocabulary_size):
        with_errors_of_ours(read, config)
    stored_dtype(folder)
    read_facts(folder, "base")
    if not (folder / INDEX).exists():
        add_new_tokens(folder, ["<own>"], "base")


READERS: dict[str, Callable[[Path], object]] = {
    **dict.fromkeys(("config.json", "tokenizer_config.json", "added_tokens.json", INDEX), inspected_and_read),
    "generation_config.json": lambda folder: inspect_base(folder, "base", template_given=True),
    "1_Pooling/config.json": lambda folder: _pooling_of(folder, "encoder"),
    "meta.json": lambda folder: _meta(folder, "spaCy"),
}


def with_errors_of_ours(read: Callable[[Any], object], what: Any) -> None:
    with suppress(UserError):
        read(what)


@pytest.mark.parametrize("name", READERS)
@given(data=st.data())
def test_whatever_a_file_of_a_model_holds_is_read_or_told_as_an_error_of_ours(name: str, data: st.DataObject) -> None:
    there = {"config.json": {"architectures": ["LlamaForCausalLM"], "vocab_size": 288}}.get(name, {})
    members = st.dictionaries(st.sampled_from(NAMES[name]), values, max_size=3).map(lambda drawn: {**there, **drawn})
    with odd(name, json.dumps(data.draw(values | members | members))) as folder:
        with_errors_of_ours(READERS[name], folder)


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("content", ["", "{", "[" * 100_000, '{"a":' * 100_000, "\x00", "null", "[]"])
def test_what_is_no_json_object_is_refused_and_not_too_deep_for_us(name: str, content: str) -> None:
    with odd(name, content) as folder, pytest.raises(UserError):
        READERS[name](folder)


@pytest.mark.parametrize(
    "names", [{"a": ["x"], "b": 1}, {"a": 1, "b": "x.safetensors"}, {"a": None}, {"a": {}}, ["x"], 7]
)
def test_an_index_lists_names_of_files_and_nothing_else(names: Any) -> None:
    with odd(INDEX, json.dumps({"weight_map": names})) as folder, pytest.raises(UserError, match=r"index\.json"):
        inspect_base(folder, "base", template_given=True)


@given(st.dictionaries(st.sampled_from(NAMES["config.json"]), values, max_size=4) | values)
def test_planning_reads_any_configuration_as_one_that_says_nothing_it_can_use(config: Any) -> None:
    data = json.dumps(config).encode()
    for read in (how_documents_run, context_length, score_bytes):
        with_errors_of_ours(read, data)
    if isinstance(config, dict):
        with_errors_of_ours(read_architecture, config)


@pytest.mark.parametrize("read", [how_documents_run, context_length, score_bytes])
def test_planning_is_not_ended_by_a_configuration_that_is_nested_too_deeply(read: Callable[[bytes], object]) -> None:
    read(b"[" * 100_000)


@pytest.mark.parametrize("content", [b"[1]", b"7", b"null", b"[" * 100_000, b"{", b'{"other": 1}'])
def test_a_record_that_somebody_else_wrote_is_told_as_damaged_where_a_member_is_missing(
    tmp_path: Path, content: bytes
) -> None:
    store = open_store(str(tmp_path / "store"), create=True)
    store.put("names/dataset/acme.things.v1.json", content)
    with pytest.raises(CorruptArtifact) as caught:
        store.get_json("names/dataset/acme.things.v1.json")["address"]
    assert caught.value.where == "names/dataset/acme.things.v1.json"


@pytest.mark.parametrize(
    ("value", "said"), [("true", "a is a truth value"), ('"3"', "a is a text"), ("3.5", "a number")]
)
def test_a_member_of_another_kind_is_named_with_its_own_and_a_truth_value_is_no_number(value: str, said: str) -> None:
    with pytest.raises(UserError, match=said):
        json_object(f'{{"a": {value}}}', UserError, where="file", remedy="Copy it again.", members={"a": int})
    assert json_object('{"a": true}', UserError, where="", remedy="", members={"a": bool})["a"] is True
