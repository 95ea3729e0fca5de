"""The doctor: looks at the files that a trainer will read and says, with evidence, whether they can be trained on.

Everything is computed here, in the worker, and left in ``evidence/doctor.json``; the asset check only reads it.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ft_assets.packs.evidence import DOCTOR_CHECKS, Finding
from ft_assets.packs.examples import Example, read_examples
from ft_assets.packs.format import Pack, Spool
from ft_assets.packs.format.pack import Shard
from ft_assets.packs.template import ChatTemplate
from ft_assets.packs.tokenizer import ChatTokenizer
from ft_resources.artifacts import EXPLAINING_FOLDERS
from ft_resources.canonical import sha256_file

_SAMPLES = 3
_COMPARED = 200


@dataclass(frozen=True, kw_only=True)
class Patient:
    """A written pack and where it came from.

    Args:
        folder: the pack's files.
        spools: by split, the training split first, what was packed.
        train_rows: the dataset's training split, for a second rendering.
        reference: the template that the tokens must agree with; None for what has no template.
        vocabulary: rows of the model's embedding (``vocab_size`` of its config.json).
        holdout_ids: dataset ids that must not be packed.
        max_length: tokens that a window may have.
    """

    folder: Path
    spools: dict[str, Spool]
    train_rows: Path
    tokenizer: ChatTokenizer
    reference: ChatTemplate | None
    vocabulary: int
    holdout_ids: frozenset[str]
    max_length: int


def examine(patient: Patient) -> dict[str, Any]:
    """The evidence as JSON: verdicts, decoded samples, and which files were looked at."""
    views = [
        _View(pack, split, shard, spool)
        for split, spool in patient.spools.items()
        for pack in [Pack.open(patient.folder, split)]
        for shard in pack.shards()
    ]
    checks: dict[str, Callable[[Patient, list[_View]], str | None]] = {
        "every_example_is_learned_from": _unlearned,
        "end_of_turn_is_learned": _endless,
        "no_doubled_bos": _doubled_bos,
        "no_control_token_from_text": _foreign_control,
        "within_length": _overlong,
        "vocabulary_fits_model": _outside_vocabulary,
        "template_is_the_base_s": _other_template,
        "holdout_is_absent": _holdout,
    }
    findings = []
    for name, description in DOCTOR_CHECKS.items():
        problem = checks[name](patient, views)
        findings.append(Finding(name=name, passed=problem is None, detail=problem or description))
    names = sorted(str(path.relative_to(patient.folder)) for path in patient.folder.rglob("*") if path.is_file())
    return {
        "checks": [asdict(finding) for finding in findings],
        "samples": [_sample(patient, views[0], document) for document in _spread(views[0].documents, _SAMPLES)],
        "largest_token": max((int(view.input_ids.max(initial=-1)) for view in views), default=-1),
        "files": {
            name: sha256_file(patient.folder / name) for name in names if not name.startswith(EXPLAINING_FOLDERS)
        },
    }


class _View:
    """One shard as the trainer sees it, with the way back from its documents to examples and to the spool."""

    def __init__(self, pack: Pack, split: str, shard: Shard, spool: Spool) -> None:
        self.pack, self.split, self.shard, self.spool = pack, split, shard, spool
        self.documents = len(shard.examples)
        self.starts, self.ends = shard.document_offsets[:-1], shard.document_offsets[1:]
        self.input_ids, self.learned = shard.input_ids, shard.learned
        # Where each document of the shard is in the spool, int64 [documents].
        self.sources = spool.first_documents[shard.examples] + shard.pieces

    def name(self, document: int) -> str:
        """A document for humans: split, row of the upload, id."""
        example = int(self.shard.examples[document])
        return f"{self.split} row {self.pack.example_row(example)} (id {self.pack.example_id(example)[:12]})"

    def document_of(self, token: int) -> int:
        return int(np.searchsorted(self.ends, token, side="right"))

    def count(self, tokens: NDArray[np.bool_]) -> NDArray[np.int64]:
        """How many of the flagged tokens each document has, int64 [documents]."""
        total = np.concatenate([np.zeros(1, np.int64), np.cumsum(tokens, dtype=np.int64)])
        return total[self.ends] - total[self.starts]


def _unlearned(patient: Patient, views: list[_View]) -> str | None:
    for view in views:
        # The first token of a document has a label but no context to be predicted from.
        predicted = view.learned.copy()
        predicted[view.starts] = False
        bad = np.flatnonzero(view.count(predicted) == 0)
        if len(bad):
            return f"{len(bad)} examples have no learned tokens, first {view.name(bad[0])}"
    return None


def _endless(patient: Patient, views: list[_View]) -> str | None:
    bos = patient.tokenizer.token_id("bos_token")
    stops = patient.tokenizer.control_ids - ({bos} - {patient.tokenizer.token_id("eos_token")})
    for view in views:
        starts_document = np.zeros(len(view.input_ids) + 1, bool)
        starts_document[view.shard.document_offsets] = True
        goes_on = np.concatenate([view.learned[1:], np.zeros(1, bool)]) & ~starts_document[1:]
        last = np.flatnonzero(view.learned & ~goes_on)
        # Templates may mark the line break behind the end-of-turn token, too.
        for _ in range(8):
            ids = view.input_ids[last]
            blank = np.isin(ids, [i for i in np.unique(ids) if not patient.tokenizer.tokenizer.decode([i]).strip()])
            blank &= ~np.isin(ids, list(patient.tokenizer.control_ids)) & view.learned[last - 1]
            if not blank.any():
                break
            last = last - blank
        bad = last[~np.isin(view.input_ids[last], list(stops))]
        if len(bad):
            name = view.name(view.document_of(int(bad[0])))
            return f"{len(bad)} learned turns do not end with a control token of the tokenizer, first in {name}"
    return None


def _doubled_bos(patient: Patient, views: list[_View]) -> str | None:
    bos = patient.tokenizer.token_id("bos_token")
    if bos is None or bos == patient.tokenizer.token_id("eos_token"):
        return None
    for view in views:
        is_bos = view.input_ids == bos
        pairs = is_bos[1:] & is_bos[:-1]
        pairs[view.starts[1:] - 1] = False
        if pairs.any():
            bad = int(np.flatnonzero(pairs)[0])
            return f"{int(pairs.sum())} doubled tokens, first in {view.name(view.document_of(bad))}"
    return None


def _foreign_control(patient: Patient, views: list[_View]) -> str | None:
    for view in views:
        found = view.count(np.isin(view.input_ids, list(patient.tokenizer.control_ids)))
        bad = np.flatnonzero(found != view.spool.controls[view.sources])
        if len(bad):
            return f"{len(bad)} examples have other control tokens than their template wrote, first {view.name(bad[0])}"
    return None


def _overlong(patient: Patient, views: list[_View]) -> str | None:
    for view in views:
        longest = int(np.diff(view.shard.document_offsets[view.shard.window_offsets]).max(initial=0))
        if longest > patient.max_length:
            return f"a window of {view.split} has {longest} tokens, {patient.max_length} are allowed"
        if not np.array_equal(view.ends - view.starts, view.spool.lengths[view.sources]):
            return f"a document of {view.split} does not have the length of its example"
    return None


def _outside_vocabulary(patient: Patient, views: list[_View]) -> str | None:
    for view in views:
        bad = np.flatnonzero(view.input_ids >= patient.vocabulary)
        if len(bad):
            token = int(view.input_ids[bad[0]])
            where = view.name(view.document_of(int(bad[0])))
            return f"token {token} does not fit an embedding of {patient.vocabulary} rows, first in {where}"
    return None


def _other_template(patient: Patient, views: list[_View]) -> str | None:
    if patient.reference is None:
        return None
    view = views[0]
    spread = _spread(view.documents, _COMPARED)
    chosen = {view.pack.example_id(int(view.shard.examples[document])): document for document in spread}
    for batch in read_examples(patient.train_rows):
        for example in batch:
            document = chosen.get(example.id)
            if document is not None and not np.array_equal(
                _fresh_ids(patient, patient.reference, example), _ids(view, document)
            ):
                return f"{view.name(document)} differs from its rendering by {patient.reference.name}"
    return None


def _holdout(patient: Patient, views: list[_View]) -> str | None:
    for view in views:
        packed = {view.pack.example_id(example) for example in np.unique(view.shard.examples)}
        bad = sorted(packed & patient.holdout_ids)
        if bad:
            return f"{len(bad)} examples of the holdout are in {view.split}, first id {bad[0][:12]}"
    return None


def _fresh_ids(patient: Patient, reference: ChatTemplate, example: Example) -> NDArray[np.int32]:
    rendering = reference.trace(example.messages, where=example.where, with_turns=False)
    return patient.tokenizer.encode([rendering], [[]])[0].ids


def _ids(view: _View, document: int) -> NDArray[np.int32]:
    return view.input_ids[view.starts[document] : view.ends[document]]


def _spread(count: int, wanted: int) -> list[int]:
    """At most ``wanted`` of 0 .. count - 1, evenly spread."""
    return sorted({int(index) for index in np.linspace(0, count - 1, min(count, wanted))}) if count else []


def _sample(patient: Patient, view: _View, document: int) -> dict[str, Any]:
    """A document as text, and the characters of it that are learned."""
    ids = _ids(view, document).tolist()
    learned = view.learned[view.starts[document] : view.ends[document]]
    decode = patient.tokenizer.tokenizer.decode
    text = decode(ids, skip_special_tokens=False)
    edges = np.flatnonzero(np.diff(learned.astype(np.int8), prepend=0, append=0)).tolist()
    places = [min(len(text), len(decode(ids[:edge], skip_special_tokens=False))) for edge in edges]
    return {
        "id": view.pack.example_id(int(view.shard.examples[document])),
        "text": text,
        "learned": [[start, end] for start, end in zip(places[::2], places[1::2], strict=True)],
    }
