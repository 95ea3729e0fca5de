"""What the cluster's manifest starts vLLM with is what vLLM takes."""

import os
import subprocess

import pytest

from tests.k8s.test_vllm import ENGINE

pytestmark = pytest.mark.vllm
PARSE = """
import sys
from vllm.entrypoints.launchers.cli_args import make_arg_parser, validate_parsed_serve_args
from vllm.utils.argparse_utils import FlexibleArgumentParser
found = make_arg_parser(FlexibleArgumentParser()).parse_args(sys.argv[1:])
validate_parsed_serve_args(found)
print(found.enable_lora, found.max_loras, found.max_cpu_loras, found.max_lora_rank)
"""


@pytest.mark.vllm
def test_vllm_takes_its_options() -> None:
    done = subprocess.run(
        [os.environ["FT_VLLM_PYTHON"], "-c", PARSE, *ENGINE["args"]], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.split()[-4:] == ["True", "8", "64", "64"]
