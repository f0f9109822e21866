// SPDX-License-Identifier: MIT OR Apache-2.0
//! Explains why a request took as long as it did: its waiting time, by mechanism.

use linnet_types::Nanos;

/// What a request waited for. *Wide* work occupies all dies (for flushes, at least half of them) at once; *single* work
/// one die.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Mechanism {
    /// Other reads of the host queued on the same die.
    HostRead,
    /// Programs of a batched flush.
    FlushWide,
    /// Program units that are destaged individually, and flushes that reach less than half of the dies.
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
    /// The read of another request's read-modify-write.
    Rmw,
    /// Repetitions of the flash read.
    Retry,
    /// The channel.
    Bus,
    /// The host link.
    Link,
    /// A full write buffer.
    BufferFull,
    /// Data that is copied from the SLC cache to normal flash.
    SlcFold,
    /// Earlier parts of the same read on its die, channel and the link, however long they took: it would wait for them
    /// on an idle device too. Only the timeline engine tells them from other requests.
    OwnParts,
}

/// The kinds of source, which determine how predictable a slow read is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// Internal work of all dies at once: it delays other requests too.
    DeviceWide,
    /// Internal work of one die.
    SingleDie,
    /// Other requests of the host, or earlier parts of the same one, on dies, channels, link or buffer.
    Queueing,
    /// Read retry: random, per flash page.
    Retry,
}

impl Mechanism {
    /// All mechanisms, in the order of their numbers.
    pub const ALL: [Mechanism; 16] = [
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
        Mechanism::OwnParts,
    ];

    /// The kind of source it belongs to.
    pub fn source(self) -> Source {
        use Mechanism::*;
        match self {
            FlushWide | GcWide | EraseWide | MapWide => Source::DeviceWide,
            FlushSingle | GcSingle | EraseSingle | MapSingle | Rmw | SlcFold => Source::SingleDie,
            HostRead | Bus | Link | BufferFull | OwnParts => Source::Queueing,
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
            OwnParts => "own-parts",
        }
    }
}

/// Waiting time of one request, by mechanism. For a request of several pages: that of the page that completed last.
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

    /// The mechanisms that were waited for, and how long each, in the order of [`Mechanism::ALL`].
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

    /// Total waiting time: latency minus the service time of the page that completed last.
    pub fn total_ns(&self) -> Nanos {
        self.wait_ns.iter().sum()
    }

    /// The mechanism with the longest wait; `None` if the request did not wait.
    pub fn main_mechanism(&self) -> Option<Mechanism> {
        let longest = Mechanism::ALL.into_iter().max_by_key(|&m| self.wait_ns(m))?;
        (self.wait_ns(longest) > 0).then_some(longest)
    }

    /// The kind of source with the longest wait; `None` if the request did not wait.
    pub fn main_source(&self) -> Option<Source> {
        let sources = [Source::DeviceWide, Source::SingleDie, Source::Queueing, Source::Retry];
        let longest = sources.into_iter().max_by_key(|&s| self.source_ns(s))?;
        (self.source_ns(longest) > 0).then_some(longest)
    }
}
