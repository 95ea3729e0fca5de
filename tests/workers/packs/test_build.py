import json
import os
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from tokenizers import Tokenizer

from ft_assets.control import identity
from ft_assets.control.identity import packs
from ft_assets.settings.code_versions import PACK_TOOLS
from ft_assets.workers.datasets.engine import versions
from ft_assets.workers.datasets.engine.local import processes
from ft_assets.workers.packs import build
from ft_assets.workers.packs.documents import examples, tokenize
from ft_assets.workers.packs.evidence import DOCTOR_CHECKS
from ft_assets.workers.packs.format import Pack
from ft_assets.workers.packs.report import pack_warnings
from ft_resources.artifacts import Address
from ft_resources.errors import BadBase, BadData, WorkFailed
from ft_resources.worker_context import WorkResult
from tests.workers.packs.conftest import Workbench, chat, edit_json, example_id

ROOT = Path(__file__).resolve().parents[3]
TRAIN = [chat(f"what is {n} plus one?", f"it is {n + 1}") for n in range(40)]
VALIDATION = [chat("where is the fox?", "in the house", "and the dog?", "it is brown")]


def _checks(result: WorkResult) -> dict[str, bool]:
    evidence = json.loads((result.folder / "evidence/doctor.json").read_bytes())
    return {check["name"]: check["passed"] for check in evidence["checks"]}


def _bytes(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_pack_holds_every_example_once_and_passes_the_doctor(workbench: Workbench) -> None:
    result = workbench.build(workbench.dataset(TRAIN, VALIDATION))
    pack = Pack.open(result.folder, "train")
    packed = [pack.example_id(index) for index in pack.read(range(len(pack))).examples]
    assert sorted(packed) == sorted(map(example_id, TRAIN))
    assert set(_checks(result)) == set(DOCTOR_CHECKS)
    assert all(_checks(result).values())
    facts = result.facts
    assert (facts["examples"], facts["validation"]["examples"], facts["dropped"]) == (40, 1, 0)
    assert facts["tokens"] == pack.index.tokens
    assert sum(facts["length_histogram"]["counts"]) == 40


def test_equal_specs_give_equal_bytes_and_another_seed_another_order(workbench: Workbench) -> None:
    dataset = workbench.dataset(TRAIN, VALIDATION)
    first, second, other = workbench.build(dataset), workbench.build(dataset), workbench.build(dataset, seed=18)
    assert _bytes(first.folder) == _bytes(second.folder)
    assert first.facts == second.facts
    assert _bytes(first.folder)["train/00000.input_ids.npy"] != _bytes(other.folder)["train/00000.input_ids.npy"]


def test_the_last_assistant_policy_learns_only_the_last_turn(workbench: Workbench) -> None:
    conversation = chat("hello?", "one", "and?", "two")
    result = workbench.build(workbench.dataset([conversation]), learn="last_assistant")
    window = Pack.open(result.folder, "train").read([0])
    tokenizer = Tokenizer.from_file(str(workbench.base_folder / "tokenizer.json"))
    learned = window.input_ids[window.learned]
    assert tokenizer.decode(learned.tolist(), skip_special_tokens=False) == "two<|end|>"


def test_an_example_longer_than_a_window_is_refused_by_its_row(workbench: Workbench) -> None:
    dataset = workbench.dataset([*TRAIN, chat("secret " * 50, "yes")])
    with pytest.raises(BadData, match="longer than 64 tokens") as caught:
        workbench.build(dataset)
    assert caught.value.where == "row 41 of rows.jsonl"
    assert "secret" not in str(caught.value)


def test_examples_longer_than_a_window_can_be_dropped_and_are_counted_and_named(workbench: Workbench) -> None:
    dataset = workbench.dataset([*TRAIN, *[chat("secret " * (50 + n), "yes") for n in range(30)]])
    result = workbench.build(dataset, overlong="drop")
    assert (result.facts["examples"], result.facts["dropped"]) == (40, 30)
    assert result.facts["dropped_rows"] == list(range(41, 61))
    assert all(_checks(result).values())


def test_examples_that_are_shortened_are_counted_and_named_and_keep_their_answers(workbench: Workbench) -> None:
    dataset = workbench.dataset([*TRAIN, chat("secret " * 50, "yes"), chat("hm", "word " * 90)])
    result = workbench.build(dataset, overlong="truncate")
    facts = result.facts
    assert (facts["examples"], facts["shortened"], facts["shortened_rows"]) == (41, 1, [41])
    assert (facts["dropped"], facts["dropped_rows"]) == (1, [42])
    assert facts["longest"] > 64
    pack = Pack.open(result.folder, "train")
    (window,) = [w for w in range(len(pack)) if 41 in [pack.example_row(e) for e in pack.read([w]).examples]]
    assert pack.window_lengths[window] <= 64
    assert all(_checks(result).values())


def test_dropping_everything_is_an_error(workbench: Workbench) -> None:
    dataset = workbench.dataset([chat("secret " * 50, "yes")])
    with pytest.raises(BadData, match="no training example is left"):
        workbench.build(dataset, overlong="drop")


def test_a_template_that_raises_names_the_row_and_not_its_text(workbench: Workbench) -> None:
    template = (
        "{% for m in messages %}{% if m.content|length > 99 %}{{ raise_exception(m.content) }}{% endif %}"
        "{% generation %}{{ m.content }}<|end|>{% endgeneration %}{% endfor %}"
    )
    dataset = workbench.dataset([*TRAIN, chat("forbidden " * 12, "yes")])
    with pytest.raises(BadData, match="refuses this conversation") as caught:
        workbench.build(dataset, chat_template=template)
    assert "row 41 of the upload" in caught.value.where
    assert "forbidden" not in caught.value.what


def test_a_base_without_a_template_needs_one_in_the_recipe(workbench: Workbench) -> None:
    template = json.loads((workbench.base_folder / "tokenizer_config.json").read_bytes())["chat_template"]
    edit_json(workbench.base_folder / "tokenizer_config.json", lambda settings: settings.pop("chat_template"))
    with pytest.raises(BadBase, match="no chat template"):
        workbench.build(workbench.dataset(TRAIN))
    assert all(_checks(workbench.build(workbench.dataset(TRAIN), chat_template=template)).values())


def test_a_base_without_a_tokenizer_is_refused(workbench: Workbench) -> None:
    (workbench.base_folder / "tokenizer.json").unlink()
    with pytest.raises(BadBase, match=r"no tokenizer\.json"):
        workbench.build(workbench.dataset(TRAIN))


def test_a_template_that_hides_the_assistant_names_the_row(workbench: Workbench) -> None:
    template = "{% for m in messages %}{% if m.role == 'user' %}<|user|>{{ m.content }}<|end|>{% endif %}{% endfor %}"
    with pytest.raises((BadData, BadBase), match="row 1 of the upload"):
        workbench.build(workbench.dataset(TRAIN), chat_template=template)


def test_equal_lengths_and_one_token_answers_pack(workbench: Workbench) -> None:
    result = workbench.build(workbench.dataset([chat("", "") for _ in range(1)]), max_length=16)
    pack = Pack.open(result.folder, "train")
    assert np.count_nonzero(pack.read([0]).learned) == pack.index.learned_tokens == 1
    assert all(_checks(result).values())


def _tokenizer(workbench: Workbench) -> Tokenizer:
    return Tokenizer.from_file(str(workbench.base_folder / "tokenizer.json"))


def test_texts_are_packed_whole_with_an_end_behind_each(workbench: Workbench) -> None:
    texts = [f"text number {n} " * (n % 4 + 1) for n in range(20)]
    result = workbench.build(workbench.dataset_of({"train": [{"text": text} for text in texts]}), form="text")
    pack = Pack.open(result.folder, "train")
    assert (pack.index.form, result.facts["form"], pack.index.documents) == ("text", "text", 20)
    row = pack.read(range(len(pack)))
    ends = np.cumsum(row.document_lengths)
    decoded = {
        pack.example_row(example): _tokenizer(workbench).decode(row.input_ids[end - length : end].tolist(), False)
        for example, length, end in zip(row.examples, row.document_lengths, ends, strict=True)
    }
    assert decoded == {number: text + "<|end|>" for number, text in enumerate(texts, start=1)}
    assert pack.index.learned_tokens == pack.index.tokens - 20


def test_a_preference_example_is_a_window_of_the_chosen_and_the_rejected_answer(workbench: Workbench) -> None:
    rows = [
        {
            "messages": [{"role": "user", "content": f"is {n} even?"}],
            "chosen": [{"role": "assistant", "content": "yes" if n % 2 == 0 else "no, it is odd"}],
            "rejected": [{"role": "assistant", "content": f"{n} is a colour"}],
        }
        for n in range(30)
    ]
    result = workbench.build(workbench.dataset_of({"train": rows}), form="preference")
    pack = Pack.open(result.folder, "train")
    assert (len(pack), pack.index.examples, pack.index.documents, pack.block) == (30, 30, 60, 64)
    seen = set()
    for number in range(len(pack)):
        window = pack.read([number])
        assert (window.examples[0] == window.examples[1], window.pieces.tolist()) == (True, [0, 1])
        texts = []
        for part, flags in zip(
            np.split(window.input_ids, window.document_lengths[:1]),
            np.split(window.learned, window.document_lengths[:1]),
            strict=True,
        ):
            texts.append(_tokenizer(workbench).decode(part[flags].tolist(), False))
        row = pack.example_row(int(window.examples[0])) - 1
        seen.add(row)
        assert texts == [rows[row][side][0]["content"] + "<|end|>" for side in ("chosen", "rejected")]
    assert len(seen) == 30


def test_the_doctor_passes_answers_that_stand_in_for_others_that_have_no_room(workbench: Workbench) -> None:
    rows = [
        {
            "messages": [{"role": "user", "content": f"{n} " * (5 if n % 5 else 1)}],
            "chosen": [{"role": "assistant", "content": f"a{n}"}] if n % 2 else [],
            "rejected": [] if n % 2 else [{"role": "assistant", "content": "b" * 50 if n % 10 == 0 else f"b{n}"}],
        }
        for n in range(30)
    ]
    result = workbench.build(workbench.dataset_of({"train": rows}), form="unpaired_preference")
    assert (result.facts["examples"], result.facts["documents"], result.facts["dropped"]) == (30, 60, 0)
    assert all(_checks(result).values())


def test_pairs_that_become_equal_are_told_and_none_left_is_refused(workbench: Workbench) -> None:
    trims = (
        "{% for m in messages %}<|{{ m.role }}|>{{ m.content.strip() }}<|end|>{% endfor %}"
        "{% if add_generation_prompt %}<|assistant|>{% endif %}"
    )
    rows = [
        {
            "messages": [{"role": "user", "content": f"is {n} even?"}],
            "chosen": [{"role": "assistant", "content": "yes"}],
            "rejected": [{"role": "assistant", "content": "yes\n" if n % 5 == 0 else "no"}],
        }
        for n in range(30)
    ]
    result = workbench.build(workbench.dataset_of({"train": rows}), form="preference", chat_template=trims)
    assert (result.facts["examples"], result.facts["equal"]) == (24, 6)
    assert result.facts["equal_rows"] == [1, 6, 11, 16, 21, 26]
    (warning,) = pack_warnings(result.facts)
    assert warning.startswith("6 training pairs are left out: both answers are the same tokens (rows 1, 6, 11")
    with pytest.raises(BadData, match="both answers of 6 pairs are the same tokens"):
        workbench.build(workbench.dataset_of({"train": rows[::5]}), form="preference", chat_template=trims)


@pytest.mark.subprocess
def test_processes_batches_and_engines_change_no_byte(workbench: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = workbench.dataset(TRAIN, VALIDATION)
    alone = workbench.build(dataset)
    assert alone.facts["encoder"].startswith("tokenizers: so little text")
    monkeypatch.setattr(tokenize, "_SMALL_BYTES", 0)
    monkeypatch.setattr(examples, "_BATCH", 7)
    monkeypatch.setenv("FT_PACK_PROCESSES", "2")
    spread = workbench.build(dataset)
    assert "ids equal" in spread.facts["encoder"]
    assert _bytes(alone.folder).keys() == _bytes(spread.folder).keys()
    explaining = ("evidence/", "report/")
    for name, data in _bytes(alone.folder).items():
        assert name.startswith(explaining) or data == _bytes(spread.folder)[name], name
    assert {**alone.facts, "encoder": ""} == {**spread.facts, "encoder": ""}


@pytest.mark.subprocess
def test_a_bad_row_is_named_across_processes(workbench: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    template = (
        "{% for m in messages %}{% if m.content|length > 99 %}{{ raise_exception('too long') }}{% endif %}"
        "{% generation %}{{ m.content }}<|end|>{% endgeneration %}{% endfor %}"
    )
    monkeypatch.setattr(tokenize, "_SMALL_BYTES", 0)
    monkeypatch.setenv("FT_PACK_PROCESSES", "2")
    with pytest.raises(BadData, match="too long") as caught:
        workbench.build(workbench.dataset([*TRAIN, chat("forbidden " * 12, "yes")]), chat_template=template)
    assert "row 41 of the upload" in caught.value.where
    assert caught.value.remedy


def test_a_process_that_dies_is_one_of_packing() -> None:
    with processes(2, build.PACKING) as mapper:
        with pytest.raises(WorkFailed, match="a packing process died") as caught:
            list(mapper(os._exit, [3]))
    assert caught.value.where == "token_pack"
    assert "lower FT_PACK_PROCESSES" in caught.value.remedy


def test_the_tools_in_a_pack_s_identity_are_the_pinned_ones() -> None:
    pins = dict(line.split("==") for line in (ROOT / "constraints.txt").read_text().splitlines() if "==" in line)
    assert {name: pins[name] for name in PACK_TOOLS} == PACK_TOOLS


def test_another_version_of_a_tool_is_another_pack(workbench: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    base = SimpleNamespace(address="shared/base_model/00", facts={"tokenizer_digest": "00", "template_digest": "11"})
    recipe = SimpleNamespace(token_settings=lambda: {"seed": 1}, method="sft")
    monkeypatch.setattr(packs, "pair_recipe", lambda *keys: recipe)
    monkeypatch.setattr(packs, "base_model", lambda *keys: base)
    monkeypatch.setattr(packs, "fitting_dataset", lambda *keys: workbench.dataset(TRAIN))

    def address() -> Address:
        return identity.token_pack_request(workbench.artifacts, "acme.chats.v1", "tiny.v1").address

    first = address()
    assert address() == first
    monkeypatch.setitem(PACK_TOOLS, "tokenizers", "0.23.4")
    assert address() != first


@pytest.mark.parametrize("found", ["9.9.9", None])
def test_a_worker_with_another_version_of_a_tool_refuses(
    workbench: Workbench, monkeypatch: pytest.MonkeyPatch, found: str | None
) -> None:
    def version(name: str) -> str:
        if name != "trl":
            return PACK_TOOLS[name]
        if found is None:
            raise PackageNotFoundError(name)
        return found

    monkeypatch.setattr(versions, "version", version)
    with pytest.raises(build.OtherTools, match=rf"has trl {found or 'none'}, not 1\.16\.0; .* constraints\.txt"):
        workbench.build(workbench.dataset(TRAIN))


def test_an_examples_weight_is_in_the_pack_and_a_pack_without_weights_says_nothing_of_them(
    workbench: Workbench,
) -> None:
    texts = [{"text": f"{'long ' * (n * 9)}text {n}", "weight": 1 + n / 4} for n in range(20)]
    pack = Pack.open(
        workbench.build(workbench.dataset_of({"train": texts}), form="text", overlong="split").folder, "train"
    )
    read = pack.read(range(len(pack)))
    weights = pack.weights_of(read.examples)
    assert weights is not None
    assert len(weights) > 20
    assert {pack.example_row(example): weight for example, weight in zip(read.examples, weights, strict=True)} == {
        n + 1: text["weight"] for n, text in enumerate(texts)
    }
    plain = workbench.build(workbench.dataset(TRAIN))
    assert Pack.open(plain.folder, "train").weights_of(read.examples) is None
    assert b"weigh" not in _bytes(plain.folder)["train/index.json"]
    assert not [name for name in _bytes(plain.folder) if "weights" in name]
