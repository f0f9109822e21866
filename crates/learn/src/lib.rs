// SPDX-License-Identifier: MIT OR Apache-2.0
//! Inflection point, labels, training sets, fit and evaluation.
