// SPDX-License-Identifier: MIT OR Apache-2.0
//! Modelled drives in real time: an NBD server that holds each request to the device's deadline.
//!
//! A [`Drive`] in virtual time says when a request will be done; the server takes requests from real clients (fio,
//! qemu, libnbd, the kernel's nbd), asks the drive at arrival, keeps the data itself, and answers when model time has
//! come. Model time is wall time since start divided by the time scale; slowing the world down makes the server's own
//! cost small beside the model's latencies. Every request's model and achieved latency are recorded ([`Stats`]).
//!
//! ```
//! use linnet_nbd::{Builder, Export};
//! # use linnet_types::{LatencyModel, Nanos, Outcome, Request};
//! # struct Fixed(Nanos);
//! # impl LatencyModel for Fixed {
//! #     fn submit(&mut self, now: Nanos, _: &Request) -> Outcome { Outcome::Done(now + self.0) }
//! # }
//! # let socket = std::env::temp_dir().join(format!("linnet-nbd-doc-{}", std::process::id()));
//! let drive = Fixed(80_000); // any linnet_types::LatencyModel
//! let handle = Builder::new().export(Export::of_device("a", 1 << 30, drive)).unix(&socket).start()?;
//! println!("{}", handle.uris("a")[0]); // nbd+unix:///a?socket=...
//! let stats = handle.stop();
//! println!("{}", stats.to_json());
//! # Ok::<(), linnet_nbd::Error>(())
//! ```
//!
//! # How it works
//! Each connection has one thread, which waits in `poll` for the client or for its earliest deadline, whichever comes
//! first, and spins for the last stretch. With a reader and a writer thread every request would pay for a hand-over
//! between them, which is of the size of the latencies that are to be kept. Connections to one drive meet only in the
//! drive's lock, for the time of one call of the model.
//!
//! # Limits
//! - A request's arrival is the moment it is taken from the socket; a write's is when its data is complete.
//! - Memory of a connection is at most [`Builder::inflight_bytes_max`] of replies (or one request, if that is larger)
//!   and one request that is being received, each of 32 MiB at most.
//! - There is no encryption and no authentication: listen on a Unix socket or on loopback.

mod builder;
mod clock;
mod connection;
mod drive;
mod error;
mod export;
mod front;
mod handshake;
mod input;
mod listen;
mod request;
mod server;
mod stats;
mod store;
mod stream;
mod wire;

pub use builder::Builder;
pub use drive::{Drive, Plain};
pub use error::Error;
pub use export::{Ask, Data, Export, Held};
pub use front::Front;
pub use listen::Address;
pub use server::Handle;
pub use stats::{Command, ExportStats, Sample, Spread, Stats};
pub use store::Storage;
