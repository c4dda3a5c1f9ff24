//! Types of values.

use std::{collections::BTreeMap, fmt, sync::Arc};

/// The type of an expression.
#[derive(Debug, Clone, PartialEq)]
pub enum Type {
    /// Anything; known at run time.
    Dyn,
    /// Null.
    Null,
    /// Truth value.
    Bool,
    /// 64-bit integer.
    Int,
    /// 64-bit integer without a sign.
    Uint,
    /// Floating-point number.
    Double,
    /// Text.
    String,
    /// Octets.
    Bytes,
    /// A moment.
    Timestamp,
    /// A length of time.
    Duration,
    /// A list of values of one type.
    List(Box<Type>),
    /// A map.
    Map(Box<Type>, Box<Type>),
    /// A value or none.
    Optional(Box<Type>),
    /// A type as a value.
    Type,
    /// An object with named fields.
    Object(Arc<ObjectType>),
    /// A message that expressions make: `Object`, `Object.spec`, `JSONPatch`.
    Message(Arc<str>),
    /// A type that has a name and methods: `kubernetes.Quantity`, `kubernetes.authorization.Authorizer`.
    Opaque(&'static str),
    /// Stands for any one type in a signature.
    Parameter(char),
}

/// Fields of an object by their names in CEL (escaped).
#[derive(Debug, Default)]
pub struct ObjectType {
    /// Its name in messages.
    pub name: String,
    /// Its fields.
    pub fields: BTreeMap<String, Type>,
}

/// Objects are the same when they are declared at the same place.
impl PartialEq for ObjectType {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other) || self.name == other.name
    }
}

impl Type {
    /// A list.
    pub fn list(of: Self) -> Self {
        Self::List(Box::new(of))
    }

    /// A map.
    pub fn map(keys: Self, values: Self) -> Self {
        Self::Map(Box::new(keys), Box::new(values))
    }

    /// A value or none.
    pub fn optional(of: Self) -> Self {
        Self::Optional(Box::new(of))
    }

    /// An object with fields.
    pub fn object(name: &str, fields: impl IntoIterator<Item = (String, Self)>) -> Self {
        Self::Object(Arc::new(ObjectType { name: name.to_owned(), fields: fields.into_iter().collect() }))
    }

    /// Whether null can stand for a value of this type.
    fn is_nullable(&self) -> bool {
        matches!(self, Self::Object(_) | Self::Message(_) | Self::Timestamp | Self::Duration | Self::Opaque(_))
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dyn => f.write_str("dyn"),
            Self::Null => f.write_str("null"),
            Self::Bool => f.write_str("bool"),
            Self::Int => f.write_str("int"),
            Self::Uint => f.write_str("uint"),
            Self::Double => f.write_str("double"),
            Self::String => f.write_str("string"),
            Self::Bytes => f.write_str("bytes"),
            Self::Timestamp => f.write_str("timestamp"),
            Self::Duration => f.write_str("duration"),
            Self::List(of) => write!(f, "list({of})"),
            Self::Map(keys, values) => write!(f, "map({keys}, {values})"),
            Self::Optional(of) => write!(f, "optional_type({of})"),
            Self::Type => f.write_str("type"),
            Self::Object(object) => f.write_str(&object.name),
            Self::Message(name) => f.write_str(name),
            Self::Opaque(name) => f.write_str(name),
            Self::Parameter(letter) => write!(f, "{letter}"),
        }
    }
}

/// What the parameters of a signature stand for.
#[derive(Debug, Clone, Default)]
pub(super) struct Bindings(BTreeMap<char, Type>);

impl Bindings {
    /// Whether a value of a type can stand where a signature asks for one; binds parameters on the way.
    pub(super) fn accept(&mut self, wanted: &Type, given: &Type) -> bool {
        match (wanted, given) {
            (Type::Parameter(letter), given) => match self.0.get(letter).cloned() {
                None => {
                    self.0.insert(*letter, given.clone());
                    true
                }
                Some(bound) => match join(&bound, given) {
                    Some(joined) => {
                        self.0.insert(*letter, joined);
                        true
                    }
                    None => false,
                },
            },
            (Type::Dyn, _) | (_, Type::Dyn) => true,
            (Type::List(a), Type::List(b)) | (Type::Optional(a), Type::Optional(b)) => self.accept(a, b),
            (Type::Map(a, b), Type::Map(c, d)) => self.accept(a, c) && self.accept(b, d),
            (wanted, Type::Null) => wanted.is_nullable() || *wanted == Type::Null,
            (a, b) => a == b,
        }
    }

    /// A type of the signature with its parameters filled in; what nothing is known of is dyn.
    pub(super) fn fill(&self, kind: &Type) -> Type {
        match kind {
            Type::Parameter(letter) => self.0.get(letter).cloned().unwrap_or(Type::Dyn),
            Type::List(of) => Type::list(self.fill(of)),
            Type::Optional(of) => Type::optional(self.fill(of)),
            Type::Map(keys, values) => Type::map(self.fill(keys), self.fill(values)),
            other => other.clone(),
        }
    }
}

/// The type that covers both, if one does.
pub(super) fn join(a: &Type, b: &Type) -> Option<Type> {
    match (a, b) {
        _ if a == b => Some(a.clone()),
        (Type::Dyn, _) | (_, Type::Dyn) => Some(Type::Dyn),
        (Type::Null, other) | (other, Type::Null) if other.is_nullable() => Some(other.clone()),
        // Null can be compared with optional wrappers only; everything else in JSON that is null has no type.
        (Type::List(a), Type::List(b)) => join(a, b).map(Type::list),
        (Type::Optional(a), Type::Optional(b)) => join(a, b).map(Type::optional),
        (Type::Map(a, b), Type::Map(c, d)) => Some(Type::map(join(a, c)?, join(b, d)?)),
        _ => None,
    }
}
