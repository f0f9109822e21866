// SPDX-License-Identifier: MIT OR Apache-2.0
//! Replicas and admission policies as a state machine without I/O.
