//! What the targets share: documents made of a fuzzer's bytes.
//!
//! Random bytes are hardly ever JSON, and random JSON has hardly ever the fields of a kind. So a target takes its documents from
//! [`Bytes`], which walks the schema of a kind and lets each byte choose among what may stand there (and now and then what may not).
//! No bytes left means nothing more: everything ends.

use serde_json::{Map, Value, json};
use vctl_machinery::schema::{FieldType, Type, graph, of};

/// Words that mean something to one part or another.
const WORDS: &[&str] = &[
    "",
    "a",
    "b",
    "c",
    "web",
    "app",
    "kubernetes.io/x",
    "10m",
    "1Gi",
    "-1",
    "80",
    "http",
    "TCP",
    "UDP",
    "Always",
    "Never",
    "2026-01-02T03:04:05Z",
    "f:metadata",
    "k:{\"name\":\"a\"}",
    "v:\"a\"",
    ".",
    "*",
    "delete",
    "replace",
    "merge",
    "\u{0}",
    "\u{1F600}",
    "v1",
    "apps/v1",
    "YQ==",
    "25%",
    "name",
    "key",
    "metadata",
    "~1",
    "/",
];

/// Kinds whose schemas have all strategies: keyed lists, sets, unions, free maps, definitions within definitions.
const KINDS: &[(&str, &str, &str)] = &[
    ("apps", "v1", "Deployment"),
    ("", "v1", "Pod"),
    ("", "v1", "Service"),
    ("", "v1", "ConfigMap"),
    ("", "v1", "ServiceAccount"),
    ("networking.k8s.io", "v1", "Ingress"),
    ("rbac.authorization.k8s.io", "v1", "ClusterRole"),
    ("autoscaling", "v2", "HorizontalPodAutoscaler"),
    ("apiextensions.k8s.io", "v1", "CustomResourceDefinition"),
    ("discovery.k8s.io", "v1", "EndpointSlice"),
    ("admissionregistration.k8s.io", "v1", "ValidatingWebhookConfiguration"),
    ("", "v1", "Node"),
];

/// Group, version and kind.
pub type Kind = (&'static str, &'static str, &'static str);

/// The bytes of one input.
pub struct Bytes<'a>(pub &'a [u8]);

impl Bytes<'_> {
    /// The next; 0 when there is none.
    pub fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    /// A number below `n`.
    pub fn below(&mut self, n: usize) -> usize {
        usize::from(self.byte()) % n.max(1)
    }

    /// A kind.
    pub fn kind(&mut self) -> Kind {
        KINDS[self.below(KINDS.len())]
    }

    /// A word, or some bytes as text.
    pub fn word(&mut self) -> String {
        match self.byte() {
            250.. => {
                let length = self.below(16).min(self.0.len());
                let (text, rest) = self.0.split_at(length);
                self.0 = rest;
                String::from_utf8_lossy(text).into_owned()
            }
            n => WORDS[usize::from(n) % WORDS.len()].to_owned(),
        }
    }

    /// Any JSON.
    pub fn any(&mut self, depth: usize) -> Value {
        match self.below(if depth > 6 { 5 } else { 8 }) {
            0 => Value::Null,
            1 => json!(self.word()),
            2 => json!(i64::from(self.byte()) - 100),
            3 => json!(self.byte() & 1 == 0),
            4 => [json!(i64::MAX), json!(i64::MIN), json!(u64::MAX), json!(1e300), json!(-0.5)][self.below(5)].clone(),
            5 => (0..self.below(4)).map(|_| self.any(depth + 1)).collect(),
            _ => Value::Object((0..self.below(4)).map(|_| (self.word(), self.any(depth + 1))).collect()),
        }
    }

    /// An object of a kind, with its `apiVersion` and `kind`.
    pub fn object(&mut self, (group, version, kind): Kind) -> Value {
        let mut object = of(group, version, kind).map_or_else(Map::new, |ty| self.fields(ty, false, 0));
        let api_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
        object.insert("apiVersion".into(), api_version.into());
        object.insert("kind".into(), kind.into());
        Value::Object(object)
    }

    /// A strategic merge patch for objects of a kind.
    pub fn patch(&mut self, (group, version, kind): Kind) -> Value {
        Value::Object(of(group, version, kind).map_or_else(Map::new, |ty| self.fields(ty, true, 0)))
    }

    fn fields(&mut self, ty: &Type, patch: bool, depth: usize) -> Map<String, Value> {
        let mut fields = Map::new();
        if ty.fields.is_empty() || depth > 12 {
            return fields;
        }
        for _ in 0..self.below(6) {
            let field = &ty.fields[self.below(ty.fields.len())];
            let choice = self.byte();
            let value = if choice >= 248 { self.any(0) } else { self.value(&field.kind, patch, depth + 1) };
            if !patch || choice < 160 {
                fields.insert(field.name.into(), value);
                continue;
            }
            match choice % 5 {
                0 => fields.insert("$patch".into(), json!(self.word())),
                1 => fields.insert("$retainKeys".into(), (0..self.below(4)).map(|_| self.name(ty)).collect()),
                2 => fields.insert(format!("$deleteFromPrimitiveList/{}", field.name), value),
                3 => fields.insert(format!("$setElementOrder/{}", field.name), value),
                _ => fields.insert(field.name.into(), Value::Null),
            };
        }
        fields
    }

    fn name(&mut self, ty: &Type) -> Value {
        ty.fields[self.below(ty.fields.len())].name.into()
    }

    fn value(&mut self, kind: &FieldType, patch: bool, depth: usize) -> Value {
        match kind {
            FieldType::Int32 | FieldType::Int64 => json!(i64::from(self.byte()) - 4),
            FieldType::Number => json!(f64::from(self.byte()) / 3.0),
            FieldType::Bool => json!(self.byte() & 1 == 0),
            FieldType::Bytes => json!("YQ=="),
            FieldType::Quantity => json!(["1", "10m", "1Gi", "1e3", "0.1", "-5", "x"][self.below(7)]),
            FieldType::Time | FieldType::MicroTime => json!(["2026-01-02T03:04:05Z", "", "x"][self.below(3)]),
            FieldType::IntOrString if self.byte() & 1 == 0 => json!(i64::from(self.byte())),
            FieldType::String | FieldType::IntOrString => json!(self.word()),
            FieldType::Struct(at) => Value::Object(self.fields(graph().get(*at), patch, depth)),
            FieldType::List(of) => (0..self.below(5)).map(|_| self.value(of, patch, depth)).collect(),
            FieldType::Map(of) => {
                Value::Object((0..self.below(4)).map(|_| (self.word(), self.value(of, patch, depth))).collect())
            }
            _ => self.any(depth),
        }
    }
}

/// Two documents that stand one after the other as JSON text.
pub fn two(text: &[u8]) -> Option<(Value, Value)> {
    let (Value::Array(both), _) = vctl_machinery::schema::parse_json(text).ok()? else { return None };
    let [first, second] = <[Value; 2]>::try_from(both).ok()?;
    Some((first, second))
}

/// Runs a future to its end on this thread.
pub fn block_on<F: Future>(future: F) -> F::Output {
    thread_local! {
        static RUNTIME: tokio::runtime::Runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    }
    RUNTIME.with(|runtime| runtime.block_on(future))
}
