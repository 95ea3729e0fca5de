"""``overlong: truncate`` with tokens as real ones are: of several letters, over word ends, and of half a character."""

import itertools
import json
import re
from pathlib import Path

import numpy as np
import pytest
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

from ft_assets.workers.tokenizers.tokenizer import ChatTokenizer
from tests.fake_base import SPECIALS, make_fake_base
from tests.workers.packs.conftest import chat
from tests.workers.packs.documents.prepared import batch_of, chats_of, make_preparer, pair_of
from tests.workers.packs.encoding.tokenizers import QWEN

WORDS = re.findall(
    r"\S+",
    "the quick brown fox explains why a house of stone isn't as warm as one of wood; 1234 times, they'll say, "
    "### Response: [INST] and [/INST] 多言語の文章です。 שלום עולם 🙂🙂 naïve café",
)
TEMPLATES = {
    "cues": (
        "{% for m in messages %}{% if m.role == 'assistant' %}{% generation %} {{ m.content }}<|end|>"
        "{% endgeneration %}{% else %}### {{ m.role }}:\n{{ m.content | trim }}\n\n### Response:\n{% endif %}"
        "{% endfor %}"
    ),
    "control tokens": (
        "{% for m in messages %}<|{{ m.role }}|>\n{{ m.content }}<|end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|assistant|>\n{% endif %}"
    ),
}


@pytest.fixture(scope="session")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny base with a tokenizer like Qwen's: 1,500 byte-level pieces of its expression."""
    folder = make_fake_base(tmp_path_factory.mktemp("truncation"))
    tokenizer = Tokenizer(models.BPE())
    whole = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(QWEN), "isolated"), whole])
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=1500, special_tokens=SPECIALS, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator([_prose(number, 60) + "\n\n### Response:\n" for number in range(40)], trainer)
    tokenizer.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in SPECIALS])
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder


def _prose(seed: int, words: int) -> str:
    chosen = np.random.default_rng(seed).integers(0, len(WORDS), words)
    return " ".join(WORDS[index] for index in chosen) + "."


def _pieces(tokenizer: ChatTokenizer, ids: np.ndarray) -> list[bytes]:
    """The bytes of each token."""
    letters = {letter: byte for byte, letter in _alphabet().items()}
    names = [tokenizer.tokenizer.id_to_token(number) or "" for number in ids.tolist()]
    return [name.encode() if name in SPECIALS else bytes(letters[letter] for letter in name) for name in names]


def _alphabet() -> dict[int, str]:
    """The letters that byte-level tokenizers write bytes with."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in plain]
    return {**{byte: chr(byte) for byte in plain}, **{byte: chr(256 + place) for place, byte in enumerate(others)}}


@pytest.mark.parametrize("name", TEMPLATES)
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(1, 4))])
def test_only_ends_of_contents_go_and_everything_else_is_there_byte_for_byte(base: Path, name: str, seed: int) -> None:
    tokenizer = ChatTokenizer.load(base)
    contents = [_prose(seed, 40), _prose(seed + 10, 6), _prose(seed + 20, 25), _prose(seed + 30, 8)]
    batch = chats_of(chat(*contents))

    def prepare(max_length: int) -> tuple[list[bytes], np.ndarray]:
        preparer = make_preparer(base, chat_template=TEMPLATES[name], max_length=max_length, overlong="truncate")
        prepared = preparer.prepare(batch)
        return _pieces(tokenizer, prepared.input_ids), prepared.learned

    whole, learned = prepare(10_000)
    text = b"".join(whole)
    questions = [content.strip().encode() for content in contents[::2]]
    places = [text.index(question) for question in questions]
    frame = [text[: places[0]], text[places[0] + len(questions[0]) : places[1]], text[places[1] + len(questions[1]) :]]
    assert max(len(piece) for piece in whole) > 3
    # Of a token that goes over from a question to what the template writes behind it, nothing may go.
    edges = {0, *itertools.accumulate(map(len, whole))}
    ends = [place + len(question) for place, question in zip(places, questions, strict=True)]
    held = [end - max(edge for edge in edges if edge <= end) for end in ends]
    assert [bool(tail) for tail in held] == [name == "cues"] * 2
    for max_length in range(len(whole) - 1, len(whole) - 40, -3):
        kept, still = prepare(max_length)
        assert len(kept) == max_length
        assert [piece for piece, chosen in zip(kept, still, strict=True) if chosen] == [
            piece for piece, chosen in zip(whole, learned, strict=True) if chosen
        ]
        # The two questions may have lost their ends, and nothing else anything.
        rest = b"".join(kept)
        for question, tail, before, behind in zip(questions, held, frame, frame[1:], strict=False):
            last = question[len(question) - tail :] + behind
            assert rest.startswith(before)
            rest = rest[len(before) :]
            here = next(n for n in range(len(question) - tail, -1, -1) if rest.startswith(question[:n] + last))
            assert here > 0
            rest = rest[here + tail :]
        assert rest == frame[-1]
        # Tokens are those of the whole document, some left out: what is left is not encoded anew.
        remaining = iter(whole)
        assert all(any(piece == other for other in remaining) for piece in kept)


def test_both_answers_to_a_shortened_prompt_follow_the_same_tokens(base: Path) -> None:
    batch = batch_of(pair_of(chat(_prose(1, 60)), _prose(2, 10), _prose(3, 4)))
    preparer = make_preparer(
        base, "preference", chat_template=TEMPLATES["control tokens"], max_length=70, overlong="truncate"
    )
    prepared = preparer.prepare(batch)
    assert np.diff(prepared.offsets).max() <= 70
    assert prepared.shortened.min() > 0
    prompts = []
    for start, end in itertools.pairwise(prepared.offsets.tolist()):
        prompts.append(prepared.input_ids[start : start + int(np.argmax(prepared.learned[start:end]))].tolist())
    assert prompts[0] == prompts[1]


def test_the_tokenizer_is_what_these_tests_think_it_is(base: Path) -> None:
    assert json.loads((base / "tokenizer.json").read_bytes())["pre_tokenizer"]["type"] == "Sequence"
