"""Every check of the doctor can fail, names the example, and never quotes it."""

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ft_assets.datasets.engine.local import in_process
from ft_assets.packs.doctor import Patient, examine
from ft_assets.packs.doctor.endings import turn_ends
from ft_assets.packs.documents.prepare import PrepareSettings
from ft_assets.packs.documents.tokenize import tokenize_split
from ft_assets.packs.encoding.tokenizer import ChatTokenizer
from ft_assets.packs.evidence import DOCTOR_CHECKS, EVIDENCE, architecture_of, verdicts, vocabulary_size
from ft_assets.packs.format import SPLITS, PackWriter
from ft_assets.packs.format.layout import Form, array_name
from ft_assets.packs.packing import pack
from ft_assets.packs.templates.template import ChatTemplate
from ft_assets.packs.templates.variants import load_template
from ft_resources.artifacts import Artifact
from ft_resources.errors import BadBase
from tests.fake_base import VOCABULARY
from tests.packs.conftest import Workbench, chat, edit_json, example_id

TRAIN = [chat(f"private question {n}?", f"private answer <|end|> {n}", "and?", "so.") for n in range(9)]
MAX_LENGTH = 128


def _config(**settings: Any) -> bytes:
    """The config.json of the base that packs are made for, with other settings."""
    return json.dumps({"model_type": "llama", "vocab_size": VOCABULARY, **settings}).encode()


CONFIG = _config()


@pytest.fixture
def patient(workbench: Workbench, tokenizer: ChatTokenizer, template: ChatTemplate, tmp_path: Path) -> Patient:
    """A healthy pack of TRAIN, not yet written."""
    dataset = workbench.dataset(TRAIN, [chat("where?", "here")])
    return dataclasses.replace(_patient(workbench, tokenizer, dataset, tmp_path), reference=template)


def _patient(
    workbench: Workbench, tokenizer: ChatTokenizer, dataset: Artifact, tmp_path: Path, form: Form = "chat"
) -> Patient:
    """A pack that is not yet written, and has no template to be compared with."""
    settings = PrepareSettings(
        folder=workbench.base_folder,
        chat_template=None,
        form=form,
        learn="all_assistant",
        max_length=MAX_LENGTH,
        overlong="reject",
    )
    folder = tmp_path / "pack"
    folder.mkdir()
    files = {split: dataset.path(f"{split}.parquet", tmp_path) for split in SPLITS}
    spools = {
        split: tokenize_split(path, settings, in_process, tmp_path / "spool" / split, lambda done, total: None).spool
        for split, path in files.items()
    }
    return Patient(
        folder=folder,
        spools=spools,
        train_rows=dataset.path("train.parquet", tmp_path),
        tokenizer=tokenizer,
        reference=None,
        config=workbench.base_folder / "config.json",
        vocabulary=VOCABULARY,
        max_length=MAX_LENGTH,
        truncates=False,
        last_only=False,
        holdout_ids=np.empty((0, 32), np.uint8),
    )


def _written(patient: Patient, **files: np.ndarray) -> Patient:
    """The patient with its files on disk, some arrays of the training split replaced."""
    for split, spool in patient.spools.items():
        layout = pack(spool.lengths, max_length=MAX_LENGTH, seed=0)
        form: Form = "text" if patient.reference is None else "chat"
        PackWriter(patient.folder, split, form, MAX_LENGTH).write(spool, layout)
    for name, array in files.items():
        np.save(patient.folder / array_name("train", 0, name), array)
    return patient


def _array(patient: Patient, name: str) -> np.ndarray:
    return np.load(_written(patient).folder / array_name("train", 0, name))


def _failures(patient: Patient) -> dict[str, str]:
    return {check["name"]: check["detail"] for check in examine(patient)["checks"] if not check["passed"]}


def test_a_healthy_pack_passes_every_check(patient: Patient) -> None:
    evidence = examine(_written(patient))
    assert [check["name"] for check in evidence["checks"]] == list(DOCTOR_CHECKS)
    assert all(check["passed"] for check in evidence["checks"])


def test_samples_show_the_learned_text(patient: Patient) -> None:
    samples = examine(_written(patient))["samples"]
    assert len(samples) == 3
    for sample in samples:
        assert "".join(run["text"] for run in sample["runs"]).startswith("<|user|>")
        learned = "".join(run["text"] if run["learned"] else "|" for run in sample["runs"]).split("|")
        answers = [text for text in learned if text]
        assert answers[0].startswith("private answer <")
        assert sample["tokens"] == sample["shown"] > sample["learned"] > 0


def _unlearn_a_document(learned: np.ndarray, ids: np.ndarray, patient: Patient) -> None:
    learned[_offsets(patient)[2] : _offsets(patient)[3]] = False


def _forget_the_end(learned: np.ndarray, ids: np.ndarray, patient: Patient) -> None:
    learned[np.flatnonzero(learned & np.append(~learned[1:], True))[3]] = False


def _end_with_another_control_token(learned: np.ndarray, ids: np.ndarray, patient: Patient) -> None:
    ends = np.flatnonzero(learned & np.append(~learned[1:], True))
    ids[ends[3]] = patient.tokenizer.special_ids["<|user|>"]


def _double_the_bos(learned: np.ndarray, ids: np.ndarray, patient: Patient) -> None:
    ids[_offsets(patient)[1] : _offsets(patient)[1] + 2] = patient.tokenizer.token_id("bos_token")


def _add_a_control_token(learned: np.ndarray, ids: np.ndarray, patient: Patient) -> None:
    ids[_offsets(patient)[1] + 3] = patient.tokenizer.token_id("pad_token")


def _leave_the_vocabulary(learned: np.ndarray, ids: np.ndarray, patient: Patient) -> None:
    ids[_offsets(patient)[4] + 3] = VOCABULARY


def _learn_the_question(learned: np.ndarray, ids: np.ndarray, patient: Patient) -> None:
    learned[_offsets(patient)[3] + 1 : _offsets(patient)[4]] = True


def _learn_the_end_alone(learned: np.ndarray, ids: np.ndarray, patient: Patient) -> None:
    learned &= np.isin(ids, list(patient.tokenizer.control_ids))


@pytest.mark.parametrize("quoted", [0, 1])
def test_an_assistant_may_repeat_the_question_in_its_thoughts(
    workbench: Workbench, tokenizer: ChatTokenizer, template: ChatTemplate, tmp_path: Path, quoted: int
) -> None:
    question = "what is the private name of it?"
    rows = [chat(question, f"<think>{question} hm.</think>so." if quoted else "so.")] * 2
    healthy = _patient(workbench, tokenizer, workbench.dataset(rows, rows), tmp_path)
    healthy = dataclasses.replace(healthy, reference=template)
    assert not _failures(_written(healthy))
    learned, offsets = _array(healthy, "learned"), _array(healthy, "document_offsets")
    learned[offsets[0] + 1 : offsets[1]] = True
    assert "did not write" in _failures(_written(healthy, learned=learned))["answers_are_learned"]


def test_a_tool_may_be_called_with_what_the_user_said(workbench: Workbench) -> None:
    said = "what is the name of the fox in the house?"
    turn = {"content": "", "tool_calls": "", "tool_call_id": "", "name": ""}
    call = [{"id": "", "type": "function", "function": {"name": "search", "arguments": {"for": [said]}}}]
    tools = [{"type": "function", "function": {"name": "search", "description": "", "parameters": {"type": "object"}}}]
    conversation = [
        {**turn, "role": "user", "content": said},
        {**turn, "role": "assistant", "tool_calls": json.dumps(call)},
        {**turn, "role": "tool", "content": said, "name": "search"},
        {**turn, "role": "assistant", "content": "it is so."},
    ]
    source = (
        "{{ tools | tojson }}{% for m in messages %}"
        "{% if m.role == 'assistant' %}<|assistant|>{% generation %}"
        "{% for call in m.tool_calls or [] %}{{ call.function.arguments | tojson }}{% endfor %}{{ m.content }}<|end|>"
        "{% endgeneration %}{% else %}<|user|>{{ m.content }}<|end|>{% endif %}{% endfor %}"
        "{% if add_generation_prompt %}<|assistant|>{% endif %}"
    )
    edit_json(workbench.base_folder / "tokenizer_config.json", lambda settings: settings.update(chat_template=source))
    rows = [{"messages": conversation, "tools": json.dumps(tools)}]
    artifact = workbench.publish_folder(
        "token_pack", workbench.build(workbench.dataset_of({"train": rows}), max_length=512).folder
    )
    assert [finding.detail for finding in verdicts(artifact, config=CONFIG) if not finding.passed] == []


def _offsets(patient: Patient) -> np.ndarray:
    return _array(patient, "document_offsets")


@pytest.mark.parametrize(
    ("damage", "name"),
    [
        (_unlearn_a_document, "every_example_is_learned_from"),
        (_forget_the_end, "end_of_turn_is_learned"),
        (_end_with_another_control_token, "end_of_turn_is_learned"),
        (_learn_the_question, "answers_are_learned"),
        (_learn_the_end_alone, "answers_are_learned"),
        (_double_the_bos, "no_doubled_bos"),
        (_add_a_control_token, "no_control_token_from_text"),
        (_leave_the_vocabulary, "vocabulary_fits_model"),
        (_add_a_control_token, "template_is_the_base_s"),
    ],
)
def test_damaged_tokens_are_found_and_the_example_is_named(
    patient: Patient, damage: Callable[[np.ndarray, np.ndarray, Patient], None], name: str
) -> None:
    learned, ids = _array(patient, "learned"), _array(patient, "input_ids")
    damage(learned, ids, patient)
    failures = _failures(_written(patient, learned=learned, input_ids=ids))
    assert name in failures
    assert "train row " in failures[name]
    assert "private" not in json.dumps(failures)


def test_a_window_over_the_length_is_found(patient: Patient) -> None:
    failures = _failures(dataclasses.replace(_written(patient), max_length=20))
    assert "20 are allowed" in failures["within_length"]


def test_a_cut_document_is_found(patient: Patient) -> None:
    offsets = _offsets(patient)
    offsets[1] -= 2
    assert "length of their example" in _failures(_written(patient, document_offsets=offsets))["within_length"]


def test_a_template_that_renders_otherwise_is_found(patient: Patient) -> None:
    source = patient.reference.source.replace("<|assistant|>", "<|user|>")
    other = ChatTemplate(
        source, name="the other one", variables=patient.tokenizer.named, control=patient.tokenizer.control
    )
    failures = _failures(dataclasses.replace(_written(patient), reference=other))
    assert "rendering by the other one" in failures["template_is_the_base_s"]


def test_an_example_of_the_holdout_is_found(patient: Patient) -> None:
    leaked = dataclasses.replace(_written(patient), holdout_ids=_as_ids(example_id(TRAIN[4])))
    assert example_id(TRAIN[4])[:12] in _failures(leaked)["holdout_is_absent"]


def test_a_tokenizer_without_an_end_fails_the_doctor(workbench: Workbench) -> None:
    source = (
        "{% for m in messages %}{{ m.role }}: {% if m.role == 'assistant' %}"
        "{% generation %}{{ m.content }}{% endgeneration %}{% else %}{{ m.content }}{% endif %}\n{% endfor %}"
    )
    artifact = workbench.publish_pack(workbench.dataset([chat("a", "b")]), chat_template=source)
    failed = {finding.name for finding in verdicts(artifact, config=CONFIG) if not finding.passed}
    # A marked template counts as a variant of the base's own, which it is not here.
    assert failed == {"end_of_turn_is_learned", "template_is_the_base_s"}


CHAT_ENDS = "{{ m.content }}{{ '<|end|>' if loop.last else '<|pad|>' }}"


@pytest.mark.parametrize(
    ("assistant", "ends"),
    [
        ("{{ m.content }}<|end|>", {"<|end|>"}),
        ("{{ m.content }}<|pad|>\n", {"<|end|>", "<|pad|>"}),
        # An earlier turn, the last one and the call of a tool may each have an end of their own.
        (CHAT_ENDS, {"<|end|>", "<|pad|>"}),
        (
            "{% if m.tool_calls %}{{ m.tool_calls[0].function.arguments.text }}<|bos|>{% else %}"
            + CHAT_ENDS
            + "{% endif %}",
            {"<|end|>", "<|pad|>", "<|bos|>"},
        ),
        # The next turn's role is no end.
        ("{{ m.content }}", {"<|end|>"}),
    ],
)
@pytest.mark.parametrize("wants_system", [False, True])
def test_the_ends_of_turns_are_those_that_the_template_writes(
    tokenizer: ChatTokenizer, assistant: str, ends: set[str], wants_system: bool
) -> None:
    source = (
        "{% for m in messages %}{% if m.role == 'assistant' %}<|assistant|>" + assistant + "{% else %}"
        "<|{{ m.role }}|>{{ m.content }}{% endif %}{% endfor %}"
    )
    if wants_system:
        source = "{% if messages[0].role != 'system' %}{{ raise_exception('no system') }}{% endif %}" + source
    template = ChatTemplate(source, name="one", variables=tokenizer.named, control=tokenizer.control)
    assert turn_ends(template, tokenizer) == {tokenizer.special_ids[text] for text in ends}


def test_a_text_must_end_with_the_end_of_text(workbench: Workbench, tokenizer: ChatTokenizer, tmp_path: Path) -> None:
    dataset = workbench.dataset_of({"train": [{"text": f"private text {n}"} for n in range(5)]})
    patient = _patient(workbench, tokenizer, dataset, tmp_path, form="text")
    assert not _failures(_written(patient))
    ids = _array(patient, "input_ids")
    ids[_offsets(patient)[3] - 1] = tokenizer.special_ids["<|pad|>"]
    failures = _failures(_written(patient, input_ids=ids))
    assert "1 examples do not end with '<|end|>', first train row " in failures["end_of_turn_is_learned"]


def test_an_unmarked_template_of_the_recipe_may_differ_from_the_base_s(workbench: Workbench) -> None:
    source = (
        "{% for m in messages %}<|{{ m.role }}|>\n{{ m.content }}<|end|>{% endfor %}"
        "{% if add_generation_prompt %}<|assistant|>\n{% endif %}"
    )
    artifact = workbench.publish_pack(workbench.dataset([chat("a", "b")]), chat_template=source)
    assert all(finding.passed for finding in verdicts(artifact, config=CONFIG))


def test_an_embedding_smaller_than_the_one_the_pack_was_made_for_fails(workbench: Workbench) -> None:
    # Packs are shared by bases with one tokenizer, whose embeddings may differ.
    artifact = workbench.publish_pack(workbench.dataset([chat("a", "b")]))
    findings = {finding.name: finding for finding in verdicts(artifact, config=_config(vocab_size=3))}
    assert [name for name, finding in findings.items() if not finding.passed] == ["vocabulary_fits_model"]
    assert "does not fit an embedding of 3 rows" in findings["vocabulary_fits_model"].detail


def test_a_pack_made_for_another_architecture_is_a_warning_that_says_so(workbench: Workbench) -> None:
    artifact = workbench.publish_pack(workbench.dataset([chat("a", "b")]))
    own = {finding.name: finding for finding in verdicts(artifact, config=CONFIG)}["packed_equals_alone"]
    assert own.passed
    assert "lose the same packed and alone, to the bit (llama). A training compares again" in own.detail
    config = _config(model_type="mistral", sliding_window=4096)
    (found,) = [finding for finding in verdicts(artifact, config=config) if not finding.passed]
    assert (found.name, found.blocks) == ("packed_equals_alone", False)
    assert "Not shown for this base (mistral, a sliding window)" in found.detail
    assert "passed on its architecture (llama). A training compares again" in found.detail


def test_an_architecture_that_failed_says_nothing_about_the_others(workbench: Workbench) -> None:
    edit_json(workbench.base_folder / "config.json", lambda config: config.update(model_type="mamba"))
    artifact = workbench.publish_pack(workbench.dataset([chat("a", "b")]))
    for config, blocks, detail in (
        (_config(model_type="mamba"), True, "linear_attention"),
        (CONFIG, False, "failed on its architecture (mamba)"),
    ):
        (found,) = [finding for finding in verdicts(artifact, config=config) if not finding.passed]
        assert (found.name, found.blocks) == ("packed_equals_alone", blocks)
        assert detail in found.detail


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({}, "llama"),
        ({"hidden_size": 7, "num_hidden_layers": 90, "torch_dtype": "bfloat16"}, "llama"),
        ({"model_type": "qwen2", "sliding_window": 4096, "use_sliding_window": False}, "qwen2"),
        ({"layer_types": ["full_attention", "conv", "conv"]}, "llama, conv layers"),
        ({"rope_scaling": {"type": "dynamic", "factor": 2.0}}, "llama, dynamic positions"),
        ({"rope_parameters": {"rope_type": "default", "rope_theta": 1e6}}, "llama"),
        (
            {"model_type": "gemma3", "text_config": {"model_type": "gemma3_text", "sliding_window": 9}},
            "gemma3_text, a sliding window",
        ),
    ],
)
def test_an_architecture_is_named_by_how_its_tokens_meet(settings: dict[str, Any], words: str) -> None:
    assert architecture_of(_config(**settings)) == words


def _without_evidence(folder: Path) -> None:
    (folder / EVIDENCE).unlink()


def _with_other_tokens(folder: Path) -> None:
    path = folder / array_name("train", 0, "input_ids")
    np.save(path, np.load(path) + 1)


def _garbled(folder: Path) -> None:
    (folder / EVIDENCE).write_text('{"checks": [{"name": 1}]}')


def _not_json(folder: Path) -> None:
    (folder / EVIDENCE).write_text("passed")


def _without_a_check(folder: Path) -> None:
    evidence = json.loads((folder / EVIDENCE).read_bytes())
    evidence["checks"] = evidence["checks"][1:]
    (folder / EVIDENCE).write_text(json.dumps(evidence))


@pytest.mark.parametrize(
    ("change", "failed", "detail"),
    [
        (_without_evidence, set(DOCTOR_CHECKS), "no evidence"),
        (_with_other_tokens, set(DOCTOR_CHECKS), "stale"),
        (_garbled, set(DOCTOR_CHECKS), "cannot be read"),
        (_not_json, set(DOCTOR_CHECKS), "cannot be read"),
        (_without_a_check, {next(iter(DOCTOR_CHECKS))}, "lacks this check"),
    ],
)
def test_missing_and_stale_evidence_fails(
    workbench: Workbench, change: Callable[[Path], None], failed: set[str], detail: str
) -> None:
    result = workbench.build(workbench.dataset([chat("a", "b")]))
    change(result.folder)
    findings = verdicts(workbench.publish_folder("token_pack", result.folder), config=CONFIG)
    assert {finding.name for finding in findings if not finding.passed} == failed
    assert all(detail in finding.detail for finding in findings if not finding.passed)


@pytest.mark.parametrize("config", [{}, {"vocab_size": None}, [], {"text_config": {}}, {"text_config": []}])
def test_a_config_without_a_vocabulary_is_refused(config: Any) -> None:
    with pytest.raises(BadBase, match=r"how large its vocabulary is|cannot be read"):
        vocabulary_size(json.dumps(config).encode())


def test_the_vocabulary_of_a_nested_text_model_is_found() -> None:
    assert vocabulary_size(b'{"text_config": {"vocab_size": 7}}') == 7


def test_the_page_of_samples_escapes_row_text(workbench: Workbench) -> None:
    result = workbench.build(workbench.dataset([chat("<script>alert(1)</script>", "<b>bold</b>")]))
    page = (result.folder / "report/samples.html").read_text()
    assert "<script>" not in page
    assert "<mark>&lt;b&gt;bold&lt;/b&gt;</mark>" in page
    assert '<mark><span class="control">&lt;|end|&gt;</span></mark>' in page


def test_the_template_of_the_base_is_the_reference_of_its_marked_variant(workbench: Workbench) -> None:
    tokenizer = ChatTokenizer.load(workbench.base_folder)
    own = load_template(workbench.base_folder, tokenizer, None).source
    artifact = workbench.publish_pack(workbench.dataset([chat("a", "b")]), chat_template=own + "{# a variant #}")
    assert all(finding.passed for finding in verdicts(artifact, config=CONFIG))


def test_a_marked_variant_serves_a_base_whose_own_template_does_not_tell_the_turns(workbench: Workbench) -> None:
    # Its generation prompt opens a thought that the conversation itself does not show.
    own = (
        "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}"
        "{% if add_generation_prompt %}<|assistant|>[think]{% endif %}"
    )
    marked = own.replace("{{ m.content }}<|end|>", "{% generation %}{{ m.content }}<|end|>{% endgeneration %}")
    edit_json(workbench.base_folder / "tokenizer_config.json", lambda settings: settings.update(chat_template=own))
    dataset = workbench.dataset([chat("a", "b <|end|>")])
    with pytest.raises(BadBase, match="without its own generation prompt"):
        workbench.build(dataset)
    artifact = workbench.publish_pack(dataset, chat_template=marked)
    assert all(finding.passed for finding in verdicts(artifact, config=CONFIG))


def _as_ids(*ids: str) -> np.ndarray:
    return np.frombuffer(bytes.fromhex("".join(ids)), np.uint8).reshape(-1, 32)
