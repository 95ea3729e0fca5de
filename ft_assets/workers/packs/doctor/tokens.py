"""Checks of every token: each flags the wrong documents of a chunk, which are counted and the first is named."""

from collections import Counter
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ft_assets.workers.packs.doctor.chunks import Chunk, chunks
from ft_assets.workers.packs.doctor.patient import Patient
from ft_assets.workers.packs.format import Spool

Flags = NDArray[np.bool_]


def token_problems(patient: Patient) -> tuple[dict[str, str | None], int]:
    """The problem that each check found, in a sentence, or None; and the pack's largest token."""
    counts: Counter[str] = Counter()
    first: dict[str, str] = {}
    longest, largest = 0, -1
    for split, pack in patient.packs.items():
        for chunk in chunks(pack):
            longest = max(longest, int(chunk.lengths.max()) if patient.form.own_windows else chunk.longest_window)
            largest = max(largest, int(chunk.ids.max(initial=-1)))
            for name, (check, _) in _CHECKS.items():
                wrong = np.flatnonzero(check(patient, chunk, patient.spools[split]))
                counts[name] += len(wrong)
                if len(wrong):
                    first.setdefault(name, chunk.name(int(wrong[0])))
    more = {"ends": _ends_said(patient), "largest": largest, "vocabulary": patient.vocabulary}
    problems = {
        name: words.format(count=counts[name], first=first[name], **more) if name in first else None
        for name, (_, words) in _CHECKS.items()
    }
    if longest > patient.max_length:
        what = "document" if patient.form.own_windows else "window"
        problems["within_length"] = f"a {what} has {longest} tokens, {patient.max_length} are allowed"
    return problems, largest


def _learned(patient: Patient, chunk: Chunk, spool: Spool) -> Flags:
    return chunk.count(chunk.learned) == 0


def _ends(patient: Patient, chunk: Chunk, spool: Spool) -> Flags:
    """Every learned turn ends with an end-of-turn token of the template, an earlier one perhaps before a token that no
    answer should learn; a text's last piece with the text's end."""
    learned = chunk.learned
    goes_on = np.append(learned[1:], False)
    goes_on[chunk.boundaries[1:] - 1] = False
    last = np.flatnonzero(learned & ~goes_on)
    if patient.reference is None:
        # The next one in the spool starts another row.
        closing = np.append(np.asarray(spool.pieces), 0)[_spooled(spool, chunk) + 1] == 0
        last = last[closing[np.searchsorted(chunk.boundaries[1:], last, side="right")]]
    # Templates may also mark the line break after the end-of-turn token.
    following = last + 1
    for _ in range(8):
        blank = _blanks(patient, chunk.ids[last]) & learned[last - 1]
        if not blank.any():
            break
        last = last - blank
    closed = ~np.isin(following, chunk.boundaries) & np.isin(
        np.append(chunk.ids, -1)[following], patient.unlearned_ends
    )
    bad = last[~np.isin(chunk.ids[last], patient.ends) & ~closed]
    documents = np.zeros(len(chunk.lengths), np.bool_)
    documents[np.searchsorted(chunk.boundaries[1:], bad, side="right")] = True
    return documents


def _blanks(patient: Patient, ids: NDArray[np.int64]) -> Flags:
    """Which of the ids are white space, bool [ids]."""
    different, places = np.unique(ids, return_inverse=True)
    texts = patient.tokenizer.tokenizer.decode_batch([[token] for token in different.tolist()])
    return (np.array([not text.strip() for text in texts], np.bool_) & ~patient.control(different))[places]


def _ends_said(patient: Patient) -> str:
    names = [repr(patient.tokenizer.tokenizer.id_to_token(token)) for token in patient.ends.tolist()]
    what = "do not end" if patient.reference is None else "have learned turns that do not end"
    return f"{what} with {' or '.join(names) or 'an end-of-turn token (the template has none)'}"


def _apart(patient: Patient, chunk: Chunk, spool: Spool) -> Flags:
    """A predicted token is always its own document's next token, and positions restart with each document."""
    wrong = chunk.learned & (chunk.targets != chunk.ids)
    wrong |= chunk.positions != np.arange(len(chunk.ids)) - np.repeat(chunk.boundaries[:-1], chunk.lengths)
    # A first token is preceded by another document.
    starts = chunk.boundaries[:-1]
    wrong[starts] |= chunk.learned[starts]
    return chunk.count(wrong) > 0


def _single_bos(patient: Patient, chunk: Chunk, spool: Spool) -> Flags:
    bos = patient.tokenizer.token_id("bos_token")
    if bos is None or bos == patient.tokenizer.token_id("eos_token"):
        return np.zeros(len(chunk.lengths), np.bool_)
    again = np.append(False, (chunk.ids[1:] == bos) & (chunk.ids[:-1] == bos))
    again[chunk.boundaries[:-1]] = False
    return chunk.count(again) > 0


def _own_control(patient: Patient, chunk: Chunk, spool: Spool) -> Flags:
    """There are exactly as many control tokens as the template wrote."""
    return chunk.count(patient.control(chunk.ids)) != spool.controls[_spooled(spool, chunk)]


def _length(patient: Patient, chunk: Chunk, spool: Spool) -> Flags:
    """Only the recipe's policy cuts documents."""
    numbers = _spooled(spool, chunk)
    return (chunk.lengths != spool.lengths[numbers]) | (not patient.truncates and spool.shortened[numbers] > 0)


def _vocabulary(patient: Patient, chunk: Chunk, spool: Spool) -> Flags:
    return chunk.count((chunk.ids >= patient.vocabulary) | (chunk.ids < 0)) > 0


def _spooled(spool: Spool, chunk: Chunk) -> NDArray[np.int64]:
    """Indices of the chunk's documents in their spool, int64 [documents]."""
    first = spool.first_documents[chunk.examples]
    return first + (chunk.pieces - spool.pieces[first])


_CHECKS: dict[str, tuple[Callable[[Patient, Chunk, Spool], Flags], str]] = {
    "every_example_is_learned_from": (_learned, "{count} examples have no learned tokens, first {first}"),
    "end_of_turn_is_learned": (_ends, "{count} examples {ends}, first {first}"),
    "documents_are_apart": (
        _apart,
        "{count} examples are predicted from another document or at wrong positions, first {first}",
    ),
    "no_doubled_bos": (_single_bos, "{count} examples have two beginning-of-text tokens in a row, first {first}"),
    "no_control_token_from_text": (
        _own_control,
        "{count} examples have other control tokens than their template wrote, first {first}",
    ),
    "within_length": (_length, "{count} documents do not have the length of their example, the first is {first}"),
    "vocabulary_fits_model": (
        _vocabulary,
        "token {largest} does not fit an embedding of {vocabulary} rows, first in {first}",
    ),
}
