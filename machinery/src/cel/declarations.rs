//! Signatures of functions, in a short notation: `name (arguments) result`, and `name target.(arguments) result` for methods. Sources: the
//! language definition, cel-go `ext`, and Kubernetes' `k8s.io/apiserver/pkg/cel/library`.

use std::{collections::HashMap, sync::OnceLock};

use super::types::Type;

/// One way to call a function.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Overload {
    pub(super) name: String,
    pub(super) member: bool,
    /// With the target first.
    pub(super) arguments: Vec<Type>,
    pub(super) result: Type,
}

/// Names of Kubernetes' types.
pub(super) const QUANTITY: &str = "kubernetes.Quantity";
pub(super) const URL: &str = "kubernetes.URL";
pub(super) const IP: &str = "net.IP";
pub(super) const CIDR: &str = "net.CIDR";
pub(super) const FORMAT: &str = "kubernetes.NamedFormat";
pub(super) const SEMVER: &str = "kubernetes.Semver";

const SIGNATURES: &str = "
_?_:_ (bool,A,A) A
_&&_ (bool,bool) bool
_||_ (bool,bool) bool
!_ (bool) bool
_==_ (A,A) bool
_!=_ (A,A) bool
_<_ (bool,bool) bool; (int,int) bool; (uint,uint) bool; (double,double) bool; (string,string) bool; (bytes,bytes) bool; (timestamp,timestamp) bool; (duration,duration) bool; (int,uint) bool; (int,double) bool; (uint,int) bool; (uint,double) bool; (double,int) bool; (double,uint) bool
_<=_ = _<_
_>_ = _<_
_>=_ = _<_
_+_ (int,int) int; (uint,uint) uint; (double,double) double; (string,string) string; (bytes,bytes) bytes; (list(A),list(A)) list(A); (timestamp,duration) timestamp; (duration,timestamp) timestamp; (duration,duration) duration
_-_ (int,int) int; (uint,uint) uint; (double,double) double; (timestamp,timestamp) duration; (timestamp,duration) timestamp; (duration,duration) duration
_*_ (int,int) int; (uint,uint) uint; (double,double) double
_/_ (int,int) int; (uint,uint) uint; (double,double) double
_%_ (int,int) int; (uint,uint) uint
-_ (int) int; (double) double
_[_] (list(A),int) A; (map(A,B),A) B; (optional(list(A)),int) optional(A); (optional(map(A,B)),A) optional(B)
_[?_] (list(A),int) optional(A); (map(A,B),A) optional(B); (optional(list(A)),int) optional(A); (optional(map(A,B)),A) optional(B)
@in (A,list(A)) bool; (A,map(A,B)) bool
size (string) int; (bytes) int; (list(A)) int; (map(A,B)) int; string.() int; bytes.() int; list(A).() int; map(A,B).() int
int (int) int; (uint) int; (double) int; (string) int; (timestamp) int; (duration) int
uint (uint) uint; (int) uint; (double) uint; (string) uint
double (double) double; (int) double; (uint) double; (string) double
bool (bool) bool; (string) bool
string (string) string; (bool) string; (int) string; (uint) string; (double) string; (bytes) string; (timestamp) string; (duration) string; (ip) string; (cidr) string
bytes (bytes) bytes; (string) bytes
timestamp (timestamp) timestamp; (string) timestamp; (int) timestamp
duration (duration) duration; (string) duration; (int) duration
dyn (A) dyn
type (A) type
matches (string,string) bool; string.(string) bool
contains string.(string) bool
startsWith string.(string) bool
endsWith string.(string) bool
getFullYear timestamp.() int; timestamp.(string) int
getMonth = getFullYear
getDayOfYear = getFullYear
getDayOfMonth = getFullYear
getDate = getFullYear
getDayOfWeek = getFullYear
getHours timestamp.() int; timestamp.(string) int; duration.() int
getMinutes = getHours
getSeconds = getHours
getMilliseconds = getHours
charAt string.(int) string
indexOf string.(string) int; string.(string,int) int; list(A).(A) int
lastIndexOf string.(string) int; string.(string,int) int; list(A).(A) int
lowerAscii string.() string
upperAscii string.() string
replace string.(string,string) string; string.(string,string,int) string
split string.(string) list(string); string.(string,int) list(string)
substring string.(int) string; string.(int,int) string
trim string.() string
join list(string).() string; list(string).(string) string
format string.(list(dyn)) string
strings.quote (string) string
isSorted list(int).() bool; list(uint).() bool; list(double).() bool; list(bool).() bool; list(duration).() bool; list(timestamp).() bool; list(string).() bool; list(bytes).() bool
min list(int).() int; list(uint).() uint; list(double).() double; list(bool).() bool; list(duration).() duration; list(timestamp).() timestamp; list(string).() string; list(bytes).() bytes
max = min
sum list(int).() int; list(uint).() uint; list(double).() double; list(duration).() duration
includes dyn.(dyn) bool
slice list(A).(int,int) list(A)
flatten list(list(A)).() list(A); list(dyn).(int) list(dyn)
distinct list(A).() list(A)
reverse list(A).() list(A)
sort list(A).() list(A)
first list(A).() optional(A)
last list(A).() optional(A)
lists.range (int) list(int)
sets.contains (list(A),list(A)) bool
sets.equivalent (list(A),list(A)) bool
sets.intersects (list(A),list(A)) bool
find string.(string) string
findAll string.(string) list(string); string.(string,int) list(string)
optional.of (A) optional(A)
optional.ofNonZeroValue (A) optional(A)
optional.none () optional(A)
hasValue optional(A).() bool
value optional(A).() A
or optional(A).(optional(A)) optional(A)
orValue optional(A).(A) A
url (string) url
isURL (string) bool
getScheme url.() string
getHost url.() string
getHostname url.() string
getPort url.() string
getEscapedPath url.() string
getQuery url.() map(string,list(string))
quantity (string) quantity
isQuantity (string) bool
isInteger quantity.() bool
asInteger quantity.() int
asApproximateFloat quantity.() double
sign quantity.() int
isGreaterThan quantity.(quantity) bool; semver.(semver) bool
isLessThan quantity.(quantity) bool; semver.(semver) bool
compareTo quantity.(quantity) int; semver.(semver) int
add quantity.(quantity) quantity; quantity.(int) quantity
sub quantity.(quantity) quantity; quantity.(int) quantity
ip (string) ip; cidr.() ip
isIP (string) bool
ip.isCanonical (string) bool
family ip.() int
isUnspecified ip.() bool
isLoopback ip.() bool
isLinkLocalMulticast ip.() bool
isLinkLocalUnicast ip.() bool
isGlobalUnicast ip.() bool
cidr (string) cidr
isCIDR (string) bool
containsIP cidr.(string) bool; cidr.(ip) bool
containsCIDR cidr.(string) bool; cidr.(cidr) bool
prefixLength cidr.() int
masked cidr.() cidr
format.named (string) optional(format)
validate format.(string) optional(list(string))
format.dns1123Label () format
format.dns1123Subdomain () format
format.dns1035Label () format
format.qualifiedName () format
format.dns1123LabelPrefix () format
format.dns1123SubdomainPrefix () format
format.dns1035LabelPrefix () format
format.labelValue () format
format.uri () format
format.uuid () format
format.byte () format
format.date () format
format.datetime () format
semver (string) semver; (string,bool) semver
isSemver (string) bool; (string,bool) bool
major semver.() int
minor semver.() int
patch semver.() int
jsonpatch.escapeKey (string) string
";

/// Names of types that are values.
pub(super) const TYPE_NAMES: [&str; 12] =
    ["bool", "int", "uint", "double", "string", "bytes", "list", "map", "null_type", "type", "optional_type", "dyn"];

/// All overloads by name.
pub(super) fn all() -> &'static HashMap<String, Vec<Overload>> {
    static ALL: OnceLock<HashMap<String, Vec<Overload>>> = OnceLock::new();
    ALL.get_or_init(|| {
        let mut all: HashMap<String, Vec<Overload>> = HashMap::new();
        for line in SIGNATURES.lines() {
            let Some((name, signatures)) = line.split_once(' ') else { continue };
            let overloads = match signatures.strip_prefix("= ") {
                Some(same) => {
                    let of = all.get(same).cloned().unwrap_or_default();
                    of.into_iter().map(|o| Overload { name: name.to_owned(), ..o }).collect()
                }
                None => signatures.split("; ").filter_map(|s| signature(name, s)).collect(),
            };
            all.insert(name.to_owned(), overloads);
        }
        all
    })
}

fn signature(name: &str, text: &str) -> Option<Overload> {
    let (rest, result) = text.rsplit_once(' ')?;
    let (target, rest) = match rest.split_once(".(") {
        Some((target, rest)) => (Some(target), rest),
        None => (None, rest.strip_prefix('(')?),
    };
    let mut arguments: Vec<Type> = target.map(kind).into_iter().collect();
    arguments.extend(split(rest.strip_suffix(')')?).into_iter().map(kind));
    Some(Overload { name: name.to_owned(), member: target.is_some(), arguments, result: kind(result) })
}

/// At commas that are not in brackets.
fn split(text: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0, 0);
    for (i, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&text[start..i]);
                start = i + 1;
            }
            _ => {}
        }
    }
    if !text.is_empty() {
        parts.push(&text[start..]);
    }
    parts
}

fn kind(text: &str) -> Type {
    if let Some((outer, inner)) = text.split_once('(') {
        let inner = inner.strip_suffix(')').unwrap_or(inner);
        return match (outer, split(inner).as_slice()) {
            ("list", [of]) => Type::list(kind(of)),
            ("optional", [of]) => Type::optional(kind(of)),
            ("map", [keys, values]) => Type::map(kind(keys), kind(values)),
            _ => Type::Dyn,
        };
    }
    match text {
        "bool" => Type::Bool,
        "int" => Type::Int,
        "uint" => Type::Uint,
        "double" => Type::Double,
        "string" => Type::String,
        "bytes" => Type::Bytes,
        "timestamp" => Type::Timestamp,
        "duration" => Type::Duration,
        "type" => Type::Type,
        "quantity" => Type::Opaque(QUANTITY),
        "url" => Type::Opaque(URL),
        "ip" => Type::Opaque(IP),
        "cidr" => Type::Opaque(CIDR),
        "format" => Type::Opaque(FORMAT),
        "semver" => Type::Opaque(SEMVER),
        "A" | "B" => Type::Parameter(text.chars().next().unwrap_or('A')),
        _ => Type::Dyn,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_read() {
        let all = all();
        assert_eq!(all.len(), SIGNATURES.lines().filter(|l| !l.is_empty()).count());
        assert!(all.values().all(|o| !o.is_empty()));
        assert_eq!(all["_>=_"].len(), 14);
        let slice = &all["slice"][0];
        assert_eq!((slice.member, slice.arguments.len()), (true, 3));
        assert_eq!(all["getQuery"][0].result.to_string(), "map(string, list(string))");
        for line in SIGNATURES.lines().filter(|l| !l.contains('=') && !l.is_empty()) {
            let (name, signatures) = line.split_once(' ').unwrap();
            assert_eq!(all[name].len(), signatures.split("; ").count(), "{line}");
        }
    }
}
