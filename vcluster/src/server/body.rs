//! Request bodies: size, encoding, parsing.

use std::{io::Read, time::Duration};

use axum::body::Body;
use bytes::Bytes;
use http::{HeaderMap, header};
use http_body_util::BodyExt;
use serde_json::Value;
use vctl_machinery::{protobuf, schema, status::ApiError};

/// How long a body may take to arrive; as long as kube-apiserver gives a whole request.
const TIME_LIMIT: Duration = Duration::from_mins(1);
/// Values that a YAML body may expand to: several times as many as any object has that can be stored. An alias of three bytes stands
/// for a value of any size.
const YAML_VALUES: usize = 200_000;
/// Bytes of text that a YAML body may expand to; as many as a body may have.
const YAML_BYTES: usize = 3 << 20;

fn too_large(limit: usize) -> ApiError {
    ApiError::too_large(format!("Request entity too large: limit is {limit}"))
}

/// The whole body, decompressed.
pub(crate) async fn read(body: Body, headers: &HeaderMap, limit: usize) -> Result<Bytes, ApiError> {
    read_within(TIME_LIMIT, body, headers, limit).await
}

async fn read_within(time: Duration, body: Body, headers: &HeaderMap, limit: usize) -> Result<Bytes, ApiError> {
    let declared =
        headers.get(header::CONTENT_LENGTH).and_then(|v| v.to_str().ok()).and_then(|v| v.parse::<usize>().ok());
    if declared.is_some_and(|d| d > limit) {
        return Err(too_large(limit));
    }
    let collected = tokio::time::timeout(time, http_body_util::Limited::new(body, limit).collect()).await;
    let collected = collected.map_err(|_| ApiError {
        code: 504,
        reason: "Timeout",
        message: format!("Timeout: the body of the request did not arrive within {} s", time.as_secs()),
        details: Value::Null,
    })?;
    let bytes = match collected {
        Ok(collected) => collected.to_bytes(),
        Err(e) if e.downcast_ref::<http_body_util::LengthLimitError>().is_some() => return Err(too_large(limit)),
        Err(e) => return Err(ApiError::bad_request(format!("the body of the request could not be read: {e}"))),
    };
    if headers.get(header::CONTENT_ENCODING).is_none_or(|e| e != "gzip") {
        return Ok(bytes);
    }
    let mut plain = Vec::new();
    flate2::read::GzDecoder::new(&*bytes)
        .take(limit as u64 + 1)
        .read_to_end(&mut plain)
        .map_err(|e| ApiError::bad_request(format!("the body of the request is not gzip: {e}")))?;
    if plain.len() > limit { Err(too_large(limit)) } else { Ok(plain.into()) }
}

/// Media type of the body, without parameters.
pub(crate) fn media_type(headers: &HeaderMap) -> String {
    let value = headers.get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or_default();
    value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// Parses an object; also returns duplicate fields.
pub(crate) fn object(bytes: &[u8], headers: &HeaderMap) -> Result<(Value, Vec<String>), ApiError> {
    let media = media_type(headers);
    match media.as_str() {
        "application/json" | "" => parse(bytes, false),
        "application/yaml" => parse(bytes, true),
        "application/vnd.kubernetes.protobuf" => {
            Ok((protobuf::decode(bytes).map_err(ApiError::bad_request)?, Vec::new()))
        }
        _ => Err(unknown(&["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"])),
    }
}

fn parse(bytes: &[u8], yaml: bool) -> Result<(Value, Vec<String>), ApiError> {
    let parsed = if yaml { yaml_value(bytes) } else { schema::parse_json(bytes) };
    parsed.map_err(|e| {
        ApiError::bad_request(format!(
            "the object provided is unrecognized (must be of type {UNKNOWN_TYPE}): couldn't get version/kind; json parse error: {} ({})",
            go_syntax(&e),
            summary(bytes)
        ))
    })
}

/// Stands for the type in a message until it is known what the body should be.
pub(crate) const UNKNOWN_TYPE: &str = "a known type";

/// What Go's decoder says of a document that ends too early.
fn go_syntax(error: &str) -> String {
    if error.starts_with("EOF") { "unexpected end of JSON input".to_owned() } else { error.to_owned() }
}

/// The start of a body as upstream shows it (`summarizeData`): text if it may be an object, else bytes.
pub(crate) fn summary(bytes: &[u8]) -> String {
    let (start, more) = if bytes.len() > 30 { (&bytes[..30], " ...") } else { (bytes, "") };
    match start.first() {
        None => "<empty>".to_owned(),
        Some(b'{') => format!("{}{more}", String::from_utf8_lossy(start)),
        Some(_) => format!("{}{more}", hex::encode(start)),
    }
}

/// 415.
pub(crate) fn unknown(accepted: &[&str]) -> ApiError {
    ApiError::unsupported_media_type(format!(
        "the body of the request was in an unknown format - accepted media types include: {}",
        accepted.join(", ")
    ))
}

/// JSON or YAML, for patches.
pub(crate) fn patch(bytes: &[u8], yaml: bool) -> Result<(Value, Vec<String>), ApiError> {
    let parsed = if yaml { yaml_value(bytes) } else { schema::parse_json(bytes) };
    parsed.map_err(|e| ApiError::bad_request(format!("error decoding patch: {e}")))
}

fn yaml_value(bytes: &[u8]) -> Result<(Value, Vec<String>), String> {
    // What kubectl and helm send as YAML is JSON.
    if bytes.trim_ascii_start().starts_with(b"{")
        && let Ok(parsed) = schema::parse_json(bytes)
    {
        return Ok(parsed);
    }
    if schema::yaml_work(bytes) > schema::YAML_WORK {
        return Err("too many nested collections for YAML of this size; send JSON".to_owned());
    }
    let budget = schema::Budget::new(YAML_VALUES, YAML_BYTES);
    let value = schema::read_bounded(serde_yaml::Deserializer::from_slice(bytes), &budget).map_err(|e| match budget
        .is_spent()
    {
        true if bytes.contains(&b'*') => "yaml: document contains excessive aliasing".to_owned(),
        true => format!("too much for YAML, of which {YAML_VALUES} values and {YAML_BYTES} bytes are read; send JSON"),
        // The parser's own bound, on how often it follows an alias.
        false if e.to_string().contains("repetition limit exceeded") => {
            "yaml: document contains excessive aliasing".to_owned()
        }
        false => e.to_string(),
    })?;
    schema::check_depth(&value)?;
    Ok((value, Vec::new()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A body of which a piece comes now and then, as long as somebody asks.
    fn endless() -> Body {
        Body::from_stream(futures::stream::unfold((), |()| async {
            tokio::time::sleep(Duration::from_millis(1)).await;
            Some((Ok::<_, std::convert::Infallible>(Bytes::from_static(b" ")), ()))
        }))
    }

    #[tokio::test]
    async fn a_body_that_drips_has_an_end() {
        let read = async |time, limit| read_within(time, endless(), &HeaderMap::new(), limit).await.unwrap_err().code;
        assert_eq!(read(Duration::from_millis(50), usize::MAX).await, 504);
        assert_eq!(read(Duration::from_hours(1), 20).await, 413);
    }

    /// What it would expand to, were it built, is far more than memory; that it is not is counted by [`schema::Budget`].
    #[test]
    fn aliases_do_not_expand_without_end() {
        let many = |what: &str, n: usize| vec![what; n].join(",");
        let squared = format!("x: &a [{}]\ny: [{}]\n", many("1", 10_000), many("*a", 10_000));
        let text = format!("x: &a {}\ny: [{}]\n", "t".repeat(100_000), many("*a", 100));
        let keys = format!("x: &a {}\ny: [{}]\n", "t".repeat(100_000), many("{*a : 1}", 100));
        let tenfold = |n: u8| format!("l{n}: &l{n} [{}]\n", many(&format!("*l{}", n - 1), 10));
        let grows = format!("l0: &l0 1\n{}", (1..12).map(tenfold).collect::<String>());
        for bomb in [squared, text, keys, grows] {
            let refused = object(bomb.as_bytes(), &yaml()).unwrap_err();
            assert_eq!(refused.code, 400);
            assert!(refused.message.contains("document contains excessive aliasing"), "{}", refused.message);
            let refused = patch(bomb.as_bytes(), true).unwrap_err();
            assert_eq!(refused.message, "error decoding patch: yaml: document contains excessive aliasing");
        }
        let refused = yaml_value(format!("[{}]", many("1", YAML_VALUES)).as_bytes()).unwrap_err();
        assert!(refused.contains("send JSON"), "{refused}");
        // What people write.
        let fine = "base: &base {a: 1, 2: [x, null, .5]}\nuses: [*base, *base]\n";
        let base = serde_json::json!({ "a": 1, "2": ["x", null, 0.5] });
        let (value, _) = object(fine.as_bytes(), &yaml()).unwrap();
        assert_eq!(value, serde_json::json!({ "base": base, "uses": [base, base] }));
    }

    fn yaml() -> HeaderMap {
        HeaderMap::from_iter([(header::CONTENT_TYPE, http::HeaderValue::from_static("application/yaml"))])
    }

    /// Were it parsed, this would take minutes.
    #[test]
    fn yaml_that_takes_long_to_parse_is_refused() {
        for opening in ["{a: ", "[", "[\"]\", ", "{? "] {
            let refused = yaml_value(opening.repeat(300_000).as_bytes()).unwrap_err();
            assert!(refused.contains("send JSON"), "{refused}");
        }
        let large = format!("data:\n{}", "  k: {a: [b, c], d: {}}\n".repeat(2).replace('k', "key1 "));
        assert!(yaml_value(large.replacen("key1", "key0", 1).as_bytes()).is_ok());
        assert!(yaml_value(format!("{}1{}", "{\"a\": ".repeat(121), "}".repeat(121)).as_bytes()).is_err());
        assert!(yaml_value(format!("{}1{}", "{a: ".repeat(121), "}".repeat(121)).as_bytes()).is_err());
        assert!(yaml_value(format!("{}1{}", "{a: ".repeat(120), "}".repeat(120)).as_bytes()).is_ok());
    }
}
