//! STREAM (`McCalpin` 1995): copy, scale, add and triad of long arrays of f64, each round timed by the guest's clock.
//!
//! The arrays are there and touched before the start mark. A round is from when the last thread is ready to when the last
//! one is done. What the arrays hold at the end is known beforehand, to the last bit.

use std::cell::RefCell;
use std::sync::atomic::{Ordering, compiler_fence};
use std::sync::{Barrier, Mutex};
use std::thread;

use virtoll_clock::monotonic_ns;
use virtoll_proto::reply::figures::{self, StreamKernel, StreamKernels};
use virtoll_proto::request::jobs::Stream;
use virtoll_proto::{Error, ErrorKind};

use super::sys::{Memory, available_bytes};
use super::{Done, Outcome, Workload};

const SCALAR: f64 = 3.0;
const ELEMENT_BYTES: u64 = 8;
/// What STREAM counts per element, by kernel: two arrays, or three.
const COUNTED_BYTES: [u64; 4] = [16, 16, 24, 24];
/// What the arrays hold before the first round; the values grow fifteenfold a round.
const FIRST: [f64; 3] = [2.0, 2.0, 0.0];
const MOST_ROUNDS: usize = 200;
const MOST_THREADS: usize = 1024;
/// So much is copied between two fences.
const PORTION: usize = 8;

/// Makes the arrays and fills them, each thread its own part.
///
/// # Errors
/// `bad-request` for numbers out of range, `limit` for more memory than there is, `system` for what cannot be made.
pub fn ready(wanted: Stream) -> Result<Ready, Error> {
    if !(2..=MOST_ROUNDS).contains(&wanted.rounds) {
        return Err(Error::bad_request(format!("stream: rounds must be 2 to {MOST_ROUNDS}")));
    }
    if !(1..=MOST_THREADS).contains(&wanted.threads) || wanted.elements < wanted.threads as u64 {
        return Err(Error::bad_request(format!(
            "stream: threads must be 1 to {MOST_THREADS}, and at most the elements"
        )));
    }
    let needed = wanted.elements.saturating_mul(3 * ELEMENT_BYTES);
    if let Some(available) = available_bytes().filter(|available| needed > *available) {
        let sentence = format!("stream: {needed} bytes wanted and {available} available");
        return Err(Error::new(ErrorKind::Limit, sentence));
    }
    let bytes = needed as usize / 3;
    let arrays = Memory::allocate(bytes)
        .and_then(|a| Ok([a, Memory::allocate(bytes)?, Memory::allocate(bytes)?]))
        .map_err(|cause| Error::system("stream: mmap", &cause))?;
    let ready = Ready { wanted, arrays: RefCell::new(Some(arrays)) };
    ready.fill()?;
    Ok(ready)
}

/// Arrays that are filled.
pub struct Ready {
    wanted: Stream,
    arrays: RefCell<Option<[Memory; 3]>>,
}

impl Ready {
    fn fill(&self) -> Result<(), Error> {
        if let Some(arrays) = self.arrays.borrow_mut().as_mut() {
            on_threads(self.wanted.threads, arrays, &|parts| {
                for (part, value) in parts.into_iter().zip(FIRST) {
                    part.fill(value);
                }
            })?;
        }
        Ok(())
    }
}

impl Workload for Ready {
    fn run(&self) -> Result<Box<dyn Done>, Error> {
        let Some(mut arrays) = self.arrays.take() else {
            return Err(Error::bad_request("stream: it ran already"));
        };
        let (threads, count) = (self.wanted.threads, self.wanted.rounds);
        let barrier = Barrier::new(threads);
        let reported = Mutex::new(Vec::new());
        on_threads(threads, &mut arrays, &|parts| {
            let own = work(parts, count, &barrier);
            if let Ok(mut reported) = reported.lock() {
                reported.push(own);
            }
        })?;
        let rounds = together(&reported.into_inner().unwrap_or_default(), count);
        Ok(Box::new(Figures { wanted: self.wanted.clone(), arrays, rounds }))
    }
}

/// When a thread began and ended each kernel of a round, ns.
type Spans = [(u64, u64); 4];

/// All rounds of one thread.
fn work([a, b, c]: [&mut [f64]; 3], rounds: usize, barrier: &Barrier) -> Vec<Spans> {
    let mut reported = Vec::with_capacity(rounds);
    let timed = |kernel: &mut dyn FnMut()| {
        barrier.wait();
        let begin = monotonic_ns();
        kernel();
        (begin, monotonic_ns())
    };
    for _ in 0..rounds {
        reported.push([
            timed(&mut || copy(c, a)),
            timed(&mut || scale(b, c)),
            timed(&mut || add(c, a, b)),
            timed(&mut || triad(a, b, c)),
        ]);
    }
    reported
}

/// What each kernel took all threads, ns: from when the first of them began to when the last ended.
///
/// A barrier lets go whom it wakes one after another, so no single thread can tell when all began.
fn together(threads: &[Vec<Spans>], rounds: usize) -> Vec<[u64; 4]> {
    let took = |round: usize, kernel: usize| {
        let spans = || threads.iter().filter_map(move |own| Some(own.get(round)?[kernel]));
        let begin = spans().map(|(begin, _)| begin).min();
        spans().map(|(_, end)| end).max().zip(begin).map_or(0, |(end, begin)| end - begin)
    };
    (0..rounds).map(|round| std::array::from_fn(|kernel| took(round, kernel))).collect()
}

/// A fence that costs nothing keeps the compiler from calling memcpy, which is another program on each kind of CPU.
pub(super) fn copy<T: Copy>(to: &mut [T], from: &[T]) {
    for (to, from) in to.chunks_mut(PORTION).zip(from.chunks(PORTION)) {
        for (to, from) in to.iter_mut().zip(from) {
            *to = *from;
        }
        compiler_fence(Ordering::SeqCst);
    }
}

fn scale(to: &mut [f64], from: &[f64]) {
    for (to, from) in to.iter_mut().zip(from) {
        *to = SCALAR * from;
    }
}

fn add(to: &mut [f64], one: &[f64], other: &[f64]) {
    for ((to, one), other) in to.iter_mut().zip(one).zip(other) {
        *to = one + other;
    }
}

fn triad(to: &mut [f64], one: &[f64], other: &[f64]) {
    for ((to, one), other) in to.iter_mut().zip(one).zip(other) {
        *to = one + SCALAR * other;
    }
}

/// Has every thread do its share; one of them is this one. None begins before all are there.
fn on_threads(
    threads: usize,
    arrays: &mut [Memory; 3],
    share: &(dyn Fn([&mut [f64]; 3]) + Sync),
) -> Result<(), Error> {
    let [a, b, c] = arrays;
    let mut parts = split(a.doubles(), threads)
        .zip(split(b.doubles(), threads))
        .zip(split(c.doubles(), threads))
        .map(|((a, b), c)| [a, b, c]);
    let Some(own) = parts.next() else { return Ok(()) };
    let all_there = Mutex::new(true);
    thread::scope(|scope| {
        let Ok(mut gate) = all_there.lock() else { return Ok(()) };
        for part in parts {
            let started = thread::Builder::new().spawn_scoped(scope, || {
                let go = all_there.lock().is_ok_and(|go| *go);
                if go {
                    share(part);
                }
            });
            if let Err(cause) = started {
                *gate = false;
                return Err(Error::system("stream: start a thread", &cause));
            }
        }
        drop(gate);
        share(own);
        Ok(())
    })
}

/// Parts whose lengths differ by one at most.
fn split(mut slice: &mut [f64], parts: usize) -> impl Iterator<Item = &mut [f64]> {
    (0..parts).map(move |part| {
        let length = slice.len() / (parts - part);
        let (first, rest) = std::mem::take(&mut slice).split_at_mut(length);
        slice = rest;
        first
    })
}

struct Figures {
    wanted: Stream,
    arrays: [Memory; 3],
    rounds: Vec<[u64; 4]>,
}

impl Done for Figures {
    fn check(mut self: Box<Self>) -> Outcome {
        let kernel = |index: usize| StreamKernel {
            bytes: COUNTED_BYTES[index] * self.wanted.elements,
            round_ns: self.rounds.iter().map(|round| round[index]).collect(),
        };
        let kernels =
            StreamKernels { copy: kernel(0), scale: kernel(1), add: kernel(2), triad: kernel(3) };
        let wanted = expected(self.wanted.rounds);
        let mut held = Vec::new();
        let mut relative_errors = [0.0; 3];
        let arrays = self.arrays.iter_mut().zip(wanted).zip(&mut relative_errors);
        for ((array, value), error) in arrays {
            let elements = array.doubles();
            let sum: f64 = elements.iter().map(|element| (element - value).abs()).sum();
            *error = sum / elements.len() as f64 / value.abs();
            held.push(same(elements).map_or("unequal".to_owned(), |one| format!("{one:016x}")));
        }
        let result = figures::Stream {
            elements: self.wanted.elements,
            rounds: self.wanted.rounds,
            threads: self.wanted.threads,
            kernels,
            relative_errors,
        };
        Outcome { result: figures::Figures::Stream(result), check: held.join(" ") }
    }
}

/// The bits that all elements have; none where they differ.
fn same(elements: &[f64]) -> Option<u64> {
    let first = elements.first()?.to_bits();
    elements.iter().all(|element| element.to_bits() == first).then_some(first)
}

/// What every element of a, b and c is after so many rounds.
fn expected(rounds: usize) -> [f64; 3] {
    let [mut a, mut b, mut c] = FIRST;
    for _ in 0..rounds {
        c = a;
        b = SCALAR * c;
        c = a + b;
        a = b + SCALAR * c;
    }
    [a, b, c]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_is_from_the_first_threads_begin_to_the_last_ones_end() {
        let early = vec![[(10, 20), (30, 35), (40, 50), (60, 70)]];
        let woken_late = vec![[(19, 31), (30, 36), (41, 44), (66, 69)]];
        assert_eq!(together(&[woken_late, early.clone()], 1), [[21, 6, 10, 10]]);
        assert_eq!(together(&[early], 1), [[10, 5, 10, 10]]);
    }

    #[test]
    fn every_element_is_what_the_rounds_make_of_it_with_any_number_of_threads() {
        // a = 2 * 15^3, b = 3 * 2 * 15^2, c = 4 * 2 * 15^2.
        let held = [6750.0_f64, 1350.0, 1800.0].map(|value| format!("{:016x}", value.to_bits()));
        for (elements, threads) in [(1, 1), (1000, 1), (1001, 2), (29, 7), (8, 8)] {
            let stream = ready(Stream { elements, rounds: 3, threads }).unwrap();
            let outcome = stream.run().unwrap().check();
            assert_eq!(outcome.check, held.join(" "), "{elements} on {threads}");
            let figures::Figures::Stream(reported) = outcome.result else {
                panic!("not of stream")
            };
            assert!(
                reported.relative_errors.iter().all(|error| error.to_bits() == 0),
                "{reported:?}"
            );
            let StreamKernels { copy, scale, add, triad } = reported.kernels;
            for (kernel, bytes) in [copy, scale, add, triad].into_iter().zip(COUNTED_BYTES) {
                assert_eq!(kernel.bytes, bytes * elements);
                assert_eq!(kernel.round_ns.len(), 3);
            }
        }
    }

    #[test]
    fn one_wrong_element_shows() {
        assert_eq!(same(&[1.0, 1.0]), Some(1.0_f64.to_bits()));
        assert_eq!(same(&[1.0, 1.0, 1.000_000_1]), None);
        assert_eq!(same(&[0.0, -0.0]), None);
    }

    #[test]
    fn numbers_out_of_range_are_refused() {
        for (elements, rounds, threads) in
            [(10, 1, 1), (10, MOST_ROUNDS + 1, 1), (10, 2, 0), (1, 2, 2), (u64::MAX, 2, 1)]
        {
            let stream = Stream { elements, rounds, threads };
            assert!(ready(stream).is_err(), "{elements} {rounds} {threads}");
        }
    }
}
