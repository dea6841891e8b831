"""A list of pods into the columns, against the official client's objects."""

import json
import time

import msgspec
from kubernetes import client

from benchmarks.generator import nodes, pods, scaled
from slack.cluster.columns import ClusterColumns
from slack.cluster.wire import Node, Pod

PODS = 2_000


class PodList(msgspec.Struct):
    """A page of a list."""

    items: list[Pod]


class _Answer:
    """What the official client's deserializer wants of an HTTP answer."""

    def __init__(self, data: bytes) -> None:
        self.data = data.decode()


def main() -> None:
    """Print microseconds a pod for both sides, and their ratio."""
    size = scaled(PODS / 150_000)
    page = json.dumps({"apiVersion": "v1", "kind": "PodList", "metadata": {}, "items": list(pods(size))}).encode()
    columns = ClusterColumns("resource-slack")
    columns.apply_nodes([("ADDED", msgspec.convert(node, Node)) for node in nodes(size)])
    decoder = msgspec.json.Decoder(PodList)
    began = time.process_time()
    columns.apply_pods([("ADDED", pod) for pod in decoder.decode(page).items])
    ours = (time.process_time() - began) / size.pods
    api = client.ApiClient(client.Configuration())
    began = time.process_time()
    found = api.deserialize(_Answer(page).data, "V1PodList", "application/json")
    theirs = (time.process_time() - began) / size.pods
    assert len(found.items) == size.pods
    print(f"list of {size.pods} pods of {len(page) / size.pods / 1024:.1f} KB, CPU time")
    print(f"{'into the columns':<28} {ours * 1e6:>8.1f} us a pod")
    print(f"{'official client objects':<28} {theirs * 1e6:>8.1f} us a pod")
    print(f"{'ratio':<28} {theirs / ours:>8.1f}x")


if __name__ == "__main__":
    main()
