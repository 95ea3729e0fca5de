"""The plan of leftovers is pure: what may live, is waited for or may be resumed stays."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ft_assets.control.retention.leftovers import RECORDS, Place, PlacePlan, Trace, may_have_leftovers, plan_place
from ft_assets.settings.retention import Leftovers
from ft_resources.store import Entry

NOW = datetime(2026, 6, 1, tzinfo=UTC)
AT = f"acme/checkpoint/{'a' * 64}"
RULE = Leftovers(attempt_days=7, saves_days=30)
LOG, SAVE, CLAIM = "attempts/0001/log-000001.txt", "attempts/0001/saves/000010/model", "attempts/0001/claim.json"


def entry(path: str, days: float = 100) -> Entry:
    return Entry(path=f"{AT}/{path}", size=10, modified=NOW - timedelta(days=days))


def ended(days: float = 100, number: int = 1) -> Trace:
    at = NOW - timedelta(days=days)
    return Trace(number=number, seen_at=at, ended_at=at)


def silent(days: float, *, running: bool = False) -> Trace:
    return Trace(number=1, seen_at=NOW - timedelta(days=days), ended_at=None, running=running)


def dropped(place: Place, rule: Leftovers = RULE) -> set[str]:
    plan = plan_place(place, rule, NOW)
    # What goes was visible in the listing, or nobody would have looked.
    assert not plan.drop or may_have_leftovers(place, rule, NOW)
    return {path.removeprefix(f"{AT}/") for each in plan.drop for path in each.paths}


def place(*paths: str, days: float = 100, attempts: tuple[Trace, ...] = (), **changes: object) -> Place:
    found = [entry(path, days) for path in paths]
    return Place(address=AT, entries=found, attempts=attempts, **changes)  # type: ignore[arg-type]


def test_a_failed_attempt_loses_its_log_and_half_a_result_and_keeps_its_small_records() -> None:
    paths = (
        LOG,
        SAVE,
        "attempts/0001/steps-000001.jsonl",
        "w0001-ab/final/model",
        *(f"attempts/0001/{n}" for n in RECORDS),
    )
    assert dropped(place(*paths, attempts=(ended(8),))) == {LOG, paths[2], paths[3]}
    assert dropped(place(*paths, attempts=(ended(6),))) == set()
    assert dropped(place(*paths, attempts=(ended(31),))) == {LOG, SAVE, paths[2], paths[3]}


def test_saves_of_what_can_never_be_asked_for_again_go_with_the_attempt() -> None:
    assert dropped(place(SAVE, attempts=(ended(8),), again=False)) == {SAVE}
    assert dropped(place(SAVE, attempts=(ended(8),))) == set()
    assert dropped(place(SAVE, attempts=(ended(8),)), Leftovers(attempt_days=7)) == set()


def test_of_finished_work_saves_and_losers_go_and_the_winner_its_logs_and_erasures_stay() -> None:
    paths = ("manifest.json", "w0002-cd/model", "w0001-ab/model", SAVE, LOG, "erased/w0001.json")
    assert dropped(place(*paths, writer="w0002-cd", attempts=(ended(8),))) == {"w0001-ab/model", SAVE}


def test_an_attempt_that_died_unseen_is_ended_first_and_collected_some_days_later() -> None:
    assert plan_place(place(LOG, attempts=(silent(8),)), RULE, NOW) == PlacePlan(end=(1,))
    assert plan_place(place(LOG, attempts=(silent(6),)), RULE, NOW) == PlacePlan()


@pytest.mark.parametrize(
    "changes",
    [
        {"attempts": (silent(300, running=True),)},
        {"attempts": (ended(300), silent(1))},
        {"attempts": (Trace(number=1, seen_at=NOW - timedelta(300), ended_at=NOW - timedelta(300), counted=False),)},
        {"attempts": (ended(300),), "wanted": "submission 1 is open"},
        {"attempts": (ended(1),)},
    ],
    ids=["it runs", "a later one lives", "not billed yet", "waited for", "ended yesterday"],
)
def test_nothing_goes_of_what_is_in_use(changes: dict[str, object]) -> None:
    assert plan_place(place(LOG, SAVE, "w0001-ab/model", **changes), RULE, NOW) == PlacePlan()  # type: ignore[arg-type]


def test_an_upload_in_the_making_counts_from_its_newest_file() -> None:
    half = Place(address=AT, entries=[entry("w1/a", 100), entry("w1/b", 6)])
    assert dropped(half) == set()
    assert dropped(place("w1/a", "w1/b")) == {"w1/a", "w1/b"}


def test_of_a_save_its_record_goes_first() -> None:
    files = tuple(f"attempts/0001/saves/000010/{name}" for name in ("model.safetensors", "save.json", "optimizer"))
    (leftover,) = plan_place(place(*files, attempts=(ended(),)), RULE, NOW).drop
    assert leftover.paths[0].endswith("save.json")


def test_without_a_rule_nothing_is_looked_at() -> None:
    everything = place(LOG, SAVE, attempts=(ended(),))
    assert not may_have_leftovers(everything, Leftovers(unreferenced_days=1), NOW)
    assert plan_place(everything, Leftovers(), NOW) == PlacePlan()


@given(st.data())
def test_whatever_is_there_the_winner_records_and_young_things_stay(data: st.DataObject) -> None:
    names = ("w1/x", "w2/x", LOG, SAVE, "attempts/0002/books/1", "attempts/0002/kept/1/w", CLAIM, "erased/w9.json")
    ages = {name: data.draw(st.floats(0, 100)) for name in names if data.draw(st.booleans())}
    writer = data.draw(st.sampled_from(("", "w1", "w2")))
    days = st.none() | st.integers(1, 60)
    rule = Leftovers(attempt_days=data.draw(days), saves_days=data.draw(days))
    traces = data.draw(st.lists(st.builds(ended, st.floats(0, 100)) | st.builds(silent, st.floats(0, 100)), max_size=2))
    found = Place(
        address=AT,
        entries=[entry(*item) for item in ages.items()],
        writer=writer,
        attempts=traces,
        again=data.draw(st.booleans()),
    )
    gone = dropped(found, rule) if ages else set()
    allowed = [each for each in (rule.attempt_days, rule.saves_days) if each is not None]
    for name in gone:
        assert name not in (CLAIM, "erased/w9.json")
        assert not (writer and name.startswith(f"{writer}/"))
        assert ages[name] > min(allowed)
        if "/saves/" in name and not writer and found.again:
            assert rule.saves_days is not None
            assert ages[name] > rule.saves_days
    if gone:
        assert all(each.ended_at for each in traces)
