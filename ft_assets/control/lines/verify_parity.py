"""Whether a line's parity checks are unaltered, and production has the proofs that it needs."""

from collections.abc import Iterator

from ft_assets.control.lines.lines import read_line
from ft_assets.control.parity.proofs import proofs_of
from ft_assets.control.parity.verify import log_findings
from ft_assets.settings.servers import ServersFile
from ft_resources.artifacts import Address, Artifacts
from ft_resources.errors import CorruptArtifact


def parity_findings(artifacts: Artifacts, line: str, *, servers: ServersFile | None) -> Iterator[str]:
    """Sentences that name what was altered in the checks of the line's adapters, and servers on which the one in
    production is not proved; of the latter none where ``servers`` is None, as nothing demands a proof."""
    try:
        state = read_line(artifacts.store, line)
    except CorruptArtifact:
        return  # The line's own findings say so.
    tenant = line.partition(".")[0]
    for digest in dict.fromkeys(record.adapter.digest for record in state.records):
        yield from log_findings(artifacts.store, tenant, digest)
    standing = state.at("production")
    if servers is None or standing is None:
        return
    try:
        adapter = artifacts.find(Address.parse(standing.adapter.address))
        if adapter is None or artifacts.find(Address.parse(adapter.manifest.inputs["base"].address)) is None:
            return  # As above: it is erased, or missing.
        lacking = [proof.sentence for proof in proofs_of(artifacts, adapter, servers) if not proof.proved]
    except CorruptArtifact:
        return  # As above.
    for sentence in lacking:
        yield f"{line}: production needs a proof of parity, and {standing.adapter.address} has none on {sentence}"
