//! Reorder buffer-occupancy density, RFC 5236, 5: how many frames a buffer that restores the order would hold.

use super::THRESHOLD_FRAMES;

/// The algorithm of RFC 5236 (5.3) with the threshold BT, one arrival at a time.
///
/// The buffer holds every frame that arrived and whose number is above the expected one: their bits in the sink's own
/// bitmap. When an early frame finds BT of them, the expected frame is given up.
#[derive(Clone, Debug)]
pub(crate) struct Occupancy {
    expected: u64,
    held: u64,
    frames: [u64; THRESHOLD_FRAMES + 1],
    given_up: u64,
}

impl Default for Occupancy {
    fn default() -> Self {
        Self { expected: 0, held: 0, frames: [0; THRESHOLD_FRAMES + 1], given_up: 0 }
    }
}

impl Occupancy {
    /// A first arrival; its bit in `seen` is set.
    #[inline]
    pub fn enter(&mut self, sequence: u64, seen: &[u64]) {
        if sequence < self.expected {
            self.given_up += 1;
            return;
        }
        self.held += 1;
        if sequence == self.expected {
            self.expected += 1;
            self.held -= 1;
            self.release(seen);
        } else if self.held > THRESHOLD_FRAMES as u64 {
            while !is_seen(seen, self.expected) {
                // A whole word at once where nothing of it arrived.
                let empty =
                    self.expected.is_multiple_of(64) && seen[(self.expected / 64) as usize] == 0;
                self.expected += if empty { 64 } else { 1 };
            }
            self.release(seen);
        }
        self.frames[self.held as usize] += 1;
    }

    fn release(&mut self, seen: &[u64]) {
        while self.held > 0 && is_seen(seen, self.expected) {
            self.held -= 1;
            self.expected += 1;
        }
    }

    /// Frames by how many stood in the buffer after their arrival; and frames that came when they had been given up.
    pub fn counts(&self) -> (Vec<(u64, u64)>, u64) {
        ((0..).zip(self.frames).filter(|(_, count)| *count > 0).collect(), self.given_up)
    }
}

fn is_seen(seen: &[u64], sequence: u64) -> bool {
    seen.get((sequence / 64) as usize).is_some_and(|word| word >> (sequence % 64) & 1 == 1)
}
