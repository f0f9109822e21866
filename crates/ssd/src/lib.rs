// SPDX-License-Identifier: MIT OR Apache-2.0
//! The SSD model: what an I/O costs on a flash device, in virtual time.
