"""The examples for containers ask for no privilege, and their parts fit together."""

import pathlib
import tomllib

import pytest
import yaml

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "conf/examples/containers"
SOCKET_FOLDER = "/run/maru"
# Keys that would open the host to a container.
FORBIDDEN = {"hostIPC", "hostPID", "hostNetwork", "hostUsers", "ipc", "pid", "network_mode", "devices", "cap_add", "add"}


def entries(node):
    """Every key of a document with its value."""
    if isinstance(node, dict):
        for key, value in node.items():
            yield key, value
            yield from entries(value)
    elif isinstance(node, list):
        for value in node:
            yield from entries(value)


def kubernetes():
    return {made["kind"]: made for made in yaml.safe_load_all((EXAMPLES / "kubernetes.yaml").read_text())}


def compose():
    return yaml.safe_load((EXAMPLES / "compose.yaml").read_text())


@pytest.mark.parametrize("documents", [kubernetes, compose])
def test_nothing_is_privileged(documents):
    found = [(key, value) for key, value in entries(documents())
             if key in FORBIDDEN or (key in ("privileged", "allowPrivilegeEscalation") and value)]
    assert not found
    dropped = [value for key, value in entries(documents()) if key in ("drop", "cap_drop")]
    assert dropped == [["ALL"], ["ALL"]]


def test_the_engine_gets_the_folder_of_the_socket_and_nothing_else():
    made = kubernetes()
    daemon, engine = made["DaemonSet"]["spec"]["template"]["spec"], made["Pod"]["spec"]
    assert [volume["hostPath"]["path"] for volume in engine["volumes"]] == [SOCKET_FOLDER]
    assert [mount["mountPath"] for mount in engine["containers"][0]["volumeMounts"]] == [SOCKET_FOLDER]
    assert SOCKET_FOLDER in [mount["mountPath"] for mount in daemon["containers"][0]["volumeMounts"]]
    assert engine["securityContext"]["supplementalGroups"] == [daemon["containers"][0]["securityContext"]["runAsGroup"]]
    services = compose()["services"]
    assert services["engine"]["volumes"] == [f"maru-run:{SOCKET_FOLDER}:ro"]
    assert f"maru-run:{SOCKET_FOLDER}" in services["maru"]["volumes"]
    assert services["engine"]["group_add"] == [services["maru"]["user"].split(":")[1]]


def test_both_serve_the_same_configuration():
    config = tomllib.loads((EXAMPLES / "maru.toml").read_text())
    assert tomllib.loads(kubernetes()["ConfigMap"]["data"]["maru.toml"]) == config
    assert config["daemon"]["socket"] == f"{SOCKET_FOLDER}/maru.sock"


def test_every_image_is_built_by_the_dockerfile():
    stages = {line.split()[-1] for line in (EXAMPLES / "Dockerfile").read_text().splitlines() if line.startswith("FROM ")}
    images = {value for documents in (kubernetes(), compose()) for key, value in entries(documents) if key == "image"}
    assert images and {image.removeprefix("maru-") for image in images} <= stages
