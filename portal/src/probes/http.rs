//! HTTP: `GET /`. Any answer but a refusal of the credentials, or a failure of the server, is good.

use base64::{Engine, engine::general_purpose::STANDARD};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{ProbeError, Target};

pub(super) async fn probe(target: &Target) -> Result<String, ProbeError> {
    let mut stream = target.connect().await?;
    let mut request =
        format!("GET / HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nUser-Agent: vctl\r\n", target.place());
    if let Some(password) = &target.password {
        let credentials = STANDARD.encode(format!("{}:{password}", target.user));
        request.push_str(&format!("Authorization: Basic {credentials}\r\n"));
    }
    request.push_str("\r\n");
    stream.write_all(request.as_bytes()).await.map_err(|e| target.broken(&e))?;
    let mut answer = [0; 64];
    let mut read = 0;
    while read < answer.len() && !answer[..read].contains(&b'\n') {
        match stream.read(&mut answer[read..]).await {
            Ok(0) if read == 0 => return Err(target.hung_up(None).await),
            Err(e) if read == 0 && !target.tls => return Err(target.hung_up(Some(&e)).await),
            Ok(0) => break,
            Ok(more) => read += more,
            Err(e) => return Err(target.broken(&e)),
        }
    }
    let answer = &answer[..read];
    let place = target.place();
    if answer.first() == Some(&0x15) {
        return Err(ProbeError::WantsTls(place));
    }
    let line = String::from_utf8_lossy(answer);
    let line = line.lines().next().unwrap_or_default();
    let status =
        line.strip_prefix("HTTP/1.").and_then(|rest| rest.split(' ').nth(1)).and_then(|s| s.parse::<u16>().ok());
    match status {
        Some(401 | 403) if target.password.is_none() => Err(ProbeError::WantsPassword { place }),
        Some(401 | 403) => Err(ProbeError::Password { place, user: target.user.clone() }),
        // What nginx and others answer to plain text on a port of TLS.
        Some(400) if !target.tls && target.speaks_tls().await => Err(ProbeError::WantsTls(place)),
        Some(status) if status >= 500 => Err(ProbeError::Refused { place, why: line.to_owned() }),
        Some(status) => Ok(format!("HTTP at {place} answers {status}")),
        None => Err(ProbeError::Protocol { place, kind: "HTTP", why: format!("it answered {line:?}") }),
    }
}
