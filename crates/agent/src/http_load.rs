//! `http-load`: an open loop of HTTP requests.
//!
//! Requests become due at a fixed rate, whatever the server does, and each one's latency counts from the moment when it
//! was due: one that has to wait for a connection, or for this thread, has waited. What is given up counts with the time
//! at which it was given up, so that the distribution leaves nothing out that the server owed.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::thread;

use virtoll_clock::{monotonic_ns, realtime_ns, thread_cpu_ns};
use virtoll_proto::reply::Word;
use virtoll_proto::reply::traffic::{self, HttpLoadCpu, ProcessorTimes};
use virtoll_proto::request::HttpLoad;
use virtoll_proto::{Error, ErrorKind};
use virtoll_wire::{Histogram, SessionPriority, prefer_this_thread};

use crate::processors::Processors;
use crate::sys;
use crate::traffic::answer::distribution;
use connection::{Connection, PORTION_BYTES, Progress, Stage};

mod connection;
mod reply;

const MOST_REQUESTS: u64 = 100_000_000;
const MOST_RATE: f64 = 1e6;
const MOST_CONNECTIONS: u32 = 4096;
const MOST_TIMEOUT_NS: u64 = 600_000_000_000;
/// The first request is due so long after the start.
const LEAD_NS: u64 = 1_000_000;
/// From here on a wait is spent looking at the clock.
const SPIN_NS: u64 = 50_000;
/// How long a server may take to close a connection that it said it would.
const LEAVE_NS: u64 = 1_000_000_000;

/// Carries the request out.
///
/// # Errors
/// `bad-request` for values outside their range, `system` for a call that failed.
pub fn run(request: &HttpLoad) -> Result<traffic::HttpLoad, Error> {
    check(request)?;
    let processors = Processors::read();
    let _priority = SessionPriority::raise();
    let joined = thread::scope(|scope| scope.spawn(|| on_this_thread(request)).join());
    let books = joined
        .map_err(|_| Error::new(ErrorKind::System, "http-load: its thread panicked"))?
        .map_err(|cause| Error::system("http-load", &cause))?;
    Ok(books.answer(request, processors.since_then()))
}

fn check(request: &HttpLoad) -> Result<(), Error> {
    let refuse = |sentence: String| Err(Error::bad_request(sentence));
    let rate = request.rate_requests_per_second;
    if !(rate > 0.0 && rate <= MOST_RATE) {
        return refuse("rate_requests_per_second must be above 0 and at most 1e6".to_owned());
    }
    if !(1..=MOST_REQUESTS).contains(&request.requests) {
        return refuse(format!("requests must be 1 to {MOST_REQUESTS}"));
    }
    if !(1..=MOST_CONNECTIONS).contains(&request.connections) {
        return refuse(format!("connections must be 1 to {MOST_CONNECTIONS}"));
    }
    if !(1..=MOST_TIMEOUT_NS).contains(&request.timeout_ns) {
        return refuse(format!("timeout_ns must be 1 to {MOST_TIMEOUT_NS}"));
    }
    let plain = request.path.bytes().all(|byte| byte.is_ascii_graphic());
    if !request.path.starts_with('/') || !plain {
        return refuse("path must begin with / and hold no blanks".to_owned());
    }
    Ok(())
}

fn on_this_thread(request: &HttpLoad) -> io::Result<Books> {
    prefer_this_thread();
    sys::wake_in_time();
    if let Some(cpu) = request.cpu {
        sys::pin(&[cpu as usize])?;
    }
    let before_ns = thread_cpu_ns();
    let mut books = Load::new(request).run()?;
    books.cpu_ns = thread_cpu_ns() - before_ns;
    Ok(books)
}

fn request_bytes(target: SocketAddr, path: &str, keep_alive: bool) -> Vec<u8> {
    let connection = if keep_alive { "keep-alive" } else { "close" };
    format!("GET {path} HTTP/1.1\r\nHost: {target}\r\nConnection: {connection}\r\n\r\n")
        .into_bytes()
}

/// What became of every request.
#[derive(Default)]
struct Books {
    start_realtime_ns: u64,
    start_monotonic_ns: u64,
    last_reply_monotonic_ns: Option<u64>,
    end_monotonic_ns: u64,
    statuses: BTreeMap<u16, u64>,
    failures: BTreeMap<Word, u64>,
    timeouts: u64,
    unsent: u64,
    body_bytes: u64,
    connections_opened: u64,
    connections_open_maximum: usize,
    latency: Histogram,
    service: Histogram,
    late: Histogram,
    cpu_ns: u64,
}

impl Books {
    fn answer(self, request: &HttpLoad, processors: Vec<ProcessorTimes>) -> traffic::HttpLoad {
        let summary = |times: &Histogram| {
            times.distribution().map(|summary| distribution(&summary, Some(times.buckets())))
        };
        traffic::HttpLoad {
            intended_requests: request.requests,
            replies: self.statuses.values().sum(),
            statuses: self.statuses,
            timeouts: self.timeouts,
            unsent_requests: self.unsent,
            failures: self.failures,
            body_bytes: self.body_bytes,
            connections_opened: self.connections_opened,
            connections_open_maximum: self.connections_open_maximum,
            start_realtime_ns: self.start_realtime_ns,
            start_monotonic_ns: self.start_monotonic_ns,
            last_reply_monotonic_ns: self.last_reply_monotonic_ns,
            end_monotonic_ns: self.end_monotonic_ns,
            latency_ns: summary(&self.latency),
            service_ns: summary(&self.service),
            late_ns: summary(&self.late),
            cpu: HttpLoadCpu { generator_cpu_ns: self.cpu_ns, core: request.cpu, processors },
        }
    }
}

/// The loop.
struct Load<'a> {
    request: &'a HttpLoad,
    bytes: Vec<u8>,
    interval_ns: f64,
    next: u64,
    /// When those were due that no connection was free for.
    waiting: VecDeque<u64>,
    open: Vec<Connection>,
    portion: Box<[u8]>,
    books: Books,
}

impl<'a> Load<'a> {
    fn new(request: &'a HttpLoad) -> Self {
        Self {
            request,
            bytes: request_bytes(request.target, &request.path, request.keep_alive),
            interval_ns: 1e9 / request.rate_requests_per_second,
            next: 0,
            waiting: VecDeque::new(),
            open: Vec::new(),
            portion: vec![0; PORTION_BYTES].into_boxed_slice(),
            books: Books::default(),
        }
    }

    fn run(mut self) -> io::Result<Books> {
        self.books.start_realtime_ns = realtime_ns() + LEAD_NS;
        self.books.start_monotonic_ns = monotonic_ns() + LEAD_NS;
        loop {
            self.give_up(monotonic_ns());
            self.take_due(monotonic_ns());
            while let Some(due_ns) = self.waiting.pop_front() {
                if !self.begin(due_ns) {
                    self.waiting.push_front(due_ns);
                    break;
                }
            }
            let all_due = self.next == self.request.requests && self.waiting.is_empty();
            if all_due && !self.open.iter().any(Connection::busy) {
                break;
            }
            self.wait()?;
        }
        self.books.end_monotonic_ns = monotonic_ns();
        Ok(self.books)
    }

    /// When request `number` is due; the interval is not rounded, so that the rate is kept.
    fn due_ns(&self, number: u64) -> u64 {
        self.books.start_monotonic_ns + (number as f64 * self.interval_ns) as u64
    }

    fn take_due(&mut self, now_ns: u64) {
        while self.next < self.request.requests && self.due_ns(self.next) <= now_ns {
            self.waiting.push_back(self.due_ns(self.next));
            self.next += 1;
        }
    }

    /// Begins a request on a connection that is free, or on a new one; false if there may be no more.
    fn begin(&mut self, due_ns: u64) -> bool {
        let now_ns = monotonic_ns();
        let idle = self.open.iter().position(|one| one.stage == Stage::Idle);
        let place = match idle {
            Some(place) => {
                self.open[place].reuse(due_ns, now_ns);
                place
            }
            None if self.open.len() >= self.request.connections as usize => return false,
            None => {
                self.books.late.record(now_ns.saturating_sub(due_ns));
                match Connection::open(self.request.target, due_ns, now_ns) {
                    Ok(connection) => {
                        self.open.push(connection);
                        self.books.connections_opened += 1;
                    }
                    Err(_) => self.failed("socket"),
                }
                let most = self.books.connections_open_maximum.max(self.open.len());
                self.books.connections_open_maximum = most;
                return true;
            }
        };
        self.books.late.record(now_ns.saturating_sub(due_ns));
        self.advance(place);
        true
    }

    fn failed(&mut self, way: &'static str) {
        *self.books.failures.entry(way.into()).or_default() += 1;
    }

    /// Asks a connection, and removes it where it is of no more use.
    fn advance(&mut self, place: usize) {
        let connection = &mut self.open[place];
        match connection.advance(&self.bytes, &mut self.portion) {
            Progress::Pending => return,
            Progress::Replied(reply) => {
                let now_ns = monotonic_ns();
                connection.stage = if self.request.keep_alive && !reply.closes {
                    Stage::Idle
                } else {
                    Stage::Leaving
                };
                let (due_ns, begun_ns) = (connection.due_ns, connection.begun_ns);
                self.books.latency.record(now_ns - due_ns);
                self.books.service.record(now_ns - begun_ns);
                self.books.last_reply_monotonic_ns = Some(now_ns);
                self.books.body_bytes += reply.body_bytes;
                *self.books.statuses.entry(reply.status).or_default() += 1;
                return;
            }
            Progress::Failed(way) => self.failed(way),
            Progress::Gone => {}
        }
        self.open.swap_remove(place);
    }

    /// What is too late is late by so much at least.
    fn give_up(&mut self, now_ns: u64) {
        let timeout_ns = self.request.timeout_ns;
        while self.waiting.front().is_some_and(|due_ns| due_ns + timeout_ns <= now_ns) {
            self.waiting.pop_front();
            self.books.unsent += 1;
            self.timed_out();
        }
        for place in (0..self.open.len()).rev() {
            let connection = &self.open[place];
            let limit_ns = if connection.busy() {
                connection.due_ns + timeout_ns
            } else if connection.stage == Stage::Leaving {
                connection.begun_ns + timeout_ns + LEAVE_NS
            } else {
                u64::MAX
            };
            if limit_ns <= now_ns {
                if connection.busy() {
                    self.timed_out();
                }
                self.open.swap_remove(place);
            }
        }
    }

    fn timed_out(&mut self) {
        self.books.timeouts += 1;
        self.books.latency.record(self.request.timeout_ns);
    }

    /// Waits until something is due, too late, or there.
    fn wait(&mut self) -> io::Result<()> {
        let mut until_ns =
            self.waiting.front().map_or(u64::MAX, |due_ns| due_ns + self.request.timeout_ns);
        for one in self.open.iter().filter(|one| one.busy()) {
            until_ns = until_ns.min(one.due_ns + self.request.timeout_ns);
        }
        if self.next < self.request.requests {
            until_ns = until_ns.min(self.due_ns(self.next).saturating_sub(SPIN_NS));
        }
        let left_ns = until_ns.saturating_sub(monotonic_ns());
        let wanted: Vec<_> = self.open.iter().map(Connection::wanted).collect();
        let ready = sys::wait(&wanted, Some(left_ns))?;
        // From the last on, so that a removal moves none that is still to be asked.
        for place in (0..ready.len()).rev().filter(|place| ready[*place]) {
            self.advance(place);
        }
        Ok(())
    }
}
