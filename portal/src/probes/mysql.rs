//! MySQL and MariaDB: the start of a session (protocol 10), with `mysql_native_password` or `caching_sha2_password`, until the server says
//! that it is ready; then good-bye. What is sent is described in MySQL's internals manual, "Connection Phase".

use ring::digest::{self, Digest, SHA1_FOR_LEGACY_USE_ONLY, SHA256};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{ANSWER_LIMIT, ProbeError, Stream, Target};

const CONNECT_WITH_DB: u32 = 1 << 3;
const PROTOCOL_41: u32 = 1 << 9;
const SSL: u32 = 1 << 11;
const SECURE_CONNECTION: u32 = 1 << 15;
const PLUGIN_AUTH: u32 = 1 << 19;
/// `utf8mb4_general_ci`.
const CHARSET: u8 = 45;
/// Largest packet that we would take, in bytes.
const PACKET: u32 = 1 << 24;

/// What the server says first.
struct Greeting {
    version: String,
    capabilities: u32,
    nonce: Vec<u8>,
    plugin: String,
}

struct Session<'a> {
    target: &'a Target,
    stream: Box<dyn Stream>,
    /// Number of the next packet.
    sequence: u8,
    /// The server could speak TLS.
    has_tls: bool,
}

pub(super) async fn probe(target: &Target) -> Result<String, ProbeError> {
    let tcp = target.tcp().await?;
    let mut session = Session { target, stream: Box::new(tcp), sequence: 0, has_tls: false };
    let greeting = session.greeting().await?;
    session.has_tls = greeting.capabilities & SSL != 0;
    let mut capabilities = PROTOCOL_41 | SECURE_CONNECTION | PLUGIN_AUTH;
    if !target.database.is_empty() {
        capabilities |= CONNECT_WITH_DB;
    }
    if target.tls {
        if !session.has_tls {
            return Err(ProbeError::NoTls(target.place()));
        }
        capabilities |= SSL;
        session.send(&head(capabilities)).await?;
        session.stream = target.secure(session.stream).await?;
    }
    session.sign_in(&greeting, capabilities).await?;
    // What the server thinks of it does not matter.
    session.sequence = 0;
    let _ = session.send(&[1]).await;
    let version = greeting.version.trim_start_matches("5.5.5-");
    let kind = if version.contains("MariaDB") { "MariaDB" } else { "MySQL" };
    let version = version.split('-').next().unwrap_or_default();
    Ok(format!("{kind} {version} at {}", target.place()))
}

/// The part of an answer to the greeting that comes before TLS, too.
fn head(capabilities: u32) -> Vec<u8> {
    let mut body = capabilities.to_le_bytes().to_vec();
    body.extend(PACKET.to_le_bytes());
    body.push(CHARSET);
    body.extend([0; 23]);
    body
}

impl Session<'_> {
    fn protocol(&self, why: &str) -> ProbeError {
        ProbeError::Protocol { place: self.target.place(), kind: "MySQL", why: why.to_owned() }
    }

    async fn send(&mut self, body: &[u8]) -> Result<(), ProbeError> {
        let size = u32::try_from(body.len()).unwrap_or(u32::MAX).to_le_bytes();
        let mut packet = vec![size[0], size[1], size[2], self.sequence];
        packet.extend(body);
        self.sequence = self.sequence.wrapping_add(1);
        self.stream.write_all(&packet).await.map_err(|e| self.target.broken(&e))
    }

    async fn read(&mut self) -> Result<Vec<u8>, ProbeError> {
        let mut head = [0; 4];
        self.stream.read_exact(&mut head).await.map_err(|e| self.target.broken(&e))?;
        let [a, b, c, sequence] = head;
        let size = usize::try_from(u32::from_le_bytes([a, b, c, 0])).unwrap_or(usize::MAX);
        if size == 0 || size > ANSWER_LIMIT || sequence != self.sequence {
            return Err(self.protocol("it answered something else"));
        }
        self.sequence = self.sequence.wrapping_add(1);
        let mut body = vec![0; size];
        self.stream.read_exact(&mut body).await.map_err(|e| self.target.broken(&e))?;
        if body[0] == 0xff { Err(self.refused(&body[1..])) } else { Ok(body) }
    }

    fn refused(&self, body: &[u8]) -> ProbeError {
        let (code, rest) = body.split_first_chunk::<2>().map_or((0, body), |(c, rest)| (u16::from_le_bytes(*c), rest));
        // `#` and the SQL state, once capabilities are agreed on.
        let text = if rest.first() == Some(&b'#') { rest.get(6..).unwrap_or_default() } else { rest };
        let why = String::from_utf8_lossy(text).into_owned();
        let place = self.target.place();
        match code {
            1045 if self.target.password.is_none() => ProbeError::WantsPassword { place },
            // MariaDB says no more than that when it wants TLS.
            1045 if self.has_tls && !self.target.tls => {
                let why = format!("{why}: the password or the user is wrong, or it wants TLS (try --tls)");
                ProbeError::Refused { place, why }
            }
            1045 => ProbeError::Password { place, user: self.target.user.clone() },
            _ if why.contains("insecure transport") => ProbeError::WantsTls(place),
            _ => ProbeError::Refused { place, why },
        }
    }

    async fn greeting(&mut self) -> Result<Greeting, ProbeError> {
        let body = self.read().await?;
        greeting(&body).ok_or_else(|| self.protocol("its greeting is of another protocol"))
    }

    async fn sign_in(&mut self, greeting: &Greeting, capabilities: u32) -> Result<(), ProbeError> {
        let password = self.target.password.clone().unwrap_or_default();
        // A plugin that we do not speak: the server is told one that we do, and says what it wants.
        let plugin = if scramble(&greeting.plugin, &password, &greeting.nonce).is_some() {
            greeting.plugin.as_str()
        } else {
            "mysql_native_password"
        };
        let answer = scramble(plugin, &password, &greeting.nonce).unwrap_or_default();
        let mut body = head(capabilities);
        body.extend(self.target.user.bytes().chain([0]));
        body.push(u8::try_from(answer.len()).unwrap_or_default());
        body.extend(answer);
        if capabilities & CONNECT_WITH_DB != 0 {
            body.extend(self.target.database.bytes().chain([0]));
        }
        body.extend(plugin.bytes().chain([0]));
        self.send(&body).await?;
        loop {
            let body = self.read().await?;
            match (body[0], body.get(1)) {
                (0, _) => return Ok(()),
                // Another plugin.
                (0xfe, _) => {
                    let mut parts = body[1..].splitn(2, |b| *b == 0);
                    let plugin = String::from_utf8_lossy(parts.next().unwrap_or_default()).into_owned();
                    let nonce = parts.next().unwrap_or_default();
                    let nonce = nonce.strip_suffix(&[0]).unwrap_or(nonce);
                    let answer = match plugin.as_str() {
                        "mysql_clear_password" if self.target.tls => Some(clear(&password)),
                        _ => scramble(&plugin, &password, nonce),
                    };
                    let answer = answer.ok_or_else(|| self.unknown(&plugin))?;
                    self.send(&answer).await?;
                }
                // `caching_sha2_password`: the server knows the password from before.
                (1, Some(3)) => {}
                // It does not: it wants to see it, which it may over TLS only.
                (1, Some(4)) if self.target.tls => self.send(&clear(&password)).await?,
                (1, Some(4)) => {
                    let why = "this user's password is not sent without TLS: register it with --tls, or give the user \
                               mysql_native_password";
                    return Err(ProbeError::Refused { place: self.target.place(), why: why.to_owned() });
                }
                _ => return Err(self.protocol("it did not go on with the sign-in")),
            }
        }
    }

    fn unknown(&self, plugin: &str) -> ProbeError {
        let why = format!(
            "user {:?} signs in with {plugin:?}, which is not supported: give it mysql_native_password or caching_sha2_password",
            self.target.user
        );
        ProbeError::Refused { place: self.target.place(), why }
    }
}

fn clear(password: &str) -> Vec<u8> {
    password.bytes().chain([0]).collect()
}

fn greeting(body: &[u8]) -> Option<Greeting> {
    let rest = body.strip_prefix(&[10])?;
    let end = rest.iter().position(|b| *b == 0)?;
    let version = String::from_utf8_lossy(&rest[..end]).into_owned();
    // Thread id, nonce, filler, capabilities, character set, status, capabilities, length of the nonce, reserved, rest of the nonce, plugin.
    let rest = rest.get(end + 5..)?;
    let (nonce, rest) = rest.split_first_chunk::<8>()?;
    let low = u16::from_le_bytes(*rest.get(1..)?.first_chunk()?);
    let high = u16::from_le_bytes(*rest.get(6..)?.first_chunk()?);
    let length = usize::from(*rest.get(8)?).saturating_sub(8).max(13);
    let rest = rest.get(19..)?;
    let more = rest.get(..length)?;
    let mut nonce = nonce.to_vec();
    nonce.extend(more.strip_suffix(&[0]).unwrap_or(more));
    let plugin = rest[length..].split(|b| *b == 0).next().unwrap_or_default();
    Some(Greeting {
        version,
        capabilities: u32::from(high) << 16 | u32::from(low),
        nonce,
        plugin: String::from_utf8_lossy(plugin).into_owned(),
    })
}

/// The proof that we know the password; none for a plugin that we do not speak.
fn scramble(plugin: &str, password: &str, nonce: &[u8]) -> Option<Vec<u8>> {
    let join = |parts: [&[u8]; 2]| parts.concat();
    let xor = |a: Digest, b: Digest| a.as_ref().iter().zip(b.as_ref()).map(|(a, b)| a ^ b).collect();
    match plugin {
        "mysql_native_password" | "caching_sha2_password" if password.is_empty() => Some(Vec::new()),
        "mysql_native_password" => {
            let sha = |bytes: &[u8]| digest::digest(&SHA1_FOR_LEGACY_USE_ONLY, bytes);
            let once = sha(password.as_bytes());
            let twice = sha(once.as_ref());
            Some(xor(once, sha(&join([nonce, twice.as_ref()]))))
        }
        "caching_sha2_password" => {
            let sha = |bytes: &[u8]| digest::digest(&SHA256, bytes);
            let once = sha(password.as_bytes());
            let twice = sha(once.as_ref());
            Some(xor(once, sha(&join([twice.as_ref(), nonce]))))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_greeting_is_read_and_a_short_one_is_refused() {
        let mut body = vec![10];
        body.extend(b"5.5.5-10.11.6-MariaDB\0");
        body.extend([1, 0, 0, 0]);
        body.extend(b"abcdefgh\0");
        body.extend([0xfe, 0xf7, 45, 2, 0, 0xff, 0x81, 21]);
        body.extend([0; 10]);
        body.extend(b"ijklmnopqrst\0mysql_native_password\0");
        let read = greeting(&body).expect("greeting");
        assert_eq!(
            (read.nonce.as_slice(), read.plugin.as_str()),
            (b"abcdefghijklmnopqrst".as_slice(), "mysql_native_password")
        );
        assert_eq!(read.capabilities & (SSL | PLUGIN_AUTH), PLUGIN_AUTH);
        for short in 0..body.len() - 24 {
            assert!(greeting(&body[..short]).is_none(), "{short}");
        }
    }
}
