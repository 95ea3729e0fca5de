"""The ``aws`` command, as far as the guide uses it: operations of botocore by their names and arguments."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import boto3
import botocore.session
import jmespath
from botocore import xform_name


def main() -> None:
    words = sys.argv[1:]
    if words[:2] == ["s3", "rm"]:
        return remove(words[-1])
    if words[0] == "configure":
        return export()
    service, operation = words[0].replace("s3api", "s3"), words[1].replace("-", "_")
    said = dict(zip(words[2::2], words[3::2], strict=True))
    query = said.pop("--query", "")
    said.pop("--output", "")
    client = boto3.client(service, region_name=said.pop("--region", None))
    members = botocore.session.get_session().get_service_model(service).operation_model(
        client.meta.method_to_api_mapping[operation]
    ).input_shape.members  # fmt: skip
    names = {f"--{xform_name(name, '-')}": name for name in members}
    given = {names[option]: value(text, members[names[option]]) for option, text in said.items()}
    if client.can_paginate(operation):
        answer = client.get_paginator(operation).paginate(**given).build_full_result()
    else:
        answer = getattr(client, operation)(**given)
    if query:
        # The command compares and prints times as texts.
        print(json.dumps(jmespath.search(query, json.loads(json.dumps(answer, default=lambda at: at.isoformat())))))


def value(text: str, shape: Any) -> Any:
    """An argument: a file's content, JSON, the shorthand ``A=b,C=d``, or a text."""
    if text.startswith("file://"):
        text = Path(text.removeprefix("file://")).read_text()
    if shape.type_name == "list":
        return text.split()
    if shape.type_name != "structure":
        return text
    if text.startswith("{"):
        return json.loads(text)
    pairs = dict(pair.split("=") for pair in text.split(","))
    return {name: given == "true" if given in ("true", "false") else given for name, given in pairs.items()}


def remove(address: str) -> None:
    """``aws s3 rm --recursive``."""
    bucket, prefix = address.removeprefix("s3://").split("/", 1)
    boto3.resource("s3").Bucket(bucket).objects.filter(Prefix=prefix).delete()


def export() -> None:
    """``aws configure export-credentials --format env``."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        print(f"export {name}={os.environ[name]}")


if __name__ == "__main__":
    main()
