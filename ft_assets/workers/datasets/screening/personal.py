"""Finds personal data and secrets in texts, and replaces them with placeholders."""

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ft_assets.settings.dataset.policy import PersonalDataSettings
from ft_assets.workers.datasets.buffers import text_buffers
from ft_assets.workers.datasets.screening import email_and_ip as addresses
from ft_assets.workers.datasets.screening import names, national_ids, payment, phones, secrets, tokens
from ft_assets.workers.datasets.screening.candidates import Candidates, find_candidates
from ft_assets.workers.datasets.screening.folding import fold
from ft_assets.workers.datasets.screening.found import FINDINGS, Screened, Span, without_overlaps
from ft_assets.workers.datasets.screening.names import NameModel
from ft_assets.workers.datasets.screening.phone_regions import Regions
from ft_assets.workers.datasets.screening.replacing import replace
from ft_assets.workers.datasets.screening.tables import (
    ASSIGNMENT,
    EMAIL,
    IBAN,
    ID,
    IPV6,
    LONG,
    MASKED,
    NUMBER,
    PEM,
    TEXT,
    TOKEN,
    URL,
)


def screen(texts: pa.StringArray, settings: PersonalDataSettings, model: NameModel | None = None) -> Screened:
    """Find ``settings.searched`` in ``texts`` (no nulls); with action ``scrub``, put placeholders in their place.

    A pure function of each single text. Of overlapping findings, one wins (``found.PRIORITY``), whether or not its type
    is requested: a card number is not a phone number, even if only phone numbers are requested. ``model`` is the one
    that ``settings.names`` names.
    """
    assert settings.names is None or model is not None
    index: list[int] = []
    types: list[str] = []
    starts: list[int] = []
    ends: list[int] = []
    changed: list[tuple[int, str]] = []
    if settings.action != "off":
        for at, raw, found in _spans(texts, settings, model):
            spans = [span for span in found if span.type in settings.searched]
            index += [at] * len(spans)
            types += [span.type for span in spans]
            places = _code_points(raw, spans)
            starts += places[::2]
            ends += places[1::2]
            if spans and settings.action == "scrub":
                changed.append((at, replace(raw, spans).decode()))
    findings = pa.record_batch(
        [
            pa.array(index, pa.int32()),
            pa.array(types, pa.string()),
            pa.array(starts, pa.int32()),
            pa.array(ends, pa.int32()),
        ],
        schema=FINDINGS,
    )
    return Screened(_replaced(texts, changed), findings)


def _spans(
    texts: pa.StringArray, settings: PersonalDataSettings, model: NameModel | None
) -> Iterator[tuple[int, bytes, list[Span]]]:
    """(index, UTF-8, findings in bytes) of each text with findings, by index."""
    places = _candidates(texts, settings)
    offsets, data = text_buffers(texts)
    results = []
    for at, kinds, begins, stops in _by_text(places):
        raw = data[offsets[at] : offsets[at + 1]].tobytes()
        spans = without_overlaps(_recognise(raw, kinds, begins, stops, settings, model))
        if spans:
            results.append((at, raw, spans))
    if len(places.fold):
        results += _folded(texts, places.fold.tolist(), settings, model)
        results.sort(key=lambda result: result[0])
    yield from results


def _candidates(texts: pa.StringArray, settings: PersonalDataSettings) -> Candidates:
    return find_candidates(texts, ids=settings.recogniser is not None, names=settings.names is not None)


def _by_text(places: Candidates) -> Iterator[tuple[int, list[int], list[int], list[int]]]:
    """(index, kinds, starts, ends) of the candidates of each text that has any."""
    if not len(places.index):
        return
    cuts = np.flatnonzero(np.diff(places.index)) + 1
    kinds, starts, ends = places.kind.tolist(), places.start.tolist(), places.end.tolist()
    bounds = [0, *cuts.tolist(), len(kinds)]
    for low, high in pairwise(bounds):
        yield int(places.index[low]), kinds[low:high], starts[low:high], ends[low:high]


def _recognise(
    raw: bytes,
    kinds: list[int],
    starts: list[int],
    ends: list[int],
    settings: PersonalDataSettings,
    model: NameModel | None,
) -> Iterator[Span]:
    done = 0
    regions = Regions(raw, settings.phone_region)
    for kind, start, end in zip(kinds, starts, ends, strict=True):
        if kind == NUMBER:
            if end - start >= 12:
                yield from payment.find_cards(raw, start, end)
            if b"." in raw[start:end]:
                yield from addresses.find_ipv4(raw, start, end)
            if "phone" in settings.types:
                yield from phones.find_phones(raw, start, end, regions)
        elif kind == EMAIL:
            yield from addresses.find_emails(raw, start, raw.index(b"@", start), end)
        elif kind == IBAN:
            yield from payment.find_ibans(raw, start, end)
        elif kind == IPV6:
            yield from addresses.find_ipv6(raw, start, end)
        elif kind == ID and settings.recogniser:
            yield from national_ids.find_ids(raw, settings.recogniser.entities)
        elif kind == TEXT and settings.names and model:
            yield from names.find_names(raw, model, settings.names.types)
        elif kind == MASKED:
            yield from addresses.find_masked_emails(raw)
        elif kind == ASSIGNMENT:
            yield from secrets.find_named(raw, start)
        elif kind == URL:
            yield from secrets.find_url_passwords(raw, start)
        elif start >= done or kind == LONG:
            for span in _SECRETS[kind](raw, start, end):
                done = span.end
                yield span


# What a finding of one of these covers need not be looked at again.
_SECRETS = {TOKEN: tokens.find_token, LONG: tokens.find_in_run, PEM: secrets.find_private_keys}


def _folded(
    texts: pa.StringArray, indices: list[int], settings: PersonalDataSettings, model: NameModel | None
) -> list[tuple[int, bytes, list[Span]]]:
    """The findings in texts that must be folded first, at their positions in the original texts."""
    originals = [texts[at].as_py() for at in indices]
    looked_at = [fold(text) for text in originals]
    places = _candidates(pa.array([text for text, _ in looked_at], pa.string()), settings)
    results = []
    for at, kinds, begins, stops in _by_text(places):
        text, positions = looked_at[at]
        raw = text.encode()
        spans = without_overlaps(_recognise(raw, kinds, begins, stops, settings, model))
        if not spans:
            continue
        points = np.array(_code_points(raw, spans))
        if positions is not None:
            # The end is right after the last significant character, not right before the next one.
            points[::2] = positions[points[::2]]
            points[1::2] = positions[points[1::2] - 1] + 1
        original = originals[at]
        lengths = np.concatenate([[0], np.cumsum([len(letter.encode()) for letter in original])])
        places_in = lengths[points].tolist()
        spans = [
            Span(start, end, span.type) for start, end, span in zip(places_in[::2], places_in[1::2], spans, strict=True)
        ]
        results.append((indices[at], original.encode(), spans))
    return results


def _code_points(raw: bytes, spans: list[Span]) -> list[int]:
    """Starts and ends of ``spans`` alternately, as the number of code points before them."""
    if raw.isascii():
        return [place for span in spans for place in span[:2]]
    places, points, at = [], 0, 0
    for span in spans:
        for place in span[:2]:
            points += len(raw[at:place].decode())
            at = place
            places.append(points)
    return places


def _replaced(texts: pa.StringArray, changed: list[tuple[int, str]]) -> pa.StringArray:
    if not changed:
        return texts
    mask = np.zeros(len(texts), np.bool_)
    mask[[at for at, _ in changed]] = True
    return pc.replace_with_mask(texts, pa.array(mask), pa.array([text for _, text in changed], pa.string()))
