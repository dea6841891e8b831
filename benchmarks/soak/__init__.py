"""Soaks: the operator through minutes of trouble, and each companion through a week of churn in accelerated time."""
