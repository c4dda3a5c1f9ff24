//! What a page says besides its items.

use std::collections::BTreeMap;

use super::{Cell, Column, Listed};
use crate::error::{Error, nearest};

/// What a page says of the items that are not on it.
#[derive(Debug, PartialEq)]
pub(in crate::http) struct Around {
    /// Where the next page begins; none when there is none.
    pub(in crate::http) next: Option<String>,
    /// How many match, on all pages.
    pub(in crate::http) total: usize,
    /// How many of these have which value, by column.
    pub(in crate::http) counts: BTreeMap<String, BTreeMap<String, u64>>,
}

/// The columns that can be counted: those that are filters.
pub(super) fn countable<T: Listed>() -> impl Iterator<Item = &'static Column<T>> {
    T::COLUMNS.iter().filter(|column| column.filter)
}

/// The columns of `?counts=`, which may stand there several times.
///
/// # Errors
/// Naming what can be counted, when there is no such column.
pub(super) fn wanted<T: Listed>(pairs: &[(String, String)]) -> Result<Vec<&'static Column<T>>, Error> {
    let names = pairs.iter().filter(|(name, _)| name == "counts");
    names
        .map(|(_, name)| {
            countable::<T>().find(|column| column.name == name).ok_or_else(|| {
                let names: Vec<&str> = countable::<T>().map(|column| column.name).collect();
                let near = nearest(name, names.iter().copied());
                let near = if near.is_empty() { String::new() } else { format!("; did you mean {}?", near.join(", ")) };
                let name = super::shown(name);
                Error::BadRequest(format!("it cannot be counted by {name:?}, but by {}{near}", names.join(", ")))
            })
        })
        .collect()
}

/// Counts the values of these columns.
pub(super) fn count<'a, T: Listed>(
    columns: &[&'static Column<T>],
    items: impl Iterator<Item = &'a T>,
) -> BTreeMap<String, BTreeMap<String, u64>> {
    let mut counts: Vec<BTreeMap<String, u64>> = columns.iter().map(|_| BTreeMap::new()).collect();
    if columns.is_empty() {
        return BTreeMap::new();
    }
    for item in items {
        for (column, counts) in columns.iter().zip(&mut counts) {
            let value = match (column.of)(item) {
                Cell::None(()) => String::new(),
                Cell::Number(number) => number.to_string(),
                Cell::Text(text) => text,
            };
            *counts.entry(value).or_default() += 1;
        }
    }
    columns.iter().map(|column| column.name.to_owned()).zip(counts).collect()
}
