//! Reading Kubernetes documents by JSON pointer, with the API's meaning of absence: empty text, no items, false.

use serde_json::Value;

/// Access by pointer.
pub(crate) trait Json {
    /// Text, or empty.
    fn text(&self, pointer: &str) -> &str;
    /// Text that is there and not empty.
    fn some_text(&self, pointer: &str) -> Option<&str>;
    /// A whole number.
    fn number(&self, pointer: &str) -> Option<i64>;
    /// A truth value, or false.
    fn flag(&self, pointer: &str) -> bool;
    /// A truth value that is there.
    fn some_flag(&self, pointer: &str) -> Option<bool>;
    /// Items of a list.
    fn items(&self, pointer: &str) -> &[Value];
    /// Text items of a list.
    fn texts(&self, pointer: &str) -> Vec<String>;
    /// Entries of a map of texts, in order of their keys.
    fn entries(&self, pointer: &str) -> Vec<(&str, &str)>;
    /// An object or list that is there and not null.
    fn there(&self, pointer: &str) -> Option<&Value>;
}

impl Json for Value {
    fn text(&self, pointer: &str) -> &str {
        self.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
    }
    fn some_text(&self, pointer: &str) -> Option<&str> {
        self.pointer(pointer).and_then(Value::as_str).filter(|t| !t.is_empty())
    }
    fn number(&self, pointer: &str) -> Option<i64> {
        self.pointer(pointer).and_then(Value::as_i64)
    }
    fn flag(&self, pointer: &str) -> bool {
        self.some_flag(pointer).unwrap_or_default()
    }
    fn some_flag(&self, pointer: &str) -> Option<bool> {
        self.pointer(pointer).and_then(Value::as_bool)
    }
    fn items(&self, pointer: &str) -> &[Value] {
        self.pointer(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }
    fn texts(&self, pointer: &str) -> Vec<String> {
        self.items(pointer).iter().filter_map(Value::as_str).map(ToOwned::to_owned).collect()
    }
    fn entries(&self, pointer: &str) -> Vec<(&str, &str)> {
        let mut entries: Vec<(&str, &str)> = self
            .pointer(pointer)
            .and_then(Value::as_object)
            .map(|m| m.iter().filter_map(|(k, v)| Some((k.as_str(), v.as_str()?))).collect())
            .unwrap_or_default();
        entries.sort_unstable();
        entries
    }
    fn there(&self, pointer: &str) -> Option<&Value> {
        self.pointer(pointer).filter(|v| !v.is_null())
    }
}

/// Milliseconds since the epoch as the API prints times: RFC 3339 in UTC, whole seconds.
pub(crate) fn time(ms: i64) -> String {
    jiff::Timestamp::from_second(ms.div_euclid(1000)).map(|t| t.to_string()).unwrap_or_default()
}

/// A time of the API as milliseconds since the epoch.
pub(crate) fn millis(text: &str) -> Option<i64> {
    text.parse::<jiff::Timestamp>().ok().map(|t| t.as_millisecond())
}
