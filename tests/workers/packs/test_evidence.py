"""What the doctor wrote decides for a base: it has to be there, fresh, whole, and shown on that architecture."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ft_assets.workers.packs.evidence import DOCTOR_CHECKS, EVIDENCE, architecture_of, verdicts, vocabulary_size
from ft_assets.workers.packs.format.layout import array_name
from ft_assets.workers.tokenizers.chat_template import load_template
from ft_assets.workers.tokenizers.tokenizer import ChatTokenizer
from ft_resources.errors import BadBase
from tests.fake_base import VOCABULARY
from tests.workers.packs.conftest import Workbench, chat, edit_json


def _config(**settings: Any) -> bytes:
    """The config.json of the base that packs are made for, with other settings."""
    return json.dumps({"model_type": "llama", "vocab_size": VOCABULARY, **settings}).encode()


CONFIG = _config()


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
        "{% for call in m.tool_calls or [] %}{{ call.function | tojson }}{% endfor %}{{ m.content }}<|end|>"
        "{% endgeneration %}{% else %}<|user|>{{ m.content }}<|end|>{% endif %}{% endfor %}"
        "{% if add_generation_prompt %}<|assistant|>{% endif %}"
    )
    edit_json(workbench.base_folder / "tokenizer_config.json", lambda settings: settings.update(chat_template=source))
    rows = [{"messages": conversation, "tools": json.dumps(tools)}]
    artifact = workbench.publish_folder(
        "token_pack", workbench.build(workbench.dataset_of({"train": rows}), max_length=512).folder
    )
    assert [finding.detail for finding in verdicts(artifact, config=CONFIG) if not finding.passed] == []


def test_a_tokenizer_without_an_end_fails_the_doctor(workbench: Workbench) -> None:
    source = (
        "{% for m in messages %}{{ m.role }}: {% if m.role == 'assistant' %}"
        "{% generation %}{{ m.content }}{% endgeneration %}{% else %}{{ m.content }}{% endif %}\n{% endfor %}"
    )
    artifact = workbench.publish_pack(workbench.dataset([chat("a", "b")]), chat_template=source)
    failed = {finding.name for finding in verdicts(artifact, config=CONFIG) if not finding.passed}
    # A marked template counts as a variant of the base's own, which it is not here.
    assert failed == {"end_of_turn_is_learned", "template_is_the_base_s"}


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
    assert "have the same loss packed and alone, to the bit (llama). A training compares again" in own.detail
    config = _config(model_type="mistral", sliding_window=4096)
    (found,) = [finding for finding in verdicts(artifact, config=config) if not finding.passed]
    assert (found.name, found.blocks) == ("packed_equals_alone", False)
    assert "Not shown for this base (mistral, a sliding window)" in found.detail
    assert "passed on its architecture (llama). A training compares again" in found.detail


def test_an_architecture_that_failed_says_nothing_about_the_others(workbench: Workbench) -> None:
    edit_json(workbench.base_folder / "config.json", lambda config: config.update(model_type="no_such_kind"))
    artifact = workbench.publish_pack(workbench.dataset([chat("a", "b")]))
    for config, blocks, detail in (
        (_config(model_type="no_such_kind"), True, "does not include the architecture"),
        (CONFIG, False, "failed on its architecture (no_such_kind)"),
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
    with pytest.raises(BadBase, match=r"how large its vocabulary is|is not a JSON object|is not valid JSON"):
        vocabulary_size(json.dumps(config).encode())


def test_the_vocabulary_of_a_nested_text_model_is_found() -> None:
    assert vocabulary_size(b'{"text_config": {"vocab_size": 7}}') == 7


def test_the_template_of_the_base_is_the_reference_of_its_marked_variant(workbench: Workbench) -> None:
    tokenizer = ChatTokenizer.load(workbench.base_folder)
    own = load_template(workbench.base_folder, tokenizer, None).source
    artifact = workbench.publish_pack(workbench.dataset([chat("a", "b")]), chat_template=own + "{# a variant #}")
    assert all(finding.passed for finding in verdicts(artifact, config=CONFIG))


def test_a_prompt_that_opens_what_no_conversation_shows_is_refused_by_name(workbench: Workbench) -> None:
    own = (
        "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}"
        "{% if add_generation_prompt %}<|assistant|>[think]{% endif %}"
    )
    marked = own.replace("{{ m.content }}<|end|>", "{% generation %}{{ m.content }}<|end|>{% endgeneration %}")
    edit_json(workbench.base_folder / "tokenizer_config.json", lambda settings: settings.update(chat_template=own))
    dataset = workbench.dataset([chat("a", "b <|end|>")])
    with pytest.raises(BadBase, match="without its own generation prompt"):
        workbench.build(dataset)
    # Marks tell where the answer is, and it would be learned behind other tokens than it is asked behind.
    artifact = workbench.publish_pack(dataset, chat_template=marked)
    (failed,) = (finding for finding in verdicts(artifact, config=CONFIG) if not finding.passed)
    assert failed.name == "template_is_the_base_s"
    assert "learns an answer behind other tokens than a prompt by the base's chat template has" in failed.detail
