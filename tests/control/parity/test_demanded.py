"""Parity: records of checks, what production demands as a proof, and what verification says of it."""

import json
from pathlib import Path

import pytest

from ft_assets import api
from ft_assets.control.erasure.collect import RECORDS
from ft_assets.control.lines.lines import read_line
from ft_assets.control.lines.promotion import promote, rollback
from ft_assets.control.parity.records import list_parity, record_parity
from ft_assets.control.parity.servers import settings_by_server
from ft_assets.settings.line_settings import LineSettings
from ft_assets.settings.servers import ComputingSettings, ServersFile
from ft_assets.settings.servers import ServerSettings as Listed
from ft_assets.settings.tenants import Tenant, TenantsFile
from ft_assets.workers.serving.parity.report import Outcome, ParityReport
from ft_assets.workers.serving.parity.settings import ServerSettings
from ft_resources.artifacts import Artifact
from ft_resources.canonical import canonical_json
from ft_resources.errors import CorruptArtifact, UserError
from tests.control.lines.promotable import LINE, SERVED, Promotable, decided, flip
from tests.workers.evals.world import World

STRICT = SERVED.model_copy(update={"production_parity": True})
COMMIT = "0" * 40
SOURCE = f"hub:org/model@{COMMIT}"
VLLM = ServerSettings(engine="vllm 0.32.0", dtype="bfloat16")
FLOAT32, HALF = (ServerSettings(engine="embedded", dtype=dtype) for dtype in ("float32", "bfloat16"))


def report(outcome: str, settings: ServerSettings = FLOAT32) -> ParityReport:
    reasons = () if outcome == "proved" else ("it differs",)
    return ParityReport(
        settings=settings, outcome=outcome, reasons=reasons, evaluated_in="float32", precision="float32"
    )


def checked(
    line: Promotable, adapter: Artifact, settings: ServerSettings, outcome: Outcome = "proved", server: str = "one"
) -> None:
    record_parity(line.world.store, adapter, report(outcome, settings), server=server, actor="ann")


def embedded(line: Promotable) -> ServerSettings:
    (settings,) = settings_by_server(line.base, ServersFile()).values()
    assert settings is not None
    return settings


def to_production(
    line: Promotable, adapter: Artifact, servers: ServersFile | None = None, tenants: TenantsFile = STRICT
) -> list[str]:
    decision = decided(tenants=tenants, servers=servers or ServersFile())
    return promote(line.world.artifacts, str(adapter.address), "production", decision)[0].findings


def refused(line: Promotable, adapter: Artifact, servers: ServersFile | None = None) -> UserError:
    with pytest.raises(UserError, match="requires a proof of parity with the servers' current settings") as error:
        to_production(line, adapter, servers)
    assert read_line(line.world.store, LINE).at("production") is None
    return error.value


def listed(name: str = "one", computes: ServerSettings | None = VLLM, base: str = SOURCE) -> Listed:
    said = ComputingSettings.model_validate(computes.model_dump()) if computes is not None else None
    return Listed(name=name, url="http://vllm:8000", base=base, key="FT_SERVER_KEY_ONE", computes=said)


def of_a_known_base(line: Promotable) -> Promotable:
    """The line on a base that servers.yaml can name."""
    lock = {"kind": "hub", "source": "hub:org/model", "revision": COMMIT}
    line.base = line.world.publish(
        "base_model",
        {"config.json": b"{}", "tokenizer.json": b"{}"},
        tenant="shared",
        params={"lock": lock},
        facts=dict(line.base.facts),
    )
    return line


def test_staging_and_production_without_the_demand_need_no_proof(line: Promotable) -> None:
    assert not any("proved" in finding for finding in to_production(line, line.adapter(), tenants=SERVED))
    assert promote(line.world.artifacts, str(line.adapter().address), "staging", decided(tenants=STRICT))[1]


def test_an_adapter_that_was_not_checked_stays_out_of_production_until_it_is_proved(line: Promotable) -> None:
    adapter = line.adapter()
    error = refused(line, adapter)
    assert error.what.endswith(f"embedded ({embedded(line).sentence}): not checked")
    assert error.remedy == f"Check them: ft serve parity {adapter.address}"
    checked(line, adapter, embedded(line))
    findings = to_production(line, adapter)
    assert any(finding.startswith("proved on embedded") for finding in findings), findings


@pytest.mark.parametrize("outcome", ["failed", "not proved"])
def test_the_last_check_counts_and_only_proved_lets_through(line: Promotable, outcome: Outcome) -> None:
    adapter = line.adapter()
    checked(line, adapter, embedded(line))
    checked(line, adapter, embedded(line), outcome)
    assert f"{outcome}: it differs" in refused(line, adapter).what


def test_a_proof_of_other_settings_does_not_count(line: Promotable) -> None:
    adapter, own = line.adapter(), embedded(line)
    others = (
        own.model_copy(update={"engine": "embedded"}),
        own.model_copy(update={"dtype": "float16"}),
        own.model_copy(update={"weight_bits": 8}),
        own.model_copy(update={"options": {"kv-cache-dtype": "fp8"}}),
    )
    for other in others:
        checked(line, adapter, other)
    assert "not checked" in refused(line, adapter).what


def test_a_proof_of_another_adapter_of_the_line_does_not_count(line: Promotable) -> None:
    proved, other = line.adapter(1), line.adapter(2)
    checked(line, proved, embedded(line))
    assert "not checked" in refused(line, other).what
    # Nor where somebody copies its record to the other's place.
    store = line.world.store
    (path,) = [entry.path for entry in store.entries(f"acme/parity/{proved.digest}")]
    store.create(path.replace(proved.digest, other.digest), store.get(path))
    with pytest.raises(CorruptArtifact, match="belongs to another place"):
        to_production(line, other)
    assert read_line(store, LINE).at("production") is None


def test_each_server_of_the_base_has_to_be_proved_with_its_own_settings(line: Promotable) -> None:
    line = of_a_known_base(line)
    adapter = line.adapter()
    half = VLLM.model_copy(update={"weight_bits": 4})
    servers = ServersFile(servers=[listed("one"), listed("two", half), listed("other", base=f"{SOURCE[:-1]}1")])
    checked(line, adapter, VLLM)
    error = refused(line, adapter, servers)
    assert "two (vllm 0.32.0, bfloat16, 4 bits): not checked" in error.what
    assert len(error.what.splitlines()) == 2, error.what
    checked(line, adapter, half)
    assert [f for f in to_production(line, adapter, servers) if "proved on" in f] == [
        "proved on one (vllm 0.32.0, bfloat16): proved",
        "proved on two (vllm 0.32.0, bfloat16, 4 bits): proved",
    ]


def test_a_server_that_does_not_say_how_it_computes_proves_nothing(line: Promotable) -> None:
    line = of_a_known_base(line)
    adapter = line.adapter()
    # What the embedded server proved is no proof for the listed one.
    checked(line, adapter, embedded(line))
    error = refused(line, adapter, ServersFile(servers=[listed(computes=None)]))
    assert "one: computes is not set in servers.yaml" in error.what
    assert error.remedy.startswith("Add computes to one in servers.yaml")


def test_a_rollback_needs_no_proof(line: Promotable) -> None:
    first, second = line.adapter(1), line.adapter(2)
    for adapter in (first, second):
        to_production(line, adapter, tenants=SERVED)
    record = rollback(line.world.artifacts, LINE, decided(tenants=STRICT, servers=ServersFile()))
    assert record.adapter == first.ref


def test_a_line_says_otherwise_than_its_tenant_and_a_tenant_otherwise_than_all() -> None:
    one = Tenant(production_parity=True, lines={"things.tiny": LineSettings(production_parity=False)})
    other = Tenant(lines={"things.tiny": LineSettings(production_parity=True)})
    file = TenantsFile(tenants={"acme": one, "globex": other})
    lines = (LINE, "acme.things.big", "globex.things.tiny", "globex.things.big", "initech.a.b")
    assert [file.parity_of(name) for name in lines] == [False, True, True, False, False]
    assert file.model_copy(update={"production_parity": True}).parity_of("initech.a.b")


@pytest.mark.parametrize("name", ["things", "acme.things.tiny", "things|tiny", "things.tiny@1", ""])
def test_a_line_is_named_by_dataset_and_recipe(name: str) -> None:
    with pytest.raises(ValueError, match=r"should be DATASET\.RECIPE"):
        Tenant(lines={name: LineSettings()})


@pytest.fixture
def adapter(world: World) -> Artifact:
    base = world.publish("base_model", {"config.json": b"{}"}, tenant="shared")
    facts = {"line": "acme.things.tiny"}
    return world.publish("adapter", {"adapter_config.json": b"{}"}, inputs={"base": base}, facts=facts)


def record(world: World, adapter: Artifact, *reports: ParityReport) -> None:
    for each in reports:
        record_parity(world.store, adapter, each, server="one", actor="ann")


def test_the_last_check_counts_for_each_settings_and_records_are_no_artifacts_to_who_cleans_up(world, adapter) -> None:
    assert list_parity(world.store, adapter) == []
    record(world, adapter, report("failed"), report("proved"), report("not proved", HALF))
    found = {each.report.settings.dtype: each for each in list_parity(world.store, adapter)}
    assert found.keys() == {"float32", "bfloat16"}
    last = found["float32"]
    assert last.report.proved
    assert (last.seq, last.line, last.adapter, last.server) == (2, "acme.things.tiny", adapter.ref, "one")
    assert not found["bfloat16"].report.proved
    record(world, adapter, report("proved"))
    assert "parity" in world.store.folders("acme")
    assert "parity" in RECORDS


def test_a_record_that_was_altered_is_told_of(world: World, adapter: Artifact) -> None:
    record(world, adapter, report("failed"))
    path = list_parity(world.store, adapter)[0].path
    file = Path(world.store.local_path(path))
    told = json.loads(file.read_bytes())
    told["report"]["outcome"] = "proved"
    file.chmod(0o644)
    file.write_bytes(canonical_json(told))
    with pytest.raises(CorruptArtifact, match="altered"):
        list_parity(world.store, adapter)


def findings(line: Promotable, tenants: TenantsFile = SERVED, *, everything: bool = False) -> list[str]:
    target = "" if everything else LINE
    store, servers = line.world.store, ServersFile()
    return [*api.verify(target, everything=everything, store=store, tenants=tenants, servers=servers).findings]


def in_production(line: Promotable) -> Artifact:
    adapter = line.adapter()
    promote(line.world.artifacts, str(adapter.address), "production", decided())
    return adapter


def paths_of(line: Promotable, adapter: Artifact) -> list[str]:
    return sorted(entry.path for entry in line.world.store.entries(f"acme/parity/{adapter.digest}"))


@pytest.mark.parametrize("everything", [False, pytest.param(True, marks=pytest.mark.long)])
def test_one_flipped_byte_in_any_record_of_a_check_is_found_and_named(line: Promotable, everything: bool) -> None:
    adapter = in_production(line)
    for outcome in ("failed", "proved"):
        checked(line, adapter, embedded(line), outcome)  # type: ignore[arg-type]
    checked(line, adapter, VLLM)
    assert findings(line, everything=everything) == []
    paths = paths_of(line, adapter)
    assert len(paths) == 3
    for path in paths:
        file = Path(line.world.store.local_path(path))
        file.chmod(0o644)
        size = file.stat().st_size
        for place in {0, size // 2, size - 1}:
            data = flip(file, place)
            found = findings(line, everything=everything)
            file.write_bytes(data)
            # A record that was altered, or the one after it, which names its digest.
            assert any(each.startswith(path.rpartition("/")[0]) for each in found), (path, place, found)
    assert findings(line, everything=everything) == []


def test_a_check_that_was_removed_before_a_later_one_is_found(line: Promotable) -> None:
    adapter = in_production(line)
    for _ in range(2):
        checked(line, adapter, embedded(line))
    line.world.store.delete(paths_of(line, adapter)[0])
    (finding,) = findings(line, STRICT)
    assert finding.endswith("000001.json: a record is missing before a later one of this log")


def test_production_without_the_proof_that_it_needs_is_told_until_it_has_it(line: Promotable) -> None:
    adapter = in_production(line)
    assert findings(line) == []
    for everything in (False, True):
        assert findings(line, STRICT, everything=everything) == [
            f"{LINE}: production needs a proof of parity, and {adapter.address} has none on embedded "
            f"({embedded(line).sentence}): not checked"
        ]
    checked(line, adapter, embedded(line), "failed")
    (finding,) = findings(line, STRICT)
    assert finding.endswith("failed: it differs")
    checked(line, adapter, embedded(line))
    assert findings(line, STRICT) == []


def test_staging_and_what_stood_in_production_before_need_no_proof(line: Promotable) -> None:
    in_production(line)
    second = line.adapter(2)
    promote(line.world.artifacts, str(second.address), "production", decided())
    checked(line, second, embedded(line))
    promote(line.world.artifacts, str(line.adapter(3).address), "staging", decided())
    assert findings(line, STRICT) == []


def test_checks_of_an_adapter_that_never_stood_in_a_line_are_read_with_all_else(line: Promotable) -> None:
    in_production(line)
    other = line.adapter(2)
    checked(line, other, embedded(line))
    (record,) = list_parity(line.world.store, other)
    file = Path(line.world.store.local_path(record.path))
    file.chmod(0o644)
    flip(file)
    assert findings(line) == []
    (finding,) = findings(line, everything=True)
    assert finding.startswith(f"{record.path}: ")
