//! The timekeeper: a thread for each interface captures the marks with the kernel's receive stamps and keeps them until
//! they are asked for. No guest's frames reach the marks of another one's interface.

use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use virtoll_clock::realtime_minus_monotonic_ns;
use virtoll_proto::Error;
use virtoll_proto::reply::{self, Mark};
use virtoll_proto::request::Marks;
use virtoll_wire::icmp::{EchoKind, EchoRepr};
use virtoll_wire::{PacketKind, PacketSocket};

/// The most marks of an interface that are kept; beyond it the oldest go, so that a flood does not fill the memory.
const MOST_MARKS: usize = 1 << 16;
/// The capture thread looks for the end of its interface this often.
const WAIT_NS: u64 = 1_000_000_000;

#[derive(Default)]
struct Captured {
    marks: Mutex<VecDeque<Mark>>,
    arrived: Condvar,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What arrives on one interface. Its index says which: a guest that is started anew brings a new one of the same name.
struct Capture {
    interface: String,
    index: u32,
    captured: Arc<Captured>,
    thread: thread::JoinHandle<()>,
}

/// The captures of this session, the newest last.
#[derive(Default)]
pub struct Timekeeper {
    captures: Vec<Capture>,
}

impl Timekeeper {
    /// Opens the capture of an interface; one that is open stays, and one whose interface is gone has ended by itself.
    ///
    /// # Errors
    /// `system` if there is no such interface or no right to capture.
    pub fn start(&mut self, interface: &str) -> Result<reply::Empty, Error> {
        let what = format!("capture on {interface}");
        let system = |cause: io::Error| Error::system(&what, &cause);
        let index = virtoll_wire::interface_index(interface).map_err(system)?;
        self.captures.retain(|one| !one.thread.is_finished());
        if self.captures.iter().any(|one| one.index == index) {
            return Ok(reply::Empty {});
        }
        let socket = PacketSocket::for_icmp(interface).map_err(system)?;
        let captured = Arc::<Captured>::default();
        let kept = Arc::clone(&captured);
        let thread = thread::Builder::new()
            .name("timekeeper".to_owned())
            .spawn(move || {
                // The only error is that the interface is gone: `marks` reports a mark that is missing because of it.
                let _gone = capture(&socket, &kept);
            })
            .map_err(system)?;
        self.captures.push(Capture { interface: interface.to_owned(), index, captured, thread });
        Ok(reply::Empty {})
    }

    /// Waits for marks and hands them out.
    ///
    /// # Errors
    /// `bad-request` if no capture of the interface was started.
    pub fn marks(&self, wanted: &Marks) -> Result<reply::Marks, Error> {
        let interface = &wanted.interface;
        let captured = self
            .captures
            .iter()
            .rev()
            .find(|one| one.interface == *interface)
            .map(|one| &one.captured)
            .ok_or_else(|| {
                Error::bad_request(format!(
                    "no timekeeper is started on {interface}; send timekeeper-start first"
                ))
            })?;
        let deadline = Instant::now().checked_add(Duration::from_nanos(wanted.timeout_ns));
        let mut marks = locked(&captured.marks);
        let is_wanted = |mark: &Mark| mark.identifier == wanted.identifier;
        loop {
            let there = distinct(marks.iter().filter(|mark| is_wanted(mark)));
            let left = deadline.map_or(Duration::from_secs(3_600), |deadline| {
                deadline.saturating_duration_since(Instant::now())
            });
            if there >= wanted.wait_for as usize || left.is_zero() {
                break;
            }
            let wait = captured.arrived.wait_timeout(marks, left);
            marks = wait.unwrap_or_else(PoisonError::into_inner).0;
        }
        let (taken, kept): (Vec<Mark>, Vec<Mark>) = marks.drain(..).partition(is_wanted);
        *marks = kept.into();
        let missing = (wanted.wait_for as usize).saturating_sub(distinct(taken.iter()));
        Ok(reply::Marks { marks: taken, missing })
    }
}

/// How many marks these are: a guest that pauses once more sends its start mark once more.
fn distinct<'a>(marks: impl Iterator<Item = &'a Mark>) -> usize {
    marks.map(|mark| mark.sequence).collect::<BTreeSet<_>>().len()
}

fn capture(socket: &PacketSocket, captured: &Captured) -> io::Result<()> {
    let mut buffer = [0; 2048];
    loop {
        let Some(received) = socket.receive(&mut buffer, WAIT_NS)? else { continue };
        if received.kind == PacketKind::Outgoing {
            continue;
        }
        let Some(echo) = EchoRepr::parse(&buffer[..received.bytes]) else { continue };
        if echo.kind != EchoKind::Request {
            continue;
        }
        let mark = Mark {
            identifier: echo.identifier,
            sequence: echo.sequence,
            received_realtime_ns: received.realtime_ns,
            realtime_minus_monotonic_ns: realtime_minus_monotonic_ns(),
        };
        let mut marks = locked(&captured.marks);
        if marks.len() >= MOST_MARKS {
            marks.pop_front();
        }
        marks.push_back(mark);
        captured.arrived.notify_all();
    }
}
