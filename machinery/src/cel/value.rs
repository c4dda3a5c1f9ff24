//! Values.

use std::{cmp::Ordering, collections::BTreeMap, fmt, net::IpAddr, sync::Arc};

use jiff::Timestamp;
use serde_json::Value as Json;

use super::{
    declarations::{CIDR, FORMAT, IP, QUANTITY, SEMVER, URL},
    functions::{quantity::Quantity, semver::Semver, url::Url},
    message::Message,
    types::Type,
};

/// A value of an expression. Cheap to clone.
#[derive(Debug, Clone)]
pub enum Value {
    /// Null.
    Null,
    /// Truth value.
    Bool(bool),
    /// Integer.
    Int(i64),
    /// Integer without a sign.
    Uint(u64),
    /// Floating-point number.
    Double(f64),
    /// Text.
    String(Arc<str>),
    /// Octets.
    Bytes(Arc<[u8]>),
    /// A moment.
    Timestamp(Timestamp),
    /// A length of time, in nanoseconds.
    Duration(i64),
    /// A list.
    List(Arc<List>),
    /// A map, or an object by its fields.
    Map(Arc<BTreeMap<Key, Value>>),
    /// A value or none.
    Optional(Option<Arc<Value>>),
    /// A type, by its name.
    Type(Arc<str>),
    /// `quantity('1Gi')`
    Quantity(Quantity),
    /// `url('https://example.com')`
    Url(Arc<Url>),
    /// `ip('10.0.0.1')`
    Ip(IpAddr),
    /// `cidr('10.0.0.0/8')`: address and length.
    Cidr(IpAddr, u8),
    /// `format.dns1123Label()`
    Format(&'static str),
    /// `semver('1.2.3')`
    Semver(Arc<Semver>),
    /// `Object.spec{replicas: 3}`
    Message(Arc<Message>),
    /// Something that only its maker understands.
    Opaque(Arc<dyn Opaque>),
}

/// A value that only its maker understands: an authorizer, or variables that are computed when they are first used.
pub trait Opaque: fmt::Debug + Send + Sync {
    /// The name of its type.
    fn type_name(&self) -> &'static str;

    /// A field, where it has fields (declare `environment.method(".", type, vec![], Type::Dyn)`).
    ///
    /// # Errors
    /// `no such key: NAME`, or why it cannot be computed.
    fn field(&self, name: &str) -> Result<Value, String> {
        Err(format!("no such key: {name}"))
    }

    /// Calls a method that has been declared for its type.
    ///
    /// # Errors
    /// The error of the expression.
    fn call(&self, method: &str, arguments: &[Value]) -> Result<Value, String>;

    /// What a call costs.
    fn cost(&self, method: &str) -> u64 {
        let _ = method;
        1
    }
}

/// A list. Lists of type set and map (`x-kubernetes-list-type`) are equal whatever their order, and adding merges them.
#[derive(Debug, Clone, Default)]
pub struct List {
    /// Its items.
    pub items: Vec<Value>,
    /// How they are told apart.
    pub(super) merge: Merge,
}

/// How items of a list are told apart.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) enum Merge {
    #[default]
    Place,
    Value,
    Keys(Vec<Arc<str>>),
}

/// The key of an entry of a map.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// Truth value.
    Bool(bool),
    /// Integer.
    Int(i64),
    /// Integer that is no [`Key::Int`].
    Uint(u64),
    /// Text.
    String(Arc<str>),
}

impl Key {
    /// The value as a key; numbers that are equal are the same key.
    pub(super) fn of(value: &Value) -> Option<Self> {
        Some(match value {
            Value::Bool(b) => Self::Bool(*b),
            Value::Int(n) => Self::Int(*n),
            Value::Uint(n) => i64::try_from(*n).map_or(Self::Uint(*n), Self::Int),
            Value::Double(n) if n.fract() == 0.0 && n.abs() < 9e15 => Self::Int(*n as i64),
            Value::String(text) => Self::String(text.clone()),
            _ => return None,
        })
    }

    pub(super) fn value(&self) -> Value {
        match self {
            Self::Bool(b) => Value::Bool(*b),
            Self::Int(n) => Value::Int(*n),
            Self::Uint(n) => Value::Uint(*n),
            Self::String(text) => Value::String(text.clone()),
        }
    }
}

impl Value {
    /// A text.
    pub fn string(text: &str) -> Self {
        Self::String(text.into())
    }

    /// A list.
    pub fn list(items: Vec<Self>) -> Self {
        Self::List(Arc::new(List { items, merge: Merge::Place }))
    }

    /// A value that there is.
    pub fn some(value: Self) -> Self {
        Self::Optional(Some(Arc::new(value)))
    }

    /// No value.
    pub fn none() -> Self {
        Self::Optional(None)
    }

    /// JSON as it is, without a schema: objects are maps, whole numbers are integers.
    pub fn from_json(json: &Json) -> Self {
        match json {
            Json::Null => Self::Null,
            Json::Bool(b) => Self::Bool(*b),
            Json::Number(n) => n.as_i64().map_or_else(|| Self::Double(n.as_f64().unwrap_or_default()), Self::Int),
            Json::String(text) => Self::string(text),
            Json::Array(items) => Self::list(items.iter().map(Self::from_json).collect()),
            Json::Object(map) => {
                let entries = map.iter().map(|(key, value)| (Key::String(key.as_str().into()), Self::from_json(value)));
                Self::Map(Arc::new(entries.collect()))
            }
        }
    }

    /// As JSON, where it has a form there.
    pub fn to_json(&self) -> Option<Json> {
        Some(match self {
            Self::Null => Json::Null,
            Self::Bool(b) => (*b).into(),
            Self::Int(n) => (*n).into(),
            Self::Uint(n) => (*n).into(),
            Self::Double(n) => serde_json::Number::from_f64(*n)?.into(),
            Self::String(text) => (&**text).into(),
            Self::Bytes(bytes) => {
                use base64::{Engine as _, engine::general_purpose::STANDARD};
                STANDARD.encode(bytes).into()
            }
            Self::Timestamp(_) | Self::Duration(_) => self.to_string().into(),
            Self::List(list) => list.items.iter().map(Self::to_json).collect::<Option<Vec<_>>>()?.into(),
            Self::Map(map) => {
                let entries = map.iter().map(|(key, value)| Some((key.value().to_string(), value.to_json()?)));
                Json::Object(entries.collect::<Option<_>>()?)
            }
            Self::Quantity(_) | Self::Url(_) | Self::Ip(_) | Self::Cidr(..) | Self::Semver(_) => {
                self.to_string().into()
            }
            Self::Message(message) => {
                let entries = message.fields.iter().map(|(name, value)| Some((name.to_string(), value.to_json()?)));
                Json::Object(entries.collect::<Option<_>>()?)
            }
            Self::Optional(_) | Self::Type(_) | Self::Format(_) | Self::Opaque(_) => return None,
        })
    }

    /// The text of a string.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text),
            _ => None,
        }
    }

    /// The type of a value, as far as the value alone says it.
    pub(super) fn kind(&self) -> Type {
        match self {
            Self::Null => Type::Null,
            Self::Bool(_) => Type::Bool,
            Self::Int(_) => Type::Int,
            Self::Uint(_) => Type::Uint,
            Self::Double(_) => Type::Double,
            Self::String(_) => Type::String,
            Self::Bytes(_) => Type::Bytes,
            Self::Timestamp(_) => Type::Timestamp,
            Self::Duration(_) => Type::Duration,
            Self::List(_) => Type::list(Type::Dyn),
            Self::Map(_) => Type::map(Type::Dyn, Type::Dyn),
            Self::Optional(_) => Type::optional(Type::Dyn),
            Self::Type(_) => Type::Type,
            Self::Message(message) => Type::Message(message.name.clone()),
            _ => Type::Dyn,
        }
    }

    /// The name of its type, as `type(x)` has it.
    pub(super) fn type_name(&self) -> &str {
        match self {
            Self::Null => "null_type",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Uint(_) => "uint",
            Self::Double(_) => "double",
            Self::String(_) => "string",
            Self::Bytes(_) => "bytes",
            Self::Timestamp(_) => "google.protobuf.Timestamp",
            Self::Duration(_) => "google.protobuf.Duration",
            Self::List(_) => "list",
            Self::Map(_) => "map",
            Self::Optional(_) => "optional_type",
            Self::Type(_) => "type",
            Self::Quantity(_) => QUANTITY,
            Self::Url(_) => URL,
            Self::Ip(_) => IP,
            Self::Cidr(..) => CIDR,
            Self::Format(_) => FORMAT,
            Self::Semver(_) => SEMVER,
            Self::Message(message) => &message.name,
            Self::Opaque(o) => o.type_name(),
        }
    }

    /// How much there is of it: characters, octets, items or entries; 1 for everything else.
    pub(super) fn size(&self) -> u64 {
        match self {
            Self::String(text) => text.len() as u64,
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::List(list) => list.items.len() as u64,
            Self::Map(map) => map.len() as u64,
            _ => 1,
        }
    }

    /// Order of two values that have one.
    pub(super) fn compare(&self, other: &Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Bool(a), Self::Bool(b)) => Some(a.cmp(b)),
            (Self::String(a), Self::String(b)) => Some(a.cmp(b)),
            (Self::Bytes(a), Self::Bytes(b)) => Some(a.cmp(b)),
            (Self::Timestamp(a), Self::Timestamp(b)) => Some(a.cmp(b)),
            (Self::Duration(a), Self::Duration(b)) => Some(a.cmp(b)),
            (Self::Quantity(a), Self::Quantity(b)) => Some(a.cmp(b)),
            (Self::Semver(a), Self::Semver(b)) => Some(a.cmp(b)),
            _ => numbers(self, other),
        }
    }
}

/// Order of numbers of any kind.
fn numbers(a: &Value, b: &Value) -> Option<Ordering> {
    let whole = |v: &Value| match v {
        Value::Int(n) => Some(i128::from(*n)),
        Value::Uint(n) => Some(i128::from(*n)),
        _ => None,
    };
    match (whole(a), whole(b)) {
        (Some(a), Some(b)) => Some(a.cmp(&b)),
        (Some(a), None) => match b {
            Value::Double(b) => (a as f64).partial_cmp(b),
            _ => None,
        },
        (None, Some(b)) => match a {
            Value::Double(a) => a.partial_cmp(&(b as f64)),
            _ => None,
        },
        (None, None) => match (a, b) {
            (Value::Double(a), Value::Double(b)) => a.partial_cmp(b),
            _ => None,
        },
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Null, Self::Null) => true,
            (Self::List(a), Self::List(b)) => **a == **b,
            (Self::Map(a), Self::Map(b)) => a == b,
            (Self::Optional(a), Self::Optional(b)) => a == b,
            (Self::Type(a), Self::Type(b)) => a == b,
            (Self::Url(a), Self::Url(b)) => a == b,
            (Self::Ip(a), Self::Ip(b)) => a == b,
            (Self::Cidr(a, n), Self::Cidr(b, m)) => a == b && n == m,
            (Self::Format(a), Self::Format(b)) => a == b,
            (Self::Message(a), Self::Message(b)) => a == b,
            (Self::Opaque(a), Self::Opaque(b)) => Arc::ptr_eq(a, b),
            _ => self.compare(other) == Some(Ordering::Equal),
        }
    }
}

impl PartialEq for List {
    fn eq(&self, other: &Self) -> bool {
        if self.items.len() != other.items.len() {
            return false;
        }
        match &self.merge {
            Merge::Place => self.items == other.items,
            Merge::Value | Merge::Keys(_) => self.items.iter().all(|item| other.items.contains(item)),
        }
    }
}

impl List {
    /// The key fields of an item, or the item.
    fn identity(&self, item: &Value) -> Value {
        match (&self.merge, item) {
            (Merge::Keys(keys), Value::Map(map)) => {
                let of = |key: &Arc<str>| map.get(&Key::String(key.clone())).cloned().unwrap_or(Value::Null);
                Value::list(keys.iter().map(of).collect())
            }
            _ => item.clone(),
        }
    }

    /// Both lists as one: sets and maps keep their places, and the other's items with the same key replace.
    pub(super) fn plus(&self, other: &Self) -> Self {
        let mut items = self.items.clone();
        for item in &other.items {
            let same = match self.merge {
                Merge::Place => None,
                _ => {
                    let identity = self.identity(item);
                    items.iter().position(|i| self.identity(i) == identity)
                }
            };
            match same {
                Some(at) => items[at] = item.clone(),
                None => items.push(item.clone()),
            }
        }
        Self { items, merge: self.merge.clone() }
    }
}

/// As `string(x)` prints it, where there is such a form.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Bool(b) => write!(f, "{b}"),
            Self::Int(n) => write!(f, "{n}"),
            Self::Uint(n) => write!(f, "{n}"),
            Self::Double(n) => f.write_str(&super::functions::strings::double(*n)),
            Self::String(text) => f.write_str(text),
            Self::Bytes(bytes) => f.write_str(&String::from_utf8_lossy(bytes)),
            Self::Timestamp(at) => write!(f, "{at}"),
            Self::Duration(nanos) => write!(f, "{}s", super::functions::strings::double(*nanos as f64 / 1e9)),
            Self::List(list) => {
                f.write_str("[")?;
                for (i, item) in list.items.iter().enumerate() {
                    write!(f, "{}{item}", if i > 0 { ", " } else { "" })?;
                }
                f.write_str("]")
            }
            Self::Map(map) => {
                f.write_str("{")?;
                for (i, (key, value)) in map.iter().enumerate() {
                    write!(f, "{}{}: {value}", if i > 0 { ", " } else { "" }, key.value())?;
                }
                f.write_str("}")
            }
            Self::Optional(Some(value)) => write!(f, "optional({value})"),
            Self::Optional(None) => f.write_str("optional.none()"),
            Self::Type(name) => f.write_str(name),
            Self::Quantity(quantity) => write!(f, "{quantity}"),
            Self::Url(url) => write!(f, "{url}"),
            Self::Ip(address) => write!(f, "{address}"),
            Self::Cidr(address, length) => write!(f, "{address}/{length}"),
            Self::Format(name) => f.write_str(name),
            Self::Semver(version) => write!(f, "{version}"),
            Self::Message(message) => f.write_str(&message.name),
            Self::Opaque(o) => f.write_str(o.type_name()),
        }
    }
}
