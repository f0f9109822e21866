// SPDX-License-Identifier: MIT OR Apache-2.0
//! An NBD export as a device: the caller's thread sends requests, and a thread of the device receives and stamps
//! answers.

use std::collections::BTreeSet;
use std::io;
use std::sync::mpsc::{Receiver as Inbox, Sender as Post, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use linnet_types::{Device, End, Ended, Nanos, Request};

use crate::clock::{Bell, Epoch};
use crate::nbd::{Answer, Receiver, Sender};

type Arrival = (Instant, io::Result<Answer>);

/// The first export whose connection was lost, and why.
#[derive(Clone, Debug, Default)]
pub(crate) struct Losses(Arc<Mutex<Option<(usize, io::Error)>>>);

impl Losses {
    pub fn any(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    pub fn first(&self) -> Option<(usize, io::Error)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn add(&self, device: usize, error: io::Error) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert((device, error));
    }
}

/// An export. After its connection is lost, all requests fail.
pub(crate) struct NbdDevice {
    number: usize,
    sender: Sender,
    inbox: Inbox<Arrival>,
    epoch: Epoch,
    losses: Losses,
    lost: bool,
    /// Tokens of the requests that have not ended.
    inside: BTreeSet<u64>,
    ended: Vec<Ended>,
    thread: Option<JoinHandle<()>>,
}

/// Stamps and posts answers until the connection ends.
fn listen(mut receiver: Receiver, post: &Post<Arrival>, bell: &Bell) {
    loop {
        let closed = || io::Error::new(io::ErrorKind::ConnectionAborted, "the server closed the connection");
        let answer = receiver.next().and_then(|answer| answer.ok_or_else(closed));
        let last = answer.is_err();
        let gone = post.send((Instant::now(), answer)).is_err();
        bell.ring();
        if last || gone {
            return;
        }
    }
}

impl NbdDevice {
    /// Device `number`, on a connection, with the time of `epoch`.
    pub fn new(
        number: usize,
        (sender, receiver): (Sender, Receiver),
        epoch: Epoch,
        bell: Bell,
        losses: Losses,
    ) -> Self {
        let (post, inbox) = channel();
        let thread = Some(thread::spawn(move || listen(receiver, &post, &bell)));
        let (inside, ended) = (BTreeSet::new(), Vec::new());
        NbdDevice { number, sender, inbox, epoch, losses, lost: false, inside, ended, thread }
    }

    /// Collects the answers that the thread has posted.
    fn collect(&mut self) {
        while let Ok((moment, answer)) = self.inbox.try_recv() {
            let at_ns = self.epoch.at(moment);
            match answer {
                Ok(Answer { cookie: token, ok }) => {
                    if self.inside.remove(&token) {
                        self.ended.push(Ended { token, at_ns, end: if ok { End::Done } else { End::Failed } });
                    }
                }
                Err(error) => self.lose(at_ns, error),
            }
        }
    }

    /// Fails all requests in flight, because the connection is lost.
    fn lose(&mut self, at_ns: Nanos, error: io::Error) {
        self.lost = true;
        self.losses.add(self.number, self.sender.failure().unwrap_or(error));
        let held = std::mem::take(&mut self.inside);
        self.ended.extend(held.into_iter().map(|token| Ended { token, at_ns, end: End::Failed }));
    }
}

impl Device for NbdDevice {
    fn submit(&mut self, now: Nanos, token: u64, request: &Request) {
        if self.lost {
            self.ended.push(Ended { token, at_ns: now, end: End::Failed });
            return;
        }
        self.inside.insert(token);
        if let Err(error) = self.sender.send(token, request) {
            // Answers that came earlier keep their times.
            self.collect();
            self.lose(now, error);
        }
    }

    fn next_due(&mut self) -> Option<Nanos> {
        self.collect();
        self.ended.first().map(|one| one.at_ns)
    }

    fn poll(&mut self, now: Nanos, out: &mut Vec<Ended>) {
        self.collect();
        // An answer that is newer than the caller's `now` stays for the next poll.
        let due = self.ended.iter().take_while(|one| one.at_ns <= now).count();
        out.extend(self.ended.drain(..due));
    }
}

impl Drop for NbdDevice {
    fn drop(&mut self) {
        // The thread ends with the connection. An error here cannot be reported to anyone.
        let _ = self.sender.disconnect();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
