"""GPU types by whatever name recipes, clusters and price lists give them."""

import pytest

from ft_assets.settings.gpus import CATALOGUE, GIB, find_hardware, unknown_hardware
from ft_assets.settings.tenants import TenantsFile


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("H100", "H100"),
        ("h100", "H100"),
        ("NVIDIA-H100-80GB-HBM3", "H100"),
        ("NVIDIA H100 PCIe", "H100-PCIe"),
        ("NVIDIA-A100-SXM4-80GB", "A100-80"),
        ("NVIDIA-A100-PCIE-40GB", "A100-40"),
        ("a100-40gb", "A100-40"),
        ("Tesla-T4", "T4"),
        ("nvidia-l40s", "L40S"),
        ("NVIDIA-L4", "L4"),
        ("NVIDIA-A10G", "A10G"),
        ("A10", "A10"),
        ("Tesla-V100-SXM2-32GB", "V100-32"),
        ("NVIDIA-H200", "H200"),
        ("b200", "B200"),
    ],
)
def test_a_type_is_known_by_its_name_and_by_its_node_label(written: str, name: str) -> None:
    found = find_hardware(written)
    assert found is not None
    assert found.name == name


@pytest.mark.parametrize(
    ("written", "hint"),
    [
        ("A100", "did you mean 'A100-40' or 'A100-80'?"),
        ("V100", "did you mean 'V100-16' or 'V100-32'?"),
        ("H10O", "did you mean 'H100'?"),
        ("abacus", "known here: T4, "),
        ("", "known here: T4, "),
    ],
)
def test_what_could_be_two_types_or_none_is_not_guessed(written: str, hint: str) -> None:
    assert find_hardware(written) is None
    assert unknown_hardware(written).startswith(hint)


@pytest.mark.parametrize(
    ("written", "name", "gib", "share"),
    [
        ("H100-1g.10gb", "H100-1g.10gb", 8.96, 1 / 7),
        ("NVIDIA H100 80GB HBM3 MIG 1g.10gb", "H100-1g.10gb", 8.96, 1 / 7),
        ("NVIDIA-A100-SXM4-40GB-MIG-3g.20gb", "A100-40-3g.20gb", 18.0, 4 / 8),
        ("a100-80-1g.20gb", "A100-80-1g.20gb", 18.0, 2 / 8),
        ("H100-7g.80gb", "H100-7g.80gb", 71.68, 1.0),
        ("H200-2g.35gb", "H200-2g.35gb", 31.59, 2 / 7),
        ("L4-1of4", "L4-1of4", 5.06, 1 / 4),
    ],
)
def test_a_part_of_a_gpu_is_a_type_with_its_share_of_memory(written: str, name: str, gib: float, share: float) -> None:
    found = find_hardware(written)
    assert found is not None
    assert find_hardware(found.name) == found
    whole = CATALOGUE[found.part_of]
    assert (found.name, round(found.memory_bytes / GIB, 2), found.share) == (name, gib, share)
    assert found.peak_flops <= whole.peak_flops * found.share
    assert (found.bf16, found.fp8) == (whole.bf16, whole.fp8)


@pytest.mark.parametrize(
    "written", ["H100-1g.40gb", "H100-3g.20gb", "H100-7g.40gb", "A100-1g.5gb", "T4-1g.2gb", "L4-1of1", "X-1of2"]
)
def test_profiles_that_do_not_exist_are_not_guessed(written: str) -> None:
    assert find_hardware(written) is None


def test_a_part_costs_its_share_of_the_whole_unless_it_has_a_price() -> None:
    prices = TenantsFile.model_validate({"gpu_prices": {"L4": 1.0, "H100": 7.0, "H100-2g.20gb": 1.5}})
    found = {name: find_hardware(name) for name in ("L4-1of4", "H100-1g.10gb", "H100-2g.20gb", "H200-1g.18gb")}
    assert [prices.price_of(part) for part in found.values() if part] == [0.25, pytest.approx(1.0), 1.5, None]


def test_every_type_is_found_by_its_own_name() -> None:
    assert all(find_hardware(name) is gpu for name, gpu in CATALOGUE.items())


def test_figures_are_of_one_gpu_in_plain_units() -> None:
    for gpu in CATALOGUE.values():
        assert 10 * GIB < gpu.memory_bytes < 300 * GIB
        assert 5e13 < gpu.peak_flops < 5e15
        assert 2e11 < gpu.bandwidth < 1e13
    assert not CATALOGUE["T4"].bf16
    assert CATALOGUE["H100"].bf16
