"""The same planner over a modelled scheduler, ReplicaSet controller and autoscaler. Pure: no I/O, no clock."""
