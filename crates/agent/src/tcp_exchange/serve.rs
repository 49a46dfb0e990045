//! `serve`: one exchange with the client that opens its connections, on threads of its own, while the session goes on.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use virtoll_clock::monotonic_ns;
use virtoll_proto::reply;
use virtoll_proto::request::{Serve, Side};
use virtoll_proto::{Error, ErrorKind};

use super::together::{Group, Outcome};
use super::{answer_to, check};
use crate::sys;

/// A listener with its threads; all end when this is dropped.
pub struct Served {
    outcome: Receiver<io::Result<Outcome>>,
    thread: Option<JoinHandle<()>>,
    cancel: Option<UnixStream>,
    group: Arc<Group>,
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
        let group = Arc::new(Group::default());
        let (tell, outcome) = channel();
        let thread = {
            let (group, wanted) = (Arc::clone(&group), wanted.clone());
            thread::Builder::new().name("serve".to_owned()).spawn(move || {
                // Nobody listens any more where the trial came to nothing.
                let _ = tell.send(serve(&wanted, &listener, &cancelled, &group));
            })
        };
        let thread = Some(thread.map_err(system)?);
        Ok((Self { outcome, thread, cancel: Some(cancel), group }, reply::Serve { port }))
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
        let outcome = outcome.map_err(|cause| Error::system("serve", &cause))?;
        let (result, check) = (outcome.result, outcome.check);
        let (tcp, connections) = (outcome.tcp, outcome.connections);
        Ok(reply::ServeFinish { result, check, tcp, connections })
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.cancel = None;
        self.group.shut_down();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The last connection is this thread's own; each other one has another, pinned as this one is.
fn serve(
    wanted: &Serve,
    listener: &TcpListener,
    cancelled: &UnixStream,
    group: &Group,
) -> io::Result<Outcome> {
    if let Some(cpu) = wanted.cpu {
        sys::pin(&[cpu])?;
    }
    let exchange = &wanted.exchange;
    let converse = |stream: &TcpStream| group.settle(answer_to(exchange, stream));
    let carried = thread::scope(|scope| {
        let begin = || {
            let mut others = Vec::new();
            for _ in 1..exchange.connections() {
                let stream = joined(wanted, listener, cancelled, group)?;
                let named = thread::Builder::new().name("serve".to_owned());
                others.push(named.spawn_scoped(scope, move || converse(&stream))?);
            }
            Ok((joined(wanted, listener, cancelled, group)?, others))
        };
        match begin() {
            Ok((own, others)) => {
                let own = converse(&own);
                let others = others.into_iter().map(|other| other.join().ok().flatten());
                others.chain([own]).collect()
            }
            Err(cause) => {
                group.fail(cause);
                Vec::new()
            }
        }
    });
    group.outcome(exchange, Side::Listener, carried)
}

/// The next connection, ready and in the group.
fn joined(
    wanted: &Serve,
    listener: &TcpListener,
    cancelled: &UnixStream,
    group: &Group,
) -> io::Result<Arc<TcpStream>> {
    let stream = Arc::new(accept(wanted, listener, cancelled)?);
    group.add(&stream);
    // Whoever dropped the other end before the line above could not shut it down.
    if sys::wait(&[(cancelled.as_fd(), false)], Some(0))? == [true] {
        return Err(io::ErrorKind::Interrupted.into());
    }
    prepare(&stream, wanted.timeout_ns)?;
    Ok(stream)
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
pub(super) fn prepare(stream: &TcpStream, timeout_ns: u64) -> io::Result<()> {
    let timeout = Some(Duration::from_nanos(timeout_ns.max(1)));
    stream.set_read_timeout(timeout)?;
    stream.set_write_timeout(timeout)
}

#[cfg(test)]
mod tests {
    use super::super::Opened;
    use super::*;
    use std::io::{Read, Write};
    use virtoll_proto::request::Exchange;

    fn wanted(timeout_ns: u64) -> Serve {
        served_by(1, timeout_ns)
    }

    fn served_by(connections: u32, timeout_ns: u64) -> Serve {
        let (active, bytes, message_bytes) = (Side::Opener, 1_000, 100);
        let exchange = Exchange::Stream { active, bytes, message_bytes, connections };
        let address = std::net::Ipv4Addr::LOCALHOST;
        Serve { address, port: 0, cpu: None, exchange, timeout_ns }
    }

    #[test]
    #[cfg_attr(miri, ignore = "ppoll(2)")]
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
    #[cfg_attr(miri, ignore = "ppoll(2)")]
    fn one_that_does_not_end_is_told() {
        let (served, _) = Served::open(&wanted(1_000_000)).unwrap();
        let error = served.finish(120_000_000_000).unwrap_err();
        assert!(error.message.contains("nobody opened"), "{}", error.message);
        let (served, _) = Served::open(&wanted(u64::MAX / 2)).unwrap();
        assert!(served.finish(1_000_000).unwrap_err().message.contains("not ended in time"));
    }

    #[test]
    #[cfg_attr(miri, ignore = "ppoll(2)")]
    fn several_connections_are_served_at_once() {
        let wanted = served_by(7, u64::MAX / 2);
        let (served, answer) = Served::open(&wanted).unwrap();
        let at = SocketAddr::from((wanted.address, answer.port));
        let opened = Opened::connect(&wanted.exchange, at, u64::MAX / 2).unwrap();
        let ours = opened.carry_out().unwrap();
        let theirs = served.finish(u64::MAX / 2).unwrap();
        assert_eq!((ours.check.as_str(), theirs.check.as_str()), ("1000", "1000"));
        assert_eq!((ours.connections.len(), theirs.connections.len()), (7, 7));
        assert_eq!((ours.tcp, theirs.tcp), (None, None));
    }

    #[test]
    #[cfg_attr(miri, ignore = "ppoll(2)")]
    fn what_waits_for_its_start_ends_with_its_owner() {
        let wanted = served_by(3, u64::MAX / 2);
        let (served, answer) = Served::open(&wanted).unwrap();
        let at = SocketAddr::from((wanted.address, answer.port));
        drop(Opened::connect(&wanted.exchange, at, u64::MAX / 2).unwrap());
        assert!(served.finish(u64::MAX / 2).is_err(), "nobody began");
    }

    #[test]
    #[cfg_attr(miri, ignore = "ppoll(2)")]
    fn a_connection_that_fails_ends_the_others_at_both_ends() {
        let wanted = served_by(2, u64::MAX / 2);
        let (served, answer) = Served::open(&wanted).unwrap();
        let at = SocketAddr::from((wanted.address, answer.port));
        let mut own = TcpStream::connect(at).unwrap();
        let mut strange = TcpStream::connect(at).unwrap();
        own.write_all(b"V\0\0\0\0").unwrap();
        strange.write_all(b"GET / HTTP/1.1\r\n").unwrap();
        let error = served.finish(u64::MAX / 2).unwrap_err();
        assert!(error.message.contains("this is not the agent"), "{}", error.message);
        let mut byte = [0];
        assert!(!matches!(own.read(&mut byte), Ok(1)), "it is shut down");
    }

    #[test]
    #[cfg_attr(miri, ignore = "ppoll(2)")]
    fn a_client_with_too_few_connections_is_not_waited_for() {
        let wanted = served_by(2, 50_000_000);
        let (served, answer) = Served::open(&wanted).unwrap();
        let own = TcpStream::connect((wanted.address, answer.port)).unwrap();
        assert!(served.finish(120_000_000_000).is_err());
        drop(own);
    }
}
