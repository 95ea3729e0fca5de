"""Production that demands parity: what counts as a proof, and what does not."""

from pathlib import Path

import pytest

from ft_assets.control.lines.lines import read_line
from ft_assets.control.lines.promotion import promote, rollback
from ft_assets.control.parity.records import record_parity
from ft_assets.control.parity.servers import settings_by_server
from ft_assets.settings.line_settings import LineSettings
from ft_assets.settings.servers import ComputingSettings, ServersFile
from ft_assets.settings.servers import ServerSettings as Listed
from ft_assets.settings.tenants import Tenant, TenantsFile
from ft_assets.workers.serving.parity.report import Outcome, ParityReport
from ft_assets.workers.serving.parity.settings import ServerSettings
from ft_resources.artifacts import Artifact
from ft_resources.errors import CorruptArtifact, UserError
from ft_resources.store_marker import open_store
from tests.control.lines.promotable import LINE, SERVED, Promotable, decided
from tests.workers.evals.world import World

STRICT = SERVED.model_copy(update={"production_parity": True})
COMMIT = "0" * 40
SOURCE = f"hub:org/model@{COMMIT}"
VLLM = ServerSettings(engine="vllm 0.32.0", dtype="bfloat16")


@pytest.fixture
def line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Promotable:
    """A line whose candidates pass when they are judged again."""
    monkeypatch.setattr("ft_assets.control.lines.eligibility.rejection_reason", lambda *_: "")
    return Promotable.make(World(store=open_store(str(tmp_path / "store"), create=True), folder=tmp_path))


def checked(
    line: Promotable, adapter: Artifact, settings: ServerSettings, outcome: Outcome = "proved", server: str = "one"
) -> None:
    reasons = () if outcome == "proved" else ("it differs",)
    report = ParityReport(
        settings=settings, outcome=outcome, reasons=reasons, evaluated_in="float32", precision="float32"
    )
    record_parity(line.world.store, adapter, report, server=server, actor="ann")


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
    with pytest.raises(UserError, match="needs a proof that servers give what was evaluated") as error:
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


def test_without_the_demand_nothing_is_asked(line: Promotable) -> None:
    assert not any("proved" in finding for finding in to_production(line, line.adapter(), tenants=SERVED))


def test_an_adapter_that_was_not_checked_stays_out_of_production_until_it_is_proved(line: Promotable) -> None:
    adapter = line.adapter()
    error = refused(line, adapter)
    assert error.what.endswith(f"embedded ({embedded(line).sentence}): not checked")
    assert error.remedy == f"Check them: ft serve parity {adapter.address}"
    checked(line, adapter, embedded(line))
    findings = to_production(line, adapter)
    assert any(finding.startswith("proved on embedded") for finding in findings), findings


def test_staging_needs_no_proof_as_it_is_where_proofs_are_made(line: Promotable) -> None:
    assert promote(line.world.artifacts, str(line.adapter().address), "staging", decided(tenants=STRICT))[1]


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
    assert "one: servers.yaml does not say how it computes" in error.what
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
