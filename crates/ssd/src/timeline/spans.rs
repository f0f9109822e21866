// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records what dies and channels did, for plots. The memory is bounded, and recording is off by default.

use std::collections::VecDeque;

use linnet_types::Nanos;

use crate::cause::Mechanism;

/// A resource of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Resource {
    /// A die; its channel is its number modulo the channels.
    Die(u32),
    /// A channel.
    Channel(u32),
}

/// An interval during which a die or channel was busy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The resource.
    pub resource: Resource,
    /// What used it: [`Mechanism::HostRead`] for reads of the host, or the internal work.
    pub of: Mechanism,
    /// Start.
    pub start_ns: Nanos,
    /// End.
    pub end_ns: Nanos,
}

/// The last intervals of one resource.
#[derive(Clone, Debug)]
pub(crate) struct SpanLog {
    spans: VecDeque<(Mechanism, Nanos, Nanos)>,
    most: usize,
}

impl SpanLog {
    pub fn new(most: usize) -> Self {
        SpanLog { spans: VecDeque::new(), most }
    }

    pub fn add(&mut self, of: Mechanism, start: Nanos, end: Nanos) {
        if self.spans.len() == self.most {
            self.spans.pop_front();
        }
        self.spans.push_back((of, start, end));
    }

    pub fn between(&self, resource: Resource, from: Nanos, to: Nanos) -> impl Iterator<Item = Span> + '_ {
        let overlapping = self.spans.iter().filter(move |&&(_, start, end)| start < to && end > from);
        overlapping.map(move |&(of, start_ns, end_ns)| Span { resource, of, start_ns, end_ns })
    }
}
