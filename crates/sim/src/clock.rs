// SPDX-License-Identifier: MIT OR Apache-2.0
//! The clock of virtual time.

use linnet_types::{Clock, Nanos, Waited};

/// Jumps from one due time to the next. Starts at 0.
#[derive(Clone, Copy, Debug, Default)]
pub struct VirtualClock {
    now_ns: Nanos,
}

impl VirtualClock {
    /// A clock at 0.
    pub fn new() -> Self {
        VirtualClock::default()
    }
}

impl Clock for VirtualClock {
    fn now(&mut self) -> Nanos {
        self.now_ns
    }

    fn wait(&mut self, due: Option<Nanos>) -> Waited {
        match due {
            Some(at) => {
                self.now_ns = self.now_ns.max(at);
                Waited::Ready
            }
            None => Waited::Never,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_jumps_and_never_goes_back() {
        let mut clock = VirtualClock::new();
        assert_eq!((clock.wait(Some(5)), clock.now()), (Waited::Ready, 5));
        assert_eq!((clock.wait(Some(3)), clock.now()), (Waited::Ready, 5));
        assert_eq!((clock.wait(None), clock.now()), (Waited::Never, 5));
    }
}
