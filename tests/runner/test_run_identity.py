"""A run is begun once and resumed only as what it was begun as."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from run_outputs import MANIFEST, PLAN, answer, inputs_of, names_in

from sortedf.errors import InputError
from sortedf.runner.folder import RunFolder
from sortedf.runner.lock import FolderLock
from sortedf.runner.run_identity import check_inputs, read_manifest, write_inputs

INPUTS = inputs_of("a", "b")


def create(path: Path, **changed: Any) -> RunFolder:
    given = {"plan": PLAN, "plan_name": "plan.json", "inputs": INPUTS} | changed
    return RunFolder.create(path, MANIFEST, **given)


def test_what_a_new_folder_holds(tmp_path: Path) -> None:
    path = tmp_path / "deep/run"
    with create(path) as folder:
        assert folder.plan == path / "plan.json"
        assert folder.attempt == path / "attempts/1"
        assert list(folder.attempt.iterdir()) == []
        assert dict(folder.status) == {}
        assert folder.counts == (0, 0, 2)
    assert json.loads((path / "manifest.json").read_text()) == {
        **MANIFEST,
        "schema": "sortedf.run/1",
        "plan": "plan.json",
    }
    assert read_manifest(path) == folder.manifest
    assert (path / "inputs.csv").read_text().splitlines()[:2] == [
        "custom_id,sha256",
        f"a,{0:064x}",
    ]
    for number in ("2", "3"):
        with RunFolder.resume(path, MANIFEST, inputs=INPUTS) as folder:
            assert folder.attempt.name == number


@pytest.mark.parametrize(
    ("name", "copy"),
    [
        ("-", "plan"),
        ("my plan.json", "plan.json"),
        ("x/y.v2.jsonl", "plan.jsonl"),
        ("y.jsonl.gz", "plan.jsonl.gz"),
    ],
)
def test_the_plan_is_copied_byte_for_byte(name: str, copy: str, tmp_path: Path) -> None:
    plan = gzip.compress(PLAN) if name.endswith(".gz") else PLAN
    with create(tmp_path / "run", plan=plan, plan_name=name) as folder:
        assert folder.plan == tmp_path / "run" / copy
        assert folder.plan.read_bytes() == plan


def test_folders_that_are_in_use_for_something_else(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    create(tmp_path / "empty").close()
    (tmp_path / "full").mkdir()
    (tmp_path / "full/plan.json").write_text("mine")
    with pytest.raises(InputError, match="is not empty; name another folder"):
        create(tmp_path / "full")
    assert [entry.name for entry in (tmp_path / "full").iterdir()] == ["plan.json"]
    assert (tmp_path / "full/plan.json").read_text() == "mine"
    with pytest.raises(InputError, match="holds a run; resume it, or name another folder"):
        create(tmp_path / "empty")
    for wrong in ("full", "none"):
        with pytest.raises(InputError, match=r"full: no run was begun|none: no such folder"):
            RunFolder.resume(tmp_path / wrong, MANIFEST, inputs=INPUTS)


def test_a_folder_that_another_process_takes_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the first look at it and the lock."""

    def late(path: Path) -> FolderLock:
        monkeypatch.undo()
        with create(tmp_path) as other:
            other.append(answer("a"))
        return FolderLock(path)

    monkeypatch.setattr("sortedf.runner.folder_files.FolderLock", late)
    with pytest.raises(InputError, match="holds a run"):
        create(tmp_path)
    with RunFolder.resume(tmp_path, MANIFEST, inputs=INPUTS) as folder:
        assert set(folder.status) == {"a"}


@pytest.mark.parametrize("left", [["lock"], ["lock", "plan.json"], ["lock", "plan", "inputs.csv"]])
def test_a_creation_that_was_killed_can_be_begun_again(left: list[str], tmp_path: Path) -> None:
    for name in [*left, ".sortedf-0123.tmp"]:
        (tmp_path / name).write_text("half")
    with pytest.raises(InputError, match="no run was begun"):
        RunFolder.resume(tmp_path, MANIFEST, inputs=INPUTS)
    with create(tmp_path) as folder:
        folder.append(answer("a"))
    assert not list(tmp_path.glob(".sortedf-*"))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"model": "other"}, 'model was "m" when the run was begun, it is "other" now'),
        ({"sampling": {"temperature": 1}}, "sampling.temperature was 0 when"),
        ({"sampling": {}}, "sampling.temperature was 0 when the run was begun, it is not given"),
        ({"seed": 1}, "seed was not given when the run was begun, it is 1 now"),
    ],
)
def test_another_setting_is_refused_unless_forced(
    changed: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with create(tmp_path / "run") as folder:
        folder.append(answer("a"))
    before = (tmp_path / "run/manifest.json").read_bytes()
    with pytest.raises(InputError) as caught:
        RunFolder.resume(tmp_path / "run", MANIFEST | changed, inputs=INPUTS)
    assert message in str(caught.value)
    assert f"{tmp_path}/run/manifest.json: " in str(caught.value)
    assert (tmp_path / "run/manifest.json").read_bytes() == before
    with RunFolder.resume(
        tmp_path / "run", MANIFEST | changed, inputs=INPUTS, force=True
    ) as folder:
        assert set(folder.status) == {"a"}
    with RunFolder.resume(tmp_path / "run", MANIFEST | changed, inputs=INPUTS) as folder:
        assert set(folder.status) == {"a"}
    assert (tmp_path / "run/attempts/3").is_dir()
    assert not (tmp_path / "run/attempts/4").exists()  # the one refused made none


def test_what_a_manifest_may_hold_comes_back_equal(tmp_path: Path) -> None:
    manifest = {
        "float": 0.1,
        "tuple": (1, None),
        "deep": {"empty": {}, "list": [{"a": 1}]},
        "é": "",
    }
    RunFolder.create(tmp_path / "run", manifest, plan=PLAN, plan_name="-", inputs=INPUTS).close()
    RunFolder.resume(tmp_path / "run", manifest, inputs=INPUTS).close()


@pytest.mark.parametrize("data", ["", "[]", '{"schema": "sortedf.run/2", "plan": "plan"}', '{"sch'])
def test_manifests_that_cannot_be_read(data: str, tmp_path: Path) -> None:
    create(tmp_path / "run").close()
    (tmp_path / "run/manifest.json").write_text(data)
    with pytest.raises(InputError, match=r"manifest\.json: "):
        RunFolder.resume(tmp_path / "run", MANIFEST, inputs=INPUTS)


def test_many_changed_inputs_are_counted(tmp_path: Path) -> None:
    before = inputs_of(*(f"r-{index}" for index in range(100)))
    after = {name: digest.replace("0", "f") for name, digest in before.items()}
    create(tmp_path / "run", inputs=before).close()
    with pytest.raises(InputError) as caught:
        RunFolder.resume(tmp_path / "run", MANIFEST, inputs=after, force=True)
    lines = str(caught.value).splitlines()
    assert len(lines) == 21
    assert "100 in all" in lines[-1]
    less = {name: before[name] for name in before if name != "r-7"}
    with pytest.raises(InputError, match='"r-7" is missing from the input'):
        RunFolder.resume(tmp_path / "run", MANIFEST, inputs=less)


@given(inputs=st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), st.just("0" * 64)))
def test_any_custom_id_is_known_again(inputs: dict[str, str], tmp_path_factory: Any) -> None:
    folder = tmp_path_factory.mktemp("inputs")
    write_inputs(folder, inputs)
    check_inputs(folder, dict(reversed(inputs.items())))
    for name in inputs:
        with pytest.raises(InputError, match="was changed in the input"):
            check_inputs(folder, inputs | {name: "1" * 64})


def test_a_very_long_custom_id(tmp_path: Path) -> None:
    inputs = inputs_of("x" * 300_000, 'a"\r\n,\0')
    create(tmp_path / "run", inputs=inputs).close()
    with RunFolder.resume(tmp_path / "run", MANIFEST, inputs=inputs) as folder:
        for name in inputs:
            folder.append(answer(name))
        assert folder.finish() == (2, 0, 0)
    assert names_in(tmp_path / "run/output.jsonl") == list(inputs)
    short = inputs_of("y" * 300_000)
    with pytest.raises(InputError) as caught:
        RunFolder.resume(tmp_path / "run", MANIFEST, inputs=short)
    assert max(map(len, str(caught.value).splitlines())) < 400


@pytest.mark.parametrize(
    "data", [b"", b"name,hash\n", b"custom_id,sha256\na\n", b"custom_id,sha256\n\xff,0\n"]
)
def test_inputs_that_cannot_be_read(data: bytes, tmp_path: Path) -> None:
    create(tmp_path / "run").close()
    (tmp_path / "run/inputs.csv").write_bytes(data)
    with pytest.raises(InputError, match=r"inputs\.csv"):
        RunFolder.resume(tmp_path / "run", MANIFEST, inputs=INPUTS)
