// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where the fields of a tracepoint's record lie on the running kernel: the `format` files of tracefs.

use crate::error::{Error, Result};
use crate::host::Host;

/// Where tracefs may be mounted.
const PLACES: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// The offset of a field and its size, both in bytes.
fn field(format: &str, name: &str) -> Option<(u32, u32)> {
    format.lines().find_map(|line| {
        let declared = line.trim().strip_prefix("field:")?;
        let mut parts = declared.split(';').map(str::trim);
        // The name is the last word of the declaration, before an array's length.
        let word = parts.next()?.rsplit(' ').next()?;
        if word.split('[').next()? != name {
            return None;
        }
        let number = |text: Option<&str>, key: &str| text?.strip_prefix(key)?.parse().ok();
        Some((number(parts.next(), "offset:")?, number(parts.next(), "size:")?))
    })
}

/// The offsets of fields of tracepoint `event` (`nfs/nfs_initiate_read`); each must have its size.
pub fn offsets<const N: usize>(host: &Host, event: &str, fields: [(&str, u32); N]) -> Result<[u32; N]> {
    let missing = || {
        let what = format!("tracepoint {event} is not in {}; mount tracefs there, and mount NFS first", PLACES[0]);
        Error::Observer { what }
    };
    let format =
        PLACES.iter().find_map(|place| host.text(format!("{place}/events/{event}/format"))).ok_or_else(missing)?;
    let mut found = [0; N];
    for (at, (name, bytes)) in found.iter_mut().zip(fields) {
        *at = match field(&format, name) {
            Some((offset, size)) if size == bytes => offset,
            Some((_, size)) => {
                let what = format!("field {name} of tracepoint {event} has {size} bytes; {bytes} are expected");
                return Err(Error::Observer { what });
            }
            None => return Err(Error::Observer { what: format!("tracepoint {event} has no field {name}") }),
        };
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORMAT: &str = "name: nfs_initiate_read\nID: 1516\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\n\
        \tfield:dev_t dev;\toffset:8;\tsize:4;\tsigned:0;\n\
        \tfield:u64 fileid;\toffset:16;\tsize:8;\tsigned:0;\n\
        \tfield:char name[16];\toffset:24;\tsize:16;\tsigned:0;\n\n\
        print fmt: \"dev=%d\", REC->dev\n";

    #[test]
    fn offsets_come_from_the_kernel_and_are_checked() {
        let root = tempfile::tempdir().expect("a directory");
        let host = Host::below(root.path());
        let event = "nfs/nfs_initiate_read";
        let refused = |fields| offsets::<1>(&host, event, fields).expect_err("refused").to_string();
        assert!(refused([("dev", 4)]).contains("nfs/nfs_initiate_read is not in /sys/kernel/tracing"));
        host.replace(format!("/sys/kernel/tracing/events/{event}/format"), FORMAT).expect("written");
        let found = offsets(&host, event, [("fileid", 8), ("dev", 4), ("name", 16)]).expect("there");
        assert_eq!(found, [16, 8, 24]);
        assert!(refused([("dev", 8)]).contains("field dev of tracepoint nfs/nfs_initiate_read has 4 bytes"));
        assert!(refused([("count", 4)]).contains("has no field count"));
    }
}
