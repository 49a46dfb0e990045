//! `hand-over`: how fast two CPUs hand a cache line to each other, which tells how near they are.
//!
//! A thread on each of the two writes the line in turn and waits for the other's write. Batches of round trips are
//! timed for a millisecond, and the shortest tells the distance: the rest of them were interrupted. A CPU that has no
//! time for its thread costs [`MOST_NS`] and gives no reading. No thread is waited for: each ends by itself. The threads
//! are preferred as the generator's are.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use virtoll_clock::monotonic_ns;
use virtoll_proto::request::HandOver;
use virtoll_proto::{Error, ErrorKind, reply};
use virtoll_wire::{SessionPriority, prefer_this_thread};

use crate::sys;

/// Round trips of a batch: enough for the clock's own time to be a small part of it.
const ROUND_TRIPS: u32 = 50;
/// How long batches are measured, and how many: where a thread lost its CPU meanwhile, the time alone is no measure.
const ENOUGH_NS: u64 = 1_000_000;
const ENOUGH_BATCHES: usize = 64;
/// Fewer are no reading: the first ones find caches and clocks cold.
const LEAST_BATCHES: usize = 8;
/// After this time there is no reading.
const MOST_NS: u64 = 10_000_000;
/// What a thread may take to say that its time is over; it was ready to run for as long.
const LATE: Duration = Duration::from_millis(5);
/// Looks at the line between two at the clock.
const LOOKS: u32 = 1024;
/// The most pairs of one request, whose answer takes as many times the time of one.
const MOST_PAIRS: usize = 64;

/// Carries the request out, one pair after the other.
///
/// # Errors
/// `limit` for too many pairs. A pair that cannot be measured is no error: its reading says why.
pub fn measure(request: &HandOver) -> Result<reply::HandOver, Error> {
    if request.pairs.len() > MOST_PAIRS {
        let sentence = format!("pairs: {} are more than {MOST_PAIRS}", request.pairs.len());
        return Err(Error::new(ErrorKind::Limit, sentence));
    }
    let _preferred = SessionPriority::raise();
    Ok(reply::HandOver { readings: request.pairs.iter().map(|pair| reading(*pair)).collect() })
}

fn reading(cpus: [u32; 2]) -> reply::HandOverReading {
    let monotonic_ns = monotonic_ns();
    let measured = if cpus[0] == cpus[1] {
        Err(format!("CPU {} has nobody to hand a cache line to", cpus[0]))
    } else {
        between(cpus, monotonic_ns + MOST_NS)
    };
    let (batch_ns, reason) = match measured {
        Ok(batch_ns) => (batch_ns, None),
        Err(reason) => (Vec::new(), Some(reason)),
    };
    reply::HandOverReading {
        cpus,
        monotonic_ns,
        batch_round_trips: ROUND_TRIPS,
        batches: batch_ns.len() as u64,
        least_batch_ns: batch_ns.first().copied(),
        median_batch_ns: batch_ns.get(batch_ns.len() / 2).copied(),
        reason,
    }
}

/// A value on cache lines of its own: processors fetch two neighbouring lines of 64 bytes at once.
#[repr(align(128))]
struct Alone<T>(T);

/// The line that is handed over, and whether one of the two has left.
struct Exchange {
    line: Alone<AtomicU64>,
    over: Alone<AtomicBool>,
    deadline_ns: u64,
}

impl Exchange {
    fn until(deadline_ns: u64) -> Self {
        let (line, over) = (Alone(AtomicU64::new(0)), Alone(AtomicBool::new(false)));
        Self { line, over, deadline_ns }
    }

    /// Waits for a value; false where it does not come in time, or the other has left.
    fn arrives(&self, value: u64) -> bool {
        loop {
            for _ in 0..LOOKS {
                if self.line.0.load(Ordering::Acquire) == value {
                    return true;
                }
            }
            if self.over.0.load(Ordering::Acquire) || monotonic_ns() >= self.deadline_ns {
                return false;
            }
        }
    }

    /// Writes each odd number and waits for the even one after it; the time of each batch in ns, in order of size.
    fn ask(&self) -> Vec<u64> {
        let mut batch_ns = Vec::with_capacity(ENOUGH_NS as usize / 1000);
        let began_ns = monotonic_ns();
        let (mut value, mut before_ns) = (0, began_ns);
        'batches: while batch_ns.len() < ENOUGH_BATCHES || before_ns - began_ns < ENOUGH_NS {
            for _ in 0..ROUND_TRIPS {
                self.line.0.store(value + 1, Ordering::Release);
                value += 2;
                if !self.arrives(value) {
                    break 'batches;
                }
            }
            let now_ns = monotonic_ns();
            batch_ns.push(now_ns - before_ns);
            before_ns = now_ns;
        }
        self.leave();
        batch_ns.sort_unstable();
        batch_ns
    }

    /// Answers until the other leaves.
    fn answer(&self) {
        let mut value = 1;
        while self.arrives(value) {
            self.line.0.store(value + 1, Ordering::Release);
            value += 2;
        }
        self.leave();
    }

    fn leave(&self) {
        self.over.0.store(true, Ordering::Release);
    }
}

/// The time of each batch in ns, in order of size, or why there is no reading.
fn between(cpus: [u32; 2], deadline_ns: u64) -> Result<Vec<u64>, String> {
    let exchange = Arc::new(Exchange::until(deadline_ns));
    let (sender, receiver) = channel();
    let starts = [
        start(cpus[1], &exchange, &sender, |exchange, _| exchange.answer()),
        start(cpus[0], &exchange, &sender, |exchange, sender| {
            let _nobody_waits = sender.send(Ok(exchange.ask()));
        }),
    ];
    drop(sender);
    for started in starts {
        if let Err(cause) = started {
            exchange.leave();
            return Err(format!("no thread could be started: {cause}"));
        }
    }
    let left = Duration::from_nanos(deadline_ns.saturating_sub(monotonic_ns()));
    let busy = || {
        let milliseconds = MOST_NS / 1_000_000;
        let [one, other] = cpus;
        format!(
            "CPU {one} or {other} was busy: they did not hand a cache line over for {milliseconds} ms"
        )
    };
    match receiver.recv_timeout(left + LATE) {
        Ok(Ok(batch_ns)) if batch_ns.len() >= LEAST_BATCHES => Ok(batch_ns),
        Ok(Ok(_)) | Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
            exchange.leave();
            Err(busy())
        }
        Ok(Err(reason)) => Err(reason),
    }
}

type Outcome = Result<Vec<u64>, String>;

/// Starts a thread that does its part on a CPU, or sends why it cannot be there.
fn start(
    cpu: u32,
    exchange: &Arc<Exchange>,
    sender: &Sender<Outcome>,
    part: impl FnOnce(&Exchange, &Sender<Outcome>) + Send + 'static,
) -> io::Result<()> {
    let (exchange, sender) = (Arc::clone(exchange), sender.clone());
    let thread = move || {
        prefer_this_thread();
        match sys::pin(&[cpu as usize]) {
            Ok(()) => part(&exchange, &sender),
            Err(cause) => {
                let reason = format!("no thread can be on CPU {cpu}: {cause}");
                let _nobody_waits = sender.send(Err(reason));
                exchange.leave();
            }
        }
    };
    thread::Builder::new().name("hand-over".to_owned()).spawn(thread).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(pairs: &[[u32; 2]]) -> HandOver {
        HandOver { pairs: pairs.to_vec() }
    }

    /// CPUs that this process may use, by trying.
    fn usable() -> Vec<u32> {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap();
        let mut cpus = Vec::new();
        for part in list.trim().split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            cpus.extend(first.parse::<u32>().unwrap()..=last.parse().unwrap());
        }
        cpus
    }

    fn assert_is_one_of_both(reading: &reply::HandOverReading) {
        if reading.reason.is_none() {
            let (least, median) = (reading.least_batch_ns, reading.median_batch_ns);
            assert!(reading.batches >= LEAST_BATCHES as u64);
            assert!(least.unwrap() > 0 && least <= median);
        } else {
            let measured = (reading.batches, reading.least_batch_ns, reading.median_batch_ns);
            assert_eq!(measured, (0, None, None), "missing is not zero");
        }
    }

    #[test]
    fn each_pair_has_a_reading_or_a_reason() {
        let cpus = usable();
        let pairs: Vec<[u32; 2]> = cpus.windows(2).map(|pair| [pair[1], pair[0]]).collect();
        let readings = measure(&request(&pairs)).unwrap().readings;
        assert_eq!(readings.iter().map(|reading| reading.cpus).collect::<Vec<_>>(), pairs);
        for reading in readings {
            assert_is_one_of_both(&reading);
        }
    }

    #[test]
    fn one_cpu_has_nobody_to_hand_to() {
        let cpu = usable()[0];
        let [ref reading] = measure(&request(&[[cpu, cpu]])).unwrap().readings[..] else {
            panic!("another number of readings")
        };
        assert!(reading.reason.as_ref().unwrap().contains(&cpu.to_string()));
        assert_is_one_of_both(reading);
    }

    #[test]
    fn a_cpu_that_is_not_there_is_named() {
        for absent in [1023, 1_000_000] {
            let exchange = Arc::new(Exchange::until(u64::MAX));
            let (sender, receiver) = channel();
            start(absent, &exchange, &sender, |_, _| panic!("it does nothing elsewhere")).unwrap();
            let reason = receiver.recv().unwrap().unwrap_err();
            assert!(reason.contains(&format!("on CPU {absent}: ")), "{reason}");
            exchange.answer(); // whoever waits for it need not wait for the deadline
            for pair in [[usable()[0], absent], [absent, usable()[0]]] {
                let reading = &measure(&request(&[pair])).unwrap().readings[0];
                assert!(reading.reason.is_some());
                assert_is_one_of_both(reading);
            }
        }
    }

    #[test]
    fn more_pairs_than_the_limit_are_refused() {
        let error = measure(&request(&[[0, 1]; MOST_PAIRS + 1])).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Limit);
    }

    #[test]
    fn whoever_is_not_answered_leaves_at_the_deadline() {
        let exchange = Exchange::until(monotonic_ns() + 1_000_000);
        assert_eq!(exchange.ask(), [0; 0]);
        exchange.answer(); // the other has left
        Exchange::until(monotonic_ns()).answer();
    }

    #[test]
    fn batches_are_timed_until_there_are_enough_and_the_other_then_leaves() {
        let exchange = Arc::new(Exchange::until(u64::MAX));
        let other = Arc::clone(&exchange);
        let answers = thread::spawn(move || other.answer());
        let batch_ns = exchange.ask();
        answers.join().unwrap();
        assert!(batch_ns.len() >= ENOUGH_BATCHES && batch_ns.is_sorted() && batch_ns[0] > 0);
    }
}
