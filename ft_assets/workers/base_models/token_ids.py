"""The same ids for the same text everywhere: in token packs, in evaluation, and in an adapter's served folder.

Packs follow a base's ``tokenizer.json``. transformers does so only with its general class: since version 5, a class
named by ``tokenizer_config.json`` or by the model's type takes vocabulary and merges from the file and rebuilds the
rest. For example, ``LlamaTokenizer`` with ``legacy: false`` puts a space only before the first piece of a text, but the
files of Llama 2, TinyLlama or Phi-3 put one after every control token too. The class also depends on whether the folder
has a config.json, so an adapter's folder may be read differently from its base's.
"""

import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ft_assets.workers.base_models.contents import TOKENIZER_FILES
from ft_assets.workers.base_models.placing import write_json
from ft_assets.workers.base_models.transformers_ids import NAMED, Loader, answers, ask, load
from ft_assets.workers.templates.source import tokenizer_settings
from ft_resources.errors import BadBase

if TYPE_CHECKING:
    from ft_assets.workers.tokenizers.tokenizer import ChatTokenizer

SETTINGS = "tokenizer_config.json"
# The class that uses tokenizer.json unchanged, by the name that transformers 4 and 5 both know.
_GENERAL_CLASS = "PreTrainedTokenizerFast"
# Settings of the classes that rebuild a tokenizer. The general class does not need them, or would be misled by them.
_OF_OTHER_CLASSES = (
    "legacy",
    "add_prefix_space",
    "sp_model_kwargs",
    "use_default_system_prompt",
    "from_slow",
    "split_special_tokens",
    "fix_mistral_regex",
    "backend",
)
# The settings kept from a base whose other settings get in the way.
_KEPT = ("model_max_length", "padding_side", "truncation_side", "clean_up_tokenization_spaces")
_MOST_CONTROL_TOKENS = 64
_TEXTS = (
    "hello",
    " hello",
    "   hello",
    "\nhello",
    "\n\n hello",
    "hello\n",
    "trailing  ",
    "\t",
    "",
    " ",
    "It's 1234567 o'CLOCK, isn't it?",
    "def f(x):\r\n    return x ** 2  # squared",
    "日本語と中文，한국어",
    "🙂👩‍👩‍👧‍👦🏳️‍🌈",
    "a\u200bb\u200d\ufeffc",
    "é e\u0301 ﬁ ① Å Ⅷ",
    "שלום مرحبا",
    "▁▁x Ġy",
    "\u00a0wide\u3000spaces",
)


def load_tokenizer(folder: Path) -> Any:
    """The tokenizer in ``folder`` for transformers and its users, with the ids of token packs.

    Raises BadBase, with an example, if transformers cannot reproduce these ids.
    """
    tokenizer = load(folder, "PreTrainedTokenizerFast")
    packs = _packs(folder)
    texts = probe_texts(packs)
    if difference := _compare_ids(packs, texts, answers(tokenizer, texts)):
        raise _unreadable(difference)
    return tokenizer


def examine_tokenizer(folder: Path) -> str:
    """Check a base's tokenizer before training: "" if transformers reads it as packs do, else a warning.

    Raises BadBase if nothing trained on it could be evaluated, or served from its own folder.
    """
    packs = _packs(folder)
    texts = probe_texts(packs)
    with tempfile.TemporaryDirectory(prefix="ft-tokenizer-") as scratch:
        alone = _copy(folder, Path(scratch) / "alone", TOKENIZER_FILES)
        questions: list[tuple[Path, Loader]] = [
            (folder, "PreTrainedTokenizerFast"),
            (folder, "AutoTokenizer"),
            (alone, "AutoTokenizer"),
        ]
        general, whole, adapter = ask(questions, texts)
        if difference := _compare_ids(packs, texts, general):
            raise _unreadable(difference)
        if _compare(packs, texts, adapter):
            settle_tokenizer(alone)
        difference = _compare(packs, texts, whole)
        if not difference:
            return ""
        warning = (
            "transformers' AutoTokenizer reads this base's tokenizer in another way than its tokenizer.json: "
            f"{difference}. Training, evaluation and adapters made here follow tokenizer.json. Load the tokenizer from "
            "the adapter's folder, not from the base: with the base's, texts become tokens that the adapter was not "
            "trained on."
        )
        full = _copy(folder, Path(scratch) / "full", (*TOKENIZER_FILES, "config.json"))
        try:
            settle_tokenizer(full)
        except BadBase:
            warning += " A fully trained model of this base cannot be exported: train lora or qlora."
    return warning


def settle_tokenizer(folder: Path) -> None:
    """Make ``AutoTokenizer.from_pretrained(folder)`` give the ids of packs, if necessary by other settings.

    A folder that already gives them is not changed. Raises BadBase, with an example, if no settings achieve it.
    """
    packs = _packs(folder)
    texts = probe_texts(packs)

    def difference() -> str:
        return _compare(packs, texts, ask([(folder, "AutoTokenizer")], texts)[0])

    if not difference():
        return
    settings = tokenizer_settings(folder)
    general = {name: value for name, value in settings.items() if name not in _OF_OTHER_CLASSES}
    write_json(folder / SETTINGS, {**general, "tokenizer_class": _GENERAL_CLASS})
    if not difference():
        return
    # Settings and older files may add tokens, or name tokens, that packs do not know.
    for name in ("special_tokens_map.json", "added_tokens.json"):
        (folder / name).unlink(missing_ok=True)
    kept = {name: settings[name] for name in _KEPT if name in settings}
    write_json(folder / SETTINGS, {**kept, **packs.named, "tokenizer_class": _GENERAL_CLASS})
    if found := difference():
        raise BadBase(
            f"transformers, loading this folder, would tokenize texts differently than training did: {found}",
            where="tokenizer.json",
            remedy="Train lora or qlora, or use a base whose tokenizer.json transformers follows exactly.",
        )


def probe_texts(packs: "ChatTokenizer") -> list[str]:
    """Texts on which tokenizers are known to disagree: alone, around and after control and other added tokens."""
    added = packs.tokenizer.get_added_tokens_decoder().values()
    first = [text for text in packs.named.values() if text in packs.special_ids]
    # Some added tokens that are plain text too: a base may have more control tokens than there is room for.
    ordinary = sorted(token.content for token in added if not token.special)[: _MOST_CONTROL_TOKENS // 2]
    every = [*first, *ordinary, *sorted(token.content for token in added)]
    control = list(dict.fromkeys(every))[:_MOST_CONTROL_TOKENS]
    texts = list(_TEXTS)
    for token in control:
        texts += [f"{token}hello", f"{token} hello", f"{token}\nhello", f"hello{token}", f"hello {token}\n{token} "]
    texts += [f"{token}{text}{token}" for token in control[:4] for text in _TEXTS]
    return texts


def _packs(folder: Path) -> "ChatTokenizer":
    from ft_assets.workers.tokenizers.tokenizer import ChatTokenizer

    return ChatTokenizer.load(folder)


def _compare(packs: "ChatTokenizer", texts: Sequence[str], found: Mapping[str, Any]) -> str:
    """The first difference between packs and what transformers returned, in words; "" if there is none."""
    for name in NAMED if "error" not in found else ():
        # A token that is in no vocabulary is never written.
        ours = packs.named.get(name) if packs.token_id(name) is not None else None
        theirs = found[name]
        if theirs != ours and not (ours is None and packs.tokenizer.token_to_id(theirs) is None):
            return f"{name} is {theirs!r} there and {ours!r} here"
    return _compare_ids(packs, texts, found)


def _compare_ids(packs: "ChatTokenizer", texts: Sequence[str], found: Mapping[str, Any]) -> str:
    if "error" in found:
        return f"it cannot load it ({found['error']})"
    for opened, key in ((False, "plain"), (True, "opened")):
        for text, theirs in zip(texts, found[key], strict=True):
            encoding = packs.tokenizer.encode(text, add_special_tokens=opened)
            if encoding.ids != theirs:
                pieces = [packs.tokenizer.id_to_token(number) for number in theirs]
                return f"{text!r} is {pieces} there and {encoding.tokens} here"
    return ""


def _unreadable(difference: str) -> BadBase:
    return BadBase(
        f"transformers cannot load the tokenizer exactly as its tokenizer.json says: {difference}",
        where="tokenizer.json",
        remedy="Save the tokenizer again with a current version of transformers, and register a new version of the "
        "recipe with it.",
    )


def _copy(folder: Path, target: Path, names: Sequence[str]) -> Path:
    target.mkdir()
    for name in names:
        if (folder / name).exists():
            shutil.copyfile(folder / name, target / name)
    return target
