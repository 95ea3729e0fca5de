"""The numba kernel that turns plain rows of the common forms into the buffers of Arrow columns.

It is compiled together with ``scanner``, whose changes numba's cache on disk does not notice: after one, change the
number here. Scanner: 2.
"""

# Written out for numba, which makes better code of plain loops and comparisons.
# ruff: noqa: SIM109, SIM110

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ft_assets.datasets.forms.scanner import (
    Bytes,
    find_key_end,
    find_quote,
    skip_scalar,
    skip_space,
    write_text,
)

Longs = NDArray[np.int64]
Ints = NDArray[np.int32]

# Slots: fields that the kernel knows, as bits of a row's masks.
(
    MESSAGES,
    CONVERSATIONS,
    PROMPT,
    COMPLETION,
    CHOSEN,
    REJECTED,
    INSTRUCTION,
    OUTPUT,
    INPUT,
    TEXT,
    SYSTEM,
    KIND,
    GROUP,
    SOURCE,
    PAGE,
    OTHER,
) = range(16)
# Forms by their place in FORM_FIELDS.
F_MESSAGES, F_SHAREGPT, F_PREFERENCE, F_PROMPT, F_ALPACA, F_TEXT = range(6)
# Text columns of the output, and their rows of the offsets.
C_CONTENT, C_CHOSEN, C_REJECTED, C_TEXT, C_GROUP, C_KIND = range(6)
COLUMNS = 6
MAX_TURNS = 4096
MAX_UNKNOWN = 60
_ALWAYS = 1 << KIND | 1 << GROUP
# Fields whose texts a form writes, as masks.
WRITTEN = (
    _ALWAYS,
    _ALWAYS | 1 << SYSTEM,
    _ALWAYS | 1 << PROMPT | 1 << CHOSEN | 1 << REJECTED | 1 << SYSTEM,
    _ALWAYS | 1 << PROMPT | 1 << COMPLETION | 1 << SYSTEM,
    _ALWAYS | 1 << INSTRUCTION | 1 << INPUT | 1 << OUTPUT | 1 << SYSTEM,
    _ALWAYS | 1 << TEXT,
)
# What a row became.
BLANK, LEFT = -1, -2
_SYSTEM, _USER, _ASSISTANT = 0, 1, 2


@njit(cache=True, nogil=True)
def _same(data: Bytes, place: int, length: int, other: Bytes, start: int) -> bool:
    for index in range(length):
        if data[place + index] != other[start + index]:
            return False
    return True


@njit(cache=True, nogil=True)
def _find(data: Bytes, place: int, end: int, names: Bytes, offsets: Ints) -> int:
    """Which of ``names`` (one after another, cut by ``offsets``) is ``data[place:end]``; -1 for none."""
    length = end - place
    for index in range(len(offsets) - 1):
        start = offsets[index]
        if offsets[index + 1] - start == length and _same(data, place, length, names, start):
            return index
    return -1


@njit(cache=True, nogil=True)
def _read_turns(
    data: Bytes, place: int, end: int, sharegpt: bool, names: Bytes, offsets: Ints, turns: Longs
) -> tuple[int, int]:
    """Read a list of turns of two strings each into ``turns`` [turn, (role, start, end)]; (place after, number).

    ``names`` are role, content, from, value and then the speakers that are known, of which 4, 5 and 6 are the roles
    and the rest ShareGPT's (alternately user and assistant, then system).
    """
    count = 0
    place = skip_space(data, place + 1, end)
    while True:
        if place >= end or data[place] != 123 or count == len(turns):
            return -1, 0
        has_role = has_content = False
        style = -1
        place += 1
        for _ in range(2):
            place = skip_space(data, place, end)
            if place >= end or data[place] != 34:
                return -1, 0
            stop = find_key_end(data, place + 1, end)
            if stop < 0:
                return -1, 0
            field = _find(data, place + 1, stop, names, offsets)
            place = skip_space(data, stop + 1, end)
            if field < 0 or field > 3 or place >= end or data[place] != 58:
                return -1, 0
            place = skip_space(data, place + 1, end)
            if place >= end or data[place] != 34:
                return -1, 0
            stop = find_quote(data, place + 1, end)
            if stop < 0:
                return -1, 0
            # Role goes with content, from with value; from and value only in ShareGPT's conversations.
            if (style >= 0 and style != field // 2) or (field >= 2 and not sharegpt):
                return -1, 0
            style = field // 2
            if field == 0 or field == 2:
                role = _find(data, place + 1, stop, names, offsets)
                if has_role or role < 4 or (field == 0 and role > 6):
                    return -1, 0
                turns[count, 0] = role - 4 if field == 0 else _speaker(role)
                if field == 2 and turns[count, 0] < 0:
                    return -1, 0
                has_role = True
            else:
                if has_content:
                    return -1, 0
                turns[count, 1] = place + 1
                turns[count, 2] = stop
                has_content = True
            place = skip_space(data, stop + 1, end)
            if place >= end or data[place] != (44 if not (has_role and has_content) else 125):
                return -1, 0
            place += 1
        count += 1
        place = skip_space(data, place, end)
        if place >= end:
            return -1, 0
        if data[place] == 93:
            return place + 1, count
        if data[place] != 44:
            return -1, 0
        place = skip_space(data, place + 1, end)


@njit(cache=True, nogil=True, inline="always")
def _is(mask: int | np.int64, slot: int) -> bool:
    return (mask >> slot) & 1 == 1


@njit(cache=True, nogil=True, inline="always")
def _speaker(name: int) -> int:
    """Role of the speaker at ``name`` of the table: system, user, assistant, human, gpt."""
    if name <= 6:
        return name - 4
    return _USER if name == 7 else _ASSISTANT if name == 8 else -1


@njit(cache=True, nogil=True)
def _in_order(turns: Longs, count: int) -> bool:
    start = 1 if turns[0, 0] == _SYSTEM else 0
    if count - start < 2 or (count - start) % 2:
        return False
    for index in range(start, count):
        if turns[index, 0] != (_USER if (index - start) % 2 == 0 else _ASSISTANT):
            return False
    return True


@njit(cache=True, nogil=True)
def _dialogue(data: Bytes, start: int, end: int) -> bool:
    """Whether the string may start with two line feeds, however written, as whole conversations in one text do."""
    if end < start + 4 or data[start] != 92:
        return False
    if data[start + 1] != 110 or data[start + 2] != 92 or data[start + 3] != 110:
        # A line feed, or any letter, may be written as a number, too.
        return data[start + 1] == 117 or (data[start + 1] == 110 and data[start + 2] == 92 and data[start + 3] == 117)
    return end > start + 5 and (data[start + 4] == 72 or (data[start + 4] == 92 and data[start + 5] == 117))


@njit(cache=True, nogil=True)
def read_rows(
    data: Bytes,
    starts: Longs,
    ends: Longs,
    names: Bytes,
    name_offsets: Ints,
    slots: Ints,
    turn_names: Bytes,
    turn_offsets: Ints,
    needs: Longs,
    guess: bool,
    grouped: bool,
    pages: bool,
    max_row: int,
    points: Bytes,
    texts: Bytes,
    states: Ints,
    offsets: Ints,
    turn_ends: Ints,
    roles: Bytes,
    lists: Ints,
    page: Ints,
    masks: Longs,
    changes: NDArray[np.bool_],
    unknown_spans: Longs,
    unknown_counts: Longs,
) -> tuple[int, int]:
    """Read every line that is plain; see ``fast.py`` for the arguments.

    Returns the number of rows read and of names in ``unknown_spans``. ``states`` [line] is BLANK, LEFT or the form.
    """
    turns = np.empty((MAX_TURNS, 3), np.int64)
    spans = np.zeros((16, 2), np.int64)
    ats = np.zeros(COLUMNS, np.int64)
    before = np.zeros(COLUMNS, np.int64)
    rows = 0
    turn = 0
    unknown = 0
    all_needs = np.int64(0)
    for form in range(len(needs)):
        all_needs |= max(needs[form], np.int64(0))
    for line in range(len(starts)):
        states[line] = LEFT
        place, end = starts[line], ends[line]
        while end > place and (data[end - 1] == 32 or data[end - 1] == 9 or data[end - 1] == 13):
            end -= 1
        place = skip_space(data, place, end)
        if place == end:
            states[line] = BLANK
            continue
        if data[place] != 123 or ends[line] - starts[line] > max_row:
            continue
        # Read the object: which fields are there, and where their texts are.
        seen = np.int64(0)
        filled = np.int64(0)
        strangers = np.int64(0)
        met = np.int64(0)
        fine = False
        turns_count = 0
        page_value = np.int64(-1)
        place += 1
        while True:
            place = skip_space(data, place, end)
            if place >= end or data[place] != 34:
                break
            key = place + 1
            stop = find_key_end(data, key, end)
            if stop < 0:
                break
            place = skip_space(data, stop + 1, end)
            if place >= end or data[place] != 58:
                break
            place = skip_space(data, place + 1, end)
            if place >= end:
                break
            found = _find(data, key, stop, names, name_offsets)
            kind = data[place]
            if found >= 0:
                slot = slots[found]
                bit = np.int64(1) << slot
                if seen & bit or slot == OTHER:
                    break
                seen |= bit
                if kind == 110:
                    place = skip_scalar(data, place, end)
                    if place < 0 or slot == GROUP:
                        break
                elif slot == MESSAGES or slot == CONVERSATIONS:
                    # One list a row: the turns of a second would overwrite the first.
                    if kind != 91 or turns_count:
                        break
                    place, turns_count = _read_turns(
                        data, place, end, slot == CONVERSATIONS, turn_names, turn_offsets, turns
                    )
                    if place < 0:
                        break
                    filled |= bit
                elif kind == 34:
                    close = find_quote(data, place + 1, end)
                    if close < 0 or slot == PAGE:
                        break
                    spans[slot, 0] = place + 1
                    spans[slot, 1] = close
                    filled |= bit
                    place = close + 1
                elif slot == PAGE or slot == GROUP:
                    begin = place
                    place = skip_scalar(data, place, end)
                    if place < 0 or data[begin] > 57 or data[begin] == 45 or place - begin > 9:
                        break
                    whole = True
                    value = np.int64(0)
                    for at in range(begin, place):
                        whole = whole and data[at] != 46
                        value = value * 10 + data[at] - 48
                    if not whole:
                        break
                    if slot == PAGE:
                        page_value = value
                    else:
                        spans[slot, 0] = begin
                        spans[slot, 1] = place
                    filled |= bit
                else:
                    break
            else:
                index = -1
                for one in range(unknown):
                    length = unknown_spans[one, 1] - unknown_spans[one, 0]
                    if length == stop - key and _same(data, key, length, data, unknown_spans[one, 0]):
                        index = one
                        break
                if index < 0:
                    if unknown == MAX_UNKNOWN:
                        break
                    unknown_spans[unknown, 0] = key
                    unknown_spans[unknown, 1] = stop
                    index = unknown
                    unknown += 1
                bit = np.int64(1) << index
                if met & bit:
                    break
                met |= bit
                if kind == 34:
                    close = find_quote(data, place + 1, end)
                    if close < 0:
                        break
                    # Only to see that it is a text: it is written where the next row's content will be.
                    if write_text(data, place + 1, close, points, texts[C_CONTENT], ats[C_CONTENT])[0] < 0:
                        break
                    place = close + 1
                else:
                    place = skip_scalar(data, place, end)
                    if place < 0:
                        break
                if kind != 110:
                    strangers |= bit
            place = skip_space(data, place, end)
            if place >= end:
                break
            if data[place] == 125:
                fine = skip_space(data, place + 1, end) == end
                break
            if data[place] != 44:
                break
            place += 1
        if not fine:
            continue
        form = -1
        for one in range(len(needs)):
            if needs[one] >= 0 and filled & needs[one] == needs[one]:
                if one == F_TEXT and guess and filled & all_needs != needs[one]:
                    continue
                form = one
                break
        if form < 0 or (grouped and not _is(seen, GROUP)) or (form == F_TEXT and not pages):
            continue
        # Write what was found; where a text is not plain after all, forget the row's part.
        before[:] = ats
        first_turn = turn
        changed = False
        good = True
        if form == F_MESSAGES or form == F_SHAREGPT:
            own = MESSAGES if form == F_MESSAGES else CONVERSATIONS
            other = CONVERSATIONS if form == F_MESSAGES else MESSAGES
            # A system text of ShareGPT's would be a turn before the others; one of other forms is not looked at.
            system = form == F_SHAREGPT and _is(filled, SYSTEM) and spans[SYSTEM, 1] > spans[SYSTEM, 0]
            good = _is(filled, own) and not _is(filled, other) and not system and _in_order(turns, turns_count)
        elif form != F_TEXT:
            turns_count = 0
            if _is(filled, MESSAGES) or _is(filled, CONVERSATIONS):
                good = False
            if _is(filled, SYSTEM) and spans[SYSTEM, 1] > spans[SYSTEM, 0]:
                turns[0, 0] = _SYSTEM
                turns[0, 1] = spans[SYSTEM, 0]
                turns[0, 2] = spans[SYSTEM, 1]
                turns_count = 1
            ask = INSTRUCTION if form == F_ALPACA else PROMPT
            if not _is(filled, ask):
                good = False
            turns[turns_count, 0] = _USER
            turns[turns_count, 1] = spans[ask, 0]
            turns[turns_count, 2] = spans[ask, 1]
            turns_count += 1
            if form == F_PREFERENCE:
                good = (
                    good
                    and not _dialogue(data, spans[PROMPT, 0], spans[PROMPT, 1])
                    and not _dialogue(data, spans[CHOSEN, 0], spans[CHOSEN, 1])
                    and not _dialogue(data, spans[REJECTED, 0], spans[REJECTED, 1])
                )
            else:
                answer = OUTPUT if form == F_ALPACA else COMPLETION
                turns[turns_count, 0] = _ASSISTANT
                turns[turns_count, 1] = spans[answer, 0]
                turns[turns_count, 2] = spans[answer, 1]
                turns_count += 1
        else:
            turns_count = 0
            good = not _is(filled, MESSAGES) and not _is(filled, CONVERSATIONS)
        if good:
            for index in range(turns_count):
                at, visible, other_way = write_text(
                    data, turns[index, 1], turns[index, 2], points, texts[C_CONTENT], ats[C_CONTENT]
                )
                if at < 0 or not visible:
                    good = False
                    break
                changed = changed or other_way
                more = form == F_ALPACA and turns[index, 0] == _USER and _is(filled, INPUT)
                if more and spans[INPUT, 1] > spans[INPUT, 0]:
                    texts[C_CONTENT, at] = 10
                    texts[C_CONTENT, at + 1] = 10
                    at, visible, other_way = write_text(
                        data, spans[INPUT, 0], spans[INPUT, 1], points, texts[C_CONTENT], at + 2
                    )
                    if at < 0 or not visible:
                        good = False
                        break
                    changed = changed or other_way
                ats[C_CONTENT] = at
                roles[turn] = turns[index, 0]
                turn += 1
                turn_ends[turn] = at
        for column in range(C_CHOSEN, COLUMNS):
            if not good:
                break
            slot = -1
            if (column == C_CHOSEN or column == C_REJECTED) and form == F_PREFERENCE:
                slot = CHOSEN if column == C_CHOSEN else REJECTED
            elif column == C_TEXT and form == F_TEXT:
                slot = TEXT
            elif column == C_GROUP and grouped:
                slot = GROUP
            elif column == C_GROUP and form == F_TEXT and page_value >= 0 and _is(filled, SOURCE):
                slot = SOURCE
            elif column == C_KIND and _is(filled, KIND):
                slot = KIND
                good = spans[KIND, 1] - spans[KIND, 0] <= 100
            if slot >= 0 and good:
                at, visible, other_way = write_text(
                    data, spans[slot, 0], spans[slot, 1], points, texts[column], ats[column]
                )
                if at < 0 or not (visible or slot == SOURCE or slot == KIND):
                    good = False
                    break
                if column < C_GROUP:
                    changed = changed or other_way
                ats[column] = at
        paged = form == F_TEXT and page_value >= 0 and _is(filled, SOURCE)
        for slot in range(PROMPT, PAGE):
            # Fields that are not looked at must be texts, too.
            if good and _is(filled, slot) and not _is(WRITTEN[form], slot) and not (slot == SOURCE and paged):
                at, visible, other_way = write_text(
                    data, spans[slot, 0], spans[slot, 1], points, texts[C_CONTENT], ats[C_CONTENT]
                )
                good = at >= 0
        if good and form == F_PREFERENCE:
            length = ats[C_CHOSEN] - before[C_CHOSEN]
            if length == ats[C_REJECTED] - before[C_REJECTED] and _same(
                texts[C_CHOSEN], before[C_CHOSEN], length, texts[C_REJECTED], before[C_REJECTED]
            ):
                good = False
        if not good:
            ats[:] = before
            turn = first_turn
            continue
        states[line] = form
        rows += 1
        for column in range(COLUMNS):
            offsets[column, rows] = ats[column]
        lists[rows] = turn
        page[rows - 1] = page_value if paged else 0
        # Page and source are looked at only together.
        masks[rows - 1] = filled | (np.int64(1) << OTHER if paged else 0)
        changes[rows - 1] = changed
        for index in range(unknown):
            if strangers & (np.int64(1) << index):
                unknown_counts[index] += 1
    return rows, unknown
