"""The start-up throttler's core: which container of a node may start now, why the others wait, until when. Pure."""
