// SPDX-License-Identifier: MIT OR Apache-2.0
//! Exact quantiles, histograms, classification scores.
