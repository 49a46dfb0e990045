//! `serve`: one exchange with the first client that connects, on its own thread, while the session goes on.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use virtoll_clock::monotonic_ns;
use virtoll_proto::reply::{self, TcpInformation};
use virtoll_proto::request::{Serve, Side};
use virtoll_proto::{Error, ErrorKind};

use super::{Carried, carry_out, check, tcp_information};
use crate::sys;

/// A listener with its thread; both end when this is dropped.
pub struct Served {
    outcome: Receiver<io::Result<(Carried, Option<TcpInformation>)>>,
    thread: Option<JoinHandle<()>>,
    cancel: Option<UnixStream>,
    connection: Arc<Mutex<Option<TcpStream>>>,
}

impl Served {
    /// Listens from here on; the answer says at which port.
    ///
    /// # Errors
    /// `bad-request` for sizes out of range, `system` for an address that cannot be listened at.
    pub fn open(wanted: &Serve) -> Result<(Self, reply::Serve), Error> {
        check(&wanted.exchange)?;
        let at = SocketAddr::from((wanted.address, wanted.port));
        let system = |cause: io::Error| Error::system(format!("listen at {at}"), &cause);
        let listener = TcpListener::bind(at).map_err(system)?;
        let port = listener.local_addr().map_err(system)?.port();
        let (cancel, cancelled) = UnixStream::pair().map_err(system)?;
        let connection = Arc::new(Mutex::new(None));
        let (tell, outcome) = channel();
        let thread = {
            let (connection, wanted) = (Arc::clone(&connection), wanted.clone());
            thread::Builder::new().name("serve".to_owned()).spawn(move || {
                // Nobody listens any more where the trial came to nothing.
                let _ = tell.send(serve(&wanted, &listener, &cancelled, &connection));
            })
        };
        let thread = Some(thread.map_err(system)?);
        Ok((Self { outcome, thread, cancel: Some(cancel), connection }, reply::Serve { port }))
    }

    /// Waits for the end of the exchange.
    ///
    /// # Errors
    /// `system` for a connection that failed, or did not end in time.
    pub fn finish(self, timeout_ns: u64) -> Result<reply::ServeFinish, Error> {
        let outcome =
            self.outcome.recv_timeout(Duration::from_nanos(timeout_ns)).map_err(|_| {
                Error::new(ErrorKind::System, "serve: the exchange has not ended in time")
            })?;
        let (carried, tcp) = outcome.map_err(|cause| Error::system("serve", &cause))?;
        Ok(reply::ServeFinish { result: carried.result, check: carried.check, tcp })
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.cancel = None;
        if let Some(open) = self.connection.lock().unwrap_or_else(PoisonError::into_inner).take() {
            // One that is closed already cannot be shut down, and need not be.
            let _ = open.shutdown(std::net::Shutdown::Both);
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn serve(
    wanted: &Serve,
    listener: &TcpListener,
    cancelled: &UnixStream,
    connection: &Mutex<Option<TcpStream>>,
) -> io::Result<(Carried, Option<TcpInformation>)> {
    if let Some(cpu) = wanted.cpu {
        sys::pin(&[cpu])?;
    }
    let stream = accept(wanted, listener, cancelled)?;
    *connection.lock().unwrap_or_else(PoisonError::into_inner) = Some(stream.try_clone()?);
    // Whoever dropped the other end before the line above could not shut it down.
    if sys::wait(&[(cancelled.as_fd(), false)], Some(0))? == [true] {
        return Err(io::ErrorKind::Interrupted.into());
    }
    prepare(&stream, wanted.timeout_ns)?;
    let carried = carry_out(&wanted.exchange, Side::Listener, &stream)?;
    Ok((carried, tcp_information(&stream)))
}

fn accept(wanted: &Serve, listener: &TcpListener, cancelled: &UnixStream) -> io::Result<TcpStream> {
    let deadline_ns = monotonic_ns().saturating_add(wanted.timeout_ns);
    loop {
        let left_ns = deadline_ns.saturating_sub(monotonic_ns());
        if left_ns == 0 {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "nobody opened a connection"));
        }
        let wanted = [(listener.as_fd(), false), (cancelled.as_fd(), false)];
        match sys::wait(&wanted, Some(left_ns))?[..] {
            [_, true] => return Err(io::ErrorKind::Interrupted.into()),
            [true, _] => return listener.accept().map(|(stream, _)| stream),
            _ => {}
        }
    }
}

/// The longest time without progress of one read or write.
fn prepare(stream: &TcpStream, timeout_ns: u64) -> io::Result<()> {
    let timeout = Some(Duration::from_nanos(timeout_ns.max(1)));
    stream.set_read_timeout(timeout)?;
    stream.set_write_timeout(timeout)
}

/// Opens a connection to the server.
///
/// # Errors
/// The call's.
pub fn open(at: SocketAddr, timeout_ns: u64) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&at, Duration::from_nanos(timeout_ns.max(1)))?;
    prepare(&stream, timeout_ns)?;
    Ok(stream)
}

#[cfg(test)]
mod tests {
    use super::*;
    use virtoll_proto::request::Exchange;

    fn wanted(timeout_ns: u64) -> Serve {
        let exchange = Exchange::Stream { active: Side::Opener, bytes: 1_000, message_bytes: 100 };
        let address = std::net::Ipv4Addr::LOCALHOST;
        Serve { address, port: 0, cpu: None, exchange, timeout_ns }
    }

    #[test]
    fn what_nobody_finishes_ends_with_its_owner() {
        let (served, answer) = Served::open(&wanted(u64::MAX / 2)).unwrap();
        drop(served);
        let (served, second) = Served::open(&wanted(u64::MAX / 2)).unwrap();
        let port = second.port;
        let held = TcpStream::connect(("127.0.0.1", port)).unwrap();
        drop(served);
        drop(held);
        assert!(answer.port > 0);
    }

    #[test]
    fn one_that_does_not_end_is_told() {
        let (served, _) = Served::open(&wanted(1_000_000)).unwrap();
        let error = served.finish(120_000_000_000).unwrap_err();
        assert!(error.message.contains("nobody opened"), "{}", error.message);
        let (served, _) = Served::open(&wanted(u64::MAX / 2)).unwrap();
        assert!(served.finish(1_000_000).unwrap_err().message.contains("not ended in time"));
    }
}
