//! Frames of SPDY/3.1: the eight bytes of their header, and the bodies that matter here.

use std::io;

use super::invalid;

/// Length of a frame's header.
pub(super) const HEADER_LEN: usize = 8;
/// The sender will send no more on this stream.
pub(super) const FLAG_FIN: u8 = 1;

const VERSION: u16 = 3;
const SYN_STREAM: u16 = 1;
const SYN_REPLY: u16 = 2;
const RST_STREAM: u16 = 3;
const PING: u16 = 6;
const GOAWAY: u16 = 7;
const HEADERS: u16 = 8;
/// Status of a RST_STREAM: CANCEL.
const CANCEL: u32 = 5;

/// A frame's header.
pub(super) enum Header {
    /// Data of a stream.
    Data { stream: u32, flags: u8, length: usize },
    /// A control frame.
    Control { kind: u16, flags: u8, length: usize },
}

/// A control frame's body.
pub(super) enum Control<'a> {
    SynStream {
        stream: u32,
        block: &'a [u8],
    },
    /// SYN_REPLY and HEADERS.
    Headers {
        block: &'a [u8],
    },
    RstStream {
        stream: u32,
    },
    Ping {
        id: u32,
    },
    GoAway,
    /// SETTINGS, WINDOW_UPDATE and unknown ones, which are to be ignored.
    Other,
}

/// Reads a header; none when there are not enough bytes yet.
pub(super) fn header(bytes: &[u8]) -> io::Result<Option<Header>> {
    let Some(&[a, b, c, d, flags, e, f, g]) = bytes.first_chunk::<HEADER_LEN>() else { return Ok(None) };
    let length = u32::from_be_bytes([0, e, f, g]) as usize;
    if a & 0x80 == 0 {
        return Ok(Some(Header::Data { stream: u32::from_be_bytes([a, b, c, d]), flags, length }));
    }
    if u16::from_be_bytes([a & 0x7f, b]) != VERSION {
        return Err(invalid("not SPDY version 3"));
    }
    Ok(Some(Header::Control { kind: u16::from_be_bytes([c, d]), flags, length }))
}

/// Reads the body of a control frame.
pub(super) fn control(kind: u16, body: &[u8]) -> io::Result<Control<'_>> {
    let id = || {
        let bytes = body.first_chunk::<4>().ok_or_else(|| invalid("a control frame is too short"))?;
        Ok::<_, io::Error>(u32::from_be_bytes(*bytes) & 0x7fff_ffff)
    };
    let after = |n: usize| body.get(n..).ok_or_else(|| invalid("a control frame is too short"));
    Ok(match kind {
        SYN_STREAM => Control::SynStream { stream: id()?, block: after(10)? },
        SYN_REPLY | HEADERS => Control::Headers { block: after(4)? },
        RST_STREAM => Control::RstStream { stream: id()? },
        PING => {
            let bytes = body.first_chunk::<4>().ok_or_else(|| invalid("a control frame is too short"))?;
            Control::Ping { id: u32::from_be_bytes(*bytes) }
        }
        GOAWAY => Control::GoAway,
        _ => Control::Other,
    })
}

fn control_frame(kind: u16, body: &[&[u8]]) -> Vec<u8> {
    let length: usize = body.iter().map(|part| part.len()).sum();
    let mut frame = Vec::with_capacity(HEADER_LEN + length);
    frame.extend((VERSION | 0x8000).to_be_bytes());
    frame.extend(kind.to_be_bytes());
    frame.extend((length as u32 & 0x00ff_ffff).to_be_bytes());
    for part in body {
        frame.extend_from_slice(part);
    }
    frame
}

/// Accepts a stream.
pub(super) fn syn_reply(stream: u32, block: &[u8]) -> Vec<u8> {
    control_frame(SYN_REPLY, &[&stream.to_be_bytes(), block])
}

/// Gives a stream up.
pub(super) fn rst_stream(stream: u32) -> Vec<u8> {
    control_frame(RST_STREAM, &[&stream.to_be_bytes(), &CANCEL.to_be_bytes()])
}

/// Answers a ping.
pub(super) fn ping(id: u32) -> Vec<u8> {
    control_frame(PING, &[&id.to_be_bytes()])
}

/// Says that no stream will be accepted any more.
pub(super) fn go_away() -> Vec<u8> {
    control_frame(GOAWAY, &[&0_u32.to_be_bytes(), &0_u32.to_be_bytes()])
}

/// The header of a data frame; the data follows. `length` is below 16 MiB.
pub(super) fn data_header(stream: u32, length: usize, fin: bool) -> [u8; HEADER_LEN] {
    let [a, b, c, d] = stream.to_be_bytes();
    let [_, e, f, g] = (length as u32).to_be_bytes();
    [a & 0x7f, b, c, d, if fin { FLAG_FIN } else { 0 }, e, f, g]
}
