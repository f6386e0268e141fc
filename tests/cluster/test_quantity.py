"""Every spelling of a quantity has the value that the real API server gives it, or is refused by both."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cluster.api import Api
from tests.test_quantity import REFUSED, VALUES
from webhook.kube.quantity import NANO, QuantityError, parse

KEY = "requests.memory"
MILLI = NANO // 1000
"""What the API server rounds a ResourceList of its own kinds up to."""

SPELLINGS = [value for value, _ in VALUES if value is not None] + [text for text in REFUSED if len(text) < 40]


def stored(api: Api, spelling: Any) -> tuple[int, Any]:
    """The status of a dry run, and the quantity as the API server would store it."""
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "spelling", "namespace": "default"},
        "spec": {"hard": {KEY: spelling}},
    }
    answer = api.create(quota, dry_run=True)
    return answer.code, answer.value["spec"]["hard"][KEY] if answer.code == 201 else answer.message


@pytest.mark.parametrize("spelling", SPELLINGS, ids=repr)
def test_spelling(api: Api, spelling: Any) -> None:
    code, found = stored(api, spelling)
    try:
        value = parse(spelling)
    except QuantityError:
        assert code == 400, found
        return
    if value < 0:
        # It is read, and then refused for what it is.
        assert code == 422, found
        assert "must be greater than or equal to 0" in found
    else:
        assert code == 201, found
        assert parse(found) == -(-value // MILLI) * MILLI
