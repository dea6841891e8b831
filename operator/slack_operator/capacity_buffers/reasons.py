"""Every reason that serving CapacityBuffers gives: in conditions of buffers and of the probe, and in Events."""

from slack.capacity_buffers.api import CONFLICT, NO_CONFLICT, BufferReason
from slack.process.reasons import Level, Reason

SERVED_BY = "BufferServerFound"
_KIND = "CapacityBuffer"

REASONS: tuple[Reason, ...] = (
    Reason(
        BufferReason.RESOLVED,
        ("ReadyForProvisioning=True",),
        Level.GOOD,
        "What one chunk is, and how many there are, is known.",
        about=_KIND,
    ),
    Reason(
        BufferReason.POD_TEMPLATE_NOT_FOUND,
        ("ReadyForProvisioning=False",),
        Level.TROUBLE,
        "The PodTemplate that the buffer names has not been there for 10 s. No capacity is held.",
        "create it in the buffer's namespace, or fix spec.podTemplateRef.name",
        about=_KIND,
    ),
    Reason(
        BufferReason.SCALABLE_REF_NOT_FOUND,
        ("ReadyForProvisioning=False",),
        Level.TROUBLE,
        "The object that the buffer names has not been there for 10 s. No capacity is held.",
        "create it in the buffer's namespace, or fix spec.scalableRef",
        about=_KIND,
    ),
    Reason(
        BufferReason.RESOLUTION_FAILED,
        ("ReadyForProvisioning=False",),
        Level.TROUBLE,
        "The spec gives no chunk or no size, as the message says. No capacity is held.",
        "fix the field that the message names; a kind that may not be read goes into capacityBuffers.scalableKinds",
        about=_KIND,
    ),
    Reason(
        BufferReason.NOT_READY_FOR_PROVISIONING,
        ("Provisioning=False",),
        Level.TROUBLE,
        "ReadyForProvisioning is False, and says why.",
        "see ReadyForProvisioning",
        about=_KIND,
    ),
    Reason(
        BufferReason.BUFFER_EMPTY,
        ("Provisioning=False",),
        Level.NOTE,
        "The size is 0: as written, by a percentage of no replicas, or since a bound leaves nothing.",
        "where LimitedByQuotas is True, its message names the bound",
        about=_KIND,
    ),
    Reason(
        BufferReason.FITS_EXISTING_CAPACITY,
        ("Provisioning=True",),
        Level.GOOD,
        "All chunks fit into free capacity of nodes that are there, and have for 2 s.",
        about=_KIND,
    ),
    Reason(
        BufferReason.REQUIRES_NEW_CAPACITY,
        ("Provisioning=False",),
        Level.NOTE,
        "Some chunks fit nowhere yet; the autoscaler is asked for nodes.",
        "wait for the nodes; the message says how many chunks fit",
        about=_KIND,
    ),
    Reason(
        BufferReason.INFEASIBLE,
        ("Provisioning=False",),
        Level.TROUBLE,
        "No node will come for the chunks that do not fit: no node type can hold one, or the autoscaler has refused "
        "for 20 minutes. The message has its words.",
        "make the chunk smaller, raise the limits of the node groups, or lower the size",
        about=_KIND,
    ),
    Reason(
        BufferReason.RESOURCE_QUOTAS_ALLOCATED,
        ("LimitedByQuotas=True", "LimitedByQuotas=False"),
        Level.NOTE,
        "Whether ResourceQuotas of the namespace, capacityBuffers.ceiling or the bound of 1000 chunks cut the size; "
        "the message names them.",
        "raise the bound that the message names, or lower the size",
        about=_KIND,
    ),
    Reason(
        CONFLICT,
        ("Conflict=True",),
        Level.TROUBLE,
        "Somebody else writes the status of buffers that were served here, so these are left to them until the next "
        "probe. The condition is on the buffer resource-slack-probe, the Event on each of the buffers.",
        "switch the other server off, or give the buffers the strategy buffer.resource-slack.io/placeholder-pods",
        about=_KIND,
    ),
    Reason(
        NO_CONFLICT, ("Conflict=False",), Level.GOOD, "Nobody else writes the buffers' status any more.", about=_KIND
    ),
    Reason(
        SERVED_BY,
        (),
        Level.NOTE,
        "Who serves CapacityBuffers on this cluster, and by which status of the probe that is known.",
        "docs/capacity-buffers.md says which server to use when",
        about=_KIND,
    ),
)
