"""The shipped base: small, self-sufficient, and a chat model whose turns begin and end as they should."""

import json
import re
from pathlib import Path

import pytest

import ft_assets.demo as demo

BASE = Path(demo.__file__).parent / "base"
CHAT = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "def seek(self, offset, whence=0)\n\nWhat is the default of whence?"},
    {"role": "assistant", "content": "0"},
]


@pytest.fixture(scope="module")
def tokenizer():
    transformers = pytest.importorskip("transformers")
    return transformers.AutoTokenizer.from_pretrained(BASE)


@pytest.fixture(scope="module")
def model():
    transformers = pytest.importorskip("transformers")
    return transformers.AutoModelForCausalLM.from_pretrained(BASE)


def test_the_weights_are_safetensors_of_at_most_8_mb_and_nothing_is_pickled() -> None:
    assert (BASE / "model.safetensors").stat().st_size <= 8_000_000
    assert {p.suffix for p in BASE.iterdir()} <= {".json", ".jinja", ".md", ".safetensors"}


def test_the_training_log_is_short_and_the_card_names_sources_and_licences() -> None:
    log = [json.loads(line) for line in (BASE.parent / "training_log.jsonl").read_text().splitlines()]
    assert 10 < len(log) <= 300
    card = (BASE / "README.md").read_text(encoding="utf-8")
    assert all(word in card for word in ("Public domain", "Gutenberg", "Persuasion", "Limits"))


def test_no_shipped_text_names_a_path_of_the_machine_that_made_it() -> None:
    for path in [p for p in BASE.parent.rglob("*") if p.suffix in {".json", ".jsonl", ".md", ".yaml", ".py", ".jinja"}]:
        assert not re.search(r"/(work|root|home|tmp)/", path.read_text(encoding="utf-8")), path


def test_a_rendered_chat_has_exactly_one_beginning_token(tokenizer) -> None:
    ids = tokenizer.apply_chat_template(CHAT, return_dict=True)["input_ids"]
    assert ids.count(tokenizer.bos_token_id) == 1
    assert ids[0] == tokenizer.bos_token_id
    rendered = tokenizer.apply_chat_template(CHAT, tokenize=False)
    assert tokenizer(rendered)["input_ids"] == ids


def test_the_assistant_mask_covers_the_answer_and_its_end_token_alone(tokenizer) -> None:
    encoded = tokenizer.apply_chat_template(CHAT, return_dict=True, return_assistant_tokens_mask=True)
    learned = [t for t, m in zip(encoded["input_ids"], encoded["assistant_masks"], strict=True) if m]
    assert tokenizer.decode(learned) == "0" + tokenizer.eos_token


def test_the_generation_prompt_is_a_prefix_of_the_whole_chat(tokenizer) -> None:
    prompt = tokenizer.apply_chat_template(CHAT[:2], add_generation_prompt=True, return_dict=True)["input_ids"]
    whole = tokenizer.apply_chat_template(CHAT, return_dict=True)["input_ids"]
    assert whole[: len(prompt)] == prompt


def test_pad_end_and_beginning_are_three_tokens_and_the_model_knows_them(tokenizer, model) -> None:
    ids = (tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.pad_token_id)
    assert len(set(ids)) == 3
    assert (model.config.bos_token_id, model.config.eos_token_id, model.config.pad_token_id) == ids
    assert model.generation_config.eos_token_id == tokenizer.eos_token_id
    assert len(tokenizer) == model.config.vocab_size


def test_any_text_comes_back_from_the_tokenizer_unchanged(tokenizer) -> None:
    for text in ("def f(a, *, b='x\\n', **kw) -> None:\n    return a[0]", "naïve – Ω 雪\t", "  two  spaces \n"):
        assert tokenizer.decode(tokenizer(text)["input_ids"]) == text


def test_the_model_copies_what_it_saw_and_ends_its_turns(tokenizer, model) -> None:
    """Repeated random tokens are predicted, and after an answer of its own the end token is."""
    torch = pytest.importorskip("torch")
    half = torch.randint(6, model.config.vocab_size, (4, 60), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        guess = model(input_ids=torch.cat([half, half], dim=1)).logits[:, 60:-1].argmax(-1)
        said = [
            {"role": "user", "content": "How can I sell lemonade?"},
            {"role": "assistant", "content": "Gladly. Begin with a small part, and take your time."},
        ]
        ids = torch.tensor([tokenizer.apply_chat_template(said, return_dict=True)["input_ids"][:-1]])
        ending = model(input_ids=ids).logits[0, -1].softmax(-1)[tokenizer.eos_token_id]
    assert (guess == half[:, 1:]).float().mean() > 0.8
    assert ending > 0.5
