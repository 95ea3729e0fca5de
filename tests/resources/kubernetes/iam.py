"""Policies of the bucket, judged by an evaluator of IAM that is not ours."""

import json

from ft_resources.store_layout import Layout


def may(policy: str, action: str, path: str, *, layout: Layout = Layout.BELOW, if_none_match: bool = False) -> bool:
    """Whether ``policy`` lets a request do ``action`` to ``path`` in the store ``s3://bucket/ft``.

    moto knows no conditions on whether a request has a header, so a statement with one counts here if it has it.
    """
    from moto.iam.access_control import IAMPolicy, PermissionResult

    statements = []
    for each in json.loads(policy)["Statement"]:
        if "Null" in each.get("Condition", {}):
            assert each["Condition"] == {"Null": {"s3:if-none-match": "false"}}
            if not if_none_match:
                continue
            del each["Condition"]
        statements.append(each)
    judged = IAMPolicy(json.dumps({"Statement": statements}))
    return (
        judged.is_action_permitted(action, f"arn:aws:s3:::bucket/ft/{layout.place(path)}") is PermissionResult.PERMITTED
    )
