//! Lists: pages with cursors, filters and sorting, one way for all of them.
//!
//! A page begins after the last item of the one before, by the value that the list is sorted by and the item's own name. So pages are
//! stable while others write: nothing that stays where it is comes twice or is left out. Who shows a window of a list that is sorted and
//! filtered here, and hears of every change, says how many items come before it (`offset`) instead.

mod around;
mod cursor;
mod kinds;

use std::collections::BTreeMap;

use axum::extract::{FromRequestParts, Query, rejection::QueryRejection};
use http::{HeaderMap, HeaderValue, StatusCode, Uri, header, request::Parts};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use vctl_api::rest::Page;

use self::{around::Around, cursor::Cursor};
use super::{
    body::{Tagged, tagged},
    openapi::describe::{Gives, Operation, Takes},
};
use crate::error::{Error, nearest};

/// Most items of a page.
pub(super) const LIMIT: usize = 1000;
/// Longest text to search for, in characters.
const TEXT_LIMIT: usize = 64;

/// A value of a column.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum Cell {
    /// There is none; sorts first.
    None(()),
    /// A number, or a time in microseconds.
    Number(i64),
    /// A text.
    Text(String),
}

impl Cell {
    pub(super) const NONE: Self = Self::None(());

    /// Of a text.
    pub(super) fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    /// Of a time, to the microsecond.
    pub(super) fn time(at: jiff::Timestamp) -> Self {
        Self::Number(at.as_microsecond())
    }
}

/// What a list can be sorted by.
pub(super) struct Column<T> {
    /// Its name in `sort`, and in filters.
    pub(super) name: &'static str,
    /// Its value.
    pub(super) of: fn(&T) -> Cell,
    /// Whether it can be a filter: `?name=value,other`.
    pub(super) filter: bool,
}

/// What can be listed.
pub(super) trait Listed: Sized + 'static {
    /// Its columns. The first is unique, and what is sorted by when nothing is said.
    const COLUMNS: &'static [Column<Self>];
    /// Whether the first column counts down when nothing is said.
    const NEWEST_FIRST: bool = false;
    /// Items of a page when nothing is said; none: all of them.
    const USUAL: Option<usize> = None;
}

/// A column, and the values that are wanted.
type Filter<T> = (fn(&T) -> Cell, Vec<String>);

/// What somebody wants of a list.
pub(super) struct Listing<T: Listed> {
    limit: Option<usize>,
    column: usize,
    down: bool,
    after: Option<Cursor>,
    offset: usize,
    counted: Vec<&'static Column<T>>,
    filters: Vec<Filter<T>>,
    text: Option<String>,
    uri: Uri,
    headers: HeaderMap,
}

type Pairs = Query<Vec<(String, String)>>;

impl<T: Listed, S: Send + Sync> FromRequestParts<S> for Listing<T> {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Error> {
        let pairs = Pairs::from_request_parts(parts, state).await;
        let Query(pairs) = pairs.map_err(|e: QueryRejection| Error::BadRequest(e.body_text()))?;
        let mut listing = Self::new(&pairs)?;
        listing.uri = parts.uri.clone();
        listing.headers = parts.headers.clone();
        Ok(listing)
    }
}

impl<T: Listed> Listing<T> {
    fn new(pairs: &[(String, String)]) -> Result<Self, Error> {
        let value = |name: &str| pairs.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str());
        let limit = value("limit").map(limit).transpose()?.or(T::USUAL);
        let (column, down) = value("sort").map_or(Ok((0, T::NEWEST_FIRST)), order::<T>)?;
        let after = value("cursor").map(|text| Cursor::read(text, T::COLUMNS[column].name, down)).transpose()?;
        let offset = value("offset").map_or(Ok(0), offset)?;
        let counted = around::wanted::<T>(pairs)?;
        let text = value("q").filter(|q| !q.is_empty());
        if text.is_some_and(|text| text.chars().count() > TEXT_LIMIT) {
            return Err(Error::BadRequest(format!("q is a text of at most {TEXT_LIMIT} characters")));
        }
        let text = text.map(str::to_lowercase);
        let filters = T::COLUMNS.iter().filter(|column| column.filter).filter_map(|column| {
            let wanted = value(column.name)?.split(',').map(str::to_lowercase).collect();
            Some((column.of, wanted))
        });
        let filters = filters.collect();
        let (uri, headers) = (Uri::default(), HeaderMap::new());
        Ok(Self { limit, column, down, after, offset, counted, filters, text, uri, headers })
    }

    fn wanted(&self, item: &T) -> bool {
        let is = |cell: Cell, wanted: &[String]| match cell {
            Cell::None(()) => wanted.iter().any(String::is_empty),
            Cell::Number(number) => wanted.contains(&number.to_string()),
            Cell::Text(text) => wanted.contains(&text.to_lowercase()),
        };
        let has = |text: &String| {
            T::COLUMNS.iter().any(|c| matches!((c.of)(item), Cell::Text(cell) if cell.to_lowercase().contains(text)))
        };
        self.filters.iter().all(|(of, wanted)| is(of(item), wanted)) && self.text.as_ref().is_none_or(has)
    }

    /// The items of this page, and what it says of the others.
    pub(super) fn select(&self, items: Vec<T>) -> (Vec<T>, Around) {
        let (by, unique) = (T::COLUMNS[self.column].of, T::COLUMNS[0].of);
        let mut found: Vec<((Cell, Cell), T)> =
            items.into_iter().filter(|item| self.wanted(item)).map(|item| ((by(&item), unique(&item)), item)).collect();
        let (total, counts) = (found.len(), around::count(&self.counted, found.iter().map(|(_, item)| item)));
        if let Some(after) = &self.after {
            found.retain(|(key, _)| {
                let order = (&key.0, &key.1).cmp(&(&after.value, &after.name));
                if self.down { order.is_lt() } else { order.is_gt() }
            });
        }
        found.sort_unstable_by(|(a, _), (b, _)| if self.down { b.cmp(a) } else { a.cmp(b) });
        found.drain(..self.offset.min(found.len()));
        let more = self.limit.is_some_and(|limit| found.len() > limit);
        found.truncate(self.limit.unwrap_or(usize::MAX));
        let last = found.last().filter(|_| more).map(|((value, name), _)| Cursor {
            by: T::COLUMNS[self.column].name.to_owned(),
            down: self.down,
            value: value.clone(),
            name: name.clone(),
        });
        let next = last.as_ref().map(Cursor::write);
        (found.into_iter().map(|(_, item)| item).collect(), Around { next, total, counts })
    }

    /// The answer with these items.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(super) fn answer<U: Serialize>(&self, items: Vec<U>, around: Around) -> Result<Paged<U>, Error> {
        let Around { next, total, counts } = around;
        paged(&Page { items, next, total: u64::try_from(total).ok(), counts }, &self.uri, &self.headers)
    }

    /// Selects and answers.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(super) fn page(&self, items: Vec<T>) -> Result<Paged<T>, Error>
    where
        T: Serialize,
    {
        let (items, around) = self.select(items);
        self.answer(items, around)
    }
}

fn limit(text: &str) -> Result<usize, Error> {
    let limit = text.parse().ok().filter(|limit| (1..=LIMIT).contains(limit));
    limit.ok_or_else(|| Error::BadRequest(format!("limit is a number from 1 to {LIMIT}, not {:?}", shown(text))))
}

fn offset(text: &str) -> Result<usize, Error> {
    let offset = text.parse::<u32>().ok().and_then(|offset| usize::try_from(offset).ok());
    offset.ok_or_else(|| Error::BadRequest(format!("offset is a number from 0 to {}, not {:?}", u32::MAX, shown(text))))
}

/// `name`, or `-name` for the other way round.
fn order<T: Listed>(text: &str) -> Result<(usize, bool), Error> {
    let (name, down) = text.strip_prefix('-').map_or((text, false), |name| (name, true));
    let column = T::COLUMNS.iter().position(|column| column.name == name);
    column.map(|column| (column, down)).ok_or_else(|| {
        let names: Vec<&str> = T::COLUMNS.iter().map(|column| column.name).collect();
        let near = nearest(name, names.iter().copied());
        let near = if near.is_empty() { String::new() } else { format!("; did you mean {}?", near.join(", ")) };
        Error::BadRequest(format!("it cannot be sorted by {:?}, but by {}{near}", shown(name), names.join(", ")))
    })
}

/// As much of what was sent as is needed to see what it is.
fn shown(text: &str) -> String {
    text.chars().take(TEXT_LIMIT).collect()
}

impl<T: Listed> Takes for Listing<T> {
    fn takes(operation: &mut Operation<'_>) {
        let usual = T::USUAL.map_or("all".to_owned(), |usual| usual.to_string());
        let text = format!("Most items of the page; {usual} unless it is said.");
        operation.parameter("query", "limit", &text, json!({"type": "integer", "minimum": 1, "maximum": LIMIT}));
        let text = "The `next` of the page before. Only with the same `sort`.";
        operation.parameter("query", "cursor", text, json!({"type": "string", "format": "vctl-cursor"}));
        let text = "Items that are left out before the page, for windows of a list; a `cursor` is stable while others write, this is not.";
        operation.parameter("query", "offset", text, json!({"type": "integer", "minimum": 0, "maximum": u32::MAX}));
        let names: Vec<&str> = around::countable::<T>().map(|column| column.name).collect();
        if !names.is_empty() {
            let text = "Fields whose values are counted in the answer, over all that match.";
            let schema = json!({"type": "array", "items": {"type": "string", "enum": names}});
            operation.parameter("query", "counts", text, schema);
        }
        let names = T::COLUMNS.iter().flat_map(|c| [c.name.to_owned(), format!("-{}", c.name)]);
        let text = "What it is sorted by; with `-` the other way round.";
        operation.parameter("query", "sort", text, json!({"type": "string", "enum": names.collect::<Vec<_>>()}));
        let text = "Only what has this text in it, in whatever case.";
        operation.parameter("query", "q", text, json!({"type": "string", "maxLength": TEXT_LIMIT}));
        for column in T::COLUMNS.iter().filter(|column| column.filter) {
            let text = "Only what has this value, or one of several with commas between them, in whatever case.";
            operation.parameter("query", column.name, text, json!({"type": "string"}));
        }
        operation.fails(StatusCode::BAD_REQUEST);
        operation.fails(StatusCode::UNPROCESSABLE_ENTITY);
    }
}

/// A page, with an entity tag, and a link to the next one.
pub(super) struct Paged<T>(Tagged<Page<T>>);

/// Where a page is, for lists that select by themselves.
pub(super) struct Place {
    uri: Uri,
    headers: HeaderMap,
}

impl Place {
    /// The answer with these items.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(super) fn page<T: Serialize>(&self, items: Vec<T>, next: Option<String>) -> Result<Paged<T>, Error> {
        paged(&Page { items, next, total: None, counts: BTreeMap::new() }, &self.uri, &self.headers)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Place {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Error> {
        Ok(Self { uri: parts.uri.clone(), headers: parts.headers.clone() })
    }
}

impl Takes for Place {}

/// The answer with a page.
///
/// # Errors
/// When it cannot be written.
fn paged<T: Serialize>(page: &Page<T>, uri: &Uri, headers: &HeaderMap) -> Result<Paged<T>, Error> {
    let mut tagged = tagged(page, None, headers)?;
    if let Some(next) = &page.next {
        let mut query = url::form_urlencoded::Serializer::new(String::new());
        let pairs = url::form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes());
        query.extend_pairs(pairs.filter(|(name, _)| !["cursor", "after", "offset"].contains(&&**name)));
        query.append_pair("cursor", next);
        let link = format!("<{}?{}>; rel=\"next\"", uri.path(), query.finish());
        let link = HeaderValue::from_str(&link).map_err(|e| Error::Internal(e.to_string()))?;
        tagged.response_mut().headers_mut().insert(header::LINK, link);
    }
    Ok(Paged(tagged))
}

impl<T> axum::response::IntoResponse for Paged<T> {
    fn into_response(self) -> axum::response::Response {
        self.0.into_response()
    }
}

impl<T: JsonSchema> Gives for Paged<T> {
    fn gives(operation: &mut Operation<'_>) {
        Tagged::<Page<T>>::gives(operation);
        operation.with_header(StatusCode::OK, "Link", "The next page (`rel=\"next\"`), when there is one.");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Clone, PartialEq)]
    struct Item(&'static str, i64);

    impl Listed for Item {
        const COLUMNS: &'static [Column<Self>] = &[
            Column { name: "name", of: |i| Cell::text(i.0), filter: true },
            Column { name: "size", of: |i| Cell::Number(i.1), filter: true },
        ];
    }

    const ITEMS: [Item; 5] = [Item("b", 2), Item("a", 2), Item("d", 1), Item("c", 2), Item("e", 3)];

    fn listing(query: &str) -> Result<Listing<Item>, Error> {
        let pairs: Vec<_> = url::form_urlencoded::parse(query.as_bytes()).into_owned().collect();
        Listing::new(&pairs)
    }

    fn names(query: &str) -> String {
        let (items, _) = listing(query).expect("a listing").select(ITEMS.to_vec());
        items.iter().map(|i| i.0).collect()
    }

    #[test]
    fn a_list_is_sorted_and_filtered() {
        assert_eq!(names(""), "abcde");
        assert_eq!(names("sort=-name"), "edcba");
        assert_eq!(names("sort=size"), "dabce");
        assert_eq!(names("sort=-size&limit=2"), "ec");
        assert_eq!(names("size=2"), "abc");
        assert_eq!(names("name=a,E"), "ae");
        assert_eq!(names("q=D"), "d");
        assert!(matches!(listing("cursor=x"), Err(Error::Invalid { .. })));
        for wrong in ["limit=0", "limit=x", "limit=1001", "sort=colour"] {
            assert!(matches!(listing(wrong), Err(Error::BadRequest(_))), "{wrong}");
        }
    }

    #[test]
    fn a_window_begins_where_it_says_and_knows_of_the_rest() {
        assert_eq!(names("limit=2&offset=1"), "bc");
        assert_eq!(names("sort=-name&offset=4"), "a");
        assert_eq!(names("offset=5"), "");
        let (_, around) = listing("limit=1&q=b&counts=size&counts=name").expect("a listing").select(ITEMS.to_vec());
        assert_eq!((around.total, around.next), (1, None));
        let (_, around) = listing("limit=1&offset=1&counts=size").expect("a listing").select(ITEMS.to_vec());
        assert!(around.next.is_some());
        let sizes = [("1", 1), ("2", 3), ("3", 1)].map(|(size, count)| (size.to_owned(), count));
        assert_eq!(around.counts, [("size".to_owned(), sizes.into())].into());
        for wrong in ["offset=-1", "offset=x", "counts=colour", "counts="] {
            assert!(matches!(listing(wrong), Err(Error::BadRequest(_))), "{wrong}");
        }
    }

    #[test]
    fn pages_are_stable_while_others_write() {
        let mut items = ITEMS.to_vec();
        let (first, next) = listing("sort=size&limit=2").expect("a listing").select(items.clone());
        assert_eq!(first, [Item("d", 1), Item("a", 2)]);
        // One that was shown goes, one comes before, one comes after.
        items.retain(|i| i.0 != "a");
        items.extend([Item("0", 0), Item("bb", 2)]);
        assert_eq!(next.total, 5);
        let next = next.next.expect("more");
        let (rest, end) = listing(&format!("sort=size&cursor={next}")).expect("a listing").select(items);
        assert_eq!(rest, [Item("b", 2), Item("bb", 2), Item("c", 2), Item("e", 3)]);
        assert_eq!((end.next, end.total), (None, 6), "all that match, wherever the page begins");
        assert!(listing(&format!("sort=name&cursor={next}")).is_err(), "it belongs to another order");
    }
}
