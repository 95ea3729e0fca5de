"""The interface of a model server, for the embedded engine and vLLM."""

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

Reason = Literal["stop", "length"]
"""Why an answer ended: by an end token, or by ``max_tokens``."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Sampling:
    """How an answer is written.

    Args:
        max_tokens: most tokens of the answer, the end token included.
        temperature: 0 takes the likeliest token.
        top_p: draws from the likeliest tokens that together have this probability.
        seed: of the draws; None draws differently each time.
        stop_token_ids: ids that end the answer beside the base's own end tokens.
        logprobs: log-probabilities of each token and of this many likeliest ones; None for none at all.
    """

    max_tokens: int
    temperature: float = 0.0
    top_p: float = 1.0
    seed: int | None = None
    stop_token_ids: tuple[int, ...] = ()
    logprobs: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Token:
    """One token: ``logprob`` in nats if it was asked for, ``top`` the likeliest ids with theirs.

    Log-probabilities are those of the model, before temperature and ``top_p``.
    """

    id: int
    logprob: float | None = None
    top: Mapping[int, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Piece:
    """Part of an answer, as it streams; ``finish_reason`` is that of the last piece.

    ``prompt`` are the token ids that the server read, with a whole answer; empty where it does not tell them.
    ``thoughts`` are apart from the ``text`` once a template has taken the answer apart, and ``lead`` is the number of
    all tokens so far that stand before the first of the text; no server tells them.
    """

    tokens: tuple[Token, ...]
    text: str
    thoughts: str = ""
    lead: int = 0
    finish_reason: Reason | None = None
    prompt: tuple[int, ...] = ()


class Server(Protocol):
    """A server of one base and of adapters to it, by names.

    A name belongs to the bytes that it was first loaded with: use names with a digest.
    """

    def load(self, name: str, folder: Path) -> None:
        """Serve the adapter in ``folder`` (a path of the server's machine) as ``name``; loading it again is no error.

        Raises NameTaken if the name belongs to other bytes, and UserError for a folder without an adapter to the base.
        """

    def unload(self, name: str) -> None:
        """Stop serving ``name``; requests in flight finish. Raises NotFound for an unknown name."""

    def models(self) -> list[str]:
        """Names that may be asked for: the base's first, then those of adapters."""

    def complete(self, model: str, prompt: Sequence[int], sampling: Sampling) -> Piece:
        """The whole answer to the token ids ``prompt``.

        Raises NotFound for an unknown model, ServerBusy if too many wait, and ServerUnavailable.
        """

    def stream(self, model: str, prompt: Sequence[int], sampling: Sampling) -> Generator[Piece]:
        """The same in pieces, as they are written. Closing it ends the generation."""

    def score(self, model: str, prompt: Sequence[int], continuation: Sequence[int], top: int = 0) -> list[Token]:
        """Each token of ``continuation`` after ``prompt`` and what comes before it, with its log-probability and the
        ``top`` likeliest tokens in its place."""
