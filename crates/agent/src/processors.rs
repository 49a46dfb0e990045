//! What each processor did: its times from `/proc/stat`, which also hold what no thread is charged for (interrupts,
//! the kernel's own threads).

use std::fs;

use serde_json::{Value, json};
use virtoll_clock::NANOSECONDS;

const NAMES: [&str; 8] = ["user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal"];
/// The unit of `/proc/stat`, which is 100 Hz on every architecture that the agent runs on.
const TICK_NS: u64 = NANOSECONDS / 100;

/// A reading of all processors.
pub struct Processors(Vec<(u32, [u64; NAMES.len()])>);

impl Processors {
    /// Reads them; nothing where `/proc/stat` cannot be read.
    pub fn read() -> Self {
        Self(parse(&fs::read_to_string("/proc/stat").unwrap_or_default()))
    }

    /// The times since the machine's start.
    pub fn since_boot(&self) -> Value {
        let nothing = self.0.iter().map(|(cpu, _)| (*cpu, [0; NAMES.len()])).collect();
        Self(nothing).until(self)
    }

    /// What they did since this reading, to 10 ms.
    pub fn since_then(&self) -> Value {
        self.until(&Self::read())
    }

    fn until(&self, later: &Self) -> Value {
        let told = self.0.iter().zip(&later.0).map(|((cpu, before), (_, after))| {
            let mut told = json!({"cpu": cpu});
            for (index, name) in NAMES.iter().enumerate() {
                let ticks = after[index].saturating_sub(before[index]);
                told[format!("{name}_ns")] = json!(ticks * TICK_NS);
            }
            told
        });
        Value::Array(told.collect())
    }
}

fn parse(text: &str) -> Vec<(u32, [u64; NAMES.len()])> {
    let read = |line: &str| {
        let mut words = line.strip_prefix("cpu")?.split_ascii_whitespace();
        let cpu = words.next()?.parse().ok()?;
        let mut times = [0; NAMES.len()];
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

    #[test]
    fn each_processor_is_read_and_the_sum_is_not() {
        let text = "cpu  9 9 9 9 9 9 9 9 0 0\ncpu0 1 2 3 4 5 6 7 8 0 0\ncpu1 2 2 3 4 5 6 7 8 0 0\nintr 5\n";
        assert_eq!(parse(text), [(0, [1, 2, 3, 4, 5, 6, 7, 8]), (1, [2, 2, 3, 4, 5, 6, 7, 8])]);
    }
}
