"""Deployments that break off: what the error says the phone holds."""

from __future__ import annotations

from typing import Any, cast

import pytest

from devkit.device.failures import NothingListens, PhoneLost
from devkit.errors import PHONE, DeviceError, DevkitError
from devkit.runtime import staging
from devkit.runtime.phone_scripts import UNCHANGED


class Away:
    """A phone that has gone."""

    def shell(self, *_words: object, **_options: object) -> Any:
        raise NothingListens("nothing on the phone answers", where=PHONE)


@pytest.mark.parametrize("kind", [PhoneLost, NothingListens, DeviceError])
def test_whatever_breaks_off_says_what_the_phone_holds(kind: type[DeviceError]) -> None:
    error = kind("away", where=PHONE, hints=["devkit device list"])
    with pytest.raises(kind) as caught, staging._cleaned_up(cast(Any, Away()), "/data/x/.devkit-staging-1"):
        raise error
    assert UNCHANGED in caught.value.hints[0] and caught.value.hints[-1] == "devkit device list"


def test_what_is_not_known_is_not_claimed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staging, "_BACK_WITHIN_S", 0.0)
    manifest = staging.Manifest("manifest", "{}", "new", "old")
    with (
        pytest.raises(DevkitError) as caught,
        staging._cleaned_up(cast(Any, Away()), "/data/x/.devkit-staging-1"),
    ):
        staging._decide(cast(Any, Away()), "/data/x", ".devkit-staging-1", "true", manifest, 1.0)
    assert "is not known" in caught.value.hints[0] and UNCHANGED not in str(caught.value.hints)
