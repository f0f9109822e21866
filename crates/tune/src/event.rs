// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a tuner did and why: one event, one line.

use serde_json::{Value, json};

/// One thing that happened.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// Seconds since 1970.
    pub t: f64,
    /// decision, rollback, rival, skip, restore, note.
    pub kind: &'static str,
    /// readahead, or rsize: the read size of an NFS mount.
    pub knob: &'static str,
    /// Device or mount.
    pub target: String,
    /// The file; None for the device itself.
    pub file: Option<String>,
    /// Who reads it: process and control group.
    pub reader: Option<String>,
    /// The value before.
    pub from_kib: Option<u32>,
    /// The value after; as before where nothing was changed.
    pub to_kib: Option<u32>,
    /// Why.
    pub why: String,
    /// 0 to 1.
    pub confidence: f64,
    /// False in a dry run, and where nothing could be changed.
    pub applied: bool,
}

impl Event {
    /// A line without a value.
    pub fn note(kind: &'static str, target: impl Into<String>, why: impl Into<String>) -> Event {
        Event {
            t: now(),
            kind,
            knob: "readahead",
            target: target.into(),
            file: None,
            reader: None,
            from_kib: None,
            to_kib: None,
            why: why.into(),
            confidence: 1.0,
            applied: false,
        }
    }

    /// As `linnet tune readahead --json` prints it.
    pub fn to_json(&self) -> Value {
        json!({"t": self.t, "kind": self.kind, "target": self.target, "file": self.file, "from_kib": self.from_kib,
               "to_kib": self.to_kib, "why": self.why, "confidence": (self.confidence * 1000.0).round() / 1000.0,
               "reader": self.reader, "applied": self.applied, "knob": self.knob})
    }
}

/// Seconds since 1970, to the millisecond.
pub fn now() -> f64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    since.as_millis() as f64 / 1000.0
}
