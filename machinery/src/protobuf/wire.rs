//! The wire format: varints, tags, lengths. Every read is bounded by the slice it reads from.

/// A value as it stands on the wire.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Wire<'a> {
    Varint(u64),
    Fixed64(u64),
    Fixed32(u32),
    Bytes(&'a [u8]),
}

const CUT: &str = "the protobuf message is cut short";

impl<'a> Wire<'a> {
    pub(crate) fn bytes(self) -> Result<&'a [u8], String> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            _ => Err("a protobuf field has the wrong wire type: bytes expected".into()),
        }
    }

    pub(crate) fn text(self) -> Result<String, String> {
        self.bytes().map(|b| String::from_utf8_lossy(b).into_owned())
    }

    pub(crate) fn integer(self) -> Result<i64, String> {
        match self {
            Self::Varint(n) | Self::Fixed64(n) => Ok(n as i64),
            Self::Fixed32(n) => Ok(i64::from(n)),
            Self::Bytes(_) => Err("a protobuf field has the wrong wire type: number expected".into()),
        }
    }

    pub(crate) fn double(self) -> Result<f64, String> {
        match self {
            Self::Fixed64(n) => Ok(f64::from_bits(n)),
            Self::Fixed32(n) => Ok(f64::from(f32::from_bits(n))),
            _ => Err("a protobuf field has the wrong wire type: double expected".into()),
        }
    }
}

/// The fields of a message, in order. Ends after the first error.
pub(crate) fn entries(bytes: &[u8]) -> impl Iterator<Item = Result<(u32, Wire<'_>), String>> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let entry = entry(&mut rest);
        if entry.is_err() {
            rest = &[];
        }
        Some(entry)
    })
}

fn entry<'a>(rest: &mut &'a [u8]) -> Result<(u32, Wire<'a>), String> {
    let tag = varint(rest)?;
    let number = u32::try_from(tag >> 3).map_err(|_| "a protobuf field number is out of range".to_owned())?;
    if number == 0 {
        return Err("a protobuf field has number 0".into());
    }
    let value = match tag & 7 {
        0 => Wire::Varint(varint(rest)?),
        1 => Wire::Fixed64(u64::from_le_bytes(take(rest, 8)?.try_into().map_err(|_| CUT.to_owned())?)),
        2 => {
            let length = usize::try_from(varint(rest)?).map_err(|_| CUT.to_owned())?;
            Wire::Bytes(take(rest, length)?)
        }
        5 => Wire::Fixed32(u32::from_le_bytes(take(rest, 4)?.try_into().map_err(|_| CUT.to_owned())?)),
        other => return Err(format!("protobuf wire type {other} is not supported")),
    };
    Ok((number, value))
}

fn take<'a>(rest: &mut &'a [u8], length: usize) -> Result<&'a [u8], String> {
    let (head, tail) = rest.split_at_checked(length).ok_or_else(|| CUT.to_owned())?;
    *rest = tail;
    Ok(head)
}

/// Takes a varint off the front.
pub(crate) fn varint(rest: &mut &[u8]) -> Result<u64, String> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let (byte, tail) = rest.split_first().ok_or_else(|| CUT.to_owned())?;
        *rest = tail;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err("a protobuf integer is too long".into())
}

pub(crate) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

pub(crate) fn put_integer(out: &mut Vec<u8>, number: u32, value: i64) {
    put_varint(out, u64::from(number) << 3);
    put_varint(out, value as u64);
}

pub(crate) fn put_double(out: &mut Vec<u8>, number: u32, value: f64) {
    put_varint(out, (u64::from(number) << 3) | 1);
    out.extend(value.to_le_bytes());
}

pub(crate) fn put_bytes(out: &mut Vec<u8>, number: u32, value: &[u8]) {
    put_varint(out, (u64::from(number) << 3) | 2);
    put_varint(out, value.len() as u64);
    out.extend(value);
}
