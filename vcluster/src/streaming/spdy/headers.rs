//! Header blocks: names and values with 32-bit lengths, compressed by one zlib stream per direction and session with a fixed
//! dictionary (SPDY protocol draft 3, section 2.6.10.1).

use std::{io, sync::LazyLock};

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};

use super::{Headers, invalid};

/// Longest block, decompressed.
const MAX_BLOCK: usize = 64 * 1024;

const WORDS: &[&str] = &[
    "options",
    "head",
    "post",
    "put",
    "delete",
    "trace",
    "accept",
    "accept-charset",
    "accept-encoding",
    "accept-language",
    "accept-ranges",
    "age",
    "allow",
    "authorization",
    "cache-control",
    "connection",
    "content-base",
    "content-encoding",
    "content-language",
    "content-length",
    "content-location",
    "content-md5",
    "content-range",
    "content-type",
    "date",
    "etag",
    "expect",
    "expires",
    "from",
    "host",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-range",
    "if-unmodified-since",
    "last-modified",
    "location",
    "max-forwards",
    "pragma",
    "proxy-authenticate",
    "proxy-authorization",
    "range",
    "referer",
    "retry-after",
    "server",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "user-agent",
    "vary",
    "via",
    "warning",
    "www-authenticate",
    "method",
    "get",
    "status",
    "200 OK",
    "version",
    "HTTP/1.1",
    "url",
    "public",
    "set-cookie",
    "keep-alive",
    "origin",
];
const TEXT: &str = "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505203 \
                    Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized403 \
                    Forbidden404 Not Found500 Internal Server Error501 Not Implemented503 Service UnavailableJan Feb Mar Apr \
                    May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, \
                    GMTchunked,text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,\
                    text/javascript,publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0.";

static DICTIONARY: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut dictionary = Vec::new();
    for word in WORDS {
        dictionary.extend((word.len() as u32).to_be_bytes());
        dictionary.extend(word.as_bytes());
    }
    dictionary.extend(TEXT.as_bytes());
    dictionary
});

/// Decompresses the blocks of one direction, in order.
pub(super) struct Decompressor {
    zlib: Decompress,
}

impl Decompressor {
    pub(super) fn new() -> Self {
        Self { zlib: Decompress::new(true) }
    }

    /// Reads one block.
    pub(super) fn block(&mut self, mut compressed: &[u8]) -> io::Result<Headers> {
        let mut plain = Vec::with_capacity(1024);
        while !compressed.is_empty() {
            if plain.len() == plain.capacity() {
                if plain.len() >= MAX_BLOCK {
                    return Err(invalid("a header block is too long"));
                }
                plain.reserve(1024);
            }
            let before = (self.zlib.total_in(), self.zlib.total_out());
            match self.zlib.decompress_vec(compressed, &mut plain, FlushDecompress::Sync) {
                Ok(status) => {
                    let read = (self.zlib.total_in() - before.0) as usize;
                    compressed = compressed.get(read..).unwrap_or_default();
                    let stuck = read == 0 && self.zlib.total_out() == before.1 && plain.len() < plain.capacity();
                    if status == Status::StreamEnd || stuck {
                        break;
                    }
                }
                Err(e) if e.needs_dictionary().is_some() => {
                    let read = (self.zlib.total_in() - before.0) as usize;
                    compressed = compressed.get(read..).unwrap_or_default();
                    self.zlib
                        .set_dictionary(&DICTIONARY)
                        .map_err(|_| invalid("a header block needs another dictionary"))?;
                }
                Err(_) => return Err(invalid("a header block does not decompress")),
            }
        }
        parse(&plain)
    }
}

pub(super) fn parse(mut plain: &[u8]) -> io::Result<Headers> {
    let short = || invalid("a header block is too short");
    let number = |plain: &mut &[u8]| -> io::Result<usize> {
        let (bytes, rest) = plain.split_first_chunk::<4>().ok_or_else(short)?;
        *plain = rest;
        Ok(u32::from_be_bytes(*bytes) as usize)
    };
    let mut headers = Headers::new();
    for _ in 0..number(&mut plain)? {
        let mut text = || -> io::Result<String> {
            let length = number(&mut plain)?;
            let (text, rest) = plain.split_at_checked(length).ok_or_else(short)?;
            plain = rest;
            String::from_utf8(text.to_vec()).map_err(|_| invalid("a header is not UTF-8"))
        };
        let (name, value) = (text()?, text()?);
        headers.insert(name.to_ascii_lowercase(), value);
    }
    Ok(headers)
}

/// Compresses the blocks of one direction, in order.
pub(crate) struct Compressor {
    zlib: Compress,
}

impl Compressor {
    pub(crate) fn new() -> io::Result<Self> {
        let mut zlib = Compress::new(Compression::fast(), true);
        zlib.set_dictionary(&DICTIONARY).map_err(|e| io::Error::other(e.to_string()))?;
        Ok(Self { zlib })
    }

    /// Writes one block.
    pub(crate) fn block(&mut self, headers: &Headers) -> io::Result<Vec<u8>> {
        let mut plain = (headers.len() as u32).to_be_bytes().to_vec();
        for text in headers.iter().flat_map(|(name, value)| [name, value]) {
            plain.extend((text.len() as u32).to_be_bytes());
            plain.extend(text.as_bytes());
        }
        let mut rest = &plain[..];
        let mut compressed = Vec::with_capacity(plain.len() + 64);
        loop {
            let before = self.zlib.total_in();
            self.zlib
                .compress_vec(rest, &mut compressed, FlushCompress::Sync)
                .map_err(|e| io::Error::other(e.to_string()))?;
            rest = rest.get((self.zlib.total_in() - before) as usize..).unwrap_or_default();
            // Room left over means that the flush is complete.
            if rest.is_empty() && compressed.len() < compressed.capacity() {
                return Ok(compressed);
            }
            compressed.reserve(256);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(of: &[(&str, &str)]) -> Headers {
        of.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
    }

    /// zlib names the dictionary by its Adler-32 in the first bytes of the stream; every SPDY/3 peer expects this one.
    #[test]
    fn the_dictionary_is_that_of_the_protocol() {
        assert_eq!(DICTIONARY.len(), 1423);
        let block = Compressor::new().unwrap().block(&Headers::new()).unwrap();
        assert_eq!(block[2..6], [0xe3, 0xc6, 0xa7, 0xc2]);
    }

    #[test]
    fn blocks_of_one_stream_come_back_in_order() {
        let (mut out, mut back) = (Compressor::new().unwrap(), Decompressor::new());
        let long = "x".repeat(5000);
        for block in [headers(&[("streamtype", "stdin")]), headers(&[]), headers(&[("port", "80"), ("long", &long)])] {
            assert_eq!(back.block(&out.block(&block).unwrap()).unwrap(), block);
        }
    }

    #[test]
    fn a_block_that_grows_without_end_is_refused() {
        let mut out = Compressor::new().unwrap();
        let bomb = out.block(&headers(&[("a", &"y".repeat(10 << 20))])).unwrap();
        assert!(bomb.len() < 1 << 20);
        assert!(Decompressor::new().block(&bomb).is_err());
    }
}
