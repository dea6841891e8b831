"""Every reason of every process: the page and the reference of conditions and Events explain them in this order."""

from slack.health import reasons as health
from slack_operator.auditor.controller import reasons as auditor
from slack_operator.capacity_buffers import reasons as buffers
from slack_operator.demand import reasons as demand
from slack_operator.throttler import reasons as throttler

REASONS = (*health.REASONS, *auditor.REASONS, *throttler.REASONS, *demand.REASONS, *buffers.REASONS)
