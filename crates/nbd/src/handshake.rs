// SPDX-License-Identifier: MIT OR Apache-2.0
//! The fixed newstyle handshake: the client lists exports, requests information and chooses one.

use std::io::{self, Read, Write};

use crate::export::Served;
use crate::wire::{self, export_flag, info, option, option_reply};

/// The result of a handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chosen {
    /// Index of the export.
    pub export: usize,
    /// Whether reads get structured replies.
    pub structured: bool,
    /// Whether the client may ask which ranges are stored.
    pub allocation: bool,
}

/// How a handshake without a choice ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The client disconnected, or asked for an export that does not exist.
    Left,
    /// The client violated the protocol.
    Garbled,
}

/// More options than any client sends; it limits the length of a handshake.
const OPTIONS_MAX: u32 = 1024;
/// Padding after NBD_OPT_EXPORT_NAME, unless the client waived it.
const ZEROES: usize = 124;

/// The transmission flags of an export.
pub fn flags(export: &Served, structured: bool) -> u16 {
    let mut flags = export_flag::HAS_FLAGS
        | export_flag::SEND_FLUSH
        | export_flag::SEND_FUA
        | export_flag::SEND_TRIM
        | export_flag::SEND_WRITE_ZEROES
        | export_flag::CAN_MULTI_CONN
        | export_flag::SEND_CACHE;
    if structured {
        flags |= export_flag::SEND_DF;
    }
    if export.read_only {
        flags |= export_flag::READ_ONLY;
    }
    flags
}

fn reply(stream: &mut impl Write, option: u32, kind: u32, data: &[u8]) -> io::Result<()> {
    let mut out = Vec::with_capacity(20 + data.len());
    out.extend_from_slice(&wire::OPTION_REPLY_MAGIC.to_be_bytes());
    out.extend_from_slice(&option.to_be_bytes());
    out.extend_from_slice(&kind.to_be_bytes());
    out.extend_from_slice(&(data.len() as u32).to_be_bytes());
    out.extend_from_slice(data);
    stream.write_all(&out)
}

/// The empty name means the first export.
fn find(exports: &[Served], name: &[u8]) -> Option<usize> {
    if name.is_empty() { Some(0) } else { exports.iter().position(|e| e.name.as_bytes() == name) }
}

/// Parses the data of NBD_OPT_INFO and NBD_OPT_GO: the name, then the kinds of information that are requested.
fn parse_go(data: &[u8]) -> Option<(&[u8], Vec<u16>)> {
    let name_bytes = wire::u32_at(data.get(..4)?, 0) as usize;
    let rest = &data[4..];
    let name = rest.get(..name_bytes)?;
    let rest = &rest[name_bytes..];
    let count = usize::from(wire::u16_at(rest.get(..2)?, 0));
    let kinds = &rest[2..];
    (kinds.len() == 2 * count).then(|| (name, kinds.chunks_exact(2).map(|k| wire::u16_at(k, 0)).collect()))
}

/// Parses the data of the options on metadata contexts: the name of an export, then queries.
fn parse_contexts(data: &[u8]) -> Option<(&[u8], Vec<&[u8]>)> {
    fn text<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
        let size = wire::u32_at(rest.get(..4)?, 0) as usize;
        let found = rest.get(4..)?.get(..size)?;
        *rest = &rest[4 + size..];
        Some(found)
    }
    let mut rest = data;
    let name = text(&mut rest)?;
    let count = wire::u32_at(rest.get(..4)?, 0) as usize;
    rest = &rest[4..];
    // Each query has four bytes or more, so the count is bounded by what is there.
    if count > rest.len() / 4 {
        return None;
    }
    let queries = (0..count).map(|_| text(&mut rest)).collect::<Option<Vec<_>>>()?;
    rest.is_empty().then_some((name, queries))
}

/// Whether a query names our one context. To list, no query means all, and a namespace alone all of it.
fn names_allocation(queries: &[&[u8]], list: bool) -> bool {
    let named = |query: &&[u8]| *query == wire::ALLOCATION || (list && *query == b"base:");
    queries.iter().any(named) || (list && queries.is_empty())
}

/// Runs the handshake on a new connection.
///
/// # Errors
/// Errors of the socket, including a timeout of a silent client.
pub fn run<S: Read + Write>(stream: &mut S, exports: &[Served]) -> io::Result<Result<Chosen, Ended>> {
    let mut hello = Vec::with_capacity(18);
    hello.extend_from_slice(&wire::MAGIC.to_be_bytes());
    hello.extend_from_slice(&wire::OPTION_MAGIC.to_be_bytes());
    hello.extend_from_slice(&(wire::FIXED_NEWSTYLE | wire::NO_ZEROES).to_be_bytes());
    stream.write_all(&hello)?;

    let mut client = [0; 4];
    stream.read_exact(&mut client)?;
    let client = wire::u32_at(&client, 0);
    if client & !u32::from(wire::FIXED_NEWSTYLE | wire::NO_ZEROES) != 0 {
        return Ok(Err(Ended::Garbled));
    }
    let zeroes = client & u32::from(wire::NO_ZEROES) == 0;
    let mut structured = false;
    let mut allocation = None;

    for _ in 0..OPTIONS_MAX {
        let mut head = [0; 16];
        stream.read_exact(&mut head)?;
        let (option, size_bytes) = (wire::u32_at(&head, 8), wire::u32_at(&head, 12));
        if wire::u64_at(&head, 0) != wire::OPTION_MAGIC || size_bytes > wire::OPTION_BYTES_ABSURD {
            return Ok(Err(Ended::Garbled));
        }
        if option == option::SET_META_CONTEXT {
            // It drops what was set before, also where it is refused.
            allocation = None;
        }
        if size_bytes > wire::OPTION_BYTES_MAX {
            if option == option::EXPORT_NAME {
                // Its answer has no form for an error.
                return Ok(Err(Ended::Left));
            }
            io::copy(&mut stream.take(u64::from(size_bytes)), &mut io::sink())?;
            reply(stream, option, option_reply::ERR_TOO_BIG, b"option too long")?;
            continue;
        }
        let mut data = vec![0; size_bytes as usize];
        stream.read_exact(&mut data)?;
        match option {
            option::EXPORT_NAME => {
                let Some(index) = find(exports, &data) else { return Ok(Err(Ended::Left)) };
                let mut out = exports[index].size_bytes.to_be_bytes().to_vec();
                out.extend_from_slice(&flags(&exports[index], structured).to_be_bytes());
                if zeroes {
                    out.resize(out.len() + ZEROES, 0);
                }
                stream.write_all(&out)?;
                return Ok(Ok(Chosen { export: index, structured, allocation: allocation == Some(index) }));
            }
            option::ABORT => {
                reply(stream, option, option_reply::ACK, &[])?;
                return Ok(Err(Ended::Left));
            }
            option::LIST if data.is_empty() => {
                for export in exports {
                    let mut entry = (export.name.len() as u32).to_be_bytes().to_vec();
                    entry.extend_from_slice(export.name.as_bytes());
                    reply(stream, option, option_reply::SERVER, &entry)?;
                }
                reply(stream, option, option_reply::ACK, &[])?;
            }
            option::STRUCTURED_REPLY if data.is_empty() => {
                structured = true;
                reply(stream, option, option_reply::ACK, &[])?;
            }
            option::LIST | option::STRUCTURED_REPLY => {
                reply(stream, option, option_reply::ERR_INVALID, b"takes no data")?;
            }
            option::LIST_META_CONTEXT | option::SET_META_CONTEXT => match parse_contexts(&data) {
                _ if !structured => reply(stream, option, option_reply::ERR_INVALID, b"needs structured replies")?,
                None => reply(stream, option, option_reply::ERR_INVALID, b"lengths do not add up")?,
                Some((name, queries)) => match find(exports, name) {
                    None => reply(stream, option, option_reply::ERR_UNKNOWN, b"no such export")?,
                    Some(index) => {
                        let set = option == option::SET_META_CONTEXT;
                        let named = names_allocation(&queries, !set);
                        if named {
                            let id = if set { wire::ALLOCATION_ID } else { 0 };
                            let data = [&id.to_be_bytes(), wire::ALLOCATION].concat();
                            reply(stream, option, option_reply::META_CONTEXT, &data)?;
                        }
                        if set {
                            allocation = named.then_some(index);
                        }
                        reply(stream, option, option_reply::ACK, &[])?;
                    }
                },
            },
            option::INFO | option::GO => match parse_go(&data) {
                None => reply(stream, option, option_reply::ERR_INVALID, b"lengths do not add up")?,
                Some((name, kinds)) => match find(exports, name) {
                    None => reply(stream, option, option_reply::ERR_UNKNOWN, b"no such export")?,
                    Some(index) => {
                        describe(stream, option, &exports[index], &kinds, structured)?;
                        if option == option::GO {
                            return Ok(Ok(Chosen { export: index, structured, allocation: allocation == Some(index) }));
                        }
                    }
                },
            },
            _ => reply(stream, option, option_reply::ERR_UNSUP, &[])?,
        }
    }
    Ok(Err(Ended::Garbled))
}

/// What an export says of itself: `linnet replay` reads the scale from it (`crates/replay/src/nbd/handshake.rs`).
fn description(export: &Served) -> String {
    format!("linnet: modelled drive, time scale {}", export.time_scale)
}

/// Sends the description of an export, and the end of the answer.
fn describe(stream: &mut impl Write, option: u32, export: &Served, kinds: &[u16], structured: bool) -> io::Result<()> {
    let mut data = info::EXPORT.to_be_bytes().to_vec();
    data.extend_from_slice(&export.size_bytes.to_be_bytes());
    data.extend_from_slice(&flags(export, structured).to_be_bytes());
    reply(stream, option, option_reply::INFO, &data)?;
    if kinds.contains(&info::NAME) {
        let mut data = info::NAME.to_be_bytes().to_vec();
        data.extend_from_slice(export.name.as_bytes());
        reply(stream, option, option_reply::INFO, &data)?;
    }
    if kinds.contains(&info::DESCRIPTION) {
        let mut data = info::DESCRIPTION.to_be_bytes().to_vec();
        data.extend_from_slice(description(export).as_bytes());
        reply(stream, option, option_reply::INFO, &data)?;
    }
    if kinds.contains(&info::BLOCK_SIZE) {
        let mut data = info::BLOCK_SIZE.to_be_bytes().to_vec();
        // Smallest, preferred and largest block: any byte range is served; flash works best with its page size.
        for bytes in [1, 4096, wire::PAYLOAD_BYTES_MAX] {
            data.extend_from_slice(&bytes.to_be_bytes());
        }
        reply(stream, option, option_reply::INFO, &data)?;
    }
    reply(stream, option, option_reply::ACK, &[])
}
