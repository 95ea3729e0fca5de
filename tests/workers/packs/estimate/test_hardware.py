"""GPU types by whatever name recipes, clusters and price lists give them."""

import pytest

from ft_assets.settings.gpus import CATALOGUE, GIB, find_hardware, unknown_hardware


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


def test_every_type_is_found_by_its_own_name() -> None:
    assert all(find_hardware(name) is gpu for name, gpu in CATALOGUE.items())


def test_figures_are_of_one_gpu_in_plain_units() -> None:
    for gpu in CATALOGUE.values():
        assert 10 * GIB < gpu.memory_bytes < 300 * GIB
        assert 5e13 < gpu.peak_flops < 5e15
        assert 2e11 < gpu.bandwidth < 1e13
    assert not CATALOGUE["T4"].bf16
    assert CATALOGUE["H100"].bf16
