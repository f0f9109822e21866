// SPDX-License-Identifier: MIT OR Apache-2.0
//! Safe wrapper of the C core: features, tracker, network, trainer, model files.
