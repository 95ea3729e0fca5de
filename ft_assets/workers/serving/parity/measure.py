"""Measurements: the server against the reference, its base as the control, and the reference's own noise."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from ft_assets.workers.serving.parity.asked_prompts import Prompt, Render
from ft_assets.workers.serving.parity.asking import Forced
from ft_assets.workers.serving.parity.comparison import Logprobs, Place, compare, summarise
from ft_assets.workers.serving.parity.figures import Figures
from ft_assets.workers.serving.parity.reference import Reference
from ft_resources.serving.server import Token

# The base without the adapter differs almost everywhere, and each difference costs a request.
_CONTROL_PROMPTS = 10
# Prompts whose log-probabilities are in memory together: 130 MB for a vocabulary of 128,000 tokens.
_AT_ONCE = 8

Answer = Callable[[Sequence[Forced]], Sequence[Sequence[Token]]]
"""The likeliest tokens at the places of given answers to prompts, from a server or another model."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """A prompt, its ids as the router sends them, and the reference's tokens with all log-probabilities there."""

    prompt: Prompt
    sent: Sequence[int]
    tokens: Sequence[int]
    logprobs: Logprobs

    def compared(self, found: Sequence[Token]) -> list[Place]:
        """``found`` beside the reference, place by place."""
        return [compare(*each) for each in zip(self.logprobs, self.tokens, found, strict=True)]


@dataclass(frozen=True, kw_only=True, slots=True)
class Measured:
    """The figures of the server, of its base, and of the noise (None if not measured)."""

    figures: Figures
    control: Figures
    noise: Figures | None


@dataclass(slots=True)
class _Side:
    """The compared places of one of the three measurements, prompt by prompt."""

    places: list[list[Place]] = field(default_factory=list)
    other_ids: int = 0

    def add(self, cases: Sequence[Case], found: Sequence[Sequence[Token]], *, sent: bool) -> None:
        self.places += [case.compared(tokens) for case, tokens in zip(cases, found, strict=True)]
        self.other_ids += sum(sent and list(case.sent) != list(case.prompt.ids) for case in cases)

    def figures(self) -> Figures:
        return summarise(self.places, other_ids=self.other_ids)


def measure(
    reference: Reference,
    prompts: Sequence[Prompt],
    render: Render,
    most: int,
    *,
    adapter: Answer,
    base: Answer,
    twin: Answer | None,
) -> Measured:
    """Compare answers of at most ``most`` tokens; ``twin`` is the reference in another dtype, for the noise.

    There is at least one prompt. Raises what ``render`` and the answers raise.
    """
    server, control, noise = _Side(), _Side(), _Side()
    for cases in _cases(reference, prompts, render, most):
        as_sent = [(case.sent, case.tokens) for case in cases]
        server.add(cases, adapter(as_sent), sent=True)
        if room := _CONTROL_PROMPTS - len(control.places):
            control.add(cases[:room], base(as_sent[:room]), sent=True)
        if twin is not None:
            noise.add(cases, twin([(case.prompt.ids, case.tokens) for case in cases]), sent=False)
    return Measured(
        figures=server.figures(), control=control.figures(), noise=noise.figures() if twin is not None else None
    )


def _cases(reference: Reference, prompts: Sequence[Prompt], render: Render, most: int) -> Iterator[list[Case]]:
    for start in range(0, len(prompts), _AT_ONCE):
        part = prompts[start : start + _AT_ONCE]
        answers = reference.answers([prompt.ids for prompt in part], most)
        yield [_case(reference, *each, render) for each in zip(part, answers, strict=True)]


def _case(reference: Reference, prompt: Prompt, answer: Sequence[int], render: Render) -> Case:
    logprobs = reference.logprobs(prompt.ids, answer)
    # Also the place after the answer, with its end token.
    tokens = [*answer, int(logprobs[-1].argmax())]
    return Case(prompt=prompt, sent=list(render(prompt.messages)), tokens=tokens, logprobs=logprobs)
