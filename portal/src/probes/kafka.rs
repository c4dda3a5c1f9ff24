//! Kafka: which APIs the broker has, a sign-in (SASL: SCRAM-SHA-512, SCRAM-SHA-256 or PLAIN) when there is a password, and which brokers
//! there are. What is sent is described in Kafka's protocol guide.

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{
    ANSWER_LIMIT, ProbeError, Stream, Target,
    scram::{Hash, Scram},
};

const METADATA: i16 = 3;
const SASL_HANDSHAKE: i16 = 17;
const API_VERSIONS: i16 = 18;
const SASL_AUTHENTICATE: i16 = 36;
/// The mechanism is not one of the broker's.
const UNSUPPORTED_MECHANISM: i16 = 33;
/// The listener has no sign-in.
const ILLEGAL_STATE: i16 = 34;
const AUTHENTICATION_FAILED: i16 = 58;
/// Versions of the metadata request that are written alike but for what follows the topics.
const METADATA_VERSIONS: (i16, i16) = (1, 8);
/// Ways to sign in, the best one first.
const MECHANISMS: [&str; 3] = ["SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN"];

struct Session<'a> {
    target: &'a Target,
    stream: Box<dyn Stream>,
    correlation: i32,
}

pub(super) async fn probe(target: &Target) -> Result<String, ProbeError> {
    let (mut session, metadata) = Session::open(target).await?;
    if let Some(password) = &target.password {
        // A broker closes the connection on which it was asked for a mechanism that it has not.
        let mut mechanism = MECHANISMS[0].to_owned();
        if let Some(others) = session.handshake(&mechanism).await? {
            mechanism = MECHANISMS
                .iter()
                .find(|m| others.iter().any(|o| o == *m))
                .map(|m| (*m).to_owned())
                .ok_or_else(|| {
                    let why = format!("it signs in by {}; supported are {}", others.join(", "), MECHANISMS.join(", "));
                    ProbeError::Refused { place: target.place(), why }
                })?;
            drop(session);
            session = Session::open(target).await?.0;
            if session.handshake(&mechanism).await?.is_some() {
                let why = "it refuses every way to sign in: does this port ask for a password at all?".to_owned();
                return Err(ProbeError::Refused { place: target.place(), why });
            }
        }
        session.sign_in(&mechanism, password).await?;
    }
    let brokers = session.brokers(metadata).await?;
    let count = if brokers == 1 { "1 broker".to_owned() } else { format!("{brokers} brokers") };
    Ok(format!("Kafka at {}, {count}", target.place()))
}

impl<'a> Session<'a> {
    /// A connection, and the version of the metadata request that the broker takes.
    async fn open(target: &'a Target) -> Result<(Self, i16), ProbeError> {
        let mut session = Self { target, stream: target.connect().await?, correlation: 0 };
        let answer = session.ask(API_VERSIONS, 0, &[]).await?;
        let mut answer = Reader(&answer);
        let apis = (|| {
            if answer.i16()? != 0 {
                return None;
            }
            let count = usize::try_from(answer.i32()?).ok()?;
            (0..count.min(1000))
                .map(|_| Some((answer.i16()?, answer.i16()?, answer.i16()?)))
                .collect::<Option<Vec<_>>>()
        })();
        let apis = apis.ok_or_else(|| session.protocol("its list of APIs makes no sense"))?;
        let metadata = apis.iter().find(|(key, ..)| *key == METADATA).map(|(_, low, high)| {
            let (first, last) = METADATA_VERSIONS;
            ((*low).max(first), (*high).min(last))
        });
        match metadata {
            Some((version, last)) if version <= last => Ok((session, version)),
            _ => Err(session.protocol("it has no metadata request of a version between 1 and 8")),
        }
    }

    fn protocol(&self, why: &str) -> ProbeError {
        ProbeError::Protocol { place: self.target.place(), kind: "Kafka", why: why.to_owned() }
    }

    /// One request, and what follows the head of its answer.
    async fn ask(&mut self, api: i16, version: i16, body: &[u8]) -> Result<Vec<u8>, ProbeError> {
        self.correlation += 1;
        let mut request = [api.to_be_bytes(), version.to_be_bytes()].concat();
        request.extend(self.correlation.to_be_bytes());
        request.extend(string("vctl"));
        request.extend(body);
        let mut message = length(request.len());
        message.extend(request);
        self.stream.write_all(&message).await.map_err(|e| self.target.broken(&e))?;
        let mut head = [0; 4];
        if let Err(e) = self.stream.read_exact(&mut head).await {
            // How brokers refuse: without a word.
            let closed = matches!(e.kind(), std::io::ErrorKind::UnexpectedEof | std::io::ErrorKind::ConnectionReset);
            let place = self.target.place();
            return Err(match api {
                API_VERSIONS if closed => self.target.hung_up(Some(&e)).await,
                METADATA if closed && self.target.password.is_none() => ProbeError::WantsPassword { place },
                SASL_AUTHENTICATE if closed => ProbeError::Password { place, user: self.target.user.clone() },
                _ => self.target.broken(&e),
            });
        }
        // An alert of TLS, as the answer to plain text.
        if head[0] == 0x15 && !self.target.tls {
            return Err(ProbeError::WantsTls(self.target.place()));
        }
        let size = usize::try_from(i32::from_be_bytes(head)).unwrap_or_default();
        if !(4..=ANSWER_LIMIT).contains(&size) {
            return Err(self.protocol("it answered something else"));
        }
        let mut answer = vec![0; size];
        self.stream.read_exact(&mut answer).await.map_err(|e| self.target.broken(&e))?;
        if answer.first_chunk::<4>() != Some(&self.correlation.to_be_bytes()) {
            return Err(self.protocol("it answered another question"));
        }
        Ok(answer.split_off(4))
    }

    /// Chooses a mechanism; those that the broker has when this is none of them.
    async fn handshake(&mut self, mechanism: &str) -> Result<Option<Vec<String>>, ProbeError> {
        let answer = self.ask(SASL_HANDSHAKE, 1, &string(mechanism)).await?;
        let mut answer = Reader(&answer);
        let error = answer.i16();
        let others = (|| {
            let count = usize::try_from(answer.i32()?).ok()?;
            (0..count.min(100)).map(|_| answer.string()).collect::<Option<Vec<_>>>()
        })();
        match error {
            Some(0) => Ok(None),
            Some(UNSUPPORTED_MECHANISM) => Ok(Some(others.unwrap_or_default())),
            Some(ILLEGAL_STATE) => {
                let why = "it asks for no password on this port: register it without one, or name the port that does";
                Err(ProbeError::Refused { place: self.target.place(), why: why.to_owned() })
            }
            _ => Err(self.protocol("its answer about signing in makes no sense")),
        }
    }

    async fn sign_in(&mut self, mechanism: &str, password: &str) -> Result<(), ProbeError> {
        let hash = match mechanism {
            "SCRAM-SHA-512" => Hash::Sha512,
            "SCRAM-SHA-256" => Hash::Sha256,
            _ => {
                let plain = format!("\0{}\0{password}", self.target.user);
                return self.sasl(plain.as_bytes()).await.map(drop);
            }
        };
        let mut scram = Scram::new(hash, &self.target.user);
        let server_first = self.sasl(scram.first().as_bytes()).await?;
        let last = scram.last(&server_first, password);
        let last = last.ok_or_else(|| self.protocol("its part of SCRAM makes no sense"))?;
        let server_final = self.sasl(last.as_bytes()).await?;
        // Some brokers tell a wrong password inside of what they call a success.
        if server_final.starts_with("e=") {
            return Err(ProbeError::Password { place: self.target.place(), user: self.target.user.clone() });
        }
        if scram.is_proved(&server_final) { Ok(()) } else { Err(self.protocol("it does not know the password itself")) }
    }

    /// One step of signing in: what the broker says to it.
    async fn sasl(&mut self, bytes: &[u8]) -> Result<String, ProbeError> {
        let mut body = i32::try_from(bytes.len()).unwrap_or(i32::MAX).to_be_bytes().to_vec();
        body.extend(bytes);
        let answer = self.ask(SASL_AUTHENTICATE, 0, &body).await?;
        let mut answer = Reader(&answer);
        let place = self.target.place();
        let (error, message) = (answer.i16(), answer.string().unwrap_or_default());
        match error {
            Some(0) => {}
            Some(AUTHENTICATION_FAILED) => return Err(ProbeError::Password { place, user: self.target.user.clone() }),
            Some(code) => return Err(ProbeError::Refused { place, why: format!("error {code}: {message}") }),
            None => return Err(self.protocol("its answer about signing in makes no sense")),
        }
        let size = answer.i32().and_then(|size| usize::try_from(size).ok()).unwrap_or_default();
        Ok(String::from_utf8_lossy(answer.0.get(..size).unwrap_or_default()).into_owned())
    }

    async fn brokers(&mut self, version: i16) -> Result<usize, ProbeError> {
        // No topics; do not make any; do not say who may do what.
        let mut body = 0_i32.to_be_bytes().to_vec();
        body.extend(match version {
            ..4 => [].as_slice(),
            4..8 => &[0],
            8.. => &[0, 0, 0],
        });
        let answer = self.ask(METADATA, version, &body).await?;
        let mut answer = Reader(&answer);
        // How long the broker has kept us waiting.
        let throttled = if version >= 3 { answer.i32() } else { Some(0) };
        let brokers = throttled.and_then(|_| answer.i32()).and_then(|count| usize::try_from(count).ok());
        brokers.filter(|count| *count > 0).ok_or_else(|| self.protocol("it names no brokers"))
    }
}

fn length(bytes: usize) -> Vec<u8> {
    i32::try_from(bytes).unwrap_or(i32::MAX).to_be_bytes().to_vec()
}

fn string(text: &str) -> Vec<u8> {
    let mut bytes = i16::try_from(text.len()).unwrap_or_default().to_be_bytes().to_vec();
    bytes.extend(text.bytes());
    bytes
}

/// What is left of an answer.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn i16(&mut self) -> Option<i16> {
        let (bytes, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(i16::from_be_bytes(*bytes))
    }

    fn i32(&mut self) -> Option<i32> {
        let (bytes, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(i32::from_be_bytes(*bytes))
    }

    /// Empty when it is null.
    fn string(&mut self) -> Option<String> {
        let size = usize::try_from(self.i16()?).unwrap_or_default();
        let (text, rest) = self.0.split_at_checked(size)?;
        self.0 = rest;
        Some(String::from_utf8_lossy(text).into_owned())
    }
}
