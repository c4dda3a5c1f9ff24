//! Redis: `AUTH` and `PING` (RESP2).

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

use super::{ProbeError, Stream, Target};

pub(super) async fn probe(target: &Target) -> Result<String, ProbeError> {
    let mut stream = BufReader::new(target.connect().await?);
    if let Some(password) = &target.password {
        let mut auth = vec!["AUTH"];
        if !target.user.is_empty() {
            auth.push(&target.user);
        }
        auth.push(password);
        check(target, &ask(target, &mut stream, &auth).await?)?;
    }
    check(target, &ask(target, &mut stream, &["PING"]).await?)?;
    Ok(format!("Redis at {}", target.place()))
}

async fn ask(target: &Target, stream: &mut BufReader<Box<dyn Stream>>, words: &[&str]) -> Result<String, ProbeError> {
    let mut request = format!("*{}\r\n", words.len());
    for word in words {
        request.push_str(&format!("${}\r\n{word}\r\n", word.len()));
    }
    stream.write_all(request.as_bytes()).await.map_err(|e| target.broken(&e))?;
    let mut line = Vec::new();
    let mut limited = tokio::io::AsyncReadExt::take(&mut *stream, super::ANSWER_LIMIT as u64);
    match limited.read_until(b'\n', &mut line).await {
        Ok(_) if line.is_empty() => return Err(target.hung_up(None).await),
        // It hangs up with what it was sent unread.
        Err(e) if line.is_empty() && !target.tls => return Err(target.hung_up(Some(&e)).await),
        read => read.map_err(|e| target.broken(&e))?,
    };
    if line.first() == Some(&0x15) {
        // An alert of TLS is what a TLS server answers to plain text.
        return Err(ProbeError::WantsTls(target.place()));
    }
    Ok(String::from_utf8_lossy(&line).trim_end().to_owned())
}

fn check(target: &Target, answer: &str) -> Result<(), ProbeError> {
    let place = target.place();
    match answer {
        "+OK" | "+PONG" => Ok(()),
        refused if refused.starts_with("-NOAUTH") => Err(ProbeError::WantsPassword { place }),
        refused if refused.starts_with("-WRONGPASS") || refused.contains("invalid password") => {
            Err(ProbeError::Password { place, user: target.user.clone() })
        }
        refused if refused.starts_with('-') => Err(ProbeError::Refused { place, why: refused[1..].to_owned() }),
        other => {
            let why = format!("it answered {:?}", other.chars().take(60).collect::<String>());
            Err(ProbeError::Protocol { place, kind: "Redis", why })
        }
    }
}
