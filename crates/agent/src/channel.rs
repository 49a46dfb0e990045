//! The byte stream to the controller: stdio, a virtio-serial port, a serial console or any other file.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde::Serialize;
use virtoll_proto::reply::{Outcome, to_line};
use virtoll_proto::{Answer, Error, ErrorKind, Event, LineBuffer, LineTooLong, MAXIMUM_LINE_BYTES};

use crate::sys;

/// The name of the virtio-serial port that is ours.
const PORT_NAME: &str = "virtoll";
/// How long a port may take to appear and its other end to connect.
const PORT_DEADLINE: Duration = Duration::from_secs(60);
/// Between two looks at a port: neither its name nor its connection can be waited for.
const PORT_INTERVAL: Duration = Duration::from_millis(2);

/// The stream, with the lines that have not been taken yet.
pub struct Channel {
    input: File,
    output: File,
    lines: LineBuffer,
    portion: Vec<u8>,
    paced: bool,
    taken_bytes: u64,
}

impl Channel {
    /// Opens `stdio`, `virtio-serial` or a path; a terminal is set raw.
    ///
    /// `paced`: an event acknowledges each portion of an incomplete request, so that the other end can hold back what a
    /// serial line would lose.
    ///
    /// # Errors
    /// The path cannot be opened, or no port of our name appears.
    pub fn open(name: &str, paced: bool) -> io::Result<Self> {
        let (input, output) = match name {
            "stdio" => sys::take_stdio()?,
            "virtio-serial" => both(&find_port()?)?,
            path => both(&PathBuf::from(path))?,
        };
        if name == "virtio-serial" {
            wait_for_connection(&input)?;
        }
        let mut channel = Self {
            input,
            output,
            lines: LineBuffer::default(),
            portion: vec![0; 64 << 10],
            paced,
            taken_bytes: 0,
        };
        if name != "stdio" && sys::make_raw(channel.input.as_fd())? {
            // Ends whatever the console has printed on the line so far.
            channel.output.write_all(b"\n")?;
        }
        Ok(channel)
    }

    /// The descriptor to wait on.
    pub fn input(&self) -> BorrowedFd<'_> {
        self.input.as_fd()
    }

    /// Reads what is there; false at the end of the stream.
    ///
    /// # Errors
    /// The read's; on a paced channel the write's.
    pub fn fill(&mut self) -> io::Result<bool> {
        match self.input.read(&mut self.portion) {
            Ok(0) => Ok(false),
            Ok(bytes) => {
                self.lines.push(&self.portion[..bytes]);
                self.taken_bytes += bytes as u64;
                if self.paced && self.lines.is_partial() {
                    self.event(&Event::Taken { bytes: self.taken_bytes })?;
                }
                Ok(true)
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// The next whole line.
    pub fn next_line(&mut self) -> Option<Result<Vec<u8>, LineTooLong>> {
        self.lines.next_line()
    }

    /// Sends an answer; one that is longer than a line may be becomes a `limit` error.
    ///
    /// # Errors
    /// The write's.
    pub fn answer(&mut self, answer: &Answer) -> io::Result<()> {
        let line = to_line(answer);
        if line.len() <= MAXIMUM_LINE_BYTES {
            return self.output.write_all(&line);
        }
        let message =
            format!("the answer has {} bytes; a line has at most {MAXIMUM_LINE_BYTES}", line.len());
        let error = Outcome::Error(Error::new(ErrorKind::Limit, message));
        self.send(&Answer { id: answer.id, outcome: error })
    }

    /// Sends an event.
    ///
    /// # Errors
    /// The write's.
    pub fn event(&mut self, event: &Event) -> io::Result<()> {
        self.send(event)
    }

    fn send<T: Serialize>(&mut self, message: &T) -> io::Result<()> {
        self.output.write_all(&to_line(message))
    }
}

fn both(path: &PathBuf) -> io::Result<(File, File)> {
    let input = OpenOptions::new().read(true).write(true).open(path)?;
    let output = input.try_clone()?;
    Ok((input, output))
}

/// Waits for the port of our name: `/dev/virtio-ports` is udev's, which a small guest does not have.
fn find_port() -> io::Result<PathBuf> {
    let deadline = Instant::now() + PORT_DEADLINE;
    while Instant::now() < deadline {
        for entry in fs::read_dir("/sys/class/virtio-ports").into_iter().flatten().flatten() {
            let name = fs::read_to_string(entry.path().join("name")).unwrap_or_default();
            let device = PathBuf::from("/dev").join(entry.file_name());
            if name.trim() == PORT_NAME && device.exists() {
                return Ok(device);
            }
        }
        std::thread::sleep(PORT_INTERVAL);
    }
    Err(io::Error::new(io::ErrorKind::NotFound, "no virtio-serial port named virtoll appeared"))
}

/// Waits until the other end is there: what is written before is lost, and reading would look like its end.
fn wait_for_connection(port: &File) -> io::Result<()> {
    let deadline = Instant::now() + PORT_DEADLINE;
    while sys::hung_up(port.as_fd())? {
        if Instant::now() >= deadline {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "nobody connected to the port"));
        }
        std::thread::sleep(PORT_INTERVAL);
    }
    Ok(())
}
