//! Container logs: the k8s-file format (`time stream F|P text`), read, followed, and cut to what was asked for.

use std::{
    collections::VecDeque,
    fs::File,
    io::{self, Read as _, Seek as _, SeekFrom},
    os::unix::fs::MetadataExt as _,
    path::Path,
    sync::Arc,
    time::Duration,
};

use jiff::Timestamp;
use vctl_api::agent::{CloseWrite, LogRequest, frame::Frame as Kind};

use super::{Failure, Pipe, container, find};
use crate::{
    context::Context,
    pods::{record::Phase, worker::log_path},
    reconcile::Reconciler,
};

/// How often a followed log is looked at.
const FOLLOW_PERIOD: Duration = Duration::from_millis(150);
/// What a termination message takes from a log, as in Kubernetes.
const LAST_LINES: usize = 80;
const LAST_BYTES: usize = 2048;

/// One entry of the file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Entry<'a> {
    time: &'a str,
    /// The line goes on in the next entry of the same stream.
    partial: bool,
    text: &'a [u8],
}

/// Parses one line of the file, without its newline; none for what is not an entry.
pub(crate) fn parse(line: &[u8]) -> Option<Entry<'_>> {
    let mut parts = line.splitn(4, |b| *b == b' ');
    let time = std::str::from_utf8(parts.next()?).ok()?;
    let (stream, tag) = (parts.next()?, parts.next()?);
    if !matches!(stream, b"stdout" | b"stderr") {
        return None;
    }
    Some(Entry { time, partial: tag.first() == Some(&b'P'), text: parts.next().unwrap_or_default() })
}

/// Turns entries into the text a client asked for.
pub(crate) struct Printer {
    timestamps: bool,
    since_ms: i64,
    left: Option<i64>,
    within_line: bool,
}

impl Printer {
    fn new(request: &LogRequest, now_ms: i64) -> Self {
        let since = request.since_time_ms.or(request.since_seconds.map(|s| now_ms - s * 1000)).unwrap_or(i64::MIN);
        Self { timestamps: request.timestamps, since_ms: since, left: request.limit_bytes, within_line: false }
    }

    /// Whether the limit of bytes is used up.
    fn is_full(&self) -> bool {
        self.left.is_some_and(|left| left <= 0)
    }

    /// Appends an entry.
    fn print(&mut self, entry: &Entry<'_>, out: &mut Vec<u8>) {
        if self.since_ms > i64::MIN && entry.time.parse::<Timestamp>().is_ok_and(|t| t.as_millisecond() < self.since_ms)
        {
            return;
        }
        let begin = out.len();
        if self.timestamps && !self.within_line {
            out.extend_from_slice(entry.time.replace("+00:00", "Z").as_bytes());
            out.push(b' ');
        }
        out.extend_from_slice(entry.text);
        if !entry.partial {
            out.push(b'\n');
        }
        self.within_line = entry.partial;
        if let Some(left) = &mut self.left {
            let room = usize::try_from(*left).unwrap_or(0);
            out.truncate(begin + room.min(out.len() - begin));
            *left -= (out.len() - begin) as i64;
        }
    }
}

/// Offset at which the last `lines` whole lines begin. A line of several partial entries counts once.
fn tail_offset(content: &mut impl io::Read, lines: i64) -> io::Result<u64> {
    let keep = usize::try_from(lines).unwrap_or(0);
    let mut starts: VecDeque<u64> = VecDeque::new();
    let mut buffer = Vec::new();
    let mut reader = io::BufReader::new(content);
    let (mut offset, mut fresh) = (0, true);
    loop {
        buffer.clear();
        let n = io::BufRead::read_until(&mut reader, b'\n', &mut buffer)? as u64;
        if n == 0 {
            break;
        }
        if fresh {
            starts.push_back(offset);
            if starts.len() > keep {
                starts.pop_front();
            }
        }
        offset += n;
        fresh = !parse(buffer.trim_ascii_end()).is_some_and(|e| e.partial);
    }
    Ok(if keep == 0 { offset } else { starts.front().copied().unwrap_or(offset) })
}

/// A log file that is read as it grows, also across its replacement by a new file.
struct Follower<'a> {
    path: &'a Path,
    file: File,
    rest: Vec<u8>,
}

impl<'a> Follower<'a> {
    fn open(path: &'a Path, tail: Option<i64>) -> io::Result<Self> {
        let mut file = File::open(path)?;
        if let Some(lines) = tail {
            let offset = tail_offset(&mut file, lines)?;
            file.seek(SeekFrom::Start(offset))?;
        }
        Ok(Self { path, file, rest: Vec::new() })
    }

    /// Reads what is new, up to a chunk; false when there is nothing.
    fn read(&mut self, printer: &mut Printer, out: &mut Vec<u8>) -> io::Result<bool> {
        let mut buffer = vec![0; super::CHUNK];
        let n = self.file.read(&mut buffer)?;
        if n == 0 {
            let moved =
                std::fs::metadata(self.path).is_ok_and(|m| self.file.metadata().is_ok_and(|own| own.ino() != m.ino()));
            let cut = self.file.metadata()?.len() < self.file.stream_position()?;
            if moved || cut {
                self.file = File::open(self.path)?;
                self.rest.clear();
                return Ok(true);
            }
            return Ok(false);
        }
        self.rest.extend_from_slice(&buffer[..n]);
        let end = self.rest.iter().rposition(|b| *b == b'\n').map_or(0, |i| i + 1);
        let whole: Vec<u8> = self.rest.drain(..end).collect();
        for entry in whole.split(|b| *b == b'\n').filter_map(parse) {
            printer.print(&entry, out);
        }
        Ok(true)
    }
}

pub(super) async fn run(
    ctx: &Arc<Context>,
    reconciler: &Reconciler,
    request: LogRequest,
    pipe: Pipe,
) -> Result<(), Failure> {
    let target = request.target.clone().unwrap_or_default();
    let (mut handle, view) = find(reconciler, &target)?;
    let record = container(&view, &target.container)?;
    let attempt = if !request.previous {
        record.attempt
    } else if record.restarts > 0 && record.attempt > 0 {
        record.attempt - 1
    } else {
        let pod = &view.pod.name;
        return Err(Failure(
            "BadRequest",
            format!("previous terminated container \"{}\" in pod \"{pod}\" not found", target.container),
        ));
    };
    let path = log_path(&ctx.pod_dir(&target.uid), &target.container, attempt);
    let mut printer = Printer::new(&request, ctx.now_ms());
    let mut log = match Follower::open(&path, request.tail_lines) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            return Err(Failure("NotFound", "the log of this container is not there any more".into()));
        }
        other => other.map_err(Failure::internal)?,
    };
    loop {
        // Looked at before reading: what is written up to the end of the container is read then.
        let running = {
            let view = handle.view.borrow_and_update();
            view.record
                .containers
                .get(&target.container)
                .is_some_and(|c| c.id == record.id && matches!(c.phase, Phase::Running { .. }))
        };
        let mut out = Vec::new();
        let more = log.read(&mut printer, &mut out).map_err(Failure::internal)?;
        for part in out.chunks(super::CHUNK) {
            if !Pipe::data(&pipe.up, 0, bytes::Bytes::copy_from_slice(part)).await {
                return Ok(());
            }
        }
        if printer.is_full() || (!more && (!request.follow || request.previous || !running)) {
            break;
        }
        if !more {
            tokio::select! {
                () = pipe.up.closed() => return Ok(()),
                () = tokio::time::sleep(FOLLOW_PERIOD) => {}
            }
        }
    }
    Pipe::send(&pipe.up, Kind::CloseWrite(CloseWrite { channel: 0 })).await;
    Ok(())
}

/// The end of a log, for a termination message. Empty when it cannot be read: the message is an extra.
pub(crate) fn last_text(path: &Path) -> String {
    let request = LogRequest { tail_lines: Some(LAST_LINES as i64), ..LogRequest::default() };
    let mut printer = Printer::new(&request, 0);
    let mut out = Vec::new();
    if let Ok(mut log) = Follower::open(path, request.tail_lines) {
        while log.read(&mut printer, &mut out).unwrap_or(false) {}
    }
    let from = out.len().saturating_sub(LAST_BYTES);
    String::from_utf8_lossy(&out[from..]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "2026-01-01T00:00:00.000000001+00:00 stdout F one\n\
                       2026-01-01T00:00:01.000000000+00:00 stderr P tw\n\
                       2026-01-01T00:00:01.000000000+00:00 stderr F o\n\
                       2026-01-01T00:00:02.000000000+00:00 stdout F \n\
                       2026-01-01T00:00:03.000000000+00:00 stdout F four words are here\n";

    fn read(request: &LogRequest) -> String {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("l");
        std::fs::write(&path, LOG).unwrap();
        let mut printer = Printer::new(request, 0);
        let mut out = Vec::new();
        let mut log = Follower::open(&path, request.tail_lines).unwrap();
        while log.read(&mut printer, &mut out).unwrap() {}
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn partial_entries_are_one_line() {
        assert_eq!(read(&LogRequest::default()), "one\ntwo\n\nfour words are here\n");
    }

    #[test]
    fn tail_counts_lines_not_entries() {
        let tail = |n| read(&LogRequest { tail_lines: Some(n), ..LogRequest::default() });
        assert_eq!(tail(3), "two\n\nfour words are here\n");
        assert_eq!(tail(1), "four words are here\n");
        assert_eq!((tail(0), tail(99)), (String::new(), read(&LogRequest::default())));
    }

    #[test]
    fn since_timestamps_and_limit() {
        let since = "2026-01-01T00:00:02Z".parse::<Timestamp>().unwrap().as_millisecond();
        let request = LogRequest { since_time_ms: Some(since), timestamps: true, ..LogRequest::default() };
        assert_eq!(
            read(&request),
            "2026-01-01T00:00:02.000000000Z \n2026-01-01T00:00:03.000000000Z four words are here\n"
        );
        assert_eq!(read(&LogRequest { limit_bytes: Some(6), ..LogRequest::default() }), "one\ntw");
    }

    #[test]
    fn following_survives_rotation() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("l");
        std::fs::write(&path, LOG).unwrap();
        let mut printer = Printer::new(&LogRequest::default(), 0);
        let mut out = Vec::new();
        let mut log = Follower::open(&path, Some(0)).unwrap();
        assert!(!log.read(&mut printer, &mut out).unwrap());
        std::fs::rename(&path, dir.path().join("l.1")).unwrap();
        std::fs::write(&path, "2026-01-01T00:00:09+00:00 stdout F new\n").unwrap();
        while log.read(&mut printer, &mut out).unwrap() {}
        assert_eq!(out, b"new\n");
    }
}
