// SPDX-License-Identifier: MIT OR Apache-2.0
//! Block trace readers, writers, statistics, re-rating and synthetic workloads.
