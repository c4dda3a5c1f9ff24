//! Where a page of a list ended. Opaque to clients: what is in it can change.

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD as BASE64};
use serde::{Deserialize, Serialize};

use super::Cell;
use crate::error::Error;

/// The last item of a page.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Cursor {
    /// What the list was sorted by.
    #[serde(rename = "b")]
    pub(super) by: String,
    /// From the largest to the smallest.
    #[serde(rename = "d")]
    pub(super) down: bool,
    /// Value of the item in that column.
    #[serde(rename = "v")]
    pub(super) value: Cell,
    /// What is unique about the item.
    #[serde(rename = "n")]
    pub(super) name: Cell,
}

impl Cursor {
    /// As clients get it.
    pub(super) fn write(&self) -> String {
        // Plain data: writing it cannot fail.
        BASE64.encode(serde_json::to_vec(self).unwrap_or_default())
    }

    /// One that came back, for a list in this order.
    pub(super) fn read(text: &str, by: &str, down: bool) -> Result<Self, Error> {
        let cursor = BASE64.decode(text).ok().and_then(|bytes| serde_json::from_slice::<Self>(&bytes).ok());
        cursor.filter(|cursor| cursor.by == by && cursor.down == down).ok_or_else(|| {
            Error::invalid("invalid-cursor", "the cursor is not one of this list in this order: begin again without it")
        })
    }
}
