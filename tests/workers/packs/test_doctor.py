"""Every check of the doctor can fail, names the example, and never quotes it."""

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from ft_assets.settings.catalogue.forms import FormName
from ft_assets.workers.datasets.engine.local import in_process
from ft_assets.workers.packs.doctor.endings import turn_ends
from ft_assets.workers.packs.doctor.examine import examine
from ft_assets.workers.packs.doctor.patient import Patient
from ft_assets.workers.packs.documents.prepare import PrepareSettings
from ft_assets.workers.packs.documents.tokenize import tokenize_split
from ft_assets.workers.packs.evidence import DOCTOR_CHECKS
from ft_assets.workers.packs.format import SPLITS, PackWriter
from ft_assets.workers.packs.format.layout import array_name
from ft_assets.workers.packs.packing import pack
from ft_assets.workers.templates.template import ChatTemplate
from ft_assets.workers.tokenizers.tokenizer import ChatTokenizer
from ft_resources.artifacts import Artifact
from tests.fake_base import CHAT_TEMPLATE, VOCABULARY
from tests.workers.packs.conftest import Workbench, chat, edit_json, example_id

TRAIN = [chat(f"private question {n}?", f"private answer <|end|> {n}", "and?", "so.") for n in range(9)]
MAX_LENGTH = 128


@pytest.fixture
def patient(workbench: Workbench, tokenizer: ChatTokenizer, template: ChatTemplate, tmp_path: Path) -> Patient:
    """A healthy pack of TRAIN, not yet written."""
    dataset = workbench.dataset(TRAIN, [chat("where?", "here")])
    return dataclasses.replace(_patient(workbench, tokenizer, dataset, tmp_path), reference=template)


def _patient(
    workbench: Workbench, tokenizer: ChatTokenizer, dataset: Artifact, tmp_path: Path, form: FormName = "chat"
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
        learn="all_assistant",
        holdout_ids=np.empty((0, 32), np.uint8),
    )


def _written(patient: Patient, **files: np.ndarray) -> Patient:
    """The patient with its files on disk, some arrays of the training split replaced."""
    for split, spool in patient.spools.items():
        layout = pack(spool.lengths, max_length=MAX_LENGTH, seed=0)
        form: FormName = "text" if patient.reference is None else "chat"
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


def test_an_example_that_counts_otherwise_than_its_row_says_is_found(patient: Patient, tmp_path: Path) -> None:
    weights = np.ones(len(TRAIN))
    weights[3] = 2.5
    weights.tofile(tmp_path / "spool" / "train" / "weights")
    failed = _failures(_written(patient))
    assert "row 4 " in failed["answers_are_learned"]
    assert failed["answers_are_learned"].endswith("counts 2.5 in training, and its row says 1")


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


@pytest.mark.parametrize("system", [None, "be brief"])
def test_a_greeting_that_nobody_asked_for_needs_no_prompt(workbench: Workbench, system: str | None) -> None:
    asked = "{% if messages | map(attribute='role') | select('eq', 'user') | list | length == 0 %}"
    refuses = asked + "{{ raise_exception('no question') }}{% endif %}" + CHAT_TEMPLATE
    edit_json(workbench.base_folder / "tokenizer_config.json", lambda config: config.update(chat_template=refuses))
    greeted = [chat("", "hello", f"question {n}", "so.", system=system) for n in range(3)]
    for rows in greeted:
        del rows[system is not None]
    result = workbench.build(workbench.dataset(greeted, greeted[:1]))
    checks = json.loads((result.folder / "evidence/doctor.json").read_text())["checks"]
    assert all(check["passed"] for check in checks)


def test_an_example_of_the_holdout_is_found(patient: Patient) -> None:
    leaked = dataclasses.replace(_written(patient), holdout_ids=_as_ids(example_id(TRAIN[4])))
    assert example_id(TRAIN[4])[:12] in _failures(leaked)["holdout_is_absent"]


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


HARMONY = (
    "{% for m in messages %}{% if m.role == 'assistant' %}<|assistant|>" + CHAT_ENDS + "{% else %}"
    "<|{{ m.role }}|>{{ m.content }}{% endif %}{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


def test_an_earlier_turn_need_not_learn_an_end_that_no_answer_has(
    workbench: Workbench,
) -> None:
    result = workbench.build(workbench.dataset(TRAIN, [chat("where?", "here")]), chat_template=HARMONY)
    evidence = json.loads((result.folder / "evidence" / "doctor.json").read_text())
    assert [check["detail"] for check in evidence["checks"] if not check["passed"]] == []
    runs = [run for sample in evidence["samples"] for run in sample["runs"] if run["learned"]]
    assert not any("<|pad|>" in run["text"] for run in runs)
    assert any(run["text"].endswith("<|end|>") for run in runs)


def test_a_text_must_end_with_the_end_of_text(workbench: Workbench, tokenizer: ChatTokenizer, tmp_path: Path) -> None:
    dataset = workbench.dataset_of({"train": [{"text": f"private text {n}"} for n in range(5)]})
    patient = _patient(workbench, tokenizer, dataset, tmp_path, form="text")
    assert not _failures(_written(patient))
    ids = _array(patient, "input_ids")
    ids[_offsets(patient)[3] - 1] = tokenizer.special_ids["<|pad|>"]
    failures = _failures(_written(patient, input_ids=ids))
    assert "1 examples do not end with '<|end|>', first train row " in failures["end_of_turn_is_learned"]


def test_the_page_of_samples_escapes_row_text(workbench: Workbench) -> None:
    result = workbench.build(workbench.dataset([chat("<script>alert(1)</script>", "<b>bold</b>")]))
    page = (result.folder / "report/samples.html").read_text()
    assert "<script>" not in page
    assert "<mark>&lt;b&gt;bold&lt;/b&gt;</mark>" in page
    assert '<mark><span class="control">&lt;|end|&gt;</span></mark>' in page


def _as_ids(*ids: str) -> np.ndarray:
    return np.frombuffer(bytes.fromhex("".join(ids)), np.uint8).reshape(-1, 32)
