//! One connection to the server, which never waits: it goes as far as it can each time that it is asked.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};

use socket2::{Domain, Protocol, Socket, Type};

use super::reply::Reply;

/// The most that is read at once.
pub const PORTION_BYTES: usize = 64 << 10;

/// Where a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// No answer from the server's kernel yet.
    Connecting,
    /// The request is on its way into the kernel.
    Sending,
    /// The reply is not whole.
    Waiting,
    /// Nothing is asked; it can be used again.
    Idle,
    /// Nothing is asked, and the server closes it.
    Leaving,
}

/// What came of asking it.
#[derive(Debug)]
pub enum Progress {
    /// Nothing to tell.
    Pending,
    /// The reply is whole.
    Replied(Reply),
    /// The request came to nothing: in which way.
    Failed(&'static str),
    /// The server has closed a connection of which nothing was asked.
    Gone,
}

/// A connection, and the request that is on it.
pub struct Connection {
    stream: TcpStream,
    /// Where it is.
    pub stage: Stage,
    /// When the request was due.
    pub due_ns: u64,
    /// When it was begun: the connection was asked for, or the request was handed to one that was there.
    pub begun_ns: u64,
    written_bytes: usize,
    reply: Reply,
}

impl Connection {
    /// Asks for one, for a request that was due at `due_ns`.
    ///
    /// # Errors
    /// There is no socket, no port, or no way to the server.
    pub fn open(target: SocketAddr, due_ns: u64, now_ns: u64) -> io::Result<Self> {
        let socket = Socket::new(Domain::for_address(target), Type::STREAM, Some(Protocol::TCP))?;
        socket.set_nonblocking(true)?;
        socket.set_tcp_nodelay(true)?;
        match socket.connect(&target.into()) {
            Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => return Err(error),
            _ => {}
        }
        Ok(Self {
            stream: socket.into(),
            stage: Stage::Connecting,
            due_ns,
            begun_ns: now_ns,
            written_bytes: 0,
            reply: Reply::default(),
        })
    }

    /// Puts another request on an idle one.
    pub fn reuse(&mut self, due_ns: u64, now_ns: u64) {
        self.stage = Stage::Sending;
        self.due_ns = due_ns;
        self.begun_ns = now_ns;
        self.written_bytes = 0;
    }

    /// Whether a request is on it.
    pub fn busy(&self) -> bool {
        matches!(self.stage, Stage::Connecting | Stage::Sending | Stage::Waiting)
    }

    /// The descriptor to wait on, and whether for writing.
    pub fn wanted(&self) -> (BorrowedFd<'_>, bool) {
        (self.stream.as_fd(), matches!(self.stage, Stage::Connecting | Stage::Sending))
    }

    /// Goes as far as it can with the bytes of the request.
    pub fn advance(&mut self, request: &[u8], portion: &mut [u8]) -> Progress {
        if self.stage == Stage::Connecting {
            match self.stream.take_error() {
                Ok(None) if self.stream.peer_addr().is_err() => return Progress::Pending,
                Ok(None) => self.stage = Stage::Sending,
                Ok(Some(_)) | Err(_) => return Progress::Failed("connect"),
            }
        }
        while self.stage == Stage::Sending {
            match self.stream.write(&request[self.written_bytes..]) {
                Ok(count) => self.written_bytes += count,
                Err(error) if waits(&error) => return Progress::Pending,
                Err(_) => return Progress::Failed("send"),
            }
            if self.written_bytes == request.len() {
                self.stage = Stage::Waiting;
            }
        }
        loop {
            let count = match self.stream.read(portion) {
                Ok(count) => count,
                Err(error) if waits(&error) => return Progress::Pending,
                Err(_) if self.busy() => return Progress::Failed("receive"),
                Err(_) => return Progress::Gone,
            };
            if !self.busy() {
                return Progress::Gone;
            }
            if count == 0 {
                return Progress::Failed("closed");
            }
            match self.reply.take(&portion[..count]) {
                Ok(false) => {}
                Ok(true) => return Progress::Replied(std::mem::take(&mut self.reply)),
                Err(_) => return Progress::Failed("malformed"),
            }
        }
    }
}

fn waits(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}
