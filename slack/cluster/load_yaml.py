"""A snapshot as YAML, `kubectl get -o yaml`: each document as JSON, for `slack.cluster.load`. Slow, so bounded."""

from collections.abc import Iterator
from typing import Any

import msgspec
import yaml

from slack.cluster.invalid_snapshot import WHOLE, InvalidSnapshot
from slack.cluster.yaml_bounds import UnboundedYaml, check_bounds

MOST_YAML_BYTES = 32 << 20
"""Some 5,000 pods of `-o yaml`; a minute and a GiB. JSON of the same cluster is read in a second."""


# The C loader where PyYAML was built with it; mypy wants no base class that is found at run time.
class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """YAML without timestamps: the API's are text, and so they must stay."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in pairs if tag != "tag:yaml.org,2002:timestamp"]
    for first, pairs in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def yaml_documents(text: bytes, source: str) -> Iterator[tuple[str, bytes]]:
    """Yield the place and the JSON of each document that is not empty.

    Raises:
        InvalidSnapshot: it is too long, no YAML, or none of objects.
    """
    if len(text) > MOST_YAML_BYTES:
        raise InvalidSnapshot(
            f"it has more than {MOST_YAML_BYTES >> 20} MiB, which is too much for YAML; {WHOLE}", source
        )
    try:
        check_bounds(text)
        documents: list[Any] = [document for document in yaml.load_all(text, Loader=_Loader) if document is not None]
    except UnboundedYaml as error:
        raise InvalidSnapshot(f"{error}; {WHOLE}", source) from None
    except (yaml.YAMLError, ValueError) as error:  # PyYAML builds numbers by itself, and bytes may be no text
        raise InvalidSnapshot(f"it is neither JSON nor YAML: {' '.join(str(error).split())}; {WHOLE}", source) from None
    for index, document in enumerate(documents):
        path = "$" if len(documents) == 1 else f"$[{index}]"
        if not isinstance(document, dict):
            raise InvalidSnapshot(
                f"{path}: expected a Kubernetes object or List, got {document!r:.40}; {WHOLE}", source
            )
        try:
            yield path, msgspec.json.encode(document)
        except (TypeError, ValueError) as error:
            raise InvalidSnapshot(f"{path}: {error}; {WHOLE}", source) from None
