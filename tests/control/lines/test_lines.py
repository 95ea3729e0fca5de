"""The promotion log: one winner, a fold that is total, and no record that can be changed, removed or slipped in."""

import uuid
from concurrent.futures import ThreadPoolExecutor
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ft_assets.control.lines.lines import (
    POINTERS,
    STAGES,
    PromotionLost,
    PromotionRecord,
    append,
    fold,
    list_lines,
    read_line,
    record_path,
)
from ft_resources.errors import CorruptArtifact, UserError
from ft_resources.store import Store
from tests.control.lines.promotable import LINE, made_record


def write(store: Store, stages: list[str], adapters: str = "abcdefgh") -> list[PromotionRecord]:
    """A log that moves adapter a, then b, and so on."""
    written = []
    for stage, adapter in zip(stages, adapters, strict=False):
        state = read_line(store, LINE)
        record = made_record(seq=len(state.records) + 1, adapter=adapter, stage=stage, previous=state.head)
        written.append(append(store, record))
    return written


def test_what_was_appended_is_the_state(any_store: Store) -> None:
    assert read_line(any_store, LINE).records == ()
    write(any_store, ["staging", "production", "production"])
    state = read_line(any_store, LINE)
    assert [record.seq for record in state.records] == [1, 2, 3]
    assert {stage: found.adapter.address[-1] if (found := state.at(stage)) else "" for stage in POINTERS} == {
        "dev": "",
        "staging": "a",
        "production": "c",
    }
    assert list_lines(any_store) == list_lines(any_store, "acme") == [LINE]
    assert list_lines(any_store, "globex") == []


def test_of_concurrent_promotions_exactly_one_wins_each_place_and_the_losers_learn_who(any_store: Store) -> None:
    """Several people ask again and again; whoever loses reads the log and knows the winner."""

    lost: list[tuple[int, PromotionLost]] = []

    def ask(person: int) -> list[tuple[str, int]]:
        won = []
        for turn in range(4):
            state = read_line(any_store, LINE)
            seq = len(state.records) + 1
            actor = f"person-{person}"
            record = made_record(
                id=uuid.uuid4().hex, seq=seq, adapter=f"{person}-{turn}", actor=actor, previous=state.head
            )
            try:
                append(any_store, record)
                won.append((actor, seq))
            except PromotionLost as error:
                lost.append((seq, error))
        return won

    with ThreadPoolExecutor(6) as pool:
        won = [each for found in pool.map(ask, range(6)) for each in found]
    state = read_line(any_store, LINE)
    assert sorted(seq for _, seq in won) == list(range(1, len(state.records) + 1))
    assert {(record.actor, record.seq) for record in state.records} == set(won)
    for seq, error in lost:
        assert state.records[seq - 1].actor in error.what
        assert error.where == record_path(LINE, seq)


@given(
    st.lists(
        st.tuples(st.sampled_from(STAGES), st.sampled_from("abcd"), st.sampled_from(["promotion", "rollback"])),
        max_size=12,
    )
)
def test_the_fold_is_total_and_a_pointer_is_the_last_word_that_was_not_archived(steps) -> None:
    places = count(1)
    records = [made_record(seq=next(places), stage=stage, adapter=a, kind=kind) for stage, a, kind in steps]
    state = fold(LINE, records)
    for pointer in POINTERS:
        said = ""
        for stage, adapter, _ in steps:
            if stage == pointer:
                said = adapter
            elif stage == "archived" and adapter == said:
                said = ""
        found = state.at(pointer)
        assert (found.adapter.address[-1] if found else "") == said
    assert fold(LINE, records[:-1]).archived <= state.archived


def test_a_gap_is_an_error_that_names_the_missing_file(store: Store) -> None:
    write(store, ["dev", "dev", "dev"])
    store.delete(record_path(LINE, 2))
    with pytest.raises(CorruptArtifact, match="a record is missing") as caught:
        read_line(store, LINE)
    assert caught.value.where == record_path(LINE, 2)


@pytest.mark.statistics
def test_a_flipped_byte_anywhere_in_any_record_is_found(store: Store) -> None:
    for record in write(store, ["dev", "staging"]):
        data = store.get(record.path)
        for place in range(len(data)):
            changed = bytearray(data)
            changed[place] ^= 1 << place % 8
            store.put(record.path, bytes(changed))
            with pytest.raises(CorruptArtifact) as caught:
                read_line(store, LINE)
            assert caught.value.where in (record.path, record_path(LINE, record.seq + 1))
        store.put(record.path, data)
    assert len(read_line(store, LINE).records) == 2


def test_foreign_malformed_and_exchanged_records_are_errors_that_name_the_file(store: Store) -> None:
    first, _ = write(store, ["dev", "staging"])
    cases = {
        f"acme/lines/{LINE}/note.json": (b"{}", "no record of the log"),
        record_path(LINE, 3): (b"{}", "cannot be read"),
        record_path(LINE, 4): (first.data(), "is missing"),
    }
    for path, (data, words) in cases.items():
        store.put(path, data)
        with pytest.raises(CorruptArtifact) as caught:
            read_line(store, LINE)
        assert words in str(caught.value)
        store.delete(path)
    store.put(record_path(LINE, 1), made_record(actor="mallory").data())
    with pytest.raises(CorruptArtifact, match="does not follow the one before it") as caught:
        read_line(store, LINE)
    assert caught.value.where == record_path(LINE, 2)


@pytest.mark.parametrize("name", ["acme.things", "acme.things.tiny.v1", "acme.th ings.tiny", "../x.y.z"])
def test_what_is_no_line_is_refused(store: Store, name: str) -> None:
    with pytest.raises(UserError):
        read_line(store, name)


def test_a_write_whose_answer_got_lost_is_not_taken_for_somebody_elses(store: Store) -> None:
    (record,) = write(store, ["dev"])
    assert append(store, record).data() == record.data()
