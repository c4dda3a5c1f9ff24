//! Input of a session, handed to the monitor of its process (conmon) without Podman in between.
//!
//! Podman passes input on over the connection on which it hears output. When a process ends before its input does, as `head -1` always
//! does, the monitor leaves with input unread, which resets that connection: Podman then drops what the process said last, and writes
//! an error of its own into what the client sees. A monitor takes input from every connection to its `attach` socket; here it has one
//! of its own, so that Podman's carries output only and ends as output ends.

use std::{
    fs::OpenOptions,
    io::{self, ErrorKind},
    os::{
        fd::AsRawFd as _,
        unix::{self, fs::OpenOptionsExt as _},
    },
    path::{Path, PathBuf},
    pin::Pin,
    sync::Arc,
};

use nix::{
    fcntl::OFlag,
    sys::socket::{
        AddressFamily, MsgFlags, Shutdown, SockFlag, SockType, UnixAddr, connect, recv, send, shutdown, socket,
    },
};
use tokio::{
    io::{AsyncWrite, AsyncWriteExt as _, Interest},
    net::UnixStream,
};

/// Largest message: less than what monitors of all versions read at a time, since the rest of a message would be lost.
const MESSAGE: usize = 8 * 1024;

/// Where the input of a session goes.
pub(super) enum Input {
    /// To its monitor.
    Monitor(Arc<UnixStream>),
    /// To Podman, whose files are not on this machine.
    Podman(Pin<Box<dyn AsyncWrite + Send>>),
    /// Nowhere: the process has ended, or has no input any more.
    Ended,
}

impl Input {
    /// Connects to the monitor whose socket is in the directory; `podman` is what to fall back to. `files` is a directory of the
    /// container that is there as long as the container is, if Podman's files can be seen at all.
    pub(super) fn open(files: &Path, session: Option<&str>, podman: Pin<Box<dyn AsyncWrite + Send>>) -> Self {
        let dir = session.map_or_else(|| files.to_owned(), |id| files.join(id));
        match connected(&dir) {
            Ok(socket) => Self::Monitor(Arc::new(socket)),
            // Podman connected a moment ago: what is not there any more has ended.
            Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) && files.is_dir() => {
                Self::Ended
            }
            Err(e) => {
                tracing::debug!(error = %e, dir = %dir.display(), "no connection to a monitor; input goes through podman");
                Self::Podman(podman)
            }
        }
    }

    /// Passes bytes on. What comes after the end of the process is dropped.
    pub(super) async fn write(&mut self, bytes: &[u8]) {
        let done = match self {
            Self::Monitor(socket) => send_all(socket, bytes).await,
            Self::Podman(stream) => match stream.write_all(bytes).await {
                Ok(()) => stream.flush().await,
                failed => failed,
            },
            Self::Ended => Ok(()),
        };
        if let Err(e) = done {
            tracing::debug!(error = %e, "input of a session that has ended");
            *self = Self::Ended;
        }
    }

    /// The end of input. Fine when the process has ended.
    pub(super) async fn close(&mut self) {
        let done = match std::mem::replace(self, Self::Ended) {
            Self::Monitor(socket) => shutdown(socket.as_raw_fd(), Shutdown::Write).map_err(io::Error::from),
            Self::Podman(mut stream) => stream.shutdown().await,
            Self::Ended => Ok(()),
        };
        if let Err(e) = done {
            tracing::debug!(error = %e, "end of input of a session that has ended");
        }
    }

    /// Reads what the monitor says on the input's connection, which it says on Podman's too, and forgets it: a monitor waits for
    /// whoever does not read. Never ready, so that it ends with the session.
    pub(super) fn discard_output(&self) -> impl Future<Output = ()> + use<> {
        let socket = if let Self::Monitor(socket) = self { Some(socket.clone()) } else { None };
        async move {
            if let Some(socket) = socket {
                let mut buffer = vec![0; 2 * MESSAGE];
                while socket.readable().await.is_ok() {
                    // Not `try_read`: that takes a read that leaves room for the last one there is, and this one ends with a message.
                    let message = || Ok(recv(socket.as_raw_fd(), &mut buffer, MsgFlags::empty())?);
                    match socket.try_io(Interest::READABLE, message) {
                        Ok(0) => break,
                        Err(e) if e.kind() != ErrorKind::WouldBlock => break,
                        Ok(_) | Err(_) => {}
                    }
                }
            }
            std::future::pending().await
        }
    }
}

/// The directory of a container in which its monitor's socket is, and those of its commands, from the path of its OCI configuration.
pub(super) fn directory(oci_config: &str) -> PathBuf {
    Path::new(oci_config).parent().unwrap_or(Path::new("")).to_owned()
}

/// A connection to the socket `attach` of a directory, whose path may be longer than addresses of sockets can be.
fn connected(dir: &Path) -> io::Result<UnixStream> {
    let flags = (OFlag::O_PATH | OFlag::O_DIRECTORY).bits();
    let dir = OpenOptions::new().read(true).custom_flags(flags).open(dir)?;
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    let socket = socket(AddressFamily::Unix, SockType::SeqPacket, flags, None)?;
    let path = format!("/proc/self/fd/{}/attach", dir.as_raw_fd());
    connect(socket.as_raw_fd(), &UnixAddr::new(path.as_str())?)?;
    UnixStream::from_std(unix::net::UnixStream::from(socket))
}

async fn send_all(socket: &UnixStream, bytes: &[u8]) -> io::Result<()> {
    for message in bytes.chunks(MESSAGE) {
        loop {
            socket.writable().await?;
            // A message is sent as a whole or not at all.
            let sent = || Ok(send(socket.as_raw_fd(), message, MsgFlags::MSG_NOSIGNAL)?);
            match socket.try_io(Interest::WRITABLE, sent) {
                Err(e) if e.kind() == ErrorKind::WouldBlock => {}
                sent => break sent.map(drop)?,
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use nix::sys::socket::{Backlog, accept, bind, listen};

    use super::*;

    fn nowhere() -> Pin<Box<dyn AsyncWrite + Send>> {
        Box::pin(tokio::io::sink())
    }

    #[tokio::test]
    async fn input_reaches_the_monitor_and_stops_at_its_end() {
        let root = tempfile::tempdir().unwrap();
        // Longer than the address of a socket may be.
        let files = root.path().join("c".repeat(120));
        let session = files.join("s");
        std::fs::create_dir_all(&session).unwrap();
        assert!(matches!(Input::open(&files, Some("ended"), nowhere()), Input::Ended));
        assert!(matches!(Input::open(Path::new("/nowhere/of/podman"), Some("s"), nowhere()), Input::Podman(_)));

        let monitor = socket(AddressFamily::Unix, SockType::SeqPacket, SockFlag::empty(), None).unwrap();
        let dir = std::fs::File::open(&session).unwrap();
        let path = format!("/proc/self/fd/{}/attach", dir.as_raw_fd());
        bind(monitor.as_raw_fd(), &UnixAddr::new(path.as_str()).unwrap()).unwrap();
        listen(&monitor, Backlog::new(1).unwrap()).unwrap();
        let mut input = Input::open(&files, Some("s"), nowhere());
        assert!(matches!(input, Input::Monitor(_)));
        let connection = accept(monitor.as_raw_fd()).unwrap();
        input.write(&vec![b'x'; 3 * MESSAGE - 1]).await;
        input.close().await;
        let mut buffer = vec![0; 4 * MESSAGE];
        let mut sizes = Vec::new();
        loop {
            match recv(connection, &mut buffer, MsgFlags::empty()).unwrap() {
                0 => break,
                n => sizes.push(n),
            }
        }
        assert_eq!(sizes, [MESSAGE, MESSAGE, MESSAGE - 1]);
        input.write(b"dropped").await;
        nix::unistd::close(connection).unwrap();
        drop(monitor);
        assert!(matches!(Input::open(&files, Some("s"), nowhere()), Input::Ended), "nobody listens");
    }
}
