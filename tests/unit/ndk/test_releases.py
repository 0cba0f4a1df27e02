"""Archive names, URLs and the table of releases (case A3)."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from devkit import paths
from devkit.errors import ConfigError, UsageError
from devkit.ndk import releases
from devkit.ndk.releases import (
    archive_name,
    archive_urls,
    check_sha1,
    load_releases,
    local_archive_release,
    release_name,
    revision_matches,
)

A3 = Path(__file__).parents[2] / "data" / "cases" / "A3"
ROWS = list(csv.DictReader((A3 / "versions.tsv").open(), delimiter="\t"))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['release']}-{row['os']}")
def test_a3_archive_names(row: dict[str, str]) -> None:
    expected = row["expected archive name"].split(" ")[0]
    assert archive_name(row["release"], row["os"]) == expected


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("r27d", "r27d"),
        ("R27D", "r27d"),
        ("27d", "r27d"),
        ("27", "r27"),
        ("27.3", "r27d"),
        ("27.3.13750724", "r27d"),
        ("28.0.12433566-beta1", "r28"),
        ("android-ndk-r26d", "r26d"),
        ("r29-beta1", "r29-beta1"),
        ("r10e", "r10e"),
    ],
)
def test_the_release_a_user_means(text: str, name: str) -> None:
    assert release_name(text) == name


@pytest.mark.parametrize(
    "text", ["", "latest", "r", "27.99.1", "r27dd", "../r27", "r27d/../../x", "27.3.1.4"]
)
def test_what_is_no_release(text: str) -> None:
    with pytest.raises(UsageError, match="no NDK release"):
        release_name(text)


@pytest.mark.parametrize(
    ("revision", "wanted", "expected"),
    [
        ("27.3.13750724", "r27d", True),
        ("27.3.13750724", "27d", True),
        ("27.3.13750724", "27.3", True),
        ("27.3.13750724", "27", True),
        ("27.3.13750724", "27.3.13750724", True),
        ("27.3.13750724", "27.31", False),
        ("27.3.13750724", "2", False),
        ("27.3.13750724", "r27", False),
        ("27.0.12077973", "r27", True),
        ("no NDK", "27", False),
    ],
)
def test_versions_that_ask_for_a_revision(revision: str, wanted: str, expected: bool) -> None:
    assert revision_matches(revision, wanted) is expected


def test_urls_follow_the_order_of_mirrors_and_a_whole_url_is_kept() -> None:
    mirrors = ("http://here/x.zip", "https://mirror/ndk", "https://mirror/ndk/", *load_releases().mirrors)
    urls = archive_urls("r27d", mirrors, "Linux")
    assert urls[:2] == ("http://here/x.zip", "https://mirror/ndk/android-ndk-r27d-linux.zip")
    assert [url.split("/")[2] for url in urls[2:]] == [
        "dl.google.com",
        "googledownloads.cn",
        "mirrors.cloud.tencent.com",
    ]
    assert urls[-1] == "https://mirrors.cloud.tencent.com/AndroidSDK/android-ndk-r27d-linux.zip"


@pytest.mark.parametrize("mirror", ["ftp://host/", "/srv/ndk", "https://", "file:///srv"])
def test_a_mirror_is_a_web_address(mirror: str) -> None:
    with pytest.raises(UsageError, match="no http or https URL"):
        archive_urls("r27d", [mirror])


def test_the_table_agrees_with_the_rule_of_letters() -> None:
    table = load_releases()
    assert [r.name for r in table.releases] == [
        "r29", "r28c", "r28b", "r28", "r27d", "r27c", "r27b", "r27", "r26d", "r25c",
    ]  # fmt: skip
    for release in table.releases:
        assert release.revision and release_name(release.revision) == release.name
        assert release.sha1 and check_sha1(release.sha1) == release.sha1
        assert release.source
    assert len({r.sha1 for r in table.releases}) == len(table.releases)
    r29 = table.get("r29")
    assert r29 is not None and r29.size == 783_549_481


def test_a_users_table_is_merged_over_it() -> None:
    own = paths.config_dir() / releases.USER_FILE
    own.parent.mkdir(parents=True)
    own.write_text(f"mirrors: [https://m/]\nreleases:\n  r30: {{revision: 30.0.1, sha1: {'a' * 40}}}\n")
    table = load_releases()
    assert table.mirrors == ("https://m/",)
    assert table.releases[0].name == "r30" and table.get("r27d") is not None
    for wrong in ("releases: {r30: {sha1: abc}}", "releases: {thirty: {}}", "releases: [", "- x"):
        own.write_text(wrong)
        with pytest.raises(ConfigError, match="cannot be used"):
            load_releases()


def test_what_is_no_sha1() -> None:
    assert check_sha1("A" * 40) == "a" * 40
    for wrong in ("abc", "g" * 40, "a" * 64):
        with pytest.raises(UsageError, match="no SHA-1"):
            check_sha1(wrong)


def test_the_release_in_an_archives_name() -> None:
    assert local_archive_release(Path("/x y/android-ndk-r27d-linux (1).zip")) == "r27d"
    assert local_archive_release(Path("android-ndk-r29-beta1-linux.zip")) == "r29-beta1"
    assert local_archive_release(Path("ndk.zip")) is None
