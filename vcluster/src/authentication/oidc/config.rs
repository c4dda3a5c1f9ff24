//! AuthenticationConfiguration: read strictly, checked as upstream checks it, and compiled.

use serde::Deserialize;
use serde_json::Value;
use vctl_machinery::cel::{Environment, Program, Type};

use crate::outbound::Trust;

const GROUP: &str = "apiserver.config.k8s.io";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Document {
    api_version: String,
    kind: String,
    #[serde(default)]
    jwt: Vec<Jwt>,
    #[serde(default)]
    anonymous: Option<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Jwt {
    issuer: IssuerDocument,
    #[serde(default)]
    claim_validation_rules: Vec<ClaimRule>,
    claim_mappings: Mappings,
    #[serde(default)]
    user_validation_rules: Vec<UserRule>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct IssuerDocument {
    url: String,
    #[serde(default, rename = "discoveryURL")]
    discovery_url: String,
    #[serde(default)]
    certificate_authority: String,
    #[serde(default)]
    audiences: Vec<String>,
    #[serde(default)]
    audience_match_policy: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ClaimRule {
    #[serde(default)]
    claim: String,
    #[serde(default)]
    required_value: String,
    #[serde(default)]
    expression: String,
    #[serde(default)]
    message: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct UserRule {
    #[serde(default)]
    expression: String,
    #[serde(default)]
    message: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Mappings {
    username: Mapping,
    #[serde(default)]
    groups: Mapping,
    #[serde(default)]
    uid: Mapping,
    #[serde(default)]
    extra: Vec<ExtraDocument>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Mapping {
    #[serde(default)]
    claim: String,
    #[serde(default)]
    prefix: Option<String>,
    #[serde(default)]
    expression: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ExtraDocument {
    #[serde(default)]
    key: String,
    #[serde(default)]
    value_expression: String,
}

/// An issuer of tokens, ready to use.
pub(crate) struct Issuer {
    /// `iss` of its tokens.
    pub(crate) url: String,
    /// Where its discovery document is.
    pub(crate) discovery: String,
    pub(crate) trust: Trust,
    pub(crate) audiences: Vec<String>,
    pub(super) required: Vec<(String, String)>,
    pub(super) claim_rules: Vec<Rule>,
    pub(super) user_rules: Vec<Rule>,
    pub(super) username: Source,
    pub(super) groups: Option<Source>,
    pub(super) uid: Option<Source>,
    pub(super) extra: Vec<(String, Program)>,
}

/// A rule that must hold.
pub(super) struct Rule {
    pub(super) program: Program,
    pub(super) expression: String,
    pub(super) message: String,
}

/// Where something of the user comes from.
pub(super) enum Source {
    /// A claim, with a prefix.
    Claim { claim: String, prefix: String },
    /// An expression over `claims`.
    Expression(Program),
}

/// Checks and compiles a configuration.
///
/// # Errors
/// Everything that is wrong with it, each with the path of its field.
pub(crate) fn compile(configuration: &Value) -> Result<Vec<Issuer>, Vec<String>> {
    let document: Document = serde_json::from_value(configuration.clone())
        .map_err(|e| vec![format!("the AuthenticationConfiguration does not parse: {e}")])?;
    let mut errors = Vec::new();
    let version = document.api_version.strip_prefix(GROUP).and_then(|v| v.strip_prefix('/'));
    if document.kind != "AuthenticationConfiguration" || !matches!(version, Some("v1" | "v1beta1")) {
        errors.push(format!("apiVersion and kind must be {GROUP}/v1 and AuthenticationConfiguration"));
    }
    if document.anonymous.is_some() {
        errors
            .push("anonymous: not supported; requests without credentials have the rights of system:anonymous".into());
    }
    if document.jwt.len() > 64 {
        errors.push(format!("jwt: Too many: {}: must have at most 64 items", document.jwt.len()));
    }
    let mut issuers: Vec<Issuer> = Vec::new();
    for (at, jwt) in document.jwt.into_iter().enumerate() {
        let path = format!("jwt[{at}]");
        if issuers.iter().any(|known| known.url == jwt.issuer.url) {
            errors.push(format!("{path}.issuer.url: Duplicate value: {:?}", jwt.issuer.url));
        }
        issuers.extend(Checker { errors: &mut errors, path }.issuer(jwt));
    }
    for (at, issuer) in issuers.iter().enumerate() {
        if issuers.iter().take(at).any(|other| other.discovery == issuer.discovery) {
            errors.push(format!("jwt[{at}].issuer.discoveryURL: Duplicate value: {:?}", issuer.discovery));
        }
    }
    if errors.is_empty() { Ok(issuers) } else { Err(errors) }
}

struct Checker<'e> {
    errors: &'e mut Vec<String>,
    path: String,
}

impl Checker<'_> {
    fn error(&mut self, field: &str, what: impl std::fmt::Display) {
        self.errors.push(format!("{}.{field}: {what}", self.path));
    }

    fn issuer(&mut self, jwt: Jwt) -> Option<Issuer> {
        let before = self.errors.len();
        let IssuerDocument { url, discovery_url, certificate_authority, audiences, audience_match_policy } = jwt.issuer;
        self.url("issuer.url", &url);
        if !discovery_url.is_empty() {
            self.url("issuer.discoveryURL", &discovery_url);
            if discovery_url.trim_end_matches('/') == url.trim_end_matches('/') {
                self.error(
                    "issuer.discoveryURL",
                    format!("Invalid value: {discovery_url:?}: discoveryURL must be different from URL"),
                );
            }
        }
        if audiences.is_empty() {
            self.error("issuer.audiences", "Required value: at least one issuer.audiences is required");
        }
        for (at, audience) in audiences.iter().enumerate() {
            if audience.is_empty() {
                self.error(&format!("issuer.audiences[{at}]"), "Required value: audience can't be empty");
            } else if audiences[..at].contains(audience) {
                self.error(&format!("issuer.audiences[{at}]"), format!("Duplicate value: {audience:?}"));
            }
        }
        match (audiences.len(), audience_match_policy.as_str()) {
            (0 | 1, "" | "MatchAny") | (_, "MatchAny") => {}
            (_, "") => self.error(
                "issuer.audienceMatchPolicy",
                "Invalid value: \"\": audienceMatchPolicy must be MatchAny for multiple audiences",
            ),
            (_, other) => self.error(
                "issuer.audienceMatchPolicy",
                format!("Unsupported value: {other:?}: supported values: \"MatchAny\", \"\""),
            ),
        }
        let trust = Trust::pem(&certificate_authority);
        if let Err(e) = &trust {
            self.error("issuer.certificateAuthority", format!("Invalid value: {e}"));
        }
        let (required, claim_rules) = self.claim_rules(jwt.claim_validation_rules);
        let user_rules = self.user_rules(jwt.user_validation_rules);
        let username = self.username(&jwt.claim_mappings, &claim_rules);
        let groups = self.groups(&jwt.claim_mappings.groups);
        let uid = self.uid(&jwt.claim_mappings.uid);
        let extra = self.extra(jwt.claim_mappings.extra);
        if self.errors.len() > before {
            return None;
        }
        let discovery = if discovery_url.is_empty() {
            format!("{}/.well-known/openid-configuration", url.trim_end_matches('/'))
        } else {
            discovery_url
        };
        Some(Issuer {
            url,
            discovery,
            trust: trust.ok()?,
            audiences,
            required,
            claim_rules,
            user_rules,
            username: username?,
            groups,
            uid,
            extra,
        })
    }

    fn url(&mut self, field: &str, url: &str) {
        let invalid = |why: &str| format!("Invalid value: {url:?}: {why}");
        if url.is_empty() {
            return self.error(field, "Required value: URL is required");
        }
        let Ok(parsed) = url.parse::<http::Uri>() else { return self.error(field, invalid("it does not parse")) };
        if parsed.scheme_str() != Some("https") || parsed.host().is_none() {
            self.error(field, invalid("URL scheme must be https"));
        }
        if parsed.authority().is_some_and(|a| a.as_str().contains('@')) {
            self.error(field, invalid("URL must not contain a username or password"));
        }
        if parsed.query().is_some() {
            self.error(field, invalid("URL must not contain a query"));
        }
        if url.contains('#') {
            self.error(field, invalid("URL must not contain a fragment"));
        }
    }

    fn claim_rules(&mut self, rules: Vec<ClaimRule>) -> (Vec<(String, String)>, Vec<Rule>) {
        let (mut required, mut compiled): (Vec<(String, String)>, Vec<Rule>) = Default::default();
        for (at, rule) in rules.into_iter().enumerate() {
            let field = format!("claimValidationRules[{at}]");
            match (rule.claim.is_empty(), rule.expression.is_empty()) {
                (true, true) => self.error(&field, "Required value: claim or expression is required"),
                (false, false) => self.error(&field, "Invalid value: claim and expression can't both be set"),
                (false, true) if !rule.message.is_empty() => {
                    self.error(&field, "Invalid value: message can't be set when claim is set");
                }
                (false, true) if required.iter().any(|(claim, _)| *claim == rule.claim) => {
                    self.error(&format!("{field}.claim"), format!("Duplicate value: {:?}", rule.claim));
                }
                (false, true) => required.push((rule.claim, rule.required_value)),
                (true, false) if !rule.required_value.is_empty() => {
                    self.error(&field, "Invalid value: requiredValue can't be set when expression is set");
                }
                (true, false) => {
                    let field = format!("{field}.expression");
                    compiled.extend(self.rule(&field, "claims", &claims(), rule.expression, rule.message));
                }
            }
        }
        (required, compiled)
    }

    fn user_rules(&mut self, rules: Vec<UserRule>) -> Vec<Rule> {
        let mut compiled = Vec::new();
        for (at, rule) in rules.into_iter().enumerate() {
            let field = format!("userValidationRules[{at}].expression");
            let environment = Environment::new().variable("user", user_type());
            if rule.expression.is_empty() {
                self.error(&field, "Required value: expression is required");
            } else {
                compiled.extend(self.rule(&field, "user", &environment, rule.expression, rule.message));
            }
        }
        compiled
    }

    fn rule(
        &mut self,
        field: &str,
        variable: &str,
        environment: &Environment,
        expression: String,
        message: String,
    ) -> Option<Rule> {
        let program = self.compile(field, environment, &expression)?;
        if !matches!(program.output(), Type::Bool | Type::Dyn) {
            self.error(field, format!("Invalid value: {expression:?}: compilation failed: must evaluate to bool"));
            return None;
        }
        if !program.references(variable) {
            self.error(field, format!("Invalid value: {expression:?}: must use the variable {variable}"));
            return None;
        }
        Some(Rule { program, expression, message })
    }

    fn compile(&mut self, field: &str, environment: &Environment, expression: &str) -> Option<Program> {
        match environment.compile(expression) {
            Ok(program) => Some(program),
            Err(e) => {
                self.error(field, format!("Invalid value: {expression:?}: compilation failed: {e}"));
                None
            }
        }
    }

    /// A claim with a prefix, or an expression; none when neither is given.
    fn source(&mut self, field: &str, mapping: &Mapping) -> Option<Source> {
        let prefix = mapping.prefix.as_deref();
        match (mapping.claim.is_empty(), mapping.expression.is_empty()) {
            (true, true) => {
                if prefix.is_some_and(|p| !p.is_empty()) {
                    self.error(&format!("{field}.prefix"), "Invalid value: prefix can't be set when claim isn't set");
                }
                None
            }
            (false, false) => {
                self.error(field, "Invalid value: claim and expression can't both be set");
                None
            }
            (true, false) => {
                if prefix.is_some() {
                    self.error(field, "Invalid value: prefix can't be set when expression is set");
                }
                let program = self.compile(&format!("{field}.expression"), &claims(), &mapping.expression);
                program.map(Source::Expression)
            }
            (false, true) => match prefix {
                Some(prefix) => Some(Source::Claim { claim: mapping.claim.clone(), prefix: prefix.to_owned() }),
                None => {
                    self.error(
                        &format!("{field}.prefix"),
                        "Required value: prefix is required when claim is set. It can be set to an empty string to disable prefixing",
                    );
                    None
                }
            },
        }
    }

    fn username(&mut self, mappings: &Mappings, rules: &[Rule]) -> Option<Source> {
        let field = "claimMappings.username";
        let mapping = &mappings.username;
        if mapping.claim.is_empty() && mapping.expression.is_empty() {
            self.error(field, "Required value: claim or expression is required");
        }
        // An address that nobody has verified must not be a name.
        let verified = |text: &str| text.contains("claims.email_verified") || text.contains("claims.?email_verified");
        let others = mappings.extra.iter().map(|e| &*e.value_expression).chain(rules.iter().map(|r| &*r.expression));
        let uses_email = mapping.expression.replace("claims.email_verified", "").contains("claims.email");
        if uses_email && !verified(&mapping.expression) && !others.into_iter().any(verified) {
            self.error(
                &format!("{field}.expression"),
                format!(
                    "Invalid value: {:?}: claims.email_verified must be used in claimMappings.username.expression or \
                     claimMappings.extra[*].valueExpression or claimValidationRules[*].expression when claims.email is used in \
                     claimMappings.username.expression",
                    mapping.expression
                ),
            );
        }
        self.source(field, mapping)
    }

    fn groups(&mut self, mapping: &Mapping) -> Option<Source> {
        self.source("claimMappings.groups", mapping)
    }

    fn uid(&mut self, mapping: &Mapping) -> Option<Source> {
        if mapping.prefix.is_some() {
            self.error("claimMappings.uid", "Invalid value: uid has no prefix");
            return None;
        }
        // A uid has no prefix in the document either.
        let prefix = (!mapping.claim.is_empty()).then(String::new);
        let mapping = Mapping { claim: mapping.claim.clone(), prefix, expression: mapping.expression.clone() };
        self.source("claimMappings.uid", &mapping)
    }

    fn extra(&mut self, extra: Vec<ExtraDocument>) -> Vec<(String, Program)> {
        let mut compiled: Vec<(String, Program)> = Vec::new();
        for (at, ExtraDocument { key, value_expression }) in extra.into_iter().enumerate() {
            let field = format!("claimMappings.extra[{at}]");
            let domain = key.split_once('/').map(|(domain, rest)| (domain, rest.is_empty()));
            match domain {
                None | Some(("", _) | (_, true)) => self.error(
                    &format!("{field}.key"),
                    format!("Invalid value: {key:?}: must be a domain-prefixed path (such as \"acme.io/foo\")"),
                ),
                Some((domain, _)) if reserved(domain) => self.error(
                    &format!("{field}.key"),
                    format!("Invalid value: {key:?}: k8s.io, kubernetes.io and their subdomains are reserved for Kubernetes use"),
                ),
                _ if key.to_lowercase() != key => {
                    self.error(&format!("{field}.key"), format!("Invalid value: {key:?}: key must be lowercase"));
                }
                _ if compiled.iter().any(|(known, _)| *known == key) => {
                    self.error(&format!("{field}.key"), format!("Duplicate value: {key:?}"));
                }
                _ if value_expression.is_empty() => {
                    self.error(&format!("{field}.valueExpression"), "Required value: valueExpression is required");
                }
                _ => {
                    let field = format!("{field}.valueExpression");
                    compiled.extend(self.compile(&field, &claims(), &value_expression).map(|program| (key, program)));
                }
            }
        }
        compiled
    }
}

fn reserved(domain: &str) -> bool {
    ["k8s.io", "kubernetes.io"]
        .iter()
        .any(|own| domain == *own || domain.strip_suffix(own).is_some_and(|rest| rest.ends_with('.')))
}

/// `claims`: any JSON.
fn claims() -> Environment {
    Environment::new().variable("claims", Type::map(Type::String, Type::Dyn))
}

/// `user`, as `authentication.k8s.io` UserInfo.
fn user_type() -> Type {
    Type::object(
        "kubernetes.UserInfo",
        [
            ("username".to_owned(), Type::String),
            ("uid".to_owned(), Type::String),
            ("groups".to_owned(), Type::list(Type::String)),
            ("extra".to_owned(), Type::map(Type::String, Type::list(Type::String))),
        ],
    )
}
