//! Postgres: the start of a session (protocol 3.0), with SCRAM-SHA-256 (RFC 5802, RFC 7677) or a password in clear text, until the server
//! says that it is ready; then good-bye.

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{
    ANSWER_LIMIT, ProbeError, Stream, Target,
    scram::{Hash, Scram},
};

const PROTOCOL: i32 = 196_608;
const SSL_REQUEST: i32 = 80_877_103;

struct Session<'a> {
    target: &'a Target,
    stream: Box<dyn Stream>,
}

pub(super) async fn probe(target: &Target) -> Result<String, ProbeError> {
    let mut tcp = target.tcp().await?;
    let stream: Box<dyn Stream> = if target.tls {
        let mut request = 8_i32.to_be_bytes().to_vec();
        request.extend(SSL_REQUEST.to_be_bytes());
        tcp.write_all(&request).await.map_err(|e| target.broken(&e))?;
        match tcp.read_u8().await.map_err(|e| target.broken(&e))? {
            b'S' => target.secure(tcp).await?,
            _ => return Err(ProbeError::NoTls(target.place())),
        }
    } else {
        Box::new(tcp)
    };
    let mut session = Session { target, stream };
    session.begin().await?;
    session.authenticate().await?;
    let mut version = String::new();
    loop {
        match session.read().await? {
            (b'Z', _) => break,
            (b'S', body) => {
                let mut parts = body.split(|b| *b == 0).map(String::from_utf8_lossy);
                if parts.next().as_deref() == Some("server_version") {
                    version = parts.next().unwrap_or_default().into_owned();
                }
            }
            _ => {}
        }
    }
    // It may hang up first.
    let _ = session.send(b'X', &[]).await;
    Ok(format!("Postgres {version} at {}", target.place()).replace("  ", " "))
}

impl Session<'_> {
    fn protocol(&self, why: &str) -> ProbeError {
        ProbeError::Protocol { place: self.target.place(), kind: "Postgres", why: why.to_owned() }
    }

    async fn begin(&mut self) -> Result<(), ProbeError> {
        let mut body = PROTOCOL.to_be_bytes().to_vec();
        let database = if self.target.database.is_empty() { &self.target.user } else { &self.target.database };
        for (name, value) in
            [("user", &self.target.user), ("database", database), ("application_name", &"vctl".to_owned())]
        {
            body.extend(name.bytes().chain([0]).chain(value.bytes()).chain([0]));
        }
        body.push(0);
        let mut message = length(body.len());
        message.extend(body);
        self.stream.write_all(&message).await.map_err(|e| self.target.broken(&e))
    }

    async fn send(&mut self, kind: u8, body: &[u8]) -> Result<(), ProbeError> {
        let mut message = vec![kind];
        message.extend(length(body.len()));
        message.extend(body);
        self.stream.write_all(&message).await.map_err(|e| self.target.broken(&e))
    }

    /// The next message: its kind and body. An error of the server is one of ours.
    async fn read(&mut self) -> Result<(u8, Vec<u8>), ProbeError> {
        let mut head = [0; 5];
        self.stream.read_exact(&mut head).await.map_err(|e| self.target.broken(&e))?;
        let [kind, size @ ..] = head;
        let size = usize::try_from(i32::from_be_bytes(size)).unwrap_or_default();
        if !(4..=ANSWER_LIMIT).contains(&size) || !kind.is_ascii_alphabetic() {
            return Err(self.protocol("it answered something else"));
        }
        let mut body = vec![0; size - 4];
        self.stream.read_exact(&mut body).await.map_err(|e| self.target.broken(&e))?;
        if kind == b'E' { Err(self.refused(&body)) } else { Ok((kind, body)) }
    }

    fn refused(&self, body: &[u8]) -> ProbeError {
        let field = |wanted: u8| {
            let found = body.split(|b| *b == 0).find(|f| f.first() == Some(&wanted));
            found.map(|f| String::from_utf8_lossy(&f[1..]).into_owned()).unwrap_or_default()
        };
        let (code, message) = (field(b'C'), field(b'M'));
        let place = self.target.place();
        match code.as_str() {
            "28P01" => ProbeError::Password { place, user: self.target.user.clone() },
            // pg_hba.conf has entries with TLS only.
            "28000" if !self.target.tls && message.contains("no encryption") => ProbeError::WantsTls(place),
            _ => ProbeError::Refused { place, why: message },
        }
    }

    fn password(&self) -> Result<String, ProbeError> {
        let place = self.target.place();
        self.target.password.clone().ok_or(ProbeError::WantsPassword { place })
    }

    async fn authenticate(&mut self) -> Result<(), ProbeError> {
        loop {
            let (b'R', body) = self.read().await? else { return Err(self.protocol("it did not ask for credentials")) };
            let Some((method, rest)) = body.split_first_chunk::<4>() else {
                return Err(self.protocol("a message is too short"));
            };
            match i32::from_be_bytes(*method) {
                0 => return Ok(()),
                3 => {
                    let mut password = self.password()?.into_bytes();
                    password.push(0);
                    self.send(b'p', &password).await?;
                }
                10 if rest.split(|b| *b == 0).any(|m| m == b"SCRAM-SHA-256") => self.scram().await?,
                5 => {
                    let why = "it wants MD5 passwords, which are not supported: set password_encryption = scram-sha-256 there";
                    return Err(ProbeError::Refused { place: self.target.place(), why: why.to_owned() });
                }
                other => {
                    return Err(
                        self.protocol(&format!("it wants authentication method {other}, which is not supported"))
                    );
                }
            }
        }
    }

    async fn scram(&mut self) -> Result<(), ProbeError> {
        let password = self.password()?;
        // The user was named at the beginning.
        let mut scram = Scram::new(Hash::Sha256, "");
        let first = scram.first();
        let mut body = b"SCRAM-SHA-256\0".to_vec();
        body.extend(i32::try_from(first.len()).unwrap_or_default().to_be_bytes());
        body.extend(first.bytes());
        self.send(b'p', &body).await?;
        let server_first = self.sasl(11).await?;
        let last = scram.last(&server_first, &password);
        let last = last.ok_or_else(|| self.protocol("its part of SCRAM makes no sense"))?;
        self.send(b'p', last.as_bytes()).await?;
        let server_final = self.sasl(12).await?;
        if scram.is_proved(&server_final) { Ok(()) } else { Err(self.protocol("it does not know the password itself")) }
    }

    /// Text of the next step of SASL.
    async fn sasl(&mut self, step: i32) -> Result<String, ProbeError> {
        match self.read().await? {
            (b'R', body) if body.first_chunk::<4>() == Some(&step.to_be_bytes()) => {
                Ok(String::from_utf8_lossy(&body[4..]).into_owned())
            }
            _ => Err(self.protocol("a step of SCRAM is missing")),
        }
    }
}

/// A length that counts itself.
fn length(body: usize) -> Vec<u8> {
    i32::try_from(body + 4).unwrap_or(i32::MAX).to_be_bytes().to_vec()
}
