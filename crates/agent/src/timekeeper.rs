//! The timekeeper: a thread captures the marks with the kernel's receive stamps and keeps them until they are asked for.

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

/// The most marks that are kept; beyond it the oldest go, so that a flood does not fill the memory.
const MOST_MARKS: usize = 1 << 16;
/// The capture thread looks for the end of its interface this often.
const WAIT_NS: u64 = 1_000_000_000;

#[derive(Default)]
struct Captured {
    marks: Mutex<Vec<Mark>>,
    arrived: Condvar,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The captures of this session.
#[derive(Default)]
pub struct Timekeeper {
    captured: Arc<Captured>,
    /// By interface index: a guest that is started anew brings a new interface of the same name.
    captures: Vec<(u32, thread::JoinHandle<()>)>,
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
        self.captures.retain(|(_, thread)| !thread.is_finished());
        if self.captures.iter().any(|(open, _)| *open == index) {
            return Ok(reply::Empty {});
        }
        let socket = PacketSocket::for_icmp(interface).map_err(system)?;
        let captured = Arc::clone(&self.captured);
        let thread = thread::Builder::new()
            .name("timekeeper".to_owned())
            .spawn(move || {
                // The only error is that the interface is gone: `marks` reports a mark that is missing because of it.
                let _gone = capture(&socket, &captured);
            })
            .map_err(system)?;
        self.captures.push((index, thread));
        Ok(reply::Empty {})
    }

    /// Waits for marks and hands them out.
    ///
    /// # Errors
    /// `bad-request` if no capture was ever started.
    pub fn marks(&mut self, wanted: &Marks) -> Result<reply::Marks, Error> {
        if self.captures.is_empty() {
            return Err(Error::bad_request(
                "no timekeeper is started; send timekeeper-start first",
            ));
        }
        let deadline = Instant::now().checked_add(Duration::from_nanos(wanted.timeout_ns));
        let mut marks = locked(&self.captured.marks);
        let is_wanted = |mark: &Mark| mark.identifier == wanted.identifier;
        loop {
            let there = marks.iter().filter(|mark| is_wanted(mark)).count();
            let left = deadline.map_or(Duration::from_secs(3_600), |deadline| {
                deadline.saturating_duration_since(Instant::now())
            });
            if there >= wanted.wait_for as usize || left.is_zero() {
                break;
            }
            let wait = self.captured.arrived.wait_timeout(marks, left);
            marks = wait.unwrap_or_else(PoisonError::into_inner).0;
        }
        let (taken, kept): (Vec<Mark>, Vec<Mark>) = marks.drain(..).partition(is_wanted);
        *marks = kept;
        let missing = (wanted.wait_for as usize).saturating_sub(taken.len());
        Ok(reply::Marks { marks: taken, missing })
    }
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
            marks.remove(0);
        }
        marks.push(mark);
        captured.arrived.notify_all();
    }
}
