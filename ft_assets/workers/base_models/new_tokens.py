"""Tokens that a base does not have: which may be added, and the base with these tokens.

Each is an ordinary added token: it has one id wherever its text occurs. Its rows start as the mean of the rows of the
pieces that spelled it before (Gee et al. 2022, https://arxiv.org/abs/2402.09977). Rows drawn at random can take nearly
all probability if a model's logits are low; a mean of rows cannot: Hewitt 2021,
https://nlp.stanford.edu/~johnhew/vocab-expansion.html
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ft_assets.workers.base_models.contents import INDEX, base_json, weight_files
from ft_assets.workers.base_models.placing import replace_json, replace_text
from ft_assets.workers.base_models.tensors import Stored, append_rows, decoded, encoded, read_header
from ft_resources.errors import BadBase

if TYPE_CHECKING:
    from ft_assets.workers.tokenizers.tokenizer import ChatTokenizer

_EMBEDDINGS = ("embed_tokens.weight", "wte.weight", "embed_in.weight")
_HEADS = ("lm_head.weight", "embed_out.weight", "lm_head.bias", "embed_out.bias")


@dataclass(frozen=True, kw_only=True, slots=True)
class NewToken:
    """A token's text, its id, and the ids that its text was encoded as before."""

    text: str
    number: int
    pieces: tuple[int, ...]


def require_new(folder: Path, tokens: Sequence[str], where: str) -> None:
    """Raise BadBase for the first of ``tokens`` that the tokenizer in ``folder`` already has or cannot add.

    A token may neither contain a control token nor end with the beginning of one: it would take a piece of a control
    token that a template writes.
    """
    from ft_assets.workers.tokenizers.tokenizer import ChatTokenizer

    tokenizer = ChatTokenizer.load(folder)
    for token in tokens:
        if problem := _problem(tokenizer, token):
            raise BadBase(
                f"{token!r} cannot be a new token: {problem}", where=where, remedy="Leave it out of new_tokens."
            )


def add_new_tokens(folder: Path, tokens: Sequence[str], where: str) -> None:
    """Add ``tokens`` to the base in ``folder``: to tokenizer and configuration, and one row each to embedding and head.

    The bytes are equal each time. Links in ``folder`` are replaced, never written through. Raises BadBase for tokens
    that ``require_new`` rejects, and for weights in which embedding and output head cannot be identified.
    """
    require_new(folder, tokens, where)
    added = _extend_tokenizer(folder, tokens, where)
    _extend_weights(folder, added, where)


def _problem(tokenizer: "ChatTokenizer", token: str) -> str:
    ids = tokenizer.tokenizer.encode(token, add_special_tokens=False).ids
    if not ids:
        return "the tokenizer sees nothing in it"
    if tokenizer.tokenizer.token_to_id(token) is not None or len(ids) == 1:
        return "the base has it as one token"
    for control in tokenizer.special_ids:
        if control in token:
            return f"it holds the control token {control!r}"
        if any(token.endswith(control[:size]) for size in range(1, len(control))):
            return f"it ends as the control token {control!r} begins"
    return ""


def _extend_tokenizer(folder: Path, tokens: Sequence[str], where: str) -> list[NewToken]:
    from tokenizers import AddedToken, Tokenizer

    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    pieces = [tokenizer.encode(token, add_special_tokens=False).ids for token in tokens]
    # Matched literally: the base's text normalization before tokenization does not change them.
    tokenizer.add_tokens([AddedToken(token, normalized=False, special=False) for token in tokens])
    replace_text(folder / "tokenizer.json", tokenizer.to_str(pretty=True))
    numbers = tokenizer.get_vocab()
    added = [
        NewToken(text=text, number=numbers[text], pieces=tuple(before))
        for text, before in zip(tokens, pieces, strict=True)
    ]
    _list_added(folder, added, where)
    return added


def _list_added(folder: Path, added: Sequence[NewToken], where: str) -> None:
    """Also list the tokens in older files that list added tokens: transformers prefers these to tokenizer.json."""
    settings_path, list_path = folder / "tokenizer_config.json", folder / "added_tokens.json"
    if settings_path.exists() and "added_tokens_decoder" in (settings := base_json(settings_path, where)):
        plain = {"lstrip": False, "normalized": False, "rstrip": False, "single_word": False, "special": False}
        settings["added_tokens_decoder"] |= {str(each.number): {"content": each.text, **plain} for each in added}
        replace_json(settings_path, settings)
    if list_path.exists():
        replace_json(list_path, {**base_json(list_path, where), **{each.text: each.number for each in added}})


def _extend_weights(folder: Path, added: Sequence[NewToken], where: str) -> None:
    """Give each token its rows. Spare rows after the vocabulary, which bases often have, are used first."""
    config = base_json(folder / "config.json", where)
    shards = [folder / name for name in weight_files(folder, where)]
    by_token = _by_token(shards, config.get("vocab_size"), where)
    rows: int = config["vocab_size"]
    if min(each.number for each in added) > rows:
        raise BadBase(
            f"its tokenizer has more tokens than the {rows} rows of its embedding",
            where=where,
            remedy="Use another base.",
        )
    needed = max(rows, 1 + max(each.number for each in added))
    for shard in shards:
        grown = [stored for stored in by_token if stored.file == shard]
        if not grown:
            continue
        append_rows(shard, {each.name: np.zeros((needed - rows, *each.shape[1:]), each.open().dtype) for each in grown})
        _fill(shard, [stored.name for stored in grown], added)
    replace_json(folder / "config.json", {**config, "vocab_size": needed})
    _count_again(folder, shards)


def _by_token(shards: Sequence[Path], rows: object, where: str) -> list[Stored]:
    """The tensors that have one row per token. Raises BadBase if they are not one embedding and heads."""
    stored = [each for shard in shards for each in read_header(shard)[0].values() if each.shape[:1] == (rows,)]
    embeddings = [each for each in stored if _is_one(each.name, _EMBEDDINGS)]
    others = [each.name for each in stored if not _is_one(each.name, (*_EMBEDDINGS, *_HEADS))]
    if len(embeddings) != 1 or others:
        found = f"{others[0]} has a row for each token too" if others else "no embedding of vocab_size rows was found"
        raise BadBase(
            f"tokens cannot be added to this architecture: {found}",
            where=where,
            remedy="Leave new_tokens out, or use a base such as a Llama, Mistral, Qwen or Gemma model.",
        )
    return stored


def _fill(shard: Path, names: Sequence[str], added: Sequence[NewToken]) -> None:
    """Write the new tokens' rows: the means of the rows of their pieces."""
    tensors, _ = read_header(shard)
    for name in names:
        stored = tensors[name]
        matrix = stored.open(write=True)
        for each in added:
            mean = decoded(matrix[list(each.pieces)], stored.dtype).mean(axis=0)
            matrix[each.number] = encoded(mean, stored.dtype, name)
        matrix.flush()


def _count_again(folder: Path, shards: Sequence[Path]) -> None:
    """Update the totals in the index, if there is one."""
    path = folder / INDEX
    if not path.exists():
        return
    index = base_json(path, str(folder))
    tensors = [each for shard in shards for each in read_header(shard)[0].values()]
    totals = {
        "total_size": sum(each.size for each in tensors),
        "total_parameters": sum(math.prod(each.shape) for each in tensors),
    }
    known = index.get("metadata") or {}
    replace_json(path, {**index, "metadata": {**known, **{name: totals[name] for name in totals if name in known}}})


def _is_one(name: str, ends: Sequence[str]) -> bool:
    return any(name == end or name.endswith(f".{end}") for end in ends)
