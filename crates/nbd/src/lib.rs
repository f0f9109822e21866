// SPDX-License-Identifier: MIT OR Apache-2.0
//! Modelled drives in real time: an NBD server that answers each request at the deadline that the model gives.
//!
//! A [`Drive`] in virtual time computes when a request will be done. The server reads requests of real clients (fio,
//! qemu, libnbd, the kernel's nbd), asks the drive at arrival, keeps the data itself, and answers when model time has
//! reached the deadline. Model time is real time since start divided by the time scale; a large scale makes the
//! server's overhead small relative to the model's latencies. [`Stats`] records model latency and achieved latency of
//! every request.
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
//! first, and spins for the last part of the wait. Separate reader and writer threads would add a thread switch to
//! every request, which takes about as long as the latencies that must be kept. Connections to one drive share only the
//! drive's lock, which is held for one call of the model.
//!
//! # Limits
//! - A request arrives when it is read from the socket; a write, when its data is complete.
//! - Memory of a connection is at most [`Builder::inflight_bytes_max`] of replies (or one request, if that is larger)
//!   and one request that is being received, each of 32 MiB at most. All connections together are bounded by
//!   [`Builder::bytes_max`]; requests that do not fit wait in line, and none holds a part of what it waits for.
//! - There is no encryption and no authentication: listen on a Unix socket or on loopback.

mod budget;
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
mod memory;
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
