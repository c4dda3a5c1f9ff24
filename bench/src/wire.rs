//! HTTP/1.1 over TLS with as little work as possible: the load generator shares the machine with what it measures. Requests are made
//! before the load begins, connections are kept, and an answer is read into one buffer that is used again.

use anyhow::{Context as _, Result, bail, ensure};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};
use tokio_rustls::client::TlsStream;

const READ_AT_ONCE: usize = 16 << 10;

/// A connection with one request at a time.
pub(crate) struct Wire {
    stream: TlsStream<TcpStream>,
    /// What has been read of the answer; the rest is free.
    buffer: Vec<u8>,
    /// Of an answer that goes on: so much of the buffer was handed out.
    taken: usize,
}

/// An answer; its bytes are the connection's until the next one.
pub(crate) struct Answer<'a> {
    pub(crate) status: u16,
    pub(crate) body: &'a [u8],
}

impl Wire {
    pub(crate) fn new(stream: TlsStream<TcpStream>) -> Self {
        Self { stream, buffer: Vec::with_capacity(READ_AT_ONCE), taken: 0 }
    }

    /// Sends a whole request and reads the whole answer.
    pub(crate) async fn exchange(&mut self, request: &[u8]) -> Result<Answer<'_>> {
        let head = self.head(request).await?;
        let text = std::str::from_utf8(&self.buffer[..head]).context("the header of the answer")?;
        let status: u16 = text.get(9..12).and_then(|s| s.parse().ok()).context("a status line")?;
        let length = field(text, "content-length").map(str::parse::<usize>).transpose()?;
        let chunked = field(text, "transfer-encoding").is_some_and(|e| e.eq_ignore_ascii_case("chunked"));
        match length {
            Some(length) => {
                self.buffer.reserve(length);
                while self.buffer.len() < head + length {
                    self.more().await?;
                }
                Ok(Answer { status, body: &self.buffer[head..head + length] })
            }
            None if chunked => {
                let end = self.chunks(head).await?;
                Ok(Answer { status, body: &self.buffer[head..end] })
            }
            None => bail!("an answer without length"),
        }
    }

    /// Sends a whole request whose answer goes on in chunks: [`Wire::chunk`] reads them. Only a success is fine.
    pub(crate) async fn open(&mut self, request: &[u8]) -> Result<()> {
        let head = self.head(request).await?;
        let text = std::str::from_utf8(&self.buffer[..head]).context("the header of the answer")?;
        let chunked = field(text, "transfer-encoding").is_some_and(|e| e.eq_ignore_ascii_case("chunked"));
        ensure!(chunked && text.get(9..12) == Some("200"), "not a stream: {text}");
        self.taken = head;
        Ok(())
    }

    /// The next chunk of an answer that goes on.
    pub(crate) async fn chunk(&mut self) -> Result<&[u8]> {
        self.buffer.drain(..self.taken);
        self.taken = 0;
        let (line, size) = self.chunk_size(0).await?;
        ensure!(size > 0, "the answer has ended");
        let data = line + 2;
        while self.buffer.len() < data + size + 2 {
            self.more().await?;
        }
        self.taken = data + size + 2;
        Ok(&self.buffer[data..data + size])
    }

    /// Sends a whole request and reads the header of its answer; returns where that ends in the buffer.
    async fn head(&mut self, request: &[u8]) -> Result<usize> {
        self.stream.write_all(request).await?;
        self.stream.flush().await?;
        self.buffer.clear();
        loop {
            if let Some(end) = find(&self.buffer, b"\r\n\r\n") {
                return Ok(end + 4);
            }
            self.more().await?;
        }
    }

    /// The end of the line that says how long the chunk at `from` is, and its length.
    async fn chunk_size(&mut self, from: usize) -> Result<(usize, usize)> {
        let line = loop {
            match find(&self.buffer[from..], b"\r\n") {
                Some(at) => break from + at,
                None => self.more().await?,
            }
        };
        let size = std::str::from_utf8(&self.buffer[from..line])?.split(';').next().unwrap_or_default();
        Ok((line, usize::from_str_radix(size.trim(), 16).context("the size of a chunk")?))
    }

    /// The same as [`Wire::exchange`]; only a success is fine.
    pub(crate) async fn ok(&mut self, request: &[u8]) -> Result<&[u8]> {
        let answer = self.exchange(request).await?;
        ensure!((200..300).contains(&answer.status), "{}: {}", answer.status, String::from_utf8_lossy(answer.body));
        Ok(answer.body)
    }

    /// Reads the chunks that begin at `head` and puts them together there; returns where they end.
    async fn chunks(&mut self, head: usize) -> Result<usize> {
        let (mut from, mut to) = (head, head);
        loop {
            let (line, size) = self.chunk_size(from).await?;
            let data = line + 2;
            while self.buffer.len() < data + size + 2 {
                self.more().await?;
            }
            self.buffer.copy_within(data..data + size, to);
            to += size;
            from = data + size + 2;
            if size == 0 {
                return Ok(to);
            }
        }
    }

    async fn more(&mut self) -> Result<()> {
        self.buffer.reserve(READ_AT_ONCE);
        ensure!(self.stream.read_buf(&mut self.buffer).await? > 0, "the server closed the connection");
        Ok(())
    }
}

/// The value of a header field.
fn field<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines().skip(1).find_map(|line| {
        let (key, value) = line.split_once(':')?;
        key.eq_ignore_ascii_case(name).then(|| value.trim())
    })
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    memchr::memmem::find(bytes, what)
}

/// A request whose number is written into it before it is sent: its length is always the same.
#[derive(Debug, Clone)]
pub(crate) struct Numbered {
    bytes: Vec<u8>,
    /// Where the digits begin.
    at: Vec<usize>,
}

/// Digits of a number in a name.
pub(crate) const DIGITS: usize = 7;

impl Numbered {
    /// The bytes with every `mark` (of [`DIGITS`] bytes) standing for the number.
    pub(crate) fn new(bytes: Vec<u8>, mark: &str) -> Self {
        let at = memchr::memmem::find_iter(&bytes, mark).collect();
        Self { bytes, at }
    }

    /// The bytes with this number.
    pub(crate) fn with(&mut self, mut number: usize) -> &[u8] {
        let mut digits = [b'0'; DIGITS];
        for digit in digits.iter_mut().rev() {
            *digit = b'0' + (number % 10) as u8;
            number /= 10;
        }
        for at in &self.at {
            self.bytes[*at..*at + DIGITS].copy_from_slice(&digits);
        }
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_where_the_mark_was() {
        let mut request = Numbered::new(b"a-#######-b #######".to_vec(), "#######");
        assert_eq!(request.with(42), b"a-0000042-b 0000042");
        assert_eq!(request.with(7), b"a-0000007-b 0000007");
    }

    #[test]
    fn fields_are_found_in_any_case() {
        let head = "HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n";
        assert_eq!(field(head, "content-length"), Some("12"));
        assert_eq!(field(head, "content-type"), None);
    }
}
