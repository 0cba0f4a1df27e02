"""`devkit model get` with the real huggingface_hub against a hub on loopback."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.support import REPO, Cli, eventually
from tests.support.hub_server import HubServer, serve_hub

NAME = "some-org/tiny-llm-MNN"
TINY = REPO / "tests/data/models/tiny-llm"
# What a break may cost (devkit.models.hub).
CHUNK = 64 * 1024
LARGE = {"llm.mnn", "llm.mnn.weight", "embeddings_bf16.bin"}


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[HubServer]:
    files = {path.name: path.read_bytes() for path in TINY.iterdir()}
    files |= {"README.md": b"# a model\n", ".gitattributes": b"*.mnn filter=lfs\n", "图/empty.txt": b""}
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "HF_TOKEN", "HF_HUB_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    with serve_hub(NAME, files, LARGE) as server:
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        yield server


def same(folder: Path, hub: HubServer) -> bool:
    return all(
        (folder / path).read_bytes() == content for path, content in hub.files.items() if ".git" not in path
    )


def longer(hub: HubServer) -> bytes:
    """A weight file that is worth continuing; what is behind its end does not bother the engine."""
    hub.files["llm.mnn.weight"] += random.Random(1).randbytes(3_000_000)
    return hub.files["llm.mnn.weight"]


def begin_of(asked: str | None) -> int:
    return int(asked.removeprefix("bytes=").removesuffix("-")) if asked else 0


def test_a_model_comes_whole_and_is_checked(hub: HubServer, workdir: Path, devkit: Cli) -> None:
    ran = devkit("model", "get", NAME)
    assert (ran.code, ran.out) == (0, "tiny-llm-MNN: 0 errors, 0 warnings in config.json\n"), ran.err
    folder = workdir / "tiny-llm-MNN"
    assert same(folder, hub) and "all hashes right" in ran.err
    # Nothing of ours, of git's or of the hub's is left.
    assert {p.name for p in folder.iterdir()} == {p.name for p in TINY.iterdir()} | {"README.md", "图"}

    sent = dict(hub.sent)
    again = devkit("model", "get", NAME, "--json")
    assert (again.code, again.data["missing_bytes"], hub.sent) == (0, 0, sent)
    assert again.data["check"]["status"] == "ok"


def test_a_dry_run_lists_files_and_changes_nothing(hub: HubServer, workdir: Path, devkit: Cli) -> None:
    ran = devkit("model", "get", NAME, "--to", "模 model", "--dry-run")
    assert ran.code == 0 and list(workdir.iterdir()) == []
    assert "llm.mnn.weight" in ran.out and "56.6 kB" in ran.out and ".gitattributes" not in ran.out
    data = devkit("model", "get", NAME, "--dry-run", "--json").data
    assert (
        data["bytes"] == data["missing_bytes"] == sum(len(c) for p, c in hub.files.items() if ".git" not in p)
    )
    assert all(place.startswith("/api/") for _, place, _, _ in hub.requests)


def test_cuts_in_the_middle_are_continued(hub: HubServer, workdir: Path, devkit: Cli) -> None:
    weight = longer(hub)
    hub.cuts = {"llm.mnn.weight": [1_000_000, 1_000_000], "config.json": [100]}
    ran = devkit("model", "get", NAME)
    assert ran.code == 0 and same(workdir / "tiny-llm-MNN", hub), ran.err
    first, second, third = (begin_of(asked) for asked in hub.fetched("/cdn/llm.mnn.weight"))
    assert first == 0 and 1_000_000 - CHUNK <= second <= 1_000_000 and third >= 2_000_000 - 2 * CHUNK
    assert hub.sent["llm.mnn.weight"] <= len(weight) + 2 * CHUNK


@pytest.mark.slow
def test_what_has_come_survives_the_process(hub: HubServer, workdir: Path, devkit: Cli) -> None:
    longer(hub)
    # It breaks off so often that this process gives up.
    hub.cuts = {"llm.mnn.weight": [1_000_000] + [0] * 100}
    folder = workdir / "model"
    process = subprocess.Popen(
        [sys.executable, "-m", "devkit", "model", "get", NAME, "--to", str(folder)],
        cwd=workdir, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert eventually(lambda: hub.sent.get("llm.mnn.weight", 0) == 1_000_000)
    time.sleep(0.5)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert not (folder / "llm.mnn.weight").exists()

    hub.cuts = {}
    planned = devkit("model", "get", NAME, "--to", folder, "--dry-run", "--json").data
    [weight] = [row for row in planned["files"] if row["path"] == "llm.mnn.weight"]
    assert 900_000 <= weight["have_bytes"] <= 1_000_000 and weight["action"] == "fetch"
    ran = devkit("model", "get", NAME, "--to", folder)
    assert ran.code == 0 and same(folder, hub), ran.err
    assert hub.sent["llm.mnn.weight"] < len(hub.files["llm.mnn.weight"]) + 200_000
    assert not (folder / ".devkit-get").exists()


@pytest.mark.slow
def test_a_server_that_knows_no_ranges(hub: HubServer, workdir: Path, devkit: Cli) -> None:
    hub.ranges = False
    hub.cuts = {"llm.mnn": [40_000]}
    assert devkit("model", "get", NAME).code == 0
    assert same(workdir / "tiny-llm-MNN", hub)


def test_a_wrong_byte_is_found_and_nothing_appears(hub: HubServer, workdir: Path, devkit: Cli) -> None:
    hub.flip = {"llm.mnn.weight"}
    ran = devkit("model", "get", NAME)
    assert ran.code == 125 and "wrong content, twice" in ran.err and "sha256" in ran.err
    assert not (workdir / "tiny-llm-MNN/llm.mnn.weight").exists()
    assert len(hub.fetched("/cdn/llm.mnn.weight")) == 2
    hub.flip = {"config.json"}  # no LFS: git's hash
    assert "config.json came with the wrong content" in devkit("model", "get", NAME).err


def test_a_part_of_something_else_is_thrown_away(hub: HubServer, workdir: Path, devkit: Cli) -> None:
    hub.cuts = {"llm.mnn.weight": [20_000] + [0] * 100}
    parts = workdir / "tiny-llm-MNN/.devkit-get"
    parts.mkdir(parents=True)
    import hashlib

    key = hashlib.sha256(hub.files["llm.mnn.weight"]).hexdigest()[:32]
    (parts / f"{key}.part").write_bytes(b"x" * 30_000)
    hub.cuts = {}
    ran = devkit("model", "get", NAME)
    assert ran.code == 0 and "it is fetched again" in ran.err and same(workdir / "tiny-llm-MNN", hub)


def test_what_the_user_wrote_stays(hub: HubServer, workdir: Path, devkit: Cli) -> None:
    folder = workdir / "tiny-llm-MNN"
    folder.mkdir()
    (folder / "config.json").write_text('{"mine": 1}')
    ran = devkit("model", "get", NAME)
    assert ran.code == 125 and "config.json" in ran.err and "--force" in ran.err
    assert [p.name for p in folder.iterdir()] == ["config.json"] and hub.sent == {}
    assert devkit("model", "get", NAME, "--force").code == 0 and same(folder, hub)


def test_the_next_endpoint_takes_over(hub: HubServer, workdir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from devkit.models import fetch

    monkeypatch.setattr(fetch, "ATTEMPTS", 1)
    longer(hub)
    with serve_hub(NAME, hub.files, LARGE) as second, serve_hub(NAME, {}, set()) as dead:
        dead.down = True
        # It sends a million bytes and then nothing any more.
        hub.cuts, hub.down_after_cut = {"llm.mnn.weight": [1_000_000]}, True
        plan = fetch.plan_fetch(NAME, workdir / "m", (dead.url, hub.url, second.url))
        assert plan.model.endpoint == hub.url
        fetch.apply_fetch(plan, (dead.url, hub.url, second.url))
        assert same(workdir / "m", second)
        [asked] = second.fetched("/cdn/llm.mnn.weight")
        assert begin_of(asked) >= 1_000_000 - CHUNK


def test_a_hub_that_is_down_says_so(hub: HubServer, devkit: Cli) -> None:
    hub.down = True
    ran = devkit("model", "get", NAME, "--json")
    assert (ran.code, ran.data["kind"]) == (125, "HubUnreachable")
    hub.down = False
    ran = devkit("model", "get", NAME, "--endpoint", "http://127.0.0.1:9")
    assert ran.code == 125 and "HF_ENDPOINT=https://hf-mirror.com" in ran.err


def test_names_that_lead_nowhere(hub: HubServer, devkit: Cli) -> None:
    ran = devkit("model", "get", "some-org/other")
    assert ran.code == 2 and "no model some-org/other" in ran.err and "HF_TOKEN" in ran.err
    ran = devkit("model", "get", NAME, "--revision", "v9")
    assert ran.code == 2 and "no revision v9" in ran.err
    ran = devkit("model", "get", "no name at all")
    assert ran.code == 2 and "no name of a model" in ran.err
    hub.gated = True
    ran = devkit("model", "get", NAME)
    assert ran.code == 2 and "terms" in ran.err


def test_a_model_that_is_broken_on_the_hub(hub: HubServer, devkit: Cli) -> None:
    hub.files["config.json"] = hub.files["config.json"].replace(b"tokenizer.mtok", b"tokenizer.txt")
    ran = devkit("model", "get", NAME)
    assert ran.code == 1 and "tokenizer.mtok is there" in ran.out


def test_some_of_its_files(hub: HubServer, workdir: Path, devkit: Cli) -> None:
    ran = devkit("model", "get", NAME, "--include", "*.json", "--exclude", "llm_*", "--json")
    assert (ran.code, [row["path"] for row in ran.data["files"]], ran.data["check"]) == (
        0,
        ["config.json"],
        None,
    )


def test_paths_that_lead_out_are_refused(hub: HubServer, workdir: Path, devkit: Cli) -> None:
    hub.files["../evil.txt"] = b"x"
    ran = devkit("model", "get", NAME)
    assert ran.code == 125 and "outside of its folder" in ran.err and list(workdir.iterdir()) == []


def test_the_token_goes_where_the_user_sends_it(
    hub: HubServer, devkit: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    from devkit.models import hub as room

    devkit("model", "get", NAME, "--dry-run", HF_TOKEN="hf_secret")
    assert hub.requests[-1][3] == "Bearer hf_secret"
    # The mirror that devkit takes by itself never sees it.
    monkeypatch.delenv("HF_ENDPOINT")
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    monkeypatch.setattr(room, "MIRROR", hub.url)
    assert room.endpoints() == (room.HUB, hub.url)
    room.list_model(NAME, None, hub.url)
    assert hub.requests[-1][3] is None


def test_without_the_library(hub: HubServer, workdir: Path) -> None:
    code = (
        "import sys; sys.modules['huggingface_hub'] = None\n"
        f"from devkit.cli.main import run\nsys.exit(run(['model', 'get', {NAME!r}]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=workdir, capture_output=True, text=True, check=False
    )
    assert done.returncode == 125 and "pip install 'mnn-devkit[models]'" in done.stderr


def test_an_endpoint_that_is_no_url(devkit: Cli) -> None:
    ran = devkit("model", "get", "a/b", "--endpoint", "hf-mirror.com")
    assert ran.code == 2 and "try: with its scheme: https://hf-mirror.com" in ran.err
    ran = devkit("model", "get", "a/b", HF_ENDPOINT="hub.corp", HF_HUB_OFFLINE="1")
    assert ran.code == 2 and "from HF_ENDPOINT" in ran.err
