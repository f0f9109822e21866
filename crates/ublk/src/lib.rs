// SPDX-License-Identifier: MIT OR Apache-2.0
//! A modelled drive as a kernel block device, `/dev/ublkbN`, which answers at the model's deadlines.
//!
//! The kernel's ublk driver (6.0 and later, `modprobe ublk_drv`, root) passes each block request to this process
//! through io_uring. The drive is the same as in the NBD server ([`linnet_nbd::Front`]): at arrival it asks the model
//! and moves the data. At the deadline an io_uring timeout in the request's slot fires and completes the request. There
//! is one queue and one thread, because one drive has one lock and cannot use more.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use io_uring::types::Timespec;
use io_uring::{opcode, squeue};
use libublk::ctrl::{UblkCtrl, UblkCtrlBuilder};
use libublk::helpers::IoBuf;
use libublk::io::{BufDescList, UblkDev, UblkIOCtx, UblkQueue};
use libublk::{BufDesc, UblkError, UblkFlags, UblkIORes, sys};
use linnet_nbd::{Ask, Command, Data, Front, Held};

/// Largest request that the kernel sends; it splits larger ones.
const REQUEST_BYTES_MAX: u32 = 512 << 10;
const SECTOR_BYTES: u64 = 512;
/// A deadline that is nearer than this is awaited by spinning, because a timer would take longer.
const TIMER_NS: u64 = 1_000;
const EIO: i32 = 5;
const EINVAL: i32 = 22;

/// Why a drive cannot become a block device.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The size is not a multiple of a sector.
    #[error("size_bytes is {size_bytes}; a block device needs a multiple of 512")]
    Size {
        /// The drive's size.
        size_bytes: u64,
    },
    /// The driver does not accept this queue depth.
    #[error("queue depth is {queue_depth}; give 1 to 1024")]
    Depth {
        /// The depth that was given.
        queue_depth: u16,
    },
    /// An error of the driver.
    #[error("ublk: {0}; is ublk_drv loaded, and may this process open /dev/ublk-control?")]
    Driver(#[from] UblkError),
}

/// Serves the drive as `/dev/ublkb<id>` until the device is deleted (by [`stop`], or by another process). `id` is -1
/// for the next free number. `ready` is called with the number when the device exists. `queue_depth` is 1 to 1024.
///
/// # Errors
/// Invalid settings, and errors of the driver.
pub fn serve(
    front: Arc<Front>,
    id: i32,
    queue_depth: u16,
    ready: impl FnOnce(u32) + Send + Sync + 'static,
) -> Result<(), Error> {
    let size_bytes = front.size_bytes();
    if !size_bytes.is_multiple_of(SECTOR_BYTES) {
        return Err(Error::Size { size_bytes });
    }
    if queue_depth == 0 || queue_depth > 1024 {
        return Err(Error::Depth { queue_depth });
    }
    let ctrl = UblkCtrlBuilder::default()
        .name("linnet")
        .id(id)
        .nr_queues(1)
        .depth(queue_depth)
        .io_buf_bytes(REQUEST_BYTES_MAX)
        .dev_flags(UblkFlags::UBLK_DEV_F_ADD_DEV)
        .build()?;
    let describe = move |dev: &mut UblkDev| {
        dev.set_default_params(size_bytes);
        let params = &mut dev.tgt.params;
        params.basic.attrs |= sys::UBLK_ATTR_VOLATILE_CACHE | sys::UBLK_ATTR_FUA;
        params.types |= sys::UBLK_PARAM_TYPE_DISCARD;
        params.discard = sys::ublk_param_discard {
            discard_granularity: 4096,
            // A discard and a write of zeros carry no data, so they may be long: 1 GiB.
            max_discard_sectors: 1 << 21,
            max_write_zeroes_sectors: 1 << 21,
            max_discard_segments: 1,
            ..Default::default()
        };
        Ok(())
    };
    let queue = move |queue_id: u16, dev: &UblkDev| {
        if let Err(error) = run_queue(&front, queue_id, dev) {
            eprintln!("ublk queue {queue_id}: {error}");
        }
    };
    ctrl.run_target(describe, queue, move |ctrl: &UblkCtrl| ready(ctrl.dev_info().dev_id))?;
    Ok(())
}

/// Deletes the device with this number, which ends its [`serve`].
///
/// # Errors
/// Errors of the driver, for example if there is no such device.
pub fn stop(id: u32) -> Result<(), Error> {
    let ctrl = UblkCtrl::new_simple(id as i32)?;
    ctrl.kill_dev()?;
    ctrl.del_dev()?;
    Ok(())
}

/// What a slot waits for.
#[derive(Clone, Copy)]
struct Slot {
    held: Option<Held>,
    result: i32,
}

fn run_queue(front: &Front, queue_id: u16, dev: &UblkDev) -> Result<(), UblkError> {
    let mut buffers = dev.alloc_queue_io_bufs();
    let queue = UblkQueue::new(queue_id, dev)?.submit_fetch_commands_unified(BufDescList::Slices(Some(&buffers)))?;
    let depth = usize::from(dev.dev_info.queue_depth);
    let mut slots = vec![Slot { held: None, result: 0 }; depth];
    // The ring reads a timeout's length at submission, after this function has returned, so each slot keeps its own.
    let timers: Rc<[Cell<Timespec>]> = (0..depth).map(|_| Cell::new(Timespec::new())).collect();
    queue.wait_and_handle_io(|queue: &UblkQueue, tag: u16, io: &UblkIOCtx| {
        let slot = &mut slots[usize::from(tag)];
        let buffer = &mut buffers[usize::from(tag)];
        if !io.is_tgt_io() {
            *slot = begin(front, queue, tag, buffer);
        }
        let left_ns = slot.held.map_or(0, |held| front.left_ns(&held));
        // By our clock, a timer may fire slightly early; then it is set again.
        if left_ns > 0 && (io.is_tgt_io() || left_ns >= TIMER_NS) {
            let timer = &timers[usize::from(tag)];
            timer.set(Timespec::new().sec(left_ns / 1_000_000_000).nsec((left_ns % 1_000_000_000) as u32));
            let user_data = UblkIOCtx::build_user_data(tag, 0, 0, true);
            let entry: squeue::Entry = opcode::Timeout::new(timer.as_ptr()).build().user_data(user_data);
            if queue.ublk_submit_sqe_sync(entry).is_ok() {
                return;
            }
        }
        while slot.held.is_some_and(|held| front.left_ns(&held) > 0) {
            std::hint::spin_loop();
        }
        let result = UblkIORes::Result(slot.result);
        if let Err(error) = queue.complete_io_cmd_unified(tag, BufDesc::Slice(buffer.as_slice()), Ok(result)) {
            eprintln!("ublk request {tag}: {error}");
        }
        if let Some(held) = slot.held.take() {
            front.answered(held);
        }
    });
    Ok(())
}

/// Submits a request to the drive. If a request is lost and the front has no time limit for it, it fails at once: a
/// block device with an unanswered request cannot be removed.
fn begin(front: &Front, queue: &UblkQueue, tag: u16, buffer: &mut IoBuf<u8>) -> Slot {
    let io = queue.get_iod(tag);
    let command = match io.op_flags & 0xff {
        sys::UBLK_IO_OP_READ => Command::Read,
        sys::UBLK_IO_OP_WRITE => Command::Write,
        sys::UBLK_IO_OP_FLUSH => Command::Flush,
        sys::UBLK_IO_OP_DISCARD => Command::Trim,
        sys::UBLK_IO_OP_WRITE_ZEROES => Command::WriteZeroes,
        _ => return Slot { held: None, result: -EINVAL },
    };
    let flush = command == Command::Flush;
    let size_bytes = if flush { 0 } else { u64::from(io.nr_sectors) * SECTOR_BYTES };
    let (Ok(size_bytes), Some(offset_bytes)) =
        (u32::try_from(size_bytes), if flush { Some(0) } else { io.start_sector.checked_mul(SECTOR_BYTES) })
    else {
        return Slot { held: None, result: -EINVAL };
    };
    let ask = Ask {
        command,
        offset_bytes,
        size_bytes,
        durable: command != Command::Read && io.op_flags & sys::UBLK_IO_F_FUA != 0,
        no_hole: io.op_flags & sys::UBLK_IO_F_NOUNMAP != 0,
    };
    let part = ..size_bytes as usize;
    let data = match command {
        Command::Read => buffer.as_mut_slice().get_mut(part).map(Data::Into),
        Command::Write => buffer.as_slice().get(part).map(Data::From),
        _ => Some(Data::None),
    };
    let held = data.and_then(|data| front.serve(&ask, data));
    let result = match held {
        Some(held) if !held.failed => size_bytes as i32,
        _ => -EIO,
    };
    Slot { held, result }
}
