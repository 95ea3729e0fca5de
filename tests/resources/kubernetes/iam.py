"""Policies of the bucket, judged by an evaluator of IAM that is not ours."""

import json

from moto.iam.access_control import IAMPolicy, PermissionResult


def may(policy: str, action: str, path: str, *, if_none_match: bool = False) -> bool:
    """Whether ``policy`` lets a request do ``action`` to ``path`` below the store ``s3://bucket/ft``.

    moto knows no conditions on whether a request has a header, so a statement with one counts here if it has it.
    """
    statements = []
    for each in json.loads(policy)["Statement"]:
        if "Null" in each.get("Condition", {}):
            assert each["Condition"] == {"Null": {"s3:if-none-match": "false"}}
            if not if_none_match:
                continue
            del each["Condition"]
        statements.append(each)
    judged = IAMPolicy(json.dumps({"Statement": statements}))
    return judged.is_action_permitted(action, f"arn:aws:s3:::bucket/ft/{path}") is PermissionResult.PERMITTED
