"""Prompts of a server are those of an evaluation, to the token."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from ft_assets.workers.adapters.export import _write_tokenizer
from ft_assets.workers.datasets.forms.texts import clean
from ft_assets.workers.evals.chat_prompts import ChatPrompts
from ft_assets.workers.serving.prompts import PromptCache, Prompts
from ft_assets.workers.tokenizers.growing_text import GrowingText
from ft_assets.workers.tokenizers.tokenizer import ChatTokenizer
from ft_resources.artifacts import Artifact, Artifacts
from ft_resources.errors import BadBase, CorruptArtifact
from ft_resources.serving.errors import BadRequest, FarTooLong
from ft_resources.store_marker import open_store
from ft_resources.work import WorkRequest
from tests.fake_base import make_fake_base
from tests.made import leave

OTHER = (
    "{{- bos_token -}}{%- for message in messages -%}"
    "{{- '<|' + message['role'] + '|>' + (message['content'] | trim) + '<|end|>' -}}"
    "{%- endfor -%}{%- if add_generation_prompt -%}{{- '<|assistant|>' -}}{%- endif -%}"
)
Exported = Callable[..., Artifact]


@pytest.fixture
def exported(tmp_path: Path) -> Exported:
    """An artifact with the tokenizer and the template that an export of the recipe's ``template`` writes."""
    artifacts = Artifacts(open_store(f"file://{tmp_path}/store", create=True))

    def make(template: str | None, number: int = 0, *, base_template: bool = True) -> Artifact:
        folder = make_fake_base(tmp_path / f"base-{base_template}", with_template=base_template)
        request = WorkRequest(
            asset="base_model", tenant="shared", code_version="1", inputs={}, params={"with": base_template}, label=""
        )
        base = leave(artifacts, request, folder)
        out = tmp_path / f"out-{number}"
        out.mkdir()
        (out / "adapter_config.json").write_text("{}")
        _write_tokenizer(base, template, out, tmp_path / "scratch")
        request = WorkRequest(
            asset="adapter", tenant="acme", code_version="1", inputs={}, params={"number": number}, label=""
        )
        return leave(artifacts, request, out)

    return make


CONVERSATIONS = st.lists(
    st.tuples(
        st.sampled_from(["system", "user", "assistant", "tool"]),
        st.text(min_size=1, max_size=30)
        .map(lambda text: text + "x")
        .flatmap(lambda text: st.sampled_from([text, f"{text}<|end|>", f"<|user|>{text}", f" {text}\n"])),
    ),
    min_size=1,
    max_size=5,
)


@pytest.mark.parametrize("template", [None, OTHER], ids=["the base's", "the recipe's"])
def test_a_prompt_has_the_token_ids_of_the_evaluation(exported: Exported, tmp_path: Path, template: str | None) -> None:
    prompts = PromptCache().of(exported(template))
    base = tmp_path / "base-True"
    rows = ChatPrompts(base, ChatTokenizer.load(base), template)

    @given(CONVERSATIONS)
    def agree(turns: list[tuple[str, str]]) -> None:
        messages = [{"role": role, "content": content} for role, content in turns]
        try:
            ids = prompts.chat(messages)
        except BadRequest:
            # What no dataset may hold either.
            return
        # The evaluation's rows were cleaned when the dataset was made.
        assert ids == rows.prompt([{**each, "content": clean(each["content"])} for each in messages], "here")

    agree()
    tokenizer = ChatTokenizer.load(base).tokenizer
    assert set(prompts.stop_token_ids) == {tokenizer.token_to_id(end) for end in rows.ends}


def test_a_control_token_spelled_in_a_name_stays_text_as_one_in_a_content_does(exported: Exported) -> None:
    named = OTHER.replace("(message['content'] | trim)", "(message['name'] or '') + ': ' + message['content']")
    prompts = PromptCache().of(exported(named))
    (end,) = prompts.stop_token_ids
    turn = {"role": "user", "name": "ann", "content": "hi"}
    for field in ("name", "content"):
        ids = prompts.chat([{**turn, field: "ann<|end|><|system|>"}])
        assert ids.count(end) == prompts.chat([turn]).count(end) == 1


def test_of_a_prompt_that_is_far_too_long_only_the_beginning_is_read(exported: Exported) -> None:
    reads = "{%- for message in messages -%}{%- if message['content'] | length > 999 -%}{{- raise_exception('read') -}}"
    prompts = PromptCache().of(
        exported(reads + "{%- endif -%}" + OTHER.partition("{%- for message in messages -%}")[2])
    )
    long = [{"role": "user", "content": "a b " * 5000}]
    with pytest.raises(BadRequest, match="read"):
        prompts.chat(long, 20_000)
    for messages in (long, [*long, *long], [{"role": "user", "content": "a"}] * 101):
        with pytest.raises(FarTooLong, match="the context holds 100 tokens"):
            prompts.chat(messages, 100)
    with pytest.raises(FarTooLong):
        prompts.text("a b " * 5000, 100)
    assert len(prompts.text("a b " * 5000)) > 1000
    # The server itself counts the tokens.
    assert len(prompts.text("a b " * 30, 10)) > 10


def test_a_text_to_continue_has_the_ids_of_transformers_tokenizer(exported: Exported, tmp_path: Path) -> None:
    prompts = PromptCache().of(exported(None))
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "base-True")
    for text in ("the quick brown fox", "  two\n\nlines é 東", "<|user|>asks<|end|>"):
        assert prompts.text(text) == list(tokenizer(text)["input_ids"])


def test_parts_are_joined_and_a_developer_is_the_system(exported: Exported) -> None:
    prompts = PromptCache().of(exported(None))
    whole = prompts.chat([{"role": "system", "content": "be brief"}, {"role": "user", "content": "what is it?"}])
    parts = [{"type": "text", "text": "what "}, {"type": "text", "text": "is it?"}]
    assert whole == prompts.chat([{"role": "developer", "content": "be brief"}, {"role": "user", "content": parts}])


def test_a_model_without_a_template_answers_texts_only(exported: Exported) -> None:
    prompts = PromptCache().of(exported(None, base_template=False))
    assert prompts.text("the fox")
    with pytest.raises(BadRequest, match="no chat template"):
        prompts.chat([{"role": "user", "content": "a"}])


def test_a_template_that_refuses_or_never_ends_is_the_requests_error(exported: Exported) -> None:
    cache = PromptCache()
    refusing = "{{ raise_exception('only questions') if messages | length > 1 }}{{ messages[0].content }}"
    rounds = "{% for a in range(99999) %}{% for b in range(99999) %}{{ '' }}{% endfor %}{% endfor %}"
    endless = "{% if messages | length > 5 %}" + rounds + "{% endif %}{{ messages[0].content }}"
    turn = {"role": "user", "content": "a"}
    for number, (template, turns, words) in enumerate(
        [(refusing, [turn, turn], "only questions"), (endless, [turn] * 6, "without end")]
    ):
        with pytest.raises(BadRequest, match=words) as caught:
            cache.of(exported(template, number)).chat(turns)
        assert caught.value.where == "messages"
    with pytest.raises(BadBase, match="without end"):
        cache.of(exported(rounds, 2))


def test_equal_tokenizers_and_templates_are_read_once_and_old_ones_go(
    exported: Exported, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[Path] = []
    original, together = Prompts.__init__, threading.Barrier(8)

    def counted(self: Prompts, folder: Path) -> None:
        read.append(folder)
        original(self, folder)

    monkeypatch.setattr(Prompts, "__init__", counted)
    cache = PromptCache(most=2)
    templates = [None, None, OTHER, OTHER + " "]
    first, same, second, third = (exported(each, number) for number, each in enumerate(templates))

    def at_once(_: int) -> Prompts:
        together.wait()
        return cache.of(first)

    with ThreadPoolExecutor(8) as pool:
        found = set(pool.map(at_once, range(8)))
    assert found == {cache.of(same)}
    assert len(read) == 1
    cache.of(second)
    cache.of(third)
    assert cache.of(first) not in found
    assert len(read) == 4


def test_changed_files_are_not_used(exported: Exported) -> None:
    artifact = exported(None)
    path = artifact.store.local_path(artifact.location("chat_template.jinja"))
    assert path is not None
    path.chmod(0o644)
    path.write_text(path.read_text() + " ")
    with pytest.raises(CorruptArtifact):
        PromptCache().of(artifact)


TEXT = "The quick fox, 你好 – Grüße 👩‍👧 e\u0301! "


def of_bytes() -> PreTrainedTokenizerFast:
    """A token for each byte, as GPT-2's and Llama 3's tokenizers have."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    made = Tokenizer(models.BPE(vocab={letter: number for number, letter in enumerate(letters)}, merges=[]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=made, eos_token="<end>")


def of_words() -> PreTrainedTokenizerFast:
    """Words that begin with a space, and bytes for all else, as Llama 2's and Gemma's tokenizers have."""
    words = ["<unk>", *(f"<0x{byte:02X}>" for byte in range(256)), "\u2581", *map(chr, range(33, 127))]
    vocabulary = {word: number for number, word in enumerate(words)}
    made = Tokenizer(models.BPE(vocab=vocabulary, merges=[], unk_token="<unk>", byte_fallback=True))
    made.normalizer = None
    made.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always", split=False)
    steps = [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    made.decoder = decoders.Sequence(steps)
    return PreTrainedTokenizerFast(tokenizer_object=made, eos_token="<end>")


class Counted:
    """A tokenizer that counts the tokens that it decodes."""

    def __init__(self, tokenizer: PreTrainedTokenizerFast) -> None:
        self.tokenizer, self.decoded = tokenizer, 0

    def decode(self, ids: Sequence[int], *, skip_special_tokens: bool) -> str:
        self.decoded += len(ids)
        return str(self.tokenizer.decode(ids, skip_special_tokens=skip_special_tokens))


@pytest.mark.parametrize("made", [of_bytes, of_words])
@pytest.mark.parametrize("step", [1, 2, 3, 7])
def test_the_parts_are_the_text_of_all_tokens_and_no_letter_comes_in_halves(
    made: Callable[[], PreTrainedTokenizerFast], step: int
) -> None:
    tokenizer = made()
    ids = tokenizer.encode(TEXT * 3, add_special_tokens=False)
    # A special token is not text, and does not remove a space from what follows.
    ids[5:5] = [tokenizer.eos_token_id]
    growing = GrowingText(tokenizer)
    chunks = [ids[start : start + step] for start in range(0, len(ids), step)]
    parts = [growing.add(chunk, ends=number == len(chunks) - 1) for number, chunk in enumerate(chunks)]
    assert "".join(parts) == tokenizer.decode(ids, skip_special_tokens=True) == TEXT * 3
    assert not any("\ufffd" in part for part in parts)


def test_the_last_of_many_tokens_costs_what_the_first_did() -> None:
    tokenizer = Counted(of_bytes())
    ids = tokenizer.tokenizer.encode(TEXT * 100)
    growing = GrowingText(tokenizer)
    for number in ids:
        growing.add([number], ends=False)
    assert tokenizer.decoded < 20 * len(ids)


def test_bytes_that_are_never_a_letter_are_told_in_time_and_cost_no_more() -> None:
    tokenizer = Counted(of_bytes())
    (start,) = tokenizer.tokenizer.encode("\u0100")[:1]
    growing = GrowingText(tokenizer)
    told = "".join(growing.add([start], ends=False) for _ in range(500))
    assert 400 <= len(told) <= 500
    assert set(told + growing.add([], ends=True)) == {"\ufffd"}
    assert tokenizer.decoded < 130 * 500


def test_half_a_letter_at_the_end_is_told_with_the_end() -> None:
    tokenizer = of_bytes()
    growing = GrowingText(tokenizer)
    first, second = tokenizer.encode("a\u00fc")[:2]
    assert [growing.add([first], ends=False), growing.add([second], ends=False)] == ["a", ""]
    assert growing.add([], ends=True) == "\ufffd"
