"""Slack beside real autoscalers: from the installation to reserved capacity, its refill, and minutes of moving load."""
