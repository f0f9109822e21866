// SPDX-License-Identifier: MIT OR Apache-2.0
//! The newstyle handshake: chooses an export, and learns its size and whether it may be written.

use std::io::{self, IoSlice};

use super::{Patience, SECTOR_BYTES, Socket, invalid};

const MAGIC: u64 = 0x4e42_444d_4147_4943;
const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
const OPTION_GO: u32 = 7;
const REPLY_ACK: u32 = 1;
const REPLY_INFO: u32 = 3;
const INFO_EXPORT: u16 = 0;
const INFO_NAME: u16 = 1;
const INFO_DESCRIPTION: u16 = 2;
/// How `linnet ssd serve` describes a drive (`crates/nbd/src/handshake.rs`); its time scale follows.
const SCALED: &[u8] = b"linnet: modelled drive, time scale ";
/// Transmission flag: writes are refused.
const FLAG_READ_ONLY: u16 = 1 << 1;
/// Longest answer to an option that is accepted.
const OPTION_BYTES_MAX: u32 = 1 << 16;

/// What the server says of an export.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Export {
    /// What the server calls it, or what it was asked for: it may have several names.
    pub name: String,
    /// Whole sectors, one at least.
    pub size_bytes: u64,
    pub read_only: bool,
    /// The server's seconds of real time per second of its drive's, if it says so.
    pub time_scale: Option<f64>,
}

/// The handshake's socket: reads end at the deadline, however the server spreads its bytes.
struct Timed<'a, 'b> {
    socket: &'a dyn Socket,
    patience: &'a mut Patience<'b>,
}

impl Timed<'_, '_> {
    fn array<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.fill(&mut bytes)?;
        Ok(bytes)
    }

    fn fill(&mut self, mut rest: &mut [u8]) -> io::Result<()> {
        while !rest.is_empty() {
            let left = self.patience.next()?;
            self.socket.limit(Some(left), left)?;
            match self.socket.read(rest) {
                Ok(0) => return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the server closed the connection")),
                Ok(got) => rest = &mut rest[got..],
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Chooses the export of this name.
pub(super) fn handshake(socket: &dyn Socket, name: &str, patience: &mut Patience<'_>) -> io::Result<Export> {
    let mut from = Timed { socket, patience };
    if u64::from_be_bytes(from.array()?) != MAGIC || u64::from_be_bytes(from.array()?) != OPTION_MAGIC {
        return Err(invalid("the peer is not a newstyle NBD server"));
    }
    from.array::<2>()?;
    let mut hello = Vec::new();
    // Client flags: fixed newstyle, no zeroes.
    hello.extend_from_slice(&3u32.to_be_bytes());
    hello.extend_from_slice(&OPTION_MAGIC.to_be_bytes());
    hello.extend_from_slice(&OPTION_GO.to_be_bytes());
    hello.extend_from_slice(&(name.len() as u32 + 10).to_be_bytes());
    hello.extend_from_slice(&(name.len() as u32).to_be_bytes());
    hello.extend_from_slice(name.as_bytes());
    hello.extend_from_slice(&2u16.to_be_bytes());
    hello.extend_from_slice(&INFO_NAME.to_be_bytes());
    hello.extend_from_slice(&INFO_DESCRIPTION.to_be_bytes());
    // Short enough for any socket that is new.
    from.socket.send(&[IoSlice::new(&hello)])?;
    let mut export = None;
    let (mut time_scale, mut called) = (None, name.to_owned());
    loop {
        if u64::from_be_bytes(from.array()?) != OPTION_REPLY_MAGIC || u32::from_be_bytes(from.array()?) != OPTION_GO {
            return Err(invalid("the server answers out of turn"));
        }
        let kind = u32::from_be_bytes(from.array()?);
        let length = u32::from_be_bytes(from.array()?);
        if length > OPTION_BYTES_MAX {
            return Err(invalid("the server's answer is absurdly long"));
        }
        let mut body = vec![0; length as usize];
        from.fill(&mut body)?;
        match kind {
            REPLY_ACK => {
                let export: Export = export.ok_or_else(|| invalid("the server gave no size"))?;
                return usable(Export { name: called, time_scale, ..export });
            }
            REPLY_INFO if body.len() >= 12 && body[..2] == INFO_EXPORT.to_be_bytes() => {
                let mut size = [0; 8];
                size.copy_from_slice(&body[2..10]);
                let flags = u16::from_be_bytes([body[10], body[11]]);
                let (size_bytes, read_only) = (u64::from_be_bytes(size), flags & FLAG_READ_ONLY != 0);
                export = Some(Export { name: String::new(), size_bytes, read_only, time_scale: None });
            }
            REPLY_INFO if body.len() >= 2 && body[..2] == INFO_NAME.to_be_bytes() => {
                called = String::from_utf8_lossy(&body[2..]).into_owned();
            }
            REPLY_INFO if body.len() >= 2 && body[..2] == INFO_DESCRIPTION.to_be_bytes() => {
                time_scale = scale_of(&body[2..]);
            }
            REPLY_INFO => {}
            _ => return Err(invalid(&format!("the server refuses export {name:?}"))),
        }
    }
}

/// The time scale in a description of ours; that of another server says nothing of it.
fn scale_of(description: &[u8]) -> Option<f64> {
    std::str::from_utf8(description.strip_prefix(SCALED)?).ok()?.parse().ok()
}

/// The export in whole sectors.
fn usable(export: Export) -> io::Result<Export> {
    let bytes = export.size_bytes;
    if bytes < SECTOR_BYTES {
        return Err(invalid(&format!("the export has {bytes} bytes; it needs a sector of {SECTOR_BYTES}")));
    }
    Ok(Export { size_bytes: bytes / SECTOR_BYTES * SECTOR_BYTES, ..export })
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::UnixStream;
    use std::time::Duration;

    use super::*;

    fn reply(kind: u32, body: &[u8]) -> Vec<u8> {
        let head = [OPTION_REPLY_MAGIC.to_be_bytes().to_vec(), OPTION_GO.to_be_bytes().to_vec()].concat();
        [head, kind.to_be_bytes().to_vec(), (body.len() as u32).to_be_bytes().to_vec(), body.to_vec()].concat()
    }

    fn greeting() -> Vec<u8> {
        [&MAGIC.to_be_bytes()[..], &OPTION_MAGIC.to_be_bytes(), &3u16.to_be_bytes()].concat()
    }

    fn info(bytes: u64, flags: u16) -> Vec<u8> {
        reply(REPLY_INFO, &[&INFO_EXPORT.to_be_bytes()[..], &bytes.to_be_bytes(), &flags.to_be_bytes()].concat())
    }

    fn hands(bytes: &[u8]) -> io::Result<Export> {
        let (ours, mut server) = UnixStream::pair().unwrap();
        server.write_all(bytes).unwrap();
        handshake(&ours, "a", &mut Patience::new(Duration::from_secs(60), &mut || true))
    }

    #[test]
    fn a_handshake_ends_in_time_however_the_server_spreads_it() {
        let (ours, mut server) = UnixStream::pair().unwrap();
        let slow = std::thread::spawn(move || {
            server.write_all(&greeting()).unwrap();
            // Valid information for ever, each byte soon after the last.
            for byte in info(1 << 20, 1).into_iter().cycle() {
                std::thread::sleep(Duration::from_millis(5));
                if server.write_all(&[byte]).is_err() {
                    return;
                }
            }
        });
        let error = handshake(&ours, "a", &mut Patience::new(Duration::from_millis(300), &mut || true)).unwrap_err();
        assert!(error.to_string().contains("did not end the handshake"), "{error}");
        drop(ours);
        slow.join().unwrap();
    }

    #[test]
    fn a_handshake_ends_when_the_caller_wants_it() {
        let (ours, _silent) = UnixStream::pair().unwrap();
        let mut asked = 0;
        let mut go_on = || {
            asked += 1;
            asked < 3
        };
        let mut patience = Patience::new(Duration::from_secs(86_400), &mut go_on);
        assert!(handshake(&ours, "a", &mut patience).is_err() && patience.stopped);
    }

    #[test]
    fn exports_have_whole_sectors_and_at_least_one() {
        let of = |bytes| hands(&[greeting(), info(bytes, 1), reply(REPLY_ACK, &[])].concat());
        assert_eq!((of(1 << 20).unwrap().size_bytes, of(1025).unwrap().size_bytes), (1 << 20, 1024));
        for bytes in [0, 511] {
            assert!(of(bytes).unwrap_err().to_string().contains("needs a sector of 512"));
        }
        let none = hands(&[greeting(), reply(REPLY_ACK, &[])].concat()).unwrap_err();
        assert!(none.to_string().contains("gave no size"), "{none}");
    }

    #[test]
    fn only_our_own_description_tells_a_time_scale() {
        for (text, scale) in
            [("linnet: modelled drive, time scale 0.25", Some(0.25)), ("a disk, time scale 4", None), ("", None)]
        {
            let description = reply(REPLY_INFO, &[&INFO_DESCRIPTION.to_be_bytes()[..], text.as_bytes()].concat());
            let whole = [greeting(), description, info(1 << 20, 1), reply(REPLY_ACK, &[])].concat();
            assert_eq!(hands(&whole).unwrap().time_scale, scale, "{text}");
        }
    }

    #[test]
    fn exports_that_refuse_writes_are_known() {
        for (flags, read_only) in [(1, false), (3, true), (0x0fff, true), (0xfffd, false)] {
            let export = hands(&[greeting(), info(1 << 20, flags), reply(REPLY_ACK, &[])].concat()).unwrap();
            assert_eq!(export.read_only, read_only, "{flags:#x}");
        }
    }
}
