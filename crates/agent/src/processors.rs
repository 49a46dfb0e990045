//! What each processor did: its times from `/proc/stat`, which also hold what no thread is charged for (interrupts,
//! the kernel's own threads).

use std::fs;

use virtoll_clock::NANOSECONDS;
use virtoll_proto::reply::traffic::ProcessorTimes;

/// Columns of `/proc/stat` that are read.
const COLUMNS: usize = 8;
/// The unit of times in `/proc`, which is 100 Hz on every architecture that the agent runs on.
pub const TICK_NS: u64 = NANOSECONDS / 100;

/// A reading of all processors.
pub struct Processors(Vec<(u32, [u64; COLUMNS])>);

impl Processors {
    /// Reads them; nothing where `/proc/stat` cannot be read.
    pub fn read() -> Self {
        Self(parse(&fs::read_to_string("/proc/stat").unwrap_or_default()))
    }

    /// The times since the machine's start.
    pub fn since_boot(&self) -> Vec<ProcessorTimes> {
        self.0.iter().map(|(cpu, ticks)| times(*cpu, ticks, &[0; COLUMNS])).collect()
    }

    /// What they did since this reading, to 10 ms.
    pub fn since_then(&self) -> Vec<ProcessorTimes> {
        let pairs = self.0.iter().zip(Self::read().0);
        pairs.map(|((cpu, before), (_, after))| times(*cpu, &after, before)).collect()
    }
}

/// The columns of `/proc/stat`: user, nice, system, idle, iowait, irq, softirq, steal.
fn times(cpu: u32, after: &[u64; COLUMNS], before: &[u64; COLUMNS]) -> ProcessorTimes {
    let ns = |column: usize| after[column].saturating_sub(before[column]) * TICK_NS;
    ProcessorTimes {
        cpu,
        user_ns: ns(0),
        nice_ns: ns(1),
        system_ns: ns(2),
        idle_ns: ns(3),
        iowait_ns: ns(4),
        irq_ns: ns(5),
        softirq_ns: ns(6),
        steal_ns: ns(7),
    }
}

fn parse(text: &str) -> Vec<(u32, [u64; COLUMNS])> {
    let read = |line: &str| {
        let mut words = line.strip_prefix("cpu")?.split_ascii_whitespace();
        let cpu = words.next()?.parse().ok()?;
        let mut times = [0; COLUMNS];
        for time in &mut times {
            *time = words.next()?.parse().ok()?;
        }
        // "cpu  1 2 3" is the sum over all processors and would read as processor 1.
        (!line.starts_with("cpu ")).then_some((cpu, times))
    };
    text.lines().filter_map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::any_text::any_text;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in any_text(&["cpu", "cpu0", "cpu1"])) {
            let _ = parse(&text);
        }
    }

    #[test]
    fn each_processor_is_read_and_the_sum_is_not() {
        let text = "cpu  9 9 9 9 9 9 9 9 0 0\ncpu0 1 2 3 4 5 6 7 8 0 0\ncpu1 2 2 3 4 5 6 7 8 0 0\nintr 5\n";
        assert_eq!(parse(text), [(0, [1, 2, 3, 4, 5, 6, 7, 8]), (1, [2, 2, 3, 4, 5, 6, 7, 8])]);
    }

    #[test]
    fn each_column_is_the_time_of_its_name() {
        let expected = ProcessorTimes {
            cpu: 3,
            user_ns: 10_000_000,
            nice_ns: 20_000_000,
            system_ns: 30_000_000,
            idle_ns: 40_000_000,
            iowait_ns: 50_000_000,
            irq_ns: 60_000_000,
            softirq_ns: 70_000_000,
            steal_ns: 80_000_000,
        };
        assert_eq!(Processors(vec![(3, [1, 2, 3, 4, 5, 6, 7, 8])]).since_boot(), [expected]);
    }
}
