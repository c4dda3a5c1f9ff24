//! SPDY/3.1 as spoken by client-go: streams are opened by the client, there are no flow-control windows (its library neither sends
//! nor honours them), and compression is used for header blocks only. Source: the SPDY protocol draft 3.1, moby/spdystream.

mod frame;
mod headers;

use std::{collections::BTreeMap, io};

use bytes::{Buf as _, Bytes, BytesMut};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadHalf, WriteHalf},
    sync::mpsc,
};

use self::{
    frame::{Control, FLAG_FIN, HEADER_LEN, Header},
    headers::{Compressor, Decompressor},
};

/// Header block of a stream, names in lower case.
pub(super) type Headers = BTreeMap<String, String>;

/// Bytes of data handed on at once; a longer frame is handed on in pieces.
const PIECE: usize = 32 * 1024;
/// Longest control frame accepted.
const MAX_CONTROL: usize = 64 * 1024;

/// What the client did.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// Opened a stream. It is to be answered with [`Writer::reply`].
    Open {
        /// Its id.
        stream: u32,
        /// Its headers.
        headers: Headers,
        /// The client will send no data on it.
        fin: bool,
    },
    /// Sent data.
    Data {
        /// On this stream.
        stream: u32,
        /// The data.
        data: Bytes,
        /// It was the last.
        fin: bool,
    },
    /// Gave a stream up.
    Reset {
        /// Its id.
        stream: u32,
    },
}

/// The reading side of a session.
pub(super) struct Reader<S> {
    io: ReadHalf<S>,
    buffer: BytesMut,
    headers: Decompressor,
    /// A data frame of which some is still to come: its stream, bytes left, and whether it is the last.
    data: Option<(u32, usize, bool)>,
    answers: mpsc::Sender<Outgoing>,
}

/// The writing side; clones write to the same session.
#[derive(Clone)]
pub(super) struct Writer(mpsc::Sender<Outgoing>);

enum Outgoing {
    Reply { stream: u32 },
    Data { stream: u32, data: Bytes, fin: bool },
    Reset { stream: u32 },
    Ping { id: u32 },
    GoAway,
}

/// Starts a session. The returned future writes; it ends when all writers are gone or the connection is.
pub(super) fn session<S>(io: S) -> (Reader<S>, Writer, impl Future<Output = ()>)
where
    S: AsyncRead + AsyncWrite + Send,
{
    let (read, write) = tokio::io::split(io);
    let (sender, receiver) = mpsc::channel(16);
    let reader =
        Reader { io: read, buffer: BytesMut::new(), headers: Decompressor::new(), data: None, answers: sender.clone() };
    let writing = async move {
        if let Err(error) = write_all(write, receiver).await {
            tracing::debug!(%error, "SPDY connection ended while writing");
        }
    };
    (reader, Writer(sender), writing)
}

async fn write_all<S: AsyncRead + AsyncWrite>(
    mut io: WriteHalf<S>,
    mut frames: mpsc::Receiver<Outgoing>,
) -> io::Result<()> {
    let mut headers = Compressor::new()?;
    while let Some(frame) = frames.recv().await {
        match frame {
            Outgoing::Reply { stream } => {
                io.write_all(&frame::syn_reply(stream, &headers.block(&Headers::new())?)).await?
            }
            Outgoing::Data { stream, data, fin } => {
                io.write_all(&frame::data_header(stream, data.len(), fin)).await?;
                io.write_all(&data).await?;
            }
            Outgoing::Reset { stream } => io.write_all(&frame::rst_stream(stream)).await?,
            Outgoing::Ping { id } => io.write_all(&frame::ping(id)).await?,
            Outgoing::GoAway => io.write_all(&frame::go_away()).await?,
        }
        if frames.is_empty() {
            io.flush().await?;
        }
    }
    io.shutdown().await
}

/// The connection is gone.
#[derive(Debug, thiserror::Error)]
#[error("the client has gone")]
pub(super) struct Gone;

impl Writer {
    async fn send(&self, frame: Outgoing) -> Result<(), Gone> {
        self.0.send(frame).await.map_err(|_| Gone)
    }

    /// Accepts a stream.
    pub(super) async fn reply(&self, stream: u32) -> Result<(), Gone> {
        self.send(Outgoing::Reply { stream }).await
    }

    /// Sends data; waits while the client does not read.
    pub(super) async fn data(&self, stream: u32, data: Bytes) -> Result<(), Gone> {
        self.send(Outgoing::Data { stream, data, fin: false }).await
    }

    /// Says that no more data follows.
    pub(super) async fn finish(&self, stream: u32) -> Result<(), Gone> {
        self.send(Outgoing::Data { stream, data: Bytes::new(), fin: true }).await
    }

    /// Gives a stream up.
    pub(super) async fn reset(&self, stream: u32) -> Result<(), Gone> {
        self.send(Outgoing::Reset { stream }).await
    }

    /// Says that the session is over.
    pub(super) async fn go_away(&self) -> Result<(), Gone> {
        self.send(Outgoing::GoAway).await
    }
}

impl<S: AsyncRead + AsyncWrite> Reader<S> {
    /// Waits for what the client does next; none when it has gone. Cancel-safe.
    ///
    /// # Errors
    /// Bytes that are not SPDY/3.1.
    pub(super) async fn next(&mut self) -> io::Result<Option<Event>> {
        loop {
            while let Some(step) = self.parse()? {
                match step {
                    Step::Event(event) => return Ok(Some(event)),
                    Step::Ping(id) => {
                        // A session whose writer is gone ends by itself.
                        if self.answers.send(Outgoing::Ping { id }).await.is_err() {
                            return Ok(None);
                        }
                    }
                    Step::Ignored => {}
                    Step::End => return Ok(None),
                }
            }
            self.buffer.reserve(PIECE);
            if self.io.read_buf(&mut self.buffer).await? == 0 {
                return Ok(None);
            }
        }
    }

    /// Takes one step from the buffer; none when more bytes are needed.
    fn parse(&mut self) -> io::Result<Option<Step>> {
        if let Some((stream, left, fin)) = self.data {
            if left > 0 && self.buffer.is_empty() {
                return Ok(None);
            }
            let take = left.min(self.buffer.len()).min(PIECE);
            let data = self.buffer.split_to(take).freeze();
            let last = take == left;
            self.data = (!last).then_some((stream, left - take, fin));
            return Ok(Some(Step::Event(Event::Data { stream, data, fin: fin && last })));
        }
        let Some(header) = frame::header(&self.buffer)? else { return Ok(None) };
        match header {
            Header::Data { stream, flags, length } => {
                self.buffer.advance(HEADER_LEN);
                self.data = Some((stream, length, flags & FLAG_FIN != 0));
                Ok(Some(Step::Ignored))
            }
            Header::Control { kind, flags, length } => {
                if length > MAX_CONTROL {
                    return Err(invalid("a control frame is too long"));
                }
                if self.buffer.len() < HEADER_LEN + length {
                    return Ok(None);
                }
                self.buffer.advance(HEADER_LEN);
                let body = self.buffer.split_to(length).freeze();
                self.control(kind, flags, body).map(Some)
            }
        }
    }

    fn control(&mut self, kind: u16, flags: u8, body: Bytes) -> io::Result<Step> {
        Ok(match frame::control(kind, &body)? {
            Control::SynStream { stream, block } => {
                let headers = self.headers.block(block)?;
                Step::Event(Event::Open { stream, headers, fin: flags & FLAG_FIN != 0 })
            }
            // Blocks of other frames feed the same decompressor.
            Control::Headers { block } => {
                self.headers.block(block)?;
                Step::Ignored
            }
            Control::RstStream { stream } => Step::Event(Event::Reset { stream }),
            Control::Ping { id } => Step::Ping(id),
            Control::GoAway => Step::End,
            Control::Other => Step::Ignored,
        })
    }
}

/// Reads a header block that is decompressed already.
#[cfg(fuzzing)]
pub(super) fn fuzz_headers(plain: &[u8]) {
    let _ = headers::parse(plain);
}

enum Step {
    Event(Event),
    Ping(u32),
    Ignored,
    End,
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

#[cfg(test)]
pub(super) mod testing {
    //! The client's half, for tests.

    use super::*;

    /// Bytes of a SYN_STREAM.
    pub(crate) fn open(compressor: &mut Compressor, stream: u32, headers: &[(&str, &str)]) -> Vec<u8> {
        let headers = headers.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let block = compressor.block(&headers).unwrap();
        let mut frame = vec![0x80, 3, 0, 1, 0];
        frame.extend(&u32::try_from(10 + block.len()).unwrap().to_be_bytes()[1..]);
        frame.extend(stream.to_be_bytes());
        frame.extend([0; 6]);
        frame.extend(block);
        frame
    }

    /// Bytes of a data frame.
    pub(crate) fn data(stream: u32, data: &[u8], fin: bool) -> Vec<u8> {
        let mut frame = frame::data_header(stream, data.len(), fin).to_vec();
        frame.extend(data);
        frame
    }

    pub(crate) use super::headers::Compressor as ClientCompressor;
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[tokio::test]
    async fn streams_data_and_pings() {
        let (client, server) = tokio::io::duplex(1 << 20);
        let (mut reader, writer, writing) = session(server);
        let (mut from_server, mut to_server) = tokio::io::split(client);
        let mut compressor = testing::ClientCompressor::new().unwrap();
        let mut bytes = testing::open(&mut compressor, 1, &[("streamtype", "error")]);
        bytes.extend(testing::open(&mut compressor, 3, &[("streamtype", "data"), ("port", "80")]));
        bytes.extend([0x80, 3, 0, 6, 0, 0, 0, 4, 0, 0, 0, 7]);
        bytes.extend(testing::data(3, &vec![9; 100_000], true));
        to_server.write_all(&bytes).await.unwrap();
        let check = async move {
            let Some(Event::Open { stream: 1, headers, fin: false }) = reader.next().await.unwrap() else {
                panic!("open 1")
            };
            assert_eq!(headers["streamtype"], "error");
            let Some(Event::Open { stream: 3, headers, .. }) = reader.next().await.unwrap() else { panic!("open 3") };
            assert_eq!(headers["port"], "80");
            writer.reply(3).await.unwrap();
            let mut received = 0;
            loop {
                match reader.next().await.unwrap() {
                    Some(Event::Data { stream: 3, data, fin }) => {
                        assert!(data.len() <= PIECE);
                        received += data.len();
                        if fin {
                            break;
                        }
                    }
                    other => panic!("{other:?}"),
                }
            }
            assert_eq!(received, 100_000);
            drop((reader, writer));
        };
        tokio::join!(check, writing);
        let mut answer = Vec::new();
        from_server.read_to_end(&mut answer).await.unwrap();
        assert_eq!(&answer[..4], [0x80, 3, 0, 2], "SYN_REPLY");
        assert!(answer.windows(12).any(|w| w == [0x80, 3, 0, 6, 0, 0, 0, 4, 0, 0, 0, 7]), "PING is echoed");
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400), control in any::<bool>(), kind in 0_u8..12) {
            let mut bytes = bytes;
            if control {
                let length = u32::try_from(bytes.len()).unwrap().to_be_bytes();
                let mut framed = vec![0x80, 3, 0, kind, 0, length[1], length[2], length[3]];
                framed.append(&mut bytes);
                bytes = framed;
            }
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            runtime.block_on(async {
                let (mut client, server) = tokio::io::duplex(1024);
                client.write_all(&bytes).await.unwrap();
                drop(client);
                let (mut reader, _writer, _writing) = session(server);
                while let Ok(Some(_)) = reader.next().await {}
            });
        }
    }
}
