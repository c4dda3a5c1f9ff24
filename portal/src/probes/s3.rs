//! Object stores that speak S3: lists one object of the bucket (or the buckets, when none is named), signed with AWS Signature Version 4.
//! The user is the access key's id, the password its secret, the database the bucket.

use std::fmt::Write as _;

use jiff::{Timestamp, tz::TimeZone};
use ring::{digest, hmac};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{ANSWER_LIMIT, ProbeError, Target};

/// What most object stores other than Amazon's call their one region.
const REGION: &str = "us-east-1";

pub(super) async fn probe(target: &Target) -> Result<String, ProbeError> {
    match ask(target, REGION).await? {
        Answer::Good => {}
        Answer::Elsewhere(region) => match ask(target, &region).await? {
            Answer::Good => {}
            Answer::Elsewhere(other) => {
                let why = format!("it sends from region {region} to {other}");
                return Err(ProbeError::Refused { place: target.place(), why });
            }
        },
    }
    let bucket = if target.database.is_empty() { String::new() } else { format!(", bucket {}", target.database) };
    Ok(format!("S3 at {}{bucket}", target.place()))
}

enum Answer {
    Good,
    /// The bucket is in this region.
    Elsewhere(String),
}

async fn ask(target: &Target, region: &str) -> Result<Answer, ProbeError> {
    let mut stream = target.connect().await?;
    let request = request(target, region);
    stream.write_all(request.as_bytes()).await.map_err(|e| target.broken(&e))?;
    let mut bytes = Vec::new();
    let mut piece = [0; 4096];
    // Some servers do not close, and some close without the farewell of TLS: what came before counts.
    while bytes.len() < ANSWER_LIMIT && !is_whole(&bytes) {
        match stream.read(&mut piece).await {
            Ok(0) if bytes.is_empty() => return Err(target.hung_up(None).await),
            Err(e) if bytes.is_empty() && !target.tls => return Err(target.hung_up(Some(&e)).await),
            Ok(0) => break,
            Ok(read) => bytes.extend(&piece[..read]),
            Err(e) if bytes.is_empty() => return Err(target.broken(&e)),
            Err(_) => break,
        }
    }
    if bytes.first() == Some(&0x15) && !target.tls {
        return Err(ProbeError::WantsTls(target.place()));
    }
    let answer = String::from_utf8_lossy(&bytes);
    // What others answer to plain text on a port of TLS.
    if !target.tls && status(&answer) == Some(400) && !answer.contains("<Code>") && target.speaks_tls().await {
        return Err(ProbeError::WantsTls(target.place()));
    }
    judge(target, &answer)
}

/// The status of an answer of HTTP.
fn status(answer: &str) -> Option<u16> {
    answer.strip_prefix("HTTP/1.")?.split(' ').nth(1)?.get(..3)?.parse().ok()
}

/// Whether the last element of an answer has come.
fn is_whole(bytes: &[u8]) -> bool {
    let ends = ["</ListBucketResult>", "</ListAllMyBucketsResult>", "</Error>"];
    let text = String::from_utf8_lossy(bytes);
    ends.iter().any(|end| text.trim_end().ends_with(end)) || text.contains("\r\n0\r\n\r\n")
}

fn judge(target: &Target, answer: &str) -> Result<Answer, ProbeError> {
    let place = target.place();
    let line = answer.lines().next().unwrap_or_default();
    let status = status(line);
    let element = |name: &str| {
        let (_, rest) = answer.split_once(&format!("<{name}>"))?;
        rest.split_once(&format!("</{name}>")).map(|(text, _)| text.trim().to_owned())
    };
    let head = answer.split("\r\n\r\n").next().unwrap_or_default();
    let region = head
        .lines()
        .filter_map(|l| l.split_once(':'))
        .find(|(name, _)| name.eq_ignore_ascii_case("x-amz-bucket-region"))
        .map(|(_, value)| value.trim().to_owned());
    let code = element("Code").unwrap_or_default();
    let why = element("Message").filter(|m| !m.is_empty()).map_or_else(|| code.clone(), |m| format!("{code}: {m}"));
    match (status, code.as_str()) {
        // Anything can answer 200.
        (Some(200), _) if answer.contains("<ListBucketResult") || answer.contains("<ListAllMyBucketsResult") => {
            Ok(Answer::Good)
        }
        (Some(301 | 307 | 400), "PermanentRedirect" | "TemporaryRedirect" | "AuthorizationHeaderMalformed")
            if region.is_some() || element("Region").is_some() =>
        {
            Ok(Answer::Elsewhere(element("Region").or(region).unwrap_or_default()))
        }
        (
            _,
            "InvalidAccessKeyId" | "SignatureDoesNotMatch" | "InvalidToken" | "AuthFailure" | "InvalidClientTokenId",
        ) => Err(ProbeError::Password { place, user: target.user.clone() }),
        (Some(401 | 403), _) if target.password.is_none() => Err(ProbeError::WantsPassword { place }),
        (_, "NoSuchBucket") => {
            let why = format!("there is no bucket {:?}: make it, or name another one with --database", target.database);
            Err(ProbeError::Refused { place, why })
        }
        (Some(_), code) if !code.is_empty() => Err(ProbeError::Refused { place, why }),
        (Some(status), _) if status >= 500 => Err(ProbeError::Refused { place, why: line.to_owned() }),
        _ => Err(ProbeError::Protocol { place, kind: "S3", why: format!("it answered {line:?}") }),
    }
}

fn request(target: &Target, region: &str) -> String {
    let (path, query) = if target.database.is_empty() {
        ("/".to_owned(), "")
    } else {
        (format!("/{}", encoded(&target.database)), "list-type=2&max-keys=1")
    };
    let usual = if target.tls { 443 } else { 80 };
    let host = if target.port == usual { target.host.clone() } else { target.place() };
    let question = if query.is_empty() { String::new() } else { format!("?{query}") };
    let mut request =
        format!("GET {path}{question} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\nuser-agent: vctl\r\n");
    if let Some(secret) = &target.password {
        for (name, value) in signed(target, secret, region, &host, &path, query) {
            let _ = write!(request, "{name}: {value}\r\n");
        }
    }
    request.push_str("\r\n");
    request
}

/// The headers that sign a request without a body.
fn signed(
    target: &Target,
    secret: &str,
    region: &str,
    host: &str,
    path: &str,
    query: &str,
) -> [(&'static str, String); 3] {
    let sha = |text: &str| hex::encode(digest::digest(&digest::SHA256, text.as_bytes()));
    let sign = |key: &[u8], text: &str| hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text.as_bytes());
    let (day, time) = stamps(target.now);
    let body = sha("");
    let names = "host;x-amz-content-sha256;x-amz-date";
    let canonical =
        format!("GET\n{path}\n{query}\nhost:{host}\nx-amz-content-sha256:{body}\nx-amz-date:{time}\n\n{names}\n{body}");
    let scope = format!("{day}/{region}/s3/aws4_request");
    let text = format!("AWS4-HMAC-SHA256\n{time}\n{scope}\n{}", sha(&canonical));
    let mut key = sign(format!("AWS4{secret}").as_bytes(), &day);
    for part in [region, "s3", "aws4_request"] {
        key = sign(key.as_ref(), part);
    }
    let signature = hex::encode(sign(key.as_ref(), &text));
    let user = &target.user;
    let authorization =
        format!("AWS4-HMAC-SHA256 Credential={user}/{scope}, SignedHeaders={names}, Signature={signature}");
    [("x-amz-date", time), ("x-amz-content-sha256", body), ("authorization", authorization)]
}

fn stamps(now: Timestamp) -> (String, String) {
    let now = now.to_zoned(TimeZone::UTC);
    (now.strftime("%Y%m%d").to_string(), now.strftime("%Y%m%dT%H%M%SZ").to_string())
}

/// As a path of a URL wants it (RFC 3986, what is not reserved).
fn encoded(text: &str) -> String {
    text.bytes().fold(String::new(), |mut encoded, b| {
        if b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_' | b'~') {
            encoded.push(char::from(b));
        } else {
            let _ = write!(encoded, "%{b:02X}");
        }
        encoded
    })
}

#[cfg(test)]
mod tests {
    use vctl_api::rest::ResourceKind;

    use super::*;

    /// The example "GET Bucket (List Objects)" of Amazon's documentation of Signature Version 4.
    #[test]
    fn the_example_of_the_documentation_is_signed_alike() {
        let target = Target {
            kind: ResourceKind::S3,
            host: "examplebucket.s3.amazonaws.com".into(),
            port: 80,
            user: "AKIAIOSFODNN7EXAMPLE".into(),
            database: String::new(),
            tls: false,
            ca_bundle: String::new(),
            password: None,
            now: "2013-05-24T00:00:00Z".parse().expect("time"),
        };
        let secret = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";
        let [(_, date), _, (_, authorization)] =
            signed(&target, secret, "us-east-1", &target.host, "/", "max-keys=2&prefix=J");
        assert_eq!(date, "20130524T000000Z");
        assert!(
            authorization.ends_with("34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"),
            "{authorization}"
        );
    }
}
