// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why a request took as long as it did: its waiting time, split by mechanism.

use linnet_types::Nanos;

/// What a request waited for. *Wide* work takes all dies (at least half of them, for flushes) at once; *single* work takes one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Mechanism {
    /// Reads of the host queued on the same die.
    HostRead,
    /// Programs of a batched flush.
    FlushWide,
    /// Program units destaged by themselves, and flushes that reach less than half of the dies.
    FlushSingle,
    /// A garbage collection round on all dies.
    GcWide,
    /// Garbage collection of one die.
    GcSingle,
    /// Erase of a superblock on all dies.
    EraseWide,
    /// Erase on one die.
    EraseSingle,
    /// Checkpoint of the mapping table on all dies.
    MapWide,
    /// Checkpoint work of one die.
    MapSingle,
    /// The read half of another request's read-modify-write.
    Rmw,
    /// Repetitions of the flash read itself.
    Retry,
    /// The channel.
    Bus,
    /// The host link.
    Link,
    /// A full write buffer.
    BufferFull,
    /// Data that moves from the SLC cache to its final place.
    SlcFold,
}

/// The kinds of source that decide how predictable a slow read is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// Internal work of all dies at once: other requests see it too.
    DeviceWide,
    /// Internal work of one die.
    SingleDie,
    /// Other requests of the host, on dies, channels, link or buffer.
    Queueing,
    /// Read retry: chance of the flash page.
    Retry,
}

impl Mechanism {
    /// All, in the order of their numbers.
    pub const ALL: [Mechanism; 15] = [
        Mechanism::HostRead,
        Mechanism::FlushWide,
        Mechanism::FlushSingle,
        Mechanism::GcWide,
        Mechanism::GcSingle,
        Mechanism::EraseWide,
        Mechanism::EraseSingle,
        Mechanism::MapWide,
        Mechanism::MapSingle,
        Mechanism::Rmw,
        Mechanism::Retry,
        Mechanism::Bus,
        Mechanism::Link,
        Mechanism::BufferFull,
        Mechanism::SlcFold,
    ];

    /// The kind of source it belongs to.
    pub fn source(self) -> Source {
        use Mechanism::*;
        match self {
            FlushWide | GcWide | EraseWide | MapWide => Source::DeviceWide,
            FlushSingle | GcSingle | EraseSingle | MapSingle | Rmw | SlcFold => Source::SingleDie,
            HostRead | Bus | Link | BufferFull => Source::Queueing,
            Retry => Source::Retry,
        }
    }

    /// A short name for tables.
    pub fn name(self) -> &'static str {
        use Mechanism::*;
        match self {
            HostRead => "host-read",
            FlushWide => "flush-wide",
            FlushSingle => "flush-single",
            GcWide => "gc-wide",
            GcSingle => "gc-single",
            EraseWide => "erase-wide",
            EraseSingle => "erase-single",
            MapWide => "map-wide",
            MapSingle => "map-single",
            Rmw => "rmw",
            Retry => "retry",
            Bus => "bus",
            Link => "link",
            BufferFull => "buffer-full",
            SlcFold => "slc-fold",
        }
    }
}

/// Waiting time of one request, by mechanism. For a request of several pages: of the page that completed last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Cause {
    wait_ns: [Nanos; Mechanism::ALL.len()],
}

impl Cause {
    pub(crate) fn add(&mut self, mechanism: Mechanism, wait_ns: Nanos) {
        self.wait_ns[mechanism as usize] += wait_ns;
    }

    /// Adds the waits of another request.
    pub fn merge(&mut self, other: &Cause) {
        for (sum, ns) in self.wait_ns.iter_mut().zip(other.wait_ns) {
            *sum += ns;
        }
    }

    /// What was waited for, and how long: mechanisms with time only, in the order of [`Mechanism::ALL`].
    pub fn parts(&self) -> impl Iterator<Item = (Mechanism, Nanos)> + '_ {
        Mechanism::ALL.iter().map(|&mechanism| (mechanism, self.wait_ns(mechanism))).filter(|&(_, ns)| ns > 0)
    }

    /// Time spent waiting for this mechanism.
    pub fn wait_ns(&self, mechanism: Mechanism) -> Nanos {
        self.wait_ns[mechanism as usize]
    }

    /// Time spent waiting for this kind of source.
    pub fn source_ns(&self, source: Source) -> Nanos {
        Mechanism::ALL.iter().filter(|m| m.source() == source).map(|&m| self.wait_ns(m)).sum()
    }

    /// Time spent waiting in all: latency less what the request would take on an idle device.
    pub fn total_ns(&self) -> Nanos {
        self.wait_ns.iter().sum()
    }

    /// The mechanism that cost most; none for a request that did not wait.
    pub fn main_mechanism(&self) -> Option<Mechanism> {
        let longest = Mechanism::ALL.into_iter().max_by_key(|&m| self.wait_ns(m))?;
        (self.wait_ns(longest) > 0).then_some(longest)
    }

    /// The kind of source that cost most; none for a request that did not wait.
    pub fn main_source(&self) -> Option<Source> {
        let sources = [Source::DeviceWide, Source::SingleDie, Source::Queueing, Source::Retry];
        let longest = sources.into_iter().max_by_key(|&s| self.source_ns(s))?;
        (self.source_ns(longest) > 0).then_some(longest)
    }
}
