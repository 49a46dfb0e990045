//! Reorder density, RFC 5236, 4: how many frames arrived how many places from where they would have without reordering.

use super::THRESHOLD_FRAMES;

const SPAN: usize = 2 * THRESHOLD_FRAMES + 1;

/// The algorithm of RFC 5236 (4.3) with the threshold DT, one arrival at a time.
///
/// A receive index is given to each arrival in turn, and skips the numbers of frames that were lost; displacement is
/// receive index minus sequence number. Whether a number was lost is known when it does not stand among the DT + 1
/// arrivals of the window, so a frame is decided DT arrivals after it came; at once where the number is there, since no
/// later arrival changes that. While frames come in order nothing waits.
#[derive(Clone, Debug)]
pub(crate) struct Density {
    receive_index: u64,
    /// Arrivals that are not decided, in order.
    window: [u64; THRESHOLD_FRAMES + 1],
    window_frames: usize,
    /// Early frames whose number no receive index was given to.
    early: [u64; THRESHOLD_FRAMES],
    early_frames: usize,
    displaced: [u64; SPAN],
    beyond: u64,
}

impl Default for Density {
    fn default() -> Self {
        Self {
            receive_index: 0,
            window: [0; THRESHOLD_FRAMES + 1],
            window_frames: 0,
            early: [0; THRESHOLD_FRAMES],
            early_frames: 0,
            displaced: [0; SPAN],
            beyond: 0,
        }
    }
}

impl Density {
    /// A first arrival.
    #[inline]
    pub fn enter(&mut self, sequence: u64) {
        if self.window_frames == 0 && sequence == self.receive_index {
            self.displaced[THRESHOLD_FRAMES] += 1;
            self.receive_index += 1;
        } else {
            self.enter_slowly(sequence);
        }
    }

    fn enter_slowly(&mut self, sequence: u64) {
        if sequence < self.receive_index {
            self.beyond += 1;
            return;
        }
        self.window[self.window_frames] = sequence;
        self.window_frames += 1;
        // None of those that waited has the receive index's number: it is this one, or an early one, or not there yet.
        let early = &self.early[..self.early_frames];
        let sure = sequence == self.receive_index || early.contains(&self.receive_index);
        if !sure && self.window_frames < self.window.len() {
            return;
        }
        self.skip_lost();
        self.decide();
        while self.is_sure() {
            self.decide();
        }
    }

    /// Whether a frame waits whose receive index is a number that is there.
    fn is_sure(&self) -> bool {
        self.window_frames > 0 && self.present().any(|number| *number == self.receive_index)
    }

    /// The numbers in the window and those of early frames.
    fn present(&self) -> impl Iterator<Item = &u64> {
        self.window[..self.window_frames].iter().chain(&self.early[..self.early_frames])
    }

    /// On to the next number that is there: there is one, since no more frames are late than early.
    fn skip_lost(&mut self) {
        let ahead = |number: &u64| number.checked_sub(self.receive_index);
        self.receive_index += self.present().filter_map(ahead).min().unwrap_or_default();
    }

    /// Gives the receive index to the oldest arrival of the window.
    fn decide(&mut self) {
        let sequence = self.window[0];
        self.window.copy_within(1..self.window_frames, 0);
        self.window_frames -= 1;
        let displacement = self.receive_index.wrapping_sub(sequence).cast_signed();
        if displacement.unsigned_abs() > THRESHOLD_FRAMES as u64 {
            self.beyond += 1;
            return;
        }
        self.displaced[(THRESHOLD_FRAMES as i64 + displacement) as usize] += 1;
        let early = &mut self.early[..self.early_frames];
        if let Some(place) = early.iter().position(|number| *number == self.receive_index) {
            self.early_frames -= 1;
            early.swap(place, self.early_frames);
        }
        if displacement < 0 {
            self.early[self.early_frames] = sequence;
            self.early_frames += 1;
        }
        self.receive_index += 1;
    }

    /// Frames by displacement, those still in the window decided as if no more came; and frames beyond the threshold.
    pub fn counts(&self) -> (Vec<(i64, u64)>, u64) {
        let mut all = self.clone();
        while all.window_frames > 0 {
            all.skip_lost();
            all.decide();
        }
        let first = -(THRESHOLD_FRAMES as i64);
        let counts = (first..).zip(all.displaced).filter(|(_, count)| *count > 0);
        (counts.collect(), all.beyond)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_frame_waits_only_for_a_number_that_is_not_there(
            numbers in Just((0..300).collect::<Vec<u64>>()).prop_shuffle(), kept in 1_usize..=300, in_order in 1_u64..200,
        ) {
            let mut density = Density::default();
            for number in 0..in_order {
                density.enter(number);
                prop_assert_eq!((density.window_frames, density.receive_index), (0, number + 1));
            }
            let reordered = numbers[..kept].iter().map(|number| in_order + number);
            for number in reordered.chain(in_order + 300..in_order + 600) {
                density.enter(number);
                let there = |numbers: &[u64]| numbers.contains(&density.receive_index);
                let waiting = &density.window[..density.window_frames];
                let early = &density.early[..density.early_frames];
                prop_assert!(waiting.is_empty() || !(there(waiting) || there(early)));
            }
        }
    }
}
