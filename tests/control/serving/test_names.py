"""What names of models mean, as the line's log goes on."""

import pytest

from ft_assets.control.serving.names import find_model, list_models, served
from ft_assets.records import tombstones
from ft_assets.records.tombstones import Subject
from ft_resources.artifacts import Artifact
from ft_resources.errors import CorruptArtifact, NotFound, StoreUnavailable, UserError
from ft_resources.store import Store
from tests.cli.conftest import project as project
from tests.e2e.project import Project
from tests.made import leave
from tests.server.chat_world import LINE, Line


@pytest.fixture
def line(project: Project) -> Line:
    return Line(project)


def digest_name(adapter: Artifact) -> str:
    return f"{LINE}@{adapter.digest[:16]}"


def test_a_digest_is_known_from_its_first_stage_until_it_is_archived(line: Line) -> None:
    adapter, other = line.adapter(1), line.adapter(2)
    name = digest_name(adapter)
    with pytest.raises(NotFound):
        find_model(line.artifacts, name, tenant="acme")
    for stage in ("dev", "staging", "deprecated"):
        line.promote(adapter, stage)
        assert find_model(line.artifacts, name, tenant="acme").address == adapter.address
    line.promote(other, "staging")
    assert find_model(line.artifacts, name, tenant="acme").address == adapter.address
    line.promote(adapter, "archived")
    with pytest.raises(NotFound, match="there is no model"):
        find_model(line.artifacts, name, tenant="acme")
    assert list_models(line.artifacts, "acme").keys() == {f"{LINE}@staging"}


def test_a_deleted_adapter_is_not_there(line: Line) -> None:
    adapter = line.adapter(1)
    line.promote(adapter)
    assert list_models(line.artifacts, "acme").keys() == {LINE}
    tombstones.delete(line.store, Subject.adapter(adapter.address), actor="ann", reason="wrong")
    for name in (LINE, digest_name(adapter)):
        with pytest.raises(NotFound, match=f"there is no model '{name}'"):
            find_model(line.artifacts, name, tenant="acme")
    assert list_models(line.artifacts, "acme") == {}


def test_only_the_tenants_own_lines_are_read_and_servers_know_an_adapter_by_its_line_and_digest(line: Line) -> None:
    line.promote(line.adapter(1))
    for name in (LINE, f"{LINE}@staging", "acme", "..", "acme.colours.tiny.x", f"{LINE}@production"):
        with pytest.raises(NotFound):
            find_model(line.artifacts, name, tenant="globex")
    assert find_model(line.artifacts, LINE, tenant="acme")
    adapter = line.adapter(1)
    found = served(adapter)
    assert (found.name, found.base) == (digest_name(adapter), line.base.digest)


def test_another_adapter_at_the_promoted_address_is_an_error(line: Line) -> None:
    adapter = line.adapter(1)
    line.promote(adapter.__class__(adapter.store, adapter.manifest.model_copy(update={"content_digest": "0" * 64})))
    with pytest.raises(CorruptArtifact, match="not the one that was promoted"):
        find_model(line.artifacts, LINE, tenant="acme")


def test_a_damaged_line_hides_no_other_and_a_store_that_is_away_is_no_damage(line, project, monkeypatch) -> None:
    other = Line(project, "acme.shapes.tiny")
    for each in (line, other):
        each.promote(each.adapter(1))
    (record,) = line.store.entries(f"acme/lines/{LINE}")
    line.store.put(record.path, b"{not a record")
    with pytest.raises(CorruptArtifact):
        find_model(line.artifacts, LINE, tenant="acme")
    assert list_models(line.artifacts, "acme").keys() == {other.line}

    def away(*_: object) -> None:
        raise StoreUnavailable("it is away", where="store", remedy="Wait.")

    monkeypatch.setattr(Store, "get", away)
    with pytest.raises(StoreUnavailable):
        list_models(line.artifacts, "acme")


def test_a_whole_model_is_not_offered_to_servers(line: Line) -> None:
    request = line._request("adapter", "acme", base=line.base)
    request.params.update(line=LINE, dataset="acme.colours.v1")
    whole = leave(line.artifacts, request, {"model.safetensors": b"0"}, {"line": LINE})
    line.promote(whole)
    assert list_models(line.artifacts, "acme") == {}
    with pytest.raises(UserError, match="complete model"):
        served(find_model(line.artifacts, LINE, tenant="acme"))
