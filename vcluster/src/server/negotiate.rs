//! What form of an answer a client wants: encoding, and object, table or metadata only.

use http::{HeaderMap, header};
use vctl_machinery::status::ApiError;

use crate::request::Query;

pub(crate) const NOT_ACCEPTABLE: &str = "only the following media types are accepted: application/json, application/yaml, application/vnd.kubernetes.protobuf";

/// Bytes on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Encoding {
    Json,
    Yaml,
    Protobuf,
}

/// What objects are shown as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Object,
    /// `meta.k8s.io` Table.
    Table,
    /// `meta.k8s.io` PartialObjectMetadata (also asked for as its list).
    Metadata,
}

/// The outcome of negotiation.
#[derive(Debug, Clone)]
pub(crate) struct Accept {
    pub encoding: Encoding,
    pub form: Form,
    /// Version of `meta.k8s.io`.
    pub version: String,
    pub pretty: bool,
    pub(crate) parameters: String,
}

impl Accept {
    /// What goes after the media type of the answer.
    pub(crate) fn parameters(&self) -> &str {
        &self.parameters
    }

    /// JSON objects, as errors are sent.
    pub(crate) fn json() -> Self {
        Self {
            encoding: Encoding::Json,
            form: Form::Object,
            version: "v1".into(),
            pretty: false,
            parameters: String::new(),
        }
    }
}

/// One entry of an Accept header.
pub(crate) struct Clause {
    pub media: String,
    pub parameters: Vec<(String, String)>,
    quality: u32,
}

impl Clause {
    pub(crate) fn parameter(&self, name: &str) -> &str {
        self.parameters.iter().find(|(k, _)| k == name).map_or("", |(_, v)| v)
    }
}

/// The entries of the Accept header, best first.
pub(crate) fn clauses(headers: &HeaderMap) -> Vec<Clause> {
    let mut clauses: Vec<Clause> = headers
        .get_all(header::ACCEPT)
        .iter()
        .filter_map(|v| v.to_str().ok())
        .flat_map(|v| v.split(','))
        .filter(|c| !c.trim().is_empty())
        .map(|c| {
            let mut parts = c.split(';');
            let media = parts.next().unwrap_or_default().trim().to_ascii_lowercase();
            let parameters: Vec<(String, String)> = parts
                .filter_map(|p| p.split_once('='))
                .map(|(k, v)| (k.trim().to_ascii_lowercase(), v.trim().trim_matches('"').to_owned()))
                .collect();
            let quality =
                parameters.iter().find(|(k, _)| k == "q").and_then(|(_, v)| v.parse::<f64>().ok()).unwrap_or(1.0);
            Clause { media, parameters, quality: (quality * 1000.0) as u32 }
        })
        .filter(|c| c.quality > 0)
        .collect();
    clauses.sort_by_key(|c| std::cmp::Reverse(c.quality));
    clauses
}

/// As [`accept`], for what has no table: the next form that the client takes, or 406.
pub(crate) fn accept_untabled(headers: &HeaderMap, query: &Query) -> Result<Accept, ApiError> {
    choose(clauses(headers), headers, query, false)
}

/// What `includeObject` of the query says about the objects in a table's rows.
pub(crate) fn include_object(query: &Query) -> Result<&str, ApiError> {
    match query.get("includeObject") {
        known @ ("" | "Metadata" | "Object" | "None") => Ok(known),
        other => Err(ApiError::bad_request(format!(
            "Unable to convert to Table as requested: includeObject: Invalid value: {other:?}: must be 'Metadata', 'Object', 'None', or \
             empty"
        ))),
    }
}

/// Chooses; JSON before protobuf where the client takes both, since every form has a JSON encoding.
pub(crate) fn accept(headers: &HeaderMap, query: &Query) -> Result<Accept, ApiError> {
    let accept = choose(clauses(headers), headers, query, true)?;
    if accept.form == Form::Table {
        include_object(query)?;
    }
    Ok(accept)
}

fn choose(mut clauses: Vec<Clause>, headers: &HeaderMap, query: &Query, tables: bool) -> Result<Accept, ApiError> {
    let agent = headers.get(header::USER_AGENT).and_then(|v| v.to_str().ok()).unwrap_or_default();
    let browser = ["curl", "Wget", "Mozilla/5.0"].iter().any(|p| agent.starts_with(p));
    let pretty = if query.has("pretty") { query.flag("pretty") } else { browser };
    if clauses.is_empty() {
        return Ok(Accept { pretty, ..Accept::json() });
    }
    let json = |c: &Clause| matches!(&*c.media, "application/json" | "*/*" | "application/*");
    // Protobuf only for clients that take nothing else; else the order of the client.
    if clauses.iter().any(json) {
        clauses.retain(|c| {
            c.media != "application/vnd.kubernetes.protobuf" || clauses_form(c).is_some_and(|f| f != Form::Object)
        });
    }
    for clause in &clauses {
        let Some(form) = clauses_form(clause).filter(|f| tables || *f != Form::Table) else { continue };
        let encoding = match &*clause.media {
            "application/json" | "*/*" | "application/*" => Encoding::Json,
            "application/yaml" => Encoding::Yaml,
            "application/vnd.kubernetes.protobuf" if form == Form::Object => Encoding::Protobuf,
            _ => continue,
        };
        let parameters = match form {
            Form::Object => String::new(),
            _ => format!(";as={};g=meta.k8s.io;v={}", clause.parameter("as"), clause.parameter("v")),
        };
        let version = match clause.parameter("v") {
            "" => "v1".to_owned(),
            version => version.to_owned(),
        };
        return Ok(Accept { encoding, form, version, pretty, parameters });
    }
    Err(ApiError::not_acceptable(NOT_ACCEPTABLE))
}

/// The form asked for; none for one that is unknown.
fn clauses_form(clause: &Clause) -> Option<Form> {
    if clause.parameter("as").is_empty() {
        return Some(Form::Object);
    }
    if clause.parameter("g") != "meta.k8s.io" || !matches!(clause.parameter("v"), "v1" | "v1beta1") {
        return None;
    }
    match clause.parameter("as") {
        "Table" => Some(Form::Table),
        "PartialObjectMetadata" | "PartialObjectMetadataList" => Some(Form::Metadata),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(value: &str) -> Result<(Encoding, Form), ApiError> {
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, value.parse().unwrap());
        accept(&headers, &Query::default()).map(|a| (a.encoding, a.form))
    }

    #[test]
    fn clients_get_the_form_they_can_read() {
        let kubectl = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
        assert_eq!(of(kubectl).unwrap(), (Encoding::Json, Form::Table));
        assert_eq!(of("application/vnd.kubernetes.protobuf,application/json").unwrap(), (Encoding::Json, Form::Object));
        assert_eq!(of("application/vnd.kubernetes.protobuf, */*").unwrap(), (Encoding::Json, Form::Object));
        assert_eq!(of("application/vnd.kubernetes.protobuf").unwrap(), (Encoding::Protobuf, Form::Object));
        assert_eq!(of("application/yaml").unwrap(), (Encoding::Yaml, Form::Object));
        let metadata = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";
        assert_eq!(of(metadata).unwrap(), (Encoding::Json, Form::Metadata));
        assert_eq!(of("text/html").unwrap_err().code, 406);
    }
}
