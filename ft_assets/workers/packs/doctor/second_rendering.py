"""Compare the packed tokens with a second, slow and simple way to make them: render the row, encode the whole
rendering."""

import json
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ft_assets.workers.datasets.columns import WEIGHT
from ft_assets.workers.datasets.forms.turns import to_messages
from ft_assets.workers.packs.doctor.chunks import Chunk, chunk
from ft_assets.workers.packs.doctor.patient import Patient
from ft_assets.workers.packs.documents.examples import read_batches
from ft_assets.workers.packs.format import TRAIN, Pack, Spool
from ft_assets.workers.templates.rendering import Messages, Rendering, Tools
from ft_assets.workers.templates.thoughts import loses_thoughts, with_thought
from ft_assets.workers.tokenizers.prompts import prompt_ids

COMPARED = 200
# Shorter texts ("yes", "2") may occur in an answer by chance.
_TELLING = 12


def compare(patient: Patient) -> dict[str, str | None]:
    """Compare at least ``COMPARED`` documents, spread over the training split: the first problem by check, or None.

    ``template_is_the_base_s``: the first document whose tokens differ from the second way's, or that learns an answer
    behind other tokens than the prompt for it has.
    ``answers_are_learned``: the first that does not learn the assistant's text, learns another role's, or counts
    otherwise than its row's weight says.
    """
    pack, spool = patient.packs[TRAIN], patient.spools[TRAIN]
    wanted: dict[str, list[tuple[Chunk, int]]] = {}
    windows = spread(len(pack), COMPARED)
    for window in windows:
        view = chunk(pack, range(window, window + 1))
        for document in spread(len(view.lengths), -(-COMPARED // len(windows))):
            wanted.setdefault(pack.example_id(int(view.examples[document])), []).append((view, document))
    problems: dict[str, str | None] = {"template_is_the_base_s": None, "answers_are_learned": None}
    by = patient.reference.name if patient.reference else "Hugging Face's tokenizer"
    for batch in read_batches(patient.train_rows, patient.form):
        for whole in batch.filter(pc.is_in(batch["id"], pa.array(list(wanted)))).to_pylist():
            for view, document in wanted[whole["id"]]:
                example, piece = int(view.examples[document]), int(view.pieces[document])
                row, number = whole, piece
                if patient.by_turn:
                    # A document of a conversation is as that of the row that ends with its turn.
                    ends = turn_ends_of(patient, whole)
                    count = int(np.count_nonzero(spool.examples == example))
                    if piece >= len(ends) or len(ends) != count:
                        problem = f"is of a row with {len(ends)} turns to learn, which has {count} documents"
                        problems["answers_are_learned"] = f"{view.name(document)} {problem}"
                        continue
                    row, number = {**whole, "messages": whole["messages"][: ends[piece]]}, 0
                tokens = view.document(document)
                found: dict[str, str | None] = {}
                ids, learned = view.ids[tokens], view.learned[tokens]
                # Where another row's answer has no room, the row's own stands in its place.
                numbers = (number, number - 1) if patient.form.answers == 1 and number % 2 else (number,)
                fresh = [
                    (each, made)
                    for each in numbers
                    for made in _ids(patient, row, each)
                    if _agrees(patient, ids, made, spool, example, piece + each - number)
                ]
                if not fresh:
                    found["template_is_the_base_s"] = f"differs from its rendering by {by}"
                    fresh = [(number, made) for made in _ids(patient, row, number)]
                elif not all(
                    _follows_prompt(patient, ids[:start], spool, row, example, piece)
                    for start in _starts(patient, learned)
                ):
                    found["template_is_the_base_s"] = f"learns an answer behind other tokens than a prompt by {by} has"
                if patient.reference is not None:
                    found["answers_are_learned"] = _other_answer(patient, ids[learned].tolist(), row, *fresh[0])
                found["answers_are_learned"] = found.get("answers_are_learned") or _other_weight(pack, row, example)
                for name, wrong in found.items():
                    if wrong and not problems[name]:
                        problems[name] = f"{view.name(document)} {wrong}"
    return problems


def turn_ends_of(patient: Patient, row: Mapping[str, Any]) -> list[int]:
    """By how many messages of a conversation each of its documents is made, where each turn has its own."""
    template = patient.reference
    assert template is not None
    messages, tools, where = _conversation(row, 0)
    asked = [place for place in _spoken(messages) if _is_asked_for(messages, place)]
    exact = []
    for place in asked:
        cut = {**row, "messages": row["messages"][: place + 1]}
        prompt = prompt_ids(template, patient.tokenizer, messages[:place], where=where, tools=tools)
        if not _bare(patient, cut, 0)[-1] and _ids(patient, cut, 0)[0][: len(prompt)].tolist() == prompt:
            exact.append(place + 1)
    return exact or [place + 1 for place in asked] or [len(messages)]


def _spoken(messages: Messages) -> list[int]:
    return [place for place, message in enumerate(messages) if message["role"] == "assistant"]


def _is_asked_for(messages: Messages, place: int) -> bool:
    """Whether somebody spoke before: a greeting has no prompt."""
    return any(each["role"] in ("user", "tool") for each in messages[:place])


def _starts(patient: Patient, learned: NDArray[np.bool_]) -> list[int]:
    """Where turns begin to be learned, of those that must stand behind their prompt."""
    starts = np.flatnonzero(learned & ~np.append(False, learned[:-1])).tolist()
    return starts[:1] if patient.learn == "all_assistant_bare" else starts


def _ids(patient: Patient, row: Mapping[str, Any], piece: int) -> list[NDArray[np.int32]]:
    """The second way's tokens of a row's document, int32 [tokens]; of a text all pieces, without the tokens around it.

    ``piece`` chooses between the chosen (even) and the rejected (odd) answer of an example that has two. A second one
    is with the prompt's thoughts in the last turn only, where they may be in all.
    """
    if patient.reference is None:
        return [_encoded(patient, row["text"])]
    answer = row.get("rejected" if piece % 2 else "chosen") or []
    thought = patient.reference.probes.missing_thought
    messages, tools, where = _conversation(row, piece)
    rendering = patient.reference.trace(
        messages,
        where=where,
        tools=tools,
        with_turns=bool(thought),
        first=len(row["messages"]) if answer else 0,
    )
    last = rendering.turns[-1:]
    each = [last] if patient.last_only or not thought else [rendering.turns, last]
    made = (with_thought(rendering, turns, thought, messages)[0] for turns in each)
    return [patient.tokenizer.encode(one).ids for one in made]


def _conversation(row: Mapping[str, Any], piece: int) -> tuple[Messages, Tools, str]:
    """A row's messages up to the answer of ``piece``, its tools, and its name in errors."""
    messages = to_messages([*row["messages"], *(row.get("rejected" if piece % 2 else "chosen") or [])])
    return messages, json.loads(row["tools"]) if row.get("tools") else None, f"row {row['row']} of the upload"


def _follows_prompt(
    patient: Patient, before: NDArray[np.int64], spool: Spool, row: Mapping[str, Any], example: int, piece: int
) -> bool:
    """Whether the tokens ``before`` a turn that is learned are the prompt for one of the assistant's turns."""
    template = patient.reference
    if template is None or _is_shortened(spool, example, piece):
        return True
    messages, tools, where = _conversation(row, piece)
    turns = _spoken(messages)
    # Templates may have no prompt for an answer that nobody asked for, such as a greeting.
    asked = [place for place in turns if _is_asked_for(messages, place)]

    def prompt(place: int) -> list[int]:
        return prompt_ids(template, patient.tokenizer, messages[:place], where=where, tools=tools)

    if len(asked) < len(turns) and (not asked or len(before) < len(prompt(asked[0]))):
        return True
    return any(before.tolist() == prompt(place) for place in asked)


def _encoded(patient: Patient, text: str) -> NDArray[np.int32]:
    """Ids of plain text, in which control tokens are only spelled."""
    quoted = [found.span() for found in patient.tokenizer.control.finditer(text)]
    return patient.tokenizer.encode(Rendering(text=text, turns=[], quoted=quoted)).ids


def _decoded(patient: Patient, ids: list[int]) -> str:
    """The text of tokens without what tokenizers and templates may change: white space, and characters' composition."""
    text = patient.tokenizer.tokenizer.decode(ids, skip_special_tokens=False)
    return "".join(unicodedata.normalize("NFC", text).split())


def _kept(patient: Patient, text: str) -> str:
    """What the tokenizer keeps of ``text``, as ``_decoded`` gives it: some drop capitals or unknown characters."""
    return _decoded(patient, _encoded(patient, text).tolist())


def _other_answer(
    patient: Patient, ids: list[int], row: Mapping[str, Any], piece: int, fresh: NDArray[np.int32]
) -> str | None:
    """The problem with the learned tokens of a row's document, ignoring white space; None if there is none.

    ``fresh``: the whole document, int32 [tokens].
    """
    learned = _decoded(patient, ids)
    answer = row.get("rejected" if piece % 2 else "chosen") or []
    prompt, said = (row["messages"], answer) if answer else ([], row["messages"])
    answers = [turn["content"] for turn in said if turn["role"] == "assistant"]
    left_out = [
        bare or apart
        for bare, apart in zip(_bare(patient, row, piece), _apart(patient, row, piece, fresh), strict=True)
    ]
    rest, position = "", 0
    for answer_text, is_left_out in list(zip(answers, left_out[-len(answers) :], strict=True))[
        -1 if patient.last_only else 0 :
    ]:
        if is_left_out:
            continue
        # Templates may drop the reasoning of earlier turns.
        content = _kept(patient, answer_text.rpartition("</think>")[2])
        place = learned.find(content, position)
        if place < 0:
            return "does not learn all of the assistant's text"
        rest += learned[position:place] + " "
        position = place + len(content)
    rest += learned[position:]
    # An assistant may repeat another role's text: in its thoughts, or as a tool call's arguments.
    own = " ".join(_kept(patient, text) for text in _said_beside(said))
    for turn in [*prompt, *said]:
        content = _kept(patient, turn["content"]) if turn["role"] != "assistant" else ""
        if len(content) >= _TELLING and rest.count(content) > own.count(content):
            return "learns text that the assistant did not write"
    return None


def _bare(patient: Patient, row: Mapping[str, Any], piece: int) -> list[bool]:
    """Of each turn of the assistant, whether it is left out as the template drops its thoughts."""
    messages, tools, where = _conversation(row, piece)
    template = patient.reference

    def render(shown: Messages) -> str:
        assert template is not None
        return template.render(shown, where=where, tools=tools)

    return [patient.leaves_bare and loses_thoughts(render, messages, place) for place in _spoken(messages)]


def _apart(patient: Patient, row: Mapping[str, Any], piece: int, fresh: NDArray[np.int32]) -> list[bool]:
    """Of each turn of the assistant, whether it is left out as the document does not begin as its prompt."""
    messages, tools, where = _conversation(row, piece)
    template, turns = patient.reference, _spoken(messages)
    assert template is not None
    apart = set()
    for place in turns if patient.learn == "all_assistant" else ():
        if _is_asked_for(messages, place):
            prompt = prompt_ids(template, patient.tokenizer, messages[:place], where=where, tools=tools)
            if fresh[: len(prompt)].tolist() != prompt:
                apart.add(place)
    if all(place in apart or not _is_asked_for(messages, place) for place in turns):
        # Then all are learned, and told to be behind other tokens.
        apart = set()
    # A greeting has no prompt, and is learned if no turn is left out.
    return [place in apart or (bool(apart) and not _is_asked_for(messages, place)) for place in turns]


def _other_weight(pack: Pack, row: Mapping[str, Any], example: int) -> str | None:
    """How an example's weight differs from its row's; None if it does not."""
    packed = pack.weights_of(np.array([example]))
    counts, said = 1.0 if packed is None else float(packed[0]), row.get(WEIGHT.name, 1.0)
    return None if counts == said else f"counts {counts:g} in training, and its row says {said:g}"


def _said_beside(turns: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """The assistant's text outside its answers: thoughts, and its calls' arguments, whole and one by one."""
    for turn in turns:
        if turn["role"] == "assistant":
            yield turn["content"].rpartition("</think>")[0]
            for call in json.loads(turn["tool_calls"] or "[]"):
                arguments = call["function"]["arguments"]
                yield json.dumps(arguments, ensure_ascii=False)
                yield from _strings(arguments)


def _strings(value: Any) -> Iterator[str]:
    """The strings in a JSON value, without keys."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _strings(item)


def spread(count: int, wanted: int) -> list[int]:
    """At most ``wanted`` of 0 .. count - 1, evenly spread."""
    return sorted({int(index) for index in np.linspace(0, count - 1, min(count, wanted))}) if count else []


def _agrees(
    patient: Patient, ids: NDArray[np.int64], fresh: NDArray[np.int32], spool: Spool, example: int, piece: int
) -> bool:
    """Whether a packed document equals the second way's, or what the policy on length may leave of it."""
    if patient.reference is None:
        first = int(spool.first_documents[example])
        # The tokens around a text are at most one on each side; the tokenizer does not encode them.
        own = spool.first_documents[example + 1 : example + 2].tolist() or [len(spool.lengths)]
        lengths = spool.lengths[first : own[0]]
        start = int(lengths[:piece].sum())
        around = int(lengths.sum()) - len(fresh)
        whole = [np.concatenate([np.full(n, -1), fresh, np.full(around - n, -1)]) for n in range(around + 1)]
        return any(
            bool(np.all((each[start : start + len(ids)] == ids) | (each[start : start + len(ids)] == -1)))
            for each in whole
        )
    if _is_shortened(spool, example, piece):
        # Some tokens of the fresh ones are left out.
        rest = iter(fresh.tolist())
        return all(token in rest for token in ids.tolist())
    return np.array_equal(ids, fresh)


def _is_shortened(spool: Spool, example: int, piece: int) -> bool:
    first = int(spool.first_documents[example])
    return bool(spool.shortened[first + piece - int(spool.pieces[first])])
