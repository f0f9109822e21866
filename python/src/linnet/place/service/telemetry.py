# SPDX-License-Identifier: MIT OR Apache-2.0
"""Metrics of the service, for Prometheus."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

SECONDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0, 10.0, 20.0, 30.0)


class Telemetry:
    """Counters and gauges of one service."""

    def __init__(self, pods: bool = False) -> None:
        """With ``pods`` it has what is told of a cluster's pods."""
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "linnet_place_requests",
            "Requests by route, method and status.",
            ("route", "method", "status"),
            registry=self.registry,
        )
        self.seconds = Histogram(
            "linnet_place_request_seconds",
            "From request to answer.",
            ("route", "method"),
            registry=self.registry,
            buckets=SECONDS,
        )
        self.commit_seconds = Histogram(
            "linnet_place_commit_seconds", "A group's work and its commit.", registry=self.registry, buckets=SECONDS
        )
        self.group = Histogram(
            "linnet_place_commit_requests",
            "Requests that shared a commit.",
            registry=self.registry,
            buckets=(1, 2, 4, 8, 16, 32, 64),
        )
        self.failed = Counter(
            "linnet_place_commits_failed", "Groups that could not be written, and were undone.", registry=self.registry
        )
        self.state = Gauge(
            "linnet_place_state_bytes", "Size of the state's file and of its log.", ("file",), registry=self.registry
        )
        self.violations = Counter(
            "linnet_place_slo_violations", "Observed windows in which a promise was broken.", registry=self.registry
        )
        self.drives = Gauge("linnet_place_drives", "Drives registered.", registry=self.registry)
        self.drives_used = Gauge("linnet_place_drives_used", "Drives that have tenants.", registry=self.registry)
        self.drives_overfull = Gauge(
            "linnet_place_drives_overfull", "Drives whose tenants have more than its capacity.", registry=self.registry
        )
        self.tenants = Gauge("linnet_place_tenants", "Tenants placed, staged ones included.", registry=self.registry)
        self.capacity = Gauge("linnet_place_capacity_bytes", "Capacity of all drives.", registry=self.registry)
        self.followed = Gauge(
            "linnet_place_pods_followed",
            "1 while the books have the pods of the cluster.",
            registry=self.registry if pods else None,
        )
        self.used = Gauge("linnet_place_used_bytes", "Capacity that tenants have.", registry=self.registry)

    def committed(self, requests: int, seconds: float) -> None:
        """Count a commit."""
        self.group.observe(requests)
        self.commit_seconds.observe(seconds)

    def text(self) -> bytes:
        """In Prometheus' text format."""
        return generate_latest(self.registry)
