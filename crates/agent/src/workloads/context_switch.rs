//! Context switches: a token goes round a ring of processes through pipes, and each sums its working set before it passes
//! it on (lmbench's `lat_ctx`; `McVoy` and Staelin 1996).
//!
//! The processes are there, and have touched their memory, before the start mark. All are on one CPU: on two it would be
//! a wake-up over there that is measured. What passing the token costs without a switch, that is with all pipes in one
//! process and one working set, is measured after the end mark and stored beside; nothing is subtracted here.
//!
//! Several workers are rings of their own that do the same at once, as `lat_ctx -P` has it, on one CPU after the other of
//! those that there are. The laps that are kept are the first ring's, whose first process is this one.

use std::cell::RefCell;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::rc::Rc;

use virtoll_clock::monotonic_ns;
use virtoll_proto::reply::figures::{self, Figures};
use virtoll_proto::request::jobs::ContextSwitch;
use virtoll_proto::{Error, ErrorKind};

use super::series::{Durations, MOST, clock_cost};
use super::sys::{
    Memory, allowed_cpus, available_bytes, close_inherited, end, fork, pipe, read_all, write_all,
};
use super::{Done, MOST_WORKERS, Outcome, Workload};
use crate::sys::pin;

/// Each has a pipe, and 1024 open files are what a process usually may have.
const MOST_PROCESSES: usize = 256;
/// Of all rings.
const MOST_IN_ALL: u64 = 4096;
const WORD_BYTES: u64 = 8;
/// The token counts its hops in four bytes.
const MOST_HOPS: u64 = 1 << 31;

/// Starts the rings and sends each one's token round once.
///
/// # Errors
/// `bad-request` for numbers out of range, `limit` for more memory than there is, `system` for what cannot be made.
pub fn ready(wanted: ContextSwitch) -> Result<Ready, Error> {
    if !(2..=MOST_PROCESSES).contains(&wanted.processes) {
        let sentence = format!("context-switch: processes must be 2 to {MOST_PROCESSES}");
        return Err(Error::bad_request(sentence));
    }
    if !wanted.working_set_bytes.is_multiple_of(WORD_BYTES) {
        let sentence = "context-switch: working_set_bytes must be a multiple of 8";
        return Err(Error::bad_request(sentence));
    }
    let in_all = wanted.workers.saturating_mul(wanted.processes as u64);
    if !(1..=MOST_WORKERS).contains(&wanted.workers) || in_all > MOST_IN_ALL {
        let sentence = format!(
            "context-switch: workers must be 1 to {MOST_WORKERS}, with at most {MOST_IN_ALL} processes in all"
        );
        return Err(Error::bad_request(sentence));
    }
    if wanted.laps.saturating_mul(wanted.workers) > MOST {
        let sentence =
            format!("context-switch: laps of all workers must be at most {MOST} in a job");
        return Err(Error::new(ErrorKind::Limit, sentence));
    }
    let laps = Durations::of(wanted.laps, "context-switch: laps")?;
    if wanted.laps * wanted.processes as u64 >= MOST_HOPS {
        let sentence = format!("context-switch: laps x processes must be below {MOST_HOPS}");
        return Err(Error::new(ErrorKind::Limit, sentence));
    }
    let needed = wanted.working_set_bytes.saturating_mul(in_all);
    if let Some(available) = available_bytes().filter(|available| needed > *available) {
        let sentence = format!("context-switch: {needed} bytes wanted, {available} available");
        return Err(Error::new(ErrorKind::Limit, sentence));
    }
    let started = |cause| Error::system("context-switch: start the ring", &cause);
    let others = (1..wanted.workers)
        .map(|number| Worker::start(&wanted, number as usize))
        .collect::<io::Result<Vec<_>>>()
        .map_err(started)?;
    let ring = Ring::start(&wanted, 0).map_err(started)?;
    let (ring, laps) = (Rc::new(RefCell::new(ring)), Rc::new(RefCell::new(laps)));
    Ok(Ready { wanted, ring, others, laps })
}

/// Rings that wait for their tokens, at each repeat. The laps are the last repeat's.
pub struct Ready {
    wanted: ContextSwitch,
    ring: Rc<RefCell<Ring>>,
    others: Vec<Worker>,
    laps: Rc<RefCell<Durations>>,
}

impl Workload for Ready {
    fn run(&self) -> Result<Box<dyn Done>, Error> {
        let (mut ring, mut laps) = (self.ring.borrow_mut(), self.laps.borrow_mut());
        self.others.iter().for_each(Worker::begin);
        let own = ring.go_round(&mut laps).ok_or_else(broken)?;
        let hops = u64::from(own) + self.others.iter().map(Worker::hops).sum::<u64>();
        let (ring, laps) = (Rc::clone(&self.ring), Rc::clone(&self.laps));
        Ok(Box::new(Passed { processes: self.wanted.processes, ring, laps, hops }))
    }
}

fn broken() -> Error {
    Error::system("context-switch", &io::Error::other("a process of the ring has ended"))
}

struct Passed {
    processes: usize,
    ring: Rc<RefCell<Ring>>,
    laps: Rc<RefCell<Durations>>,
    hops: u64,
}

impl Done for Passed {
    fn value(&self) -> Option<String> {
        Some(self.hops.to_string())
    }

    fn check(self: Box<Self>) -> Outcome {
        let (mut ring, laps) = (self.ring.borrow_mut(), self.laps.take());
        let pipes = ring.without_switches(laps.room() as u64);
        let result = figures::ContextSwitch {
            processes: self.processes,
            pinned_cpu: ring.place.cpu,
            laps: laps.summary(),
            pipes: pipes.map(Durations::summary),
            clock: clock_cost(),
        };
        Outcome { result: Figures::ContextSwitch(result), check: self.hops.to_string() }
    }
}

/// Another ring. Its first process is a child too, and sends the token round whenever it is told to.
struct Worker {
    first: libc::pid_t,
    others: Vec<libc::pid_t>,
    orders: OwnedFd,
    answers: OwnedFd,
}

impl Worker {
    /// All is made and forked here, so that its first process takes no memory and starts nobody.
    fn start(wanted: &ContextSwitch, number: usize) -> io::Result<Self> {
        let mut laps = Durations::of(wanted.laps, "laps").map_err(io::Error::other)?;
        let mut ring = Ring::start(wanted, number)?;
        let (input, orders) = pipe()?;
        let (answers, output) = pipe()?;
        let first = fork(|| {
            close_inherited(orders.as_raw_fd());
            close_inherited(answers.as_raw_fd());
            let mut order = [0];
            while read_all(input.as_raw_fd(), &mut order) {
                let token = ring.go_round(&mut laps).unwrap_or(0);
                if !write_all(output.as_raw_fd(), &token.to_ne_bytes()) {
                    return 1;
                }
            }
            0
        })?;
        // The ring's pipes are that process's alone when they are closed here.
        Ok(Self { first, others: std::mem::take(&mut ring.children), orders, answers })
    }

    #[inline]
    fn begin(&self) {
        write_all(self.orders.as_raw_fd(), &[0]);
    }

    /// Its token, once it has gone round as often as it should; 0 where its ring is broken.
    fn hops(&self) -> u64 {
        let mut token = [0; size_of::<u32>()];
        let came = read_all(self.answers.as_raw_fd(), &mut token);
        if came { u64::from(u32::from_ne_bytes(token)) } else { 0 }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        end(self.first);
        self.others.drain(..).for_each(end);
    }
}

/// This process and its children, with a pipe from each to the next.
struct Ring {
    pipes: Vec<(OwnedFd, OwnedFd)>,
    children: Vec<libc::pid_t>,
    own: WorkingSet,
    place: Place,
}

impl Ring {
    /// `number`: which of the job's rings it is, from 0; it says on which CPU.
    fn start(wanted: &ContextSwitch, number: usize) -> io::Result<Self> {
        let (processes, bytes) = (wanted.processes, wanted.working_set_bytes as usize);
        let place = Place::take(number)?;
        let pipes = (0..processes).map(|_| pipe()).collect::<io::Result<Vec<_>>>()?;
        let ends: Vec<(RawFd, RawFd)> =
            pipes.iter().map(|(from, to)| (from.as_raw_fd(), to.as_raw_fd())).collect();
        let mut ring = Self { pipes, children: Vec::new(), own: WorkingSet::make(bytes)?, place };
        ring.children.reserve(processes);
        for number in 1..processes {
            let child = fork(|| member(&ends, number, bytes))?;
            ring.children.push(child);
        }
        // Everyone is there, and has touched its memory, when the token is back.
        let back = ring.lap(0).ok_or_else(|| io::Error::other("a process did not start"))?;
        if back as usize == processes {
            Ok(ring)
        } else {
            Err(io::Error::other("the token was not counted by every process"))
        }
    }

    /// Sends the token round as often as there is room for laps, and times each; none where the ring is broken.
    fn go_round(&mut self, laps: &mut Durations) -> Option<u32> {
        laps.clear();
        let mut token = 0;
        for _ in 0..laps.room() {
            let begin = monotonic_ns();
            token = self.lap(token)?;
            laps.push(monotonic_ns() - begin);
        }
        Some(token)
    }

    /// Sends the token round once; none where the ring is broken.
    #[inline]
    fn lap(&mut self, token: u32) -> Option<u32> {
        let (first, last) = (&self.pipes[0].1, &self.pipes[self.pipes.len() - 1].0);
        let mut bytes = token.to_ne_bytes();
        let went = write_all(first.as_raw_fd(), &bytes) && read_all(last.as_raw_fd(), &mut bytes);
        went.then(|| u32::from_ne_bytes(bytes).wrapping_add(self.own.sum()))
    }

    /// The same hops without a switch: laps of as many pipes, all in this process.
    fn without_switches(&mut self, laps: u64) -> Option<Durations> {
        for child in self.children.drain(..) {
            end(child);
        }
        let mut durations = Durations::of(laps, "laps").ok()?;
        for _ in 0..laps {
            let begin = monotonic_ns();
            let mut bytes = [0; size_of::<u32>()];
            for (from, to) in &self.pipes {
                if !write_all(to.as_raw_fd(), &bytes) || !read_all(from.as_raw_fd(), &mut bytes) {
                    return None;
                }
                std::hint::black_box(self.own.sum());
            }
            durations.push(monotonic_ns() - begin);
        }
        Some(durations)
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        for child in self.children.drain(..) {
            end(child);
        }
    }
}

/// A child's life: sums and passes on until the pipe before it ends.
fn member(ends: &[(RawFd, RawFd)], number: usize, bytes: usize) -> i32 {
    for (index, (from, to)) in ends.iter().enumerate() {
        if index != number - 1 {
            close_inherited(*from);
        }
        if index != number {
            close_inherited(*to);
        }
    }
    let Ok(mut own) = WorkingSet::make(bytes) else { return 1 };
    let mut token = [0; size_of::<u32>()];
    while read_all(ends[number - 1].0, &mut token) {
        let count = u32::from_ne_bytes(token).wrapping_add(own.sum());
        if !write_all(ends[number].1, &count.to_ne_bytes()) {
            return 1;
        }
    }
    0
}

/// What a process sums at its turn: all zero but the last word, so that the sum is 1 only when all was read.
struct WorkingSet(Option<Memory>);

impl WorkingSet {
    fn make(bytes: usize) -> io::Result<Self> {
        if bytes == 0 {
            return Ok(Self(None));
        }
        let mut memory = Memory::allocate(bytes)?;
        let words = memory.words();
        words.fill(std::hint::black_box(0)); // a page that was only read would be the kernel's common page of zeros
        if let Some(last) = words.last_mut() {
            *last = 1;
        }
        Ok(Self(Some(memory)))
    }

    #[inline]
    fn sum(&mut self) -> u32 {
        self.0.as_mut().map_or(1, |memory| {
            let words = std::hint::black_box(memory.words());
            words.iter().fold(0_u64, |sum, word| sum.wrapping_add(*word)) as u32
        })
    }
}

/// One CPU for this process and what it forks, for as long as this lives.
struct Place {
    before: Vec<usize>,
    cpu: Option<usize>,
}

impl Place {
    fn take(number: usize) -> io::Result<Self> {
        let before = allowed_cpus()?;
        let cpu = before.iter().cycle().nth(number).copied().filter(|_| before.len() > 1);
        if let Some(cpu) = cpu {
            pin(&[cpu])?;
        }
        Ok(Self { before, cpu })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.cpu.is_some() {
            let _ = pin(&self.before);
        }
    }
}
