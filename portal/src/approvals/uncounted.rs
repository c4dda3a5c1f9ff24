//! Approvals of those who may not decide any more.

use std::collections::BTreeMap;

use super::{
    Approvals,
    documents::{ApprovalDoc, RuleDoc},
    seeing::Moment,
};
use crate::{
    access::policy::{Permit, Policy},
    documents::Stored,
    error::Error,
};

impl Approvals {
    /// Takes out the approvals of those who are not among those who decide any more: who has lost that right has no say. The audit trail
    /// keeps them. Their names by id.
    pub(super) async fn drop_what_counts_no_more(
        &self,
        doc: &mut ApprovalDoc,
        policy: &Policy,
        rules: &BTreeMap<String, Stored<RuleDoc>>,
    ) -> Result<BTreeMap<String, String>, Error> {
        let mut gone = BTreeMap::new();
        for decision in doc.approvals() {
            let permit = self.environments.access.permit_of(&decision.by_id).await?;
            let may = |permit: &Permit| Moment { permit, policy, rules }.is_among_those_who_decide(doc).is_ok();
            if !permit.as_ref().is_some_and(may) {
                gone.insert(decision.by_id.clone(), decision.by.clone());
            }
        }
        if !gone.is_empty() {
            let counted = doc.decisions.split_off(doc.counted_from.min(doc.decisions.len()));
            doc.decisions.extend(counted.into_iter().filter(|d| !gone.contains_key(&d.by_id)));
        }
        Ok(gone)
    }
}

/// What a request says of approvals that count no more; nothing when all do.
pub(super) fn said_of(names: &BTreeMap<String, String>) -> String {
    if names.is_empty() {
        return String::new();
    }
    let names: Vec<&str> = names.values().map(String::as_str).collect();
    format!("no longer counted are approvals of {}, who may not decide any more", names.join(", "))
}
