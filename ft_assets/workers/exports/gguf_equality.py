"""Whether llama.cpp reads a GGUF file as it is evaluated: the same prompts, and nearly the same next tokens.

The evaluation computes with the file's weights in float32 (``evals.model``). llama.cpp computes with the same weights,
and rounds what enters each product to 8 bits. So its probabilities differ a little, and a file that was converted
wrongly (a layer, a rotation, a scale) differs a lot; a tokenizer or template that was converted wrongly shows in the
prompts' ids.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ft_assets.workers.exports.llama_cpp import LlamaServer
from ft_resources.errors import BadBase

MOST_KL = 5e-3
"""Mean divergence per place, in nats. A base of 3.5 million parameters reaches 5e-4 at most, in each of the formats.
Another file than the evaluated one, such as the same model in other bits, diverges by 1e-2 and more."""
LEAST_ARGMAX = 0.75
"""Share of places with the same likeliest token; for that base 0.95 and more, as near ties fall either way."""
_TOP = 20
_REMEDY = "Serve the merged model (format merged), or install a llama.cpp in the worker that supports this base."


@dataclass(frozen=True, kw_only=True, slots=True)
class Alike:
    """At ``places`` next tokens: the mean divergence of another's probabilities from the evaluated ones, in nats, and
    the share of equal first choices."""

    places: int
    kl: float
    argmax: float

    @classmethod
    def of(cls, found: Sequence[tuple[float, bool]]) -> "Alike":
        count = len(found)
        return cls(places=count, kl=sum(kl for kl, _ in found) / count, argmax=sum(same for _, same in found) / count)

    def facts(self) -> dict[str, Any]:
        return asdict(self)


def require_same_prompts(server: LlamaServer, asked: Sequence[tuple[Sequence[Mapping[str, Any]], list[int]]]) -> None:
    """Raise BadBase unless the server makes each conversation the token ids that it was trained and evaluated with."""
    for messages, expected in asked:
        plain = [{"role": message["role"], "content": message["content"]} for message in messages]
        prompt = server.ask("/apply-template", {"messages": plain})["prompt"]
        if (found := tokens_of(server, prompt)) != expected:
            place = next((n for n, (a, b) in enumerate(zip(found, expected, strict=False)) if a != b), len(expected))
            raise BadBase(
                f"llama.cpp makes a conversation {len(found)} tokens, and training made it {len(expected)}: they "
                f"differ from token {place} on ({found[place : place + 4]} for {expected[place : place + 4]})",
                where="the chat template and tokenizer in the GGUF file",
                remedy=_REMEDY,
            )


def tokens_of(server: LlamaServer, text: str) -> list[int]:
    """The ids of a prompt as the server's chat reads it."""
    found = server.ask("/tokenize", {"content": text, "add_special": True, "parse_special": True})
    return list(found["tokens"])


Rows = Sequence[tuple[Sequence[int], Sequence[int]]]
"""Token ids, and the places in them whose token is predicted from all before it."""


def compare(server: LlamaServer, model: Any, rows: Rows) -> Alike:
    """The next-token probabilities of ``model``, in Transformers, and the server's."""
    return Alike.of([each for ids, places in rows for each in _at_places(server, model, ids, places)])


def changed(model: Any, before: Any, rows: Rows) -> Alike:
    """What quantising changed: the probabilities of ``before``, and those of the quantised ``model``."""
    found = []
    for ids, places in rows:
        whole, ours = (_log_probabilities(each, ids) for each in (before, model))
        for place in places:
            was, now = whole[place - 1], ours[place - 1]
            found.append((float((was.exp() * (was - now)).sum()), bool(was.argmax() == now.argmax())))
    return Alike.of(found)


def require_alike(found: Alike, where: str) -> None:
    """Raise BadBase unless llama.cpp reads the file as it is evaluated."""
    if found.kl <= MOST_KL and found.argmax >= LEAST_ARGMAX:
        return
    raise BadBase(
        f"llama.cpp does not read the GGUF file as it is evaluated: at {found.places} places its next token diverges "
        f"by {found.kl:.2g} nats (at most {MOST_KL}), and {found.argmax:.0%} of its first choices are the same",
        where=where,
        remedy=_REMEDY,
    )


def _at_places(
    server: LlamaServer, model: Any, ids: Sequence[int], places: Sequence[int]
) -> Iterator[tuple[float, bool]]:
    """The divergence at each place, and whether the first choices are the same."""
    ours = _log_probabilities(model, ids)
    # The server reports probabilities only for a token that ends a character, so such a token is forced; the reported
    # probabilities are those before forcing.
    letter = server.ask("/tokenize", {"content": "a"})["tokens"][-1]
    forced = {"n_predict": 1, "temperature": 0.0, "logit_bias": [[letter, 1000.0]]}
    settings = {**forced, "n_probs": _TOP, "cache_prompt": True}
    for place in places:
        answer = server.ask("/completion", {"prompt": list(ids[:place]), **settings})
        (theirs,) = answer["completion_probabilities"]
        top = {int(each["id"]): float(each["logprob"]) for each in theirs["top_logprobs"]}
        row = ours[place - 1]
        kl = _divergence({token: float(row[token]) for token in top}, top)
        yield kl, int(row.argmax()) == max(top, key=top.__getitem__)


def _log_probabilities(model: Any, ids: Sequence[int]) -> Any:
    """[tokens, vocabulary], of the token after each."""
    import torch

    with torch.inference_mode():
        logits = model(input_ids=torch.tensor([list(ids)]), use_cache=False).logits[0]
    return torch.log_softmax(logits.float(), -1)


def _divergence(ours: Mapping[int, float], theirs: Mapping[int, float]) -> float:
    """KL(ours, theirs) over the tokens given, and the rest as one."""
    total = sum(math.exp(log) * (log - theirs[token]) for token, log in ours.items())
    rest, other = (max(1 - sum(map(math.exp, each.values())), 1e-9) for each in (ours, theirs))
    return total + rest * (math.log(rest) - math.log(other))
