"""Warm nodes: which images nodes with placeholders are to have before the pods that need them arrive."""

from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from slack.cluster.image_names import LONGEST_NAME, NO_IMAGE, is_image
from slack.cluster.quantity import QuantityError, base_units
from slack.planner.policy.fields import NO_TEXT
from slack.planner.policy.placeholders import PullSecret
from slack.schema.policy_object import SpecModel

NO_BYTES = "maxBytesPerNode is a positive number of bytes such as 30Gi"
NO_IMAGES = "with images None nothing is pulled; name images in imageList, or write images: Covered"
DEFAULT_BYTES = 30 << 30


def _bytes(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError(NO_BYTES)
    try:
        found = base_units(str(value))
    except QuantityError:
        found = 0
    if found <= 0:
        raise ValueError(NO_BYTES)
    return found


ImageName = Annotated[str, Field(max_length=LONGEST_NAME)]
Bytes = Annotated[int, BeforeValidator(_bytes), Field(json_schema_extra={"format": "bytes"})]


class Warm(SpecModel):
    """Which images are pulled on nodes where placeholders have their capacity. A short-lived pod pulls each and runs
    nothing of it."""

    images: Literal["Covered", "None"] = "Covered"
    """Covered: the images of the workloads that the policy covers and that are likely to arrive. None: only those of
    imageList."""
    image_list: Annotated[tuple[ImageName, ...], Field(max_length=64)] = ()
    """Further images, such as registry.example.com/team/app:1.2."""
    max_bytes_per_node: Bytes = DEFAULT_BYTES
    """How many bytes are pulled on one node at most, of the images that are wanted at the time."""
    min_share: Annotated[float, Field(ge=0, le=1), NO_TEXT] = 0.05
    """Covered: a workload counts if at least this share of the arriving pods is its."""
    image_pull_secrets: tuple[PullSecret, ...] = ()
    """Secrets in the operator's namespace for private registries. Credential providers of nodes need none."""

    @model_validator(mode="after")
    def _some_images(self) -> Self:
        if not all(is_image(name) for name in self.image_list):
            raise ValueError(NO_IMAGE)
        if self.images == "None" and not self.image_list:
            raise ValueError(NO_IMAGES)
        return self
