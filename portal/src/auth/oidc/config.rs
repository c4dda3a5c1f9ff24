//! The issuers that people sign in at: a YAML file, read and checked before anything is bound.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use jiff::SignedDuration;
use serde::Deserialize;
use url::Url;

/// The configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum OidcConfigError {
    /// A file cannot be read.
    #[error("{path}: {source}: name a file that the server may read")]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It is not what such a file holds.
    #[error("{path}: {why}")]
    Invalid {
        /// Which.
        path: PathBuf,
        /// What is wrong, where, and what would be right.
        why: String,
    },
}

/// Where people sign in.
#[derive(Clone)]
pub struct OidcConfig {
    /// By name; a name is the first part of the ids of its users.
    pub issuers: BTreeMap<String, IssuerConfig>,
    /// So often at most an issuer is asked whether a sign-in still counts.
    pub refresh_interval: SignedDuration,
    /// So long what an issuer said last counts while it cannot be reached.
    pub grace: SignedDuration,
    /// So long a sign-in counts for which the issuer gave no refresh token.
    pub without_refresh: SignedDuration,
}

/// One issuer. The secret is not shown.
#[derive(Clone)]
pub struct IssuerConfig {
    /// Its address, as in `iss`.
    pub url: String,
    /// What the sign-in page calls it.
    pub title: String,
    /// Our id there.
    pub client_id: String,
    /// Our secret there; none for a public client.
    pub client_secret: Option<String>,
    /// What is asked for. None: `openid email profile`, and `groups` and `offline_access` where the issuer says that it has them.
    pub scopes: Option<Vec<String>>,
    /// Further parameters of the authorization request.
    pub parameters: BTreeMap<String, String>,
    /// Which claims say what.
    pub claims: ClaimNames,
    /// The authorities (PEM) that count for its certificate; none: those of the machine.
    pub authorities: Option<Vec<u8>>,
}

/// Which claims say what.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ClaimNames {
    /// Name of the account.
    pub username: String,
    /// Email address; not used when `email_verified` is false.
    pub email: String,
    /// A list of groups, or one.
    pub groups: String,
}

impl Default for ClaimNames {
    fn default() -> Self {
        Self { username: "preferred_username".into(), email: "email".into(), groups: "groups".into() }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct File {
    issuers: BTreeMap<String, IssuerFile>,
    #[serde(default)]
    refresh_interval: Option<String>,
    #[serde(default)]
    grace: Option<String>,
    #[serde(default)]
    without_refresh: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct IssuerFile {
    url: String,
    #[serde(default)]
    title: Option<String>,
    client_id: String,
    #[serde(default)]
    client_secret_file: Option<PathBuf>,
    #[serde(default)]
    scopes: Option<Vec<String>>,
    #[serde(default)]
    parameters: BTreeMap<String, String>,
    #[serde(default)]
    claims: ClaimNames,
    #[serde(default)]
    ca_file: Option<PathBuf>,
}

/// Parameters of an authorization request that are ours to set.
const OWN_PARAMETERS: [&str; 8] = [
    "client_id",
    "response_type",
    "redirect_uri",
    "scope",
    "state",
    "nonce",
    "code_challenge",
    "code_challenge_method",
];

impl OidcConfig {
    /// Reads the file and the files it names (relative to it).
    ///
    /// # Errors
    /// When one cannot be read or makes no sense.
    pub fn load(path: &Path) -> Result<Self, OidcConfigError> {
        let read =
            |path: &Path| fs::read(path).map_err(|source| OidcConfigError::File { path: path.to_owned(), source });
        let invalid = |why: String| OidcConfigError::Invalid { path: path.to_owned(), why };
        let text = String::from_utf8(read(path)?).map_err(|e| invalid(e.to_string()))?;
        let file: File = serde_yaml::from_str(&text).map_err(|e| invalid(e.to_string()))?;
        if file.issuers.is_empty() {
            return Err(invalid("issuers: name at least one".to_owned()));
        }
        let dir = path.parent().unwrap_or(Path::new("."));
        let mut issuers = BTreeMap::new();
        for (name, issuer) in file.issuers {
            let invalid = |field: &str, why: &str| invalid(format!("issuers.{name}.{field}: {why}"));
            let simple = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            if !(1..=40).contains(&name.len())
                || !name.chars().all(simple)
                || ["system", "vctl"].contains(&name.as_str())
            {
                return Err(invalid("", "a name is 1 to 40 of a-z, 0-9 and -, and neither system nor vctl"));
            }
            let url = Url::parse(&issuer.url).map_err(|e| invalid("url", &e.to_string()))?;
            if url.scheme() != "https" || url.query().is_some() || url.fragment().is_some() {
                return Err(invalid("url", "an address with https is wanted, without query and fragment"));
            }
            if issuer.client_id.is_empty() {
                return Err(invalid("clientId", "is empty"));
            }
            if let Some(ours) = OWN_PARAMETERS.iter().find(|p| issuer.parameters.contains_key(**p)) {
                return Err(invalid("parameters", &format!("{ours} is set by the server")));
            }
            let client_secret = match &issuer.client_secret_file {
                None => None,
                Some(file) => {
                    let secret = String::from_utf8_lossy(&read(&dir.join(file))?).trim().to_owned();
                    if secret.is_empty() {
                        return Err(invalid("clientSecretFile", "the file is empty"));
                    }
                    Some(secret)
                }
            };
            let authorities = issuer.ca_file.as_ref().map(|file| read(&dir.join(file))).transpose()?;
            if let Some(pem) = &authorities
                && reqwest::Certificate::from_pem_bundle(pem).map_or(true, |all| all.is_empty())
            {
                return Err(invalid("caFile", "the file holds no certificate in PEM"));
            }
            let IssuerFile { url, title, client_id, scopes, parameters, claims, .. } = issuer;
            let title = title.unwrap_or_else(|| name.clone());
            let issuer = IssuerConfig { url, title, client_id, client_secret, scopes, parameters, claims, authorities };
            issuers.insert(name, issuer);
        }
        let duration = |field: &str, text: Option<String>, default: SignedDuration| {
            let Some(text) = text else { return Ok(default) };
            let parsed = text.parse::<SignedDuration>().ok().filter(|d| *d >= SignedDuration::from_secs(1));
            parsed.ok_or_else(|| invalid(format!("{field}: {text:?} is no duration such as 60s, 15m or 1h")))
        };
        Ok(Self {
            issuers,
            refresh_interval: duration("refreshInterval", file.refresh_interval, SignedDuration::from_secs(60))?,
            grace: duration("grace", file.grace, SignedDuration::from_mins(15))?,
            without_refresh: duration("withoutRefresh", file.without_refresh, SignedDuration::from_hours(1))?,
        })
    }
}

impl std::fmt::Debug for OidcConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let issuers: BTreeMap<&String, &String> =
            self.issuers.iter().map(|(name, issuer)| (name, &issuer.url)).collect();
        f.debug_struct("OidcConfig").field("issuers", &issuers).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(text: &str) -> Result<OidcConfig, String> {
        let dir = tempfile::tempdir().expect("dir");
        fs::write(dir.path().join("secret"), "s3cret\n").expect("write");
        fs::write(dir.path().join("empty"), "").expect("write");
        let path = dir.path().join("oidc.yaml");
        fs::write(&path, text).expect("write");
        OidcConfig::load(&path).map_err(|e| e.to_string())
    }

    #[test]
    fn what_is_said_is_taken_and_what_is_not_has_its_default() {
        let config = load(
            "refreshInterval: 5s\ngrace: 2m\nissuers:\n  corp:\n    url: https://id.example.com/x\n    clientId: vctl\n    \
             clientSecretFile: secret\n    scopes: [openid, groups]\n    claims: {groups: roles}\n",
        )
        .expect("config");
        let corp = &config.issuers["corp"];
        assert_eq!((corp.client_secret.as_deref(), corp.title.as_str()), (Some("s3cret"), "corp"));
        assert_eq!((corp.claims.groups.as_str(), corp.claims.email.as_str()), ("roles", "email"));
        assert_eq!((config.refresh_interval.as_secs(), config.grace.as_secs()), (5, 120));
        assert!(!format!("{config:?}").contains("s3cret"));
    }

    #[test]
    fn what_is_wrong_is_told() {
        let issuer =
            |more: &str| format!("issuers: {{corp: {{url: 'https://id.example.com', clientId: vctl, {more}}}}}");
        let cases = [
            ("issuers: {}".to_owned(), "at least one"),
            ("issuers: {A: {url: 'https://x', clientId: a}}".to_owned(), "a-z"),
            ("issuers: {system: {url: 'https://x', clientId: a}}".to_owned(), "neither system"),
            ("issuers: {a: {url: 'http://x', clientId: a}}".to_owned(), "https"),
            ("issuers: {a: {url: 'x', clientId: a}}".to_owned(), "issuers.a.url"),
            (issuer("clientSecretFile: nowhere"), "nowhere"),
            (issuer("clientSecretFile: empty"), "is empty"),
            (issuer("caFile: secret"), "no certificate"),
            (issuer("parameters: {state: x}"), "state is set"),
            (issuer("color: blue"), "color"),
            (format!("grace: soon\n{}", issuer("")), "grace"),
        ];
        for (text, wanted) in cases {
            let why = load(&text).expect_err(&text);
            assert!(why.contains(wanted), "{text}: {why}");
        }
    }
}
