// SPDX-License-Identifier: MIT OR Apache-2.0
//! Copies at the devices, and the tokens by which the driver identifies them.

use crate::CopyId;

/// A copy at its device.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flight {
    pub copy: CopyId,
    /// Number of the submit among all submits and timers.
    pub order: u64,
    /// Its index in the device's log.
    pub place: usize,
}

/// Flights by token. A token is reused once its copy has ended, so there are as many tokens as copies in flight and
/// copies lost.
#[derive(Debug, Default)]
pub(super) struct Flights {
    flights: Vec<Option<Flight>>,
    free: Vec<u32>,
    /// The token of each live copy, by [`CopyId::index`].
    tokens: Vec<u32>,
}

impl Flights {
    /// Copies that have not ended, including lost ones.
    pub(super) fn len(&self) -> usize {
        self.flights.len() - self.free.len()
    }

    /// A token for a copy.
    pub(super) fn begin(&mut self, flight: Flight) -> u64 {
        let token = self.free.pop().unwrap_or_else(|| {
            self.flights.push(None);
            self.flights.len() as u32 - 1
        });
        self.flights[token as usize] = Some(flight);
        let index = flight.copy.index();
        if index >= self.tokens.len() {
            self.tokens.resize(index + 1, 0);
        }
        self.tokens[index] = token;
        u64::from(token)
    }

    /// Ends the flight of a token. `None` for a token that is not in flight, which is an error of the device.
    pub(super) fn end(&mut self, token: u64) -> Option<Flight> {
        let ended = self.flights.get_mut(token as usize)?.take()?;
        self.free.push(token as u32);
        Some(ended)
    }

    /// The token of a copy that its device has not ended.
    pub(super) fn token(&self, copy: CopyId) -> Option<u64> {
        let token = *self.tokens.get(copy.index())?;
        let flight = self.flights.get(token as usize)?.as_ref()?;
        (flight.copy == copy).then_some(u64::from(token))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_stands_for_one_copy_at_a_time() {
        let mut flights = Flights::default();
        let (first, second) = (CopyId(1 << 32), CopyId(2 << 32 | 3));
        let flight = |copy| Flight { copy, order: 0, place: 0 };
        let tokens = [flights.begin(flight(first)), flights.begin(flight(second))];
        assert_eq!((flights.token(first), flights.token(second)), (Some(tokens[0]), Some(tokens[1])));
        assert_eq!(flights.end(tokens[0]).map(|ended| ended.copy), Some(first));
        assert!(flights.end(tokens[0]).is_none(), "a request ends once");
        assert_eq!((flights.token(first), flights.len()), (None, 1));
        // The slot of the first request is reused; its old copy no longer has a token.
        let third = CopyId(1 << 32 | 1 << 4);
        assert_eq!(flights.begin(flight(third)), tokens[0], "tokens are used again");
        assert_eq!((flights.token(first), flights.token(third)), (None, Some(tokens[0])));
        assert!(flights.end(99).is_none());
    }
}
