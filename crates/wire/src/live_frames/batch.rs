//! The smallest batch that holds a rate.
//!
//! A larger batch saves the kernel's work between batches, and clumps frames. Two costs are measured. One is the time of
//! a turn of the loop that sends nothing, once a process for each batch size. The other is the time of a batch of one
//! frame that leaves, from the probe's frames on the way that the trial takes. The rule takes the smallest batch of
//! which [`TURNS_A_GAP`] idle turns fit into the gap between two frames, and which sends [`HEADROOM`] times the rate.

use std::io;
use std::os::fd::AsFd;
use std::sync::OnceLock;

use virtoll_clock::monotonic_ns;

use super::{GENERATOR, LARGEST_BATCH};
use crate::bpf::run_live;
use crate::frame::MINIMUM_FRAME_BYTES;

/// How many idle turns must fit into a gap: one of them sends, which takes longer.
pub(crate) const TURNS_A_GAP: f64 = 8.0;
/// How many times the rate a batch must be able to send: room to catch up, and for what the probe does not see. Beside a
/// receiver that works a call takes two to three times as long, and a turn that sends ten idle ones.
const HEADROOM: f64 = 6.0;
/// A short and a long call: their difference leaves out what a call itself costs.
const TURNS: [u32; 2] = [4_096, 36_864];
const TRIES: usize = 5;
const LOOPBACK: u32 = 1;

/// The batch for a rate, that of all sources of a loop together; `call_ns` is the time of a batch of one sent frame.
///
/// # Errors
/// The kernel's refusal to run the program.
pub(crate) fn smallest_that_holds(frames_per_second: f64, call_ns: u64) -> io::Result<u32> {
    Ok(choose(turns()?, call_ns as f64, 1e9 / frames_per_second))
}

/// The rule: `turns` are nanoseconds of an idle turn by batch size, ascending.
fn choose(turns: &[(u32, f64)], call_ns: f64, gap_ns: f64) -> u32 {
    let holds = |(batch, turn_ns): &&(u32, f64)| {
        // All turns of a batch cost a turn, and one of them the whole call.
        let frames = f64::from(*batch);
        let frame_ns = (call_ns + (frames - 1.0) * turn_ns) / frames;
        turn_ns * TURNS_A_GAP <= gap_ns && frame_ns * HEADROOM <= gap_ns
    };
    turns.iter().find(holds).map_or(LARGEST_BATCH, |turn| turn.0)
}

/// The time of a batch of one sent frame: the median step between the turns of a probe.
pub(crate) fn call_ns(probe_times: &[u64]) -> u64 {
    let mut steps: Vec<u64> =
        probe_times.windows(2).map(|pair| pair[1].saturating_sub(pair[0])).collect();
    steps.sort_unstable();
    steps.get(steps.len() / 2).copied().unwrap_or(0)
}

/// Nanoseconds of an idle turn by batch size, measured once.
pub(crate) fn turns() -> io::Result<&'static [(u32, f64)]> {
    static MEASURED: OnceLock<Vec<(u32, f64)>> = OnceLock::new();
    if let Some(turns) = MEASURED.get() {
        return Ok(turns);
    }
    let turns = measure()?;
    Ok(MEASURED.get_or_init(|| turns))
}

fn measure() -> io::Result<Vec<(u32, f64)>> {
    // The data is empty: no frame is ever due, and every turn gives its frame back.
    let state = super::state::State::idle(GENERATOR)?;
    let program = super::load("paced_4", &state, &[LOOPBACK], &[])?;
    let frame = [0; MINIMUM_FRAME_BYTES];
    let sizes = (0..).map(|power| 1 << power).take_while(|batch| *batch <= LARGEST_BATCH);
    sizes
        .map(|batch| {
            let time = |turns: u32| {
                let before = monotonic_ns();
                run_live(program.as_fd(), &frame, turns, batch)?;
                Ok::<u64, io::Error>(monotonic_ns() - before)
            };
            let mut shortest = [u64::MAX; 2];
            for _ in 0..TRIES {
                for (shortest, turns) in shortest.iter_mut().zip(TURNS) {
                    *shortest = (*shortest).min(time(turns)?);
                }
            }
            let difference = shortest[1].saturating_sub(shortest[0]);
            Ok((batch, difference as f64 / f64::from(TURNS[1] - TURNS[0])))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A host whose idle turns take this long in a batch of one and in large ones.
    fn turns(one_ns: f64, many_ns: f64) -> Vec<(u32, f64)> {
        (0..9)
            .map(|power| (1 << power, many_ns + (one_ns - many_ns) / f64::from(1 << power)))
            .collect()
    }

    #[test]
    fn a_rate_that_a_batch_of_one_sends_stays_in_batches_of_one() {
        assert_eq!(choose(&turns(60.0, 20.0), 900.0, 51_200.0), 1);
    }

    #[test]
    fn a_slow_call_makes_the_batch_larger_where_idle_turns_are_cheap() {
        // 64 bytes at 1000 Mbit/s: idle turns alone would allow a batch of one.
        let gap_ns = 512.0;
        assert_eq!(choose(&turns(60.0, 20.0), 0.0, gap_ns), 1);
        let batches = [400.0, 1_500.0, 5_000.0, 20_000.0]
            .map(|call_ns| choose(&turns(60.0, 20.0), call_ns, gap_ns));
        assert_eq!(batches, [8, 32, 128, LARGEST_BATCH]);
    }

    #[test]
    fn the_batch_sends_the_rate_with_room_and_half_of_it_does_not() {
        let turns = turns(60.0, 20.0);
        for (call_ns, gap_ns) in [(700.0, 400.0), (3_000.0, 512.0), (9_000.0, 600.0)] {
            let batch = f64::from(choose(&turns, call_ns, gap_ns));
            let frame_ns = |batch: f64| (call_ns + (batch - 1.0) * 20.0) / batch;
            assert!(frame_ns(batch) * HEADROOM <= gap_ns, "{batch}");
            assert!(frame_ns(batch / 2.0) * HEADROOM > gap_ns, "{batch}");
        }
    }

    #[test]
    fn what_no_batch_holds_takes_the_largest() {
        assert_eq!(choose(&turns(60.0, 20.0), 1e9, 512.0), LARGEST_BATCH);
    }

    #[test]
    fn one_long_step_of_a_probe_is_not_what_a_call_costs() {
        assert_eq!(call_ns(&[0, 700, 1_400, 900_000, 900_710, 901_400]), 700);
        assert_eq!(call_ns(&[5]), 0);
    }
}
